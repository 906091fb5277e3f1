"""Makes custom.onnx: a layer, an operator that no one but its authors knows, and an addition."""
import os

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

F32 = TensorProto.FLOAT
w = np.array([[1, -1, 0.5], [0, 2, -1]], np.float32)
graph = helper.make_graph(
    [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("SoftThreshold", ["h"], ["s"], domain="acme", threshold=0.75),
        helper.make_node("Add", ["s", "one"], ["y"]),
    ],
    "custom",
    [helper.make_tensor_value_info("x", F32, ["batch", 2])],
    [helper.make_tensor_value_info("y", F32, ["batch", 3])],
    [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.float32(1), "one")],
    value_info=[helper.make_tensor_value_info("s", F32, ["batch", 3])],  # without it: --custom-output s:f32:batchx3
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid("acme", 1)])
model.ir_version = 8
save(model, os.path.join(os.path.dirname(os.path.abspath(__file__)), "custom.onnx"))
