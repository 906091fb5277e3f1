"""hypatia export-c: what it writes compiles as C99 without a warning, with every compiler that is here, and computes what the plan
computes on the reference device, on models of random numbers; what there is no C for is named."""
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import hyp  # noqa: E402

onnx, np = hyp.need("onnx", "numpy")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

RNG = np.random.default_rng(11)
DIGITS = os.path.join(hyp.ROOT, "examples/digits/digits.onnx")
COMPILERS = [c for c in ("gcc", "clang") if shutil.which(c)]
FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wshadow", "-Wstrict-prototypes", "-Wmissing-prototypes"]


def run(*command, code=0, says=""):
    done = hyp.tool(*command)
    assert done.returncode == code, f"{command}: exit code {done.returncode}\n{done.stderr}{done.stdout}"
    assert says in done.stderr, f"{command}: {done.stderr}"
    return done.stdout


def save(name, inputs, outputs, nodes, weights=()):
    """inputs and outputs by name with their shapes; nodes as arguments of make_node."""
    def info(shapes):
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]

    made = [helper.make_node(op, i, o, **(rest[0] if rest else {})) for op, i, o, *rest in nodes]
    tensors = [numpy_helper.from_array(np.asarray(w), n) for n, w in dict(weights).items()]
    graph = helper.make_graph(made, name, info(inputs), info(outputs), tensors)
    path = f"{name}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def build(source, compiler, optimize):
    library = os.path.abspath(f"{source}.{compiler}.so")
    subprocess.run([compiler, *FLAGS, optimize, "-ffp-contract=off", "-shared", "-fPIC", "-o", library, source, "-lm"], check=True)
    needed = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
    assert all(lib in ("libm.so.6", "libc.so.6") for lib in
               [line.split("[")[1].split("]")[0] for line in needed.splitlines() if "(NEEDED)" in line]), needed
    return library


def compute(library, source, inputs, outputs):
    """What the function of a file gives, with NaN around outputs and workspace that nothing may write over or depend on."""
    with open(source) as file:
        work = int(file.read().split("_WORK = ")[1].split(" ")[0])
    made = [np.full(int(np.prod(o.shape)) + 8, np.nan, np.float32) for o in outputs]
    space = np.full(work + 8, np.nan, np.float32)
    pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in [*map(np.ascontiguousarray, inputs), *made, space]]
    ctypes.CDLL(library).model(*pointers)
    assert all(np.isnan(m[-8:]).all() for m in made) and np.isnan(space[-8:]).all()
    return [m[:-8].reshape(o.shape) for m, o in zip(made, outputs)]


def check(path, shapes, *options):
    name = os.path.splitext(os.path.basename(path))[0]
    run("hypatiac", path, "-o", f"{name}.bin", "-q", *options)
    run("hypatia", "export-c", f"{name}.bin", "-o", f"{name}.c")
    libraries = [build(f"{name}.c", compiler, "-O3" if compiler == "clang" else "-O0") for compiler in COMPILERS]
    names = [o.name for o in onnx.load(path).graph.output]
    for trial in range(3):
        inputs = {n: normal(*s) * (1, 4, 0.1)[trial] for n, s in shapes.items()}
        command = ["hypatia", "run", f"{name}.bin", "--device", "reference"]
        for n, x in inputs.items():
            np.save(f"{n}.npy", x)
            command += ["--input", f"{n}=@{n}.npy"]
        for n in names:
            command += ["--output", f"{n}=@{n}.out.npy"]
        run(*command)
        wanted = [np.load(f"{n}.out.npy") for n in names]
        for library in libraries:
            for made, want in zip(compute(library, f"{name}.c", inputs.values(), wanted), wanted):
                np.testing.assert_allclose(made, want, rtol=2e-5, atol=2e-5 * max(1, np.abs(want[np.isfinite(want)]).max()))


ACTS = [("Relu",), ("Sigmoid",), ("Tanh",), ("Erf",), ("Softplus",), ("Softsign",), ("Exp",), ("Abs",), ("Neg",), ("Sign",), ("Ceil",),
        ("Floor",), ("Sin",), ("Cos",), ("Atan",), ("Elu", {"alpha": 0.7}), ("LeakyRelu", {"alpha": -0.3}), ("HardSwish",), ("Sqrt",),
        ("Log",), ("Reciprocal",)]


