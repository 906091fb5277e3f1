"""Random graphs over the supported operators, optimized and as imported, judged by numpy (tests/support/exact.py: element by
element, by running error analysis, bits where IEEE arithmetic determines them) and compared with onnxruntime.

Values are ties, integers stored as floats, timestamps, powers of two, subnormals, the largest, infinities and NaN besides
ordinary ones; comparisons, floors, casts, quantization and integers read them; identities are written out (x + 0, x * -1 * -1,
zero biases).

`judge_random.py --count 200 --seed 0` draws that many graphs; a failure names its seed, and `--only SEED` repeats it
and keeps the model. `--type f16`, `bf16` or `f64` draws graphs of that type. Overnight: `--count 10000`."""
import argparse
import collections
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models"))
import hyp  # noqa: E402

np = hyp.need("numpy", "onnx", "ml_dtypes")[0]
import exact  # noqa: E402
import onnx_exact  # noqa: E402
from make_models import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, Graph  # noqa: E402

VARIANTS = [("cpu", False), ("reference", False), ("cpu", True)]
SIZES = [1, 2, 3, 4, 6, 8]
TYPES = {"f32": F32, "f16": F16, "bf16": BF16, "f64": F64}
MOODS = ["ordinary"] * 4 + ["ties", "ties", "integers", "stamps", "room", "powers", "special"]


def values(rng, mood, t, shape):
    """As tests/support/values.c draws them."""
    room = {"f16": 10, "f64": 300}.get(t, 30)
    sign = rng.choice([-1.0, 1.0], shape)
    if mood == "ties":
        return sign * rng.integers(0, 33, shape) * 2.0 ** -rng.integers(0, 5, shape)
    if mood == "integers":
        return sign * rng.integers(0, 257 if rng.integers(2) or t == "f16" else 65536, shape)
    if mood == "stamps":
        return (1e9 if t in ("f32", "f64") else 1000.0) * (1 + 0.01 * rng.standard_normal(shape))
    if mood == "room":
        return sign * rng.uniform(1, 2, shape) * 2.0 ** rng.integers(-room, room, shape)
    if mood == "powers":
        low, high = {"f16": (-24, 15), "f64": (-1074, 1023), "bf16": (-133, 127)}.get(t, (-149, 127))
        return sign * 2.0 ** rng.integers(low, high, shape).astype(np.float64)
    ordinary = rng.standard_normal(shape) * 0.8
    if mood == "special":
        most = float(exact.LARGEST[t])
        odd = rng.choice([0.0, -0.0, 1.0, most, -most, np.inf, -np.inf, np.nan, 2.0 ** -14, 1e-40], shape)
        return np.where(rng.integers(0, 4, shape) == 0, odd, ordinary)
    return ordinary


