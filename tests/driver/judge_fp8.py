#!/usr/bin/env python3
"""f8e4m3 against ml_dtypes, and models with linear layers in fp8 against the same in numpy, number by number, and
against onnxruntime in fp32.

    judge_fp8.py
"""
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import judging  # noqa: E402

hyp = judging.hyp
onnx, ort, ml_dtypes = hyp.need("onnx", "onnxruntime", "ml_dtypes")
import numpy as np  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

F8, BF16, MOST = ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16, 448.0
DEVICES = ("cpu", "reference")
rng = np.random.default_rng(17)
failures = 0


def want(what, holds, detail=""):
    global failures
    failures += not holds
    print(f"{'ok' if holds else 'FAILED'}  {what} {detail}")


def run(plan, feeds, device):
    with hyp.Engine(plan, device) as engine:
        return engine.run(feeds)


def to_f8(x):
    """Saturating; NaN stays."""
    with np.errstate(invalid="ignore"):
        return np.clip(x, -MOST, MOST).astype(F8)


def save(folder, nodes, inputs, outputs, constants):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
                              [helper.make_tensor_value_info(n, t, None) for n, t in outputs.items()],
                              [numpy_helper.from_array(v, n) for n, v in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = os.path.join(folder, "m.onnx")
    onnx.save(model, path)
    return path


# ---- conversions -----------------------------------------------------------------------------------------------

def floats():
    """Every code's number with its neighbours in f32, the halves between codes, and any bits at all."""
    codes = np.arange(256, dtype=np.uint8).view(F8).astype(np.float32)
    sure = codes[np.isfinite(codes)]
    halves = (np.sort(sure)[1:] + np.sort(sure)[:-1]) / 2
    points = np.concatenate([sure, halves, np.float32([464, 479, 480, 1e30, 2**-10, 2**-11, 1e-40, np.inf, np.nan])])
    near = np.concatenate([points, np.nextafter(points, np.float32(np.inf)), np.nextafter(points, np.float32(-np.inf))])
    any_bits = rng.integers(0, 2**32, 100001, np.uint32).view(np.float32)
    return np.concatenate([near, -near, any_bits, rng.standard_normal(100000).astype(np.float32) * 100])


def conversions(folder):
    x = floats()
    for name, dtype in (("FLOAT", np.float32), ("DOUBLE", np.float64), ("FLOAT16", np.float16), ("BFLOAT16", BF16)):
        with np.errstate(over="ignore", invalid="ignore"):
            given = x.astype(dtype)
        cast = [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E4M3FN)]
        kind = getattr(TensorProto, name)
        path = save(folder, cast, {"x": (kind, ["n"])}, {"y": TensorProto.FLOAT8E4M3FN}, {})
        hyp.compile_model(path, folder + "/p.bin")
        wanted = to_f8(given.astype(np.float64)).view(np.uint8)
        nan = np.isnan(given.astype(np.float32))
        for device in DEVICES:
            got = run(folder + "/p.bin", {"x": given}, device)[0].view(np.uint8)
            want(f"{name} to f8e4m3, {device}", np.array_equal(got[~nan], wanted[~nan]) and (got[nan] & 127 == 127).all(),
                 f"{given.size} numbers")
        back = [helper.make_node("Cast", ["x"], ["y"], to=kind)]
        path = save(folder, back, {"x": (TensorProto.FLOAT8E4M3FN, ["n"])}, {"y": kind}, {})
        hyp.compile_model(path, folder + "/p.bin")
        codes = np.arange(256, dtype=np.uint8).view(F8)
        for device in DEVICES:
            got = run(folder + "/p.bin", {"x": codes}, device)[0]
            want(f"f8e4m3 to {name}, {device}", np.array_equal(got, codes.astype(dtype), equal_nan=True), "256 codes")


# ---- models ----------------------------------------------------------------------------------------------------

def power_above(most):
    """The least power of two by which the number can be divided to be in range."""
    return 2.0 ** np.ceil(np.log2(most / MOST)) if most else 1.0


def layer(x, w, b, most, act):
    """x bf16 -> act(x w^T + b) bf16 by way of f8e4m3. most: of x."""
    xs, ws = power_above(most), power_above(np.abs(w).max())
    left, right = to_f8(x.astype(np.float64) / xs), to_f8(w.astype(np.float64) / ws)
    y = left.astype(np.float64) @ right.astype(np.float64).T * (xs * ws) + b.astype(BF16).astype(np.float64)
    return act(y).astype(BF16)


