"""An ONNX file of bench/table_networks.py as a function of PyTorch, written out operator by operator: what a user of PyTorch
would have, and what torch.compile can trace."""
import onnx
import torch
from onnx import numpy_helper

F = "torch.nn.functional."
BINARY = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/"}
UNARY = {"Relu": "torch.relu", "Sigmoid": "torch.sigmoid", "Tanh": "torch.tanh", "Erf": "torch.erf"}


def symmetric(attributes):
    """(top, left) of pads that are the same at the end."""
    pads = attributes.get("pads", [0, 0, 0, 0])
    assert pads[:2] == pads[2:], f"uneven pads {pads}"
    return tuple(pads[:2])


def pool(function, x, a):
    """What counts padded elements is not used here: averages leave them out."""
    more = ", count_include_pad=False" if function == "avg_pool2d" else ""
    return f"{F}{function}({x[0]}, {a['kernel_shape']}, {a['strides']}, {symmetric(a)}{more})"


class Network:
    """Weights in a floating-point type, and `call`, which takes them and the inputs, and gives a tuple of outputs in f32."""

    def __init__(self, path, dtype, device, channels_last=False):
        self.channels_last, graph = channels_last, onnx.load(path).graph
        self.constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        self.inputs, self.names, self.weights = [i.name for i in graph.input], {}, []
        self.images = any(node.op_type == "Conv" for node in graph.node)
        lines = [f"{self.name(i)} = {self.name(i)}.to(dtype) if {self.name(i)}.is_floating_point() else {self.name(i)}"
                 for i in self.inputs]
        lines += [f"{self.name(node.output[0])} = {self.line(node)}" for node in graph.node]
        results = ", ".join(f"{self.name(o.name)}.{'double' if dtype == torch.float64 else 'float'}()" for o in graph.output)
        head = f"def call(w, {', '.join(map(self.name, self.inputs))}):\n    "
        space = {"torch": torch, "dtype": dtype}
        exec(head + "\n    ".join(lines) + f"\n    return {results},\n", space)
        self.call = space["call"]
        form = torch.channels_last if channels_last else torch.contiguous_format
        for i, array in enumerate(self.weights):
            tensor = torch.from_numpy(array.copy()).to(device)
            tensor = tensor.to(dtype) if tensor.is_floating_point() else tensor
            self.weights[i] = tensor.contiguous(memory_format=form) if tensor.dim() == 4 else tensor

    def name(self, value):
        """A value as a Python expression; a stored one is a weight from then on."""
        if value in self.constants and value not in self.names:
            self.names[value] = f"w[{len(self.weights)}]"
            self.weights.append(self.constants[value])
        return self.names.setdefault(value, f"v{len(self.names)}")

    def line(self, node):
        """The node as a Python expression. Operands that are shapes or axes become numbers."""
        a = {at.name: onnx.helper.get_attribute_value(at) for at in node.attribute}
        kind = node.op_type
        numbers = {"Reshape": 1, "ReduceSum": 1}.get(kind)
        x = [self.name(i) for k, i in enumerate(node.input) if i and k != numbers]
        given = self.constants[node.input[numbers]].tolist() if numbers else None
        if kind in BINARY:
            return f"{x[0]} {BINARY[kind]} {x[1]}"
        if kind in UNARY:
            return f"{UNARY[kind]}({x[0]})"
        if kind == "MatMul":
            return f"{x[0]} @ {x[1]}"
        if kind == "Gemm":
            assert a.get("transB", 0) == 1
            return f"{F}linear({', '.join(x)})"
        if kind == "Conv":
            bias = x[2] if len(x) > 2 else None
            return f"{F}conv2d({x[0]}, {x[1]}, {bias}, {tuple(a['strides'])}, {symmetric(a)}, groups={a.get('group', 1)})"
        if kind in ("MaxPool", "AveragePool"):
            return pool("max_pool2d" if kind == "MaxPool" else "avg_pool2d", x, a)
        if kind == "GlobalAveragePool":
            return f"{x[0]}.mean((2, 3), keepdim=True)"
        if kind == "Clip":
            return f"torch.clamp({', '.join(x)})"
        if kind == "Concat":
            return f"torch.cat(({', '.join(x)}), {a['axis']})"
        if kind == "Flatten":
            return f"{x[0]}.flatten(1)"
        if kind == "Reshape":
            return f"{x[0]}.reshape({given})"
        if kind == "Transpose":
            return f"{x[0]}.permute({list(a['perm'])})"
        if kind == "LayerNormalization":
            return f"{F}layer_norm({x[0]}, {x[1]}.shape, {x[1]}, {x[2]})"
        if kind == "Gather":
            return f"{F}embedding({x[1]}, {x[0]})"
        if kind in ("ReduceMean", "ReduceSum"):
            method, axes = ("mean", list(a["axes"])) if kind == "ReduceMean" else ("sum", given)
            return f"{x[0]}.{method}({axes}, keepdim={bool(a['keepdims'])})"
        raise NotImplementedError(f"{kind} has no form in PyTorch here")
