"""Models as PyTorch exports them: what compiling costs, and a run beside onnxruntime's, in turns in one process tree.

    python3 bench/models.py FOLDER [--bin build/release/bin] [--threads 1,2] [--batch 1] [--length 32] [--rounds 3]
                                   [--seconds 1] [--only TEXT]

FOLDER is what scripts/export-models.py wrote. Printed for each model: nodes in the file and steps of the plan; seconds and
peak memory of hypatiac beside the size of the file; size of the plan; for each number of threads the median call of both
(median of the rounds) and their ratio, marked with ! where hypatia is slower; the largest difference of the outputs,
relative to max(1, |output|).
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from mlp_cpu import median_call

HERE = os.path.dirname(os.path.abspath(__file__))

# In a process of its own: Linux counts the memory of the process that starts another as the other's peak.
COMPILE = """
import sys
sys.path.insert(0, sys.argv[1])
from compile import run
print(*run(sys.argv[2:]))
"""


def make_inputs(session, batch, length, rng):
    """Random inputs; symbolic axes are the batch, or lengths."""
    feeds = {}
    for info in session.get_inputs():
        dims = [d if isinstance(d, int) else batch if "batch" in str(d) or "_dim_0" in str(d) else length for d in info.shape]
        if "int" in info.type:
            feeds[info.name] = np.ones(dims, np.int64) if info.name == "mask" else rng.integers(0, 5, dims).astype(np.int64)
        else:
            feeds[info.name] = rng.standard_normal(dims).astype(np.float32)
    return feeds


class Hypatia:
    def __init__(self, tools, plan, folder, feeds, threads):
        self.json = os.path.join(folder, "bench.json")
        self.environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        self.base = [os.path.join(tools, "hypatia"), plan, "--device", "cpu", "--threads", str(threads)]
        for i, (name, value) in enumerate(feeds.items()):
            np.save(os.path.join(folder, f"{i}.npy"), value)
            self.base += ["--input", f"{name}=@{folder}/{i}.npy"]

    def run(self, command, *args):
        subprocess.run([self.base[0], command, *self.base[1:], *args], check=True, env=self.environment)

    def measure(self, seconds):
        self.run("bench", "-q", "--warmup", "2", "--duration", str(seconds), "--json", self.json)
        with open(self.json, encoding="utf-8") as file:
            return json.load(file)["p50_us"]


class Onnxruntime:
    def __init__(self, model, feeds, threads):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.binding = self.session.io_binding()
        self.outputs = self.session.run(None, feeds)
        for name, value in feeds.items():
            self.binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(value))
        for info, value in zip(self.session.get_outputs(), self.outputs):
            self.binding.bind_ortvalue_output(info.name, onnxruntime.OrtValue.ortvalue_from_numpy(value.copy()))

    def measure(self, seconds):
        return median_call(lambda: self.session.run_with_iobinding(self.binding), seconds)


def difference(ours, feeds, session, wanted, folder):
    names = [info.name for info in session.get_outputs()]
    paths = [os.path.join(folder, f"out{i}.npy") for i in range(len(names))]
    ours.run("run", *(a for n, p in zip(names, paths) for a in ("--output", f"{n}=@{p}")))
    return max(float(np.max(np.abs(np.load(p) - w) / np.maximum(1, np.abs(w)), initial=0)) for p, w in zip(paths, wanted))


def measure(args, model, folder):
    tool, plan = os.path.join(args.bin, "hypatiac"), os.path.join(folder, "plan.bin")
    size, nodes = os.path.getsize(model), len(onnx.load(model, load_external_data=False).graph.node)
    measured = subprocess.run([sys.executable, "-c", COMPILE, HERE, tool, model, "-o", plan, "-q"], check=True,
                              capture_output=True, text=True).stdout
    seconds, peak = map(float, measured.split())
    text = subprocess.run([os.path.join(args.bin, "hypatia"), "inspect", plan, "--json"], check=True, capture_output=True,
                          text=True).stdout
    line = (f"{os.path.basename(model):26s} {nodes:5d} -> {len(json.loads(text)['steps']):4d} | {seconds:6.2f} s "
            f"{peak / 1e6:7.1f} of {size / 1e6:7.1f} MB | {os.path.getsize(plan) / 1e6:7.1f} MB |")
    feeds = make_inputs(onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]), args.batch, args.length,
                        np.random.default_rng(0))
    for threads in args.threads:
        ours, theirs = Hypatia(args.bin, plan, folder, feeds, threads), Onnxruntime(model, feeds, threads)
        if threads == args.threads[0]:
            error = difference(ours, feeds, theirs.session, theirs.outputs, folder)
        rounds = [(ours.measure(args.seconds), theirs.measure(args.seconds)) for _ in range(args.rounds)]
        a, b = (statistics.median(side) for side in zip(*rounds))
        line += f" {a:10.1f} {b:10.1f} us {b / a:5.2f}x{'!' if a > b else ' '} |"
    print(f"{line} {error:.1e}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--bin", default=os.path.join(HERE, "../build/release/bin"))
    parser.add_argument("--threads", type=lambda t: [int(n) for n in t.split(",")], default=[1, 2])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of every round and side")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    print(f"onnxruntime {onnxruntime.__version__}; batch {args.batch}, lengths {args.length}; per number of threads "
          f"({', '.join(map(str, args.threads))}): hypatia, onnxruntime, ratio")
    for model in sorted(glob.glob(os.path.join(args.folder, "*.onnx"))):
        if args.only in os.path.basename(model):
            with tempfile.TemporaryDirectory() as folder:
                measure(args, model, folder)


if __name__ == "__main__":
    sys.exit(main())
