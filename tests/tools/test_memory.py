"""hypatiac --memory-budget and --recompute on training steps of a transformer and of a network of convolutions: within the budget,
the same bits, refused with figures that hold."""
import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hyp  # noqa: E402

np, onnx = hyp.need("numpy", "onnx")
import trained  # noqa: E402

failures = 0
folder = tempfile.TemporaryDirectory()


def at(name):
    return os.path.join(folder.name, name)


def want(what, holds, detail=""):
    global failures
    failures += not holds
    if not holds:
        print(f"FAILED {what}: {detail}")


def compile_step(model, plan, *options):
    return hyp.tool("hypatiac", at(model), "-o", at(plan), "--train", "cross-entropy", *options)


def described(plan):
    return json.loads(hyp.tool("hypatia", "inspect", at(plan), "--json").stdout)


def numbers(text, pattern):
    found = re.search(pattern, text)
    want(f"'{pattern}' is said", found, text)
    return [float(x) for x in found.groups()] if found else None


LESS = r"scratch memory: (\d+) bytes -> (\d+); steps that compute something again: (\d+), predicted ([\d.]+) us -> ([\d.]+) us"


def outputs(plan, feeds):
    files = {o["name"]: at(f"out_{i}.npy") for i, o in enumerate(described(plan)["outputs"])}
    given = [x for name, value in feeds.items() for x in ("--input", f"{name}=@{save(name, value)}")]
    taken = [x for name, file in files.items() for x in ("--output", f"{name}=@{file}")]
    done = hyp.tool("hypatia", "run", at(plan), "--device", "cpu", *given, *taken)
    want("the plan runs", done.returncode == 0, done.stderr)
    return {name: np.load(file) for name, file in files.items()}


def save(name, value):
    np.save(at(f"in_{name}.npy"), value)
    return at(f"in_{name}.npy")


def same_bits(what, a, b):
    for name in a:
        want(f"{what}: bits of {name}", a[name].tobytes() == b[name].tobytes(), np.abs(a[name] - b[name]).max())


WHOLE = r"memory of a run: (\d+) bytes, (\d+) of them variables"


def check_whole(what, done, plan, workspace=0):
    """What is told of all memory is what the plan has in it, and what a context holds. Returns what is no scratch memory."""
    told = numbers(done.stdout, WHOLE)
    state = sum(v["bytes"] for v in plan["variables"]) + plan["state_bytes_twice"]
    constants = {t["tensor"]: t["bytes"] for s in plan["steps"] for t in s["reads"] if t["place"] == "weight"}
    fixed = state + sum(constants.values()) + workspace
    want(f"{what}: all memory is told", told == [fixed + plan["scratch_bytes"], state], (told, fixed, plan["scratch_bytes"], state))
    return fixed


def check_budgets(model, feeds, *options):
    """Budgets that leave scratch memory a sixth less each, until the compiler gives up."""
    kept = compile_step(model, "kept.bin", "--gradients", *options)
    want(f"{model} compiles", kept.returncode == 0, kept.stderr)
    scratch = described("kept.bin")["scratch_bytes"]
    fixed = check_whole(model, kept, described("kept.bin"))
    reference, fitted, seconds, budget = outputs("kept.bin", feeds), 0, 0, fixed + scratch
    while True:
        budget = fixed + (budget - fixed) * 5 // 6
        done = compile_step(model, "less.bin", "--gradients", "--verify", "strict", "--memory-budget", str(budget), *options)
        if done.returncode:
            break
        told, plan = numbers(done.stdout, LESS), described("less.bin")
        want(f"{model}: the budget is kept", check_whole(model, done, plan) + plan["scratch_bytes"] <= budget, (plan["scratch_bytes"], budget))
        want(f"{model}: what is told is the plan's", told[:3] == [scratch, plan["scratch_bytes"], plan["recomputed"]], told)
        want(f"{model}: so is what it was", [plan["kept_bytes"], round(plan["kept_seconds"] * 1e6, 2)] == [scratch, told[3]], told)
        want(f"{model}: steps say so", sum("recompute" in s["rules"] for s in plan["steps"]) == told[2] > 0, told)
        want(f"{model}: the less memory the more time", seconds <= told[4] * 1.001, (seconds, told))
        want(f"{model}: it was verified", "verified: strict" in done.stdout, done.stdout)
        same_bits(f"{model} in {budget} bytes", reference, outputs("less.bin", feeds))
        seconds, fitted = told[4], fitted + 1
    want(f"{model}: what is too small is refused as what does not fit the model", done.returncode == 2, done.returncode)
    told = numbers(done.stderr, r"takes (\d+) bytes of memory, (\d+) of them scratch memory, and --memory-budget gives it (\d+).* (\d+) is the least")
    if told:
        want(f"{model}: with the budget", told[:3] == [fixed + scratch, scratch, budget], told)
        again = compile_step(model, "least.bin", "--gradients", "--memory-budget", str(int(told[3])), *options)
        want(f"{model}: the least that is told is possible", again.returncode == 0, again.stderr)
    want(f"{model}: two thirds of it are enough", fitted >= 2, fitted)
    enough = compile_step(model, "enough.bin", "--gradients", "--memory-budget", str(fixed + scratch), *options)
    want(f"{model}: nothing is computed again where there is room", f"scratch memory: {scratch} bytes\n" in enough.stdout, enough.stdout)
    same = [{k: v for k, v in described(p).items() if k not in ("plan", "flags", "file_bytes")} for p in ("kept.bin", "enough.bin")]
    want(f"{model}: and the plan is the same", same[0] == same[1])
    return reference


