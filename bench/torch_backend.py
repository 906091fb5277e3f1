"""Twenty modules of PyTorch by torch.compile: the backend "hypatia" beside PyTorch's own compiler and its eager mode.

    PYTHONPATH=BUILD/python HYP_BIN=BUILD/bin python3 bench/torch_backend.py [--device cpu|cuda] [--threads N] [--batch N] [--scale N]
        [--dtype fp32|bf16|fp16] [--precision P] [--tune SECONDS] [--only NAME,...] [--no-inductor] [--rounds N] [--tsv FILE]

A time is that of a call from Python under inference_mode, until its result is there, as the median over rounds in which all take turns,
in microseconds; calls are repeated in a round until they take a hundredth of a second. On a GPU, "stream" has calls queued behind each
other, waited for once a round, and "one" waits for each. Recurrent modules are given to the compilers (torch._dynamo.config.allow_rnn),
unless --no-rnn. The modules are those of python/tests/torch_modules.py; the scale widens
them. Errors are |y - r| / |r| (2-norms) of the first output against eager in float64.
"""
import argparse
import copy
import os
import statistics
import sys
import time
import warnings

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "bench/gpu"), os.path.join(ROOT, "python/tests")]
from timing import error, geometric_mean, take_turns  # noqa: E402
from torch_modules import MODULES, make  # noqa: E402

import hypatia.torch  # noqa: E402

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
ROUND_SECONDS = 0.01


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--scale", type=int, default=2)
    parser.add_argument("--dtype", choices=TYPES, default="fp32")
    parser.add_argument("--precision", default="fp32", help="of products, as of hypatiac; PyTorch is told the same of tf32")
    parser.add_argument("--tune", type=float, default=0)
    parser.add_argument("--only", default=",".join(MODULES))
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--no-rnn", action="store_true")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tsv")
    return parser.parse_args()


def ways(module, options):
    """The module as each compiles it; ours strictly, so that nothing runs eager unnoticed."""
    ours = {"strict": True, "precision": options.precision, "tune": options.tune}
    found = {"eager": module, "hypatia": torch.compile(copy.deepcopy(module), backend="hypatia", options=ours)}
    if not options.no_inductor:
        found["inductor"] = torch.compile(copy.deepcopy(module))
    return found


def timed(call, x, device, each):
    """A function that says how many microseconds a call takes."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None

    def seconds(runs):
        wait()
        began = time.perf_counter()
        for _ in range(runs):
            call(*x)
            if each:
                wait()
        wait()
        return time.perf_counter() - began
    seconds(3)
    runs = max(1, int(ROUND_SECONDS / max(seconds(1), 1e-7)))
    return lambda: seconds(runs) / runs * 1e6


def measure(name, options):
    """{way: (seconds of the first call, error, {mode: median})} of a module; a way that fails is its message."""
    torch._dynamo.reset()
    module, draw = make(name, options.scale, TYPES[options.dtype], options.device)
    x, found = draw(options.batch), {}
    exact = copy.deepcopy(module).double()
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # whose gelu may be another than the module's
    reference = exact(*(t.double() if t.is_floating_point() else t for t in x))
    torch.backends.mha.set_fastpath_enabled(fast)
    calls = {}
    for way, call in ways(module, options).items():
        began = time.perf_counter()
        try:
            y = call(*x)
        except Exception as failure:
            found[way] = " ".join(str(failure).split())[:200]
            continue
        found[way] = (time.perf_counter() - began, error(y, reference), {})
        calls[way] = call
    for mode in ("stream", "one") if options.device == "cuda" else ("one",):
        samplers = {way: timed(call, x, options.device, mode == "one") for way, call in calls.items()}
        for way, samples in take_turns(samplers, options.rounds).items():
            found[way][2][mode] = statistics.median(samples)
    return found


def main():
    options = parse()
    torch._dynamo.config.allow_rnn = not options.no_rnn
    torch.set_num_threads(options.threads)
    torch.set_float32_matmul_precision("high" if options.precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = options.precision == "tf32"
    where = torch.cuda.get_device_name() if options.device == "cuda" else f"cpu, {options.threads} threads"
    print(f"# {where}; PyTorch {torch.__version__}; hypatia {hypatia.__version__}; batch {options.batch}, scale {options.scale}, "
          f"{options.dtype}, precision {options.precision}")
    rows, ratios = [], {}
    print("module\tmode\teager\tinductor\thypatia\teager/ours\tinductor/ours\terror\tfirst call, s")
    for name in options.only.split(","):
        with warnings.catch_warnings(), torch.inference_mode():
            warnings.simplefilter("ignore")
            found = measure(name, options)
        for way, said in found.items():
            if isinstance(said, str):
                print(f"# {name}: {way}: {said}")
        if isinstance(found["hypatia"], str):
            continue
        first, off, times = found["hypatia"]
        for mode, ours in times.items():
            peers = [found[way][2][mode] if way in found and not isinstance(found[way], str) else None
                     for way in ("eager", "inductor")]
            for way, peer in zip(("eager", "inductor"), peers):
                if peer is not None:
                    ratios.setdefault((mode, way), []).append(peer / ours)
            cells = [f"{peer:.1f}" if peer else "-" for peer in peers] + [f"{ours:.1f}"]
            cells += [f"{peer / ours:.2f}" if peer else "-" for peer in peers]
            rows.append("\t".join([name, mode, *cells, f"{off:.1e}", f"{first:.1f}"]))
            print(rows[-1], flush=True)
    for (mode, way), values in ratios.items():
        print(f"# {mode}: {way} takes {geometric_mean(values):.2f} times as long, in the geometric mean over {len(values)} modules; "
              f"at worst {min(values):.2f}")
    if options.tsv:
        with open(options.tsv, "w", encoding="utf-8") as file:
            file.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
