"""Arrays of other libraries than NumPy, by DLPack: of none in particular, of one with C functions, of PyTorch where
it is installed."""

import gc

import numpy as np
import pytest
from conftest import close, model
from exchange import Exchanged, counts
from onnx import TensorProto, helper

import hypatia


class Foreign:
    """An array that lends what a NumPy array has, and counts how often."""

    def __init__(self, array):
        self.array, self.asked = array, []

    def __dlpack__(self, **named):
        self.asked.append(named)
        return self.array.__dlpack__(**named)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Old(Foreign):
    """From before max_version."""

    def __dlpack__(self, stream=None):
        self.asked.append(stream)
        return self.array.__dlpack__()


class WithNamespace(Foreign):
    def __array_namespace__(self):
        return Namespace


class Namespace:
    @staticmethod
    def from_dlpack(tensor):
        return WithNamespace(np.from_dlpack(tensor))

    @staticmethod
    def asarray(array, copy):
        assert copy
        return WithNamespace(np.array(array.array, order="C"))


@pytest.mark.parametrize("kind", [Foreign, Old])
def test_unknown_library(layers, layers_plan, draw, kind):
    x = kind(draw.standard_normal((5, 8)).astype(np.float32))
    y = layers_plan(x)
    assert type(y) is hypatia.Tensor and y.shape == (5, 4) and y.dtype == "f32" and y.device == "cpu"
    assert y.__dlpack_device__() == (1, 0) and len(x.asked) == 1 and "shape=(5, 4)" in repr(y)
    close(np.from_dlpack(y), layers(x.array))
    close(y.numpy(), layers(x.array))


def test_tensor_is_an_input_again(layers, draw):
    plan = hypatia.compile(
        model(
            [helper.make_node("Relu", ["x"], ["y"])],
            [("x", TensorProto.FLOAT, ["n"])],
            [("y", TensorProto.FLOAT, ["n"])],
        )
    )
    x = plan.to_device(np.array([-1, 2, -3], np.float32))
    assert plan(plan(x)).numpy().tolist() == [0, 2, 0]
    with pytest.raises(TypeError):
        plan.to_device("text")


def test_namespace(layers, layers_plan, draw):
    x = draw.standard_normal((5, 8)).astype(np.float32)
    y = layers_plan(WithNamespace(x))
    assert type(y) is WithNamespace
    close(y.array, layers(x))
    y = layers_plan(WithNamespace(np.asfortranarray(x)))
    close(y.array, layers(x))


def test_layouts_without_a_copy_are_refused(layers_plan, draw):
    with pytest.raises(TypeError, match="not dense"):
        layers_plan(Foreign(np.asfortranarray(np.ones((5, 8), np.float32))))


def test_memory_outlives_what_made_it(layers, draw):
    x = draw.standard_normal((5, 8)).astype(np.float32)
    plan = hypatia.compile(layers.model)
    y = plan(Foreign(x))
    kept = np.from_dlpack(y)
    assert np.from_dlpack(y).ctypes.data == kept.ctypes.data  # lent, not copied
    spare = y.__dlpack__()  # that nobody takes
    versioned = y.__dlpack__(max_version=(1, 0))
    del plan, y, spare, versioned
    gc.collect()
    close(kept, layers(x))


def test_what_a_tensor_does_not_do(layers_plan):
    y = layers_plan(Foreign(np.ones((1, 8), np.float32)))
    for named in ({"copy": True}, {"dl_device": (2, 0)}):
        with pytest.raises(BufferError):
            y.__dlpack__(**named)
    assert y.__dlpack__(copy=False, dl_device=(1, 0), stream=None) is not None
    with pytest.raises(TypeError):
        hypatia.Tensor()
    with pytest.raises(TypeError):
        y.__dlpack__(max_version="one")


class Lying(Foreign):
    def __dlpack__(self, **named):
        return self.array


