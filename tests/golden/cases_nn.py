"""Cases of convolution, pooling and normalization, with sums written out."""
import itertools

import numpy as np
from make_ops import case, d

rng = np.random.default_rng(72)


def rand(*shape):
    return (rng.integers(-32, 33, shape) / 16).astype(np.float32)


def windows(x, kernel, strides, pads, dilations, sizes):
    """(output position, input positions inside x with their kernel position) for every result."""
    n = len(kernel)
    for o in itertools.product(*map(range, sizes)):
        inside = []
        for k in itertools.product(*map(range, kernel)):
            at = tuple(o[i] * strides[i] + k[i] * dilations[i] - pads[i] for i in range(n))
            if all(0 <= at[i] < x.shape[2 + i] for i in range(n)):
                inside.append((k, at))
        yield o, inside


def conv(x, w, b, strides, pads, dilations, group):
    n = x.ndim - 2
    sizes = [(x.shape[2 + i] + pads[i] + pads[n + i] - dilations[i] * (w.shape[2 + i] - 1) - 1) // strides[i] + 1
             for i in range(n)]
    m = w.shape[0] // group
    y = np.zeros((x.shape[0], w.shape[0], *sizes))
    for o, inside in windows(x, w.shape[2:], strides, pads, dilations, sizes):
        for c in range(w.shape[0]):
            first = c // m * w.shape[1]
            for k, at in inside:
                y[(slice(None), c, *o)] += d(x)[(slice(None), slice(first, first + w.shape[1]), *at)] @ d(w)[(c, slice(None), *k)]
    return y if b is None else y + d(b).reshape(-1, *[1] * n)


def conv_transpose(x, w, strides, pads, dilations, group, more):
    n, m = x.ndim - 2, w.shape[1]
    sizes = [strides[i] * (x.shape[2 + i] - 1) + more[i] + dilations[i] * (w.shape[2 + i] - 1) + 1 - pads[i] - pads[n + i]
             for i in range(n)]
    y = np.zeros((x.shape[0], m * group, *sizes))
    for at in itertools.product(*map(range, x.shape[2:])):
        for k in itertools.product(*map(range, w.shape[2:])):
            to = tuple(at[i] * strides[i] + k[i] * dilations[i] - pads[i] for i in range(n))
            if not all(0 <= to[i] < sizes[i] for i in range(n)):
                continue
            for c in range(x.shape[1]):
                g = c // (x.shape[1] // group)
                y[(slice(None), slice(g * m, (g + 1) * m), *to)] += d(x)[(slice(None), c, *at)][:, None] * d(w)[(c, slice(None), *k)]
    return y


def conv_backward_weights(x, g, kernel, strides, pads, dilations, group):
    m, c = g.shape[1] // group, x.shape[1] // group
    w = np.zeros((g.shape[1], c, *kernel))
    for o, inside in windows(x, kernel, strides, pads, dilations, g.shape[2:]):
        for i in range(g.shape[1]):
            first = i // m * c
            for k, at in inside:
                w[(i, slice(None), *k)] += d(g)[(slice(None), i, *o)] @ d(x)[(slice(None), slice(first, first + c), *at)]
    return w


def pool(x, kernel, strides, pads, sizes, f):
    y = np.zeros((*x.shape[:2], *sizes))
    for o, inside in windows(x, kernel, strides, pads, [1] * len(kernel), sizes):
        values = np.stack([d(x)[(slice(None), slice(None), *at)] for _, at in inside])
        y[(slice(None), slice(None), *o)] = f(values)
    return y


def max_pool_gradient(x, g, kernel, strides, pads, dilations):
    """To the first of the largest under each window; x has equal ones."""
    out = np.zeros(x.shape)
    most = np.full((*x.shape[:2], *g.shape[2:]), -np.inf)
    for o, inside in windows(x, kernel, strides, pads, dilations, g.shape[2:]):
        for n, c in np.ndindex(*x.shape[:2]):
            places = [(n, c, *at) for _, at in inside]
            if places:
                first = max(places, key=lambda at: d(x)[at])  # of equal ones the first
                out[first] += d(g)[(n, c, *o)]
                most[(n, c, *o)] = d(x)[first]
    return most, out


def text(**lists):
    return " ".join(f":{k} ({' '.join(map(str, v))})" for k, v in lists.items())


def norm(x, axis, epsilon):
    axes = tuple(range(axis, x.ndim))
    mean = d(x).mean(axes, keepdims=True)
    inverse = 1 / np.sqrt(((d(x) - mean) ** 2).mean(axes, keepdims=True) + epsilon)
    return (d(x) - mean) * inverse, mean, inverse


