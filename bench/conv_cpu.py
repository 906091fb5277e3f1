"""Convolutional networks on the CPU: hypatia and onnxruntime side by side, with one and with two threads.

    python3 bench/conv_cpu.py [--bin build/release/bin] [--rounds 5] [--json FILE] [--filter TEXT]

Both run the same models on the same inputs, in turns, so that a busy machine hits both. Of every round the median call
is taken; printed are the median of the rounds and the fastest round. The rows are the kinds of convolution in
ResNet-18, alone and as its blocks, the whole network, and blocks of MobileNet.
"""
import os
import statistics
import sys
import tempfile

import numpy as np
import onnxruntime

from mlp_cpu import Hypatia, Onnxruntime, arguments, relative_error, save
from network import Network


def one_conv(shape, *args):
    g = Network(shape)
    g.conv(*args)
    return g


def stage(shape, out, stride):
    g = Network(shape)
    g.block(out, stride)
    g.block(out)
    return g


def resnet18(shape):
    g = Network(shape)
    g.conv(64, 7, 2)
    g.relu()
    g.op("MaxPool", g.value, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for out, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        g.block(out, stride)
        g.block(out)
    g.op("GlobalAveragePool", g.value)
    g.op("Flatten", g.value)
    g.op("Gemm", g.value, g.weight(1000, 512), g.weight(1000), transB=1)
    return g


def mobile(shape):
    g = Network(shape)
    g.mobile_block(24, 2)
    g.mobile_block(24)
    g.mobile_block(32, 2)
    g.mobile_block(32)
    return g


CASES = [
    ("7x7 3-64 /2", lambda: one_conv((1, 3, 224, 224), 64, 7, 2)),
    ("3x3 64-64", lambda: one_conv((1, 64, 56, 56), 64, 3)),
    ("3x3 128-128", lambda: one_conv((1, 128, 28, 28), 128, 3)),
    ("3x3 512-512", lambda: one_conv((1, 512, 7, 7), 512, 3)),
    ("1x1 64-128 /2", lambda: one_conv((1, 64, 56, 56), 128, 1, 2)),
    ("stage 64", lambda: stage((1, 64, 56, 56), 64, 1)),
    ("stage 128", lambda: stage((1, 64, 56, 56), 128, 2)),
    ("stage 512", lambda: stage((1, 256, 14, 14), 512, 2)),
    ("resnet18", lambda: resnet18((1, 3, 224, 224))),
    ("resnet18 x4", lambda: resnet18((4, 3, 224, 224))),
    ("mobile blocks", lambda: mobile((1, 16, 112, 112))),
]


def main(cases):
    parser = arguments(0.3)
    parser.add_argument("--filter", default="", help="rows whose name contains this")
    args = parser.parse_args()
    print(f"onnxruntime {onnxruntime.__version__}")
    print(f"{'model':14s} {'threads':>7s} | {'hypatia p50':>11s} {'best':>9s} | {'onnxruntime':>11s} {'best':>9s} | "
          f"{'ratio':>6s} {'of best':>7s} {'difference':>10s}")
    results = []
    for name, make in cases:
        if args.filter not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            model, network = os.path.join(folder, "model.onnx"), make()
            network.save(model)
            x = np.random.default_rng(1).uniform(-1, 1, network.shape).astype(np.float32)
            sides = {t: (Hypatia(args.bin, model, folder, x, t), Onnxruntime(model, x, t)) for t in (1, 2)}
            rounds = {t: [] for t in sides}
            for _ in range(args.rounds):
                for threads, (ours, theirs) in sides.items():
                    rounds[threads].append((ours.measure(args.seconds), theirs.measure(args.seconds)))
        for threads, (ours, theirs) in sides.items():
            mine, other = zip(*rounds[threads])
            error = relative_error(ours, theirs)
            a, b = statistics.median(mine), statistics.median(other)
            print(f"{name:14s} {threads:7d} | {a:8.0f} us {min(mine):6.0f} us | {b:8.0f} us {min(other):6.0f} us | "
                  f"{b / a:5.2f}x {min(other) / min(mine):6.2f}x {error:10.1e}", flush=True)
            results.append({"model": name, "threads": threads, "hypatia_us": mine, "onnxruntime_us": other,
                            "device": ours.figures["device"], "commit": ours.figures["commit"]})
    save(args, results)


if __name__ == "__main__":
    sys.exit(main(CASES))
