"""Linear layers of PyTorch that train: ``hypatia/nn.h``, whose products have activations, biases and their gradients
in them, as functions of autograd.

    from hypatia.nn import FusedMLP, LinearReLU

    model = torch.nn.Sequential(LinearReLU(784, 2048), torch.nn.Linear(2048, 10))
    model = FusedMLP([784, 2048, 2048, 10])

Parameters are those of ``torch.nn.Linear``, by the same names. On tensors that the library has no layers for (of
float64, on another device than a CPU or a CUDA GPU), under ``torch.compile``, ``torch.export`` and autocast they
compute the same by PyTorch's own functions. See ``docs/pytorch.md``.
"""

from __future__ import annotations

import threading
from typing import Any, Sequence

import torch
import torch.nn.functional as F

from . import _cuda, _native

__all__ = ["FusedMLP", "LinearReLU"]

_ACTIVATIONS = {"none": 0, "relu": 1, "gelu": 2, "gelu-tanh": 3, "silu": 4}  # hyp_nn_act
_PLAIN = {
    "none": lambda x: x,
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}
_TYPES = (torch.float32, torch.float16, torch.bfloat16)


class _Handle:
    """A ``hyp_nn`` of a device. One thread uses it at a time; what a forward pass saves is for its handle alone."""

    _all: dict[tuple[str, int, int], _Handle] = {}
    _making = threading.Lock()

    def __init__(self, device: torch.device, threads: int) -> None:
        if device.type == "cuda":
            _cuda.open_libraries()
        self.native = _native.Nn(2 if device.type == "cuda" else 1, device.index or 0, threads)
        self.lock = threading.Lock()

    @classmethod
    def of(cls, device: torch.device) -> _Handle:
        threads = torch.get_num_threads() if device.type == "cpu" else 1
        key = (device.type, device.index or 0, threads)
        with cls._making:
            if key not in cls._all:
                cls._all[key] = cls(device, threads)
            return cls._all[key]


def _stream(x: torch.Tensor) -> int | None:
    return torch.cuda.current_stream(x.device).cuda_stream or 1 if x.is_cuda else None


def _rows(x: torch.Tensor) -> torch.Tensor:
    """Dense, and on a GPU at a multiple of 16 bytes, as the library wants it."""
    x = x.detach().contiguous()
    return x.clone() if x.is_cuda and x.data_ptr() % 16 else x


def _forward(x: Any, activations: Sequence[str], parameters: Sequence[Any], save: bool) -> tuple[Any, Any, _Handle, bool]:
    """The result, what the backward pass needs (None unless `save`), whose it is, and whether it is in TF32."""
    handle, stream, tf32 = _Handle.of(x.device), _stream(x), torch.get_float32_matmul_precision() != "highest"
    layers = _tuples(activations, parameters)
    y = torch.empty((*x.shape[:-1], parameters[-2].shape[0]), dtype=x.dtype, device=x.device)
    saved = None
    with handle.lock:
        if save:
            size = handle.native.saved_bytes(layers, x, stream)
            saved = torch.empty(max(size, 1), dtype=torch.uint8, device=x.device)
        handle.native.forward(layers, x, y, saved, stream, tf32)
    return y, saved, handle, tf32


class _Layers(torch.autograd.Function):
    """Layers in a row: parameters are weight and bias (or None) of each."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, activations: tuple[str, ...], *parameters: Any) -> torch.Tensor:
        x, parameters = _rows(x), tuple(p if p is None else _rows(p) for p in parameters)
        y, saved, ctx.handle, ctx.tf32 = _forward(x, activations, parameters, True)
        ctx.save_for_backward(x, saved, *(p for p in parameters if p is not None))
        ctx.there = [p is not None for p in parameters]
        ctx.activations = activations
        return y  # type: ignore[no-any-return]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        x, saved, *kept = ctx.saved_tensors
        rest = iter(kept)
        parameters = [next(rest) if there else None for there in ctx.there]
        dy, stream, wanted = _rows(gradients[0]), _stream(x), ctx.needs_input_grad
        dx = torch.empty_like(x) if wanted[0] else None
        made = [torch.empty_like(p) if p is not None and want else None for p, want in zip(parameters, wanted[2:])]
        pairs = tuple(zip(made[::2], made[1::2]))
        layers = _tuples(ctx.activations, parameters)
        with ctx.handle.lock:
            ctx.handle.native.backward(layers, x, saved, dy, dx, pairs, stream, ctx.tf32)
        return (dx, None, *made)


def _tuples(activations: Sequence[str], parameters: Sequence[Any]) -> tuple[tuple[Any, Any, int], ...]:
    pairs = zip(parameters[::2], parameters[1::2])
    return tuple((w, b, _ACTIVATIONS[a]) for (w, b), a in zip(pairs, activations))


def _run(x: torch.Tensor, layers: Sequence[torch.nn.Linear], activations: tuple[str, ...]) -> torch.Tensor:
    parameters = [p for layer in layers for p in (layer.weight, layer.bias)]
    if not _served(x, parameters):
        for layer, activation in zip(layers, activations):
            x = _PLAIN[activation](F.linear(x, layer.weight, layer.bias))
        return x
    if torch.is_grad_enabled() and any(p is not None and p.requires_grad for p in (x, *parameters)):
        return _Layers.apply(x, activations, *parameters)  # type: ignore[no-any-return, no-untyped-call]
    dense = [p if p is None else _rows(p) for p in parameters]
    return _forward(_rows(x), activations, dense, False)[0]  # type: ignore[no-any-return]


def _served(x: torch.Tensor, parameters: Sequence[Any]) -> bool:
    """Whether the library computes it; else PyTorch does, and says what is wrong with it where something is."""
    if torch.compiler.is_compiling() or torch.is_autocast_enabled(x.device.type) or x.device.type not in ("cpu", "cuda"):
        return False
    if x.dtype not in _TYPES or not 1 <= x.dim() <= 8 or not x.numel() or x.shape[-1] != parameters[0].shape[1]:
        return False
    return all(p is None or (p.dtype == x.dtype and p.device == x.device) for p in parameters)


class LinearReLU(torch.nn.Linear):
    """``relu(x w^T + b)``: ``torch.nn.Linear`` and a relu in one; arguments and parameters are those of
    ``torch.nn.Linear``."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return _run(input, (self,), ("relu",))


class FusedMLP(torch.nn.Module):
    """Linear layers with an activation behind each but the last, computed as one.

    :param widths: of the input, and of each layer's output.
    :param activation: ``"relu"``, ``"gelu"``, ``"gelu-tanh"``, ``"silu"`` or ``"none"``, behind each layer but the last.
    :param last: the one behind the last.
    :param bias: whether layers have biases.
    """

    def __init__(
        self,
        widths: Sequence[int],
        *,
        activation: str = "relu",
        last: str = "none",
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if len(widths) < 2:
            raise ValueError(f"widths {list(widths)}: wanted that of the input and that of a layer, or more")
        for name in (activation, last):
            if name not in _ACTIVATIONS:
                raise ValueError(f"there is no activation {name!r}; there are {', '.join(_ACTIVATIONS)}")
        made = (torch.nn.Linear(i, o, bias, device=device, dtype=dtype) for i, o in zip(widths, widths[1:]))
        self.layers = torch.nn.ModuleList(made)
        self.activations = (activation,) * (len(widths) - 2) + (last,)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return _run(input, tuple(self.layers), self.activations)  # type: ignore[arg-type]

    def extra_repr(self) -> str:
        return f"activations={', '.join(self.activations)}"
