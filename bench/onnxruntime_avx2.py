"""A copy of onnxruntime that takes this processor for one without AVX-512, to compare with what HYPATIA_CPU=avx2 runs.

    python3 bench/onnxruntime_avx2.py FOLDER
    HYPATIA_CPU=avx2 ONEDNN_MAX_CPU_ISA=AVX2 PYTHONPATH=FOLDER python3 bench/table.py --machine avx2 ...

OpenVINO has a limit of its own (ONEDNN_MAX_CPU_ISA), onnxruntime has none. It asks which registers the system keeps (xgetbv),
in two forms of instructions; in the copy the answer is 7: those of AVX, and none wider. Convolutions show whether it is
believed: their weights are then rounded up to blocks of 8 channels, not of 16, which is checked.
"""
import glob
import importlib.util
import os
import shutil
import subprocess
import sys

FORMS = ((b"\x0f\x01\xd0\x89\xc0", b"\xb8\x07\x00\x00\x00"),  # xgetbv; mov eax, eax: mov eax, 7
         (b"\x31\xc9\x0f\x01\xd0", b"\x31\xc9\xb0\x07\x90"))  # xor ecx, ecx; xgetbv: xor ecx, ecx; mov al, 7; nop
CHECK = """
import sys, tempfile
sys.path.insert(0, sys.argv[1])
import numpy as np, onnx, onnxruntime
from onnx import TensorProto, helper, numpy_helper
weights = numpy_helper.from_array(np.ones((8, 8, 3, 3), np.float32), "w")
nodes = [helper.make_node("Conv", [x, "w"], [y], pads=[1] * 4) for x, y in ("xy", "yz")]
x, z = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8, 16, 16]) for name in "xz")
graph = helper.make_graph(nodes, "g", [x], [z], [weights])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
with tempfile.TemporaryDirectory() as folder:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath, options.log_severity_level = folder + "/optimized.onnx", 4
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    blocks = {tensor.dims[0] for tensor in onnx.load(options.optimized_model_filepath).graph.initializer}
print("onnxruntime", onnxruntime.__version__, "in", sys.argv[1], "rounds 8 channels up to", *blocks)
sys.exit(blocks != {8})
"""


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    target = os.path.join(sys.argv[1], "onnxruntime")
    shutil.copytree(os.path.dirname(importlib.util.find_spec("onnxruntime").origin), target, symlinks=True)
    for path in glob.glob(os.path.join(target, "capi", "onnxruntime_pybind11_state*.so")):
        with open(path, "rb") as file:
            data = file.read()
        for form, answer in FORMS:
            data = data.replace(form, answer)
        with open(path, "wb") as file:
            file.write(data)
    sys.exit(subprocess.run([sys.executable, "-c", CHECK, sys.argv[1]]).returncode)


if __name__ == "__main__":
    main()
