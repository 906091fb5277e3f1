"""Saturation by the e-graph engine, beside egglog's where its Python package is installed.

    taskset -c 1 python3 bench/egraph.py [--bin build/release/bin] [--rounds 5]

Every figure is the least of the rounds, each in a process of its own. `extract` is tree extraction, every e-node costing 1:
ours of all terms together, egglog's of the last one. `touched` is the memory that the process has touched, in pages,
over what it had touched before the first term; `peak` is what the e-graph counts itself. `floor` is the memory accesses
that no engine of this kind can spare: one probe of the hash-cons for each match, as each match asks whether its right
side is there; for each e-node that is there at the end one probe and an index entry for each of two children. It counts
no searching, no union and no repair, so nothing reaches it. `again` is what the next iteration pays before its first
match. egglog runs the same rules and terms in the same run; the sizes of its e-graphs are compared with ours.

The second table says what each thing costs that a language may have beside rules (`bench-egraph --with`): medians of rounds in
turns, over plain ones of the same turns. `fold` learns more than rules say, so that its e-graph is another: its ratios are of
times and bytes per e-node, against the plain run whose e-graph is nearest in size. The third is of small steps, 20,000 each.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
WORKLOADS = [  # name, arguments of bench-egraph, iterations for egglog
    ("math 8", ["math", "-n", "8"], 8),
    ("math 10", ["math", "-n", "10"], 10),
    ("math 11", ["math", "-n", "11"], 11),
    ("sums of 8", ["sums", "-n", "8"], 12),
    ("sums of 10", ["sums", "-n", "10"], 12),
    ("sums of 11", ["sums", "-n", "11"], 12),
    ("sums of 12", ["sums", "-n", "12"], 12),
    ("backoff 30", ["backoff", "-n", "30"], None),
]
EXTRAS = [  # what, arguments of the run with it, and of the plain one
    ("analysis", ["math", "-n", "11"], ["math", "-n", "11"]),
    ("fold", ["math", "-n", "10"], ["math", "-n", "11"]),
    ("condition", ["math", "-n", "11"], ["math", "-n", "11"]),
    ("callback", ["math", "-n", "11"], ["math", "-n", "11"]),
    ("explain", ["math", "-n", "11"], ["math", "-n", "11"]),
]
PROBE, ENTRY = 9e-9, 10e-9  # seconds: of a hash-cons probe, of an index entry; a server core of 2025

# Reads {"program": text, "iterations": n, "term": text}; prints seconds, e-nodes and seconds of extraction.
EGGLOG = r"""
import json, sys, time
from egglog.bindings import EGraph
job = json.load(sys.stdin)
program = EGraph()
def run(text):
    return program.run_program(*program.parse_program(text))
