"""What hypatiac --timed finds: plans of models as they are, as predicted, and timed by parts, side by side on one thread.

    python3 bench/timed.py MODEL.onnx ... [--bin build/release/bin] [--seconds 10] [--rounds 7] [--options TEXT]

Every model is compiled as it is, as predicted, with --timed and an empty cache, and once more with what the cache has then. The
plans run in turns, so that a busy machine hits all; "=": the plan is the predicted one, byte for byte, and what its ratio differs
from 1 is the error of the measurement. Printed are medians of the rounds' medians, how many parts were asked
about, known from an equal part, timed and changed, seconds of timing in the first compilation, and what the second took in all.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import time


def tool(args, name, *rest):
    return subprocess.run([os.path.join(args.bin, name), *rest], check=True, capture_output=True, text=True).stdout


def compile_model(args, model, plan, *options):
    start = time.monotonic()
    out = tool(args, "hypatiac", model, "-o", plan, "--threads", "1", "--verify", "off", *args.options.split(), *options)
    return out, time.monotonic() - start


def asked(out):
    """[parts, known, timed, changed], seconds of timing and the form of the whole."""
    line = next(line for line in out.splitlines() if line.startswith("parts: "))
    kept = [line.split("  ")[1] for line in out.splitlines() if line.endswith("(kept)")]
    return [int(n) for n in re.findall(r": (\d+)", line)], float(line.split()[-4]), kept[-1] if kept else "rewritten"


def read(path):
    with open(path, "rb") as file:
        return file.read()


def measure(args, plan, folder):
    path = os.path.join(folder, "samples.json")
    tool(args, "hypatia", "bench", plan, "--threads", "1", "-q", "--warmup", "20", "--iterations", "3", "--duration", "0.1", "--json", path)
    with open(path, encoding="utf-8") as file:
        return statistics.median(json.load(file)["samples_us"])


def run(args, model, folder):
    plans = {form: os.path.join(folder, form + ".bin") for form in ("as it is", "predicted", "timed", "again")}
    cache = os.path.join(folder, "cache.jsonl")
    compile_model(args, model, plans["as it is"], "--no-rewrite")
    _, plain = compile_model(args, model, plans["predicted"])
    counts, timing, form = asked(compile_model(args, model, plans["timed"], "--timed", "--seconds", str(args.seconds), "--cache", cache)[0])
    out, again = compile_model(args, model, plans["again"], "--cache", cache)
    assert asked(out)[1] == 0, "the second compilation timed something"
    assert read(plans["timed"]) == read(plans["again"]), "the cache gives another plan than timing gave"
    os.unlink(cache)
    del plans["again"]
    rounds = {form: [] for form in plans}
    for i in range(args.rounds):
        names = list(plans)
        for name in names[i % len(names):] + names[:i % len(names)]:  # none is always behind the same other
            rounds[name].append(measure(args, plans[name], folder))
    same = read(plans["timed"]) == read(plans["predicted"])
    us = {name: statistics.median(times) for name, times in rounds.items()}
    print(f"{os.path.basename(model)[:-5]:<16}" + "".join(f"{us[name]:>11.1f}" for name in plans) + "  " +
          f"{statistics.median(t / p for t, p in zip(rounds['timed'], rounds['predicted'])):>8.3f}  {form + (' =' if same else ''):<14}" +
          "".join(f"{n:>8}" for n in counts) + f"{timing:>9.1f}{plain:>9.2f}{again:>9.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--options", default="", help="more options of hypatiac")
    args = parser.parse_args()
    print(f"{'us of a run':<16}{'as it is':>11}{'predicted':>11}{'timed':>11}  {'of pred.':>8}  {'kept':<14}" +
          "".join(f"{name:>8}" for name in ("parts", "known", "timed", "changed")) + f"{'timing s':>9}{'compile':>9}{'again s':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for model in args.models:
            run(args, model, folder)


if __name__ == "__main__":
    main()
