"""Results that are as large as the data say: in room for more, what lies behind them repeats the last one."""
import numpy as np

from make_ops import case, check_ort

rng = np.random.default_rng(29)


def padded(a, axis, room):
    """`room` along the axis; the last part again and again, or 0."""
    count = a.shape[axis]
    if count == 0:
        shape = list(a.shape)
        shape[axis] = room
        return np.zeros(shape, a.dtype)
    return np.take(a, np.minimum(np.arange(room), count - 1), axis)


def nonzero():
    def add(name, x, room):
        want = np.array(np.nonzero(x), np.int64).reshape(x.ndim, -1)
        if x.ndim:
            check_ort("NonZero", {}, [x], [want], ["int64"])
        case("nonzero", name, f":size ({room})", [x], [padded(want, 1, room), np.int64(want.shape[1])], dtype=["int64"] * 2)

    x = rng.integers(-1, 2, (3, 4)).astype(np.float32)
    x[0, 0], x[2, 3] = -0.0, np.nan
    add("matrix", x, 12)
    add("just enough", x, int(np.count_nonzero(x)))
    add("nothing", np.zeros((2, 2), np.int32), 4)
    add("bool", np.array([True, False, True]), 5)
    add("no elements", np.zeros((0, 3), np.float32), 0)
    add("rank 3", rng.integers(0, 2, (2, 2, 3)), 12)


def suppression():
    def add(name, boxes, scores, most, overlap, least, want, room, center=0):
        boxes, scores = np.asarray(boxes, np.float32), np.asarray(scores, np.float32)
        want = np.asarray(want, np.int64).reshape(-1, 3)
        inputs = [boxes, scores, None if most is None else np.int64([most]),
                  None if overlap is None else np.float32([overlap]), None if least is None else np.float32([least])]
        while inputs[-1] is None:
            inputs.pop()
        check_ort("NonMaxSuppression", {"center_point_box": center} if center else {}, inputs, [want], ["int64"])
        case("non-max-suppression", name, f":size ({room}){' :center 1' if center else ''}", inputs,
             [padded(want, 0, room), np.int64(len(want))], dtype=["int64"] * 2)

    one = [[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]]
    score = [0.9, 0.75, 0.6, 0.95, 0.5, 0.3]
    add("corners", [one], [[score]], 3, 0.5, 0.0, [[0, 0, 3], [0, 0, 0], [0, 0, 5]], 6)
    add("a limit", [one], [[score]], 2, 0.5, 0.0, [[0, 0, 3], [0, 0, 0]], 2)
    add("scores below", [one], [[score]], 3, 0.5, 0.4, [[0, 0, 3], [0, 0, 0]], 3)
    flipped = [[b[2], b[3], b[0], b[1]] for b in one]
    add("corners the other way", [flipped], [[score]], 3, 0.5, None, [[0, 0, 3], [0, 0, 0], [0, 0, 5]], 3)
    center = [[(b[1] + b[3]) / 2, (b[0] + b[2]) / 2, b[3] - b[1], b[2] - b[0]] for b in one]
    add("centers", [center], [[score]], 3, 0.5, 0.0, [[0, 0, 3], [0, 0, 0], [0, 0, 5]], 3, 1)
    add("images and classes", [one, one], [[score, score[::-1]]] * 2, 1, 0.5, 0.0,
        [[0, 0, 3], [0, 1, 2], [1, 0, 3], [1, 1, 2]], 4)
    add("equal scores", [one], [[[0.5] * 6]], 6, 0.5, None, [[0, 0, 0], [0, 0, 3], [0, 0, 5]], 6)
    add("no overlap is allowed", [one], [[score]], 6, None, None, [[0, 0, 3], [0, 0, 0], [0, 0, 5]], 6)
    add("none is wanted", [one], [[score]], 0, None, None, [], 2)
    add("no number", [one], [[score]], None, None, None, [], 0)
    add("no boxes", np.zeros((1, 0, 4)), np.zeros((1, 2, 0)), 3, 0.5, None, [], 0)


def unique():
    def add(name, x, axis, ordered, room):
        values, first, inverse, counts = np.unique(x, True, True, True, axis)
        inverse = inverse.reshape(-1)
        if not ordered:
            order = np.argsort(first, kind="stable")
            rank = np.argsort(order, kind="stable")
            values = np.take(values, order, 0 if axis is None else axis)
            first, counts, inverse = first[order], counts[order], rank[inverse]
        along = 0 if axis is None else axis
        attrs = {"sorted": ordered} | ({} if axis is None else {"axis": axis})
        wants = [values, *(a.astype(np.int64) for a in (first, inverse, counts))]
        if x.dtype != np.int32: # which onnxruntime lacks
            check_ort("Unique", attrs, [x], wants, [x.dtype.name] + ["int64"] * 3)
        text = f":size ({room})" + ("" if axis is None else f" :along {axis}") + ("" if ordered else " :sorted 0")
        case("unique", name, text, [x],
             [padded(wants[0], along, room), padded(wants[1], 0, room), wants[2], padded(wants[3], 0, room),
              np.int64(len(first))], dtype=[x.dtype.name] + ["int64"] * 4)

    x = np.array([2, 1, 1, 3, 4, 3], np.float32)
    add("sorted", x, None, 1, 6)
    add("as they come", x, None, 0, 6)
    add("just enough", x, None, 1, 4)
    add("a matrix", rng.integers(0, 3, (3, 4)).astype(np.int64), None, 1, 12)
    rows = np.array([[1, 0, 0], [1, 0, 0], [2, 3, 4]], np.float32)
    add("rows", rows, 0, 1, 3)
    add("columns", rng.integers(0, 2, (2, 5)).astype(np.float32), 1, 0, 5)
    add("middle", rng.integers(0, 2, (2, 4, 1)).astype(np.int32), 1, 1, 4)
    add("one", np.array([7], np.int8), None, 1, 1)
    add("none", np.zeros(0, np.int32), None, 1, 0)


def cases():
    nonzero()
    suppression()
    unique()
