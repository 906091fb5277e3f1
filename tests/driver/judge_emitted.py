"""The optimized graph as ONNX (hypatiac --emit-onnx) against the model that it was made of, both in onnxruntime, for the
models that PyTorch exported and the examples: with operators of ONNX alone, and with those of com.microsoft.

Each passes onnx.checker, with its shapes; agrees with the original for three batch sizes and lengths; and is a model that
Hypatia compiles again to what the original gives. `judge_emitted.py [FOLDER]` takes other models."""
import glob
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hyp  # noqa: E402

np, onnx, ort = hyp.need("numpy", "onnx", "onnxruntime")
import judge_torch  # noqa: E402  its inputs, and what it allows

EXAMPLES = ["digits/digits.onnx", "cnn/cnn.onnx", "chars/chars.onnx", "train_digits/digits.onnx"]



def session_of(path):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def names(values):
    return [(v.name, [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]) for v in values]


def check(path, folder):
    """What is wrong with what is emitted of a model."""
    wrong, original = [], session_of(path)
    model = onnx.load(path, load_external_data=False)
    for domain in ["", "com.microsoft"]:
        emitted, plan = os.path.join(folder, "emitted.onnx"), os.path.join(folder, "emitted.bin")
        more = ["--emit-onnx-domain", domain] if domain else []
        hyp.tool("hypatiac", path, "--emit-onnx", emitted, "-q", *more)
        with open(emitted, "rb") as file:
            first = file.read()
        hyp.tool("hypatiac", path, "--emit-onnx", emitted, "-q", *more)
        with open(emitted, "rb") as file:
            if file.read() != first:
                wrong.append(f"{domain}: other bytes the second time")
        made = onnx.load(emitted)
        onnx.checker.check_model(made, full_check=not domain)
        constants = {i.name for i in model.graph.initializer}
        if names(made.graph.input) != names([i for i in model.graph.input if i.name not in constants]):
            wrong.append(f"{domain}: inputs {names(made.graph.input)}, not {names(model.graph.input)}")
        typed = {v.name for v in [*made.graph.value_info, *made.graph.output]}
        untyped = [o for n in made.graph.node for o in n.output if n.name and o not in typed]
        if untyped:
            wrong.append(f"{domain}: no types of {untyped[:3]}")
        session = session_of(emitted)
        hyp.compile_model(emitted, plan)
        rng = np.random.default_rng(7)
        with hyp.Engine(plan, "cpu") as engine:
            for batch, length in judge_torch.SIZES:
                feeds = judge_torch.feed(rng, original, 5, batch, length)
                want = original.run(None, feeds)
                outputs = [o.name for o in original.get_outputs()]
                units, _ = judge_torch.worst_of(session.run(outputs, feeds), want)
                if not units <= 1:
                    wrong.append(f"{domain}: batch {batch}: onnxruntime is off by {units:.3g} of the tolerance")
                units, _ = judge_torch.worst_of(engine.run(feeds), want)
                if not units <= 1:
                    wrong.append(f"{domain}: batch {batch}: compiled again it is off by {units:.3g} of the tolerance")
    return wrong


def main():
    paths = sorted(glob.glob(os.path.join(sys.argv[1] if len(sys.argv) > 1 else os.path.join(hyp.ROOT, "tests/models/torch"),
                                          "*.onnx")))
    if len(sys.argv) == 1:
        paths += [os.path.join(hyp.ROOT, "examples", e) for e in EXAMPLES]
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            wrong = check(path, folder)
            failures += bool(wrong)
            for text in wrong:
                print(f"FAILED {os.path.basename(path)}: {text}")
    print(f"{len(paths)} models emitted twice, {failures} wrong")
    return 1 if failures or len(paths) < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
