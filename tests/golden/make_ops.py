#!/usr/bin/env python3
"""Writes tests/golden/ops/<operator>.hyp: small cases of every operator with the results that numpy gives in
double precision, each checked here against onnxruntime where ONNX has the operator. The cases of a family of operators
are below or in cases_<family>.py, which has its own random numbers. Run it again after adding an operator; the tests
read the files only."""
import importlib
import math
import pathlib
import sys

import ml_dtypes
import numpy as np
import onnxruntime
from onnx import TensorProto, helper

HERE = pathlib.Path(__file__).parent / "ops"
NAMES = {"float32": "f32", "float64": "f64", "float16": "f16", "int64": "i64", "int32": "i32", "int16": "i16", "uint8": "u8",
         "int8": "i8", "uint64": "u64", "bool": "bool", "bfloat16": "bf16", "float8_e4m3fn": "f8e4m3"}
F8, BF16 = ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16
files = {}
rng = np.random.default_rng(7)


def rand(*shape, scale=2.0):
    return np.round(rng.standard_normal(shape) * scale * 16).astype(np.float32) / np.float32(16)


def ints(*shape, low=-9, high=10, dtype=np.int64):
    return rng.integers(low, high, shape).astype(dtype)


def number(x):
    if isinstance(x, (bool, np.bool_)):
        return str(int(x))
    if isinstance(x, (int, np.integer)):
        return str(int(x))
    return repr(float(x)) if math.isfinite(x) else str(float(x))


def type_text(dtype, shape):
    return "(" + " ".join([NAMES[np.dtype(dtype).name], *map(str, shape)]) + ")"


def tensor(a, dtype=None):
    a = np.asarray(a)
    return "(tensor " + " ".join([type_text(dtype or a.dtype, a.shape), *map(number, a.reshape(-1))]) + ")"


def check_ort(op_type, attrs, inputs, expected, dtypes):
    names = ["" if a is None else f"i{k}" for k, a in enumerate(inputs)]
    feeds = {n: a for n, a in zip(names, inputs) if n}
    outs = [f"o{k}" for k in range(len(expected))]
    graph = helper.make_graph(
        [helper.make_node(op_type, names, outs, **attrs)], "g",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in feeds.items()],
        [helper.make_tensor_value_info(o, helper.np_dtype_to_tensor_dtype(np.dtype(t)), None)
         for o, t in zip(outs, dtypes)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for got, want in zip(session.run(None, feeds), expected):
        want = np.asarray(want)
        assert got.shape == want.shape, (op_type, got.shape, want.shape)
        tolerance = 2e-3 if got.dtype == np.float16 else 2e-6
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=tolerance,
                                   err_msg=op_type)


def case(op, name, attrs, inputs, expected, onnx_op=None, dtype=None, extra=(), onnx_inputs=None, **onnx_attrs):
    """One node `(op attrs inputs)`; inputs None are absent. expected: one array or a list; dtype: element type of the
    results when it is not that of the first input (numpy computes in double), or a list of them."""
    outputs = list(expected) if isinstance(expected, (list, tuple)) else [expected]
    inputs = [None if a is None else np.asarray(a) for a in inputs]
    first = next(a for a in inputs if a is not None)
    dtypes = dtype if isinstance(dtype, list) else [dtype or first.dtype] * len(outputs)
    if onnx_op:
        check_ort(onnx_op, onnx_attrs, onnx_inputs if onnx_inputs is not None else [*inputs, *extra], outputs, dtypes)
    refs = " ".join("none" if a is None else f"%{chr(97 + i)}" for i, a in enumerate(inputs))
    results = [f"%y{i}" for i in range(len(outputs))]
    left = results[0] if len(results) == 1 else "(" + " ".join(results) + ")"
    lines = [f'(case "{name}"', '  (graph ""']
    lines += [f"    (input %{chr(97 + i)} {type_text(a.dtype, a.shape)})" for i, a in enumerate(inputs) if a is not None]
    lines.append(f"    ({left} ({' '.join(filter(None, [op, attrs, refs]))}))")
    lines += [f'    (output "y{i}" %y{i})' for i in range(len(outputs))]
    lines[-1] += ")"
    lines += ["  " + tensor(a) for a in inputs if a is not None]
    lines.append("  (expect")
    lines += ["    " + tensor(np.asarray(o), t) for o, t in zip(outputs, dtypes)]
    lines[-1] += "))"
    files.setdefault(op, []).append("\n".join(lines))


