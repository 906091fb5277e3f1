#!/usr/bin/env python3
"""Loop and Scan, written out by the importer, against onnxruntime, on the CPU and the reference backend: trips that are
counted, that a condition ends which is known, and that one ends which the data decide; what is captured, nested, stacked,
and what is refused. Exit status 1 if anything differs."""
import os
import sys

import judging

hyp = judging.hyp
np, onnx = hyp.need("numpy", "onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

VARIANTS = [("cpu", False), ("reference", False), ("cpu", True)]
I64, F32, BOOL = TensorProto.INT64, TensorProto.FLOAT, TensorProto.BOOL
rng = np.random.default_rng(17)


def f32(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def node(op, inputs, outputs, **attrs):
    """Names with spaces between; "-" is one that is absent."""
    names = [[n.replace("-", "") for n in text.split()] for text in (inputs, outputs)]
    return helper.make_node(op, *names, **attrs)


def const(name, value):
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(value)))


def graph(nodes, inputs, outputs, constants=None):
    """inputs and outputs: name -> (type, dims)."""
    infos = [[helper.make_tensor_value_info(n, t, d) for n, (t, d) in io.items()] for io in (inputs, outputs)]
    return helper.make_graph(nodes, "g", *infos, [numpy_helper.from_array(np.asarray(v), n) for n, v in (constants or {}).items()])


def model(nodes, inputs, outputs, constants=None, functions=()):
    domains = [helper.make_opsetid("", 18)] + ([helper.make_opsetid("own", 1)] if functions else [])
    return helper.make_model(graph(nodes, inputs, outputs, constants), opset_imports=domains, ir_version=9, functions=functions)


def body(nodes, carried, outputs, constants=None, deep="", go=()):
    """Of a Loop: `i` and `go` come first. carried: name -> type; outputs: of the condition and the rest. In another body names
    end in `deep`, as no two may be the same."""
    shapes = {"i" + deep: (I64, []), "go" + deep: (BOOL, go), **{n: (t, None) for n, t in carried.items()}}
    return graph(nodes, shapes, {n: (t, None) for n, t in outputs.items()}, constants)


KEEP, KEEP_IN = node("Identity", "go", "on"), node("Identity", "go_in", "on_in")
X = {"x": (F32, ("n", 4))}
ROWS = [{"x": f32(n, 4)} for n in (1, 3, 8)]
i64 = lambda *values: np.array(values, np.int64)  # noqa: E731
at = lambda value: np.array(value, np.int64)  # noqa: E731
CELL = [node("MatMul", "h w", "m"), node("Add", "m x", "a"), node("Tanh", "a", "h2")]


