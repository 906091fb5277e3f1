"""The C libraries through ctypes, and the tools through subprocess, for tests. Needs numpy.

HYP_LIB and HYP_BIN name the folders of the libraries and tools; ctest sets them.
"""
import ctypes as c
import os
import subprocess
import sys

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: python3 has no module numpy ({missing})")
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("HYP_BIN", os.path.join(ROOT, "build/dev/bin"))
LIB = os.environ.get("HYP_LIB", os.path.join(ROOT, "build/dev/lib"))

STATUS = ["ok", "invalid argument", "no memory", "io", "malformed", "unsupported", "mismatch", "incompatible", "limit",
          "device", "internal", "device lost", "cancelled", "signature"]
DTYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_,
          10: np.float16, 11: np.float64, 12: np.uint32, 13: np.uint64}
try:
    import ml_dtypes  # numpy itself has no bf16
    DTYPES[16] = ml_dtypes.bfloat16
    DTYPES[17] = ml_dtypes.float8_e4m3fn
except ImportError:
    pass
CODES = {np.dtype(t): n for n, t in DTYPES.items()}
DEVICES = {"auto": 0, "cpu": 1, "cuda": 2, "reference": 3}


class Error(Exception):
    """A failed call: .status is its name."""

    def __init__(self, status, message):
        super().__init__(f"{STATUS[status]}: {message}")
        self.status = STATUS[status]


class Diag(c.Structure):
    _fields_ = [("status", c.c_int), ("message", c.c_char * 4096)]


class Tensor(c.Structure):
    _fields_ = [("name", c.c_char_p), ("data", c.c_void_p), ("bytes", c.c_size_t), ("dtype", c.c_int),
                ("memory", c.c_int), ("rank", c.c_int32), ("reserved", c.c_uint32), ("dims", c.c_int64 * 8)]


class IoInfo(c.Structure):
    _fields_ = [("size", c.c_size_t), ("name", c.c_char_p), ("dtype", c.c_int), ("rank", c.c_int32), ("dims", c.c_int64 * 8),
                ("symbols", c.c_char_p * 8)]


class EngineOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("device", c.c_int), ("device_index", c.c_int32), ("threads", c.c_int32),
                ("checks", c.c_int), ("log", c.c_void_p), ("log_user", c.c_void_p), ("cpu_level", c.c_char_p)]


class RunOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("stream", c.c_void_p), ("wait", c.c_void_p), ("wait_count", c.c_size_t),
                ("record", c.c_void_p), ("keep_variables", c.c_bool)]


class Samples(c.Structure):
    _fields_ = [("tensors", c.c_void_p), ("count", c.c_size_t)]


class CompileOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("target", c.c_char_p), ("precision", c.c_char_p), ("profile", c.c_char_p),
                ("threads", c.c_int32), ("dim_names", c.c_void_p), ("dim_values", c.c_void_p), ("dim_count", c.c_size_t),
                ("typical_names", c.c_void_p), ("typical_values", c.c_void_p), ("typical_count", c.c_size_t),
                ("shapes", c.c_void_p), ("shape_count", c.c_size_t), ("bound", c.c_void_p), ("bound_count", c.c_size_t),
                ("samples", c.c_void_p), ("samples_count", c.c_size_t),
                ("rule_files", c.c_void_p), ("rule_file_count", c.c_size_t), ("no_builtin_rules", c.c_bool),
                ("disabled_rules", c.c_void_p), ("disabled_rule_count", c.c_size_t),
                ("only_rules", c.c_void_p), ("only_rule_count", c.c_size_t),
                ("allow_approximate", c.c_bool), ("no_rewrite", c.c_bool),
                ("max_iterations", c.c_size_t), ("max_nodes", c.c_size_t),
                ("max_fold_bytes", c.c_size_t), ("max_fold_flops", c.c_size_t),
                ("max_seconds", c.c_double), ("stop", c.c_void_p),
                ("explain", c.c_char_p), ("why_not", c.c_char_p), ("why_not_node", c.c_char_p),
                ("flags", c.c_void_p), ("flag_count", c.c_size_t),
                ("dump_rewrites", c.c_void_p), ("dump_rewrites_user", c.c_void_p),
                ("dump_ir_stage", c.c_char_p), ("dump_ir", c.c_void_p), ("dump_ir_user", c.c_void_p),
                ("progress", c.c_void_p), ("progress_user", c.c_void_p),
                ("warning", c.c_void_p), ("warning_user", c.c_void_p),
                ("verify", c.c_char_p), ("run_plan", c.c_void_p), ("run_plan_user", c.c_void_p),
                ("choose_form", c.c_void_p), ("choose_form_user", c.c_void_p),
                ("golden_bytes", c.c_int64), ("reduced", c.c_char_p), ("forms", c.c_size_t),
                ("updatable", c.c_void_p), ("updatable_count", c.c_size_t)]


