"""Networks of the kinds where a CPU's other runtimes were once ahead: hypatia, onnxruntime and, where it is installed,
OpenVINO side by side on one thread.

    python3 bench/losing_cpu.py [--bin build/release/bin] [--rounds 5] [--filter TEXT] [--tuned] [--json FILE] [--models FOLDER]

All run the same models on the same inputs, in turns, so that a busy machine hits all. Of every round the median call is
taken; printed are the medians of the rounds, and the median over the rounds of theirs / ours. Dense layers of one row
also print how fast their weights are read, and how fast numpy reads an array of that size: the floor. --models keeps the models
in a folder, --tuned tunes the plans first.
"""
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime
from onnx import numpy_helper

from conv_cpu import one_conv, resnet18
from mlp_cpu import Hypatia, Onnxruntime, arguments, median_call, relative_error, save
from network import Network

try:
    import openvino
except ImportError:
    openvino = None


class Net(Network):
    """With what decoders and classifiers need."""

    def up(self, out, kernel, stride, pad, more=0, x=None):
        """A transposed convolution."""
        w = self.weight(self.channels, out, kernel, kernel)
        self.channels = out
        return self.op("ConvTranspose", x or self.value, w, self.weight(out), strides=[stride] * 2, pads=[pad] * 4,
                       output_padding=[more] * 2)

    def valid(self, out, kernel, stride=1):
        """A convolution without padding."""
        w = self.weight(out, self.channels, kernel, kernel)
        self.channels = out
        return self.op("Conv", self.value, w, self.weight(out), strides=[stride] * 2)

    def pool(self):
        return self.op("MaxPool", self.value, kernel_shape=[2, 2], strides=[2, 2])

    def dense(self, n, k):
        return self.op("Gemm", self.value, self.weight(n, k), self.weight(n), transB=1)

    def double(self, out):
        """Two convolutions of a U-Net."""
        for _ in range(2):
            self.conv(out, 3)
            self.relu()
        return self.value


def row(width, layers=1):
    g = Net((1, width))
    for _ in range(layers):
        g.dense(width, width)
        g.relu()
    return g


def one_up(shape, *args):
    g = Net(shape)
    g.up(*args)
    return g


def generator():
    """DCGAN, 64 x 64."""
    g = Net((1, 100, 1, 1))
    g.up(512, 4, 1, 0)
    g.relu()
    for out in (256, 128, 64):
        g.up(out, 4, 2, 1)
        g.relu()
    g.up(3, 4, 2, 1)
    g.op("Tanh", g.value)
    return g


def autoencoder():
    g = Net((1, 1, 28, 28))
    for out in (16, 32):
        g.conv(out, 3, 2)
        g.relu()
    g.valid(64, 7)
    g.up(32, 7, 1, 0)
    g.relu()
    g.up(16, 3, 2, 1, 1)
    g.relu()
    g.up(1, 3, 2, 1, 1)
    g.op("Sigmoid", g.value)
    return g


def stylizer():
    """The end of a style transfer network: two steps up and a 9x9."""
    g = Net((1, 128, 32, 32))
    for out in (64, 32):
        g.up(out, 3, 2, 1, 1)
        g.relu()
    g.conv(3, 9)
    return g


def digits_cnn():
    """PyTorch's example for handwritten digits."""
    g = Net((1, 1, 28, 28))
    for out in (32, 64):
        g.valid(out, 3)
        g.relu()
    g.pool()
    g.op("Flatten", g.value)
    g.dense(128, 64 * 12 * 12)
    g.relu()
    g.dense(10, 128)
    return g


def colour_cnn():
    g = Net((1, 3, 32, 32))
    for out in (32, 64):
        g.conv(out, 3)
        g.relu()
        g.pool()
    g.op("Flatten", g.value)
    g.dense(512, 64 * 8 * 8)
    g.relu()
    g.dense(10, 512)
    return g


def lenet():
    g = Net((1, 1, 28, 28))
    g.conv(6, 5)
    g.relu()
    g.pool()
    g.valid(16, 5)
    g.relu()
    g.pool()
    g.op("Flatten", g.value)
    for n, k in ((120, 400), (84, 120)):
        g.dense(n, k)
        g.relu()
    g.dense(10, 84)
    return g


def unet(size, base, deep, resize):
    g = Net((1, 3, size, size))
    kept = []
    for level in range(deep):
        kept.append((g.double(base << level), g.channels))
        g.pool()
    g.double(base << deep)
    for value, channels in reversed(kept):
        if resize:
            g.weights.append(numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), f"s{len(g.weights)}"))
            x = g.op("Resize", g.value, "", g.weights[-1].name, mode="nearest",
                     coordinate_transformation_mode="asymmetric", nearest_mode="floor")
            g.conv(channels, 3)
        else:
            x = g.up(channels, 2, 2, 0)
        g.op("Concat", value, g.value, axis=1)
        g.channels = 2 * channels
        g.double(channels)
    g.conv(1, 1)
    g.op("Sigmoid", g.value)
    return g


def resnet20():
    """For 32 x 32."""
    g = Net((1, 3, 32, 32))
    g.conv(16, 3)
    g.relu()
    for out, stride in ((16, 1), (32, 2), (64, 2)):
        g.block(out, stride)
        g.block(out)
        g.block(out)
    g.op("GlobalAveragePool", g.value)
    g.op("Flatten", g.value)
    g.dense(10, 64)
    return g


