"""Networks for the benchmarks, node by node, as ONNX files; needs no runtime."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper


class Network:
    """Nodes one after the other, with random weights."""

    def __init__(self, shape):
        self.rng, self.nodes, self.weights, self.shape = np.random.default_rng(0), [], [], shape
        self.value, self.channels = "x", shape[1]

    def weight(self, *shape):
        scale = np.sqrt(2 / max(1, np.prod(shape[1:])))
        array = (self.rng.standard_normal(shape) * scale).astype(np.float32)
        self.weights.append(numpy_helper.from_array(array, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def op(self, kind, *inputs, **attrs):
        self.value = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [self.value], **attrs))
        return self.value

    def conv(self, out, kernel, stride=1, group=1, x=None):
        w = self.weight(out, self.channels // group, kernel, kernel)
        self.channels = out
        return self.op("Conv", x or self.value, w, self.weight(out), strides=[stride] * 2, pads=[kernel // 2] * 4,
                       group=group)

    def relu(self):
        return self.op("Relu", self.value)

    def block(self, out, stride=1):
        """Of ResNet: two convolutions and a way around them."""
        x, channels = self.value, self.channels
        self.conv(out, 3, stride)
        self.relu()
        y = self.conv(out, 3)
        if stride != 1 or channels != out:
            self.channels = channels
            x = self.conv(out, 1, stride, x=x)
        self.op("Add", y, x)
        return self.relu()

    def mobile_block(self, out, stride=1):
        """Of MobileNet v2: 1x1, depthwise 3x3, 1x1."""
        x, channels = self.value, self.channels
        for args in ((6 * channels, 1, 1, 1), (6 * channels, 3, stride, 6 * channels)):
            self.conv(*args)
            self.op("Clip", self.value, "low", "high")
        y = self.conv(out, 1)
        return self.op("Add", y, x) if stride == 1 and out == channels else y

    def save(self, path):
        if any(node.op_type == "Clip" for node in self.nodes):
            self.weights += [numpy_helper.from_array(np.float32(limit), name) for limit, name in ((0, "low"), (6, "high"))]
        self.nodes[-1].output[0] = "y"
        graph = helper.make_graph(self.nodes, "g",
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *self.shape[1:]])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], self.weights)
        with open(path, "wb") as file:
            file.write(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)],
                                         ir_version=8).SerializeToString())
