"""Steps side by side on a GPU: what plans take on one stream, on up to n, and as they decide by themselves.

    python3 bench/gpu/side_by_side.py --bin DIR/bin [--library LIBHYPATIA-RT.SO] [--only TEXT,TEXT] [--types fp32,bf16]
                                      [--streams 1,2,4,8] [--tune 10] [--rounds 15] [--budget SECONDS]

The networks of bench/table_networks.py, rewritten; each plan is opened once for every value of HYPATIA_CUDA_STREAMS, and all
run in turns from graphs of their own, on device tensors. "untuned" is the untuned plan, which goes by predictions, "untuned 1"
the same on one stream, "tuned" the plan that `hypatia tune` left, which has measured 1, 2 and 4 streams. Medians in
microseconds; results that are not those of one stream, bit for bit, are said. "gain" is what tuning made of one stream;
"streams" are those of the untuned and the tuned plan, "predicted" what the runtime expects of the former: side by side, and
on one.
"""
import argparse
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import torch

from runtime import Library, Plan

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from table_gpu import make_inputs
from table_networks import NETWORKS
from timing import in_turns, milliseconds, repeat
from torch_network import Network


def open_plan(library, path, streams, stream, inputs, outputs):
    """With HYPATIA_CUDA_STREAMS as it is to be; "" leaves it to the plan. Runs until it is replayed from a graph."""
    os.environ["HYPATIA_CUDA_STREAMS"] = streams
    plan = Plan(library, path, stream.cuda_stream, inputs, outputs)
    for _ in range(4):
        plan.run()
    stream.synchronize()
    del os.environ["HYPATIA_CUDA_STREAMS"]
    return plan


def decision(plan):
    """(streams, "predicted / on one") as the runtime says it."""
    for line in plan.said:
        found = re.search(r"side by side on (\d) streams: ([0-9.]+) us predicted, ([0-9.]+) on one", line)
        if found:
            return found[1], f"{found[2]} / {found[3]}"
    return "1", "-"


def measure(args, library, name, kind, folder):
    model, plan, tuned = (os.path.join(folder, file) for file in ("model.onnx", "plan.bin", "tuned.bin"))
    NETWORKS[name]().save(model)
    subprocess.run([f"{args.bin}/hypatiac", model, "-o", plan, "-q", "--target", args.target, "--precision", kind, "--verify", "off"], check=True)
    subprocess.run([f"{args.bin}/hypatia", "tune", plan, "-o", tuned, "--device", "cuda", "--seconds", str(args.tune), "-q"], check=True)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.no_grad():
        inputs = make_inputs(model, "cuda")
        network = Network(model, torch.float32, "cuda")
        shapes = [y.shape for y in network.call(network.weights, *inputs)]
        del network
        plans, ways, outputs = [], {}, {}
        wanted = [("untuned", plan, ""), ("untuned 1", plan, "1")]
        wanted += [*((n, tuned, n) for n in args.streams.split(",")), ("tuned", tuned, "")]
        for way, path, streams in wanted:
            outputs[way] = [torch.full(shape, float("nan"), device="cuda") for shape in shapes]
            plans.append(open_plan(library, path, streams, stream, inputs, outputs[way]))
            ways[way] = plans[-1].run
        stream.synchronize()
        first = args.streams.split(",")[0]
        differ = [way for way in ways if not way.startswith("untuned") and not all(map(torch.equal, outputs[way], outputs[first]))]
        once = min(milliseconds(repeat(ways["tuned"], 3), stream) / 3 for _ in range(3))
        runs = max(2, min(50, int(5 / once)))
        samples = in_turns({way: repeat(call, runs) for way, call in ways.items()}, runs, args.rounds, stream)
        said = [decision(opened) for way, opened in zip(ways, plans) if way in ("untuned", "tuned")]
        for opened in plans:
            opened.close()
    return {way: statistics.median(us) for way, us in samples.items()}, differ, said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--library")
    parser.add_argument("--target", default="cuda:h200")
    parser.add_argument("--only", default="NasRNN,LSTM,SqueezeNet,random cells,Inception-v3,NasNet-A,BERT")
    parser.add_argument("--types", default="fp32,bf16")
    parser.add_argument("--streams", default="1,2,4,8")
    parser.add_argument("--tune", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--budget", type=float, default=math.inf)
    args = parser.parse_args()
    library = Library(os.path.abspath(args.library or os.path.join(args.bin, "../lib/libhypatia-rt.so")))
    end, heads = time.monotonic() + args.budget, None
    print(f"{torch.cuda.get_device_name()}; PyTorch {torch.__version__}\n", flush=True)
    for name in args.only.split(","):
        for kind in args.types.split(","):
            if time.monotonic() > end:
                print(f"{name}, {kind}: not run, no time left", file=sys.stderr)
                continue
            with tempfile.TemporaryDirectory() as folder:
                try:
                    us, differ, said = measure(args, library, name, kind, folder)
                except (RuntimeError, subprocess.SubprocessError) as failure:
                    print(f"{name}, {kind}: {str(failure).splitlines()[0]}", file=sys.stderr, flush=True)
                    continue
            if not heads:
                heads = ["network", "type", *us, "gain", "streams", "predicted", "differ"]
                print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
            one = us[args.streams.split(",")[0]]
            cells = [name, kind, *(f"{t:.1f}" for t in us.values()), f"{one / us['tuned']:.2f}x", f"{said[0][0]}, {said[1][0]}",
                     said[0][1], ", ".join(differ) or "-"]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
