"""Small models whose constants would cost minutes and gigabytes: they compile to small plans, which compute the constants
when they run. The bounds are of bytes, not of seconds; ctest's limit of time is generous."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hyp  # noqa: E402

np, onnx = hyp.need("numpy", "onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

MIB = 1 << 20
failures = 0
folder = tempfile.TemporaryDirectory()
model, plan = os.path.join(folder.name, "m.onnx"), os.path.join(folder.name, "m.bin")


def want(what, holds, detail=""):
    global failures
    failures += not holds
    if not holds:
        print(f"FAILED {what}: {detail}")


class Small:
    """x f32[1] -> x + the sum of a constant, or the constant itself, times x."""

    def __init__(self, summed=True):
        self.summed, self.nodes, self.stored = summed, [], []

    def store(self, array, dtype=np.int64):
        name = f"c{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(np.array(array, dtype), name))
        return name

    def op(self, op, *inputs, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name=f"{op}_{len(self.nodes)}", **attributes))
        return names[0]

    def filled(self, *shape):
        return self.op("ConstantOfShape", self.store(shape), value=numpy_helper.from_array(np.ones(1, np.float32)))

    def save(self, value):
        if self.summed:
            value = self.op("ReduceSum", value, keepdims=0)
        self.nodes.append(helper.make_node("Mul", ["x", value], ["y"], name="last"))
        info = helper.make_tensor_value_info
        graph = helper.make_graph(self.nodes, "g", [info("x", TensorProto.FLOAT, [1])],
                                  [info("y", TensorProto.FLOAT, None)], self.stored)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)


def check(name, value_of, most_bytes=MIB, summed=True):
    m = Small(summed)
    m.save(value_of(m))
    want(f"{name}: the model is small", os.path.getsize(model) < 3000, os.path.getsize(model))
    done = hyp.tool("hypatiac", model, "-o", plan, "-q")
    want(name, done.returncode == 0, done.stderr)
    if done.returncode == 0:
        want(f"{name}: bytes of the plan", os.path.getsize(plan) < most_bytes, os.path.getsize(plan))


def concats(m):
    value = m.filled(16)
    for _ in range(27):
        value = m.op("Concat", value, value, axis=0)
    return value


def scaled(m, *scales):
    return m.op("Resize", m.filled(1, 1, 100, 100), "", m.store(scales, np.float32), mode="linear")


def chain(m):
    value = m.filled(2048, 2048)
    for _ in range(12):
        value = m.op("MatMul", value, m.op("Transpose", value, perm=[1, 0]))
    return value


check("a product of 4096 x 4096", lambda m: m.op("MatMul", m.filled(4096, 4096), m.filled(4096, 4096)))
check("10^9 elements", lambda m: m.filled(10**9), summed=False)
check("10^9 elements that are summed", lambda m: m.filled(10**9))
check("2^27 elements", lambda m: m.filled(2**27), summed=False)
check("a running sum of 3 10^7", lambda m: m.op("CumSum", m.filled(3 * 10**7), m.store(0)))
check("the first of 3 10^7", lambda m: m.op("TopK", m.filled(3 * 10**7), m.store([3]), outputs=2))
check("products of 2048 x 2048", chain, 64 * MIB)
check("a convolution", lambda m: m.op("Conv", m.filled(1, 256, 128, 128), m.filled(256, 256, 5, 5)), 64 * MIB)
check("a resize", lambda m: scaled(m, 1, 1, 100, 100))
check("27 doublings", concats, 64 * MIB)
check("a range", lambda m: m.op("Range", m.store(0, np.float32), m.store(2e8, np.float32), m.store(1, np.float32)))
check("an expand", lambda m: m.op("Expand", m.store([1], np.float32), m.store([2, 10**8])))
check("a one-hot", lambda m: m.op("OneHot", m.store([3, 4]), m.store(10**8), m.store([0, 1], np.float32)))
check("a tile", lambda m: m.op("Tile", m.store([1, 2], np.float32), m.store([10**8])))
check("a pad", lambda m: m.op("Pad", m.store([1, 2], np.float32), m.store([10**8, 7])))

# What the flags say is done, and the plan computes the same either way.
m = Small()
m.save(m.op("MatMul", m.op("Sqrt", m.filled(300, 200)), m.filled(200, 300)))
for flags in ((), ("--max-fold-bytes", "1000"), ("--max-fold-flops", "1000")):
    done = hyp.tool("hypatiac", model, "-o", plan, "-q", *flags)
    want(f"{flags}", done.returncode == 0, done.stderr)
    with hyp.Engine(plan, "reference") as engine:
        y = engine.run({"x": np.ones(1, np.float32)})[0]
    want(f"{flags}: the sum", y[0] == 300 * 200 * 300, y)
    steps = hyp.tool("hypatia", "inspect", plan).stdout
    want(f"{flags}: where the product is computed", ("matmul" in steps) == bool(flags), steps)

# What the importer cannot do without it refuses, and says where.
m = Small()
total = m.op("Cast", m.op("ReduceSum", m.filled(10**9), keepdims=1), to=TensorProto.INT64)
m.save(m.op("Reshape", m.filled(4), total))
done = hyp.tool("hypatiac", model, "-o", plan, "-q")
want("a shape that costs too much", done.returncode == 3 or done.returncode == 1, done.returncode)
want("its message names the node", "ReduceSum_1" in done.stderr and "bytes" in done.stderr, done.stderr)

# So does an evaluation that fails.
m = Small()
m.save(m.op("GatherElements", m.filled(100, 3), m.store([[100, 0, 0]]), axis=0))
done = hyp.tool("hypatiac", model, "-o", plan, "-q", "--verify", "off")
want("an index that is out of range", done.returncode != 0 and "GatherElements_1" in done.stderr, (done.returncode, done.stderr))

print(f"{failures} failures")
folder.cleanup()
sys.exit(1 if failures else 0)
