#!/usr/bin/env python3
"""Every elementwise operator in every type that ONNX gives it, on special values and random ones, on the CPU and the
reference backend: judged by onnxruntime, or by the onnx package where onnxruntime lacks the type.

    judge_elementwise.py [--filter TEXT] [--verbose]

Results in integers and bools must be equal, others within a few units of their type. Exit status 1 if one is not.
"""
import argparse
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hyp  # noqa: E402
import numpy as np  # noqa: E402

onnx, ort = hyp.need("onnx", "onnxruntime>=1.27")  # older ones lose NaN in Erf, and infinity in PRelu
from onnx import helper  # noqa: E402

FLOATS = ["float32", "float64", "float16"]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTEGERS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTEGERS
ALL = NUMBERS + ["bool"]
OPSET = 24

# The judges compute these in float, whatever their type: neither doubles nor large integers come out right.
JUDGED_IN_FLOAT = {"Erf", "Gelu", "HardSwish", "Shrink", "Mod", "Pow"}

# operator -> types
UNARY = {**{op: FLOATS for op in ["Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Elu", "Erf",
                                  "Exp", "Floor", "HardSigmoid", "HardSwish", "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish",
                                  "Reciprocal", "Round", "Selu", "Sigmoid", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt",
                                  "Swish", "Tan", "Tanh", "ThresholdedRelu", "Gelu", "Celu"]},
         **{op: NUMBERS for op in ["Abs", "Sign", "Shrink"]}, "Neg": FLOATS + SIGNED, "Relu": FLOATS + SIGNED,
         "Not": ["bool"], "BitwiseNot": INTEGERS}
BINARY = {**{op: NUMBERS for op in ["Add", "Sub", "Mul", "Div", "Max", "Min", "Mean", "Pow", "Less", "LessOrEqual", "Greater",
                                    "GreaterOrEqual", "Mod"]},
          "Mean": FLOATS, "Equal": ALL, "PRelu": ["float32", "float16", "int32", "int64", "uint32", "uint64"],
          **{op: ["bool"] for op in ["And", "Or", "Xor"]},
          **{op: INTEGERS for op in ["BitwiseAnd", "BitwiseOr", "BitwiseXor"]}, "BitShift": UNSIGNED}
ATTRIBUTES = {"Mod": [{"fmod": 0}, {"fmod": 1}], "BitShift": [{"direction": "LEFT"}, {"direction": "RIGHT"}],
              "Gelu": [{}, {"approximate": "tanh"}], "Celu": [{}, {"alpha": 2.0}], "Swish": [{}, {"alpha": 0.5}],
              "Elu": [{}, {"alpha": 0.5}], "IsInf": [{}, {"detect_negative": 0}, {"detect_positive": 0}],
              "Shrink": [{}, {"lambd": 1.5, "bias": 1.0}]}


def values(dtype, rng, positive=False, edges=True):
    if dtype == "bool":
        return rng.integers(0, 2, 40).astype(bool)
    if dtype in FLOATS:
        special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-4, -1e-4, 30, -30]
        return np.concatenate([special, rng.standard_normal(100) * 3]).astype(dtype)
    info = np.iinfo(dtype)
    low, high = (1, 13) if positive else (max(info.min, -20), 20)
    special = [info.min, info.max, info.max - 1, info.min + 1, 0] if edges and not positive else []
    return np.concatenate([np.array(special, dtype), rng.integers(low, high, 95).astype(dtype)])


