"""The price of each step, as plans, hypatia inspect and hypatiac tell it: its words add up to its seconds, and what they say
there is to do is what the plan itself counts."""
import glob
import json
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../support"))
import hyp  # noqa: E402

onnx, np = hyp.need("onnx", "numpy")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

MODELS = sorted(glob.glob(os.path.join(HERE, "../models/torch/*-dynamo.onnx")))
WAYS = (["--target", "cpu"], ["--target", "cpu:avx2"], ["--target", "cpu:avx2", "--threads", "2"], ["--target", "cuda"],
        ["--target", "cuda", "--precision", "bf16"])
NUMBER = r"([0-9.e+-]+)"
PRICE = re.compile(rf"(?:1/(\d+) of: )?(?:\d+ threads, )?launch {NUMBER} us(?: \+ work {NUMBER} us(?: \((.*?)\))?)?"
                   rf"(?:, x {NUMBER} as (?:its functions were measured|measured, mostly \((.*?)\)))?"
                   rf"(?:; far weights and code: {NUMBER} us)?(?:; images are turned: {NUMBER} us)?(?:; far data: {NUMBER} us)?")
AWAY = re.compile(rf"weights and what is away: {NUMBER} us")
RATE = re.compile(rf"{NUMBER} ([a-z0-9 ]+) at {NUMBER}/s: {NUMBER} us")


def run(*command):
    done = hyp.tool(*command)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}{done.stdout}"
    return done.stdout


def check_step(step):
    """Figures have three or four digits. Rates of less than a hundredth of the work are not told."""
    found = PRICE.fullmatch(step["price"])
    assert found, step
    of, launch, work, rates, factor, nearest, far, turned, far_data = found.groups()
    work, factor, far = float(work or 0), float(factor or 1), float(far or 0)
    seconds = (((float(launch) + work) * factor + far) / int(of or 1) + float(far_data or 0) + float(turned or 0)) * 1e-6
    assert abs(seconds - step["predicted_seconds"]) <= 4e-3 * seconds + 1e-11, (seconds, step)  # as much is said of a view
    terms = [(float(amount), what, float(rate), float(us)) for amount, what, rate, us in RATE.findall(rates or "")]
    away = [float(us) for us in AWAY.findall(rates or "")]  # of which no bytes are told
    assert rates is None or len(terms) + len(away) == rates.count(" | ") + 1, step
    for amount, _, rate, us in terms:
        assert rate and abs(amount / rate * 1e6 - us) <= 0.011 * us, step
    if terms or away:
        times = [term[3] for term in terms] + away
        assert max(times) <= 1.002 * work, step
        assert sum(times) >= 0.9 * work, step
    if step["label"] == "linear" and step["flops"] > 1e4:  # of one product, whose multiplications the plan counts, too
        counted = [amount for amount, what, _, _ in terms if what.endswith(("32 operations", "16 operations"))]
        (layer,) = step["layers"]
        flops = 2 * step["rows"] * layer["n"] * layer["k"]
        assert not counted or abs(counted[0] - flops) <= 0.01 * flops, step
        moved = sum(amount for amount, what, _, _ in terms if what.startswith("bytes"))
        assert away or not moved or abs(moved - step["bytes"]) <= 0.02 * step["bytes"], step
        return nearest is not None, len(counted) * (moved > 0)
    return nearest is not None, 0


def longest_chain(steps):
    """Seconds of the longest chain of steps that read what another has made; tensors without a name tell nothing."""
    ends = {}
    for step in steps:
        begins = max((ends.get(t["name"], 0) for t in step["reads"] if t["name"]), default=0)
        for t in step["writes"]:
            if t["name"]:
                ends[t["name"]] = max(ends.get(t["name"], 0), begins + step["predicted_seconds"])
    return max(ends.values(), default=0)


