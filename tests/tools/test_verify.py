#!/usr/bin/env python3
"""Verification as users see it: plans of wrong rules are refused and the rule is named, right ones pass in every
precision, and `hypatia verify` says how far a plan is from its model."""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hyp  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper, save  # noqa: E402

MODEL = os.path.join(hyp.ROOT, "examples/digits/digits.onnx")
F32 = TensorProto.FLOAT


def make(path, nodes, inputs, outputs, constants=None):
    """A model of (op, inputs, output[, attributes]); inputs and outputs are name -> dims, or name -> (type, dims)."""
    def info(name, spec):
        return helper.make_tensor_value_info(name, *(spec if isinstance(spec, tuple) else (F32, spec)))

    graph = helper.make_graph(
        [helper.make_node(n[0], n[1], [n[2]], name=f"{n[0]}_{i}", **(n[3] if len(n) > 3 else {})) for i, n in enumerate(nodes)],
        "g", [info(*i) for i in inputs.items()], [info(*o) for o in outputs.items()],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


def f32(*values):
    return np.array(values, np.float32)


SQUARE = {"x": [4, 4], "w": [4, 4]}

# What is wrong, the rule, the model that it fires in.
WRONG = [
    ("a sign", "E", "(sub (neg ?a) ?b) => (sub ?a ?b)", [],
     ([("Neg", ["a"], "n"), ("Sub", ["n", "b"], "y")], {"a": ["n", 8], "b": ["n", 8]}, {"y": ["n", 8]})),
    ("an axis", "R", "(reduce-sum :axes (1) :keep 0 (transpose :perm (1 0) ?x)) => (reduce-sum :axes (1) :keep 0 ?x)", [],
     ([("Transpose", ["x"], "t"), ("ReduceSum", ["t", "axes"], "y", {"keepdims": 0})], {"x": [6, 6]}, {"y": [6]},
      {"axes": np.array([1])})),
    ("a missing condition", "E", "(sqrt (mul ?x ?x)) => ?x", [],
     ([("Mul", ["x", "x"], "s"), ("Sqrt", ["s"], "y")], {"x": ["n", 8]}, {"y": ["n", 8]})),
    ("an overflow", "R",
     "(add (log (reduce-sum :axes ?a :keep ?k (exp (sub ?x ?m)))) ?m) => (log (reduce-sum :axes ?a :keep ?k (exp ?x)))", [],
     ([("ReduceMax", ["x"], "m", {"axes": [1]}), ("Sub", ["x", "m"], "d"), ("Exp", ["d"], "e"),
       ("ReduceSum", ["e", "axes"], "s"), ("Log", ["s"], "l"), ("Add", ["l", "m"], "y")],
      {"x": ["n", 8]}, {"y": ["n", 1]}, {"axes": np.array([1])})),
    ("a class too low", "E", "(add (add ?x ?a) ?b) => (add ?x (add ?a ?b)) :if (and (const ?a) (const ?b))",
     ["--no-builtin-rules"],
     ([("Add", ["x", "a"], "s"), ("Add", ["s", "b"], "y")], {"x": ["n", 8]}, {"y": ["n", 8]},
      {"a": f32(0.1), "b": f32(0.7)})),
    ("NaN scrubbing lost", "E", "(where (equal ?x ?x) ?x ?z) => ?x", [],
     ([("Equal", ["x", "x"], "c"), ("Where", ["c", "x", "z"], "s"), ("MatMul", ["s", "w"], "y")],
      {"x": ["n", 8]}, {"y": ["n", 3]}, {"z": f32(0), "w": np.arange(24, dtype=np.float32).reshape(8, 3) / 24})),
    ("the boundary of a floor", "E", "(floor (add ?x ?h)) => (round ?x) :if (all-equal ?h 0.5)", [],
     ([("Add", ["x", "h"], "s"), ("Floor", ["s"], "y")], {"x": ["n", 64]}, {"y": ["n", 64]}, {"h": f32(0.5)})),
    ("a column for a row", "E", "(add ?x (transpose :perm (1 0) ?b)) => (add ?x ?b)",
     ["--no-builtin-rules"],
     ([("MatMul", ["x", "w"], "p"), ("Transpose", ["b"], "t"), ("Add", ["p", "t"], "y")], {**SQUARE, "b": [4, 1]},
      {"y": [4, 4]})),
    ("a square weight transposed", "E", "(matmul ?x (transpose :perm (1 0) ?w)) => (matmul ?x ?w)",
     ["--no-builtin-rules"],
     ([("Transpose", ["w"], "t"), ("MatMul", ["x", "t"], "y")], SQUARE, {"y": [4, 4]})),
    ("an epsilon dropped", "R", "(div ?x (sqrt (add ?v ?e))) => (div ?x (sqrt ?v)) :if (all-equal ?e 0.00001)",
     ["--no-builtin-rules"],
     ([("Mul", ["x", "x"], "q"), ("ReduceMean", ["q"], "v", {"axes": [1]}), ("Add", ["v", "e"], "a"),
       ("Sqrt", ["a"], "r"), ("Div", ["x", "r"], "y")], {"x": ["n", 8]}, {"y": ["n", 8]}, {"e": f32(1e-5)})),
]


def compile(*args):
    return hyp.tool("hypatiac", *args)


def check_wrong_rules(folder):
    for i, (what, numeric_class, rule, options, model) in enumerate(WRONG):
        path, plan, rules = (os.path.join(folder, f"wrong{i}{e}") for e in (".onnx", ".bin", ".rules"))
        name = "wrong-" + what.replace(" ", "-").lower()
        make(path, *model)
        with open(rules, "w") as file:
            file.write(f'(rule {name} :class {numeric_class} :doc "wrong" {rule})\n')
        reduced = os.path.join(folder, f"reduced{i}.onnx")
        done = compile(path, "-o", plan, "--rules", rules, "--verify", "strict", "--reduced", reduced, *options)
        print(f"{what}: {done.stderr.strip()}")
        assert done.returncode == 4, (what, done.stdout, done.stderr)
        assert f"to blame is the rule '{name}'" in done.stderr, (what, done.stderr)
        assert "wanted" in done.stderr and not os.path.exists(plan), done.stderr
        check_reduced(reduced, name, rules, options, len(model[0]))
        warned = compile(path, "-o", plan, "--rules", rules, "--verify", "warn", *options)
        assert warned.returncode == 0 and "WRONG: output" in warned.stderr and os.path.exists(plan), warned
        os.remove(plan)
        silent = compile(path, "-o", plan, "--rules", rules, "--verify", "off", *options)
        assert silent.returncode == 0 and "not verified" in silent.stdout and silent.stderr == "", silent
        right = compile(path, "-o", plan, "--verify", "strict", *options)
        assert right.returncode == 0 and "verified: strict" in right.stdout, right


def check_widened(folder):
    """A filter that was widened multiplies infinities beside its window by zeros, which is what class R allows."""
    path, plan, dear = (os.path.join(folder, "widened" + e) for e in (".onnx", ".bin", ".profile"))
    with open(dear, "w") as file:
        file.write("(profile dear (like cpu) (launch-seconds 1e-3))")
    draw = np.random.default_rng(0).standard_normal
    make(path, [("Conv", ["x", "u"], "a"), ("Conv", ["x", "v"], "b", {"pads": [2, 2, 2, 2]}),
                ("Concat", ["b", "a"], "y", {"axis": 1})], {"x": [2, 3, 9, 8]}, {"y": [2, 8, 9, 8]},
         {"u": draw((4, 3, 1, 1), np.float32), "v": draw((4, 3, 5, 5), np.float32)})
    done = compile(path, "-o", plan, "--verify", "strict", "--profile", dear)
    assert done.returncode == 0 and "by widen-conv" in done.stdout, done
    assert "verified: strict, 3 samples" in done.stdout and "undecided: " in done.stdout, done.stdout
    judged = hyp.tool("hypatia", "verify", plan, "--model", path, "--device", "cpu")
    assert judged.returncode == 0 and judged.stdout.endswith("PASSED\n"), judged


def check_grouped_relu(folder):
    """Groups of several filters are products to oneDNN, whose relu makes NaN of -inf unless it is kept from it."""
    path, plan = os.path.join(folder, "grouped.onnx"), os.path.join(folder, "grouped.bin")
    make(path, [("Conv", ["x", "w"], "c", {"group": 8, "pads": [0, 0, 1, 1], "strides": [2, 2]}), ("Relu", ["c"], "y")],
         {"x": [2, 8, 7, 14]}, {"y": [2, 32, 4, 7]},
         {"w": np.random.default_rng(0).standard_normal((32, 1, 2, 2), np.float32)})
    for target in "cpu:generic", "cpu:avx2", "cpu:avx512":
        done = compile(path, "-o", plan, "--verify", "strict", "--target", target)
        assert done.returncode == 0 and "by conv-relu" in done.stdout, (target, done)


def check_reduced(path, rule, rules, options, most):
    """A reduced model is one that ONNX knows, and shows the same with the same options; returns its nodes."""
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert 1 <= len(model.graph.node) <= most, (options, [n.name for n in model.graph.node])
    done = compile(path, "--dry-run", "--rules", rules, "--verify", "strict", *options)
    assert done.returncode == 4 and f"to blame is the rule '{rule}'" in done.stderr, done
    return [n.name for n in model.graph.node]


def check_node(folder):
    """A wrong rule in the middle of a deep model: the node is named, and what is left of the model is next to nothing."""
    path, rules, reduced, plan = (os.path.join(folder, "deep" + e) for e in (".onnx", ".rules", ".reduced.onnx", ".bin"))
    nodes, last = [], "x"
    for i in range(20):
        nodes += [("MatMul", [last, f"w{i}"], f"m{i}"), ("Tanh", [f"m{i}"], f"t{i}")]
        last = f"t{i}"
        if i == 10:
            nodes += [("Neg", [last], "n"), ("Sub", ["n", "b"], "s")]
            last = "s"
    weights = np.random.default_rng(0).standard_normal((20, 8, 8)).astype(np.float32) / 3
    model = (nodes, {"x": ["n", 8], "b": [8], "k": ["k", 8]}, {"y": ["n", 8], "z": ["k", 8]},
             {f"w{i}": weights[i] for i in range(20)})
    nodes += [("Softmax", [last], "y"), ("Add", ["k", "k"], "z")]
    make(path, *model)
    with open(rules, "w") as file:
        file.write('(rule wrong :class E :doc "wrong" (sub (neg ?a) ?b) => (sub ?a ?b))\n')
    np.save(os.path.join(folder, "x.npy"), np.ones((3, 8), np.float32))
    np.save(os.path.join(folder, "b.npy"), np.ones(8, np.float32))
    np.save(os.path.join(folder, "k.npy"), np.ones((2, 8), np.float32))
    given = [f"{i}=@{folder}/{i}.npy" for i in ("x", "b", "k")]
    # Options that name inputs and sizes which nothing needs keep them: the reduced model takes the same options.
    for options, most, inputs in (([], 2, {"t10", "b"}), (["--dim", "k=3"], 2, {"t10", "b", "k", "x"}),
                                  (["--typical", "n=7"], 2, {"t10", "b"}),
                                  (["--shapes", "x:4x8"], 2, {"t10", "b", "k", "x"}),
                                  ([o for g in given for o in ("--samples", g)], 24, {"x", "b", "k"})):
        done = compile(path, "-o", plan, "--rules", rules, "--verify", "strict", "--reduced", reduced, *options)
        assert done.returncode == 4 and not os.path.exists(plan), done
        assert "the first node that comes out wrong is 'Sub_23'" in done.stderr, done.stderr
        assert f"{reduced} is a model of " in done.stderr, done.stderr
        left = check_reduced(reduced, "wrong", rules, options, most)
        assert left[-2:] == ["Neg_22", "Sub_23"], left
        assert {i.name for i in onnx.load(reduced).graph.input} == inputs, (options, onnx.load(reduced).graph.input)
        os.remove(reduced)
    # A node in front of which there is a branch that reads from around it, and sizes without a name.
    proto = onnx.load(path)
    del proto.graph.node[-1], proto.graph.output[-1], proto.graph.input[-1]
    proto.graph.input[0].type.tensor_type.shape.dim[0].Clear()
    branch = lambda name, op: helper.make_graph(  # noqa: E731
        [helper.make_node(op, ["n"], [name])], name, [], [helper.make_tensor_value_info(name, F32, None)])
    proto.graph.initializer.append(numpy_helper.from_array(np.array(True), "c"))
    at = [n.name for n in proto.graph.node].index("Sub_23")
    proto.graph.node[at].input[0] = "i"
    proto.graph.node.insert(at, helper.make_node("If", ["c"], ["i"], then_branch=branch("u", "Identity"),
                                                 else_branch=branch("v", "Abs")))
    save(proto, path)
    done = compile(path, "-o", plan, "--rules", rules, "--verify", "strict", "--reduced", reduced)
    assert done.returncode == 4 and "comes out wrong is 'Sub_23'" in done.stderr, done.stderr
    assert check_reduced(reduced, "wrong", rules, [], 3) == ["Neg_22", "", "Sub_23"], onnx.load(reduced).graph
    # A model that can be read once only is kept for that.
    os.remove(reduced)
    for name in ("-", "/dev/stdin"):
        with open(path, "rb") as file:
            piped = subprocess.run([os.path.join(hyp.BIN, "hypatiac"), name, "-o", plan, "--rules", rules, "--verify", "strict",
                                    "--reduced", reduced], input=file.read(), capture_output=True)
        assert piped.returncode == 4 and piped.stderr.decode() == done.stderr, (name, piped.stderr, done.stderr)
        assert check_reduced(reduced, "wrong", rules, [], 3) == ["Neg_22", "", "Sub_23"], onnx.load(reduced).graph
    # What cannot be cut says so, and the rule is named still.
    os.remove(reduced)
    save(proto, path, save_as_external_data=True, location="deep.data", size_threshold=0)
    done = compile(path, "-o", plan, "--rules", rules, "--verify", "strict", "--reduced", reduced)
    assert done.returncode == 4 and "to blame is the rule 'wrong'" in done.stderr, done.stderr
    assert "no reduced model was written: the model has external data" in done.stderr, done.stderr
    with open(path, "rb") as file: # which is looked up in the working directory
        piped = subprocess.run([os.path.join(hyp.BIN, "hypatiac"), "-", "-o", plan, "--rules", rules, "--verify", "strict"],
                               input=file.read(), capture_output=True, cwd=folder)
    assert piped.returncode == 4 and b"to blame is the rule 'wrong'" in piped.stderr, piped.stderr
    assert not os.path.exists(reduced)
    # A right plan has none, and what is read is not overwritten.
    done = compile(MODEL, "-o", plan, "--verify", "strict", "--reduced", reduced)
    assert done.returncode == 0 and not os.path.exists(reduced), done
    before = open(rules).read()
    done = compile(path, "-o", plan, "--rules", rules, "--verify", "strict", "--reduced", rules)
    assert done.returncode == 2 and open(rules).read() == before, done


def check_plain(folder):
    """The rule of which nothing but a comparison with the model can tell that it is wrong; the default finds it."""
    rules, plan = os.path.join(folder, "plain.rules"), os.path.join(folder, "plain.bin")
    with open(rules, "w") as file:
        file.write('(rule relu-away :class E :doc "" (relu ?x) => ?x)\n')
    done = compile(MODEL, "-o", plan, "--rules", rules)
    assert done.returncode == 4 and "to blame is the rule 'relu-away'" in done.stderr, done
    assert os.listdir(folder) == ["plain.rules"] or not any(f.startswith("plain.bin") for f in os.listdir(folder))
    done = compile(MODEL, "--dry-run", "--rules", rules, "--verify", "strict")
    assert done.returncode == 4 and "relu-away" in done.stderr, done
    done = hyp.tool("hypatiac", MODEL, "-o", "-", "--rules", rules)
    assert done.returncode == 4 and done.stdout == "", done
    done = compile(MODEL, "-o", plan, "--verify", "sometimes")
    assert done.returncode == 2 and "strict, warn, off" in done.stderr, done


def check_precisions(folder):
    plan = os.path.join(folder, "precision.bin")
    allowed = {}
    for precision in ("fp32", "tf32", "bf16", "fp16"):
        done = compile(MODEL, "-o", plan, "--precision", precision, "--verify", "strict")
        assert done.returncode == 0 and "verified: strict" in done.stdout, done
        done = hyp.tool("hypatia", "verify", plan, "--model", MODEL, "--dim", "batch=16")
        assert done.returncode == 0 and "mean difference" in done.stdout, (precision, done.stdout)
        allowed[precision] = float(re.search(r"of ([0-9.e+-]+)\)\n", done.stdout).group(1))
    assert allowed["fp32"] < 1e-4 < allowed["fp16"] < 0.05 and allowed["bf16"] < 0.2, allowed
    # A bf16 plan that pretends to be of f32 fails: the tolerances know the difference.
    done = compile(MODEL, "-o", plan, "--precision", "bf16")
    done = hyp.tool("hypatia", "verify", plan, "--model", MODEL, "--dim", "batch=16", "--rtol", "1e-5")
    assert done.returncode == 4 and done.stdout.endswith("FAILED\n"), done


def check_many_elements(folder):
    """What few runs say of each of 10^5 elements, most of their neighbours 0, refuses no right plan."""
    for seed in range(2):
        random = np.random.default_rng(seed)
        nodes, x, constants = [], "x", {}
        for i in range(3):
            constants[f"w{i}"] = (random.standard_normal((512, 512)) / 512**0.5).astype(np.float32)
            nodes += [("MatMul", [x, f"w{i}"], f"m{i}"), ("Relu", [f"m{i}"], f"r{i}")]
            x = f"r{i}"
        model = os.path.join(folder, "layers.onnx")
        make(model, nodes, {"x": [192, 512]}, {x: [192, 512]}, constants)
        for precision in ("fp32", "bf16", "fp16"):
            done = compile(model, "-o", os.path.join(folder, "layers.bin"), "--precision", precision, "--verify", "strict")
            assert done.returncode == 0, (seed, precision, done.stderr)
    # Of half a million products a few are many times as large as what stands beside them, and so are their errors.
    gate, wide = [("Sigmoid", ["x"], "s"), ("Mul", ["x", "s"], "t"), ("Mul", ["t", "z"], "y")], (TensorProto.BFLOAT16, [512, 1024])
    make(model, gate, {"x": wide, "z": wide}, {"y": wide})
    for target in ("cpu", "cuda"):
        done = compile(model, "-o", os.path.join(folder, "gate.bin"), "--target", target)
        assert done.returncode == 0, done.stderr


def check_zeros(folder):
    """The sign of a zero that a relu or a maximum gives is not promised: a plan whose kernel gives another is right."""
    path, plan = (os.path.join(folder, "zeros" + e) for e in (".onnx", ".bin"))
    for nodes, constants in (([("Relu", ["x"], "r")], {}), ([("Max", ["x", "z"], "r")], {"z": f32(0)}),
                             ([("Clip", ["x", "z"], "r")], {"z": np.float32(0)})):
        make(path, nodes + [("Reciprocal", ["r"], "y")], {"x": [3, 32]}, {"y": [3, 32]}, constants)
        done = compile(path, "-o", plan)
        assert done.returncode == 0 and "verified: strict" in done.stdout, done


def check_classes(folder):
    """A plan keeps the classes of its rules: against a model that is at hand it is judged as it was when it was compiled."""
    path, plan, rules = (os.path.join(folder, "classes" + e) for e in (".onnx", ".bin", ".rules"))
    make(path, [("Equal", ["x", "x"], "c"), ("Where", ["c", "x", "z"], "s"), ("Add", ["s", "z"], "y")], {"x": [4]}, {"y": [4]},
         {"z": f32(3)})
    np.save(os.path.join(folder, "nan.npy"), f32(1, np.nan, 0.1, np.inf))
    against = lambda: hyp.tool("hypatia", "verify", plan, "--model", path, "--input", f"x=@{folder}/nan.npy")  # noqa: E731
    done = compile(path, "-o", plan)
    assert done.returncode == 0, done
    done = against()
    assert done.returncode == 0 and "undecided" not in done.stdout and "largest difference 0 " in done.stdout, done
    assert ", rules of class E" in hyp.tool("hypatia", "inspect", plan).stdout
    with open(rules, "w") as file:
        file.write('(rule wrong :class E :doc "wrong" (where (equal ?x ?x) ?x ?z) => ?x)\n')
    done = compile(path, "-o", plan, "--rules", rules, "--verify", "off")
    assert done.returncode == 0, done
    done = against()  # NaN where the model has a number
    assert done.returncode == 4 and "wanted 6 " in done.stdout, done


def check_golden(folder):
    """A plan is checked with nothing but itself."""
    plan, bare = os.path.join(folder, "golden.bin"), os.path.join(folder, "bare.bin")
    run = lambda *args: hyp.tool("hypatia", "verify", *args)  # noqa: E731
    hyp.tool("hypatiac", MODEL, "-o", plan, "--no-record")
    hyp.tool("hypatiac", MODEL, "-o", bare, "--no-record", "--golden", "0")
    kept = os.path.getsize(plan) - os.path.getsize(bare)
    assert 500 < kept < 2500, kept
    for device in ("cpu", "reference"):
        done = run(plan, "--device", device)
        assert done.returncode == 0 and done.stdout.count("mean difference") == 2, done
        assert done.stdout.endswith("PASSED\n"), done.stdout
    done = run(bare)
    assert done.returncode == 2 and "keeps no results" in done.stderr, done
    # What a wrong plan keeps is right: it fails wherever it goes.
    rules = os.path.join(folder, "golden.rules")
    with open(rules, "w") as file:
        file.write('(rule relu-away :class E :doc "" (relu ?x) => ?x)\n')
    done = compile(MODEL, "-o", plan, "--rules", rules, "--verify", "warn")
    done = run(plan)
    assert done.returncode == 4 and "times as large would pass" in done.stdout, done
    assert done.stdout.endswith("FAILED\n"), done.stdout
    # Samples of the user's own are kept as they are, where they are small.
    images = np.random.default_rng(1).random((2, 64), np.float32)
    np.save(os.path.join(folder, "image.npy"), images)
    done = compile(MODEL, "-o", plan, "--golden", "4096", "--samples", f"image=@{folder}/image.npy")
    assert done.returncode == 0 and "verified: strict, 1 sample," in done.stdout, done
    done = run(plan)
    assert done.returncode == 0 and "probabilities f32[2 10]" in done.stdout, done
    # The same model and options, the same bytes.
    first = open(plan, "rb").read()
    compile(MODEL, "-o", plan, "--golden", "4096", "--samples", f"image=@{folder}/image.npy")
    assert open(plan, "rb").read() == first


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_plain(folder)
        check_wrong_rules(folder)
        check_widened(folder)
        check_grouped_relu(folder)
        check_node(folder)
        check_precisions(folder)
        check_many_elements(folder)
        check_zeros(folder)
        check_classes(folder)
        check_golden(folder)


if __name__ == "__main__":
    main()
