"""bench/table.py --gpu: the table on one GPU, every way with tensors in its memory.

Plans run as a C program would run them, each from its own CUDA graph. PyTorch runs the same network (torch_network.py) from a
CUDA graph, convolutions in 16 bits with their channels last too where that is faster. All are taken in turns on one stream; a
time is the median of the rounds. A gain is over the network as it is, whose steps run side by side as those of the other plans
do; "over one by one" is over the same plan with its steps one behind the other on one stream, as the published speedups are
over operators that run so. Launches and the floor (bytes and operations of the tuned plan's steps, at the rates that follow from
what the driver says of the GPU) are what `hypatia bench` says. Errors are |y - r| / |r|, the worst output, against float64.

--compile: torch.compile, too, in its default mode, from a graph of ours. Each network has a process of its own, which compiles
it before anything of that type is measured, all at once, and is asked for its time right behind the turns of the others; one
that is not done within --compile-seconds goes without.

Each network is measured in a process that the next one uses too, unless the device was lost: then a new one starts. The file of
--json is written after each; with --resume those that are in it are taken from there.

f32 is strict everywhere (no tf32); in bf16 inputs and outputs stay f32, and every side converts them.
"""
import concurrent.futures
import contextlib
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
from table import FORMS, MARGIN, Compiled, compile_forms, microseconds, normal_rules, published, ratio, run_tool
from table_networks import NETWORKS
from timing import capture, error, in_turns, milliseconds, repeat
from torch_network import Network

ONE_BY_ONE = "as it is, one by one"
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


def torch_ways(path, dtype, inputs, stream):
    """Calls by name, each from a graph, and their outputs."""
    ways, outputs = {}, {}
    for name, network in torch_networks(path, dtype, inputs[0].device).items():
        call = call_of(network, inputs)
        for _ in range(3):
            outputs[name] = call()
        wait(stream, name)
        ways[name] = capture(call, 1, stream).replay
    return ways, outputs


# ---- torch.compile, each network in a process of its own -----------------------------------------------------------

READY, TIMED = "torch.compile is ready", "torch.compile takes "


