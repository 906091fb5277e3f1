"""Measures a GPU for the cost model: prints a device profile for hypatiac --profile.

    python3 bench/gpu/calibrate.py --hypatiac BIN --library LIBHYPATIA-RT.SO [--name NAME] [--like h200] > MY.profile

Every entry is the time of a plan of one kernel, run many times in one CUDA graph, each run after the one before it, as
the kernels of a plan are: the median of some replays. What is read is often in the cache then, as what a kernel before
has written is; weights that are larger than the cache are not.
"""
import argparse
import os
import statistics
import sys
import tempfile

import torch
from onnx import TensorProto, helper, numpy_helper
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from runtime import Library, Plan, compile_plan  # noqa: E402
from timing import capture, milliseconds  # noqa: E402

TYPES = {"f32": (TensorProto.FLOAT, torch.float32), "f16": (TensorProto.FLOAT16, torch.float16),
         "bf16": (TensorProto.BFLOAT16, torch.bfloat16)}
LINEAR = [(1, 512, 784), (1, 768, 768), (1, 3072, 768), (1, 768, 3072), (1, 4096, 4096), (1, 50257, 768),
          (32, 1024, 1024), (32, 4096, 1024), (64, 256, 256), (128, 768, 768), (128, 2304, 768), (128, 3072, 768),
          (128, 768, 3072), (256, 512, 256), (1024, 10, 2048), (1024, 768, 768), (1024, 2304, 768), (1024, 3072, 768),
          (1024, 768, 3072), (1024, 2048, 784), (8192, 4096, 4096)]
MATMUL = [(12, 1, 513, 64), (12, 1, 64, 513), (12, 128, 128, 64), (12, 128, 64, 128), (96, 128, 128, 64),
          (96, 128, 64, 128), (16, 1024, 1024, 64), (16, 1024, 64, 1024)]
ROWS = [(1, 768), (128, 768), (1024, 768), (1536, 128), (12288, 128), (16384, 1024)]  # of softmax and normalization
CONV = [(1, 3, 64, 224, 7, 2, 1), (1, 64, 64, 56, 3, 1, 1), (1, 128, 128, 28, 3, 1, 1), (1, 256, 256, 14, 3, 1, 1),
        (1, 512, 512, 7, 3, 1, 1), (1, 64, 128, 56, 1, 2, 1), (1, 32, 128, 112, 1, 1, 1), (1, 128, 128, 112, 3, 1, 128),
        (8, 64, 64, 56, 3, 1, 1), (8, 256, 256, 14, 3, 1, 1), (8, 512, 512, 7, 3, 1, 1), (8, 128, 32, 112, 1, 1, 1),
        (8, 128, 128, 112, 3, 1, 128), (32, 128, 128, 28, 3, 1, 1)]  # batch, channels, filters, side, taps, stride, groups
POINTWISE = [768, 98304, 393216, 3145728, 33554432]
TRANSPOSE = [(1, 128, 12, 64), (8, 128, 12, 64), (32, 512, 16, 64)]


def constant(shape, onnx_type):
    data = np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32) / max(1, shape[-1]) ** 0.5
    if onnx_type == TensorProto.BFLOAT16:
        data = (data.view(np.uint32) >> 16).astype(np.uint16)
        return helper.make_tensor("w", onnx_type, shape, data.tobytes(), raw=True)
    return numpy_helper.from_array(data.astype(np.float16 if onnx_type == TensorProto.FLOAT16 else np.float32), "w")


