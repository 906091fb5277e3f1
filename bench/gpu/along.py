"""Steps along an axis, and resized images, on a GPU beside PyTorch: argmax, topk, running sums, interpolation.

    python3 bench/gpu/along.py [--bin build/gpu/bundle/bin[,OTHER...]] [--only TEXT...] [--seconds S] [--duration 0.1]

Each is a plan of its one step, timed by `hypatia bench --steps` on tensors in the memory of the device, and PyTorch's call in a CUDA graph
of 20. Microseconds; the floor is what its bytes take at 3.35 TB/s, an H100's rate. What lies between two runs in a loop stays in the
cache, so that small ones may be below what memory would allow. With several folders of tools the first compiles, and all are timed. Ends
after so many seconds, with the rows that there are. Needs onnx.
"""
import argparse
import json
import os
import subprocess
import tempfile
import time

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

F32, F16, I64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64
TORCH = {F32: torch.float32, F16: torch.float16}
BYTES = {F32: 4, F16: 2}


class Case:
    """A node of x, constants behind it, what PyTorch calls, and how many elements of y there are for one of x."""

    def __init__(self, name, shape, dtype, operator, call, constants=(), outputs=(("y", None),), written=1.0, **attributes):
        self.name, self.shape, self.dtype, self.call, self.written = name, shape, dtype, call, written
        names = ["x", *(n for n, _ in constants)]
        self.node = helper.make_node(operator, names, [n for n, _ in outputs], **attributes)
        self.outputs = [(n, t or dtype) for n, t in outputs]
        self.constants = [numpy_helper.from_array(np.array(v), n) for n, v in constants if n]

    def save(self, path):
        x = helper.make_tensor_value_info("x", self.dtype, self.shape)
        out = [helper.make_tensor_value_info(n, t, None) for n, t in self.outputs]
        graph = helper.make_graph([self.node], "step", [x], out, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
        onnx.save(onnx.shape_inference.infer_shapes(model), path)

    def floor(self):
        return float(np.prod(self.shape, dtype=float)) * BYTES[self.dtype] * (1 + self.written) / 3.35e12 * 1e6


def cases():
    kinds = {F32: "f32", F16: "f16"}
    for shape, dtype in (((1, 128256), F32), ((64, 50257), F32), ((256, 1000), F16), ((100000, 64), F32), ((1000000, 10), F32),
                         ((2, 1000000), F16), ((4, 21, 64, 64), F32), ((64, 1000, 64), F32), ((8, 19, 512, 512), F32), ((8, 19, 512, 512), F16)):
        yield Case(f"argmax {shape} axis 1 {kinds[dtype]}", shape, dtype, "ArgMax", lambda x: x.argmax(1),
                   outputs=[("y", I64)], written=0, axis=1, keepdims=0)
    for shape, k in (((1, 128256), 50), ((64, 50257), 50), ((64, 50257), 1), ((256, 1000), 5), ((4096, 64), 8), ((1, 8400), 1000),
                     ((16, 4096), 4096), ((16, 8192), 8192), ((1, 1000000), 100), ((8, 100000), 10), ((1, 50257), 50257)):
        yield Case(f"topk {k} of {shape} f32", shape, F32, "TopK", lambda x, k=k: x.topk(k, 1), constants=[("k", np.array([k], np.int64))],
                   outputs=[("v", F32), ("p", I64)], written=3 * k / shape[1], axis=1)
    for shape, axis in (((1, 2000), 1), ((1, 128256), 1), ((1, 10000000), 1), ((64, 50257), 1), ((4096, 1024), 1), ((100000, 16), 1), ((4096, 1024), 0)):
        yield Case(f"cumsum {shape} axis {axis} f32", shape, F32, "CumSum", lambda x, axis=axis: x.cumsum(axis), constants=[("a", np.array(axis, np.int64))])
    for shape, mode, size in (((1, 256, 7, 7), "nearest", 2), ((8, 512, 14, 14), "nearest", 2), ((8, 256, 64, 64), "nearest", 2),
                              ((1, 3, 224, 224), "linear", 2), ((8, 256, 64, 64), "linear", 2), ((8, 64, 128, 128), "linear", 0.5),
                              ((1, 3, 1024, 1024), "cubic", 2)):
        for dtype in (F32, F16):
            torchs = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}[mode]
            yield Case(f"resize {mode} {shape} by {size} {kinds[dtype]}", shape, dtype, "Resize",
                       lambda x, size=size, mode=torchs: torch.nn.functional.interpolate(x, scale_factor=size, mode=mode),
                       constants=[("", 0), ("s", np.array([1, 1, size, size], np.float32))], written=size * size, mode=mode,
                       coordinate_transformation_mode="asymmetric" if mode == "nearest" else "half_pixel", nearest_mode="floor")
    yield Case("trilu (64, 1024, 1024) f32", (64, 1024, 1024), F32, "Trilu", torch.tril, upper=0)


def of_torch(call):
    calls, rounds = 20, 15
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    taken = []
    for _ in range(rounds):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end) * 1e3 / calls)
    return min(taken)


def of_plan(tools, plan, report, duration):
    subprocess.run([os.path.join(tools, "hypatia"), "bench", plan, "--device", "cuda", "--warmup", "30", "--duration", str(duration), "--steps", "-q",
                    "--json", report], check=True, capture_output=True, text=True)
    with open(report, encoding="utf-8") as file:
        said = json.load(file)
    steps = [step.get("measured_us", step.get("us")) for step in said.get("steps", [])]
    return sum(steps) if steps and None not in steps else said["p50_us"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/gpu/bundle/bin")
    parser.add_argument("--only", nargs="*", default=[""], help="rows that begin with one of these")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--duration", type=float, default=0.1)
    args = parser.parse_args()
    tools, begin = args.bin.split(","), time.monotonic()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    print("| step |" + " hypatia |" * len(tools) + " PyTorch | floor |\n|---|" + "---|" * len(tools) + "---|---|")
    with tempfile.TemporaryDirectory() as folder:
        model, plan, report = (os.path.join(folder, name) for name in ("m.onnx", "m.bin", "m.json"))
        for case in cases():
            if not case.name.startswith(tuple(args.only)):
                continue
            if time.monotonic() - begin > args.seconds:
                print(f"no time for {case.name}")
                break
            case.save(model)
            done = subprocess.run([os.path.join(tools[0], "hypatiac"), model, "-o", plan, "-q", "--target", "cuda:h200", "--verify", "off"],
                                  capture_output=True, text=True)
            if done.returncode:
                print(f"{case.name}: {done.stderr.strip()}")
                continue
            ours = [of_plan(t, plan, report, args.duration) for t in tools]
            x = torch.randn(case.shape, device="cuda", dtype=TORCH[case.dtype])
            theirs = of_torch(lambda: case.call(x))
            print(f"| {case.name} |" + "".join(f" {us:.1f} |" for us in ours) + f" {theirs:.1f} | {case.floor():.2f} |", flush=True)


if __name__ == "__main__":
    main()