def counted():
    w = f32(4, 4) / 2
    state = {"n": at(5), "w": w}
    yield "a cell, captured weights", model(
        [node("Mul", "x x", "h0"), node("Loop", "n - h0", "y ys", body=body(
            [*CELL, KEEP], {"h": F32}, {"on": BOOL, "h2": F32, "m": F32}))],
        X, {"y": (F32, None), "ys": (F32, None)}, state), ROWS
    yield "weights and constants in the body", model(
        [node("Loop", "n t x", "y ys", body=body(
            [*CELL, const("half", np.float32(0.5)), node("Mul", "h2 half", "h3"), KEEP], {"h": F32},
            {"on": BOOL, "h3": F32, "h2": F32}, {"w": w}))],
        X, {"y": (F32, None), "ys": (F32, None)}, {"n": at(3), "t": np.bool_(True)}), ROWS
    yield "the trip's number", model(
        [node("Loop", "n - x", "y s", body=body(
            [node("Cast", "i", "f", to=F32), node("Mul", "h f", "p"), node("Add", "p one", "h2"), node("Identity", "i", "k"), KEEP],
            {"h": F32}, {"on": BOOL, "h2": F32, "k": I64}))],
        X, {"y": (F32, None), "s": (I64, None)}, {"n": at(4), "one": np.float32(1)}), ROWS
    yield "one trip", model([node("Loop", "n - x", "y s", body=body([node("Neg", "h", "h2"), KEEP], {"h": F32},
                                                                    {"on": BOOL, "h2": F32, "h": F32}))],
                            X, {"y": (F32, None), "s": (F32, None)}, {"n": i64(1)}), ROWS
    declared = graph([node("Neg", "h", "h2"), KEEP], {"i": (I64, []), "go": (BOOL, []), "h": (F32, (2, 4))},
                     {"on": (BOOL, []), "h2": (F32, (2, 4)), "h": (F32, (2, 4))}) # whose sizes onnxruntime takes for no trip
    for trips in (0, -3):
        yield f"{trips} trips", model([node("Loop", "n - x", "y s", body=declared)], {"x": (F32, (2, 4))},
                                      {"y": (F32, None), "s": (F32, None)}, {"n": at(trips)}), [{"x": f32(2, 4)}]
    yield "as many as rows", model(
        [node("Shape", "x", "s"), node("Gather", "s zero", "n"), node("Loop", "n - z", "y", body=body(
            [node("Gather", "x i", "r"), node("Add", "h r", "h2"), KEEP], {"h": F32}, {"on": BOOL, "h2": F32}))],
        {"x": (F32, (6, 4))}, {"y": (F32, None)}, {"zero": at(0), "z": np.zeros(4, np.float32)}), [{"x": f32(6, 4)}]
    yield "a list that grows", model(
        [node("Loop", "n - x", "y", body=body(
            [node("Neg", "x", "r"), node("Concat", "h r", "h2", axis=0), KEEP], {"h": F32}, {"on": BOOL, "h2": F32}))],
        X, {"y": (F32, None)}, {"n": at(3)}), ROWS
    yield "values that change places", model(
        [node("Loop", "n - x z", "y u", body=body(
            [node("Add", "a b", "c"), KEEP], {"a": F32, "b": F32}, {"on": BOOL, "b": F32, "c": F32}))],
        X, {"y": (F32, None), "u": (F32, None)}, {"n": at(7), "z": f32(4)}), ROWS
    yield "what is around as a result", model(
        [node("Loop", "n - x", "y s", body=body([node("Identity", "x", "r"), KEEP], {"h": F32}, {"on": BOOL, "h": F32, "r": F32}))],
        X, {"y": (F32, None), "s": (F32, None)}, {"n": at(2)}), ROWS


def conditions():
    count = [const("one", at(1)), node("Add", "k one", "k2"), node("Less", "k2 most", "on"), node("Tanh", "h", "h2")]
    for start, most in ((0, 5), (3, 4), (9, 2)):
        yield f"a counter, {start} to {most}", model(
            [node("Less", "k0 most", "first"), node("Loop", "- first k0 x", "k y", body=body(
                count, {"k": I64, "h": F32}, {"on": BOOL, "k2": I64, "h2": F32}))],
            X, {"k": (I64, None), "y": (F32, None)}, {"k0": at(start), "most": at(most)}), ROWS
    yield "a float that is halved", model(
        [node("Loop", "- t k0 x", "k y", body=body(
            [const("half", np.float32(0.5)), node("Mul", "k half", "k2"), node("Greater", "k2 half", "on"), node("Exp", "h", "e"),
             node("Sub", "e h", "h2")], {"k": F32, "h": F32}, {"on": BOOL, "k2": F32, "h2": F32}))],
        X, {"k": (F32, None), "y": (F32, None)}, {"t": np.bool_(True), "k0": np.float32(20)}), ROWS
    yield "a condition of one axis", model(
        [node("Loop", "n t x", "y", body=body(
            [const("off", np.array([False])), node("Identity", "off", "on"), node("Neg", "h", "h2")], {"h": F32},
            {"on": BOOL, "h2": F32}, go=(1,)))],
        X, {"y": (F32, None)}, {"n": at(9), "t": np.array([True])}), ROWS
    yield "ended by the body, no condition before", model(
        [node("Loop", "n - x", "y", body=body(
            [const("off", np.bool_(False)), node("Identity", "off", "on"), node("Exp", "h", "h2")], {"h": F32}, {"on": BOOL, "h2": F32}))],
        X, {"y": (F32, None)}, {"n": at(5)}), ROWS


