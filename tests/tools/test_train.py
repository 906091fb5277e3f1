"""hypatia train and hypatia export as their users meet them: the order of rows, losses and models are judged by numpy and
onnxruntime, files by what the formats say; trainings that were interrupted, killed or short of room go on to the same bits.

    test_train.py [--device cuda] [CHECK ...]

HYP_TRAIN_KILLS in the environment says how often a training is killed (10)."""
import json
import os
import pty
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../support")]
import hyp  # noqa: E402
from philox import uniform  # noqa: E402

onnx, np = hyp.need("onnx", "numpy")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

ROWS, WIDTH, HIDDEN, CLASSES = 100, 64, 16, 10
MASK = (1 << 64) - 1


# ---- a model, its step, its data ------------------------------------------------------------------------------------

def make_weights():
    draw = np.random.default_rng(3)
    return {"w1": draw.standard_normal((HIDDEN, WIDTH)).astype(np.float32) / 8, "b1": np.zeros(HIDDEN, np.float32),
            "w2": draw.standard_normal((CLASSES, HIDDEN)).astype(np.float32) / 4, "b2": np.zeros(CLASSES, np.float32),
            "scale": np.full(WIDTH, 1.5, np.float32)}


def write_model(path, weights, ratio=0):
    """With a dropout of the hidden values where there is a ratio."""
    nodes = [helper.make_node("Mul", ["image", "scale"], ["scaled"]),
             helper.make_node("Gemm", ["scaled", "w1", "b1"], ["a"], transB=1), helper.make_node("Relu", ["a"], ["h"]),
             helper.make_node("Gemm", ["h", "w2", "b2"], ["logits"], transB=1)]
    if ratio:
        nodes[2].output[0] = "whole"
        nodes.insert(3, helper.make_node("Constant", [], ["ratio"], value_float=ratio))
        nodes.insert(4, helper.make_node("Dropout", ["whole", "ratio"], ["h"]))
    graph = helper.make_graph(nodes, "digits", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", WIDTH])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", CLASSES])],
                              [numpy_helper.from_array(v, n) for n, v in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def splitmix(key, i):
    z = (key + (i + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return z ^ z >> 31


def order_of(rows, seed, epoch):
    order, key = list(range(rows)), splitmix(seed, epoch)
    for i in range(rows - 1, 0, -1):
        k = splitmix(key, i) * (i + 1) >> 64
        order[i], order[k] = order[k], order[i]
    return order


def expected_losses(weights, images, labels, rate_of, epochs, batch, seed, rows=ROWS):
    """Plain SGD on the cross-entropy, in double; the loss of every step, and what the weights become. An epoch takes so many
    rows."""
    w = {n: v.astype(np.float64) for n, v in weights.items()}
    losses = []
    for epoch in range(epochs):
        order = order_of(len(images), seed, epoch)[:rows]
        for at in range(0, rows, batch):
            x, y = images[order[at:at + batch]].astype(np.float64) * w["scale"], labels[order[at:at + batch]]
            a = x @ w["w1"].T + w["b1"]
            h = np.maximum(a, 0)
            z = h @ w["w2"].T + w["b2"]
            p = np.exp(z - z.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            losses.append(-np.log(p[np.arange(len(y)), y]).mean())
            p[np.arange(len(y)), y] -= 1
            dz = p / len(y)
            da = (dz @ w["w2"]) * (a > 0)
            rate = rate_of(len(losses) - 1)
            w["w2"] -= rate * dz.T @ h
            w["b2"] -= rate * dz.sum(0)
            w["w1"] -= rate * da.T @ x
            w["b1"] -= rate * da.sum(0)
    return losses, w


def read_safetensors(path):
    """By the text of the format alone."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    meta, body, types = header.pop("__metadata__"), data[8 + size:], {"F32": np.float32, "I64": np.int64, "F64": np.float64}
    at = 0
    for value in sorted(header.values(), key=lambda v: v["data_offsets"]):
        assert value["data_offsets"][0] == at, header
        at = value["data_offsets"][1]
    assert at == len(body) and size % 8 == 0
    return {name: np.frombuffer(body[v["data_offsets"][0]:v["data_offsets"][1]], types[v["dtype"]]).reshape(v["shape"])
            for name, v in header.items()}, meta


class Place:
    """A folder with a step, its data, and the command line that all trainings share."""

    def __init__(self, folder, device):
        self.folder, self.device = folder, device
        examples = os.path.join(hyp.ROOT, "examples/digits")
        self.images, self.labels = np.load(f"{examples}/images.npy"), np.load(f"{examples}/labels.npy")
        self.weights = make_weights()
        np.save(self.path("x.npy"), self.images)
        np.save(self.path("y.npy"), self.labels)
        write_model(self.path("model.onnx"), self.weights)
        self.compile("sgd.bin", "--optimizer", "sgd")
        self.compile("adamw.bin", "--optimizer", "adamw")

    def path(self, name):
        return os.path.join(self.folder, name)

    def compile(self, plan, *options, model="model.onnx"):
        self.tool("hypatiac", self.path(model), "--train", "cross-entropy", "--frozen", "scale", "--target",
                  self.device, *options, "-q", "-o", self.path(plan))

    def tool(self, *command, code=0):
        done = hyp.tool(*command)
        assert done.returncode == code, f"{' '.join(map(str, command))}: {done.returncode}\n{done.stderr}{done.stdout}"
        return done.stdout + done.stderr

    def command(self, run, *options, plan="adamw.bin", data=("x.npy", "y.npy")):
        given = [os.path.join(hyp.BIN, "hypatia"), "train", self.path(plan), "--threads", "1", "--device", self.device,
                 "--checkpoints", self.path(run), "--schedule", "cosine", "--warmup", "3", "--learning-rate", "0.01",
                 "--batch", "32"]
        given += ["--data", f"image={self.path(data[0])}", "--data", f"labels={self.path(data[1])}"] if data else []
        return given + [str(o) for o in options]

    def train(self, run, *options, code=0, **more):
        done = subprocess.run(self.command(run, *options, **more), capture_output=True, text=True, timeout=600)
        assert done.returncode == code, f"{options}: {done.returncode}\n{done.stderr}{done.stdout}"
        return done.stdout + done.stderr

    def bytes_of(self, run, name):
        with open(self.path(f"{run}/{name}"), "rb") as file:
            return file.read()

    def same(self, run, other, *names):
        for name in names or sorted(os.listdir(self.path(other))):
            assert self.bytes_of(run, name) == self.bytes_of(other, name), (run, other, name)
        assert names or sorted(os.listdir(self.path(run))) == sorted(os.listdir(self.path(other))), run

    def metrics(self, name):
        with open(self.path(name)) as file:
            return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in file]


# ---- what is computed ---------------------------------------------------------------------------------------------------

def check_against_numpy(p):
    """Order, batches, schedule, losses, variables: SGD as numpy does it."""
    p.train("numpy", "--epochs", 3, "--seed", 7, "--learning-rate", 0.3, "--metrics", p.path("numpy.jsonl"), plan="sgd.bin")
    total, warm = 12, 3

    def rate(step):
        if step < warm:
            return 0.3 * (step + 1) / (warm + 1)
        return 0.3 * (1 + np.cos(np.pi * (step - warm) / (total - warm))) / 2
    losses, weights = expected_losses(p.weights, p.images, p.labels, rate, 3, 32, 7)
    lines = p.metrics("numpy.jsonl")
    steps = [line for line in lines if line["event"] == "step"]
    assert [line["step"] for line in steps] == list(range(1, total + 1))
    assert np.allclose([line["learning-rate"] for line in steps], [rate(i) for i in range(total)], rtol=1e-6, atol=1e-9)
    assert np.allclose([line["loss"] for line in steps], losses, rtol=1e-5), (steps, losses)
    epochs = [line for line in lines if line["event"] == "epoch"]
    sizes = [32, 32, 32, 4]
    assert np.isclose(epochs[1]["loss"], np.dot(losses[4:8], sizes) / ROWS, rtol=1e-5) and epochs[1]["accuracy"] is None
    got, meta = read_safetensors(p.path("numpy/step-00000012.safetensors"))
    assert set(got) == {"w1", "b1", "w2", "b2"}, set(got)
    for name, value in got.items():
        assert np.allclose(value, weights[name], rtol=1e-4, atol=1e-5), name
    assert meta["step"] == "12" and meta["epoch"] == "3" and meta["position"] == "0" and meta["seed"] == "7", meta


def check_fixed_input(p):
    """An input that is the same in every batch gives what an initializer gives."""
    model = onnx.load(p.path("model.onnx"))
    scale = next(t for t in model.graph.initializer if t.name == "scale")
    model.graph.initializer.remove(scale)
    model.graph.input.append(helper.make_tensor_value_info("scale", TensorProto.FLOAT, [WIDTH]))
    onnx.save(model, p.path("scaled.onnx"))
    np.save(p.path("scale.npy"), p.weights["scale"])
    p.tool("hypatiac", p.path("scaled.onnx"), "--train", "cross-entropy", "--optimizer", "sgd", "-q", "-o",
           p.path("scaled.bin"))
    given = ["--epochs", 3, "--seed", 7, "--learning-rate", 0.3, "--metrics", p.path("scaled.jsonl")]
    p.train("scaled", *given, "--input", f"scale=@{p.path('scale.npy')}", plan="scaled.bin")
    losses = [[line["loss"] for line in p.metrics(name)] for name in ("scaled.jsonl", "numpy.jsonl")]
    assert np.allclose(losses[0], losses[1], rtol=1e-5), losses
    assert "input scale has no data" in p.train("scaled2", "--epochs", 1, plan="scaled.bin", code=2)
    np.save(p.path("scale2.npy"), p.weights["scale"][:5])
    short = ["--input", f"scale=@{p.path('scale2.npy')}"]
    assert "64 is wanted" in p.train("scaled2", "--epochs", 1, *short, plan="scaled.bin", code=2)
    assert "names no input" in p.train("scaled2", "--epochs", 1, "--input", "scall=@x.npy", plan="scaled.bin", code=2)


def check_validation(p):
    """Loss and accuracy of the model as it is, on rows that are not trained on; the variables stay as they are."""
    np.save(p.path("vx.npy"), p.images[::-1][:45].copy())
    np.save(p.path("vy.npy"), p.labels[::-1][:45].copy())
    validate = ["--validate", f"image={p.path('vx.npy')}", "--validate", f"labels={p.path('vy.npy')}"]
    out = p.train("valid", "--epochs", 4, *validate, "--metrics", p.path("valid.jsonl"), "--keep", 9, "--curve",
                  p.path("v.svg"))
    p.train("plain", "--epochs", 4, "--keep", 9)
    for epoch in [line for line in p.metrics("valid.jsonl") if line["event"] == "epoch"]:
        name = f"step-{epoch['step']:08d}.safetensors"
        got, meta = read_safetensors(p.path(f"valid/{name}"))
        plain, _ = read_safetensors(p.path(f"plain/{name}"))
        assert all(np.array_equal(got[n], plain[n]) for n in plain)
        h = np.maximum(p.images[::-1][:45] * p.weights["scale"] @ got["w1"].T + got["b1"], 0)
        z = (h @ got["w2"].T + got["b2"]).astype(np.float64)
        y = p.labels[::-1][:45]
        loss = (np.log(np.exp(z).sum(1)) - z[np.arange(45), y]).mean()
        assert np.isclose(epoch["validation-loss"], loss, rtol=1e-4), (epoch, loss)
        assert np.isclose(epoch["accuracy"], (z.argmax(1) == y).mean(), rtol=1e-8), epoch
        assert f"validation {epoch['validation-loss']:.6g}" in out and meta["best-loss"] != "inf"
    best = min((line["validation-loss"], line["step"]) for line in p.metrics("valid.jsonl") if line["event"] == "epoch")
    assert read_safetensors(p.path("valid/best.safetensors"))[1]["step"] == str(best[1])
    with open(p.path("v.svg")) as file:
        text = file.read()
    assert text.startswith("<svg") and text.endswith("</svg>\n") and text.count("<circle") == 8, text[:200]


def check_data(p):
    """Shards, and other types, are the same data."""
    os.mkdir(p.path("xs")), os.mkdir(p.path("ys"))
    for i, at in enumerate([0, 1, 7, 7, 15, 22, 30, 41, 50, 68, 90]):  # part-10 comes last; one has no rows
        end = [1, 7, 7, 15, 22, 30, 41, 50, 68, 90, ROWS][i]
        np.save(p.path(f"xs/part-{i}.npy"), p.images[at:end])
        np.save(p.path(f"ys/part-{i}.npy"), p.labels[at:end].astype(np.int64))
    levels = np.round(p.images * 16).astype(np.uint8)
    assert np.array_equal(levels.astype(np.float32) * np.float32(1 / 16), p.images)
    np.save(p.path("x8.npy"), levels)
    np.save(p.path("y8.npy"), p.labels.astype(np.uint8))
    np.save(p.path("x64.npy"), p.images.astype(np.float64))
    np.save(p.path("y32.npy"), p.labels.astype(np.int32))
    p.train("whole", "--epochs", 2)
    p.train("shards", "--epochs", 2, data=("xs", "ys"))
    p.train("narrow", "--epochs", 2, "--scale", f"image={1 / 16}", data=("x8.npy", "y8.npy"))
    p.train("wide", "--epochs", 2, data=("x64.npy", "y32.npy"))
    for run in ("shards", "narrow", "wide"):
        p.same(run, "whole")
    p.train("seeded", "--epochs", 2, "--seed", 1)
    assert p.bytes_of("seeded", "step-00000008.safetensors") != p.bytes_of("whole", "step-00000008.safetensors")


def check_fixed_batch(p):
    """A plan for batches of one size leaves out what does not fill one."""
    p.compile("fixed.bin", "--dim", "batch=32")
    out = p.train("fixed", "--epochs", 2, "--metrics", p.path("fixed.jsonl"), plan="fixed.bin")
    assert "in each epoch 4 of 100 rows are left out" in out and "ended after step 6 of 6" in out, out
    assert "only" in p.train("fixed2", "--epochs", 1, plan="fixed.bin", data=("xs/part-1.npy", "ys/part-1.npy"), code=2)
    assert "batches of 32" in p.train("fixed2", "--epochs", 1, "--batch", 16, plan="fixed.bin", code=2)
    validate = ["--validate", f"image={p.path('xs/part-1.npy')}", "--validate", f"labels={p.path('ys/part-1.npy')}"]
    assert "but there are only 6 rows" in p.train("fixed2", "--epochs", 1, *validate, plan="fixed.bin", code=2)
    p.train("loose", "--epochs", 2, "--batch", 24, "--stop-after", 2)
    assert "within a batch of the plan" in p.train("loose", "--epochs", 2, "--resume", plan="fixed.bin", code=2)
    p.train("small", "--epochs", 1, data=("xs/part-1.npy", "ys/part-1.npy"))  # fewer rows than a batch


def check_resuming(p):
    """17 steps and 23 more are 40 steps: variables, best, position, metrics and curve."""
    options = ["--epochs", 10, "--every", 3]
    p.train("once", *options, "--metrics", p.path("once.jsonl"), "--curve", p.path("once.svg"))
    out = p.train("twice", *options, "--stop-after", 17, "--metrics", p.path("twice.jsonl"))
    assert "stopped after step 17 of 40" in out, out
    with open(p.path("twice.jsonl"), "a") as file:
        file.write('{"event":"step","step":18,"epoch":4,"loss":9}\n{"event":"st')  # of a process that was killed
    out = p.train("twice", *options, "--resume", "--metrics", p.path("twice.jsonl"), "--curve", p.path("twice.svg"))
    assert "resumed after step 17" in out and "ended after step 40 of 40" in out, out
    p.same("twice", "once")
    assert p.metrics("twice.jsonl") == p.metrics("once.jsonl")
    with open(p.path("once.svg")) as one, open(p.path("twice.svg")) as two:
        assert one.read() == two.read()
    assert sorted(os.listdir(p.path("once"))) == ["best.safetensors"] + [f"step-000000{n}.safetensors" for n in (36, 39, 40)]
    assert "ended after step 40" in p.train("twice", *options, "--resume")  # nothing is left to do
    p.same("twice", "once")
    # what other bits would follow from is refused, or said
    assert "leave the option out" in p.train("twice", *options, "--resume", "--seed", 3, code=2)
    np.save(p.path("x99.npy"), p.images[:99])
    np.save(p.path("y99.npy"), p.labels[:99])
    assert "99" in p.train("twice", *options, "--resume", data=("x99.npy", "y99.npy"), code=2)
    assert "tensors, but the plan 4 variables" in p.train("twice", *options, "--resume", plan="sgd.bin", code=2)
    assert "learning rate is another" in p.train("twice", "--epochs", 11, "--resume")
    assert "has checkpoints of another training" in p.train("twice", *options, code=2)
    with open(p.path("other.txt"), "w") as file:
        file.write("not metrics\n")
    assert "no file of metrics" in p.train("twice", "--epochs", 12, "--resume", "--metrics", p.path("other.txt"), code=2)
    with open(p.path("other.txt")) as file:
        assert file.read() == "not metrics\n"


def first_dropped_loss(p, seed, rows):
    """Of these rows of the first step of --seed 0, by numpy, half of the hidden values being dropped."""
    order = order_of(ROWS, 0, 0)[rows]
    kept = uniform(seed, 0, 0, (len(order), HIDDEN)) >= np.float32(0.5)
    w = {n: v.astype(np.float64) for n, v in p.weights.items()}
    h = np.maximum(p.images[order] * w["scale"] @ w["w1"].T + w["b1"], 0) * kept * 2
    z = h @ w["w2"].T + w["b2"]
    return (np.log(np.exp(z).sum(1)) - z[np.arange(len(order)), p.labels[order]]).mean()


def check_dropout(p):
    """A step that drops: by a seed, the same again after a stop and in two ranks' first, and nothing where it is validated."""
    p.tool("hypatiac", p.path("model.onnx"), "--train", "cross-entropy", "--dropout", "-q", "-o", p.path("none.bin"), code=2)
    write_model(p.path("dropping.onnx"), p.weights, 0.5)
    p.compile("dropping.bin", "--optimizer", "sgd", "--dropout", model="dropping.onnx")
    p.compile("still.bin", "--optimizer", "sgd", model="dropping.onnx")
    options = ["--epochs", 3, "--every", 1, "--validate", f"image={p.path('x.npy')}", "--validate", f"labels={p.path('y.npy')}"]
    runs = {"drop": [], "drop-again": [], "drop-seed": ["--seed", 4], "still": []}
    for run, more in runs.items():
        p.train(run, *options, *more, "--metrics", p.path(run + ".jsonl"), plan="still.bin" if run == "still" else "dropping.bin")
    p.same("drop-again", "drop")
    p.train("drop-stop", *options, "--stop-after", 5, plan="dropping.bin")
    p.train("drop-stop", *options, "--resume", plan="dropping.bin")
    p.same("drop-stop", "drop")
    last = "step-00000012.safetensors"
    found, meta = read_safetensors(p.path("drop/" + last))
    assert found[":draws"] == 12 and meta["step"] == "12", meta
    assert p.bytes_of("drop", last) != p.bytes_of("drop-seed", last)
    loss, first = first_dropped_loss(p, splitmix(MASK, 0), slice(32)), p.metrics("drop.jsonl")[0]["loss"]
    assert abs(first - loss) < 1e-5 and abs(first - p.metrics("still.jsonl")[0]["loss"]) > 1e-3, (first, loss)
    # validation is of the model as it is: numpy's, from the variables of the last checkpoint
    w = {n: v.astype(np.float64) for n, v in p.weights.items()}
    w.update({n: v.astype(np.float64) for n, v in found.items()})
    z = np.maximum(p.images * w["scale"] @ w["w1"].T + w["b1"], 0) @ w["w2"].T + w["b2"]
    loss = (np.log(np.exp(z).sum(1)) - z[np.arange(ROWS), p.labels]).mean()
    last = [m for m in p.metrics("drop.jsonl") if m["event"] == "epoch"][-1]["validation-loss"]
    assert abs(last - loss) < 1e-5, (last, loss)
    given = p.train("drop", *options, "--resume", "--input", f"seed=@{p.path('y.npy')}", plan="dropping.bin", code=2)
    assert "names no input" in given, given


# ---- what goes wrong ------------------------------------------------------------------------------------------------------

def check_refusals(p):
    def refused(*options, code=2, **more):
        out = p.train("refused", "--epochs", 1, *options, code=code, **more)
        assert not os.path.exists(p.path("refused")) or not os.listdir(p.path("refused")), out
        return out
    x, y = f"image={p.path('x.npy')}", f"labels={p.path('y.npy')}"
    assert "no data was given" in refused(data=None)
    assert "input labels has no data" in refused("--data", x, data=None)
    assert "the plan has no such input; did you mean 'image'?" in refused("--data", f"imag={p.path('x.npy')}", data=None)
    assert "given twice" in refused("--data", x)
    assert "but the plan wants f32[batch 64]" in refused("--data", f"image={p.path('y.npy')}", "--data", y, data=None)
    assert "but the plan wants i64[batch]" in refused("--data", x, "--data", f"labels={p.path('x64.npy')}", data=None)
    assert "has 99 rows, but image has 100" in refused("--data", x, "--data", f"labels={p.path('y99.npy')}", data=None)
    assert "not of the form" in refused("--data", "image", data=None)
    assert "cannot open" in refused("--data", "image=/absent.npy", data=None, code=1)
    os.mkdir(p.path("empty"))
    assert "has no .npy files" in refused("--data", f"image={p.path('empty')}", data=None, code=1)
    shutil.copy(p.path("x.npy"), p.path("empty/1.npy"))
    shutil.copy(p.path("y.npy"), p.path("empty/2.npy"))
    assert "another type or other dims" in refused("--data", f"image={p.path('empty')}", data=None)
    np.save(p.path("rows0.npy"), p.images[:0])
    np.save(p.path("labels0.npy"), p.labels[:0])
    assert "there are no rows" in refused(data=("rows0.npy", "labels0.npy"))
    np.save(p.path("scalar.npy"), np.float32(1))
    assert "has no rows" in refused("--data", f"image={p.path('scalar.npy')}", data=None)
    assert "only f32 is scaled" in refused("--scale", "labels=2")
    assert "no data of this name" in refused("--scale", "x=2")
    assert "same inputs" in refused("--validate", x)
    assert "--schedule" in refused("--schedule", "step:0:1")
    assert "is the same file as data" in refused("--metrics", p.path("x.npy"))
    assert "no training step" in p.train("refused", "--epochs", 1, plan="inference.bin", code=2)
    assert "--keep" in refused("--keep", "0")


def check_hostile_files(p):
    """Any bytes in place of data or checkpoints are an error, or numbers; never a crash, never much memory."""
    draw = random.Random(5)
    p.train("victim", "--epochs", 1)
    good = {"x.npy": open(p.path("x.npy"), "rb").read(), "step": p.bytes_of("victim", "step-00000004.safetensors")}

    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    probe = subprocess.run([os.path.join(hyp.BIN, "hypatia"), "--version"], capture_output=True, preexec_fn=limited)
    limit = limited if probe.returncode == 0 else None  # sanitizers want more for themselves
    for i in range(40):
        data = bytearray(good["x.npy" if i % 2 else "step"])
        for _ in range(draw.choice([1, 1, 4])):
            data[draw.randrange(min(len(data), 128 if i % 4 < 2 else 600))] = draw.randrange(256)
        if i % 5 == 0:
            del data[draw.randrange(len(data)):]
        name = p.path("hostile.npy") if i % 2 else p.path("victim/step-00000004.safetensors")
        with open(name, "wb") as file:
            file.write(data)
        shutil.rmtree(p.path("hostile"), ignore_errors=True)
        options = ["--epochs", 2, "--resume"]
        command = p.command("hostile", *options, data=("hostile.npy", "y.npy")) if i % 2 else p.command("victim", *options)
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, preexec_fn=limit)
        assert done.returncode in (0, 1, 2, 3), (i, done.returncode, done.stderr)
        assert done.returncode == 0 or done.stderr, i
        for name in os.listdir(p.path("victim")):
            os.unlink(p.path(f"victim/{name}"))


def check_losing_the_way(p):
    """A loss that is no number ends a training, and spoils no checkpoint."""
    p.train("lost", "--epochs", 1, plan="sgd.bin")
    before = {n: p.bytes_of("lost", n) for n in os.listdir(p.path("lost"))}
    out = p.train("lost", "--epochs", 5, "--resume", "--learning-rate", "1e25", "--warmup", 0, plan="sgd.bin", code=1)
    assert "the training has come apart" in out and "The last checkpoint is of step" in out, out
    for name, data in before.items():
        assert p.bytes_of("lost", name) == data
    out = p.train("lost", "--epochs", 5, "--resume", "--learning-rate", "1e25", "--warmup", 0, "--allow-nan", plan="sgd.bin")
    assert "ended after step 20" in out, out
    # what the loss shows a step later is not saved either
    for rate in ("1e10", "1e20", "1e30"):
        options = ["--epochs", 5, "--every", 1, "--keep", 99, "--learning-rate", rate, "--warmup", 0]
        assert "come apart" in p.train("each" + rate, *options, plan="sgd.bin", code=1)
        for name in os.listdir(p.path("each" + rate)):
            got, _ = read_safetensors(p.path(f"each{rate}/{name}"))
            assert all(np.isfinite(v).all() for v in got.values()), (rate, name)


def check_failing_step(p):
    """A label that is no class fails its step; the state before it is saved."""
    labels = p.labels.copy()
    labels[order_of(ROWS, 0, 0)[70]] = CLASSES  # in the third step
    np.save(p.path("beyond.npy"), labels)
    out = subprocess.run(p.command("beyond", "--epochs", 2, data=("x.npy", "beyond.npy")), capture_output=True, text=True)
    assert out.returncode == 2 and "that was step 3 of the training" in out.stderr, out
    assert "after step 2 is in" in out.stderr, out
    _, meta = read_safetensors(p.path("beyond/step-00000002.safetensors"))
    assert meta["step"] == "2" and meta["position"] == "64"


def catches(process, number):
    """Whether a process has a handler of this signal: before, it has nothing to save, and ends at once."""
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        return int(re.search(r"^SigCgt:\s*(\w+)", status.read(), re.MULTILINE)[1], 16) >> (number - 1) & 1


def check_interrupting(p):
    for number in (signal.SIGINT, signal.SIGTERM):
        run = f"stop{int(number)}"
        process = subprocess.Popen(p.command(run, "--epochs", 1000000, "--schedule", "constant"), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        while process.poll() is None and not catches(process, number):
            time.sleep(0.01)
        process.send_signal(number)
        out, told = process.communicate(timeout=600)
        assert process.returncode == 130 and "interrupted after step" in out and "--resume goes on" in out, out + told
        steps = int(out.split("interrupted after step ")[1].split()[0])
        p.train(run + "once", "--epochs", 1000000, "--schedule", "constant", "--stop-after", steps + 5)
        p.train(run, "--epochs", 1000000, "--schedule", "constant", "--stop-after", 5, "--resume")
        p.same(run, run + "once", f"step-{steps + 5:08d}.safetensors", "best.safetensors")


def check_kills(p):
    """SIGKILL at random moments: what there is can always be resumed from, and the end is the same."""
    kills, draw = int(os.environ.get("HYP_TRAIN_KILLS", "10")), random.Random(11)
    options = ["--epochs", 30, "--every", 3, "--metrics", p.path("kill.jsonl")]
    p.train("unkilled", "--epochs", 30, "--every", 3, "--metrics", p.path("unkilled.jsonl"))
    begun = time.monotonic()
    p.train("timed", "--epochs", 30, "--every", 3)
    span, done, rounds = time.monotonic() - begun, 0, 0
    while done < kills:
        rounds += 1
        process = subprocess.Popen(p.command("killed", *options, "--resume"), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE)
        time.sleep(draw.random() * span)
        process.kill()
        _, told = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), told
        assert b"damaged" not in told and b"cut off" not in told and b"gaps" not in told, told
        done += process.returncode != 0
        if process.returncode == 0:  # it had ended
            p.same("killed", "unkilled")
            shutil.rmtree(p.path("killed"))
        for name in os.listdir(p.path("killed")) if os.path.exists(p.path("killed")) else []:
            if name.endswith(".safetensors"):
                read_safetensors(p.path(f"killed/{name}"))
    p.train("killed", *options, "--resume")
    p.same("killed", "unkilled")
    assert p.metrics("kill.jsonl") == p.metrics("unkilled.jsonl")
    print(f"killed {done} times in {rounds} runs")


def check_full_disk(p):
    """A file that may not be written: nothing that was there is lost, and what can be saved is."""
    p.train("full", "--epochs", 2)
    before = {n: p.bytes_of("full", n) for n in os.listdir(p.path("full"))}

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))
    done = subprocess.run(p.command("full", "--epochs", 4, "--resume"), capture_output=True, text=True, preexec_fn=limited)
    assert done.returncode == 1 and "File too large" in done.stderr, done
    assert "cannot write the checkpoint there either" in done.stderr, done
    for name, data in before.items():
        assert p.bytes_of("full", name) == data
    assert len(os.listdir(p.path("full"))) == len(before)  # no drafts
    p.train("full", "--epochs", 4, "--resume")
    # metrics that cannot be written end the training, and its state is saved
    out = p.train("dev-full", "--epochs", 2, "--metrics", "/dev/full", code=1)
    assert "/dev/full: cannot write" in out and os.path.exists(p.path("dev-full/step-00000001.safetensors")), out
    p.train("dev-full", "--epochs", 2, "--resume")
    p.train("straight", "--epochs", 2)
    p.same("dev-full", "straight", "step-00000008.safetensors", "best.safetensors")
    check_small_disk(p)


def check_small_disk(p):
    """A file system that is full for a while, and then is not."""
    p.train("roomy", "--epochs", 3, "--keep", 1)
    size = len(p.bytes_of("roomy", "step-00000012.safetensors"))
    os.mkdir(p.path("disk"))
    rescue = p.path("rescue")
    os.mkdir(rescue)
    script = 'mount -t tmpfs -o size=$1 none "$2" || exit 77; shift 2; export TMPDIR="$1"; shift; exec "$@"'
    command = ["unshare", "-rm", "sh", "-c", script, "sh", str(size * 3 // 2), p.path("disk"), rescue,
               *p.command("disk/run", "--epochs", 3, "--keep", 1)]
    if not shutil.which("unshare"):
        print("left out: a small disk (there is no unshare)")
        return
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 77 or "unshare" in done.stderr:
        print(f"left out: a small disk ({done.stderr.strip()})")
        return
    # there is room for one checkpoint, and none for the next beside it: it goes elsewhere
    assert done.returncode == 1 and "No space left on device" in done.stderr and "the state is in" in done.stderr, done
    name = os.listdir(rescue)[0]
    os.makedirs(p.path("saved"))
    os.rename(os.path.join(rescue, name), p.path("saved/step-00000012.safetensors"))
    got, meta = read_safetensors(p.path("saved/step-00000012.safetensors"))
    wanted, _ = read_safetensors(p.path("roomy/step-00000012.safetensors"))
    assert all(np.array_equal(got[n], wanted[n]) for n in wanted) and meta["step"] == "12"
    assert "ended after step 12" in p.train("saved", "--epochs", 3, "--resume")


def check_read_only_folder(p):
    """Is seen before the first step. As root, who may write anywhere, as somebody else."""
    os.mkdir(p.path("locked"))
    os.chmod(p.path("locked"), 0o555)
    os.chmod(p.folder, 0o755)

    def somebody():
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
    for run, part in (("locked", "Permission denied"), ("locked/deeper", "Permission denied"), ("x.npy", "Not a directory")):
        try:
            done = subprocess.run(p.command(run, "--epochs", 1), capture_output=True, text=True, preexec_fn=somebody)
        except (subprocess.SubprocessError, PermissionError) as error:
            print(f"left out: a read-only folder ({error})")
            break
        assert done.returncode == 1 and part in done.stderr and done.stdout == "", done
    os.chmod(p.path("locked"), 0o755)


def check_terminal(p):
    """The line that follows the steps is for terminals."""
    plain = p.train("plain-line", "--epochs", 2)
    assert "\r" not in plain and "\033" not in plain and plain.count("\n") == 3, plain
    main, other = pty.openpty()
    process = subprocess.Popen(p.command("line", "--epochs", 2), stdout=subprocess.PIPE, stderr=other, text=True,
                               env=os.environ | {"HYPATIA_PROGRESS": "0", "TERM": "xterm", "COLUMNS": "300"})
    os.close(other)
    told = hyp.read_terminal(main)
    out = process.communicate()[0]
    assert process.returncode == 0 and "\r" not in out and out.count("epoch") == 2, out
    assert b"\r\033[Khypatia train: step " in told and b" samples/s, " in told and b" left" in told, told
    assert told.endswith(b"\r\033[K"), told
    assert p.train("silent", "--epochs", 1, "--quiet") == ""


# ---- models of what was trained -------------------------------------------------------------------------------------------

def check_export(p):
    p.train("exported", "--epochs", 3)
    model = p.path("trained.onnx")
    p.tool("hypatia", "export", p.path("adamw.bin"), p.path("exported"), "-o", model)
    onnx.checker.check_model(model, full_check=True)
    got, _ = read_safetensors(p.path("exported/best.safetensors"))
    trained, before = onnx.load(model), onnx.load(p.path("model.onnx"))
    for tensor, was in zip(trained.graph.initializer, before.graph.initializer):
        wanted = got.get(tensor.name, numpy_helper.to_array(was))
        assert tensor.name == was.name and np.array_equal(numpy_helper.to_array(tensor), wanted), tensor.name
        tensor.CopyFrom(was)
    assert trained == before  # all but the elements
    # what validation says of the last step is what others compute with the model
    try:
        import onnxruntime
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        z = session.run(None, {"image": p.images})[0].astype(np.float64)
        p.train("judged", "--epochs", 3, "--metrics", p.path("judged.jsonl"), "--validate", f"image={p.path('x.npy')}",
                "--validate", f"labels={p.path('y.npy')}")
        last = [line for line in p.metrics("judged.jsonl") if line["event"] == "epoch"][-1]
        loss = (np.log(np.exp(z).sum(1)) - z[np.arange(ROWS), p.labels]).mean()
        assert np.isclose(last["validation-loss"], loss, rtol=1e-4), (last, loss)
        assert np.isclose(last["accuracy"], (z.argmax(1) == p.labels).mean(), rtol=1e-8)
    except ImportError as missing:
        print(f"left out: outputs beside onnxruntime ({missing})")
    p.tool("hypatiac", model, "-q", "-o", p.path("trained.bin"))
    # one checkpoint, and a file that another program could have written
    again = ["-o", p.path("again.onnx")]
    p.tool("hypatia", "export", p.path("adamw.bin"), p.path("exported/step-00000012.safetensors"), *again)
    assert open(p.path("again.onnx"), "rb").read() == open(model, "rb").read()
    p.tool("hypatia", "export", p.path("adamw.bin"), p.path("exported"), "--model", p.path("model.onnx"), *again)
    assert open(p.path("again.onnx"), "rb").read() == open(model, "rb").read()
    check_export_of_large_models(p)
    check_export_refusals(p, model)


def check_export_of_large_models(p):
    """Elements in other files come into the model; one that is large without what is trained is given again."""
    model, checkpoint = onnx.load(p.path("model.onnx")), p.path("exported/best.safetensors")
    os.mkdir(p.path("beside"))
    onnx.save(model, p.path("beside/m.onnx"), save_as_external_data=True, location="m.data", size_threshold=0)
    options = ["--train", "cross-entropy", "--frozen", "scale", "-q", "-o"]
    p.tool("hypatiac", p.path("beside/m.onnx"), *options, p.path("beside.bin"))
    shutil.rmtree(p.path("beside"))
    p.tool("hypatia", "export", p.path("beside.bin"), checkpoint, "-o", p.path("whole.onnx"))
    whole, trained = onnx.load(p.path("whole.onnx")), onnx.load(p.path("trained.onnx"))
    for a, b in zip(whole.graph.initializer, trained.graph.initializer):
        assert np.array_equal(numpy_helper.to_array(a), numpy_helper.to_array(b)), a.name
    model = onnx.load(p.path("model.onnx"))  # saving has changed the other one
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((1 << 24) + (1 << 18), np.float32), "unused"))
    onnx.save(model, p.path("large.onnx"))
    p.tool("hypatiac", p.path("large.onnx"), *options, p.path("large.bin"))
    assert os.path.getsize(p.path("large.bin")) < 1 << 20
    export = ["hypatia", "export", p.path("large.bin"), checkpoint, "-o", p.path("large2.onnx")]
    assert "give it, too" in p.tool(*export, code=3)
    p.tool(*export, "--model", p.path("large.onnx"))
    large = onnx.load(p.path("large2.onnx"))
    assert [t.name for t in large.graph.initializer][-1] == "unused"
    for a, b in zip(large.graph.initializer, trained.graph.initializer):
        assert np.array_equal(numpy_helper.to_array(a), numpy_helper.to_array(b)), a.name