def check_recompute(feeds, reference):
    """Whatever is of a pattern, and of nothing else, is computed again."""
    options = ("--gradients", "--frozen", "mask", "--verify", "strict")
    done = compile_step("gpt.onnx", "some.bin", "--recompute", "/h.*/mlp/*", "--recompute", "/h.0/norm*/*", *options)
    want("--recompute", done.returncode == 0, done.stderr)
    told, plan = numbers(done.stdout, LESS), described("some.bin")
    want("--recompute takes less memory", told and told[1] < told[0], told)
    again = [s for s in plan["steps"] if "recompute" in s["rules"]]
    for step in again:
        named = [s for s in step["sources"] if re.match(r"/h\.\d/mlp/|/h\.0/norm", s)]
        want("a step that computes again is of the nodes that were named", named, step["sources"])
    for part in ("mlp/", "norm1/", "norm2/"):
        want(f"{part} of the first block is computed again", any(s.startswith("/h.0/" + part) for a in again for s in a["sources"]))
    want("of the second the products are, the normalization is not",
         not any(s.startswith("/h.1/norm1") for a in again for s in a["sources"]))
    same_bits("--recompute", reference, outputs("some.bin", feeds))
    shared = compile_step("gpt.onnx", "shared.bin", "--data-parallel", "--recompute", "/h.*/mlp/*", "--frozen", "mask")
    want("--recompute of a step for several GPUs", shared.returncode == 0, shared.stderr)
    told = numbers(shared.stdout, LESS)
    want("takes less memory", told and told[1] < told[0], told)
    budget = check_whole("--recompute", done, plan) + plan["scratch_bytes"] * 0.8
    both = compile_step("gpt.onnx", "both.bin", "--recompute", "/h.*/mlp/*", "--memory-budget", f"{budget / 1024:.0f}K", *options)
    want("with a budget, too", both.returncode == 0, both.stderr)
    same_bits("both", reference, outputs("both.bin", feeds))
    node = next(s for step in again for s in step["sources"] if s.startswith("/h.1/mlp/"))
    answer = compile_step("gpt.onnx", "x.bin", "--recompute", "/h.*/mlp/*", "--explain", node, "--frozen", "mask")
    want("--explain tells of it", answer.returncode == 0 and re.search(r"step \d+ of the plan: .*recompute", answer.stdout), answer)


def check_refusals():
    for options, says in ((("--memory-budget", "6Q"), "'6Q' is no number of bytes"), (("--memory-budget", "0"), "no number of bytes"),
                          (("--memory-budget", "-1"), "no number of bytes"), (("--memory-budget", "0.3"), "no number of bytes"),
                          (("--recompute", "nothing*"), "no node of the model is called like 'nothing*'")):
        done = compile_step("gpt.onnx", "x.bin", "--frozen", "mask", *options)
        want(f"{options} is refused", done.returncode == 2 and says in done.stderr, done.stderr)
    done = hyp.tool("hypatiac", at("gpt.onnx"), "-o", at("x.bin"), "--recompute", "/h.*")
    want("--recompute is for training", done.returncode == 2 and "--train" in done.stderr, done.stderr)
    done = hyp.tool("hypatiac", at("gpt.onnx"), "-o", at("x.bin"), "--memory-budget", "1G")
    want("a model that is not trained has a budget, too", done.returncode == 0 and "scratch memory: " in done.stdout, done.stderr)


def main():
    random = np.random.default_rng(3)
    trained.gpt(at("gpt.onnx"))
    trained.convolutions(at("conv.onnx"))
    words = {"ids": random.integers(0, 200, (4, 32)), "labels": random.integers(0, 200, 128)}
    images = {"x": random.standard_normal((4, 3, 16, 16)).astype(np.float32), "labels": random.integers(0, 10, 4)}
    reference = check_budgets("gpt.onnx", words, "--frozen", "mask")
    check_budgets("gpt.onnx", words, "--frozen", "mask", "--precision", "bf16")
    check_budgets("conv.onnx", images)
    check_recompute(words, reference)
    adamw = compile_step("conv.onnx", "adamw.bin", "--target", "cuda", "--verify", "off")
    plan = described("adamw.bin")
    check_whole("an update on a GPU", adamw, plan, 32 << 20) # cuBLASLt's workspace
    want("an update has variables of its optimizer", len(plan["variables"]) > len([v for v in plan["variables"] if ":" not in v["name"]]))
    check_refusals()
    print("FAILED" if failures else "ok")
    sys.exit(failures > 0)


main()
