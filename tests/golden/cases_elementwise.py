"""Cases of functions of one value, remainders, comparisons, bools and bits, and choices."""
import numpy as np
from make_ops import case, d

rng = np.random.default_rng(72)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
UNSIGNED = np.array([2**64 - 1, 2**63, 5, 0], np.uint64)


def rand(*shape):
    return (rng.integers(-64, 65, shape) / 16).astype(np.float32)


def functions():
    x = rand(3, 4)
    halves = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.49, -0.0], np.float32)
    inside = (rng.integers(-15, 16, (2, 5)) / 16).astype(np.float32)
    softplus = lambda v: np.logaddexp(v, 0)
    everywhere = {"abs": np.abs, "neg": np.negative, "sign": np.sign, "ceil": np.ceil, "floor": np.floor,
                  "round": np.round, "sin": np.sin, "cos": np.cos, "tan": np.tan, "atan": np.arctan, "sinh": np.sinh,
                  "cosh": np.cosh, "asinh": np.arcsinh, "softplus": softplus,
                  "softsign": lambda v: v / (1 + np.abs(v))}
    for op, f in everywhere.items():
        case(op, "values", "", [x], f(d(x)), op.capitalize())
    for op in ["ceil", "floor", "round", "sign"]:
        case(op, "halves", "", [halves], everywhere[op](d(halves)), op.capitalize())
    for op in ["abs", "neg", "ceil", "floor", "round", "sign", "softplus", "softsign"]:
        case(op, "special values", "", [SPECIAL], everywhere[op](d(SPECIAL)))
    for op, f in {"asin": np.arcsin, "acos": np.arccos, "atanh": np.arctanh}.items():
        case(op, "values", "", [inside], f(d(inside)), op.capitalize())
        case(op, "outside", "", [np.array([1.5, -2], np.float32)], np.array([np.nan, np.nan]))
    above = np.abs(x) + np.float32(1)
    case("acosh", "values", "", [above], np.arccosh(d(above)), "Acosh")
    case("log", "values", "", [above], np.log(d(above)), "Log")
    case("log", "special values", "", [SPECIAL], np.array([np.nan, np.inf, np.nan, -np.inf, -np.inf]))
    i = rng.integers(-9, 10, (2, 3)).astype(np.int32)
    smallest = np.array([-128, 127], np.int8)
    for op, f in {"abs": np.abs, "neg": np.negative, "sign": np.sign}.items():
        case(op, "integers", "", [i], f(i), op.capitalize())
        case(op, "the smallest integer", "", [smallest], f(smallest))
    case("abs", "unsigned", "", [UNSIGNED], UNSIGNED)
    case("sign", "unsigned", "", [UNSIGNED], np.sign(UNSIGNED))
    elu = lambda v, a: np.where(v > 0, v, a * np.expm1(v))
    case("elu", "default", "", [x], elu(d(x), 1), "Elu")
    case("elu", "alpha", ":alpha 0.5", [x], elu(d(x), 0.5), "Elu", alpha=0.5)
    case("elu", "gamma", ":alpha 1.5 :gamma 2.0", [x], 2 * elu(d(x), 1.5), "Selu", alpha=1.5, gamma=2.0)


def remainders():
    a, b = np.array([7, -7, 7, -7]), np.array([3, 3, -3, -3])
    case("mod", "integers", "", [a, b], np.mod(a, b), "Mod")
    case("mod", "integers with the sign of the first", ":fmod 1", [a, b], np.fmod(a, b), "Mod", fmod=1)
    case("mod", "unsigned", "", [UNSIGNED, np.uint64(10)], UNSIGNED % np.uint64(10), "Mod")
    x, y = rand(3, 4), np.array([1.5, -2, 0.75, 3], np.float32)
    case("mod", "floats", "", [x, y], np.mod(d(x), d(y)))
    case("mod", "floats with the sign of the first", ":fmod 1", [x, y], np.fmod(d(x), d(y)), "Mod", fmod=1)
    case("mod", "by nothing and of infinity", ":fmod 1", [np.array([1, np.inf, -5], np.float32),
         np.array([0, 2, np.inf], np.float32)], np.array([np.nan, np.nan, -5]))


