"""Training steps as plans: a hundred steps of a network on the digits, by the plan and by numpy, must be the same; and what hypatiac
says of models that it cannot make steps of."""
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../support"))
import hyp  # noqa: E402

onnx, np = hyp.need("onnx", "numpy")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

F = TensorProto.FLOAT
STEPS, BATCH = 100, 50
SIZES = [64, 40, 24, 10]


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), name=outputs.split()[0], **attributes)


def save(path, nodes, inputs, outputs, weights, opset=17):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(n, F, d) for n, d in inputs.items()],
                              [helper.make_tensor_value_info(n, F, d) for n, d in outputs.items()],
                              [numpy_helper.from_array(v, n) for n, v in weights.items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8 if opset < 20 else 10)
    onnx.checker.check_model(made)
    onnx.save(made, path)


def network(path):
    """Layers as exporters write them: a Gemm, a MatMul with an Add, a Gemm."""
    random = np.random.default_rng(7)
    weights = {}
    for i, (k, n) in enumerate(zip(SIZES, SIZES[1:])):
        w = (random.standard_normal((n, k)) / np.sqrt(k)).astype(np.float32)
        weights[f"w{i}"] = w.T.copy() if i == 1 else w
        weights[f"b{i}"] = (random.standard_normal(n) * 0.1).astype(np.float32)
    save(path, [node("Gemm", "x w0 b0", "h0", transB=1), node("Relu", "h0", "r0"), node("MatMul", "r0 w1", "m1"),
                node("Add", "m1 b1", "h1"), node("Relu", "h1", "r1"), node("Gemm", "r1 w2 b2", "y", transB=1)],
         {"x": ["n", 64]}, {"y": ["n", 10]}, weights)
    return weights


def digits():
    folder = os.path.join(HERE, "../../examples/digits")
    images = np.load(os.path.join(folder, "images.npy")).reshape(-1, 64).astype(np.float32)
    labels = np.load(os.path.join(folder, "labels.npy")).astype(np.int64).reshape(-1)
    return images, labels


def batches(images, labels):
    random = np.random.default_rng(3)
    for _ in range(STEPS):
        at = random.integers(0, len(images), BATCH)
        yield images[at], labels[at]


# ---- by numpy, in double -----------------------------------------------------------------------------------------

def forward(w, x):
    h0 = x @ w["w0"].T + w["b0"]
    r0 = np.maximum(h0, 0)
    h1 = r0 @ w["w1"] + w["b1"]
    r1 = np.maximum(h1, 0)
    return r0, r1, r1 @ w["w2"].T + w["b2"]


def gradients(w, x, labels, smoothing=0.0):
    r0, r1, y = forward(w, x)
    z = y - y.max(axis=1, keepdims=True)
    logp = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    counts = labels != -100
    wanted = np.full_like(y, smoothing / y.shape[1])
    wanted[np.arange(len(y)), np.where(counts, labels, 0)] += 1 - smoothing
    wanted *= counts[:, None]
    loss = -(wanted * logp).sum() / counts.sum()
    gy = (np.exp(logp) * counts[:, None] - wanted) / counts.sum()
    g1 = (gy @ w["w2"]) * (r1 > 0)
    g0 = (g1 @ w["w1"].T) * (r0 > 0)
    return loss, {"w2": gy.T @ r1, "b2": gy.sum(axis=0), "w1": r0.T @ g1, "b1": g1.sum(axis=0), "w0": g0.T @ x,
                  "b0": g0.sum(axis=0)}


class Sgd:
    flags = ["--optimizer", "sgd", "--momentum", "0.9", "--weight-decay", "0.001"]
    rate = 0.02

    def __init__(self):
        self.state = {}

    def step(self, name, w, g):
        g = g + 0.001 * w
        self.state[name + ":momentum"] = m = 0.9 * self.state.get(name + ":momentum", 0) + g
        return w - self.rate * m


class AdamW:
    flags = ["--optimizer", "adamw", "--weight-decay", "0.02", "--betas", "0.9,0.99"]
    rate = 0.003

    def __init__(self):
        self.state, self.count = {}, {}

    def step(self, name, w, g):
        t = self.count[name] = self.count.get(name, 0) + 1
        self.state[name + ":m"] = m = 0.9 * self.state.get(name + ":m", 0) + 0.1 * g
        self.state[name + ":v"] = v = 0.99 * self.state.get(name + ":v", 0) + 0.01 * g * g
        w = w - self.rate * 0.02 * w
        return w - self.rate * (m / (1 - 0.9 ** t)) / (np.sqrt(v / (1 - 0.99 ** t)) + 1e-8)


