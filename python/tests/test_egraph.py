"""E-graphs: the examples of differentiation and of the lambda calculus (examples/egraph_math, examples/egraph_lambda), whose analyses,
conditions and functions are Python's here, and what a program may do wrong."""

import gc
import json
import math
import threading
import weakref

import pytest

import hypatia
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


MATH = """
(rule add-comm   (+ ?a ?b) => (+ ?b ?a))
(rule mul-comm   (* ?a ?b) => (* ?b ?a))
(rule add-assoc  (+ ?a (+ ?b ?c)) => (+ (+ ?a ?b) ?c) :if (not (number (+ ?b ?c))))
(rule mul-assoc  (* ?a (* ?b ?c)) => (* (* ?a ?b) ?c) :if (not (number (* ?b ?c))))
(rule add-zero   (+ ?a 0) => ?a)
(rule mul-zero   (* ?a 0) => 0)
(rule mul-one    (* ?a 1) => ?a)
(rule double     (+ ?a ?a) => (* 2 ?a))
(rule factor     (+ (* ?a ?b) (* ?a ?c)) => (* ?a (+ ?b ?c)) :if (not (number ?a)))
(rule pow-one    (pow ?a 1) => ?a)
(rule d-number   (d ?x ?n) => 0 :if (number ?n))
(rule d-same     (d ?x ?x) => 1)
(rule d-other    (d ?x ?y) => 0 :if (differ ?x ?y))
(rule d-add      (d ?x (+ ?a ?b)) => (+ (d ?x ?a) (d ?x ?b)))
(rule d-mul      (d ?x (* ?a ?b)) => (+ (* ?a (d ?x ?b)) (* ?b (d ?x ?a))))
(rule d-pow      (d ?x (pow ?a ?n)) => (* (* ?n (pow ?a (+ ?n -1))) (d ?x ?a)) :if (number ?n))
(rule d-sin      (d ?x (sin ?a)) => (* (cos ?a) (d ?x ?a)))
(rule d-cos      (d ?x (cos ?a)) => (* (* -1 (sin ?a)) (d ?x ?a)))
(rule d-exp      (d ?x (exp ?a)) => (* (exp ?a) (d ?x ?a)))
"""


class Arithmetic:
    """The fact of a class: the number that it is, "variable", or None."""

    def make(self, egraph, op, children):
        if not children:
            return int(op) if op.lstrip("-").isdecimal() else "variable"
        facts = [egraph.fact(c) for c in children]
        if op in ("+", "*") and all(isinstance(f, int) for f in facts):
            return facts[0] + facts[1] if op == "+" else facts[0] * facts[1]
        return None

    def merge(self, a, b):
        return max((a, b), key=lambda f: (isinstance(f, int), f is not None))

    def modify(self, egraph, c):
        if isinstance(egraph.fact(c), int):
            egraph.union(c, egraph.add((str(egraph.fact(c)),)), "arithmetic")


@pytest.mark.parametrize("function, derivative, cost", [
    ("(+ (pow x 2) (sin x))", "(+ (* 2 x) (cos x))", 29),
    ("(* 3 (* y (pow x 4)))", "(* 12 (* y (pow x 3)))", 32),
    ("(exp (* 2 (cos x)))", "(* -2 (* (sin x) (exp (* 2 (cos x)))))", 76),
    ("(+ (* x (sin x)) (cos x))", "(* x (cos x))", 26),
])
def test_math(function, derivative, cost):
    eg = EGraph(Arithmetic(), explain=True)
    eg.condition("number", lambda eg, c: isinstance(eg.fact(c), int), 1)
    eg.condition("differ", lambda eg, a, b: eg.fact(a) == eg.fact(b) == "variable" and a != b, 2)
    rules = eg.rules(MATH)
    root = eg.add(f"(d x {function})")
    eg.run(rules, max_iterations=9, max_nodes=50000)
    prices = {"d": math.inf, "+": 2, "*": 4, "": 20}
    best = eg.extract(root, lambda op, children: 1 if not children else prices.get(op, 20))
    assert best.tree_cost == cost and eg.equal(root, derivative)
    assert eg.extract(root, {"d": math.inf, "+": 2, "*": 4, "": 1}).tree_cost < math.inf
    proof = eg.explain(f"(d x {function})", best.term)
    proof.check(rules)


LAMBDA = """
(rule beta      (app (lam ?x ?body) ?arg) => (let ?x ?arg ?body))
(rule unroll    (fix ?x ?body) => (let ?x (fix ?x ?body) ?body))
(rule if-true   (if true ?a ?b) => ?a)
(rule if-false  (if false ?a ?b) => ?b)
(rule add-comm  (+ ?a ?b) => (+ ?b ?a))
(rule add-assoc (+ (+ ?a ?b) ?c) => (+ ?a (+ ?b ?c)))
(rule let-var   (let ?x ?e (var ?x)) => ?e)
(rule let-drop  (let ?x ?e ?body) => ?body :if (not (free ?x ?body)))
(rule let-app   (let ?x ?e (app ?a ?b)) => (app (let ?x ?e ?a) (let ?x ?e ?b)))
(rule let-add   (let ?x ?e (+ ?a ?b)) => (+ (let ?x ?e ?a) (let ?x ?e ?b)))
(rule let-eq    (let ?x ?e (= ?a ?b)) => (= (let ?x ?e ?a) (let ?x ?e ?b)))
(rule let-if    (let ?x ?e (if ?t ?a ?b)) => (if (let ?x ?e ?t) (let ?x ?e ?a) (let ?x ?e ?b)))
(rule let-lam   (let ?x ?e (lam ?y ?body)) => (lam ?y (let ?x ?e ?body))
  :if (and (not (same ?x ?y)) (not (free ?y ?e))))
(rule let-alpha (let ?x ?e (lam ?y ?body)) => (let ?x ?e (renamed ?y ?body))
  :if (and (not (same ?x ?y)) (free ?y ?e)))
"""