def check_whole(described, said, text):
    """All that is said of the plan as a whole is one figure: the sum over the steps, or less where they run side by side, and
    never less than a chain of them. Returns whether they do."""
    seconds, steps = described["predicted_seconds"], described["steps"]
    total = sum(step["predicted_seconds"] for step in steps)
    after, of_plan = re.search(rf"^predicted: .* -> {NUMBER} us$", said, re.M)[1], re.search(rf"^predicted for the plan: {NUMBER} us$", said, re.M)[1]
    assert after == of_plan == f"{seconds * 1e6:.2f}", (after, of_plan, seconds)
    beside = seconds < total * (1 - 1e-9)
    wanted = f"predicted {seconds * 1e6:.2f} us" + (f" side by side, {total * 1e6:.2f} us one by one" if beside else "")
    assert re.search(rf"^{re.escape(wanted)}(?: for .*)?$", text, re.M), (wanted, text)
    assert longest_chain(steps) - 1e-12 <= seconds <= total * (1 + 1e-9), (seconds, total)
    assert not beside or (described["target"] == "cuda" and seconds < 0.971 * total), described["target"]
    return beside


def check_plans(folder):
    plan, measured, products, beside = os.path.join(folder, "p.bin"), 0, 0, 0
    assert len(MODELS) >= 8
    for model in MODELS:
        for way in WAYS:
            out = run("hypatiac", model, "-o", plan, "--verify", "off", "--stats", "-v", *way)
            typical = [f"{s['name']}={s['typical']}" for s in json.loads(run("hypatia", "inspect", plan, "--json"))["symbols"]]
            dims = ["--dim", ",".join(typical)] if typical else []
            described = json.loads(run("hypatia", "inspect", plan, "--json", *dims))
            steps = described["steps"]
            beside += check_whole(described, out, run("hypatia", "inspect", plan))
            text = run("hypatia", "inspect", plan)
            for step in steps:
                nearest, counted = check_step(step)
                measured += nearest
                products += counted
                assert f"price {step['price']}\n" in text and f"{step['label']}: {step['price']}\n" in out, step
    assert measured > 200 and products > 20 and beside > 5, (measured, products, beside)


def check_profile(folder):
    """An entry of a profile that is there is named, and one for this shape alone counts."""
    plan, profile = os.path.join(folder, "p.bin"), os.path.join(folder, "my.profile")
    with open(profile, "w") as file:
        file.write("(profile my (like cpu) (measured softmax 320 10 f32 5e-5) (measured softmax 1000000 1000 f32 9e-1))")
    run("hypatiac", os.path.join(HERE, "../../examples/digits/digits.onnx"), "-o", plan, "--verify", "off", "--profile", profile, "-q")
    step = json.loads(run("hypatia", "inspect", plan, "--json"))["steps"][-1]
    assert step["label"] == "softmax" and abs(step["predicted_seconds"] - 5e-5) < 1e-9, step
    assert step["price"].endswith("as measured, mostly (softmax 320 10 f32)"), step


def check_explanation():
    out = run("hypatiac", os.path.join(HERE, "../../examples/digits/digits.onnx"), "--explain", "layer0/MatMul")
    assert re.search(r"step 0 of the plan: fused-mlp .*\n +[0-9.]+ us  fused-mlp: launch ", out), out


