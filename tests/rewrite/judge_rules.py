"""Every rule on its cases and on their neighbours, judged by numpy: tests/support/exact.py, which shares nothing with the
compiler. `rule_graphs` writes each graph with and without the rule; values are drawn over the whole range of the types.

The classes promise what docs/rules.md says, and are held to it element by element: the bits under E and Z (of sums the same
terms, in whatever order), the bound (64 + 2 n) u T under R, where nothing has left the range. A value that IEEE arithmetic
determines keeps its bits under every class where a function that jumps reads it (floor, a cast to integers, a comparison).

    judge_rules.py [--trials 4] [--first 0]       --trials 100 for a long run
    judge_rules.py --only LINE:SEED -v            one trial again, with both graphs
    judge_rules.py --mutants [--trials 2]         rules with one thing wrong: which of them nothing notices. Every change
                                                  of every case is tried so often
    judge_rules.py --mutants --part 3 --of 20     every 20th of them"""
import argparse
import collections
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hyp  # noqa: E402

np = hyp.need("numpy", "ml_dtypes")[0]
import exact as X  # noqa: E402
from exact import L, T  # noqa: E402

ROOM = {"f16": np.inf, "bf16": 2.0 ** 30, "f32": 2.0 ** 30, "f64": 2.0 ** 300}  # sizes of variables under class R
VIEWS = {"reshape", "flatten", "squeeze", "unsqueeze"}
ARITHMETIC = {"add", "sub", "mul", "div", "min", "max", "pow"}
UNARY = {"relu", "neg", "abs", "sqrt", "hard-swish", "leaky-relu", "elu", *X.FUNCTIONS, *X.JUMPS}


def read_tensor(text):
    t, shape, data = text
    return X.tensor(t, np.frombuffer(bytes.fromhex(data), X.TYPES[t]).reshape(shape))


def read_constant(text):
    y = read_tensor(text)
    return X.constant(y.t, y.x)


def move(op, a, ins, outs, types):
    """Operators that only move elements; a list of outputs."""
    x = ins[0]
    shape = types[0][1]
    if op in ("identity", "dropout"):
        return [x]
    if op in VIEWS:
        return [x.move(lambda v: np.reshape(v, shape))]
    if op == "expand":
        return [x.move(lambda v: np.broadcast_to(v, shape))]
    if op == "transpose":
        return [x.move(lambda v: np.transpose(v, a["perm"]))]
    if op == "concat":
        parts = [[getattr(i, f) for i in ins] for f in ("x", "v", "s")]
        return [T(x.t, *[np.concatenate(p, a["axis"]) for p in parts], all(i.d for i in ins))]
    if op == "split":
        at = np.cumsum(a["sizes"])[:-1]
        parts = [np.split(getattr(x, f), at, a["axis"]) for f in ("x", "v", "s")]
        return [T(x.t, *p, x.d) for p in zip(*parts)]
    if op == "slice":
        index = [np.arange(n) * t + s for s, n, t in zip(a["starts"], a["sizes"], a["steps"])]
        return [x.move(lambda v: v[np.ix_(*index)] if index else v)]
    if op == "gather":
        return [x.move(lambda v: np.take(v, ins[1].x, a["axis"]))]
    if op == "pad":
        pads, value = list(zip(a["before"], a["after"])), ins[1]
        f = [np.pad(getattr(x, f), pads, constant_values=getattr(value, f)) for f in ("x", "v", "s")]
        return [T(x.t, *f, x.d and value.d)]
    if op == "shape":
        return [X.tensor("i64", np.array(x.shape))]
    if op == "size":
        return [X.tensor("i64", np.array(x.x.size))]
    if op == "range":
        return [X.tensor(x.t, ins[0].x + np.arange(types[0][1][0]) * ins[1].x)]
    return None


