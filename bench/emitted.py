"""What hypatiac --emit-onnx writes, in onnxruntime, beside the model that it was made of, in turns, on one thread.

    python3 bench/emitted.py FOLDER [--bin build/release/bin] [--domain com.microsoft] [--batch 1] [--length 32] [--rounds 5]
                                    [--seconds 0.5]

FOLDER is what scripts/export-models.py wrote. Printed for each model: nodes of both graphs (as they are in the files),
functions, megabytes of what was emitted, the median call of both in onnxruntime (median of the rounds), their ratio, marked
with ! where what was emitted is slower, and the largest difference of the outputs, relative to max(1, |output|).
"""
import argparse
import glob
import os
import statistics
import subprocess
import tempfile

import numpy as np
import onnx
import onnxruntime
from mlp_cpu import median_call
from models import make_inputs


def session_of(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def difference(got, want):
    return max(float(np.max(np.abs(a - b) / np.maximum(1, np.abs(b)))) if a.size else 0.0 for a, b in zip(got, want))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--domain", default="")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    args = parser.parse_args()
    print(f"{'model':24} {'nodes':>11} {'functions':>9} {'MB':>7} {'original':>10} {'emitted':>10} {'ratio':>7}  difference")
    for path in sorted(glob.glob(os.path.join(args.folder, "*.onnx"))):
        with tempfile.TemporaryDirectory() as folder:
            emitted = os.path.join(folder, "emitted.onnx")
            more = ["--emit-onnx-domain", args.domain] if args.domain else []
            subprocess.run([os.path.join(args.bin, "hypatiac"), path, "--emit-onnx", emitted, "-q", *more], check=True)
            before, after = (onnx.load(p, load_external_data=False) for p in (path, emitted))
            sessions = [session_of(path), session_of(emitted)]
            feeds = make_inputs(sessions[0], args.batch, args.length, np.random.default_rng(1))
            names = [o.name for o in sessions[0].get_outputs()]
            off = difference(sessions[1].run(names, feeds), sessions[0].run(names, feeds))
            times = [[], []]
            for _ in range(args.rounds):
                for k in range(2):
                    times[k].append(median_call(lambda s=sessions[k]: s.run(names, feeds), args.seconds))
            old, new = map(statistics.median, times)
            size = sum(os.path.getsize(p) for p in glob.glob(emitted + "*")) / 1e6
            print(f"{os.path.basename(path):24} {len(before.graph.node):>5}{len(after.graph.node):>6} "
                  f"{len(after.functions):>9} "
                  f"{size:7.1f} {old:7.0f} us {new:7.0f} us {old / new:6.2f}x{'!' if new > old else ' '} "
                  f"{off:.1e}", flush=True)


if __name__ == "__main__":
    main()