CASES = [(f"row {w}", lambda w=w: row(w)) for w in (512, 768, 1024, 2048, 4096)] + [
    ("rows 512 x4", lambda: row(512, 4)),
    ("rows 1024 x4", lambda: row(1024, 4)),
    ("up k4 s2 512-256", lambda: one_up((1, 512, 4, 4), 256, 4, 2, 1)),
    ("up k4 s2 128-64", lambda: one_up((1, 128, 16, 16), 64, 4, 2, 1)),
    ("up k4 s2 64-3", lambda: one_up((1, 64, 32, 32), 3, 4, 2, 1)),
    ("up k3 s2 64-32", lambda: one_up((1, 64, 32, 32), 32, 3, 2, 1, 1)),
    ("up k2 s2 128-64", lambda: one_up((1, 128, 32, 32), 64, 2, 2, 0)),
    ("up k3 s1 64-64", lambda: one_up((1, 64, 32, 32), 64, 3, 1, 1)),
    ("up k4 s1 100-512", lambda: one_up((1, 100, 1, 1), 512, 4, 1, 0)),
    ("generator", generator),
    ("autoencoder", autoencoder),
    ("stylizer", stylizer),
    ("digits cnn", digits_cnn),
    ("colour cnn", colour_cnn),
    ("lenet", lenet),
    ("unet 64", lambda: unet(64, 16, 3, False)),
    ("unet 128", lambda: unet(128, 32, 4, False)),
    ("unet 64 resize", lambda: unet(64, 16, 3, True)),
    ("resnet20", resnet20),
    ("resnet18", lambda: resnet18((1, 3, 224, 224))),
    ("conv 3x3 64-64", lambda: one_conv((1, 64, 56, 56), 64, 3)),
]


class Openvino:
    def __init__(self, model, x):
        core = openvino.Core()
        compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1,
                                                     "PERFORMANCE_HINT": "LATENCY",
                                                     "INFERENCE_PRECISION_HINT": "f32"})
        self.request = compiled.create_infer_request()
        self.request.set_input_tensor(openvino.Tensor(x, shared_memory=True))
        self.request.infer()

    def measure(self, seconds):
        return median_call(self.request.infer, seconds)


class Tuned(Hypatia):
    def __init__(self, tools, model, folder, x):
        super().__init__(tools, model, folder, x)
        tuned = os.path.join(folder, "tuned.bin")
        subprocess.run([self.tool, "tune", self.plan, "-o", tuned, "--device", "cpu", "--threads", "1", "--dim",
                        f"n={x.shape[0]}", "-q"], check=True)
        self.plan = tuned


def read_floor(count, seconds=0.1):
    """Microseconds to read so many floats once."""
    array = np.ones(count, np.float32)
    return median_call(lambda: array.dot(array), seconds)


def main():
    parser = arguments(0.3)
    parser.add_argument("--filter", default="", help="rows whose name contains this")
    parser.add_argument("--tuned", action="store_true", help="tune the plans first")
    parser.add_argument("--models", help="keep the models in this folder")
    args = parser.parse_args()
    print(f"onnxruntime {onnxruntime.__version__}, OpenVINO {openvino.__version__ if openvino else 'not there'}, one thread")
    print(f"{'model':18s} | {'hypatia':>10s} | {'onnxruntime':>11s} {'/ ours':>6s} | {'OpenVINO':>10s} {'/ ours':>6s} | "
          f"{'difference':>10s}")
    results = []
    for name, make in CASES:
        if args.filter not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            model, network = os.path.join(args.models or folder, name.replace(" ", "-") + ".onnx"), make()
            network.save(model)
            x = np.random.default_rng(1).uniform(-1, 1, network.shape).astype(np.float32)
            ours, theirs = (Tuned if args.tuned else Hypatia)(args.bin, model, folder, x), Onnxruntime(model, x)
            third = Openvino(model, x) if openvino else None
            rounds = []
            for _ in range(args.rounds):
                rounds.append((ours.measure(args.seconds), theirs.measure(args.seconds),
                               third.measure(args.seconds) if third else float("nan")))
        mine, other, ov = zip(*rounds)
        error = relative_error(ours, theirs)
        median = statistics.median
        line = (f"{name:18s} | {median(mine):7.1f} us | {median(other):8.1f} us {median(b / a for a, b in zip(mine, other)):5.2f}x"
                f" | {median(ov):7.1f} us {median(c / a for a, c in zip(mine, ov)):5.2f}x | {error:10.1e}")
        if name.startswith("row"):
            count = sum(int(np.prod(w.dims)) for w in network.weights if len(w.dims) == 2)
            line += f" | {4e-3 * count / median(mine):5.1f} GB/s, numpy {4e-3 * count / read_floor(count):5.1f}"
        print(line, flush=True)
        results.append({"model": name, "hypatia_us": mine, "onnxruntime_us": other, "openvino_us": ov,
                        "device": ours.figures["device"], "commit": ours.figures["commit"]})
    save(args, results)


if __name__ == "__main__":
    sys.exit(main())