def check_functions():
    """All in one model, and each as what a layer ends in."""
    nodes = [("Abs", ["x"], ["p"]), ("Softplus", ["x"], ["s"]), ("Tanh", ["s"], ["t"]), ("Mul", ["x", "t"], ["Mish"])]
    nodes += [(op, ["p" if op in ("Sqrt", "Log") else "x"], [op], *attrs) for op, *attrs in ACTS]
    names = [op for op, *_ in ACTS] + ["Mish"]
    check(save("functions", {"x": [3, 5]}, {n: [3, 5] for n in names}, nodes), {"x": (3, 5)})
    with open("functions.c") as file:
        assert file.read().count("#define function") > 12
    nodes = [node for i, (op, *attrs) in enumerate(ACTS) for node in (("Gemm", ["x", "w"], [f"g{i}"]), (op, [f"g{i}"], [op], *attrs))
             if op in ("Relu", "Sigmoid", "Tanh", "HardSwish", "Softplus")]
    check(save("layers", {"x": [3, 5]}, {n[2][0]: [3, 5] for n in nodes[1::2]}, nodes, {"w": normal(5, 5)}), {"x": (3, 5)})


def check_operators():
    x = {"x": (4, 6), "z": (4, 6)}
    two = [("Add", "a"), ("Sub", "b"), ("Mul", "c"), ("Div", "d"), ("Min", "e"), ("Max", "f"), ("Pow", "g")]
    nodes = [("Abs", ["z"], ["q"]), *((op, ["q" if op == "Pow" else "x", "z"], [n]) for op, n in two)]
    check(save("binary", {"x": [4, 6], "z": [4, 6]}, {n: [4, 6] for _, n in two}, nodes), x)
    nodes = [("Less", ["x", "z"], ["l"]), ("Where", ["l", "x", "two"], ["w"]), ("Clip", ["w", "low", "high"], ["y"]),
             ("Pow", ["x", "two"], ["p"])]
    check(save("select", {"x": [4, 6], "z": [4, 6]}, {"y": [4, 6], "p": [4, 6]}, nodes,
               {"two": np.float32(2), "low": np.float32(-0.5), "high": np.float32(1.5)}), x)
    check(save("broadcast", {"x": [2, 1, 5], "z": [3, 1]}, {"y": [2, 3, 5]}, [("Mul", ["x", "z"], ["y"])]),
          {"x": (2, 1, 5), "z": (3, 1)})


def check_products():
    w = {"w1": normal(8, 16), "b1": normal(16), "w2": normal(16, 4), "b2": normal(4)}
    layers = [("Gemm", ["x", "w1", "b1"], ["h"]), ("Tanh", ["h"], ["t"]), ("Gemm", ["t", "w2", "b2"], ["y"])]
    for options in ((), ("--no-rewrite",)):
        check(save("mlp", {"x": [5, 8]}, {"y": [5, 4]}, layers, w), {"x": (5, 8)}, *options)
    added = [("MatMul", ["x", "w"], ["p"]), ("Add", ["p", "z"], ["s"]), ("Relu", ["s"], ["y"])]
    check(save("added", {"x": [3, 7], "z": [3, 7]}, {"y": [3, 7]}, added, {"w": normal(7, 7)}), {"x": (3, 7), "z": (3, 7)})
    check(save("after", {"x": [3, 7], "z": [3, 7]}, {"y": [3, 7]}, [added[0], ("Relu", ["p"], ["r"]), ("Add", ["r", "z"], ["y"])],
               {"w": normal(7, 7)}), {"x": (3, 7), "z": (3, 7)})
    check(save("batched", {"x": [2, 3, 4, 5], "z": [3, 5, 6]}, {"y": [2, 3, 4, 6]}, [("MatMul", ["x", "z"], ["y"])]),
          {"x": (2, 3, 4, 5), "z": (3, 5, 6)})
    turned = [("Transpose", ["z"], ["t"], {"perm": [0, 2, 1]}), ("MatMul", ["x", "t"], ["m"]), ("Mul", ["m", "half"], ["y"])]
    check(save("turned", {"x": [3, 4, 5], "z": [3, 6, 5]}, {"y": [3, 4, 6]}, turned, {"half": np.float32(0.5)}),
          {"x": (3, 4, 5), "z": (3, 6, 5)})


def check_movement():
    x = {"x": (4, 6, 5)}
    check(save("softmax", {"x": [4, 6, 5]}, {"y": [4, 6, 5], "z": [4, 6, 5]},
               [("Softmax", ["x"], ["y"], {"axis": 1}), ("Softmax", ["x"], ["z"], {"axis": -1})]), x)
    check(save("reduce", {"x": [4, 6, 5]}, {"y": [4, 5], "z": [1, 6, 1]},
               [("ReduceMean", ["x"], ["y"], {"axes": [1], "keepdims": 0}), ("ReduceSum", ["x", "axes"], ["z"])],
               {"axes": np.array([0, 2])}), x)
    check(save("moved", {"x": [4, 6, 5]}, {"y": [5, 4, 6], "z": [4, 9, 5], "w": [2, 2, 5]},
               [("Transpose", ["x"], ["y"], {"perm": [2, 0, 1]}), ("Slice", ["x", "from", "to", "axes", "steps"], ["s"]),
                ("Concat", ["x", "s"], ["z"], {"axis": 1}), ("Slice", ["x", "f2", "t2", "a2", "s2"], ["w"])],
               {"from": np.array([5]), "to": np.array([-7]), "axes": np.array([1]), "steps": np.array([-2]), "f2": np.array([0, 1]),
                "t2": np.array([4, 6]), "a2": np.array([0, 1]), "s2": np.array([2, 3])}), x)
    weights = normal(2, 5)
    weights[0] = [np.inf, -np.inf, np.nan, -0.0, 1e-42]
    check(save("weights", {"x": [2, 5]}, {"y": [2, 5]}, [("Mul", ["x", "w"], ["m"]), ("Abs", ["m"], ["y"])], {"w": weights}),
          {"x": (2, 5)})


