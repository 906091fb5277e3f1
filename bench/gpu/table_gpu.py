"""bench/table.py --gpu: the table on one GPU, every way with tensors in its memory.

Plans run as a C program would run them, each from its own CUDA graph. PyTorch runs the same network (torch_network.py) from a
CUDA graph, convolutions in 16 bits with their channels last too where that is faster, and with --compile through torch.compile
(its default mode, in a graph of ours), which compiles all networks beforehand, several at once, into a cache of the run: a
network that is not done within --compile-seconds goes without. All are taken in turns on one stream; a time is the median of the rounds, a gain over the network as
it is. Launches and the floor (bytes and operations of the tuned plan's steps, at the rates that follow from what the driver says
of the GPU) are what `hypatia bench` says. Errors are |y - r| / |r|, the worst output, against float64.

Each network is measured in a process that the next one uses too, unless the device was lost: then a new one starts.

f32 is strict everywhere (no tf32); in bf16 inputs and outputs stay f32, and every side converts them.
"""
import concurrent.futures
import functools
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import onnx
import torch

from runtime import Library, Plan
from table import FORMS, MARGIN, compile_forms, microseconds, normal_rules, published, ratio, run_tool
from table_networks import NETWORKS
from timing import capture, error, in_turns, milliseconds, repeat
from torch_network import Network

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def make_inputs(path, device):
    """By the shapes of the file, which are fixed; small indices."""
    random, inputs = torch.Generator().manual_seed(1), []
    for info in onnx.load(path, load_external_data=False).graph.input:
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        whole = info.type.tensor_type.elem_type == onnx.TensorProto.INT64
        x = torch.randint(0, 5, shape, generator=random) if whole else torch.randn(shape, generator=random)
        inputs.append(x.to(device))
    return inputs


def target_of(device):
    """With the costs of the GPU here, if there are such."""
    known = [name for name in ("h100", "h200") if device == "cuda" and name in torch.cuda.get_device_name().lower()]
    return ":".join([device, *known])


def wait(stream, way):
    """A kernel that failed is known by the way that it belongs to."""
    try:
        if stream:
            stream.synchronize()
    except RuntimeError as failure:
        raise RuntimeError(f"{way}: {str(failure).splitlines()[0]}") from None


def torch_networks(path, dtype, device):
    """By name: as they are, and images with their channels last where that may be faster."""
    networks = {"eager": Network(path, dtype, device)}
    if networks["eager"].images and dtype != torch.float32:
        networks["eager, channels last"] = Network(path, dtype, device, True)
    return networks


def call_of(network, inputs):
    last = network.channels_last
    arranged = [x.contiguous(memory_format=torch.channels_last) if last and x.dim() == 4 else x for x in inputs]
    return functools.partial(network.call, network.weights, *arranged)


def compiled_call(network, inputs):
    """By torch.compile, which has what it made before in its cache."""
    compiled, eager = torch.compile(network.call, dynamic=False), call_of(network, inputs)
    return functools.partial(compiled, *eager.args)


def torch_ways(path, dtype, inputs, stream, compiles):
    """Calls by name, each from a graph, and their outputs."""
    ways, outputs = {}, {}
    networks = torch_networks(path, dtype, inputs[0].device)
    calls = {name: call_of(network, inputs) for name, network in networks.items()}
    if compiles:
        torch._dynamo.reset()
        calls["torch.compile"] = compiled_call(list(networks.values())[-1], inputs)
    for name, call in calls.items():
        for _ in range(3):
            outputs[name] = call()
        wait(stream, name)
        ways[name] = capture(call, 1, stream).replay
    return ways, outputs


# ---- torch.compile, ahead of all measurements ---------------------------------------------------------------------

def compile_one(path, kind):
    """In a process of its own: leaves what it compiles in the cache of the run."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    set_up_torch()
    with torch.no_grad():
        inputs = make_inputs(path, device)
        compiled_call(list(torch_networks(path, TYPES[kind], device).values())[-1], inputs)()
        if device == "cuda":
            torch.cuda.synchronize()


def compile_ahead(args, kinds, names, folder):
    """The networks and types that were compiled in time. Those with most nodes begin."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "inductor")
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "2"
    here = os.path.dirname(os.path.abspath(__file__))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(here), here])}
    end = time.monotonic() + args.compile_seconds

    def run(job):
        start = time.monotonic()
        try:
            command = [sys.executable, os.path.abspath(__file__), model_of(args, job[0], folder), job[1]]
            done = subprocess.run(command, text=True, capture_output=True, timeout=max(0.1, end - start), check=False, env=env)
            ok = done.returncode == 0
            said = f"took {time.monotonic() - start:.0f} s" if ok else f"failed: {done.stderr.strip()[-300:]}"
        except subprocess.TimeoutExpired:
            said, ok = "was not done in time", False
        print(f"torch.compile, {job[0]}, {job[1]}: {said}", file=sys.stderr, flush=True)
        return ok
    nodes = {name: len(onnx.load(model_of(args, name, folder), load_external_data=False).graph.node) for name in names}
    jobs = sorted(((name, kind) for name in names for kind in kinds), key=lambda job: -nodes[job[0]])
    with concurrent.futures.ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        return {job for job, ok in zip(jobs, pool.map(run, jobs)) if ok}


def model_of(args, name, folder):
    model = os.path.join(args.models or folder, name.replace(" ", "-") + ".onnx")
    if not os.path.exists(model):
        NETWORKS[name]().save(model)
    return model