def nested():
    inner = body([node("Mul", "a b", "p"), node("Add", "g p", "g2"), KEEP_IN], {"g": F32}, {"on_in": BOOL, "g2": F32, "p": F32},
                 deep="_in")
    yield "a loop in a loop", model(
        [node("Loop", "n - x", "y s", body=body(
            [node("Tanh", "h", "a"), node("Neg", "a", "b"), node("Loop", "three - h", "h2 ps", body=inner), KEEP],
            {"h": F32}, {"on": BOOL, "h2": F32, "ps": F32}))],
        X, {"y": (F32, None), "s": (F32, None)}, {"n": at(2), "three": at(3)}), ROWS
    even = graph([node("Neg", "h", "e")], {}, {"e": (F32, None)})
    odd = graph([node("Exp", "h", "o")], {}, {"o": (F32, None)})
    yield "a branch by the trip's number", model(
        [node("Loop", "n - x", "y", body=body(
            [node("Mod", "i two", "r"), node("Equal", "r zero", "c"), node("If", "c", "h2", then_branch=even, else_branch=odd), KEEP],
            {"h": F32}, {"on": BOOL, "h2": F32}))],
        X, {"y": (F32, None)}, {"n": at(4), "two": at(2), "zero": at(0)}), ROWS
    scanned = graph([node("Add", "s e", "s2"), node("Mul", "s2 k", "o")], {"s": (F32, (4,)), "e": (F32, (4,))},
                    {"s2": (F32, (4,)), "o": (F32, (4,))})
    yield "a scan in a loop", model(
        [node("Loop", "n - z", "y s", body=body(
            [node("Cast", "i", "k", to=F32), node("Scan", "h x", "h2 os", body=scanned, num_scan_inputs=1), KEEP],
            {"h": F32}, {"on": BOOL, "h2": F32, "os": F32}))],
        {"x": (F32, (3, 4))}, {"y": (F32, None), "s": (F32, None)}, {"n": at(2), "z": np.zeros(4, np.float32)}), [{"x": f32(3, 4)}]
    twice = helper.make_function(
        "own", "Twice", ["x", "h0"], ["y"],
        [const("n", at(2)), node("Loop", "n - h0", "y", body=body(
            [node("Mul", "h x", "m"), node("Tanh", "m", "h2"), KEEP], {"h": F32}, {"on": BOOL, "h2": F32}))],
        [helper.make_opsetid("", 18)])
    yield "in a function, called twice", model(
        [node("Twice", "x one", "h", domain="own"), node("Twice", "h x", "y", domain="own")], X, {"y": (F32, None)},
        {"one": np.float32([1])}, [twice]), ROWS


