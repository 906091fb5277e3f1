"""Several builds of the runtime on the same plans, in turns: with another oneDNN, by another compiler, or before and after a change.

    python3 bench/builds.py BIN BIN ... [--threads 1,2] [--only NAME,NAME] [--folder FOLDER] [--models FOLDER] [--tune 10]
                            [--machine native] [--rounds 8] [--seconds 0.2] [--batch 1] [--length 32]

BIN is a folder that has the tools of a build; the first one's hypatiac makes the plans, and the others are compared with it.
Models are the networks of bench/table.py, or those (*.onnx) of --folder. For each build: the time of the plan as it is predicted
(as in bench/table.py, the least of the rounds' first deciles), with --tune also of the plan that this build has tuned, and the
first build's time over it: above 1 it is faster than the first. ! marks one that is slower by more than 2 %. Below them stand the geometric means; that
of predicted over tuned times says what a build's predictions leave. A plan whose results are others than the first build's, by
more than 1e-3 of the largest number of an output, is named.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnx

from models import Hypatia
from table import find_models, measure_ours, microseconds, ratio, run_tool

HERE = os.path.dirname(os.path.abspath(__file__))
MARGIN, ERROR = 1.02, 1e-3


def make_feeds(model, batch, length):
    """Random inputs, the same for all; symbolic axes are the batch, or lengths."""
    graph, rng, feeds = onnx.load(model, load_external_data=False).graph, np.random.default_rng(0), {}
    constants = {tensor.name for tensor in graph.initializer}
    for info in (info for info in graph.input if info.name not in constants):
        tensor = info.type.tensor_type
        shape = [d.dim_value or (batch if "batch" in d.dim_param else length) for d in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        feeds[info.name] = (rng.integers(0, 5, shape) if dtype.kind in "iub" else rng.standard_normal(shape)).astype(dtype)
    return feeds, [info.name for info in graph.output]


def results(side, outputs, folder):
    paths = [os.path.join(folder, f"y{i}.npy") for i in range(len(outputs))]
    side.run("run", *(word for name, path in zip(outputs, paths) for word in ("--output", f"{name}=@{path}")))
    return [np.load(path) for path in paths]


def is_other(ours, first):
    return any(np.max(np.abs(y - x), initial=0) > ERROR * max(1e-30, np.max(np.abs(x), initial=0)) for x, y in zip(first, ours))


def measure(args, name, model, threads, folder):
    """Microseconds of each build and form. Prints a row."""
    feeds, outputs = make_feeds(model, args.batch, args.length)
    shapes = [word for key, x in feeds.items() for word in ("--shapes", f"{key}:{'x'.join(map(str, x.shape)) or 'scalar'}")]
    plan, sides, first = os.path.join(folder, "plan.bin"), {}, None
    args.bin = args.builds[0]
    run_tool(args, "hypatiac", model, "-o", plan, "--verify", "off", "-q", "--target", f"cpu:{args.machine}", *shapes)
    for i, tools in enumerate(args.builds):
        args.bin = tools
        sides[i, "predicted"] = Hypatia(tools, plan, folder, feeds, threads)
        if args.tune:
            tuned = os.path.join(folder, f"{i}.bin")
            run_tool(args, "hypatia", "tune", plan, "-o", tuned, "--device", "cpu", "--threads", str(threads), "--seconds",
                     str(args.tune), "-q", env={**os.environ, "OMP_NUM_THREADS": str(threads)})
            sides[i, "tuned"] = Hypatia(tools, tuned, folder, feeds, threads)
    for (i, form), side in sides.items():
        ours = results(side, outputs, folder)
        first = first or ours
        if is_other(ours, first):
            print(f"{name}: results of {args.builds[i]}, {form}, are others", flush=True)
    rounds = {key: [] for key in sides}
    for _ in range(args.rounds):
        for key, side in sides.items():
            rounds[key].append(measure_ours(side, args.seconds, warmup=3))
    least = {key: min(times) for key, times in rounds.items()}
    cells = []
    for (i, form), us in least.items():
        over = least[0, form] / us
        cells += [microseconds(us)] + ([ratio(over, over * MARGIN < 1)] if i else [])
    print(f"| {name} | {' | '.join(cells)} |", flush=True)
    return least


def print_means(args, rows):
    for i, tools in enumerate(args.builds):
        said = [f"predicted {statistics.geometric_mean(r[0, 'predicted'] / r[i, 'predicted'] for r in rows):.3f}"]
        if args.tune:
            said += [f"tuned {statistics.geometric_mean(r[0, 'tuned'] / r[i, 'tuned'] for r in rows):.3f}",
                     f"predicted over tuned {statistics.geometric_mean(r[i, 'predicted'] / r[i, 'tuned'] for r in rows):.3f}"]
        print(f"{tools}: the first build's time over its own, {'; '.join(said)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("builds", nargs="+", metavar="BIN")
    parser.add_argument("--threads", type=lambda t: [int(n) for n in t.split(",")], default=[1, 2])
    parser.add_argument("--only", type=lambda t: t.lower().split(","), default=[""], help="models whose name contains one of these")
    parser.add_argument("--folder", help="measure the models of this folder in place of the networks")
    parser.add_argument("--models", help="keep the models in this folder, and take those that are there")
    parser.add_argument("--tune", type=float, default=0, help="seconds for tuning a plan by each build; 0: not tuned")
    parser.add_argument("--machine", default="native", help="whose costs the plans are made by")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.2, help="of every round and side")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--length", type=int, default=32)
    args = parser.parse_args()
    args.builds, only, args.only = [os.path.abspath(tools) for tools in args.builds], args.only, ""
    for tools in args.builds:
        said = subprocess.run([os.path.join(tools, "hypatia"), "--version"], check=True, capture_output=True, text=True).stdout
        print(f"{tools}: {said.strip()}")
    heads = [cell for i in range(len(args.builds)) for form in ("predicted", "tuned")[:1 + bool(args.tune)]
             for cell in [f"{i}, {form}"] + ["/"] * bool(i)]
    for threads in args.threads:
        print(f"\n{threads} thread(s)\n\n| network | {' | '.join(heads)} |\n{'|---' * (len(heads) + 1)}|")
        rows = []
        with tempfile.TemporaryDirectory() as written:
            for name, model in find_models(args, written):
                if any(text in name.lower() for text in only):
                    with tempfile.TemporaryDirectory() as folder:
                        rows.append(measure(args, name, model, threads, folder))
        print()
        print_means(args, rows)


if __name__ == "__main__":
    sys.exit(main())