def refused(path, *options, says):
    run("hypatiac", path, "-o", "refused.bin", "-q", *options)
    run("hypatia", "export-c", "refused.bin", "-o", "refused.c", code=3, says=says)
    assert not os.path.exists("refused.c")


def check_refusals():
    refused(DIGITS, says="the size 'batch' is not fixed: compile the model with --dim batch=N")
    refused(DIGITS, "--dim", "batch=1", "--train", "cross-entropy", says="there is no C for steps of a training")
    refused(DIGITS, "--dim", "batch=1", "--precision", "bf16", says="of bf16")
    conv = save("conv", {"x": [1, 2, 8, 8]}, {"y": [1, 3, 6, 6]}, [("Conv", ["x", "w"], ["y"])], {"w": normal(3, 2, 3, 3)})
    refused(conv, says="there is no C for step 0, conv; wanted steps of f32")
    run("hypatiac", DIGITS, "-o", "digits.bin", "-q", "--dim", "batch=1")
    run("hypatia", "export-c", "digits.bin", "-o", "d.c", "--name", "1x", code=2, says="'1x' is no name of a function in C")
    run("hypatia", "export-c", "digits.bin", "-o", "digits.bin", code=2, says="would be lost")
    run("hypatia", "export-c", "digits.bin", code=2, says="no output was given")
    run("hypatia", "export-c", DIGITS, "-o", "d.c", code=1, says="not a plan")
    run("hypatia", "export-c", "digits.bin", "-o", "a.c", "--name", "digits")
    run("hypatia", "export-c", "digits.bin", "-o", "b.c", "--name", "digits")
    with open("a.c") as a, open("b.c") as b:
        text = a.read()
        assert text == b.read() and "void digits(const float *in" in text and "DIGITS" not in text


def check_names():
    """Names of the model are in comments, which they cannot end."""
    path = save("names", {"x*/int y;/*": [2, 2]}, {"y\\\n#error */": [2, 2]}, [("Relu", ["x*/int y;/*"], ["y\\\n#error */"])])
    model = onnx.load(path)
    model.graph.name = "*/ #error"
    onnx.save(model, path)
    run("hypatiac", path, "-o", "names.bin", "-q")
    run("hypatia", "export-c", "names.bin", "-o", "names.c")
    x = normal(2, 2)
    assert (compute(build("names.c", COMPILERS[0], "-O2"), "names.c", [x], [x])[0] == np.maximum(x, 0)).all()


def check_processors():
    """Compilers for others take it as well: of 32 bits, and ARM's."""
    for compiler, *options in (("gcc", "-m32"), ("clang", "--target=armv7m-none-eabi"), ("clang", "--target=aarch64-linux-gnu"),
                               ("clang", "--target=riscv32"), ("aarch64-linux-gnu-gcc",)):
        if not shutil.which(compiler):
            continue
        # A <math.h> of its own: there may be none for these.
        os.makedirs("bare", exist_ok=True)
        with open("bare/math.h", "w") as file:
            file.write("float expf(float); float fabsf(float); float log1pf(float); float expm1f(float);\n#define isnan(x) ((x) != (x))\n")
        done = subprocess.run([compiler, *options, *FLAGS, "-O2", "-ffreestanding", "-Ibare", "-c", "-o", "x.o", "digits.c"],
                              capture_output=True, text=True)
        unknown = "unable to create target" in done.stderr or "unrecognized command" in done.stderr
        assert done.returncode == 0 or unknown, done.stderr
        print("compiled by", compiler, *options) if not unknown else print("no target:", compiler, *options)


def main():
    if not COMPILERS:
        hyp.skip("there is neither gcc nor clang")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        shutil.copy(DIGITS, "digits.onnx")
        check("digits.onnx", {"image": (2, 64)}, "--dim", "batch=2")
        check_functions()
        check_operators()
        check_products()
        check_movement()
        check_names()
        check_processors()
        check_refusals()
    print("C as the plans")


main()
