"""Libraries of arrays. All are reached by DLPack; what DLPack does not say, how to make an array for an output and
which stream a library works on, is said here."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ._dtypes import numpy_dtype


class Framework:
    """A library whose arrays nobody may write to, or of which nothing is known: outputs are memory of Hypatia's, lent
    to it."""

    numpy = False

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def empty(self, like: Any, shape: tuple[int, ...], dtype: str) -> Any:
        """An array for an output, beside `like`; None: the library has none that may be written to."""
        return None

    def stream(self, array: Any) -> int | None:
        """The CUDA stream that the library works on, 1 for the legacy default stream; None: it does not say, so that
        runs are on a stream of their own, and have ended when the call returns."""
        return None

    def dense(self, array: Any) -> Any:
        """A dense copy."""
        if hasattr(array, "__array_namespace__"):
            return array.__array_namespace__().asarray(array, copy=True)
        raise TypeError(
            f"an array of {self.kind.__module__}.{self.kind.__name__} is not dense: give a dense copy of it"
        )

    def wrap(self, like: Any, tensor: Any) -> Any:
        """The library's array of memory of ours."""
        if hasattr(like, "__array_namespace__"):
            return like.__array_namespace__().from_dlpack(tensor)
        return tensor

    def cut(self, array: Any, elements: int, shape: tuple[int, ...]) -> Any:
        """The first elements of an array that has room for more, in a shape."""
        return array.reshape(-1)[:elements].reshape(shape)


class Numpy(Framework):
    numpy = True

    def dense(self, array: Any) -> Any:
        return np.array(array, dtype=array.dtype.newbyteorder("="), order="C")


class Torch(Framework):
    def empty(self, like: Any, shape: tuple[int, ...], dtype: str) -> Any:
        import torch

        names = {
            "f32": torch.float32,
            "f64": torch.float64,
            "f16": torch.float16,
            "bf16": torch.bfloat16,
            "bool": torch.bool,
            "i8": torch.int8,
            "i16": torch.int16,
            "i32": torch.int32,
            "i64": torch.int64,
            "u8": torch.uint8,
        }
        kind = names.get(dtype) or getattr(torch, {"f8e4m3": "float8_e4m3fn"}.get(dtype, dtype.replace("u", "uint")))
        return torch.empty(shape, dtype=kind, device=like.device)

    def stream(self, array: Any) -> int | None:
        import torch

        return torch.cuda.current_stream(array.device).cuda_stream or 1 if array.is_cuda else None

    def dense(self, array: Any) -> Any:
        return array.contiguous()

    def wrap(self, like: Any, tensor: Any) -> Any:
        import torch

        return torch.from_dlpack(tensor)


class Cupy(Framework):
    def empty(self, like: Any, shape: tuple[int, ...], dtype: str) -> Any:
        import cupy

        return cupy.empty(shape, numpy_dtype(dtype))

    def stream(self, array: Any) -> int | None:
        import cupy

        return cupy.cuda.get_current_stream().ptr or 1

    def dense(self, array: Any) -> Any:
        import cupy

        return cupy.ascontiguousarray(array)


_KNOWN: dict[str, type[Framework]] = {"torch": Torch, "cupy": Cupy}


def of_type(kind: type) -> Framework | None:
    """The library of a type of arrays; None: its objects are no arrays."""
    if issubclass(kind, np.ndarray):
        return Numpy(kind)
    if not hasattr(kind, "__dlpack__") or issubclass(kind, np.generic):
        return None
    for base in kind.__mro__:
        name = base.__module__.partition(".")[0]
        if name in _KNOWN and name in sys.modules:
            return _KNOWN[name](kind)
    return Framework(kind)
