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
from ._checks import Bench, Comparison, Report, Verification
from ._compile import CompileReport, Progress, RuleUse, compile, rules
from ._plan import Io, Plan, Tuning

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
