"""What the tests share: small models, whose results NumPy says."""

import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def model(nodes, inputs, outputs, constants=(), opset=20):
    """A model of nodes; inputs and outputs are (name, type, dims)."""

    def infos(rows):
        return [helper.make_tensor_value_info(name, kind, dims) for name, kind, dims in rows]

    graph = helper.make_graph(
        list(nodes),
        "test",
        infos(inputs),
        infos(outputs),
        [numpy_helper.from_array(value, name) for name, value in dict(constants).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    onnx.checker.check_model(made)
    return made


class Layers:
    """y = relu(x A + a) B + b, of 8, 16 and 4 channels."""

    def __init__(self):
        draw = np.random.default_rng(7)
        self.A, self.B = (draw.standard_normal(s).astype(np.float32) for s in ((8, 16), (16, 4)))
        self.a, self.b = (draw.standard_normal(s).astype(np.float32) for s in (16, 4))
        self.model = model(
            [
                helper.make_node("Gemm", ["x", "A", "a"], ["h"], name="first"),
                helper.make_node("Relu", ["h"], ["r"], name="act"),
                helper.make_node("Gemm", ["r", "B", "b"], ["y"], name="second"),
            ],
            [("x", TensorProto.FLOAT, ["batch", 8])],
            [("y", TensorProto.FLOAT, ["batch", 4])],
            {"A": self.A, "a": self.a, "B": self.B, "b": self.b},
        )

    def __call__(self, x):
        return np.maximum(np.asarray(x) @ self.A + self.a, 0) @ self.B + self.b


@pytest.fixture(scope="session")
def layers():
    return Layers()


@pytest.fixture(scope="session")
def layers_plan(layers):
    import hypatia

    return hypatia.compile(layers.model)


@pytest.fixture
def draw():
    return np.random.default_rng(1)


def close(a, b):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-5)
