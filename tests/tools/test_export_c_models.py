"""hypatia export-c on whole models: those of tests/models and of the examples, with other sizes of their dims, as C99 that every
compiler which is here takes without a warning: it gives what the plan gives on the reference device, on this processor, as a
program of 32 bits, and on ARM's under qemu; some of them also with 16 bits in memory.

    test_export_c_models.py [NAME]     the models whose names contain NAME"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import exported  # noqa: E402
import hyp  # noqa: E402
import numpy as np  # noqa: E402

onnx = hyp.need("onnx")

RNG = np.random.default_rng(11)
DIMS = {"batch": 2, "sequence": 5, "past": 3, "new": 2}
EVERYWHERE = ("digits", "cnn", "chars", "lstm", "mobilenet-script")
NEAR = {"fp32": exported.TOLERANCE, "fp16": 4e-3, "bf16": 3e-2}  # of the largest number of a result
SHORT = {"mobilenet-script": "bf16", "lstm": "fp16"}
# Compilers for other processors, and what runs their programs.
PROCESSORS = [(("gcc", "-m32"), ()), (("aarch64-linux-gnu-gcc",), ("qemu-aarch64-static",)), (("aarch64-linux-gnu-gcc",), ("qemu-aarch64",))]


def models():
    torch = sorted(glob.glob(os.path.join(hyp.ROOT, "tests/models/torch/*.onnx")))
    tiny = [os.path.join(hyp.ROOT, f"tests/models/tiny_{n}.onnx") for n in ("mlp", "external")]
    examples = [os.path.join(hyp.ROOT, f"examples/{n}/{n}.onnx") for n in ("digits", "cnn", "chars")]
    return [m for m in torch + tiny + examples if not sys.argv[1:] or sys.argv[1] in m]


def feed(path, made):
    """Random inputs; integers stay below what every table has, and of a mask the first word counts."""
    graph = onnx.load(path, load_external_data=False).graph
    known = {i.name for i in graph.initializer}
    feeds = {}
    for name, (dtype, dims) in zip([i.name for i in graph.input if i.name not in known], made.inputs):
        x = RNG.standard_normal(dims) if dtype is np.float32 else RNG.integers(0, 2 if name == "mask" else 5, dims)
        feeds[name] = x.astype(dtype)
        if name == "mask":
            feeds[name][..., 0] = 1
    return feeds


def compile_fixed(path, plan, dims, precision):
    """With those of the dims that the model has."""
    options = [f"--dim={n}={v}" for n, v in dims.items()]
    while True:
        done = hyp.tool("hypatiac", path, "-o", plan, "-q", "--verify", "off", "--precision", precision, *options)
        unknown = [o for o in options if f'no symbolic dim "{o.split("=")[1]}"' in done.stderr]
        if done.returncode == 0 or not unknown:
            assert done.returncode == 0, done.stderr
            return
        options.remove(unknown[0])


def check_processors(made, feeds, wanted, near):
    """The same as a program for other processors, where there are compilers and what runs them."""
    done = []
    for compiler, emulator in PROCESSORS:
        if not shutil.which(compiler[0]) or (emulator and not shutil.which(emulator[0])) or compiler in done:
            continue
        program, built = made.program(compiler)
        if built.returncode and ("cannot find" in built.stderr or "No such file" in built.stderr):
            print(f"    no {' '.join(compiler)}: its libraries are missing")
            continue
        assert built.returncode == 0, built.stderr
        exported.compare(made.run_program([*emulator, program], feeds.values()), wanted, near)
        done.append(compiler)
        print(f"    {' '.join(compiler + emulator)}: the same")


def check_bare(made):
    """Without the headers of an operating system, for controllers."""
    os.makedirs("bare", exist_ok=True)
    with open("bare/math.h", "w") as file:
        file.write("".join(f"float {f}f(float);\n" for f in "exp expm1 fabs log log1p tanh erf sqrt sin cos".split()) + "float powf(float, float);\n"
                   "#define NAN __builtin_nanf(\"\")\n#define INFINITY __builtin_inff()\n")
    for target in ("armv7m-none-eabi", "riscv32"):
        done = subprocess.run(["clang", f"--target={target}", *exported.FLAGS, "-O2", "-ffreestanding", "-nostdlibinc", "-Ibare", "-c", "-o", "bare.o",
                               made.source], capture_output=True, text=True)
        if "unable to create target" in done.stderr or "unknown target" in done.stderr:
            print(f"    clang has no target {target}")
            continue
        assert done.returncode == 0, done.stderr
        print(f"    clang --target={target}: compiled")


def save_lstm():
    """A classifier of sequences: an LSTM, and a layer of its last state."""
    from onnx import TensorProto, helper, numpy_helper
    n, h, classes = 6, 20, 5
    weights = {"w": (1, 4 * h, n), "r": (1, 4 * h, h), "b": (1, 8 * h), "v": (h, classes), "c": (classes,)}
    nodes = [("LSTM", ["x", "w", "r", "b"], ["", "last"], {"hidden_size": h}), ("Squeeze", ["last", "zero"], ["s"], {}),
             ("Gemm", ["s", "v", "c"], ["g"], {}), ("Softmax", ["g"], ["y"], {})]
    tensors = [numpy_helper.from_array(RNG.standard_normal(d).astype(np.float32) * 0.3, k) for k, d in weights.items()]
    graph = helper.make_graph([helper.make_node(op, i, o, **a) for op, i, o, a in nodes], "lstm",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [9, "batch", n])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", classes])],
                              [*tensors, numpy_helper.from_array(np.array([0]), "zero")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "lstm.onnx")
    return os.path.abspath("lstm.onnx")


def check(path, number, weights, precision="fp32"):
    name = f"{os.path.splitext(os.path.basename(path))[0]}_{precision}".replace("-", "_")
    compile_fixed(path, f"{name}.bin", DIMS, precision)
    made = exported.Exported(f"{name}.bin", weights)
    compilers = exported.COMPILERS if number % 4 == 0 or sys.argv[1:] else [exported.COMPILERS[number % len(exported.COMPILERS)]]
    libraries = [made.build(c, "-O1" if c == "gcc" else "-O2") for c in compilers]
    for _ in range(2):
        feeds = feed(path, made)
        wanted = exported.reference(f"{name}.bin", feeds)
        for library in libraries:
            exported.compare(made.call(library, feeds.values()), wanted, NEAR[precision])
    print(f"{name}: {made.work} bytes of work, {len(made.text)} of C, by {', '.join(compilers)}", flush=True)
    return made, feeds, wanted


def main():
    if not exported.COMPILERS:
        hyp.skip("there is neither gcc nor clang")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for number, path in enumerate([*models(), save_lstm()]):
            everywhere = any(n in path for n in EVERYWHERE)
            made, feeds, wanted = check(path, number, weights=number % 2 == 1 and not everywhere)
            if everywhere:
                check_processors(made, feeds, wanted, NEAR["fp32"])
                if shutil.which("clang"):
                    check_bare(made)
            for precision in [p for n, p in SHORT.items() if n in path]:
                check_processors(*check(path, number, weights=False, precision=precision), NEAR[precision])


main()
