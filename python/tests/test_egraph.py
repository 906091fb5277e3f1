"""E-graphs: the examples of differentiation and of the lambda calculus, whose analyses, conditions and functions are
Python's, and what a program may do wrong."""

import gc
import json
import math
import os
import sys
import threading
import weakref

import pytest
from conftest import ROOT

import hypatia

sys.path.append(os.path.join(ROOT, "examples/python"))
import egraph_lambda  # noqa: E402
import egraph_math  # noqa: E402
from hypatia.egraph import EGraph, Refuse, Repeat, Run, Saturate, Then

SHIFTS = """
(rule mul-two   (* ?a 2) => (<< ?a 1))
(rule div-assoc (/ (* ?a ?b) ?c) => (* ?a (/ ?b ?c)))
(rule div-same  (/ ?a ?a) => 1)
(rule mul-one   (* ?a 1) => ?a)
"""


def test_egg():
    eg = EGraph(explain=True)
    rules = eg.rules(SHIFTS)
    c = eg.add("(/ (* a 2) 2)")
    assert eg.add(("/", ("*", "a", 2), 2)) == c
    report = eg.run(rules)
    assert report.stop == "saturated" and len(eg) == report.e_nodes and eg.class_count == report.e_classes
    assert {r.name: r.applications for r in report.rules}["mul-one"] == 1
    best = eg.extract(c)
    assert best.term == "a" and best.tree_cost == 1
    assert eg.equal("(/ (* a 2) 2)", "a") and not eg.equal("a", "2")
    proof = eg.explain("(/ (* a 2) 2)", "a")
    assert [s.rule for s in proof][0] is None and proof.steps[-1].term == "a" and len(proof) == 3
    proof.check(rules)
    with pytest.raises(hypatia.MismatchError):
        proof.check(eg.rules("(rule other (* ?a 1) => ?a)"))
    with pytest.raises(hypatia.MismatchError):
        eg.explain("a", "2")
    eg.check()


@pytest.mark.parametrize("function, derivative, cost", egraph_math.PROBLEMS)
def test_math(function, derivative, cost):
    eg, rules, root, best = egraph_math.solve(function)
    assert best.tree_cost == cost and eg.equal(root, derivative)
    assert eg.extract(root, {"d": math.inf, "+": 2, "*": 4, "": 1}).tree_cost < math.inf
    eg.explain(f"(d x {function})", best.term).check(rules)


@pytest.mark.parametrize("program, result", egraph_lambda.PROGRAMS)
def test_lambda(program, result):
    eg, root, best = egraph_lambda.reduce(program)
    assert eg.equal(root, result) and len(best.term) == len(result)
    eg.check()


def test_schedules_and_reports():
    eg = EGraph()
    up, down = eg.rules("(rule up (f ?x) => (g (f ?x)))", "up"), eg.rules("(rule down (g ?x) => (h ?x))", "down")
    eg.add("(f a)")
    report = eg.run(Then(Run(up, 2), Saturate(Run(down))))
    assert [r.name for r in report.rules] == ["up", "down"] and report.rules[0].applications > 0
    seen = []
    report = eg.run(Repeat(Run(up), Run(down), times=3), on_iteration=seen.append, max_nodes=1000)
    assert len(seen) == len(report.iterations) and seen[-1].e_nodes == report.e_nodes
    with pytest.raises(hypatia.InvalidArgumentError):
        EGraph().run(up)
    up.enable("up", False)
    with pytest.raises(KeyError):
        up.enable("none")


def test_matches_nodes_and_files():
    eg = EGraph()
    c = eg.add("(+ (f a) (f b))")
    found = eg.match("(f ?x)")
    assert sorted(eg.nodes(m.variables["?x"])[0].op for m in found) == ["a", "b"]
    (node,) = eg.nodes(c)
    assert node.op == "+" and node.children == tuple(eg.lookup("f", [eg.lookup(x, [])]) for x in "ab")
    assert eg.lookup("nothing", []) is None and sorted(eg.classes()) == sorted({eg.find(x) for x in eg.classes()})
    assert len(json.loads(eg.to_json([c]))["nodes"]) == 5 and "digraph" in eg.to_dot()
    eg.push()
    eg.union(eg.add("a"), eg.add("b"))
    eg.rebuild()
    assert eg.class_count == 3 and len(eg.nodes(c)) == 1
    eg.pop()
    assert eg.class_count == 5


def test_extraction_of_several():
    eg = EGraph()
    a, b = eg.add("(f x)"), eg.add("(g (f x))")
    both = eg.extract([a, b], method="exact")
    assert both.terms == ["(f x)", "(g (f x))"] and both.dag_cost == 3 and both.tree_cost == 5 and both.proven
    with pytest.raises(ValueError):
        both.term
    with pytest.raises(ValueError):
        eg.extract(a, method="best")
    with pytest.raises(hypatia.UnsupportedError):
        eg.extract(a, {"x": math.inf})
    with pytest.raises(hypatia.Error):
        eg.extract(a, {"x": -1})
    with pytest.raises(ZeroDivisionError):
        eg.extract(a, lambda op, children: 1 / 0)


