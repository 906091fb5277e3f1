"""--max-seconds and Ctrl-C: a search that would take minutes ends early, with a right plan that says so."""
import json
import os
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../support"))
import hyp  # noqa: E402

onnx, np = hyp.need("onnx", "numpy")
from onnx import TensorProto, helper  # noqa: E402

DIGITS = os.path.join(hyp.ROOT, "examples/digits/digits.onnx")
RULES = """(rule swap :class R (add ?x ?y) => (add ?y ?x))
(rule regroup :class R (add (add ?x ?y) ?z) => (add ?x (add ?y ?z)))
"""
TERMS = 24  # all orders of a sum of as many: no machine comes to the end
ENDLESS = ["--max-nodes", "100000000", "--max-iterations", "100000000"]


def run(*command, code=0):
    done = hyp.tool(*command)
    assert done.returncode == code, f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}{done.stdout}"
    return done


def flags_of(plan):
    return json.loads(run("hypatia", "inspect", plan, "--json").stdout)["flags"]


def sum_model(path, product=0):
    """A sum of many inputs and, besides it, a product of square matrices."""
    nodes = [helper.make_node("Add", ["x0" if i == 1 else f"s{i - 1}", f"x{i}"], [f"s{i}"], name=f"add{i}")
             for i in range(1, TERMS)]
    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, [8]) for i in range(TERMS)]
    outputs = [helper.make_tensor_value_info(f"s{TERMS - 1}", TensorProto.FLOAT, [8])]
    if product:
        nodes.append(helper.make_node("MatMul", ["a", "b"], ["ab"]))
        inputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, [product, product]) for name in "ab"]
        outputs.append(helper.make_tensor_value_info("ab", TensorProto.FLOAT, [product, product]))
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", inputs, outputs),
                                opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def is_right(plan, model):
    assert run("hypatia", "verify", plan, "--model", model).stdout.endswith("PASSED\n")


def check_seconds(folder, model, rules):
    plan = os.path.join(folder, "p.bin")
    for seconds, more in (("0.05", []), ("0.3", []), ("0.000000001", []), ("0.05", ["--verify", "strict"]),
                          ("0.05", ["--explain", "add3"]), ("0.05", ["--why-not", "regroup"])):
        reason = f"stopped by --max-seconds {float(seconds):g}"
        done = run("hypatiac", model, "-o", plan, "--rules", rules, *ENDLESS, "--max-seconds", seconds, "--stats", *more)
        if "--verify" in more:
            assert "\nverified" in done.stdout and "not verified" not in done.stdout, done.stdout
        elif not more:
            assert f"not verified: {reason}" in done.stdout, done.stdout
        assert ("least cost not proven" in done.stdout) and "time limit" in done.stdout, done.stdout
        assert more and more[0] != "--verify" or f"\n{reason}: " in done.stdout, done.stdout
        assert flags_of(plan)[-1] == reason, flags_of(plan)
        is_right(plan, model)
        os.unlink(plan)

    # Time that is not up changes nothing; none at all leaves a plan of the model as it is.
    other = os.path.join(folder, "other.bin")
    run("hypatiac", DIGITS, "-o", plan, "-q")
    done = run("hypatiac", DIGITS, "-o", other, "--max-seconds", "1000")
    assert "stopped" not in done.stdout, done.stdout
    with open(plan, "rb") as a, open(other, "rb") as b:
        assert a.read() == b.read()
    run("hypatiac", DIGITS, "-o", other, "--max-seconds", "1e-9")
    is_right(other, DIGITS)
    for wrong in ("0", "-1", "nan", "soon"):
        assert "--max-seconds" in run("hypatiac", model, "-o", plan, "--max-seconds", wrong, code=2).stderr


def wait_for(process, word):
    """Until a pass says that it is done."""
    for line in process.stderr:
        if line.startswith(word):
            return
    raise AssertionError(f"no {word}: the compilation ended with {process.wait()}")


def check_interrupting(folder, model, rules):
    empty = os.path.join(folder, "empty")
    os.mkdir(empty)
    plan = os.path.join(empty, "p.bin")

    def start(model, *more):
        return subprocess.Popen([os.path.join(hyp.BIN, "hypatiac"), model, "-o", plan, "--rules", rules, *ENDLESS, "-v", *more],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    process = start(model)
    wait_for(process, "demote")  # it searches
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0 and "\ninterrupted: " in out and "not verified: interrupted" in out, (process.returncode, out, err)
    assert flags_of(plan)[-1] == "interrupted", flags_of(plan)
    is_right(plan, model)
    os.unlink(plan)

    # The second one comes while the first one's plan is verified, which takes the interpreter seconds.
    slow = os.path.join(folder, "slow.onnx")
    sum_model(slow, 640)
    process = start(slow, "--verify", "strict")
    wait_for(process, "demote")
    process.send_signal(signal.SIGINT)
    wait_for(process, "lower")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGINT, process.returncode
    assert os.listdir(empty) == [], os.listdir(empty)


def main():
    with tempfile.TemporaryDirectory() as folder:
        model, rules = os.path.join(folder, "m.onnx"), os.path.join(folder, "my.rules")
        sum_model(model)
        with open(rules, "w") as file:
            file.write(RULES)
        check_seconds(folder, model, rules)
        check_interrupting(folder, model, rules)


main()
