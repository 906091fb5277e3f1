"""egglog programs by hypatia-egraph run, beside egglog itself where its Python package is installed.

    python3 bench/egglog_programs.py [--tool build/release/bin/hypatia-egraph] [--rounds 5]

Seconds are processor time of what runs the program, the least of some rounds in turns, so that other work on the machine does not
count: of ours the whole process, of egglog reading and running the program, without Python. The sizes of all tables are compared.
"""
import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import egraph  # noqa: E402

EGGLOG = r"""
import json, resource, sys
from egglog.bindings import EGraph
program = EGraph()
text = open(sys.argv[1]).read()
begin = resource.getrusage(resource.RUSAGE_SELF)
said = program.run_program(*program.parse_program(text))
end = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"seconds": end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime, "kilobytes": end.ru_maxrss,
                  "sizes": str(said[-1])}))
"""


def path(nodes):
    rules = "(rule ((edge x y)) ((path x y)))\n(rule ((path x y) (edge y z)) ((path x z)))\n"
    return ("(relation edge (i64 i64))\n(relation path (i64 i64))\n" + rules +
            "".join(f"(edge {i} {i + 1})\n" for i in range(nodes)) + "(run 100000)\n(print-size)\n")


def points_to(variables):
    """Andersen's analysis of a program that goes round in circles."""
    facts = "".join(f"(new {i} {i % 97})\n(assign {i} {(i * 7 + 3) % variables})\n(store {i} {(i * 5 + 1) % variables})\n"
                    f"(load {(i * 3 + 2) % variables} {i})\n" for i in range(0, variables, 3))
    rules = ("(rule ((new v o)) ((points v o)))\n(rule ((assign v w) (points w o)) ((points v o)))\n"
             "(rule ((store v w) (points v o) (points w p)) ((heap o p)))\n(rule ((load v w) (points w o) (heap o p)) ((points v p)))\n")
    names = "".join(f"(relation {name} (i64 i64))\n" for name in ("new", "assign", "store", "load", "points", "heap"))
    return names + rules + facts + "(run 100000)\n(print-size)\n"


def programs():
    math, sums, terms = (egraph.source(name) for name in ("math_rules", "sums_rules", "math_terms"))
    for n in (10, 11):
        yield f"math {n}", egraph.egglog_program(math, terms) + f"\n(run {n})\n(print-size)\n"
    yield "sums of 10", egraph.egglog_program(sums, egraph.chain(10)) + "\n(run 12)\n(print-size)\n"
    yield "path of 1000", path(1000)
    yield "points-to", points_to(2000)


def run_ours(tool, file):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([tool, "run", file], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def run_egglog(file):
    done = subprocess.run([sys.executable, "-c", EGGLOG, file], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default=os.path.join(HERE, "../build/release/bin/hypatia-egraph"))
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    peer = subprocess.run([sys.executable, "-c", "import egglog"], capture_output=True).returncode == 0
    if not peer:
        print("egglog is not installed: its columns are empty")
    print(f"{'program':14s} {'rows':>9s} {'seconds':>9s} | {'egglog':>9s} {'ratio':>7s}")
    for name, text in programs():
        with tempfile.NamedTemporaryFile("w", suffix=".egg") as file:
            file.write(text)
            file.flush()
            ours, theirs = [], []
            for _ in range(args.rounds):
                ours.append(run_ours(args.tool, file.name))
                theirs += [run_egglog(file.name)] if peer else []
        rows = sum(map(int, re.findall(r" (\d+)\)", ours[0][1])))
        seconds = min(second for second, _ in ours)
        columns = ["", ""]
        if peer:
            assert theirs[0]["sizes"].split() == ours[0][1].split(), f"{name}: {theirs[0]['sizes']}\n{ours[0][1]}"
            least = min(one["seconds"] for one in theirs)
            columns = [f"{least:9.3f}", f"{least / seconds:6.1f}x"]
        print(f"{name:14s} {rows:9d} {seconds:9.3f} | {columns[0]:>9s} {columns[1]:>7s}", flush=True)


if __name__ == "__main__":
    main()
