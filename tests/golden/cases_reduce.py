"""Cases of the largest, the smallest, the product, and of where they are."""
import numpy as np
from make_ops import BF16, case, d, i64

rng = np.random.default_rng(73)


def cases():
    x = (rng.integers(-32, 33, (2, 3, 4)) / 16).astype(np.float32)
    for op, f, onnx in [("reduce-max", np.max, "ReduceMax"), ("reduce-min", np.min, "ReduceMin"),
                        ("reduce-prod", np.prod, "ReduceProd")]:
        case(op, "two axes", ":axes (0 2)", [x], f(d(x), axis=(0, 2), keepdims=True), onnx, extra=[i64(0, 2)])
        case(op, "dropped", ":axes (-2) :keep 0", [x], f(d(x), axis=1), onnx, extra=[i64(-2)], keepdims=0)
        whole = rng.integers(-9, 9, (3, 4))
        case(op, "integers", ":axes (1)", [whole], f(whole, axis=1, keepdims=True), onnx, extra=[i64(1)])
    with_nan = np.array([[1, np.nan, 3], [2, 1, 0]], np.float32)
    case("reduce-max", "NaN wins", ":axes (1) :keep 0", [with_nan], np.array([np.nan, 2]))
    case("reduce-min", "of nothing", ":axes (1)", [np.zeros((2, 0), np.float32)], np.full((2, 1), np.inf))
    case("reduce-max", "bools", ":axes (0) :keep 0", [np.array([[True, False], [False, False]])],
         np.array([True, False]), dtype="bool")
    small = np.array([[1, 3, -np.inf, 0], [-np.inf] * 4, [2, 2, 2, 2]], np.float32)
    for axis, data in [(1, x), (-1, small), (0, x), (-1, np.zeros((2, 0), np.float32)), (2, x.astype(BF16)),
                       (0, small.astype(BF16)), (-1, (x * 50).astype(np.float16)), (1, x.astype(np.float64))]:
        top = np.max(d(data), axis=axis, keepdims=True, initial=-np.inf)
        with np.errstate(divide="ignore"):
            rest = np.log(np.exp(d(data) - np.where(top == -np.inf, 0, top)).sum(axis=axis, keepdims=True))
        narrow = data.dtype.itemsize == 2
        name = f"axis {axis} of {data.shape}".replace(",", "") + f" {data.dtype.name}" * (data.dtype != np.float32)
        case("softmax-stats", name, f":axis {axis}", [data], [top, rest], dtype="float32" if narrow else data.dtype)
    case("softmax-stats", "of nothing", ":axis 1", [np.zeros((2, 3, 0), BF16)], [np.zeros((2, 1, 0), np.float32)] * 2, dtype="float32")
    ties = np.array([[1, 3, 3, 0], [2, 2, 2, 2]], np.float32)
    for op, f, onnx in [("argmax", np.argmax, "ArgMax"), ("argmin", np.argmin, "ArgMin")]:
        case(op, "first", ":axis 1", [ties], f(ties, 1)[:, None], onnx, dtype="int64", axis=1)
        last = 3 - f(ties[:, ::-1], 1)
        case(op, "last", ":axis -1 :keep 0 :last 1", [ties], last, onnx, dtype="int64", axis=1, keepdims=0,
             select_last_index=1)
        case(op, "middle axis", ":axis 1 :keep 0", [x], f(x, 1), onnx, dtype="int64", axis=1, keepdims=0)
