"""The networks of bench/gpu/linear_relu.py: layers with a relu each, in several sizes and types."""
import os
from typing import NamedTuple

import numpy as np
import torch
from onnx import TensorProto, helper


class Case(NamedTuple):
    """A relu after the only layer, none after the last of several."""
    batch: int
    widths: tuple

    @property
    def last_relu(self):
        return len(self.widths) == 2

    @property
    def layers(self):
        return len(self.widths) - 1

    @property
    def name(self):
        return f"{'linear-relu' if self.last_relu else 'mlp'} {self.batch}: {'-'.join(map(str, self.widths))}"

    @property
    def flops(self):
        return sum(2.0 * self.batch * k * n for k, n in zip(self.widths, self.widths[1:]))

    def bytes(self, kind):
        """What must be moved at least: every weight, the input and the output once."""
        element = TYPES[kind].torch.itemsize
        weights = sum(k * n for k, n in zip(self.widths, self.widths[1:]))
        others = sum(self.widths[1:]) + self.batch * (self.widths[0] + self.widths[-1])
        return (1 if kind == "fp8" else element) * weights + element * others


def parse_cases(text):
    """Of "256:256-512-256,1024:784-2048": a batch and the widths of each."""
    cases = []
    for one in text.split(","):
        batch, widths = one.split(":")
        cases.append(Case(int(batch), tuple(map(int, widths.split("-")))))
    return cases


class Type(NamedTuple):
    onnx: int
    torch: torch.dtype
    precision: str  # of hypatiac
    error: float    # the largest that is right, for a layer


TYPES = {
    "bf16": Type(TensorProto.BFLOAT16, torch.bfloat16, "fp32", 6e-3),
    "fp32": Type(TensorProto.FLOAT, torch.float32, "fp32", 1e-6),
    "fp16": Type(TensorProto.FLOAT16, torch.float16, "fp32", 1e-3),
    "tf32": Type(TensorProto.FLOAT, torch.float32, "tf32", 1e-3),
    "fp8": Type(TensorProto.BFLOAT16, torch.bfloat16, "fp8", 4e-2),  # peers compute in bf16
}

LARGE = Case(8192, (4096, 4096))  # what the matrix rate is compared with
THIN = Case(1, (4096, 4096))      # what the bandwidth of copies is compared with
# From the launch-bound to the power-bound. Small, medium and large ones of 2, 4 and 6 layers are among them.
CASES = [
    LARGE, THIN,
    Case(256, (256, 512)), Case(1024, (784, 2048)), Case(32, (1024, 4096)), Case(1024, (2048, 2048)),
    Case(1, (784, 512, 512, 10)), Case(1, (768, 3072, 768)), Case(32, (1024, 4096, 1024)), Case(64, (256,) * 5),
    Case(256, (256, 512, 256)), Case(256, (256, 512, 512, 512, 256)), Case(256, (256,) + (512,) * 5 + (256,)),
    Case(1024, (784, 2048, 10)), Case(1024, (784, 2048, 2048, 2048, 10)), Case(1024, (784,) + (2048,) * 5 + (10,)),
    Case(8192, (4096,) * 3), Case(8192, (4096,) * 5), Case(8192, (4096,) * 7), Case(8192, (4096, 16384, 4096)),
]
QUICK = [LARGE, THIN, Case(256, (256, 512)), Case(1024, (784, 2048)), Case(1, (784, 512, 512, 10)),
         Case(1, (768, 3072, 768)), Case(1024, (784, 2048, 10))]


class Network(torch.nn.Module):
    """A case with random weights of a type, and an input for it: the same numbers in every process."""

    def __init__(self, case, kind, device):
        super().__init__()
        self.case, self.kind = case, kind
        random = torch.Generator(device).manual_seed(1)

        def draw(*shape):
            return torch.randn(shape, generator=random, device=device)
        dtype, pairs = TYPES[kind].torch, list(zip(case.widths, case.widths[1:]))
        self.weights = torch.nn.ParameterList([(draw(n, k) / k ** 0.5).to(dtype) for k, n in pairs])
        self.biases = torch.nn.ParameterList([(draw(n) * 0.1).to(dtype) for _, n in pairs])
        self.requires_grad_(False)
        self.x = draw(case.batch, case.widths[0]).to(dtype)

    def forward(self, x):
        for i, (w, b) in enumerate(zip(self.weights, self.biases)):
            x = torch.nn.functional.linear(x, w, b)
            if self.case.last_relu or i + 1 < self.case.layers:
                x = torch.relu(x)
        return x

    def in_float64(self):
        x = self.x.double()
        for i, (w, b) in enumerate(zip(self.weights, self.biases)):
            x = torch.nn.functional.linear(x, w.double(), b.double())
            if self.case.last_relu or i + 1 < self.case.layers:
                x = torch.relu(x)
        return x

    def options(self, folder):
        """Of hypatiac; for fp8 the input is the one sample."""
        options = ["--precision", TYPES[self.kind].precision]
        if self.kind == "fp8":
            sample = os.path.join(folder, "x.npy")
            np.save(sample, self.x.view(torch.uint16).cpu().numpy().view("V2"))  # as ml_dtypes has bf16
            options += ["--samples", f"x=@{sample}"]
        return options

    def write_onnx(self, path, products_alone=False):
        """In the type natively: no casts run. Products alone have neither biases nor relus."""
        onnx_type, case = TYPES[self.kind].onnx, self.case
        nodes, stored, value = [], [], "x"
        for i, (w, b) in enumerate(zip(self.weights, self.biases)):
            last = i + 1 == case.layers
            relu = (not last or case.last_relu) and not products_alone
            for name, tensor in ((f"w{i}", w), (f"b{i}", b)):
                data = tensor.detach().cpu().view(torch.uint8).numpy().tobytes()
                stored.append(helper.make_tensor(name, onnx_type, tensor.shape, data, raw=True))
            operands, value = [value, f"w{i}"], "y" if last else f"h{i}"
            product = f"g{i}" if relu else value
            nodes.append(helper.make_node("Gemm", operands + [f"b{i}"] * (not products_alone), [product], transB=1))
            if relu:
                nodes.append(helper.make_node("Relu", [product], [value]))
        edges = [helper.make_tensor_value_info(name, onnx_type, [case.batch, width])
                 for name, width in (("x", case.widths[0]), ("y", case.widths[-1]))]
        graph = helper.make_graph(nodes, "mlp", edges[:1], edges[1:], stored)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
