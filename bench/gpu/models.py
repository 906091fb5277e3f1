"""Networks on one GPU: plans against PyTorch eager, eager replayed from a CUDA graph, and torch.compile.

    python3 bench/gpu/models.py --hypatiac BIN --library LIBHYPATIA-RT.SO [--only NAME] [--types bf16,fp32] [--tune]
                                [--compile] [--without RULES] [--profile FILE] [--tsv FILE] [--rounds N] [--seconds S]

Models come from scripts/export-models.py, with random weights. Every plan is compiled for its shape. PyTorch runs the
same module, its attention as scaled_dot_product_attention, images of 16 bits also with their channels last
(torch.compile those alone), convolutions in full precision where the type is fp32. All sides run in one process on one
stream on the same device tensors, in turns; a time is the median of the rounds, in microseconds a run. A plan is called
as a C program would: it replays its own CUDA graph. "kernels alone" is the sum of what a plan's kernels take,
"predicted" by the cost model. Errors are |y - r| / |r| (2-norms, the worst output) against float64.
"""
import argparse
import copy
import importlib.util
import os
import statistics
import sys
import tempfile
import time
import warnings

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from runtime import Library, Plan, compile_plan  # noqa: E402
from timing import capture, error, in_turns, milliseconds, repeat, spread  # noqa: E402

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def load_exporters():
    spec = importlib.util.spec_from_file_location("export_models", os.path.join(HERE, "../../scripts/export-models.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bert(exporters, batch, length):
    ids = torch.randint(0, 30522, (batch, length))
    return exporters.Bert(30522, 512, 768, 12, 3072, 12), {"ids": ids, "mask": torch.ones_like(ids)}


def gpt2(exporters, batch, past):
    keys, values = torch.randn(2, 12, batch, 12, past, 64)
    return (exporters.Gpt2(50257, 1024, 768, 12, 12),
            {"ids": torch.randint(0, 50257, (batch, 1)), "past_keys": keys, "past_values": values})


def images(network, width):
    def make(exporters, batch):
        return getattr(exporters, network)(width, 1000), {"x": torch.randn(batch, 3, 224, 224)}
    return make


CASES = {
    "bert-base 1x128": (bert, 1, 128),
    "bert-base 8x128": (bert, 8, 128),
    "gpt2 1 token after 512": (gpt2, 1, 512),
    "resnet18 1x3x224x224": (images("resnet18", 64), 1),
    "resnet18 8x3x224x224": (images("resnet18", 64), 8),
    "mobilenet 1x3x224x224": (images("mobilenet", 32), 1),
    "mobilenet 8x3x224x224": (images("mobilenet", 32), 8),
}


def written_out(exporters):
    """Attention in parts, its scale a number: of a traced size PyTorch 2.11 makes a cast of bf16 to complex numbers."""
    def attend(q, k, v, mask=None, causal_from=None):
        scores = q @ k.transpose(-2, -1) / int(q.shape[-1]) ** 0.5
        if causal_from is not None:
            rows = torch.arange(q.shape[2])[:, None] + causal_from
            scores = scores.masked_fill(torch.arange(k.shape[2])[None, :] > rows, float("-inf"))
        return torch.softmax(scores if mask is None else scores + mask, -1) @ v
    exporters.attend = attend


def with_sdpa(exporters):
    """Attention as a user of PyTorch writes it when he wants it fast."""
    def attend(q, k, v, mask=None, causal_from=None):
        if causal_from is not None and q.shape[2] > 1:
            rows = torch.arange(q.shape[2], device=q.device)[:, None] + causal_from
            mask = torch.arange(k.shape[2], device=q.device)[None, :] <= rows
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    exporters.attend = attend


def to_type(inputs, dtype, device):
    return [t.to(device, dtype) if t.is_floating_point() else t.to(device) for t in inputs.values()]


def export(model, inputs, dtype, path):
    torch.onnx.export(model.to(dtype), tuple(to_type(inputs, dtype, "cpu")), path, input_names=list(inputs),
                      opset_version=18, dynamo=False)


def compile_timed(args, onnx, options, plan):
    start = time.perf_counter()
    compile_plan(args.hypatiac, onnx, plan, *options, *[f"--profile={args.profile}"] * bool(args.profile))
    return time.perf_counter() - start


def as_tuple(y):
    return y if isinstance(y, tuple) else (y,)


def eager_ways(name, model, arguments, stream):
    def call():
        return model(*arguments)
    call()
    return {name: call, f"{name} from a graph": capture(call, 1, stream).replay}


def measure(args, library, folder, name, kind):
    make, *shape = CASES[name]
    dtype, stream = TYPES[kind], torch.cuda.Stream()
    torch.manual_seed(1)
    exporters = load_exporters()
    model, inputs = make(exporters, *shape)
    written_out(exporters)
    onnx = os.path.join(folder, "model.onnx")
    export(model.eval(), inputs, dtype, onnx)
    options = {"plan": []}
    if args.tune:
        options["plan, tuned"] = ["--tune"]
    if args.without:
        options["plan without these"] = [f"--disable-rule={args.without}"]
    paths = {way: os.path.join(folder, f"{i}.plan") for i, way in enumerate(options)}
    seconds = {way: compile_timed(args, onnx, options[way], paths[way]) for way in paths}
    with_sdpa(exporters)
    with torch.cuda.stream(stream), torch.no_grad():
        rounded = {k: v.to(dtype) if v.is_floating_point() else v for k, v in inputs.items()}
        reference = as_tuple(model.double().cuda()(*to_type(rounded, torch.float64, "cuda")))
        model = model.to(dtype)
        arguments = to_type(inputs, dtype, "cuda")
        eager = as_tuple(model(*arguments))
        errors, ways, plans = {"eager": max(map(error, eager, reference))}, {}, []
        for way, path in paths.items():
            outputs = [torch.full_like(y, float("nan")) for y in eager]
            plans.append(Plan(library, path, stream.cuda_stream, arguments, outputs))
            ways[way] = plans[-1].run
            for _ in range(3):
                plans[-1].run()
            stream.synchronize()
            errors[way] = max(map(error, outputs, reference))
        ways |= eager_ways("eager", model, arguments, stream)
        if dtype != torch.float32 and arguments[0].dim() == 4:
            model = copy.deepcopy(model).to(memory_format=torch.channels_last)
            arguments = [t.contiguous(memory_format=torch.channels_last) for t in arguments]
            ways |= eager_ways("channels last", model, arguments, stream)
        if args.compile:
            compiled = torch.compile(model, mode="max-autotune")
            for _ in range(3):
                y = as_tuple(compiled(*arguments))
            errors["torch.compile"] = max(map(error, y, reference))
            ways["torch.compile"] = lambda: compiled(*arguments)
        once = min(milliseconds(repeat(plans[0].run, 3), stream) / 3 for _ in range(3))
        runs = max(2, min(50, int(5 / once)))
        samples = in_turns({way: repeat(call, runs) for way, call in ways.items()}, runs, args.rounds, stream)
        kernels = {way: [1e6 * sum(plan.time_steps()) for _ in range(3)] for way, plan in zip(paths, plans)}
        predicted = {way: [1e6 * sum(step[2] for step in plan.steps())] for way, plan in zip(paths, plans)}
        for plan in plans:
            plan.close()
    return samples, errors, seconds, {"kernels alone": kernels, "predicted": predicted}


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hypatiac", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--types", default="bf16,fp32")
    parser.add_argument("--profile", help="device profile for hypatiac")
    parser.add_argument("--tune", action="store_true", help="also time plans whose products are tuned on this GPU")
    parser.add_argument("--without", metavar="RULES", help="also time plans that are compiled without these rules")
    parser.add_argument("--compile", action="store_true", help="torch.compile, mode max-autotune, too: takes minutes")
    parser.add_argument("--tsv")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no further network after so long")
    return parser.parse_args()


def report(name, kind, found, write):
    samples, errors, seconds, figures = found
    print(f"{name}, {kind}:", flush=True)
    for way, times in samples.items():
        e = errors.get(way, errors["eager"])
        compiled = f"  compiled in {seconds[way]:.1f} s" if way in seconds else ""
        print(f"    {way:28s} {statistics.median(times):10.1f}  error {e:.1e}{compiled}", flush=True)
        write(name, kind, way, times, f"{e:.3e}")
    for figure, plans in figures.items():
        for way, times in plans.items():
            print(f"    {way + ', ' + figure:28s} {statistics.median(times):10.1f}", flush=True)
            write(name, kind, f"{way}, {figure}", times, "")


def main():
    args = parse_arguments()
    warnings.filterwarnings("ignore")
    torch.backends.cudnn.allow_tf32 = False
    library = Library(os.path.abspath(args.library))
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; microseconds of one run, medians of "
          f"{args.rounds} rounds in turns")
    file = open(args.tsv, "w") if args.tsv else None

    def write(name, kind, way, times, e):
        columns = [name, kind, way, f"{statistics.median(times):.2f}", f"{min(times):.2f}", f"{spread(times):.2f}", e]
        if file:
            print(*columns, sep="\t", file=file, flush=True)
    if file:
        print("model", "type", "way", "median_us", "min_us", "spread_us", "error", sep="\t", file=file)
    end, failed = time.monotonic() + args.seconds, False
    for kind in args.types.split(","):
        for name in (name for name in CASES if args.only in name):
            if time.monotonic() > end:
                print(f"{name}, {kind}: not run, no time left")
                continue
            try:
                with tempfile.TemporaryDirectory() as folder:
                    report(name, kind, measure(args, library, folder, name, kind), write)
            except RuntimeError as failure:
                failed = True
                print(f"{name}, {kind}: {failure}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
