#!/usr/bin/env python3
"""What rewriting must not change: bits before a step, numbers near the end of a type's range, NaN. Judged by numpy in
the arithmetic of the model's types, or in double where a sum has no order. `judge_sound.py [--only TEXT]`. Exit status 1
if anything differs."""
import argparse
import os
import sys

import judging

hyp = judging.hyp
np, onnx = hyp.need("numpy", "onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

VARIANTS = [("cpu", False), ("reference", False), ("cpu", True), ("reference", True)]
ELEMENT = {np.float32: TensorProto.FLOAT, np.float16: TensorProto.FLOAT16, np.float64: TensorProto.DOUBLE,
           np.int64: TensorProto.INT64, np.int32: TensorProto.INT32, np.bool_: TensorProto.BOOL}
cases = []
f16, f32, f64 = np.float16, np.float32, np.float64


def node(op, inputs, outputs, **attrs):
    return helper.make_node(op, [i.replace("-", "") for i in inputs.split()], outputs.split(), **attrs)


def case(name, nodes, feeds, wanted, constants=None, within=0, opset=20):
    """Nodes that make y from the inputs `feeds`; y must have the bits of `wanted` (NaN's payload aside), or be at most
    `within` away: a number, or one for each element."""
    cases.append((name, nodes, feeds, np.asarray(wanted), constants or {}, within, opset))


def build(nodes, feeds, wanted, constants, opset):
    inputs = [helper.make_tensor_value_info(n, ELEMENT[v.dtype.type], v.shape) for n, v in feeds.items()]
    output = helper.make_tensor_value_info("y", ELEMENT[wanted.dtype.type], wanted.shape)
    graph = helper.make_graph(nodes, "g", inputs, [output],
                              [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


# ---- bits before a step ------------------------------------------------------------------------------------------------


def divisions():
    whole = np.arange(0, 1000, dtype=f32)
    for c in [3, 7, 41, 255, 10]:
        by = {"c": f32(c)}
        x = whole * f32(c)
        case(f"floor(x / {c})", [node("Div", "x c", "q"), node("Floor", "q", "y")], {"x": x}, np.floor(x / f32(c)), by)
        i = (whole * c).astype(np.int64)
        case(f"whole numbers as floats, / {c}", [node("Cast", "x", "f", to=1), node("Div", "f c", "q"),
                                                 node("Floor", "q", "r"), node("Cast", "r", "y", to=7)],
             {"x": i}, np.floor(i.astype(f32) / f32(c)).astype(np.int64), by)
        case(f"x / {c} compared", [node("Div", "x c", "q"), node("Less", "q w", "y")], {"x": x, "w": whole},
             x / f32(c) < whole, by)
        case(f"x / {c} as an integer", [node("Div", "x c", "q"), node("Cast", "q", "y", to=6)], {"x": x},
             (x / f32(c)).astype(np.int32), by)
        case(f"the square root of 1 - x / {c}, which is 0 at the edge",
             [node("Div", "x c", "q"), node("Sub", "one q", "d"), node("Sqrt", "d", "y")], {"x": np.full(4, c, f32)},
             np.zeros(4, f32), {**by, "one": f32(1)})
    ties = (np.arange(-2000, 2000, dtype=f32) + f32(0.5)) * f32(0.1)
    q = np.clip(np.rint(ties / f32(0.1)), -128, 127)
    case("quantization at ties", [node("Div", "x s", "d"), node("Round", "d", "r"), node("Clip", "r low high", "y")],
         {"x": ties}, q.astype(f32), {"s": f32(0.1), "low": f32(-128), "high": f32(127)})
    x = np.linspace(-3, 3, 999, dtype=f32)
    thrice = f32(x / f32(3)) * f32(1.7)
    case("the largest of products", [node("Div", "x c", "q"), node("Mul", "q d", "p"), node("Sub", "p p2", "z"),
                                     node("ArgMax", "z", "y", axis=0, keepdims=0)],
         {"x": x, "p2": thrice}, np.argmax((x / f32(3)) * f32(1.7) - thrice), {"c": f32(3), "d": f32(1.7)})
    case("a sum beside a product", [node("Mul", "x a", "p"), node("Add", "p b", "s"), node("Floor", "s", "y")],
         {"x": np.arange(1000, dtype=f32)}, np.floor(np.arange(1000, dtype=f32) * f32(0.1) + f32(0.3)),
         {"a": f32(0.1), "b": f32(0.3)})
    case("the square of x, as a power", [node("Pow", "x two", "p"), node("Mul", "p a", "q"), node("Ceil", "q", "y")],
         {"x": x}, np.ceil((x * x) * f32(7)), {"two": f32(2), "a": f32(7)})


# ---- what cancels, what is too large, what is no number ------------------------------------------------------------------


def layer(x, w, b=None):
    y = x.astype(f64) @ w.astype(f64)
    return y if b is None else y + b.astype(f64)


def differences():
    days = 1.6e9 + np.arange(0, 512, dtype=f64).reshape(64, 8) * 86400
    x, mean, scale = days.astype(f32), f32(1.62e9), f32(1e-7)
    w = (np.arange(40).reshape(8, 5) % 7 / f32(7) - f32(0.4)).astype(f32)
    shifted = (x - mean).astype(f32)
    for name, extra, b in [("a layer", [], None), ("a layer with a bias", ["b"], np.linspace(-1, 1, 5, dtype=f32))]:
        constants = {"m": mean, "s": scale, "w": w} | ({"b": b} if extra else {})
        nodes = [node("Sub", "x m", "d"), node("Mul", "d s", "e"),
                 node("Gemm", "e w b", "y") if extra else node("MatMul", "e w", "y")]
        wanted = layer(shifted * scale, w, b)
        bound = (64 + 16) * 2.0 ** -24 * (np.abs(shifted.astype(f64)) @ np.abs(w.astype(f64)) * float(scale) + 1)
        case(f"times through a standard scaler and {name}", nodes, {"x": x}, wanted.astype(f32), constants, bound)


def ranges():
    x = np.full((1, 4), 1 / 1024, f16)
    w, c = np.full((4, 2), 512, f16), np.full(2, 256, f16)
    case("a large factor behind large weights, f16", [node("MatMul", "x w", "p"), node("Mul", "p c", "y")], {"x": x},
         np.full((1, 2), 512, f16), {"w": w, "c": c})
    case("a large factor before large weights, f16", [node("Mul", "x c", "p"), node("MatMul", "p w", "y")], {"x": x},
         np.full((1, 2), 512, f16), {"w": w, "c": np.full(4, 256, f16)})
    a, b, d = np.full((256, 64), 1 / 1024, f16), np.full((64, 64), 400, f16), np.full((64, 2), 3.75, f16)
    case("products in a row, f16", [node("MatMul", "a b", "p"), node("MatMul", "p d", "y")], {"a": a, "b": b, "d": d},
         np.full((256, 2), 6000, f16))
    case("a number in a product, f16", [node("Mul", "y0 c", "p"), node("Mul", "x p", "y")],
         {"x": np.full(5, 300, f16), "y0": np.full(5, 300, f16)}, np.full(5, 90, f16) * f16(1), {"c": f16(1 / 1000)},
         within=0.1)
    case("a number in a product, f32", [node("Mul", "y0 c", "p"), node("Mul", "x p", "y")],
         {"x": np.full(5, 1e30, f32), "y0": np.full(5, 1e30, f32)}, np.full(5, f32(1e30) * (f32(1e30) * f32(1e-30))),
         {"c": f32(1e-30)})
    x = np.array([[1e-30, 2e-30]], f32)
    case("large weights and large factors, f32", [node("MatMul", "x w", "p"), node("Mul", "p c", "y")], {"x": x},
         np.full((1, 3), 3e20, f32), {"w": np.full((2, 3), 1e30, f32), "c": np.full(3, 1e20, f32)}, within=1e15)
    case("sums of inputs of one layer, f16", [node("MatMul", "x w", "p"), node("MatMul", "v w", "q"), node("Add", "p q", "y")],
         {"x": np.full((2, 2), 60000, f16), "v": np.full((2, 2), 30000, f16)}, np.full((2, 3), 45000, f16),
         {"w": np.full((2, 3), 0.25, f16)}, within=64)
    case("two biases, f16", [node("MatMul", "x w", "p"), node("Add", "p b", "q"), node("Add", "q b", "y")],
         {"x": np.full((1, 2), 30000, f16)}, np.full((1, 3), 20000, f16),
         {"w": np.full((2, 3), -1, f16), "b": np.full(3, 40000, f16)})


def numbers():
    x = np.array([np.nan, 1, -1, np.inf, -np.inf, 0], f32)
    for name, behind in [("an input", []), ("a function", [node("Elu", "x", "v")])]:
        of = "v" if behind else "x"
        v = np.where(x < 0, np.expm1(x), x) if behind else x
        case(f"the choice of what is above 0, of {name}", [*behind, node("Less", f"zero {of}", "c"),
                                                           node("Where", f"c {of} zero", "y")], {"x": x},
             np.where(0 < v, v, f32(0)).astype(f32), {"zero": f32(0)})
        case(f"the choice of what is below 1, of {name}", [*behind, node("Less", f"{of} one", "c"),
                                                           node("Where", f"c {of} one", "y")], {"x": x},
             np.where(v < 1, v, f32(1)).astype(f32), {"one": f32(1)}, within=1e-6)
    x = np.linspace(-6, 6, 301, dtype=f32)
    from math import erf
    gate = np.array([erf(float(v) * 0.7078) for v in x])
    case("a gelu of another number", [node("Mul", "x r", "a"), node("Erf", "a", "b"), node("Add", "b one", "c"),
                                      node("Mul", "x c", "d"), node("Mul", "d half", "y")], {"x": x},
         (x * (1 + gate) / 2).astype(f32), {"r": f32(0.7078), "one": f32(1), "half": f32(0.5)}, within=4e-6)
    x = np.zeros((1, 1, 2, 2), f32)
    w = np.full((1, 1, 2, 2), np.inf, f32)
    wanted = np.full((1, 1, 3, 3), np.nan, f32)
    wanted[0, 0, 1, 1] = np.inf
    case("zeros around an image, times infinity", [node("Pad", "x p", "z"), node("Conv", "z w", "y")], {"x": x + 1},
         wanted, {"p": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "w": w})


divisions()
differences()
ranges()
numbers()


def same(actual, wanted, within):
    """Where they differ."""
    if actual.dtype != wanted.dtype or actual.shape != wanted.shape:
        return np.ones(wanted.shape, bool)
    if wanted.dtype.kind != "f":
        return actual != wanted
    with np.errstate(invalid="ignore"):
        far = ~(np.abs(actual.astype(f64) - wanted.astype(f64)) <= within)
    nan = np.isnan(actual) | np.isnan(wanted)
    far = np.where(nan, np.isnan(actual) != np.isnan(wanted), far & (actual != wanted))
    return far if np.any(within) else far | (~nan & (np.signbit(actual) != np.signbit(wanted)))


def run(judge, name, nodes, feeds, wanted, constants, within, opset):
    path, plan = os.path.join(judge.folder.name, "m.onnx"), os.path.join(judge.folder.name, "m.bin")
    with open(path, "wb") as file:
        file.write(build(nodes, feeds, wanted, constants, opset).SerializeToString())
    for device, plain in VARIANTS:
        kind = f"{name} ({device}, {'as imported' if plain else 'optimized'})"
        try:
            hyp.compile_model(path, plan, target="cpu", no_rewrite=plain)
            with hyp.Engine(plan, device) as engine:
                actual = engine.run(feeds)[0]
        except hyp.Error as error:
            judge.fail(kind, error)
            continue
        judge.compared += 1
        far = same(actual, wanted, within)
        if np.any(far):
            at = tuple(np.argwhere(far)[0])
            got = actual[at] if actual.shape == wanted.shape else actual.shape
            judge.fail(kind, f"{np.count_nonzero(far)} of {far.size} elements, at {at} {got!r} for {wanted[at]!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    only = parser.parse_args().only
    judge = judging.Judge()
    chosen = [c for c in cases if only in c[0]]
    for c in chosen:
        run(judge, *c)
    return judge.finish(len(chosen))


if __name__ == "__main__":
    sys.exit(main())
