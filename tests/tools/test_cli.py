"""The tools as their users call them: every way in and out, and that the same input gives the same bytes."""
import json
import os
import platform
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../support"), os.path.join(HERE, "../models")]
import hyp  # noqa: E402

onnx, np = hyp.need("onnx", "numpy")
from onnx import numpy_helper  # noqa: E402

EXAMPLE = os.path.join(hyp.ROOT, "examples/digits")
MODEL = os.path.join(EXAMPLE, "digits.onnx")


def run(*command, code=0, stdin=None, env=None):
    done = hyp.tool(*command, stdin=stdin, env=env)
    assert done.returncode == code, f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}{done.stdout}"
    return done.stdout


def check_compiling(folder, plan):
    out = run("hypatiac", MODEL, "-o", plan)
    assert "fused-mlp" in out and "layer0/MatMul" in out, out
    first = open(plan, "rb").read()
    again = os.path.join(folder, "again.bin")
    assert run("hypatiac", "--output=" + again, MODEL, "-q") == ""
    assert open(again, "rb").read() == first, "two compilations differ"

    dump = os.path.join(folder, "rewrites.jsonl")
    run("hypatiac", MODEL, "-o", again, "--dump-rewrites", dump, "-q")
    events = [json.loads(line) for line in open(dump)]
    assert events and all({"iteration", "rule", "matched", "result", "cost_before", "cost_after", "sources"} <= e.keys()
                          for e in events)
    assert any("fuse" in e["rule"] for e in events)
    assert open(again, "rb").read() == first, "a dump changes the plan"
    lines = run("hypatiac", MODEL, "--dry-run", "--dump-rewrites", "-").splitlines()
    assert len([json.loads(line) for line in lines]) == len(events)

    emitted = os.path.join(folder, "emitted.onnx")
    run("hypatiac", MODEL, "-o", again, "--emit-onnx", emitted, "-q")
    assert open(again, "rb").read() == first, "what is emitted changes the plan"
    piped = os.path.join(folder, "piped.onnx")
    with open(piped, "wb") as file:
        subprocess.run([os.path.join(hyp.BIN, "hypatiac"), MODEL, "--emit-onnx", "-"], stdout=file, check=True,
                       stderr=subprocess.DEVNULL)
    assert open(piped, "rb").read() == open(emitted, "rb").read()
    run("hypatiac", emitted, "-o", again, "--verify", "strict", "-q")
    assert "fused-mlp" in run("hypatiac", emitted, "--dry-run"), "what was emitted is not compiled as the model was"
    run("hypatiac", MODEL, "--emit-onnx", emitted, "--emit-onnx-inline", "1K", "-q")
    assert os.path.getsize(emitted + ".data") > os.path.getsize(emitted)
    run("hypatiac", emitted, "-o", again, "-q")

    for stage in ("import", "rewrite"):
        assert "softmax" in run("hypatiac", MODEL, "--dry-run", "-q", "--dump-ir", stage)
    assert "fused-mlp" in run("hypatiac", MODEL, "--dry-run", "-q", "--dump-ir", "rewrite")
    assert "fused-mlp" not in run("hypatiac", MODEL, "--dry-run", "-q", "--dump-ir", "rewrite", "--no-rewrite")
    assert "iterations" in run("hypatiac", MODEL, "--dry-run", "--stats", "-v")

    rules = [line.split() for line in run("hypatiac", "--list-rules").splitlines()]
    names = [rule[0] for rule in rules]
    assert len(names) == len(set(names)) and len(names) > 20 and all(rule[1] in "EZRNA" for rule in rules)
    listed = json.loads(run("hypatiac", "--list-rules", "--json"))
    assert [[rule["name"], rule["class"], rule["ruleset"], rule["doc"].split()] for rule in listed] == \
        [[*rule[:3], rule[3:]] for rule in rules]
    assert json.loads(run("hypatiac", "--list-rules", "--json", "--no-builtin-rules")) == []
    assert "--list-rules" in hyp.tool("hypatiac", MODEL, "--dry-run", "--json").stderr
    run("hypatiac", MODEL, "--dry-run", "--json", code=2)
    fuse = [name for name in names if name.startswith("fuse")]
    without = run("hypatiac", MODEL, "-o", again, "--disable-rule", ",".join(fuse))
    assert "fused-mlp" not in without, without
    assert [line.split()[0] for line in run("hypatiac", "--list-rules", "--only-rules", ",".join(fuse)).splitlines()] == fuse
    alone = run("hypatiac", MODEL, "-o", again, "--only-rules", "matmul-linear")
    used = [line for line in alone.splitlines() if line.startswith("rules used: ")]
    assert len(used) == 1 and used[0].startswith("rules used: matmul-linear ") and "," not in used[0], alone
    assert hyp.tool("hypatiac", "--list-rules", "--only-rules", "matmul-liner").stderr.endswith("'matmul-linear'?\n")
    assert run("hypatiac", "--list-rules", "--no-builtin-rules") == ""
    run("hypatiac", MODEL, "-o", again, "-q", "--dim", "batch=7")
    assert "batch" not in run("hypatia", "inspect", again).split("steps")[0].replace("--dim=batch=7", "")
    run("hypatiac", MODEL, "-o", again, "-q", "--shapes", "image:7x64")
    for target in ("cpu", "cuda"):
        for precision in ("fp32", "tf32", "bf16", "fp16"):
            run("hypatiac", MODEL, "-o", again, "-q", "--target", target, "--precision", precision)
    assert "hypatiac 0." in run("hypatiac", "--version") and "Usage" in run("hypatiac", "--help")