def check_export_refusals(p, model):
    def refused(*options, code):
        done = hyp.tool("hypatia", "export", *options)
        assert done.returncode == code and not os.path.exists(p.path("none.onnx")), done
        return done.stderr
    none = ["-o", p.path("none.onnx")]
    plan, run = p.path("adamw.bin"), p.path("exported")
    assert "is no training step" in refused(p.path("inference.bin"), run, *none, code=3)
    assert "is no training step" in refused(p.path("inference.bin"), run, "--model", p.path("model.onnx"), *none, code=3)
    os.mkdir(p.path("no-states"))
    assert "has no checkpoints" in refused(plan, p.path("no-states"), *none, code=1)
    assert "cannot open" in refused(plan, p.path("absent"), *none, code=1)
    assert "is not the model" in refused(plan, run, "--model", model, *none, code=2)
    assert "same file" in refused(plan, run, "-o", plan, code=2)
    assert "wanted" in refused(plan, *none, code=2)
    assert "no output" in refused(plan, run, code=2)
    header = json.dumps({"w1": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    with open(p.path("odd.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + bytes(8))
    assert "'w1' is not of its type and dims" in refused(plan, p.path("odd.safetensors"), *none, code=2)
    with open(p.path("odd.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", 2) + b"{}")
    assert "no values are given for the initializer 'w1'" in refused(plan, p.path("odd.safetensors"), *none, code=2)
    given = ["--model", p.path("model.onnx"), *none]
    assert "no values are given for the initializer 'w1'" in refused(plan, p.path("odd.safetensors"), *given, code=2)


def main():
    wanted, device = sys.argv[1:], "cpu"
    if wanted[:1] == ["--device"]:
        device, wanted = wanted[1], wanted[2:]
    with tempfile.TemporaryDirectory() as folder:
        p = Place(folder, device)
        p.tool("hypatiac", p.path("model.onnx"), "-q", "-o", p.path("inference.bin"))
        for check in (check_against_numpy, check_fixed_input, check_validation, check_data, check_fixed_batch,
                      check_resuming, check_dropout, check_refusals, check_hostile_files, check_losing_the_way, check_failing_step,
                      check_interrupting, check_kills, check_full_disk, check_read_only_folder, check_terminal,
                      check_export):
            if not wanted or check.__name__ in wanted:
                check(p)


if __name__ == "__main__":
    main()