def compile_and_serve(path, kind):
    """Compiles, says so, then answers each line of the input, a number of rounds, with microseconds."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    set_up_torch()
    stream = torch.cuda.Stream() if device == "cuda" else None
    with torch.cuda.stream(stream), torch.no_grad():
        inputs = make_inputs(path, device)
        network = list(torch_networks(path, TYPES[kind], device).values())[-1]
        compiled, eager = torch.compile(network.call, dynamic=False), call_of(network, inputs)
        call = functools.partial(compiled, *eager.args)
        for _ in range(3):
            call()
        wait(stream, "torch.compile")
        replay = capture(call, 1, stream).replay
        print(READY, flush=True)
        for line in sys.stdin:
            runs = runs_for(replay, stream)
            samples = in_turns({"": repeat(replay, runs)}, runs, int(line), stream)
            print(f"{TIMED}{statistics.median(samples[''])}", flush=True)


class Compiling:
    """The process of one network. `log` is a file for what it says besides."""

    def __init__(self, path, kind, log):
        self.begin, self.seconds = time.monotonic(), None
        here = os.path.dirname(os.path.abspath(__file__))
        folders = os.pathsep.join([os.path.dirname(here), here])
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), path, kind], text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=log, env={**os.environ, "PYTHONPATH": folders})

    def answer(self, prefix):
        """What comes behind the prefix; None when the process ended without."""
        return next((line[len(prefix):] for line in self.process.stdout if line.startswith(prefix)), None)

    def wait(self):
        if self.answer(READY) is not None:
            self.seconds = time.monotonic() - self.begin
        return self.seconds is not None

    def time(self, rounds):
        self.process.stdin.write(f"{rounds}\n")
        self.process.stdin.flush()
        us = self.answer(TIMED)
        return float(us) if us else None

    def close(self):
        self.process.kill()
        self.process.communicate()


def compile_all(args, kind, names, folder):
    """The processes by network, of those that were done in time. They keep what they compiled until they are closed."""
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "2"
    logs = {name: open(os.path.join(folder, f"{i}.log"), "w+", encoding="utf-8") for i, name in enumerate(names)}
    jobs = {name: Compiling(model_of(args, name, folder), kind, logs[name]) for name in names}
    pool = concurrent.futures.ThreadPoolExecutor(max(1, len(jobs)))
    waits = {name: pool.submit(job.wait) for name, job in jobs.items()}
    done, late = concurrent.futures.wait(waits.values(), timeout=args.compile_seconds)
    for name in names:
        if waits[name] in done and jobs[name].seconds is not None:
            said = f"took {jobs[name].seconds:.0f} s"
        else:
            logs[name].seek(0)
            said = "was not done in time" if waits[name] in late else f"failed: {logs[name].read().strip()[-300:]}"
            jobs.pop(name).close()
        print(f"torch.compile, {name}, {kind}: {said}", file=sys.stderr, flush=True)
        logs[name].close()
    pool.shutdown()
    return jobs


def model_of(args, name, folder):
    model = os.path.join(args.models or folder, name.replace(" ", "-") + ".onnx")
    if not os.path.exists(model):
        NETWORKS[name]().save(model)
    return model


@contextlib.contextmanager
def streams(count):
    """Plans that are opened within have so many streams; "": as they decide."""
    os.environ["HYPATIA_CUDA_STREAMS"] = count
    try:
        yield
    finally:
        del os.environ["HYPATIA_CUDA_STREAMS"]


def runs_for(call, stream):
    """How many runs a sample has: about 5 ms."""
    once = min(milliseconds(repeat(call, 3), stream) / 3 for _ in range(3))
    return max(2, min(50, int(5 / once)))


def rounds_of(args):
    return max(args.rounds, 9)


def measure(args, library, name, kind, folder):
    """Median microseconds by way, errors by way, and the plans."""
    model, dtype = model_of(args, name, folder), TYPES[kind]
    plans = compile_forms(args, model, folder, "--target", target_of(args.device), "--precision", kind, at_once=3)
    tuned, chosen = os.path.join(folder, "tuned.bin"), plans["rewritten"]
    if args.timed:
        chosen = Compiled(args, model, os.path.join(folder, "timed.bin"), "--target", target_of(args.device), "--precision", kind,
                          "--timed", "--seconds", str(args.timed))
    run_tool(args, "hypatia", "tune", chosen.plan, "-o", tuned, "--device", args.device, "--seconds", str(args.tune), "-q")
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
        for form in (ONE_BY_ONE, *FORMS):
            outputs[form] = [torch.full(y.shape, float("nan"), device=args.device) for y in reference]
            path = plans["as it is"].plan if form == ONE_BY_ONE else plans[form].plan if form in plans else tuned
            with streams("1" if form == ONE_BY_ONE else ""):
                opened.append(Plan(library, path, stream.cuda_stream if stream else None, inputs, outputs[form]))
                for _ in range(3):
                    opened[-1].run()
                wait(stream, form)
            ways[form] = opened[-1].run
        more, results = torch_ways(model, dtype, inputs, stream)
        ways, outputs = {**ways, **more}, {**outputs, **results}
        wait(stream, "PyTorch")
        errors = {way: max(map(error, ys, reference)) for way, ys in outputs.items()}
        runs = runs_for(ways["rewritten"], stream)
        samples = in_turns({way: repeat(call, runs) for way, call in ways.items()}, runs, rounds_of(args), stream)
        for plan in opened:
            plan.close()
    return {way: statistics.median(us) for way, us in samples.items()}, errors, plans, told


def set_up_torch():
    warnings.filterwarnings("ignore")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True


def measure_apart(args, name, kind):
    """In the process that this runs in, which is to end when the device is lost."""
    set_up_torch()
    library = Library(os.path.abspath(args.library or os.path.join(args.bin, "../lib/libhypatia-rt.so")))
    with tempfile.TemporaryDirectory() as folder:
        return measure(args, library, name, kind, folder)


def start_worker():
    return concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))


# ---- the table ----------------------------------------------------------------------------------------------------

def row(name, kind, us, errors, plans, told):
    rewritten = plans["rewritten"]
    cells = [name, kind, f"{plans['as it is'].steps} -> {rewritten.steps}", f"{told['launches']}",
             f"{rewritten.seconds['rewrite']:.2f} s", *(microseconds(us[form]) for form in (ONE_BY_ONE, *FORMS))]
    for base in ("as it is", ONE_BY_ONE):
        gains = [us[base] / us[form] for form in ("rewritten", "tuned")]
        cells += [ratio(gain, gain * MARGIN < 1) for gain in gains]
    cells += published(name)
    for peer in (eager_of(us), us.get("torch.compile")):
        cells += [microseconds(peer), ratio(peer / us["tuned"], peer * MARGIN < us["tuned"])] if peer else ["-", "-"]
    floor = told["floor_us"]
    cells += [microseconds(floor), f"{100 * floor / us['tuned']:.0f} %"] if floor else ["-", "-"]
    return "| " + " | ".join([*cells, *(f"{errors[way]:.1e}" for way in ("tuned", "eager"))]) + " |"


def eager_of(us):
    return min(us[way] for way in us if way.startswith("eager"))


def print_means(kind, results):
    """Of all networks of a type, whatever call of this measured them."""
    of_kind = [r for r in results if r["type"] == kind]
    peers = {"PyTorch eager, in a graph": lambda r: eager_of(r["us"]), "torch.compile": lambda r: r["us"].get("torch.compile")}
    for peer, of in peers.items():
        ratios = {r["network"]: of(r) / r["us"]["tuned"] for r in of_kind if of(r)}
        if ratios:
            ahead = [f"{name} {1 / x:.2f}" for name, x in ratios.items() if x * MARGIN < 1]
            print(f"{kind}: {peer} takes {statistics.geometric_mean(ratios.values()):.2f} times as long as tuned plans (geometric mean "
                  f"of {len(ratios)}); ahead: {', '.join(ahead) or 'nowhere'}", flush=True)


def run(args):
    args.device, args.normal_rules = "cuda" if torch.cuda.is_available() else "cpu", normal_rules(args)
    device = torch.cuda.get_device_name() if args.device == "cuda" else "the CPU, for want of a GPU"
    heads = ["network", "type", "steps", "launches", "search", ONE_BY_ONE, *FORMS, "gain", "gain tuned", "over one by one", "tuned",
             "Tensat", "TASO", "its search", "PyTorch eager, in a graph", "/ tuned", "torch.compile", "/ tuned", "floor", "share",
             "error", "of eager"]
    results = []
    if args.resume and args.json and os.path.exists(args.json):
        with open(args.json, encoding="utf-8") as file:
            results = json.load(file)
    others = {r["device"] for r in results} - {device}
    if others:
        sys.exit(f"{args.json} has figures of {', '.join(others)}, and this is {device}: name another file, or leave out --resume")
    print(f"{device}; PyTorch {torch.__version__}\n\n| {' | '.join(heads)} |\n{'|---' * len(heads)}|", flush=True)
    args.end = time.monotonic() + args.budget
    names = [name for name in NETWORKS if any(part.strip().lower() in name.lower() for part in args.only.split(","))]
    failed = False
    for kind in args.types.split(","):
        with tempfile.TemporaryDirectory() as folder:
            failed |= run_type(args, kind, names, results, device, folder)
        print_means(kind, results)
    return 1 if failed else 0


def run_type(args, kind, names, results, device, folder):
    """Adds to the results; whether anything failed."""
    known = {r["network"]: r for r in results if r["type"] == kind}
    missing = [name for name in names if name not in known]
    compiled = compile_all(args, kind, missing, folder) if args.compile else {}
    failed, worker = False, start_worker()
    for name in names:
        if name in known:
            print(known[name]["row"], flush=True)
            continue
        if time.monotonic() > args.end:
            print(f"{name}, {kind}: not run, no time left", file=sys.stderr)
            continue
        try:
            us, errors, plans, told = worker.submit(measure_apart, args, name, kind).result()
        except (RuntimeError, subprocess.SubprocessError) as failure:
            print(f"{name}, {kind}: {str(failure).splitlines()[0]}", file=sys.stderr)
            failed = True
            worker.shutdown()  # an error of a kernel ends what this process can do with the device
            worker = start_worker()
            continue
        if name in compiled:
            us["torch.compile"] = compiled[name].time(rounds_of(args))
            compiled.pop(name).close()
        results.append({"network": name, "type": kind, "device": device, "us": us, "errors": errors, "launches": told["launches"],
                        "floor_us": told["floor_us"], "seconds": plans["rewritten"].seconds,
                        "steps": {form: plan.steps for form, plan in plans.items()},
                        "row": row(name, kind, us, errors, plans, told)})
        print(results[-1]["row"], flush=True)
        if args.json:
            with open(args.json, "w", encoding="utf-8") as file:
                json.dump(results, file, indent=1)
    worker.shutdown()
    for process in compiled.values():
        process.close()
    return failed


if __name__ == "__main__":
    compile_and_serve(*sys.argv[1:])
