#!/usr/bin/env python3
"""Models whose sizes come from the shapes of their inputs: one plan for all sizes, against onnxruntime, on the CPU and
the reference backend. `judge_sizes.py [--only NAME]`. Exit status 1 if anything differs."""
import argparse
import os
import sys

import judging

hyp = judging.hyp
np, onnx = hyp.need("numpy", "onnx")
from onnx import helper, numpy_helper  # noqa: E402

VARIANTS = [("cpu", False), ("reference", False), ("cpu", True)]
SIZES = [{"n": 3, "m": 4, "p": 2}, {"n": 1, "m": 2, "p": 5}, {"n": 7, "m": 5, "p": 1}]
PADDED_MORE = "pad with more than there is"
rng = np.random.default_rng(74)
cases = {}


def node(op, inputs, outputs, **attrs):
    """Names with spaces between them, `-` for an absent input."""
    return helper.make_node(op, [i.replace("-", "") for i in inputs.split()], outputs.split(), **attrs)


def ints(*values):
    return np.array(values, np.int64)


def case(name, nodes, constants=None, inputs=None, sizes=SIZES, opset=18):
    """Nodes that make y from x (n, m) and constants."""
    cases[name] = (nodes, constants or {}, inputs or {"x": ("n", "m")}, sizes, opset)


def ranges():
    columns = [node("Shape", "x", "s"), node("Gather", "s one", "m")]
    add = [node("Cast", "r", "f", to=1), node("Add", "x f", "y")]
    numbers = {"one": np.array(1), "zero": np.array(0), "two": np.array(2), "minus": np.array(-1)}
    case("range", [*columns, node("Range", "zero m one", "r"), *add], numbers)
    case("range in steps", [*columns, node("Range", "one m two", "r"), node("Cast", "r", "y", to=1)], numbers)
    case("range down", [*columns, node("Range", "m minus minus", "r"), node("Cast", "r", "y", to=1)], numbers)
    case("range behind a past", [*columns, node("Shape", "z", "t"), node("Gather", "t one", "p"),
                                 node("Add", "m p", "e"), node("Range", "p e one", "r"), *add], numbers,
         {"x": ("n", "m"), "z": ("n", "p")})
    case("positions", [*columns, node("Range", "zero m one", "r"), node("Gather", "table r", "y0"),
                       node("MatMul", "x y0", "y")], {**numbers, "table": rng.random((8, 3), np.float32)})


def shapes():
    case("filled", [node("Shape", "x", "s"), node("ConstantOfShape", "s", "o",
                                                  value=numpy_helper.from_array(np.array([2.5], np.float32))),
                    node("Trilu", "o k", "t", upper=1), node("Add", "x t", "y")], {"k": np.array(1)})
    case("eye", [node("EyeLike", "x", "e", k=1), node("Add", "x e", "y")])
    case("size", [node("Size", "x", "s"), node("Unsqueeze", "s axis", "u"), node("Reshape", "x u", "y")],
         {"axis": ints(0)})
    case("expand as exported", [node("Shape", "x", "s"), node("Mul", "ones minus", "neg"), node("Equal", "s neg", "e"),
                                node("Where", "e ones s", "w"), node("Expand", "z w", "y")],
         {"ones": ints(1, 1), "minus": np.array(-1), "z": rng.random((1, 1), np.float32)})
    case("shape tiled", [node("Shape", "x", "s"), node("Tile", "s two", "t"), node("Slice", "t one three", "u"),
                         node("Reshape", "x u", "y")], {"two": ints(2), "one": ints(1), "three": ints(3)})
    case("shape padded", [node("Shape", "x", "s"), node("Pad", "s pads one", "t"), node("Reshape", "x t", "y")],
         {"pads": ints(1, 0), "one": np.array(1)})
    case("repeats", [node("Shape", "x", "s"), node("Tile", "z s", "y")], {"z": rng.random((2, 3), np.float32)})
    case("tile of rank 5", [node("Tile", "x r", "y")], {"r": ints(2, 2, 2, 2, 2)}, {"x": ("n", 2, "m", 3, 2)})
    case("mask cut", [node("Shape", "x", "s", start=1, end=2), node("Slice", "mask zero s one", "t"),
                      node("Add", "x t", "y")], {"mask": rng.random((1, 16), np.float32), "zero": ints(0), "one": ints(1)})


