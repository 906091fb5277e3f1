"""Runs the tests of the Python package with pytest, on what PYTHONPATH has of it."""

import os
import sys

try:
    import numpy  # noqa: F401
    import onnx  # noqa: F401
    import pytest
except ImportError as error:
    print(f"skipped: {error}; pip install pytest numpy onnx")
    sys.exit(77)

sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", os.path.dirname(os.path.abspath(__file__)), *sys.argv[1:]]))
