"""The optimized graph as ONNX (hypatiac --emit-onnx) against the model that it was made of, both in onnxruntime, for the
models that PyTorch exported and the examples: with operators of ONNX alone, and with those of com.microsoft.

Each passes onnx.checker, with its shapes; agrees with the original for three batch sizes and lengths; and is a model that
Hypatia compiles again to what the original gives. `judge_emitted.py [FOLDER]` takes other models."""
import glob
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hyp  # noqa: E402

np, onnx, ort = hyp.need("numpy", "onnx", "onnxruntime")
import judge_torch  # noqa: E402  its inputs, and what it allows
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

EXAMPLES = ["digits/digits.onnx", "cnn/cnn.onnx", "chars/chars.onnx", "train_digits/digits.onnx"]



def session_of(path):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def names(values):
    return [(v.name, [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]) for v in values]


def check(path, folder):
    """What is wrong with what is emitted of a model."""
    wrong, original = [], session_of(path)
    model = onnx.load(path, load_external_data=False)
    for domain in ["", "com.microsoft"]:
        emitted, plan = os.path.join(folder, "emitted.onnx"), os.path.join(folder, "emitted.bin")
        more = ["--emit-onnx-domain", domain] if domain else []
        hyp.tool("hypatiac", path, "--emit-onnx", emitted, "-q", *more)
        with open(emitted, "rb") as file:
            first = file.read()
        hyp.tool("hypatiac", path, "--emit-onnx", emitted, "-q", *more)
        with open(emitted, "rb") as file:
            if file.read() != first:
                wrong.append(f"{domain}: other bytes the second time")
        made = onnx.load(emitted)
        onnx.checker.check_model(made, full_check=not domain)
        constants = {i.name for i in model.graph.initializer}
        if names(made.graph.input) != names([i for i in model.graph.input if i.name not in constants]):
            wrong.append(f"{domain}: inputs {names(made.graph.input)}, not {names(model.graph.input)}")
        typed = {v.name for v in [*made.graph.value_info, *made.graph.output]}
        untyped = [o for n in made.graph.node for o in n.output if n.name and o not in typed]
        if untyped:
            wrong.append(f"{domain}: no types of {untyped[:3]}")
        session = session_of(emitted)
        hyp.compile_model(emitted, plan)
        rng = np.random.default_rng(7)
        with hyp.Engine(plan, "cpu") as engine:
            for batch, length in judge_torch.SIZES:
                feeds = judge_torch.feed(rng, original, 5, batch, length)
                want = original.run(None, feeds)
                outputs = [o.name for o in original.get_outputs()]
                units, _ = judge_torch.worst_of(session.run(outputs, feeds), want)
                if not units <= 1:
                    wrong.append(f"{domain}: batch {batch}: onnxruntime is off by {units:.3g} of the tolerance")
                units, _ = judge_torch.worst_of(engine.run(feeds), want)
                if not units <= 1:
                    wrong.append(f"{domain}: batch {batch}: compiled again it is off by {units:.3g} of the tolerance")
    return wrong


def save(path, nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(v, n) for n, v in initializers])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def info(name, dims, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, dims)


def selected(folder):
    """Results that are as large as the data say, and what is computed of them."""
    nodes = [helper.make_node("NonZero", ["x"], ["places"]), helper.make_node("Transpose", ["places"], ["rows"]),
             helper.make_node("Unique", ["x"], ["values", "", "", "counts"], sorted=1),
             helper.make_node("Mul", ["values", "values"], ["squares"])]
    return save(os.path.join(folder, "selected.onnx"), nodes, [info("x", ["n", 4])],
                [info("rows", [None, 2], TensorProto.INT64), info("squares", [None]), info("counts", [None], TensorProto.INT64)])