def d(a):
    return np.asarray(a, np.float64)


erf = np.vectorize(math.erf, otypes=[np.float64])
relu = lambda x: np.maximum(x, 0)
gelu = lambda x: x / 2 * (1 + erf(x / math.sqrt(2)))
gelu_tanh = lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
sigmoid = lambda x: 1 / (1 + np.exp(-x))
ACTS = {"none": lambda x: x, "relu": relu, "gelu": gelu, "gelu-tanh": gelu_tanh, "sigmoid": sigmoid, "tanh": np.tanh,
        "silu": lambda x: x * sigmoid(x), "quick-gelu": lambda x: x * sigmoid(1.702 * x),
        "hard-swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1), "mish": lambda x: x * np.tanh(np.log1p(np.exp(x)))}


def linear(w, b, x):
    y = d(x) @ d(w).T
    return y if b is None else y + d(b)


def products():
    w, b, x = rand(3, 4), rand(3), rand(2, 4)
    case("linear", "matrix", "", [w, b, x], linear(w, b, x), "Gemm", onnx_inputs=[x, w, b], transB=1)
    case("linear", "no bias", "", [w, None, x], linear(w, None, x))
    case("linear", "vector", "", [w, b, x[0]], linear(w, b, x[0]))
    x4 = rand(2, 1, 3, 4)
    case("linear", "rank 4", "", [w, b, x4], linear(w, b, x4))
    case("linear", "empty batch", "", [w, b, rand(0, 4)], np.zeros((0, 3)))
    case("linear", "empty inner", "", [rand(3, 0), b, rand(2, 0)], np.broadcast_to(d(b), (2, 3)))
    square, rows = rand(3, 3), rand(3, 3)
    case("linear", "square", "", [square, b, rows], linear(square, b, rows))
    wi, xi = ints(3, 4), ints(2, 4)
    case("linear", "integers", "", [wi, None, xi], xi @ wi.T)
    for act, f in ACTS.items():
        case("fused-linear", act, f":act {act}", [w, b, x], f(linear(w, b, x)))
    case("fused-linear", "integers", ":act relu", [wi, None, xi], relu(xi @ wi.T))
    w1, b1, w2, b2, w3, x3 = rand(5, 4), rand(5), rand(2, 5, scale=1), rand(2), rand(3, 2), rand(2, 2, 4)
    case("fused-mlp", "two layers", ":acts (relu none)", [w1, b1, w2, b2, x], relu(linear(w1, b1, x)) @ d(w2).T + d(b2))
    hidden = np.tanh(gelu(linear(w1, None, x)) @ d(w2).T + d(b2))
    case("fused-mlp", "three layers, biases absent", ":acts (gelu tanh sigmoid)", [w1, None, w2, b2, w3, None, x],
         sigmoid(hidden @ d(w3).T))
    case("fused-mlp", "rank 3", ":acts (relu relu)", [w1, b1, w2, None, x3], relu(relu(linear(w1, b1, x3)) @ d(w2).T))

    for name, sa, sb in [("matrices", (2, 3), (3, 4)), ("vectors", (3,), (3,)), ("vector by matrix", (3,), (3, 4)),
                         ("matrix by vector", (2, 3), (3,)), ("batch", (2, 2, 3), (2, 3, 2)),
                         ("batch broadcast", (2, 1, 2, 3), (3, 3, 2)), ("vector by batch", (3,), (2, 3, 2)),
                         ("batch by vector", (2, 2, 3), (3,)), ("empty", (0, 3), (3, 2)),
                         ("empty inner", (2, 0), (0, 2))]:
        a, c = rand(*sa), rand(*sb)
        case("matmul", name, "", [a, c], np.matmul(d(a), d(c)), None if 0 in sa else "MatMul")
    a, c = rand(2, 3, 2), rand(2, 4, 3)
    case("matmul", "both transposed, scaled", ":trans-a 1 :trans-b 1 :alpha 0.5", [a, c],
         0.5 * np.matmul(d(a).swapaxes(1, 2), d(c).swapaxes(1, 2)))
    a, c = ints(2, 3, dtype=np.int32), ints(3, 2, dtype=np.int32)
    case("matmul", "integers", "", [a, c], a @ c, "MatMul")

    a, c = rand(2, 3), rand(3, 4)
    for name, addend in [("c matrix", rand(2, 4)), ("c row", rand(4)), ("c column", rand(2, 1)), ("c scalar", rand())]:
        case("gemm", name, ":alpha 0.5 :beta 2.0", [a, c, addend], 0.5 * d(a) @ d(c) + 2 * d(addend), "Gemm", alpha=0.5,
             beta=2.0)
    case("gemm", "no c", "", [a, c], d(a) @ d(c), "Gemm")
    at, ct, row = rand(3, 2), rand(4, 3), rand(4)
    case("gemm", "both transposed", ":trans-a 1 :trans-b 1", [at, ct, row], d(at).T @ d(ct).T + d(row), "Gemm", transA=1,
         transB=1)
    case("gemm", "empty", "", [rand(0, 3), c, row], np.zeros((0, 4)))


def elementwise():
    a, row, column, other = rand(2, 3), rand(3), rand(2, 1), rand(2, 3)
    other[other == 0] = 1
    row[row == 0] = 1
    column[column == 0] = 1
    i, j = ints(2, 3), ints(3, low=1)
    table = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "min": np.minimum,
             "max": np.maximum}
    for op, f in table.items():
        onnx_op = op.capitalize()
        for name, x, y in [("same shape", a, other), ("row", a, row), ("column", column, row), ("scalar", rand(), other),
                           ("empty", rand(0, 3), row)]:
            case(op, name, "", [x, y], f(d(x), d(y)), None if x.size == 0 else onnx_op)
        exact = np.trunc(i / j).astype(np.int64) if op == "div" else f(i, j)
        case(op, "integers", "", [i, j], exact, onnx_op)
    nan = np.array([np.nan, 1, np.inf, -np.inf], np.float32)
    case("min", "nan and infinity", "", [nan, np.array([1, np.nan, 2, 2], np.float32)], np.array([np.nan, np.nan, 2, -np.inf]))
    case("max", "nan and infinity", "", [nan, np.array([1, np.nan, 2, 2], np.float32)], np.array([np.nan, np.nan, np.inf, 2]))
    big = np.array([2**64 - 1, 5], np.uint64)
    case("div", "unsigned", "", [big, np.array([2, 2], np.uint64)], np.array([2**63 - 1, 2], np.uint64))
    case("add", "wraps", "", [np.array([127, -128], np.int8), np.array([1, -1], np.int8)], np.array([-128, 127], np.int8))
    base = np.abs(rand(2, 3)) + np.float32(0.5)
    case("pow", "floats", "", [base, row], d(base) ** d(row), "Pow")
    case("pow", "square of negatives", "", [a, np.float32(2)], d(a) ** 2, "Pow")
    case("pow", "integer exponent", "", [a, np.array([3], np.int64)], d(a) ** 3, "Pow")
    case("pow", "integers", "", [i, np.array([0, 1, 3])], i ** np.array([0, 1, 3]), "Pow")
    case("pow", "integer to a float", "", [np.array([4, 9]), np.float32(0.5)], np.array([2, 3]), "Pow")

    x = np.concatenate([rand(2, 5), [[-40, 40, 0, -0.0, 0.5]]]).astype(np.float32)
    unary = {"relu": (relu, "Relu"), "sigmoid": (sigmoid, "Sigmoid"), "tanh": (np.tanh, "Tanh"), "gelu": (gelu, "Gelu"),
             "erf": (erf, "Erf")}
    for op, (f, onnx_op) in unary.items():
        case(op, "values", "", [x], f(d(x)), onnx_op)
        case(op, "scalar", "", [np.float32(0.75)], f(np.float64(0.75)), onnx_op)
    case("gelu-tanh", "values", "", [x], gelu_tanh(d(x)), "Gelu", approximate="tanh")
    for op, name in {"silu": None, "quick-gelu": None, "hard-swish": "HardSwish", "mish": "Mish"}.items():
        case(op, "values", "", [x], ACTS[op](d(x)), name)
        case(op, "large", "", [np.array([-30, 30], np.float32)], ACTS[op](np.array([-30.0, 30.0])))
    case("leaky-relu", "default", "", [x], np.where(x >= 0, d(x), 0.01 * d(x)), "LeakyRelu")
    case("leaky-relu", "alpha", ":alpha 0.25", [x], np.where(x >= 0, d(x), 0.25 * d(x)), "LeakyRelu", alpha=0.25)
    case("relu", "integers", "", [i], relu(i))
    case("relu", "nan", "", [np.array([np.nan, -np.inf], np.float32)], np.array([np.nan, 0]))
    small = rand(2, 3)
    case("exp", "values", "", [small], np.exp(d(small)), "Exp")
    case("sqrt", "values", "", [np.abs(small)], np.sqrt(np.abs(d(small))), "Sqrt")
    case("sqrt", "negative", "", [np.array([-1, 4], np.float32)], np.array([np.nan, 2]))
    case("clip", "both", ":min -1.0 :max 1.5", [x], np.clip(d(x), -1, 1.5))
    case("clip", "low only", ":min 0.25", [x], np.maximum(d(x), 0.25))
    case("clip", "max wins", ":min 2.0 :max 1.0", [x], np.full(x.shape, 1.0))
    case("clip", "integers", ":min -2.5 :max 3.5", [i], np.clip(i, -2, 3))
    floats = np.array([-1.75, 0, 0.5, 2.5, 100.25], np.float32)
    case("cast", "to integer", ":to i32", [floats], floats.astype(np.int32), "Cast", dtype="int32", to=TensorProto.INT32)
    case("cast", "to bool", ":to bool", [floats], floats.astype(bool), "Cast", dtype="bool", to=TensorProto.BOOL)
    case("cast", "to half", ":to f16", [floats], d(floats), "Cast", dtype="float16", to=TensorProto.FLOAT16)
    case("cast", "to double", ":to f64", [floats], d(floats), "Cast", dtype="float64", to=TensorProto.DOUBLE)
    case("cast", "from integer", ":to f32", [i], d(i), "Cast", dtype="float32", to=TensorProto.FLOAT)
    case("cast", "narrows", ":to u8", [np.array([-1, 256, 300])], np.array([255, 0, 44]), "Cast", dtype="uint8",
         to=TensorProto.UINT8)