def comparisons():
    x, row, column = rand(2, 3), rand(3), rand(2, 1)
    x[0, 0] = row[0] = column[1, 0] = 2
    table = {"equal": ("Equal", np.equal), "less": ("Less", np.less), "less-equal": ("LessOrEqual", np.less_equal)}
    near = np.array([2**62, 2**62 + 1, -1])
    for op, (onnx_op, f) in table.items():
        for name, a, b in [("row", x, row), ("column", column, x), ("scalar", x, np.float32(2)),
                           ("empty", x[:0], row)]:
            case(op, name, "", [a, b], f(a, b), onnx_op if a.size else None, dtype="bool")
        others = np.array([1, np.inf, np.inf, -0.0, 0.0], np.float32)
        case(op, "special values", "", [SPECIAL, others], f(SPECIAL, others), onnx_op, dtype="bool")
        case(op, "integers that floats do not tell apart", "", [near, near[[1, 1, 0]]], f(near, near[[1, 1, 0]]), onnx_op,
             dtype="bool")
        case(op, "unsigned", "", [UNSIGNED, np.uint64(6)], f(UNSIGNED, np.uint64(6)), onnx_op, dtype="bool")
    flags = np.array([True, False])
    case("equal", "bools", "", [flags, flags[::-1]], np.array([False, False]), "Equal")


def bits():
    p, q = np.array([0, 0, 1, 1], bool), np.array([[0, 1, 0, 1]], bool)
    i, j = np.array([12, -7, 255], np.int16), np.array([10, 3, -1], np.int16)
    for op, f in {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}.items():
        case(op, "bools", "", [p, q], f(p, q), op.capitalize())
        case(op, "integers", "", [i, j], f(i, j), "Bitwise" + op.capitalize())
        case(op, "unsigned", "", [UNSIGNED, np.uint64(6)], f(UNSIGNED, np.uint64(6)), "Bitwise" + op.capitalize())
    case("not", "bools", "", [p], ~p, "Not")
    case("not", "integers", "", [i], ~i, "BitwiseNot")
    case("not", "unsigned", "", [UNSIGNED], ~UNSIGNED, "BitwiseNot")
    a, by = np.array([1, 200, 255, 7], np.uint8), np.array([1, 2, 7, 8], np.uint8)
    case("shift-left", "bytes", "", [a, by], np.array([2, 32, 128, 0], np.uint8))
    case("shift-right", "bytes", "", [a, by], np.array([0, 50, 1, 0], np.uint8))
    signed, far = np.array([-8, 9, -1, -5], np.int8), np.array([1, 2, 8, -1], np.int8)
    case("shift-left", "signed", "", [signed, far], np.array([-16, 36, 0, 0], np.int8))
    case("shift-right", "signed", "", [signed, far], np.array([-4, 2, -1, -1], np.int8))
    case("shift-left", "long", "", [UNSIGNED, np.uint64(1)], UNSIGNED << np.uint64(1), "BitShift", direction="LEFT")
    case("shift-right", "long", "", [UNSIGNED, np.uint64(1)], UNSIGNED >> np.uint64(1), "BitShift", direction="RIGHT")


def choices():
    c, x, y = rng.integers(0, 2, (2, 3)).astype(bool), rand(2, 3), rand(3)
    case("where", "row", "", [c, x, y], np.where(c, x, y), "Where", dtype="float32")
    case("where", "column of conditions", "", [c[:, :1], x, np.float32(np.nan)], np.where(c[:, :1], x, np.nan), "Where",
         dtype="float32")
    near = np.array([2**62, 2**62 + 1, -1])
    case("where", "integers that floats do not tell apart", "", [c[0], near, near[::-1]],
         np.where(c[0], near, near[::-1]), "Where", dtype="int64")
    case("where", "bools", "", [c, c[:1], ~c], np.where(c, c[:1], ~c))
    case("where", "empty", "", [c[:0], x[:0], y], x[:0], dtype="float32")


def cases():
    functions()
    remainders()
    comparisons()
    bits()
    choices()
