"""From a model to a plan."""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from dataclasses import dataclass, fields
from typing import Any, Callable, Iterable, Mapping, Sequence

from . import _models, _native
from ._errors import Error
from ._models import Model
from ._plan import Path, Plan, _load


@dataclass(frozen=True)
class RuleUse:
    """A rule, and what it did in a compilation."""

    name: str
    ruleset: str
    numeric_class: str
    """``E``: the same bits; ``Z``: but for signs of zeros; ``N``: but for NaN; ``R``: within a bound; ``A``:
    approximates."""
    doc: str
    matches: int
    applications: int
    used: int
    """How often the plan owes something to it."""


@dataclass(frozen=True)
class Progress:
    """How far a compilation is."""

    phase: str
    iteration: int
    e_nodes: int
    best: float
    """Seconds that the best plan so far is predicted to take; 0: none is known yet."""
    done: int
    total: int
    seconds: float


@dataclass(frozen=True)
class CompileReport:
    """What a compilation did: ``hyp_compile_report`` of ``hypatia/compiler.h``. Times are in seconds."""

    rules: list[RuleUse]
    """Those that were applied."""
    nodes_imported: int
    nodes_before: int
    nodes_after: int
    e_nodes: int
    e_classes: int
    iterations: int
    stop_reason: str
    cut: str
    proven: bool
    cost_before: float
    cost_after: float
    plan_seconds: float
    import_seconds: float
    rewrite_seconds: float
    lower_seconds: float
    write_seconds: float
    plan_steps: int
    plan_bytes: int
    answer: str
    steps: str
    verified: str
    wrong: bool
    verify_seconds: float
    layers: str
    gap: float
    prices: str
    scratch_bytes: int
    recomputed: int
    run: str

    def __str__(self) -> str:
        used = ", ".join(f"{rule.name} {rule.used}x" for rule in self.rules if rule.used)
        return (
            f"{self.nodes_before} nodes that run -> {self.nodes_after}, {self.plan_steps} plan steps\n"
            f"{self.steps.rstrip()}\n"
            f"predicted: {self.plan_seconds * 1e6:.2f} us\n"
            f"rules used: {used or 'none'}\n"
            f"{self.verified}"
        )


def compile(
    model: Model,
    *,
    target: str | None = None,
    precision: str = "fp32",
    device: str | None = None,
    threads: int = 0,
    buckets: Mapping[str, int] | int | None = None,
    dims: Mapping[str, int] | None = None,
    typical: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int | None]] | None = None,
    bind: Mapping[str, Any] | None = None,
    samples: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    rules: str | Path | Iterable[str | Path] = (),
    builtin_rules: bool = True,
    disable_rules: Sequence[str] = (),
    only_rules: Sequence[str] = (),
    allow_approximate: bool = False,
    rewrite: bool = True,
    verify: str | None = None,
    updatable: Sequence[str] = (),
    max_seconds: float = 0,
    max_iterations: int = 0,
    max_nodes: int = 0,
    memory_budget: int = 0,
    loop_limit: int = 0,
    write_loops: bool = False,
    profile: Path | None = None,
    explain: str | None = None,
    emit_onnx: Path | None = None,
    record: bool = True,
    progress: Callable[[Progress], object] | None = None,
) -> Plan:
    """Compiles an ONNX model, and loads the plan. Same model, same options: same plan, to the byte.

    :param model: a path, the bytes of a model, or an ``onnx.ModelProto``. External data are found beside a path.
    :param target: what the plan is made for, as costs see it: ``"cpu"``, ``"cpu:avx2"``, ``"cpu:avx512"``, ``"cpu:amx"``,
        ``"cpu:native"``, ``"cuda"``, ``"cuda:h200"``, ``"cuda:h100"``; by ``device`` unless given, else ``"cpu"``.
        Needs no such machine.
    :param precision: ``"fp32"``, ``"tf32"``, ``"bf16"``, ``"fp16"``, or ``"fp8"``, which needs ``samples``.
    :param device: where the plan is loaded, as of :meth:`Plan.load`; that of ``target`` unless given.
    :param threads: of the CPU, that a run may use; 0: ``OMP_NUM_THREADS``, else all.
    :param buckets: as of :meth:`Plan.load`.
    :param dims: sizes for symbolic dimensions.
    :param typical: sizes that costs count symbolic dimensions as, which stay open; 32 else.
    :param shapes: shapes for inputs; None leaves a size as it is declared.
    :param bind: inputs that become constants of the plan.
    :param samples: typical inputs, each an array of the input's shape, or with one axis more a stack of them; a list
        of such dicts. From them ``"fp8"`` has its scales; the plan is verified with the first ones.
    :param rules: rewrite rules besides the built-in ones: a text of rules, a path of a file, or several of either.
    :param builtin_rules: False: your own rules alone.
    :param disable_rules: names of rules to do without.
    :param only_rules: names of rules; no other is applied.
    :param allow_approximate: rules of class A too.
    :param rewrite: False: the model as it is.
    :param verify: ``"strict"``, ``"warn"``, ``"off"``; by what it costs unless given. A plan that comes out wrong is a
        :class:`MismatchError`, or with ``"warn"`` a warning.
    :param updatable: patterns of names of weights that can be replaced later.
    :param max_seconds: ends the search for a better plan; 0: no limit.
    :param max_iterations: of the e-graph; 0: the default.
    :param max_nodes: of the e-graph; 0: the default.
    :param memory_budget: bytes that a run of the plan holds at most; 0: as many as it takes.
    :param loop_limit: trips at most of loops of which only the data tell how many they make; 0: 1024 where something is
        collected of every trip, else any number.
    :param write_loops: write loops out that the data end, for all trips that they may make, also for a CPU, which else
        runs them trip by trip.
    :param profile: a device profile for the cost model.
    :param explain: a node of the model; ``plan.compilation.answer`` then says how it came to the plan.
    :param emit_onnx: a path for the optimized graph as an ONNX model.
    :param record: False: the plan keeps no record of its compilation, which :meth:`Plan.report` shows.
    :param progress: is called often, with a :class:`Progress`.
    """
    if target is None:
        target = "cuda" if device is not None and device.startswith("cuda") else "cpu"
    load = dict(
        device=device or target.partition(":")[0],
        threads=threads,
        check=True,
        memory_limit=0,
        cpu_level=None,
        require_signature=None,
        processors=None,
        run_memory_limit=0,
        work_limit=0,
        shapes=0,
        buckets=buckets,
    )
    options: dict[str, Any] = dict(
        target=target,
        precision=precision,
        profile=profile,
        verify=verify,
        explain=explain,
        emit_onnx=emit_onnx,
        dims=dict(dims or {}),
        typical=dict(typical or {}),
        bound=dict(bind or {}),
        updatable=list(updatable),
        shapes={name: [-1 if dim is None else dim for dim in shape] for name, shape in (shapes or {}).items()},
        samples=[dict(samples)] if isinstance(samples, Mapping) else [dict(sample) for sample in samples or ()],
        no_builtin_rules=not builtin_rules,
        disabled_rules=list(disable_rules),
        only_rules=list(only_rules),
        allow_approximate=allow_approximate,
        no_rewrite=not rewrite,
        no_record=not record,
        max_seconds=max_seconds,
        max_iterations=max_iterations,
        max_nodes=max_nodes,
        memory_budget=memory_budget,
        loop_limit=loop_limit,
        write_loops=write_loops,
    )
    source = _models.read(model)
    told = None if progress is None else lambda *row: progress(Progress(*row))
    with _RuleFiles(rules) as files:
        options["rule_files"] = files.paths
        blob, report, said = files.name(lambda: _native.compile(source, options, told, threads))
    for line in said:
        warnings.warn(line.rstrip(), stacklevel=2)
    compilation = _report(report)
    if compilation.wrong:
        warnings.warn(f"the plan is wrong: {compilation.verified}", stacklevel=2)
    return Plan(_load(blob, load), options=load, compilation=compilation)


