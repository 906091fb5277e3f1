"""Time and peak memory of hypatiac on a 100 MB MLP and on the digits model; or of the models below folders, why
each phase of rewriting ended.

    python3 bench/compile.py [--bin build/release/bin] [--rounds 5]
    python3 bench/compile.py FOLDER ... [--bin build/release/bin] [--all]

With folders, every *.onnx is compiled once with --verify off. Printed are those of which a phase did not saturate, or the
least cost was not shown to be least, with --all all of them; then how many there are of each kind. The exit code is 1 if a phase
did not saturate. Models that hypatiac does not compile are counted by what it says.
"""
import argparse
import collections
import glob
import os
import re
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


def stops(tool, model, plan):
    """Seconds, e-nodes and {phase: why it ended}; or what hypatiac says instead."""
    begin = time.perf_counter()
    done = subprocess.run([tool, model, "-o", plan, "--verify", "off", "--stats"], capture_output=True, text=True,
                          errors="replace")
    seconds = time.perf_counter() - begin
    found = re.search(r"^e-graph +(\d+) e-nodes.* stop: (.*)$", done.stdout, re.MULTILINE)
    if done.returncode or not found:
        return seconds, 0, None, (done.stderr.strip() or "no report").splitlines()[-1]
    *phases, proven = found[2].split(", ")
    return seconds, int(found[1]), dict(p.split(" ", 1) for p in phases), proven


def compile_folders(args):
    """Whether every phase of every model saturated."""
    models = sorted({m for folder in args.folders for m in glob.glob(os.path.join(folder, "**/*.onnx"), recursive=True)})
    counts, refused = collections.Counter(), collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            seconds, nodes, phases, said = stops(os.path.join(args.bin, "hypatiac"), model, os.path.join(folder, "plan.bin"))
            if phases is None:
                refused[re.sub(r"'[^']*'|\d+", "..", said.replace(model, "MODEL"))[:100]] += 1
                continue
            ended = [f"{phase}: {why}" for phase, why in phases.items() if why != "saturated"]
            counts["not saturated" if ended else "saturated"] += 1
            counts["not proven"] += said != "least cost proven"
            if ended or said != "least cost proven" or args.all:
                print(f"{model}: {seconds:.2f} s, {nodes} e-nodes, {', '.join(ended) or 'saturated'}, {said}", flush=True)
    print(f"{len(models)} models: {counts['saturated']} saturated, {counts['not saturated']} not, "
          f"{counts['not proven']} without a proof of the least cost, {sum(refused.values())} not compiled")
    for said, count in refused.most_common():
        print(f"  {count} x {said}")
    return counts["not saturated"] == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--bin", default=os.path.join(HERE, "../build/release/bin"))
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if args.folders:
        sys.exit(0 if compile_folders(args) else 1)
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
