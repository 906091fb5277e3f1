"""libhypatia-rt from Python, by its public C interface (hypatia/runtime.h), on PyTorch's device memory and stream."""
import ctypes as c
import subprocess

import torch

HYP_DEVICE_CPU, HYP_DEVICE_CUDA = 1, 2
HYP_MEMORY_HOST, HYP_MEMORY_CUDA = 0, 1
DTYPES = {torch.float32: 1, torch.float64: 11, torch.float16: 10, torch.bfloat16: 16, torch.int64: 7, torch.int32: 6,
          torch.bool: 9}  # hyp_dtype has ONNX's numbers


def compile_plan(hypatiac, onnx, plan, *options, target="cuda"):
    """RuntimeError with hypatiac's message where compiling fails."""
    command = [hypatiac, onnx, "-o", plan, "-q", "--target", target, *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stderr}")


class Diag(c.Structure):
    _fields_ = [("status", c.c_int), ("message", c.c_char * 4096)]


class EngineOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("device", c.c_int), ("device_index", c.c_int32), ("threads", c.c_int32),
                ("checks", c.c_int), ("log", c.c_void_p), ("log_user", c.c_void_p)]


class ContextOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("stream", c.c_void_p)]


class Tensor(c.Structure):
    _fields_ = [("name", c.c_char_p), ("data", c.c_void_p), ("bytes", c.c_size_t), ("dtype", c.c_int),
                ("memory", c.c_int), ("rank", c.c_int32), ("reserved", c.c_uint32), ("dims", c.c_int64 * 8)]


class Step(c.Structure):
    _fields_ = [("size", c.c_size_t), ("label", c.c_char_p), ("kernel", c.c_char_p), ("predicted_seconds", c.c_double)]


class TuneOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("seconds", c.c_double), ("progress", c.c_void_p), ("progress_user", c.c_void_p),
                ("find", c.c_void_p), ("find_user", c.c_void_p)]


class Library:
    def __init__(self, path):
        self.lib = c.CDLL(path)
        for name in ("hyp_engine_load_file", "hyp_context_create", "hyp_context_run", "hyp_context_synchronize",
                     "hyp_context_time_steps", "hyp_context_tune", "hyp_context_save_plan"):
            getattr(self.lib, name).restype = c.c_int
        many = [c.c_void_p, c.c_size_t]
        self.lib.hyp_context_time_steps.argtypes = [c.c_void_p, *many, *many, *many, c.c_void_p]
        self.lib.hyp_context_tune.argtypes = [c.c_void_p, *many, c.c_void_p, c.c_void_p, c.c_void_p]
        self.lib.hyp_engine_step_count.argtypes = [c.c_void_p]
        self.lib.hyp_engine_device_name.restype = c.c_char_p
        self.lib.hyp_engine_step_count.restype = c.c_size_t
        self.lib.hyp_engine_read_step.argtypes = [c.c_void_p, c.c_size_t, c.c_void_p]
        self.lib.hyp_context_run.argtypes = [c.c_void_p, c.c_void_p, c.c_size_t, c.c_void_p, c.c_size_t, c.c_void_p]

    def check(self, status, diag):
        if status:
            raise RuntimeError(diag.message.decode())


Log = c.CFUNCTYPE(None, c.c_char_p, c.c_void_p)


class Plan:
    """A plan bound to torch tensors of one device, inputs and outputs in the plan's order; `stream` is for a GPU. What the
    engine says is in `said`, line by line."""

    def __init__(self, library, path, stream, inputs, outputs):
        self.library, self.diag, self.said = library, Diag(), []
        self.log = Log(lambda line, _: self.said.append(line.decode()))
        device = HYP_DEVICE_CUDA if outputs[0].is_cuda else HYP_DEVICE_CPU
        options = EngineOptions(size=c.sizeof(EngineOptions), device=device, log=c.cast(self.log, c.c_void_p))
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
        def memory(t):
            return HYP_MEMORY_CUDA if t.is_cuda else HYP_MEMORY_HOST
        return (Tensor * len(list))(*(Tensor(None, t.data_ptr(), t.numel() * t.element_size(), DTYPES[t.dtype],
                                             memory(t), t.dim(), 0, (c.c_int64 * 8)(*t.shape)) for t in list))

    def run(self):
        if self.call(*self.args):
            raise RuntimeError(self.diag.message.decode())

    def steps(self):
        """(label, kernel, predicted seconds) of every step."""
        count = self.library.lib.hyp_engine_step_count(self.engine)
        all = [Step(size=c.sizeof(Step)) for i in range(count)]
        for i, step in enumerate(all):
            self.library.lib.hyp_engine_read_step(self.engine, i, c.byref(step))
        return [(s.label.decode(), s.kernel.decode(), s.predicted_seconds) for s in all]

    def time_steps(self):
        """What every step takes alone, in seconds."""
        lib = self.library.lib
        count = lib.hyp_engine_step_count(self.engine)
        seconds = (c.c_double * count)()
        self.library.check(lib.hyp_context_time_steps(*self.args[:5], seconds, count, self.args[5]), self.diag)
        return list(seconds)

    def tune(self, seconds, path):
        """Tunes for the shapes of the inputs, and writes the tuned plan."""
        options = TuneOptions(size=c.sizeof(TuneOptions), seconds=seconds)
        lib = self.library.lib
        self.library.check(lib.hyp_context_tune(*self.args[:3], c.byref(options), None, self.args[5]), self.diag)
        self.library.check(lib.hyp_context_save_plan(self.context, path.encode(), self.args[5]), self.diag)

    def device_name(self):
        return self.library.lib.hyp_engine_device_name(self.engine).decode()

    def close(self):
        self.library.lib.hyp_context_destroy(self.context)
        self.library.lib.hyp_engine_destroy(self.engine)
