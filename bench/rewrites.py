"""What rewriting gains: every model rewritten, as it is, and in onnxruntime, in turns in one run.

    python3 bench/rewrites.py [FOLDER] [--bin build/release/bin] [--threads 1] [--batch 1] [--length 32] [--rounds 5]
                              [--seconds 0.5] [--only TEXT] [--no-mlps] [--profile FILE] [--rules]

FOLDER has models (*.onnx); families of MLPs are made here. Printed for each model, as a row of a table: kernels of the
plan of the model as it is (hypatiac --no-rewrite), of its normal form (idioms and layers, nothing fused) and of the
rewritten one; e-nodes, e-classes and why rewriting stopped; the predicted and the measured gain over the model as it
is, and the measured one over the normal form; times, and onnxruntime's at its highest level over ours. ! marks what is
slower than another. Times are medians of the rounds' median calls. --rules also prints the rules of every plan with how
often each was used.
"""
import argparse
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime
from mlp_cpu import make_mlp
from models import Hypatia, Onnxruntime, make_inputs

HERE = os.path.dirname(os.path.abspath(__file__))
NORMAL = ("normalize", "recognize", "linear")
MLPS = [(f"mlp-{width}x{depth}-b{batch}", [width] * depth, batch)
        for width, depth in ((64, 4), (256, 5), (1024, 4)) for batch in (1, 32, 256)] + [
    ("mlp-5-50x6-5-b1", [5] + [50] * 6 + [5], 1), ("mlp-784-256x4-10-b1", [784] + [256] * 4 + [10], 1),
    ("mlp-784-128-32-10-b64", [784, 128, 32, 10], 64)]


def tool(args, name, *rest):
    return subprocess.run([os.path.join(args.bin, name), *rest], check=True, capture_output=True, text=True).stdout


def compile_plan(args, model, plan, typical, *options):
    """Returns what hypatiac says and how it describes the plan."""
    sizes = ["--typical", ",".join(f"{name}={size}" for name, size in typical.items())] if typical else []
    profile = ["--profile", args.profile] if args.profile else []
    said = tool(args, "hypatiac", model, "-o", plan, "--stats", *sizes, *profile, *options)
    return said, json.loads(tool(args, "hypatia", "inspect", plan, "--json"))


def typical_sizes(described, feeds):
    """The sizes that the symbols of a plan have in these inputs."""
    return {dim: size for info in described["inputs"] for dim, size in zip(info["dims"], feeds[info["name"]].shape)
            if isinstance(dim, str) and re.fullmatch(r"[^() ]+", dim)}


def predicted(described):
    return sum(step["predicted_seconds"] for step in described["steps"])


class Row:
    """One model in its forms."""

    def __init__(self, args, name, model, feeds, folder):
        plans = {form: os.path.join(folder, form + ".bin") for form in ("as-it-is", "normal", "rewritten")}
        _, described = compile_plan(args, model, plans["as-it-is"], {}, "--no-rewrite")
        typical = typical_sizes(described, feeds)
        _, self.plain = compile_plan(args, model, plans["as-it-is"], typical, "--no-rewrite")
        _, self.normal = compile_plan(args, model, plans["normal"], typical, "--only-rules", args.normal_rules)
        self.said, self.rewritten = compile_plan(args, model, plans["rewritten"], typical)
        self.name = name
        sides = [(Hypatia(args.bin, plan, folder, feeds, args.threads)) for plan in plans.values()]
        sides.append(Onnxruntime(model, feeds, args.threads))
        rounds = [[side.measure(args.seconds) for side in sides] for _ in range(args.rounds)]
        self.plain_us, self.normal_us, self.us, self.ort_us = map(statistics.median, zip(*rounds))

    def print(self, rules):
        e_nodes, e_classes, stop = re.search(r"e-graph +(\d+) e-nodes, (\d+) e-classes, .*stop: (.*)", self.said).groups()
        gain, over_normal, over_ort = self.plain_us / self.us, self.normal_us / self.us, self.ort_us / self.us
        kernels = " -> ".join(str(len(d["steps"])) for d in (self.plain, self.normal, self.rewritten))
        cells = [self.name, kernels, f"{e_nodes}, {e_classes}", stop, f"{predicted(self.plain) / predicted(self.rewritten):.2f}x",
                 *(f"{x:.2f}x{'!' if x < 1 else ''}" for x in (gain, over_normal)),
                 f"{predicted(self.rewritten) * 1e6:.1f} us", f"{self.us:.1f} us", f"{self.plain_us:.1f} us",
                 f"{self.ort_us:.1f} us", f"{over_ort:.2f}x{'!' if over_ort < 1 else ''}"]
        print("| " + " | ".join(cells) + " |", flush=True)
        if rules:
            used = re.search(r"rules used: (.*)", self.said)
            print(f"    {used.group(1) if used else 'no rules'}", flush=True)


def models(args, folder):
    """Names, paths and inputs."""
    rng = np.random.default_rng(0)
    for name, widths, batch in MLPS:
        if args.no_mlps or args.only not in name:
            continue
        path = os.path.join(folder, "mlp.onnx")
        with open(path, "wb") as file:
            file.write(make_mlp(widths, rng).SerializeToString())
        yield name, path, {"x": rng.uniform(-1, 1, (batch, widths[0])).astype(np.float32)}
    for path in sorted(glob.glob(os.path.join(args.folder, "*.onnx"))) if args.folder else []:
        name = os.path.basename(path)[:-len(".onnx")]
        if args.only in name:
            session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
            feeds = make_inputs(session, args.batch, args.length, rng)
            del session
            yield name, path, feeds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--bin", default=os.path.join(HERE, "../build/release/bin"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of every round and side")
    parser.add_argument("--only", default="")
    parser.add_argument("--no-mlps", action="store_true")
    parser.add_argument("--profile", help="device profile for hypatiac")
    parser.add_argument("--rules", action="store_true", help="print the rules used")
    args = parser.parse_args()
    rules = [line.split() for line in tool(args, "hypatiac", "--list-rules").splitlines()]
    args.normal_rules = ",".join(rule[0] for rule in rules if rule[2] in NORMAL)
    print(f"onnxruntime {onnxruntime.__version__} with ORT_ENABLE_ALL, {args.threads} thread(s); batch {args.batch}, lengths "
          f"{args.length}; kernels of the model as it is, in normal form, rewritten\n")
    print("| model | kernels | e-nodes, e-classes | stop | predicted gain | measured gain | over normal form | predicted | "
          "Hypatia | as it is | onnxruntime | ratio |\n|" + "---|" * 12)
    with tempfile.TemporaryDirectory() as folder:
        for name, path, feeds in models(args, folder):
            Row(args, name, path, feeds, folder).print(args.rules)


if __name__ == "__main__":
    sys.exit(main())
