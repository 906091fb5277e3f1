"""Constants that are computed before a plan runs have the bits that they have at run time.

Each case is a graph over leaves. Compiled with the leaves as inputs and run by the reference backend, as imported, it
gives the bits that are wanted; compiled with the leaves as constants, as imported and rewritten, it must give the same.

`judge_folding.py --count 60 --seed 0` draws that many random graphs besides the fixed ones; a failure names its seed."""
import argparse
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hyp  # noqa: E402

np, onnx = hyp.need("numpy", "onnx")
import ml_dtypes  # noqa: E402  comes with onnx
from onnx import TensorProto, helper  # noqa: E402

F16, BF16, F32, F64 = TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE
I8, I32, I64, U8, BOOL = TensorProto.INT8, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8, TensorProto.BOOL
NUMPY = {F16: np.float16, BF16: ml_dtypes.bfloat16, F32: np.float32, F64: np.float64, I8: np.int8, I32: np.int32,
         I64: np.int64, U8: np.uint8, BOOL: np.bool_}
FLOATS, INTS = [F16, BF16, F32, F64], [I8, I32, I64, U8]
failures, cases = 0, 0
folder = tempfile.TemporaryDirectory()


def tensor(name, array, kind):
    return helper.make_tensor(name, kind, array.shape, array.tobytes(), raw=True)


class Case:
    """Leaves, nodes and outputs; a value is a pair of its name and its element type."""

    def __init__(self, name):
        self.name, self.leaves, self.nodes, self.outputs = name, {}, [], []

    def leaf(self, array, kind=F32):
        name = f"l{len(self.leaves)}"
        self.leaves[name] = (np.asarray(array).astype(NUMPY[kind]), kind)
        return name, kind

    def op(self, op, *inputs, kind=None, **attributes):
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [i[0] for i in inputs], [out], name=f"{op}_{len(self.nodes)}", **attributes))
        return out, kind or inputs[0][1]

    def out(self, *values):
        self.outputs += values

    def model(self, constant):
        inputs = [] if constant else [helper.make_tensor_value_info(n, k, a.shape) for n, (a, k) in self.leaves.items()]
        stored = [tensor(n, a, k) for n, (a, k) in self.leaves.items()] if constant else []
        outputs = [helper.make_tensor_value_info(n, k, None) for n, k in self.outputs]
        graph = helper.make_graph(self.nodes, "fold", inputs, outputs, stored)
        path = os.path.join(folder.name, "m.onnx")
        with open(path, "wb") as file:
            file.write(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
                       .SerializeToString())
        return path

    def run(self, constant, no_rewrite):
        plan = os.path.join(folder.name, "m.bin")
        hyp.compile_model(self.model(constant), plan, no_rewrite=no_rewrite)
        with hyp.Engine(plan, "reference") as engine:
            return engine.run({} if constant else {n: a for n, (a, k) in self.leaves.items()})

    def attempt(self, when, constant, no_rewrite):
        """The outputs, or None after a failure."""
        global failures
        try:
            return self.run(constant, no_rewrite)
        except hyp.Error as error:
            failures += 1
            print(f"FAILED {self.name}: {when}: {error}")
            return None

    def check(self):
        global failures, cases
        cases += 1
        wanted = self.attempt("at run time", False, True)
        if wanted is None:
            return
        for no_rewrite in (True, False):
            actual = self.attempt("folded", True, no_rewrite)
            if actual is None:
                continue
            for (name, kind), a, w in zip(self.outputs, actual, wanted):
                same = a.tobytes() == w.tobytes() or (kind in FLOATS and np.array_equal(np.isnan(a), np.isnan(w)) and
                                                      a[~np.isnan(a)].tobytes() == w[~np.isnan(w)].tobytes())
                if not same:
                    failures += 1
                    at = [i for i in range(a.size) if a.flat[i] != w.flat[i] or np.signbit(np.float64(a.flat[i])) !=
                          np.signbit(np.float64(w.flat[i]))]
                    first = at[0] if at else 0
                    made = [n for n in self.nodes if n.output[0] == name]
                    print(f"FAILED {self.name} ({'as imported' if no_rewrite else 'rewritten'}): {name} "
                          f"{made[0].op_type if made else ''}: {len(at)} of {a.size} differ, "
                          f"the first is {a.flat[first]!r}, {w.flat[first]!r} at run time")


def floor_of_product():
    c = Case("floor(10 * 0.7)")
    p = c.op("Mul", c.leaf([10]), c.leaf([0.7]))
    c.out(c.op("Floor", p), c.op("Equal", p, c.leaf([7]), kind=BOOL), c.op("Cast", p, kind=I32, to=I32))
    c.check()


def overflow_on_the_way():
    c = Case("1e6 through f16")
    x = c.leaf(np.array([1e6, -7e4, 65504, 1e-9, 3.14159]))
    for narrow in (F16, BF16):
        c.out(c.op("Cast", c.op("Cast", x, kind=narrow, to=narrow), kind=F32, to=F32))
    c.check()
    c = Case("a weight through f16 and transposed")
    w = c.leaf(np.random.default_rng(1).standard_normal((70, 90)) * 1e4)
    h = c.op("Cast", c.op("Transpose", w, perm=[1, 0]), kind=F16, to=F16)
    s = c.op("Mul", h, c.leaf(2.7, F16))
    c.out(c.op("Cast", c.op("Transpose", s, perm=[1, 0]), kind=F32, to=F32), c.op("Cast", s, kind=F32, to=F32))
    c.check()


