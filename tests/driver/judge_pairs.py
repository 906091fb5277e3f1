"""How often rewriting brings an operator and its definition to the same graph: the operator tests of the onnx package come in
pairs test_X and test_X_expanded, the second written out in the operator's own definition. Where both become one graph, the
rules have proven the two writings equal. Prints a table by operator.

    judge_pairs.py [--least N]
"""
import argparse
import collections
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hyp  # noqa: E402

onnx = hyp.need("onnx")


def rewritten(model, path):
    """The graph's text without what says where its parts come from; None where the model is refused."""
    with open(path, "wb") as file:
        file.write(model.SerializeToString())
    done = hyp.tool("hypatiac", path, "--dry-run", "-q", "--dump-ir", "rewrite")
    if done.returncode or "(graph" not in done.stdout:
        return None
    text = re.sub(r'\(graph "(?:[^"\\]|\\.)*"', "(graph", done.stdout)
    text = re.sub(r' :(?:from|rules) \((?:"(?:[^"\\]|\\.)*" ?)*\)', "", text)
    names = {}  # constants have the model's names
    return re.sub(r"%[^\s()]+", lambda m: names.setdefault(m[0], f"%{len(names)}"), text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--least", type=int, default=0)
    args = parser.parse_args()
    from onnx.backend.test import loader
    tests = {t.name: t.model for t in loader.load_model_tests(kind="node")}
    from onnx.backend.test.case.node import collect_testcases
    tests.update({t.name: t.model for t in collect_testcases(None) if t.model})
    counts = collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.onnx")
        for name in sorted(tests):
            plain = re.sub(r"_expanded(_ver\d+)?$", "", name)
            if plain == name or plain not in tests:
                continue
            op = next((n.op_type for n in tests[plain].graph.node), "?")
            one, other = rewritten(tests[plain], path), rewritten(tests[name], path)
            counts[op]["refused" if one is None or other is None else "proven" if one == other else "apart"] += 1
    total = sum(counts.values(), collections.Counter())
    print(f"{'operator':32s} {'proven':>7s} {'apart':>7s} {'refused':>7s}")
    for op in sorted(counts):
        print(f"{op:32s} {counts[op]['proven']:7d} {counts[op]['apart']:7d} {counts[op]['refused']:7d}")
    print(f"{'all ' + str(sum(total.values())) + ' pairs':32s} {total['proven']:7d} {total['apart']:7d} {total['refused']:7d}")
    sys.exit(total["proven"] < args.least)


if __name__ == "__main__":
    main()
