"""Runs the tests of the Python package with pytest, on what PYTHONPATH has of it: run.py [FILE] [OPTION]..."""

import os
import sys

try:
    import numpy  # noqa: F401
    import onnx  # noqa: F401
    import pytest
except ImportError as error:
    print(f"skipped: {error}; pip install pytest numpy onnx")
    sys.exit(77)

folder = os.path.dirname(os.path.abspath(__file__))
files, options = [[word for word in sys.argv[1:] if word.endswith(".py") == is_file] for is_file in (True, False)]
sys.exit(
    pytest.main(
        ["-q", "-p", "no:cacheprovider", "-rs", *options, *([os.path.join(folder, name) for name in files] or [folder])]
    )
)
