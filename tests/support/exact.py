"""An oracle for tensors that shares nothing with the project: numpy, in wider arithmetic, with a bound for rounding.

A value (class T) is three things at once:
  x   what the element type gives: every elementwise operation is rounded to the type, a sum or a function is computed exactly
      (or as good as) and rounded once. Sums do not depend on the order of their terms.
  v   the same expression in 64 bits of mantissa and an exponent that nothing here leaves; rounded only where IEEE arithmetic
      fixes the bits.
  s   its size, T in docs/rules.md: the sum of the sizes of all terms, products multiplied out. What rounding may do to the
      value, in whatever order its sums are taken, is a number of unit roundoffs times s.
`d` says that the value is determined: no sum along an axis, product of matrices or function lies before it. Then v is x, and
s is the size of that.
"""
import math
import warnings

import numpy as np

try:
    import ml_dtypes
    BF16 = np.dtype(ml_dtypes.bfloat16)
except ImportError:
    BF16 = None

warnings.filterwarnings("ignore", category=RuntimeWarning)
L = np.longdouble
FLOATS = {"f16": np.dtype(np.float16), "bf16": BF16, "f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}
TYPES = dict(FLOATS, u8=np.dtype(np.uint8), i8=np.dtype(np.int8), u16=np.dtype(np.uint16), i16=np.dtype(np.int16),
             i32=np.dtype(np.int32), i64=np.dtype(np.int64), u32=np.dtype(np.uint32), u64=np.dtype(np.uint64),
             bool=np.dtype(np.bool_))
# half a unit in the last place of 1, the smallest normal number, the largest one
UNIT = {"f16": L(2) ** -11, "bf16": L(2) ** -8, "f32": L(2) ** -24, "f64": L(2) ** -53}
NORMAL = {"f16": L(2) ** -14, "bf16": L(2) ** -126, "f32": L(2) ** -126, "f64": L(2) ** -1022}
LARGEST = {"f16": L(65504), "bf16": L(2) ** 127 * (2 - L(2) ** -7), "f32": L(np.finfo(np.float32).max),
           "f64": L(np.finfo(np.float64).max)}


class Unsupported(Exception):
    """The oracle does not know this."""


class Tally:
    """What the evaluation of a graph met: its longest sum, and whether a value of it was not finite, or its size not."""

    def __init__(self):
        self.longest, self.finite = 1, True


tally = Tally()


class T:
    __slots__ = ("t", "x", "v", "s", "d")

    def __init__(self, t, x, v=None, s=None, d=True):
        self.t, self.x, self.d = t, x, d
        self.v = wide(x) if v is None or d else v
        self.s = np.maximum(np.abs(self.v), NORMAL.get(t, 0)) if s is None else s

    shape = property(lambda self: self.x.shape)
    real = property(lambda self: self.t in FLOATS)

    def move(self, f):
        """What only moves elements."""
        return T(self.t, f(self.x), f(self.v), f(self.s), self.d)


def wide(x):
    """As long doubles; ml_dtypes has no cast to them."""
    return (x.astype(np.float32) if x.dtype == BF16 else x).astype(L)


def tensor(t, x, d=True):
    return T(t, np.asarray(x, TYPES[t]), d=d)


def constant(t, x):
    """Of a size of at least the root of the smallest normal number: products of two constants are rounded to the type."""
    y = tensor(t, x)
    if y.real:
        y.s = np.maximum(y.s, np.sqrt(NORMAL[t]))
    return y


def narrow(v, t):
    """A long double rounded once to the type; through odd rounding where numpy would round twice."""
    v = np.asarray(v, L)
    if t == "f64":
        return v.astype(np.float64)
    if t == "f32":
        return v.astype(np.float32)
    # to 16 bits: first to f32 rounding to odd, which keeps what the second rounding has to know
    f = v.astype(np.float32)
    back = f.astype(L)
    bits = f.view(np.int32).copy()
    inexact = (back != v) & np.isfinite(back)
    away = inexact & (np.abs(back) > np.abs(v))
    bits = np.where(away, bits - 1, bits)
    bits = np.where(inexact, bits | 1, bits).astype(np.int32)
    return bits.view(np.float32).astype(FLOATS[t]).reshape(v.shape)


def to_integer(v, t):
    """Truncated, saturated at 64 bits, NaN is 0; then modulo the type's size."""
    v = np.where(np.isnan(v), L(0), np.trunc(v))
    if t == "u64":
        return np.clip(v, L(0), L(2) ** 64 - 1).astype(np.uint64)
    big = np.clip(v, -L(2) ** 63, L(2) ** 63 - 1).astype(np.int64)
    return big.astype(TYPES[t])


# ---- arithmetic -----------------------------------------------------------------------------------------

def real(t, x, v, s, d, ready=False):
    """A result of a floating-point type; x is rounded unless it is ready. s is at least the smallest normal number."""
    x = x if ready else narrow(x, t)
    v, s = (np.broadcast_to(np.asarray(p, L), x.shape) for p in (v, np.maximum(s, NORMAL[t])))
    if not d and tally.finite:
        tally.finite = bool(np.all(np.isfinite(wide(x))) and np.all(s <= LARGEST[t]))
    elif tally.finite:
        tally.finite = bool(np.all(np.isfinite(wide(x))))
    return T(t, x, v, None if d else s, d)


def whole(t, x, d=True):
    """A result of integers or bools. What comes of values that are not determined has no bound."""
    x = np.asarray(x, TYPES[t])
    return T(t, x) if d else T(t, x, wide(x), np.full(x.shape, L(np.inf)), False)


def integers(op, a, b):
    """In the type, wrapping; division truncates."""
    x, y = np.broadcast_arrays(a.x, b.x)
    if op == "div" or op.startswith("mod"):
        if np.any(y == 0):
            raise Unsupported("division of integers by zero")
        wide_x, wide_y = x.astype(object), y.astype(object)
        if op == "mod":
            out = wide_x - wide_y * (wide_x // wide_y)
        else:
            q = abs(wide_x) // abs(wide_y)
            q = np.where((wide_x < 0) != (wide_y < 0), -q, q)
            out = q if op == "div" else wide_x - q * wide_y
        bits = TYPES[a.t].itemsize * 8
        return whole(a.t, np.array([int(i) & (2 ** bits - 1) for i in np.ravel(out)], np.uint64)
                      .astype(TYPES[a.t]).reshape(x.shape), a.d and b.d)
    f = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum}[op]
    return whole(a.t, f(x, y), a.d and b.d)


def binary(op, a, b):
    if not a.real:
        return integers(op, a, b)
    t, d = a.t, a.d and b.d
    x, y = wide(a.x), wide(b.x)
    if op in ("add", "sub"):
        f = np.add if op == "add" else np.subtract
        return real(t, f(x, y), f(a.v, b.v), a.s + b.s, d)
    if op == "mul":
        y = real(t, x * y, a.v * b.v, a.s * b.s, d)
        if d:  # a rule may multiply the constant by another one first, where it is too small for that to be exact
            y.s = np.maximum(y.s, a.s * b.s)
        return y
    if op == "div":
        return real(t, x / y, a.v / b.v, a.s * b.s / (b.v * b.v), d)
    if op in ("min", "max"):
        less = (lambda p, q: p < q) if op == "min" else (lambda p, q: p > q)
        first = np.isnan(x) | less(x, y)
        chosen = np.isnan(a.v) | less(a.v, b.v)
        s = np.where(surely(np.abs(a.v - b.v), t, a.s + b.s), np.where(chosen, a.s, b.s), np.maximum(a.s, b.s))
        return real(t, np.where(first, a.x, b.x), np.where(chosen, a.v, b.v), s, d, True)
    if op == "pow":
        v = np.power(a.v, b.v)
        s = np.abs(v) + np.abs(b.v * np.power(a.v, b.v - 1)) * a.s + np.abs(v * np.log(np.abs(a.v))) * b.s
        power = np.unique(y)
        squares = power.size == 1 and power[0] in (1, 2)
        return real(t, np.power(x, y), v, s, d and squares)
    if op in ("mod", "fmod"):
        f = np.fmod if op == "fmod" else np.mod
        return real(t, f(x, y), f(a.v, b.v), L(np.inf), d)
    raise Unsupported(op)


def each(f, v):
    return np.array([f(float(i)) for i in np.ravel(v)], L).reshape(np.shape(v))


def sigmoid(v):
    z = np.exp(-np.abs(v))
    return np.where(v >= 0, 1 / (1 + z), z / (1 + z)) + v * 0


def softplus(v):
    return np.where(np.isnan(v), v, np.maximum(v, 0) + np.log1p(np.exp(-np.abs(v))))


def tanh_gelu(v):  # with a sigmoid: 1 + tanh would cancel
    return v * sigmoid(L("1.59576912160573071175978423973752747") * (v + L("0.044715") * v * v * v))


SIXTH = L(1) / 6
EXACT = {  # determined: correctly rounded, or no rounding at all
    "relu": lambda v: np.where((v > 0) | np.isnan(v), v, L(0)), "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt,
}
FUNCTIONS = {
    "sigmoid": lambda v: np.where(np.isfinite(v), sigmoid(np.where(np.isfinite(v), v, 0)),
                                  np.where(np.isnan(v), v, (v > 0).astype(L))),
    "tanh": np.tanh, "erf": lambda v: each(math.erf, v), "exp": np.exp, "log": np.log, "softplus": softplus,
    "gelu": lambda v: v * each(math.erfc, -v / np.sqrt(L(2))) / 2, "gelu-tanh": tanh_gelu,
    "silu": lambda v: v * sigmoid(v), "quick-gelu": lambda v: v * sigmoid(L(1.702) * v),
    "mish": lambda v: v * np.tanh(softplus(v)), "sin": np.sin, "cos": np.cos,
    "hard-swish": lambda v: v * np.minimum(np.maximum(v * SIXTH + L(0.5), 0), 1),
}
JUMPS = {"floor": np.floor, "ceil": np.ceil, "round": np.rint, "sign": np.sign}


def slope(op, f, v):
    """|f'|."""
    if op == "exp":
        return np.exp(v)
    if op in ("log", "sqrt"):
        return np.abs(1 / v) if op == "log" else 1 / (2 * np.sqrt(v))
    h = L(2) ** -20 * np.maximum(np.abs(v), 1)
    return np.abs(f(v + h) - f(v - h)) / (2 * h)


def surely(gap, t, s):
    """Where a choice cannot fall out otherwise by rounding: at a kink the size of what is not chosen counts, too."""
    return gap > 256 * UNIT[t] * s


def unary(op, a, **attrs):
    if not a.real and op in ("relu", "neg", "abs", "sign"):
        f = {"relu": lambda x: np.maximum(x, 0), "neg": lambda x: -x, "abs": np.abs, "sign": np.sign}[op]
        return whole(a.t, f(a.x).astype(TYPES[a.t]), a.d)
    x = wide(a.x)
    if op in JUMPS:
        f = lambda v: np.where(np.isnan(v), v, JUMPS[op](v))  # noqa: E731
        return real(a.t, f(x), f(a.v), L(np.inf), a.d)
    if op == "leaky-relu":
        alpha = L(narrow(L(attrs["alpha"]), a.t)) if a.t == "f64" else L(attrs["alpha"])
        f = lambda v: np.where(v >= 0, v, v * alpha)  # noqa: E731
        return real(a.t, np.where(np.isnan(x), x, f(x)), f(a.v), np.where(a.v >= 0, a.s, a.s * np.abs(alpha)), a.d)
    if op in ("relu", "neg", "abs"):
        f = EXACT[op]
        return real(a.t, f(x), f(a.v), np.where((op == "relu") & surely(-a.v, a.t, a.s), 0, a.s), a.d)
    if op == "elu":
        g, alpha = L(attrs.get("gamma", 1)), L(attrs["alpha"])
        f = lambda v: np.where(v > 0, g * v, g * alpha * np.expm1(v))  # noqa: E731
    elif op == "sqrt":
        f = np.sqrt
    elif op in FUNCTIONS:
        f = FUNCTIONS[op]
    else:
        raise Unsupported(op)
    v = f(a.v)
    return real(a.t, f(x), v, np.abs(v) + slope(op, f, a.v) * a.s, a.d and op == "sqrt")


def clip(a, low, high):
    if not a.real:
        least, most = np.iinfo(TYPES[a.t]).min, np.iinfo(TYPES[a.t]).max
        low, high = (int(min(max(b, least), most)) for b in (low, high))
        return whole(a.t, np.minimum(np.maximum(a.x, low), high).astype(TYPES[a.t]), a.d)
    low, high = (wide(narrow(L(b), a.t)) for b in (low, high))

    def f(v, s):
        s = np.where(surely(low - v, a.t, s), np.abs(low), s)
        s = np.where(surely(v - high, a.t, s), np.abs(high), s)
        v = np.where(v < low, low, v)
        return np.where(v > high, high, v), s
    v, s = f(a.v, a.s)
    return real(a.t, f(wide(a.x), a.s)[0], v, s, a.d)


def cast(a, t):
    if a.t == t:
        return a
    if t in FLOATS:
        # in a wider type what the narrower one left weighs more units; what IEEE arithmetic determines has left nothing
        s = a.s if a.d else a.s * max(L(1), UNIT.get(a.t, L(0)) / UNIT[t])
        return real(t, narrow(wide(a.x), t), a.v, s, a.d, True)
    if t == "bool":
        return whole(t, a.x != 0, a.d)
    return whole(t, to_integer(wide(a.x), t) if a.real else a.x.astype(TYPES[t]), a.d)


def compare(op, a, b):
    f = {"equal": np.equal, "less": np.less, "less-equal": np.less_equal, "greater": np.greater,
         "greater-equal": np.greater_equal}[op]
    return whole("bool", f(a.x, b.x), a.d and b.d)


def bits(op, a, b):
    f = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[op]
    return whole(a.t, f(a.x, b.x), a.d and b.d)


def choose(c, a, b):
    x = np.where(c.x, a.x, b.x).astype(a.x.dtype)
    d = c.d and a.d and b.d
    if not a.real:
        return whole(a.t, x, d)
    s = np.where(c.x, a.s, b.s)
    return real(a.t, x, np.where(c.x, a.v, b.v), s if c.d else s + L(np.inf), d, True)


# ---- sums -----------------------------------------------------------------------------------------------

def total(terms, axis=-1):
    """The same for every order of the terms."""
    tally.longest = max(tally.longest, terms.shape[axis])
    return np.sort(terms, axis=axis).sum(axis=axis)


class Partial:
    """A sum in the accumulator: x is not rounded to the type yet."""

    def __init__(self, t, x, v, s):
        self.t, self.x, self.v, self.s = t, x, v, s

    def move(self, f):
        return Partial(self.t, f(self.x), f(self.v), f(self.s))

    def plus(self, a):
        return Partial(self.t, self.x + wide(a.x), self.v + a.v, self.s + a.s)

    def times(self, c):
        c = L(c)
        tally.finite = tally.finite and bool(np.all(self.s <= LARGEST[self.t]))  # before it is scaled down again
        return self if c == 1 else Partial(self.t, self.x * c, self.v * c, self.s * np.abs(c))

    def done(self, act="none", slope=0.0):
        y = real(self.t, self.x, self.v, self.s, False)
        if act == "relu6":
            return clip(y, 0.0, 6.0)
        return y if act == "none" else unary(act, y, alpha=slope)


class Whole:
    """A sum of integers, in their type."""

    def __init__(self, t, x, d):
        self.t, self.x, self.d = t, x, d

    def move(self, f):
        return Whole(self.t, f(self.x), self.d)

    def plus(self, a):
        return Whole(self.t, self.x + a.x, self.d and a.d)

    def times(self, c):
        return self if c == 1 else Whole(self.t, (self.x.astype(np.int64) * int(c)).astype(self.x.dtype), self.d)

    def done(self, act="none"):
        return whole(self.t, np.maximum(self.x, 0) if act == "relu" else self.x, self.d)


def sum_of_products(a, b):
    """a and b broadcast against each other; the last axis is summed."""
    return Partial(a.t, total(wide(a.x) * wide(b.x)), (a.v * b.v).sum(-1), np.maximum(a.s * b.s, NORMAL[a.t]).sum(-1))


def swap(a):
    return a.move(lambda x: np.swapaxes(x, -1, -2))


def matmul(a, b):
    """numpy's matmul, not rounded yet."""
    if not a.real:
        return Whole(a.t, np.matmul(a.x, b.x), a.d and b.d)
    row, column = len(a.shape) == 1, len(b.shape) == 1
    a = a.move(lambda x: x[None, :]) if row else a
    b = b.move(lambda x: x[:, None]) if column else b
    out = sum_of_products(a.move(lambda x: x[..., :, None, :]), swap(b).move(lambda x: x[..., None, :, :]))
    if row:
        out = out.move(lambda x: x[..., 0, :])
    return out.move(lambda x: x[..., 0]) if column else out


def linear(w, b, x):
    out = matmul(x, swap(w))
    return out if b is None else out.plus(b)


def reduce(op, a, axes, keep):
    rank = len(a.shape)
    axes = sorted(i % rank for i in axes)
    rest = [i for i in range(rank) if i not in axes]
    shape = [1 if i in axes else n for i, n in enumerate(a.shape) if keep or i not in axes]
    count = int(np.prod([a.shape[i] for i in axes], dtype=np.int64))
    flat = a.move(lambda x: np.transpose(x, rest + axes).reshape([a.shape[i] for i in rest] + [count]))
    if op in ("max", "min"):
        if count == 0:
            raise Unsupported("the largest of nothing")
        f = np.max if op == "max" else np.min
        x = narrow(f(wide(flat.x), -1), a.t) if a.real else f(flat.x, -1)
        return T(a.t, x, f(flat.v, -1), None if a.d else flat.s.max(-1), a.d).move(lambda p: p.reshape(shape))
    if not a.real:
        s = flat.x.sum(-1, dtype=np.int64)
        if op == "mean":
            if count == 0:
                raise Unsupported("the mean of no integers")
            s = np.sign(s) * (np.abs(s) // count)
        return whole(a.t, s.astype(TYPES[a.t]).reshape(shape), a.d)
    out = Partial(a.t, total(wide(flat.x)), flat.v.sum(-1), flat.s.sum(-1))
    out = out.move(lambda p: p / L(count)) if op == "mean" else out
    return out.done().move(lambda p: p.reshape(shape))


# ---- composite ------------------------------------------------------------------------------------------

def softmax(a, axis):
    a = T(a.t, a.x, a.v, a.s, False)  # a function of a: what is below it in here is no value of the graph
    z = unary("exp", binary("sub", a, reduce("max", a, [axis], True)))
    parts = binary("div", z, reduce("sum", z, [axis], True))
    x = wide(a.x)
    y = np.exp(x - x.max(axis, keepdims=True)) if x.size else x
    sums = np.expand_dims(total(np.moveaxis(y, axis, -1)), axis % max(y.ndim, 1))
    return T(a.t, narrow(y / sums, a.t), parts.v, parts.s, False)


def softmax_gradient(y, g, axis):
    y, g = (T(a.t, a.x, a.v, a.s, False) for a in (y, g))
    parts = binary("mul", y, binary("sub", g, reduce("sum", binary("mul", y, g), [axis], True)))
    a, b = wide(y.x), wide(g.x)
    sums = np.expand_dims(total(np.moveaxis(a * b, axis, -1)), axis % max(a.ndim, 1))
    return T(y.t, narrow(a * (b - sums), y.t), parts.v, parts.s, False)


def norm(a, axis, epsilon, scale=None, bias=None, centre=True):
    axes = list(range(axis % len(a.shape), len(a.shape)))
    number = T(a.t, narrow(L(epsilon), a.t), L(epsilon), L(epsilon), False)
    c = binary("sub", a, reduce("mean", a, axes, True)) if centre else a
    root = unary("sqrt", binary("add", reduce("mean", binary("mul", c, c), axes, True), number))
    parts = binary("div", c, root)
    x = wide(a.x)
    rows = x.shape[:axes[0]]
    n = int(np.prod(x.shape[axes[0]:], dtype=np.int64))

    def mean(p):
        return total(p.reshape(rows + (n,))).reshape(rows + (1,) * len(axes)) / L(max(n, 1))
    y = x - mean(x) if centre else x
    y = y / np.sqrt(mean(y * y) + L(epsilon))
    for f, other in (("mul", scale), ("add", bias)):
        if other is not None:
            parts = binary(f, parts, other)
            y = y * wide(other.x) if f == "mul" else y + wide(other.x)
    return T(a.t, narrow(y, a.t), parts.v, parts.s, False)


def shares(q, k, mask, scale, fill, shown, normalized=1):
    """Of keys [.. width keys]; scores as they are where nothing is normalized."""
    scores = matmul(q, k).times(scale).done()
    if mask is not None and mask.t == "bool":
        number = tensor(q.t, narrow(L(fill), q.t))
        scores = choose(mask, scores, number) if shown else choose(mask, number, scores)
    elif mask is not None:
        scores = binary("add", scores, mask)
    return softmax(scores, -1) if normalized else scores


def attention(q, k, v, mask, trans_k=1, rows_first=0, scale=1.0, fill=-np.inf, shown=0, normalized=1):
    """What its parts give one after the other."""
    out = matmul(shares(q, swap(k) if trans_k else k, mask, scale, fill, shown, normalized), v).done()
    if rows_first:
        at = len(out.shape) - 2
        out = out.move(lambda x: np.moveaxis(x, at, at - rows_first))
    return out


def linear_gradient(g, x, turned=0):
    return [(matmul(swap(x), g) if turned else matmul(swap(g), x)).done(), reduce("sum", g, [0], False)]


def attention_gradient(q, k, v, y, g, mask, rows_first=0, scale=1.0, fill=-np.inf, shown=0):
    """What differentiation makes of the parts."""
    turn = (lambda a: a.move(lambda x: np.swapaxes(x, -2, -3))) if rows_first else (lambda a: a)
    q, k, v, y, g = map(turn, (q, k, v, y, g))
    p = shares(q, swap(k), mask, scale, fill, shown)
    along = reduce("sum", binary("mul", y, g), [-1], True)
    d = binary("mul", p, binary("sub", matmul(g, swap(v)).done(), along))
    if mask is not None and mask.t == "bool":
        zero = tensor(q.t, narrow(L(0), q.t))
        d = choose(mask, d, zero) if shown else choose(mask, zero, d)
    by_q, by_k, by_v = matmul(d, k).times(scale), matmul(swap(d), q).times(scale), matmul(swap(p), g)
    return [turn(a.done()) for a in (by_q, by_k, by_v)]


def conv(x, w, b, z, strides, pads, dilations, group, act="none", slope=0.0):
    """x [N C spatial...], w [M C/group kernel...]; what lies in the pads is no term."""
    if not x.real:
        raise Unsupported("a convolution of integers")
    n = len(strides)
    kernel, spatial = w.shape[2:], x.shape[2:]
    sizes = [(spatial[i] + pads[i] + pads[n + i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1 for i in range(n)]
    if any(s < 0 for s in sizes):
        raise Unsupported("a negative size")
    batch, channels, out_channels = x.shape[0], x.shape[1], w.shape[0]
    each = max(out_channels // group, 1)
    parts = ([], [], [])
    if 0 in spatial or channels < group:
        raise Unsupported("an empty image")
    for place in np.ndindex(*kernel):
        index, inside = [], np.ones([1] * n, bool)
        for i in range(n):
            at = np.arange(sizes[i]) * strides[i] - pads[i] + place[i] * dilations[i]
            inside = inside & ((at >= 0) & (at < spatial[i])).reshape([-1 if j == i else 1 for j in range(n)])
            index.append(np.clip(at, 0, spatial[i] - 1))
        grid = (slice(None), slice(None)) + np.ix_(*index)
        for c in range(channels // group):
            rows = np.arange(out_channels) // each * (channels // group) + c
            xs = x.move(lambda a: a[:, rows][grid])
            ws = w.move(lambda a: a[(slice(None), c) + place].reshape([1, out_channels] + [1] * n))
            for to, part in zip(parts, (wide(xs.x) * wide(ws.x), xs.v * ws.v, np.maximum(xs.s * ws.s, NORMAL[x.t]))):
                to.append(np.where(inside, part, L(0)))
    xs, vs, ss = (np.stack(part, -1) for part in parts)
    out = Partial(x.t, total(xs), vs.sum(-1), ss.sum(-1))
    if b is not None:
        out = out.plus(b.move(lambda a: a.reshape([1, -1] + [1] * n)))
    return (out if z is None else out.plus(z)).done(act, slope)
