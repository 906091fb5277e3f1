"""Chains of pointwise operators: interpreted, by generated kernels, and by PyTorch, against the bandwidth, on one GPU.

    python3 bench/gpu/pointwise.py --hypatiac BIN --library LIBHYPATIA-RT.SO [--only TEXT] [--types fp32,bf16]
                                   [--sizes 1,64,512] [--tsv FILE] [--rounds N]

A size is that of a result in MB. Every chain is compiled to a plan, which is one step; "untuned" runs the kernel that is compiled
for steps of any sizes, "tuned" what hyp_context_tune finds, which is a kernel for this size alone where that is faster, and "interpreted"
what a plan runs where there is no NVRTC (which is needed for the others: HYPATIA_NVRTC). "floor" is a copy of as many bytes as the chain reads and writes at least. All run in one process on one
stream on the same device tensors, in turns, replayed from CUDA graphs; a time is the median of the rounds, in
microseconds of one run. Errors are |y - r| / |r| (2-norms) against float64. The exit code is 1 when one is wrong.
"""
import argparse
import os
import statistics
import sys
import tempfile

import torch
from onnx import TensorProto, helper, save

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from runtime import Library, Plan, compile_plan  # noqa: E402
from timing import capture, error, in_turns, milliseconds  # noqa: E402

# ONNX type, torch type, largest error that is right
TYPES = {"fp32": (TensorProto.FLOAT, torch.float32, 2e-6), "fp16": (TensorProto.FLOAT16, torch.float16, 3e-3),
         "bf16": (TensorProto.BFLOAT16, torch.bfloat16, 3e-2)}
COLUMNS = 1024
SHAPES = {"x": lambda rows: [rows, COLUMNS], "z": lambda rows: [rows, COLUMNS], "b": lambda rows: [COLUMNS],
          "m": lambda rows: [rows, COLUMNS]}  # m: bools
HALF, TENTH = 0.5, 0.125  # exact in every type


def long_chain(x, z, b):
    y = torch.tanh(x * HALF + b)
    y = torch.sigmoid(y * z) - y
    y = y * y + z * TENTH
    return torch.relu(y + x)


OURS = ("untuned", "tuned", "interpreted")  # ways

# name: inputs, nodes (operator, operands..., result), the same in PyTorch; "half" and "tenth" are constants
CHAINS = {
    "add": ("xz", [("Add", "x", "z", "y")], lambda x, z: x + z),
    "bias relu": ("xb", [("Add", "x", "b", "s"), ("Relu", "s", "y")], lambda x, b: torch.relu(x + b)),
    "gate": ("xz", [("Sigmoid", "x", "s"), ("Mul", "x", "s", "t"), ("Mul", "t", "z", "y")],
             lambda x, z: x * torch.sigmoid(x) * z),
    "mask": ("xm", [("Mul", "x", "half", "s"), ("Where", "m", "s", "tenth", "y")],
             lambda x, m: torch.where(m, x * HALF, TENTH)),
    "gelu": ("xb", [("Add", "x", "b", "s"), ("Gelu", "s", "y")], lambda x, b: torch.nn.functional.gelu(x + b)),
    "long": ("xzb", [("Mul", "x", "half", "1"), ("Add", "1", "b", "2"), ("Tanh", "2", "3"), ("Mul", "3", "z", "4"),
                     ("Sigmoid", "4", "5"), ("Sub", "5", "3", "6"), ("Mul", "6", "6", "7"), ("Mul", "z", "tenth", "8"),
                     ("Add", "7", "8", "9"), ("Add", "9", "x", "10"), ("Relu", "10", "y")], long_chain),
}