def cases():
    rng = np.random.default_rng(3)
    for op, types in UNARY.items():
        for t in types:
            if op in JUDGED_IN_FLOAT and t == "float64":
                continue
            for attrs in ATTRIBUTES.get(op, [{}]):
                x = values(t, rng, edges=op not in JUDGED_IN_FLOAT)
                yield op, attrs, [x[1:] if op == "Sign" and t == "float16" else x]  # onnxruntime: of NaN it is 0
    for op, types in BINARY.items():
        for t in types:
            for attrs in ATTRIBUTES.get(op, [{}]):
                if op == "Mod" and t in FLOATS and not attrs["fmod"]:
                    continue  # not defined
                # onnxruntime traps when it divides by 0, and wrong shifts and powers are undefined there
                positive = op in ("Div", "Mod", "Pow", "BitShift")
                a, b = values(t, rng, edges=op not in JUDGED_IN_FLOAT), values(t, rng, positive)
                b = b % np.array(4 if op == "Pow" else 7, t) if op in ("BitShift", "Pow") and t in INTEGERS else b
                size = min(len(a), len(b))
                yield op, attrs, [a[:size], rng.permutation(b[:size])]
                yield op, attrs, [a[:size], b[-1:]]
    x, bias = values("float32", rng), rng.standard_normal(116).astype(np.float32)
    for op, inputs in [("Gelu", [x]), ("QuickGelu", [x]), ("FastGelu", [x]), ("FastGelu", [x, bias]), ("BiasGelu", [x, bias])]:
        yield op, {"domain": "com.microsoft"}, inputs
    for t in FLOATS + ["int32", "int64"]:
        for e in FLOATS + ["int32", "int64"]:
            base = values(t, rng, True)[-90:]
            exponent = (rng.integers(0, 4, 90)).astype(e)
            yield "Pow", {}, [np.abs(base), exponent]
    for t in ALL:
        yield "Where", {}, [rng.integers(0, 2, 40).astype(bool), values(t, rng)[:40], values(t, rng)[:1]]
        if t != "bool":
            low, high = np.array(3, t), np.array(9, t)
            yield "Clip", {}, [values(t, rng), low, high]
        for to in ALL:
            x = values(t, rng)
            if t in FLOATS and to not in FLOATS and to != "bool":
                x = np.array([0.0, -0.0, 0.9, 1.1, 2.5, 100.75], t)  # what does not fit is undefined
            yield "Cast", {"to": helper.np_dtype_to_tensor_dtype(np.dtype(to))}, [x]


def make_model(op, attrs, inputs):
    names = [f"x{i}" for i in range(len(inputs))]
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
             for n, x in zip(names, inputs)]
    foreign = "domain" in attrs  # of a type that the onnx package does not know: that of the first input
    out = helper.make_tensor_value_info("y", infos[0].type.tensor_type.elem_type if foreign else 0, None)
    graph = helper.make_graph([helper.make_node(op, names, ["y"], **attrs)], "g", infos, [out])
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    if not foreign:
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    return model, dict(zip(names, inputs))


def judge(model, feeds):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, feeds)[0], "onnxruntime"
    except Exception:  # it has no kernel for the type
        with np.errstate(all="ignore"):
            return np.asarray(hyp.by_onnx(model, feeds)[0]), "onnx"


def disagreement(got, want):
    """What is wrong with the result, None if nothing is."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{got.shape}, wanted {want.dtype}{want.shape}"
    with np.errstate(all="ignore"):
        if np.issubdtype(want.dtype, np.floating):
            units = {"float32": 2e-6, "float64": 1e-12, "float16": 4e-3}[want.dtype.name]
            g, w = got.astype(np.float64), want.astype(np.float64)
            good = (g == w) | (np.isnan(g) & np.isnan(w)) | (np.abs(g - w) <= units * np.maximum(np.abs(w), 1))
        else:
            good = got == want
    bad = np.flatnonzero(~good)
    return None if bad.size == 0 else f"element {bad[0]} is {got[bad[0]]}, wanted {want[bad[0]]} ({bad.size} such)"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--filter", default="")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    count, wrong = {"onnxruntime": 0, "onnx": 0}, 0
    with tempfile.TemporaryDirectory() as folder:
        path, plan = os.path.join(folder, "m.onnx"), os.path.join(folder, "m.plan")
        for op, attrs, inputs in cases():
            if args.filter not in op:
                continue
            what = f"{op} {attrs or ''} {', '.join(x.dtype.name for x in inputs)}"
            model, feeds = make_model(op, attrs, inputs)
            want, by = judge(model, feeds)
            count[by] += 1
            onnx.save(model, path)
            try:
                hyp.compile_model(path, plan)
                for device in ("cpu", "reference"):
                    with hyp.Engine(plan, device) as engine:
                        problem = disagreement(engine.run(feeds)[0], want)
                    if problem:
                        wrong += 1
                        at = int(problem.split()[1]) if problem.startswith("element") else 0
                        print(f"{what} on {device} by {by}: {problem} of", *[x[at % len(x)] if x.ndim else x for x in inputs])
            except hyp.Error as error:
                wrong += 1
                print(f"{what}: {error}")
            if args.verbose:
                print(what, by)
    print(f"{sum(count.values())} cases, {count['onnxruntime']} judged by onnxruntime, {count['onnx']} by onnx: {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
