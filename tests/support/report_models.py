"""Models whose reports are looked at: of many kinds, and with hostile names."""
import os
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
# What would end a script or a string, start markup, hide, turn text around, or be too much.
HOSTILE = ["</script><script>console.error('ran')</script>", "<img src=x onerror=console.error(1)>", "a\"b'c\\d`${e}", "line\nbreak\ttab\x1b[31m",
           "\u202egnp.exe\u200b\u2028", "n" * 3000, "&lt;&amp;", "]]>--><!--", "日本語 имя 🙂", " ", "__proto__", "constructor"]


def tensor(name, *shape, seed=0):
    return numpy_helper.from_array(np.random.default_rng(seed).standard_normal(shape).astype(np.float32), name)


def save(graph, path):
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def layers(path, count=8, width=16, name=lambda i: f"layers.{i}", graph="layers", batch="batch"):
    """Equal layers, each with a residual."""
    nodes, weights, at = [], [], "x"
    for i in range(count):
        n = name(i)
        weights += [tensor(f"{n}.w", width, width, seed=i), tensor(f"{n}.b", width, seed=i)]
        nodes += [helper.make_node("MatMul", [at, f"{n}.w"], [f"{n}.m"], f"{n}/MatMul"),
                  helper.make_node("Add", [f"{n}.m", f"{n}.b"], [f"{n}.a"], f"{n}/Add"),
                  helper.make_node("Tanh", [f"{n}.a"], [f"{n}.t"], f"{n}/Tanh"),
                  helper.make_node("Add", [f"{n}.t", at], [f"{n}.y"], f"{n}/Residual")]
        at = f"{n}.y"
    value = helper.make_tensor_value_info
    return save(helper.make_graph(nodes, graph, [value("x", TensorProto.FLOAT, [batch, width])], [value(at, TensorProto.FLOAT, None)],
                                  weights), path)


def hostile(path):
    return layers(path, len(HOSTILE), 8, lambda i: HOSTILE[i], HOSTILE[0], HOSTILE[1])


def single(path):
    """One operator on one number."""
    value = helper.make_tensor_value_info
    return save(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "", [value("x", TensorProto.FLOAT, [])],
                                  [value("y", TensorProto.FLOAT, [])]), path)


def nothing(path):
    """The output is an input."""
    value = helper.make_tensor_value_info
    return save(helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "none", [value("x", TensorProto.FLOAT, [2])],
                                  [value("y", TensorProto.FLOAT, [2])]), path)


def many_outputs(path, count=60, prefix=""):
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Mul", [f"{prefix}x{i}", f"{prefix}x0"], [f"{prefix}y{i}"]) for i in range(count)]
    return save(helper.make_graph(nodes, "wide", [value(f"{prefix}x{i}", TensorProto.FLOAT, ["n"]) for i in range(count)],
                                  [value(f"{prefix}y{i}", TensorProto.FLOAT, ["n"]) for i in range(count)]), path)


def all_of_them(folder):
    """Name and path of each."""
    made = {"layers": layers, "hostile": hostile, "single": single, "nothing": nothing, "wide": many_outputs}
    models = {name: make(os.path.join(folder, name + ".onnx")) for name, make in made.items()}
    torch = os.path.join(HERE, "../models/torch")
    models.update({name: os.path.join(torch, name + "-script.onnx") for name in ("bert2", "resnet18", "decoder")})
    models["digits"] = os.path.join(HERE, "../../examples/digits/digits.onnx")
    return models


def folder():
    return tempfile.TemporaryDirectory(prefix="hypatia-report-")