def check_nothing_twice(folder):
    """A product that a step of a training has is not computed again to have an addition in its kernel: elementwise operators that
    run in their readers' kernels cost little."""
    model, draw = os.path.join(folder, "gelu.onnx"), np.random.default_rng(1)
    weights = [("w", (768, 3072)), ("b", (3072,)), ("o", (3072, 768))]
    numbers = [("c0", 0.044715), ("c1", 0.7978845608), ("one", 1), ("half", 0.5)]
    nodes = [("MatMul", "x w", "m"), ("Add", "m b", "u"), ("Mul", "u u", "s"), ("Mul", "u s", "q"), ("Mul", "q c0", "t"),
             ("Add", "u t", "v"), ("Mul", "v c1", "k"), ("Tanh", "k", "a"), ("Add", "a one", "d"), ("Mul", "u d", "e"),
             ("Mul", "e half", "g"), ("MatMul", "g o", "y")]
    graph = helper.make_graph(
        [helper.make_node(op, reads.split(), [result], name=f"{op}_{result}") for op, reads, result in nodes], "gelu",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4096, 768])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4096, 768])],
        [numpy_helper.from_array((draw.standard_normal(shape) / 30).astype(np.float32), name) for name, shape in weights]
        + [numpy_helper.from_array(np.float32(value), name) for name, value in numbers])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    out = run("hypatiac", model, "-o", os.path.join(folder, "p.bin"), "--train", "mse", "--optimizer", "sgd", "--precision", "bf16",
              "--verify", "off", "--target", "cuda", "-v")
    layers = re.findall(r"^  (?:fused-)?linear(?!-gradient)\S*  \[.*MatMul_m\b.*$", out, re.M)
    assert len(layers) == 1, out


def save_layers(path, nodes, inputs, outputs):
    """nodes: (operator, what it reads, result); w... are weights of 256 by 256, b... biases."""
    draw, names = np.random.default_rng(2), sorted({word for _, reads, _ in nodes for word in reads.split() if word[0] in "wb"})
    graph = helper.make_graph(
        [helper.make_node(op, reads.split(), [result], name=f"{op}_{result}") for op, reads, result in nodes], "layers",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 256]) for name in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 256]) for name in outputs],
        [numpy_helper.from_array(draw.standard_normal((256, 256) if name[0] == "w" else 256).astype(np.float32), name) for name in names])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def check_never_worse(folder):
    """Parts of a merged layer that are outputs are copied, and forms are chosen by what plans take, never worse than as they
    came but for what no prediction tells apart (1 %)."""
    model, plan = os.path.join(folder, "layers.onnx"), os.path.join(folder, "p.bin")
    parallel = [node for i in range(6) for node in (("Gemm", f"x w{i} b{i}", f"g{i}"), ("Relu", f"g{i}", f"y{i}"))]
    summed = [("MatMul", f"x{i} w{i}", f"m{i}") for i in range(3)] + [("Add", "m0 m1", "s"), ("Add", "s m2", "t"), ("Relu", "t", "y")]
    for nodes, inputs, outputs in ((parallel, ["x"], [f"y{i}" for i in range(6)]), (summed, ["x0", "x1", "x2"], ["y"])):
        save_layers(model, nodes, inputs, outputs)
        for target in ("cpu", "cpu:generic", "cpu:avx2", "cpu:avx512", "cpu:amx", "cuda", "cuda:h100"):
            out = run("hypatiac", model, "-o", plan, "--verify", "off", "--target", target)
            before, after = map(float, re.search(rf"^predicted: {NUMBER} us -> {NUMBER} us$", out, re.M).groups())
            assert after <= 1.011 * before, (target, out)


def check_mixed_biases(folder):
    """Layers of one input, of which some have biases (as queries and values may, and keys not), are one where that pays."""
    model, plan = os.path.join(folder, "layers.onnx"), os.path.join(folder, "p.bin")
    nodes = [("Gemm", "x w0 b0", "q"), ("MatMul", "x w1", "k"), ("Gemm", "x w2 b2", "v"), ("Mul", "q k", "p"), ("Add", "p v", "y")]
    save_layers(model, nodes, ["x"], ["y"])
    run("hypatiac", model, "-o", plan, "--target", "cuda", "--verify", "strict", "-q")
    described = json.loads(run("hypatia", "inspect", plan, "--json"))
    assert [step["label"] for step in described["steps"]].count("linear") == 1 and len(described["steps"]) <= 2, described["steps"]
    assert "merge-mixed-linears" in described["steps"][0]["rules"], described["steps"][0]


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_plans(folder)
        check_never_worse(folder)
        check_mixed_biases(folder)
        check_profile(folder)
        check_nothing_twice(folder)
    check_explanation()
    print("passed")


main()