def measure(args, library, name, kind, compiles, folder):
    """Median microseconds by way, errors by way, and the plans."""
    model, dtype = model_of(args, name, folder), TYPES[kind]
    plans = compile_forms(args, model, folder, "--target", target_of(args.device), "--precision", kind)
    tuned = os.path.join(folder, "tuned.bin")
    run_tool(args, "hypatia", "tune", plans["rewritten"].plan, "-o", tuned, "--device", args.device, "--seconds", str(args.tune), "-q")
    told = json.loads(run_tool(args, "hypatia", "bench", tuned, "--device", args.device, "--warmup", "20", "--duration", "0.1",
                               "--json", "-"))
    stream = torch.cuda.Stream() if args.device == "cuda" else None
    context = torch.cuda.stream(stream)
    with context, torch.no_grad():
        inputs = make_inputs(model, args.device)
        exact = Network(model, torch.float64, args.device)
        reference = exact.call(exact.weights, *inputs)
        del exact
        ways, outputs, opened = {}, {}, []
        for form in FORMS:
            outputs[form] = [torch.full(y.shape, float("nan"), device=args.device) for y in reference]
            path = plans[form].plan if form in plans else tuned
            opened.append(Plan(library, path, stream.cuda_stream if stream else None, inputs, outputs[form]))
            for _ in range(3):
                opened[-1].run()
            wait(stream, form)
            ways[form] = opened[-1].run
        more, results = torch_ways(model, dtype, inputs, stream, compiles)
        ways, outputs = {**ways, **more}, {**outputs, **results}
        wait(stream, "PyTorch")
        errors = {way: max(map(error, ys, reference)) for way, ys in outputs.items()}
        once = min(milliseconds(repeat(ways["rewritten"], 3), stream) / 3 for _ in range(3))
        runs = max(2, min(50, int(5 / once)))
        samples = in_turns({way: repeat(call, runs) for way, call in ways.items()}, runs, max(args.rounds, 9), stream)
        for plan in opened:
            plan.close()
    return {way: statistics.median(us) for way, us in samples.items()}, errors, plans, told


def set_up_torch():
    warnings.filterwarnings("ignore")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True


def measure_apart(args, name, kind, compiles):
    """In the process that this runs in, which is to end when the device is lost."""
    set_up_torch()
    library = Library(os.path.abspath(args.library or os.path.join(args.bin, "../lib/libhypatia-rt.so")))
    with tempfile.TemporaryDirectory() as folder:
        return measure(args, library, name, kind, compiles, folder)


def start_worker():
    return concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))


def row(name, kind, us, errors, plans, told):
    rewritten = plans["rewritten"]
    cells = [name, kind, f"{plans['as it is'].steps} -> {rewritten.steps}", f"{told['launches']}",
             f"{rewritten.seconds['rewrite']:.2f} s", *(microseconds(us[form]) for form in FORMS)]
    gains = [us["as it is"] / us[form] for form in ("rewritten", "tuned")]
    cells += [*(ratio(gain, gain * MARGIN < 1) for gain in gains), *published(name)]
    eager = min(us[way] for way in us if way.startswith("eager"))
    for peer in (eager, us.get("torch.compile")):
        cells += [microseconds(peer), ratio(peer / us["tuned"], peer * MARGIN < us["tuned"])] if peer else ["-", "-"]
    floor = told["floor_us"]
    cells += [microseconds(floor), f"{100 * floor / us['tuned']:.0f} %"] if floor else ["-", "-"]
    return "| " + " | ".join([*cells, *(f"{errors[way]:.1e}" for way in ("tuned", "eager"))]) + " |"


def run(args):
    args.device, args.normal_rules = "cuda" if torch.cuda.is_available() else "cpu", normal_rules(args)
    device = torch.cuda.get_device_name() if args.device == "cuda" else "the CPU, for want of a GPU"
    heads = ["network", "type", "steps", "launches", "search", *FORMS, "gain", "gain tuned", "Tensat", "TASO", "its search",
             "PyTorch eager, in a graph", "/ tuned", "torch.compile", "/ tuned", "floor", "share", "error", "of eager"]
    print(f"{device}; PyTorch {torch.__version__}\n\n| {' | '.join(heads)} |\n{'|---' * len(heads)}|", flush=True)
    end, kinds = time.monotonic() + args.budget, args.types.split(",")
    names = [name for name in NETWORKS if args.only.lower() in name.lower()]
    with tempfile.TemporaryDirectory() as folder:
        compiled = compile_ahead(args, kinds, names, folder) if args.compile else set()
        return run_all(args, kinds, names, compiled, end)


def run_all(args, kinds, names, compiled, end):
    results, failed, worker = [], False, start_worker()
    for kind in kinds:
        for name in names:
            if time.monotonic() > end:
                print(f"{name}, {kind}: not run, no time left", file=sys.stderr)
                continue
            try:
                found = worker.submit(measure_apart, args, name, kind, (name, kind) in compiled).result()
            except (RuntimeError, subprocess.SubprocessError) as failure:
                print(f"{name}, {kind}: {str(failure).splitlines()[0]}", file=sys.stderr)
                failed = True
                worker.shutdown()  # an error of a kernel ends what this process can do with the device
                worker = start_worker()
                continue
            print(row(name, kind, *found), flush=True)
            us, errors, plans, told = found
            results.append({"network": name, "type": kind, "us": us, "errors": errors, "launches": told["launches"],
                            "floor_us": told["floor_us"], "seconds": plans["rewritten"].seconds,
                            "steps": {form: plan.steps for form, plan in plans.items()}})
    worker.shutdown()
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    return 1 if failed else 0


if __name__ == "__main__":
    compile_one(*sys.argv[1:])
