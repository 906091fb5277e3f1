"""hypatia diff: what it finds between plans of which it is known in what they differ, in words and as JSON; and hypatiac
--compare-rules, which makes such plans."""
import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import hyp  # noqa: E402

onnx, np = hyp.need("onnx", "numpy")
from onnx import numpy_helper  # noqa: E402

MODEL = os.path.join(hyp.ROOT, "examples/digits/digits.onnx")


def run(*command, code=0):
    done = hyp.tool(*command)
    assert done.returncode == code, f"{command}: exit code {done.returncode}\n{done.stderr}{done.stdout}"
    return done.stdout


def diff(a, b, code=1):
    """As JSON, which says the same in both directions, and as the words say."""
    found = json.loads(run("hypatia", "diff", a, b, "--json", code=code))
    back = json.loads(run("hypatia", "diff", b, a, "--json", code=code))
    assert found["same"] == back["same"] == (code == 0)
    assert found["a"] == a and found["b"] == b
    for part in ("symbols", "inputs", "outputs", "variables", "updatable", "weight_list", "tuned", "steps"):
        for one, other in (("only_a", "only_b"), ("only_b", "only_a")):
            names = [[s["label"], s["sources"]] if part == "steps" else s for s in found[part][one]]
            assert names == [[s["label"], s["sources"]] if part == "steps" else s for s in back[part][other]], part
        assert len(found[part]["changed"]) == len(back[part]["changed"]), part
    for x, y in zip(found["plan"], back["plan"]):
        assert (x["name"], x["a"], x["b"]) == (y["name"], y["b"], y["a"])
    words = run("hypatia", "diff", a, b, code=code)
    assert (words == "the same\n") == (code == 0), words
    return found, words


def table(*sets):
    """The numbers of --compare-rules by name, the rules whose use differs, and what is said of the plans."""
    text = run("hypatiac", MODEL, "--compare-rules", *sets)
    head, plans = text.split("\nthe plans, of A and of B:\n")
    assert head.startswith(f"A: {sets[0]}\nB: {sets[1]}\n")
    rows = re.findall(r"^(\S[a-z, -]*?) +([0-9.e+-]+) +([0-9.e+-]+)(?: |$)", head, re.M)
    rules = re.findall(r"^  (\S+) +(\d+) +(\d+)$", head, re.M)
    return {name: (float(a), float(b)) for name, a, b in rows}, {n: (int(a), int(b)) for n, a, b in rules}, plans


def check_compared_rules(folder):
    """Two sets of rules make of a model what compilations with them make of it."""
    rows, rules, plans = table("builtin", "builtin")
    assert plans == "the same\n" and not rules
    assert all(a == b for name, (a, b) in rows.items() if name != "compilation"), rows
    rows, rules, plans = table("none", "builtin")
    assert rows["predicted"][0] > rows["predicted"][1] and rows["steps"][0] > rows["steps"][1] and rows["e-nodes"][0] == 0
    assert all(a == 0 < b for a, b in rules.values()) and "matmul-linear" in rules and "+ fused-mlp" in plans
    back, back_rules, _ = table("builtin", "none")
    assert {k: v for k, v in back.items() if k != "compilation"} == \
        {k: v[::-1] for k, v in rows.items() if k != "compilation"}
    assert back_rules == {k: v[::-1] for k, v in rules.items()}
    mine = os.path.join(folder, "my.rules")
    with open(mine, "w", encoding="utf-8") as file:
        file.write('(rule mine :class E (relu (relu ?x)) => (relu ?x))\n')
    assert table("builtin", "builtin," + mine)[2] == "the same\n"
    rows, _, _ = table(mine, "normalize,linear")
    assert rows["steps"][0] >= rows["steps"][1]
    for sets in (["builtin"], ["builtin", "no-such-set"], ["builtin", "builtin", "-o", os.path.join(folder, "x.bin")],
                 ["builtin", "builtin", "--emit-onnx", os.path.join(folder, "x.onnx")]):
        run("hypatiac", MODEL, "--compare-rules", *sets, code=2)


def main():
    with tempfile.TemporaryDirectory() as folder:
        def plan(name, *options, model=MODEL):
            path = os.path.join(folder, name)
            run("hypatiac", model, "-o", path, "-q", "--no-record", *options)
            return path

        first, again = plan("a.bin"), plan("b.bin")
        diff(first, again, code=0)

        found, words = diff(first, plan("b.bin", "--typical", "batch=4"))
        assert [f["name"] for f in found["plan"]] == ["flags", "predicted_seconds"], found["plan"]
        assert found["symbols"]["changed"] == [{"name": "batch", "fields": [{"name": "typical", "a": 32, "b": 4}]}]
        assert not found["weight_list"]["changed"] and not found["steps"]["only_a"]
        assert "+ --typical=batch=4" in words and "typical: 32 -> 4" in words

        found, _ = diff(first, plan("b.bin", "--dim", "batch=3"))
        assert found["symbols"]["only_a"] == ["batch"] and found["symbols"]["only_b"] == []
        assert {t["name"]: t["fields"] for t in found["inputs"]["changed"]} == {
            "image": [{"name": "dims", "a": ["batch", 64], "b": [3, 64]}]}

        found, words = diff(first, plan("b.bin", "--no-rewrite"))
        assert [s["label"] for s in found["steps"]["only_a"]] == ["fused-mlp"]
        assert len(found["steps"]["only_b"]) > 4 and "- fused-mlp" in words
        assert [s["label"] for s in found["steps"]["changed"]] in ([], ["softmax"])

        # One element of one weight: nothing else but what follows from the model's bytes.
        model = onnx.load(MODEL)
        weight = next(i for i in model.graph.initializer if len(i.dims) == 2)
        values = numpy_helper.to_array(weight).copy()
        values[0, 0] += 1
        weight.CopyFrom(numpy_helper.from_array(values, weight.name))
        changed = os.path.join(folder, "changed.onnx")
        onnx.save(model, changed)
        found, words = diff(first, plan("b.bin", model=changed))
        assert {f["name"] for f in found["plan"]} <= {"model_hash", "file_bytes"}, found["plan"]
        assert [[f["name"] for f in w["fields"]] for w in found["weight_list"]["changed"]] == [["hash"]]
        assert found["weight_list"]["changed"][0]["name"] in words
        assert not any(found["steps"].values()), found["steps"]

        run("hypatia", "diff", first, code=2)
        run("hypatia", "diff", first, again, again, code=2)
        run("hypatia", "diff", first, MODEL, code=2)
        run("hypatia", "diff", first, os.path.join(folder, "none.bin"), code=2)
        check_compared_rules(folder)
    print("plans compared")


if __name__ == "__main__":
    main()
