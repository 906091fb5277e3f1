#!/usr/bin/env python3
"""Runs egglog programs with hypatia-egraph and, where its Python package is installed, with egglog itself, and says which agree.

    scripts/egglog_tests.py FOLDER|FILE.egg ... [--tool build/release/bin/hypatia-egraph] [--python PYTHON] [--seconds 60]

FOLDER is, say, the folder tests/ of egglog's repository. PYTHON is an interpreter that has egglog (`pip install egglog`). Each
program ends up as one of:

    agree      both run it to the end, so every check and fail in it holds, and what they print is equal
    other text both run it to the end, and what they print differs: told with the first difference
    refused    both refuse it: the program is of another version of egglog
    outside    it needs a part of egglog that docs/egglog.md names as not read
    differ     one runs it and the other does not
    alone      there is no egglog to compare with, and it runs

The exit code is 1 where one differs.
"""
import argparse
import collections
import glob
import json
import os
import re
import subprocess
import sys

JUDGE = r"""
import json, os, sys
from egglog.bindings import EGraph
path = sys.argv[1]
os.chdir(os.path.dirname(os.path.abspath(path)))
try:
    graph = EGraph()
    said = [(type(o).__name__, str(o)) for o in graph.run_program(*graph.parse_program(open(path, encoding="utf-8").read(), path))]
    print(json.dumps({"said": said}))
except BaseException as error:
    print(json.dumps({"error": str(error)}))
"""


def normal(text):
    """Lines of output, those of tables in any order, without the value that a relation has in egglog's."""
    text = re.sub(r"(\([^\n]*\)) -> \1$", r"\1", text, flags=re.M)
    parts = re.split(r"^(\(\n(?: .*\n)*\)\n?)", text, flags=re.M)
    out = []
    for part in parts:
        lines = [line.strip() for line in part.splitlines() if line.strip()]
        out += sorted(lines) if part.startswith("(\n") else lines
    return out


def judge(python, path, seconds):
    """What egglog prints; None where it refuses the program; or it takes too long."""
    try:
        done = subprocess.run([python, "-c", JUDGE, os.path.abspath(path)], capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "timeout", ""
    try:
        answer = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return "timeout", done.stderr[-200:]
    if "error" in answer:
        return "error", answer["error"]
    quiet = ("RunScheduleOutput", "OverallStatistics", "PrintOverallStatistics")
    return "ok", "\n".join(text for kind, text in answer["said"] if kind not in quiet)


def compare(tool, python, path, seconds):
    try:
        ours = subprocess.run([tool, "run", path], capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "differ", f"more than {seconds} s"
    said = re.sub(r"^hypatia-egraph run: ", "", ours.stderr.strip().splitlines()[0] if ours.stderr.strip() else "")
    if ours.returncode == 3:
        return "outside", said.split(": ", 1)[-1]
    if not python:
        return ("alone", "") if ours.returncode == 0 else ("differ", said)
    status, theirs = judge(python, path, seconds)
    if status == "timeout":
        return ("alone", "egglog takes too long") if ours.returncode == 0 else ("differ", said)
    if ours.returncode != 0:
        return ("refused", said) if status == "error" else ("differ", "ours: " + said)
    if status == "error":
        return "differ", "egglog: " + " ".join(theirs.split())[:200]
    a, b = normal(ours.stdout), normal(theirs)
    if a == b:
        return "agree", ""
    first = next((pair for pair in zip(a + [""], b + [""]) if pair[0] != pair[1]), ("", "more"))
    return "other text", f"{first[0][:80]} | {first[1][:80]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--tool", default="build/release/bin/hypatia-egraph")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--seconds", type=float, default=60)
    args = parser.parse_args()
    python = args.python
    if subprocess.run([python, "-c", "import egglog"], capture_output=True).returncode != 0:
        print(f"{python} has no egglog: nothing is compared", file=sys.stderr)
        python = None
    paths = []
    for given in args.programs:
        paths += sorted(glob.glob(os.path.join(given, "**/*.egg"), recursive=True)) if os.path.isdir(given) else [given]
    found = collections.Counter()
    for path in paths:
        kind, why = compare(args.tool, python, path, args.seconds)
        found[kind] += 1
        print(f"{kind:10s} {os.path.basename(path)}{': ' if why else ''}{why}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in found.most_common()))
    return 1 if found["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
