"""hypatia export-c: what it writes compiles as C99 without a warning, with every compiler that is here, and computes what the plan
computes on the reference device, on models of random numbers; what there is no C for is named."""
import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import exported  # noqa: E402
import hyp  # noqa: E402
from exported import run  # noqa: E402

onnx, np = hyp.need("onnx", "numpy")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

RNG = np.random.default_rng(11)
DIGITS = os.path.join(hyp.ROOT, "examples/digits/digits.onnx")
def save(name, inputs, outputs, nodes, weights=(), opset=17):
    """inputs and outputs by name with their shapes, or types and shapes; nodes as arguments of make_node."""
    def info(shapes):
        return [helper.make_tensor_value_info(n, s[0] if isinstance(s, tuple) else TensorProto.FLOAT, s[1] if isinstance(s, tuple) else s)
                for n, s in shapes.items()]

    made = [helper.make_node(op, i, o, **(rest[0] if rest else {})) for op, i, o, *rest in nodes]
    tensors = [numpy_helper.from_array(np.asarray(w), n) for n, w in dict(weights).items()]
    graph = helper.make_graph(made, name, info(inputs), info(outputs), tensors)
    path = f"{name}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


CHECKED = []


def check(path, *options, low=0, high=4, special=False, ranges=None, near=exported.TOLERANCE):
    """Integers are from low to below high. `special`: also of infinities and NaN. `ranges`: these by input."""
    name = os.path.splitext(os.path.basename(path))[0]
    run("hypatiac", path, "-o", f"{name}.bin", "-q", "--verify", "off", *options)
    made = exported.Exported(f"{name}.bin", weights=len(CHECKED) % 3 == 2)
    compiler = exported.COMPILERS[len(CHECKED) % len(exported.COMPILERS)]
    library = made.build(compiler, "-O3" if compiler == "clang" else "-O0")
    names = [i.name for i in onnx.load(path).graph.input]
    for trial in range(4):
        feeds = {}
        for n, (dtype, dims) in zip(names, made.inputs):
            of = {"low": low, "high": high, "special": special, **(ranges or {}).get(n, {})}
            floats = np.dtype(dtype) in exported.FLOATS
            x = RNG.standard_normal(dims) * (1, 4, 0.1, 1)[trial] if floats else RNG.integers(of["low"], of["high"], dims)
            feeds[n] = x.astype(dtype)
            if trial == 3 and floats and of["special"]:
                feeds[n].flat[::5] = np.resize([np.nan, np.inf, -np.inf, -0.0], feeds[n].flat[::5].shape)
        exported.compare(made.call(library, feeds.values()), exported.reference(f"{name}.bin", feeds), near)
    CHECKED.append(name)
    return made, library


ACTS = [("Relu",), ("Sigmoid",), ("Tanh",), ("Erf",), ("Softplus",), ("Softsign",), ("Exp",), ("Abs",), ("Neg",), ("Sign",), ("Ceil",),
        ("Floor",), ("Sin",), ("Cos",), ("Atan",), ("Elu", {"alpha": 0.7}), ("LeakyRelu", {"alpha": -0.3}), ("HardSwish",), ("Sqrt",),
        ("Log",), ("Reciprocal",)]


def check_functions():
    """All in one model, and each as what a layer ends in."""
    nodes = [("Abs", ["x"], ["p"]), ("Softplus", ["x"], ["s"]), ("Tanh", ["s"], ["t"]), ("Mul", ["x", "t"], ["Mish"])]
    nodes += [(op, ["p" if op in ("Sqrt", "Log") else "x"], [op], *attrs) for op, *attrs in ACTS]
    names = [op for op, *_ in ACTS] + ["Mish"]
    check(save("functions", {"x": [3, 5]}, {n: [3, 5] for n in names}, nodes))
    with open("functions.c") as file:
        assert file.read().count("#define function") > 12
    nodes = [node for i, (op, *attrs) in enumerate(ACTS) for node in (("Gemm", ["x", "w"], [f"g{i}"]), (op, [f"g{i}"], [op], *attrs))
             if op in ("Relu", "Sigmoid", "Tanh", "HardSwish", "Softplus")]
    check(save("layers", {"x": [3, 5]}, {n[2][0]: [3, 5] for n in nodes[1::2]}, nodes, {"w": normal(5, 5)}))


def check_operators():
    two = [("Add", "a"), ("Sub", "b"), ("Mul", "c"), ("Div", "d"), ("Min", "e"), ("Max", "f"), ("Pow", "g")]
    nodes = [("Abs", ["z"], ["q"]), *((op, ["q" if op == "Pow" else "x", "z"], [n]) for op, n in two)]
    check(save("binary", {"x": [4, 6], "z": [4, 6]}, {n: [4, 6] for _, n in two}, nodes))
    nodes = [("Less", ["x", "z"], ["l"]), ("Where", ["l", "x", "two"], ["w"]), ("Clip", ["w", "low", "high"], ["y"]),
             ("Pow", ["x", "two"], ["p"])]
    check(save("select", {"x": [4, 6], "z": [4, 6]}, {"y": [4, 6], "p": [4, 6]}, nodes,
               {"two": np.float32(2), "low": np.float32(-0.5), "high": np.float32(1.5)}))
    check(save("broadcast", {"x": [2, 1, 5], "z": [3, 1]}, {"y": [2, 3, 5]}, [("Mul", ["x", "z"], ["y"])]))


