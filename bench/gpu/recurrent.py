"""LSTM, GRU and RNN on a GPU: hypatia and PyTorch (cuDNN) side by side, in fp32.

    python3 bench/gpu/recurrent.py [--bin build/gpu/bundle/bin] [--rounds 3]

Both have their tensors in the memory of the device and are timed one call after the other, until its results are there,
in turns; printed are the medians of the rounds' medians. Neither uses tf32. The last columns are floors: what the
multiplications take at 67 Tflop/s, and, of a form that launches a kernel for every time, 2 us for each.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from recurrent_cpu import Recurrent

CASES = [("LSTM", 50, 1, 64, 128), ("LSTM", 50, 16, 128, 128), ("LSTM", 30, 32, 256, 256), ("LSTM", 30, 8, 1024, 1024),
         ("LSTM", 20, 64, 512, 512), ("GRU", 50, 1, 256, 256), ("GRU", 30, 32, 256, 256), ("RNN", 100, 16, 128, 128)]


def median_of_torch(module, x, seconds=0.3):
    samples, end = [], time.perf_counter() + seconds
    with torch.no_grad():
        while time.perf_counter() < end:
            begin = time.perf_counter()
            module(x)
            torch.cuda.synchronize()
            samples.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(samples)


def median_of_plan(tools, plan):
    out = subprocess.run([os.path.join(tools, "hypatia"), "bench", plan, "--device", "cuda", "--input", "x=random:1",
                          "--duration", "0.3", "--json", "-", "-q"], check=True, capture_output=True, text=True).stdout
    return statistics.median(json.loads(out)["samples_us"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default="build/gpu/bundle/bin")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = False
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    print("| operator | times x batch x input, state | hypatia | PyTorch | | multiplications | launches |\n"
          "|---|---|---|---|---|---|---|")
    for op, times, batch, width, size in CASES:
        gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
        flops = 2 * times * batch * gates * size * (width + size)
        with tempfile.TemporaryDirectory() as folder:
            model, plan = os.path.join(folder, "model.onnx"), os.path.join(folder, "plan.bin")
            Recurrent(op, times, batch, width, size).save(model)
            subprocess.run([os.path.join(args.bin, "hypatiac"), model, "-o", plan, "--target", "cuda", "-q"],
                           check=True)
            module, x = getattr(torch.nn, op)(width, size).cuda(), torch.randn(times, batch, width, device="cuda")
            median_of_torch(module, x)
            rounds = [(median_of_plan(args.bin, plan), median_of_torch(module, x)) for _ in range(args.rounds)]
        ours, theirs = (statistics.median(side) for side in zip(*rounds))
        print(f"| {op} | {times}x{batch}x{width}, {size} | {ours:.0f} us | {theirs:.0f} us | {theirs / ours:.2f}x | "
              f"{flops / 67e6:.1f} us | {2 * times} us |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