class Drawing:
    """A graph that grows; `values` are (name, shape, type), where a shape holds ints and the symbol "batch", and a type is
    "F" (the graph's own), "i64", "i32" or "bool"."""

    def __init__(self, seed, t):
        self.rng = np.random.default_rng(seed)
        self.t, self.g = t, Graph(opset=19, seed=seed)
        self.g.dtype = TYPES[t]
        self.values, self.feeds = [], {}
        for i in range(self.rng.integers(1, 3)):
            self.input(f"x{i}", "F")
        if self.rng.integers(3) == 0:
            self.input("n", self.pick(["i64", "i32"]))

    def input(self, name, kind):
        shape = ["batch"] * bool(self.rng.integers(2)) + [self.pick(SIZES) for _ in range(self.rng.integers(1, 4))]
        self.g.input(name, *shape, dtype={"F": TYPES[self.t], "i64": I64, "i32": I32}[kind])
        mood = self.pick(MOODS)
        self.feeds[name] = (shape, kind, mood)
        self.values.append((name, shape, kind))

    def cases(self, seed):
        for batch in (3, 1):
            rng, out = np.random.default_rng(seed + batch), {}
            for name, (shape, kind, mood) in self.feeds.items():
                shape = [batch if d == "batch" else d for d in shape]
                if kind == "F":
                    out[name] = np.asarray(values(rng, mood, self.t, shape)).astype(exact.FLOATS[self.t])
                else:
                    out[name] = rng.integers(-100, 100, shape).astype(exact.TYPES[kind])
            yield out

    def pick(self, items):
        return items[self.rng.integers(len(items))]

    def const(self, array):
        array = np.asarray(array).astype(exact.FLOATS[self.t])
        if self.t == "bf16":  # rounded, where Model.const cuts off
            array = array.astype(np.float32)
        return self.g.const(array)

    def scalar(self, value):
        return self.const(np.float64(value))

    def constant(self, *shape):
        # Zeros and ones are drawn often, because rules look for them.
        kind = self.rng.integers(8)
        if kind == 0:
            return self.const(np.full(shape, self.rng.integers(2)))
        if kind == 1:
            return self.const(values(self.rng, self.pick(MOODS[4:]), self.t, shape))
        return self.const(self.rng.standard_normal(shape) * 0.5)

    # Each step takes a value and gives (name, shape, type).

    def unary(self, x, shape):
        kind = self.pick(["Relu", "Relu", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "Identity", "Erf", "Softmax", "Clip", "Abs",
                          "Neg"])
        if kind == "Clip":
            return self.g.op(kind, x, self.scalar(self.pick([-1, 0])), self.scalar(self.pick([2, 6]))), shape, "F"
        attrs = {"axis": -1} if kind == "Softmax" else {"alpha": 0.1} if kind == "LeakyRelu" else {}
        return self.g.op(kind, x, **attrs), shape, "F"

    def binary(self, x, shape):
        kind = self.pick(["Add", "Sub", "Mul", "Div", "Div", "Min", "Max"])
        fitting = [v for v, s, t in self.values if s == shape and t == "F"]
        if fitting and self.rng.integers(2) and kind != "Div":
            return self.g.op(kind, x, self.pick(fitting)), shape, "F"
        last = shape[-1] if isinstance(shape[-1], int) else 1
        other = self.pick([(), (1,), (last,), (1,) * len(shape)])
        if kind == "Div":  # divisors that are not powers of two round
            other = self.const(self.rng.choice([0.1, 0.3, 3, 4, 7, 41, 49, 255, 1000], other))
        else:
            other = self.constant(*other)
        return (self.g.op(kind, other, x) if kind in ("Add", "Mul") and self.rng.integers(2)
                else self.g.op(kind, x, other)), shape, "F"

    def linear(self, x, shape):
        if not isinstance(shape[-1], int):
            return self.unary(x, shape)
        k, n = shape[-1], self.pick(SIZES)
        w = self.constant(k, n)
        b = self.const(np.zeros(n)) if self.rng.integers(4) == 0 else self.constant(n)
        out = shape[:-1] + [n]
        if len(shape) == 2 and self.rng.integers(2):
            if self.rng.integers(2):
                return self.g.op("Gemm", x, w, *([b] if self.rng.integers(2) else [])), out, "F"
            return self.g.op("Gemm", x, self.constant(n, k), b, transB=1, alpha=self.pick([1.0, 0.5])), out, "F"
        y = self.g.op("MatMul", x, w)
        if self.rng.integers(3) == 0:
            return y, out, "F"
        return self.g.op("Add", *([y, b] if self.rng.integers(2) else [b, y])), out, "F"

    def chain(self, x, shape):
        """Layers with sums and no activation between them."""
        for _ in range(self.rng.integers(2, 4)):
            x, shape, _ = self.linear(x, shape)
            if isinstance(shape[-1], int) and self.rng.integers(2):
                x = self.g.op("Add", x, self.constant(shape[-1]))
        return x, shape, "F"

    def nothing(self, x, shape):
        """Identities, written out."""
        g = self.g
        kind = self.rng.integers(6)
        if kind == 0:
            return g.op("Add", x, self.const(np.zeros(self.pick([(), (1,)])))), shape, "F"
        if kind == 1:
            return g.op("Mul", g.op("Mul", x, self.scalar(-1)), self.scalar(-1)), shape, "F"
        if kind == 2:
            return g.op("Div", g.op("Div", x, self.scalar(-1)), self.scalar(-1)), shape, "F"
        if kind == 3:
            return g.op("Sub", x, self.scalar(0)), shape, "F"
        if kind == 4:
            return g.op("Mul", x, self.scalar(1)), shape, "F"
        return g.op("Neg", g.op("Neg", x)), shape, "F"

    def step(self, x, shape):
        """What jumps where its operand moves by a bit."""
        g = self.g
        kind = self.pick(["Floor", "Ceil", "Round", "Sign", "cast", "less", "where", "quantize", "quantize", "argmax", "bucket"])
        if kind in ("Floor", "Ceil", "Round", "Sign"):
            return g.op(kind, x), shape, "F"
        if kind == "bucket":  # seconds to days, pixels to cells
            return g.op("Floor", g.op("Div", x, self.scalar(self.pick([3, 7, 24, 41, 49, 3600])))), shape, "F"
        if kind == "cast":
            small = g.op("Clip", x, self.scalar(-1000), self.scalar(1000))
            return g.op("Cast", small, to=self.pick([I32, I64])), shape, None
        other = self.constant(*self.pick([(), (1,)]))
        if kind == "less":
            return g.op(self.pick(["Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"]), x, other), shape, "bool"
        if kind == "where":
            return g.op("Where", g.op("Less", x, other), *self.pick([(x, other), (other, x)])), shape, "F"
        if kind == "argmax" and isinstance(shape[-1], int):
            return g.op("ArgMax", x, axis=len(shape) - 1, keepdims=1), shape[:-1] + [1], "i64"
        if self.t in ("f64", "bf16"):  # neither has a QuantizeLinear everywhere
            return g.op("Round", g.op("Div", x, self.scalar(self.pick([0.1, 0.007, 0.25])))), shape, "F"
        t = self.pick([U8, I8])
        zero = g.const(np.uint8(128) if t == U8 else np.int8(self.pick([0, 3])), t)
        scale = self.scalar(self.pick([0.1, 0.007874, 0.25, 0.0235]))
        return g.op("DequantizeLinear", g.op("QuantizeLinear", x, scale, zero), scale, zero), shape, "F"

    def integer(self, x, shape, kind):
        g, code = self.g, {"i64": I64, "i32": I32}[kind]
        op = self.pick(["Add", "Sub", "Mul", "Div", "Mod", "Max", "Cast", "Less", "Cast"])
        if op == "Cast":
            return g.op("Cast", x, to=TYPES[self.t]), shape, "F"
        number = self.rng.integers(1, 9) if op in ("Div", "Mod") else self.rng.integers(-3, 4)
        other = g.const(number, code)
        return g.op(op, x, other), shape, "bool" if op == "Less" else kind

    def logical(self, x, shape):
        if self.rng.integers(3) == 0:
            return self.g.op("Not", x), shape, "bool"
        if self.rng.integers(2):
            return self.g.op("Cast", x, to=TYPES[self.t]), shape, "F"
        return self.g.op("Where", x, self.scalar(self.pick([0, 1.5])), self.scalar(-2)), shape, "F"

    def movement(self, x, shape):
        kind = self.pick(["transpose", "flatten", "unsqueeze", "slice", "concat", "reduce", "split"])
        rank, g = len(shape), self.g
        if kind == "transpose":
            perm = [int(i) for i in self.rng.permutation(rank)]
            return g.op("Transpose", x, perm=perm), [shape[i] for i in perm], "F"
        if kind == "flatten" and all(isinstance(d, int) for d in shape[1:]):
            return g.op("Flatten", x, axis=1), [shape[0], int(np.prod(shape[1:]))], "F"
        if kind == "unsqueeze" and rank < 5:
            return g.op("Unsqueeze", x, g.ints(0)), [1] + shape, "F"
        if kind == "concat" and isinstance(shape[-1], int) and shape[-1] < 20:
            return g.op("Concat", x, x, axis=-1), shape[:-1] + [2 * shape[-1]], "F"
        if kind == "reduce" and rank > 1:
            kind = self.pick(["ReduceMean", "ReduceSum", "ReduceMax"])
            return g.op(kind, x, g.ints(rank - 1), keepdims=1), shape[:-1] + [1], "F"
        if kind == "slice" and isinstance(shape[-1], int) and shape[-1] > 1:
            return (g.op("Slice", x, g.ints(1), g.ints(shape[-1]), g.ints(-1)), shape[:-1] + [shape[-1] - 1], "F")
        if kind == "split" and isinstance(shape[-1], int) and shape[-1] > 1:
            first = int(self.rng.integers(1, shape[-1]))
            parts = g.op("Split", x, g.ints(first, shape[-1] - first), axis=-1, n=2)
            self.values.append((parts[1], shape[:-1] + [shape[-1] - first], "F"))
            return parts[0], shape[:-1] + [first], "F"
        return self.unary(x, shape)

    def idiom(self, x, shape):
        """What exporters write out, for the rules that look for it."""
        kind = self.pick(["gelu", "silu", "hard-swish", "rms-norm", "residual", "shared", "scaler"])
        g = self.g
        if kind == "gelu":
            inner = g.op("Add", g.op("Erf", g.op("Div", x, self.scalar(2 ** 0.5))), self.scalar(1))
            return g.op("Mul", g.op("Mul", x, inner), self.scalar(0.5)), shape, "F"
        if kind == "silu":
            return g.op("Mul", x, g.op("Sigmoid", x)), shape, "F"
        if kind == "hard-swish":
            gate = g.op("Clip", g.op("Add", x, self.scalar(3)), self.scalar(0), self.scalar(6))
            return g.op("Div", g.op("Mul", x, gate), self.scalar(6)), shape, "F"
        if not isinstance(shape[-1], int):
            return self.unary(x, shape)
        k = shape[-1]
        if kind == "rms-norm":  # the large epsilon keeps a row of zeros from making rounding large
            square = g.op("ReduceMean", g.op("Mul", x, x), g.ints(len(shape) - 1), keepdims=1)
            root = g.op("Sqrt", g.op("Add", square, self.scalar(0.1)))
            return g.op("Mul", g.op("Div", x, root), self.constant(k)), shape, "F"
        if kind == "scaler":  # less the mean, over the deviation, before a layer
            mean = values(self.rng, self.pick(["stamps", "ordinary", "integers"]), self.t, (k,))
            y = g.op("Div", g.op("Sub", x, self.const(mean)), self.const(self.rng.uniform(0.5, 20, k)))
            return self.linear(y, shape)
        if kind == "residual":
            y = g.op("Add", g.op("Add", g.op("MatMul", x, self.constant(k, k)), self.constant(k)), x)
            return (g.op("Relu", y) if self.rng.integers(2) else y), shape, "F"
        widths = [self.pick(SIZES) for _ in range(3)]
        parts = [g.op("Add", g.op("MatMul", x, self.constant(k, n)), self.constant(n)) for n in widths]
        self.values += [(part, shape[:-1] + [n], "F") for part, n in zip(parts, widths)]
        return g.op("Concat", *parts, axis=-1), shape[:-1] + [sum(widths)], "F"

    def grow(self):
        # Mostly from the newest value, so that chains arise; sometimes from any, so that values are shared.
        x, shape, kind = self.values[-1] if self.rng.integers(4) else self.pick(self.values)
        if kind in ("i64", "i32"):
            made = self.integer(x, list(shape), kind)
        elif kind == "bool":
            made = self.logical(x, list(shape))
        else:
            step = self.pick([self.unary, self.unary, self.binary, self.binary, self.linear, self.linear, self.linear,
                              self.movement, self.idiom, self.nothing, self.step, self.step, self.chain])
            made = step(x, list(shape))
        name, out, kind = made
        if kind is None:  # of the type that the last node casts to
            kind = {I32: "i32", I64: "i64"}[self.g.nodes[-1].attribute[0].i]
        self.values.append((name, shape if out is None else out, kind))

    def finish(self):
        chosen = {self.values[-1][0]} | {self.pick(self.values)[0] for _ in range(self.rng.integers(0, 3))}
        kinds = {"F": TYPES[self.t], "i64": I64, "i32": I32, "bool": BOOL}
        for i, (value, _, kind) in enumerate([v for v in self.values if v[0] in chosen]):
            self.g.out(value, f"y{i}", kinds[kind])
        return self.g.model()


