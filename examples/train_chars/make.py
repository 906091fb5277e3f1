#!/usr/bin/env python3
"""Makes what a training of the small character transformer of examples/chars needs, in a folder: step.onnx, the transformer
for whole texts with random weights, and ids.npy and labels.npy with rows of a text that is made here, new-ids.npy and
new-labels.npy with rows of another.

    make.py FOLDER
    make.py FOLDER --finish TRAINED.onnx     writes FOLDER/chars.onnx: that of examples/chars, with these weights

Needs numpy and onnx."""
import os
import random
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
CHARS = os.path.join(HERE, "../chars/chars.onnx")
sys.path.insert(0, os.path.dirname(CHARS))
from text import ALPHABET, make_text  # noqa: E402

LAYERS, HEADS, WIDTH, LENGTH, ROWS = 2, 4, 48, 160, 2000

# What the exporter of chars.onnx has called the weights of products.
PRODUCTS = {"qkv": ("onnx::MatMul_364", "onnx::MatMul_375"), "out": ("onnx::MatMul_372", "onnx::MatMul_383"),
            "up": ("onnx::MatMul_373", "onnx::MatMul_384"), "down": ("onnx::MatMul_374", "onnx::MatMul_385")}
LAST = "onnx::MatMul_386"  # the words, transposed: here it is made of them


def write_rows(folder, prefix, seed, rows):
    """Pieces of the text, and the same a character later: bytes, which hypatia train makes the i64 that the model wants."""
    text = np.array([ALPHABET.index(c) for c in make_text(seed, 4000)], np.uint8)
    starts = np.random.default_rng(seed).integers(0, len(text) - LENGTH - 1, rows)
    np.save(os.path.join(folder, prefix + "ids.npy"), np.stack([text[s:s + LENGTH] for s in starts]))
    np.save(os.path.join(folder, prefix + "labels.npy"), np.stack([text[s + 1:s + 1 + LENGTH] for s in starts]))


class Builder:
    def __init__(self, weights):
        self.nodes, self.weights, self.count = [], weights, 0

    def node(self, op, *inputs, **attributes):
        self.count += 1
        self.nodes.append(helper.make_node(op, inputs, [f"v{self.count}"], **attributes))
        return f"v{self.count}"

    def constant(self, array):
        """No initializer, which would be a parameter."""
        return self.node("Constant", value=numpy_helper.from_array(np.asarray(array)))

    def linear(self, name, layer, x):
        return self.node("Add", self.node("MatMul", x, PRODUCTS[name][layer]), f"{name}.{layer}.bias")

    def norm(self, i, x):
        return self.node("LayerNormalization", x, f"norms.{i}.weight", f"norms.{i}.bias", axis=-1)

    def heads(self, x):
        split = self.node("Reshape", x, self.constant(np.array([0, 0, HEADS, WIDTH // HEADS])))
        return self.node("Transpose", split, perm=[0, 2, 1, 3])

    def gelu(self, x):
        cube = self.node("Mul", self.node("Mul", x, x), x)
        inner = self.node("Add", x, self.node("Mul", cube, self.constant(np.float32(0.044715))))
        curve = self.node("Tanh", self.node("Mul", inner, self.constant(np.float32((2 / np.pi) ** 0.5))))
        half = self.node("Mul", x, self.constant(np.float32(0.5)))
        return self.node("Mul", half, self.node("Add", curve, self.constant(np.float32(1))))


def make_model():
    draw, known = np.random.default_rng(5), onnx.load(CHARS).graph.initializer
    weights = {}
    for tensor in known:
        shape = tuple(tensor.dims)
        if tensor.name.startswith("norms") and tensor.name.endswith("weight"):
            weights[tensor.name] = np.ones(shape, np.float32)
        elif tensor.name.endswith("bias"):
            weights[tensor.name] = np.zeros(shape, np.float32)
        elif tensor.name != LAST:
            weights[tensor.name] = (0.08 * draw.standard_normal(shape)).astype(np.float32)
    b = Builder(weights)
    places = b.node("Gather", "places.weight", b.constant(np.arange(LENGTH)))
    x = b.node("Add", b.node("Gather", "words.weight", "ids"), places)
    later = b.constant(np.triu(np.full((LENGTH, LENGTH), -1e9, np.float32), 1))
    for i in range(LAYERS):
        q, k, v = (b.heads(part) for part in split(b, b.linear("qkv", i, b.norm(2 * i, x))))
        scores = b.node("MatMul", q, b.node("Transpose", k, perm=[0, 1, 3, 2]))
        scores = b.node("Mul", scores, b.constant(np.float32((WIDTH // HEADS) ** -0.5)))
        seen = b.node("MatMul", b.node("Softmax", b.node("Add", scores, later), axis=-1), v)
        joined = b.node("Reshape", b.node("Transpose", seen, perm=[0, 2, 1, 3]), b.constant(np.array([0, 0, WIDTH])))
        x = b.node("Add", x, b.linear("out", i, joined))
        x = b.node("Add", x, b.linear("down", i, b.gelu(b.linear("up", i, b.norm(2 * i + 1, x)))))
    words = b.node("Transpose", "words.weight", perm=[1, 0])
    logits = b.node("MatMul", b.norm(2 * LAYERS, x), words)
    b.nodes.append(helper.make_node("Transpose", [logits], ["logits"], perm=[0, 2, 1]))  # classes along axis 1
    graph = helper.make_graph(b.nodes, "chars", [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", LENGTH])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", len(ALPHABET), LENGTH])],
                              [numpy_helper.from_array(v, n) for n, v in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def split(b, x):
    b.count += 1
    names = [f"v{b.count}{part}" for part in "qkv"]
    b.nodes.append(helper.make_node("Split", [x, b.constant(np.array([WIDTH] * 3))], names, axis=-1))
    return names


def finish(folder, trained):
    """The transformer with a past, which examples/chars runs, with what was trained."""
    weights = {t.name: numpy_helper.to_array(t) for t in onnx.load(trained).graph.initializer}
    weights[LAST] = np.ascontiguousarray(weights["words.weight"].T)
    model = onnx.load(CHARS)
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(weights[tensor.name], tensor.name))
    onnx.save(model, os.path.join(folder, "chars.onnx"))


def main():
    folder = sys.argv[1]
    if sys.argv[2:3] == ["--finish"]:
        finish(folder, sys.argv[3])
        return
    os.makedirs(folder, exist_ok=True)
    onnx.save(make_model(), os.path.join(folder, "step.onnx"))
    write_rows(folder, "", 5, ROWS)
    write_rows(folder, "new-", 6, 200)


if __name__ == "__main__":
    main()