def quantized_weights():
    for kind in (I8, U8):
        for shape in ((64, 64), (600, 500)):
            c = Case(f"weights {shape} through QuantizeLinear")
            w = c.leaf(np.random.default_rng(2).standard_normal(shape) * 0.7)
            scale, zero = c.leaf(np.float32(0.0173)), c.leaf(3 if kind == U8 else 0, kind)
            q = c.op("QuantizeLinear", w, scale, zero, kind=kind)
            c.out(q, c.op("DequantizeLinear", q, scale, zero, kind=F32))
            c.check()


def scaled_weights():
    """Chains of casts and products by a number, which have a way of their own, with and without others in between."""
    for kind in FLOATS:
        c = Case(f"scaled weights of type {kind}")
        w = c.leaf(np.random.default_rng(3).standard_normal((65, 97)), kind)
        a = c.op("Mul", w, c.leaf(0.1, kind))
        b = c.op("Mul", a, c.leaf(0.3, kind))
        c.out(b, c.op("Transpose", c.op("Mul", b, c.leaf(7.1, kind)), perm=[1, 0]), c.op("Floor", c.op("Mul", a, a)))
        c.check()


class Random:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.c = Case(f"seed {seed}")
        self.values = [(self.leaf(kind), kind) for kind in FLOATS + INTS]

    def pick(self, items):
        return items[self.rng.integers(len(items))]

    def leaf(self, kind):
        if kind in INTS:
            return self.c.leaf(self.rng.integers(0 if kind == U8 else -20, 21, 12), kind)
        special = self.rng.permutation([0, -0.0, np.inf, -np.inf, np.nan, 1, 0.5, 65504, 6e-8, 1e-3, 7, 2.5])
        ordinary = self.rng.standard_normal(12) * 10.0 ** self.rng.integers(-2, 3, 12)
        return self.c.leaf(np.where(self.rng.integers(0, 4, 12) == 0, special, ordinary), kind)

    def value(self, kinds):
        kind = self.pick(kinds)
        fitting = [v for v, k in self.values if k == kind]
        return (self.pick(fitting) if fitting and self.rng.integers(4) else self.leaf(kind)), kind

    def step(self):
        c, what = self.c, self.rng.integers(8)
        kinds = self.pick([FLOATS, FLOATS, INTS])
        x, kind = self.value(kinds)
        if what == 0:
            to = self.pick(FLOATS + INTS)
            if kind in FLOATS and to in INTS: # numbers that have no integer are undefined
                x = c.op("Clip", x, c.leaf(0, kind), c.leaf(100, kind))
                x = c.op("Where", c.op("IsNaN", x, kind=BOOL), c.leaf(1, kind), x, kind=kind)
            out, kind = c.op("Cast", x, kind=to, to=to), to
        elif what == 1 and kind in FLOATS:
            out = c.op(self.pick(["Floor", "Ceil", "Round", "Sqrt", "Neg", "Abs", "Relu", "Sign", "LeakyRelu"]), x)
        elif what == 2:
            y, _ = self.value([kind])
            out, kind = c.op(self.pick(["Less", "Equal", "LessOrEqual", "Greater"]), x, y, kind=BOOL), BOOL
            out, kind = c.op("Cast", out, kind=U8, to=U8), U8
        elif what == 3 and kind in (F16, F32):
            scale, to = c.leaf(self.pick([0.0173, 0.5, 0.3]), kind), self.pick([I8, U8])
            x = c.op("Where", c.op("IsNaN", x, kind=BOOL), c.leaf(1, kind), x, kind=kind)
            q = c.op("QuantizeLinear", c.op("Clip", x, c.leaf(-9, kind), c.leaf(9, kind)), scale, c.leaf(0, to), kind=to)
            out = c.op("DequantizeLinear", q, scale, c.leaf(0, to), kind=kind)
        elif what == 4:
            y, _ = self.value([kind])
            out = c.op(self.pick(["Max", "Min"]), x, y)
        elif what == 5 and kind in FLOATS:
            y, _ = self.value([kind])
            out = c.op("Div", x, y)
        else:
            y, _ = self.value([kind])
            out = c.op(self.pick(["Add", "Sub", "Mul", "Mul"]), x, y)
        self.values.append((out, kind))
        c.out(out)

    def run(self):
        for _ in range(self.rng.integers(4, 14)):
            self.step()
        self.c.check()


parser = argparse.ArgumentParser()
parser.add_argument("--count", type=int, default=60)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
floor_of_product()
overflow_on_the_way()
quantized_weights()
scaled_weights()
for seed in range(args.seed, args.seed + args.count):
    Random(seed).run()
print(f"{cases} cases, {failures} failures")
folder.cleanup()
sys.exit(1 if failures else 0)
