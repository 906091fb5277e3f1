"""A model with more than 2 GB of weights, in external data: it compiles in memory below 1.3 times the file, and computes
what numpy computes.

Takes 7 GB of disk, 6 GB of memory and half a minute: only with HYP_LARGE_TESTS=1.
"""
import os
import resource
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hyp  # noqa: E402

np, onnx = hyp.need("numpy", "onnx")
from onnx import TensorProto, helper  # noqa: E402

WIDTHS = [8192, 16384, 8192, 16384, 8192, 16384, 64]  # 2.7 GB


def weight(i):
    """Elements that differ everywhere and are cheap to make."""
    shape = (WIDTHS[i], WIDTHS[i + 1])
    row = np.linspace(-1, 1, shape[1], dtype=np.float32)
    return (np.roll(row, i + 1) * np.linspace(0.5, 1.5, shape[0], dtype=np.float32)[:, None]) / np.float32(shape[0] ** 0.5)


def write_model(folder):
    initializers, offset = [], 0
    with open(os.path.join(folder, "weights"), "wb") as file:
        for i in range(len(WIDTHS) - 1):
            tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[WIDTHS[i], WIDTHS[i + 1]],
                                 data_location=TensorProto.EXTERNAL)
            length = 4 * WIDTHS[i] * WIDTHS[i + 1]
            for key, value in (("location", "weights"), ("offset", offset), ("length", length)):
                tensor.external_data.add(key=key, value=str(value))
            initializers.append(tensor)
            weight(i).tofile(file)
            offset += length
    names = ["x"] + [f"h{i}" for i in range(len(WIDTHS) - 2)] + ["y"]
    nodes = []
    for i in range(len(WIDTHS) - 1):
        last = i == len(WIDTHS) - 2
        nodes.append(helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1] if last else f"p{i}"]))
        if not last:
            nodes.append(helper.make_node("Relu", [f"p{i}"], [names[i + 1]]))
    graph = helper.make_graph(nodes, "large", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", WIDTHS[0]])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", WIDTHS[-1]])], initializers)
    model = os.path.join(folder, "m.onnx")
    with open(model, "wb") as file:
        file.write(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    return model, offset


def main():
    if os.environ.get("HYP_LARGE_TESTS") != "1":
        hyp.skip("it takes 7 GB of disk and half a minute; HYP_LARGE_TESTS=1 runs it")
    if shutil.disk_usage(tempfile.gettempdir()).free < 10e9:
        hyp.skip("10 GB of disk are wanted")
    with tempfile.TemporaryDirectory() as folder:
        model, size = write_model(folder)
        plan = os.path.join(folder, "plan.bin")
        subprocess.run([os.path.join(hyp.BIN, "hypatiac"), model, "-o", plan, "-q"], check=True)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        print(f"{size / 1e9:.2f} GB of weights compile with at most {peak / 1e9:.2f} GB in memory, mapped pages included")
        assert peak < 1.3 * size, "more than 1.3 times the file"
        x = np.linspace(-1, 1, 2 * WIDTHS[0], dtype=np.float32).reshape(2, -1)
        with hyp.Engine(plan, "cpu") as engine:
            y = engine.run({"x": x})[0]
        h = x.astype(np.float64)
        for i in range(len(WIDTHS) - 1):
            h = h @ weight(i)
            h = h if i == len(WIDTHS) - 2 else np.maximum(h, 0)
        error = np.max(np.abs(y - h)) / np.max(np.abs(h))
        print(f"largest difference from float64 {error:.2g} of the largest result")
        assert error < 1e-5


if __name__ == "__main__":
    main()
