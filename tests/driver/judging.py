"""Compares plans with onnxruntime: what judge_models and judge_random share."""
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models"))
import hyp  # noqa: E402

# |a - b| <= tolerance * max(1, |b|). onnxruntime rounds sums in f16 at other places than a plan does.
TOLERANCE = {"float16": 2e-3}
FP32_TOLERANCE = 1e-5


class Judge:
    """Collects comparisons; finish() prints the worst and gives the exit code."""

    def __init__(self, oldest="1.19"):
        self.ort = hyp.need(f"onnxruntime>={oldest}")
        self.folder = tempfile.TemporaryDirectory()
        self.compared, self.failed, self.worst = 0, 0, (0.0, "nothing was compared")

    def session(self, model, level):
        options = self.ort.SessionOptions()
        options.intra_op_num_threads = 2
        options.log_severity_level = 3
        options.graph_optimization_level = level
        return self.ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def expected(self, name, model, cases):
        """onnxruntime's outputs. Its own rewriting breaks a few sound models, which it is then to run as they are. Releases
        that cannot run a model at all leave it to onnx."""
        level = self.ort.GraphOptimizationLevel
        for wish in (level.ORT_ENABLE_ALL, level.ORT_DISABLE_ALL):
            try:
                session = self.session(model, wish)
                return [session.run(None, feeds) for feeds in cases]
            except Exception as error:  # its exceptions share no base class
                print(f"{name}: onnxruntime breaks it ({wish.name}): {error}")
        return [hyp.by_onnx(model, feeds) for feeds in cases]

    def fail(self, name, what):
        self.failed += 1
        print(f"FAILED {name}: {what}")

    def compare(self, name, actual, wanted):
        for i, (a, w) in enumerate(zip(actual, wanted)):
            self.compared += 1
            error = hyp.difference(a, w)
            tolerance = TOLERANCE.get(w.dtype.name, FP32_TOLERANCE)
            if error > self.worst[0] and tolerance == FP32_TOLERANCE:
                self.worst = (error, f"{name} output {i}")
            if not error <= tolerance:
                self.fail(name, f"output {i}: difference {error:.3g}, type {a.dtype}{list(a.shape)}, "
                                f"wanted {w.dtype}{list(w.shape)}")

    def judge(self, name, model, cases, variants, wanted=None):
        """variants: (device, no_rewrite) pairs to compile and run on every case. wanted: the outputs of each case where
        onnxruntime cannot give them."""
        path, plan = os.path.join(self.folder.name, "m.onnx"), os.path.join(self.folder.name, "m.bin")
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
        wanted = wanted or self.expected(name, model, cases)
        compiled = None
        for device, no_rewrite in sorted(variants, key=lambda v: v[1]):
            kind = f"{name} ({device}, {'as imported' if no_rewrite else 'optimized'})"
            wish = ("cuda" if device == "cuda" else "cpu", no_rewrite)
            try:
                if compiled != wish:
                    hyp.compile_model(path, plan, target=wish[0], no_rewrite=no_rewrite)
                    compiled = wish
                with hyp.Engine(plan, device) as engine:
                    for feeds, outputs in zip(cases, wanted):
                        self.compare(kind, engine.run(feeds), outputs)
            except hyp.Error as error:
                self.fail(kind, error)

    def refuse(self, name, model, wanted, statuses=("unsupported", "limit", "malformed")):
        """The compiler has to refuse it, by a message in which that is wanted."""
        path = os.path.join(self.folder.name, "refused.onnx")
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
        began = time.monotonic()
        try:
            hyp.compile_model(path, None)
            self.fail(name, "was not refused")
        except hyp.Error as error:
            print(f"{name}: {error} ({time.monotonic() - began:.2f} s)")
            if wanted not in str(error) or error.status not in statuses:
                self.fail(name, f"is refused with {error}")

    def finish(self, models):
        print(f"{models} models, {self.compared} outputs compared, {self.failed} failures; "
              f"largest difference {self.worst[0]:.3g} in {self.worst[1]}")
        self.folder.cleanup()
        return 1 if self.failed else 0
