"""Attention in one kernel against its parts against PyTorch's scaled_dot_product_attention, on one GPU.

    python3 bench/gpu/attention.py --hypatiac BIN --library LIBHYPATIA-RT.SO [--only TEXT] [--types fp16,fp32] [--tsv FILE]
                                   [--rounds N]

q, k and v are [batch, length, heads, width], as a model's projections leave them. Two plans are compiled for every shape:
with the kernel of attention wherever there is one, and with two products and a softmax. All sides run in one process on
one stream on the same device tensors, in turns, replayed from CUDA graphs; a time is the median of the rounds, in
microseconds of one run. Errors are |y - r| / |r| (2-norms) against float64. The exit code is 1 when the kernel is wrong.
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
from timing import capture, error, in_turns, milliseconds, repeat  # noqa: E402

# ONNX type, torch type, largest error that is right
TYPES = {"fp16": (TensorProto.FLOAT16, torch.float16, 1e-3), "bf16": (TensorProto.BFLOAT16, torch.bfloat16, 8e-3),
         "fp32": (TensorProto.FLOAT, torch.float32, 2e-6)}
# name: batch, heads, rows, keys, width, mask ("": none; "words": one number a key; "pairs": a bool a score)
CASES = {
    "bert 1x128": (1, 12, 128, 128, 64, "words"),
    "bert 8x128": (8, 12, 128, 128, 64, "words"),
    "bert 32x512": (32, 12, 512, 512, 64, "words"),
    "vit 8x197": (8, 12, 197, 197, 64, ""),
    "gpt2 1x1024 causal": (1, 12, 1024, 1024, 64, "pairs"),
    "llm 1x4096": (1, 32, 4096, 4096, 128, ""),
    "llm 4x1024": (4, 32, 1024, 1024, 128, ""),
    "long 1x8192": (1, 16, 8192, 8192, 64, ""),
    "head of 80, 2x1024": (2, 16, 1024, 1024, 80, ""),
    "decode gpt2 512": (1, 12, 1, 512, 64, ""),
    "decode 1x4096": (1, 32, 1, 4096, 128, ""),
    "decode 32x2048": (32, 32, 1, 2048, 128, ""),
    "4 rows of 2048": (1, 32, 4, 2048, 128, ""),
    "8 rows of 2048": (1, 32, 8, 2048, 128, ""),
    "16 rows of 2048": (1, 32, 16, 2048, 128, ""),
}
PROFILES = {"one": "f32 f16 bf16", "parts": ""}


def make_model(case, onnx_type):
    batch, heads, rows, keys, width, mask = case
    shapes = {"q": [batch, rows, heads, width], "k": [batch, keys, heads, width], "v": [batch, keys, heads, width]}
    inputs = [helper.make_tensor_value_info(name, onnx_type, shape) for name, shape in shapes.items()]
    nodes = [helper.make_node("Transpose", ["q"], ["q1"], perm=[0, 2, 1, 3]),
             helper.make_node("Transpose", ["k"], ["k1"], perm=[0, 2, 3, 1]),
             helper.make_node("Transpose", ["v"], ["v1"], perm=[0, 2, 1, 3]),
             helper.make_node("MatMul", ["q1", "k1"], ["s"]), helper.make_node("Mul", ["s", "scale"], ["scaled"])]
    scores, constants = "scaled", [helper.make_tensor("scale", onnx_type, [], [width ** -0.5])]
    if mask == "words":
        inputs.append(helper.make_tensor_value_info("m", onnx_type, [batch, 1, 1, keys]))
        nodes.append(helper.make_node("Add", [scores, "m"], ["masked"]))
    if mask == "pairs":
        inputs.append(helper.make_tensor_value_info("m", TensorProto.BOOL, [rows, keys]))
        constants.append(helper.make_tensor("hidden", onnx_type, [], [float("-inf")]))
        nodes.append(helper.make_node("Where", ["m", scores, "hidden"], ["masked"]))
    nodes += [helper.make_node("Softmax", ["masked" if mask else scores], ["p"], axis=-1),
              helper.make_node("MatMul", ["p", "v1"], ["o"]),
              helper.make_node("Transpose", ["o"], ["y"], perm=[0, 2, 1, 3])]
    graph = helper.make_graph(nodes, "attention", inputs, [helper.make_tensor_value_info("y", onnx_type, shapes["q"])],
                              constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def draw(case, dtype):
    batch, heads, rows, keys, width, mask = case
    shapes = [(batch, n, heads, width) for n in (rows, keys, keys)]
    tensors = [torch.randn(shape, device="cuda").to(dtype) for shape in shapes]
    if mask == "words":
        hidden = torch.arange(keys, device="cuda") >= keys - torch.arange(batch, device="cuda")[:, None] % (keys // 2)
        tensors.append((hidden * -30000.0).to(dtype).reshape(batch, 1, 1, keys))
    if mask == "pairs":
        tensors.append(torch.ones(rows, keys, device="cuda", dtype=torch.bool).tril(keys - rows))
    return tensors


def sdpa(tensors, width):
    q, k, v = (t.transpose(1, 2) for t in tensors[:3])
    mask = tensors[3] if len(tensors) > 3 else None
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2)


def in_float64(tensors, width):
    """One matrix at a time, which is all the memory that a large case leaves."""
    q, k, v = (t.transpose(1, 2) for t in tensors[:3])
    out = torch.empty(q.shape, dtype=torch.float64, device="cuda")
    mask = tensors[3] if len(tensors) > 3 else None
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            scores = q[b, h].double() @ k[b, h].double().T * width ** -0.5
            if mask is not None and mask.dtype == torch.bool:
                scores = scores.masked_fill(~mask, float("-inf"))
            elif mask is not None:
                scores = scores + mask[b, 0].double()
            out[b, h] = torch.softmax(scores, -1) @ v[b, h].double()
    return out.transpose(1, 2)


def measure(args, library, folder, case, kind):
    onnx_type, dtype, _ = TYPES[kind]
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.no_grad():
        model = os.path.join(folder, "model.onnx")
        save(make_model(case, onnx_type), model)
        tensors = draw(case, dtype)
        plans, outputs = {}, {}
        for name, types in PROFILES.items():
            plan, profile = os.path.join(folder, name + ".plan"), os.path.join(folder, name + ".profile")
            with open(profile, "w") as file:
                file.write(f"(profile {name} (like h200) (attention-in-one-kernel {types}))")
            compile_plan(args.hypatiac, model, plan, "--profile", profile)
            outputs[name] = torch.full(tensors[0].shape, float("nan"), device="cuda", dtype=dtype)
            plans[name] = Plan(library, plan, stream.cuda_stream, tensors, [outputs[name]])
            plans[name].run()
        width = case[4]
        calls = {"one": plans["one"].run, "parts": plans["parts"].run, "sdpa": lambda: sdpa(tensors, width)}
        outputs["sdpa"] = sdpa(tensors, width)
        reference = in_float64(tensors, width)
        stream.synchronize()
        errors = {name: error(y, reference) for name, y in outputs.items()}
        once = min(milliseconds(repeat(calls["one"], 3), stream) / 3 for _ in range(3))
        runs = max(2, min(50, int(2 / once)))
        replays = {name: capture(call, runs, stream).replay for name, call in calls.items()}
        samples = in_turns(replays, runs, args.rounds, stream)
        del replays
        for plan in plans.values():
            plan.close()
    return {name: statistics.median(s) for name, s in samples.items()}, errors


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hypatiac", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--types", default="fp16,bf16,fp32")
    parser.add_argument("--tsv")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    library = Library(os.path.abspath(args.library))
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; microseconds of one run, medians of "
          f"{args.rounds} rounds in turns")
    print(f"{'case':20s} {'type':4s} | {'one kernel':>10s} {'parts':>9s} {'sdpa':>9s} {'gain':>6s} {'to sdpa':>7s} "
          f"{'TFLOP/s':>7s} | {'error: one':>10s} {'parts':>8s} {'sdpa':>8s}")
    rows, wrong = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name, case in CASES.items():
            if args.only not in name:
                continue
            for kind in args.types.split(","):
                times, errors = measure(args, library, folder, case, kind)
                batch, heads, q, keys, width, _ = case
                rate = 4e-6 * batch * heads * q * keys * width / times["one"]
                print(f"{name:20s} {kind:4s} | {times['one']:10.2f} {times['parts']:9.2f} {times['sdpa']:9.2f} "
                      f"{times['parts'] / times['one']:5.2f}x {times['sdpa'] / times['one']:6.2f}x {rate:7.1f} | "
                      f"{errors['one']:10.1e} {errors['parts']:8.1e} {errors['sdpa']:8.1e}", flush=True)
                rows += [[name, kind, way, f"{times[way]:.3f}", f"{errors[way]:.3e}"] for way in times]
                if not errors["one"] <= TYPES[kind][2]:
                    wrong.append(f"{name} {kind}: the error is {errors['one']:.1e}")
                torch.cuda.empty_cache()
    if args.tsv:
        with open(args.tsv, "w") as file:
            file.writelines("\t".join(row) + "\n" for row in [["case", "type", "way", "us", "error"]] + rows)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
