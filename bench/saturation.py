"""What saturating the compiler's own rules takes, on three models, with one build of hypatiac or several in turns.

    python3 bench/saturation.py [--bin build/release/bin ...] [--rounds 5] [--save FOLDER]

A transformer of 48 layers as exporters write it (large_graphs.py), NasRNN (table_networks.py), a two-level lattice network
(the greatest of some least of linear functions, written as such networks are exported: by products with sums behind them
and pairs of Relu, with no activation between most of them), and such products alone. Prints for each build the e-nodes,
the iterations of all phases, and the least seconds: of saturation (of `--trace`; 0 from a build that has none), of all
rewriting, with extraction and prices of plans, and of the compilation (of `--stats`); and which phase met a limit. --save
only writes the models.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import large_graphs
import table_networks


def lattice(path, inputs=2, functions=64, groups=16):
    """max over groups of min over members of W x + b; each group has 16 members. Every layer is a MatMul and an Add."""
    members = 16
    m = large_graphs.Maker(functions)
    choice = np.zeros((functions, groups * members), np.float32)
    for j in range(groups * members):
        choice[m.rng.integers(functions), j] = 1

    def dense(x, weight):
        weight = np.asarray(weight, np.float32)
        return m.node("Add", m.node("MatMul", x, m.const(weight)), m.const(np.zeros(weight.shape[1], np.float32)))

    def halve(x, width, sign):
        """The less (sign -1) or greater of neighbours: (a + b +- |a - b|) / 2 by four Relu."""
        pairs = width // 2
        there, back = np.zeros((width, 4 * pairs)), np.zeros((4 * pairs, pairs))
        for p in range(pairs):
            there[2 * p:2 * p + 2, 4 * p:4 * p + 4] = [[1, -1, 1, -1], [1, -1, -1, 1]]
            back[4 * p:4 * p + 4, p] = [0.5, -0.5, 0.5 * sign, 0.5 * sign]
        return dense(m.node("Relu", dense(x, there)), back)

    x = m.node("Add", dense("x", m.rng.standard_normal((inputs, functions))), m.const(np.ones(functions, np.float32)))
    x, width = dense(x, choice), groups * members
    while width > groups:
        x, width = halve(x, width, -1), width // 2
    while width > 1:
        x, width = halve(x, width, 1), width // 2
    return m.save(path, ["batch", inputs], x)


def sums(path, layers=24, width=64):
    """Products in a row, each with two sums behind it and no activation between."""
    m, x = large_graphs.Maker(layers), "x"
    for _ in range(layers):
        x = m.node("Add", m.node("Add", m.node("MatMul", x, m.weight(width, width)), m.weight(width)), m.weight(width))
    return m.save(path, ["batch", width], x)


MODELS = [
    ("transformer, 48 layers", lambda path: large_graphs.transformer(path, 48)),
    ("NasRNN", lambda path: table_networks.nasrnn().save(path)),
    ("two-level lattice", lattice),
    ("sums behind layers", sums),
]


def run_once(tool, path, trace):
    """E-nodes, iterations and which phase did not saturate; seconds of saturation, of rewriting, and of all."""
    command = [tool, path, "--dry-run", "--stats"]
    run = subprocess.run(command + ["--trace", trace], capture_output=True, text=True)
    traced = run.returncode != 2
    if not traced:
        run = subprocess.run(command, capture_output=True, text=True)
    text = run.stdout + run.stderr
    if run.returncode:
        sys.exit(f"{tool} {path}: {text[-500:]}")
    size = re.search(r"^e-graph +(\d+) e-nodes.*?(\d+) iterations, stop: (.*), least cost", text, re.M)
    seconds = re.search(r"^seconds +import ([\d.]+), rewrite ([\d.]+), lower ([\d.]+)", text, re.M)
    took = [float(s) for s in seconds.groups()]
    stops = [part for part in size[3].split(", ") if not part.endswith(" saturated")]
    saturate = 0
    if traced:
        with open(trace, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        saturate = sum(e["dur"] for e in events if e.get("ph") == "X" and e["name"] == "saturate") * 1e-6
    return (int(size[1]), int(size[2]), ", ".join(stops) or "saturated"), (saturate, took[1], sum(took))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", nargs="+", default=[os.path.join(HERE, "../build/release/bin")])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(args.save or folder, f"{i}.onnx") for i in range(len(MODELS))]
        for (_, make), path in zip(MODELS, paths):
            make(path)
        if args.save:
            return
        print(f"{'model':24s} {'build':24s} {'e-nodes':>8s} {'iterations':>10s} {'saturating':>10s} {'rewriting':>10s} "
              f"{'all':>8s}")
        for (name, _), path in zip(MODELS, paths):
            best = {}
            for _ in range(args.rounds):
                for build in args.bin:
                    size, took = run_once(os.path.join(build, "hypatiac"), path, os.path.join(folder, "trace.json"))
                    was = best.get(build, (size, took))[1]
                    best[build] = (size, tuple(map(min, took, was)))
            for build, (size, took) in best.items():
                print(f"{name:24s} {build[-24:]:24s} {size[0]:8d} {size[1]:10d} {took[0]:8.4f} s {took[1]:8.4f} s "
                      f"{took[2]:6.3f} s  {size[2]}", flush=True)


if __name__ == "__main__":
    main()
