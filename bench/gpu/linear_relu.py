"""Fused plans, tuned and not, against unfused plans against PyTorch eager, on one GPU.

    python3 bench/gpu/linear_relu.py --hypatiac BIN --library LIBHYPATIA-RT.SO [--quick] [--tsv FILE] [--rounds N]
                                     [--timings FILE] [--untuned]

Of every model two plans are compiled: with all rules, and without those that put activations into a product's kernel
(a product with its bias, then a relu kernel); the first also with its products tuned (hypatiac --tune; FILE is its
timing cache). All run in one process on one stream, on the same device tensors, in turns, so that clocks and power hit
all alike; a time is the median over the rounds. Instances of one and the same plan were seen to differ by 4 %, so every
plan is loaded several times, and the samples of its instances count as one list. "graph" times replays of a CUDA graph
of several runs: what the device needs. "call" times plain calls from Python: what a caller sees, launches and Python
included. Errors are |y - r| / |r| (2-norms) against float64 on the same inputs. The exit code is 1 when a fused plan is
slower than the unfused one beyond noise, or a tuned one slower than an untuned one, or one is wrong.
"""
import argparse
import os
import statistics
import sys
import tempfile

import ml_dtypes
import numpy as np
import torch
from onnx import TensorProto, helper

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from runtime import Library, Plan, compile_plan  # noqa: E402
from timing import capture, error, in_turns, milliseconds, repeat, spread  # noqa: E402

UNFUSED = ["fuse-linear-relu"]
INSTANCES = 3  # of every plan
# Batch, widths; a relu after the only layer, none after the last of several.
LINEAR = [(256, [256, 512]), (1024, [784, 2048]), (8192, [4096, 4096]), (1, [4096, 4096])]
MLP = [(1024, [784, 2048, 10]), (64, [256] * 5), (1, [784, 512, 512, 10]), (1, [768, 3072, 768])]
# name: ONNX type, NumPy type, torch type, hypatiac's --precision, largest error that is right
TYPES = {
    "fp32": (TensorProto.FLOAT, np.float32, torch.float32, "fp32", 1e-6),
    "tf32": (TensorProto.FLOAT, np.float32, torch.float32, "tf32", 1e-3),
    "bf16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16, torch.bfloat16, "fp32", 6e-3),
    "fp16": (TensorProto.FLOAT16, np.float16, torch.float16, "fp32", 1e-3),
}


def make_model(widths, last_relu, kind, rng):
    """The model, and its weights as torch tensors on the device. The tensors have the type natively: no casts run."""
    onnx_type, numpy_type, torch_type = TYPES[kind][:3]
    nodes, stored, weights, value = [], [], [], "x"
    for i, (k, n) in enumerate(zip(widths, widths[1:])):
        last = i + 2 == len(widths)
        relu = not last or last_relu
        for name, array in ((f"w{i}", rng.standard_normal((n, k)) / np.sqrt(k)),
                            (f"b{i}", rng.standard_normal(n) * 0.1)):
            array = array.astype(numpy_type)
            stored.append(helper.make_tensor(name, onnx_type, array.shape, array.tobytes(), raw=True))
            weights.append(torch.from_numpy(array.astype(np.float32)).cuda().to(torch_type))
        product = f"g{i}" if relu else "y"
        nodes.append(helper.make_node("Gemm", [value, f"w{i}", f"b{i}"], [product], transB=1))
        value = "y" if last else f"h{i}"
        if relu:
            nodes.append(helper.make_node("Relu", [product], [value]))
    graph = helper.make_graph(nodes, "mlp", [helper.make_tensor_value_info("x", onnx_type, ["batch", widths[0]])],
                              [helper.make_tensor_value_info("y", onnx_type, ["batch", widths[-1]])], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), weights


def forward(x, weights, last_relu):
    for i in range(0, len(weights), 2):
        x = torch.nn.functional.linear(x, weights[i], weights[i + 1])
        if last_relu or i + 2 < len(weights):
            x = torch.relu(x)
    return x


