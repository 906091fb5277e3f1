"""Random graphs over the supported operators: optimized and as imported against onnxruntime.

`judge_random.py --count 200 --seed 0` draws that many graphs; a failure names its seed, and `--only SEED` repeats it
and keeps the model. Overnight: `--count 10000`."""
import argparse
import sys

import judging

np = judging.hyp.need("numpy", "onnx")[0]
from make_models import Graph, feeds_for, F32  # noqa: E402

VARIANTS = [("cpu", False), ("reference", False), ("cpu", True)]
SIZES = [1, 2, 3, 4, 6, 8]


class Drawing:
    """A graph that grows; `values` are (name, shape), where a shape holds ints and the symbol "batch"."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.g = Graph(opset=13, seed=seed)
        self.values = []
        for i in range(self.rng.integers(1, 3)):
            shape = ["batch"] * bool(self.rng.integers(2)) + [self.pick(SIZES) for _ in range(self.rng.integers(1, 4))]
            self.values.append((self.g.inp(f"x{i}", shape), shape))

    def pick(self, items):
        return items[self.rng.integers(len(items))]

    def constant(self, *shape):
        # Zeros and ones are drawn often, because rules look for them.
        kind = self.rng.integers(6)
        if kind == 0:
            return self.g.const(np.full(shape, self.rng.integers(2), np.float32))
        return self.g.const((self.rng.standard_normal(shape) * 0.5).astype(np.float32))

    def unary(self, x, shape):
        kind = self.pick(["Relu", "Relu", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "Identity", "Erf", "Softmax", "Clip"])
        if kind == "Clip":
            return self.g.op(kind, x, self.g.const(np.float32(self.pick([-1, 0]))), self.g.const(np.float32(2))), shape
        attrs = {"axis": -1} if kind == "Softmax" else {"alpha": 0.1} if kind == "LeakyRelu" else {}
        return self.g.op(kind, x, **attrs), shape

    def binary(self, x, shape):
        kind = self.pick(["Add", "Sub", "Mul", "Div"])
        fitting = [v for v, s in self.values if s == shape]
        if fitting and self.rng.integers(2) and kind != "Div":
            return self.g.op(kind, x, self.pick(fitting)), shape
        last = shape[-1] if isinstance(shape[-1], int) else 1
        other = self.constant(*self.pick([(), (1,), (last,), (1,) * len(shape)]))
        if kind == "Div":
            other = self.g.op("Add", self.g.op("Mul", other, other), self.g.const(np.float32(0.5)))
        return (self.g.op(kind, other, x) if kind in ("Add", "Mul") and self.rng.integers(2)
                else self.g.op(kind, x, other)), shape

    def linear(self, x, shape):
        if not isinstance(shape[-1], int):
            return self.unary(x, shape)
        k, n = shape[-1], self.pick(SIZES)
        w, b = self.constant(k, n), self.constant(n)
        out = shape[:-1] + [n]
        if len(shape) == 2 and self.rng.integers(2):
            if self.rng.integers(2):
                return self.g.op("Gemm", x, w, *([b] if self.rng.integers(2) else [])), out
            return self.g.op("Gemm", x, self.constant(n, k), b, transB=1, alpha=self.pick([1.0, 0.5])), out
        y = self.g.op("MatMul", x, w)
        if self.rng.integers(3) == 0:
            return y, out
        return self.g.op("Add", *([y, b] if self.rng.integers(2) else [b, y])), out

    def movement(self, x, shape):
        kind = self.pick(["transpose", "flatten", "unsqueeze", "slice", "concat", "reduce", "split"])
        rank = len(shape)
        if kind == "transpose":
            perm = [int(i) for i in self.rng.permutation(rank)]
            return self.g.op("Transpose", x, perm=perm), [shape[i] for i in perm]
        if kind == "flatten" and all(isinstance(d, int) for d in shape[1:]):
            return self.g.op("Flatten", x, axis=1), [shape[0], int(np.prod(shape[1:]))]
        if kind == "unsqueeze" and rank < 5:
            return self.g.op("Unsqueeze", x, self.g.ints(0)), [1] + shape
        if kind == "concat" and isinstance(shape[-1], int) and shape[-1] < 20:
            return self.g.op("Concat", x, x, axis=-1), shape[:-1] + [2 * shape[-1]]
        if kind == "reduce" and rank > 1:
            return self.g.op("ReduceMean", x, axes=[rank - 1], keepdims=1), shape[:-1] + [1]
        if kind == "slice" and isinstance(shape[-1], int) and shape[-1] > 1:
            return (self.g.op("Slice", x, self.g.ints(1), self.g.ints(shape[-1]), self.g.ints(-1)),
                    shape[:-1] + [shape[-1] - 1])
        if kind == "split" and isinstance(shape[-1], int) and shape[-1] > 1:
            first = int(self.rng.integers(1, shape[-1]))
            parts = self.g.op("Split", x, self.g.ints(first, shape[-1] - first), axis=-1, n=2)
            self.values.append((parts[1], shape[:-1] + [shape[-1] - first]))
            return parts[0], shape[:-1] + [first]
        return self.unary(x, shape)

    def scalar(self, value):
        return self.g.const(np.float32(value))

    def idiom(self, x, shape):
        """What exporters write out, for the rules that look for it."""
        kind = self.pick(["gelu", "silu", "hard-swish", "rms-norm", "residual", "shared"])
        g = self.g
        if kind == "gelu":
            inner = g.op("Add", g.op("Erf", g.op("Div", x, self.scalar(2 ** 0.5))), self.scalar(1))
            return g.op("Mul", g.op("Mul", x, inner), self.scalar(0.5)), shape
        if kind == "silu":
            return g.op("Mul", x, g.op("Sigmoid", x)), shape
        if kind == "hard-swish":
            gate = g.op("Clip", g.op("Add", x, self.scalar(3)), self.scalar(0), self.scalar(6))
            return g.op("Div", g.op("Mul", x, gate), self.scalar(6)), shape
        if not isinstance(shape[-1], int):
            return self.unary(x, shape)
        k = shape[-1]
        if kind == "rms-norm":  # the large epsilon keeps a row of zeros from making rounding large
            square = g.op("ReduceMean", g.op("Mul", x, x), axes=[len(shape) - 1], keepdims=1)
            root = g.op("Sqrt", g.op("Add", square, self.scalar(0.1)))
            return g.op("Mul", g.op("Div", x, root), self.constant(k)), shape
        if kind == "residual":
            y = g.op("Add", g.op("Add", g.op("MatMul", x, self.constant(k, k)), self.constant(k)), x)
            return (g.op("Relu", y) if self.rng.integers(2) else y), shape
        widths = [self.pick(SIZES) for _ in range(3)]
        parts = [g.op("Add", g.op("MatMul", x, self.constant(k, n)), self.constant(n)) for n in widths]
        self.values += [(part, shape[:-1] + [n]) for part, n in zip(parts, widths)]
        return g.op("Concat", *parts, axis=-1), shape[:-1] + [sum(widths)]

    def grow(self):
        # Mostly from the newest value, so that chains arise; sometimes from any, so that values are shared.
        x, shape = self.values[-1] if self.rng.integers(4) else self.pick(self.values)
        step = self.pick([self.unary, self.unary, self.binary, self.linear, self.linear, self.linear, self.movement,
                          self.idiom])
        self.values.append(step(x, list(shape)))

    def finish(self):
        chosen = {self.values[-1][0]} | {self.pick(self.values)[0] for _ in range(self.rng.integers(0, 3))}
        for i, (value, _) in enumerate([v for v in self.values if v[0] in chosen]):
            self.g.out(value, f"y{i}", F32)
        return self.g.model()


def draw(seed):
    drawing = Drawing(seed)
    for _ in range(drawing.rng.integers(3, 14)):
        drawing.grow()
    return drawing.finish()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    args = parser.parse_args()
    judge = judging.Judge()
    seeds = [args.only] if args.only is not None else range(args.seed, args.seed + args.count)
    for seed in seeds:
        model = draw(seed)
        feeds = [feeds_for(model, {"batch": batch}, seed + batch) for batch in (3, 1)]
        judge.judge(f"seed {seed}", model, feeds, VARIANTS)
        if args.only is not None:
            with open(f"random-{seed}.onnx", "wb") as file:
                file.write(model.SerializeToString())
    return judge.finish(len(seeds))


if __name__ == "__main__":
    sys.exit(main())