def by_data():
    """What ends is decided by x, whose sizes the last cases change."""
    small = [node("Mul", "h half", "h2"), node("ReduceMax", "h2", "m", keepdims=0), node("Greater", "m half", "on")]
    start = [node("ReduceMax", "x", "m0", keepdims=0), node("Greater", "m0 half", "first")]
    constants = {"n": at(6), "half": np.float32(0.5)}
    cases = [{"x": np.abs(f32(n, 4)) * np.float32(s)} for n, s in ((1, 1), (3, 9), (5, 0.01), (2, 300), (4, 3))]
    yield "until it is small", model(
        [*start, node("Loop", "n first x", "y m", body=body(small, {"h": F32}, {"on": BOOL, "h2": F32, "m": F32}))],
        X, {"y": (F32, None), "m": (F32, None)}, constants), cases
    declared = graph(small, {"i": (I64, []), "go": (BOOL, []), "h": (F32, (2, 4))},
                     {"on": (BOOL, []), "h2": (F32, (2, 4)), "h": (F32, (2, 4))})
    yield "not a single trip, perhaps", model([*start, node("Loop", "n first x", "y s", body=declared)], {"x": (F32, (2, 4))},
                                              {"y": (F32, None), "s": (F32, None)}, constants), [
        {"x": np.abs(f32(2, 4)) * np.float32(s)} for s in (0.01, 5)]
    yield "one trip at least, and what follows", model(
        [node("Loop", "n t x", "h hs", body=body(small, {"h": F32}, {"on": BOOL, "h2": F32, "h": F32})),
         node("Tanh", "h", "y"), node("MatMul", "hs w", "p"), node("Relu", "p", "s")],
        X, {"y": (F32, None), "s": (F32, None)}, {**constants, "t": np.bool_(True), "w": f32(4, 3)}), cases
    late = [*small[:2], node("Greater", "m half", "large"), node("Less", "i two", "early"), node("Or", "large early", "on")]
    yield "two trips for sure", model(
        [node("Loop", "n t x", "y s", body=body(late, {"h": F32}, {"on": BOOL, "h2": F32, "h": F32}))],
        X, {"y": (F32, None), "s": (F32, None)}, {**constants, "t": np.bool_(True), "two": at(2)}), cases
    search = [node("Gather", "table k", "r"), node("Add", "k one", "k2"), node("Less", "r limit", "on")]
    yield "a search", model(
        [node("Loop", "n t zero", "k", body=body(search, {"k": I64}, {"on": BOOL, "k2": I64}))],
        {"limit": (F32, ()), "table": (F32, (9,))}, {"k": (I64, None)}, {"n": at(8), "t": np.bool_(True), "zero": at(0), "one": at(1)}), [
            {"limit": np.array(v, np.float32), "table": np.arange(9, dtype=np.float32)} for v in (-1, 0, 3.5, 100)]
    yield "a loop that is known in one that is not", model(
        [*start, node("Loop", "n first x", "y", body=body(
            [node("Loop", "n - h", "g", body=body([node("Mul", "g1 most", "g2"), KEEP_IN], {"g1": F32}, {"on_in": BOOL, "g2": F32},
                                                      deep="_in")),
             node("ReduceMax", "g", "m", keepdims=0), node("Greater", "m half", "more")], {"h": F32}, {"more": BOOL, "g": F32}))],
        X, {"y": (F32, None)}, {**constants, "most": np.float32(0.9)}), cases


    known = [const("one", at(1)), const("five", at(5)), node("Add", "k one", "k2"), node("Less", "k2 five", "few"),
             node("Mul", "h half", "h2"), node("ReduceMax", "h2", "m", keepdims=0), node("Greater", "m half", "large")]
    false = graph([const("f", np.bool_(False)), node("Identity", "f", "no")], {}, {"no": (BOOL, [])})
    large = graph([node("Identity", "large", "yes")], {}, {"yes": (BOOL, [])})
    branch = node("If", "few", "on", then_branch=large, else_branch=false)
    for name, ends in (("both", node("And", "large few", "on")), ("a branch", branch)):
        yield f"no bound but a counter, {name}", model(
            [*start, node("Loop", "- first k0 x", "k y", body=body(
                [*known, ends], {"k": I64, "h": F32}, {"on": BOOL, "k2": I64, "h2": F32}))],
            X, {"k": (I64, None), "y": (F32, None)}, {"half": constants["half"], "k0": at(0)}), cases
    yield "a list that grows inside", model(
        [node("Loop", "n t x x", "y u", body=body(
            [node("Concat", "g h", "g2", axis=0), node("ReduceSum", "g2 zero", "s"), node("ReduceMax", "s", "m", keepdims=0),
             node("Mul", "h s", "h2"), node("Less", "m hundred", "on")], {"h": F32, "g": F32}, {"on": BOOL, "h2": F32, "g2": F32}))],
        X, {"y": (F32, None)}, {"n": at(4), "t": np.bool_(True), "zero": i64(0), "hundred": np.float32(5)}), cases


