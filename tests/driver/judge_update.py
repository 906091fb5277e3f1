"""Weights that are replaced in an engine: what it then gives is, to the bit, what a plan gives that was compiled with them, and what
onnx's own evaluator says of the model with them."""
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../support"))
import hyp  # noqa: E402

onnx, np = hyp.need("onnx", "numpy")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

F = TensorProto.FLOAT
DEVICES = ["cpu", "reference"]


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), name=outputs.split()[0], **attributes)


def model(nodes, inputs, outputs, weights, others=None):
    """weights: name -> dims, drawn anew for every seed; others: name -> array, always the same."""
    def make(seed):
        random = np.random.default_rng(seed)
        drawn = {name: (random.standard_normal(dims) * 0.3).astype(np.float32) for name, dims in weights.items()}
        for name in drawn:
            if name.endswith("var"):
                drawn[name] = np.abs(drawn[name]) + np.float32(0.5)
        graph = helper.make_graph(
            nodes, "g", [helper.make_tensor_value_info(n, F, d) for n, d in inputs.items()],
            [helper.make_tensor_value_info(n, F, d) for n, d in outputs.items()],
            [numpy_helper.from_array(v, n) for n, v in {**drawn, **(others or {})}.items()])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(made)
        return made, drawn
    return make


def mlp():
    return model([node("Gemm", "x w1 b1", "h1", transB=1), node("Relu", "h1", "r"), node("MatMul", "r w2", "h2"),
                  node("Add", "h2 b2", "a"), node("Tanh", "a", "t"), node("Gemm", "t w3 b3", "y", alpha=0.5)],
                 {"x": ["n", 20]}, {"y": ["n", 10]},
                 {"w1": (33, 20), "b1": (33,), "w2": (33, 24), "b2": (24,), "w3": (24, 10), "b3": (10,)})


def attention():
    """q, k and v, whose layers a plan may join."""
    nodes = [node("MatMul", "x wq", "mq"), node("Add", "mq bq", "q"), node("MatMul", "x wk", "mk"), node("Add", "mk bk", "k"),
             node("MatMul", "x wv", "mv"), node("Add", "mv bv", "v"), node("Transpose", "k", "kt", perm=[0, 2, 1]),
             node("MatMul", "q kt", "s"), node("Mul", "s scale", "sc"), node("Softmax", "sc", "p", axis=-1),
             node("MatMul", "p v", "o"), node("MatMul", "o wo", "m"), node("Add", "m x", "y")]
    return model(nodes, {"x": ["n", 5, 16]}, {"y": ["n", 5, 16]},
                 {"wq": (16, 16), "bq": (16,), "wk": (16, 16), "bk": (16,), "wv": (16, 16), "bv": (16,), "wo": (16, 16)},
                 {"scale": np.float32(0.25)})


def convolution():
    """A normalization of batches goes into the weights before it."""
    nodes = [node("Conv", "x w b", "c", pads=[1, 1, 1, 1]),
             node("BatchNormalization", "c gamma beta mean var", "n"), node("Relu", "n", "r"),
             node("Conv", "r dw", "d", group=24, pads=[1, 1, 1, 1]), node("Conv", "d pw", "e"),
             node("GlobalAveragePool", "e", "g"), node("Flatten", "g", "f"), node("MatMul", "f out", "y")]
    return model(nodes, {"x": ["n", 3, 9, 9]}, {"y": ["n", 4]},
                 {"w": (24, 3, 3, 3), "b": (24,), "gamma": (24,), "beta": (24,), "mean": (24,), "var": (24,),
                  "dw": (24, 1, 3, 3), "pw": (16, 24, 1, 1), "out": (16, 4)})


def normalized():
    """A table, a normalization written out, and a weight that the model makes of three."""
    nodes = [node("Mul", "x table", "e"), node("ReduceMean", "e", "mean", axes=[-1]), node("Sub", "e mean", "c"),
             node("Pow", "c two", "c2"), node("ReduceMean", "c2", "v", axes=[-1]), node("Add", "v eps", "ve"),
             node("Sqrt", "ve", "sd"), node("Div", "c sd", "d"), node("Mul", "d gamma", "g"), node("Add", "g beta", "ln"),
             node("Add", "base change", "part"), node("Concat", "part more", "w", axis=1),
             node("Transpose", "w", "wt", perm=[1, 0]), node("MatMul", "ln wt", "y")]
    return model(nodes, {"x": ["n", 12]}, {"y": ["n", 7]},
                 {"table": (1, 12), "gamma": (12,), "beta": (12,), "base": (7, 8), "change": (7, 8), "more": (7, 4)},
                 {"two": np.float32(2), "eps": np.float32(1e-5)})


