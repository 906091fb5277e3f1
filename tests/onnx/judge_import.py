"""Every generated model, imported and evaluated in the reference interpreter, against onnxruntime, or onnx.reference
where onnxruntime has no kernels. The interpreter is what the compiler is verified against, so it is judged alone.

`judge_import.py [PATTERN]` judges the models whose name contains the pattern."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models"))
import hyp  # noqa: E402

np, onnx, ort = hyp.need("numpy", "onnx", "onnxruntime")
import make_models  # noqa: E402

# |a - b| <= tolerance * max(1, |b|); half types round after every operator, and each judge in its own order.
TOLERANCE = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 4e-2}


def run_judge(path, model, feeds):
    if model.get("judge") == "reference":
        return hyp.by_onnx(path, feeds)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    try:
        return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, feeds)
    except Exception as error:  # of a release that knows less; its exceptions share no base class
        print(f"{model['model']}: judged by onnx, as onnxruntime does not run it: {error}")
        return hyp.by_onnx(path, feeds)


def run_hypatia(path, feeds, folder):
    args = [os.path.join(hyp.BIN, "import_eval"), path, folder]
    for name, value in feeds.items():
        file = os.path.join(folder, f"in_{len(args)}.npy")
        np.save(file, value)
        args.append(f"{name}={file}")
    subprocess.run(args, check=True, capture_output=True, text=True)


def error(actual, wanted):
    if actual.dtype == np.dtype("V2"):  # how .npy calls bfloat16
        actual = (actual.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        wanted = wanted.astype(np.float32)
    if actual.dtype == np.float16:
        actual, wanted = actual.astype(np.float32), wanted.astype(np.float32)
    return hyp.difference(actual, wanted)


def judge(folder, model):
    path, worst = os.path.join(folder, model["model"]), 0.0
    for case in model["cases"]:
        tolerance = max([TOLERANCE["float32"]] + [TOLERANCE.get(spec["dtype"], 0) for spec in case.values()])
        proto = onnx.load(path)
        feeds = make_models.feeds_for(proto, {name: spec["shape"] for name, spec in case.items()}, 1)
        with tempfile.TemporaryDirectory() as out:
            run_hypatia(path, feeds, out)
            for i, wanted in enumerate(run_judge(path, model, feeds)):
                difference = error(np.load(os.path.join(out, f"{i}.npy")), np.asarray(wanted))
                worst = max(worst, difference)
                if not difference <= tolerance:
                    raise AssertionError(f"output {i} differs by {difference:.3g}")
    return worst


def main(pattern=""):
    failures, worst = 0, (0.0, "")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, make_models.__file__, folder], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(folder, "index.json"), encoding="utf-8") as f:
            models = [m for m in json.load(f) if pattern in m["model"]]
        for model in models:
            try:
                difference = judge(folder, model)
                if not model["model"].startswith(("mlp_f16", "mlp_bf16", "cast_forms")):
                    worst = max(worst, (difference, model["model"]))
            except (AssertionError, subprocess.CalledProcessError) as e:
                failures += 1
                print(f"FAILED {model['model']}: {getattr(e, 'stderr', None) or e}".rstrip())
    print(f"{len(models)} models, {failures} failures; largest difference in fp32 {worst[0]:.3g} in {worst[1]}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