def train(optimizer, start, images, labels, smoothing, frozen):
    """Losses, and the state at the end."""
    w, losses = {k: v.astype(np.float64) for k, v in start.items()}, []
    for x, t in batches(images, labels):
        loss, g = gradients(w, x.astype(np.float64), t, smoothing)
        losses.append(loss)
        w = {k: v if k in frozen else optimizer.step(k, v, g[k]) for k, v in w.items()}
    return losses, {**{k: v for k, v in w.items() if k not in frozen}, **optimizer.state}


# ---- by the plan ---------------------------------------------------------------------------------------------------

def compile_step(model, plan, *flags):
    done = hyp.tool("hypatiac", model, "-o", plan, "--train", "cross-entropy", *flags)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_training(folder, optimizer, *flags, smoothing=0.0, frozen=(), devices=("cpu", "reference")):
    images, labels = digits()
    labels = labels.copy()
    labels[::17] = -100  # not counted
    start = network(os.path.join(folder, "net.onnx"))
    said = compile_step(os.path.join(folder, "net.onnx"), os.path.join(folder, "step.bin"), *optimizer.flags, *flags)
    assert "verified: strict" in said, said
    want, state = train(optimizer(), start, images, labels, smoothing, frozen)
    for device in devices:
        with hyp.Engine(os.path.join(folder, "step.bin"), device) as engine:
            assert engine.input_names == [b"x", b"labels", b"learning-rate"], engine.input_names
            assert [i.name for i in engine.output_info] == [b"loss", b"y"]
            assert set(engine.variables()) - {":step"} == set(state), (set(engine.variables()), set(state))
            for at, (x, t) in enumerate(batches(images, labels)):
                feeds = {"x": x, "labels": t, "learning-rate": np.float32(optimizer.rate)}
                loss, y = engine.run(feeds)
                assert abs(loss - want[at]) < 1e-4, (device, at, float(loss), want[at])
            got = engine.get()
            for name, value in state.items():
                assert hyp.difference(got[name], value.astype(np.float32)) < 2e-3, (device, name, hyp.difference(got[name], value.astype(np.float32)))
            if ":step" in got:
                assert got[":step"] == STEPS
            try:
                engine.run({**feeds, "labels": np.where(np.arange(BATCH) == 7, 10, t)})
                raise AssertionError("label 10 of classes 0 to 9 was taken")
            except hyp.Error as error:
                assert "out of range" in str(error), error
            kept = engine.run(feeds, keep=True)
            again = engine.run(feeds, keep=True)
            assert all(a.tobytes() == b.tobytes() for a, b in zip(kept, again))
            assert all(a.tobytes() == b.tobytes() for a, b in zip(got.values(), engine.get().values()))
            engine.reset()
            assert all((engine.get()[k] == v).all() for k, v in start.items() if k not in frozen)
            correct = (y.argmax(axis=1) == t)[t >= 0].mean()
    assert want[-1] < want[0] / 2, want
    print(f"{optimizer.__name__} {' '.join(flags)}: loss {want[0]:.4f} to {want[-1]:.4f}, {correct:.0%} of the last batch")


def check_gradients(folder):
    images, labels = digits()
    start = network(os.path.join(folder, "net.onnx"))
    said = compile_step(os.path.join(folder, "net.onnx"), os.path.join(folder, "step.bin"), "--gradients", "--clip-norm", "0.5")
    assert "\n  copy" not in said, said  # parameters that stay as they are take no step
    loss, want = gradients({k: v.astype(np.float64) for k, v in start.items()}, images[:BATCH].astype(np.float64), labels[:BATCH])
    norm = np.sqrt(sum((g * g).sum() for g in want.values()))
    with hyp.Engine(os.path.join(folder, "step.bin")) as engine:
        names = [i.name.decode() for i in engine.output_info]
        got = dict(zip(names, engine.run({"x": images[:BATCH], "labels": labels[:BATCH]})))
    assert abs(got["loss"] - loss) < 1e-5 and abs(got["gradient-norm"] - norm) < 1e-4
    for name, g in want.items():
        assert hyp.difference(got["gradient:" + name], (g * min(1, 0.5 / (norm + 1e-6))).astype(np.float32)) < 1e-4, name


