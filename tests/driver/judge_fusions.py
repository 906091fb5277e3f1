"""Small models that each hold one idiom (../shared/data/ort-fusion, or the folder given): what became of each, and whether
onnxruntime without its own optimizations computes the same.

    judge_fusions.py [FOLDER] [--table]

Results may differ by 1e-4 of max(1, |result|), where the model computes in fp16 by 1e-2; where it quantizes, one element in
a thousand may have been rounded to the neighbouring step. Where it normalizes sums of fp16, which onnxruntime rounds less
often than their type says, one in a thousand may be off by 5e-2: the variance of few, nearly equal elements is all rounding. A name that says no_fusion, unfusable, invalid, dont_fuse or mismatch holds a look-alike, whose rewriting would be wrong.
--table prints a line for each; without it only failures are printed. Fails when a result is wrong.
"""
import glob
import os
import re
import sys

import judging
from judging import hyp

onnx, ort, np = hyp.need("onnx", "onnxruntime", "numpy")
LOOKALIKE = re.compile("no_fusion|unfusable|invalid|dont.fuse|mismatch")
SYMBOL = 3  # what a dim without a number becomes


def feeds_of(session, rng):
    types = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64,
             "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(int8)": np.int8, "tensor(uint8)": np.uint8,
             "tensor(bool)": np.bool_}
    feeds = {}
    for i in session.get_inputs():
        shape = [d if isinstance(d, int) else SYMBOL for d in i.shape]
        dtype = types[i.type]
        feeds[i.name] = (rng.standard_normal(shape) if np.dtype(dtype).kind == "f" else
                         rng.integers(0, 2, shape)).astype(dtype)
    return feeds


def compare(judging_, file, actual, wanted):
    graph = onnx.load(file, load_external_data=False).graph
    half = any(t.data_type == onnx.TensorProto.FLOAT16 for t in graph.initializer) or any(
        i.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16 for i in (*graph.input, *graph.output)) or any(
        a.name == "to" and a.i == onnx.TensorProto.FLOAT16 for n in graph.node for a in n.attribute)
    steps = any("Quantize" in n.op_type for n in graph.node)
    before = judging_.failed
    for i, (a, w) in enumerate(zip(actual, wanted)):
        judging_.compared += 1
        if a.shape != w.shape or a.dtype != w.dtype:
            judging_.fail(file, f"output {i}: {a.dtype}{list(a.shape)}, wanted {w.dtype}{list(w.shape)}")
            continue
        error = np.abs(a.astype(np.float64) - w.astype(np.float64)) / np.maximum(1, np.abs(w.astype(np.float64)))
        wrong = int(np.sum(~(error <= (1e-2 if half else 1e-4))))
        few = steps or (half and np.all(error <= 5e-2))
        if wrong > (a.size / 1000 if few else 0):
            judging_.fail(os.path.basename(file), f"output {i}: {wrong} of {a.size} elements differ, by up to {error.max():.3g}")
    return judging_.failed == before


def judge(judging_, file, rng):
    """(what happened, rules, nodes before, nodes after)."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    said = hyp.tool("hypatiac", file, "--dry-run")
    counts = re.search(r"(\d+) nodes that run -> (\d+), (\d+) plan step", said.stdout + said.stderr)
    if not counts:
        return "refused: " + (said.stderr.strip().splitlines() or ["?"])[0].split(": ", 2)[-1][:110], "", "", ""
    rules = re.search(r"rules used: (.*)", said.stdout + said.stderr)
    what = "as it was"
    if int(counts[3]) < int(counts[1]) or (rules and rules[1] != "none"):
        what = "fused" if int(counts[3]) < int(counts[1]) else "rewritten"
    try:
        session = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        feeds = feeds_of(session, rng)
        wanted = session.run(None, feeds)
    except Exception as error:  # noqa: BLE001 - the peer refuses some of its own models without its passes
        return f"{what}, not judged: onnxruntime says {str(error).splitlines()[0][:60]}", rules[1] if rules else "", *counts.groups()[:2]
    plan = os.path.join(judging_.folder.name, "m.bin")
    try:
        hyp.compile_model(file, plan)
        with hyp.Engine(plan, "cpu") as engine:
            good = compare(judging_, file, engine.run(feeds), wanted)
    except hyp.Error as error:
        return f"{what}, not run: {str(error)[:80]}", rules[1] if rules else "", *counts.groups()[:2]
    return f"{what}, {'right' if good else 'WRONG'}", rules[1] if rules else "", counts[1], counts[3]


def main():
    given = [a for a in sys.argv[1:] if not a.startswith("--")]
    folder = given[0] if given else os.path.join(hyp.ROOT, "../shared/data/ort-fusion")
    files = sorted(glob.glob(os.path.join(folder, "*.onnx")))
    if not files:
        hyp.skip(f"{folder} has no models")
    judge_, rng, counts = judging.Judge(), np.random.default_rng(3), {}
    for file in files:
        what, rules, before, after = judge(judge_, file, rng)
        kind = "look-alike" if LOOKALIKE.search(os.path.basename(file)) else "idiom"
        key = (kind, what.split(",")[0].split(":")[0], "right" if what.endswith("right") else "not judged")
        counts[key] = counts.get(key, 0) + 1
        if "--table" in sys.argv:
            print(f"{kind:10s} {os.path.basename(file)[:58]:58s} {before:>4s} -> {after:>3s}  {what}  {rules}")
    for key in sorted(counts):
        print(f"{counts[key]:4d}  {', '.join(key)}")
    return judge_.finish(len(files))


if __name__ == "__main__":
    sys.exit(main())
