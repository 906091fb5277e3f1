"""Plans: compiled models that run."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Mapping, Sequence, Union

from . import _checks, _cuda, _native
from ._checks import Bench, Report, Verification
from ._errors import FileError

if TYPE_CHECKING:
    from ._compile import CompileReport
    from ._models import Model

Path = Union[str, "os.PathLike[str]"]

_DEVICES = {"auto": 0, "cpu": 1, "cuda": 2, "reference": 3}
_DEVICE_NAMES = {number: name for name, number in _DEVICES.items()}


def _device(name: str) -> tuple[int, int]:
    """The kind and the number of "cuda:1"."""
    kind, _, index = name.partition(":")
    if kind not in _DEVICES or (index and (kind != "cuda" or not index.isdecimal())):
        raise ValueError(f"there is no device {name!r}; there are 'auto', 'cpu', 'cuda', 'cuda:N' and 'reference'")
    return _DEVICES[kind], int(index or 0)


@dataclass(frozen=True)
class Io:
    """An input, an output, a weight or a variable of a plan."""

    name: str
    dtype: str
    """``"f32"``, ``"bf16"``, ``"i64"``, ``"bool"``, ..."""
    shape: tuple[int | str, ...]
    """Sizes; the name of one, or an expression of names, where it is open."""


@dataclass(frozen=True)
class Tuning:
    """What tuning found."""

    products: int
    """Different steps, or products, that can be done in several ways."""
    known: int
    """Of them, those that were known before."""
    timed: int
    replaced: int
    """Of those, where something is faster than what an untuned plan does."""
    run_seconds: float
    untuned_run_seconds: float


class Plan:
    """A compiled model, loaded on a device. :func:`hypatia.compile` makes one, :meth:`load` reads one.

    ``plan(x, y)`` and ``plan(x=x, y=y)`` run it on arrays of NumPy, or of any library that speaks DLPack (PyTorch,
    JAX, CuPy): on a CPU and on a GPU without copying what is dense. Outputs are arrays of the library of the first
    input that is not NumPy's, where that is; the one output, or a tuple of them in the plan's order.

    Any number of threads may call a plan at once. Python's lock is released while it runs. Of a training step, whose
    variables change, one call runs at a time.

    On a GPU, a run is queued on the stream that PyTorch or CuPy work on, so that it is in order with their work, and
    the call returns before it has ended. For other libraries it has ended when the call returns.
    """

    def __init__(
        self,
        engine: _native.Engine,
        *,
        path: str | None = None,
        options: Mapping[str, Any] | None = None,
        compilation: CompileReport | None = None,
    ) -> None:
        """Not to be called: :meth:`load`, :meth:`from_bytes`, :func:`hypatia.compile`."""
        self._engine = engine
        self._path = path
        self._file = _identity(path) if path is not None else None
        self._options = dict(options or {})
        self.compilation = compilation
        """What the compiler says of how it made the plan; None where the plan was loaded."""
        self.inputs = [Io(*row) for row in engine.inputs]
        self.outputs = [Io(*row) for row in engine.outputs]

    @classmethod
    def load(
        cls,
        path: Path,
        *,
        device: str = "auto",
        threads: int = 0,
        check: bool = True,
        memory_limit: int = 0,
        cpu_level: str | None = None,
        require_signature: bytes | None = None,
        processors: str | None = None,
        run_memory_limit: int = 0,
        work_limit: float = 0,
        shapes: int = 0,
        buckets: Mapping[str, int] | int | None = None,
    ) -> Plan:
        """Loads a plan from a file, which is mapped and may be removed afterwards.

        :param device: ``"auto"`` (a GPU if there is one that can run all of the plan, else the CPU), ``"cpu"``,
            ``"cuda"``, ``"cuda:1"``, or ``"reference"``, slow and for comparison.
        :param threads: of the CPU, that a run may use; 0: ``OMP_NUM_THREADS``, else all.
        :param check: verify the checksums of all bytes.
        :param memory_limit: bytes that the plan may take on the host and on its device; 0: no limit.
        :param cpu_level: the most that is used of the processor: ``"generic"``, ``"avx2"``, ``"avx512"``, ``"neon"``.
        :param require_signature: the public key of Ed25519, 32 bytes, that the plan has to be signed with.
        :param processors: that help in runs, as ``"0-3,8"``; unless given all that the process may use.
        :param run_memory_limit: bytes that each call under way may take beside the plan; 0: no limit.
        :param work_limit: operations and bytes of a run together; 0: no limit.
        :param shapes: sets of sizes that are kept prepared, the least used of which goes first; 0: 16.
        :param buckets: what sizes are rounded up to a multiple of, by their names: ``{"batch": 8}``, so that few sets of
            sizes are prepared; one number for all sizes that may be. Results are as without.
        """
        options = dict(
            device=device,
            threads=threads,
            check=check,
            memory_limit=memory_limit,
            cpu_level=cpu_level,
            require_signature=require_signature,
            processors=processors,
            run_memory_limit=run_memory_limit,
            work_limit=work_limit,
            shapes=shapes,
            buckets=buckets,
        )
        return cls(_load(os.fspath(path), options), path=os.fspath(path), options=options)

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        *,
        device: str = "auto",
        threads: int = 0,
        check: bool = True,
        memory_limit: int = 0,
        cpu_level: str | None = None,
        require_signature: bytes | None = None,
        processors: str | None = None,
        run_memory_limit: int = 0,
        work_limit: float = 0,
        shapes: int = 0,
        buckets: Mapping[str, int] | int | None = None,
    ) -> Plan:
        """Loads a plan from memory, which is copied. Parameters as of :meth:`load`."""
        options = dict(
            device=device,
            threads=threads,
            check=check,
            memory_limit=memory_limit,
            cpu_level=cpu_level,
            require_signature=require_signature,
            processors=processors,
            run_memory_limit=run_memory_limit,
            work_limit=work_limit,
            shapes=shapes,
            buckets=buckets,
        )
        return cls(_load(_native.Blob(data), options), options=options)

    # ---- running -------------------------------------------------------------------------------------------------

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Runs the plan on inputs by position, by name, or in a dict. Numbers and lists of them become arrays of NumPy.

        :returns: the output, or a tuple of several.
        """
        return self._engine.call(inputs, named, None, False)

    def run(self, inputs: Mapping[str, Any] | Sequence[Any], *, stream: int | None = None) -> dict[str, Any]:
        """As a call; outputs by their names.

        :param stream: on a GPU, the CUDA stream (an address; 1 for the legacy default stream) to run on. Arrays have
            to last until that stream has come to the end of the run.
        """
        if isinstance(inputs, Mapping):
            return dict(self._engine.call((), dict(inputs), stream, True))
        return dict(self._engine.call(tuple(inputs), None, stream, True))

    def synchronize(self) -> None:
        """Waits for runs that a GPU was given, and raises what went wrong in one of them."""
        self._engine.synchronize()

    def cancel(self) -> None:
        """Ends the runs of all calls that are under way in other threads, between two of their steps or two trips of a
        loop: they raise :class:`CancelledError`. A run that is in its last step, or that a GPU was given, ends well."""
        self._engine.cancel()

    def to_device(self, array: Any) -> _native.Tensor:
        """A copy of an array in the memory of the plan's device, which calls read where it is: for programs without a
        library of arrays for GPUs."""
        return self._engine.to_device(array)

    # ---- what it is --------------------------------------------------------------------------------------------------

    @property
    def device(self) -> str:
        """``"cpu"``, ``"cuda"`` or ``"reference"``."""
        return _DEVICE_NAMES[self._engine.device]

    @property
    def device_name(self) -> str:
        """With processor or GPU, and the libraries in use."""
        return self._engine.device_name

    @property
    def precision(self) -> str:
        """That the plan was compiled for: ``"fp32"``, ``"bf16"``, ..."""
        return self._engine.precision

    @property
    def weights(self) -> list[Io]:
        """Weights that :meth:`update` can replace (``updatable`` of :func:`hypatia.compile`)."""
        return [Io(*row) for row in self._engine.weights]

    @property
    def predicted_seconds(self) -> float:
        """What a run is predicted to take for typical sizes; 0: not predicted."""
        return self._engine.predicted_seconds

    @property
    def memory_bytes(self) -> int:
        """Bytes that the plan and the contexts of its calls have on the host and on its device."""
        return self._engine.memory_bytes

    def inspect(self, dims: Mapping[str, int] | None = None) -> dict[str, Any]:
        """What runs, and why: inputs, outputs, steps with their kernels, shapes, bytes and operations, the rules that
        made them.

        :param dims: sizes for symbolic dimensions, which count as 1 else.
        """
        return dict(json.loads(self._describe(True, dims)))

    def describe(self, dims: Mapping[str, int] | None = None) -> str:
        """The same for people."""
        return self._describe(False, dims)

    def _describe(self, as_json: bool, dims: Mapping[str, int] | None) -> str:
        blob = self._engine.blob
        if blob is not None:
            return blob.describe("plan", as_json, dict(dims or {}))
        with self._as_file() as path:
            return _native.describe(path, as_json, dict(dims or {}))

    def __repr__(self) -> str:
        def names(ios: list[Io]) -> str:
            return ", ".join(f"{io.name}: {io.dtype}[{', '.join(map(str, io.shape))}]" for io in ios)

        return f"<hypatia.Plan ({names(self.inputs)}) -> ({names(self.outputs)}) on {self.device_name}>"

    # ---- what is asked of it -----------------------------------------------------------------------------------------

    def random_inputs(self, dims: Mapping[str, int] | None = None, *, seed: int = 0) -> dict[str, Any]:
        """An array of NumPy for each input, the same on every machine: floats in [-1, 1), integers in [0, 8).

        :param dims: sizes for symbolic dimensions.
        """
        return {io.name: array for io, array in zip(self.inputs, self._engine.draw(dict(dims or {}), seed))}

    def verify(
        self,
        model: Model | None = None,
        inputs: Mapping[str, Any] | None = None,
        *,
        dims: Mapping[str, int] | None = None,
        seed: int = 0,
        any_model: bool = False,
    ) -> Verification:
        """Compares the plan with results of its model that it keeps, or with the model, which the reference
        interpreter runs. Each element has a tolerance of its own, from the plan's precision and from what is summed.

        :param model: as of :func:`hypatia.compile`.
        :param inputs: arrays of NumPy by name; drawn at random for `dims` unless given.
        :param any_model: also a model that the plan was not compiled from.
        :raises MismatchError: the plan is wrong.
        """
        return _checks.verify(self, model, inputs, dims, seed, any_model)

    def bench(self, inputs: Any = None, *, dims: Mapping[str, int] | None = None, seconds: float = 1) -> Bench:
        """Times calls on inputs, as a call takes them in a dict or a tuple, or random ones for `dims`."""
        return _checks.bench(self, inputs, dims, seconds)

    def report(self, *, measure: bool = False, seconds: float = 2) -> Report:
        """A page that shows what the model was, what became of it, and why; a notebook shows it.

        :param measure: run the plan, too, for typical sizes: what it takes stands beside what was predicted.
        """
        return _checks.report(self, measure, seconds)

    # ---- changing it ----------------------------------------------------------------------------------------------------

    def tune(self, dims: Mapping[str, int] | None = None, *, seconds: float = 60) -> Tuning:
        """Measures, for inputs of these sizes, every way to do each step, and takes the fastest from then on.
        :meth:`save` keeps it."""
        return Tuning(*self._engine.tune(dict(dims or {}), seconds))

    def update(self, weights: Mapping[str, Any]) -> None:
        """Replaces weights that the plan was compiled with as `updatable`, by their names in the model: all of them
        or, on failure, none. Runs that begin afterwards are with the new ones."""
        self._engine.update(dict(weights))

    # ---- keeping it --------------------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Writes the plan, with what tuning found: a file that appears whole or not at all. A signature is left away."""
        if self.device != "reference":
            self._engine.save(os.fspath(path))
            return
        # On a device that has nothing to tune a plan is what it was loaded from.
        data, folder = self.to_bytes(), os.path.dirname(os.path.abspath(path))
        with tempfile.TemporaryDirectory(prefix=".hypatia-", dir=folder) as beside:
            part = os.path.join(beside, "plan.bin")
            with open(part, "wb") as file:
                file.write(data)
            os.replace(part, path)

    def to_bytes(self) -> bytes:
        """The plan as bytes, for :meth:`from_bytes`."""
        blob = self._engine.blob
        if blob is not None and self.device == "reference":
            return blob.tobytes()
        with self._as_file(fresh=True) as path, open(path, "rb") as file:
            return file.read()

    def __reduce__(self) -> Any:
        return _unpickle, (self.to_bytes(), self._options)

    def _place(self) -> str:
        """The device as an option of the tools."""
        return f"cuda:{_device(self._options['device'])[1]}" if self.device == "cuda" else self.device

    def _as_file(self, fresh: bool = False) -> _PlanFile:
        """The plan as a file for as long as the context lasts: the one that it was loaded from, where that is still
        the same, unless what tuning found is to be in it (`fresh`)."""
        return _PlanFile(self, fresh)


