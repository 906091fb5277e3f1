"""Hypatia compiles neural networks by equality saturation, and runs them on a CPU or an NVIDIA GPU.

    import hypatia

    plan = hypatia.compile("model.onnx")
    y = plan(x)                        # arrays of NumPy, PyTorch, JAX, CuPy: outputs are of the same library
    plan.save("plan.bin")
    plan = hypatia.Plan.load("plan.bin")

``hypatia.egraph`` has e-graphs of any language.
"""

from ._errors import *
from ._errors import __all__ as _error_names
from ._native import Tensor, version as __version__, version_details
from ._compile import CompileReport, RuleUse, compile, rules
from ._plan import Io, Plan

__all__ = ["CompileReport", "Io", "Plan", "RuleUse", "Tensor", "compile", "rules", "version_details", *_error_names]
