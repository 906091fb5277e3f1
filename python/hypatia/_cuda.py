"""CUDA's libraries from PyPI. The runtime opens cuBLASLt, cuDNN and NVRTC by their names, where the system looks;
those of the packages nvidia-cublas, nvidia-cudnn and nvidia-cuda-nvrtc, which come with PyTorch, lie elsewhere. Once
they are open, a name finds them.
"""

from __future__ import annotations

import ctypes
import functools
import glob
import importlib.util
import os

_LIBRARIES = {
    "HYPATIA_CUBLASLT": "libcublasLt.so.[0-9]*",
    "HYPATIA_CUDNN": "libcudnn.so.[0-9]*",
    "HYPATIA_NVRTC": "libnvrtc.so.[0-9]*",
}


@functools.cache
def open_libraries() -> None:
    """Opens them, where there is a driver; those that the environment names are the runtime's to open."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return
    spec = importlib.util.find_spec("nvidia")
    for variable, pattern in _LIBRARIES.items():
        if spec is None or variable in os.environ:
            continue
        found = [
            path for folder in spec.submodule_search_locations or () for path in glob.glob(f"{folder}/*/lib/{pattern}")
        ]
        for path in sorted(found, key=os.path.basename, reverse=True):  # the newest
            try:
                ctypes.CDLL(path)
            except OSError:
                continue
            break