def pads():
    for mode in ["constant", "edge", "reflect", "wrap"]:
        opset = 19 if mode == "wrap" else 18
        case(f"pad, {mode}", [node("Pad", "x p", "y", mode=mode)], {"p": ints(1, 0, 1, 0)},
             sizes=[s | {"n": max(s["n"], 2)} for s in SIZES], opset=opset)
        if mode != "reflect":  # which onnxruntime refuses
            case(f"{PADDED_MORE}, {mode}", [node("Pad", "x p", "y", mode=mode)], {"p": ints(2, 7, 5, 3)},
                 {"x": (2, 3)}, opset=opset)
        case(f"pad and crop, {mode}", [node("Pad", "x p", "y", mode=mode)], {"p": ints(-1, 1, 2, -1)}, {"x": (4, 4)},
             opset=opset)
    case("pad to ten", [node("Shape", "x", "s", start=0, end=1), node("Sub", "ten s", "d"),
                        node("Concat", "z z d z", "p", axis=0), node("Pad", "x p", "y")], {"ten": ints(10), "z": ints(0)})
    case("center", [node("CenterCropPad", "x p", "y")], {"p": ints(3, 3)})


def images():
    image = {"x": ("n", 2, "m", 3)}
    for mode in ["nearest", "linear"]:
        case(f"resize by scales, {mode}", [node("Resize", "x - s", "y", mode=mode)],
             {"s": np.array([1, 1, 1.5, 2], np.float32)}, image)
    case("resize like another", [node("Shape", "x", "a", start=0, end=2), node("Shape", "z", "b", start=2, end=4),
                                 node("Concat", "a b", "s", axis=0), node("Resize", "x - - s", "y", mode="cubic")], {},
         {**image, "z": ("n", 2, 8, "m")})
    case("depth to space", [node("DepthToSpace", "x", "y", blocksize=2, mode="CRD")], {}, {"x": ("n", 8, "m", 3)})


def places():
    case("k of the shape", [node("Shape", "x", "k", start=1, end=2), node("TopK", "x k", "y j", axis=1)])
    case("every row", [node("Shape", "x", "s"), node("Gather", "s zero", "n"), node("Range", "zero n one", "r"),
                       node("Unsqueeze", "r axis", "i"), node("ScatterND", "x i x", "y", reduction="add")],
         {"zero": np.array(0), "one": np.array(1), "axis": ints(1)})
    case("one index for all", [node("Shape", "x", "s"), node("Expand", "i s", "e"),
                               node("GatherElements", "x e", "y", axis=1)], {"i": ints(0).reshape(1, 1)})
    case("backward", [node("Slice", "x a b axes steps", "y")],
         {"a": ints(-1, 10), "b": ints(-1000, -1000), "axes": ints(0, 1), "steps": ints(-1, -2)})
    case("split unevenly", [node("Split", "x", "y0 y", axis=1, num_outputs=2)])
    case("found in a constant", [node("NonZero", "c", "i"), node("Cast", "i", "f", to=1), node("Add", "x f", "y")],
         {"c": np.array([0, 3, 0, 5], np.float32)}, {"x": ("n", 2)})


EQUAL = [s | {"q": s["n"], "r": s["m"], "t": s["m"] + s["p"]} for s in SIZES]


