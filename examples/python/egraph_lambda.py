"""Reduces programs of a small lambda calculus by equality saturation, a partial evaluator: examples/egraph_lambda in
Python.

(var x)  (lam x body)  (app f arg)  (let x value body)  (fix x body)  (if test a b)  (+ a b)  (= a b), and constants

Substitution is not done by code: (let x value body) is a term, and rules push it toward the variables. They must not
capture; an analysis keeps the free variables of every class, conditions read them, and where a variable would be
captured a function renames the binder.
"""

from hypatia.egraph import EGraph

RULES = """
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

COMPOSE = "(lam f (lam g (lam x (app (var f) (app (var g) (var x))))))"
ADD1 = "(lam y (+ (var y) 1))"
FIB = """(fix fib (lam n (if (= (var n) 0) 0 (if (= (var n) 1) 1
 (+ (app (var fib) (+ (var n) -1)) (app (var fib) (+ (var n) -2)))))))"""
# A program, and what it is reduced to.
PROGRAMS = [
    ("(let x 0 (let y 1 (+ (var x) (+ 2 (var y)))))", "3"),
    ("(lam a (if (= (+ 1 1) 2) (var a) (app (var a) (var a))))", "(lam a (var a))"),
    ("(let x 1 (lam x (var x)))", "(lam x (var x))"),
    ("(let y (+ (var x) (var x)) (lam x (+ (var y) (var x))))", "(lam v1 (+ (var v1) (+ (var x) (var x))))"),
    (
        f"(let compose {COMPOSE} (let add1 {ADD1} (app (app (var compose) (var add1))"
        " (app (app (var compose) (var add1)) (var add1)))))",
        "(lam x (+ (var x) 3))",
    ),
    ("(app (lam a (lam b (if (= (var a) 0) (var b) (+ (var b) (var a))))) 5)", "(lam b (+ (var b) 5))"),
    (f"(let fib {FIB} (app (var fib) 4))", "3"),
]


def name(egraph, c):
    """Of a variable: the leaf that var, lam, let and fix have as their first child."""
    return egraph.nodes(c)[0].op


class Values:
    """The fact of a class: its free variables, and the constant that it is or None."""

    def make(self, egraph, op, children):
        facts = [egraph.fact(c) for c in children]
        if op == "var":
            free = frozenset([name(egraph, children[0])])
        elif op in ("let", "lam", "fix"):
            free = facts[-1][0] - {name(egraph, children[0])}
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


def renamer():
    """(renamed y body): (lam v (let y (var v) body)) with a v that occurs nowhere else."""
    count = 0

    def renamed(eg, y, body):
        nonlocal count
        count += 1
        v = f"v{count}"
        return eg.add_node("lam", [eg.add((v,)), eg.add_node("let", [y, eg.add(("var", v)), body])])

    return renamed


def reduce(program):
    """The e-graph, the class of the program, and the best term of it: with as little left to do as was found."""
    eg = EGraph(Values())
    eg.condition("free", lambda eg, x, e: name(eg, x) in eg.fact(e)[0], 2)
    eg.condition("same", lambda eg, a, b: a == b, 2)
    eg.function("renamed", renamer(), 2)
    rules = eg.rules(RULES, "lambda")
    root = eg.add(program)
    # A recursive function unrolls without end, so there must be limits; backoff keeps the rules that have many
    # matches from taking all.
    eg.run(rules, max_iterations=40, max_nodes=50000, backoff=True)
    return eg, root, eg.extract(root, {"let": 100, "app": 100, "fix": 100})


def main():
    for program, result in PROGRAMS:
        eg, root, best = reduce(program)
        assert eg.equal(root, result) and len(best.term) == len(result)
        print(f"{program}\n= {best.term}\n")


if __name__ == "__main__":
    main()
