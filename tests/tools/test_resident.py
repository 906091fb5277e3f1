"""bench and verify with tensors in the memory of a GPU, the emulated one (tests/runtime/cuda/emulator.cpp)."""
import json
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../support"), os.path.join(HERE, "../models")]
import hyp  # noqa: E402

onnx, np = hyp.need("onnx", "numpy")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

QUICK = ["--device", "cuda", "--dim", "batch=6", "--warmup", "0", "--duration", "0", "--iterations", "3"]


def run(*command, code=0):
    done = hyp.tool(*command)
    assert done.returncode == code, f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}{done.stdout}"
    return done.stdout


def write_model(path):
    """y = softmax(x w + b), z = tanh(x): more than one step and more than one output."""
    w, b = np.arange(12.0, dtype=np.float32).reshape(4, 3) / 10, np.ones(3, np.float32)
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["h"]), helper.make_node("Softmax", ["h"], ["y"], axis=1),
             helper.make_node("Tanh", ["x"], ["z"])]
    x, y, z = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", n]) for name, n in (("x", 4), ("y", 3), ("z", 4)))
    graph = helper.make_graph(nodes, "m", [x], [y, z], [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def bench(plan, *more):
    return json.loads(run("hypatia", "bench", plan, *QUICK, "--json", "-", *more))


def check_bench(plan):
    steps = len(json.loads(run("hypatia", "inspect", plan, "--json"))["steps"])
    resident = bench(plan, "--steps")
    assert resident["tensors"] == "device" and resident["queued_us"] > 0 and "resident_us" not in resident, resident
    assert resident["launches"] >= steps and resident["launches"] == sum(s["launches"] for s in resident["steps"])
    assert resident["floor_us"] > 0 and abs(resident["floor_us"] - sum(s["floor_us"] for s in resident["steps"])) < 1e-6
    # The emulator says 8 bytes at 1 GHz: all three steps are bound by memory.
    assert abs(resident["floor_us"] - resident["bytes"] / 8e9 * 1e6) < 1e-6 * resident["floor_us"], resident

    host = bench(plan, "--transfers")
    assert host["tensors"] == "host" and host["resident_us"] > 0 and host["flops"] == resident["flops"], host
    told = run("hypatia", "bench", plan, *QUICK, "--steps")
    for text in ("tensors  in the memory of the device", "queued   ", "launches", "% of the floor of ", "GFLOP/s", "GB/s"):
        assert text in told, f"{text} is not in:\n{told}"
    told = run("hypatia", "bench", plan, *QUICK, "--transfers")
    assert "tensors  in the memory of the host" in told and "transfers " in told, told


def check_side_by_side(plan):
    """A model of branches: a run is predicted to take as much less than the steps one by one as the plan says."""
    run("hypatiac", os.path.join(hyp.ROOT, "tests/models/torch/tabular-dynamo.onnx"), "--target", "cuda", "-q", "-o", plan)
    told = json.loads(run("hypatia", "inspect", plan, "--json"))
    part = told["predicted_seconds"] / sum(step["predicted_seconds"] for step in told["steps"])
    zeros = [word for tensor in told["inputs"] for word in ("--input", f"{tensor['name']}=zeros")]
    figures = bench(plan, *zeros)
    assert part < 0.95 and abs(figures["predicted_run_us"] - part * figures["predicted_us"]) < 1e-4 * figures["predicted_us"], figures
    line = next(line for line in run("hypatia", "bench", plan, *QUICK, *zeros).splitlines() if line.startswith("predicted "))
    assert f" {figures['predicted_run_us']:.3f} us side by side, {figures['predicted_us']:.3f} us one by one" in line, line
    # The runtime chooses streams by the schedule that the compiler has priced.
    said = hyp.tool("hypatia", "bench", plan, *QUICK, *zeros, "-v").stderr
    found = re.search(r"side by side on (\d) streams: ([0-9.]+) us predicted, ([0-9.]+) on one", said)
    assert found and int(found[1]) > 1, said
    assert found[2] == f"{told['predicted_seconds'] * 1e6:.1f}", (said, told["predicted_seconds"])
    assert found[3] == f"{sum(step['predicted_seconds'] for step in told['steps']) * 1e6:.1f}", said
    assert told["hop_seconds"] > 0 and all(step["share"] >= 0 for step in told["steps"]), told


def check_verify(folder, model, plan):
    """What runs on the device arrives: with a plan whose results are its own, and with one that is for another model."""
    assert run("hypatia", "verify", plan, "--device", "cuda", "--resident").endswith("PASSED\n")
    command = ["hypatia", "verify", plan, "--device", "cuda", "--resident", "--dim", "batch=5", "--model"]
    assert run(*command, model).endswith("PASSED\n")
    other = onnx.load(model)
    bias = next(t for t in other.graph.initializer if t.name == "b")
    bias.CopyFrom(numpy_helper.from_array(np.array([1, 2, 3], np.float32), "b"))
    changed = os.path.join(folder, "other.onnx")
    onnx.save(other, changed)
    assert run(*command, changed, "--any-model", code=4).endswith("FAILED\n")


def main():
    with tempfile.TemporaryDirectory() as folder:
        model, plan = os.path.join(folder, "m.onnx"), os.path.join(folder, "p.bin")
        write_model(model)
        run("hypatiac", model, "--target", "cuda", "--verify", "strict", "-o", plan)
        check_bench(plan)
        check_verify(folder, model, plan)
        check_side_by_side(plan)
    print("passed")


if __name__ == "__main__":
    main()