def sequences():
    """As scripted PyTorch writes lists."""
    empty, insert = node("SequenceEmpty", "", "e"), node("SequenceInsert", "l h2", "l2")
    grown = helper.make_graph(
        [node("Tanh", "h", "h2"), insert, KEEP], "g",
        [helper.make_tensor_value_info("i", I64, []), helper.make_tensor_value_info("go", BOOL, []),
         helper.make_tensor_value_info("h", F32, None), helper.make_tensor_sequence_value_info("l", F32, None)],
        [helper.make_tensor_value_info("on", BOOL, None), helper.make_tensor_value_info("h2", F32, None),
         helper.make_tensor_sequence_value_info("l2", F32, None)])
    for new in (0, 1):
        yield f"a list of a loop, new axis {new}", model(
            [empty, node("Loop", "n - x e", "y l", body=grown), node("ConcatFromSequence", "l", "z", axis=-1, new_axis=new)],
            X, {"y": (F32, None), "z": (F32, None)}, {"n": at(4)}), ROWS
    made = [node("Neg", "x", "a"), node("Exp", "x", "b"), node("SequenceConstruct", "x a b", "s")]
    places = {"zero": at(0), "one": at(1), "last": at(-1), "three": at(3)}
    yield "items by their places", model(
        [*made, node("SequenceAt", "s one", "p"), node("SequenceAt", "s last", "q"), node("SequenceInsert", "s p last", "t"),
         node("SequenceInsert", "t q zero", "u"), node("SequenceErase", "u one", "v"), node("SequenceErase", "v", "w"),
         node("SequenceInsert", "w b three", "f"), node("Identity", "f", "g"), node("ConcatFromSequence", "g", "y", axis=0),
         node("SequenceLength", "g", "n")],
        X, {"y": (F32, None), "n": (I64, None)}, places), ROWS
    for name, inputs, attrs in (("ones", "x", {}), ("ones without the axis", "x", {"keepdims": 0, "axis": 1}),
                                ("parts of a size", "x two", {"axis": 1}), ("one part", "x most", {"axis": 1}),
                                ("a rest", "x three", {"axis": -1}),
                                ("a list of parts", "x list", {"axis": 1})):
        yield f"split to {name}", model(
            [node("SplitToSequence", inputs, "s", **attrs), node("SequenceLength", "s", "n"), node("SequenceAt", "s last", "y"),
             node("SequenceAt", "s zero", "z")], {"x": (F32, (2, 4))}, {"y": (F32, None), "z": (F32, None), "n": (I64, None)},
            {"last": at(-1), "zero": at(0), "two": at(2), "three": at(3), "most": at((1 << 63) - 1), "list": i64(1, 3)}), [{"x": f32(2, 4)}]


def scans():
    cell = [node("MatMul", "s w", "m"), node("Add", "m e", "a"), node("Tanh", "a", "s2")]
    matrices = lambda names: {n: (F32, ("r", "c")) for n in names.split()}  # noqa: E731
    plain = graph([*cell, node("Neg", "s2", "o")], matrices("s e"), matrices("s2 o"))
    two = graph([*cell, node("Mul", "s2 d", "o"), node("Add", "o m", "p")], matrices("s e d"), matrices("s2 o p"))
    series = {"x": (F32, (5, "n", 3)), "s0": (F32, ("n", 3))}
    cases = [{"x": f32(5, n, 3), "s0": f32(n, 3)} for n in (1, 4)]
    outs = {"s": (F32, None), "y": (F32, None)}
    w = {"w": f32(3, 3) / 2}
    yield "forward", model([node("Scan", "s0 x", "s y", body=plain, num_scan_inputs=1)], series, outs, w), cases
    yield "backward", model([node("Scan", "s0 x", "s y", body=plain, num_scan_inputs=1, scan_input_directions=[1],
                                  scan_output_directions=[1])], series, outs, w), cases
    yield "other axes, and two", model(
        [node("Scan", "s0 x d", "s y z", body=two, num_scan_inputs=2, scan_input_axes=[1, -1], scan_output_axes=[-1, 1],
              scan_input_directions=[0, 1], scan_output_directions=[1, 0])],
        {"x": (F32, ("n", 4, 3)), "d": (F32, ("n", 3, 4)), "s0": (F32, ("n", 3))}, {**outs, "z": (F32, None)}, w), [
            {"x": f32(n, 4, 3), "d": f32(n, 3, 4), "s0": f32(n, 3)} for n in (1, 3)]
    yield "no state", model(
        [node("Scan", "x", "y", body=graph([node("Exp", "e", "o")], matrices("e"), matrices("o")), num_scan_inputs=1)],
        {"x": (F32, (4, "n", 2))}, {"y": (F32, None)}), [{"x": f32(4, n, 2)} for n in (1, 5)]


