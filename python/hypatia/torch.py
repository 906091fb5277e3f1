"""Hypatia as a backend of ``torch.compile``, and plans from modules of PyTorch.

    import hypatia.torch                                  # or nothing: the package's entry point names the backend
    model = torch.compile(model.eval(), backend="hypatia", options={"precision": "bf16"})

    with torch.inference_mode():
        y = model(x)

For inference: what cannot be exported or compiled runs as it did without Hypatia, with one :class:`FallbackWarning`
that says why. See ``docs/pytorch.md``.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import threading
import warnings
import weakref
from typing import Any, Callable, Mapping, Sequence

import torch

from . import _export
from ._compile import compile as _compile
from ._errors import Error, InvalidArgumentError, UnsupportedError
from ._export import ExportError
from ._native import version_details
from ._plan import Plan

__all__ = ["ExportError", "FallbackWarning", "backend", "from_torch", "plans"]

_MOST_SHAPES = 8  # plans of one graph, where not one serves all shapes
_graphs: weakref.WeakSet[_Graph] = weakref.WeakSet()
_OWN = ("strict", "dynamic", "frozen", "cache", "tune")
_COMPILE = tuple(name for name in inspect.signature(_compile).parameters if name not in ("model", "device"))


class FallbackWarning(UserWarning):
    """A graph runs without Hypatia, and why."""


def from_torch(
    module: torch.nn.Module,
    example: Any,
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic: bool | Mapping[str, Mapping[int, str]] = False,
    **options: Any,
) -> Plan:
    """A plan of a module, for inference: parameters are weights of the plan, as they are now.

    :param example: a tensor, or a tuple of the arguments of a call, whose shapes and types count.
    :param kwargs: arguments by name.
    :param dynamic: True: the first axis of all tensors is open, of the name "batch"; else a dict of axes with their
        names for arguments by name: ``{"x": {0: "batch", 1: "length"}}``. Axes with the same name have the same size.
    :param options: of :func:`hypatia.compile`; `device` follows from the tensors unless given.
    :raises ExportError: PyTorch cannot export the module, or fixes a size that was to be open.
    """
    args = example if isinstance(example, tuple) else (example,)
    given = dict(inspect.signature(module.forward).bind(*args, **(kwargs or {})).arguments)
    shapes, names = _open_axes(given, dynamic)
    tensors = [*args, *(kwargs or {}).values(), *module.parameters(), *module.buffers()]
    options.setdefault("device", _device_of([t for t in tensors if isinstance(t, torch.Tensor)]))
    with torch.no_grad():
        made = _export.export(module, args, kwargs=kwargs, dynamic=shapes, dim_names=names)
    with made.folder:
        return _compile(made.path, **options)


def _open_axes(given: Mapping[str, Any], dynamic: Any) -> tuple[Any, dict[tuple[str, int], str]]:
    """``dynamic_shapes`` of torch.export, and names of axes."""
    if not dynamic:
        return None, {}
    if dynamic is True:
        dynamic = {name: {0: "batch"} for name, value in given.items() if isinstance(value, torch.Tensor) and value.dim()}
    unknown = set(dynamic) - set(given)
    if unknown:
        raise InvalidArgumentError(f"dynamic names {', '.join(sorted(unknown))}; arguments are {', '.join(given)}")
    shapes = {
        name: {axis: torch.export.Dim.DYNAMIC for axis in dynamic.get(name, {})} if isinstance(value, torch.Tensor) else None
        for name, value in given.items()
    }
    return shapes, {(name, axis): symbol for name, axes in dynamic.items() for axis, symbol in axes.items()}


def _device_of(tensors: Sequence[torch.Tensor]) -> str:
    """The one device of all tensors, but for numbers in the host's memory."""
    devices = {str(t.device) for t in tensors if t.dim() or t.device.type != "cpu"} or {"cpu"}
    if len(devices) > 1:
        raise ExportError(f"tensors are on several devices: {', '.join(sorted(devices))}")
    device = devices.pop()
    if torch.device(device).type not in ("cpu", "cuda"):
        raise ExportError(f"tensors are on {device}; plans run on cpu and cuda")
    return device


# ---- torch.compile -------------------------------------------------------------------------------------------------


