"""E-graphs: equality saturation over terms of any language.

    from hypatia.egraph import EGraph

    eg = EGraph()
    rules = eg.rules('''
        (rule mul-two   (* ?a 2) => (<< ?a 1))
        (rule div-assoc (/ (* ?a ?b) ?c) => (* ?a (/ ?b ?c)))
        (rule div-same  (/ ?a ?a) => 1)
        (rule mul-one   (* ?a 1) => ?a)
    ''')
    c = eg.add("(/ (* a 2) 2)")
    eg.run(rules)
    eg.extract(c).term           # "a"

A term is an operator applied to terms: a text, ``"(+ a (* 2 b))"``, or tuples, ``("+", "a", ("*", 2, "b"))``. An
e-class is a set of terms that are known to be equal; its id is an int. Ids are those of the moment:
:meth:`EGraph.find` says what became of one.

An e-graph belongs to one thread at a time; while it works, Python's lock is released unless rules or costs are
functions of Python. What such functions may do with the e-graph is said where they are given.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Iterator, Mapping, Protocol, Sequence, Union

from . import _native

__all__ = [
    "Analysis",
    "EGraph",
    "Extraction",
    "Iteration",
    "Match",
    "Node",
    "Proof",
    "Query",
    "Refuse",
    "Repeat",
    "Report",
    "Rule",
    "RuleReport",
    "Rules",
    "Run",
    "Saturate",
    "Schedule",
    "Then",
    "Step",
]

Term = Union[str, int, float, "tuple[Any, ...]"]
Cost = Union[Callable[[str, "tuple[int, ...]"], float], Mapping[str, float]]


class Refuse(Exception):
    """Raised by what an analysis, a condition or a function of rules calls: the application of the rule under way
    makes no sense and is left out, and the run goes on."""


class Analysis(Protocol):
    """What is known of each class, kept while classes merge (egg, section 4). Facts are values: they are compared by
    ``==``.

    Besides, there may be ``modify(egraph, c)``, called after a class is new or its fact has changed, which may add
    terms and unite classes, and ``agree(a, b)``: whether classes with these facts may be equal, asked before a rule
    unites them.
    """

    def make(self, egraph: EGraph, op: str, children: tuple[int, ...]) -> Any:
        """The fact of a node, from those of its children (``egraph.fact``). Adds nothing."""

    def merge(self, a: Any, b: Any) -> Any:
        """Both facts in one, whichever comes first."""


@dataclass(frozen=True)
class Node:
    """An e-node: an operator over classes."""

    op: str
    children: tuple[int, ...]
    id: int = field(compare=False)


@dataclass(frozen=True)
class Match:
    """A place where a pattern matches."""

    root: int
    variables: dict[str, int]
    """The class of each variable, ``"?x"``."""


@dataclass(frozen=True)
class Rule:
    name: str
    numeric_class: str
    ruleset: str
    doc: str
    text: str


@dataclass(frozen=True)
class RuleReport:
    """What a rule did in a run."""

    name: str
    matches: int
    applications: int
    """Those that changed the e-graph."""
    seconds: float
    refused: int
    refusal: str | None
    declined: int
    beyond: int
    """Parts beyond those of one application, of a rule that collects."""


@dataclass(frozen=True)
class Iteration:
    e_nodes: int
    e_classes: int
    matches: int
    applications: int
    search_seconds: float
    apply_seconds: float
    rebuild_seconds: float


@dataclass(frozen=True)
class Report:
    """What a run did."""

    stop: str
    """Why it ended: ``"saturated"``, ``"iteration limit"``, ``"node limit"``, ``"time limit"``, ..."""
    e_nodes: int
    e_classes: int
    peak_bytes: int
    matches: int
    seconds: float
    iterations: list[Iteration]
    rules: list[RuleReport]


@dataclass(frozen=True)
class Extraction:
    """The best term of a class, or of several at once."""

    terms: list[str]
    tree_cost: float
    """Every use of a shared part counted."""
    dag_cost: float
    lower_bound: float
    """No answer is below; 0: not known."""
    proven: bool

    @property
    def term(self) -> str:
        """The only one."""
        if len(self.terms) != 1:
            raise ValueError(f"{len(self.terms)} classes were extracted: see `terms`")
        return self.terms[0]


@dataclass(frozen=True)
class Query:
    """What a condition or a function was asked where a rule was applied, and its answer."""

    name: str
    args: list[str]
    answer: str
    """``"yes"``, ``"no"``, ``"absent"``, or ``"term"``: then `term` is what the function gave."""
    term: str | None


@dataclass(frozen=True)
class Step:
    """One use of a rule, or of a reason of a union, at one place of a term."""

    rule: str | None
    """None in the first step, which is the term that the proof begins with."""
    stated: bool
    """`rule` is the reason of a union that was stated."""
    forward: bool
    term: str
    """The whole term behind the step."""
    queries: list[Query]
    parts: list[list[Step]]


class Proof:
    """Why two terms are equal, step by step."""

    def __init__(self, egraph: EGraph, a: str, b: str, steps: list[Step], proof: Any) -> None:
        self.steps = steps
        self._egraph, self._a, self._b, self._proof = egraph, a, b, proof

    def check(self, *rules: Rules) -> None:
        """Replays the proof on terms, with these rules and nothing else of the e-graph; raises
        :class:`hypatia.MismatchError` where it is none. What was stated, and answers of conditions and functions, are
            taken as they are."""
        self._egraph._check_proof(self._proof, self._a, self._b, tuple(r._native for r in rules))

    def __len__(self) -> int:
        return len(self.steps) - 1

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __str__(self) -> str:
        lines = []
        for step in self.steps:
            by = "" if step.rule is None else f"  by {step.rule}{'' if step.forward else ', backward'}"
            lines.append(f"{step.term}{by}")
        return "\n= ".join(lines)


class Rules:
    """Rules of an e-graph: :meth:`EGraph.rules` reads them."""

    def __init__(self, egraph: EGraph, native: _native.Ruleset) -> None:
        self._egraph = egraph
        self._native = native
        self.rules = [Rule(*row) for row in native.infos()]

    def __len__(self) -> int:
        return len(self.rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def enable(self, name: str, enabled: bool = True) -> None:
        """Whether the rule is searched; all are at first."""
        for i, rule in enumerate(self.rules):
            if rule.name == name:
                self._native.enable(i, enabled)
                return
        raise KeyError(name)

    def _schedule(self) -> tuple[int, int, Any]:
        return 0, sys.maxsize, self._native

    def _all(self) -> list[Rule]:
        return self.rules


class Run:
    """A part of a schedule: a number of iterations of rules, fewer if they are saturated before."""

    def __init__(self, rules: Rules, times: int = 1) -> None:
        self.rules, self.times = rules, times

    def _schedule(self) -> tuple[int, int, Any]:
        return 0, self.times, self.rules._native

    def _all(self) -> list[Rule]:
        return self.rules.rules


class _Parts:
    _kind = 1

    def __init__(self, *parts: Schedule, times: int = 1) -> None:
        self.parts, self.times = parts, times

    def _schedule(self) -> tuple[int, int, Any]:
        return self._kind, self.times, tuple(part._schedule() for part in self.parts)

    def _all(self) -> list[Rule]:
        return [rule for part in self.parts for rule in part._all()]


class Then(_Parts):
    """The parts one after the other."""


class Repeat(_Parts):
    """The parts in their order, `times` times or until a round changes nothing."""

    _kind = 2


class Saturate(_Parts):
    """The parts in their order until a round changes nothing."""

    _kind = 3


Schedule = Union[Rules, Run, Then, Repeat, Saturate]


class EGraph(_native.EGraph):
    """An e-graph.

    :param analysis: an :class:`Analysis`.
    :param explain: keep what :meth:`explain` needs.
    :param explain_all: keep applications that changed nothing, too: proofs are shorter, and each such match costs
        some 30 bytes.
    """

    # ---- terms and classes -----------------------------------------------------------------------------------------

    def add(self, term: Term) -> int:
        """Adds a term, or finds it. A str in a tuple is a symbol, whatever characters it has; a str by itself is read
        as a term."""
        if isinstance(term, str):
            return self.add_text(term)
        if isinstance(term, tuple):
            if not term:
                raise ValueError("a term begins with its operator, and this one is empty")
            return self.add_node(str(term[0]), [self._add_part(part) for part in term[1:]])
        return self.add_node(_symbol(term), ())

    def _add_part(self, term: Term) -> int:
        return self.add(term) if isinstance(term, tuple) else self.add_node(_symbol(term), ())

    def equal(self, a: Term | int, b: Term | int) -> bool:
        """Whether two classes, or terms, which are added, are known to be equal. An int is a class."""
        a, b = (t if isinstance(t, int) else self.add(t) for t in (a, b))
        self.rebuild()
        return self.find(a) == self.find(b)

    def union(self, a: int, b: int, reason: str | None = None) -> bool:
        """States that two classes are equal, because of `reason` ("given"). False: they were known to be. Congruence
        is restored by the next :meth:`rebuild`, which runs and extractions begin with."""
        return self._union(a, b, reason)

    def nodes(self, c: int) -> list[Node]:
        """The e-nodes of a class, oldest first. Needs a rebuilt e-graph."""
        return [Node(op, children, id) for id, op, children in self._nodes(c)]

    def __len__(self) -> int:
        """How many e-nodes there are."""
        return self.node_count

    # ---- rules -------------------------------------------------------------------------------------------------------

    def rules(self, text: str, name: str = "rules") -> Rules:
        """Reads rules: ``(rule NAME LEFT => RIGHT :if CONDITION)`` and what else ``docs/rules.md`` has. `name` is for
        messages."""
        return Rules(self, self._rules(name, text))

    def condition(self, name: str, function: Callable[..., bool], arity: int = -1) -> None:
        """A condition for rules that are read afterwards: ``function(egraph, class, ...)``, which may read the
        e-graph alone."""
        self._condition(name, function, arity)

    def function(self, name: str, function: Callable[..., int | None], arity: int = -1) -> None:
        """A function for right sides of rules: ``function(egraph, class, ...)`` gives the class to use, or None: then
        the rule is not applied. It may add terms and unite classes."""
        self._function(name, function, arity)

    def run(
        self,
        schedule: Schedule,
        *,
        max_iterations: int = 0,
        max_nodes: int = 0,
        max_bytes: int = 0,
        max_seconds: float = 0,
        max_matches: int = 0,
        backoff: bool | tuple[int, int] = False,
        on_iteration: Callable[[Iteration], object] | None = None,
    ) -> Report:
        """Applies rules until nothing changes or a limit is reached; 0 is none. The e-graph is rebuilt and usable
        after any stop.

        :param schedule: rules, or :class:`Run`, :class:`Then`, :class:`Repeat` and :class:`Saturate` of them.
        :param backoff: as in egg, ban rules that have many matches for some iterations; a tuple: more matches than so
            many (1000), for so many iterations (5).
        :param on_iteration: is told of each iteration; it may read the e-graph.
        """
        limit, ban = backoff if isinstance(backoff, tuple) else (0, 0)
        told = None if on_iteration is None else lambda row: on_iteration(Iteration(*row))
        stop, e_nodes, e_classes, peak, matches, seconds, iterations, rows = self._run(
            schedule._schedule(),
            backoff is not False,
            max_iterations,
            max_nodes,
            max_bytes,
            max_seconds,
            max_matches,
            limit,
            ban,
            told,
        )
        rules = [RuleReport(rule.name, *row) for rule, row in zip(schedule._all(), rows)]
        return Report(stop, e_nodes, e_classes, peak, matches, seconds, [Iteration(*row) for row in iterations], rules)

    def match(self, pattern: str) -> list[Match]:
        """All matches of a pattern, ``(+ ?a (* ?b ?c))`` or ``(multi (?a = P) (?b = Q))``, in an order that is the
        same on every run."""
        names, rows = self._match(pattern)
        return [Match(root, dict(zip(names, classes))) for root, classes in rows]

    # ---- answers -------------------------------------------------------------------------------------------------------

    def extract(
        self,
        roots: int | Sequence[int],
        cost: Cost | None = None,
        *,
        method: str = "tree",
        budget_seconds: float = 0,
        budget_work: int = 0,
    ) -> Extraction:
        """The term of least cost of a class, or terms of several, which share what they can.

        :param cost: of a node without its children: ``cost(op, children)``, or a dict by operator, in which others
            are 1 or what ``""`` has. Not negative; ``math.inf``: never choose it. 1 for each unless given.
        :param method: ``"tree"``: every use of a shared part counts; ``"dag"``: each part counts once, a small sum;
            ``"exact"``: the least.
        :param budget_seconds: of ``"exact"``; 0: ten, or no limit where there is one of work.
        :param budget_work: of ``"exact"``, in e-nodes and edges looked at: the answer is the same on every machine.
        """
        methods = {"tree": 0, "dag": 1, "exact": 2}
        if method not in methods:
            raise ValueError(f"there is no method {method!r}; there are {', '.join(methods)}")
        classes = [roots] if isinstance(roots, int) else list(roots)
        return Extraction(*self._extract(classes, _cost(cost), methods[method], budget_seconds, budget_work))

    def explain(self, a: str, b: str) -> Proof:
        """A proof that two terms that are in the e-graph are equal; :class:`hypatia.MismatchError` if they are not
        known to be. Needs ``explain=True``."""
        rows, proof = self._explain(a, b)
        return Proof(self, a, b, _steps(rows), proof)

    def to_json(self, roots: Iterable[int] = (), cost: Cost | None = None) -> str:
        """What is below classes, or all, in the JSON that egg, egglog and the extraction gym exchange."""
        return self._write(False, list(roots), _cost(cost), 0)

    def to_dot(self, roots: Iterable[int] = (), max_nodes: int = 0) -> str:
        """The same for Graphviz, at most so many e-nodes (500)."""
        return self._write(True, list(roots), None, max_nodes)


def _symbol(value: Any) -> str:
    if not isinstance(value, (str, int, float)):
        raise TypeError(f"wanted a symbol, a number or a tuple of terms, got {type(value).__name__}")
    return str(value)


def _cost(cost: Cost | None) -> Callable[[str, tuple[int, ...]], float] | None:
    if not isinstance(cost, Mapping):
        return cost
    table, other = cost, cost.get("", 1)
    return lambda op, children: table.get(op, other)


def _steps(rows: Sequence[Any]) -> list[Step]:
    return [
        Step(rule, stated, forward, term, [Query(*q) for q in queries], [_steps(part) for part in parts])
        for rule, stated, forward, term, queries, parts in rows
    ]