def mlp(folder):
    """Two layers that fit and one that does not, with samples in a stack."""
    sizes, nodes, constants, x = (64, 128, 32, 10), [], {}, "x"
    for i, (k, n) in enumerate(zip(sizes, sizes[1:])):
        constants[f"w{i}"] = (rng.standard_normal((n, k)) / np.sqrt(k)).astype(np.float32)
        constants[f"b{i}"] = rng.standard_normal(n).astype(np.float32)
        last = i + 2 == len(sizes)
        nodes.append(helper.make_node("Gemm", [x, f"w{i}", f"b{i}"], ["y" if last else f"h{i}"], transB=1))
        if not last:
            nodes.append(helper.make_node("Relu", [f"h{i}"], [f"r{i}"]))
        x = f"r{i}"
    path = save(folder, nodes, {"x": (TensorProto.FLOAT, ["n", 64])}, {"y": TensorProto.FLOAT}, constants)
    samples, given = rng.standard_normal((5, 7, 64)).astype(np.float32), rng.standard_normal((33, 64)).astype(np.float32)
    relu = lambda v: np.maximum(v, 0)
    w, b = [constants[f"w{i}"] for i in range(3)], [constants[f"b{i}"] for i in range(3)]
    hidden = relu(samples.astype(np.float64) @ w[0].T.astype(np.float64) + b[0])
    h = layer(given.astype(BF16), w[0], b[0], np.abs(samples).max(), relu)
    h = layer(h, w[1], b[1], hidden.max(), relu)
    exact = (h.astype(np.float64) @ w[2].astype(BF16).astype(np.float64).T + b[2].astype(BF16)).astype(BF16).astype(np.float32)
    judge("mlp", folder, path, {"x": samples}, {"x": given}, 0.06, exact)


def block(folder):
    """A transformer's block: QKV, attention, a projection with a residual, two layers with gelu."""
    d, heads, s = 64, 4, "s"
    c = {"one": np.ones(d, np.float32), "zero": np.zeros(d, np.float32), "sqrt2": np.float32(np.sqrt(2)),
         "half": np.float32(0.5), "unit": np.float32(1), "scale": np.float32(1 / np.sqrt(d // heads)),
         "split": np.int64([0, 0, heads, d // heads]), "join": np.int64([0, 0, d])}
    for name, n, k in (("q", d, d), ("k", d, d), ("v", d, d), ("o", d, d), ("up", 4 * d, d), ("down", d, 4 * d)):
        c[f"w_{name}"] = (rng.standard_normal((k, n)) / np.sqrt(k)).astype(np.float32)
        c[f"b_{name}"] = rng.standard_normal(n).astype(np.float32) * np.float32(0.1)
    nodes = []

    def add(op, inputs, output, **attrs):
        nodes.append(helper.make_node(op, inputs, [output], name=output, **attrs))
        return output

    def linear(name, x):
        return add("Add", [add("MatMul", [x, f"w_{name}"], f"{name}_product"), f"b_{name}"], f"{name}_sum")

    norm = add("LayerNormalization", ["x", "one", "zero"], "norm1")
    q, k, v = (add("Transpose", [add("Reshape", [linear(n, norm), "split"], f"{n}_heads")], f"{n}_t",
                   perm=[0, 2, 3, 1] if n == "k" else [0, 2, 1, 3]) for n in "qkv")
    p = add("Softmax", [add("Mul", [add("MatMul", [q, k], "scores"), "scale"], "scaled")], "weights", axis=-1)
    mixed = add("Transpose", [add("MatMul", [p, v], "mix")], "mix_t", perm=[0, 2, 1, 3])
    first = add("Add", [linear("o", add("Reshape", [mixed, "join"], "joined")), "x"], "residual1")
    up = linear("up", add("LayerNormalization", [first, "one", "zero"], "norm2"))
    erf = add("Add", [add("Erf", [add("Div", [up, "sqrt2"], "over")], "erf"), "unit"], "erf1")
    gelu = add("Mul", [add("Mul", [up, erf], "gelu2"), "half"], "gelu")
    add("Add", [linear("down", gelu), first], "y")
    path = save(folder, nodes, {"x": (TensorProto.FLOAT, ["n", s, d])}, {"y": TensorProto.FLOAT}, c)
    judge("transformer block", folder, path, {"x": rng.standard_normal((3, 2, 9, d)).astype(np.float32)},
          {"x": rng.standard_normal((2, 12, d)).astype(np.float32)}, 0.05)


def judge(name, folder, path, samples, feeds, tolerance, exact=None):
    """tolerance: root of the mean square of what is wrong, over that of the result."""
    fp32 = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
    for no_rewrite in (False, True) if exact is None else (False,):
        results = []
        hyp.compile_model(path, folder + "/p.bin", precision="fp8", no_rewrite=no_rewrite, samples=samples)
        for device in DEVICES:
            got = run(folder + "/p.bin", feeds, device)[0]
            results.append(got)
            error = np.sqrt(((got - fp32) ** 2).mean() / (fp32**2).mean())
            want(f"{name}, {device}, near fp32", error < tolerance, f"{error:.4f} < {tolerance}")
            if exact is not None:
                apart = np.abs(got - exact).max() / np.abs(exact).max()
                want(f"{name}, {device}, as numpy has it", apart < 1e-2, f"{apart:.2g}")
        apart = np.abs(results[0] - results[1]).max() / np.abs(results[1]).max()
        want(f"{name}, devices agree", apart < 2e-2, f"{apart:.2g}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        conversions(folder)
        mlp(folder)
        block(folder)
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
