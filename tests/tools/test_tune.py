"""Tuning as its users call it, on the emulated GPU (tests/runtime/cuda/emulator.cpp) and on the CPU: the timing cache, and plans
that travel."""
import fcntl
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../support"), os.path.join(HERE, "../models")]
import hyp  # noqa: E402

onnx, np = hyp.need("onnx", "numpy")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


def run(*command, code=0, env=None):
    done = hyp.tool(*command, env=env)
    assert done.returncode == code, f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}{done.stdout}"
    return done.stdout, done.stderr


def write_model(path):
    """y = relu(x w + b) in double precision, which no kernel of our own takes from the library."""
    w, b = np.arange(12.0).reshape(4, 3) - 5, np.arange(3.0)
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["h"]), helper.make_node("Relu", ["h"], ["y"])], "m",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.DOUBLE, ["batch", 3])],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def counts(out):
    """{"products": 1, "known": 0, ...} of the last line of a table."""
    return {name: int(number) for name, number in (part.split(": ") for part in out.splitlines()[-1].split(", "))}


def check_cache(plan, tuned, cache):
    out, progress = run("hypatia", "tune", plan, "--dim", "batch=6", "--cache", cache, "-o", tuned)
    assert counts(out)["timed"] == 1 and counts(out)["known"] == 0, out
    assert progress == "", "progress is for terminals alone: " + progress
    lines = open(cache).read().splitlines()
    line = json.loads(lines[0])
    assert len(lines) == 1 and line["device"].startswith("emulator, sm_90") and " 3x6x4 " in line["product"], lines
    assert len(line["algorithm"]) == 128 and line["seconds"] < 0.98 * line["first_seconds"], line
    first = open(tuned, "rb").read()
    assert first != open(plan, "rb").read()
    assert "tuned     on emulator" in run("hypatia", "inspect", tuned)[0]

    os.unlink(tuned)
    out, _ = run("hypatia", "tune", plan, "--dim", "batch=6", "--cache", cache, "-o", tuned)
    assert counts(out)["timed"] == 0 and counts(out)["known"] == 1, out
    assert open(tuned, "rb").read() == first, "the cache gives another plan than measuring gave"
    assert open(cache).read().splitlines() == lines, "a known product was added again"

    # Another size is measured, and joins what is there.
    out, _ = run("hypatia", "tune", tuned, "--dim", "batch=7", "--cache", cache)
    assert counts(out)["timed"] == 1 and len(open(cache).read().splitlines()) == 2, out
    tuned_to = json.loads(run("hypatia", "inspect", tuned, "--json")[0])["device"]
    assert len(tuned_to["products"]) == 2, tuned_to


def check_sizes(plan, tuned):
    """Several sizes at once, and sizes in between."""
    def steps(batch):
        out = run("hypatia", "bench", tuned, "--device", "cuda", "--dim", f"batch={batch}", "--steps", "--duration", "0",
                  "--warmup", "0", "--iterations", "1", "--json", "-")[0]
        return [step["tuned"] for step in json.loads(out)["steps"]]
    out, _ = run("hypatia", "tune", plan, "--dim", "batch=8,16", "--dim", "batch=6", "-o", tuned)
    assert counts(out)["timed"] == 3 and counts(out)["products"] == 3, out
    assert [line.split(":")[0] for line in out.splitlines()[:6:2]] == ["batch=8", "batch=16", "batch=6"], out
    assert steps(8) == ["exact"] and steps(7) == ["borrowed"] and steps(9) == ["borrowed"] and steps(17) == ["-"]
    log = run("hypatia", "run", tuned, "--device", "cuda", "--dim", "batch=12", "-i", "x=zeros", "-v")[1]
    assert "0 as tuned, 1 as tuned for a larger size, 0 not tuned" in log, log
    assert "run as the next larger one" in run("hypatia", "inspect", tuned)[0]
    assert "is not of the form batch=32" in run("hypatia", "tune", plan, "--dim", "8,16", "-o", tuned, code=2)[1]


