#!/usr/bin/env python3
"""Plans as C99 (hypatia export-c) beside the runtime on one thread: microseconds of a run, the least of interleaved rounds.

    bench/export_c.py [--native] [MODEL.onnx ...]     the examples and some models of tests/models, unless models are given

Each is compiled by gcc and by clang, where they are, with -O3, for any processor of its kind or, with --native, for this one; dims
are 1, but sequences of 16. Floor: the weights that a run reads, from a cache at 50 GB/s."""
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/support"))
import exported  # noqa: E402
import hyp  # noqa: E402
import numpy as np  # noqa: E402

NAMES = ["examples/digits/digits", "examples/cnn/cnn", "examples/chars/chars", *(f"tests/models/torch/{n}-script" for n in
         ("bert2", "mobilenet", "resnet18", "vit"))]
DIMS = {"batch": 1, "sequence": 16, "past": 15, "new": 1}
ROUNDS, SECONDS = 5, 0.05


def compile_fixed(path, plan):
    options = [f"--dim={n}={v}" for n, v in DIMS.items()]
    while True:
        done = hyp.tool("hypatiac", path, "-o", plan, "-q", *options)
        unknown = [o for o in options if f'no symbolic dim "{o.split("=")[1]}"' in done.stderr]
        if not unknown:
            return done.stderr if done.returncode else ""
        options.remove(unknown[0])


def least(call):
    best, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return best * 1e6


def measure(path, flags):
    """Microseconds by the runtime and by each compiler's C, and bytes of weights."""
    plan = os.path.basename(path)[:-5] + ".bin"
    problem = compile_fixed(path, plan)
    if problem:
        return problem
    try:
        made = exported.Exported(plan, weights=True)
    except AssertionError as error:
        return str(error)
    calls, kept = {}, [np.fromfile(made.weights, np.uint8), *(np.ones(d, t) for t, d in made.inputs), *(np.zeros(d, t) for t, d in made.outputs),
                       np.zeros(made.work, np.uint8)]
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in kept]
    for compiler in exported.COMPILERS:
        library = os.path.abspath(f"{plan}.{compiler}.so")
        subprocess.run([compiler, "-std=c99", "-O3", *flags, "-shared", "-fPIC", "-o", library, made.source, "-lm"], check=True)
        function = ctypes.CDLL(library).model
        calls[compiler] = lambda f=function: f(*pointers)
    times = {name: float("inf") for name in calls}
    runtime = float("inf")
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times[name] = min(times[name], least(call))
        done = hyp.tool("hypatia", "bench", plan, "--device", "cpu", "--threads", "1", "--duration", "0.2", "--warmup", "50", "--json", "-")
        if done.returncode:
            return done.stderr
        runtime = min(runtime, json.loads(done.stdout)["min_us"])
    return runtime, times, kept[0].size


def main():
    flags = ["-march=native"] if "--native" in sys.argv else []
    paths = [os.path.abspath(a) for a in sys.argv[1:] if not a.startswith("--")] or [os.path.join(hyp.ROOT, f"{n}.onnx") for n in NAMES]
    print(f"{'model':20} {'floor':>8} {'runtime':>8}" + "".join(f" {c:>8}" for c in exported.COMPILERS) + "  us, -O3 " + " ".join(flags))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for path in paths:
            name, found = os.path.basename(path)[:-5], measure(path, flags)
            if isinstance(found, str):
                print(f"{name:20} {found.strip()[:200]}")
                continue
            runtime, times, weights = found
            print(f"{name:20} {weights / 50e3:8.2f} {runtime:8.1f}" + "".join(f" {t:8.1f}" for t in times.values()), flush=True)


main()