def draw(seed, t):
    drawing = Drawing(seed, t)
    for _ in range(drawing.rng.integers(3, 14)):
        drawing.grow()
    return drawing


def in_room(feeds, t):
    most = {"f16": np.inf, "f64": 2.0 ** 300}.get(t, 2.0 ** 30)
    wide = [np.abs(exact.wide(x)) for x in feeds.values() if x.dtype == exact.FLOATS[t]]
    return all(np.all((x == 0) | (x <= most) & (x >= 1 / most)) for x in wide)


class Judge:
    def __init__(self, t):
        self.t, self.ort = t, hyp.need("onnxruntime")
        self.folder = tempfile.TemporaryDirectory()
        self.counts, self.failed = collections.Counter(), 0

    def fail(self, name, what):
        self.failed += 1
        print(f"FAILED {name}: {what}", flush=True)

    def compare(self, name, run, outputs, rewritten, room):
        """The first output beyond what is promised, as text."""
        for i, actual in enumerate(outputs):
            want = run.outputs[i]
            self.counts["outputs compared"] += 1
            promised = room or not rewritten or want.d
            bad = onnx_exact.beyond(run, i, actual, rewritten) if promised else np.zeros(1, bool)
            if isinstance(bad, str):
                return f"output {i}: {bad}"
            if np.any(bad):
                at = tuple(int(k[0]) for k in np.nonzero(bad))
                more = f", exactly {want.v[at]:.9g} within {run.units * exact.UNIT[want.t] * want.s[at]:.3g}" if want.real else ""
                how = "determined" if want.d else "rounded"
                return f"output {i}{list(at)} is {actual[at]!s}, numpy says {want.x[at]!s} ({how}{more}); {np.sum(bad)} of {bad.size}"
        return None

    def theirs(self, model, cases, level):
        options = self.ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        options.graph_optimization_level = level
        session = self.ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return [session.run(None, feeds) for feeds in cases]

    def judge_theirs(self, name, model, cases, runs):
        """onnxruntime against the oracle: where it differs without its optimizations, too, the oracle is in doubt."""
        if self.t == "bf16":
            self.counts["onnxruntime has no bf16"] += 1
            return
        levels = self.ort.GraphOptimizationLevel
        # its optimizer ends the process on some graphs of f16 (transpositions before chains of layers)
        for level in (levels.ORT_ENABLE_ALL, levels.ORT_DISABLE_ALL)[self.t == "f16":]:
            try:
                outputs = self.theirs(model, cases, level)
            except Exception as error:  # its exceptions share no base class
                wrong = f"onnxruntime cannot run it: {str(error).splitlines()[0][:120]}"
                continue
            wrongs = [self.compare(name, run, out, True, in_room(feeds, self.t))
                      for run, out, feeds in zip(runs, outputs, cases)]
            wrong = next((w for w in wrongs if w), None)
            if not wrong:
                self.counts["agrees with onnxruntime" + (" without optimizations" if level == levels.ORT_DISABLE_ALL else "")] += 1
                return
        self.counts["onnxruntime differs from numpy"] += 1
        print(f"{name}: onnxruntime differs: {wrong}")

    def judge(self, name, model, cases):
        try:
            runs = [onnx_exact.Run(model, feeds) for feeds in cases]
        except exact.Unsupported as reason:
            self.counts[f"not judged: {reason}"] += 1
            return
        path, plan = os.path.join(self.folder.name, "m.onnx"), os.path.join(self.folder.name, "m.bin")
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
        compiled = None
        for device, no_rewrite in VARIANTS:
            kind = f"{name} ({device}, {'as imported' if no_rewrite else 'optimized'})"
            try:
                if compiled != no_rewrite:
                    hyp.compile_model(path, plan, no_rewrite=no_rewrite)
                    compiled = no_rewrite
                with hyp.Engine(plan, device) as engine:
                    for feeds, run in zip(cases, runs):
                        wrong = self.compare(kind, run, engine.run(feeds), not no_rewrite, in_room(feeds, self.t))
                        if wrong:
                            self.fail(kind, wrong)
            except hyp.Error as error:
                self.fail(kind, error)
        self.counts["graphs judged"] += 1
        self.judge_theirs(name, model, cases, runs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--type", choices=TYPES, default="f32")
    args = parser.parse_args()
    judge = Judge(args.type)
    seeds = [args.only] if args.only is not None else range(args.seed, args.seed + args.count)
    for seed in seeds:
        drawing = draw(seed, args.type)
        model = drawing.finish()
        judge.judge(f"seed {seed}", model, list(drawing.cases(seed)))
        if args.only is not None:
            with open(f"random-{seed}.onnx", "wb") as file:
                file.write(model.SerializeToString())
    for what, count in sorted(judge.counts.items()):
        print(f"{what}: {count}")
    print(f"{len(seeds)} graphs of {args.type}, {judge.failed} failures")
    judge.folder.cleanup()
    return 1 if judge.failed or not judge.counts["graphs judged"] else 0


if __name__ == "__main__":
    sys.exit(main())
