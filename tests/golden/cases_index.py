"""Cases of operators that pick, place and make elements by index or position."""
import os
import sys

import numpy as np
from make_ops import case, d, i64

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from philox import uniform  # noqa: E402

rng = np.random.default_rng(72)


def rand(*shape):
    return (rng.integers(-32, 33, shape) / 8).astype(np.float32)


def gathers():
    x = rand(2, 3, 4)
    at = i64(2, 0, -1, -3, 1, 1).reshape(2, 3, 1)[:, :, [0, 0, 0, 0]]
    case("gather-elements", "last axis", ":axis 2", [x, at], np.take_along_axis(x, at, 2), "GatherElements", axis=2)
    few = np.array([[1, 0]], np.int32)
    case("gather-elements", "fewer rows than the data", ":axis 0", [x[:, :, 0], few],
         np.take_along_axis(x[:, :2, 0], few, 0), "GatherElements", axis=0)
    case("gather-elements", "nothing", ":axis 0", [x[0], np.zeros((0, 4), np.int64)], x[0, :0])
    tuples = i64(0, 1, 1, -1).reshape(2, 2)
    case("gather-nd", "rows", "", [x, tuples], np.stack([x[0, 1], x[1, 2]]), "GatherND")
    case("gather-nd", "elements", "", [x, i64(1, 2, 3)], x[1, 2, 3], "GatherND")
    batched = i64(0, 2, 1, 1).reshape(2, 2, 1)
    case("gather-nd", "batch", ":batch-axes 1", [x, batched], np.stack([x[0, [0, 2]], x[1, [1, 1]]]), "GatherND",
         batch_dims=1)


def scatters():
    x = rand(3, 4)
    at, updates = i64(1, 0, 2, -1, 1, 1).reshape(2, 3), rand(2, 3)
    for name, f in [("none", None), ("add", np.add), ("mul", np.multiply), ("min", np.minimum), ("max", np.maximum)]:
        y = d(x)
        where = i64(3, 0, 2, 1, 3, 2).reshape(2, 3) if f is None else at
        for i, j in np.ndindex(2, 3):
            k = where[i, j]
            y[k % 3 if f else i, j if f else k] = f(y[k % 3, j], updates[i, j]) if f else updates[i, j]
        attrs = f":axis 0 :reduction {name}" if f else ":axis 1"
        case("scatter-elements", name, attrs, [x, where, updates], y, "ScatterElements", axis=0 if f else 1, reduction=name)
    rows, values = i64(2, -3).reshape(2, 1), rand(2, 4)
    y = d(x)
    y[2], y[0] = values
    case("scatter-nd", "rows", "", [x, rows, values], y, "ScatterND")
    twice, whole = i64(0, 1, 0, 1).reshape(2, 2), i64(5, 6, 7, 8).reshape(2, 2)
    for name, want in [("add", 19), ("mul", 240), ("min", 5), ("max", 8)]:
        y = whole.copy()
        y[0, 1] = want
        case("scatter-nd", f"{name} twice at one place", f":reduction {name}", [whole, twice, i64(5, 8)], y, "ScatterND",
             reduction=name)
    cache, update = rand(2, 1, 4, 2), rand(2, 1, 2, 2)
    y = cache.copy()
    y[0, :, 1:3], y[1, :, 2:] = update[0], update[1]
    case("tensor-scatter", "in places", ":axis 2", [cache, update, i64(1, 2)], y)
    y = cache.copy()
    y[0, :, [3, 0]] = update[0].swapaxes(0, 1)
    y[1, :, :2] = update[1]
    case("tensor-scatter", "around the end", ":axis -2 :mode circular", [cache, update, i64(3, 0)], y)
    y = cache.copy()
    y[:, :, :2] = update
    case("tensor-scatter", "from the start", ":axis 2", [cache, update], y)