def check_precisions(folder):
    """What is computed in 16 bits learns, too; its parameters are in 32."""
    images, labels = digits()
    network(os.path.join(folder, "net.onnx"))
    for precision, more in (("bf16", []), ("fp16", ["--loss-scale", "1024"])):
        compile_step(os.path.join(folder, "net.onnx"), os.path.join(folder, "step.bin"), "--precision", precision, *more, *Sgd.flags)
        with hyp.Engine(os.path.join(folder, "step.bin")) as engine:
            assert all(v.dtype == np.float32 for k, v in engine.variables().items() if k != ":step")
            losses = [float(engine.run({"x": x, "labels": t, "learning-rate": np.float32(Sgd.rate)})[0])
                      for x, t in batches(images, labels)]
        assert np.mean(losses[-5:]) < losses[0] / 2, (precision, losses)


RECURRENCES = [  # gates, attributes, whether there are lengths, first states and peepholes
    ("LSTM", 4, dict(direction="bidirectional"), True, True, True), ("LSTM", 4, dict(direction="reverse", input_forget=1), False, False, False),
    ("LSTM", 4, dict(layout=1, clip=1.5), False, True, False), ("GRU", 3, dict(direction="bidirectional"), True, True, False),
    ("GRU", 3, dict(linear_before_reset=1, direction="bidirectional"), True, True, False), ("GRU", 3, dict(layout=1), False, False, False),
    ("RNN", 1, dict(direction="bidirectional", activations=["Tanh", "Relu"]), True, True, False)]


def check_recurrences(folder, target, devices):
    """Steps of recurrences in their forms, verified where that can be: devices agree, the loss becomes small."""
    time, batch, width, size, random = 4, 3, 5, 6, np.random.default_rng(9)
    for kind, gates, attributes, lengths, states, peepholes in RECURRENCES:
        ways = 2 if attributes.get("direction") == "bidirectional" else 1
        first = attributes.get("layout", 0) == 1
        draw = lambda *shape: (random.standard_normal(shape) / 2).astype(np.float32)
        state = (batch, ways, size) if first else (ways, batch, size)
        weights = {"w": draw(ways, gates * size, width), "r": draw(ways, gates * size, size), "b": draw(ways, 2 * gates * size)}
        weights |= {n: draw(*state) for n in ("h", "c")[:(2 if kind == "LSTM" else 1) if states else 0]}
        weights |= {"p": draw(ways, 3 * size)} if peepholes else {}
        weights |= {"lengths": np.array([4, 1, 3], np.int32)} if lengths else {}
        inputs = " ".join(["x w r b", "lengths" if lengths else "", *(n if n in weights else "" for n in "hcp"[:3 if kind == "LSTM" else 1])])
        outputs = ["all", "last"] + (["cell"] if kind == "LSTM" else [])
        each = helper.make_node(kind, inputs.split(" "), outputs, name="cells", hidden_size=size, **attributes)
        axes = np.array([1 if first else 0])  # of times, which the last states lack
        nodes = [each, *(node("Unsqueeze", f"{o} axes", f"{o}s") for o in outputs[1:]), node("Sum", " ".join(["all", *(f"{o}s" for o in outputs[1:])]), "y")]
        shape = (batch, time, ways, size) if first else (time, ways, batch, size)
        x, t = draw(*((batch, time, width) if first else (time, batch, width))), draw(*shape)
        save(os.path.join(folder, "cells.onnx"), nodes, {"x": x.shape}, {"y": shape}, weights | {"axes": axes})
        done = hyp.tool("hypatiac", os.path.join(folder, "cells.onnx"), "--train", "mse", "--optimizer", "adam", "--target", target,
                        "-o", os.path.join(folder, "cells.bin"))
        assert done.returncode == 0 and (target != "cpu" or "verified: strict" in done.stdout), (kind, attributes, done.stdout, done.stderr)
        losses = []
        for device in devices:
            with hyp.Engine(os.path.join(folder, "cells.bin"), device) as engine:
                assert set("wrbhcp") & set(weights) <= set(engine.variables()), set(engine.variables())
                losses.append([float(engine.run({"x": x, "target": t, "learning-rate": np.float32(0.02)})[0]) for _ in range(60)])
        assert np.allclose(losses[0], losses[-1], rtol=2e-3) and losses[0][-1] < losses[0][0] / 2, (kind, attributes, losses)
        print(f"{kind} {attributes}: loss {losses[0][0]:.4f} to {losses[0][-1]:.4f}")


