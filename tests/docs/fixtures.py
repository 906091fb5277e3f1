"""The files that the pages' commands find in their folder."""
import importlib.util
import os
import shutil

import hyp
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RNG = np.random.default_rng(0)


def has(module):
    if module == "hypatia serve":
        import serving
        return serving.has_server()
    return importlib.util.find_spec(module) is not None


def mlp(path, widths, x="x", y="y", name="layers.{}", masked=False):
    """Layers as PyTorch's exporters name them, for any batch, with a relu behind each but the last."""
    nodes, weights, value = [], [], x
    for i, (k, n) in enumerate(zip(widths, widths[1:])):
        layer = name.format(i)
        weights += [numpy_helper.from_array((RNG.standard_normal((n, k)) / k ** 0.5).astype(np.float32), layer + ".weight"),
                    numpy_helper.from_array(np.zeros(n, np.float32), layer + ".bias")]
        last = i + 2 == len(widths)
        nodes.append(helper.make_node("Gemm", [value, layer + ".weight", layer + ".bias"], [f"g{i}"], f"/{layer}/Gemm", transB=1))
        value = f"g{i}"
        if not last:
            nodes.append(helper.make_node("Relu", [value], [f"r{i}"], f"/{layer}/Relu"))
            value = f"r{i}"
    if masked:
        nodes.append(helper.make_node("Mul", [value, "mask"], ["m"], "/Mul"))
        value = "m"
    nodes[-1].output[0] = y
    inputs = [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["batch", widths[0]])]
    if masked:
        inputs.append(helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["batch", widths[-1]]))
    graph = helper.make_graph(nodes, "mlp", inputs, [helper.make_tensor_value_info(y, TensorProto.FLOAT, ["batch", widths[-1]])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def save(folder, name, array):
    os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
    np.save(os.path.join(folder, name), array)


def rows(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def readme(folder):
    mlp(os.path.join(folder, "model.onnx"), (64, 32, 10))
    save(folder, "x.npy", rows(64, 64))
    save(folder, "labels.npy", RNG.integers(0, 10, 64))


def cli(folder):
    shutil.copy(os.path.join(ROOT, "tests/models/tiny_mlp.onnx"), os.path.join(folder, "model.onnx"))
    model = onnx.load(os.path.join(folder, "model.onnx"))
    was, model.graph.output[0].name = model.graph.output[0].name, "y"
    for node in model.graph.node:
        node.output[:] = ["y" if name == was else name for name in node.output]
    onnx.save(model, os.path.join(folder, "model.onnx"))
    width = model.graph.input[0].type.tensor_type.shape.dim[1].dim_value
    x = rows(4, width)
    save(folder, "x.npy", x)
    mlp(os.path.join(folder, "masked.onnx"), (16, 32, 16), masked=True)
    save(folder, "data/x.npy", rows(4, 8, 16))
    save(folder, "data/mask.npy", rows(4, 8, 16))
    for i in range(2):
        part = os.path.join(folder, f"test_data_sets/test_data_set_{i}")
        os.makedirs(part)
        for k, value in enumerate((rows(8, 16), rows(8, 16))):
            with open(f"{part}/input_{k}.pb", "wb") as file:
                file.write(numpy_helper.from_array(value, "x").SerializeToString())
    os.makedirs(os.path.join(folder, "test_data_set_0"))
    with open(os.path.join(folder, "test_data_set_0/input_0.pb"), "wb") as file:
        file.write(numpy_helper.from_array(x, "x").SerializeToString())
    training(folder)


def training(folder):
    shutil.copy(os.path.join(ROOT, "examples/train_digits/digits.onnx"), os.path.join(folder, "digits.onnx"))
    images, labels = (np.load(os.path.join(ROOT, "examples/digits", name)) for name in ("images.npy", "labels.npy"))
    save(folder, "images.npy", images)
    save(folder, "labels.npy", labels.astype(np.int64))
    save(folder, "labels-u8.npy", labels.astype(np.uint8))
    for i in range(2):
        save(folder, f"mnist/part-{i}.npy", (images[50 * i:50 * i + 50] * 15).astype(np.uint8))
        save(folder, f"shards/{i}.npy", images[50 * i:50 * i + 50])
        save(folder, f"labels/{i}.npy", labels[50 * i:50 * i + 50].astype(np.int64))


def training_page(folder):
    training(folder)
    mlp(os.path.join(folder, "model.onnx"), (64, 64, 10), name="h.{}/mlp")
    mlp(os.path.join(folder, "net.onnx"), (64, 64, 64, 10), name="fc{}")
    done = hyp.tool("hypatiac", os.path.join(folder, "net.onnx"), "--train", "cross-entropy", "-o", os.path.join(folder, "net.bin"))
    assert done.returncode == 0, done.stderr


def runtime(folder):
    mlp(os.path.join(folder, "model.onnx"), (64, 64, 10))


def of_digits(folder):
    runtime(folder)
    shutil.copy(os.path.join(ROOT, "examples/digits/digits.onnx"), os.path.join(folder, "digits.onnx"))


def tutorial(folder):
    """What its first block writes where PyTorch is installed."""
    mlp(os.path.join(folder, "net.onnx"), (32, 64, 64, 4), name="{}")


def serving(folder):
    mlp(os.path.join(folder, "model.onnx"), (4, 8, 2))
    rows(2, 4).tofile(os.path.join(folder, "x.raw"))


PAGES = {"README.md": readme, "docs/cli.md": cli, "docs/report.md": cli, "docs/training.md": training_page, "docs/runtime.md": runtime, "docs/runtime-cpu.md": of_digits,
         "docs/tutorial.md": tutorial, "docs/serving.md": serving}


def prepare(page, folder):
    PAGES.get(page, lambda folder: None)(folder)