def product(op, a, ins, types):
    if op == "linear":
        return X.linear(*ins).done()
    if op == "fused-linear":
        return X.linear(*ins).done(a["act"])
    if op == "fused-linear-add":
        w, b, r, x = ins
        if a["add"] == "before":
            return X.linear(w, b, x).plus(r).done(a["act"])
        return X.binary("add", X.linear(w, b, x).done(a["act"]), r)
    if op == "fused-mlp":
        x = ins[-1]
        for i, act in enumerate(a["acts"]):
            x = X.linear(ins[2 * i], ins[2 * i + 1], x).done(act)
        return x
    if op in ("matmul", "gemm"):
        p, q = ins[:2]
        p = X.swap(p) if a["trans-a"] and len(p.shape) > 1 else p
        q = X.swap(q) if a["trans-b"] and len(q.shape) > 1 else q
        y = X.matmul(p, q).times(a["alpha"])
        if op == "matmul" or len(ins) < 3 or ins[2] is None or a["beta"] == 0:
            return y.done()
        c = ins[2]
        if not c.real:
            return y.plus(X.whole(c.t, c.x * int(a["beta"]), c.d)).done()
        beta = L(a["beta"])
        return y.plus(T(c.t, X.wide(c.x) * beta, c.v * beta, c.s * abs(beta), False)).done()
    if op == "attention":
        mask = ins[3] if len(ins) > 3 else None
        return X.attention(*ins[:3], mask, a["trans-k"], a["rows-first"], a["scale"], a["fill"], a["shown"],
                           a["softmax"])
    if op == "conv":
        ins = list(ins) + [None] * (4 - len(ins))
        return X.conv(*ins, a["strides"], a["pads"], a["dilations"], a["group"], a["act"], a["slope"])
    if op in ("layer-norm", "rms-norm"):
        return X.norm(ins[0], a["axis"], a["epsilon"], *ins[1:], centre=op == "layer-norm") if op == "layer-norm" else \
            X.norm(ins[0], a["axis"], a["epsilon"], *(list(ins[1:]) + [None] * (2 - len(ins))), centre=False)
    return None


def run_node(op, a, ins, outs, types):
    moved = move(op, a, ins, outs, types)
    if moved is not None:
        return moved
    if op in ARITHMETIC:
        if op == "pow" and (not ins[0].real or ins[0].t != ins[1].t):
            raise X.Unsupported("pow of two types")
        return [X.binary(op, *ins)]
    if op in UNARY:
        return [X.unary(op, ins[0], **a)]
    if op == "clip":
        return [X.clip(ins[0], a["min"], a["max"])]
    if op == "cast":
        return [X.cast(ins[0], a["to"])]
    if op in ("equal", "less", "less-equal"):
        return [X.compare(op, *ins)]
    if op in ("and", "or", "xor"):
        return [X.bits(op, *ins)]
    if op == "not":
        return [T(ins[0].t, ~ins[0].x, None, None, ins[0].d)]
    if op == "where":
        return [X.choose(*ins)]
    if op == "softmax":
        return [X.softmax(ins[0], a["axis"])]
    if op == "softmax-gradient":
        return [X.softmax_gradient(*ins, a["axis"])]
    if op == "linear-gradient":
        return X.linear_gradient(*ins, a["turned"])
    if op == "attention-gradient":
        return X.attention_gradient(*ins, *[None] * (6 - len(ins)), a["rows-first"], a["scale"], a["fill"], a["shown"])
    if op.startswith("reduce-"):
        return [X.reduce(op[7:], ins[0], a["axes"], a["keep"])]
    y = product(op, a, ins, types)
    if y is None:
        raise X.Unsupported(op)
    return [y]


def run_graph(graph, inputs):
    values = {int(i): read_constant(t) for i, t in graph["consts"].items()}
    values.update(zip(graph["inputs"], inputs))
    for op, attrs, ins, outs, types in graph["nodes"]:
        made = run_node(op, attrs, [None if i is None else values[i] for i in ins], outs, types)
        for to, value, (t, shape) in zip(outs, made, types):
            if value.t != t or list(value.shape) != shape:
                raise AssertionError(f"{op} made {value.t}{list(value.shape)}, the graph says {t}{shape}")
            values[to] = value
    return [values[i] for i in graph["outputs"]]


