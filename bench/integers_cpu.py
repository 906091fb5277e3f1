"""Products of 8-bit integers on the CPU: hypatia and onnxruntime side by side, on one thread.

    python3 bench/integers_cpu.py [--bin build/release/bin] [--rounds 5] [--json FILE] [--filter TEXT] [--before BIN]

Measured as mlp_cpu.py says; --before runs another build of hypatia in the same rounds. x is uint8 and the weights int8, all over
their range, or uint8 as well ("u8"), whose products onnxruntime computes exactly; where results differ from exact integers in numpy, "wrong" says on which side: onnxruntime's sums saturate on processors
that have AVX2 without VNNI. Products are rows x K x N, convolutions channels-results of an image. The floor is what the
multiplications would take at the rate at which numpy multiplies such matrices in f32 on one thread, measured in the same rounds.
"""
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is there
import statistics  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import TensorProto, helper, numpy_helper, save  # noqa: E402

import mlp_cpu  # noqa: E402

X_SCALE, Y_SCALE, X_ZERO, Y_ZERO = np.float32(0.02), np.float32(40), np.uint8(127), np.uint8(101)


class Product:
    """One operator with stored weights."""

    def __init__(self, op, x_shape, w_shape, w_kind=np.int8, **attributes):
        info, rng = np.iinfo(w_kind), np.random.default_rng(3)
        self.x = rng.integers(0, 256, x_shape).astype(np.uint8)
        self.w = rng.integers(info.min, info.max + 1, w_shape).astype(w_kind)
        self.w_zero = 0 if info.min else 128
        self.op, self.attributes = op, attributes
        channels = w_shape[0] if op.endswith("Conv") else w_shape[1]
        self.w_scale = rng.uniform(0.01, 0.02, channels).astype(np.float32)

    def save(self, path):
        quantized = self.op.startswith("QLinear")
        values = {"x_scale": X_SCALE, "x_zero": X_ZERO, "w": self.w, "w_scale": self.w_scale,
                  "w_zero": np.full(len(self.w_scale), self.w_zero, self.w.dtype), "y_scale": Y_SCALE, "y_zero": Y_ZERO}
        if not quantized:
            values = {"w": self.w, "x_zero": X_ZERO, "w_zero": np.asarray(self.w_zero, self.w.dtype)}
        node = helper.make_node(self.op, ["x", *values], ["y"], **self.attributes)
        kind = TensorProto.UINT8 if quantized else TensorProto.INT32
        graph = helper.make_graph([node], "product", [helper.make_tensor_value_info("x", TensorProto.UINT8, self.x.shape)],
                                  [helper.make_tensor_value_info("y", kind, None)],
                                  [numpy_helper.from_array(np.asarray(v), k) for k, v in values.items()])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)

    def matrices(self):
        """What is multiplied, as rows and columns of floats: sums of fewer than 2^53 / 2^16 terms are exact in double."""
        x, w = self.x.astype(np.float64) - float(X_ZERO), self.w.astype(np.float64) - self.w_zero
        if not self.op.startswith(("Conv", "QLinearConv")):
            return x, w
        pads, stride = self.attributes["pads"][0], self.attributes["strides"][0]
        x = np.pad(x, ((0, 0), (0, 0), (pads, pads), (pads, pads)))
        windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))[0, :, ::stride, ::stride]
        self.places = windows.shape[1:3]
        return windows.transpose(1, 2, 0, 3, 4).reshape(np.prod(self.places), -1), w.reshape(len(w), -1).T

    def exact(self):
        x, w = self.matrices()
        sums = x @ w
        if self.op.startswith("QLinear"):
            scaled = np.float32(sums) * (X_SCALE * self.w_scale / Y_SCALE)
            sums = np.clip(np.rint(scaled) + float(Y_ZERO), 0, 255).astype(np.uint8)
        else:
            sums = sums.astype(np.int32)
        return sums if not hasattr(self, "places") else sums.T.reshape(1, -1, *self.places)


def convolution(op, channels, results, size, kernel, stride=1):
    return lambda: Product(op, (1, channels, size, size), (results, channels, kernel, kernel), pads=[kernel // 2] * 4,
                           strides=[stride] * 2)


def product(op, m, k, n=768, w_kind=np.int8):
    return lambda: Product(op, (m, k), (k, n), w_kind)


CASES = [(f"{op} {m}x{k}x768", product(op, m, k)) for op in ("MatMulInteger", "QLinearMatMul") for m in (1, 64, 512)
         for k in (768, 3072)]
CASES += [(f"MatMulInteger u8 {m}x{k}x768", product("MatMulInteger", m, k, w_kind=np.uint8)) for m in (1, 64, 512) for k in (768, 3072)]
for operator in ("ConvInteger", "QLinearConv"):
    CASES += [(f"{operator} {k}x{k} {c}-{r} {size}" + (" /2" if stride > 1 else ""), convolution(operator, c, r, size, k, stride))
              for c, r, size, k, stride in ((64, 64, 56, 3, 1), (256, 64, 56, 1, 1), (256, 256, 14, 3, 1), (1024, 256, 14, 1, 1),
                                            (512, 512, 7, 3, 1), (256, 512, 56, 1, 2))]


def main():
    parser = mlp_cpu.arguments(0.2)
    parser.add_argument("--filter", default="", help="rows whose name contains this")
    parser.add_argument("--before", help="the folder of another build's programs")
    args = parser.parse_args()
    builds = [args.bin] + ([args.before] if args.before else [])
    print(f"onnxruntime {onnxruntime.__version__}, one thread, us")
    print(f"{'product':30s}" + ("{:>10s}" * 5).format("hypatia", "before", "onnxrt", "ratio", "floor") + "  wrong")
    results = []
    for name, make in CASES:
        if args.filter not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            case, model = make(), os.path.join(folder, "model.onnx")
            case.save(model)
            folders = [os.path.join(folder, str(i)) for i in range(len(builds))]
            for path in folders:
                os.mkdir(path)
            sides = [mlp_cpu.Hypatia(tools, model, path, case.x) for tools, path in zip(builds, folders)]
            sides.append(mlp_cpu.Onnxruntime(model, case.x))
            a, b = (np.ascontiguousarray(m, np.float32) for m in case.matrices())
            c = np.empty((len(a), b.shape[1]), np.float32)
            rounds = [[s.measure(args.seconds) for s in sides] +
                      [mlp_cpu.median_call(lambda: np.matmul(a, b, out=c), args.seconds / 4)] for _ in range(args.rounds)]
        exact = case.exact()
        wrong = [who for who, side in (("hypatia", sides[0]), ("onnxruntime", sides[-1])) if (side.y != exact).any()]
        us = [statistics.median(r) for r in zip(*rounds)]
        before = f"{us[1]:10.0f}" if args.before else f"{'':10s}"
        print(f"{name:30s}{us[0]:10.0f}{before}{us[-2]:10.0f}{statistics.median(r[-2] / r[0] for r in rounds):9.2f}x{us[-1]:10.0f}  "
              f"{', '.join(wrong)}", flush=True)
        results.append({"product": name, "us": rounds, "device": sides[0].figures["device"], "commit": sides[0].figures["commit"]})
    mlp_cpu.save(args, results)


if __name__ == "__main__":
    sys.exit(main())
