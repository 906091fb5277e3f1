"""ONNX graphs of plain operators in the oracle of tests/support/exact.py: what judge_random.py judges plans by."""
import numpy as np
from onnx import helper, numpy_helper

import exact as X
from exact import L, T

NAMES = {1: "f32", 2: "u8", 3: "i8", 5: "i16", 6: "i32", 7: "i64", 9: "bool", 10: "f16", 11: "f64", 16: "bf16"}
BINARY = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Pow": "pow"}
COMPARE = {"Less": "less", "Greater": "greater", "Equal": "equal", "LessOrEqual": "less-equal",
           "GreaterOrEqual": "greater-equal"}
UNARY = {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Erf": "erf", "Exp": "exp", "Sqrt": "sqrt", "Abs": "abs",
         "Neg": "neg", "Floor": "floor", "Ceil": "ceil", "Round": "round", "Sign": "sign"}
MOVES = {"Identity", "Transpose", "Flatten", "Unsqueeze", "Concat", "Slice", "Split"}
STEPS = {"Floor", "Ceil", "Round", "Sign", "QuantizeLinear", "ArgMax", "Mod", *COMPARE}

FUNCTIONS = {"Sigmoid", "Tanh", "Erf", "Exp", "Softmax"}
FLUSHED = {"f32": L(2) ** -100, "bf16": L(2) ** -100, "f64": L(2) ** -1000}  # a function's value as small as this may be 0
PRODUCTS = {"MatMul", "Gemm"}  # of bf16: instructions of processors take what is below the normal numbers for 0


def load(tensor):
    t = NAMES[tensor.data_type]
    if t == "bf16":
        return X.tensor(t, np.frombuffer(tensor.raw_data, X.BF16).reshape(tuple(tensor.dims)))
    return X.tensor(t, numpy_helper.to_array(tensor))


def feed(array):
    t = {d: n for n, d in X.TYPES.items()}[array.dtype]
    return X.tensor(t, array)


def quantize(x, scale, zero):
    """round(x / scale) + zero, saturated."""
    q = X.unary("round", X.binary("div", x, scale))
    low, high = np.iinfo(X.TYPES[zero.t]).min, np.iinfo(X.TYPES[zero.t]).max
    with np.errstate(invalid="ignore"):
        n = np.clip(X.wide(q.x) + X.wide(zero.x), L(low), L(high))
    if np.any(np.isnan(n)):
        raise X.Unsupported("NaN quantized")
    return X.whole(zero.t, n.astype(np.int64), q.d)


def in_range(x, t):
    """Casts of what an integer type has no place for are undefined in ONNX."""
    if x.real and t not in X.FLOATS and t != "bool":
        v = np.trunc(X.wide(x.x))
        info = np.iinfo(X.TYPES[t])
        if not np.all(np.isfinite(v) & (v >= info.min) & (v <= info.max)):
            raise X.Unsupported("a cast out of range")


def run_node(op, a, ins):
    x = ins[0]
    if op in BINARY:
        return [X.binary(BINARY[op], *ins)]
    if op in UNARY:
        return [X.unary(UNARY[op], x)]
    if op in COMPARE:
        return [X.compare(COMPARE[op], *ins)]
    if op in ("Min", "Max"):
        return [X.binary(op.lower(), *ins)]
    if op in ("And", "Or", "Xor"):
        return [X.bits(op.lower(), *ins)]
    if op == "Not":
        return [X.whole("bool", ~x.x, x.d)]
    if op == "Where":
        return [X.choose(*ins)]
    if op == "Identity":
        return [x]
    if op == "LeakyRelu":
        return [X.unary("leaky-relu", x, alpha=np.float32(a["alpha"]))]
    if op == "Clip":
        return [X.clip(x, float(X.wide(ins[1].x)), float(X.wide(ins[2].x)))]
    if op == "Cast":
        t = NAMES[a["to"]]
        in_range(x, t)
        return [X.cast(x, t)]
    if op == "Mod":
        return [X.binary("mod", *ins) if not x.real else X.binary("fmod", *ins)]
    if op == "Softmax":
        return [X.softmax(x, a["axis"])]
    if op == "MatMul":
        return [X.matmul(*ins).done()]
    if op == "Gemm":
        p = X.swap(x) if a.get("transA") else x
        y = X.matmul(p, X.swap(ins[1]) if a.get("transB") else ins[1]).times(a.get("alpha", 1.0))
        return [(y.plus(ins[2]) if len(ins) > 2 else y).done()]
    if op in ("ReduceMean", "ReduceSum", "ReduceMax"):
        return [X.reduce(op[6:].lower(), x, [int(i) for i in ins[1].x], a.get("keepdims", 1))]
    if op == "ArgMax":
        i = np.argmax(X.wide(x.x), a["axis"])
        return [X.whole("i64", np.expand_dims(i, a["axis"]) if a.get("keepdims", 1) else i, x.d)]
    if op == "QuantizeLinear":
        return [quantize(*ins)]
    if op == "DequantizeLinear":
        n = X.wide(x.x) - X.wide(ins[2].x)
        d = x.d and ins[1].d
        s = np.abs(n * X.wide(ins[1].x)) if d else np.full(n.shape, L(np.inf))
        return [X.real(ins[1].t, n * X.wide(ins[1].x), n * ins[1].v, s, d)]
    return move(op, a, ins)