def check_what_only_onnx_has(judge):
    """onnxruntime wants an Identity for what is around as a result, and refuses a Scan over nothing."""
    around = model([node("Loop", "n - x", "y s", body=body([KEEP], {"h": F32}, {"on": BOOL, "h": F32, "x": F32}))],
                   X, {"y": (F32, None), "s": (F32, None)}, {"n": at(2)})
    x = f32(3, 4)
    judge.judge("what is around as it is", around, [{"x": x}], VARIANTS, wanted=[[x, np.stack([x, x])]])
    nothing = graph([node("Add", "s e", "s2"), node("Neg", "s2", "o")], {"s": (F32, None), "e": (F32, None)},
                    {"s2": (F32, None), "o": (F32, None)})
    made = model([node("Scan", "s0 x", "s y", body=nothing, num_scan_inputs=1)], {"x": (F32, (0, 2, 3)), "s0": (F32, (2, 3))},
                 {"s": (F32, None), "y": (F32, None)})
    feeds = {"x": f32(0, 2, 3), "s0": f32(2, 3)}
    judge.judge("nothing to scan", made, [feeds], VARIANTS, wanted=[[feeds["s0"], f32(0, 2, 3)]])


def neg(trips, condition="-", **constants):
    return model([node("Loop", f"{trips} {condition} x", "y", body=body([node("Neg", "h", "h2"), KEEP], {"h": F32},
                                                                        {"on": BOOL, "h2": F32}))],
                 X, {"y": (F32, None)}, constants)


def nest(depth, trips):
    """Loops in loops."""
    inner = body([node("Neg", "h0", "q0"), KEEP], {"h0": F32}, {"on": BOOL, "q0": F32})
    for d in range(1, depth):
        inner = body([node("Loop", f"n - h{d}", f"q{d}", body=inner), KEEP], {f"h{d}": F32}, {"on": BOOL, f"q{d}": F32})
    return model([node("Loop", "n - x", "y", body=inner)], X, {"y": (F32, None)}, {"n": at(trips)})


