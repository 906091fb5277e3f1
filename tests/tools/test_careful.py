"""What the tools must not do: overwrite what they read, take a slip for an answer, leave files behind, lose output without
a word, or hand a model's control characters to the terminal."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../support"))
import hyp  # noqa: E402

onnx, np = hyp.need("onnx", "numpy")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

EXAMPLE = os.path.join(hyp.ROOT, "examples/digits")
MODEL = os.path.join(EXAMPLE, "digits.onnx")
USAGE, FAILED = 2, 1


def run(*command, code=0, env=None):
    done = hyp.tool(*command, env=env)
    assert done.returncode == code, f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}{done.stdout}"
    return done


def content(path):
    with open(path, "rb") as file:
        return file.read()


def product(k, n):
    """A MatMul by a constant."""
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", k])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", n])],
                              [numpy_helper.from_array(np.ones((k, n), np.float32), "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def refused(*command, keeps):
    """The command is refused, and the file is as it was."""
    before = content(keeps)
    done = run(*command, code=USAGE)
    assert "the same file" in done.stderr or "would overwrite" in done.stderr, done.stderr
    assert content(keeps) == before, f"{command} changed {keeps}"


def check_overwriting(folder):
    def at(name, data):
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    model, plan = at("m.onnx", content(MODEL)), os.path.join(folder, "p.bin")
    run("hypatiac", model, "-o", plan, "-q")
    refused("hypatiac", model, "-o", model, keeps=model)
    link, hard = os.path.join(folder, "link.bin"), os.path.join(folder, "hard.bin")
    os.symlink(model, link)
    os.link(model, hard)
    refused("hypatiac", model, "-o", link, keeps=model)
    refused("hypatiac", model, "-o", hard, keeps=model)
    refused("hypatiac", model, "-o", plan, "--dump-rewrites", model, keeps=model)
    refused("hypatiac", model, "--emit-onnx", model, keeps=model)
    refused("hypatiac", model, "-o", plan, "--emit-onnx", plan, keeps=plan)
    beside = onnx.load(MODEL)
    emitted = os.path.join(folder, "emitted.onnx")
    onnx.save_model(beside, os.path.join(folder, "beside.onnx"), save_as_external_data=True, location="emitted.onnx.data",
                    size_threshold=0)
    refused("hypatiac", os.path.join(folder, "beside.onnx"), "--emit-onnx", emitted, keeps=emitted + ".data")
    rules = at("my.rules", b"")
    refused("hypatiac", model, "-o", rules, "--rules", rules, keeps=rules)
    profile = at("my.profile", content(os.path.join(hyp.ROOT, "profiles/cpu.profile")))
    refused("hypatiac", model, "-o", profile, "--profile", profile, keeps=profile)
    images = os.path.join(folder, "x.npy")
    np.save(images, np.load(os.path.join(EXAMPLE, "images.npy"))[:2])
    refused("hypatiac", model, "-o", images, "--bind", f"image=@{images}", keeps=images)
    refused("hypatiac", model, "-o", images, "--precision", "fp8", "--samples", f"image=@{images}", keeps=images)
    data = os.path.join(folder, "sets/test_data_set_0")
    os.makedirs(data)
    sample = os.path.join(data, "input_0.pb")
    with open(sample, "wb") as file:
        file.write(numpy_helper.from_array(np.load(images), "image").SerializeToString())
    refused("hypatiac", model, "-o", sample, "--precision", "fp8", "--samples", os.path.dirname(data), keeps=sample)
    refused("hypatiac", model, "-o", plan, "--target", "cuda", "--tune", "--cache", plan, keeps=plan)
    refused("hypatia", "run", plan, "--input", f"image=@{images}", "--output", f"probabilities=@{images}", keeps=images)
    refused("hypatia", "run", plan, "--input", f"image=@{images}", "--output", f"probabilities=@{plan}", keeps=plan)
    refused("hypatia", "bench", plan, "--json", plan, keeps=plan)
    refused("hypatia", "tune", plan, "--cache", plan, keeps=plan)
    refused("hypatia-egraph", "saturate", "--rules", rules, "--terms", model, "--dump-json", rules, keeps=rules)

    # External data is known only when the model is read.
    outside = os.path.join(folder, "outside.onnx")
    onnx.save(product(64, 64), outside, save_as_external_data=True, location="weights.bin", size_threshold=0)
    weights = os.path.join(folder, "weights.bin")
    refused("hypatiac", outside, "-o", weights, keeps=weights)
    run("hypatiac", outside, "-o", os.path.join(folder, "out.bin"), "-q")
    mode = os.path.join(folder, "mode.bin")
    run("hypatiac", model, "-o", mode, "-q")
    os.chmod(mode, 0o600)
    run("hypatiac", model, "-o", mode, "-q")  # a plan that is there is replaced, and stays as private
    assert os.stat(mode).st_mode & 0o777 == 0o600
    run("hypatiac", model, "-o", os.path.join(folder, "n" * 250), "-q")


def check_slips(folder, plan):
    for command in (("bench", plan, "--duration", "0"), ("run", plan, "--input", "image=zeros"),
                    ("verify", plan, "--model", MODEL), ("inspect", plan)):
        done = run("hypatia", *command, "--dim", "bach=64", code=USAGE)
        assert "bach" in done.stderr and "batch" in done.stderr, done.stderr
    assert '"batch"?' in run("hypatiac", MODEL, "--dry-run", "--dim", "bach=64", code=USAGE).stderr
    other = os.path.join(folder, "other.onnx")
    model = onnx.load(MODEL)
    model.producer_name += "!"
    onnx.save(model, other)
    done = run("hypatia", "verify", plan, "--model", other, code=USAGE)
    assert "was not compiled from" in done.stderr and "--any-model" in done.stderr, done.stderr
    assert run("hypatia", "verify", plan, "--model", other, "--any-model").stdout.endswith("PASSED\n")


def check_lost_output(plan):
    commands = (["hypatia", "run", plan, "--input", "image=zeros", "--output", "-"], ["hypatia", "inspect", plan],
                ["hypatia", "inspect", plan, "--json"], ["hypatia", "--help"], ["hypatia", "bench", plan, "--duration", "0"],
                ["hypatia", "run", "--help"], ["hypatia", "verify", plan, "--model", MODEL], ["hypatiac", "--list-rules"],
                ["hypatiac", "--list-rules", "--json"], ["hypatiac", "--help"], ["hypatiac", "--version"],
                ["hypatiac", MODEL, "--dry-run"], ["hypatiac", MODEL, "-o", "-"],
                ["hypatiac", MODEL, "--dry-run", "--dump-rewrites", "-"], ["hypatia-egraph", "--help"])
    for command in commands:
        tool = [os.path.join(hyp.BIN, command[0]), *command[1:]]
        with open("/dev/full", "w") as full:
            done = subprocess.run(tool, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
        assert done.returncode == FAILED and "cannot write" in done.stderr, (command, done.returncode, done.stderr)
        done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *tool], stderr=subprocess.PIPE, text=True, timeout=120)
        assert done.returncode == FAILED and "cannot write" in done.stderr, (command, done.returncode, done.stderr)


def check_interrupting(folder, plan):
    """A process that is killed while it writes leaves nothing; bench says what it has."""
    empty = os.path.join(folder, "empty")
    os.mkdir(empty)
    large = os.path.join(folder, "large.onnx")
    onnx.save(product(4096, 8192), large)
    caught = 0
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        out = os.path.join(empty, "w.bin")
        process = subprocess.Popen([os.path.join(hyp.BIN, "hypatiac"), large, "-o", out, "-q", "--no-rewrite"])
        descriptors, end = f"/proc/{process.pid}/fd", time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end:
            try:  # the file that is written, with or without a name
                if any(os.readlink(f"{descriptors}/{fd}").startswith(empty + "/") for fd in os.listdir(descriptors)):
                    process.send_signal(number)
                    break
            except OSError:
                pass
        process.wait(60)
        caught += process.returncode != 0
        left = os.listdir(empty)
        assert left == ([] if process.returncode else ["w.bin"]), (number, left)
        for name in left:
            os.unlink(os.path.join(empty, name))
    assert caught, "every compilation was done before it could be interrupted"

    process = subprocess.Popen([os.path.join(hyp.BIN, "hypatia"), "bench", plan, "--duration", "100", "--device", "cpu",
                                "--warmup", "0", "--threads", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "p50" in out and "interrupted" in err, (process.returncode, out, err)


def check_names(folder):
    """Names with control characters: in what is printed for people they are shown by their numbers."""
    evil = "\x1b[31mred\nPASSED\r\x07\u009b2J"
    node = helper.make_node("Relu", [evil + "x"], [evil + "y"], name=evil + "node")
    graph = helper.make_graph([node], evil + "graph", [helper.make_tensor_value_info(evil + "x", TensorProto.FLOAT, [evil + "n", 4])],
                              [helper.make_tensor_value_info(evil + "y", TensorProto.FLOAT, None)])
    path, plan = os.path.join(folder, "evil.onnx"), os.path.join(folder, "evil.bin")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name=evil)
    onnx.save(model, path)

    def shown(done, *words):
        for text in (done.stdout, done.stderr):
            assert not any(c in text for c in "\x1b\r\x07\u009b"), (done.args, text)
            assert "\nPASSED\r" not in text and "\nPASSEDx" not in text and "\nPASSED\\" not in text, (done.args, text)
        assert all(word in done.stdout + done.stderr for word in words), (done.args, done.stdout, done.stderr)

    shown(run("hypatiac", path, "-o", plan), "\\x1b[31mred\\x0aPASSED\\x0d")
    shown(run("hypatiac", path, "-o", plan, "--stats", "-v"))
    shown(run("hypatiac", path, "--explain", evil + "node"))
    shown(run("hypatiac", path, "--why-not", "fuse-mlp"))
    shown(run("hypatiac", path, "--dry-run", "-q", "--dump-ir", "import"))
    shown(run("hypatiac", path, "--dry-run", "--dim", "red=3", code=USAGE))
    shown(run("hypatia", "inspect", plan), "\\x1b[31mred\\x0aPASSED")
    shown(run("hypatia", "run", plan, code=USAGE), "\\x1b[31mred")
    shown(run("hypatia", "run", plan, "--input", evil + "x=random:1", "-v"), "\\x1b[31mred")
    shown(run("hypatia", "bench", plan, "--duration", "0", "--steps", "--device", "cpu"), "\\x1b[31mred")
    shown(run("hypatia", "verify", plan, "--model", path), "\\x1b[31mred")
    described = json.loads(run("hypatia", "inspect", plan, "--json").stdout)
    assert described["inputs"][0]["name"] == evil + "x", described["inputs"]
    node.op_type = evil + "Op"
    graph = helper.make_graph([node], "g", graph.input, graph.output)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    shown(run("hypatiac", path, "-o", plan, code=3), "\\x1b[31mred")


def main():
    with tempfile.TemporaryDirectory() as folder:
        plan = os.path.join(folder, "digits.bin")
        run("hypatiac", MODEL, "-o", plan, "-q")
        check_overwriting(folder)
        check_slips(folder, plan)
        check_lost_output(plan)
        check_interrupting(folder, plan)
        check_names(folder)
    print("passed")


if __name__ == "__main__":
    main()