def measure(args, library, folder, batch, widths, last_relu, kind):
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    torch_type = TYPES[kind][2]
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.no_grad():
        model, weights = make_model(widths, last_relu, kind, np.random.default_rng(1))
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
        x = torch.randn(batch, widths[0], device="cuda").to(torch_type)
        plans, outputs, calls = [], {}, {}
        ways = {"fused": [], "unfused": [f"--disable-rule={rule}" for rule in UNFUSED]}
        if not args.untuned:
            ways["tuned"] = ["--tune", "--seconds", "2" if args.quick else "5"]
            ways["tuned"] += ["--cache", args.timings] if args.timings else []
        for name, options in ways.items():
            plan = os.path.join(folder, name + ".plan")
            compile_plan(args.hypatiac, path, plan, "--precision", TYPES[kind][3], "--dim", f"batch={batch}", *options)
            outputs[name] = torch.full((batch, widths[-1]), float("nan"), device="cuda", dtype=torch_type)
            for i in range(INSTANCES):
                plans.append(Plan(library, plan, stream.cuda_stream, [x], [outputs[name]]))
                plans[-1].run()
                calls[name, i] = plans[-1].run
        calls["eager", 0] = lambda: forward(x, weights, last_relu)
        outputs["eager"] = forward(x, weights, last_relu)
        reference = forward(x.double(), [w.double() for w in weights], last_relu)
        stream.synchronize()
        errors = {name: error(y, reference) for name, y in outputs.items()}
        # About 2 ms a sample, and at most 50 runs.
        once = min(milliseconds(repeat(calls["unfused", 0], 3), stream) / 3 for _ in range(3))
        runs = max(2, min(50, int(2 / once)))
        graphs = {name: capture(call, runs, stream) for name, call in calls.items()}
        replays = {name: graph.replay for name, graph in graphs.items()}
        repeats = {name: repeat(call, runs) for name, call in calls.items()}
        result = {"graph": together(in_turns(replays, runs, args.rounds, stream)),
                  "call": together(in_turns(repeats, runs, args.rounds, stream))}
        del graphs, replays
        for plan in plans:
            plan.close()
    return result, errors


def together(samples):
    """The samples of all instances of a way as those of the way."""
    merged = {}
    for (name, _), values in samples.items():
        merged.setdefault(name, []).extend(values)
    return merged


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hypatiac", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--tsv")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--timings", help="timing cache for tuning")
    parser.add_argument("--untuned", action="store_true", help="no tuned plans")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and no model above 1024 rows")
    args = parser.parse_args()
    if args.quick:
        args.rounds = 7
    library = Library(os.path.abspath(args.library))
    cases = [("linear-relu", b, w, True) for b, w in LINEAR if not args.quick or b <= 1024]
    cases += [("mlp", b, w, False) for b, w in MLP]
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; microseconds of one run, medians of "
          f"{args.rounds} rounds in turns")
    ways = ["fused", "unfused", "eager"] if args.untuned else ["tuned", "fused", "unfused", "eager"]
    heads = " | ".join(f"{mode}: " + " ".join(f"{way:>9s}" for way in ways) for mode in ("graph", "call", "error"))
    print(f"{'model':28s} {'type':4s} | {heads}")
    rows, complaints = [], []
    with tempfile.TemporaryDirectory() as folder:
        for what, batch, widths, last_relu in cases:
            for kind in TYPES:
                name = f"{what} {batch}: {'-'.join(map(str, widths))}"
                result, errors = measure(args, library, folder, batch, widths, last_relu, kind)
                graph = {k: statistics.median(v) for k, v in result["graph"].items()}
                call = {k: statistics.median(v) for k, v in result["call"].items()}
                print(f"{name:28s} {kind:4s} |       " + " ".join(f"{graph[way]:9.2f}" for way in ways) + " |      " +
                      " ".join(f"{call[way]:9.2f}" for way in ways) + " |       " +
                      " ".join(f"{errors[way]:9.1e}" for way in ways), flush=True)
                for faster, slower in zip(ways, ways[1:-1]):
                    noise = spread(result["graph"][faster]) + spread(result["graph"][slower])
                    if graph[faster] - graph[slower] > max(noise, 0.02 * graph[slower]):
                        complaints.append(f"{name} {kind}: {faster} is slower than {slower}")
                for way in ways[:-1]:
                    if not errors[way] <= TYPES[kind][4] * len(widths):
                        complaints.append(f"{name} {kind}: the error of {way} is {errors[way]:.1e}")
                for mode in ("graph", "call"):
                    rows += [[name, kind, mode, way, f"{statistics.median(s):.3f}", f"{min(s):.3f}",
                              f"{spread(s):.3f}", f"{errors[way]:.3e}"] for way, s in result[mode].items()]
    if args.tsv:
        with open(args.tsv, "w") as file:
            file.write("\t".join(["model", "type", "mode", "way", "median_us", "min_us", "spread_us", "error"]) + "\n")
            file.writelines("\t".join(row) + "\n" for row in rows)
    for complaint in complaints:
        print(complaint)
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