def check_progress(plan, tuned):
    """One line that is written over, on a terminal."""
    terminal, end = os.openpty()
    subprocess.run([os.path.join(hyp.BIN, "hypatia"), "tune", plan, "--dim", "batch=9", "-o", tuned],
                   stdout=subprocess.DEVNULL, stderr=end, check=True, env=os.environ | {"HYPATIA_PROGRESS": "0", "TERM": "xterm"})
    shown = os.read(terminal, 1 << 16).decode()
    os.close(end)
    os.close(terminal)
    assert "\rhypatia tune: product 1 of 1: f64" in shown.replace("\033[K", "") and "\n" not in shown, shown


def check_broken_lines(plan, tuned, cache):
    good = open(cache).read().splitlines()[0]

    def changed(**fields):
        return json.dumps({**json.loads(good), **fields})

    lines = ["", "{", "[]", changed(algorithm="0g"), changed(algorithm="abc"), changed(algorithm=""),
             changed(epilogue=-1), changed(epilogue="1"), changed(seconds=-1.0), changed(product=""),
             '{"device": "emulator"}', good[:50]]
    with open(cache, "w") as file:
        file.write("\n".join(lines))  # and no end of the last line
    out, told = run("hypatia", "tune", plan, "--dim", "batch=6", "--cache", cache, "-o", tuned, "-q")
    assert out == "" and len(told.splitlines()) == len(lines), told
    for number in range(1, len(lines) + 1):
        assert f"{cache}:{number}: the line is left out: " in told, (number, told)
    after = open(cache).read().splitlines()
    assert after[:-1] == lines and json.loads(after[-1])["product"] == json.loads(good)["product"], after


def check_locked(plan, tuned, cache):
    """Who waits for another that writes to the cache says so, and goes on when that has ended."""
    with open(cache) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = subprocess.Popen([os.path.join(hyp.BIN, "hypatia"), "tune", plan, "--dim", "batch=6", "--cache", cache, "-o", tuned, "-q"],
                                   stderr=subprocess.PIPE, text=True)
        told = waiting.stderr.readline()
    assert "another process is writing to it" in told, told
    assert waiting.communicate()[1] == "" and waiting.returncode == 0, waiting.returncode


def check_pipe(plan, folder):
    """A cache that is a pipe is refused at once: nobody may ever write to it."""
    pipe = os.path.join(folder, "pipe")
    os.mkfifo(pipe)
    told = run("hypatia", "tune", plan, "--dim", "batch=6", "--cache", pipe, code=1)[1]
    assert f"{pipe}: is a pipe; a cache is a file" in told, told


def check_other_devices(plan, tuned, cache):
    good = json.loads(open(cache).read().splitlines()[-1])
    with open(cache, "w") as file:
        file.write(json.dumps({**good, "device": "another GPU"}) + "\n")
    out, told = run("hypatia", "tune", plan, "--dim", "batch=6", "--cache", cache, "-o", tuned)
    assert counts(out)["timed"] == 1 and "1 lines are for other devices" in told, out + told
    assert len(open(cache).read().splitlines()) == 2


def check_running(folder, plan, tuned):
    """A tuned plan computes the same, also where nothing knows of tuning."""
    x = os.path.join(folder, "x.npy")
    np.save(x, np.arange(24.0).reshape(6, 4))
    for device in ("cuda", "cpu", "reference"):
        wanted = run("hypatia", "run", plan, "--device", device, "-i", f"x=@{x}", "--output", "-")[0]
        assert run("hypatia", "run", tuned, "--device", device, "-i", f"x=@{x}", "--output", "-")[0] == wanted, device


def check_steps(plan, tuned):
    """What a step takes is the device's time, by the algorithm that a run takes, and stands beside the prediction."""
    def step(of):
        out = run("hypatia", "bench", of, "--device", "cuda", "--dim", "batch=9", "--steps", "--duration", "0", "--warmup",
                  "0", "--iterations", "1", "--json", "-")[0]
        steps = json.loads(out)["steps"]
        assert len(steps) == 1 and steps[0]["label"] == "fused-linear-relu", steps
        return steps[0]
    assert 0 < step(tuned)["measured_us"] < step(plan)["measured_us"], (step(tuned), step(plan))
    assert step(plan)["predicted_us"] > 0


