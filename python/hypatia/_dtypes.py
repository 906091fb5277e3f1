"""Types of elements, as Hypatia and NumPy name them."""

from __future__ import annotations

from typing import Any

import numpy as np

_NUMPY = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bool": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
}
_ML_DTYPES = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn"}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The dtype of NumPy; of bf16 and f8e4m3, which NumPy lacks, that of the package ml_dtypes."""
    if name in _NUMPY:
        return np.dtype(_NUMPY[name])
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(f"NumPy has no {name}: install ml_dtypes, or give arrays of a library that has it") from None
    kind: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ML_DTYPES[name]))
    return kind


def to_numpy(values: Any, name: str) -> np.ndarray[Any, Any]:
    """Numbers, and lists of them, as an array; None: an array of nothing."""
    if values is None:
        return np.empty(0, numpy_dtype(name))
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"wanted an array or numbers, got {type(values).__name__}")
    return array.astype(
        numpy_dtype(name), casting="unsafe" if isinstance(values, (list, tuple, int, float, bool)) else "same_kind"
    )
