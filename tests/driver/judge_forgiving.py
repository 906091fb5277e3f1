#!/usr/bin/env python3
"""What is odd in a model and does no harm: that it compiles, what it says, and that nothing is lost on the way, against
numpy and onnxruntime. `judge_forgiving.py`. Exit status 1 if anything differs."""
import os
import subprocess
import sys
import tempfile

import judging

hyp = judging.hyp
np, onnx = hyp.need("numpy", "onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

failures = 0
F32 = TensorProto.FLOAT


def check(name, good, what=""):
    global failures
    if not good:
        failures += 1
        print(f"FAILED {name}: {what}")


def info(name, shape, kind=F32):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, constants=None, opset=17, ir_version=8):
    constants = [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    sets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=ir_version)


node = helper.make_node


def save(folder, name, proto):
    path = os.path.join(folder, name + ".onnx")
    with open(path, "wb") as file:
        file.write(proto if isinstance(proto, bytes) else proto.SerializeToString())
    return path


def compiled(folder, name, proto, *options):
    """The tool's exit code and what it says, and the plan's path."""
    plan = os.path.join(folder, name + ".bin")
    done = hyp.tool("hypatiac", save(folder, name, proto), "-o", plan, *options)
    return done.returncode, done.stderr, plan


def accepted(folder, name, proto, feeds, *says, wanted=None):
    """Compiles with a warning that says this, and computes what is wanted, or else what onnxruntime does where that takes
    the model."""
    code, text, plan = compiled(folder, name, proto)
    check(name, code == 0 and text.count("warning: ") == (1 if says else 0), text)
    for part in says:
        check(name, part in text, f"no '{part}' in: {text}")
    if code:
        return
    for device in ("cpu", "reference"):
        with hyp.Engine(plan, device) as engine:
            outputs = engine.run(feeds)
        if wanted is None:
            ort = hyp.need("onnxruntime")
            options = ort.SessionOptions()
            options.log_severity_level = 4
            try:
                wanted = ort.InferenceSession(proto.SerializeToString(), options).run(None, feeds)
            except Exception as error:  # its exceptions share no base class
                print(f"{name}: onnxruntime does not run it: {str(error)[:120]}")
                return
        for a, w in zip(outputs, wanted):
            check(name, hyp.difference(a, w) <= 1e-6, f"{device}: {a}, wanted {w}")


def refused(folder, name, proto, code, *says):
    found, text, _ = compiled(folder, name, proto)
    check(name, found == code, f"exit {found}: {text}")
    for part in says:
        check(name, part in text, f"no '{part}' in: {text}")


# ---- negative zeros ----------------------------------------------------------------------------------------


def bits(array):
    return array.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[array.dtype.itemsize])


def negative_zero(how, dtype):
    """The nodes and initializers that make the constant z."""
    code = hyp.CODES[np.dtype(dtype)]
    shape = [] if how in ("scalar", "node") else [1]
    z = helper.make_tensor("z", code, shape, np.full(shape, -0.0, dtype).tobytes(), raw=True)
    return ([node("Constant", [], ["z"], value=z)], []) if how == "node" else ([], [z])


def judge_negative_zeros(folder):
    ml_dtypes = hyp.need("ml_dtypes")
    x_values = [1.0, -2.0, 0.0, -0.0]
    count = 0
    for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64):
        code = hyp.CODES[np.dtype(dtype)]
        x = np.array(x_values, dtype)
        c = np.array([True, False, True, False])
        zero = np.zeros(4, dtype) * dtype(-1)
        with np.errstate(all="ignore"):
            wanted = [x / zero, x * zero, x + zero, np.where(c, zero, x)]
        nodes = [node("Div", ["x", "z"], ["d"]), node("Mul", ["x", "z"], ["m"]), node("Add", ["x", "z"], ["a"]),
                 node("Where", ["c", "z", "x"], ["w"])]
        for how in ("scalar", "vector", "node"):
            before, constants = negative_zero(how, dtype)
            proto = model(before + nodes, [info("x", ["n"], code), info("c", ["n"], TensorProto.BOOL)],
                          [info(o, None, code) for o in "dmaw"])
            proto.graph.initializer.extend(constants)
            path, plan = save(folder, "zero", proto), os.path.join(folder, "zero.bin")
            for no_rewrite in (False, True):
                hyp.compile_model(path, plan, no_rewrite=no_rewrite)
                for device in ("cpu", "reference"):
                    with hyp.Engine(plan, device) as engine:
                        outputs = engine.run({"x": x, "c": c})
                    for name, a, w in zip("dmaw", outputs, wanted):
                        nan = np.isnan(w.astype(np.float64))
                        same = (bits(a) == bits(w)) | (nan & np.isnan(a.astype(np.float64)))
                        count += 1
                        check(f"-0.0 as a {how}, {np.dtype(dtype)}, {device}{', as imported' if no_rewrite else ''}",
                              same.all(), f"output {name} is {a}, wanted {w}")
    print(f"{count} outputs of constants that are -0.0 compared bit by bit")