def move(op, a, ins):
    x = ins[0]
    if op == "Transpose":
        return [x.move(lambda v: np.transpose(v, a["perm"]))]
    if op == "Flatten":
        return [x.move(lambda v: v.reshape(int(np.prod(v.shape[:a["axis"]])), -1))]
    if op == "Unsqueeze":
        return [x.move(lambda v: np.expand_dims(v, tuple(int(i) for i in ins[1].x)))]
    if op == "Concat":
        parts = [np.concatenate([getattr(i, f) for i in ins], a["axis"]) for f in ("x", "v", "s")]
        return [T(x.t, *parts, all(i.d for i in ins))]
    if op == "Slice":
        start, end, axis = (int(i.x[0]) for i in ins[1:4])
        index = [slice(None)] * len(x.shape)
        index[axis] = slice(start, end)
        return [x.move(lambda v: v[tuple(index)])]
    if op == "Split":
        at = np.cumsum(ins[1].x)[:-1]
        return [T(x.t, *p, x.d) for p in zip(*(np.split(getattr(x, f), at, a["axis"]) for f in ("x", "v", "s")))]
    raise X.Unsupported(op)


class Run:
    """A model on one set of inputs: `outputs`, `units` and whether class R promises something."""

    def __init__(self, model, feeds):
        X.tally = X.Tally()
        self.computed = set()
        values = {t.name: load(t) for t in model.graph.initializer}
        values.update({name: feed(x) for name, x in feeds.items()})
        nodes = []
        for node in model.graph.node:
            attrs = {i.name: helper.get_attribute_value(i) for i in node.attribute}
            made = run_node(node.op_type, attrs, [values[i] for i in node.input])
            if node.op_type in FUNCTIONS:
                made = [T(m.t, m.x, m.v, np.maximum(m.s, FLUSHED.get(m.t, 0) / X.UNIT[m.t]), m.d) for m in made]
            if node.op_type in PRODUCTS:
                made = [T(m.t, m.x, m.v, np.maximum(m.s, X.NORMAL["bf16"] / X.UNIT["bf16"] / 64) if m.t == "bf16" else m.s, m.d) for m in made]
            step = node.op_type in STEPS or node.op_type == "Cast" and NAMES[attrs["to"]] not in X.FLOATS
            if not step and node.op_type != "DequantizeLinear" and all(m.d and m.real for m in made):
                self.carry(node, attrs, values, made)
            values.update(zip(node.output, made))
            nodes.append((node, step))
        kept, live = set(), {o.name for o in model.graph.output}  # what a step reads, and what determines that
        for node, step in reversed(nodes):
            if not any(o in live for o in node.output):
                continue
            live.update(node.input)
            if step or any(o in kept for o in node.output):
                kept.update(i for i in node.input if values[i].d)
        names = {n.output[0]: n.input[0] for n, _ in nodes if n.op_type == "Identity"}
        self.kept = [o.name in kept or names.get(o.name) in kept for o in model.graph.output]
        self.outputs = [values[o.name] for o in model.graph.output]
        self.units = 64 + 2 * X.tally.longest
        self.finite = X.tally.finite


    def carry(self, node, attrs, values, made):
        """The sizes of determined values. The bound of class R counts such a value below a rule's root as what it is; but each
        that is computed may itself be a root, and what rounding did to it travels on: x * 6 / 6 - x may be 0. Inputs and
        constants are nobody's result: x - c has no error but its own."""
        moves = node.op_type in MOVES
        adds = moves or node.op_type in ("Add", "Sub")
        ins = []
        for name in node.input:
            a = values[name]
            ins.append(T(a.t, a.x, a.v, np.zeros_like(a.s) if adds and name not in self.computed else a.s, False) if a.real else a)
        finite = X.tally.finite
        for m, far, name in zip(made, run_node(node.op_type, attrs, ins), node.output):
            m.s = np.maximum(m.s, far.s)
            if not moves or any(i in self.computed for i in node.input):
                self.computed.add(name)
        X.tally.finite = finite


def beyond(run, i, actual, rewritten):
    """Where an output is not what is promised: a mask, or a word if it is of another type. As imported every operator gives
    what its type gives; rewritten, a value that a step reads keeps its bits, and the bound of class R holds."""
    want = run.outputs[i]
    if actual.dtype != want.x.dtype or actual.shape != want.shape:
        return f"type {actual.dtype}{list(actual.shape)}, wanted {want.x.dtype}{list(want.shape)}"
    if not want.real:
        return (actual != want.x) & (want.d | np.isfinite(want.s))
    a, b = X.wide(actual), X.wide(want.x)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if want.d and (run.kept[i] or not rewritten):
        return ~same
    near = np.abs(a - want.v) <= run.units * X.UNIT[want.t] * want.s
    told = run.finite & np.isfinite(want.s) & (want.s <= X.LARGEST[want.t])
    return ~(same | near | ~told)