def check_fp8(folder):
    """Scales from a stack of samples and from folders of them; what is no sample is refused with the reason."""
    def scales(*samples):
        plan = os.path.join(folder, "fp8.bin")
        options = ["hypatiac", MODEL, "-o", plan, "--precision", "fp8", *(f"--samples={s}" for s in samples)]
        assert "linear layers in fp8: 3 of 4; -v lists them" in run(*options)
        out = run(*options, "-v")
        assert "linear layers in fp8:" in out and "x scaled by" in out and "is no multiple of 16" in out, out
        steps = json.loads(run("hypatia", "inspect", plan, "--json"))["steps"]
        return plan, [(layer["x_scale"], layer["weight_scale"]) for step in steps if step["label"] == "quantized-linear"
                      for layer in step["layers"]]

    def refused(text, *samples):
        done = hyp.tool("hypatiac", MODEL, "--dry-run", "--precision", "fp8", *(f"--samples={s}" for s in samples))
        assert done.returncode == 2 and text in done.stderr, done.stderr

    def save(name, array):
        np.save(os.path.join(folder, name), array)
        return f"image=@{folder}/{name}"

    images = np.random.default_rng(3).random((4, 8, 64), np.float32) * 100
    sets = os.path.join(folder, "sets")
    for i, image in enumerate(images):
        os.makedirs(f"{sets}/test_data_set_{i}")
        with open(f"{sets}/test_data_set_{i}/input_0.pb", "wb") as file:
            file.write(numpy_helper.from_array(image, "whatever it is called").SerializeToString())
    stack = save("stack.npy", images)
    plan, of_stack = scales(stack)
    assert of_stack and of_stack == scales(sets)[1]
    assert scales(f"{sets}/test_data_set_0")[1][0] == (0.25, of_stack[0][1]), of_stack  # up to 100
    run("hypatia", "verify", plan, "--model", MODEL, "--rtol", "0.2", "--atol", "0.2")
    assert "x scaled by 0.25, weight by" in run("hypatia", "inspect", plan)
    assert "quantized-linear" in run("hypatiac", MODEL, "--dry-run", "-q", "--precision", "fp8", "--samples", stack,
                                     "--dump-ir", "quantize")
    refused("fp8 takes the scales of layers from sample inputs, and none were given")
    refused("the model has no input 'picture', of which samples were given", stack.replace("image", "picture"))
    refused("the samples of input 'image' have 4 axes; wanted 2, or 3 for a stack", save("deep.npy", images[None]))
    refused("a stack of no samples was given", save("none.npy", images[:0]))
    refused("input 'image' has type f64", save("double.npy", images.astype(np.float64)))
    images[2, 1, 1] = np.inf
    refused("sample 2: ", save("bad.npy", images))
    refused("has inf among its numbers, so that no scale can be told", save("bad.npy", images))
    refused("input_0.pb: cannot open", folder)
    refused("is not of the form x=@x.npy", "image")
    done = run("hypatiac", MODEL, "-o", plan, "--samples", stack)
    assert "verified: strict, 4 samples" in done, done


