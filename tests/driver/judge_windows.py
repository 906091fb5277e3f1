"""Random convolutions, pools and normalizations, alone and in chains, against onnxruntime: groups, strides, dilations,
uneven padding, 1 to 3 spatial axes, symbolic batch and sizes; and quantized ones, which exact integers in numpy judge
where onnxruntime's sums saturate on some processors (uint8 times int8, AVX2 without VNNI).

`judge_windows.py --count 120 --seed 0` draws that many models; a failure names its seed."""
import argparse
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hyp  # noqa: E402

np, onnx, ort = hyp.need("numpy", "onnx", "onnxruntime>=1.21")  # older ones divide averages at the edge by 0
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

TOLERANCE = 5e-5  # |a - b| <= TOLERANCE * max(1, |b|); a normalization of few elements enlarges differences
VARIANTS = [("cpu", False, 1), ("cpu", True, 2), ("reference", False, 1)]


class Drawing:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights, self.wanted = [], [], None
        self.n = self.pick([1, 2, 2, 2, 3])
        self.sizes = [self.between(5, 14) for _ in range(self.n)] if self.n < 3 else [self.between(4, 7)] * 3
        self.channels = self.pick([1, 2, 3, 4, 8, 16, 17])
        self.x = "x"
        self.shape = [self.between(1, 3), self.channels, *self.sizes]
        # Sizes are symbols half of the time; ceil mode needs them known.
        self.symbols = bool(self.rng.integers(2))
        dims = [f"d{i}" if self.symbols and i != 1 else d for i, d in enumerate(self.shape)]
        self.feeds = {"x": self.rng.standard_normal(self.shape).astype(np.float32)}
        for _ in range(self.between(1, 4)):
            self.pick([self.conv, self.conv, self.conv, self.residual, self.residual, self.transposed, self.pool, self.pointwise, self.norm])()
        graph = helper.make_graph(self.nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
                                  [helper.make_tensor_value_info(self.x, TensorProto.FLOAT, None)], self.weights)
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def pick(self, items):
        return items[self.rng.integers(len(items))]

    def between(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def weight(self, *shape):
        name = f"w{len(self.weights)}"
        scale = 1 / np.sqrt(max(1, int(np.prod(shape[1:]))))
        self.weights.append(numpy_helper.from_array((self.rng.standard_normal(shape) * scale).astype(np.float32), name))
        return name

    def add(self, kind, *inputs, **attrs):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, [self.x, *inputs], [name], **attrs))
        self.x = name

    def window(self, most):
        """Attributes of a window that fits into the spatial sizes."""
        kernel = [self.between(1, most) for _ in range(self.n)]
        dilations = [self.between(1, 2) if k > 1 else 1 for k in kernel]
        attrs = {"kernel_shape": kernel, "strides": [self.between(1, 3) for _ in kernel], "dilations": dilations}
        mode = self.pick(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
        if mode != "NOTSET":
            attrs["auto_pad"] = mode
            if mode != "VALID":  # onnxruntime has no other
                attrs["dilations"] = dilations = [1] * self.n
                attrs["strides"] = [min(s, k) for s, k in zip(attrs["strides"], kernel)]
        else:
            attrs["pads"] = [self.between(0, k - 1) for k in kernel * 2]
        return attrs, all(d * (k - 1) < min(self.sizes) for k, d in zip(kernel, dilations))

    def conv(self):
        attrs, fits = self.window(3)
        if not fits:
            return
        group = self.pick([g for g in range(1, self.channels + 1) if self.channels % g == 0])
        out = group * self.pick([1, 1, 2, 3, 8] if group < 8 else [1, 2])
        w = self.weight(out, self.channels // group, *attrs["kernel_shape"])
        bias = [self.weight(out)] * self.between(0, 1)
        before = self.x
        self.add("Conv", w, *bias, group=group, **attrs)
        same = attrs.get("auto_pad", "").startswith("SAME") and all(s == 1 for s in attrs["strides"])
        if same and out == self.channels and self.rng.integers(2):
            self.add("Add", before)
        self.channels = out
        if not same:
            self.measure()
        if self.rng.integers(2):
            self.add(self.pick(["Relu", "Sigmoid", "Tanh"]))

    def residual(self):
        """Two convolutions, and the sum with what went into the first or into the second."""
        before = []
        for _ in range(2):
            before.append(self.x)
            w = self.weight(self.channels, self.channels, *[3] * self.n)
            self.add("Conv", w, pads=[1] * (2 * self.n), kernel_shape=[3] * self.n)
            if self.rng.integers(2):
                self.add("Relu")
        self.add("Add", self.pick([before[0], before[0], before[1]]))

    def transposed(self):
        kernel = [self.between(1, 4) for _ in range(self.n)]
        strides = [self.between(1, 3) for _ in kernel]
        group = self.pick([g for g in range(1, self.channels + 1) if self.channels % g == 0])
        out = self.pick([1, 2, 4, 12, 24] if group < 4 else [1, 2])
        w = self.weight(self.channels, out, *kernel)
        self.add("ConvTranspose", w, *[self.weight(out * group)] * self.between(0, 1), group=group, strides=strides,
                 pads=[self.between(0, k - 1) // 2 for k in kernel * 2], kernel_shape=kernel,
                 output_padding=[self.between(0, s - 1) for s in strides])
        self.channels = out * group
        self.measure()

    def pool(self):
        attrs, fits = self.window(3)
        if not fits:
            return
        kind = self.pick(["MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"])
        if kind.startswith("Global"):
            if self.rng.integers(3) == 0:
                self.add(kind)
                self.measure()
            return
        if kind == "AveragePool":
            del attrs["dilations"]
            attrs["count_include_pad"] = self.between(0, 1)
        if not self.symbols and "auto_pad" not in attrs:
            attrs["ceil_mode"] = self.between(0, 1)
        self.add(kind, **attrs)
        self.measure()

    def pointwise(self):
        if self.rng.integers(2):
            self.add("Mul", self.weight(self.channels, *[1] * self.n))
        self.add(self.pick(["Relu", "LeakyRelu", "Tanh"]))

    def norm(self):
        kind = self.pick(["BatchNormalization", "InstanceNormalization", "LayerNormalization", "LRN"])
        c = self.channels
        if kind == "BatchNormalization":
            variance = numpy_helper.from_array(self.rng.uniform(0.5, 2, c).astype(np.float32), f"w{len(self.weights)}")
            self.weights.append(variance)
            self.add(kind, self.weight(c), self.weight(c), self.weight(c), variance.name)
        elif kind == "InstanceNormalization":
            self.add(kind, self.weight(c), self.weight(c))
        elif kind == "LayerNormalization" and not self.symbols:
            self.add(kind, self.weight(self.sizes[-1]), self.weight(self.sizes[-1]), axis=-1)
        elif kind == "LRN" and self.n == 2:  # onnxruntime has no other
            self.add(kind, size=self.pick([1, 3, 5]))

    def measure(self):
        """The sizes after the last node, from onnx."""
        graph = helper.make_graph(self.nodes, "g",
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
                                  [helper.make_tensor_value_info(self.x, TensorProto.FLOAT, None)], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        inferred = onnx.shape_inference.infer_shapes(model).graph.output[0].type.tensor_type.shape.dim
        self.sizes = [d.dim_value for d in inferred[2:]]


class QuantizedDrawing:
    """One QLinearConv; its result is exact."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        group, signed, each = int(rng.integers(1, 4)), bool(rng.integers(2)), bool(rng.integers(2))
        c, m, kind = group * int(rng.integers(1, 4)), group * int(rng.integers(1, 4)), np.int8 if signed else np.uint8
        low, high, scales = (-128, 128, m if each else ()) if signed else (0, 256, m if each else ())
        values = {"x_scale": np.float32(0.02), "x_zero": np.uint8(rng.integers(256)),
                  "w": rng.integers(low, high, (m, c // group, 3, 2)).astype(kind),
                  "w_scale": rng.uniform(0.01, 0.03, scales).astype(np.float32),
                  "w_zero": np.full(scales, 0 if signed else 120, kind),
                  "y_scale": np.float32(0.3), "y_zero": np.uint8(100)}
        if rng.integers(2):
            values["b"] = rng.integers(-5000, 5000, m).astype(np.int32)
        self.feeds = {"x": rng.integers(0, 256, (2, c, 6, 7)).astype(np.uint8)}
        self.sizes = [6, 7]
        strides = [1, int(rng.integers(1, 3))]
        self.nodes = [helper.make_node("QLinearConv", ["x", *values], ["y"], group=group, pads=[1, 0, 1, 1],
                                       strides=strides)]
        self.wanted = self.exact(values, group, strides) if signed else None
        graph = helper.make_graph(self.nodes, "g",
                                  [helper.make_tensor_value_info("x", TensorProto.UINT8, ["n", c, 6, 7])],
                                  [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
                                  [numpy_helper.from_array(np.asarray(v), k) for k, v in values.items()])
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)

    def exact(self, values, group, strides):
        """The output from sums of integers; the weights' zero point is 0."""
        x = np.pad(self.feeds["x"].astype(np.int64) - int(values["x_zero"]), ((0, 0), (0, 0), (1, 1), (0, 1)))
        w = values["w"].astype(np.int64)
        windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))[:, :, ::strides[0], ::strides[1]]
        parts = zip(np.split(windows, group, 1), np.split(w, group, 0))
        sums = np.concatenate([np.einsum("ncyxij,mcij->nmyx", part, filters) for part, filters in parts], 1)
        each = (-1, 1, 1)  # by channel
        sums += values.get("b", np.zeros(1, np.int32)).reshape(each)
        factor = np.float64(values["x_scale"]) * values["w_scale"].reshape(each) / np.float64(values["y_scale"])
        return np.clip(np.rint(sums * factor) + int(values["y_zero"]), 0, 255).astype(np.uint8)


def expected(path, feeds):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, feeds)[0]


def judge(seed, folder):
    """The largest difference, and what was wrong, if anything."""
    drawing = QuantizedDrawing(seed) if seed % 10 == 9 else Drawing(seed)
    if not drawing.nodes or min(drawing.sizes) < 1:
        return 0.0, "empty"
    path, plan = os.path.join(folder, "m.onnx"), os.path.join(folder, "plan.bin")
    onnx.save(drawing.model, path)
    wanted = drawing.wanted if drawing.wanted is not None else expected(path, drawing.feeds)
    worst = 0.0
    for device, no_rewrite, threads in VARIANTS:
        hyp.compile_model(path, plan, no_rewrite=no_rewrite)
        with hyp.Engine(plan, device, threads) as engine:
            for _ in range(2):  # a prepared set of shapes, too
                difference = hyp.difference(engine.run(drawing.feeds)[0], wanted)
                worst = max(worst, difference)
                if not difference <= TOLERANCE:
                    nodes = " ".join(n.op_type for n in drawing.nodes)
                    return worst, f"{device} no_rewrite={no_rewrite}: {difference:.2e} in {nodes}"
    return worst, ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    worst, judged, failed = 0.0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(args.seed, args.seed + args.count):
            try:
                difference, wrong = judge(seed, folder)
            except hyp.Error as error:
                difference, wrong = 0.0, str(error)
            worst = max(worst, difference)
            judged += wrong == ""
            failed += wrong not in ("", "empty")
            if wrong not in ("", "empty"):
                print(f"seed {seed}: {wrong}")
    print(f"{judged} models agree, {failed} do not; largest difference {worst:.1e}")
    sys.exit(failed > 0 or judged < args.count // 2)


if __name__ == "__main__":
    main()
