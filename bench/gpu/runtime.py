"""libhypatia-rt from Python, by its public C interface (hypatia/runtime.h), on PyTorch's device memory and stream."""
import ctypes as c
import subprocess
import sys

import torch

HYP_DEVICE_CUDA = 2
HYP_MEMORY_CUDA = 1
DTYPES = {torch.float32: 1, torch.float64: 11, torch.float16: 10, torch.bfloat16: 16, torch.int64: 7, torch.int32: 6,
          torch.bool: 9}  # hyp_dtype has ONNX's numbers


def compile_plan(hypatiac, onnx, plan, *options):
    """Compiles for a GPU; ends the program with hypatiac's message where that fails."""
    command = [hypatiac, onnx, "-o", plan, "-q", "--target", "cuda", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}:\n{done.stderr}")


class Diag(c.Structure):
    _fields_ = [("status", c.c_int), ("message", c.c_char * 4096)]


class EngineOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("device", c.c_int), ("device_index", c.c_int32), ("threads", c.c_int32),
                ("trust_weights", c.c_bool), ("log", c.c_void_p), ("log_user", c.c_void_p)]


class ContextOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("stream", c.c_void_p)]


class Tensor(c.Structure):
    _fields_ = [("name", c.c_char_p), ("data", c.c_void_p), ("bytes", c.c_size_t), ("dtype", c.c_int),
                ("memory", c.c_int), ("rank", c.c_int32), ("dims", c.c_int64 * 8)]


class Library:
    def __init__(self, path):
        self.lib = c.CDLL(path)
        for name in ("hyp_engine_load_file", "hyp_context_create", "hyp_context_run", "hyp_context_synchronize"):
            getattr(self.lib, name).restype = c.c_int
        self.lib.hyp_engine_device_name.restype = c.c_char_p
        self.lib.hyp_context_run.argtypes = [c.c_void_p, c.c_void_p, c.c_size_t, c.c_void_p, c.c_size_t, c.c_void_p]

    def check(self, status, diag):
        if status:
            raise RuntimeError(diag.message.decode())


class Plan:
    """A plan bound to torch tensors on the device, inputs and outputs in the plan's order."""

    def __init__(self, library, path, stream, inputs, outputs):
        self.library, self.diag = library, Diag()
        options = EngineOptions(size=c.sizeof(EngineOptions), device=HYP_DEVICE_CUDA)
        self.engine, self.context = c.c_void_p(), c.c_void_p()
        lib, diag = library.lib, c.byref(self.diag)
        library.check(lib.hyp_engine_load_file(path.encode(), c.byref(options), c.byref(self.engine), diag), self.diag)
        on = ContextOptions(size=c.sizeof(ContextOptions), stream=stream)
        library.check(lib.hyp_context_create(self.engine, c.byref(on), c.byref(self.context), diag), self.diag)
        self.keep = (inputs, outputs)
        x, y = self.tensors(inputs), self.tensors(outputs)
        self.args = (self.context, c.byref(x), len(inputs), c.byref(y), len(outputs), c.byref(self.diag))
        self.call = lib.hyp_context_run

    @staticmethod
    def tensors(list):
        return (Tensor * len(list))(*(Tensor(None, t.data_ptr(), t.numel() * t.element_size(), DTYPES[t.dtype],
                                             HYP_MEMORY_CUDA, t.dim(), (c.c_int64 * 8)(*t.shape)) for t in list))

    def run(self):
        if self.call(*self.args):
            raise RuntimeError(self.diag.message.decode())

    def device_name(self):
        return self.library.lib.hyp_engine_device_name(self.engine).decode()

    def close(self):
        self.library.lib.hyp_context_destroy(self.context)
        self.library.lib.hyp_engine_destroy(self.engine)
