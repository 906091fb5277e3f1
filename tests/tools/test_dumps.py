"""What the tools write for others to read besides plans and models: rewrites with whole terms, e-graphs, traces."""
import json
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import hyp  # noqa: E402

NANO = 0.001  # microseconds: what times are rounded to
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
    for options in (["--dump-egraph", at("e.txt")], ["--dump-egraph-depth", "1"],
                    ["--dump-egraph", at("e.json"), "--no-rewrite"],
                    ["--dump-egraph", at("e.json"), "--dump-egraph-around", "@123456789"],
                    ["--dump-egraph", at("e.json"), "--dump-egraph-around", "@x"],
                    ["--dump-egraph", at("e.json"), "--dump-egraph-around", "no such node"],
                    ["--dump-egraph", at("e.json"), "--dump-egraph-depth", "-1"]):
        run("hypatiac", model, "--dry-run", *options, code=2)
    run("hypatiac", model, "-o", at("with.bin"), "-q", "--dump-egraph", at("e.json"))
    run("hypatiac", model, "-o", at("without.bin"), "-q")
    with open(at("with.bin"), "rb") as one, open(at("without.bin"), "rb") as other:
        assert one.read() == other.read(), "a dump changes the plan"


def end_of(event):
    return event["ts"] + event["dur"]


def check_nesting(events):
    """On each track an event is inside of another, or they have nothing in common. Gives the children of every event."""
    children = {}
    for track in {e["tid"] for e in events}:
        mine = sorted((e for e in events if e["tid"] == track), key=lambda e: (e["ts"], -e["dur"]))
        open_ones = []
        for e in mine:
            end = e["ts"] + e["dur"]
            while open_ones and end_of(open_ones[-1]) <= e["ts"] + 2 * NANO and end > end_of(open_ones[-1]) + 5 * NANO:
                open_ones.pop()
            if open_ones:
                assert end <= end_of(open_ones[-1]) + 5 * NANO, (open_ones[-1], e)
                children.setdefault(id(open_ones[-1]), []).append(e)
            open_ones.append(e)
    return children


def read_trace(path):
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    assert {e["ph"] for e in events} == {"X", "M"}
    assert all(e["ts"] >= 0 and e["dur"] >= 0 for e in events if e["ph"] == "X")
    return [e for e in events if e["ph"] == "X"]


def total(events):
    return sum(e["dur"] for e in events)


def check_trace(model, folder):
    """Passes are in the compilation, phases in rewriting, iterations in saturations, their parts in them, and all add up."""
    path = os.path.join(folder, "t.json")
    run("hypatiac", model, "-o", os.path.join(folder, "p.bin"), "-q", "--trace", path)
    events = read_trace(path)
    children = check_nesting(events)
    named = {name: [e for e in events if e["name"] == name] for name in ("compile", "rewrite", "saturate", "iteration")}
    (whole,), (rewrite,) = named["compile"], named["rewrite"]
    passes = [e for e in events if e["cat"] == "pass"]
    assert [e["name"] for e in passes] == ["import", "demote", "train", "rewrite", "quantize", "recompute", "lower", "expect",
                                          "write"]
    assert 0 < total(passes) <= whole["dur"] + 1
    assert [e["name"] for e in children[id(rewrite)] if e["cat"] == "phase"] == ["normalize", "recognize", "optimize"]
    for i, iteration in enumerate(events):
        if iteration["cat"] != "iteration":
            continue
        parts = events[i - 3:i]  # which end before it does
        assert all(iteration["ts"] - NANO <= e["ts"] and end_of(e) <= end_of(iteration) + 5 * NANO for e in parts)
        assert [e["name"] for e in parts] == ["search", "apply", "rebuild"]
        assert abs(total(parts) - iteration["dur"]) < 10 * NANO
    assert len(named["iteration"]) > 5
    for iteration in named["iteration"]:
        assert any(s["ts"] - NANO <= iteration["ts"] and end_of(iteration) <= end_of(s) + 5 * NANO
                   for s in named["saturate"])
    events_of_rules = [e for e in events if e["cat"] == "rule"]
    assert total(events_of_rules) <= total(named["saturate"]) + 1
    lines = run("hypatiac", model, "--dry-run", "--dump-rewrites", "-").splitlines()
    applied = {json.loads(line)["rule"] for line in lines}
    assert applied <= {e["name"] for e in events_of_rules if e["args"]["applications"]}
    assert json.loads(run("hypatiac", model, "--dry-run", "--trace", "-"))["traceEvents"]


def check_bench_trace(folder):
    """Every run has every step of the plan, in order, and is as long as they are."""
    path, plan = os.path.join(folder, "b.json"), os.path.join(folder, "p.bin")
    run("hypatia", "bench", plan, "--duration", "0.01", "--warmup", "1", "-q", "--threads", "1", "--device", "cpu", "--trace",
        path)
    events = read_trace(path)
    children = check_nesting(events)
    steps = [s["label"] for s in json.loads(run("hypatia", "inspect", plan, "--json"))["steps"]]
    runs = [e for e in events if e["cat"] == "run"]
    assert len(runs) == 10
    for e in runs:
        assert [c["name"] for c in children[id(e)]] == steps
        assert [c["args"]["step"] for c in children[id(e)]] == list(range(len(steps)))
        assert abs(total(children[id(e)]) - e["dur"]) < 0.01
    run("hypatia", "bench", plan, "--trace", plan, code=2)


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_egraph(MODELS[0], folder, "layer1/MatMul")
        check_egraph(MODELS[2], folder, "node_Conv_294")
        for model in MODELS:
            check_trace(model, folder)
            check_bench_trace(folder)
    shared, longest = map(max, zip(*[check_full_terms(model) for model in MODELS]))
    assert shared > 10 and longest > 1000, (shared, longest)
    print(f"whole terms of up to {longest} bytes")


if __name__ == "__main__":
    main()
