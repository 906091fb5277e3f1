#!/usr/bin/env python3
"""Random convolutions and poolings, 1 to 3 spatial axes, every combination of strides, padding, dilation, groups and ceil
mode: the CPU backend, with several batch sizes from one plan, against onnxruntime.

    judge_conv.py [--count N] [--seed S]
"""
import argparse
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hyp  # noqa: E402
import numpy as np  # noqa: E402

TOLERANCE = 1e-5


def draw_node(rng, helper, axes, inputs):
    """(node, initializers, channels of x)."""
    kernel = [int(k) for k in rng.integers(1, 4, axes)]
    attrs = {"strides": [int(s) for s in rng.integers(1, 4, axes)],
             "pads": [int(p) for p in np.concatenate([rng.integers(0, np.array(kernel)) for _ in range(2)])]}
    kind = rng.choice(["Conv", "Conv", "ConvTranspose", "MaxPool", "AveragePool"])
    if kind in ("Conv", "ConvTranspose"):
        group = int(rng.choice([1, 1, 2, 4]))
        c, m = int(rng.integers(1, 5)) * group, int(rng.integers(1, 20)) * group
        attrs.update(dilations=[int(d) for d in rng.integers(1, 3, axes)], group=group)
        shape = (m, c // group, *kernel) if kind == "Conv" else (c, m // group, *kernel)
        weights = {"w": rng.standard_normal(shape).astype(np.float32)}
        if rng.integers(2):
            weights["b"] = rng.standard_normal(m).astype(np.float32)
        return helper.make_node(kind, ["x", *weights], ["y"], **attrs), weights, c
    attrs.update(kernel_shape=kernel, ceil_mode=int(rng.integers(2)))
    if kind == "AveragePool":
        attrs["count_include_pad"] = int(rng.integers(2))
        if attrs["ceil_mode"]:
            attrs["pads"] = [0] * 2 * axes  # what counts beyond the padding differs between versions of onnxruntime
    return helper.make_node(kind, ["x"], ["y"], **attrs), {}, int(rng.integers(1, 20))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    onnx, ort = hyp.need("onnx", "onnxruntime")
    from onnx import TensorProto, helper, numpy_helper
    quiet = ort.SessionOptions()
    quiet.log_severity_level = 4
    rng, worst, run, refused = np.random.default_rng(args.seed), 0.0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        model, plan = os.path.join(folder, "model.onnx"), os.path.join(folder, "plan.bin")
        while run < args.count:
            axes = int(rng.integers(1, 4))
            node, weights, channels = draw_node(rng, helper, axes, None)
            sizes = [int(s) for s in rng.integers(3, 13, axes)]
            graph = helper.make_graph(
                [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", channels, *sizes])],
                [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                [numpy_helper.from_array(v, k) for k, v in weights.items()])
            proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
            try:
                session = ort.InferenceSession(proto.SerializeToString(), quiet, providers=["CPUExecutionProvider"])
                feeds = [rng.standard_normal((n, channels, *sizes)).astype(np.float32) for n in (1, 3)]
                wanted = [session.run(None, {"x": x})[0] for x in feeds]
            except Exception:  # noqa: BLE001 - shapes that leave nothing of the result
                refused += 1
                continue
            run += 1
            onnx.save(proto, model)
            hyp.compile_model(model, plan)
            for device in ("cpu", "reference"):
                with hyp.Engine(plan, device, threads=2) as engine:
                    for x, want in zip(feeds, wanted):
                        error = hyp.difference(engine.run({"x": x})[0], want)
                        worst = max(worst, error)
                        if not error <= TOLERANCE:
                            print(f"seed {args.seed}, case {run}, {device}: {error} for x {x.shape}\n{node}")
                            sys.exit(1)
    print(f"{run} convolutions and poolings agree with onnxruntime, worst {worst:.3g} "
          f"({refused} drawn that onnxruntime refuses)")


if __name__ == "__main__":
    main()
