"""The networks of bench/table.py as ONNX files, and models that grow along a line, for compile times.

    python3 bench/table_networks.py FOLDER [NAME ...]

The first seven are those that superoptimizers of tensor graphs are compared on (MLSys 2021), of the structure and the sizes used
there: one image or 64 rows, normalization folded into convolutions, NASRNN of five cells with weights of their own, the
attention of BERT without its softmax. Weights are random, the same in every process.
"""
import os
import random
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from network import Network

ONNX_TYPES = {np.float32: TensorProto.FLOAT, np.int64: TensorProto.INT64}


class Build(Network):
    """With several inputs and outputs of fixed sizes, and what these networks are made of."""

    def __init__(self, *shape):
        super().__init__(shape or (1, 1))
        self.inputs, self.outputs = [], []
        if shape:
            self.value = self.input("x", *shape)

    def input(self, name, *shape, kind=np.float32):
        self.inputs.append(helper.make_tensor_value_info(name, ONNX_TYPES[kind], shape))
        return name

    def weight(self, *shape):
        """Such that results stay about as large as what a layer reads, also where no relu follows."""
        scale = np.float32(1 / np.sqrt(max(1, np.prod(shape[1:]))))
        array = self.rng.standard_normal(shape, np.float32) * scale
        self.weights.append(numpy_helper.from_array(array, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def constant(self, values, kind):
        self.weights.append(numpy_helper.from_array(np.array(values, kind), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def output(self, *values):
        self.outputs += values

    def conv(self, out, kernel, stride=1, group=1, x=None, bias=True, pads=None, act=None):
        height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
        pads = [height // 2, width // 2] * 2 if pads is None else [pads] * 4
        x, channels = x or self.value, self.channels
        operands = [x, self.weight(out, channels // group, height, width)] + [self.weight(out)] * bias
        self.channels = out
        self.op("Conv", *operands, strides=[stride] * 2, pads=pads, group=group)
        return self.op(act, self.value) if act else self.value

    def pool(self, kind, kernel, stride, pad=0, x=None):
        more = {"count_include_pad": 0} if kind == "AveragePool" else {}
        return self.op(kind, x or self.value, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, **more)

    def dense(self, k, n, x=None, act=None):
        self.op("Gemm", x or self.value, self.weight(n, k), self.weight(n), transB=1)
        return self.op(act, self.value) if act else self.value

    def matmul(self, x, k, n):
        return self.op("MatMul", x, self.weight(k, n))

    def reshape(self, x, *shape):
        return self.op("Reshape", x, self.constant(shape, np.int64))

    def classify(self, classes):
        self.op("GlobalAveragePool", self.value)
        self.op("Flatten", self.value)
        return self.dense(self.channels, classes)

    def model(self):
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in self.outputs or [self.value]]
        graph = helper.make_graph(self.nodes, "g", self.inputs, outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def save(self, path):
        with open(path, "wb") as file:
            file.write(self.model().SerializeToString())


# ---- the seven ----------------------------------------------------------------------------------------------------

def nasrnn(cells=5, width=512):
    g = Build()
    state = g.weight(1, width)
    for i in range(cells):
        x = g.input(f"x{i}", 1, width)
        t = [g.op("Add", g.matmul(x, width, width), g.matmul(state, width, width)) for _ in range(8)]
        a = g.op("Add", g.op("Relu", t[0]), g.op("Sigmoid", t[3]))
        b = g.op("Add", g.op("Sigmoid", t[1]), g.op("Tanh", t[2]))
        c = g.op("Mul", g.op("Sigmoid", t[4]), g.op("Tanh", t[5]))
        d = g.op("Mul", g.op("Sigmoid", t[6]), g.op("Relu", t[7]))
        e = g.op("Add", g.op("Sigmoid", b), g.op("Tanh", c))
        f = g.op("Mul", g.op("Tanh", a), g.op("Tanh", d))
        state = g.op("Tanh", g.op("Mul", g.op("Tanh", e), g.op("Tanh", f)))
    return g


def bert(layers=8, rows=64, width=1024, heads=16):
    """As in the paper: each layer's attention is a result of its own, and the next layer reads a product of the input."""
    g = Build(rows, width)
    x = g.op("Relu", g.value)
    for _ in range(layers):
        parts = []
        for _ in range(3):
            y = g.reshape(g.matmul(x, width, width), rows, heads, width // heads)
            parts.append(g.op("Transpose", y, perm=[1, 0, 2]))
        y = g.op("MatMul", g.op("MatMul", parts[0], parts[1]), parts[2])
        g.output(g.reshape(g.op("Transpose", y, perm=[1, 0, 2]), rows, width))
        x = g.matmul(x, width, width)
    g.output(x)
    return g


def stem(bias=False):
    g = Build(1, 3, 224, 224)
    g.conv(64, 7, 2, bias=bias, act="Relu")
    g.pool("MaxPool", 3, 2, 1)
    return g


def resnext50():
    g = stem()
    for out, blocks in ((128, 3), (256, 4), (512, 6), (1024, 3)):
        for i in range(blocks):
            x, channels, stride = g.value, g.channels, 2 if i == 0 and out > 128 else 1
            g.conv(out, 1, bias=False, act="Relu")
            g.conv(out, 3, stride, 32, bias=False, act="Relu")
            y = g.conv(2 * out, 1, bias=False)
            if i == 0:
                g.channels = channels
                x = g.conv(2 * out, 1, stride, x=x, bias=False, act="Relu")
            g.op("Relu", g.op("Add", x, y))
    return g


class NasNet(Build):
    """The cells of NASNet-A, which read what the last two cells gave: (value, channels, size)."""

    def squeeze(self, value, channels, out):
        self.channels = channels
        return self.conv(out, 1, x=value, bias=False, act="Relu")

    def separable(self, value, channels, kernel, stride=1):
        self.channels = channels
        value = self.conv(channels, kernel, stride, channels, x=value, bias=False)
        return self.conv(channels, 1, x=value, bias=False)

    def both(self, previous, current, out):
        """Both in `out` channels and the size of the current one."""
        x = self.squeeze(current[0], current[1], out)
        if previous[2] == current[2]:
            return x, self.squeeze(previous[0], previous[1], out)
        self.channels = previous[1]
        return x, self.conv(out, 3, 2, x=previous[0], bias=False, act="Relu")

    def add(self, a, b):
        return self.op("Add", a, b)

    def average(self, value, stride=1):
        return self.pool("AveragePool", 3, stride, 1, value)

    def largest(self, value):
        return self.pool("MaxPool", 3, 2, 1, value)

    def normal(self, previous, current, out):
        x, p = self.both(previous, current, out)
        parts = [self.add(self.separable(x, out, 3), x), self.add(self.separable(p, out, 3), self.separable(x, out, 3)),
                 self.add(self.average(x), p), self.add(self.average(p), self.average(p)),
                 self.add(self.separable(p, out, 3), self.separable(p, out, 3))]
        return self.op("Concat", *parts, axis=1), 5 * out, current[2]

    def reduction(self, previous, current, out):
        x, p = self.both(previous, current, out)
        first = self.add(self.separable(p, out, 7, 2), self.separable(x, out, 5, 2))
        second = self.add(self.largest(x), self.separable(p, out, 7, 2))
        parts = [first, second, self.add(self.average(x, 2), self.separable(p, out, 5, 2)),
                 self.add(self.largest(x), self.separable(first, out, 3)), self.add(self.average(first), second)]
        return self.op("Concat", *parts, axis=1), 5 * out, current[2] // 2


def nasnet_a(stages=3, cells=5, width=128, size=224):
    g, out = NasNet(1, 3, size, size), width
    g.conv(width // 2, 7, 2, bias=False, act="Relu")
    given = (g.pool("MaxPool", 3, 2, 1), width // 2, size // 4)
    for _ in range(stages):
        previous, current = given, given
        for _ in range(cells):
            previous, current = current, g.normal(previous, current, out)
        out *= 2
        given = g.reduction(previous, current, out)
    return g


def inception_v3():
    g = Build(1, 3, 299, 299)

    def conv(x, out, kernel, stride=1, pads=None):
        """x and what comes of it: a value and its channels."""
        g.channels = x[1]
        return g.conv(out, kernel, stride, x=x[0], pads=pads, act="Relu"), out

    def chain(x, *convs):
        for c in convs:
            x = conv(x, *c)
        return x

    def pool(x, kind, kernel, stride, pad=0):
        return g.pool(kind, kernel, stride, pad, x[0]), x[1]

    def join(*parts):
        return g.op("Concat", *(p[0] for p in parts), axis=1), sum(p[1] for p in parts)

    x = chain((g.value, 3), (32, 3, 2, 0), (32, 3, 1, 0), (64, 3))
    x = pool(x, "MaxPool", 3, 2)
    x = chain(x, (80, 1), (192, 3, 1, 0))
    x = pool(x, "MaxPool", 3, 2)
    for features in (32, 64, 64):
        x = join(conv(x, 64, 1), chain(x, (48, 1), (64, 5)), chain(x, (64, 1), (96, 3), (96, 3)),
                 conv(pool(x, "AveragePool", 3, 1, 1), features, 1))
    x = join(conv(x, 384, 3, 2, 0), chain(x, (64, 1), (96, 3), (96, 3, 2, 0)), pool(x, "MaxPool", 3, 2))
    for c in (128, 160, 160, 192):
        x = join(conv(x, 192, 1), chain(x, (c, 1), (c, (1, 7)), (192, (7, 1))),
                 chain(x, (c, 1), (c, (7, 1)), (c, (1, 7)), (c, (7, 1)), (192, (1, 7))),
                 conv(pool(x, "AveragePool", 3, 1, 1), 192, 1))
    x = join(chain(x, (192, 1), (320, 3, 2, 0)), chain(x, (192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3, 2, 0)),
             pool(x, "MaxPool", 3, 2))
    for _ in range(2):
        a, b = conv(x, 384, 1), chain(x, (448, 1), (384, 3))
        x = join(conv(x, 320, 1), conv(a, 384, (1, 3)), conv(a, 384, (3, 1)), conv(b, 384, (1, 3)),
                 conv(b, 384, (3, 1)), conv(pool(x, "AveragePool", 3, 1, 1), 192, 1))
    g.channels = x[1]
    g.classify(1000)
    return g


def squeezenet():
    g = Build(1, 3, 224, 224)
    g.conv(64, 3, 2, pads=0, act="Relu")
    for i, (squeezed, out) in enumerate(((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))):
        if i in (0, 2, 4):
            g.pool("MaxPool", 3, 2)
        x = g.conv(squeezed, 1, act="Relu")
        a = g.conv(out, 1, act="Relu")
        g.channels = squeezed
        g.op("Concat", a, g.conv(out, 3, x=x, act="Relu"), axis=1)
        g.channels = 2 * out
    g.conv(1000, 1, act="Relu")
    g.op("Flatten", g.op("GlobalAveragePool", g.value))
    return g


def vgg19():
    g = Build(1, 3, 224, 224)
    for out, convs in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(convs):
            g.conv(out, 3, act="Relu")
        g.pool("MaxPool", 2, 2)
    g.op("Flatten", g.value)
    g.dense(25088, 4096, act="Relu")
    g.dense(4096, 4096, act="Relu")
    g.dense(4096, 1000)
    return g


# ---- others -------------------------------------------------------------------------------------------------------

def resnet50():
    g = stem(bias=True)
    for out, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(blocks):
            x, channels, stride = g.value, g.channels, 2 if i == 0 and out > 64 else 1
            g.conv(out, 1, act="Relu")
            g.conv(out, 3, stride, act="Relu")
            y = g.conv(4 * out, 1)
            if i == 0:
                g.channels = channels
                x = g.conv(4 * out, 1, stride, x=x)
            g.op("Relu", g.op("Add", y, x))
    g.classify(1000)
    return g


def mobilenet_v2():
    g = Build(1, 3, 224, 224)
    limits = g.constant(0, np.float32), g.constant(6, np.float32)

    def conv6(*args):
        return g.op("Clip", g.conv(*args), *limits)

    conv6(32, 3, 2)
    for wider, out, blocks, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                       (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(blocks):
            x, channels = g.value, g.channels
            if wider > 1:
                conv6(wider * channels, 1)
            conv6(wider * channels, 3, stride if i == 0 else 1, wider * channels)
            y = g.conv(out, 1)
            if i:
                g.op("Add", x, y)
    conv6(1280, 1)
    g.classify(1000)
    return g


def random_cells(cells=6, nodes=5, width=64, seed=7):
    """Cells as a random architecture search makes them: each node adds two of the values before it, each by an operation."""
    g, rng = NasNet(1, 3, 56, 56), random.Random(seed)
    ways = [lambda v: g.separable(v, width, 3), lambda v: g.separable(v, width, 5), g.average, lambda v: v,
            lambda v: g.squeeze(v, width, width), lambda v: g.pool("MaxPool", 3, 1, 1, v)]
    previous = current = g.conv(width, 3, act="Relu")
    for _ in range(cells):
        values, used = [current, previous], set()
        for _ in range(nodes):
            sides = []
            for _ in range(2):
                i = rng.randrange(len(values))
                used.add(i)
                sides.append(rng.choice(ways)(values[i]))
            values.append(g.add(*sides))
        loose = [v for i, v in enumerate(values) if i > 1 and i not in used]
        joined = g.op("Concat", *loose, axis=1) if len(loose) > 1 else loose[0]
        previous, current = current, g.squeeze(joined, width * len(loose), width)
    g.channels = width
    g.classify(10)
    return g


def lstm(steps=8, width=512):
    """Every gate of every step as two products and a bias, as exporters unroll it; the steps share their weights."""
    g = Build()
    gates = [(g.weight(width, width), g.weight(width, width), g.weight(width)) for _ in range(4)]
    h, c = g.input("h", 1, width), g.input("c", 1, width)
    for i in range(steps):
        x = g.input(f"x{i}", 1, width)
        t = [g.op("Add", g.op("Add", g.op("MatMul", x, w), g.op("MatMul", h, u)), b) for w, u, b in gates]
        keep, take, give = (g.op("Sigmoid", t[k]) for k in range(3))
        c = g.op("Add", g.op("Mul", keep, c), g.op("Mul", take, g.op("Tanh", t[3])))
        h = g.op("Mul", give, g.op("Tanh", c))
    g.output(h, c)
    return g


def mixer(layers=8, width=512, patch=16, tokens=256, channels=2048):
    """MLP-Mixer S/16."""
    g = Build(1, 3, 224, 224)
    count = (224 // patch) ** 2
    g.op("Conv", g.value, g.weight(width, 3, patch, patch), g.weight(width), strides=[patch] * 2)
    x = g.op("Transpose", g.reshape(g.value, 1, width, count), perm=[0, 2, 1])
    half, one, root = (g.constant(v, np.float32) for v in (0.5, 1, np.sqrt(2)))

    def norm(v):
        return g.op("LayerNormalization", v, g.weight(width), g.weight(width), axis=-1)

    def mlp(v, k, n):
        v = g.op("Add", g.matmul(v, k, n), g.weight(n))
        v = g.op("Mul", g.op("Mul", v, g.op("Add", g.op("Erf", g.op("Div", v, root)), one)), half)
        return g.op("Add", g.matmul(v, n, k), g.weight(k))

    for _ in range(layers):
        y = mlp(g.op("Transpose", norm(x), perm=[0, 2, 1]), count, tokens)
        x = g.op("Add", x, g.op("Transpose", y, perm=[0, 2, 1]))
        x = g.op("Add", x, mlp(norm(x), width, channels))
    g.op("ReduceMean", norm(x), axes=[1], keepdims=0)
    g.dense(width, 1000)
    return g


def wide_and_deep(fields=26, ids=1000, numbers=13, width=16):
    """Categorical fields in one table, as offsets into it; a linear part beside a network."""
    g = Build()
    dense, fields_in = g.input("numbers", 1, numbers), g.input("ids", 1, fields, kind=np.int64)
    at = g.op("Add", fields_in, g.constant([[i * ids for i in range(fields)]], np.int64))
    wide = g.reshape(g.op("Gather", g.weight(fields * ids, 1), at, axis=0), 1, fields)
    wide = g.op("ReduceSum", wide, g.constant([1], np.int64), keepdims=1)
    deep = g.reshape(g.op("Gather", g.weight(fields * ids, width), at, axis=0), 1, fields * width)
    g.op("Concat", deep, dense, axis=1)
    sizes = (fields * width + numbers, 1024, 512, 256)
    for k, n in zip(sizes, sizes[1:]):
        g.dense(k, n, act="Relu")
    g.op("Sigmoid", g.op("Add", g.op("Add", g.dense(256, 1), wide), g.dense(numbers, 1, dense)))
    return g


SEVEN = {"NasRNN": nasrnn, "BERT": bert, "ResNeXt-50": resnext50, "NasNet-A": nasnet_a, "Inception-v3": inception_v3,
         "SqueezeNet": squeezenet, "VGG-19": vgg19}
OTHERS = {"MobileNet-v2": mobilenet_v2, "ResNet-50": resnet50, "random cells": random_cells, "LSTM": lstm,
          "MLP-Mixer": mixer, "wide and deep": wide_and_deep}
NETWORKS = {**SEVEN, **OTHERS}


# ---- lines: models of n parts, for compile times ------------------------------------------------------------------

def multiply(g, values):
    """Of all, so that each is used by something that can read it where it lies in a merged result."""
    first, *rest = (g.op("Tanh", v) for v in values)
    for v in rest:
        first = g.op("Mul", first, v)
    return g


def linears(n, rows=1, width=256):
    g = Build(rows, width)
    return multiply(g, [g.dense(width, width, "x") for _ in range(n)])


def convolutions(n, size=14, width=16):
    g, values = Build(1, width, size, size), []
    for _ in range(n):
        g.channels = width
        values.append(g.conv(width, 3, x="x"))
    return multiply(g, values)


def chain_widths(n, seed=3):
    rng = random.Random(seed)
    return [rng.choice((8, 16, 24, 40, 64, 96, 160)) for _ in range(n + 1)]


def chain(n):
    """A product of n variables, written from left to right."""
    g, widths = Build(), chain_widths(n)
    x = g.input("m0", *widths[:2])
    for i in range(1, n):
        x = g.op("MatMul", x, g.input(f"m{i}", *widths[i:i + 2]))
    return g


def least_chain_flops(n):
    """By the dynamic program over all ways to set parentheses."""
    w, best = chain_widths(n), {}
    for length in range(1, n + 1):
        for i in range(n - length + 1):
            j = i + length
            best[i, j] = min((best[i, k] + best[k, j] + 2 * w[i] * w[k] * w[j] for k in range(i + 1, j)), default=0)
    return best[0, n]


def main():
    folder, names = sys.argv[1], sys.argv[2:] or list(NETWORKS)
    for name in names:
        NETWORKS[name]().save(os.path.join(folder, name.replace(" ", "-") + ".onnx"))


if __name__ == "__main__":
    main()