def equal():
    """Sizes that the model calls differently: the plan takes them as equal, and checks it."""
    two = {"x": ("n", "m"), "z": ("q", "r")}
    case("added", [node("Add", "x z", "y")], {}, two, EQUAL)
    case("added to another's sum", [node("Concat", "x w", "c", axis=1), node("Add", "c z", "y")], {},
         {"x": ("n", "m"), "w": ("n", "p"), "z": ("q", "t")}, EQUAL)
    case("multiplied", [node("Transpose", "z", "u"), node("MatMul", "x u", "y")], {}, two, EQUAL)
    case("joined", [node("Concat", "x z", "c", axis=1), node("Relu", "c", "y")], {}, two, EQUAL)
    case("in a circle", [node("Add", "x z", "a"), node("Add", "v x", "b"), node("Add", "a b", "c"), node("Add", "c v", "y")],
         {}, {**two, "v": ("q", "u")}, [s | {"u": s["m"]} for s in EQUAL])


def met():
    """Sizes of one name that meet numbers, parts and multiples: conditions of the plan."""
    four = [{"n": 4, "m": 3}]
    case("a number met", [node("Add", "x z", "y")], {}, {"x": ("n", 3), "z": (4, 3)}, four)
    case("a constant's size met", [node("Mul", "x c", "y")], {"c": rng.random((4, 3), np.float32)}, {"x": ("n", "m")},
         four)
    case("rows of a matrix met", [node("MatMul", "x c", "y")], {"c": rng.random((3, 5), np.float32)},
         {"x": ("n", "m")}, four)
    case("joined to a number", [node("Concat", "x c", "y", axis=1)], {"c": rng.random((4, 2), np.float32)},
         {"x": ("n", "m")}, four)
    case("expanded to a number", [node("Expand", "x s", "y")], {"s": ints(2, 4, 3)}, {"x": ("n", "m")}, four)
    case("channels met", [node("Conv", "x w", "y")], {"w": rng.random((2, 3, 1, 1), np.float32)},
         {"x": ("n", "m", 5, 4)}, four)
    case("reshaped to a number", [node("Reshape", "x s", "y")], {"s": ints(2, 6)}, {"x": ("n", 3)}, four)
    case("rows in pairs", [node("Reshape", "x s", "y")], {"s": ints(-1, 2, 3)}, {"x": ("n", 3)},
         [{"n": 4}, {"n": 2}, {"n": 10}])
    case("squeezed", [node("Squeeze", "x a", "y")], {"a": ints(0)}, sizes=[{"n": 1, "m": 3}])
    case("split", [node("Split", "x s", "y z", axis=1)], {"s": ints(2, 1)}, sizes=four)
    case("two without names", [node("Add", "x z", "s"), node("Add", "s c", "y")], {"c": rng.random((1, 4), np.float32)},
         {"x": (None,), "z": (None,)}, [{None: 4}])
    past = [node("Concat", "p x", "c", axis=1), node("Add", "c z", "y")]
    case("the total first", past, {}, {"z": ("n", "t"), "p": ("n", "p"), "x": ("n", "m")}, EQUAL)
    case("nothing past", [*past, node("Add", "x z", "v")], {}, {"z": ("n", "t"), "p": ("n", "p"), "x": ("n", "m")},
         [{"n": 2, "m": 3, "p": 0, "t": 3}])
    steps = [node("MaxPool", "x", "d", kernel_shape=[2, 2], strides=[2, 2]),
             node("MaxPool", "d", "e", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
             node("Resize", "e - s", "u"), node("Concat", "d u", "c", axis=1), node("Resize", "c - s", "v"),
             node("Concat", "x v", "y", axis=1)]
    case("down and up again", steps, {"s": np.array([1, 1, 2, 2], np.float32)}, {"x": ("n", 2, "h", "w")},
         [{"n": 1, "h": 4, "w": 8}, {"n": 2, "h": 12, "w": 16}])


def judge_generated(verdict):
    """Tools that make the inputs find the sizes that follow from others."""
    for name, options, wanted in [
            ("added to another's sum", ["--dim", "m=3"], ["y f32[1 4]"]),
            ("added to another's sum", ["--dim", "m=3", "--dim", "t=7"], ["y f32[1 7]"]),
            ("the total first", ["--dim", "t=7", "--dim", "p=2"], ["y f32[1 7]"]),
            ("down and up again", ["--dim", "h=12"], ["y f32[1 6 12 4]"])]:
        plan, path = (os.path.join(verdict.folder.name, "made." + end) for end in ("bin", "onnx"))
        onnx.save(build(name), path)
        hyp.compile_model(path, plan)
        done = hyp.tool("hypatia", "verify", plan, "--model", path, *options)
        text = done.stdout + done.stderr
        if done.returncode or not all(part in text for part in wanted):
            verdict.fail(name, f"{options}: {text}")


def judge_unequal(verdict):
    """A run whose sizes differ names the node that needs them to be equal."""
    for name, sizes, wanted in [("added", {"n": 2, "q": 3, "m": 4, "r": 4}, "needs 'n' and 'q' to be equal"),
                                ("added", {"n": 1, "q": 3, "m": 4, "r": 4}, "node \"Add:y\""),
                                ("added to another's sum", {"n": 2, "q": 2, "m": 4, "p": 1, "t": 6}, "node \"Add:y\""),
                                ("added", {"n": 2, "q": 1, "m": 4, "r": 4}, "compile the model with --dim q=1"),
                                ("added", {"n": 1, "q": 2, "m": 4, "r": 4}, "compile the model with --dim n=1"),
                                ("a number met", {"n": 3}, "input 'x': axis 0 is 3, the model wants 4: node \"Add:y\""),
                                ("a number met", {"n": 1}, "--dim n=1"),
                                ("two without names", {None: 3}, "needs '4' and 'x_dim0' to be equal"),
                                ("rows in pairs", {"n": 5}, "wants a multiple of 2: node \"Reshape:y\""),
                                ("nothing past", {"n": 1, "m": 2, "p": 1, "t": 3}, "node \"Add:"),
                                ("down and up again", {"n": 1, "h": 6, "w": 8}, "axis 2 is 6, the model wants a multiple of 4"),
                                ("joined", {"n": 2, "q": 3, "m": 4, "r": 5}, "node \"Concat:c\"")]:
        inputs = cases[name][2]
        plan = os.path.join(verdict.folder.name, "unequal.bin")
        path = os.path.join(verdict.folder.name, "unequal.onnx")
        onnx.save(build(name), path)
        hyp.compile_model(path, plan)
        feeds = {k: rng.random([sizes.get(d, d) for d in v], np.float32) for k, v in inputs.items()}
        for device in ("cpu", "reference"):
            try:
                with hyp.Engine(plan, device) as engine:
                    engine.run(feeds)
                verdict.fail(name, f"runs on {device} with sizes {sizes}")
            except hyp.Error as error:
                if wanted not in str(error) or error.status != "invalid argument":
                    verdict.fail(name, f"says on {device}: {error}")


def build(name):
    nodes, constants, inputs, _, opset = cases[name]
    info = lambda k, v: helper.make_tensor_value_info(k, onnx.TensorProto.FLOAT, v)
    graph = helper.make_graph(nodes, name, [info(k, v) for k, v in inputs.items()], [info("y", None)],
                              [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def judge(verdict, name):
    _, _, inputs, sizes, _ = cases[name]
    feeds = [{k: rng.random([size.get(d, d) for d in v], np.float32) for k, v in inputs.items()} for size in sizes]
    wanted = None
    if name == f"{PADDED_MORE}, wrap":  # older releases of onnxruntime read beyond their input
        wanted = [[np.pad(feed["x"], ((2, 5), (7, 3)), "wrap")] for feed in feeds]
    verdict.judge(name, build(name), feeds, VARIANTS, wanted)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only")
    args = parser.parse_args()
    for make in [ranges, shapes, pads, images, places, equal, met]:
        make()
    names = [args.only] if args.only else list(cases)
    verdict = judging.Judge()
    for name in names:
        judge(verdict, name)
    if not args.only:
        judge_unequal(verdict)
        judge_generated(verdict)
    return verdict.finish(len(names))


if __name__ == "__main__":
    sys.exit(main())