def batch_statistics(x, epsilon):
    axes = tuple(a for a in range(x.ndim) if a != 1)
    mean, variance = d(x).mean(axes), d(x).var(axes)
    return mean, variance, 1 / np.sqrt(variance + epsilon)


def batch_norm():
    for name, shape, epsilon, shift in (("images", (3, 5, 4, 6), 1e-5, 0), ("rows", (7, 3), 0.5, 2), ("a channel", (2, 1, 9), 1e-3, 0),
                                        ("eight channels, far from 0", (2, 8, 3, 5), 1e-5, 100)):
        x, g = rand(*shape) + np.float32(shift), rand(*shape)
        scale, bias, kept, spread = rand(shape[1]), rand(shape[1]), rand(shape[1]), abs(rand(shape[1]))
        mean, variance, inverse = batch_statistics(x, epsilon)
        across = (slice(None),) + (None,) * (x.ndim - 2)
        h = (d(x) - mean[across]) * inverse[across]
        case("batch-norm-stats", name, f":epsilon {epsilon}", [x], [mean, variance, inverse])
        case("batch-norm", name, f":epsilon {epsilon} :momentum 0.75", [x, scale, bias, kept, spread],
             [h * scale[across] + bias[across], 0.75 * kept + 0.25 * mean, 0.75 * spread + 0.25 * variance],
             "BatchNormalization" if shift == 0 else None, epsilon=epsilon, momentum=0.75, training_mode=1)
        narrow = [mean.astype(np.float32), inverse.astype(np.float32)]
        axes = tuple(a for a in range(x.ndim) if a != 1)
        away = (d(x) - d(narrow[0])[across]) * d(narrow[1])[across]
        case("batch-norm-gradient", name, "", [x, g, *narrow], [(d(g) * away).mean(axes), d(g).mean(axes)])
        kept = d(g) * (d(bias)[across] + away * d(scale)[across] > 0)
        case("batch-norm-gradient", name + ", behind a relu", "", [x, g, *narrow, scale, bias], [(kept * away).mean(axes), kept.mean(axes)])


def backward_weights():
    own = np.random.default_rng(73)

    def make(dtype, *shape):
        return (own.integers(-32, 33, shape) / (16 if dtype.kind == "f" else 1)).astype(dtype)

    def put(name, x, g, dtype=np.dtype(np.float32), group=1, **window):
        window = {key: list(window[key]) for key in ("kernel", "strides", "pads", "dilations")}
        x, g = make(dtype, *x), make(dtype, *g)
        w = conv_backward_weights(x, g, **window, group=group)
        case("conv-backward-weights", name, text(**window) + f" :group {group}", [x, g], w.astype(dtype))

    plain = dict(strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1))
    put("one tap", (3, 2, 3, 4), (3, 5, 3, 4), kernel=(1, 1), **plain)
    put("groups, uneven", (2, 4, 5, 6), (2, 6, 3, 5), kernel=(3, 2), strides=(2, 1), pads=(1, 0, 2, 1), dilations=(1, 2), group=2)
    put("each channel by itself", (2, 3, 6, 5), (2, 3, 3, 3), kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), dilations=(1, 1), group=3)
    put("elements that no window reaches", (2, 2, 9), (2, 3, 3), kernel=(2,), strides=(3,), pads=(0, 0), dilations=(1,))
    put("windows in the padding alone", (1, 1, 2), (1, 1, 8), kernel=(2,), strides=(1,), pads=(4, 3), dilations=(1,))
    put("three axes", (1, 2, 3, 3, 4), (1, 2, 2, 3, 2), kernel=(2, 2, 2), strides=(1, 1, 2), pads=(0, 1, 0, 0, 0, 1), dilations=(1, 1, 1))
    put("no images", (0, 2, 3, 3), (0, 2, 2, 2), kernel=(2, 2), **plain)
    put("integers", (2, 1, 4), (2, 2, 3), np.dtype(np.int32), kernel=(2,), strides=(1,), pads=(0, 0), dilations=(1,))


