"""LSTM, GRU and RNN on the CPU: hypatia and onnxruntime side by side, with one and with two threads.

    python3 bench/recurrent_cpu.py [--bin build/release/bin] [--rounds 5] [--json FILE] [--filter TEXT]

Measured as conv_cpu.py says. Rows are operators of ONNX with weights of their own: times x batch x input, size of the
state; "both" goes in both directions.
"""
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

import conv_cpu


class Recurrent:
    def __init__(self, op, time, batch, width, size, both=False, **attributes):
        gates, ways = {"LSTM": 4, "GRU": 3, "RNN": 1}[op], 2 if both else 1
        rng = np.random.default_rng(7)
        self.shape = (time, batch, width)

        def weight(name, *dims):
            return numpy_helper.from_array(rng.uniform(-1, 1, dims).astype(np.float32) / np.float32(size ** 0.5), name)

        weights = [weight("w", ways, gates * size, width), weight("r", ways, gates * size, size),
                   weight("b", ways, 2 * gates * size)]
        node = helper.make_node(op, ["x", "w", "r", "b"], ["y"], hidden_size=size,
                                direction="bidirectional" if both else "forward", **attributes)
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (time, ways, batch, size))
        graph = helper.make_graph([node], "recurrent", [x], [y], weights)
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def save(self, path):
        save(self.model, path)


CASES = [
    ("LSTM 50x1x64", lambda: Recurrent("LSTM", 50, 1, 64, 128)),
    ("LSTM 100x1x256", lambda: Recurrent("LSTM", 100, 1, 256, 256)),
    ("LSTM 30x32x256", lambda: Recurrent("LSTM", 30, 32, 256, 256)),
    ("LSTM 30x8x1024", lambda: Recurrent("LSTM", 30, 8, 1024, 1024)),
    ("LSTM both", lambda: Recurrent("LSTM", 50, 4, 128, 200, True)),
    ("GRU 100x1x256", lambda: Recurrent("GRU", 100, 1, 256, 256)),
    ("GRU after", lambda: Recurrent("GRU", 100, 1, 256, 256, linear_before_reset=1)),
    ("GRU 30x32x256", lambda: Recurrent("GRU", 30, 32, 256, 256)),
    ("RNN 100x16x128", lambda: Recurrent("RNN", 100, 16, 128, 128)),
]

if __name__ == "__main__":
    sys.exit(conv_cpu.main(CASES))