def recurrent():
    return model([node("LSTM", "x w r b", "h", hidden_size=9), node("Squeeze", "h one", "y")],
                 {"x": [6, "n", 5]}, {"y": [6, "n", 9]}, {"w": (1, 36, 5), "r": (1, 36, 9), "b": (1, 72)},
                 {"one": np.array([1], np.int64)})


def low_rank():
    """What is added to a weight is a product: LoRA, as a part of the model. A library and plain loops sum it otherwise."""
    return model([node("MatMul", "down up", "change"), node("Add", "w change", "all"), node("MatMul", "x all", "y")],
                 {"x": ["n", 20]}, {"y": ["n", 30]}, {"w": (20, 30), "down": (20, 4), "up": (4, 30)})


MODELS = [mlp, attention, convolution, normalized, recurrent, low_rank]


def feeds_of(made, n, seed):
    random = np.random.default_rng(seed)
    return {i.name: random.standard_normal([d.dim_value or n for d in i.type.tensor_type.shape.dim]).astype(np.float32)
            for i in made.graph.input}


def same(a, b, what, make=None):
    assert len(a) == len(b)
    for x, y in zip(a, b):
        if make == low_rank:
            assert hyp.difference(x, y) < (1e-6 if x.dtype == np.float32 else 1e-2), what
        else:
            assert x.tobytes() == y.tobytes(), f"{what}: {hyp.difference(x, y)} apart"


def judge(folder, make, precision, target, no_rewrite):
    name = f"{make.__name__} {precision} for {target}{' as it is' if no_rewrite else ''}"
    made = make()
    plans = []
    for seed in (1, 2):
        path = os.path.join(folder, f"{seed}.onnx")
        onnx.save(made(seed)[0], path)
        plans.append(os.path.join(folder, f"{seed}.bin"))
        hyp.compile_model(path, plans[-1], target, precision, no_rewrite, updatable=["*"])
    second, weights = made(2)
    for device in DEVICES:
        with hyp.Engine(plans[0], device) as first, hyp.Engine(plans[1], device) as other:
            assert set(first.weights()) == set(weights), (name, first.weights())
            feeds = {n: feeds_of(second, n, 3) for n in (1, 3, 64)}
            old = {n: first.run(feeds[n]) for n in feeds}
            wanted = {n: other.run(feeds[n]) for n in feeds}
            for n in feeds:
                assert any(a.tobytes() != b.tobytes() for a, b in zip(old[n], wanted[n])), f"{name}: the test shows nothing"
            first.update(weights)
            for n in feeds:
                same(first.run(feeds[n]), wanted[n], f"{name} on {device}, {n} rows", make)
                if precision == "fp32":
                    for x, y in zip(first.run(feeds[n]), hyp.by_onnx(second, feeds[n])):
                        assert hyp.difference(x, y) < 1e-4, f"{name} on {device}: {hyp.difference(x, y)}"
            first.update(made(1)[1])
            for n in feeds:
                same(first.run(feeds[n]), old[n], f"{name} on {device}, back again, {n} rows", make)
    print(f"{name}: {len(weights)} weights")


def judge_one_by_one(folder):
    """Each weight of the attention alone: what was joined side by side is replaced in part."""
    made = attention()
    one, first = made(1)
    _, second = made(2)
    path, plan, other_plan = (os.path.join(folder, n) for n in ("one.onnx", "one.bin", "other.bin"))
    onnx.save(one, path)
    hyp.compile_model(path, plan, updatable=["*"])
    feeds = feeds_of(one, 4, 5)
    with hyp.Engine(plan) as engine:
        now = dict(first)
        for name in second:
            engine.update({name: second[name]})
            now[name] = second[name]
            mixed = onnx.ModelProto()
            mixed.CopyFrom(one)
            for tensor in mixed.graph.initializer:
                if tensor.name in now:
                    tensor.CopyFrom(numpy_helper.from_array(now[tensor.name], tensor.name))
            onnx.save(mixed, path)
            hyp.compile_model(path, other_plan, updatable=["*"])
            with hyp.Engine(other_plan) as other:
                same(engine.run(feeds), other.run(feeds), f"after {name}")