def i64(*values):
    return np.array(values, np.int64)


def movement():
    x = rand(2, 3, 4)
    for op in ["identity", "dropout"]:
        case(op, "values", "", [x], x, op.capitalize())
    case("dropout", "at inference whatever the ratio", ":ratio 0.75", [x], x)
    case("reshape", "values", ":shape (4 1 6)", [x], x.reshape(4, 1, 6), "Reshape", extra=[i64(4, 1, 6)])
    case("flatten", "default", "", [x], x.reshape(2, 12), "Flatten")
    case("flatten", "axis 0", ":axis 0", [x], x.reshape(1, 24), "Flatten", axis=0)
    case("flatten", "negative axis", ":axis -1", [x], x.reshape(6, 4), "Flatten", axis=-1)
    thin = rand(1, 3, 1)
    case("reshape", "to a scalar", ":shape ()", [thin[:, :1]], thin[:, :1].reshape(()), "Reshape", extra=[i64()])
    case("squeeze", "first and last", ":axes (0 -1)", [thin], thin.reshape(3), "Squeeze", extra=[i64(0, -1)])
    case("unsqueeze", "ends", ":axes (0 -1)", [x], x.reshape(1, 2, 3, 4, 1), "Unsqueeze", extra=[i64(0, -1)])
    case("expand", "rows and leading axis", ":shape (2 3 4)", [thin.reshape(3, 1)],
         np.broadcast_to(thin.reshape(3, 1), (2, 3, 4)), "Expand", extra=[i64(2, 3, 4)])
    case("expand", "empty", ":shape (0 3 1)", [thin], np.zeros((0, 3, 1)))
    for perm in [(0, 1, 2), (2, 0, 1), (0, 2, 1), (2, 1, 0)]:
        text = " ".join(map(str, perm))
        case("transpose", text, f":perm ({text})", [x], x.transpose(perm), "Transpose", perm=perm)
    case("transpose", "integers", ":perm (1 0)", [i64(1, 2, 3, 4, 5, 6).reshape(2, 3)],
         i64(1, 4, 2, 5, 3, 6).reshape(3, 2))
    a, b, empty = rand(2, 1, 4), rand(2, 2, 4), rand(2, 0, 4)
    case("concat", "middle axis", ":axis 1", [a, b, a], np.concatenate([a, b, a], 1), "Concat", axis=1)
    case("concat", "one and an empty", ":axis -2", [empty, b], b, "Concat", axis=-2)
    case("split", "middle axis", ":axis 1 :sizes (1 2)", [x], [x[:, :1], x[:, 1:]], "Split", extra=[i64(1, 2)], axis=1)
    case("split", "last axis with an empty part", ":axis -1 :sizes (3 0 1)", [x], [x[..., :3], x[..., 3:3], x[..., 3:]],
         "Split", extra=[i64(3, 0, 1)], axis=-1)
    case("slice", "forward", ":starts (0 1 0) :sizes (2 2 2) :steps (1 1 2)", [x], x[:, 1:3, ::2], "Slice",
         extra=[i64(1, 0), i64(3, 4), i64(1, 2), i64(1, 2)])
    case("slice", "backward", ":starts (1 2 3) :sizes (2 3 2) :steps (-1 -1 -2)", [x], x[::-1, ::-1, ::-2], "Slice",
         extra=[i64(-1, -1, -1), i64(-100, -100, -100), i64(0, 1, 2), i64(-1, -1, -2)])
    case("slice", "nothing", ":starts (0 5 0) :sizes (2 0 4) :steps (1 1 1)", [x], x[:, :0])
    case("gather", "rows", "", [x, i64(1, -1, 0)], x[[1, -1, 0]], "Gather")
    case("gather", "matrix of indices", ":axis 1", [x, i64(0, 2, 1, 1).reshape(2, 2)],
         np.take(x, [[0, 2], [1, 1]], 1), "Gather", axis=1)
    case("gather", "scalar index", ":axis -1", [x, np.array(2, np.int32)], x[..., 2], "Gather", axis=-1)
    case("gather", "no indices", "", [x, i64()], x[:0], "Gather")
    case("shape", "rank 3", "", [x], i64(2, 3, 4), "Shape", dtype="int64")
    case("shape", "scalar", "", [np.float32(1)], i64(), "Shape", dtype="int64")