def norm_gradient(x, g, scale, axis, epsilon, centred):
    """By x, from the matrix of derivatives of every row, written out."""
    size = int(np.prod(x.shape[axis:]))
    out = []
    for row, by in zip(d(x).reshape(-1, size), (d(g) * d(scale)).reshape(-1, size)):
        away = row - (row.mean() if centred else 0)
        root = np.sqrt((away**2).mean() + epsilon)
        moves = np.eye(size) - (1 / size if centred else 0)  # of `away`, by each element of the row
        out.append(by @ (moves / root - np.outer(away, away @ moves) / (size * root**3)))
    return np.array(out).reshape(x.shape)


def softmax_gradient(y, g, axis):
    """The same, of softmax: its derivatives are diag(y) - y y^T."""
    rows, by = np.moveaxis(d(y), axis, -1), np.moveaxis(d(g), axis, -1)
    each = np.einsum("...i,ij->...ij", rows, np.eye(rows.shape[-1])) - np.einsum("...i,...j->...ij", rows, rows)
    return np.moveaxis(np.einsum("...j,...ji->...i", by, each), -1, axis)


def cases():
    x, w, b = rand(2, 4, 5, 6), rand(6, 2, 3, 2), rand(6)
    plain = dict(strides=[1, 1], pads=[0, 0, 0, 0], dilations=[1, 1])
    case("conv", "groups with bias", text(**plain) + " :group 2", [x, w, b], conv(x, w, b, [1, 1], [0] * 4, [1, 1], 2),
         "Conv", group=2)
    odd = dict(strides=[2, 1], pads=[1, 0, 2, 1], dilations=[1, 2])
    case("conv", "uneven", text(**odd) + " :group 2 :act relu", [x, w],
         np.maximum(conv(x, w, None, [2, 1], [1, 0, 2, 1], [1, 2], 2), 0))
    case("conv", "uneven without activation", text(**odd) + " :group 2", [x, w],
         conv(x, w, None, [2, 1], [1, 0, 2, 1], [1, 2], 2), "Conv", group=2, **odd)
    z = rand(2, 6, 3, 5)
    case("conv", "added, up to 6", text(**plain) + " :group 2 :act relu6", [x, w, b, z],
         np.clip(conv(x, w, b, [1, 1], [0] * 4, [1, 1], 2) + d(z), 0, 6))
    y = conv(x, w, b, [1, 1], [0] * 4, [1, 1], 2) + d(z)
    case("conv", "added, with a slope", text(**plain) + " :group 2 :act leaky-relu :slope 0.25", [x, w, b, z],
         np.where(y >= 0, y, y / 4))
    line, weights = rand(1, 3, 7), rand(2, 3, 3)
    case("conv", "one axis", text(strides=[2], pads=[1, 1], dilations=[1]), [line, weights],
         conv(line, weights, None, [2], [1, 1], [1], 1), "Conv", strides=[2], pads=[1, 1])
    whole, kernel = rng.integers(-9, 9, (1, 1, 4)).astype(np.int32), rng.integers(-9, 9, (1, 1, 2)).astype(np.int32)
    case("conv", "integers", text(strides=[1], pads=[0, 0], dilations=[1]), [whole, kernel],
         conv(whole, kernel, None, [1], [0, 0], [1], 1).astype(np.int32))
    wt = rand(4, 3, 3, 2)
    shape = dict(strides=[2, 3], pads=[1, 0, 0, 1], dilations=[1, 2])
    case("conv-transpose", "groups", text(**shape) + " :group 2 :more (1 0)", [x, wt],
         conv_transpose(x, wt, [2, 3], [1, 0, 0, 1], [1, 2], 2, [1, 0]), "ConvTranspose", group=2,
         output_padding=[1, 0], **shape)
    backward_weights()
    ceil = dict(kernel=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0], dilations=[1, 1])
    onnx = dict(kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0])
    top = pool(x, [3, 2], [2, 2], [1, 0, 1, 0], [3, 3], lambda v: v.max(0))
    case("max-pool", "overlapping", text(**ceil), [x], top, "MaxPool", **onnx)
    line = np.array([[[1, 5, 2, 5], [-3, -1, -2, -4]]], np.float32)
    case("max-pool-places", "the first of equals", text(kernel=[2], strides=[2], pads=[0, 0], dilations=[1]) + " :columns 0",
         [line], [np.array([[[5, 5], [-1, -2]]], np.float32), np.array([[[1, 3], [5, 6]]])], dtype=["float32", "int64"])
    own = np.random.default_rng(74)
    for name, shape, sizes, lists in [
            ("overlapping", (2, 2, 6, 5), (3, 2), dict(kernel=[3, 3], strides=[2, 2], pads=[1, 1, 0, 0], dilations=[1, 1])),
            ("apart, with a rest", (1, 3, 5, 7), (2, 3), dict(kernel=[2, 2], strides=[2, 2], pads=[0, 0, 0, 0], dilations=[1, 1])),
            ("dilated, one axis", (2, 1, 9), (5,), dict(kernel=[3], strides=[1], pads=[0, 0], dilations=[2])),
            ("three axes", (1, 1, 3, 4, 3), (2, 2, 2), dict(kernel=[2, 3, 2], strides=[1, 2, 2], pads=[0, 1, 0, 0, 0, 1],
                                                            dilations=[1, 1, 1])),
            ("windows in the padding alone", (1, 1, 2), (4,), dict(kernel=[1], strides=[1], pads=[1, 1], dilations=[1]))]:
        data = own.integers(-3, 4, shape).astype(np.float32)
        g = (own.integers(-32, 33, (*shape[:2], *sizes)) / 16).astype(np.float32)
        most, by_x = max_pool_gradient(data, g, **lists)
        case("max-pool-gradient", name, text(**lists), [data, most.astype(np.float32), g], by_x)
    case("average-pool", "without padding", text(**ceil), [x],
         pool(x, [3, 2], [2, 2], [1, 0, 1, 0], [3, 3], lambda v: v.mean(0)), "AveragePool", **onnx)
    case("average-pool", "with padding", text(**ceil) + " :count-pads 1", [x],
         pool(x, [3, 2], [2, 2], [1, 0, 1, 0], [3, 3], lambda v: v.sum(0) / 6), "AveragePool", count_include_pad=1, **onnx)
    case("lp-pool", "2", text(**ceil), [x],
         pool(x, [3, 2], [2, 2], [1, 0, 1, 0], [3, 3], lambda v: np.sqrt((v**2).sum(0))), "LpPool", **onnx)
    small = np.array([[[[1, 2], [3, 4]]]], np.float32)
    where = np.array([[[[5, 7], [13, 15]]]], np.int64)
    spread = np.zeros((1, 1, 4, 4), np.float32)
    spread.reshape(-1)[where.reshape(-1)] = [1, 2, 3, 4]
    case("max-unpool", "in the counted size", ":counted (4 4) :sizes (4 4)", [small, where], spread)
    case("max-unpool", "in a larger one", ":counted (4 4) :sizes (5 5)", [small, where], np.pad(spread, [(0, 0)] * 2 + [(0, 1)] * 2))
    y, mean, inverse = norm(x, 2, 1e-5)
    scale, bias = rand(5, 6), rand(5, 6)
    case("layer-norm", "two axes", ":axis 2", [x, scale, bias], y * scale + bias, "LayerNormalization", axis=2)
    case("layer-norm", "no scale", ":axis -1 :epsilon 0.5", [x], norm(x, 3, 0.5)[0])
    case("layer-norm-stats", "means and deviations", ":axis 2", [x, scale], [y * scale, mean, inverse])
    squares = 1 / np.sqrt((d(x) ** 2).mean(3, keepdims=True) + 1e-5)
    case("rms-norm", "last axis", "", [x, rand(6) * 0 + 2], d(x) * squares * 2)
    g, row = rand(2, 4, 5, 6), rand(6)
    case("norm-gradient", "two axes", ":axis 2", [x, g, scale], norm_gradient(x, g, scale, 2, 1e-5, True))
    case("norm-gradient", "no scale", ":axis -1 :epsilon 0.5", [x, g], norm_gradient(x, g, 1, 3, 0.5, True))
    case("norm-gradient", "of rms-norm", ":centred 0", [x, g, row], norm_gradient(x, g, row, 3, 1e-5, False))
    case("norm-gradient", "by scale", ":axis 2 :by scale", [x, g], d(g) * y)
    case("norm-gradient", "by scale, of rms-norm", ":centred 0 :by scale", [x, g], d(g) * d(x) * squares)
    shares = np.exp(x) / np.exp(x).sum(3, keepdims=True)
    case("softmax-gradient", "last axis", "", [shares, g], softmax_gradient(shares, g, 3))
    case("softmax-gradient", "axis 1", ":axis 1", [x, g], softmax_gradient(x, g, 1))
    sums = np.stack([(d(x)[:, max(0, c - 1):c + 2] ** 2).sum(1) for c in range(4)], 1)
    case("lrn", "three channels", ":size 3 :alpha 0.5", [x], d(x) / (1 + 0.5 / 3 * sums) ** 0.75, "LRN", size=3, alpha=0.5)
    batch_norm()
