"""MLPs on one CPU thread: hypatia and onnxruntime side by side.

    python3 bench/mlp_cpu.py [--bin build/release/bin] [--rounds 5] [--json FILE]

Both run the same models on the same inputs, in turns, so that a busy machine hits both. Of every round the median call
is taken; printed are the median of the rounds and the fastest round. onnxruntime is called through an IO binding (no
copies, no name lookups); a Python call around it costs about the "empty" time that is printed and not subtracted.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

CASES = [  # name, widths, batch
    ("5-50x6-5", [5] + [50] * 6 + [5], 1),
    ("784-256x4-10", [784] + [256] * 4 + [10], 1),
    ("784-128-32-10", [784, 128, 32, 10], 64),
]


def make_mlp(widths, rng):
    """Gemm and Relu per layer, the last without Relu; symbolic batch."""
    nodes, weights, value = [], [], "x"
    for i, (k, n) in enumerate(zip(widths, widths[1:])):
        weights += [numpy_helper.from_array((rng.standard_normal((n, k)) / np.sqrt(k)).astype(np.float32), f"w{i}"),
                    numpy_helper.from_array(rng.standard_normal(n).astype(np.float32) * np.float32(0.1), f"b{i}")]
        last = i + 2 == len(widths)
        nodes.append(helper.make_node("Gemm", [value, f"w{i}", f"b{i}"], ["y" if last else f"g{i}"], transB=1))
        if not last:
            nodes.append(helper.make_node("Relu", [f"g{i}"], [f"h{i}"]))
            value = f"h{i}"
    graph = helper.make_graph(nodes, "mlp", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", widths[0]])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", widths[-1]])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def median_call(call, seconds):
    """Median microseconds of a call over so many seconds."""
    samples, clock = [], time.perf_counter_ns
    end = clock() + int(seconds * 1e9)
    while clock() < end:
        begin = clock()
        call()
        samples.append(clock() - begin)
    return statistics.median(samples) / 1000


class Onnxruntime:
    def __init__(self, model, x, threads=1):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        self.session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.x, self.y = x, self.session.run(None, {"x": x})[0]
        self.binding = self.session.io_binding()
        self.binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(x))
        self.binding.bind_ortvalue_output("y", onnxruntime.OrtValue.ortvalue_from_numpy(self.y.copy()))

    def measure(self, seconds):
        return median_call(lambda: self.session.run_with_iobinding(self.binding), seconds)


class Hypatia:
    def __init__(self, tools, model, folder, x, threads=1):
        self.threads = str(threads)
        self.tool, self.plan = os.path.join(tools, "hypatia"), os.path.join(folder, "plan.bin")
        self.input, self.json = os.path.join(folder, "x.npy"), os.path.join(folder, "bench.json")
        subprocess.run([os.path.join(tools, "hypatiac"), model, "-o", self.plan, "-q"], check=True)
        np.save(self.input, x)
        out = os.path.join(folder, "y.npy")
        self.run("run", "--output", "y=@" + out)
        self.y = np.load(out)

    def run(self, command, *args):
        subprocess.run([self.tool, command, self.plan, "--device", "cpu", "--threads", self.threads, "--input",
                        "x=@" + self.input, *args], check=True, env={**os.environ, "OMP_NUM_THREADS": self.threads})

    def measure(self, seconds):
        self.run("bench", "-q", "--warmup", "10", "--duration", str(seconds), "--json", self.json)
        with open(self.json, encoding="utf-8") as file:
            self.figures = json.load(file)
        return self.figures["p50_us"]


def arguments(seconds):
    """A parser of what benchmarks of this kind take."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../build/release/bin"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=seconds, help="of every round and side")
    parser.add_argument("--json", help="write the figures of every round")
    return parser


def save(args, results):
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


def relative_error(ours, theirs):
    return float(np.max(np.abs(ours.y - theirs.y) / np.maximum(1, np.abs(theirs.y))))


def main():
    parser = arguments(0.4)
    args = parser.parse_args()

    print(f"onnxruntime {onnxruntime.__version__}, one thread; empty call {median_call(lambda: None, 0.1):.2f} us")
    print(f"{'model':16s} {'batch':>5s} | {'hypatia p50':>12s} {'best':>9s} | {'onnxruntime':>12s} {'best':>9s} | "
          f"{'ratio':>6s} {'difference':>10s}")
    results = []
    for name, widths, batch in CASES:
        with tempfile.TemporaryDirectory() as folder:
            rng = np.random.default_rng(0)
            model = os.path.join(folder, "model.onnx")
            with open(model, "wb") as file:
                file.write(make_mlp(widths, rng).SerializeToString())
            x = rng.uniform(-1, 1, (batch, widths[0])).astype(np.float32)
            ours, theirs = Hypatia(args.bin, model, folder, x), Onnxruntime(model, x)
            rounds = [(ours.measure(args.seconds), theirs.measure(args.seconds)) for _ in range(args.rounds)]
        mine, other = zip(*rounds)
        error = relative_error(ours, theirs)
        a, b = statistics.median(mine), statistics.median(other)
        print(f"{name:16s} {batch:5d} | {a:9.2f} us {min(mine):6.2f} us | {b:9.2f} us {min(other):6.2f} us | "
              f"{b / a:5.2f}x {error:10.1e}", flush=True)
        results.append({"model": name, "batch": batch, "hypatia_us": mine, "onnxruntime_us": other,
                        "device": ours.figures["device"], "commit": ours.figures["commit"]})
    save(args, results)


if __name__ == "__main__":
    sys.exit(main())