def check_products():
    w = {"w1": normal(8, 16), "b1": normal(16), "w2": normal(16, 4), "b2": normal(4)}
    layers = [("Gemm", ["x", "w1", "b1"], ["h"]), ("Tanh", ["h"], ["t"]), ("Gemm", ["t", "w2", "b2"], ["y"])]
    for options in ((), ("--no-rewrite",)):
        check(save("mlp", {"x": [5, 8]}, {"y": [5, 4]}, layers, w), *options)
    added = [("MatMul", ["x", "w"], ["p"]), ("Add", ["p", "z"], ["s"]), ("Relu", ["s"], ["y"])]
    check(save("added", {"x": [3, 7], "z": [3, 7]}, {"y": [3, 7]}, added, {"w": normal(7, 7)}))
    check(save("after", {"x": [3, 7], "z": [3, 7]}, {"y": [3, 7]}, [added[0], ("Relu", ["p"], ["r"]), ("Add", ["r", "z"], ["y"])],
               {"w": normal(7, 7)}))
    check(save("batched", {"x": [2, 3, 4, 5], "z": [3, 5, 6]}, {"y": [2, 3, 4, 6]}, [("MatMul", ["x", "z"], ["y"])]))
    turned = [("Transpose", ["z"], ["t"], {"perm": [0, 2, 1]}), ("MatMul", ["x", "t"], ["m"]), ("Mul", ["m", "half"], ["y"])]
    check(save("turned", {"x": [3, 4, 5], "z": [3, 6, 5]}, {"y": [3, 4, 6]}, turned, {"half": np.float32(0.5)}))


def check_movement():
    check(save("softmax", {"x": [4, 6, 5]}, {"y": [4, 6, 5], "z": [4, 6, 5]},
               [("Softmax", ["x"], ["y"], {"axis": 1}), ("Softmax", ["x"], ["z"], {"axis": -1})]))
    check(save("reduce", {"x": [4, 6, 5]}, {"y": [4, 5], "z": [1, 6, 1]},
               [("ReduceMean", ["x"], ["y"], {"axes": [1], "keepdims": 0}), ("ReduceSum", ["x", "axes"], ["z"])],
               {"axes": np.array([0, 2])}))
    check(save("moved", {"x": [4, 6, 5]}, {"y": [5, 4, 6], "z": [4, 9, 5], "w": [2, 2, 5]},
               [("Transpose", ["x"], ["y"], {"perm": [2, 0, 1]}), ("Slice", ["x", "from", "to", "axes", "steps"], ["s"]),
                ("Concat", ["x", "s"], ["z"], {"axis": 1}), ("Slice", ["x", "f2", "t2", "a2", "s2"], ["w"])],
               {"from": np.array([5]), "to": np.array([-7]), "axes": np.array([1]), "steps": np.array([-2]), "f2": np.array([0, 1]),
                "t2": np.array([4, 6]), "a2": np.array([0, 1]), "s2": np.array([2, 3])}))
    weights = normal(2, 5)
    weights[0] = [np.inf, -np.inf, np.nan, -0.0, 1e-42]
    check(save("weights", {"x": [2, 5]}, {"y": [2, 5]}, [("Mul", ["x", "w"], ["m"]), ("Abs", ["m"], ["y"])], {"w": weights}))


I64, BOOL, U8, I32 = TensorProto.INT64, TensorProto.BOOL, TensorProto.UINT8, TensorProto.INT32


WAITING = []  # models of one operator, which go into one model


def one(op, shapes, attrs=None, weights=(), outputs=("y",), names=None, types=None, opset=17, alone=False, **rest):
    """A model of one operator, whose inputs are those of the shapes, then the weights; `names`: their order, "" for none. Several are
    checked as one model, unless it is to be `alone`: then it is returned as it was checked."""
    mark = "" if alone else f"m{len(WAITING)}_"
    named = {n: f"{mark}{n}" if n else "" for n in [*shapes, *dict(weights), *outputs, ""]}
    node = (op, [named[n] for n in names or [*shapes, *dict(weights)]], [named[o] for o in outputs], attrs or {})
    part = ({named[n]: s for n, s in shapes.items()}, {named[o]: ((types or {}).get(o, TensorProto.FLOAT), None) for o in outputs if o}, [node],
            {named[n]: w for n, w in dict(weights).items()})
    name = f"{op.lower()}{len(CHECKED)}"
    if alone:
        return check(save(name, *part, opset), **rest)
    WAITING.append((part, {n: rest for n in part[0]}, opset))
    if len(WAITING) == 12:
        settle()


def settle():
    """Checks what waits."""
    for opset in sorted({o for *_, o in WAITING}):
        parts = [(part, ranges) for part, ranges, o in WAITING if o == opset]
        merged = [{k: v for part, _ in parts for k, v in part[i].items()} for i in (0, 1, 3)]
        nodes = [node for part, _ in parts for node in part[2]]
        path = save(f"several{len(CHECKED)}", *merged[:2], nodes, merged[2], opset)
        check(path, ranges={k: v for _, ranges in parts for k, v in ranges.items()})
    WAITING.clear()


