#!/usr/bin/env python3
"""Einsum, quantization, products of integers and fused products against onnxruntime, on the CPU and the reference
backend, with and without rewriting, and with symbolic sizes: each model is compiled once for two sizes. Products of
integers are judged by exact integers in numpy, since onnxruntime's of uint8 and int8 saturate on processors that have
AVX2 without VNNI; where onnxruntime is exact it must agree with numpy.

    judge_products.py
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import judging  # noqa: E402
import numpy as np  # noqa: E402

onnx, ort = judging.hyp.need("onnx", "onnxruntime>=1.20")  # which has kernels for opset 21
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

VARIANTS = [(device, no_rewrite) for device in ("cpu", "reference") for no_rewrite in (False, True)]
EINSUMS = ["bik,bkj->bij", "bik,bjk", "...ik,...kj->...ij", "bsnh,btnh->bnst", "ij,kl->ijkl", "ij->ji", "ij->", "ii->i", "iij->j",
           "bi,bi->b", "i,i", "ij,j->i", "ij,jk,kl->il", "ijk,jil->kl", "...i->...", "bn,anm,bm->ba", " i j , j k -> i k ", "ab,ab,ab->ab"]
rng = np.random.default_rng(61)


def model(op, inputs, constants, outputs, domain="", **attrs):
    """inputs: name -> (type, symbolic shape); constants: name -> array, None where absent; outputs: types."""
    names = list(inputs) + [name if value is not None else "" for name, value in constants.items()]
    node = helper.make_node(op, names, [f"y{i}" for i in range(len(outputs))], domain=domain, **attrs)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_tensor_value_info(f"y{i}", t, None) for i, t in enumerate(outputs)],
        [numpy_helper.from_array(v, n) for n, v in constants.items() if v is not None])
    opsets = [helper.make_opsetid("", 21)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def einsums():
    for equation in EINSUMS:
        terms = equation.replace(" ", "").split("->")[0].split(",")
        shapes = [[*("xy" if "..." in term else ""), *term.replace("...", "")] for term in terms]
        m = model("Einsum", {f"a{i}": (TensorProto.FLOAT, [f"dim_{s}" for s in shape]) for i, shape in enumerate(shapes)},
                  {}, [TensorProto.FLOAT], equation=equation)
        cases = []
        for base in (2, 3):
            feeds = {f"a{i}": rng.standard_normal([base + ord(s) % 4 for s in shape]).astype(np.float32)
                     for i, shape in enumerate(shapes)}
            cases.append(feeds)
        yield f"Einsum {equation}", m, cases


def integers(dtype, shape):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def code(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def quantizations():
    for dtype in ("uint8", "int8", "uint16", "int16"):
        for kind, shape, axis, block in (("tensor", [], 1, 0), ("axis", [4], -1, 0), ("blocks", [3, 2], 1, 2)):
            scale = rng.uniform(0.01, 0.2, shape).astype(np.float32)
            zero = integers(dtype, shape)
            dims = [3, 4] if block else ["n", 4]
            attrs = {"axis": axis, **({"block_size": block} if block else {})}
            data = [rng.standard_normal((n, 4)).astype(np.float32) * 8 for n in ((3, 3) if block else (1, 5))]
            m = model("QuantizeLinear", {"x": (TensorProto.FLOAT, dims)}, {"scale": scale, "zero": zero}, [code(dtype)], **attrs)
            yield f"QuantizeLinear {dtype} {kind}", m, [{"x": x} for x in data]
            m = model("DequantizeLinear", {"x": (code(dtype), dims)}, {"scale": scale, "zero": zero}, [TensorProto.FLOAT], **attrs)
            yield f"DequantizeLinear {dtype} {kind}", m, [{"x": integers(dtype, x.shape)} for x in data]
    x = [{"x": rng.standard_normal((n, 6)).astype(np.float32)} for n in (1, 4)] + [{"x": np.zeros((2, 6), np.float32)}]
    yield ("DynamicQuantizeLinear", model("DynamicQuantizeLinear", {"x": (TensorProto.FLOAT, ["n", 6])}, {},
                                          [TensorProto.UINT8, TensorProto.FLOAT, TensorProto.UINT8]), x)


def exact_product(a, b, a_zero=0, b_zero=0):
    return (a.astype(np.int64) - np.int64(a_zero)) @ (b.astype(np.int64) - np.asarray(b_zero, np.int64))


def dynamically_quantized(x):
    """uint8 values, their scale and zero point, as DynamicQuantizeLinear is defined in f32."""
    low, high = np.minimum(x.min(), np.float32(0)), np.maximum(x.max(), np.float32(0))
    scale = (high - low) / np.float32(255)
    zero = np.clip(np.rint(-low / scale), 0, 255)
    return np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8), scale, int(zero)


def products():
    """With each model the exact outputs of its cases, and whether onnxruntime is exact, too."""
    f32 = TensorProto.FLOAT
    for a, b in (("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")):
        exact = (a, b) != ("uint8", "int8")
        feeds = [{"a": integers(a, (n, 5))} for n in (1, 3)]
        left = {"a": (code(a), ["n", 5])}
        weights, zero, zeros = integers(b, (5, 4)), integers(a, []), integers(b, [4])
        sums = [exact_product(f["a"], weights, zero, zeros) for f in feeds]
        yield (f"MatMulInteger {a} {b}", model("MatMulInteger", left, {"b": weights, "az": zero, "bz": zeros},
                                               [TensorProto.INT32]), feeds, [s.astype(np.int32) for s in sums], exact)
        long = {"a": (code(a), ["n", 700])}  # too many terms for f32
        many, rows = integers(b, (700, 3)), integers(a, (2, 700))
        yield (f"MatMulInteger {a} {b} of many terms", model("MatMulInteger", long, {"b": many}, [TensorProto.INT32]),
               [{"a": rows}], [exact_product(rows, many).astype(np.int32)], exact)
        yield (f"MatMulInteger {a} {b} without zero points",
               model("MatMulInteger", left, {"b": weights}, [TensorProto.INT32]), feeds,
               [exact_product(f["a"], weights).astype(np.int32) for f in feeds], exact)
        scales = rng.uniform(0.01, 0.1, 4).astype(np.float32)
        if (a, b) != ("uint8", "uint8"):
            constants = {"as": np.float32(0.05), "az": zero, "b": weights, "bs": scales, "bz": zeros * 0,
                         "ys": np.float32(0.3), "yz": integers(a, [])}
            info, factor = np.iinfo(a), np.float64(constants["as"]) * scales / np.float64(constants["ys"])
            wanted = [np.clip(np.rint(exact_product(f["a"], weights, zero) * factor) + constants["yz"], info.min, info.max)
                      .astype(a) for f in feeds]
            yield (f"QLinearMatMul {a} {b}",
                   model("QLinearMatMul", left, {k: np.asarray(v) for k, v in constants.items()}, [code(a)]), feeds, wanted,
                   exact)
        floats, bias = [{"a": rng.standard_normal((n, 5)).astype(np.float32)} for n in (1, 3)], rng.standard_normal(4).astype(np.float32)
        wanted = []
        for f in floats:
            x, x_scale, x_zero = dynamically_quantized(f["a"])
            wanted.append((exact_product(x, weights, x_zero, zeros) * np.float64(x_scale) * scales + bias).astype(np.float32))
        yield (f"DynamicQuantizeMatMul {b}",
               model("DynamicQuantizeMatMul", {"a": (f32, ["n", 5])},
                     {"b": weights, "bs": scales, "bz": zeros, "bias": bias}, [f32], "com.microsoft"), floats, wanted,
               b == "uint8")
        wanted = [(s * np.float64(np.float32(0.05)) * scales).astype(np.float32) for s in sums]
        yield (f"MatMulIntegerToFloat {a} {b}",
               model("MatMulIntegerToFloat", left,
                     {"b": weights, "as": np.asarray(np.float32(0.05)), "bs": scales, "az": zero, "bz": zeros}, [f32],
                     "com.microsoft"), feeds, wanted, exact)


def saturated(sums, scale, zero, dtype):
    """Sums of integers as a quantized type, by the arithmetic of f32 that ONNX leaves to implementations."""
    info = np.iinfo(dtype)
    return np.clip(np.rint(sums.astype(np.float32) * scale) + np.float32(zero), info.min, info.max).astype(dtype)


def wrapped(sums):
    return sums.astype(np.uint64).astype(np.uint32).view(np.int32)


def extremes(dtype, shape):
    """Integers that make the largest sums: nearly all of them at one end."""
    info = np.iinfo(dtype)
    return np.where(rng.integers(0, 8, shape) == 0, info.max - 1, info.min).astype(dtype)


def long_products():
    """Of as many terms as no float holds. Types over their range and at its ends, zero points at the other end."""
    for k in (1, 255, 258, 259, 513, 5000):
        for i, (a, b) in enumerate((("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8"), ("int8", "uint8"))):
            draw = (integers, extremes)[(k + i) % 2]
            feeds = [{"a": draw(a, (n, k))} for n in (1, 50)]
            weights, az = draw(b, (k, 9)), np.asarray(np.iinfo(a).max, a)
            bz = np.where(np.arange(9) % 2, np.iinfo(b).max, np.iinfo(b).min).astype(b)
            sums = [exact_product(f["a"], weights, az, bz) for f in feeds]
            left, name = {"a": (code(a), ["n", k])}, f"{a} {b} of {k} terms"
            yield (f"MatMulInteger {name}", model("MatMulInteger", left, {"b": weights, "az": az, "bz": bz}, [TensorProto.INT32]),
                   feeds, [wrapped(s) for s in sums])
            both = {"a": (code(a), ["n", k]), "b": (code(b), [k, 9])}
            yield (f"MatMulInteger {name}, both computed", model("MatMulInteger", both, {"az": az, "bz": bz}, [TensorProto.INT32]),
                   [{**f, "b": weights} for f in feeds], [wrapped(s) for s in sums])
            if a == "uint8" and b == "uint8":
                continue
            scales, y_zero = rng.uniform(0.01, 0.1, 9).astype(np.float32), integers(a, [])
            constants = {"as": np.float32(0.05), "az": az, "b": weights, "bs": scales, "bz": bz, "ys": np.float32(k), "yz": y_zero}
            factor = np.float32(0.05) * scales / np.float32(k)
            yield (f"QLinearMatMul {name}",
                   model("QLinearMatMul", left, {n: np.asarray(v) for n, v in constants.items()}, [code(a)]), feeds,
                   [saturated(s, factor, y_zero, a) for s in sums])


def exact_conv(x, w, x_zero, w_zero, pads, strides, group):
    x = np.pad(x.astype(np.int64) - int(x_zero), ((0, 0), (0, 0), (pads, pads), (pads, pads)))
    w = w.astype(np.int64) - np.asarray(w_zero, np.int64).reshape(-1, 1, 1, 1)
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))[:, :, ::strides, ::strides]
    parts = zip(np.split(windows, group, 1), np.split(w, group, 0))
    return np.concatenate([np.einsum("ncyxij,mcij->nmyx", part, filters) for part, filters in parts], 1)


def convolutions():
    for i, (channels, results, kernel, pads, strides, group) in enumerate((
            (3, 8, 3, 1, 1, 1), (300, 9, 3, 1, 2, 1), (130, 70, 1, 0, 1, 1), (40, 40, 3, 1, 1, 40), (64, 12, 3, 0, 1, 2))):
        for b in ("int8", "uint8"):
            draw = (integers, extremes)[(i + (b == "int8")) % 2]
            feeds = [{"x": draw("uint8", (n, channels, 7, 8))} for n in (1, 2)]
            w, xz = draw(b, (results, channels // group, kernel, kernel)), np.asarray(255 - i, np.uint8)
            wz = np.where(np.arange(results) % 2, np.iinfo(b).max, np.iinfo(b).min).astype(b)
            if b == "int8":
                wz *= 0
            sums = [exact_conv(f["x"], w, xz, wz, pads, strides, group) for f in feeds]
            x = {"x": (TensorProto.UINT8, ["n", channels, 7, 8])}
            attrs, name = {"pads": [pads] * 4, "strides": [strides] * 2, "group": group}, f"{b} {channels}-{results} {kernel}x{kernel}"
            yield (f"ConvInteger {name}", model("ConvInteger", x, {"w": w, "xz": xz, "wz": wz}, [TensorProto.INT32], **attrs), feeds,
                   [wrapped(s) for s in sums])
            scales, bias = rng.uniform(0.01, 0.1, results).astype(np.float32), rng.integers(-1000000, 1000000, results).astype(np.int32)
            y_scale, each = np.float32(w[0].size), (-1, 1, 1)
            constants = {"xs": np.float32(0.05), "xz": xz, "w": w, "ws": scales, "wz": wz, "ys": y_scale, "yz": np.uint8(77), "b": bias}
            factor = (np.float32(0.05) * scales / y_scale).reshape(each)
            yield (f"QLinearConv {name}",
                   model("QLinearConv", x, {n: np.asarray(v) for n, v in constants.items()}, [TensorProto.UINT8], **attrs), feeds,
                   [saturated(s + bias.reshape(each), factor, 77, "uint8") for s in sums])


def fused():
    f32, bias = TensorProto.FLOAT, rng.standard_normal(4).astype(np.float32)
    feeds = [{"a": rng.standard_normal((n, 5)).astype(np.float32)} for n in (1, 3)]
    for attrs in ({"activation": "Relu"}, {"activation": "Sigmoid", "alpha": 0.5}, {"activation": "Tanh", "beta": 2.0},
                  {"activation": "LeakyRelu", "activation_alpha": 0.3}):
        m = model("FusedGemm", {"a": (f32, ["n", 5])}, {"b": rng.standard_normal((4, 5)).astype(np.float32), "c": bias}, [f32],
                  "com.microsoft", transB=1, **attrs)
        yield f"FusedGemm {attrs}", m, feeds
    for attrs, left, right in (({"alpha": 0.25, "transB": 1}, (3, 5), (4, 5)), ({"transA": 1}, (5, 3), (5, 4))):
        m = model("FusedMatMul", {"a": (f32, ["n", *left]), "b": (f32, ["n", *right])}, {}, [f32], "com.microsoft", **attrs)
        yield f"FusedMatMul {attrs}", m, [{"a": rng.standard_normal((n, *left)).astype(np.float32),
                                           "b": rng.standard_normal((n, *right)).astype(np.float32)} for n in (1, 3)]
    weights = {"w": rng.standard_normal((4, 3, 3, 3)).astype(np.float32), "c": bias}
    for attrs in ({"activation": "Relu"}, {"activation": "Tanh", "strides": [2, 2]},
                  {"activation": "LeakyRelu", "activation_params": [0.3]}):
        cases = [{"x": rng.standard_normal((n, 3, 7, 6)).astype(np.float32)} for n in (1, 3)]
        m = model("FusedConv", {"x": (f32, ["n", 3, 7, 6])}, weights, [f32], "com.microsoft", pads=[1] * 4, **attrs)
        yield f"FusedConv {attrs}", m, cases
    added = {"w": weights["w"], "c": bias, "z": rng.standard_normal((2, 4, 7, 6)).astype(np.float32)}
    m = model("FusedConv", {"x": (f32, [2, 3, 7, 6])}, added, [f32], "com.microsoft", pads=[1] * 4, activation="Relu")
    yield "FusedConv with a sum", m, [{"x": rng.standard_normal((2, 3, 7, 6)).astype(np.float32)}]


def main():
    judge, count = judging.Judge(), 0
    for name, m, cases, wanted, exact in products():
        if exact:
            for mine, theirs in zip(wanted, judge.expected(name, m, cases)):
                judge.compare(f"{name} (numpy and onnxruntime)", [mine], theirs)
        judge.judge(name, m, cases, VARIANTS, [[w] for w in wanted])
        count += 1
    for family in (long_products, convolutions):
        for name, m, cases, wanted in family():
            judge.judge(name, m, cases, VARIANTS, [[w] for w in wanted])
            count += 1
    for family in (einsums, quantizations, fused):
        for name, m, cases in family():
            judge.judge(name, m, cases, VARIANTS)
            count += 1
    return judge.finish(count)


if __name__ == "__main__":
    sys.exit(main())
