#!/usr/bin/env python3
"""Extracts from every egraph-serialize file of a folder by each method and sets the results beside known ones.

    bench/extraction.py FOLDER [--reference FILE.tsv] [--budget SECONDS] [--methods tree,dag,exact] [--repeat N]

The reference is tab-separated with a heading line; its columns file, best_known_dag, faster_greedy_dag,
faster_greedy_us, best_tree and prio_queue_us are used. Exit code 1 if a result is worse than known, 77 if there is
no such folder. HYP_BIN names the folder of the tools.
"""
import argparse
import csv
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOOL = os.path.join(os.environ.get("HYP_BIN", os.path.join(ROOT, "build/release/bin")), "hypatia-egraph")


def extract(path, method, budget, repeat):
    """The result with the least time of `repeat` runs."""
    best = None
    for _ in range(1 if method == "exact" else repeat):
        out = subprocess.run([TOOL, "extract", path, "--method", method, "--budget", str(budget), "--json"],
                             capture_output=True, text=True)
        if out.returncode:
            sys.exit(f"{path}: {out.stderr.strip()}")
        result = json.loads(out.stdout)
        if best is None or result["micros"] < best["micros"]:
            best = result
    return best


def worse(found, known):
    return found > known + 1e-9 * max(1, abs(known))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--reference")
    parser.add_argument("--budget", type=float, default=10)
    parser.add_argument("--methods", default="tree,dag,exact")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    if not os.path.isdir(args.folder):
        print(f"skipped: there is no folder {args.folder}")
        sys.exit(77)
    known = {}
    if args.reference:
        with open(args.reference) as file:
            known = {row["file"]: row for row in csv.DictReader(file, delimiter="\t")}
    files = sorted(os.path.relpath(os.path.join(at, name), args.folder)
                   for at, _, names in os.walk(args.folder) for name in names if name.endswith(".json"))
    bad = 0
    print(f"{'file':58} {'method':6} {'cost':>14} {'known':>14} {'micros':>10} {'known':>9} {'bound':>14}")
    for name in files:
        if args.only not in name:
            continue
        row = known.get(name)
        for method in args.methods.split(","):
            result = extract(os.path.join(args.folder, name), method, args.budget, args.repeat)
            cost = result["tree_cost" if method == "tree" else "dag_cost"]
            columns = {"tree": ("best_tree", "prio_queue_us"), "dag": ("faster_greedy_dag", "faster_greedy_us"),
                       "exact": ("best_known_dag", None)}[method]
            reference = float(row[columns[0]]) if row else float("nan")
            micros = float(row[columns[1]]) if row and columns[1] else float("nan")
            note = "proven " if result["proven"] and method == "exact" else ""
            if row and worse(cost, reference):
                note += "WORSE "
            elif row and worse(reference, cost):
                note += "better "
            if result["micros"] > micros:
                note += "SLOWER "
            bad += "WORSE" in note or "SLOWER" in note
            print(f"{name[-58:]:58} {method:6} {cost:14.10g} {reference:14.10g} {result['micros']:10.0f} {micros:9.0f} "
                  f"{result['lower_bound']:14.10g} {note}", flush=True)
    print(f"{bad} worse or slower than known")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