def refused(engine, arrays, *texts):
    try:
        engine.update(arrays)
    except hyp.Error as error:
        assert error.status == "invalid argument", error
        assert all(text in str(error) for text in texts), error
        return
    raise AssertionError(f"{list(arrays)} should be refused")


def judge_refusals(folder):
    made = convolution()
    one, first = made(1)
    _, second = made(2)
    path, plan = os.path.join(folder, "m.onnx"), os.path.join(folder, "m.bin")
    onnx.save(one, path)
    hyp.compile_model(path, plan, updatable=["*"])
    feeds = feeds_of(one, 2, 7)
    with hyp.Engine(plan) as engine:
        before = engine.run(feeds)
        refused(engine, {"pww": second["pw"]}, "did you mean 'pw'")
        refused(engine, {"pw": second["pw"].astype(np.float64)}, "'pw' f32 [16, 24, 1, 1]", "f64")
        refused(engine, {"pw": second["pw"][:, :, 0, 0]}, "'pw' f32 [16, 24, 1, 1]", "f32 [16, 24]")
        refused(engine, {"pw": second["pw"], "out": second["out"][:3]}, "'out'")
        same(engine.run(feeds), before, "after refusals")  # nothing of what is refused is there
        engine.update({"pw": second["pw"], "out": second["out"]})
        assert engine.run(feeds)[0].tobytes() != before[0].tobytes()
    one, _ = normalized()(1)
    _, others = normalized()(2)
    onnx.save(one, path)
    hyp.compile_model(path, plan, updatable=["*"])
    with hyp.Engine(plan) as engine:
        before = engine.run(feeds_of(one, 2, 7))
        refused(engine, {"base": others["base"], "more": others["more"], "beta": others["beta"]}, "'base'", "'change'", "give both")
        same(engine.run(feeds_of(one, 2, 7)), before, "after a part")
        engine.update({n: others[n] for n in ("base", "change", "more")})
        assert engine.run(feeds_of(one, 2, 7))[0].tobytes() != before[0].tobytes()
    onnx.save(made(1)[0], path)
    hyp.compile_model(path, plan, updatable=["pw", "o*"])
    with hyp.Engine(plan) as engine:
        assert sorted(engine.weights()) == ["out", "pw"], engine.weights()
    told = hyp.tool("hypatia", "inspect", plan).stdout
    assert "updatable\n" in told and "  pw  f32 [16, 24, 1, 1]\n" in told.split("updatable\n")[1], told
    listed = {w["name"]: w for w in json.loads(hyp.tool("hypatia", "inspect", plan, "--json").stdout)["updatable"]}
    assert sorted(listed) == ["out", "pw"] and listed["pw"] == {"name": "pw", "dtype": "f32", "dims": [16, 24, 1, 1]}, listed
    with hyp.Engine(plan) as engine:
        refused(engine, {"w": second["w"]}, "--updatable")
    hyp.compile_model(path, plan)
    with hyp.Engine(plan) as engine:
        assert engine.weights() == []
        assert "updatable" not in hyp.tool("hypatia", "inspect", plan).stdout
        assert "updatable" not in json.loads(hyp.tool("hypatia", "inspect", plan, "--json").stdout)
        refused(engine, {"w": second["w"]}, "--updatable")
    done = hyp.tool("hypatiac", path, "-o", plan, "--updatable", "nothing*")
    assert done.returncode == 2 and "nothing*" in done.stderr, done.stderr
    done = hyp.tool("hypatiac", path, "-o", plan, "-q", "--updatable", "pw")
    assert done.returncode == 0, done.stderr
    with hyp.Engine(plan) as engine:
        assert engine.weights() == ["pw"]


with tempfile.TemporaryDirectory() as folder:
    for make in MODELS:
        judge(folder, make, "fp32", "cpu", False)
        judge(folder, make, "fp32", "cpu", True)
        judge(folder, make, "bf16", "cpu", False)
        judge(folder, make, "fp32", "cuda", False)
    judge_one_by_one(folder)
    judge_refusals(folder)