def reductions():
    x = rand(2, 3, 4)
    softmax = lambda a, axis: np.exp(d(a) - d(a).max(axis, keepdims=True)) / np.exp(
        d(a) - d(a).max(axis, keepdims=True)).sum(axis, keepdims=True)
    for axis in [-1, 0, 1]:
        case("softmax", f"axis {axis}", "" if axis == -1 else f":axis {axis}", [x], softmax(x, axis), "Softmax", axis=axis)
    large = np.array([[1000, 1001, -1000]], np.float32)
    case("softmax", "large values", "", [large], softmax(large, -1), "Softmax")
    case("softmax", "empty", "", [rand(0, 3)], np.zeros((0, 3)))
    for op, onnx_op, f in [("reduce-sum", "ReduceSum", np.sum), ("reduce-mean", "ReduceMean", np.mean)]:
        for name, axes, keep in [("last kept", (-1,), 1), ("first", (0,), 0), ("two", (0, 2), 0), ("all", (0, 1, 2), 1)]:
            attrs = f":axes ({' '.join(map(str, axes))})" + ("" if keep else " :keep 0")
            case(op, name, attrs, [x], f(d(x), axis=axes, keepdims=bool(keep)), onnx_op, extra=[i64(*axes)],
                 keepdims=keep)
        case(op, "no axes", ":axes ()", [x], x)
        case(op, "integers", ":axes (1)", [i64(1, 2, 5, 6).reshape(2, 2)],
             (i64(3, 11) if op == "reduce-sum" else i64(1, 5)).reshape(2, 1), onnx_op, extra=[i64(1)])
    case("reduce-sum", "of nothing", ":axes (1)", [rand(2, 0)], np.zeros((2, 1)))
    case("reduce-mean", "of nothing", ":axes (1)", [rand(2, 0)], np.full((2, 1), np.nan))


