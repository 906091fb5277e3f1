#!/usr/bin/env python3
"""Loops whose trips only a run tells, which the runtime runs, against onnxruntime, on the CPU and the reference backend: as many
as a size or an input says, as data end them, none, one and many, nested, random bodies; what is refused when the model is compiled
and when it runs. Exit status 1 if anything differs."""
import json
import os
import random
import sys
import time

import judge_loops as loops
import judging
from judge_loops import BOOL, F32, I64, KEEP, KEEP_IN, X, at, body, f32, graph, hyp, i64, model, node, np, numpy_helper

VARIANTS = loops.VARIANTS
N = {**X, "n": (I64, ())}
TRIPS = [0, 1, 2, 7, 50]
rng = random.Random(5)


def rows(trips, **more):
    return [{"x": f32(1 + k % 3, 4), "n": at(t), **more} for k, t in enumerate(trips)]


def many_values(count):
    """As a decoder has that hands on its cache: each value becomes the sum of itself and the next."""
    names = [f"h{k}" for k in range(count)]
    nodes = [node("Add", f"{n} {names[(k + 1) % count]}", f"{n}_s") for k, n in enumerate(names)]
    nodes += [node("Tanh", f"{n}_s", f"{n}_") for n in names]
    return model(
        [node("Neg", "x", "z"), node("Loop", "n -" + " x z" * (count // 2) + " x" * (count % 2), " ".join(f"y{k}" for k in range(count)),
         body=body([KEEP, *nodes], {n: F32 for n in names}, {"on": BOOL, **{f"{n}_": F32 for n in names}}))], N,
        {f"y{k}": (F32, None) for k in range(count)})


def counted():
    """(name, model, cases)"""
    w = {"w": f32(4, 4) / 2, "zero": at(0), "t": np.bool_(True)}
    step = [node("MatMul", "h w", "m"), node("Tanh", "m", "h2"), KEEP]
    one = body(step, {"h": F32}, {"on": BOOL, "h2": F32})
    yield "trips by an input", model([node("Loop", "n - x", "y", body=one)], N, {"y": (F32, None)}, w), rows(TRIPS)
    yield "a condition that is known", model([node("Loop", "n t x", "y", body=one)], N, {"y": (F32, None)}, w), rows(TRIPS)
    yield "one number, with an axis", model([node("Loop", "n - x", "y", body=one)], {**X, "n": (I64, (1,))}, {"y": (F32, None)},
                                            w), [{"x": f32(2, 4), "n": i64(t)} for t in TRIPS]
    sized = [node("Shape", "x", "sh"), node("Gather", "sh zero", "n")]
    yield "trips by a size", model([*sized, node("Loop", "n - x", "y", body=one)], X, {"y": (F32, None)}, w), [
        {"x": f32(n, 4)} for n in (1, 2, 9, 30)]
    collects = body([*step, node("ReduceSum", "h2", "r", keepdims=0)], {"h": F32}, {"on": BOOL, "h2": F32, "r": F32})
    yield "a row of each element", model([*sized, node("Loop", "n - x", "y rs", body=collects)], X,
                                         {"y": (F32, None), "rs": (F32, None)}, w), [{"x": f32(n, 4)} for n in (1, 2, 9, 30)]
    yield "what is behind such rows", model(
        [*sized, node("Loop", "n - x", "y rs", body=collects), node("Softmax", "rs", "p", axis=0), node("Neg", "p", "q")], X,
        {"q": (F32, None)}, w), [{"x": f32(n, 4)} for n in (1, 2, 9)]
    yield "as many rows as an input says", model([node("Loop", "n - x", "y rs", body=collects)], N,
                                                 {"y": (F32, None), "rs": (F32, None)}, w), rows(TRIPS)
    pick = body([node("Gather", "x i", "r", axis=0), node("Add", "h r", "h2"), node("Mul", "r k", "s"), KEEP], {"h": F32},
                {"on": BOOL, "h2": F32, "s": F32})
    yield "the number of the trip, and what is around", model(
        [*sized, node("Neg", "x", "k0"), node("ReduceMax", "k0", "k", keepdims=0), node("Loop", "n - h0", "y s", body=pick)], X,
        {"y": (F32, None), "s": (F32, None)}, {**w, "h0": np.zeros(4, np.float32)}), [{"x": f32(n, 4)} for n in (1, 5, 12)]
    yield "several values", model(
        [node("Loop", "n - x x n", "a b c as cs", body=body(
            [node("Add", "a1 b1", "a2"), node("Sub", "a1 b1", "b3"), node("Mul", "b3 half", "b2"), node("Add", "c1 i", "c2"), KEEP,
             node("Identity", "a1", "ar")],
            {"a1": F32, "b1": F32, "c1": I64}, {"on": BOOL, "a2": F32, "b2": F32, "c2": I64, "ar": F32, "c1": I64}))], N,
        {"a": (F32, None), "b": (F32, None), "c": (I64, None), "as": (F32, None), "cs": (I64, None)},
        {"half": np.float32(0.5)}), rows([1, 3, 12])
    yield "nothing is handed on", model([node("Loop", "n -", "r", body=body([node("Mul", "i i", "r"), KEEP], {}, {"on": BOOL, "r": I64}))],
                                        {"n": (I64, ())}, {"r": (I64, None)}), [{"n": at(t)} for t in TRIPS]
    yield "values change places", model(
        [node("Neg", "x", "z"), node("Loop", "n - x z", "a b", body=body([KEEP, node("Identity", "b1", "b2"), node("Identity", "a1", "a2")],
         {"a1": F32, "b1": F32}, {"on": BOOL, "b2": F32, "a2": F32}))], N, {"a": (F32, None), "b": (F32, None)}), rows([0, 1, 2, 5])
    yield "more trips than are written out", model(
        [node("Loop", "k - x", "y", body=one)], X, {"y": (F32, None)}, {**w, "k": at(70000)}), [{"x": f32(1, 4)}]
    yield "many values", many_values(48), rows([0, 1, 5])
    yield "below none", model([node("Loop", "n - x", "y", body=one)], N, {"y": (F32, None)}, w), rows([-1, -(1 << 62)])


def bounded(most):
    """The data end it, or its trip count does."""
    c = {"half": np.float32(0.5), "least": np.float32(0.01), "t": np.bool_(True), "k": at(most)}
    halve = [node("Mul", "h half", "h2"), node("ReduceMax", "h2", "m", keepdims=0), node("Greater", "m least", "on")]
    return model([node("Loop", "k t x", "y ms", body=body(halve, {"h": F32}, {"on": BOOL, "h2": F32, "m": F32}))], X,
                 {"y": (F32, None), "ms": (F32, None)}, c)


def by_data():
    halve = [node("Mul", "h half", "h2"), node("ReduceMax", "h2", "m", keepdims=0), node("Greater", "m least", "on")]
    c = {"half": np.float32(0.5), "least": np.float32(0.01), "t": np.bool_(True), "zero": at(0), "one": at(1),
         "long": at((1 << 63) - 1)}
    cases = [{"x": abs(f32(n, 4)) * scale} for n, scale in ((1, 1), (3, 100), (2, 1e-4), (2, 1e6))]
    plain = body(halve, {"h": F32}, {"on": BOOL, "h2": F32})
    rows_too = body(halve, {"h": F32}, {"on": BOOL, "h2": F32, "m": F32})
    for count in ("-", "long"):
        yield f"while, trips {count}", model([node("Loop", f"{count} t x", "y", body=plain)], X, {"y": (F32, None)}, c), cases
        yield f"while, and rows, trips {count}", model([node("Loop", f"{count} t x", "y ms", body=rows_too)], X,
                                                       {"y": (F32, None), "ms": (F32, None)}, c), cases
    start = [node("ReduceMax", "x", "m0", keepdims=0), node("Greater", "m0 least", "go0")]
    yield "perhaps not a single trip", model([*start, node("Loop", "- go0 x", "y ms", body=rows_too)], X,
                                             {"y": (F32, None), "ms": (F32, None)}, c), cases
    yield "an input says whether", model([node("Loop", "n go0 x", "y ms", body=rows_too)], {**N, "go0": (BOOL, ())},
                                         {"y": (F32, None), "ms": (F32, None)}, c), [
        {"x": abs(f32(2, 4)) * 100, "n": at(n), "go0": np.array(g)} for n in (0, 1, 5, 100) for g in (True, False)]
    for most in (8, 9, 64):
        yield f"at most {most} trips", bounded(most), cases
    yield "rows go on", model(
        [node("Loop", "- t x", "y ms", body=rows_too), node("Exp", "ms", "e"), node("Unsqueeze", "e one", "u"), node("Add", "u u", "v")],
        X, {"v": (F32, None)}, {**c, "one": i64(1)}), cases


def nested():
    c = {"half": np.float32(0.5), "least": np.float32(0.01), "t": np.bool_(True), "three": at(3), "zero": at(0), "w": f32(4, 4) / 2}
    inner = body([node("Mul", "g half", "g2"), node("Add", "g2 h", "g3"), KEEP_IN], {"g": F32}, {"on_in": BOOL, "g3": F32}, deep="_in")
    outer = body([node("Loop", "i - h", "h2", body=inner), KEEP], {"h": F32}, {"on": BOOL, "h2": F32})
    yield "a loop in a loop, both of a run", model([node("Loop", "n - x", "y", body=outer)], N, {"y": (F32, None)}, c), rows([0, 1, 2, 6])
    known = body([node("Loop", "three - h", "h2", body=inner), KEEP], {"h": F32}, {"on": BOOL, "h2": F32})
    yield "one that is known in one that is not", model([node("Loop", "n - x", "y", body=known)], N, {"y": (F32, None)}, c), rows([0, 1, 4])
    yield "one that is not in one that is known", model([node("Loop", "three - x", "y", body=body(
        [node("Loop", "n - h", "h2", body=inner), KEEP], {"h": F32}, {"on": BOOL, "h2": F32}))], N, {"y": (F32, None)}, c), rows([0, 1, 4])
    yield "in many trips of one that is known", model([node("Loop", "many - x", "y", body=body(
        [node("Loop", "n - h", "h2", body=inner), KEEP], {"h": F32}, {"on": BOOL, "h2": F32}))], N, {"y": (F32, None)},
        {**c, "many": at(40)}), rows([0, 1, 4])
    gathered = body([node("Loop", "n - h", "h2", body=body(
        [node("Gather", "x i_in", "r", axis=0), node("Add", "g r", "g2"), KEEP_IN], {"g": F32}, {"on_in": BOOL, "g2": F32}, deep="_in")),
        node("Mul", "h2 half", "h3"), KEEP], {"h": F32}, {"on": BOOL, "h3": F32, "h2": F32})
    yield "sizes, all around and within", model(
        [node("Shape", "x", "sh"), node("Gather", "sh zero", "n"), node("Loop", "n - h0", "y hs", body=gathered)], X,
        {"y": (F32, None), "hs": (F32, None)}, {**c, "h0": np.zeros(4, np.float32)}), [{"x": f32(n, 4)} for n in (1, 2, 6)]


OPS = ["Tanh", "Neg", "Abs", "Sigmoid", "Add", "Mul", "Sub", "Max", "MatMul"]


def random_body(count, values):
    """A body of a few nodes over `values` states, which keeps numbers small."""
    nodes, known = [], [f"h{k}" for k in range(values)] + ["x"]
    for k in range(count):
        op = rng.choice(OPS)
        ins = [rng.choice(known)] + ([] if op in OPS[:4] else ["w"] if op == "MatMul" else [rng.choice(known)])
        nodes.append(node(op, " ".join(ins), f"v{k}"))
        known.append(f"v{k}")
    for k in range(values):
        nodes.append(node("Tanh", rng.choice(known), f"o{k}"))
    ends = rng.random() < 0.5
    if ends:
        nodes += [node("ReduceMean", rng.choice(known), "m", keepdims=0), node("Less", "m bound", "on")]
    else:
        nodes.append(KEEP)
    collected = [rng.choice(known) for _ in range(rng.randint(0, 2))]
    nodes += [node("Identity", name, f"c{k}") for k, name in enumerate(collected)]
    outs = {"on": BOOL, **{f"o{k}": F32 for k in range(values)}, **{f"c{k}": F32 for k in range(len(collected))}}
    return body(nodes, {f"h{k}": F32 for k in range(values)}, outs), len(collected)


def at_random(count):
    for k in range(count):
        values = rng.randint(1, 3)
        made, collected = random_body(rng.randint(1, 6), values)
        outs = [f"y{i}" for i in range(values)] + [f"z{i}" for i in range(collected)]
        begin = " ".join(rng.choice(["x", "x", "k0"]) for _ in range(values))
        by_size = rng.random() < 0.4
        nodes = [node("Mul", "x bound", "k0")]
        if by_size:
            nodes += [node("Shape", "x", "sh"), node("Gather", "sh zero", "n")]
        nodes.append(node("Loop", f"n - {begin}", " ".join(outs), body=made))
        constants = {"w": f32(4, 4) / 3, "bound": np.float32(rng.choice([0.05, 0.3, 2])), "zero": at(0)}
        cases = [{"x": f32(n, 4)} for n in (1, 3, 5)] if by_size else rows([0, 1, 2, 9])
        yield f"at random {k}", model(nodes, X if by_size else N, {o: (F32, None) for o in outs}, constants), cases


def scans():
    """As many trips as an axis of what they go through, which every run may change."""
    cell = [node("MatMul", "s w", "m"), node("Add", "m e", "a"), node("Tanh", "a", "s2")]
    made = lambda nodes, ins, outs: graph(nodes, {n: (F32, None) for n in ins.split()}, {n: (F32, None) for n in outs.split()})  # noqa: E731
    plain = made([*cell, node("Neg", "s2", "o")], "s e", "s2 o")
    two = made([*cell, node("Mul", "s2 d", "o"), node("Add", "o m", "p")], "s e d", "s2 o p")
    w = {"w": f32(3, 3) / 2}
    outs = {"s": (F32, None), "y": (F32, None)}
    series = {"x": (F32, ("t", "n", 3)), "s0": (F32, ("n", 3))}
    cases = [{"x": f32(t, n, 3), "s0": f32(n, 3)} for t, n in ((1, 1), (5, 2), (40, 3))]
    yield "a scan", model([node("Scan", "s0 x", "s y", body=plain, num_scan_inputs=1)], series, outs, w), cases
    yield "a scan backward", model([node("Scan", "s0 x", "s y", body=plain, num_scan_inputs=1, scan_input_directions=[1],
                                         scan_output_directions=[1])], series, outs, w), cases
    yield "a scan along other axes", model(
        [node("Scan", "s0 x d", "s y z", body=two, num_scan_inputs=2, scan_input_axes=[1, -1], scan_output_axes=[-1, 1],
              scan_input_directions=[0, 1], scan_output_directions=[1, 0])],
        {"x": (F32, ("n", "t", 3)), "d": (F32, ("n", 3, "t")), "s0": (F32, ("n", 3))}, {**outs, "z": (F32, None)}, w), [
            {"x": f32(n, t, 3), "d": f32(n, 3, t), "s0": f32(n, 3)} for n, t in ((1, 1), (3, 4), (2, 11))]
    yield "a scan without a state", model([node("Scan", "x", "y", body=made([node("Exp", "e", "o")], "e", "o"), num_scan_inputs=1)],
                                          {"x": (F32, ("t", "n", 2))}, {"y": (F32, None)}), [{"x": f32(t, 2, 2)} for t in (1, 6)]


def write(judge, made):
    path = os.path.join(judge.folder.name, "m.onnx")
    with open(path, "wb") as file:
        file.write(made.SerializeToString())
    return path, os.path.join(judge.folder.name, "m.bin")


def refused():
    """(name, model, part of the message)"""
    grow = body([node("Concat", "h h", "h2", axis=0), KEEP], {"h": F32}, {"on": BOOL, "h2": F32})
    yield "a shape that grows", model([node("Loop", "n - x", "y", body=grow)], N, {"y": (F32, None)}), "same shapes"
    places = body([node("NonZero", "h", "p"), node("ReduceSum", "p", "s", keepdims=0), KEEP], {"h": F32}, {"on": BOOL, "h": F32, "s": I64})
    yield "sizes that a trip's data tell", model([node("Loop", "n - x", "y s", body=places)], N, {"y": (F32, None), "s": (I64, None)}), "data tell"
    yield "for ever", loops.neg("-", "t", t=np.bool_(True)), "nothing ends it"
    yield "a list", model(
        [node("SequenceConstruct", "x x", "l0"), node("Loop", "n - l0", "l", body=body(
            [node("SequenceInsert", "l1 x", "l2"), KEEP], {"l1": F32}, {"on": BOOL, "l2": F32})),
         node("ConcatFromSequence", "l", "y", axis=0)], N, {"y": (F32, None)}), "sequence"
    yield "a count that is no number", model(
        [node("Loop", "n - x", "y", body=body([KEEP], {"h": F32}, {"on": BOOL, "h": F32}))], {**X, "n": (I64, (2,))},
        {"y": (F32, None)}), "one number"
    yield "more values than a step has", many_values(65), "at most"


def too_much():
    """What would be too much to be written out: (name, model)"""
    yield "very often", loops.neg("n", n=at(1 << 40))
    yield "as often as can be said", loops.neg("n", n=at((1 << 63) - 1))
    yield "deep and often", loops.nest(6, 40)
    ones = numpy_helper.from_array(np.int64([1]))
    big = body([node("ConstantOfShape", "size", "c", value=ones), node("NonZero", "c", "p"), node("Cast", "p", "f", to=F32),
                node("ReduceSum", "f", "s"), node("Add", "h s", "h2"), KEEP], {"h": F32}, {"on": BOOL, "h2": F32})
    yield "constants without end", model([node("Loop", "n - x", "y", body=big)], {"x": (F32, (1, 1))}, {"y": (F32, None)},
                                         {"n": at(5000), "size": i64(1 << 16)})
    wide = graph([node("Neg", "h" if i == 0 else f"v{i - 1}", f"v{i}") for i in range(4000)], {}, {"v3999": (F32, None)})
    yield "a branch in a loop", model(
        [node("Loop", "n - x", "y", body=body([node("If", "t", "h2", then_branch=wide, else_branch=wide), KEEP], {"h": F32},
                                              {"on": BOOL, "h2": F32}))], X, {"y": (F32, None)}, {"n": at(1000), "t": np.bool_(True)})
    data = [node("ReduceMax", "h", "m", keepdims=0), node("Greater", "m least", "on"), node("Neg", "h", "h2")]
    inner = body([node("ReduceMax", "g", "m", keepdims=0), node("Greater", "m least", "on_in"), node("Neg", "g", "g2")], {"g": F32},
                 {"on_in": BOOL, "g2": F32}, deep="_in")
    yield "many without bounds in one", model([node("Loop", "n - x", "y", body=body(
        [node("Loop", "- t h", "h2", body=inner), KEEP], {"h": F32}, {"on": BOOL, "h2": F32}))], X, {"y": (F32, None)},
        {"n": at(1000), "t": np.bool_(True), "least": np.float32(0)})
    yield "without bounds", model([node("Loop", "- t x", "y", body=body(data, {"h": F32}, {"on": BOOL, "h2": F32}))], X,
                                  {"y": (F32, None)}, {"t": np.bool_(True), "least": np.float32(0)})


def check_choice(judge):
    """Which loops that the data end are run, and that they give the same written out."""
    x = abs(f32(3, 4))
    for most, options, runs in ((8, (), False), (9, (), True), (9, ("--write-loops",), False), (9, ("--target", "cuda"), False)):
        path, plan = write(judge, bounded(most))
        name = f"at most {most} trips {' '.join(options)}"
        done = hyp.tool("hypatiac", path, "-o", plan, *options)
        if done.returncode or ("hypatia::Loop" in done.stdout) != runs:
            judge.fail(name, f"is {'not ' if runs else ''}run: {done.stdout} {done.stderr}")
            continue
        with hyp.Engine(plan, "cpu") as engine:
            judge.compare(name, engine.run({"x": x}), judge.expected(name, bounded(most), [{"x": x}])[0])
    done = hyp.tool("hypatiac", write(judge, bounded(9))[0], "--dry-run", "--emit-onnx", os.path.join(judge.folder.name, "out.onnx"))
    if done.returncode:
        judge.fail("emitted", done.stderr)


def check_verified(judge):
    """The body is verified as a model is: with a rule that is wrong it is refused, and the rule named."""
    made = model([node("Loop", "n - x", "y", body=body([node("Tanh", "h", "a"), node("Neg", "a", "h2"), KEEP], {"h": F32},
                                                       {"on": BOOL, "h2": F32}))], N, {"y": (F32, None)})
    path, plan = write(judge, made)
    rules = os.path.join(judge.folder.name, "wrong.rules")
    with open(rules, "w") as file:
        file.write('(rule wrong-neg :class E :doc "a wrong rule" (neg (tanh ?x)) => (tanh ?x))')
    for mode, code in (("", 4), ("--verify=warn", 0)):
        done = hyp.tool("hypatiac", path, "-o", plan, "--rules", rules, *filter(None, [mode]))
        if done.returncode != code or "body of a loop is wrong" not in done.stderr or "wrong-neg" not in done.stderr:
            judge.fail(f"a wrong body {mode}", f"{done.returncode}: {done.stderr}")


def check_too_much(judge):
    for name, made in too_much():
        path, plan = write(judge, made)
        began = time.monotonic()
        try:
            hyp.compile_model(path, plan)
            with hyp.Engine(plan, "cpu"):
                pass
        except hyp.Error as error:
            judge.fail(name, error)
        print(f"{name}: {os.path.getsize(plan)} bytes, {time.monotonic() - began:.2f} s")


def check_limit(judge):
    """--loop-limit is for what only the data tell, and makes results no larger than it says."""
    step = body([node("Neg", "h", "h2"), KEEP], {"h": F32}, {"on": BOOL, "h2": F32, "h": F32})
    sized = model([node("Shape", "x", "sh"), node("Gather", "sh zero", "n"), node("Loop", "n - x", "y ys", body=step)], X,
                  {"y": (F32, None), "ys": (F32, None)}, {"zero": at(0)})
    counted = model([node("Loop", "n - x", "y ys", body=step)], N, {"y": (F32, None), "ys": (F32, None)})
    for name, made, feeds, fails in (("a size", sized, {"x": f32(9, 4)}, False), ("an input", counted, {"x": f32(2, 4), "n": at(9)}, True),
                                     ("few", counted, {"x": f32(2, 4), "n": at(5)}, False)):
        path, plan = write(judge, made)
        done = hyp.tool("hypatiac", path, "-o", plan, "--loop-limit", "5")
        if done.returncode:
            judge.fail(name, done.stderr)
            continue
        try:
            with hyp.Engine(plan, "cpu") as engine:
                judge.compare(f"a limit, trips by {name}", engine.run(feeds), judge.expected(name, made, [feeds])[0])
            if fails:
                judge.fail(name, "has no limit")
        except hyp.Error as error:
            if not fails or "--loop-limit" not in str(error):
                judge.fail(name, error)


def check_around(judge):
    """onnxruntime wants an Identity for what is around as a result of a body."""
    made = model([node("Loop", "n - x", "y s", body=body([KEEP], {"h": F32}, {"on": BOOL, "h": F32, "x": F32}))], N,
                 {"y": (F32, None), "s": (F32, None)})
    x = f32(3, 4)
    judge.judge("what is around as it is", made, [{"x": x, "n": at(2)}], VARIANTS, wanted=[[x, np.stack([x, x])]])


def check_number(judge):
    """A plan has as many loops as it has bodies, those within others, too: a small file must not make engines without end."""
    chain = lambda count, make: [make(k, f"h{k}", f"h{k + 1}") for k in range(count)]  # noqa: E731
    for outer, fits in ((15, True), (16, False)):
        inner = lambda k, x, y: node("Loop", f"n - {x}_in", f"{y}_in", body=body(  # noqa: E731
            [node("Neg", f"g{k}", f"g{k}_"), node("Identity", f"go{k}", f"on{k}")], {f"g{k}": F32}, {f"on{k}": BOOL, f"g{k}_": F32}, deep=str(k)))
        whole = lambda k, x, y: node("Loop", f"n - {x}", y, body=body(  # noqa: E731
            [*chain(16, inner), KEEP], {"h0_in": F32}, {"on": BOOL, "h16_in": F32}))
        path, plan = write(judge, model([node("Identity", "x", "h0"), *chain(outer, whole)], N, {f"h{outer}": (F32, None)}))
        hyp.compile_model(path, plan, no_rewrite=True)
        try:
            with hyp.Engine(plan, "cpu") as engine:
                engine.run({"x": f32(1, 4), "n": at(1)})
            if not fits:
                judge.fail("many loops", "are loaded")
        except hyp.Error as error:
            if fits or "256" not in str(error):
                judge.fail("many loops", error)


def check_warnings(judge):
    """What looks wrong in a body is said once, however often that is imported: written out, too long for that, or run."""
    odd = body([node("Neg", "h", "h2", unknown=3), KEEP], {"h": F32}, {"on": BOOL, "h2": F32})
    for name, inputs, constants in (("n", N, {}), ("k", X, {"k": at(5)}), ("k", X, {"k": at(1 << 20)})):
        path, plan = write(judge, model([node("Loop", f"{name} - x", "y", body=odd)], inputs, {"y": (F32, None)}, constants))
        done = hyp.tool("hypatiac", path, "-o", plan)
        if done.returncode or done.stderr.count("unknown") != 1:
            judge.fail("warnings of a body", done.stderr)


def check_described(judge):
    """All that a step reads and writes is told, of one with as many values as there may be, too."""
    path, plan = write(judge, many_values(64))
    hyp.compile_model(path, plan, no_rewrite=True)
    done = hyp.tool("hypatia", "inspect", plan, "--json")
    loops_run = [s for s in json.loads(done.stdout)["steps"] if s["label"] == "hypatia::Loop"]
    counts = [(len(s["reads"]), len(s["writes"])) for s in loops_run]
    if counts != [(2 + 64, 64)]:  # the plan of its body and the number of trips come first
        judge.fail("what is told of a loop", counts)


def check_name(judge):
    """The name that plans have for loops is not one for a kernel of a program's."""
    for name, fits in (("Loop", False), ("Loops", True)):
        one = loops.helper.make_node(name, ["x"], ["y"], domain="hypatia")
        made = model([one], X, {"y": (F32, ("n", 4))})
        made.opset_import.append(loops.helper.make_opsetid("hypatia", 1))
        path, plan = write(judge, made)
        done = hyp.tool("hypatiac", path, "-o", plan, "--custom-domain", "hypatia", "--custom-output", "y:f32:nx4")
        if (done.returncode == 0) != fits or (not fits and "hypatia::Loop" not in done.stderr):
            judge.fail(f"a custom operator {name}", f"{done.returncode}: {done.stderr}")


class Judge(judging.Judge):
    """Of what no trip has collected onnxruntime gives the shape that is declared, if any."""

    def compare(self, name, actual, wanted):
        same = [(a, a if a.size == w.size == 0 and a.shape[0] == 0 else w) for a, w in zip(actual, wanted)]
        super().compare(name, *zip(*same))


def main():
    judge = Judge()
    count = 0
    for family in (counted(), by_data(), nested(), scans(), at_random(int(sys.argv[1]) if len(sys.argv) > 1 else 25)):
        for name, made, cases in family:
            judge.judge(name, made, cases, VARIANTS)
            count += 1
    check_choice(judge)
    check_too_much(judge)
    check_number(judge)
    check_verified(judge)
    check_limit(judge)
    check_around(judge)
    check_warnings(judge)
    check_described(judge)
    check_name(judge)
    for name, made, words in refused():
        judge.refuse(name, made, words)
    return judge.finish(count)


if __name__ == "__main__":
    sys.exit(main())
