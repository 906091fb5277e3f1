"""What is asked of a plan: whether it is right, how long it takes, what it looks like."""

from __future__ import annotations

import html
import os
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Mapping

import numpy as np

from . import _native, _tools
from ._errors import InvalidArgumentError, MismatchError, UnsupportedError, of_status
from ._models import ModelFile

if TYPE_CHECKING:
    from ._models import Model
    from ._plan import Path, Plan


@dataclass(frozen=True)
class Comparison:
    """An output beside what it should be."""

    output: str
    run: int
    elements: int
    """That were compared."""
    undecided: int
    """Of them, those that hang on a rounding, about which nothing can be said."""
    outside: int
    """Of them, those that differ by more than they may."""
    mean_difference: float
    largest_difference: float
    worst_at: int
    """Flat index of the element whose difference is the largest part of what it may be; -1: none."""
    worst_difference: float
    worst_allowed: float

    def __str__(self) -> str:
        text = (
            f"{self.output}: {self.elements} elements, mean difference {self.mean_difference:.3g}, largest "
            f"{self.largest_difference:.3g}"
        )
        if self.undecided:
            text += f", {self.undecided} undecided"
        if self.outside:
            text += (
                f"; {self.outside} differ by more than they may, the worst at {self.worst_at} "
                f"by {self.worst_difference:.3g} of "
                f"{self.worst_allowed:.3g} allowed"
            )
        elif self.worst_at >= 0:
            text += f"; at most {self.worst_difference:.3g} of {self.worst_allowed:.3g} allowed"
        return text


@dataclass(frozen=True)
class Verification:
    """How a plan compares with its model; true if it is right."""

    comparisons: list[Comparison]

    @property
    def passed(self) -> bool:
        return all(one.outside == 0 for one in self.comparisons)

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        return "\n".join([*map(str, self.comparisons), "PASSED" if self.passed else "FAILED"])


def verify(
    plan: Plan,
    model: Model | None,
    inputs: Mapping[str, Any] | None,
    dims: Mapping[str, int] | None,
    seed: int,
    any_model: bool,
) -> Verification:
    if plan._engine.variables:
        raise UnsupportedError("a step of a training is verified when it is made: hypatiac --verify strict")
    if model is not None:
        return _checked(_against_model(plan, model, inputs, dims, seed, any_model))
    if inputs is not None or dims is not None:
        raise InvalidArgumentError("without a model a plan is verified with what it keeps: inputs and dims are known")
    return _checked(_against_golden(plan))


def _checked(comparisons: list[Comparison]) -> Verification:
    done = Verification(comparisons)
    if not done:
        raise MismatchError(f"the plan is wrong: {next(str(one) for one in comparisons if one.outside)}")
    return done


def _judge(output: str, run: int, actual: Any, expected: Any, tolerances: Any) -> Comparison:
    elements, undecided, outside, mean, largest, _, worst, difference, allowed = _native.judge(
        np.ascontiguousarray(actual), expected, tolerances
    )
    return Comparison(output, run, elements, undecided, outside, mean, largest, worst, difference, allowed)


def _against_golden(plan: Plan) -> list[Comparison]:
    runs = plan._engine.golden()
    if not runs:
        raise InvalidArgumentError(
            "the plan keeps no results to verify it with: give its model, or compile it with verify='strict'"
        )
    comparisons = []
    for number, (inputs, outputs) in enumerate(runs):
        got = plan.run(inputs)
        for (name, actual), (dims, stride, kept, tolerances) in zip(got.items(), outputs):
            if actual.shape != dims:
                raise MismatchError(f"output {name} has the dims {actual.shape}, and {dims} of the plan's own results")
            if len(kept):
                comparisons.append(_judge(name, number, actual.reshape(-1)[::stride][: len(kept)], kept, tolerances))
    return comparisons


def _against_model(
    plan: Plan,
    model: Model,
    inputs: Mapping[str, Any] | None,
    dims: Mapping[str, int] | None,
    seed: int,
    any_model: bool,
) -> list[Comparison]:
    given = dict(inputs) if inputs is not None else plan.random_inputs(dims, seed=seed)
    with ModelFile(model) as path:
        expected = plan._engine.expect(path, any_model, given)
    comparisons = []
    for name, actual in plan.run(given).items():
        if name not in expected:
            raise InvalidArgumentError(f"the model has no output {name!r}: is it the model of this plan?")
        comparisons.append(_judge(name, 0, actual, *expected[name]))
    return comparisons


@dataclass(frozen=True)
class Bench:
    """How long runs took, in seconds: calls from Python, until results are there."""

    samples: list[float] = field(repr=False)
    device: str

    @property
    def median(self) -> float:
        return self.percentile(50)

    @property
    def least(self) -> float:
        return min(self.samples)

    def percentile(self, percent: float) -> float:
        return float(np.percentile(self.samples, percent))

    def __str__(self) -> str:
        return (
            f"{self.device}: median {self.median * 1e6:.1f} us, least {self.least * 1e6:.1f}, "
            f"90 % {self.percentile(90) * 1e6:.1f}, "
            f"99 % {self.percentile(99) * 1e6:.1f} ({len(self.samples)} runs)"
        )


def bench(plan: Plan, inputs: Any, dims: Mapping[str, int] | None, seconds: float) -> Bench:
    given = inputs if inputs is not None else plan.random_inputs(dims)
    args: tuple[Any, ...] = (
        (given,) if isinstance(given, (Mapping, np.ndarray)) or not isinstance(given, (list, tuple)) else tuple(given)
    )
    samples: list[float] = []
    warm = time.perf_counter() + seconds / 10
    while time.perf_counter() < warm:
        plan(*args)
    plan.synchronize()
    end = time.perf_counter() + seconds
    while len(samples) < 10 or time.perf_counter() < end:
        began = time.perf_counter()
        plan(*args)
        plan.synchronize()
        samples.append(time.perf_counter() - began)
    return Bench(samples, plan.device_name)


class Report:
    """A page that shows what the model was, what became of it, and why: one text of HTML that needs no network. A
    notebook shows it."""

    def __init__(self, page: str) -> None:
        self.html = page

    def save(self, path: Path) -> None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)

    def _repr_html_(self) -> str:
        # A frame of its own: the page's styles and scripts are not the notebook's.
        return (
            f'<iframe sandbox="allow-scripts allow-downloads" style="width: 100%; height: 44em; border: 0" '
            f'srcdoc="{html.escape(self.html)}"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<hypatia.Report of {len(self.html)} characters>"


def report(plan: Plan, measure: bool, seconds: float) -> Report:
    command = [_tools.path("hypatia"), "report"]
    with plan._as_file() as path:
        command += [os.path.abspath(path), "-o", "-"]
        if measure:
            command += [
                "--measure",
                "--seconds",
                str(seconds),
                "--device",
                plan._place(),
                "--threads",
                str(plan._options["threads"]),
            ]
        done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        message = done.stderr.decode(errors="replace").strip().removeprefix("hypatia report: ")
        raise of_status({5: 7, 2: 1}.get(done.returncode, 3), message)
    return Report(done.stdout.decode())