def recurrent(folder):
    """Both directions, with lengths, first states and peepholes."""
    rng, size, width = np.random.default_rng(5), 3, 4
    weights = {"w": (2, 4 * size, width), "r": (2, 4 * size, size), "b": (2, 8 * size), "p": (2, 3 * size),
               "gw": (1, 3 * size, 2 * size), "gr": (1, 3 * size, size), "gb": (1, 6 * size)}
    stored = [(n, rng.standard_normal(s).astype(np.float32) / 2) for n, s in weights.items()]
    nodes = [helper.make_node("LSTM", ["x", "w", "r", "b", "lengths", "h", "c", "p"], ["y", "yh", "yc"], hidden_size=size,
                              direction="bidirectional"),
             helper.make_node("Transpose", ["y"], ["t"], perm=[0, 2, 1, 3]),
             helper.make_node("Reshape", ["t", "shape"], ["both"]),
             helper.make_node("GRU", ["both", "gw", "gr", "gb"], ["", "z"], hidden_size=size, linear_before_reset=1,
                              direction="reverse")]
    return save(os.path.join(folder, "recurrent.onnx"), nodes,
                [info("x", ["t", "n", width]), info("lengths", ["n"], TensorProto.INT32), info("h", [2, "n", size]),
                 info("c", [2, "n", size])], [info("yh", [2, "n", size]), info("yc", [2, "n", size]), info("z", [1, "n", size])],
                [*stored, ("shape", np.array([0, 0, 2 * size]))])


def check_special(folder):
    """What the other models have not."""
    emitted, rng, wrong = os.path.join(folder, "e.onnx"), np.random.default_rng(3), []

    def compare(path, feeds, rtol, *options):
        done = hyp.tool("hypatiac", path, "--emit-onnx", emitted, "-q", *options)
        assert done.returncode == 0, done.stderr
        onnx.checker.check_model(emitted, full_check=True)
        want, got = session_of(path).run(None, feeds), session_of(emitted).run(None, feeds)
        for a, b in zip(got, want):
            if a.shape != b.shape or not np.allclose(a, b, rtol=rtol, atol=rtol):
                wrong.append(f"{os.path.basename(path)} {options}: {a.ravel()[:4]}, not {b.ravel()[:4]}")

    for x in (np.zeros((3, 4)), np.ones((0, 4)), rng.integers(-2, 3, (5, 4))):
        compare(selected(folder), {"x": x.astype(np.float32)}, 0)
    path, batch = recurrent(folder), 3
    feeds = {"x": rng.standard_normal((5, batch, 4)), "h": rng.standard_normal((2, batch, 3)),
             "c": rng.standard_normal((2, batch, 3))}
    feeds = {**{n: v.astype(np.float32) for n, v in feeds.items()}, "lengths": np.array([5, 2, 4], np.int32)}
    compare(path, feeds, 1e-4)
    hyp.compile_model(emitted, os.path.join(folder, "e.bin"))
    image = {"image": rng.standard_normal((4, 64)).astype(np.float32)}
    compare(os.path.join(hyp.ROOT, "examples/digits/digits.onnx"), image, 2e-2, "--precision", "fp16")
    compare(os.path.join(hyp.ROOT, "examples/digits/digits.onnx"), image, 1e-4, "--no-rewrite")
    custom = os.path.join(hyp.ROOT, "examples/custom/custom.onnx")
    domains = {o.domain for o in onnx.load(custom).opset_import if o.domain}
    options = [text for d in domains for text in ("--custom-domain", d)]
    hyp.tool("hypatiac", custom, "--emit-onnx", emitted, "-q", *options)
    before, after = ([n for n in onnx.load(p).graph.node if n.domain in domains] for p in (custom, emitted))
    key = [sorted((n.domain, n.op_type, sorted(a.SerializeToString() for a in n.attribute)) for n in g) for g in (before, after)]
    if not before or key[0] != key[1]:
        wrong.append(f"custom operators: {key[1]}, not {key[0]}")
    if hyp.tool("hypatiac", emitted, "--dry-run", "-q", *options).returncode != 0:
        wrong.append("custom operators are not read back")
    return wrong


def main():
    paths = sorted(glob.glob(os.path.join(sys.argv[1] if len(sys.argv) > 1 else os.path.join(hyp.ROOT, "tests/models/torch"),
                                          "*.onnx")))
    if len(sys.argv) == 1:
        paths += [os.path.join(hyp.ROOT, "examples", e) for e in EXAMPLES]
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for text in check_special(folder) if len(sys.argv) == 1 else []:
            failures += 1
            print(f"FAILED {text}")
        for path in paths:
            wrong = check(path, folder)
            failures += bool(wrong)
            for text in wrong:
                print(f"FAILED {os.path.basename(path)}: {text}")
    print(f"{len(paths)} models emitted twice, {failures} wrong")
    return 1 if failures or len(paths) < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
