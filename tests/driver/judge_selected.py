#!/usr/bin/env python3
"""Outputs as large as the data say (NonZero, NonMaxSuppression, Unique, Compress, and what may follow), for any sizes of the
inputs, against onnxruntime, on the CPU and the reference backend; also what is refused, and that the summary and
`hypatia verify` judge such plans. Exit status 1 if anything differs."""
import os
import sys
import tempfile

import judging

hyp = judging.hyp
np, onnx = hyp.need("numpy", "onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

VARIANTS = [("cpu", False), ("reference", False), ("cpu", True)]
I64, F32 = TensorProto.INT64, TensorProto.FLOAT
rng = np.random.default_rng(91)


def node(op, inputs, outputs, **attrs):
    return helper.make_node(op, [i.replace("-", "") for i in inputs.split()], [o.replace("-", "") for o in outputs.split()], **attrs)


def model(nodes, inputs, outputs, constants=None):
    """inputs: name -> (type, dims); outputs: name -> type."""
    graph = helper.make_graph(
        nodes, "selected", [helper.make_tensor_value_info(n, t, d) for n, (t, d) in inputs.items()],
        [helper.make_tensor_value_info(n, t, None) for n, t in outputs.items()],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in (constants or {}).items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def x_of(*shape, part=0.5):
    x = rng.standard_normal(shape).astype(np.float32)
    return np.where(rng.random(shape) < part, x, 0).astype(np.float32)


MATRIX = {"x": (F32, ("n", "m"))}
MATRICES = [{"x": x_of(3, 4)}, {"x": x_of(1, 1, part=1)}, {"x": np.zeros((2, 5), np.float32)}, {"x": x_of(7, 6, part=1)},
            {"x": x_of(0, 3)}]
i64 = lambda *values: np.array(values, np.int64)  # noqa: E731


def boxes(images, classes, n):
    corner = rng.random((images, n, 2)).astype(np.float32) * 4
    return {"b": np.concatenate([corner, corner + 0.5 + rng.random((images, n, 2))], 2).astype(np.float32),
            "s": rng.random((images, classes, n)).astype(np.float32)}


def selected():
    """(name, model, cases)"""
    yield "places", model([node("NonZero", "x", "y")], MATRIX, {"y": I64}), MATRICES
    yield "places of what is computed", model(
        [node("Relu", "x", "r"), node("NonZero", "r", "p"), node("Transpose", "p", "y")], MATRIX, {"y": I64}), MATRICES
    yield "elements by a mask", model(
        [node("Greater", "x zero", "c"), node("NonZero", "c", "p"), node("Transpose", "p", "t", perm=[1, 0]),
         node("GatherND", "x t", "v"), node("Mul", "v three", "w"), node("Tanh", "w", "y")],
        MATRIX, {"y": F32, "t": I64}, {"zero": np.float32(0), "three": np.float32(3)}), MATRICES
    yield "rows by a mask", model(
        [node("Compress", "x c", "k", axis=0), node("MatMul", "k w", "z"), node("Concat", "k k", "a", axis=1),
         node("Softmax", "a", "b", axis=-1), node("ReduceSum", "k one", "d", keepdims=1), node("Add", "b d", "y")],
        {**MATRIX, "c": (TensorProto.BOOL, ("n",))}, {"y": F32, "z": F32}, {"w": np.float32([[1], [2], [0], [1]]), "one": i64(1)}), [
            {"x": x_of(n, 4), "c": rng.random(n) < part} for n, part in ((3, 0.5), (6, 1), (4, 0), (9, 0.3))]
    yield "rows that are looked at", model(
        [node("Compress", "x c", "k", axis=0), node("LayerNormalization", "k g", "y"), node("ArgMax", "y", "i", axis=1),
         node("TopK", "y two", "t j", axis=-1), node("CumSum", "y last", "z")],
        {**MATRIX, "c": (TensorProto.BOOL, ("n",))}, {"y": F32, "z": F32, "t": F32, "i": I64, "j": I64},
        {"g": np.float32([1, 2, 3, 4]), "two": i64(2), "last": np.int64(1)}), [
            {"x": x_of(n, 4, part=1), "c": rng.random(n) < part} for n, part in ((3, 0.5), (6, 1), (4, 0), (9, 0.3))]
    yield "elements by a condition", model(
        [node("Less", "x zero", "c"), node("Reshape", "c all", "f"), node("Compress", "x f", "y")], MATRIX, {"y": F32},
        {"zero": np.float32(0), "all": i64(-1)}), MATRICES
    yield "indices that are moved", model(
        [node("NonZero", "x", "p"), node("Split", "p", "r c", axis=0, num_outputs=2), node("Squeeze", "c first", "d"),
         node("Sub", "d one", "e"), node("Gather", "t e", "y"), node("Unsqueeze", "d last", "u"), node("Cast", "u", "v", to=F32)],
        MATRIX, {"y": F32, "v": F32, "r": I64},
        {"first": i64(0), "last": i64(1), "one": np.int64(1), "t": x_of(8, 3, part=1)}), MATRICES
    scalars = {"k": i64(3), "o": np.float32([0.3]), "l": np.float32([0.2])}
    box = {"b": (F32, ("i", "n", 4)), "s": (F32, ("i", "c", "n"))}
    many = [boxes(1, 1, 20), boxes(2, 3, 30), boxes(1, 2, 1), boxes(3, 1, 8)]
    yield "boxes", model([node("NonMaxSuppression", "b s k o l", "y")], box, {"y": I64}, scalars), many
    yield "boxes, as many as an input says", model(
        [node("NonMaxSuppression", "b s k o", "y")], {**box, "k": (I64, ())}, {"y": I64}, {"o": scalars["o"]}), [
            {**feeds, "k": np.array(k, np.int64)} for feeds, k in zip(many, (2, 100, 0, 5))]
    yield "boxes that are looked up", model(
        [node("NonMaxSuppression", "b s k o l", "r"), node("Slice", "r two three one", "c"), node("Squeeze", "c one", "d"),
         node("Gather", "e d", "y0"), node("Mul", "y0 half", "y"), node("Gather", "r zero", "z", axis=1)],
        {**box, "e": (F32, ("n", 4))}, {"y": F32, "z": I64},
        {**scalars, "one": i64(1), "two": i64(2), "three": i64(3), "zero": np.int64(0), "half": np.float32(0.5)}), [
            {**feeds, "e": feeds["b"][0]} for feeds in many]
    whole = [{"x": rng.integers(-3, 4, shape)} for shape in ((4, 5), (1, 1), (6, 2), (3, 9))]
    ints = {"x": (I64, ("n", "m"))}
    yield "distinct", model([node("Unique", "x", "y f i c")], ints, dict.fromkeys("yfic", I64)), whole
    yield "distinct as they come", model([node("Unique", "x", "y - i", sorted=0), node("Neg", "y", "z")], ints,
                                         dict.fromkeys("zi", I64)), whole
    yield "distinct rows", model([node("Unique", "x", "y f i c", axis=0)], ints, dict.fromkeys("yfic", I64)), whole
    yield "distinct columns", model([node("Unique", "x", "y - - c", axis=1, sorted=0)], ints,
                                    dict.fromkeys("yc", I64)), whole
    yield "two at a time", model(
        [node("NonZero", "x", "p"), node("Neg", "x", "h"), node("Unique", "h", "u"), node("Relu", "u", "q")], MATRIX,
        {"p": I64, "q": F32, "h": F32}), [{"x": np.round(x_of(*s))} for s in ((3, 4), (5, 2), (1, 7))]


def refused():
    places = [node("NonZero", "x", "p")]
    lone = {"zero": np.float32(0), "axes": i64(1), "all": i64(-1)}
    f = [*places, node("Cast", "p", "f", to=F32)]
    return {
        "a sum": [*f, node("ReduceSum", "f axes", "y")],
        "a softmax": [*f, node("Softmax", "f", "y", axis=1)],
        "its end": [*f, node("Concat", "f f", "y", axis=1)],
        "the middle of a row": [*f, node("Reshape", "f all", "y")],
        "a product": [*f, node("Transpose", "f", "t"), node("MatMul", "f t", "y")],
        "its size as data": [*places, node("Shape", "p", "s"), node("Cast", "s", "y", to=F32)],
        "places of places": [*places, node("NonZero", "p", "q"), node("Cast", "q", "y", to=F32)],
        "a sort": [*f, node("TopK", "f axes", "y -")],
        "twice": [*f, node("Unsqueeze", "f last", "u"), node("Unsqueeze", "f axes", "v"), node("Add", "u v", "y")],
    }, {**lone, "last": i64(2)}


def check_refusals(judge):
    made, constants = refused()
    for name, nodes in made.items():
        used = {i for n in nodes for i in n.input}
        known = {k: v for k, v in constants.items() if k in used}
        judge.refuse(name, model(nodes, MATRIX, {"y": F32}, known), "data", ["unsupported"])


def check_tools(judge):
    """The compiler verifies such a plan, and so does `hypatia verify` with the model; `run` shows what there is."""
    made = model([node("Round", "x", "r"), node("NonZero", "r", "p"), node("Transpose", "p", "y")], MATRIX, {"y": I64, "r": F32})
    with tempfile.TemporaryDirectory() as folder:
        path, plan, x, y = (os.path.join(folder, name) for name in ("m.onnx", "m.bin", "x.npy", "y.npy"))
        with open(path, "wb") as file:
            file.write(made.SerializeToString())
        np.save(x, np.float32([[0, 2, 0], [3, 0, 0.2]]))
        for args, wanted in ((("hypatiac", path, "-o", plan, "--verify", "strict"), "no difference"),
                             (("hypatia", "verify", plan, "--model", path, "--input", f"x=@{x}"), "PASSED"),
                             (("hypatia", "inspect", plan), "the data say how much of axis 0 there is of 'y'"),
                             (("hypatia", "inspect", plan, "--json"), '"data_sizes": [{"output": "y", "axis": 0}]'),
                             (("hypatia", "run", plan, "--input", f"x=@{x}", "--output", f"y=@{y}"), "")):
            done = hyp.tool(*args)
            if done.returncode != 0 or wanted not in done.stdout:
                judge.fail(" ".join(args), done.stdout + done.stderr)
        if os.path.exists(y) and not np.array_equal(np.load(y), [[0, 1], [1, 0]]):
            judge.fail("run", np.load(y))


def main():
    judge = judging.Judge()
    count = 0
    for name, made, cases in selected():
        judge.judge(name, made, cases, VARIANTS)
        count += 1
    check_refusals(judge)
    check_tools(judge)
    return judge.finish(count)


if __name__ == "__main__":
    sys.exit(main())