def check_left_out(folder):
    """--stats counts what rules would have done: the model has three relus, one softmax, and constants that a byte is too little for."""
    rules = os.path.join(folder, "mine.rules")
    with open(rules, "w") as file:
        file.write('(rule drop-relu :class E :doc "not of what is no constant" (relu ?x) => ?x :if (joined ?x))\n'
                   '(rule no-type :class E :doc "two axes are not three" (softmax :axis ?a ?x) => (transpose :perm (0 2 1) ?x))')
    stats = ["hypatiac", MODEL, "--dry-run", "--verify", "off", "--stats"]
    out = run(*stats, "--rules", rules, "--only-rules", "drop-relu,no-type")
    lines = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.startswith(("rule ", "drop-relu", "no-type"))}
    assert lines["rule"] == ["class", "matches", "applied", "declined", "refused", "beyond", "used"], lines
    # Where sizes are so small that declined matches are not kept but looked for again, none are counted (hypatia/egraph.h).
    found, declined = lines["drop-relu"][1], lines["drop-relu"][3]
    assert (found, declined) in (("3", "3"), ("6", "0")), lines
    assert lines["drop-relu"] == ["E", found, "0", declined, "0", "0", "0"] and lines["no-type"] == ["E", "1", "0", "0", "1", "0", "0"], lines
    assert f"left out     {declined} matches by conditions, 1 without a type, 0 parts beyond the widest step, 0 constants beyond" in out, out
    assert ", 0 constants beyond" not in run(*stats, "--max-fold-bytes", "1")
    out = run("hypatiac", save_layers(os.path.join(folder, "wide.onnx"), 1030), *stats[2:], "--only-rules", "matmul-linear,merge-linears")
    lines = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.startswith("merge-linears")}
    assert lines["merge-linears"][2:] == ["2", "2", "0", "6", "0"], lines # both merged layers have no weights of the model
    assert "left out     2 matches by conditions, 0 without a type, 6 parts beyond the widest step" in out, out


