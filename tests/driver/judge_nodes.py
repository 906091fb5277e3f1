#!/usr/bin/env python3
"""Every test that the `onnx` package brings along: the node tests, which it generates, and the models of `simple`,
`pytorch-operator` and `pytorch-converted`. Each is compiled (optimized, and as imported) and run on the CPU and the
reference backend, and every output is compared with the one that the test gives, within its tolerances.

    judge_nodes.py [--filter TEXT] [--jobs N] [--least N] [--every N] [--docs FILE] [--list] [--verbose]

A test passes, or is unsupported for the reason that the compiler gives, or fails: a wrong answer, an error of the run,
a crash, an import that is refused as malformed. Inputs that must be known at compile time (axes, shapes, counts) are
bound to their values when the compiler asks for them; such passes are counted apart. Exit status 1 if a test fails or
fewer than --least pass.
"""
import argparse
import collections
import json
import os
import re
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hyp  # noqa: E402
import numpy as np  # noqa: E402

SECONDS = 60  # of one test
TOGETHER = 32  # tests in one process, of which each takes ten milliseconds to begin
BOUND_ELEMENTS = 64  # inputs of more elements are data, not parameters
SIZED_BY_FIRST = {"Range", "Unique"}  # the size of whose result depends on the first input, whatever its type

Case = collections.namedtuple("Case", "name kind op model sets rtol atol")


# ---- the tests --------------------------------------------------------------------------------------------------


def read_folder(onnx, path):
    """The models' data sets lie in files beside them."""
    model = onnx.load(os.path.join(path, "model.onnx"))
    sets = []
    for data in sorted(d for d in os.listdir(path) if d.startswith("test_data_set")):
        sides = []
        for side, infos in (("input", model.graph.input), ("output", model.graph.output)):
            values = []
            for i, info in enumerate(infos):
                file = os.path.join(path, data, f"{side}_{i}.pb")
                if not os.path.exists(file):
                    break
                with open(file, "rb") as f:
                    values.append(onnx.numpy_helper.to_array(onnx.TensorProto.FromString(f.read())))
            sides.append(values)
        sets.append(tuple(sides))
    return model, sets


def load_cases(onnx):
    from onnx.backend.test import loader
    cases = []
    for t in loader.load_model_tests(kind="node"):
        cases.append(Case(t.name, "node", None, t.model, t.data_sets, t.rtol, t.atol))
    for kind in ("simple", "pytorch-operator", "pytorch-converted"):
        for t in loader.load_model_tests(kind=kind):
            if t.model_dir:
                model, sets = read_folder(onnx, t.model_dir)
                cases.append(Case(t.name, kind, None, model, sets, t.rtol, t.atol))
            else:
                cases.append(Case(t.name, kind, None, t.model, t.data_sets, t.rtol, t.atol))
    ops = {c.name: "+".join(sorted({n.op_type for n in c.model.graph.node})) for c in cases}

    def op_of(c):
        """An expanded test belongs to the operator that it expands."""
        base = re.sub(r"_expanded.*$", "", c.name)
        return ops.get(base, ops[c.name]) if c.kind == "node" else c.kind

    return sorted((c._replace(op=op_of(c)) for c in cases), key=lambda c: (c.kind, c.name))


# ---- one test ---------------------------------------------------------------------------------------------------


def arrays(values):
    """Some tests give scalars of numpy, some the messages that tensors are in a file."""
    from onnx import TensorProto, numpy_helper
    values = [numpy_helper.to_array(v) if isinstance(v, TensorProto) else v for v in values]
    return [np.asarray(v) if isinstance(v, np.generic) else v for v in values]


def is_tensor(value):
    return isinstance(value, np.ndarray) and value.dtype in hyp.CODES


def bindable(model, op, values):
    """Inputs that look like parameters, by name: integers, and few numbers that are not the first input."""
    names = [i.name for i in model.graph.input]
    return {n: v for i, (n, v) in enumerate(zip(names, values))
            if is_tensor(v) and v.size <= BOUND_ELEMENTS and (v.dtype.kind in "iub" or i > 0 or op in SIZED_BY_FIRST)}