def backend(graph: torch.fx.GraphModule, example: Sequence[Any], **named: Any) -> Callable[..., Any]:
    """The backend "hypatia" of ``torch.compile``. Its ``options`` are those of :func:`hypatia.compile`, and

    - ``strict``: what would run eager is an error.
    - ``dynamic``: False: a plan for each shape, also where sizes are open.
    - ``frozen``: parameters are not watched for changes.
    - ``cache``: a folder that keeps plans for later processes.
    - ``tune``: seconds to :meth:`Plan.tune` a new plan for.

    A ``mode`` of ``torch.compile`` says nothing to it.
    """
    options = dict(named.pop("options", None) or {})
    named.pop("mode", None)
    options.update(named)
    unknown = sorted(set(options) - set(_OWN) - set(_COMPILE))
    if unknown:
        known = ", ".join(sorted((*_OWN, *_COMPILE)))
        raise InvalidArgumentError(f"the backend has no option {', '.join(unknown)}; it has {known}")
    return _Graph(graph, example, options)


def plans() -> list[Plan]:
    """The plans that compiled modules have now, for :meth:`Plan.describe`, :meth:`Plan.report` and the like."""
    return [plan for graph in list(_graphs) for plan in graph.plans.values() if plan is not None]


class _Graph:
    """A graph of torch.compile, with its plans."""

    def __init__(self, graph: torch.fx.GraphModule, example: Sequence[Any], options: dict[str, Any]) -> None:
        self._eager = graph.forward
        self._strict = bool(options.pop("strict", False))
        self._dynamic = bool(options.pop("dynamic", True))
        self._frozen = bool(options.pop("frozen", False))
        self._cache = options.pop("cache", None)
        self._tune = float(options.pop("tune", 0))
        self._options = options
        _graphs.add(self)
        self.plans: dict[tuple[Any, ...], Plan | None] = {}
        self._lock = threading.Lock()
        self._not_open = ""
        self._weights: list[int] = []
        self._watched: list[int] = []
        self._seen: list[int] = []
        self._captured: _export.Captured | None = None
        if torch.is_grad_enabled() and any(isinstance(t, torch.Tensor) and t.requires_grad for t in example):
            self._fall_back("gradients are wanted, and plans have none: call it under torch.inference_mode() or no_grad()")
            return
        try:
            self._captured = _export.capture(graph, example)
        except Error as error:
            self._fall_back(str(error), error)
            return
        except Exception as error:  # of PyTorch, about a graph of a kind that nobody has thought of
            self._fall_back(f"{type(error).__name__}: {error}", error)
            return
        self._attached = any(example[place].requires_grad for place in self._captured.inputs)
        self._weights = [place for _, place in self._captured.weights.values()]
        if not self._frozen:  # tensors made under inference_mode have no version
            self._watched = [place for place in self._weights if not example[place].is_inference()]

    def _fall_back(self, why: str, cause: BaseException | None = None) -> None:
        if self._strict:
            raise UnsupportedError(f"a graph cannot run in a plan: {why}") from cause
        warnings.warn(f"a graph runs eager, without Hypatia: {why}", FallbackWarning, stacklevel=3)

    def __call__(self, *args: Any) -> Any:
        captured = self._captured
        if captured is None:
            return self._eager(*args)
        if self._seen and self._seen != self._versions(args):
            self._weights_changed(args)
        inputs = [args[place] for place in captured.inputs]
        if self._attached:  # DLPack of older releases refuses them, and here nobody wants gradients
            inputs = [t.detach() for t in inputs]
        plan = self.plans.get((), self)
        if plan is self:
            plan = self._plan_for(args, inputs)
        if plan is None:
            return self._eager(*args)
        given = plan(*inputs)  # type: ignore[operator]
        outputs = given if isinstance(given, tuple) else (given,)
        return tuple(None if place is None else outputs[place] for place in captured.outputs)

    # ---- plans by shape ----------------------------------------------------------------------------------------

    def _plan_for(self, args: Sequence[Any], inputs: Sequence[torch.Tensor]) -> Plan | None:
        """The plan for inputs of these shapes: that of all shapes, under (), or one of their own. None: eager."""
        assert self._captured is not None
        with self._lock:
            if () in self.plans:
                return self.plans[()]
            shapes = tuple(tuple(t.shape) for t in inputs)
            if shapes in self.plans:
                return self.plans[shapes]
            if any(self._captured.dynamic) and not self.plans and self._dynamic:
                try:
                    plan = self._make(args, inputs, self._captured.dynamic)
                    self.plans[()] = plan
                    return plan
                except Error as error:
                    self._not_open = str(error)  # with sizes that are known it may be possible
            if len(self.plans) >= _MOST_SHAPES:
                why = f": {self._not_open}" if self._not_open else ""
                self._fall_back(f"it was called with more than {_MOST_SHAPES} shapes, and no plan serves all of them{why}")
                self.plans[()] = None
                return None
            key = shapes if any(self._captured.dynamic) else ()
            try:
                self.plans[key] = self._make(args, inputs, None)
            except Error as error:
                self.plans[()] = None
                self._fall_back(str(error), error)
            return self.plans.get(key)

    def _make(self, args: Sequence[Any], inputs: Sequence[torch.Tensor], dynamic: list[set[int]] | None) -> Plan:
        captured = self._captured
        assert captured is not None
        for name, (_, place) in captured.weights.items():
            setattr(captured.module, name, args[place])
        seen = self._versions(args)
        shapes = None
        if dynamic is not None:
            shapes = tuple({axis: torch.export.Dim.AUTO for axis in axes} for axes in dynamic)
        names = {name: user for name, (user, _) in captured.weights.items()}
        options = dict(self._options)
        options["device"] = _device_of([*inputs, *(args[place] for place in self._weights)])
        if options["device"] == "cpu":
            options.setdefault("threads", torch.get_num_threads())
        with torch.no_grad():
            made = _export.export(captured.module, tuple(inputs), dynamic=shapes, weight_names=names)
        with made.folder:
            self._check_open(made.shapes, dynamic)
            sizes = made.sizes(inputs)
            options.setdefault("typical", sizes)
            plan = _cached(self._cache, made.path, options, self._tune, sizes)
        self._seen = seen
        return plan

    @staticmethod
    def _check_open(shapes: Sequence[tuple[int | str, ...]], dynamic: list[set[int]] | None) -> None:
        for i, (shape, axes) in enumerate(zip(shapes, dynamic or ())):
            for axis in axes:
                if isinstance(shape[axis], int):
                    raise ExportError(f"axis {axis} of input {i} is fixed to {shape[axis]}")

    # ---- weights ---------------------------------------------------------------------------------------------------

    def _versions(self, args: Sequence[Any]) -> list[int]:
        """Changes with every change of a parameter that PyTorch counts, and with its memory."""
        watched = [args[place] for place in self._watched]
        return [t._version for t in watched] + [t.data_ptr() for t in watched]

    def _weights_changed(self, args: Sequence[Any]) -> None:
        """Updates plans, or forgets them where they hold a changed weight in another form."""
        assert self._captured is not None
        with self._lock:
            now, count = self._versions(args), len(self._watched)
            moved = {self._watched[i % count] for i, (old, new) in enumerate(zip(self._seen, now)) if old != new}
            changed = {name: args[place].detach() for name, place in self._captured.weights.values() if place in moved}
            self._seen = now
            for key, plan in list(self.plans.items()):
                if plan is None:
                    continue
                shapes = {io.name: io.shape for io in plan.weights}
                if all(shapes.get(name) == tuple(value.shape) for name, value in changed.items()):
                    plan.update(changed)
                else:
                    del self.plans[key]


def _cached(
    folder: str | os.PathLike[str] | None, path: str, options: Mapping[str, Any], tune: float, sizes: Mapping[str, int]
) -> Plan:
    """Compiles and tunes a model, or loads the plan that a folder has of it."""
    kept = None
    if folder is not None and not os.path.exists(path + ".data"):
        with open(path, "rb") as file:
            key = hashlib.sha256(file.read())
        key.update(repr((version_details, sorted(options.items()), tune)).encode())
        kept = os.path.join(folder, key.hexdigest() + ".plan")
        with contextlib.suppress(Error):  # not there, of another version, or damaged
            return Plan.load(kept, device=options["device"], threads=options.get("threads", 0))
    plan = _compile(path, **options)
    if tune:
        plan.tune(sizes, seconds=tune)
    if kept is not None:
        os.makedirs(os.path.dirname(kept), exist_ok=True)
        plan.save(kept)
    return plan


def _register() -> None:
    from torch._dynamo import list_backends, register_backend

    if "hypatia" not in list_backends(exclude_tags=()):
        register_backend(backend, name="hypatia")


_register()