def save_layers(path, count):
    """Layers of one input, more than one step takes."""
    helper, tensor = onnx.helper, onnx.helper.make_tensor_value_info
    weights = [numpy_helper.from_array(np.full((1, 1), i + 1, np.float32), f"w{i}") for i in range(count)]
    nodes = [helper.make_node("MatMul", ["x", f"w{i}"], [f"y{i}"]) for i in range(count)]
    graph = helper.make_graph(nodes, "wide", [tensor("x", 1, [1, 1])], [tensor(f"y{i}", 1, [1, 1]) for i in range(count)], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def check_targets(folder):
    """Machines differ in what their plans are predicted to take, and in nothing that a plan needs."""
    plan, predicted = os.path.join(folder, "target.bin"), {}
    for target in ("cpu", "cpu:any", "cpu:generic", "cpu:avx2", "cpu:avx512", "cpu:amx", "cpu:native", "cuda", "cuda:h200", "cuda:h100"):
        run("hypatiac", MODEL, "-o", plan, "-q", "--target", target)
        described = json.loads(run("hypatia", "inspect", plan, "--json"))
        assert described["target"] == target.split(":")[0], described["target"]
        predicted[target] = sum(step["predicted_seconds"] for step in described["steps"])
        if not target.startswith("cuda"):
            run("hypatia", "verify", plan, "--model", MODEL, "--dim", "batch=5", "--device", "cpu")
    assert predicted["cpu"] == predicted["cpu:any"] and predicted["cuda"] == predicted["cuda:h200"], predicted
    assert predicted["cpu:native"] in (predicted["cpu"], predicted["cpu:generic"], predicted["cpu:avx2"], predicted["cpu:avx512"], predicted["cpu:amx"])
    assert len({predicted[t] for t in ("cpu", "cpu:generic", "cpu:avx2", "cpu:avx512", "cuda", "cuda:h100")}) == 6, predicted
    for wrong in ("cpu:", "cpu:h200", "cuda:avx2", "avx2", "cpu:avx2:x"):
        assert "cpu (:any :generic :avx2 :avx512 :amx :neon :native), cuda (:h200 :h100)" in hyp.tool("hypatiac", MODEL, "-o", plan, "--target", wrong).stderr

    # With more threads a plan is never predicted to take longer, and a large layer is predicted to take less.
    wide = os.path.join(folder, "wide.profile")
    with open(wide, "w") as file:
        file.write("(profile wide (like avx2) (speedup 2 2 2) (speedup 8 8 4))")
    times = []
    for threads in ("1", "2", "4", "8", "64"):
        run("hypatiac", MODEL, "-o", plan, "-q", "--profile", wide, "--typical", "batch=4096", "--threads", threads)
        times.append(sum(s["predicted_seconds"] for s in json.loads(run("hypatia", "inspect", plan, "--json"))["steps"]))
    # Beyond those that a profile speaks of nothing gets faster, but each core has a cache of its own.
    assert times[0] > times[1] > times[2] > times[3] >= times[4] > 0.99 * times[3], times

    # A kernel comes round when a run has gone over all constants, and all else that it writes and reads.
    with open(wide, "w") as file:
        file.write("(profile away (like avx2) (away 64 0 0 1.0))")
    run("hypatiac", MODEL, "-o", plan, "-q", "--profile", wide)
    steps = json.loads(run("hypatia", "inspect", plan, "--json"))["steps"]
    assert steps and all(1 < s["predicted_seconds"] < 1.1 for s in steps), steps


def check_measuring(folder):
    """Nothing here depends on how long anything takes."""
    profile, plan = os.path.join(folder, "my.profile"), os.path.join(folder, "timed.bin")
    told = hyp.tool("hypatiac", "--calibrate", "-o", profile, "--seconds", "0.05", "--threads", "2")
    assert told.returncode == 0 and told.stdout == "", told
    text = open(profile).read()
    assert "(threads 1)" in text and "(cache-bytes " in text
    for kernel in ("linear 1 64 64", "matmul 1 64 64 64", "attention 12 32 32 64", "conv 3136 64 64 9 1 1", "conv 784 128 128 9 1 4", "conv 784 256 8 9 32 1",
                   "conv-transpose 256 128 64 4 1", "conv-backward-weights 784 128 128 9 1", "max-pool 50176 9 1", "average-pool 50176 9 4", "softmax 12288 32",
                   "layer-norm 16384 64", "reduce-mean 16384 64 1", "reduce-mean 25088 49 512", "reduce-mean 12288 32 384", "transpose 4096 1", "transpose 24576 64", "gather 24576",
                   "concat 16384", "add 16384", "gelu 16384", "cast 65536"):
        assert f"(measured {kernel} f32 " in text, kernel
    assert text.count("(speedup ") == 1 and "(speedup 2 " in text
    aways = [int(line.split()[1]) for line in text.splitlines() if line.startswith("  (away ")]
    assert len(aways) > 6 and all(a < b <= 2 * a for a, b in zip(aways, aways[1:])), aways
    readings = [float(line.split()[2]) for line in text.splitlines() if line.startswith("  (away ")]
    assert 0 < readings[0] and readings == sorted(readings) and re.search(r"^  \(away( [0-9.e+-]+){5}\)$", text, re.M), readings
    ages = [float(line.split()[1]) for line in text.splitlines() if line.startswith("  (aged ")]
    assert len(ages) == 8 and ages == sorted(ages) and len(re.findall(r"^  \(aged( [0-9.e+-]+){3}\)$", text, re.M)) == 8, ages
    assert "(measured add 65536 u8 " in text and "(measured cast 256 i32 " in text
    assert f"measured {text.count('(measured ')} kernels of one core" in told.stderr and profile in told.stderr, told.stderr
    assert "fused-mlp" in run("hypatiac", MODEL, "-o", plan, "--profile", profile)
    run("hypatia", "verify", plan, "--model", MODEL, "--dim", "batch=5")
    assert "no model" in hyp.tool("hypatiac", "--calibrate", MODEL, "-o", profile).stderr
    run("hypatiac", "--calibrate", code=2)
    run("hypatiac", "--calibrate", "-o", os.path.join(folder, "none/my.profile"), code=1)  # at once

    # A folder for temporary files that must be as empty afterwards as before.
    os.environ["TMPDIR"] = temporary = os.path.join(folder, "tmp")
    os.mkdir(temporary)
    quick = ["--timed", "--seconds", "0.05", "--threads", "1"]
    out = run("hypatiac", MODEL, "-o", plan, *quick, "--typical", "batch=3")
    for word in ("timed with image f32[3 64] on cpu", "  rewritten ", "  normal form ", "  as it is "):
        assert word in out, out
    run("hypatia", "verify", plan, "--model", MODEL, "--dim", "batch=5")
    kept = [line for line in out.splitlines() if "(kept)" in line][-1]  # of the whole, after its parts
    assert out.count("(kept)") == 1 + out.count("part timed"), out
    assert ("--timed=" in run("hypatia", "inspect", plan)) == ("rewritten" not in kept), kept
    assert "timed with" in run("hypatiac", MODEL, "--dry-run", *quick)
    assert run("hypatiac", MODEL, "-o", plan, "-q", *quick) == ""
    done = hyp.tool("hypatiac", MODEL, "-o", plan, *quick, "--profile", os.path.join(folder, "none"))
    assert done.returncode == 1 and os.listdir(temporary) == []
    assert "'0' is no number between" in hyp.tool("hypatiac", MODEL, "--timed", "--threads", "0").stderr
    del os.environ["TMPDIR"]


def check_asking():
    """--explain and --why-not: every kind of answer, and proofs of real models that hold."""
    out = run("hypatiac", MODEL, "--explain", "layer0/Relu")
    assert "by fuse-linear-relu\n" in out and "checked from the rules alone: " in out and "step 0 of the plan: fused-mlp" in out, out
    answers = {
        ("fuse-mlp", "layer0/Relu"): "it lies inside of another form",
        ("split-mlp",): "but the cheapest plan found with it takes ",
        ("fuse-linear-gelu", "layer0/MatMul"): "nothing that uses ",
        ("fuse-linear-gelu",): "nothing begins like",
        ("matmul-linear", "layer0/Relu"): "where there is 'layer0/Relu'",
    }
    for question, answer in answers.items():
        out = run("hypatiac", MODEL, "--why-not", *question)
        assert out.startswith(f"(rule {question[0]} ") and answer in out, (question, out)
    assert run("hypatiac", "--why-not", "fuse-mlp", "layer0/Relu", MODEL) == run("hypatiac", MODEL, "--why-not", "fuse-mlp", "layer0/Relu")
    tiny = os.path.join(hyp.ROOT, "tests/models/tiny_mlp.onnx")
    assert "that form was taken" in run("hypatiac", tiny, "--why-not", "fuse-mlp", "Relu_6")
    assert "leave this rule out" in run("hypatiac", MODEL, "--why-not", "fuse-mlp", "--disable-rule", "fuse-mlp")
    assert "class A" in run("hypatiac", MODEL, "--why-not", "approximate-gelu")
    for bad in (("--explain", "layer0/Rely"), ("--why-not", "fuse-mlpp"), ("--why-not", "fuse-mlp", "layer0/Rely")):
        done = hyp.tool("hypatiac", MODEL, *bad)
        assert done.returncode == 2 and "did you mean" in done.stderr, done.stderr
    assert hyp.tool("hypatiac", MODEL, "--explain", "layer0/Relu", "--no-rewrite").returncode == 2
    folder = os.path.join(hyp.ROOT, "tests/models/torch")
    for name in sorted(os.listdir(folder)):
        model = os.path.join(folder, name)
        steps = [line for line in run("hypatiac", model, "--dry-run", "-v").splitlines() if line.startswith("  ") and "]  by " in line]
        steps.sort(key=lambda line: line.count(","), reverse=True)
        for step in steps[:3]:
            node = step.split("[")[1].split("]")[0].split(", ")[0]
            out = run("hypatiac", model, "--explain", node)
            assert "checked from the rules alone: " in out and "\n      by " in out, (name, node, out)


def check_running(folder, plan):
    images, labels = np.load(os.path.join(EXAMPLE, "images.npy")), np.load(os.path.join(EXAMPLE, "labels.npy"))
    results = {}
    for device in ("cpu", "reference"):
        out = os.path.join(folder, "out.npy")
        run("hypatia", "run", plan, "--device", device, "--input", f"image=@{EXAMPLE}/images.npy",
            "--output", f"probabilities=@{out}")
        results[device] = np.load(out)
        assert results[device].shape == (100, 10) and results[device].dtype == np.float32
        assert (results[device].argmax(1) == labels).mean() >= 0.95
    assert np.abs(results["cpu"] - results["reference"]).max() < 1e-5

    raw = os.path.join(folder, "image.bin")
    images[:3].tofile(raw)
    out = run("hypatia", "run", plan, f"--input=image=@{raw}", "--output", "-")
    assert out.startswith("probabilities f32[3 10]") and len(out.splitlines()) == 4, out
    printed = np.array([line.split() for line in out.splitlines()[1:]], np.float32)
    assert np.abs(printed - results["reference"][:3]).max() < 1e-5
    run("hypatia", "run", plan, "--input", "image=random:3", "--dim", "batch=2", "-v")
    run("hypatia", "run", plan, "--input", "image=zeros")

    # test_data_set folders: one right, one wrong.
    for n, shift in ((0, 0), (1, 0.5)):
        case = os.path.join(folder, "data", f"test_data_set_{n}")
        os.makedirs(case)
        for name, array in (("input_0.pb", images[:4]), ("output_0.pb", results["reference"][:4] + np.float32(shift))):
            with open(os.path.join(case, name), "wb") as file:
                tensor = numpy_helper.from_array(array, "image" if name[0] == "i" else "probabilities")
                file.write(tensor.SerializeToString())
    assert run("hypatia", "run", plan, "--input", os.path.join(folder, "data/test_data_set_0")).endswith("PASSED\n")
    out = run("hypatia", "run", plan, "--input", os.path.join(folder, "data"), code=4)
    assert out.endswith("FAILED\n") and "would pass" in out and out.count("test_data_set_") == 2, out


def check_instruction_sets(plan):
    """HYPATIA_CPU lowers what is used, never raises it, and knows its words."""
    def device(level):
        done = hyp.tool("hypatia", "run", plan, "--device", "cpu", "--input", "image=zeros", "-v", env={"HYPATIA_CPU": level})
        assert done.returncode == 0, done.stderr
        return next(line for line in done.stderr.splitlines() if "device: cpu" in line)

    assert "own kernels for generic" in device("generic") and "avx" not in device("generic")
    if platform.machine() not in ("x86_64", "AMD64"):
        return  # "generic" is all that there is
    assert device("avx512") == device("") or "avx512" in device("avx512")
    assert "avx512" not in device("avx2")
    done = hyp.tool("hypatia", "run", plan, "--device", "cpu", "--input", "image=zeros", env={"HYPATIA_CPU": "sse9"})
    assert done.returncode == 2 and "HYPATIA_CPU is 'sse9': this build knows generic, avx2, avx512" in done.stderr, done.stderr


def check_reports(folder, plan):
    out = run("hypatia", "verify", plan, "--model", MODEL, "--dim", "batch=5")
    assert out.endswith("PASSED\n") and "largest difference" in out, out
    out = run("hypatia", "inspect", plan)
    for word in ("fused-mlp", "fuse", "image", "probabilities", "batch", "layer0/MatMul"):
        assert word in out, f"inspect does not say {word}:\n{out}"
    assert json.loads(run("hypatia", "inspect", plan, "--json", "--dim", "batch=4"))

    path = os.path.join(folder, "bench.json")
    quick = ["--warmup", "1", "--duration", "0.05", "--iterations", "20", "--device", "cpu", "--threads", "1"]
    out = run("hypatia", "bench", plan, *quick, "--json", path)
    assert "p50" in out and "p99" in out and "mean" in out, out
    figures = json.load(open(path))
    samples = np.array(figures["samples_us"])
    assert len(samples) >= 20 and abs(figures["mean_us"] - samples.mean()) < 0.01 * samples.mean()
    assert figures["p50_us"] <= figures["p90_us"] <= figures["p99_us"] and figures["device"] and figures["commit"]
    assert "p99.9_us" in json.loads(run("hypatia", "bench", plan, *quick, "--percentile", "99.9", "--json", "-"))
    out = run("hypatia", "bench", plan, *quick, "--steps", "--json", path)
    figures = json.load(open(path))
    assert "predicted us" in out and "predicted " in out and "scaled from batch = 32" in out, out
    assert len(figures["steps"]) == 2 and figures["steps"][0]["label"] == "fused-mlp"
    assert all(step["measured_us"] > 0 and step["predicted_us"] > 0 for step in figures["steps"])
    assert abs(figures["predicted_us"] - sum(step["predicted_us"] for step in figures["steps"])) < 1e-3
    assert figures["predicted_run_us"] == figures["predicted_us"]  # one by one on a CPU
    described = json.loads(run("hypatia", "inspect", plan, "--json"))
    assert described["symbols"][0]["typical"] == 32
    # What was predicted for 32 is so for 32, less for one row, and more in proportion to the work for more.
    typical_us = sum(s["predicted_seconds"] for s in described["steps"]) * 1e6

    # Shapes that need more scratch memory than is allowed are refused, others run.
    limited = ["hypatia", "bench", plan, *quick, "--memory-limit", "1", "--dim"]
    assert "p50" in run(*limited, "batch=2")
    refused = hyp.tool(*limited, "batch=100000")
    assert refused.returncode == 1 and "memory_limit is 1048576" in refused.stderr, refused.stderr
    sized = ["hypatia", "run", plan, "--device", "cpu", "--input", "image=random:3", "--dim", "batch=3"]
    plain, rounded = (run(*sized, *more, "--output", "-").split() for more in ([], ["--bucket", "batch=8"]))
    assert len(plain) == len(rounded) > 30 and "f32[3" in plain
    assert all(abs(float(a) - float(b)) < 1e-5 for a, b in zip(plain[3:], rounded[3:]) if a[0].isdigit())
    assert "runs may be padded along it" in run("hypatia", "inspect", plan)
    for text in ("batch", "batch=0", "=8"):
        assert f"'{text}' is not of the form batch=16" in hyp.tool(*sized, "--bucket", text).stderr
    assert "no symbolic dim 'rows'" in hyp.tool(*sized, "--bucket", "rows=8").stderr
    assert "'0' is no number of MiB" in hyp.tool("hypatia", "run", plan, "--memory-limit", "0").stderr

    def predicted(batch):
        return json.loads(run("hypatia", "bench", plan, *quick, "--dim", f"batch={batch}", "--json", "-"))
    assert abs(predicted(32)["predicted_us"] - typical_us) < 1e-3 * typical_us
    assert 0 < figures["predicted_us"] < typical_us, figures["predicted_us"]
    assert abs(predicted(3200)["predicted_us"] / typical_us - 100) < 0.5
    told = json.loads(run("hypatia", "inspect", plan, "--json", "--dim", "batch=7"))["steps"]
    for what in ("flops", "bytes"):
        assert predicted(7)[what] == sum(step[what] for step in told), what
    assert predicted(7)["tensors"] == "host" and predicted(7)["launches"] == 0
    assert json.loads(run("hypatia", "bench", plan, *quick, "--resident", "--json", "-"))["tensors"] == "device"
    assert "exclude each other" in hyp.tool("hypatia", "bench", plan, "--resident", "--transfers").stderr
    typical = os.path.join(folder, "typical.bin")
    run("hypatiac", MODEL, "-o", typical, "-q", "--typical", "batch=1")
    out = run("hypatia", "bench", typical, *quick)
    assert "predicted " in out and "scaled from" not in out, out
    assert "'batsch'" in hyp.tool("hypatiac", MODEL, "--dry-run", "--typical", "batsch=1").stderr
    assert "hypatia 0." in run("hypatia", "--version")
    for command in ("run", "bench", "tune", "inspect", "verify"):
        assert "Usage: hypatia " + command in run("hypatia", command, "--help")


def main():
    with tempfile.TemporaryDirectory() as folder:
        if sys.argv[1:] == ["measuring"]:  # a test of its own, for it takes longer than all else
            check_measuring(folder)
            print("passed")
            return
        plan = os.path.join(folder, "digits.bin")
        check_compiling(folder, plan)
        check_fp8(folder)
        check_left_out(folder)
        check_targets(folder)
        check_asking()
        check_running(folder, plan)
        check_instruction_sets(plan)
        check_reports(folder, plan)
    print("passed")


if __name__ == "__main__":
    main()