def check_convolutions():
    for x, w, attrs in (([2, 3, 9, 8], (5, 3, 3, 3), {"pads": [1, 2, 0, 1], "strides": [2, 1]}), ([1, 4, 40], (6, 4, 5), {"dilations": [3]}),
                        ([1, 6, 7, 9], (4, 3, 3, 2), {"group": 2, "dilations": [2, 1], "pads": [2, 0, 2, 1]}),
                        ([2, 4, 9, 10], (8, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}), ([1, 4, 9, 33], (4, 1, 5, 3), {"group": 4, "strides": [3, 2]}),
                        ([1, 2, 3, 4, 5], (3, 2, 2, 2, 2), {"pads": [1, 0, 1, 0, 1, 0]}), ([1, 1, 5, 5], (17, 1, 5, 5), {}),
                        ([1, 33, 1, 1], (7, 33, 1, 1), {}), ([1, 3, 2, 2], (2, 3, 3, 3), {"pads": [3, 3, 3, 3], "strides": [4, 4]})):
        one("Conv", {"x": x}, attrs, {"w": normal(*w), "b": normal(w[0])})
    one("Conv", {"x": [1, 3, 6, 6]}, {"auto_pad": "SAME_UPPER"}, {"w": normal(4, 3, 4, 4)})
    for act in (("Relu",), ("Clip", 0, 6), ("LeakyRelu", {"alpha": 0.2}), ("HardSwish",), ("Sigmoid",), ("Tanh",)):
        for group in (1, 4):
            more = ["low", "high"] if act[0] == "Clip" else []
            nodes = [("Conv", ["x", "w", "b"], ["c"], {"pads": [1] * 4, "group": group}), ("Add", ["c", "z"], ["s"]),
                     (act[0], ["s", *more], ["y"], *(act[1:] if act[0] == "LeakyRelu" else ()))]
            bounds = {"low": np.float32(0), "high": np.float32(6)} if more else {}
            check(save(f"conv_{act[0]}_{group}".lower(), {"x": [1, 4, 5, 6], "z": [1, 4, 5, 6]}, {"y": [1, 4, 5, 6]}, nodes,
                       {"w": normal(4, 4 // group, 3, 3), "b": normal(4), **bounds}))
    for x, w, attrs in (([2, 3, 5, 4], (3, 5, 3, 3), {"strides": [2, 2], "pads": [1, 0, 1, 2], "output_padding": [1, 0]}),
                        ([1, 4, 20], (4, 3, 4), {"strides": [3], "group": 2}), ([1, 2, 4, 5], (2, 3, 2, 3), {"dilations": [2, 3]}),
                        ([1, 2, 2, 3, 2], (2, 1, 2, 2, 2), {"strides": [1, 2, 3]})):
        one("ConvTranspose", {"x": x}, attrs, {"w": normal(*w), "b": normal(w[1] * attrs.get("group", 1))})


def check_channels():
    """Convolutions of each channel by itself: strides and gaps, which part what lies together; more than one result of a channel;
    windows that are wider than what there is; axes."""
    for x, w, attrs in (([2, 5, 14, 13], (5, 1, 3, 3), {"pads": [1] * 4}), ([1, 5, 14, 13], (5, 1, 3, 3), {"pads": [1] * 4, "strides": [2, 2]}),
                        ([1, 3, 7, 7], (6, 1, 3, 3), {"pads": [0, 1, 2, 0], "strides": [2, 1]}), ([1, 3, 11, 40], (9, 1, 5, 4), {"dilations": [2, 3]}),
                        ([1, 3, 20, 19], (3, 1, 3, 3), {"dilations": [2, 2], "strides": [3, 2], "pads": [4, 2, 1, 5]}),
                        ([2, 4, 50], (8, 1, 7), {"pads": [3, 3], "strides": [3]}), ([1, 2, 5, 6, 7], (2, 1, 3, 2, 3), {"pads": [1] * 6, "strides": [2, 1, 2]}),
                        ([1, 2, 3, 2], (2, 1, 5, 6), {"pads": [3] * 4}), ([1, 2, 9, 1], (2, 1, 2, 1), {"strides": [5, 1]}),
                        ([1, 2, 1, 70], (2, 1, 1, 33), {"pads": [0, 16, 0, 16]}), ([1, 2, 3, 3], (2, 1, 2, 2), {"pads": [60] * 4}),
                        ([1, 2, 40, 40], (2, 1, 34, 33), {})):
        one("Conv", {"x": x}, {**attrs, "group": x[1]}, {"w": normal(*w), "b": normal(w[0])})
        one("Conv", {"x": x}, {**attrs, "group": x[1]}, {"w": normal(*w)})


def check_pools():
    for op in ("MaxPool", "AveragePool", "LpPool"):
        for x, attrs in (([2, 3, 9, 8], {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}), ([1, 2, 17], {"kernel_shape": [4]}),
                         ([1, 2, 4, 5, 6], {"kernel_shape": [2, 3, 2], "strides": [2, 2, 2]}),
                         ([1, 3, 7, 7], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1})):
            one(op, {"x": x}, {**attrs, **({"p": 3} if op == "LpPool" else {})}, special=op == "MaxPool", opset=18)
        one(f"Global{op}", {"x": [2, 3, 5, 7]})
    one("AveragePool", {"x": [1, 2, 6, 6]}, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1, "strides": [2, 2]})
    one("MaxPool", {"x": [1, 2, 9, 9]}, {"kernel_shape": [2, 2], "dilations": [3, 2], "storage_order": 1}, outputs=("y", "i"), types={"i": I64})
    one("MaxPool", {"x": [2, 2, 4, 5]}, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, outputs=("y", "i"), types={"i": I64})


def check_norms():
    one("LayerNormalization", {"x": [3, 4, 19]}, {"axis": 1}, {"s": normal(4, 19), "b": normal(4, 19)})
    one("LayerNormalization", {"x": [3, 4, 50]}, {"epsilon": 0.1}, {"s": normal(50)})
    one("BatchNormalization", {"x": [2, 3, 4, 5]}, {}, {"s": normal(3), "b": normal(3), "m": normal(3), "v": np.abs(normal(3))})
    one("InstanceNormalization", {"x": [2, 3, 4, 5]}, {}, {"s": normal(3), "b": normal(3)})
    one("GroupNormalization", {"x": [2, 6, 4, 5]}, {"num_groups": 3}, {"s": normal(6), "b": normal(6)}, opset=21)
    one("LRN", {"x": [2, 7, 3, 4]}, {"size": 4, "alpha": 0.3, "beta": 0.6, "bias": 1.5})
    nodes = [("Mul", ["x", "x"], ["q"]), ("ReduceMean", ["q"], ["m"], {"axes": [-1]}), ("Add", ["m", "e"], ["a"]), ("Sqrt", ["a"], ["r"]),
             ("Div", ["x", "r"], ["d"]), ("Mul", ["d", "s"], ["y"])]
    check(save("rms", {"x": [5, 40]}, {"y": [5, 40]}, nodes, {"e": np.float32(1e-5), "s": normal(40)}))


def check_recurrences():
    t, b, n, h = 5, 3, 4, 6
    lengths = {"l": (TensorProto.INT32, [b])}
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        w = {"w": normal(1, gates * h, n), "r": normal(1, gates * h, h), "b": normal(1, 2 * gates * h)}
        outputs = ("y", "last", "cell") if op == "LSTM" else ("y", "last")
        one(op, {"x": [t, b, n]}, {"hidden_size": h}, w, outputs)
        two = {k: np.concatenate([v, normal(*v.shape)]) for k, v in w.items()}
        one(op, {"x": [t, b, n]}, {"hidden_size": h, "direction": "bidirectional"}, two, outputs)
        shapes = {"x": [t, b, n], **lengths, "h": [1, b, h], **({"c": [1, b, h]} if op == "LSTM" else {})}
        names = ["x", "w", "r", "b", *list(shapes)[1:]]
        made, library = one(op, shapes, {"hidden_size": h, "direction": "reverse", "clip": 0.4}, w, outputs, names, low=0, high=t + 1, alone=True)
        feeds = [np.ones(dims, dtype) for dtype, dims in made.inputs]
        feeds[1][1] = t + 1
        made.call(library, feeds, code=1)
    p = {"w": normal(1, 4 * h, n), "r": normal(1, 4 * h, h), "b": normal(1, 8 * h), "p": normal(1, 3 * h)}
    one("LSTM", {"x": [t, b, n]}, {"hidden_size": h, "activations": ["Sigmoid", "Relu", "Tanh"]}, p, ("y", "last"), ["x", "w", "r", "b", "", "", "", "p"])
    one("LSTM", {"x": [t, b, n]}, {"hidden_size": h, "input_forget": 1}, p, ("y", "last"), ["x", "w", "r", "b", "", "", "", "p"])
    g = {"w": normal(1, 3 * h, n), "r": normal(1, 3 * h, h), "b": normal(1, 6 * h)}
    one("GRU", {"x": [t, b, n]}, {"hidden_size": h, "linear_before_reset": 1}, g, ("y", "last"))


def check_indices():
    x = {"x": [4, 6, 5]}
    made, library = one("Gather", {**x, "i": (I64, [3, 2])}, {"axis": 1}, low=-6, high=6, alone=True)
    for bad in (6, -7, 2 ** 40):
        made.call(library, [normal(4, 6, 5), np.full((3, 2), bad)], code=1)
    one("Gather", {"i": (I32, [7])}, {}, {"w": normal(5, 9)}, names=["w", "i"], low=0, high=5)
    made, library = one("GatherElements", {**x, "i": (I64, [4, 2, 5])}, {"axis": 1}, low=-6, high=6, alone=True)
    made.call(library, [normal(4, 6, 5), np.full((4, 2, 5), 6)], code=1)
    made, library = one("GatherND", {**x, "i": (I64, [7, 2])}, {}, low=-4, high=4, alone=True)
    made.call(library, [normal(4, 6, 5), np.full((7, 2), -5)], code=1)
    one("GatherND", {**x, "i": (I64, [4, 3, 1])}, {"batch_dims": 1}, low=-6, high=6)
    one("OneHot", {"i": (I64, [3, 4])}, {"axis": 1}, {"d": np.int64(5), "v": normal(2)}, low=-7, high=8)
    for op in ("ArgMax", "ArgMin"):
        for attrs in ({"axis": 1}, {"axis": -1, "keepdims": 0}, {"axis": 0, "select_last_index": 1}):
            one(op, x, attrs, types={"y": I64}, special=True)
            one(op, {"x": (I64, [4, 6, 5])}, attrs, types={"y": I64}, low=0, high=3)
    for largest in (0, 1):
        one("TopK", x, {"axis": 1, "largest": largest}, {"k": np.array([3])}, ("v", "i"), types={"i": I64}, special=True)
        one("TopK", {"x": (I64, [3, 9])}, {"largest": largest}, {"k": np.array([9])}, ("v", "i"), types={"v": I64, "i": I64})
    for op in ("ReduceMax", "ReduceMin", "ReduceProd"):
        one(op, x, {"axes": [0, 2]}, special=op != "ReduceProd")
        one(op, {"x": (I64, [4, 6, 5])}, {"axes": [1], "keepdims": 0}, types={"y": I64}, low=-3)
    for attrs in ({}, {"exclusive": 1}, {"reverse": 1, "exclusive": 1}):
        one("CumSum", x, attrs, {"a": np.int64(1)})
    one("Trilu", {"x": [2, 5, 7]}, {"upper": 1}, {"k": np.int64(2)})
    one("Trilu", {"x": [2, 5, 7]}, {"upper": 0}, {"k": np.int64(-1)})
    one("ReduceSum", {"x": [3, 70, 4]}, {}, {"a": np.array([1])})
    one("ReduceMean", {"x": [3, 4, 70]}, {"axes": [-1]})
    one("ReduceSum", {"x": (I64, [3, 4, 5])}, {}, {"a": np.array([0, 2])}, types={"y": I64})


def check_scatters():
    x = {"x": [4, 6, 5]}
    made, library = one("ScatterElements", {**x, "i": (I64, [3, 4, 5]), "u": [3, 4, 5]}, {"axis": 1}, low=-6, high=6, alone=True, opset=18)
    for bad in (6, -7, 2 ** 40):
        made.call(library, [normal(4, 6, 5), np.full((3, 4, 5), bad), normal(3, 4, 5)], code=1)
    made, library = one("ScatterND", {**x, "i": (I64, [7, 2]), "u": [7, 5]}, {}, low=-4, high=4, alone=True, opset=18)
    made.call(library, [normal(4, 6, 5), np.full((7, 2), -5), normal(7, 5)], code=1)
    for reduction in ("none", "add", "mul", "min", "max"):
        for axis in (0, -1):
            one("ScatterElements", {**x, "i": (I32, [3, 9 if axis == 1 else 4, 5]), "u": [3, 4, 5]}, {"axis": axis, "reduction": reduction}, low=-4, high=4,
                opset=18, special=reduction != "add")
        integers = {"x": (I64, [4, 3]), "i": (I64, [9, 3]), "u": (I64, [9, 3])}
        one("ScatterElements", integers, {"reduction": reduction}, types={"y": I64}, low=-4, high=4, opset=18)
        for width, shape in ((1, [6, 6, 5]), (3, [6])):
            one("ScatterND", {**x, "i": (I64, [6, width]), "u": shape}, {"reduction": reduction}, low=-4, high=4, opset=18)
        one("ScatterND", {"x": (U8, [5, 3]), "i": (I64, [2, 4, 1]), "u": (U8, [2, 4, 3])}, {"reduction": reduction}, types={"y": U8}, low=0, high=5, opset=18)


def check_images():
    x = {"x": [2, 3, 6, 5]}
    modes = [{"mode": m, "coordinate_transformation_mode": c, "nearest_mode": n} for m, c, n in (
        ("nearest", "half_pixel", "round_prefer_floor"), ("nearest", "asymmetric", "floor"), ("nearest", "align_corners", "ceil"),
        ("linear", "half_pixel", "floor"), ("linear", "align_corners", "floor"), ("linear", "pytorch_half_pixel", "floor"),
        ("cubic", "half_pixel", "floor"), ("cubic", "asymmetric", "floor"))]
    for attrs in modes:
        for scales in ([1, 1, 2, 3], [1, 1, 0.5, 1.7], [1, 1, 1, 2], [1, 2, 0.7, 2.5]):
            one("Resize", x, attrs, {"r": np.zeros(0, np.float32), "s": np.array(scales, np.float32)}, names=["x", "", "s"], opset=18)
    for mode in ("linear", "cubic"):
        one("Resize", x, {"mode": mode, "antialias": 1}, {"z": np.array([2, 3, 3, 2])}, names=["x", "", "", "z"], opset=18)
        one("Resize", x, {"mode": mode, "exclude_outside": int(mode == "cubic")}, {"z": np.array([2, 3, 9, 9])}, names=["x", "", "", "z"], opset=18)
    for mode in ("nearest", "linear"):
        crop = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.5}
        one("Resize", x, crop, {"r": np.array([0, 0, 0.4, -0.2, 1, 1, 1.3, 0.8], np.float32), "z": np.array([2, 3, 7, 4])}, names=["x", "r", "", "z"], opset=18)
    one("Resize", {"x": (U8, [1, 2, 4, 4])}, {"mode": "nearest"}, {"s": np.array([1, 1, 2, 1.5], np.float32)}, names=["x", "", "s"], types={"y": U8}, opset=18)
    one("Upsample", x, {"mode": "linear"}, {"s": np.array([1, 1, 2, 2], np.float32)}, opset=9)
    for mode in ("nearest", "linear", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (0, 1):
                one("GridSample", {"x": [2, 3, 4, 5], "g": [2, 3, 7, 2]}, {"mode": mode, "padding_mode": padding, "align_corners": corners}, opset=20,
                    special=mode == "linear")
    one("GridSample", {"x": [1, 2, 3, 4, 5], "g": [1, 2, 3, 2, 3]}, {"mode": "linear"}, opset=20)


def check_integers():
    two = {"x": (I64, [4, 6]), "z": (I64, [4, 6])}
    for op in ("Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "Pow"):
        one(op, two, {}, types={"y": I64}, low=-5, high=5)
    one("Mod", two, {"fmod": 1}, types={"y": I64}, low=-5, high=5)
    one("Mod", {"x": [4, 6], "z": [4, 6]}, {"fmod": 1})
    bits = {"x": (TensorProto.UINT32, [4, 6]), "z": (TensorProto.UINT32, [4, 6])}
    for direction in ("LEFT", "RIGHT"):
        one("BitShift", bits, {"direction": direction}, types={"y": TensorProto.UINT32}, high=40)
    for op in ("And", "Or", "Xor"):
        one(op, {"x": (BOOL, [4, 6]), "z": (BOOL, [4, 6])}, types={"y": BOOL}, high=2)
    one("Not", {"x": (BOOL, [4, 6])}, types={"y": BOOL}, high=2)
    for op in ("Equal", "Less", "GreaterOrEqual"):
        one(op, two, types={"y": BOOL})
        one(op, {"x": [4, 6], "z": [4, 6]}, types={"y": BOOL}, special=True)
    one("Where", {"c": (BOOL, [4, 6]), "x": [4, 6], "z": [4, 6]}, high=2, special=True)
    for to in (U8, TensorProto.INT8, I32, I64, BOOL):
        one("Cast", {"x": [4, 6]}, {"to": to}, types={"y": to})
        one("Cast", {"x": (I64, [4, 6])}, {"to": to}, types={"y": to}, low=-1000, high=1000)
    one("Cast", {"x": (I64, [4, 6])}, {"to": TensorProto.FLOAT}, low=-10 ** 12, high=10 ** 12)
    one("MatMulInteger", {"x": (U8, [3, 7]), "z": (TensorProto.INT8, [7, 5])}, types={"y": I32}, high=120)
    quantized = [("QuantizeLinear", ["x", "s", "o"], ["q"]), ("DequantizeLinear", ["q", "s", "o"], ["d"]), ("MatMul", ["d", "w"], ["y"])]
    check(save("quantized", {"x": [3, 7]}, {"y": [3, 4]}, quantized, {"s": np.float32(0.03), "o": np.uint8(120), "w": normal(7, 4)}), special=False)


def check_quantized():
    """Layers and convolutions of 8 bits, as quantizers write them: with operators of their own, and with what goes around one."""
    def whole(low, high, *shape, t=np.int8):
        return RNG.integers(low, high, shape).astype(t)

    s8 = TensorProto.INT8
    scales = {"xs": np.float32(0.04), "ws": np.abs(normal(5)) * np.float32(0.02) + np.float32(0.001), "ys": np.float32(0.3)}
    for t, number, zero in ((U8, np.uint8, 120), (s8, np.int8, -7)):
        zeros = {"xz": number(zero), "yz": number(zero // 2)}
        w = {"w": whole(-127, 128, 5, 3, 3, 3), "wz": np.zeros(5, np.int8), "b": whole(-9000, 9000, 5, t=np.int32)}
        names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
        for bias in ([], ["b"]):
            one("QLinearConv", {"x": (t, [2, 3, 8, 7])}, {"pads": [1, 0, 1, 2], "strides": [2, 1]}, {**scales, **zeros, **w}, names=[*names, *bias], types={"y": t},
                low=0 if t == U8 else -128, high=128)
        one("QLinearConv", {"x": (t, [1, 5, 8, 7])}, {"group": 5, "pads": [1] * 4}, {**scales, **zeros, **w, "w": whole(-127, 128, 5, 1, 3, 3)},
            names=[*names, "b"], types={"y": t}, low=0 if t == U8 else -128, high=128)
        matmul = {**scales, **zeros, "w": whole(-127, 128, 7, 5), "ws": np.float32(0.01), "wz": np.int8(3)}
        one("QLinearMatMul", {"x": (t, [4, 7])}, {}, matmul, names=names, types={"y": t}, low=0 if t == U8 else -128, high=128)
        one("QLinearMatMul", {"x": (t, [2, 4, 7]), "v": (t, [2, 7, 3])}, {}, {**scales, **zeros, "vs": np.float32(0.1), "vz": number(5)},
            names=["x", "xs", "xz", "v", "vs", "vz", "ys", "yz"], types={"y": t}, low=0 if t == U8 else -128, high=128)
        one("MatMulInteger", {"x": (t, [4, 7])}, {}, {"w": whole(-127, 128, 7, 5), "xz": number(zero), "wz": np.int8(2)}, names=["x", "w", "xz", "wz"],
            types={"y": I32}, low=0 if t == U8 else -128, high=128)
        one("ConvInteger", {"x": (t, [1, 3, 8, 7])}, {"pads": [1] * 4}, {"w": whole(-127, 128, 5, 3, 3, 3), "xz": number(zero)}, names=["x", "w", "xz"],
            types={"y": I32}, low=0 if t == U8 else -128, high=128)
        one("QuantizeLinear", {"x": [3, 5]}, {"axis": 1}, {"s": np.abs(normal(5)) + np.float32(0.01), "z": whole(0, 100, 5, t=number)}, types={"y": t})
        one("DequantizeLinear", {"x": (t, [3, 5])}, {"axis": 0}, {"s": np.abs(normal(3)), "z": whole(0, 100, 3, t=number)}, low=0, high=128)
    one("DynamicQuantizeLinear", {"x": [3, 5]}, {}, outputs=("y", "s", "z"), types={"y": U8, "z": U8})
    around = [("QuantizeLinear", ["x", "xs", "xz"], ["q"]), ("DequantizeLinear", ["q", "xs", "xz"], ["d"]),
              ("DequantizeLinear", ["w", "ws", "wz"], ["v"], {"axis": 0}), ("Conv", ["d", "v", "b"], ["c"], {"pads": [1] * 4}), ("Relu", ["c"], ["r"]),
              ("QuantizeLinear", ["r", "ys", "yz"], ["p"]), ("DequantizeLinear", ["p", "ys", "yz"], ["y"])]
    check(save("around", {"x": [1, 3, 8, 7]}, {"y": [1, 5, 8, 7]}, around,
               {**scales, "xz": np.uint8(120), "yz": np.uint8(0), "w": whole(-127, 128, 5, 3, 3, 3), "wz": np.zeros(5, np.int8), "b": normal(5)}))


BF16, F16 = TensorProto.BFLOAT16, TensorProto.FLOAT16


def check_shorts():
    """Numbers of 16 bits: in the model, and by --precision in memory alone; every one of them, to floats and back; what only moves
    them; weights of layers and convolutions, which are widened a part at a time."""
    import ml_dtypes
    for to, kind in ((BF16, ml_dtypes.bfloat16), (F16, np.float16)):
        def short(*shape):
            return normal(*shape).astype(kind)

        name = "bf16" if to == BF16 else "fp16"
        every = np.arange(65536, dtype=np.uint16).view(kind)
        made, library = check(save(f"every_{name}", {"x": (to, [65536]), "z": [140000]}, {"y": [65536], "n": (to, [140000])},
                                   [("Cast", ["x"], ["y"], {"to": TensorProto.FLOAT}), ("Cast", ["z"], ["n"], {"to": to})]), special=True)
        wide = RNG.integers(0, 2 ** 32, 140000, np.uint64).astype(np.uint32).view(np.float32)
        with np.errstate(all="ignore"):  # between each two of them, and a little beside that
            wide[:65535] = every[1:].astype(np.float32) / 2 + every[:-1].astype(np.float32) / 2
            wide[65536:131071] = np.nextafter(wide[:65535], np.float32(0))
        y, n = made.call(library, [every, wide])
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(y, every.astype(np.float32))
            np.testing.assert_array_equal(n.astype(np.float32), wide.astype(kind).astype(np.float32))
        layers = [("Gemm", ["x", "w1", "b1"], ["h"]), ("Tanh", ["h"], ["t"]), ("Gemm", ["t", "w2", "b2"], ["g"]), ("Softmax", ["g"], ["y"])]
        weights = {"w1": short(8, 37), "b1": short(37), "w2": short(37, 4), "b2": short(4)}
        for options in ((), ("--no-rewrite",)):
            check(save(f"mlp_{name}", {"x": (to, [5, 8])}, {"y": (to, [5, 4])}, layers, weights), *options)
        nodes = [("Conv", ["x", "w", "b"], ["c"], {"pads": [1] * 4}), ("Relu", ["c"], ["r"]), ("Conv", ["r", "d"], ["e"], {"group": 9, "strides": [2, 1]}),
                 ("MaxPool", ["e"], ["m"], {"kernel_shape": [2, 2]}), ("GlobalAveragePool", ["m"], ["y"])]
        check(save(f"convs_{name}", {"x": (to, [2, 5, 9, 8])}, {"y": (to, [2, 9, 1, 1])}, nodes,
                   {"w": short(9, 5, 3, 3), "b": short(9), "d": short(9, 1, 3, 3)}))
        moved = [("Transpose", ["x"], ["t"], {"perm": [1, 0]}), ("Gather", ["t", "i"], ["g"]), ("Concat", ["g", "g"], ["c"], {"axis": 1}),
                 ("ScatterND", ["c", "j", "u"], ["y"]), ("GatherElements", ["x", "k"], ["e"], {"axis": 1}), ("ReduceMax", ["x"], ["z"], {"axes": [0]})]
        check(save(f"moves_{name}", {"x": (to, [4, 6]), "i": (I64, [3]), "j": (I64, [1, 1]), "u": (to, [1, 8]), "k": (I64, [4, 2])},
                   {"y": (to, [3, 8]), "e": (to, [4, 2]), "z": (to, [1, 6])}, moved), low=-3, high=3)
        more = [("Mul", ["x", "x"], ["q"]), ("Add", ["q", "s"], ["a"]), ("Sqrt", ["a"], ["r"]), ("Div", ["x", "r"], ["d"]), ("Erf", ["d"], ["y"]),
                ("Cast", ["x"], ["n"], {"to": I32}), ("MatMul", ["x", "w"], ["m"]), ("ReduceMean", ["m"], ["v"], {"axes": [1]})]
        check(save(f"more_{name}", {"x": (to, [4, 6]), "w": (to, [6, 5])}, {"y": (to, [4, 6]), "n": (I32, [4, 6]), "v": (to, [4, 1])}, more,
                   {"s": np.asarray(0.5, kind)}), special=False)
        shutil.copy(DIGITS, f"digits_{name}.onnx")
        check(f"digits_{name}.onnx", "--dim", "batch=3", "--precision", name, near=exported.FLOATS[np.dtype(kind)])


def check_attention():
    for heads, rows, keys, mask in ((2, 5, 7, None), (1, 1, 33, "float"), (3, 9, 17, "bool")):
        shapes = {"q": [2, heads, rows, 8], "k": [2, heads, keys, 8], "v": [2, heads, keys, 6]}
        nodes = [("Transpose", ["k"], ["t"], {"perm": [0, 1, 3, 2]}), ("MatMul", ["q", "t"], ["m"]), ("Mul", ["m", "s"], ["n"])]
        last = "n"
        if mask:
            shapes["mask"] = (BOOL, [rows, keys]) if mask == "bool" else [rows, keys]
            nodes.append(("Where", ["mask", "n", "low"], ["f"]) if mask == "bool" else ("Add", ["n", "mask"], ["f"]))
            last = "f"
        nodes += [("Softmax", [last], ["p"], {"axis": -1}), ("MatMul", ["p", "v"], ["o"]), ("Transpose", ["o"], ["y"], {"perm": [0, 2, 1, 3]})]
        check(save(f"attention_{mask}".lower(), shapes, {"y": [2, rows, heads, 6]}, nodes, {"s": np.float32(0.3), "low": np.float32(-1e9)}), high=2)
    nodes = [("MatMul", ["q", "k"], ["m"]), ("MatMul", ["m", "v"], ["y"])]
    shapes = {"q": [2, 5, 8], "k": [2, 8, 33], "v": [2, 33, 6]}
    check(save("attention_plain", shapes, {"y": [2, 5, 6]}, nodes), "--only-rules", "attention-plain")
    steps = [step["label"] for step in json.loads(run("hypatia", "inspect", "attention_plain.bin", "--json"))["steps"]]
    assert steps == ["attention"], steps


def check_views():
    one("Pad", {"x": [3, 4]}, {}, {"p": np.array([1, 0, 2, 3]), "v": np.float32(2.5)})
    one("Pad", {"x": [3, 4]}, {"mode": "reflect"}, {"p": np.array([1, 2, 2, 3])})
    one("Expand", {"x": [3, 1, 4]}, {}, {"s": np.array([2, 3, 5, 4])})
    one("Tile", {"x": [3, 4]}, {}, {"r": np.array([2, 3])})
    one("DepthToSpace", {"x": [1, 8, 3, 4]}, {"blocksize": 2})
    one("Reshape", {"x": [3, 4]}, {}, {"s": np.array([2, -1])})
    nodes = [("Split", ["x"], ["a", "b"], {"axis": 0}), ("Mul", ["b", "two"], ["c"]), ("Concat", ["c", "a"], ["y"], {"axis": 0})]
    check(save("windows", {"x": [6, 40]}, {"y": [6, 40]}, nodes, {"two": np.float32(2)}))
    check(save("empty", {"x": [0, 4], "z": [3, 4]}, {"y": [3, 4]}, [("Concat", ["x", "z"], ["y"], {"axis": 0})]))


def refused(path, *options, says):
    run("hypatiac", path, "-o", "refused.bin", "-q", *options)
    done = hyp.tool("hypatia", "export-c", "refused.bin", "-o", "refused.c")
    assert done.returncode == 3 and says in done.stderr, done.stderr
    assert not os.path.exists("refused.c")
    return done.stderr


def check_refusals():
    refused(DIGITS, says="the size 'batch' is not fixed: compile the model with --dim batch=N")
    refused(DIGITS, "--dim", "batch=1", "--train", "cross-entropy", says="there is no C for steps of a training")
    inner = [("Cast", ["x"], ["h"], {"to": TensorProto.DOUBLE}), ("Exp", ["h"], ["e"]), ("Cast", ["e"], ["y"], {"to": TensorProto.FLOAT})]
    assert "neither f32 nor i64" in refused(save("inner", {"x": [2, 3]}, {"y": [2, 3]}, inner), says="there is no C for step ")
    nodes = [("NonZero", ["x"], ["n"]), ("Cast", ["x"], ["h"], {"to": TensorProto.DOUBLE}), ("Exp", ["h"], ["e"])]
    refused(save("sizes", {"x": [2, 3]}, {"n": (I64, None)}, nodes[:1]), says="there is no C for outputs of which the data decide how large they are")
    refused(save("doubles", {"x": [2, 3]}, {"e": (TensorProto.DOUBLE, None)}, nodes[1:]), says="'e' is of f64, which C99 has not")
    several = [("AffineGrid", ["a", "z"], ["s"]), ("RoiAlign", ["x", "r", "i"], ["t"], {"output_height": 2, "output_width": 2})]
    shapes = {"x": [1, 2, 4, 4], "a": [1, 2, 3], "r": [2, 4], "i": (I64, [2])}
    path = save("several", shapes, {"s": [1, 3, 3, 2], "t": (TensorProto.FLOAT, None)}, several, {"z": np.array([1, 2, 3, 3])}, opset=20)
    done = refused(path, says="there is no C for step ")
    assert "affine-grid;" in done and "roi-align" in done, done
    run("hypatiac", DIGITS, "-o", "digits.bin", "-q", "--dim", "batch=1")
    for name in ("1x", "for", "a b"):
        run("hypatia", "export-c", "digits.bin", "-o", "d.c", "--name", name, code=2, says=f"'{name}' is no name of a function in C")
    run("hypatia", "export-c", "digits.bin", "-o", "digits.bin", code=2, says="would be lost")
    run("hypatia", "export-c", "digits.bin", "-o", "d.c", "--header", "d.c", code=2)
    run("hypatia", "export-c", "digits.bin", "-o", "d.c", "--weights", "digits.bin", code=2)
    assert not os.path.exists("d.c")
    run("hypatia", "export-c", "digits.bin", code=2, says="no output was given")
    run("hypatia", "export-c", DIGITS, "-o", "d.c", code=1, says="not a plan")
    for other in "ab":
        run("hypatia", "export-c", "digits.bin", "-o", f"{other}.c", "--name", "digits", "--header", f"{other}.h", "--weights", f"{other}.w")
    for ending in "chw":
        with open(f"a.{ending}", "rb") as a, open(f"b.{ending}", "rb") as b:
            text = a.read()
            assert text and text == b.read() and b"DIGITS" not in text
            assert ending == "w" or b"int digits(const void *weights, const float *in" in text


def check_names():
    """Names of the model are in comments, which they cannot end."""
    path = save("names", {"x*/int y;/*": [2, 2]}, {"y\\\n#error */": [2, 2]}, [("Relu", ["x*/int y;/*"], ["y\\\n#error */"])])
    model = onnx.load(path)
    model.graph.name = "*/ #error"
    onnx.save(model, path)
    run("hypatiac", path, "-o", "names.bin", "-q")
    made = exported.Exported("names.bin")
    x = normal(2, 2)
    assert (made.call(made.build(exported.COMPILERS[0], "-O2"), [x])[0] == np.maximum(x, 0)).all()


def main():
    if not exported.COMPILERS:
        hyp.skip("there is neither gcc nor clang")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        shutil.copy(DIGITS, "digits.onnx")
        check("digits.onnx", "--dim", "batch=2")
        for part in (check_functions, check_operators, check_products, check_movement, check_convolutions, check_channels, check_pools, check_norms, check_recurrences,
                     check_indices, check_scatters, check_images, check_integers, check_quantized, check_shorts, check_attention, check_views, check_names, check_refusals):
            if not sys.argv[1:] or sys.argv[1] in part.__name__:
                part()
                settle()
                print(f"{part.__name__}: {len(CHECKED)} models so far", flush=True)
    print("C as the plans")


main()