def searches():
    x = np.array([[3, 1, 3, 2], [0, -1, 5, 5]], np.float32)
    both = ["float32", "int64"]
    case("topk", "largest", ":axis 1 :k (2)", [x], [x[[[0], [1]], [[0, 2], [2, 3]]], i64(0, 2, 2, 3).reshape(2, 2)],
         dtype=both)
    case("topk", "smallest", ":axis -1 :k (3) :largest 0", [x],
         [np.array([[1, 2, 3], [-1, 0, 5]], np.float32), i64(1, 3, 0, 1, 0, 2).reshape(2, 3)], dtype=both)
    case("topk", "first axis", ":axis 0 :k (1)", [x], [x.max(0, keepdims=True), i64(0, 0, 1, 1).reshape(1, 4)],
         dtype=both)
    case("topk", "nothing", ":axis 1 :k (0)", [x], [x[:, :0], np.zeros((2, 0), np.int64)],
         dtype=both)
    at, off_on = i64(1, -1, 7), np.array([2, 5], np.float32)
    want = np.full((3, 4), 2.0)
    want[0, 1] = want[1, 3] = 5
    case("one-hot", "last axis", ":new-axis -1 :depth (4)", [at, off_on], want, "OneHot", dtype="float32",
         onnx_inputs=[at, np.array(4, np.int64), off_on], axis=-1)
    case("one-hot", "first axis", ":new-axis 0 :depth (4)", [at, off_on], want.T, "OneHot", dtype="float32",
         onnx_inputs=[at, np.array(4, np.int64), off_on], axis=0)


def positions():
    case("range", "floats", ":size (4)", [np.float32(1), np.float32(-0.5)], np.array([1, 0.5, 0, -0.5]))
    case("range", "integers", ":size (3)", [np.array(5, np.int32), np.array(7, np.int32)], np.array([5, 12, 19]))
    case("range", "nothing", ":size (0)", [np.array(5), np.array(7)], i64())
    for name, shape, seed, number, stream in [("a scalar", (), 0, 0, 0), ("a part of a block", (2, 3), 7, 1, 0),
                                              ("blocks", (3, 1, 4), -1, -2, 5), ("nothing", (2, 0), 1, 2, 3),
                                              ("large numbers", (9,), 2 ** 62 + 5, 2 ** 40 + 3, 2 ** 32 - 1)]:
        attrs = f":shape ({' '.join(map(str, shape))})" + (f" :stream {stream}" if stream else "")
        case("random-uniform", name, attrs, [np.array(seed), np.array(number)], uniform(seed, number, stream, shape),
             dtype="float32")
    x = rand(2, 3, 4)
    for name, f, upper in [("upper", np.triu, 1), ("lower", np.tril, 0)]:
        attrs = "" if upper else ":upper 0"
        case("trilu", name, attrs, [x], f(x), "Trilu", upper=upper)
        for k in [1, -1, 100, -100]:
            case("trilu", f"{name}, diagonal {k}", attrs, [x, np.array(k)], f(x, k), "Trilu", upper=upper)
    bits = np.array([1, -2, 0.5], np.float32)
    case("bit-cast", "floats as integers", ":to i32", [bits], bits.view(np.int32), dtype="int32")
    case("bit-cast", "integers as floats", ":to f32", [bits.view(np.int32)], bits, dtype="float32")
    case("cumprod", "plain", ":axis 1", [x], np.cumprod(d(x), 1))
    case("cumprod", "exclusive, from the end", ":axis -1 :exclusive 1 :reverse 1", [i64(2, 3, 4)], i64(12, 4, 1))
    lengths = i64(3, 1)
    y = x.copy()
    y[0, :3] = x[0, 2::-1]
    case("reverse-sequence", "batch first", ":batch-axis 0 :time-axis 1", [x, lengths], y, "ReverseSequence",
         batch_axis=0, time_axis=1)
    y = x.copy()
    y[:2, 1] = x[1::-1, 1]
    case("reverse-sequence", "time first", ":batch-axis 1 :time-axis 0", [x, i64(0, 2, 1)], y, "ReverseSequence",
         batch_axis=1, time_axis=0)
    case("pad", "all sides", ":before (0 1 2) :after (1 0 3)", [x, np.float32(1.5)],
         np.pad(x, [(0, 1), (1, 0), (2, 3)], constant_values=1.5), "Pad",
         onnx_inputs=[x, i64(0, 1, 2, 1, 0, 3), np.array(1.5, np.float32)])
    case("pad", "of nothing", ":before (1 0) :after (0 2)", [x[0, :0], np.float32(0)], np.zeros((1, 6)))
    case("size", "rank 3", "", [x], np.array(24), "Size", dtype="int64")


def cases():
    gathers()
    scatters()
    searches()
    positions()
