#!/usr/bin/env python3
"""What verification costs: seconds of hypatiac with --verify off, by default and with --verify strict, the least of some
rounds, on the digits, on models of the shapes of BERT-base, ResNet-50 and a 100 MB MLP with random weights, and on models of
one's own.

    verify_cost.py [--bin build/release/bin] [--models digits,mlp,resnet,bert,FILE.onnx] [--folder FOLDER] [--rounds 1]
"""
import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Graph:
    def __init__(self):
        self.nodes, self.weights, self.random, self.count = [], [], np.random.default_rng(0), 0

    def weight(self, *dims, value=None):
        name = f"w{len(self.weights)}"
        if value is None:
            terms = np.prod(dims[1:]) if len(dims) > 2 else dims[0]
            value = self.random.standard_normal(dims, np.float32) / np.float32(np.sqrt(terms))
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def op(self, op, *inputs, **attributes):
        self.count += 1
        self.nodes.append(helper.make_node(op, inputs, [f"v{self.count}"], name=f"{op}_{self.count}", **attributes))
        return f"v{self.count}"

    def save(self, path, inputs, output):
        self.nodes[-1].output[0] = "y"
        infos = [helper.make_tensor_value_info(n, t, d) for n, (t, d) in inputs.items()]
        graph = helper.make_graph(self.nodes, "g", infos, [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)],
                                  self.weights)
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


def mlp(path):
    g, x = Graph(), "x"
    for i in range(6):
        x = g.op("Add", g.op("MatMul", x, g.weight(2048, 2048)), g.weight(2048, value=np.zeros(2048, np.float32)))
        x = g.op("Relu", x) if i < 5 else x
    g.save(path, {"x": (TensorProto.FLOAT, ["batch", 2048])}, ["batch", 2048])


def resnet(path):
    g = Graph()

    def conv(x, m, c, k, stride=1, relu=True):
        x = g.op("Conv", x, g.weight(m, c, k, k), kernel_shape=[k, k], strides=[stride] * 2, pads=[k // 2] * 4)
        one, zero = np.ones(m, np.float32), np.zeros(m, np.float32)
        x = g.op("BatchNormalization", x, *(g.weight(m, value=v) for v in (one, zero + 0.1, zero + 0.05, one)))
        return g.op("Relu", x) if relu else x

    x = g.op("MaxPool", conv("x", 64, 3, 7, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    c = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for b in range(blocks):
            s = stride if b == 0 else 1
            short = conv(x, 4 * width, c, 1, s, False) if b == 0 else x
            h = conv(conv(conv(x, width, c, 1), width, width, 3, s), 4 * width, width, 1, 1, False)
            x, c = g.op("Relu", g.op("Add", h, short)), 4 * width
    x = g.op("Flatten", g.op("GlobalAveragePool", x))
    g.op("Gemm", x, g.weight(2048, 1000), g.weight(1000, value=np.zeros(1000, np.float32)))
    g.save(path, {"x": (TensorProto.FLOAT, ["batch", 3, 224, 224])}, ["batch", 1000])


def bert(path, width=768, layers=12, heads=12, words=30522):
    g = Graph()

    def norm(x):
        return g.op("LayerNormalization", x, g.weight(width, value=np.ones(width, np.float32)),
                    g.weight(width, value=np.zeros(width, np.float32)), axis=-1)

    def linear(x, n, m):
        return g.op("Add", g.op("MatMul", x, g.weight(n, m)), g.weight(m, value=np.zeros(m, np.float32)))

    def split(x, perm):
        shape = g.weight(value=np.array([0, 0, heads, width // heads]))
        return g.op("Transpose", g.op("Reshape", x, shape), perm=perm)

    x = norm(g.op("Gather", g.weight(words, width), "ids"))
    for _ in range(layers):
        q, k, v = (split(linear(x, width, width), p) for p in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
        scores = g.op("Div", g.op("MatMul", q, k), g.weight(value=np.float32(8)))
        h = g.op("Transpose", g.op("MatMul", g.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        h = g.op("Reshape", h, g.weight(value=np.array([0, 0, width])))
        x = norm(g.op("Add", linear(h, width, width), x))
        h = linear(x, width, 4 * width)
        erf = g.op("Add", g.op("Erf", g.op("Div", h, g.weight(value=np.float32(2**0.5)))), g.weight(value=np.float32(1)))
        h = g.op("Mul", g.op("Mul", h, erf), g.weight(value=np.float32(0.5)))
        x = norm(g.op("Add", linear(h, 4 * width, width), x))
    g.op("Identity", x)
    g.save(path, {"ids": (TensorProto.INT64, ["batch", "sequence"])}, ["batch", "sequence", width])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/dev/bin"))
    parser.add_argument("--models", default="digits,mlp,resnet,bert")
    parser.add_argument("--folder")
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or temporary
        os.makedirs(folder, exist_ok=True)
        for name in args.models.split(","):
            path = os.path.join(ROOT, "examples/digits/digits.onnx") if name == "digits" else f"{folder}/{name}.onnx"
            path = name if name.endswith(".onnx") else path
            if not os.path.exists(path):
                globals()[name](path)
            for how in (["--verify", "off"], [], ["--verify", "strict"]):
                seconds, busy = [], []
                for _ in range(args.rounds):
                    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
                    done = subprocess.run([f"{args.bin}/hypatiac", path, "-o", f"{temporary}/plan.bin", *how],
                                          capture_output=True, text=True)
                    seconds.append(time.monotonic() - begin)
                    after = resource.getrusage(resource.RUSAGE_CHILDREN)
                    busy.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
                if done.returncode:
                    sys.exit(f"{name}: {done.stderr}")
                said = next((li for li in done.stdout.splitlines() if "verified" in li), done.stderr.strip())
                print(f"{name:8s} {' '.join(how) or 'default':14s} {min(seconds):8.2f} s, of processors {min(busy):8.2f} s  {said}",
                      flush=True)


if __name__ == "__main__":
    main()
