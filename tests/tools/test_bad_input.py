"""Bad input gets a message that names the file and the place, and an exit code; never a crash."""
import os
import struct
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../support"), os.path.join(HERE, "../models")]
import hyp  # noqa: E402

onnx, np = hyp.need("onnx", "numpy")
from make_models import Graph, F32  # noqa: E402

OK, FAILED, USAGE, UNSUPPORTED, MISMATCH, INCOMPATIBLE = range(6)
DIGITS = os.path.join(hyp.ROOT, "examples/digits/digits.onnx")
failures = []


def expect(codes, command, *words):
    """Runs a tool; it must exit with one of `codes` and say all words on stderr. Returns what it said."""
    done = hyp.tool(*command)
    what = " ".join(map(str, command))
    codes = codes if isinstance(codes, tuple) else (codes,)
    if done.returncode not in codes:
        failures.append(f"{what}: exit code {done.returncode}, wanted {codes}\n    {done.stderr.strip()[-300:]}")
    for word in words:
        if word not in done.stderr:
            failures.append(f"{what}: does not say '{word}'\n    {done.stderr.strip()[-300:]}")
    return done


def write(folder, name, data):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(data)
    return path


def save(folder, name, graph_or_model):
    model = graph_or_model.model() if isinstance(graph_or_model, Graph) else graph_or_model
    return write(folder, name, model.SerializeToString())


def mlp(seed=0):
    g = Graph(13, seed)
    g.rng = np.random.default_rng(seed)
    h = g.op("Relu", g.op("Gemm", g.inp("x", ["batch", 4]), g.weight(8, 4), g.weight(8), transB=1))
    g.out(g.op("MatMul", h, g.weight(8, 3)), "y", F32)
    return g


def files_that_are_no_models(folder):
    out = os.path.join(folder, "out.bin")
    png = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0"
    rng = np.random.default_rng(0)
    for name, data in {"empty.onnx": b"", "picture.onnx": png, "text.onnx": b"hello\n" * 100}.items():
        expect(FAILED, ["hypatiac", write(folder, name, data), "-o", out], name)
    for i in range(20):
        expect(FAILED, ["hypatiac", write(folder, "random.onnx", rng.bytes(1 + i * 37)), "-o", out], "random.onnx")
    expect(FAILED, ["hypatiac", os.path.join(folder, "absent.onnx"), "-o", out], "absent.onnx", "No such file")
    expect(FAILED, ["hypatiac", folder, "-o", out], folder)
    whole = open(DIGITS, "rb").read()
    for cut in [1, 7, 40, 100, 1000, len(whole) // 2, len(whole) - 1000, len(whole) - 1]:
        expect(FAILED, ["hypatiac", write(folder, "cut.onnx", whole[:cut]), "-o", out], "cut.onnx")
    if os.path.exists(out):
        failures.append("a failed compilation left a plan behind")


def models_that_are_wrong(folder):
    out = os.path.join(folder, "out.bin")

    def compile_it(codes, name, model, *words):
        expect(codes, ["hypatiac", save(folder, name, model), "-o", out], name, *words)

    model = mlp().model()
    model.graph.node[0].input[0] = model.graph.node[1].output[0]
    compile_it(FAILED, "cycle.onnx", model)
    model = mlp().model()
    model.graph.node[1].output[0] = model.graph.node[0].output[0]
    compile_it(FAILED, "duplicate.onnx", model, model.graph.node[0].output[0])
    model = mlp().model()
    model.graph.node[0].input[0] = "nowhere"
    compile_it(FAILED, "missing.onnx", model, "nowhere")
    model = mlp().model()
    del model.graph.initializer[0].dims[:]
    model.graph.initializer[0].dims.extend([2, 4, 4])
    compile_it(FAILED, "rank.onnx", model)
    model = mlp().model()
    model.graph.initializer[0].dims[0] = 1 << 60
    compile_it(FAILED, "huge-dims.onnx", model)

    g = Graph(13, 1)
    x = g.inp("x", [1, 2, 8, 8])
    for _ in range(3):
        x = g.op("Det", x)
    g.out(g.op("GlobalFish", x), "y", F32)
    compile_it(UNSUPPORTED, "unsupported.onnx", g, "Det", "3", "GlobalFish")

    for name, location, word in [("absent.onnx", "not-there.bin", "not-there.bin"), ("escape.onnx", "../secret.bin", "secret"),
                                 ("absolute.onnx", "/etc/passwd", "passwd")]:
        model = mlp().model()
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)
        compile_it(FAILED, "external-" + name, model, word)