def check_compiling(folder, model, cache):
    plan = os.path.join(folder, "compiled.bin")
    out, _ = run("hypatiac", model, "--target", "cuda", "--typical", "batch=6", "-o", plan, "--tune", "--cache", cache)
    assert counts(out)["known"] == 1 and "fused-linear" in out, out
    assert "tuned     on emulator" in run("hypatia", "inspect", plan)[0]
    out, _ = run("hypatiac", model, "--target", "cuda", "-o", plan, "--tune", "--tune-dim", "batch=6,24", "--cache", cache)
    assert counts(out) == {"products": 2, "known": 1, "timed": 1, "changed": 1} and "batch=24: " in out, out
    for timed in (["--timed", "--seconds", "0.05"], []):  # what was timed there is not timed again
        out, _ = run("hypatiac", model, "--target", "cuda", "-o", plan, *timed, "--cache", cache)
        assert ("timed with x f64[32 4] on cuda (emulator" in out) == bool(timed), out
    assert "the form that was the fastest before: " in out and " 0.00 s of timing" in out, out
    assert "--tune-dim is for --tune" in run("hypatiac", model, "-o", plan, "--tune-dim", "batch=6", code=2)[1]
    for wrong in (["-o", "-"], ["--target", "cuda", "-o", "-"], ["--target", "cuda", "--dry-run"]):
        assert "--tune needs" in run("hypatiac", model, "--tune", *wrong, code=2)[1]


def check_without_gpu(folder, model, plan, cache):
    before = open(plan, "rb").read()
    none = {"HYPATIA_EMULATOR": "none"}
    assert "no NVIDIA GPU" in run("hypatia", "tune", plan, code=1, env=none)[1]
    assert "nothing to tune on reference" in run("hypatia", "tune", plan, "--device", "reference", code=3)[1]
    made = os.path.join(folder, "untuned.bin")
    assert "without tuning" in run("hypatiac", model, "--target", "cuda", "-o", made, "--tune", code=1, env=none)[1]
    run("hypatiac", model, "--target", "cuda", "-o", made)
    predicted = open(made, "rb").read()
    told = run("hypatiac", model, "--target", "cuda", "-o", made, "--cache", cache, env=none)[1]
    assert f"{cache}: not used" in told and open(made, "rb").read() == predicted, told
    assert "without it a plan is made for any" in run("hypatiac", model, "--target", "cuda", "-o", made, "--timed", code=1, env=none)[1]
    assert open(plan, "rb").read() == before
    run("hypatia", "run", made, "-i", "x=random:1")
    assert "no NVIDIA GPU" in run("hypatiac", model, "--target", "cuda:native", "-o", made, code=2, env=none)[1]


def check_native_target(model, plan):
    """--target cuda:native is the machine that the GPU here is."""
    def compiled(target, name, code=0):
        told = run("hypatiac", model, "--target", target, "-o", plan, "-q", code=code, env={"HYPATIA_EMULATOR_NAME": name})[1]
        return told if code else open(plan, "rb").read()
    h100, h200 = compiled("cuda:h100", "none"), compiled("cuda:h200", "none")
    assert h100 != h200
    assert compiled("cuda:native", "NVIDIA H100 80GB HBM3") == h100 and compiled("cuda:native", "NVIDIA H200") == h200
    assert "no costs of 'cuda (NVIDIA L4" in compiled("cuda:native", "NVIDIA L4", code=2)