def same(actual, wanted, rtol, atol):
    if actual.shape != wanted.shape:
        return f"shape {list(actual.shape)}, wanted {list(wanted.shape)}"
    if actual.dtype != wanted.dtype:
        return f"type {actual.dtype}, wanted {wanted.dtype}"
    if actual.dtype.kind in "iub":
        if np.array_equal(actual, wanted):
            return None
        at = tuple(int(i[0]) for i in np.nonzero(actual != wanted))
        return f"{actual[at]} at {at}, wanted {wanted[at]}"
    # Two units in the last place of 16-bit results, as onnx's own runner allows for bf16: they depend on what is rounded
    # on the way.
    rtol = max(rtol, {"bfloat16": 2.0**-6, "float16": 2.0**-9}.get(actual.dtype.name, 0))
    a, b = actual.astype(np.float64), wanted.astype(np.float64)
    good = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    if good.all():
        return None
    at = tuple(int(i[0]) for i in np.nonzero(~good)) if good.ndim else ()
    return f"{a[at]:.9g} at {at}, wanted {b[at]:.9g} ({int((~good).sum())} of {good.size} differ)"


def run_plan(plan, device, case, inputs, wanted, bound):
    names = [i.name for i in case.model.graph.input]
    with hyp.Engine(plan, device) as engine:
        known = {n.decode() for n in engine.input_names}
        got = engine.run({n: v for n, v in zip(names, inputs) if n in known and n not in bound})
    for i, (a, b) in enumerate(zip(got, wanted)):
        wrong = same(a, np.asarray(b), case.rtol, case.atol)
        if wrong:
            return f"output {i} on {device}: {wrong}"
    return None


def run_set(case, folder, model, inputs, wanted, bound):
    """None, or what is wrong. Raises hyp.Error of the compiler."""
    plan = os.path.join(folder, "plan.bin")
    for no_rewrite in (False, True):
        hyp.compile_model(model, plan, no_rewrite=no_rewrite, bound=bound)
        for device in ("cpu", "reference"):
            try:
                wrong = run_plan(plan, device, case, inputs, wanted, bound)
            except hyp.Error as error:
                wrong = f"on {device}: {error}"
            if wrong:
                return ("as imported, " if no_rewrite else "") + wrong
    return None


def refuse(error):
    kind = "unsupported" if error.status in ("unsupported", "limit") else "fail"
    reason = re.sub(r"^unsupported: [^ ]*model.onnx: ", "", str(error))
    return kind, re.sub(r"; with --custom-domain .*", "", reason)


def run_case(case, folder):
    """(result, detail): pass, bound, unsupported or fail."""
    model = os.path.join(folder, "model.onnx")
    with open(model, "wb") as f:
        f.write(case.model.SerializeToString())
    sets = [(arrays(inputs), arrays(outputs)) for inputs, outputs in case.sets]
    strange = [v for inputs, outputs in sets for v in (*inputs, *outputs) if not is_tensor(v)]
    if strange or not case.sets:
        try:
            hyp.compile_model(model, None)
            return "unsupported", "the test's data is of a type that plans do not have"
        except hyp.Error as error:
            return refuse(error)
    result = "pass"
    for inputs, wanted in sets:
        try:
            wrong = run_set(case, folder, model, inputs, wanted, {})
        except hyp.Error as first:
            bound = bindable(case.model, case.op, inputs)
            if not bound:
                return refuse(first)
            try:
                wrong = run_set(case, folder, model, inputs, wanted, bound)
                result = "bound"
            except hyp.Error as error:
                return refuse(error)
        if wrong:
            return "fail", wrong
    return result, ""


# ---- all of them ------------------------------------------------------------------------------------------------


def start(cases):
    """Runs some tests, one after the other, in a process of their own, which one may take down."""
    file = tempfile.TemporaryFile()
    pid = os.fork()
    if pid:
        return pid, file
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            signal.alarm(SECONDS)
            try:
                result = run_case(case, folder)
            except BaseException as error:  # noqa: BLE001 - a fault of this script is a failure of the test
                result = ("fail", f"{type(error).__name__}: {error}")
            os.write(file.fileno(), json.dumps(result).encode() + b"\n")
            signal.alarm(0)
    os._exit(0)