def same_bits(a, b, zeros):
    """Where two arrays have the same bits, or both are NaN; zeros: of whatever sign."""
    if a.dtype.kind not in "fV":
        return a == b
    p, q = X.wide(a), X.wide(b)
    equal = (p == q) | (np.isnan(p) & np.isnan(q))
    return equal if zeros else equal & (np.isnan(p) | (np.signbit(p) == np.signbit(q)))


def within(kind, before, after, units, promised):
    """Where an element is as near as the class wants."""
    same = same_bits(before.x, after.x, kind != "E")
    if not before.real and kind in "RA":  # behind a jump, what is not determined may be any integer
        return same | ~np.isfinite(before.s)
    if not before.real or kind in "EZ":
        return same
    b, a = X.wide(before.x), X.wide(after.x)
    if kind == "N":
        return same | np.isnan(a) | np.isnan(b)
    ok = same | (np.abs(a - before.v) <= units * X.UNIT[before.t] * before.s) | (not promised)
    if kind == "A":
        most = np.max(np.abs(b[np.isfinite(b)]), initial=1)
        ok |= np.abs(a - b) <= 1e-3 * most
    return ok


def in_room(values):
    """Whether class R speaks of such variables."""
    return all(np.all((v.x == 0) | (np.abs(v.v) <= ROOM[v.t]) & (np.abs(v.v) >= 1 / L(ROOM[v.t])))
               for v in values if v.real)


def judge(trial, tally):
    """What is wrong, or None."""
    inputs = [read_tensor(t) for t in trial["inputs"]]
    X.tally = X.Tally()
    try:
        before = run_graph(trial["before"], inputs)
        finite = X.tally.finite
        after = run_graph(trial["after"], inputs)
    except X.Unsupported as reason:
        tally[f"not judged: {reason}"] += 1
        return None
    units, promised = 64 + 2 * X.tally.longest, finite and in_room(inputs)
    tally["judged" if promised or trial["class"] in "EZN" else "judged where a bit of it was promised"] += 1
    for i, (b, a) in enumerate(zip(before, after)):
        if b.t != a.t or b.shape != a.shape:
            return f"output {i}: the results differ in type"
        kind = trial["class"]
        if b.d and jumps(trial["before"], i) and kind != "A":
            kind = "E"
        ok = within(kind, b, a, units, promised)
        if np.all(ok):
            continue
        at = tuple(int(k[0]) for k in np.nonzero(~ok))
        exactly = f", exactly {b.v[at]:.10g} within {units * X.UNIT[b.t] * b.s[at]:.3g}" if b.real and kind in "RA" else ""
        return (f"output {i}{list(at)} ({b.t}) is {b.x[at]!s}, with the rule {a.x[at]!s}{exactly}; "
                f"{int(np.sum(~ok))} of {b.x.size}")
    return None


def jumps(graph, output):
    made = [n for n in graph["nodes"] if graph["outputs"][output] in n[3]]
    return bool(made) and (made[0][0] in X.JUMPS or made[0][0] in ("equal", "less", "less-equal", "where") or
                           made[0][0] == "cast" and made[0][1]["to"] not in X.FLOATS)


def show(graph):
    for value, (t, shape, _) in graph["consts"].items():
        print(f"    {value}: {t}{shape}", np.array2string(read_tensor(graph["consts"][value]).x, threshold=40))
    for op, attrs, ins, outs, types in graph["nodes"]:
        print(f"    {outs} = {op} {attrs} {ins}  {types}")


def trials(args):
    run = subprocess.Popen([os.path.join(hyp.BIN, args.program), *args.arguments], stdout=subprocess.PIPE, text=True)
    for line in run.stdout:
        yield json.loads(line)
    if run.wait() != 0:
        sys.exit(f"{args.program} ended with {run.returncode}")


