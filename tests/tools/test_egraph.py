"""hypatia-egraph as its users call it: both commands, their formats, and what they refuse."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

from replay_proof import read_rules, replay

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import hyp  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOL = os.path.join(os.environ.get("HYP_BIN", os.path.join(ROOT, "build/dev/bin")), "hypatia-egraph")
RULES = "comm\t(+ ?a ?b)\t(+ ?b ?a)\t\nassoc\t(+ ?a (+ ?b ?c))\t(+ (+ ?a ?b) ?c)\t\n"


def run(*command, code=0):
    done = subprocess.run([TOOL, *map(str, command)], capture_output=True, text=True, errors="replace")
    assert done.returncode == code, f"{command}: exit code {done.returncode}\n{done.stderr}{done.stdout}"
    return done.stdout if code == 0 else done.stderr


def refuse(proof, rules, a, b):
    try:
        replay(proof, read_rules(rules), a, b)
    except AssertionError:
        return
    raise AssertionError("a wrong proof was believed")


def check_multi(folder):
    """Multi-patterns, sequences and rules in both directions, replayed from their text."""
    rules, terms = os.path.join(folder, "m.rules"), os.path.join(folder, "m.terms")
    text = ("; several roots\n(rule sincos (multi (?s = (sin ?x)) (?c = (cos ?x)))\n"
            "  => (union ?s (first (sincos ?x))) (union ?c (second (sincos ?x))))\n"
            "(rule flat (block ?a... (block ?b...)) => (block ?a... ?b...))\n(birule turn (+ ?a ?b) <=> (plus ?b ?a))\n")
    a = '(block (sin (plus 1 "two words")) (block (cos (+ "two words" 1))))'
    b = '(block (first (sincos (+ "two words" 1))) (second (sincos (plus 1 "two words"))))'
    open(rules, "w").write(text)
    open(terms, "w").write(a + "\n")
    proof = json.loads(run("saturate", "--rules", rules, "--terms", terms, "--explain", a, b, "--json"))["shared_proof"]
    used = {lemma.get("rule") for lemma in proof["lemmas"]}
    assert {"sincos", "flat"} <= used and used & {"turn", "turn-rev"}, used
    replay(proof, read_rules(text), a, b)
    for i, lemma in enumerate(proof["lemmas"]):
        for spoil in ({"rule": "flat" if lemma.get("rule") == "sincos" else "sincos"}, {"to": lemma["from"]},
                      {"uses": lemma["uses"][:-1]}):
            spoilt = json.loads(json.dumps(proof))
            spoilt["lemmas"][i].update(spoil)
            if spoilt["lemmas"][i] != lemma and (lemma["kind"] == "rule" or "rule" not in spoil):
                refuse(spoilt, text, a, b)


def check_long(folder):
    """A proof that would have 2^40 steps as a list."""
    rules, terms = os.path.join(folder, "l.rules"), os.path.join(folder, "l.terms")
    text = "".join(f"{op}\t({op} (s ?a))\t(d ({op} ?a) ({op} ?a))\t\n{op}0\t({op} z)\tc\t\n" for op in "fg")
    a, b = (f"({op} {'(s ' * 40}z{')' * 40})" for op in "fg")
    open(rules, "w").write(text)
    open(terms, "w").write(f"{a}\n{b}\n")
    base = ["saturate", "--rules", rules, "--terms", terms, "--iters", 50, "--explain", a, b]
    report = json.loads(run(*base, "--json"))
    assert report["checked"] and report["proof"] is None and len(report["shared_proof"]["lemmas"]) < 400
    replay(report["shared_proof"], read_rules(text), a, b)
    said = run(*base)
    assert "\nlet t" in said and " by rule f0\n" in said and said.splitlines()[-1].startswith("checked: "), said


def check_hostile(folder):
    """Files that are wrong in any way are refused by name, and what is printed as JSON is JSON."""
    rules, terms, dump = (os.path.join(folder, name) for name in ("h.rules", "h.terms", "h.json"))
    base = ["saturate", "--rules", rules, "--terms", terms]

    def write(path, data):
        with open(path, "wb") as file:
            file.write(data)

    good = RULES.encode()
    for data, word in [(b"a\0b", "NUL"), (b"(+ 1 2)\n(+ \xff 2)\n", "line 2"), (b'(+ "\xc3" 2)\n', "UTF-8"),
                       (b"(f " * 100000, "line 1: term:1:299998: this '(' is never closed"), (b"(f a))", "closes nothing")]:
        write(rules, good)
        write(terms, data)
        assert word in run(*base, "--json", code=1), data[:20]
    write(rules, good)
    write(terms, b"(f " * 100000 + b"a" + b")" * 100000)  # however deep
    assert json.loads(run(*base, "--extract", "tree", "--json"))["best"][0]["tree_cost"] == 100001
    write(terms, b"(+ 1 2)\n")
    for data, word in [(b"co\xffmm\t(+ ?a ?b)\t(+ ?b ?a)\t\n", "h.rules:1:3: this is not UTF-8"), (b"a\0b", "NUL"),
                       (b"x\t?a\t(+ ?a ?a)\t\n", "alone"), (b"((((", "h.rules:1:4"), (b"()", "a rule is"),
                       (good + good, "already"),
                       (b"x\tf\t(f %s)\t\n" % b" ".join(b"?a%d" % i for i in range(70000)), "not bound"),
                       (b"x\t(f %s)\tf\t\n" % b" ".join(b"?a%d" % i for i in range(70000)), "1024 variables")]:
        write(rules, data)
        assert word in run(*base, "--json", code=1), data[:20]
    write(rules, b"")
    write(terms, b"")
    assert json.loads(run(*base, "--json"))["e_nodes"] == 0
    # Two children that are one class: the term of the e-graph is small, its text has 2^62 leaves.
    write(rules, b"(rule split (f (s (w (w (w ?a))))) => (d (f ?a) (f ?a)))\n")
    write(terms, b"(f " + b"(s (w (w (w " * 62 + b"a" + b"))))" * 62 + b")\n")
    best = json.loads(run(*base, "--iters", 100, "--extract", "dag", "--json"))["best"][0]
    assert best["term"] is None and best["dag_cost"] == 64 and best["tree_cost"] > 2**62, best
    for data, word in [(b'{"nodes":{"a\xff":{"op":"a","eclass":"c"}}}', ":1:13: this is not UTF-8"),
                       (b'{"nodes":{"a":{"op":"a","eclass":"c"},"a":{"op":"b","eclass":"c"}}}', "same id"),
                       (b"[" * 1000000, "expected '{'"), (b'{"a":' * 100000, "deeply"), (b"", "expected '{'")]:
        write(dump, data)
        assert word in run("extract", dump, "--json", code=1), data[:20]
    loop = b'{"nodes":{"a":{"op":"f","eclass":"c","children":["a"]}},"root_eclasses":["c"]}'
    write(dump, loop)
    for method in ("tree", "dag", "exact"):
        assert "finite" in run("extract", dump, "--method", method, "--json", code=3)
    # Terms nested deep take no stack.
    deep = {f"n{i}": {"op": "f", "eclass": f"c{i}", "children": [f"n{i + 1}"] if i < 200000 else []}
            for i in range(200001)}
    json.dump({"nodes": deep, "root_eclasses": ["c0"]}, open(dump, "w"))
    assert json.loads(run("extract", dump, "--method", "dag", "--json"))["dag_cost"] == 200001
    with open("/dev/full", "w") as full:
        assert subprocess.run([TOOL, "--help"], stdout=full, stderr=subprocess.DEVNULL).returncode == 1


def check_saturate(folder):
    rules, terms = os.path.join(folder, "r.rules"), os.path.join(folder, "t.terms")
    open(rules, "w").write(RULES)
    open(terms, "w").write("; sums\n(+ 1 (+ 2 (+ 3 (+ 4 (+ 5 (+ 6 7))))))  ; seven\n\n(f \";\")\n")
    base = ["saturate", "--rules", rules, "--terms", terms]
    report = json.loads(run(*base, "--json"))
    n = 7
    assert (report["e_nodes"], report["e_classes"]) == (3**n - 2**(n + 1) + 1 + n + 2, 2**n - 1 + 2), report
    assert report["stop_reason"] == "saturated" and 0 < report["peak_bytes"] <= report["max_bytes"] and report["seconds"] > 0
    assert [i["e_nodes"] for i in report["iterations"]][-1] == report["e_nodes"]
    assert [r["name"] for r in report["rules"]] == ["comm", "assoc"]
    report = json.loads(run(*base, "--nodes", 100, "--json"))
    assert report["e_nodes"] <= 100 and report["stop_reason"] == "node limit", report
    report = json.loads(run(*base, "--matches", 50, "--json"))
    assert report["matches"] == 50 and report["stop_reason"] == "match limit", report
    report = json.loads(run(*base, "--bytes", 100000, "--json"))
    assert report["peak_bytes"] <= 100000 and report["stop_reason"] == "memory limit", report
    report = json.loads(run(*base, "--iters", 2, "--scheduler", "backoff", "--json"))
    assert report["stop_reason"] == "iteration limit" and len(report["iterations"]) == 2

    a, b = "(+ 1 (+ 2 3))", "(+ 3 (+ 2 1))"
    report = json.loads(run(*base, "--explain", a, b, "--json"))
    proof = report["proof"]
    assert report["checked"] is True
    assert proof[0]["term"] == a and proof[-1]["term"] == b and {s["rule"] for s in proof[1:]} <= {"comm", "assoc"}
    replay(report["shared_proof"], read_rules(RULES), a, b)
    spoilt = json.loads(json.dumps(report["shared_proof"]))
    spoilt["claim"][:2] = reversed(spoilt["claim"][:2])
    refuse(spoilt, RULES, a, b)
    text = run(*base, "--explain", a, b)
    assert "comm" in text and text.endswith(f"checked: {len(proof) - 1} steps\n"), text
    run(*base, "--explain", a, "(+ 1 2)", code=4)
    best = json.loads(run(*base, "--extract", "tree", "--json"))["best"]
    assert [x["tree_cost"] for x in best] == [13, 2] and best[1]["term"] == '(f ";")', best

    dump, dot = os.path.join(folder, "g.json"), os.path.join(folder, "g.dot")
    run(*base, "--dump-json", dump, "--dot", dot, "--dot-nodes", 20)
    graph = json.load(open(dump))
    assert len(graph["nodes"]) == 3**n - 2**(n + 1) + 1 + n + 2 and len(graph["root_eclasses"]) == 2
    first = open(dump).read()
    run(*base, "--dump-json", dump)
    assert open(dump).read() == first, "two dumps differ"
    assert "label=\"20 of " in open(dot).read()
    assert run(*base, "--dump-json", "-") == first and run(*base, "--dot", "-").startswith("digraph")
    return dump


def check_language(folder):
    """Conditions, declared operators, costs, terms on several lines."""
    rules, terms, costs = (os.path.join(folder, name) for name in ("c.rules", "c.terms", "c.costs"))
    base = ["saturate", "--rules", rules, "--terms", terms]
    open(terms, "w").write("""; several lines