def finish(cases, file, status):
    """The results, up to the test that took the process down."""
    with file:
        file.seek(0)
        done = [tuple(json.loads(line)) for line in file]
    if len(done) < len(cases):
        how = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        done.append(("fail", f"took more than {SECONDS} s" if how == signal.SIGALRM else f"crashed (signal {how})"))
    return done


def run_all(cases, jobs):
    results, running, waiting = {}, {}, list(reversed(cases))
    while waiting or running:
        while waiting and len(running) < jobs:
            some = [waiting.pop() for _ in range(min(TOGETHER, len(waiting) // jobs + 1))]
            pid, file = start(some)
            running[pid] = (some, file)
        pid, status = os.wait()
        some, file = running.pop(pid)
        done = finish(some, file, status)
        for case, result in zip(some, done):
            results[case.name, case.kind] = result
        waiting.extend(reversed(some[len(done):]))
    return results


def short(reason):
    """A reason without what differs from test to test."""
    reason = re.sub(r"\"[^\"]*\"|'[^']*'", "...", reason)
    return re.sub(r"\s+", " ", reason).replace("|", "/")[:160]


def write_docs(path, cases, results, version):
    by_op = collections.OrderedDict()
    for case in sorted(cases, key=lambda c: (c.kind != "node", c.op)):
        by_op.setdefault(case.op, []).append(results[case.name, case.kind])
    total = collections.Counter(r[0] for r in results.values())
    lines = ["# Operators", "",
             f"What `tests/driver/judge_nodes.py --docs docs/operators.md` found with the tests of onnx {version}, each run",
             "optimized and as imported, on the CPU and the reference backend. *bound*: passes when inputs that must be "
             "known at", "compile time (axes, shapes, counts) are given by `--bind`. A test `X_expanded` counts under X.",
             "Which of them training goes through: [training.md](training.md#what-is-differentiated).",
             "", f"{total['pass'] + total['bound']} of {len(results)} pass ({total['bound']} bound), "
             f"{total['fail']} fail, {total['unsupported']} are unsupported.", "",
             "| operator | tests | pass | bound | fail | unsupported | why |", "|---|---|---|---|---|---|---|"]
    for op, outcomes in by_op.items():
        count = collections.Counter(r[0] for r in outcomes)
        why = collections.Counter(short(r[1]) for r in outcomes if r[0] in ("unsupported", "fail"))
        lines.append(f"| {op} | {len(outcomes)} | {count['pass']} | {count['bound']} | {count['fail']} | "
                     f"{count['unsupported']} | {'; '.join(sorted(why)[:3])} |")
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--filter", default="", help="a regular expression for names of tests or operators")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--least", type=int, default=0)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="run only one test of N")
    parser.add_argument("--docs")
    parser.add_argument("--list", action="store_true", help="print the result of every test")
    args = parser.parse_args()
    onnx = hyp.need("onnx")
    hyp.need("ml_dtypes", "onnx.numpy_helper")
    cases = [c for c in load_cases(onnx) if re.search(args.filter, c.name) or re.search(f"^({args.filter})$", c.op)]
    cases = cases[::args.every]
    for name in ("hypatia", "hypatia-rt"):
        hyp.library(name)
    begin = time.time()
    results = run_all(cases, args.jobs)
    for case in cases:
        result, detail = results[case.name, case.kind]
        if args.list or result == "fail":
            print(f"{result:11} {case.name} [{case.op}] {detail}")
    pairs = [(c, "node") for c, k in results if k == "node" and "_expanded" in c]
    both = sum(results[p][0] in ("pass", "bound") and
               results.get((re.sub(r"_expanded.*$", "", p[0]), "node"), ("",))[0] in ("pass", "bound") for p in pairs)
    total = collections.Counter(r[0] for r in results.values())
    passed = total["pass"] + total["bound"]
    print(f"onnx {onnx.__version__}: {len(results)} tests in {time.time() - begin:.0f} s: {passed} pass "
          f"({total['bound']} with bound inputs), {total['fail']} fail, {total['unsupported']} unsupported; "
          f"{both} of {len(pairs)} expanded tests and their originals agree with the same outputs")
    if args.docs:
        write_docs(args.docs, cases, results, onnx.__version__)
    if passed < args.least:
        print(f"fewer than {args.least} pass")
    sys.exit(total["fail"] > 0 or passed < args.least)


if __name__ == "__main__":
    main()