def cases():
    """(operator and sizes of the entry, shapes of the inputs, the shape of a weight, ONNX node, shape of the result)"""
    for m, n, k in LINEAR:
        yield f"linear {m} {n} {k}", [(m, k)], (n, k), ("Gemm", {"transB": 1}), (m, n)
    for b, m, n, k in MATMUL:
        yield f"matmul {b} {m} {n} {k}", [(b, m, k), (b, k, n)], None, ("MatMul", {}), (b, m, n)
    for batch, channels, filters, side, taps, stride, groups in CONV:
        place, weight = -(-side // stride), (filters, channels // groups, taps, taps)
        attributes = {"strides": [stride] * 2, "pads": [taps // 2] * 4, "group": groups}
        yield (f"conv {batch * place ** 2} {filters} {channels // groups} {taps ** 2} {groups}",
               [(batch, channels, side, side)], weight, ("Conv", attributes), (batch, filters, place, place))
    for rows, size in ROWS:
        yield f"softmax {rows * size}", [(rows, size)], None, ("Softmax", {}), (rows, size)
        yield f"layer-norm {rows * size}", [(rows, size)], (size,), ("LayerNormalization", {}), (rows, size)
    for count in POINTWISE:
        yield f"add {count}", [(count,), (count,)], None, ("Add", {}), (count,)
        yield f"gelu {count}", [(count,)], None, ("Gelu", {}), (count,)
    for shape in TRANSPOSE:
        b, s, h, d = shape
        yield f"transpose {b * s * h * d}", [shape], None, ("Transpose", {"perm": [0, 2, 1, 3]}), (b, h, s, d)


def make_model(shapes, weight, node, result, onnx_type, links=1):
    """A chain of so many nodes with the same weight."""
    op, attributes = node
    names = [f"x{i}" for i in range(len(shapes))]
    between = [names] + [[f"h{i}"] for i in range(1, links)] + [["y"]]
    nodes = [helper.make_node(op, before + ["w"] * bool(weight), after[:1], **attributes)
             for before, after in zip(between, between[1:])]
    graph = helper.make_graph(nodes, "kernel",
                              [helper.make_tensor_value_info(n, onnx_type, s) for n, s in zip(names, shapes)],
                              [helper.make_tensor_value_info("y", onnx_type, result)],
                              [constant(weight, onnx_type)] if weight else [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def seconds(args, library, folder, kind, shapes, weight, node, result, links=1):
    onnx_type, torch_type = TYPES[kind]
    onnx, plan_path = os.path.join(folder, "m.onnx"), os.path.join(folder, "m.plan")
    with open(onnx, "wb") as file:
        file.write(make_model(shapes, weight, node, result, onnx_type, links).SerializeToString())
    compile_plan(args.hypatiac, onnx, plan_path, "--disable-rule=conv-linear,conv-tiles")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        inputs = [torch.randn(s, device="cuda").to(torch_type) for s in shapes]
        plan = Plan(library, plan_path, stream.cuda_stream, inputs, [torch.empty(result, device="cuda", dtype=torch_type)])
        plan.run()
        runs = max(2, min(200, int(1 / max(milliseconds(plan.run, stream), 1e-3))))
        graph = capture(plan.run, runs, stream)
        graph.replay()
        times = [milliseconds(graph.replay, stream) for _ in range(args.rounds)]
        stream.synchronize()
        plan.close()
    return statistics.median(times) / 1000 / runs


def measure(args, library, folder, kind, what, model):
    """In 16 bits a convolution by itself is turned from and to the plan's order, which between others it is not."""
    if not what.startswith("conv") or kind == "f32":
        return seconds(args, library, folder, kind, *model)
    (shape,), _, _, result = model
    if shape != result:
        return None
    one, three = (seconds(args, library, folder, kind, *model, links) for links in (1, 3))
    return (three - one) / 2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hypatiac", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--name", default="gpu")
    parser.add_argument("--like", default="h200", help="the built-in profile that has the rest")
    parser.add_argument("--rounds", type=int, default=11)
    args = parser.parse_args()
    library = Library(os.path.abspath(args.library))
    print(f"; {torch.cuda.get_device_name()}, by bench/gpu/calibrate.py")
    print(f"(profile {args.name} (like {args.like})")
    seen = set()
    with tempfile.TemporaryDirectory() as folder:
        for what, *model in cases():
            for kind in TYPES:
                if (what, kind) not in seen:  # two shapes of as many elements: the first
                    time = measure(args, library, folder, kind, what, model)
                    if time:
                        print(f"  (measured {what} {kind} {time:.3g})", flush=True)
                seen.add((what, kind))
    print(")")


if __name__ == "__main__":
    main()
