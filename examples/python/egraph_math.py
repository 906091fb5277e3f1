"""Differentiates and simplifies formulas by equality saturation: examples/egraph_math in Python.

(d x f) is the derivative of f by x. Rules say how derivatives are taken and what algebra holds, an analysis computes
with numbers, and the cheapest equal term without a d is the answer, printed with its proof.
"""

import math

from hypatia.egraph import EGraph

# A number is never taken apart again: 0 = 1 + -1 = 2 + -2 would go on for ever.
RULES = """
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

# A function, its derivative by x, as simple as it gets, and what that costs.
PROBLEMS = [
    ("(+ (pow x 2) (sin x))", "(+ (* 2 x) (cos x))", 29),
    ("(* 3 (* y (pow x 4)))", "(* 12 (* y (pow x 3)))", 32),
    ("(exp (* 2 (cos x)))", "(* -2 (* (sin x) (exp (* 2 (cos x)))))", 76),
    ("(+ (* x (sin x)) (cos x))", "(* x (cos x))", 26),
]


class Numbers:
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


def cost(op, children):
    """Products and functions are dearer than sums, and no derivative may be left."""
    return 1 if not children else {"d": math.inf, "+": 2, "*": 4}.get(op, 20)


def solve(function):
    """The e-graph, the rules, the class of the derivative, and the best term of it."""
    eg = EGraph(Numbers(), explain=True)
    eg.condition("number", lambda eg, c: isinstance(eg.fact(c), int), 1)
    eg.condition("differ", lambda eg, a, b: eg.fact(a) == eg.fact(b) == "variable" and a != b, 2)
    rules = eg.rules(RULES, "math")
    root = eg.add(f"(d x {function})")
    eg.run(rules, max_iterations=9, max_nodes=50000)
    return eg, rules, root, eg.extract(root, cost)


def main():
    for function, derivative, price in PROBLEMS:
        eg, rules, root, best = solve(function)
        assert best.tree_cost == price and eg.equal(root, derivative)
        proof = eg.explain(f"(d x {function})", best.term)
        proof.check(rules)
        print(proof, end="\n\n")


if __name__ == "__main__":
    main()
