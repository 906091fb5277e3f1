"""Calls of plans: how arguments are matched, arrays of NumPy, threads."""

import pickle
import threading
import time

import numpy as np
import pytest
from conftest import close, model
from onnx import TensorProto, helper

import hypatia


def test_call(layers, layers_plan, draw):
    for rows in (1, 3, 64):
        x = draw.standard_normal((rows, 8)).astype(np.float32)
        for y in (
            layers_plan(x),
            layers_plan(x=x),
            layers_plan({"x": x}),
            layers_plan.run([x])["y"],
            layers_plan.run({"x": x})["y"],
        ):
            assert type(y) is np.ndarray and y.dtype == np.float32 and y.shape == (rows, 4)
            close(y, layers(x))


def test_results_are_their_own(layers_plan, draw):
    x = draw.standard_normal((5, 8)).astype(np.float32)
    first = layers_plan(x)
    kept = first.copy()
    layers_plan(2 * x)
    assert np.array_equal(first, kept)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: np.asfortranarray(x),
        lambda x: np.repeat(x, 2, axis=0)[::2],
        lambda x: x.astype(">f4"),
        lambda x: x[::-1][::-1],
        lambda x: np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape),
        lambda x: x.tolist(),
    ],
)
def test_arrays_of_any_layout(layers, layers_plan, draw, make):
    x = draw.standard_normal((6, 8)).astype(np.float32)
    close(layers_plan(make(x)), layers(x))


def test_read_only_array(layers, layers_plan, draw):
    x = draw.standard_normal((2, 8)).astype(np.float32)
    x.flags.writeable = False
    close(layers_plan(x), layers(x))


def test_refusals(layers_plan):
    x = np.zeros((2, 8), np.float32)
    with pytest.raises(hypatia.InvalidArgumentError, match="must be f32, it is f64"):
        layers_plan(x.astype(np.float64))
    with pytest.raises(hypatia.InvalidArgumentError, match="no input 'z'"):
        layers_plan(z=x)
    with pytest.raises(hypatia.InvalidArgumentError, match="'x' is missing"):
        layers_plan()
    with pytest.raises(hypatia.InvalidArgumentError, match="given twice"):
        layers_plan(x, x=x)
    with pytest.raises(TypeError, match="1 inputs, and 2 were given"):
        layers_plan(x, x)
    with pytest.raises(hypatia.InvalidArgumentError, match="axis 1"):
        layers_plan(np.zeros((2, 9), np.float32))
    with pytest.raises(hypatia.InvalidArgumentError, match="type that Hypatia has not"):
        layers_plan(x.astype(np.complex64))
    with pytest.raises(hypatia.InvalidArgumentError, match="8 axes"):
        layers_plan(np.zeros((1,) * 9, np.float32))
    with pytest.raises(TypeError):
        layers_plan("text")
    assert layers_plan(x).shape == (2, 4)


TYPES = [
    "float32",
    "float64",
    "float16",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
    "bfloat16",
]


@pytest.mark.parametrize("name", TYPES)
def test_types(name):
    ml_dtypes = pytest.importorskip("ml_dtypes") if name == "bfloat16" else None
    dtype = np.dtype(ml_dtypes.bfloat16 if ml_dtypes else name)
    kind = TensorProto.BFLOAT16 if ml_dtypes else helper.np_dtype_to_tensor_dtype(dtype)
    plan = hypatia.compile(
        model(
            [helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])],
            [("x", kind, ["a", "b"])],
            [("y", kind, ["b", "a"])],
        )
    )
    x = (np.arange(12).reshape(3, 4) % 2 if name == "bool" else np.arange(12).reshape(3, 4)).astype(dtype)
    y = plan(x)
    assert y.dtype == dtype and np.array_equal(y, x.T)
    scalars = plan([[1, 0]])
    assert scalars.dtype == dtype and scalars.tolist() == [[1], [0]]