(+ (/ x
      x)   ; (a comment
   (* 2 y)) (/ 0 0)
(/ 3 4.5)\t(/ "4" 3) z
(/ 2.5 2.5)""")
    open(rules, "w").write("""(operators E (/ E E) (* E E) (+ E E) (<< E E)) (literals E int float name)
(rule one (/ ?a ?a) => 1 :if (not (zero ?a)))
(rule swap (* ?a ?b) => (* ?b ?a))
(rule shift (* ?a 2) => (<< ?a 1) :if (symbol ?a))
(rule least (/ ?a ?b) => 0 :if (less ?a ?b))
(rule whole (/ ?a ?b) => (/ ?b ?a) :if (and (integer ?a ?b) (number ?a) (not (same ?a ?b))))""")
    report = json.loads(run(*base, "--extract", "tree", "--cost", "<<=0.5", "--cost", "*=4", "--json"))
    assert [b["term"] for b in report["best"]] == ["(+ 1 (<< y 1))", "(/ 0 0)", "0", "0", "z", "1"], report["best"]
    assert [b["tree_cost"] for b in report["best"]] == [4.5, 3, 1, 1, 1, 1], report["best"]
    a = "(+ (/ x x) (* 2 y))"
    proof = json.loads(run(*base, "--explain", a, "(+ 1 (<< y 1))", "--json"))
    assert proof["checked"] and {step["rule"] for step in proof["proof"][1:]} == {"one", "swap", "shift"}, proof
    open(costs, "w").write("; of a machine\n<< 3 ; a shift\n\n  *\t0.25\r\n+ 1\n* 0.5\nx inf\n")
    best = json.loads(run(*base, "--extract", "dag", "--costs", costs, "--cost", "y=0.125", "--json"))["best"][0]
    assert best["term"] in ("(+ 1 (* 2 y))", "(+ 1 (* y 2))") and best["dag_cost"] == 1 + 1 + 0.5 + 1 + 0.125, best
    for text, word in [("a nan\n", "line 1"), ("a 1\n* two\n", "line 2"), ("*\n", "line 1"), ("* -1\n", "at least 0")]:
        open(costs, "w").write(text)
        said = run(*base, "--extract", "dag", "--costs", costs, code=2 if "-1" in text else 1)
        assert word in said and "cost" in said, said
    best = json.loads(run(*base, "--extract", "exact", "--costs", costs, "--json"))["best"][0]
    assert best["dag_cost"] == 1 + 1 - 1 + 2 and "(* " in best["term"], best
    open(terms, "w").write("(* 1 2)\n\n(/ 1\n 2 3)")
    said = run(*base, code=1)
    assert "c.terms, line 3: '/' takes (E E), not (E E E)" in said, said
    open(terms, "w").write("(pluss 1 2)")
    assert "'pluss' is not declared" in run(*base, code=1)


def check_parts(folder):
    """A part of the e-graph, as text and drawn."""
    rules, terms, dot, svg = (os.path.join(folder, name) for name in ("p.rules", "p.terms", "p.dot", "p.svg"))
    open(rules, "w").write(RULES)
    open(terms, "w").write("(f (g (h (+ 1 2))))\n(f other)")
    base = ["saturate", "--rules", rules, "--terms", terms, "--around", "(+ 2 1)"]

    def operators(*more):
        return {node["op"] for node in json.loads(run(*base, "--dump-json", "-", *more))["nodes"].values()}

    assert operators("--depth", 1) == {"+", "1", "2", "h"} and operators() == {"+", "1", "2", "h", "g"}
    assert operators("--depth", 9) == {"+", "1", "2", "h", "g", "f"}
    run(*base, "--depth", 1, "--extract", "dag", "--dot", dot)
    drawn = open(dot).read()
    assert drawn.count("style=bold") == 4 and '"g"' not in drawn, drawn
    assert "not in the e-graph" in run("saturate", "--rules", rules, "--terms", terms, "--around", "(+ 2 3)", "--dot", "-", code=1)
    if shutil.which("dot"):
        run(*base, "--svg", svg)
        assert "<svg" in open(svg).read()
    else:
        assert "--dot FILE needs none" in run(*base, "--svg", svg, code=1)


def check_interrupt(folder):
    """Ctrl-C ends the run, and what was found until then is printed; a terminal is told how far it is."""
    rules, terms = os.path.join(folder, "i.rules"), os.path.join(folder, "i.terms")
    open(rules, "w").write(RULES + "cancel\t(+ 0 ?a)\t?a\t\n")  # the first iteration finds the best
    open(terms, "w").write("(+ 0 " + "".join(f"(+ {i} " for i in range(1, 40)) + "40" + ")" * 40)
    main, other = os.openpty()
    with subprocess.Popen([TOOL, "saturate", "--rules", rules, "--terms", terms, "--iters", "1000000", "--nodes", "3000000",
                           "--extract", "tree", "--json"], stdout=subprocess.PIPE, stderr=other, text=True,
                          env=dict(os.environ, HYPATIA_PROGRESS="0", TERM="xterm")) as tool:
        os.close(other)
        told = b""
        while b"iteration" not in told:
            told += os.read(main, 65536)
        tool.send_signal(signal.SIGINT)
        out = tool.stdout.read()
        assert tool.wait() == 130, tool.returncode
    told += hyp.read_terminal(main)
    report = json.loads(out)
    assert report["stop_reason"] == "cancelled" and report["best"][0]["tree_cost"] == 79, report["best"]
    assert b"e-nodes" in told, told


def check_extract(folder, dump):
    costs = {}
    for method in ("tree", "dag", "exact"):
        result = json.loads(run("extract", dump, "--method", method, "--budget", 0.2, "--json", "--choice"))
        assert result["micros"] > 0 and result["dag_cost"] <= result["tree_cost"]
        costs[method] = result
    assert costs["tree"]["tree_cost"] == 15 and costs["tree"]["proven"]
    assert costs["exact"]["lower_bound"] <= costs["exact"]["dag_cost"] == costs["dag"]["dag_cost"] == 15

    # Each child is cheapest by itself as `own`, but both can share `big`.
    shared = os.path.join(folder, "shared.json")
    nodes = {"root": ("r", ["a1", "b1"], 1), "a1": ("a", [], 3), "a2": ("a", ["big"], 0), "b1": ("b", [], 3),
             "b2": ("b", ["big"], 0), "big": ("g", [], 4)}
    json.dump({"nodes": {name: {"op": name, "eclass": c, "children": kids, "cost": cost}
                         for name, (c, kids, cost) in nodes.items()}, "root_eclasses": ["r"]}, open(shared, "w"))
    assert json.loads(run("extract", shared, "--method", "tree", "--json"))["dag_cost"] == 7
    result = json.loads(run("extract", shared, "--method", "exact", "--json", "--choice"))
    assert result["proven"] and result["lower_bound"] == result["dag_cost"] == 5 and result["tree_cost"] == 9, result
    assert result["choice"] == {"r": "root", "a": "a2", "b": "b2", "g": "big"}, result
    assert "proven" in run("extract", shared, "--method=exact", "--budget", "0.5")

    bad = os.path.join(folder, "bad.json")
    open(bad, "w").write('{"nodes": {\n"a": 1}}')
    assert "bad.json:2:6" in run("extract", bad, code=1)
    open(bad, "w").write('{"nodes": {"a": {"op": "a", "eclass": "c", "cost": -1}}, "root_eclasses": ["c"]}')
    assert "negative" in run("extract", bad, code=3)
    result = json.loads(run("extract", bad, "--method", "exact", "--json"))
    assert result["dag_cost"] == result["lower_bound"] == -1 and result["proven"], result
    run("extract", os.path.join(folder, "missing.json"), code=1)


def check_usage(folder):
    assert "saturate" in run("--help") and "hypatia-egraph 0." in run("--version")
    assert "--budget" in run("extract", "--help") and "--scheduler" in run("saturate", "--help")
    for wrong in ([], ["extrct"], ["extract"], ["extract", "a", "b"], ["extract", "a", "--method", "dga"],
                  ["extract", "a", "--budget", "0"], ["saturate"], ["saturate", "--iters", "-1"],
                  ["saturate", "--explain", "a"], ["saturate", "--rules=a", "--terms=b", "--dump-json=-", "--json"],
                  ["saturate", "--scheduler", "none"], ["saturate", "--rules=a", "--terms=b", "--cost", "a=none", "--extract=dag"],
                  ["saturate", "--rules=a", "--terms=b", "--cost", "=1"], ["saturate", "--rules=a", "--terms=b", "--costs=c"],
                  ["saturate", "--rules=a", "--terms=b", "--depth=1", "--dot=c"], ["saturate", "--rules=a", "--terms=b", "--around=c"],
                  ["saturate", "--rules=a", "--terms=b", "--svg=a"]):
        run(*wrong, code=2)
    assert "did you mean 'dag'" in run("extract", "a", "--method", "dga", code=2)
    run("saturate", "--rules", folder, "--terms", folder, code=1)
    rules, terms = os.path.join(folder, "r.rules"), os.path.join(folder, "bad.terms")
    open(terms, "w").write("(+ 1 2)\n\n; a comment\n(+ 1\n")
    assert "bad.terms, line 4: term:1:1" in run("saturate", "--rules", rules, "--terms", terms, code=1)


if __name__ == "__main__":
    if not os.path.exists(TOOL):
        print(f"skipped: there is no {TOOL}")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as temp:
        check_extract(temp, check_saturate(temp))
        check_usage(temp)
        check_language(temp)
        check_parts(temp)
        check_interrupt(temp)
        check_multi(temp)
        check_long(temp)
        check_hostile(temp)
    print("hypatia-egraph: all is as documented")