class Lambda:
    """The fact of a class: its free variables, and the constant that it is or None."""

    @staticmethod
    def name(egraph, c):
        return egraph.nodes(c)[0].op

    def make(self, egraph, op, children):
        facts = [egraph.fact(c) for c in children]
        if op == "var":
            free = frozenset([self.name(egraph, children[0])])
        elif op in ("let", "lam", "fix"):
            free = facts[-1][0] - {self.name(egraph, children[0])}
            if op == "let":
                free |= facts[1][0]
        else:
            free = frozenset().union(*(f[0] for f in facts))
        constant = None
        if not children and (op in ("true", "false") or op.lstrip("-").isdecimal()):
            constant = op
        if op in ("+", "=") and all(f[1] not in (None, "true", "false") for f in facts):
            a, b = (int(f[1]) for f in facts)
            constant = str(a + b) if op == "+" else str(a == b).lower()
        return free, constant

    def merge(self, a, b):
        assert a[1] is None or b[1] is None or a[1] == b[1]
        return a[0] & b[0], a[1] or b[1]

    def modify(self, egraph, c):
        if egraph.fact(c)[1] is not None:
            egraph.union(c, egraph.add((egraph.fact(c)[1],)), "compute")


COMPOSE = "(lam f (lam g (lam x (app (var f) (app (var g) (var x))))))"
ADD1 = "(lam y (+ (var y) 1))"
FIB = """(fix fib (lam n (if (= (var n) 0) 0 (if (= (var n) 1) 1
 (+ (app (var fib) (+ (var n) -1)) (app (var fib) (+ (var n) -2)))))))"""


@pytest.mark.parametrize("program, result", [
    ("(let x 0 (let y 1 (+ (var x) (+ 2 (var y)))))", "3"),
    ("(lam a (if (= (+ 1 1) 2) (var a) (app (var a) (var a))))", "(lam a (var a))"),
    ("(let x 1 (lam x (var x)))", "(lam x (var x))"),
    ("(let y (+ (var x) (var x)) (lam x (+ (var y) (var x))))", "(lam v1 (+ (var v1) (+ (var x) (var x))))"),
    (f"(let compose {COMPOSE} (let add1 {ADD1} (app (app (var compose) (var add1))"
     " (app (app (var compose) (var add1)) (var add1)))))", "(lam x (+ (var x) 3))"),
    ("(app (lam a (lam b (if (= (var a) 0) (var b) (+ (var b) (var a))))) 5)", "(lam b (+ (var b) 5))"),
    (f"(let fib {FIB} (app (var fib) 4))", "3"),
])
def test_lambda(program, result):
    eg = EGraph(Lambda())
    fresh = iter(range(1, 10**6))

    def renamed(eg, y, body):
        v = f"v{next(fresh)}"
        use = eg.add(("var", v))
        return eg.add_node("lam", [eg.add((v,)), eg.add_node("let", [y, use, body])])

    eg.condition("free", lambda eg, x, e: Lambda.name(eg, x) in eg.fact(e)[0], 2)
    eg.condition("same", lambda eg, a, b: a == b, 2)
    eg.function("renamed", renamed, 2)
    rules = eg.rules(LAMBDA)
    root = eg.add(program)
    eg.run(rules, max_iterations=40, max_nodes=50000, backoff=True)
    best = eg.extract(root, {"let": 100, "app": 100, "fix": 100})
    assert eg.equal(root, result) and len(best.term) == len(result)


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


class Picky(Arithmetic):
    def __init__(self, egraph=None):
        self.calls = []

    def make(self, egraph, op, children):
        if op == "bad":
            raise Refuse("there is nothing bad")
        if op == "worse":
            raise KeyError("worse")
        for call in self.calls:
            call(egraph)
        return None


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
    for text, wrong in (("(rule r (f ?x) => ?x :if (fails ?x))", ZeroDivisionError), ("(rule r (f ?x) => (nowhere ?x))", IndexError),
                        ("(rule r (f ?x) => (text ?x))", TypeError)):
        with pytest.raises(wrong):
            eg.run(eg.rules(text))
    assert eg.run(eg.rules("(rule r (f ?x) => (never ?x))")).rules[0].applications == 0
    eg.check()


@pytest.mark.parametrize("deed", [
    lambda eg: eg.rebuild(), lambda eg: eg.push(), lambda eg: eg.pop(), lambda eg: eg.add("b"), lambda eg: eg.rules("(rule a a => b)"),
    lambda eg: eg.union(0, 0), lambda eg: eg.extract(0), lambda eg: eg.run(eg.rules("(rule a a => b)")), lambda eg: eg.match("?x"),
    lambda eg: eg.explain("a", "a"), lambda eg: eg.condition("n", print), lambda eg: eg.to_json(), lambda eg: eg.check(),
])
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
    eg = EGraph(Arithmetic())
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
