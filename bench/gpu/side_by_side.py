"""Steps side by side on a GPU: what plans take on one stream, on up to n, and as they decide by themselves.

    python3 bench/gpu/side_by_side.py --bin DIR/bin [--library LIBHYPATIA-RT.SO] [--only TEXT,TEXT] [--types fp32,bf16]
                                      [--streams 1,2,4,8] [--tune 10] [--rounds 15] [--budget SECONDS]

The networks of bench/table_networks.py, rewritten; each plan is opened once for every value of HYPATIA_CUDA_STREAMS, and all
run in turns from graphs of their own, on device tensors. "as predicted" is the untuned plan, "as tuned" the plan that
`hypatia tune` left, which has measured both ways. Medians in microseconds; results that are not those of one stream, bit for bit,
are said.
"""
import argparse
import math
import os
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


def open_plan(library, path, streams, stream, inputs, outputs, more=None):
    """With HYPATIA_CUDA_STREAMS as it is to be; "" leaves it to the plan. Runs until it is replayed from a graph."""
    for name, value in {"HYPATIA_CUDA_STREAMS": streams, **(more or {})}.items():
        os.environ[name] = value
    plan = Plan(library, path, stream.cuda_stream, inputs, outputs)
    for _ in range(4):
        plan.run()
    stream.synchronize()
    for name in ("HYPATIA_CUDA_STREAMS", *(more or {})):
        os.environ.pop(name, None)
    return plan


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
        wanted = [("predicted", plan, "", {}), *((f"{n}", tuned, n, {}) for n in args.streams.split(",")), ("tuned", tuned, "", {})]
        wanted += [(f"{args.streams.split(',')[-1]} {variable}", tuned, args.streams.split(",")[-1], {variable: "1"})
                   for variable in args.also.split(",") if variable]
        for way, path, streams, more in wanted:
            outputs[way] = [torch.full(shape, float("nan"), device="cuda") for shape in shapes]
            plans.append(open_plan(library, path, streams, stream, inputs, outputs[way], more))
            ways[way] = plans[-1].run
        stream.synchronize()
        first = args.streams.split(",")[0]
        differ = [way for way in ways if way != "predicted" and not all(map(torch.equal, outputs[way], outputs[first]))]
        once = min(milliseconds(repeat(ways["tuned"], 3), stream) / 3 for _ in range(3))
        runs = max(2, min(50, int(5 / once)))
        samples = in_turns({way: repeat(call, runs) for way, call in ways.items()}, runs, args.rounds, stream)
        for opened in plans:
            opened.close()
    return {way: statistics.median(us) for way, us in samples.items()}, differ


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--library")
    parser.add_argument("--target", default="cuda:h200")
    parser.add_argument("--only", default="NasRNN,LSTM,SqueezeNet,random cells,Inception-v3,NasNet-A,BERT")
    parser.add_argument("--types", default="fp32,bf16")
    parser.add_argument("--streams", default="1,2,4,8")
    parser.add_argument("--also", default="", help="variables of the environment to try with the last number of streams")
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
                    us, differ = measure(args, library, name, kind, folder)
                except (RuntimeError, subprocess.SubprocessError) as failure:
                    print(f"{name}, {kind}: {str(failure).splitlines()[0]}", file=sys.stderr, flush=True)
                    continue
            if not heads:
                heads = ["network", "type", *us, "gain", "differ"]
                print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
            one = us[args.streams.split(",")[0]]
            cells = [name, kind, *(f"{t:.1f}" for t in us.values()), f"{one / us['tuned']:.2f}x", ", ".join(differ) or "-"]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
