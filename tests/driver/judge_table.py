"""The networks of bench/table.py, as small as they go, and its models of n parts, on every device against onnxruntime; products
of variables are also done with the least operations, and convolutions that are put together are one."""
import json
import os
import sys
import tempfile

import judging

onnx, np = judging.hyp.need("onnx", "numpy")
sys.path.append(os.path.join(judging.hyp.ROOT, "bench"))
import table_networks as nets  # noqa: E402

SMALL = {
    "nasrnn": lambda: nets.nasrnn(cells=2, width=16),
    "bert": lambda: nets.bert(layers=2, rows=8, width=32, heads=4),
    "nasnet-a": lambda: nets.nasnet_a(stages=1, cells=1, width=8, size=32),
    "random cells": lambda: nets.random_cells(cells=3, nodes=4, width=8),
    "lstm": lambda: nets.lstm(steps=3, width=16),
    "mixer": lambda: nets.mixer(layers=1, width=16, patch=56, tokens=8, channels=32),
    "wide and deep": lambda: nets.wide_and_deep(fields=3, ids=7, numbers=4, width=2),
    "linears": lambda: nets.linears(8),
    "convolutions": lambda: nets.convolutions(8),
    "chain": lambda: nets.chain(6),
}


def make_feeds(model, seed):
    rng, feeds = np.random.default_rng(seed), {}
    for info in model.graph.input:
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        whole = info.type.tensor_type.elem_type == onnx.TensorProto.INT64
        scale = 1 / np.sqrt(shape[0])  # products of many variables stay about as large as one
        feeds[info.name] = rng.integers(0, 5, shape) if whole else (scale * rng.standard_normal(shape)).astype(np.float32)
    return feeds


def check_chain(n):
    with tempfile.TemporaryDirectory() as folder:
        path, plan = os.path.join(folder, "chain.onnx"), os.path.join(folder, "chain.bin")
        nets.chain(n).save(path)
        for command in (["hypatiac", path, "-o", plan, "-q"], ["hypatia", "inspect", plan, "--json"]):
            done = judging.hyp.tool(*command)
            assert done.returncode == 0, done.stderr
    flops = sum(step["flops"] for step in json.loads(done.stdout)["steps"])
    assert flops == nets.least_chain_flops(n), f"{flops} operations for {n} variables, the least is {nets.least_chain_flops(n)}"


def check_fire():
    """Two convolutions of one input, put together in the model's order, are one: the other order would want a copy."""
    net = nets.Build(1, 16, 13, 13)
    x = net.value
    first = net.conv(64, 1, act="Relu")
    net.channels = 16
    net.op("Concat", first, net.conv(64, 3, x=x, act="Relu"), axis=1)
    with tempfile.TemporaryDirectory() as folder:
        path, plan = os.path.join(folder, "fire.onnx"), os.path.join(folder, "fire.bin")
        net.save(path)
        compiling = ["hypatiac", path, "-o", plan, "-q", "--target", "cuda:h100", "--verify", "off"]  # it is about steps
        for command in (compiling, ["hypatia", "inspect", plan, "--json"]):
            done = judging.hyp.tool(*command)
            assert done.returncode == 0, done.stderr
    kernels = [step["kernel"] for step in json.loads(done.stdout)["steps"]]
    assert kernels == ["conv"], f"a fire module is {kernels}, not one convolution"


def check_cells():
    """Of every cell all gates are one product of its input and one of its state, and the rest of it is one kernel; the first has no
    state. So it is where a profile knows what it takes to begin to read weights that are far (away ... LAYER)."""
    with tempfile.TemporaryDirectory() as folder:
        path, plan = os.path.join(folder, "nasrnn.onnx"), os.path.join(folder, "nasrnn.bin")
        nets.nasrnn().save(path)
        for target in ("cpu:avx2", "cpu:generic"):
            compiling = ["hypatiac", path, "-o", plan, "-q", "--target", target, "--verify", "off"]  # it is about steps
            for command in (compiling, ["hypatia", "inspect", plan, "--json"]):
                done = judging.hyp.tool(*command)
                assert done.returncode == 0, done.stderr
            labels = [step["label"] for step in json.loads(done.stdout)["steps"]]
            assert len(labels) == 14 and labels.count("linear") == 9, f"five cells for {target} are {labels}"


def main(pattern=""):
    judge = judging.Judge()
    chosen = [name for name in SMALL if pattern in name]
    for name in chosen:
        model = SMALL[name]().model()
        judge.judge(name, model, [make_feeds(model, seed) for seed in range(2)], [("cpu", False), ("cpu", True)])
    check_chain(5)
    check_fire()
    check_cells()
    return judge.finish(len(chosen))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