def judge_attributes_of_zero(folder):
    """Numbers of operators that are -0.0."""
    x = np.array([-1, -0.0, 0.0, 1], np.float32)
    proto = model([node("LeakyRelu", ["x"], ["y"], alpha=-0.0), node("Clip", ["x", "z"], ["c"])], [info("x", ["n"])],
                  [info("y", None), info("c", None)], {"z": np.float32(-0.0)})
    hyp.compile_model(save(folder, "numbers", proto), os.path.join(folder, "numbers.bin"))
    for device in ("cpu", "reference"):
        with hyp.Engine(os.path.join(folder, "numbers.bin"), device) as engine:
            y, c = engine.run({"x": x})
        check(f"alpha -0.0 on {device}", not np.signbit(y[0]) and y[3] == 1, y)
        check(f"clip at -0.0 on {device}", np.signbit(c[0]) and c[3] == 1, c)


# ---- what is forgiven, and what is said ---------------------------------------------------------------------


def field(number, content):
    """A field of a message, as bytes."""
    length, size = b"", len(content)
    while size >= 128:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def with_graph(proto, graph):
    """The bytes of a model with the bytes of a graph."""
    proto.ClearField("graph")
    return proto.SerializeToString() + field(7, graph)


def too_deep(depth):
    """Graphs in attributes of each other, deeper than onnx's own reader goes."""
    graph = b""
    for _ in range(depth):
        graph = field(1, field(4, b"If") + field(5, field(1, b"then_branch") + field(6, graph)))
    return with_graph(model([], [], [info("y", [2])]), graph)


def branches(depth):
    """An If in an If in ..., all taken."""
    inner = helper.make_graph([node("Neg", ["x"], [f"n{depth}"])], "else", [], [info(f"n{depth}", None)])
    body = [node("Exp", ["x"], ["r0"])]
    if depth:
        body = [node("If", ["c"], [f"r{depth}"], then_branch=branches(depth - 1), else_branch=inner)]
    return helper.make_graph(body, "then", [], [info(f"r{depth}", None)])


def nested(depth):
    proto = model(list(branches(depth).node), [info("x", [2])], [info(f"r{depth}", None)], {"c": np.array(True)})
    return proto


def judge_warnings(folder):
    x = {"x": np.arange(6, dtype=np.float32).reshape(2, 3) - 2}
    relu = [node("Relu", ["x"], ["y"])]
    accepted(folder, "plain", model(relu, [info("x", [2, 3])], [info("y", [2, 3])]), x)
    accepted(folder, "rank", model(relu, [info("x", [2, 3])], [info("y", [2, 3, 4])]), x,
             'output "y" is [2 3], not [2 3 4] as declared')
    accepted(folder, "shape", model(relu, [info("x", ["n", 3])], [info("y", ["n", 4])]), x, "[n 3], not [n 4]")
    norm = node("LayerNormalization", ["x", "w"], ["y"], epsion=1e-3, axis=-1)
    accepted(folder, "attribute", model([norm], [info("x", [2, 3])], [info("y", None)], {"w": np.ones(3, np.float32)}),
             x, '"LayerNormalization:y"', '"epsion" is ignored', "epsilon")
    default = model([node("Add", ["x", "w"], ["y"])], [info("x", [2, 3]), info("w", [2, 3])], [info("y", None)],
                    {"w": np.ones((2, 3), np.float32)})
    accepted(folder, "default", default, x, 'input "w" has a default value')
    with hyp.Engine(os.path.join(folder, "default.bin"), "cpu") as engine:
        try:
            engine.run({**x, "w": np.ones((2, 3), np.float32)})
            check("default", False, "takes a value when it runs")
        except hyp.Error as error:
            check("default", "'w' is a constant of the plan" in str(error), error)
    done = hyp.tool("hypatiac", os.path.join(folder, "default.onnx"), "--dry-run", "--quiet")
    check("quiet", done.returncode == 0 and not done.stderr, done.stderr)
    ones = np.ones(2, np.float32)
    for depth in (3, 30):  # not by onnxruntime: older releases take twice as long for each level
        accepted(folder, f"nested {depth}", nested(depth), {"x": ones}, wanted=[np.exp(ones)])
    refused(folder, "nested 120", too_deep(120), 1, "nested more than 100 deep")