def rules(
    rules: str | Path | Iterable[str | Path] = (),
    *,
    builtin_rules: bool = True,
    disable_rules: Sequence[str] = (),
    only_rules: Sequence[str] = (),
    allow_approximate: bool = False,
) -> list[RuleUse]:
    """Every rule that these options of :func:`compile` select, with its class and meaning."""
    with _RuleFiles(rules) as files:
        options = dict(
            rule_files=files.paths,
            no_builtin_rules=not builtin_rules,
            disabled_rules=list(disable_rules),
            only_rules=list(only_rules),
            allow_approximate=allow_approximate,
        )
        return [RuleUse(**row) for row in files.name(lambda: _native.rules(options))]


def _report(report: Mapping[str, Any]) -> CompileReport:
    known = {field.name for field in fields(CompileReport)}
    row = {name: value for name, value in report.items() if name in known}
    row["rules"] = [RuleUse(**rule) for rule in report["rules"] if rule["applications"] or rule["used"]]
    return CompileReport(**row)


class _RuleFiles:
    """Rules as files, which the compiler reads: texts of them lie in a folder for as long as the context lasts."""

    def __init__(self, rules: str | Path | Iterable[str | Path]) -> None:
        self._rules = [rules] if isinstance(rules, (str, os.PathLike)) else list(rules)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.paths: list[str] = []

    def __enter__(self) -> _RuleFiles:
        for number, rule in enumerate(self._rules):
            if not isinstance(rule, str) or not _is_text(rule):
                self.paths.append(os.fspath(rule))
                continue
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="hypatia-")
            path = os.path.join(self._folder.name, "rules" if number == 0 else f"rules[{number}]")
            with open(path, "w", encoding="utf-8") as file:
                file.write(rule)
            self.paths.append(path)
        return self

    def __exit__(self, *error: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def name(self, call: Callable[[], Any]) -> Any:
        """Calls; messages name what was given as a text or as bytes, and not the files that it lay in."""
        try:
            return call()
        except Error as error:
            message = re.sub(r"/dev/fd/[0-9]+\b", "model", str(error))
            if self._folder is not None:
                message = message.replace(self._folder.name + os.sep, "")
            error.args = (message,)
            raise


def _is_text(rule: str) -> bool:
    """A text of rules has a parenthesis, a tab or several lines; else it names a file."""
    return any(mark in rule for mark in "(\t\n")