def test_mistakes():
    eg = EGraph()
    with pytest.raises(hypatia.MalformedError, match="here:1:"):
        eg.rules("(rule a (f ?x) => ?y)", "here")
    with pytest.raises(hypatia.MalformedError):
        eg.add("(f")
    for wrong in (10**6, -1, 2**32, 2**70):
        with pytest.raises((IndexError, ValueError, OverflowError)):
            eg.find(wrong)
    with pytest.raises(IndexError):
        eg.add_node("f", [77])
    with pytest.raises(TypeError):
        eg.add(("f", None))
    with pytest.raises(hypatia.InvalidArgumentError):
        eg.pop()


class Picky:
    def make(self, egraph, op, children):
        if op == "bad":
            raise Refuse("there is nothing bad")
        if op == "worse":
            raise KeyError("worse")
        return None

    def merge(self, a, b):
        return a


def test_callbacks_that_fail():
    eg = EGraph(Picky())
    rules = eg.rules("(rule refuse (f ?x) => (bad ?x)) (rule fine (f ?x) => (g ?x))")
    eg.add("(f a)")
    report = eg.run(rules)
    refused = {r.name: r for r in report.rules}["refuse"]
    assert refused.refused == 1 and "nothing bad" in refused.refusal and eg.lookup("g", [eg.add("a")]) is not None
    with pytest.raises(KeyError, match="worse"):
        eg.add("(worse a)")
    with pytest.raises(KeyError, match="worse"):
        eg.run(eg.rules("(rule worse (g ?x) => (worse ?x))"))
    eg.check()

    eg = EGraph()
    eg.condition("fails", lambda eg, c: 1 / 0, 1)
    eg.function("nowhere", lambda eg, c: 12345, 1)
    eg.function("text", lambda eg, c: "text", 1)
    eg.function("never", lambda eg, c: None, 1)
    eg.add("(f a)")
    for text, wrong in (
        ("(rule r (f ?x) => ?x :if (fails ?x))", ZeroDivisionError),
        ("(rule r (f ?x) => (nowhere ?x))", IndexError),
        ("(rule r (f ?x) => (text ?x))", TypeError),
    ):
        with pytest.raises(wrong):
            eg.run(eg.rules(text))
    assert eg.run(eg.rules("(rule r (f ?x) => (never ?x))")).rules[0].applications == 0
    eg.check()


@pytest.mark.parametrize(
    "deed",
    [
        lambda eg: eg.rebuild(),
        lambda eg: eg.push(),
        lambda eg: eg.pop(),
        lambda eg: eg.add("b"),
        lambda eg: eg.rules("(rule a a => b)"),
        lambda eg: eg.union(0, 0),
        lambda eg: eg.extract(0),
        lambda eg: eg.run(eg.rules("(rule a a => b)")),
        lambda eg: eg.match("?x"),
        lambda eg: eg.explain("a", "a"),
        lambda eg: eg.condition("n", print),
        lambda eg: eg.to_json(),
        lambda eg: eg.check(),
    ],
)
def test_what_a_callback_may_not_do(deed):
    eg = EGraph()
    eg.add("(f a)")

    def tries(eg, c):
        with pytest.raises(hypatia.InvalidArgumentError, match="called by the e-graph"):
            deed(eg)
        return eg.find(c) == c and len(eg.nodes(c)) == 1

    eg.condition("tries", tries, 1)
    report = eg.run(eg.rules("(rule r (f ?x) => (g ?x) :if (tries ?x))"))
    assert report.rules[0].applications == 1
    eg.check()


def test_another_thread():
    eg = EGraph()
    eg.add("(f a)")
    said = []

    def use():
        try:
            eg.add("b")
        except hypatia.InvalidArgumentError as error:
            said.append(str(error))

    def asks(eg, c):
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        return True

    eg.condition("asks", asks, 1)
    eg.run(eg.rules("(rule r (f ?x) => (g ?x) :if (asks ?x))"))
    assert len(said) == 1 and "another thread" in said[0]
    use()
    assert len(said) == 1


def test_rulesets_that_go_meanwhile():
    eg = EGraph()
    eg.add("(f a)")
    eg.condition("drops", lambda eg, c: bool(spare.clear() or gc.collect() >= 0), 1)
    spare = [eg.rules("(rule spare (f ?x) => (h ?x))")]
    assert eg.run(eg.rules("(rule r (f ?x) => (g ?x) :if (drops ?x))")).rules[0].applications == 1
    eg.check()


def test_cycles_are_collected():
    eg = EGraph(egraph_math.Numbers())
    eg.condition("mine", lambda _, c: eg is not None, 1)
    rules = eg.rules("(rule r (f ?x) => (g ?x) :if (mine ?x))")
    eg.add("(f 1)")
    eg.run(rules)
    gone = weakref.ref(eg)
    del eg, rules
    gc.collect()
    assert gone() is None


def test_cancel():
    eg = EGraph()
    eg.add("(f a)")
    rules = eg.rules("(rule grow (f ?x) => (f (g ?x)))")
    eg.cancel()
    assert eg.run(rules).stop == "cancelled"
    assert eg.run(rules, max_nodes=100).stop == "node limit"
    with pytest.raises(KeyboardInterrupt):

        def interrupt(iteration):
            raise KeyboardInterrupt

        eg.run(rules, on_iteration=interrupt)
    eg.check()
