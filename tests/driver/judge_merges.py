"""Random graphs of what can be merged, against onnxruntime: layers, products and convolutions of one input with any mix of
biases, activations, sizes, strides and shared or given weights, and sums of products of several inputs; their results are
read, cut, or outputs. Costs of both kinds of device choose, as each merges other things.

`judge_merges.py --count 200 --seed 1000` draws that many graphs; a failure names its seed."""
import argparse
import json
import os
import sys
import tempfile

import judging
from make_models import Graph

hyp, np = judging.hyp, judging.hyp.need("numpy")
ACTIVATIONS = ("Relu", "Tanh", "Sigmoid", "LeakyRelu", "Elu", None, None)
SIZES = {"batch": 3, "length": 2}


class Drawing(Graph):
    def __init__(self, seed):
        super().__init__(opset=(13, 14, 17, 18, 20)[seed % 5], seed=seed)
        self.rng, self.shapes = np.random.default_rng(seed), {}

    def pick(self, *items):
        return items[self.rng.integers(len(items))]

    def given(self, *shape):
        name = self.input(f"x{len(self.shapes)}", *shape)
        self.shapes[name] = [SIZES.get(d, d) for d in shape]
        return name

    def numbers(self, *shape):
        return self.const(self.rng.standard_normal(shape) * 0.3)

    def show(self, value):
        if value not in [name for name, _ in self.outputs]:
            self.output(value)

    def activation(self, value):
        kind = self.pick(*ACTIVATIONS)
        return self.op(kind, value, **({"alpha": 0.3} if kind in ("LeakyRelu", "Elu") else {})) if kind else value

    def read(self, values):
        """values: (name, what makes two of them fit). Some are read by what needs all, some by what takes a part."""
        for _ in range(self.rng.integers(1, len(values) + 2)):
            value, size = self.pick(*values)
            other = self.pick(*(name for name, has in values if has == size))
            kind = self.pick("Add", "Mul", "Max", "Concat", "Slice", "Transpose")
            if kind == "Slice":
                made = self.op(kind, value, self.ints(0), self.ints(max(1, size[0] // 2)), self.ints(size[1]))
            else:
                made = self.op(kind, value) if kind == "Transpose" else self.op(kind, value, other, **({"axis": size[1]} if kind == "Concat" else {}))
            self.show(made)

    def layers(self):
        lead = self.pick((2,), (1,), (3, 2), (0,), ("batch",), ("batch", "length"))
        k, weights, values = self.pick(1, 3, 8, 17), {}, []
        x = self.given(*lead, k)
        for _ in range(self.rng.integers(2, 10)):
            n = self.pick(1, 3, 4, 4, 8)
            w = weights.get(n) if self.rng.integers(3) == 0 else None
            w = w or (self.given(k, n) if self.rng.integers(9) == 0 else self.numbers(k, n))
            weights[n] = w
            if len(lead) == 1 and self.rng.integers(2):
                y = self.op("Gemm", x, w, *([self.numbers(n)] if self.rng.integers(2) else []), alpha=self.pick(1.0, 0.5))
            else:
                y = self.op("MatMul", x, w)
                y = self.op("Add", y, self.numbers(*self.pick((n,), (1,), ()))) if self.rng.integers(2) else y
            values.append((self.activation(y), (n, len(lead))))
            if self.rng.integers(4) == 0:
                self.show(values[-1][0])
        self.read(values)

    def convolutions(self):
        c, height, width, values = self.pick(1, 3, 8), self.pick(3, 8), self.pick(5, 8), []
        x = self.given(self.pick(1, 2, "batch"), c, height, width)
        for _ in range(self.rng.integers(2, 8)):
            kernel, m, stride = self.pick((1, 1), (3, 3), (1, 3), (5, 5)), self.pick(2, 4, 4, 8), self.pick(1, 1, 2)
            group = c if self.rng.integers(6) == 0 else 1
            m = c * m if group > 1 else m
            y = self.op("Conv", x, self.numbers(m, c // group, *kernel), *([self.numbers(m)] if self.rng.integers(2) else []),
                        kernel_shape=list(kernel), pads=[kernel[0] // 2, kernel[1] // 2] * 2, strides=[stride, stride], group=group)
            if self.rng.integers(4) == 0:
                y = self.op("Mul", y, self.numbers(1, m, 1, 1))
            values.append((self.activation(y), (m, 1, stride)))
            if self.rng.integers(4) == 0:
                self.show(values[-1][0])
        self.read(values)

    def sums(self):
        rows, n = self.pick(1, 1, 2, 5), self.pick(1, 4, 12)
        inputs = [(self.given(rows, k), k) for k in (self.pick(1, 2, 4, 8) for _ in range(self.rng.integers(2, 8)))]
        for _ in range(self.rng.integers(1, 4)):
            total = None
            for x, k in inputs:
                term = self.op("MatMul", x, self.numbers(k, n))
                term = self.op("Add", term, self.numbers(n)) if self.rng.integers(5) == 0 else term
                total = self.op(self.pick("Add", "Add", "Add", "Sub"), total, term) if total else term
            self.show(self.activation(total))
            inputs.append((self.outputs[-1][0], n))  # as a recurrent cell does

    def wide(self, convolve):
        """More parts of one input than are written out by hand anywhere, side by side."""
        x, values = self.given(1, 3, 6, 6) if convolve else self.given(2, 8), []
        for _ in range(100):
            if convolve:
                values.append(self.op("Conv", x, self.numbers(2, 3, 3, 3), self.numbers(2), pads=[1] * 4))
            else:
                values.append(self.op("Gemm", x, self.numbers(8, 4), self.numbers(4)))
        self.show(self.op("Concat", *values, axis=1))


def judge_plans(judge, folder, name, drawing):
    """Compares the plans of a drawing; returns the steps of that for a GPU."""
    model, plan = drawing.proto(), os.path.join(folder, "m.bin")
    feeds = {name: drawing.rng.standard_normal(shape).astype(np.float32) for name, shape in drawing.shapes.items()}
    (wanted,) = judge.expected(name, model, [feeds])
    path = os.path.join(folder, "m.onnx")
    with open(path, "wb") as file:
        file.write(model.SerializeToString())
    for target in ("cpu", "cuda"):
        hyp.compile_model(path, plan, target=target)
        with hyp.Engine(plan, "cpu") as engine:
            judge.compare(f"{name} ({target})", engine.run(feeds), wanted)
    return json.loads(hyp.tool("hypatia", "inspect", plan, "--json").stdout)["steps"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    judge, merged = judging.Judge(), 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(args.seed, args.seed + args.count):
            drawing = Drawing(seed)
            (drawing.layers, drawing.convolutions, drawing.sums)[seed % 3]()
            steps = judge_plans(judge, folder, f"seed {seed}", drawing)
            merged += any(rule.startswith(("merge-", "add-product")) for step in steps for rule in step["rules"])
        for convolve in (False, True):
            drawing = Drawing(args.seed)
            drawing.wide(convolve)
            name = f"100 {'convolutions' if convolve else 'layers'} of one input"
            steps = judge_plans(judge, folder, name, drawing)
            if len(steps) != 1:
                judge.fail(name, f"they are {len(steps)} steps")
    print(f"in {merged} plans for a GPU something is merged")
    if merged < args.count / 3:
        judge.fail("all", "too little is merged to be judged")
    return judge.finish(args.count + 2)


if __name__ == "__main__":
    sys.exit(main())
