"""onnxruntime runs what is written as ONNX for the cases of every operator (tests/golden), and gives what numpy gave.

`judge_written.py PROGRAM`, which is test_onnx_write: it writes a model for every case, its inputs and what is expected.
Each model passes onnx.checker, with shapes inferred beside those that it states."""
import ast
import ctypes
import glob
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hyp  # noqa: E402

np, onnx, ort = hyp.need("numpy", "onnx", "onnxruntime")
import ml_dtypes  # noqa: E402  comes with onnx

# What onnxruntime lacks on a CPU: kernels for some element types, and operators that came after it.
LACKS = ("NOT_IMPLEMENTED", "not implemented", "NotImplemented", "Could not find an implementation",
         "is under development", "opset")
# Rounding to the element type, as the interpreter is judged with (tests/support/golden_ops.c), and sums in f32.
TOLERANCE = {"float64": 1e-10, "float32": 1e-5, "float16": 1e-2, "bfloat16": 5e-2}


# Where onnxruntime gives something else than ONNX says, as it does for the models that the cases are made of.
OTHERWISE = {"reduce-max.NaN-wins", "reduce-mean.of-nothing", "resize.crop", "resize.cubic,-align_corners",
             "resize.linear,-align_corners"}
NARROW = {onnx.TensorProto.BFLOAT16: ml_dtypes.bfloat16, onnx.TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn}


def load(path, kind):
    if kind not in NARROW:
        return np.load(path)
    with open(path, "rb") as file:  # numpy has no name for these types
        data = file.read()
    end = 10 + int.from_bytes(data[8:10], "little")
    shape = ast.literal_eval(re.search(rb"'shape': (\([^)]*\))", data[:end])[1].decode())
    return np.frombuffer(data[end:], NARROW[kind]).reshape(shape)


def run(model, path, stem):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {}
    for i, value in enumerate(model.graph.input):
        kind = value.type.tensor_type.elem_type
        array = load(f"{stem}.in{i}.npy", kind)
        feed[value.name] = (ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, kind) if kind in NARROW
                            else ort.OrtValue.ortvalue_from_numpy(array))
    return session.run_with_ort_values([o.name for o in model.graph.output], feed)


def array_of(value, kind):
    """What an OrtValue has, also where numpy has no name for its type."""
    if kind.name not in ("bfloat16", "float8_e4m3fn"):
        return value.numpy()
    shape = value.shape()
    count = int(np.prod(shape))
    data = ctypes.string_at(value.data_ptr(), count * kind.itemsize) if count else b""
    return np.frombuffer(data, kind).reshape(shape)


def differs(got, want):
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    if want.dtype.name not in TOLERANCE:
        return "" if np.array_equal(got, want) else f"{got.ravel()[:4]}, not {want.ravel()[:4]}"
    a, b = np.atleast_1d(got.astype(np.float64)), np.atleast_1d(want.astype(np.float64))
    with np.errstate(invalid="ignore"):
        off = np.abs(a - b) / (1 + np.abs(b))
    off[(a == b) | (np.isnan(a) & np.isnan(b))] = 0
    return "" if not off.size or off.max() <= TOLERANCE[want.dtype.name] else f"off by {off.max():.3g}"


def main(program):
    judged, failures, lacking = 0, 0, []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program], env=dict(os.environ, HYPATIA_WRITTEN=folder), check=True, stdout=subprocess.DEVNULL)
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.onnx"))):
            stem, name = path[:-5], os.path.basename(path)[:-5]
            model = onnx.load(path)
            if not os.path.exists(f"{stem}.out0.npy"):
                continue  # the operators that are of training steps alone
            try:
                onnx.checker.check_model(path, full_check=True)
                results = run(model, path, stem)
            except Exception as error:
                if any(text in str(error) for text in LACKS):
                    lacking.append(name)
                    continue
                failures += 1
                print(f"FAILED {name}: {error}")
                continue
            for i, (value, got) in enumerate(zip(model.graph.output, results)):
                want = load(f"{stem}.out{i}.npy", value.type.tensor_type.elem_type)
                why = differs(array_of(got, want.dtype), want)
                if why and name not in OTHERWISE:
                    failures += 1
                    print(f"FAILED {name}: {value.name}: {why}")
            judged += 1
    print(f"{judged} written models judged by onnxruntime {ort.__version__}, {failures} failed; "
          f"{len(lacking)} that it has no kernel for: {', '.join(lacking)}")
    return 1 if failures or judged < 250 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