def residuals():
    w, b, x, x4 = rand(3, 4), rand(3), rand(2, 4), rand(2, 1, 3, 4)
    wi, xi = ints(3, 4), ints(2, 4)
    r, r4, ri = rand(2, 3), rand(2, 1, 3, 3), ints(2, 3)
    for act, f in ACTS.items():
        case("fused-linear-add", f"{act}, before", f":act {act} :add before", [w, b, r, x], f(linear(w, b, x) + r))
        case("fused-linear-add", f"{act}, after", f":act {act} :add after", [w, b, r, x], f(linear(w, b, x)) + r)
    case("fused-linear-add", "rank 4, no bias", ":act relu :add before", [w, None, r4, x4],
         relu(linear(w, None, x4) + r4))
    case("fused-linear-add", "integers", ":act relu :add before", [wi, None, ri, xi], relu(xi @ wi.T + ri))
    case("fused-linear-add", "empty batch", ":act none :add after", [w, b, rand(0, 3), rand(0, 4)], np.zeros((0, 3)))


def quantized():
    w, x, x4 = (rand(*shape).astype(F8) for shape in [(3, 4), (2, 4), (2, 1, 3, 4)])
    b, r, r4 = (rand(*shape).astype(BF16) for shape in [(3,), (2, 3), (2, 1, 3, 3)])
    scales = ":x-scale 0.5 :w-scale 0.25"
    for act, f in [("none", ACTS["none"]), ("relu", relu), ("gelu", gelu)]:
        for place in ["before", "after"]:
            y = linear(w, None, x) / 8 + d(b)
            case("quantized-linear", f"{act}, {place}", f"{scales} :act {act} :add {place} :to bf16", [w, b, r, x],
                 f(y + d(r)) if place == "before" else f(y) + d(r), dtype="bfloat16")
    case("quantized-linear", "rank 4, no bias", f"{scales} :act none :add before :to bf16", [w, None, r4, x4],
         linear(w, None, x4) / 8 + d(r4), dtype="bfloat16")
    case("quantized-linear", "nothing added, to f32", f"{scales} :act relu :add before :to f32", [w, None, None, x],
         relu(linear(w, None, x) / 8), dtype="float32")


if __name__ == "__main__":
    products()
    elementwise()
    movement()
    reductions()
    sys.modules["make_ops"] = sys.modules["__main__"]
    for family in sorted(HERE.parent.glob("cases_*.py")):
        importlib.import_module(family.stem).cases()
    residuals()
    quantized()
    HERE.mkdir(exist_ok=True)
    for op, cases in files.items():
        header = "; Written by tests/golden/make_ops.py: graphs of one operator, inputs, expected outputs.\n"
        (HERE / f"{op}.hyp").write_text(header + "\n".join(cases) + "\n")
    print(f"{len(files)} operators, {sum(map(len, files.values()))} cases")