# Conditions that say where a rule is of use, or keep it from feeding itself. A mutant without one is right: it is applied
# to more, and what it makes of that is judged. A rule's name before the condition's: of that rule only.
STEERING = {
    "const": "only what is computed when the plan is written may cost more",
    "not const": "constants are computed when the plan is written; rules about them would only make more of them",
    "stored": "composed and merged weights are not composed and merged again: their number would grow without end",
    "stored-scaled": "weights that rules made are not merged again: their number would grow without end",
    "merge-linears or": "weights that rules made are not merged again: their number would grow without end",
    "merge-linears-bias or": "weights that rules made are not merged again: their number would grow without end",
    "merge-fused-linears or": "weights that rules made are not merged again: their number would grow without end",
    "merge-convs or": "weights that rules made are not merged again: their number would grow without end",
    "merge-convs-bias or": "weights that rules made are not merged again: their number would grow without end",
    "merge-mixed-convs or": "weights that rules made are not merged again: their number would grow without end",
    "merge-grouped-convs or": "weights that rules made are not merged again: their number would grow without end",
    "merge-grouped-convs-bias or": "weights that rules made are not merged again: their number would grow without end",
    "merge-mixed-grouped-convs or": "weights that rules made are not merged again: their number would grow without end",
    "mixed": "where all have biases, or none has, the other rules merge them",
    "joined": "weights that rules made are not merged again: their number would grow without end",
    "given": "a slice of an input costs nothing; what rules know of a computed value is not to be hidden",
    "before": "a pair is met once, not twice",
    "gathers-right": "products in a row are grouped in one way, not in all",
    "gathers-left": "products in a row are grouped in one way, not in all",
    "reorder-matmuls or": "an alpha goes into a constant beside it first: each place for it would make a constant of its own",
    "reorder-matmuls-rev or": "an alpha goes into a constant beside it first: each place for it would make a constant of its own",
    "reorder-matmuls rank-at-least": "vectors stay where they are: products of matrices are regrouped",
    "reorder-matmuls-rev rank-at-least": "vectors stay where they are: products of matrices are regrouped",
    "not same": "the other rule of the pair, or none, is for these",
    "scale-out-left single": "numbers go outward; a vector stays where a product can take it in",
    "scale-out-right single": "numbers go outward; a vector stays where a product can take it in",
    "factor-out near": "only the cubic of an activation is written in the other form",
    "matmul-weight-alpha rank-is": "only a matrix becomes a linear, which has no alpha",
    "matmul-weight-trans-a rank-is": "only a matrix becomes a linear, which has no flag for x",
}
# A class that promises more than the interpreter and numpy can refute: what tells it apart is what devices do with these.
ROUNDS = {"linear", "matmul", "conv", "attention", "attention-gradient", "linear-gradient", "softmax-gradient",
          "fused-linear", "fused-linear-add", "fused-mlp", "layer-norm", "rms-norm",
          "softmax", "reduce-sum", "reduce-mean", *X.FUNCTIONS}
CHOOSES = {"relu", "clip", "min", "max", "fused-linear", "fused-linear-add", "fused-mlp", "conv"}
CLASSES = {
    "class E": (ROUNDS | CHOOSES, "kernels of devices round at other places, or take 0 for -0: the tests of the backends compare "
                                  "them with the reference up to a bound"),
    "class Z": (CHOOSES, "kernels of devices may drop a NaN: the tests of the backends draw none where they compare"),
}
RIGHT = {
    "concat-flat-parts ": "a vector has one axis",
    "add-products-biases present": "what is not there is not addable",
    "softplus class": "where exp overflows the original is infinite, of which class R promises nothing; other numbers are class A",
    "gather-range all-equal": "of integers none is within that of another",
}