def command_lines(folder):
    out = os.path.join(folder, "out.bin")
    expect(USAGE, ["hypatiac"], "no model")
    expect(USAGE, ["hypatiac", DIGITS], "-o")
    expect(USAGE, ["hypatiac", DIGITS, "-o", out, "--precison", "fp32"], "precison", "--precision")
    expect(USAGE, ["hypatiac", DIGITS, "-o", out, "--precision", "fp31"], "fp31", "fp32")
    expect(USAGE, ["hypatiac", DIGITS, "-o", out, "--target=tpu"], "tpu", "cuda")
    expect(USAGE, ["hypatiac", DIGITS, "-o", out, "--dim", "batch"], "batch=32")
    expect(USAGE, ["hypatiac", DIGITS, "-o", out, "--dim", "bacth=3"], "bacth")
    expect(USAGE, ["hypatiac", DIGITS, "-o", out, "--shapes", "image:3by4"], "x:32x784")
    expect(USAGE, ["hypatiac", DIGITS, "-o", out, "--shapes", "imag:3x64"], "imag", "image")
    expect(USAGE, ["hypatiac", DIGITS, "-o", out, "--disable-rule", "no-such-rule"], "no-such-rule")
    expect(USAGE, ["hypatiac", DIGITS, "-o", out, "--dump-ir", "middle"], "middle", "import")
    expect(USAGE, ["hypatiac", DIGITS, "--emit-onnx", out, "--emit-onnx-domain", "com.other"], "com.other", "com.microsoft")
    expect(USAGE, ["hypatiac", DIGITS, "--emit-onnx", out, "--emit-onnx-inline", "some"], "some", "512K")
    expect(USAGE, ["hypatiac", DIGITS, "--emit-onnx", out, "--train", "mse"], "training step", "hypatia export")
    expect(FAILED, ["hypatiac", DIGITS, "-o", out, "--rules", os.path.join(folder, "none.rules")], "none.rules")
    rules = write(folder, "bad.rules", b"(rule broken (relu ?x) => (relu ?y))\n")
    expect((FAILED, USAGE), ["hypatiac", DIGITS, "-o", out, "--rules", rules], "bad.rules", "?y")
    expect(FAILED, ["hypatiac", DIGITS, "-o", os.path.join(folder, "no", "such", "folder.bin")], "folder.bin")
    expect(USAGE, ["hypatia"])
    expect(USAGE, ["hypatia", "rum"], "rum", "run")
    expect(USAGE, ["hypatia", "run"], "no plan")
    expect(USAGE, ["hypatia", "bench", "plan", "--warmup"], "warmup")


def plans(folder):
    plan = os.path.join(folder, "plan.bin")
    model = save(folder, "mlp.onnx", mlp())
    expect(OK, ["hypatiac", model, "-o", plan, "-q"])
    whole = open(plan, "rb").read()

    # Cut at every offset, in this process: a crash would end the test.
    for cut in range(len(whole)):
        path = write(folder, "cut.bin", whole[:cut])
        try:
            hyp.Engine(path).close()
            failures.append(f"a plan cut at {cut} of {len(whole)} bytes was loaded")
        except hyp.Error as error:
            if "cut.bin" not in str(error):
                failures.append(f"a plan cut at {cut}: the message does not name the file: {error}")
    expect(FAILED, ["hypatia", "run", write(folder, "cut.bin", whole[:100])], "cut.bin")
    expect(FAILED, ["hypatia", "inspect", DIGITS], "digits.onnx")
    expect(FAILED, ["hypatia", "run", os.path.join(folder, "absent.bin")], "absent.bin")
    newer = write(folder, "newer.bin", whole[:8] + struct.pack("<I", 99) + whole[12:])
    for command in ("run", "bench", "inspect"):
        expect(INCOMPATIBLE, ["hypatia", command, newer], "newer.bin", "99", "hypatiac")

    def run(*args):
        return ["hypatia", "run", plan, "--device", "cpu", *args]

    def npy(name, array):
        path = os.path.join(folder, name)
        np.save(path, array)
        return "x=@" + path

    expect(OK, run("--input", npy("x.npy", np.zeros((2, 4), np.float32))))
    expect(USAGE, run(), "x", "--input")
    expect(USAGE, run("--input", "z=zeros"), "z", "no such input", "x f32[batch 4]")
    expect(USAGE, run("--input", "x=ones"), "ones")
    expect(USAGE, run("--input", npy("x64.npy", np.zeros((2, 4)))), "x64.npy", "f64", "f32")
    expect(USAGE, run("--input", npy("wide.npy", np.zeros((2, 5), np.float32))), "wide.npy", "5", "4")
    expect(USAGE, run("--input", npy("rank.npy", np.zeros(4, np.float32))), "rank.npy", "rank")
    expect(FAILED, run("--input", "x=@" + write(folder, "bad.npy", b"\x93NUMPY\1\0")), "bad.npy")
    expect(FAILED, run("--input", "x=@" + os.path.join(folder, "absent.npy")), "absent.npy")
    expect((FAILED, USAGE), run("--input", "x=@" + write(folder, "x.bin", b"123")), "x.bin")
    expect(USAGE, run("--input", "x=zeros", "--output", "q=@q.npy"), "q", "y")
    expect(USAGE, run("--input", "x=zeros", "--device", "tpu"), "tpu")
    expect(USAGE, ["hypatia", "verify", plan, "--dim", "batch=3"], "--model")
    other = save(folder, "other.onnx", mlp(seed=99))
    done = expect(MISMATCH, ["hypatia", "verify", plan, "--model", other, "--dim", "batch=3", "--device", "cpu",
                             "--any-model"])
    if not done.stdout.strip().endswith("FAILED"):
        failures.append("verify of another model does not end with FAILED")


def main():
    with tempfile.TemporaryDirectory() as folder:
        for part in (files_that_are_no_models, models_that_are_wrong, command_lines, plans):
            part(folder)
    for failure in failures:
        print("FAILED", failure)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