def test_several_outputs_and_scalars():
    plan = hypatia.compile(
        model(
            [helper.make_node("Add", ["a", "b"], ["sum"]), helper.make_node("Mul", ["a", "b"], ["product"])],
            [("a", TensorProto.FLOAT, ["n"]), ("b", TensorProto.FLOAT, [])],
            [("sum", TensorProto.FLOAT, ["n"]), ("product", TensorProto.FLOAT, ["n"])],
        )
    )
    a = np.arange(4, dtype=np.float32)
    total, product = plan(a, 3)
    assert total.tolist() == [3, 4, 5, 6] and product.tolist() == [0, 3, 6, 9]
    assert {name: y.tolist() for name, y in plan.run({"a": a, "b": 2.0}).items()} == {
        "sum": [2, 3, 4, 5],
        "product": [0, 2, 4, 6],
    }
    assert plan(a, np.float32(1))[0].tolist() == [1, 2, 3, 4]
    total, product = plan(np.empty(0, np.float32), 3)
    assert total.shape == (0,) and product.shape == (0,)


def test_output_as_large_as_the_data_say():
    plan = hypatia.compile(
        model(
            [helper.make_node("NonZero", ["x"], ["y"])],
            [("x", TensorProto.FLOAT, ["n", 3])],
            [("y", TensorProto.INT64, [2, "count"])],
        ),
        verify="off",
    )
    x = np.array([[1, 0, 0], [0, 2, 3]], np.float32)
    for _ in range(2):
        y = plan(x)
        assert y.shape == (2, 3) and np.array_equal(y, np.nonzero(x))
        assert plan(np.zeros_like(x)).shape == (2, 0)


def test_threads(layers, layers_plan, draw):
    batches = [draw.standard_normal((rows, 8)).astype(np.float32) for rows in (1, 2, 7, 33)]
    wanted = [layers(x) for x in batches]
    wrong = []

    def work(first):
        try:
            for i in range(200):
                k = (first + i) % len(batches)
                np.testing.assert_allclose(layers_plan(batches[k]), wanted[k], rtol=1e-5, atol=1e-5)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_lock_is_released(draw):
    """While one thread is within a run, another one gets on: in the middle half of it, where none of its own work is
    left."""
    n = 512
    weights = draw.standard_normal((n, n)).astype(np.float32)
    plan = hypatia.compile(
        model(
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            [("x", TensorProto.FLOAT, ["b", n])],
            [("y", TensorProto.FLOAT, ["b", n])],
            {"w": weights},
        ),
        verify="off",
        threads=1,
    )
    x = draw.standard_normal((2048, n)).astype(np.float32)
    for _ in range(100):
        done, times, seen = threading.Event(), [], []

        def run():
            times.append(time.perf_counter())
            plan(x)
            times.append(time.perf_counter())
            done.set()

        thread = threading.Thread(target=run)
        thread.start()
        while not done.is_set():
            seen.append(time.perf_counter())
        thread.join()
        quarter = (times[1] - times[0]) / 4
        if any(times[0] + quarter < t < times[1] - quarter for t in seen):
            return
    raise AssertionError("nothing else ran during a run")


@pytest.mark.parametrize("buckets", [{"batch": 8}, 16])
def test_buckets(layers, draw, buckets):
    plan = hypatia.compile(layers.model, device="cpu", buckets=buckets)
    copies = [
        plan,
        hypatia.Plan.from_bytes(plan.to_bytes(), device="cpu", buckets=buckets, shapes=1),
        pickle.loads(pickle.dumps(plan)),
    ]
    for copy in copies:
        for rows in (1, 7, 8, 9, 40, 2):
            x = draw.standard_normal((rows, 8)).astype(np.float32)
            y = copy(x)
            assert y.shape == (rows, 4)
            close(y, layers(x))
    before = plan.memory_bytes  # what 16 rows are prepared with serves 9 to 16
    plan(np.zeros((15, 8), np.float32))
    first = plan.memory_bytes
    plan(np.zeros((11, 8), np.float32))
    assert before <= first == plan.memory_bytes