def check_words(folder):
    """What is asked for, and what is said of what cannot be done."""
    model, plan = os.path.join(folder, "net.onnx"), os.path.join(folder, "words.bin")
    network(model)
    done = hyp.tool("hypatiac", model, "--dry-run", "--train", "mse", "--dump-ir", "train")
    assert done.returncode == 0 and "(variable %w0 (f32 40 64)" in done.stdout and "(set %w0 " in done.stdout, done.stdout[:500]
    done = hyp.tool("hypatiac", model, "--dry-run", "--train", "mse", "--explain", "h0")
    assert done.returncode == 0 and "h0" in done.stdout, done.stderr
    compile_step(model, plan)
    done = hyp.tool("hypatia", "verify", plan)
    assert done.returncode == 2 and "is a step of a training" in done.stderr, done.stderr
    done = hyp.tool("hypatia", "inspect", plan)
    assert "variables" in done.stdout and "w0:m" in done.stdout and "--train=cross-entropy" in done.stdout, done.stdout[:2000]
    sampled, bits = os.path.join(folder, "sampled.onnx"), os.path.join(folder, "bits.onnx")
    save(sampled, [node("Mul", "x w", "h"), node("AffineGrid", "theta size", "grid"), node("GridSample", "h grid", "y", padding_mode="border")],
         {"x": [2, 3, 6, 6]}, {"y": [2, 3, 4, 4]},
         {"w": np.ones((3, 1, 1), np.float32), "theta": np.float32([[[0.9, 0.1, 0], [-0.1, 0.8, 0.1]]] * 2), "size": np.int64([2, 3, 4, 4])}, 20)
    for options in [], ["--precision", "bf16"], ["--target", "cuda"]:
        done = hyp.tool("hypatiac", sampled, "--train", "mse", *options, "-o", os.path.join(folder, "sampled.bin"))
        assert done.returncode == 0, done.stderr  # what the plan computes has been compared with the interpreter
    save(bits, [node("Mul", "x w", "h"), node("Cast", "h", "f", to=TensorProto.FLOAT16), node("BitCast", "f", "b", to=TensorProto.BFLOAT16),
                node("Cast", "b", "y", to=F)], {"x": ["n", 2]}, {"y": ["n", 2]}, {"w": np.ones(2, np.float32)}, 26)
    rows = [
        (3, "bit-cast", [bits, "--train", "mse"]),
        (2, "nor is a loss", [model, "--train", "msee"]),
        (2, "no parameter is called like 'v*'", [model, "--train", "mse", "--frozen", "v*"]),
        (2, "there is nothing to train", [model, "--train", "mse", "--frozen", "*"]),
        (2, "leave --updatable out", [model, "--train", "mse", "--updatable", "*"]),
        (2, "optimizer", [model, "--train", "mse", "--optimizer", "adagrad"]),
        (2, "--momentum is for a training step", [model, "--momentum", "0.9"]),
        (2, "--betas", [model, "--train", "mse", "--betas", "0.9"]),
        (2, "--weight-decay", [model, "--train", "mse", "--weight-decay", "much"]),
        (2, "--class-weights", [model, "--train", "cross-entropy", "--class-weights", model]),
    ]
    for code, text, arguments in rows:
        done = hyp.tool("hypatiac", *arguments, "-o", os.path.join(folder, "never.bin"))
        assert done.returncode == code and text in done.stderr, (arguments, done.returncode, done.stderr)
    assert not os.path.exists(os.path.join(folder, "never.bin"))