def make_model(chain, onnx_type, rows):
    inputs, nodes, _ = chain

    def edge(name):
        return helper.make_tensor_value_info(name, TensorProto.BOOL if name == "m" else onnx_type,
                                             SHAPES.get(name, SHAPES["x"])(rows))
    graph = helper.make_graph([helper.make_node(op, list(names[:-1]), [names[-1]]) for op, *names in nodes], "chain",
                              [edge(name) for name in inputs], [edge("y")],
                              [helper.make_tensor("half", onnx_type, [], [HALF]),
                               helper.make_tensor("tenth", onnx_type, [], [TENTH])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def draw(inputs, dtype, rows):
    tensors = [torch.randn(SHAPES[name](rows), device="cuda") for name in inputs]
    return [t > 0 if name == "m" else t.to(dtype) for name, t in zip(inputs, tensors)]


def copy_of(bytes):
    source = torch.empty(bytes // 2, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def load_plans(args, model, x, y, folder, stream):
    """The plan as it is compiled, as it is tuned, and without a compiler of kernels: (way, plan)."""
    untuned, tuned = (os.path.join(folder, name) for name in ("untuned.plan", "tuned.plan"))
    onnx = os.path.join(folder, "chain.onnx")
    save(model, onnx)
    compile_plan(args.hypatiac, onnx, untuned)
    library, plans = Library(os.path.abspath(args.library)), {}
    plan = Plan(library, untuned, stream.cuda_stream, x, [y["untuned"]])
    plan.tune(20, tuned)
    plan.close()
    compiler, cache = os.environ.get("HYPATIA_NVRTC", ""), os.environ.get("HYPATIA_CACHE", "")
    for way in OURS:
        if way == "interpreted":
            os.environ["HYPATIA_NVRTC"] = os.environ["HYPATIA_CACHE"] = "none"
        plans[way] = Plan(library, tuned if way == "tuned" else untuned, stream.cuda_stream, x, [y[way]])
        for _ in range(3):
            plans[way].run()
    os.environ["HYPATIA_NVRTC"], os.environ["HYPATIA_CACHE"] = compiler, cache
    return plans


def measure(args, chain, kind, megabytes, folder, stream):
    """Microseconds by way, errors by way."""
    onnx_type, dtype, _ = TYPES[kind]
    inputs, _, forward = chain
    rows = (megabytes << 20) // (COLUMNS * torch.empty((), dtype=dtype).element_size())
    x = draw(inputs, dtype, rows)
    y = {way: torch.empty(rows, COLUMNS, dtype=dtype, device="cuda") for way in OURS}
    plans = load_plans(args, make_model(chain, onnx_type, rows), x, y, folder, stream)
    ways = {way: plan.run for way, plan in plans.items()}
    ways["eager"] = lambda: forward(*x)
    torch._dynamo.reset()
    compiled = torch.compile(forward, dynamic=False)
    ways["torch.compile"] = lambda: compiled(*x)
    ways["floor"] = copy_of(sum(t.numel() * t.element_size() for t in [*x, y["tuned"]]))
    for way in ("eager", "torch.compile"):
        y[way] = ways[way]()
    stream.synchronize()
    errors = {way: wrong_by(forward, x, result) for way, result in y.items()}
    runs = max(1, min(50, int(2 / max(milliseconds(ways["floor"], stream) for _ in range(3)))))
    graphs = {way: capture(call, runs, stream).replay for way, call in ways.items()}
    samples = in_turns(graphs, runs, args.rounds, stream)
    for plan in plans.values():
        plan.close()
    return {way: statistics.median(s) for way, s in samples.items()}, errors


def wrong_by(forward, x, y):
    """For the first and the last rows, which float64 has room for."""
    some = 4096
    parts = []
    for rows in (slice(0, some), slice(-some, None)):
        reference = forward(*(t if t.dtype == torch.bool else t.double() for t in
                              (t[rows] if t.dim() == 2 else t for t in x)))
        parts.append(error(y[rows], reference))
    return max(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hypatiac", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--types", default="fp32,bf16")
    parser.add_argument("--sizes", default="1,64,512")
    parser.add_argument("--tsv")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    stream, wrong = torch.cuda.Stream(), []
    columns = ["floor", "tuned", "untuned", "interpreted", "eager", "torch.compile"]
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; microseconds of one run")
    print(f"{'chain':10} {'type':5} {'MB':>4} |" + "".join(f"{name:>14}" for name in columns) + " | of the floor, error")
    lines = [["chain", "type", "MB", *columns, "error"]]
    with torch.cuda.stream(stream), tempfile.TemporaryDirectory() as folder:
        for name in [name for name in CHAINS if args.only in name]:
            for kind in args.types.split(","):
                for megabytes in map(int, args.sizes.split(",")):
                    times, errors = measure(args, CHAINS[name], kind, megabytes, folder, stream)
                    print(f"{name:10} {kind:5} {megabytes:4} |" + "".join(f"{times[c]:14.2f}" for c in columns) +
                          f" | {times['untuned'] / times['floor']:.2f} {errors['untuned']:.1e}", flush=True)
                    lines.append([name, kind, megabytes, *(f"{times[c]:.3f}" for c in columns),
                                  f"{errors['untuned']:.3e}"])
                    wrong += [f"{name} {kind} {megabytes} MB, {way}: the error is {errors[way]:.1e}"
                              for way in OURS if not errors[way] < TYPES[kind][2]]
    if args.tsv:
        with open(args.tsv, "w") as file:
            file.writelines("\t".join(map(str, line)) + "\n" for line in lines)
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