run(job["program"])
begin = time.perf_counter()
run("(run %d)" % job["iterations"])
seconds = time.perf_counter() - begin
size = sum(n for _, n in run("(print-size)")[0].sizes)
begin = time.perf_counter()
run("(extract %s)" % job["term"])
print(json.dumps({"seconds": seconds, "e_nodes": size, "extract": time.perf_counter() - begin}))
"""


def source(name):
    """The C string that is called `name` in egraph.c, as text."""
    with open(os.path.join(HERE, "egraph.c"), encoding="utf-8") as file:
        body = re.search(name + r"(?:\[\])? =\s*\{?(.*?);\n", file.read(), re.S).group(1)
    return re.findall(r'"((?:[^"\\]|\\.)*)"', body)


def read_terms(text):
    """S-expressions as nested lists."""
    stack = [[]]
    for token in re.findall(r"[()]|[^\s()]+", text):
        if token == "(":
            stack.append([])
        elif token == ")":
            stack[-2].append(stack.pop())
        else:
            stack[-1].append(token)
    return stack[0]


NAMES = {"+": "Add", "*": "Mul", "-": "Sub", "/": "Div"}


def egglog_term(term):
    if isinstance(term, str):
        if term.startswith("?"):
            return term[1:]
        return f"(Num {term})" if re.fullmatch(r"-?\d+", term) else f'(Sym "{term}")'
    return f"({NAMES.get(term[0], 'F' + term[0])} {' '.join(map(egglog_term, term[1:]))})"


def operators(term, found):
    if isinstance(term, list):
        found[NAMES.get(term[0], "F" + term[0])] = len(term) - 1
        for kid in term[1:]:
            operators(kid, found)


def egglog_program(rules, terms):
    rules = [(form[2], form[4]) for form in read_terms(" ".join(rules))]
    terms = read_terms(" ".join(terms))
    found = {}
    for term in terms + [side for rule in rules for side in rule]:
        operators(term, found)
    lines = ["(datatype E (Num i64) (Sym String) " +
             " ".join(f"({name}{' E' * arity})" for name, arity in found.items()) + ")"]
    lines += [f"(rewrite {egglog_term(a)} {egglog_term(b)})" for a, b in rules]
    return "\n".join(lines + [egglog_term(t) for t in terms])


def chain(n):
    text = str(n)
    for i in range(n - 1, 0, -1):
        text = f"(+ {i} {text})"
    return [text]


def run_once(tool, arguments):
    return json.loads(subprocess.run([tool, *arguments], check=True, capture_output=True, text=True).stdout)


def run_ours(tool, arguments, rounds):
    return min((run_once(tool, [*arguments, "-r", "1"]) for _ in range(rounds)), key=lambda r: r["seconds"])


def print_extras(tool, rounds):
    """What each extra costs, in turns with plain runs."""
    print(f"\n{'with':12s} {'e-nodes':>8s} {'seconds':>8s} {'ratio':>6s} {'peak':>9s} {'ratio':>6s}")
    for name, arguments, plain in EXTRAS:
        turns = [(run_once(tool, [*plain, "-r", "1"]), run_once(tool, [*arguments, "--with", name, "-r", "1"]))
                 for _ in range(rounds)]
        base, ours = turns[0]
        scale = base["e_nodes"] / ours["e_nodes"]
        seconds = [statistics.median(turn[i]["seconds"] for turn in turns) for i in range(2)]
        print(f"{name:12s} {ours['e_nodes']:8d} {seconds[1]:8.4f} {seconds[1] / seconds[0] * scale:5.2f}x "
              f"{ours['peak_bytes'] / 1e6:6.1f} MB {ours['peak_bytes'] / base['peak_bytes'] * scale:5.2f}x", flush=True)


def print_steps(tool):
    """Milliseconds of many small steps."""
    steps = run_once(tool, [])
    print("\n" + ", ".join(f"{name[:-3].replace('_', ' ')} {value} ms" for name, value in steps.items()
                           if name.endswith("_ms")))


def run_egglog(program, iterations, rounds, nodes):
    """The least seconds of saturation and of extraction."""
    job = json.dumps({"program": program, "iterations": iterations, "term": program.splitlines()[-1]})
    best = None
    for _ in range(rounds):
        out = subprocess.run([sys.executable, "-c", EGGLOG], input=job, capture_output=True, text=True)
        if out.returncode:
            sys.exit("egglog failed: " + out.stderr[-2000:])
        result = json.loads(out.stdout)
        if result["e_nodes"] != nodes:
            sys.exit(f"egglog has {result['e_nodes']} e-nodes, {nodes} were expected")
        now = (result["seconds"], result["extract"])
        best = now if best is None else tuple(map(min, best, now))
    return best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default=os.path.join(HERE, "../build/release/bin"))
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    tool = os.path.join(args.bin, "bench-egraph")
    try:
        import egglog
        version = getattr(egglog, "__version__", "")
        print(f"egglog {version}".rstrip() + " is here")
        peer = True
    except ImportError:
        print("egglog is not installed: its columns are empty")
        peer = False
    math, sums, terms = source("math_rules"), source("sums_rules"), source("math_terms")
    print(f"{'workload':12s} {'e-nodes':>8s} {'seconds':>8s} {'explain':>8s} {'again':>8s} {'extract':>8s} {'peak':>9s} "
          f"{'touched':>9s} {'floor':>8s} | {'egglog':>8s} {'ratio':>6s} {'extract':>8s} {'ratio':>6s}")
    for name, arguments, iterations in WORKLOADS:
        ours = run_ours(tool, arguments + ["--extract"] + (["--again"] if arguments[0] == "math" else []), args.rounds)
        explained = run_ours(tool, arguments + ["--with", "explain"], args.rounds)
        floor = ours["matches"] * PROBE + ours["e_nodes"] * (PROBE + 2 * ENTRY)
        columns = ["", "", "", ""]
        if peer and iterations:
            is_sum = arguments[0] == "sums"
            program = egglog_program(sums if is_sum else math, chain(int(arguments[2])) if is_sum else terms)
            seconds, extract = run_egglog(program, iterations, max(1, args.rounds // 2), ours["e_nodes"])
            columns = [f"{seconds:8.4f}", f"{seconds / ours['seconds']:5.1f}x", f"{extract:8.4f}",
                       f"{extract / ours['extract']:5.1f}x"]
        print(f"{name:12s} {ours['e_nodes']:8d} {ours['seconds']:8.4f} {explained['seconds'] / ours['seconds']:7.2f}x "
              f"{ours.get('again', 0):8.4f} {ours['extract']:8.4f} {ours['peak_bytes'] / 1e6:6.1f} MB "
              f"{ours['touched_bytes'] / 1e6:6.1f} MB {floor:8.4f} | "
              f"{columns[0]:>8s} {columns[1]:>6s} {columns[2]:>8s} {columns[3]:>6s}", flush=True)
    print_extras(tool, args.rounds)
    print_steps(tool + "-steps")


if __name__ == "__main__":
    main()