def survived(mutant, fired, operators):
    """Why a mutant is let live: (a word for the score, the reason)."""
    beyond, dropped = fired or mutant["beyond"], mutant["dropped"]
    own = f"{mutant['rule']} {dropped}"
    if own in RIGHT:
        return "equal", RIGHT[own]
    steers = STEERING.get(own) or STEERING.get(dropped)
    if steers and beyond:
        return "steers", steers
    if dropped == "class" and mutant["mutant"] in CLASSES and operators & CLASSES[mutant["mutant"]][0]:
        return "class", CLASSES[mutant["mutant"]][1]
    if mutant["class"] == "A" and mutant["mutant"].startswith("within"):
        return "equal", "class A promises no more than that"
    if beyond:
        return "left", "it is applied to more, and that is right: a condition to delete"
    return "left", "it is never applied to more than the rule: no case goes beyond the condition, or others imply it"


WORDS = {"steers": "right, but of no use", "class": "a class that only devices tell apart", "equal": "the same rule",
         "left": "left"}


def operators(trial):
    return {node[0] for side in ("before", "after") for node in trial[side]["nodes"]}


def judge_mutants(args):
    tally, wrong, score = collections.Counter(), {}, collections.Counter()
    fired, seen = collections.Counter(), collections.defaultdict(set)
    for line in trials(args):
        if "before" in line:
            if line["mutant"] not in wrong:
                fired[line["mutant"]] += 1
                seen[line["mutant"]] |= operators(line)
                reason = attempt(line, tally)
                if reason:
                    wrong[line["mutant"]] = reason
            continue
        serial = line["serial"]
        killed = line["killed"] or wrong.get(serial)
        kind, reason = ("killed", killed) if killed else survived(line, fired[serial], seen[serial])
        score[kind] += 1
        if kind != "killed" or args.v:
            print(f"{kind}: {line['file']}.rules:{line['line']}: {line['rule']}: {line['mutant']}: {reason}")
    total = sum(score.values())
    explained = ", ".join(f"{WORDS[k]}: {score[k]}" for k in WORDS if k != "left")
    print(f"{total} mutants; killed: {score['killed']}; explained: {total - score['killed'] - score['left']} ({explained}); "
          f"left: {score['left']}")
    return 0 if total and score["left"] <= args.most and score["killed"] >= args.least * total else 1


def attempt(trial, tally):
    try:
        return judge(trial, tally)
    except Exception as error:  # the oracle's own mistake
        return f"the oracle fails: {type(error).__name__}: {error}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", help="LINE:SEED of a trial")
    parser.add_argument("-v", action="store_true")
    parser.add_argument("--mutants", action="store_true")
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--of", type=int, default=1)
    parser.add_argument("--least", type=float, default=0, help="the part of the mutants that is to be killed")
    parser.add_argument("--most", type=int, default=0, help="how many mutants may be left without a reason")
    args = parser.parse_args()
    if args.mutants:
        args.program, args.arguments = "rule_mutants", [str(args.trials or 1), str(args.part), str(args.of)]
        return judge_mutants(args)
    args.program, args.arguments = "rule_graphs", [str(args.trials or 4), str(args.first)]
    tally, failed, rules = collections.Counter(), 0, set()
    for trial in trials(args):
        if args.only and args.only != f"{trial['line']}:{trial['seed']}":
            continue
        rules.add(trial["rule"])
        wrong = attempt(trial, tally)
        if wrong:
            failed += 1
            print(f"FAILED rules.cases:{trial['line']}: {trial['rule']}, class {trial['class']}, seed {trial['seed']}: {wrong}")
        if args.v:
            for t in trial["inputs"]:
                print(f"  input {t[0]}{t[1]}", np.array2string(read_tensor(t).x, threshold=40))
            print("  without the rule:")
            show(trial["before"])
            print("  with it:")
            show(trial["after"])
    for what, count in sorted(tally.items()):
        print(f"{what}: {count}")
    print(f"{len(rules)} rules, {failed} failures")
    return 1 if failed or not rules else 0


if __name__ == "__main__":
    sys.exit(main())