_libraries = {}


def library(name):
    if name not in _libraries:
        _libraries[name] = c.CDLL(os.path.join(LIB, f"lib{name}.so"))
        for function in ("hyp_engine_input", "hyp_engine_output", "hyp_engine_weight", "hyp_engine_variable"):
            if name == "hypatia-rt":
                getattr(_libraries[name], function).restype = c.POINTER(IoInfo)
        if name == "hypatia-rt":
            _libraries[name].hyp_engine_input_count.restype = c.c_size_t
            _libraries[name].hyp_engine_output_count.restype = c.c_size_t
            _libraries[name].hyp_engine_weight_count.restype = c.c_size_t
            _libraries[name].hyp_engine_variable_count.restype = c.c_size_t
    return _libraries[name]


def check(status, diag):
    if status:
        raise Error(status, diag.message.decode(errors="replace"))


def named_tensors(arrays):
    """name -> array as a list of tensors, and the arrays that must stay alive with it."""
    arrays = {name: np.ascontiguousarray(value).reshape(np.shape(value)) for name, value in (arrays or {}).items()}
    return (Tensor * len(arrays))(*(as_tensor(v, n.encode()) for n, v in arrays.items())), arrays


def compile_model(model, plan, target="cpu", precision="fp32", no_rewrite=False, bound=None, samples=None, updatable=()):
    """hyp_compile_file; plan None is a dry run. bound: name -> array, inputs that become constants; samples: name ->
    array, for fp8; updatable: patterns."""
    patterns = (c.c_char_p * len(updatable))(*(p.encode() for p in updatable))
    values, alive = named_tensors(bound)
    taken, alive_too = named_tensors(samples)
    sets = (Samples * 1)(Samples(c.cast(taken, c.c_void_p), len(taken)))
    options = CompileOptions(size=c.sizeof(CompileOptions), target=target.encode(), precision=precision.encode(),
                             no_rewrite=no_rewrite, bound=c.cast(values, c.c_void_p), bound_count=len(values),
                             samples=c.cast(sets, c.c_void_p), samples_count=1 if samples else 0,
                             updatable=c.cast(patterns, c.c_void_p), updatable_count=len(patterns))
    diag = Diag()
    check(library("hypatia").hyp_compile_file(model.encode(), plan.encode() if plan else None, c.byref(options), None,
                                              c.byref(diag)), diag)


def as_tensor(array, name=None):
    """A view; `array` must stay alive and be C-contiguous."""
    return Tensor(name=name, data=array.ctypes.data, bytes=array.nbytes, dtype=CODES[array.dtype], rank=array.ndim,
                  dims=(c.c_int64 * 8)(*array.shape))