@pytest.mark.parametrize("capsule", [None, 7, object()])
def test_capsules_that_are_none(layers_plan, capsule):
    liar = Lying(capsule)
    liar.__class__ = type("L", (Lying,), {"__dlpack_device__": lambda self: (1, 0)})
    with pytest.raises(hypatia.InvalidArgumentError, match="nothing that DLPack 1 describes"):
        layers_plan(liar)


def test_other_devices(layers_plan):
    far = type("Far", (Foreign,), {"__dlpack_device__": lambda self: (2, 0)})
    layers_plan(far(np.ones((1, 8), np.float32)))  # its capsule says that it lies on the host after all


def test_mixed(layers):
    plan = hypatia.compile(
        model(
            [helper.make_node("Add", ["a", "b"], ["y"])],
            [(n, TensorProto.FLOAT, ["n"]) for n in "ab"],
            [("y", TensorProto.FLOAT, ["n"])],
        )
    )
    a = np.ones(3, np.float32)
    assert type(plan(a, a)) is np.ndarray and type(plan(a, Foreign(a))) is hypatia.Tensor
    assert plan([1, 2, 3], Foreign(a)).numpy().tolist() == [2, 3, 4]


# ---- a library with C functions ---------------------------------------------------------------------------------------


def test_exchange(layers, layers_plan, draw):
    x = draw.standard_normal((5, 8)).astype(np.float32)
    before = counts()
    y = layers_plan(Exchanged(x))
    assert type(y) is Exchanged
    close(y.array, layers(x))
    after = counts()
    assert {k: after[k] - before[k] for k in after} == {"lent": 1, "allocated": 1, "taken": 1, "freed": 0}
    strided = Exchanged(np.asfortranarray(x))
    close(layers_plan(strided).array, layers(x))
    for wrong, message in ((np.ones((2, 9), np.float32), "axis 1"), (np.ones((2, 8), np.complex64), "type")):
        with pytest.raises(hypatia.InvalidArgumentError, match=message):
            layers_plan(Exchanged(wrong))
    Exchanged.fail = True
    try:
        with pytest.raises(MemoryError, match="no more"):
            layers_plan(Exchanged(x))
    finally:
        Exchanged.fail = False


# ---- PyTorch -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed")


def test_torch(torch, layers, layers_plan, draw):
    for rows in (1, 5):
        x = torch.from_numpy(draw.standard_normal((rows, 8)).astype(np.float32))
        for given in (x, x.t().contiguous().t(), torch.repeat_interleave(x, 2, 0)[::2], torch.nn.Parameter(x)):
            y = layers_plan(given)
            assert type(y) is torch.Tensor and y.dtype == torch.float32 and not y.requires_grad
            close(y, layers(x.numpy()))
    with pytest.raises(hypatia.InvalidArgumentError, match="f64"):
        layers_plan(x.double())
    assert torch.from_dlpack(layers_plan(Foreign(x.numpy()))).shape == (5, 4)


@pytest.mark.parametrize(
    "name", ["float32", "float64", "float16", "bfloat16", "bool", "int8", "int16", "int32", "int64", "uint8"]
)
def test_torch_types(torch, name):
    kind = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE}.get(name) or getattr(TensorProto, name.upper())
    plan = hypatia.compile(
        model(
            [helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])],
            [("x", kind, ["a", "b"])],
            [("y", kind, ["b", "a"])],
        )
    )
    x = (torch.arange(12).reshape(3, 4) % 2).to(getattr(torch, name))
    y = plan(x)
    assert y.dtype == x.dtype and torch.equal(y, x.t())


def test_torch_output_as_large_as_the_data_say(torch):
    plan = hypatia.compile(
        model(
            [helper.make_node("NonZero", ["x"], ["y"])],
            [("x", TensorProto.FLOAT, ["n", 3])],
            [("y", TensorProto.INT64, [2, "count"])],
        ),
        verify="off",
    )
    x = torch.tensor([[1.0, 0, 0], [0, 2, 3]])
    assert torch.equal(plan(x), torch.nonzero(x).t())
