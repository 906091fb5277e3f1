"""How long graphs of many nodes take to compile.

    python3 bench/large_graphs.py [--bin build/release/bin] [--rounds 3]

Transformers of 12 to 192 layers, as exporters write them (layer norm, GELU and attention spelled out), and random graphs in
which every node reads any two values before it. Every figure is the median of the rounds, the whole of hypatiac with
--dry-run: reading, rewriting under the default limits, lowering. `us / node` that stays the same is time linear in the nodes.
"""
import argparse
import os
import statistics
import subprocess
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
HEADS, SIZE = 4, 8
WIDTH = HEADS * SIZE


class Maker:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.constants, self.count = [], [], 0

    def const(self, value):
        self.constants.append(numpy_helper.from_array(np.asarray(value), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def weight(self, *shape):
        return self.const((self.rng.standard_normal(shape) * 0.1).astype(np.float32))

    def node(self, op, *inputs, **attrs):
        self.count += 1
        self.nodes.append(helper.make_node(op, list(inputs), [f"v{self.count}"], name=f"{op}_{self.count}", **attrs))
        return f"v{self.count}"

    def save(self, path, shape, result):
        graph = helper.make_graph(self.nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                                  [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)], self.constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
        return len(self.nodes)


def norm(m, x):
    centred = m.node("Sub", x, m.node("ReduceMean", x, axes=[-1]))
    variance = m.node("ReduceMean", m.node("Pow", centred, m.const(np.float32(2))), axes=[-1])
    root = m.node("Sqrt", m.node("Add", variance, m.const(np.float32(1e-5))))
    return m.node("Add", m.node("Mul", m.node("Div", centred, root), m.weight(WIDTH)), m.weight(WIDTH))


def linear(m, x, rows, columns):
    return m.node("Add", m.node("MatMul", x, m.weight(rows, columns)), m.weight(columns))


def heads(m, x, perm):
    x = m.node("Reshape", x, m.const(np.array([0, 0, HEADS, SIZE])))
    return m.node("Transpose", x, perm=perm)


def transformer(path, layers):
    m, x = Maker(layers), "x"
    for _ in range(layers):
        y = norm(m, x)
        q = heads(m, linear(m, y, WIDTH, WIDTH), [0, 2, 1, 3])
        k = heads(m, linear(m, y, WIDTH, WIDTH), [0, 2, 3, 1])
        v = heads(m, linear(m, y, WIDTH, WIDTH), [0, 2, 1, 3])
        scores = m.node("Div", m.node("MatMul", q, k), m.const(np.float32(SIZE**0.5)))
        y = m.node("Transpose", m.node("MatMul", m.node("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        y = linear(m, m.node("Reshape", y, m.const(np.array([0, 0, WIDTH]))), WIDTH, WIDTH)
        x = m.node("Add", x, y)
        y = linear(m, norm(m, x), WIDTH, 4 * WIDTH)
        gate = m.node("Add", m.node("Erf", m.node("Div", y, m.const(np.float32(2**0.5)))), m.const(np.float32(1)))
        y = m.node("Mul", m.node("Mul", y, gate), m.const(np.float32(0.5)))
        x = m.node("Add", x, linear(m, y, 4 * WIDTH, WIDTH))
    return m.save(path, ["batch", "length", WIDTH], x)


def tangle(path, nodes):
    m, values = Maker(nodes), ["x"]
    while len(m.nodes) < nodes:
        a, b = (values[m.rng.integers(max(0, len(values) - 50), len(values))] for _ in range(2))
        kind = m.rng.integers(6)
        if kind == 0:
            values.append(linear(m, a, WIDTH, WIDTH))
        elif kind == 1:
            values.append(m.node("Relu", a))
        elif kind == 2:
            values.append(m.node("Tanh", a))
        elif kind == 3:
            values.append(m.node("Mul", m.node("Sigmoid", a), a))
        else:
            values.append(m.node("Add" if kind == 4 else "Mul", a, b))
    total = values[-1]
    for v in values[-50:-1]:
        total = m.node("Add", total, v)
    return m.save(path, ["batch", WIDTH], total)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default=os.path.join(HERE, "../build/release/bin"))
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    tool = os.path.join(args.bin, "hypatiac")
    print(f"{'graph':28s} {'nodes':>7s} {'seconds':>8s} {'us / node':>9s}")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.onnx")
        jobs = [(f"transformer, {n} layers", transformer, n) for n in (12, 24, 48, 96, 192)]
        jobs += [(f"random, {n} nodes", tangle, n) for n in (1250, 2500, 5000)]
        for name, make, size in jobs:
            nodes, times = make(path, size), []
            for _ in range(args.rounds):
                begin = time.perf_counter()
                subprocess.run([tool, path, "--dry-run", "-q"], check=True)
                times.append(time.perf_counter() - begin)
            seconds = statistics.median(times)
            print(f"{name:28s} {nodes:7d} {seconds:8.3f} {seconds / nodes * 1e6:9.1f}", flush=True)


if __name__ == "__main__":
    main()