class Engine:
    """A loaded plan with one context."""

    def __init__(self, plan, device="cpu", threads=1):
        rt = self.rt = library("hypatia-rt")
        options = EngineOptions(size=c.sizeof(EngineOptions), device=DEVICES[device], threads=threads)
        self.engine, self.context, diag = c.c_void_p(), c.c_void_p(), Diag()
        check(rt.hyp_engine_load_file(plan.encode(), c.byref(options), c.byref(self.engine), c.byref(diag)), diag)
        check(rt.hyp_context_create(self.engine, None, c.byref(self.context), c.byref(diag)), diag)
        self.input_names = [rt.hyp_engine_input(self.engine, c.c_size_t(i)).contents.name
                            for i in range(rt.hyp_engine_input_count(self.engine))]
        self.output_info = [rt.hyp_engine_output(self.engine, c.c_size_t(i)).contents
                            for i in range(rt.hyp_engine_output_count(self.engine))]

    def close(self):
        self.rt.hyp_context_destroy(self.context)
        self.rt.hyp_engine_destroy(self.engine)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def weights(self):
        """Names of what `update` can replace."""
        rt = self.rt
        return [rt.hyp_engine_weight(self.engine, c.c_size_t(i)).contents.name.decode()
                for i in range(rt.hyp_engine_weight_count(self.engine))]

    def update(self, arrays):
        """hyp_engine_update. arrays: name -> array."""
        tensors, _alive = named_tensors(arrays)
        diag = Diag()
        check(self.rt.hyp_engine_update(self.engine, tensors, c.c_size_t(len(tensors)), c.byref(diag)), diag)

    def variables(self):
        """name -> array of zeros: the variables of the plan, with their shapes and types."""
        rt = self.rt
        infos = [rt.hyp_engine_variable(self.engine, c.c_size_t(i)).contents for i in range(rt.hyp_engine_variable_count(self.engine))]
        return {i.name.decode(): np.zeros(tuple(i.dims[: i.rank]), DTYPES[i.dtype]) for i in infos}

    def get(self):
        """name -> array: all variables of the context."""
        arrays, diag = self.variables(), Diag()
        tensors, arrays = named_tensors(arrays)
        check(self.rt.hyp_context_variable_get(self.context, tensors, c.c_size_t(len(tensors)), c.byref(diag)), diag)
        return arrays

    def set(self, arrays):
        """Some variables: name -> array."""
        tensors, _alive = named_tensors(arrays)
        diag = Diag()
        check(self.rt.hyp_context_variable_set(self.context, tensors, c.c_size_t(len(tensors)), c.byref(diag)), diag)

    def reset(self):
        diag = Diag()
        check(self.rt.hyp_context_variables_reset(self.context, c.byref(diag)), diag)

    def run(self, feeds, keep=False):
        """feeds: name -> array. Returns the outputs in the plan's order. keep: variables stay as they are."""
        feeds = {name: np.ascontiguousarray(value).reshape(np.shape(value)) for name, value in feeds.items()}
        inputs = (Tensor * len(feeds))(*(as_tensor(v, n.encode()) for n, v in feeds.items()))
        count = len(self.output_info)
        outputs, diag = (Tensor * count)(), Diag()
        for tensor, info in zip(outputs, self.output_info):
            tensor.name = info.name
        n_in, n_out = c.c_size_t(len(feeds)), c.c_size_t(count)
        check(self.rt.hyp_context_output_shapes(self.context, inputs, n_in, outputs, n_out, c.byref(diag)), diag)
        arrays = []
        for tensor, info in zip(outputs, self.output_info):
            array = np.empty(tuple(tensor.dims[: tensor.rank]), DTYPES[info.dtype])
            tensor.data, tensor.bytes, tensor.dtype = array.ctypes.data, array.nbytes, info.dtype
            arrays.append(array)
        how = RunOptions(size=c.sizeof(RunOptions), keep_variables=keep)
        check(self.rt.hyp_context_run_with(self.context, inputs, n_in, outputs, n_out, c.byref(how) if keep else None,
                                           c.byref(diag)), diag)
        # Of a size that only the data tell there was room for the most.
        shapes = [tuple(tensor.dims[: tensor.rank]) for tensor in outputs]
        return [a if a.shape == s else a.reshape(-1)[: int(np.prod(s))].reshape(s) for a, s in zip(arrays, shapes)]


def tool(*args, stdin=None, env=None):
    """Runs `hypatiac ...` or `hypatia ...`; returns the finished process with text output."""
    command = [os.path.join(BIN, args[0]), *map(str, args[1:])]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, errors="replace", timeout=600,
                          env={**os.environ, **(env or {})})


def read_terminal(main):
    """What is written to the other end of a pty until nobody has that open any more; closes this one."""
    told = b""
    try:
        while chunk := os.read(main, 65536):
            told += chunk
    except OSError:  # the other end is closed
        pass
    os.close(main)
    return told


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


def release(version):
    """1.21 of "1.21.0rc1", as a tuple."""
    return tuple(int(part) for part in version.split(".")[:2])


def need(*modules):
    """Imports modules, "name" or "name>=1.21", or skips the test and says which is missing or too old."""
    found = []
    for wish in modules:
        name, _, oldest = wish.partition(">=")
        try:
            module = __import__(name, fromlist=["_"])
        except ImportError as error:
            skip(f"python3 has no module {name} ({error})")
        if oldest and release(module.__version__) < release(oldest):
            skip(f"{name} {module.__version__} was found (wanted: {oldest} or newer, as older ones do not judge this right)")
        found.append(module)
    return found[0] if len(found) == 1 else found


def by_onnx(model, feeds):
    """The outputs that onnx's own evaluator computes."""
    return need("onnx.reference").ReferenceEvaluator(model).run(None, feeds)


def difference(actual, wanted):
    """The largest |a-b| / max(1, |b|), the measure of 'within 1e-5'; inf when shapes or NaNs differ."""
    actual, wanted = np.asarray(actual), np.asarray(wanted)
    if actual.shape != wanted.shape or actual.dtype != wanted.dtype:
        return float("inf")
    if actual.size == 0:
        return 0.0
    if not np.issubdtype(actual.dtype, np.floating):
        return 0.0 if np.array_equal(actual, wanted) else float("inf")
    a, b = actual.astype(np.float64), wanted.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        error = np.abs(a - b) / np.maximum(1, np.abs(b))
    error = np.where(same, 0, error)
    return float("inf") if np.isnan(error).any() else float(error.max())
