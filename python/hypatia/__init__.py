"""Hypatia compiles neural networks by equality saturation, and runs them on a CPU or an NVIDIA GPU.

    import hypatia

    plan = hypatia.compile("model.onnx")
    y = plan(x)                        # arrays of NumPy, PyTorch, JAX, CuPy: outputs are of the same library
    plan.save("plan.bin")
    plan = hypatia.Plan.load("plan.bin")

``hypatia.egraph`` has e-graphs of any language. ``hypatia.torch`` is a backend of ``torch.compile``, ``hypatia.nn`` has
layers of PyTorch that train; ``hypatia.from_torch`` makes a plan of a module.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ._errors import *
from ._errors import __all__ as _error_names
from ._native import Tensor, version as __version__, version_details
from ._checks import Bench, Comparison, Report, Verification
from ._compile import CompileReport, Progress, RuleUse, compile, rules
from ._plan import Io, Plan, Tuning

if TYPE_CHECKING:
    from .torch import from_torch as from_torch  # not in __all__, as it needs PyTorch

__all__ = [
    "Bench",
    "Comparison",
    "CompileReport",
    "Io",
    "Plan",
    "Progress",
    "Report",
    "RuleUse",
    "Tensor",
    "Tuning",
    "Verification",
    "__version__",
    "compile",
    "rules",
    "version_details",
    *_error_names,
]


def __getattr__(name: str) -> Any:
    """What needs PyTorch is imported when it is asked for."""
    if name == "from_torch":
        return importlib.import_module("hypatia.torch").from_torch
    if name in ("nn", "torch"):
        return importlib.import_module(f"hypatia.{name}")
    raise AttributeError(f"module 'hypatia' has no attribute {name!r}")
