"""Makes digits.onnx: two layers with random weights, as an exporter writes them; what comes out are scores, without a
softmax, which the loss has. Needs numpy and onnx."""
import os

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

draw = np.random.default_rng(0)
weights = {"fc1.weight": draw.standard_normal((32, 64)) / 8, "fc1.bias": np.zeros(32),
           "fc2.weight": draw.standard_normal((10, 32)) / 32 ** 0.5, "fc2.bias": np.zeros(10)}
graph = helper.make_graph(
    [helper.make_node("Gemm", ["image", "fc1.weight", "fc1.bias"], ["h"], name="fc1", transB=1),
     helper.make_node("Relu", ["h"], ["r"], name="relu"),
     helper.make_node("Gemm", ["r", "fc2.weight", "fc2.bias"], ["scores"], name="fc2", transB=1)],
    "digits",
    [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 64])],
    [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 10])],
    [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
save(model, os.path.join(os.path.dirname(os.path.abspath(__file__)), "digits.onnx"))
