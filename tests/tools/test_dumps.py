"""What hypatiac writes for others to read besides plans and models: rewrites with whole terms, e-graphs."""
import json
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import hyp  # noqa: E402

MODELS = [os.path.join(hyp.ROOT, path) for path in
          ("examples/digits/digits.onnx", "tests/models/torch/bert2-script.onnx", "tests/models/torch/resnet18-dynamo.onnx")]


def run(*command, code=0):
    done = hyp.tool(*command)
    assert done.returncode == code, f"{command}: exit code {done.returncode}\n{done.stderr}{done.stdout}"
    return done.stdout


def check_term(term):
    """Balanced, with nothing left out, and each @number defined once, in front of where it is used. How many there are."""
    assert term.count("(") == term.count(")") and "..." not in term, term
    defined = set()
    for define, used in re.findall(r"\(as (@\d+) |(?<=[ ])(@\d+)(?=[ )]|$)", term):
        assert define not in defined or not define, term
        assert define or used in defined, f"{used} is used before it is defined: {term}"
        defined.add(define or used)
    return len(defined)


def check_full_terms(model):
    shared, longest, plain = 0, 0, None
    for options in ([], ["--full-terms"]):
        text = run("hypatiac", model, "--dry-run", "--dump-rewrites", "-", *options)
        events = [json.loads(line) for line in text.splitlines()]
        if not options:
            plain = events
            continue
        assert len(events) == len(plain)
        for event, short in zip(events, plain):
            for side in ("matched", "result"):
                shared += check_term(event[side])
                longest = max(longest, len(event[side]))
                if "..." not in short[side] and "@" not in event[side]:
                    assert event[side] == short[side]
                elif "(" not in event[side]:
                    assert event[side] == short[side]
            assert {k: v for k, v in event.items() if k not in ("matched", "result")} == \
                {k: v for k, v in short.items() if k not in ("matched", "result")}
    return shared, longest


def check_egraph(model, folder, node):
    """Whole and in part: JSON that hypatia-egraph reads, whose nodes know each other; the drawing; what is refused."""
    def at(name):
        return os.path.join(folder, name)

    def dump(name, *options):
        run("hypatiac", model, "--dry-run", "-q", "--dump-egraph", at(name), *options)
        with open(at(name), encoding="utf-8") as file:
            return json.load(file) if name.endswith(".json") else file.read()

    whole = dump("e.json")
    part = dump("p.json", "--dump-egraph-around", node, "--dump-egraph-depth", "1")
    by_class = dump("q.json", "--dump-egraph-around", "@" + part["root_eclasses"][0], "--dump-egraph-depth", "1")
    for graph in (whole, part, by_class):
        nodes = graph["nodes"]
        assert all(child in nodes for n in nodes.values() for child in n["children"])
        assert all(root in {n["eclass"] for n in nodes.values()} for root in graph["root_eclasses"])
        assert any(n["cost"] for n in nodes.values())
    assert len(part["nodes"]) < len(whole["nodes"])
    assert len(part["root_eclasses"]) > 1 or by_class == part
    inner = {k for k, n in part["nodes"].items() if not n["op"].endswith(" ...")}
    for key in inner & set(whole["nodes"]):
        assert {**part["nodes"][key], "children": 0} == {**whole["nodes"][key], "children": 0}, key
    assert "dag cost" in run("hypatia-egraph", "extract", at("e.json"))
    drawn = dump("e.dot", "--dump-egraph-nodes", "20")
    assert drawn.startswith("digraph") and drawn.count(" [label=\"") == min(20, len(whole["nodes"]))
    assert json.loads(run("hypatiac", model, "--dry-run", "--dump-egraph", "-")) == whole
    if shutil.which("dot"):
        assert "<svg" in dump("e.svg", "--dump-egraph-around", node)
    else:
        done = hyp.tool("hypatiac", model, "--dry-run", "-q", "--dump-egraph", at("e.svg"))
        assert done.returncode == 1 and "Graphviz" in done.stderr, done.stderr
        print("Graphviz is not here: no drawing was made")
    for options in (["--dump-egraph", at("e.txt")], ["--dump-egraph-depth", "1"], ["--dump-egraph", at("e.json"), "--no-rewrite"],
                    ["--dump-egraph", at("e.json"), "--dump-egraph-around", "@123456789"],
                    ["--dump-egraph", at("e.json"), "--dump-egraph-around", "@x"],
                    ["--dump-egraph", at("e.json"), "--dump-egraph-around", "no such node"],
                    ["--dump-egraph", at("e.json"), "--dump-egraph-depth", "-1"]):
        run("hypatiac", model, "--dry-run", *options, code=2)
    run("hypatiac", model, "-o", at("with.bin"), "-q", "--dump-egraph", at("e.json"))
    run("hypatiac", model, "-o", at("without.bin"), "-q")
    with open(at("with.bin"), "rb") as one, open(at("without.bin"), "rb") as other:
        assert one.read() == other.read(), "a dump changes the plan"


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_egraph(MODELS[0], folder, "layer1/MatMul")
        check_egraph(MODELS[2], folder, "node_Conv_294")
    shared, longest = map(max, zip(*[check_full_terms(model) for model in MODELS]))
    assert shared > 10 and longest > 1000, (shared, longest)
    print(f"whole terms of up to {longest} bytes")


if __name__ == "__main__":
    main()