def write_chain(path):
    """y = x sigmoid(x) + 1, a pointwise step."""
    graph = helper.make_graph(
        [helper.make_node("Sigmoid", ["x"], ["s"]), helper.make_node("Mul", ["x", "s"], ["t"]),
         helper.make_node("Add", ["t", "one"], ["y"])], "m",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
        [numpy_helper.from_array(np.float32(1), "one")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def check_kernels(folder):
    """A compiled kernel travels like an algorithm, and needs no compiler where it arrives."""
    model, plan, tuned, cache, x = (os.path.join(folder, n) for n in ("c.onnx", "c.bin", "ct.bin", "c.jsonl", "c.npy"))
    missing = {"HYPATIA_NVRTC": "/nowhere/libnvrtc.so"}
    write_chain(model)
    run("hypatiac", model, "--target", "cuda", "-o", plan)
    out, _ = run("hypatia", "tune", plan, "--dim", "batch=6", "-o", tuned, env=missing)
    assert counts(out)["products"] == 0, out
    assert "pointwise steps without kernels of their own: libnvrtc cannot be loaded from HYPATIA_NVRTC" in out, out
    out, _ = run("hypatia", "tune", plan, "--dim", "batch=6", "-o", tuned, "--cache", cache)
    assert counts(out)["timed"] == 1 and "a kernel of its own" in out and "without kernels" not in out, out
    line = json.loads(open(cache).read())
    assert line["product"].startswith("pointwise ") and len(line["algorithm"]) > 1000, line
    first = open(tuned, "rb").read()
    out, _ = run("hypatia", "tune", plan, "--dim", "batch=6", "-o", tuned, "--cache", cache, env=missing)
    assert counts(out)["known"] == 1 and open(tuned, "rb").read() == first, out
    np.save(x, np.arange(24, dtype=np.float32).reshape(6, 4) / 8 - 1)
    wanted = run("hypatia", "run", plan, "--device", "cuda", "-i", f"x=@{x}", "--output", "-")[0]
    assert run("hypatia", "run", tuned, "--device", "cuda", "-i", f"x=@{x}", "--output", "-", env=missing)[0] == wanted


def write_network(path):
    """Layers in single precision, which our own kernel and others can do, and a convolution."""
    rng = np.random.default_rng(1)
    def weight(*dims):
        return rng.standard_normal(dims).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "filter"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["r"]),
         helper.make_node("Flatten", ["r"], ["f"]), helper.make_node("Gemm", ["f", "w", "b"], ["y"])], "m",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 5])],
        [numpy_helper.from_array(weight(4, 3, 3, 3), "filter"), numpy_helper.from_array(weight(144, 5), "w"),
         numpy_helper.from_array(weight(5), "b")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def cpu_steps(plan, batch, *more):
    """The choices of every step that tuning can know."""
    out = run("hypatia", "bench", plan, "--device", "cpu", "--dim", f"batch={batch}", "--steps", "--duration", "0", "--warmup",
              "0", "--iterations", "1", "--json", "-", *more)[0]
    steps = json.loads(out)["steps"]
    assert all(len(s["choices"]) == 1 for s in steps), steps
    return [(s["choices"][0], s["tuned"]) for s in steps if s["choices"][0]["key"]]


def check_cpu(folder):
    """What is measured on the CPU is taken, told of, and kept; a cache line is believed, whatever it says."""
    model, plan, tuned, cache, x = (os.path.join(folder, n) for n in ("n.onnx", "n.bin", "nt.bin", "n.jsonl", "n.npy"))
    write_network(model)
    run("hypatiac", model, "-o", plan)
    np.save(x, np.random.default_rng(2).standard_normal((4, 3, 6, 6)).astype(np.float32))
    untuned = cpu_steps(plan, 4)
    assert len(untuned) == 2 and all(c["by"] in ("prediction", "only") and t == "-" for c, t in untuned), untuned
    layers = [c for c, _ in untuned if c["key"].startswith("linear f32 4: 144x5 ")]
    assert len(layers) == 1 and layers[0]["taken"] == "own" and layers[0]["by"] == "prediction", untuned
    assert layers[0]["alternatives"][-1]["name"] == "plain loops", layers

    out, _ = run("hypatia", "tune", plan, "--device", "cpu", "--dim", "batch=4", "--cache", cache, "-o", tuned)
    assert counts(out)["known"] == 0 and counts(out)["timed"] == counts(out)["products"] >= 1, out
    assert "threads" in out or "thread" in out, out
    lines = [json.loads(line) for line in open(cache)]
    assert len(lines) == counts(out)["timed"] and all("own kernels for" in line["device"] for line in lines), lines
    first = open(tuned, "rb").read()
    out, _ = run("hypatia", "tune", plan, "--device", "cpu", "--dim", "batch=4", "--cache", cache, "-o", tuned)
    assert counts(out)["timed"] == 0 and open(tuned, "rb").read() == first, out
    assert all(t == "exact" and c["by"] in ("tuning", "only") for c, t in cpu_steps(tuned, 4) if c["by"] != "only")

    # The line of the layer says plain loops now: they run, for fewer rows too, and the reports say by what.
    for line in lines:
        if line["product"] == layers[0]["key"]:
            line.update(algorithm=b"plain loops".hex(), attributes="plain loops", seconds=1e-6)
    with open(cache, "w") as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines))
    run("hypatia", "tune", plan, "--device", "cpu", "--dim", "batch=4", "--cache", cache, "-o", tuned)
    def layer(plan, batch, *more):
        return next((c, t) for c, t in cpu_steps(plan, batch, *more) if c["key"].startswith("linear"))
    c, t = layer(tuned, 4)
    assert (c["taken"], c["by"], t) == ("plain loops", "tuning", "exact") and abs(c["tuned_us"] - 1) < 1e-9, c
    c, t = layer(tuned, 3)
    assert (c["taken"], c["by"], t) == ("plain loops", "tuning of a larger size", "borrowed"), c
    assert layer(tuned, 1)[0]["taken"] == "own" and layer(tuned, 5)[0]["by"] == "prediction"
    log = run("hypatia", "run", tuned, "--device", "cpu", "-i", f"x=@{x}", "-q", "-v")[1]
    assert "plain loops, by tuning 1.00 us, predicted " in log and "; own " in log, log
    table = run("hypatia", "bench", tuned, "--device", "cpu", "--dim", "batch=4", "--steps", "--duration", "0", "--warmup", "0",
                "--iterations", "1")[0]
    assert "plain loops, by tuning 1.00 us" in table and "exact" in table, table

    # The same numbers, and elsewhere as if it were not there.
    def result(plan, *more):
        text = run("hypatia", "run", plan, "-i", f"x=@{x}", "--output", "-", *more)[0]
        return np.array([float(word) for line in text.splitlines()[1:] for word in line.split()])
    assert np.allclose(result(tuned, "--device", "cpu"), result(plan, "--device", "reference"), rtol=1e-4, atol=1e-5)
    other = {"HYPATIA_CPU": "generic"}
    log = run("hypatia", "run", tuned, "--device", "cpu", "-i", f"x=@{x}", "-q", "-v", env=other)[1]
    assert "own, by prediction" in log and "the plan was tuned on " in log, log

    out, _ = run("hypatiac", model, "-o", plan, "--tune", "--tune-dim", "batch=2,4", "--seconds", "5")
    assert counts(out)["products"] >= 2 and "batch=4: " in out and "tuned     on" in run("hypatia", "inspect", plan)[0], out

    # A cache that cannot be written costs what was measured its place there, not its place in the plan.
    run("hypatiac", model, "-o", plan)
    told = run("hypatiac", model, "-o", plan, "--tune", "--seconds", "1", "--cache", os.path.join(folder, "no/cache"), code=1)[1]
    assert "no/cache: cannot write" in told and "without tuning" not in told, told
    assert "tuned     on" in run("hypatia", "inspect", plan)[0]


def main():
    with tempfile.TemporaryDirectory() as folder:
        model, plan, tuned, cache = (os.path.join(folder, name) for name in ("m.onnx", "p.bin", "t.bin", "cache.jsonl"))
        write_model(model)
        run("hypatiac", model, "--target", "cuda", "-o", plan)
        check_cache(plan, tuned, cache)
        check_sizes(plan, tuned)
        check_progress(plan, tuned)
        check_running(folder, plan, tuned)
        check_steps(plan, tuned)
        check_locked(plan, tuned, cache)
        check_pipe(plan, folder)
        check_broken_lines(plan, tuned, cache)
        check_other_devices(plan, tuned, cache)
        check_compiling(folder, model, cache)
        check_without_gpu(folder, model, plan, cache)
        check_native_target(model, os.path.join(folder, "native.bin"))
        check_kernels(folder)
        check_cpu(folder)
    print("passed")


if __name__ == "__main__":
    main()
