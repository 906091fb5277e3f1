"""Models for training as ONNX, of any size, with random weights: a transformer such as GPT-2, and a network of convolutions. Names
of nodes are paths, as exporters give them: /h.0/mlp/MatMul_7. Needs numpy and onnx."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper, save


class Builder:
    def __init__(self, seed=0):
        self.random, self.nodes, self.stored = np.random.default_rng(seed), [], []

    def store(self, name, value):
        self.stored.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def weight(self, name, *shape, scale=0.02):
        return self.store(name, (self.random.standard_normal(shape) * scale).astype(np.float32))

    def op(self, path, kind, *inputs, outputs=1, **attributes):
        name = f"{kind}_{len(self.nodes)}"
        names = [f"{name}:{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=path + name, **attributes))
        return names[0] if outputs == 1 else names

    def save(self, path, name, inputs, output, shape):
        self.nodes.append(helper.make_node("Identity", [output], ["y"], name="y"))
        info = helper.make_tensor_value_info
        graph = helper.make_graph(self.nodes, name, [info(*i) for i in inputs], [info("y", TensorProto.FLOAT, shape)], self.stored)
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


def gpt(path, batch=4, length=32, width=64, heads=4, layers=3, words=200):
    """ids i64 [batch length] -> y [batch*length words]; "mask" is no parameter. The table of words is that of the logits."""
    b = Builder()
    b.weight("words", words, width)
    b.weight("places", length, width)
    b.store("mask", np.triu(np.full((length, length), -1e4, np.float32), 1))
    b.store("heads", np.array([batch, length, heads, width // heads]))
    b.store("rows", np.array([batch, length, width]))
    for name, value in (("scale", (width // heads) ** -0.5), ("half", 0.5), ("one", 1), ("c", 0.7978845608), ("d", 0.044715),
                        ("three", 3)):
        b.store(name, np.float32(value))

    def norm(at, x, name):
        return b.op(at, "LayerNormalization", x, b.store(name + ".weight", np.ones(width, np.float32)),
                    b.store(name + ".bias", np.zeros(width, np.float32)))

    def layer(at, x, name, k, n):
        return b.op(at, "Add", b.op(at, "MatMul", x, b.weight(name + ".weight", k, n)),
                    b.store(name + ".bias", np.zeros(n, np.float32)))

    def gelu(at, x):
        cube = b.op(at, "Mul", "d", b.op(at, "Pow", x, "three"))
        inner = b.op(at, "Tanh", b.op(at, "Mul", "c", b.op(at, "Add", x, cube)))
        return b.op(at, "Mul", b.op(at, "Mul", x, "half"), b.op(at, "Add", "one", inner))

    x = b.op("/", "Add", b.op("/", "Gather", "words", "ids"), "places")
    for i in range(layers):
        at, name = f"/h.{i}/", f"h.{i}."
        parts = b.op(at + "attn/", "Split", layer(at + "attn/", norm(at + "norm1/", x, name + "norm1"), name + "qkv", width, 3 * width),
                     outputs=3, axis=-1, num_outputs=3)
        q, k, v = (b.op(at + "attn/", "Transpose", b.op(at + "attn/", "Reshape", p, "heads"), perm=[0, 2, 1, 3]) for p in parts)
        scores = b.op(at + "attn/", "MatMul", q, b.op(at + "attn/", "Transpose", k, perm=[0, 1, 3, 2]))
        scores = b.op(at + "attn/", "Add", b.op(at + "attn/", "Mul", scores, "scale"), "mask")
        a = b.op(at + "attn/", "MatMul", b.op(at + "attn/", "Softmax", scores, axis=-1), v)
        a = b.op(at + "attn/", "Reshape", b.op(at + "attn/", "Transpose", a, perm=[0, 2, 1, 3]), "rows")
        x = b.op(at, "Add", x, layer(at + "attn/", a, name + "out", width, width))
        up = gelu(at + "mlp/", layer(at + "mlp/", norm(at + "norm2/", x, name + "norm2"), name + "up", width, 4 * width))
        x = b.op(at, "Add", x, layer(at + "mlp/", up, name + "down", 4 * width, width))
    logits = b.op("/", "MatMul", norm("/norm/", x, "norm"), b.op("/", "Transpose", "words", perm=[1, 0]))
    logits = b.op("/", "Reshape", logits, b.store("flat", np.array([-1, words])))
    b.save(path, "gpt", [("ids", TensorProto.INT64, [batch, length])], logits, [batch * length, words])


def convolutions(path, batch=4, size=16, channels=8, blocks=6, classes=10):
    """x [batch 3 size size] -> y [batch classes]; every other block is added to what came two before."""
    b, x, k, skip = Builder(), "x", 3, None
    for i in range(blocks):
        at = f"/block.{i}/"
        x = b.op(at, "Conv", x, b.weight(f"block.{i}.weight", channels, k, 3, 3, scale=0.1),
                 b.store(f"block.{i}.bias", np.zeros(channels, np.float32)), pads=[1] * 4)
        x, k = b.op(at, "Relu", x), channels
        if i % 2 == 0:
            x = b.op(at, "Add", x, skip) if skip else x
            skip = x
    x = b.op("/", "Flatten", b.op("/", "GlobalAveragePool", x))
    b.save(path, "convolutions", [("x", TensorProto.FLOAT, [batch, 3, size, size])],
           b.op("/", "MatMul", x, b.weight("end", channels, classes, scale=0.3)), [batch, classes])