def judge_refusals(folder):
    many = [node("MelWeightMatrix", ["x"] * 5, ["a"]), node("Det", ["x"], ["u"]), node("Neg", ["u"], ["v"])]
    outputs = [info("a", None), info("v", None)]
    refused(folder, "unsupported", model(many, [info("x", [2, 3])], outputs), 3, '(MelWeightMatrix:a)', '(Det:u)')
    lacking = [*many, node("StringNormalizer", ["x"], ["s"]), node("Relu", ["s"], ["t"])]
    refused(folder, "lacking", model(lacking, [info("x", [2, 3])], [*outputs, info("t", None)]), 3, '(MelWeightMatrix:a)',
            '(Det:u)', "StringNormalizer x1")
    for op, shape in (("Conv", [1 << 62, 1]), ("Conv", [3, 3, 3]), ("ConvTranspose", [5, 3]), ("Conv", [-3, 3])):
        proto = model([node(op, ["x", "w"], ["y"], kernel_shape=shape)], [info("x", [1, 4, 8, 8])], [info("y", None)],
                      {"w": np.ones((4, 4, 3, 3), np.float32)})
        refused(folder, "kernel", proto, 1, "kernel_shape")


def judge_memory(folder):
    """5 MB of nodes with nothing in them."""
    proto = model([node("Relu", ["x"], ["y"])], [info("x", [2])], [info("y", [2])])
    graph = proto.graph.SerializeToString() + b"\x0a\x00" * 2500000
    path = save(folder, "empty", with_graph(proto, graph))
    tool = os.path.join(hyp.BIN, "hypatiac")
    process = subprocess.Popen([tool, path, "--dry-run"], stderr=subprocess.PIPE, text=True)
    text = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    check("empty nodes", process.returncode == 1 and "nothing in them" in text, text)
    if "asan" in os.environ.get("LD_PRELOAD", ""):
        print("empty nodes: memory is not judged, the address sanitizer has more of it than the tool")
        return
    check("empty nodes", usage.ru_maxrss < 300 << 10, f"{usage.ru_maxrss >> 10} MiB")


def judge_pipe(folder):
    """A model from a pipe, with its external data in the working directory."""
    weights = np.arange(3000, dtype=np.float32)
    proto = model([node("Add", ["x", "w"], ["y"])], [info("x", [3000])], [info("y", [3000])], {"w": weights})
    path = os.path.join(folder, "pipe.onnx")
    onnx.save(proto, path, save_as_external_data=True, location="pipe.data", size_threshold=0)
    tool = os.path.join(hyp.BIN, "hypatiac")
    plans = []
    for name in (path, "-", "/dev/stdin"):
        plan = os.path.join(folder, f"pipe{len(plans)}.bin")
        with open(path, "rb") as file:
            done = subprocess.run([tool, name, "-o", plan], input=file.read(), capture_output=True, cwd=folder)
        check(f"model from {name}", done.returncode == 0, done.stderr)
        with open(plan, "rb") as file:
            plans.append(file.read())
    check("model from a pipe", plans[0] == plans[1] == plans[2], "other plans than from the file")
    # The hash is of the weights, too.
    before = hyp.tool("hypatia", "inspect", os.path.join(folder, "pipe0.bin")).stdout
    with open(os.path.join(folder, "pipe.data"), "r+b") as file:
        file.seek(8000)
        file.write(b"\x01")
    hyp.compile_model(path, os.path.join(folder, "pipe0.bin"))
    after = hyp.tool("hypatia", "inspect", os.path.join(folder, "pipe0.bin")).stdout
    lines = [[line for line in text.splitlines() if "hash" in line] for text in (before, after)]
    check("hash of external data", lines[0] and lines[1] and lines[0] != lines[1], lines)


def main():
    with tempfile.TemporaryDirectory() as folder:
        for judge in (judge_negative_zeros, judge_attributes_of_zero, judge_warnings, judge_refusals, judge_memory,
                      judge_pipe):
            judge(folder)
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
