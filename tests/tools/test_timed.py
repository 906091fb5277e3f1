"""--timed and the timing cache as users of hypatiac meet them. Nothing here depends on how long anything takes: which form was
the fastest is read from the cache, and what a cache says is believed."""
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

THREADS = ["--threads", "1"]
QUICK = ["--timed", "--seconds", "0.05"] + THREADS


def run(*command, code=0):
    done = hyp.tool(*command)
    assert done.returncode == code, f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}{done.stdout}"
    return done.stdout, done.stderr


def write_model(path, prefix, width, seed):
    """Two equal blocks: an activation apart from its layer costs little more than one within it."""
    random, nodes, weights, at = np.random.default_rng(seed), [], [], "x"
    for block in "ab":
        name = prefix + block
        weights.append(numpy_helper.from_array(random.standard_normal((width, width)).astype(np.float32) / 16, name + ".w"))
        weights.append(numpy_helper.from_array(random.standard_normal(width).astype(np.float32), name + ".b"))
        nodes += [helper.make_node("Gemm", [at, name + ".w", name + ".b"], [name + "1"], name + "gemm"),
                  helper.make_node("Relu", [name + "1"], [name + "2"], name + "relu"),
                  helper.make_node("Softmax", [name + "2"], [name + "3"], name + "softmax", axis=1)]
        at = name + "3"
    graph = helper.make_graph(nodes, "m", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", width])],
                              [helper.make_tensor_value_info(at, TensorProto.FLOAT, ["batch", width])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def counts(out):
    """{"parts": 3, "known": 0, ...} of the line that says what was asked."""
    line = next(line for line in out.splitlines() if line.startswith("parts: "))
    return {name: int(number) for name, number in (part.split(": ") for part in line.split(", ")[:4])}, line


def lines_of(cache):
    return [json.loads(line) for line in open(cache)]


def write_lines(cache, lines):
    with open(cache, "w") as file:
        file.writelines((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)


def other_form(line):
    """The line of a part, with another form the winner."""
    forms = line["product"].split()[2:]
    return dict(line, algorithm=forms[forms.index(line["algorithm"]) - 1])


def check_remembering(model, twin, plan, cache):
    """What was timed is not timed again, for the same model or for another of equal parts, and gives the same bytes."""
    timed, runs, out = 0, 0, "time ran out"
    while "time ran out" in out:  # on a slow machine; each run times one part at least
        out, _ = run("hypatiac", model, "-o", plan, *QUICK, "--cache", cache)
        asked, line = counts(out)
        assert asked["known"] >= 1 and (asked["timed"] >= 1 or runs), line  # the second block is the first one again
        assert asked["timed"] >= 1 or "time ran out" not in out, out
        timed, runs = timed + asked["timed"], runs + 1
    assert asked["parts"] == asked["known"] + asked["timed"], line
    first, lines = open(plan, "rb").read(), lines_of(cache)
    assert timed < len(lines) <= timed + runs, lines  # the whole has a line, too
    assert all(line["product"].startswith("form of ") and line["algorithm"] in line["product"] for line in lines), lines
    for timed in ([], QUICK):
        out, told = run("hypatiac", model, "-o", plan, *THREADS, *timed, "--cache", cache)
        assert counts(out)[0]["timed"] == 0 and "0.00 s of timing" in out and "part timed" not in out and not told, out + told
        assert open(plan, "rb").read() == first and lines_of(cache) == lines
    asked, line = counts(run("hypatiac", twin, "-o", plan, *THREADS, "--cache", cache)[0])
    assert asked["known"] == asked["parts"] > 0 and asked["timed"] == 0, line
    return lines


def check_believing(model, plan, cache, lines):
    """Another winner gives another plan; one of another device, another size or of no such form gives the predicted one."""
    run("hypatiac", model, "-o", plan, *THREADS)
    predicted = open(plan, "rb").read()
    parts = [line for line in lines if line["attributes"] not in ("rewritten", "by parts", "normal form", "as it is")]

    def compiled(*options):
        out, told = run("hypatiac", model, "-o", plan, *THREADS, "--cache", cache, *options)
        run("hypatia", "verify", plan, "--model", model, "--dim", "batch=5")
        return open(plan, "rb").read(), out, told

    write_lines(cache, [])
    assert compiled()[0] == predicted
    # The predicted form is the one that the flags say nothing of.
    changed = []
    for turned in (parts, [other_form(line) for line in parts]):
        write_lines(cache, turned)
        bytes_of, out, _ = compiled()
        changed.append(counts(out)[0]["changed"])
        assert (bytes_of == predicted) == (changed[-1] == 0), out
        assert ("--timed=by-parts" in run("hypatia", "inspect", plan)[0]) == (changed[-1] > 0)
    assert max(changed) >= 2, changed  # both blocks at once
    for broken in ({"device": "abacus"}, {"algorithm": "00" * 8}, {"algorithm": "00"}):
        write_lines(cache, [dict(line, **broken) for line in parts])
        bytes_of, out, told = compiled()
        assert bytes_of == predicted and counts(out)[0]["changed"] == 0, out
        assert ("are for other devices" if "device" in broken else "names none of its forms") in told, told
    write_lines(cache, [other_form(line) for line in parts] + parts)
    bytes_of, out, _ = compiled("--typical", "batch=7")
    assert counts(out)[0]["known"] == 0, out
    bytes_of, out, _ = compiled("--precision", "bf16")
    assert counts(out)[0]["known"] == 0, out


def write_layers(path, width=512):
    """Three chains of layers of one input; the first ends in two products that are one where their weights are multiplied before."""
    random, nodes, weights, ends = np.random.default_rng(3), [], [], []

    def weight(name, *shape):
        weights.append(numpy_helper.from_array(random.standard_normal(shape).astype(np.float32) / 16, name))
        return name

    for chain in "abc":
        at = "x"
        for name in (chain + "1", chain + "2"):
            nodes += [helper.make_node("Gemm", [at, weight(name + ".w", width, width), weight(name + ".b", width)], [name]),
                      helper.make_node("Softmax", [name], [name + "s"], axis=1)]
            at = name + "s"
        ends.append(at)
    nodes += [helper.make_node("MatMul", [ends[0], weight("p", width, width)], ["y"]),
              helper.make_node("MatMul", ["y", weight("q", width, width)], ["z"])]
    outputs = [helper.make_tensor_value_info(y, TensorProto.FLOAT, ["batch", width]) for y in ["z"] + ends[1:]]
    graph = helper.make_graph(nodes, "m", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", width])], outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def check_wholes(folder):
    """Whatever form of the whole a cache says is the fastest gives the plan of that form, which tells of it."""
    model, plan, cache, profile = (os.path.join(folder, n) for n in ("l.onnx", "l.bin", "l.jsonl", "l.profile"))
    write_layers(model)
    with open(profile, "w") as file:
        file.write("(profile slow (like cpu) (flops-f32 1.31072e10) (launch-seconds 1e-6) (next-launch-seconds 1e-6))")
    options = ["-o", plan, "--profile", profile, "--typical", "batch=8"]
    out, _ = run("hypatiac", model, *options, *QUICK, "--cache", cache)
    assert counts(out)[0]["parts"] == 0, out  # so that the one line is of the whole
    line, = lines_of(cache)
    run("hypatiac", model, *options, *THREADS)
    predicted, plans, layers = open(plan, "rb").read(), {}, {}
    for winner in line["product"].split()[2:]:
        write_lines(cache, [dict(line, algorithm=winner)])
        out, told = run("hypatiac", model, *options, *THREADS, "--cache", cache)
        form, = [text.split(": ")[1] for text in out.splitlines() if text.startswith("the form that was the fastest before")]
        assert "0.00 s of timing" in out and not told, out + told
        plans[form] = open(plan, "rb").read()
        run("hypatiac", model, *options, *QUICK, "--cache", cache)
        assert open(plan, "rb").read() == plans[form], form
        run("hypatia", "verify", plan, "--model", model, "--dim", "batch=5")
        said = run("hypatia", "inspect", plan)[0]
        assert ("--timed=" in said) == (form != "rewritten") and (form == "rewritten" or "--timed=" + form.replace(" ", "-") in said)
        steps = json.loads(run("hypatia", "inspect", plan, "--json")[0])["steps"]
        layers[form] = sum(step["kernel"] in ("linear", "matmul", "gemm") for step in steps)
    assert sorted(plans) == ["apart", "as it is", "normal form", "rewritten"] and len(set(plans.values())) == 4, list(plans)
    assert plans["rewritten"] == predicted
    assert layers == {"rewritten": 5, "apart": 7, "normal form": 8, "as it is": 8}, layers


def check_broken_lines(model, plan, cache, lines):
    good = json.dumps(lines[0])
    damaged = ["", "{", "[]", "\x00", "{}", good[:-9], good.replace('"algorithm": "', '"algorithm": "x'), "9" * 5000, '{"device": {}}',
               " " * (5 << 20) + good]
    write_lines(cache, damaged)
    before = open(cache).read()
    _, told = run("hypatiac", model, "-o", plan, *THREADS, "--cache", cache)
    for number in range(1, len(damaged) + 1):
        assert f"{cache}:{number}: the line is left out: " in told, (number, told)
    assert open(cache).read() == before, "a compilation that times nothing writes nothing"
    many = cache + ".many"
    write_lines(many, ["{}"] * 5000)
    _, told = run("hypatiac", model, "-o", plan, *THREADS, "--cache", many)
    assert told.count("the line is left out: ") == 16 and "4984 more lines are left out" in told, told[:2000]
    with open(cache, "a") as file:
        file.write(good[:20])  # of a writer that was interrupted
    run("hypatiac", model, "-o", plan, *QUICK, "--cache", cache)
    after = open(cache).read()
    assert after.startswith(before + good[:20] + "\n") and len(after) > len(before) + 100, after
    assert "would" in run("hypatiac", model, "-o", cache, *QUICK, "--cache", cache, code=2)[1] and open(cache).read() == after
    assert "cannot read" in run("hypatiac", model, "-o", plan, *QUICK, "--cache", os.path.dirname(cache), code=1)[1]
    run("hypatiac", model, "-o", plan, *QUICK, "--cache", "/dev/zero")  # it has no end, and no lines


def check_full_disk(model, plan):
    told = run("hypatiac", model, "-o", plan, *QUICK, "--cache", "/dev/full", code=1)[1]
    assert "/dev/full: cannot write" in told, told


def check_writers(model, plan, cache, line):
    """One that writes waits until another has written its line."""
    text = json.dumps(dict(line, device="abacus"))
    with open(cache, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(text[:40])
        file.flush()
        command = [os.path.join(hyp.BIN, "hypatiac"), model, "-o", plan, "-q", *QUICK, "--cache", cache]
        writer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            writer.wait(1)  # is it as far as that? where it is not, there is nothing to wait for
        except subprocess.TimeoutExpired:
            pass
        file.write(text[40:] + "\n")
    told = writer.communicate()[1]
    assert writer.returncode == 0, told
    lines = lines_of(cache)
    assert len(lines) > 1 and lines[0] == json.loads(text), lines


def main():
    with tempfile.TemporaryDirectory() as folder:
        model, twin, plan, cache = (os.path.join(folder, n) for n in ("m.onnx", "t.onnx", "p.bin", "c.jsonl"))
        write_model(model, "", 512, 1)
        write_model(twin, "other.", 512, 2)
        lines = check_remembering(model, twin, plan, cache)
        check_believing(model, plan, cache, lines)
        check_wholes(folder)
        check_broken_lines(model, plan, cache, lines)
        check_full_disk(model, plan)
        check_writers(model, plan, cache, lines[0])
        assert "leave out one of" in run("hypatiac", model, "-o", plan, "--timed", "--no-rewrite", code=2)[1]
        assert "--tune-dim is for --tune" in run("hypatiac", model, "-o", plan, "--tune-dim", "batch=3", code=2)[1]


main()