class _PlanFile:
    def __init__(self, plan: Plan, fresh: bool) -> None:
        self._plan = plan
        self._fresh = fresh and plan.device != "reference"
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> str:
        plan = self._plan
        same = plan._path is not None and plan._file is not None and _identity(plan._path) == plan._file
        if plan._path is not None and same and not self._fresh:
            return plan._path
        if plan._engine.blob is None and plan.device == "reference":
            raise FileError(f"{plan._path}: the file is not there any more, or is another one")
        self._folder = tempfile.TemporaryDirectory(prefix="hypatia-")
        path = os.path.join(self._folder.name, "plan.bin")
        plan.save(path)
        return path

    def __exit__(self, *error: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()


def _identity(path: str) -> tuple[int, ...] | None:
    try:
        s = os.stat(path)
    except OSError:
        return None
    return s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns


def _load(source: str | _native.Blob, options: Mapping[str, Any]) -> _native.Engine:
    kind, index = _device(options["device"])
    if kind in (_DEVICES["auto"], _DEVICES["cuda"]):
        _cuda.open_libraries()
    key = options["require_signature"]
    if key is not None and len(key) != 32:
        raise ValueError(f"a public key has 32 bytes, this one {len(key)}")
    rounded = options["buckets"]
    return _native.Engine.load(
        source,
        kind,
        index,
        options["threads"],
        options["check"],
        options["memory_limit"],
        options["cpu_level"],
        key,
        options["processors"],
        options["run_memory_limit"],
        options["work_limit"],
        options["shapes"],
        {"": rounded} if isinstance(rounded, int) else None if rounded is None else dict(rounded),
    )


def _unpickle(data: bytes, options: dict[str, Any]) -> Plan:
    return Plan(_load(_native.Blob(data), options), options=options)