def refused():
    """(name, model, part of the message)"""
    data = [node("ReduceMax", "h", "m", keepdims=0), node("Greater", "m zero", "on")]
    go = {"t": np.bool_(True), "zero": np.float32(0)}
    yield "for ever", neg("-", "t", t=np.bool_(True)), "nothing ends it"
    yield "deeper than any", nest(12, 40), "8 others"
    yield "another shape, and the data decide", model(
        [node("Loop", "n t x", "y", body=body([*data, node("Concat", "h h", "h2", axis=0)], {"h": F32}, {"on": BOOL, "h2": F32}))],
        X, {"y": (F32, None)}, {**go, "n": at(3)}), "output of node"
    yield "no bool", neg("n", "n", n=at(3)), "bool"
    yield "no body", model([node("Loop", "n - x", "y")], X, {"y": (F32, None)}, {"n": at(3)}), "body"
    yield "a body of another kind", model(
        [node("Loop", "n - x", "y", body=body([KEEP], {}, {"on": BOOL}))], X, {"y": (F32, None)}, {"n": at(3)}), "body"
    yield "what the body lacks", model(
        [node("Loop", "n - x", "y", body=body([node("Det", "h", "h2"), KEEP], {"h": F32}, {"on": BOOL, "h2": F32}))],
        X, {"y": (F32, None)}, {"n": at(3)}), "Det"
    much = body([node("ConstantOfShape", "size", "c"), node("NonZero", "c", "p"), node("Cast", "p", "f", to=F32),
                 node("ReduceSum", "f", "s"), node("Add", "h s", "h2"), KEEP], {"h": F32}, {"on": BOOL, "h2": F32})
    yield "work without end", model(
        [node("Loop", "n - x", "y", body=much)], {"x": (F32, (1, 1))}, {"y": (F32, None)}, {"n": at(5000), "size": i64(1 << 20)}), "together"
    plain = graph([node("Add", "s e", "s2")], {"s": (F32, None), "e": (F32, None)}, {"s2": (F32, None)})
    scan = lambda dims, **attrs: model(  # noqa: E731
        [node("Scan", "s0 x", "y", body=plain, **attrs)], {"x": (F32, dims), "s0": (F32, (2,))}, {"y": (F32, None)})
    lists = {"zero": at(0), "nine": at(9)}
    one = node("SequenceConstruct", "x x", "s")
    yield "a list as a result", model([node("SequenceConstruct", "x x", "y")], X, {"y": (F32, None)}), "sequence"
    yield "a list in the place of a tensor", model([one, node("Relu", "s", "y")], X, {"y": (F32, None)}), "sequence"
    yield "a tensor in the place of a list", model([node("SequenceAt", "x zero", "y")], X, {"y": (F32, None)}, lists), "sequence"
    yield "no such place", model([one, node("SequenceAt", "s nine", "y")], X, {"y": (F32, None)}, lists), "position"
    yield "a place that the data decide", model(
        [one, node("SequenceAt", "s p", "y")], {**X, "p": (I64, ())}, {"y": (F32, None)}), "position"
    yield "a list of nothing", model(
        [node("SequenceEmpty", "", "s"), node("ConcatFromSequence", "s", "y", axis=0)], X, {"y": (F32, None)}), "empty"
    yield "an item of nothing", model(
        [node("SequenceEmpty", "", "s"), node("SequenceErase", "s", "t"), node("ConcatFromSequence", "t", "y", axis=0)], X,
        {"y": (F32, None)}), "position"
    yield "a list as a trip count", model(
        [one, node("Loop", "s - x", "y", body=body([node("Neg", "h", "h2"), KEEP], {"h": F32}, {"on": BOOL, "h2": F32}))],
        X, {"y": (F32, None)}), "sequence"
    yield "lists that trips collect", model(
        [one, node("Loop", "n - x", "z y", body=body([node("Neg", "h", "h2"), KEEP], {"h": F32}, {"on": BOOL, "h2": F32, "s": F32}))],
        X, {"y": (F32, None)}, {"n": at(2)}), "sequence"
    yield "a list as large as the data say", model(
        [one, node("Loop", "n t x s", "z l", body=body(
            [*data, node("Neg", "h", "h2"), node("SequenceInsert", "l1 h2", "l2")], {"h": F32, "l1": F32},
            {"on": BOOL, "h2": F32, "l2": F32})), node("ConcatFromSequence", "l", "y", axis=0)], X, {"y": (F32, None)},
        {**go, "n": at(2)}), "output of node"
    yield "parts without end", model(
        [node("SplitToSequence", "x", "s", axis=0), node("SequenceAt", "s zero", "y")], {"x": (F32, (1 << 24, 1))}, {"y": (F32, None)},
        lists), "65536"
    yield "parts that are not whole", model(
        [node("SplitToSequence", "x parts", "s", axis=1), node("SequenceAt", "s zero", "y")], X, {"y": (F32, None)},
        {**lists, "parts": i64(1, 2)}), "parts"
    yield "parts of no size", model(
        [node("SplitToSequence", "x zero", "s", axis=1), node("SequenceAt", "s zero", "y")], X, {"y": (F32, None)}, lists), "parts"
    yield "a scan of no input", scan((3, 2), num_scan_inputs=0), "num_scan_inputs"
    yield "a scan of more than it has", scan((3, 2), num_scan_inputs=99), "num_scan_inputs"
    yield "a scan along no axis", scan((3, 2), num_scan_inputs=1, scan_input_axes=[5]), "axis 5"
    yield "a scan with too many axes", scan((3, 2), num_scan_inputs=1, scan_input_axes=[0, 1]), "scan_input_axes"


def main():
    judge = judging.Judge()
    count = 0
    for family in (counted, conditions, nested, by_data, sequences, scans):
        for name, made, cases in family():
            judge.judge(name, made, cases, VARIANTS)
            count += 1
    check_what_only_onnx_has(judge)
    for name, made, words in refused():
        judge.refuse(name, made, words)
    return judge.finish(count)


if __name__ == "__main__":
    sys.exit(main())
