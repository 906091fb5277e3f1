"""Time and peak memory of hypatiac on a 100 MB MLP and on the digits model.

    python3 bench/compile.py [--bin build/release/bin] [--rounds 5]
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))

# In a process of its own: Linux counts the memory of the process that starts another as the other's peak.
WRITE_LARGE = """
import sys
import numpy
sys.path.insert(0, sys.argv[1])
from mlp_cpu import make_mlp
with open(sys.argv[2], "wb") as file:
    file.write(make_mlp([1024] + [2048] * 6 + [1024], numpy.random.default_rng(0)).SerializeToString())
"""


def run(command):
    """Seconds and peak bytes of one process."""
    begin = time.perf_counter()
    pid = os.posix_spawn(command[0], command, os.environ)
    _, status, usage = os.wait4(pid, 0)
    if status:
        sys.exit(f"{' '.join(command)}: failed")
    return time.perf_counter() - begin, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default=os.path.join(HERE, "../build/release/bin"))
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    tool = os.path.join(args.bin, "hypatiac")
    print(f"{'model':14s} {'file':>9s} | {'median':>9s} {'best':>9s} | {'peak':>9s} {'of file':>7s}")
    with tempfile.TemporaryDirectory() as folder:
        large = os.path.join(folder, "large.onnx")
        subprocess.run([sys.executable, "-c", WRITE_LARGE, HERE, large], check=True)
        for name, model in (("mlp-100mb", large), ("digits", os.path.join(HERE, "../examples/digits/digits.onnx"))):
            size = os.path.getsize(model)
            runs = [run([tool, model, "-o", os.path.join(folder, "plan.bin"), "-q"]) for _ in range(args.rounds)]
            times, peak = [r[0] for r in runs], max(r[1] for r in runs)
            print(f"{name:14s} {size / 1e6:6.1f} MB | {1e3 * statistics.median(times):6.1f} ms {1e3 * min(times):6.1f} ms | "
                  f"{peak / 1e6:6.1f} MB {peak / size:6.2f}x")


if __name__ == "__main__":
    main()
