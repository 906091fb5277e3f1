"""Plans on a GPU: real, or the emulated one of tests/runtime/cuda. Order is what matters here: which stream a run is
on, who waits."""

import ctypes
import os

import numpy as np
import pytest
from conftest import close

import hypatia


@pytest.fixture(scope="module")
def plan(layers):
    try:
        return hypatia.compile(layers.model, device="cuda")
    except hypatia.DeviceError as error:
        pytest.skip(str(error))


class Driver:
    """The few functions of CUDA's driver that a library of arrays would use."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxPushCurrent_v2", context)

    def call(self, name, *args):
        assert getattr(self.library, name)(*args) == 0, name

    def stream(self):
        handle = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(handle), 1)
        return handle.value

    def wait(self, stream):
        self.call("cuStreamSynchronize", ctypes.c_void_p(stream))


@pytest.fixture(scope="module")
def driver(plan):
    return Driver()


class Foreign:
    """An array on the device of a library that is not known."""

    def __init__(self, tensor):
        self.tensor, self.streams = tensor, []

    def __dlpack__(self, *, stream=None, max_version=None):
        self.streams.append(stream)
        return self.tensor.__dlpack__(stream=stream, max_version=max_version)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def batch(draw, rows=5):
    return draw.standard_normal((rows, 8)).astype(np.float32)


def test_host_arrays(layers, plan, draw):
    assert plan.device == "cuda"
    x = batch(draw)
    y = plan(x)
    assert type(y) is np.ndarray
    close(y, layers(x))


def test_device_arrays(layers, plan, draw):
    x = batch(draw)
    on_device = plan.to_device(x)
    assert on_device.device == "cuda:0" and on_device.__dlpack_device__() == (2, 0)
    close(on_device.numpy(), x)
    y = plan(on_device)
    assert type(y) is hypatia.Tensor and y.device == "cuda:0"
    close(y.numpy(), layers(x))
    z = plan(Foreign(on_device))
    close(z.numpy(), layers(x))


def test_producer_is_told_the_stream(layers, plan, draw):
    """It makes this stream wait for whatever still writes to the array; and the run has ended when the call returns."""
    x = Foreign(plan.to_device(batch(draw)))
    plan(x)
    (stream,) = x.streams
    assert isinstance(stream, int) and stream > 2


def test_stream_of_the_caller(layers, plan, driver, draw):
    data = batch(draw)
    x, stream = Foreign(plan.to_device(data)), driver.stream()
    outputs = plan.run([x], stream=stream)
    assert x.streams == [stream]
    driver.wait(stream)
    close(outputs["y"].numpy(), layers(data))
    plan.run([x], stream=1)
    assert x.streams[-1] == 1
    plan.run([x], stream=0)
    assert x.streams[-1] == 1  # DLPack's name of the legacy default stream
    plan.synchronize()


def test_stream_of_a_library(layers, plan, driver, draw, monkeypatch):
    """Of a library that says what stream it works on, as PyTorch and CuPy do: the run is queued there, outputs are
    made by it."""
    import sys

    from hypatia import _frameworks

    stream = driver.stream()

    class Known(Foreign):
        pass

    class Framework(_frameworks.Framework):
        def stream(self, array):
            return stream

        def empty(self, like, shape, dtype):
            return Known(plan.to_device(np.zeros(shape, np.float32)))

    Known.__module__ = "known.arrays"
    monkeypatch.setitem(sys.modules, "known", sys)
    monkeypatch.setitem(_frameworks._KNOWN, "known", Framework)
    data = batch(draw)
    x = Known(plan.to_device(data))
    y = plan(x)
    assert type(y) is Known and x.streams == [stream]
    assert y.streams == [-1]  # nobody uses its memory yet
    driver.wait(stream)
    close(y.tensor.numpy(), layers(data))


@pytest.mark.skipif(
    os.environ.get("HYPATIA_EMULATOR") != "lazy", reason="only an emulated device can be told to be late"
)
def test_who_waits(layers, plan, driver, draw):
    """On a device that does its work when it is waited for: a run on a stream of the caller's is only queued when the
    call returns, one on the plan's own has ended. Memory of the emulated device is the host's, so that it can be
    looked at."""
    data = batch(draw)
    x, stream = plan.to_device(data), driver.stream()
    close(peek(plan(x)), layers(data))
    y = plan.run([x], stream=stream)["y"]
    assert not np.allclose(peek(y), layers(data))
    driver.wait(stream)
    close(peek(y), layers(data))


def peek(tensor):
    capsule = tensor.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = ctypes.c_void_p.from_address(pointer(capsule, b"dltensor")).value
    return (
        np.ctypeslib.as_array((ctypes.c_float * int(np.prod(tensor.shape))).from_address(address))
        .reshape(tensor.shape)
        .copy()
    )


def test_memory_outlives_the_plan(layers, driver, draw):
    data = batch(draw)
    plan = hypatia.compile(layers.model, device="cuda:0")
    y = plan(plan.to_device(data))
    del plan
    close(y.numpy(), layers(data))


def test_wrong_places(layers, plan, draw):
    x = plan.to_device(batch(draw))
    on_cpu = hypatia.compile(layers.model)
    with pytest.raises(hypatia.InvalidArgumentError, match="is on a GPU, and the plan runs on a CPU"):
        on_cpu(x)
    elsewhere = type("Elsewhere", (Foreign,), {"__dlpack_device__": lambda self: (2, 7)})
    plan(elsewhere(x))  # its capsule says the truth
    with pytest.raises(hypatia.DeviceError):
        hypatia.compile(layers.model, device="cuda:63")
    with pytest.raises(ValueError, match="no device"):
        hypatia.compile(layers.model, device="cuda:x")


@pytest.mark.parametrize("device", [None, (1,), "cpu", ("a", "b")])
def test_devices_that_are_none(plan, device):
    liar = type("Liar", (Foreign,), {"__dlpack_device__": lambda self: device})
    with pytest.raises(TypeError):
        plan(liar(plan.to_device(np.ones((1, 8), np.float32))))


def test_torch_on_a_gpu(layers, plan, draw):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    data = batch(draw)
    x = torch.from_numpy(data).cuda()
    y = plan(x)
    assert y.is_cuda
    close(y.cpu(), layers(data))
    other = torch.cuda.Stream()
    with torch.cuda.stream(other):
        for _ in range(50):  # written and read on one stream, without waiting
            x.mul_(1.01)
            y = plan(x)
        kept = x.cpu()
    close(y.cpu(), layers(kept.numpy()))


def test_libraries_side_by_side(layers, driver, draw, monkeypatch):
    """A run on the stream of one library waits for its end where an array is of another one, which may take its memory back."""
    import sys

    from conftest import model
    from hypatia import _frameworks
    from onnx import TensorProto, helper

    add = hypatia.compile(
        model(
            [helper.make_node("Add", ["a", "b"], ["y"])],
            [(n, TensorProto.FLOAT, ["n"]) for n in "ab"],
            [("y", TensorProto.FLOAT, ["n"])],
        ),
        device="cuda",
    )
    streams = {"one": driver.stream(), "two": driver.stream()}

    def library(name):
        kind = type(name, (Foreign,), {"__module__": f"{name}.arrays"})
        framework = type(name, (_frameworks.Framework,), {"stream": lambda self, array: streams[name]})
        monkeypatch.setitem(sys.modules, name, sys)
        monkeypatch.setitem(_frameworks._KNOWN, name, framework)
        return kind

    one, two = library("one"), library("two")
    a, b = (draw.standard_normal(4).astype(np.float32) for _ in range(2))
    for make, ended in (((one, one), False), ((one, two), True), ((one, Foreign), True)):
        x, z = (kind(add.to_device(v)) for kind, v in zip(make, (a, b)))
        y = add(x, z)
        assert x.streams == z.streams == [streams["one"]]
        if os.environ.get("HYPATIA_EMULATOR") == "lazy":
            assert np.allclose(peek(y), a + b) == ended
        driver.wait(streams["one"])
        close(y.numpy(), a + b)