def test_buckets_that_show_are_refused(layers):
    mixed = model(
        [helper.make_node("Softmax", ["x"], ["y"], axis=0, name="mixes")],
        [("x", TensorProto.FLOAT, ["batch", 8])],
        [("y", TensorProto.FLOAT, ["batch", 8])],
    )
    with pytest.raises(hypatia.UnsupportedError, match="mixes"):
        hypatia.compile(mixed, device="cpu", buckets={"batch": 4})
    data = hypatia.compile(layers.model, device="cpu").to_bytes()
    for wrong, message in (({"rows": 4}, "rows"), ({"batch": 0}, "batch"), (-1, ".")):
        with pytest.raises(hypatia.InvalidArgumentError, match=message):
            hypatia.Plan.from_bytes(data, device="cpu", buckets=wrong)


def test_limits_of_calls(layers, draw):
    data = hypatia.compile(layers.model, device="cpu").to_bytes()
    x = draw.standard_normal((3, 8)).astype(np.float32)
    large = np.zeros((100000, 8), np.float32)
    for limits in ({"work_limit": 1e5}, {"run_memory_limit": 1 << 20}):
        plan = hypatia.Plan.from_bytes(data, device="cpu", **limits)
        with pytest.raises(hypatia.LimitError, match=list(limits)[0].removeprefix("run_")):
            plan(large)
        close(plan(x), layers(x))
    close(hypatia.Plan.from_bytes(data, device="cpu", processors="0", shapes=2)(x), layers(x))
    with pytest.raises(hypatia.InvalidArgumentError, match="processors"):
        hypatia.Plan.from_bytes(data, device="cpu", processors="nine")
    with pytest.raises(ValueError, match="shapes"):
        hypatia.Plan.from_bytes(data, device="cpu", shapes=-1)


def counting(name="n"):
    """y = x + 1, n times."""
    kinds = {"i": TensorProto.INT64, "go": TensorProto.BOOL, "h": TensorProto.FLOAT}
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["more"]), helper.make_node("Add", ["h", "one"], ["h2"])],
        "body",
        [helper.make_tensor_value_info(n, kind, [] if n != "h" else ["rows"]) for n, kind in kinds.items()],
        [
            helper.make_tensor_value_info("more", TensorProto.BOOL, []),
            helper.make_tensor_value_info("h2", TensorProto.FLOAT, ["rows"]),
        ],
    )
    return model(
        [helper.make_node("Loop", [name, "", "x"], ["y"], body=body)],
        [("x", TensorProto.FLOAT, ["rows"]), (name, TensorProto.INT64, [])],
        [("y", TensorProto.FLOAT, ["rows"])],
        {"one": np.float32(1)},
    )


def test_cancel():
    plan = hypatia.compile(counting(), device="cpu")
    x = np.zeros(3, np.float32)
    assert plan(x, 5).tolist() == [5, 5, 5]
    plan.cancel()  # nothing is under way
    assert plan(x, 5).tolist() == [5, 5, 5]
    caught = []

    def run():
        try:
            plan(x, 1 << 62)
        except hypatia.CancelledError as error:
            caught.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        plan.cancel()
        time.sleep(0.001)
    assert len(caught) == 2
    assert plan(x, 7).tolist() == [7, 7, 7]


def test_cancel_is_for_calls_under_way():
    """One that comes when a call has a context, but no run, is not kept for the next call that gets it."""
    plan = hypatia.compile(counting(), device="cpu")
    x = np.zeros(3, np.float32)

    class Cancels:
        def __array__(self, *args, **kwargs):
            plan.cancel()
            raise RuntimeError("no array")

    for _ in range(3):
        with pytest.raises(RuntimeError, match="no array"):
            plan(Cancels(), 5)
        assert plan(x, 5).tolist() == [5, 5, 5]

    class CancelsItself:
        def __array__(self, *args, **kwargs):
            plan.cancel()
            return x

    with pytest.raises(hypatia.CancelledError):
        plan(CancelsItself(), 5)
    assert plan(x, 5).tolist() == [5, 5, 5]


def test_loop_limit():
    plan = hypatia.compile(counting(), device="cpu", loop_limit=10)
    assert plan(np.zeros(1, np.float32), 10).tolist() == [10]
    with pytest.raises(hypatia.LimitError, match="10"):
        plan(np.zeros(1, np.float32), 11)