def check_gates(folder):
    """A product and a sum in front of a clip, whose gradient asks where that lies: what they give is determined, to the bit."""
    model = os.path.join(folder, "gate.onnx")
    save(model, [node("Gemm", "x w b", "h"), node("HardSwish", "h", "s"), node("Unsqueeze", "s axes", "u"),
                 node("GlobalMaxPool", "u", "p"), node("Flatten", "p", "f"), node("MatMul", "f v", "y")],
         {"x": ["n", 5]}, {"y": ["n", 3]},
         {"w": np.random.default_rng(4).standard_normal((5, 6)).astype(np.float32), "b": np.linspace(-4, 4, 6, dtype=np.float32),
          "v": np.ones((6, 3), np.float32), "axes": np.array([2])})
    said = hyp.tool("hypatiac", model, "-o", os.path.join(folder, "gate.bin"), "--train", "mse")
    assert said.returncode == 0 and "verified: strict" in said.stdout, said.stderr
    model = os.path.join(folder, "floor.onnx")
    save(model, [node("Mul", "x w", "h"), node("Add", "h b", "s"), node("Floor", "s", "y")], {"x": ["n", 5]}, {"y": ["n", 5]},
         {"w": np.linspace(0.1, 7, 5, dtype=np.float32), "b": np.linspace(-4, 4, 5, dtype=np.float32)})
    said = hyp.tool("hypatiac", model, "-o", os.path.join(folder, "floor.bin"))
    assert said.returncode == 0, said.stderr


def check_short_norms(folder):
    """Of the terms of a norm's gradient over two elements hardly anything is left, so that it is as exact as these are."""
    model = os.path.join(folder, "norm.onnx")
    save(model, [node("MatMul", "x w", "h"), node("LayerNormalization", "h s", "y")], {"x": ["n", 5]}, {"y": ["n", 2]},
         {"w": np.random.default_rng(2).standard_normal((5, 2)).astype(np.float32), "s": np.array([0.3, -1.2], np.float32)})
    said = hyp.tool("hypatiac", model, "-o", os.path.join(folder, "norm.bin"), "--train", "mse", "--gradients")
    assert said.returncode == 0, said.stderr


def check_loops(folder):
    """A loop of which only a run tells the trips has no gradient, and is called what the model calls it."""
    value = helper.make_tensor_value_info
    body = helper.make_graph([node("MatMul", "h w", "h2"), node("Identity", "c", "c2")], "body",
                             [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("h", F, ["n", 4])],
                             [value("c2", TensorProto.BOOL, []), value("h2", F, ["n", 4])])
    loop = helper.make_node("Loop", ["trips", "", "x"], ["y"], name="again", body=body)
    graph = helper.make_graph([loop], "g", [value("x", F, ["n", 4]), value("trips", TensorProto.INT64, [])], [value("y", F, ["n", 4])],
                              [numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")])
    model = os.path.join(folder, "loop.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    done = hyp.tool("hypatiac", model, "-o", os.path.join(folder, "never.bin"), "--train", "mse")
    assert done.returncode == 3 and '"again" (Loop)' in done.stderr, done.stderr


def check_verification(folder):
    """A rule that is wrong in the update alone is found by what a variable becomes."""
    model, rules = os.path.join(folder, "net.onnx"), os.path.join(folder, "wrong.rules")
    network(model)
    with open(rules, "w") as file:
        file.write('(rule wrong-root :class E :doc "wrong" (sqrt ?x) => ?x)')
    done = hyp.tool("hypatiac", model, "-o", os.path.join(folder, "never.bin"), "--train", "cross-entropy", "--rules", rules)
    assert done.returncode == 4 and "output 'new:" in done.stderr and "is the rule 'wrong-root'" in done.stderr, done.stderr
    assert not os.path.exists(os.path.join(folder, "never.bin"))


def check_same_bytes(folder):
    model = os.path.join(folder, "net.onnx")
    network(model)
    plans = []
    for i in range(2):
        compile_step(model, os.path.join(folder, f"{i}.bin"))
        plans.append(open(os.path.join(folder, f"{i}.bin"), "rb").read())
    assert plans[0] == plans[1]


def main():
    with tempfile.TemporaryDirectory() as folder:
        if "cuda" in sys.argv:
            check_training(folder, Sgd, "--target", "cuda", devices=["cuda"])
            check_training(folder, AdamW, "--target", "cuda", devices=["cuda"])
            check_recurrences(folder, "cuda", ["cuda", "cpu"])
            return
        check_training(folder, Sgd)
        check_training(folder, AdamW)
        check_training(folder, AdamW, "--no-rewrite")
        check_training(folder, Sgd, "--label-smoothing", "0.1", smoothing=0.1)
        check_training(folder, AdamW, "--frozen", "?1", frozen=("w1", "b1"))
        check_gradients(folder)
        check_precisions(folder)
        check_recurrences(folder, "cpu", ["cpu", "reference"])
        check_words(folder)
        check_gates(folder)
        check_loops(folder)
        check_short_norms(folder)
        check_verification(folder)
        check_same_bytes(folder)


main()
