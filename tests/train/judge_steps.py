"""Losses, optimizers and clipping of training steps against numpy, in double and in f32, step by step and state by state."""
import os
import sys
import tempfile

import steps
from philox import uniform

np, onnx = steps.hyp.need("numpy", "onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

TOLERANCE = {"double": 1e-6, "native": 1e-4}  # parameters and constants begin as f32 in both


# ---- losses and their gradients, written out with a one-hot matrix and a log-softmax that finds the largest element

def log_softmax(x):
    x = x - x.max(1, keepdims=True)
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def cross_entropy(x, labels, weights=None, smoothing=0.0, ignore=-100):
    classes = x.shape[1]
    w = np.ones(classes) if weights is None else weights
    shape = (1, classes) + (1,) * (x.ndim - 2)
    kept = (labels != ignore)
    hot = (np.where(kept, labels, 0)[:, None] == np.arange(classes).reshape(shape)).astype(np.float64)
    hot *= kept[:, None]
    target = ((1 - smoothing) * hot + smoothing / classes * kept[:, None]) * w.reshape(shape)
    total = (hot * w.reshape(shape)).sum()
    logp = log_softmax(x)
    loss = -(target * logp).sum() / total
    return loss, (np.exp(logp) * target.sum(1, keepdims=True) - target) / total


def mse(x, t):
    return ((x - t) ** 2).mean(), 2 * (x - t) / x.size


def bce(x, t):
    p = 1 / (1 + np.exp(-x))
    return -(t * np.log(p) + (1 - t) * np.log1p(-p)).mean(), (p - t) / x.size


# ---- optimizers: dicts of arrays

class Sgd:
    def __init__(self, momentum=0, nesterov=0, weight_decay=0):
        self.momentum, self.nesterov, self.decay, self.buffers = momentum, nesterov, weight_decay, {}

    def __call__(self, name, p, g, lr, t):
        g = g + self.decay * p
        if self.momentum:
            self.buffers[name] = g if t == 1 else self.momentum * self.buffers[name] + g
            g = g + self.momentum * self.buffers[name] if self.nesterov else self.buffers[name]
        return p - lr * g

    def state(self, name):
        return {name + ":momentum": self.buffers[name]} if self.momentum else {}


class Adam:
    def __init__(self, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.0, decoupled=False):
        self.b1, self.b2, self.epsilon, self.decay, self.decoupled = beta1, beta2, epsilon, weight_decay, decoupled
        self.m, self.v = {}, {}

    def __call__(self, name, p, g, lr, t):
        if self.decoupled:
            p = p * (1 - lr * self.decay)
        else:
            g = g + self.decay * p
        self.m[name] = self.b1 * self.m.get(name, 0) + (1 - self.b1) * g
        self.v[name] = self.b2 * self.v.get(name, 0) + (1 - self.b2) * g * g
        m, v = self.m[name] / (1 - self.b1 ** t), self.v[name] / (1 - self.b2 ** t)
        return p - lr * m / (np.sqrt(v) + self.epsilon)

    def state(self, name):
        return {name + ":m": self.m[name], name + ":v": self.v[name]}


# ---- a model: y = tanh(x a + b) c, of some shape behind the classes

def make_model(path, rng, classes, behind):
    """x [batch, 5] -> y [batch, classes, behind...]."""
    width = classes * int(np.prod(behind, dtype=int))
    p = {"a": rng.normal(size=(5, 6)) * 0.6, "b": rng.normal(size=6) * 0.1, "c": rng.normal(size=(6, width)) * 0.6}
    p = {k: v.astype(np.float32) for k, v in p.items()}
    nodes = [helper.make_node("Gemm", ["x", "a", "b"], ["h"], name="first"), helper.make_node("Tanh", ["h"], ["t"]),
             helper.make_node("MatMul", ["t", "c"], ["flat"]),
             helper.make_node("Reshape", ["flat", "shape"], ["y"])]
    inits = [numpy_helper.from_array(v, k) for k, v in p.items()]
    inits.append(numpy_helper.from_array(np.array([-1, classes, *behind]), "shape"))
    graph = helper.make_graph(nodes, "steps", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 5])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", classes, *behind])], inits)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return {k: v.astype(np.float64) for k, v in p.items()}


def forward(p, x, shape):
    t = np.tanh(x @ p["a"] + p["b"])
    return t, (t @ p["c"]).reshape(shape)


def backward(p, x, t, g):
    g = g.reshape(len(x), -1)
    h = (g @ p["c"].T) * (1 - t * t)
    return {"a": x.T @ h, "b": h.sum(0), "c": t.T @ g}


def judge(name, options, loss, optimizer, classes=4, behind=(), clip=0, frozen=(), count=6, labels=None):
    rng = np.random.default_rng(len(name))
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        start = make_model(path, rng, classes, behind)
        shape = (7, classes, *behind)
        xs = rng.normal(size=(count, 7, 5)).astype(np.float32)
        targets = [labels(rng, k, (7, *behind)) if labels else rng.random(shape).astype(np.float32) for k in range(count)]
        rates = (0.1 / (1 + np.arange(count))).astype(np.float32)
        feeds = {"x": lambda k: xs[k], "labels": lambda k: targets[k], "target": lambda k: targets[k],
                 "learning-rate": lambda k: rates[k]}
        for mode in "double", "native":
            found = steps.run(path, lambda k, n: feeds[n](k), count, options + [("mode", mode)])
            p, update = dict(start), optimizer()
            for k in range(count):
                x = xs[k].astype(np.float64)
                t, y = forward(p, x, shape)
                value, g = loss(y, targets[k] if labels else targets[k].astype(np.float64))
                gradients = {n: v for n, v in backward(p, x, t, g).items() if n not in frozen}
                norm = np.sqrt(sum((v * v).sum() for v in gradients.values()))
                wanted = {"loss": value, "y": y}
                if clip:
                    wanted["gradient-norm"] = norm
                    gradients = {n: v * min(1, clip / (norm + 1e-6)) for n, v in gradients.items()}
                for n, v in gradients.items():
                    p[n] = update(n, p[n], v, float(rates[k]), k + 1)
                    wanted["var " + n] = p[n]
                    wanted.update({"var " + s: v for s, v in update.state(n).items()})
                if isinstance(update, Adam):
                    wanted["var :step"] = k + 1
                if set(wanted) != set(found[k]):
                    raise RuntimeError(f"{name}: has {sorted(found[k])}, wanted {sorted(wanted)}")
                for n, v in wanted.items():
                    d = steps.difference(found[k][n], v)
                    if not d <= TOLERANCE[mode]:
                        raise RuntimeError(f"{name}, {mode}: '{n}' after step {k} is off by {d:.3g}\n{found[k][n]}\n{v}")
                    worst = max(worst, d) if mode == "double" else worst
    print(f"{name}: largest difference in double {worst:.1e}")


def make_layers(path):
    """y = relu(norm(x a + b)) c + d, of one result: biases of one element, and statistics that no step may change."""
    rng = np.random.default_rng(7)
    p = {"a": rng.normal(size=(5, 4)), "b": rng.normal(size=4), "s": np.ones(4), "o": np.zeros(4), "c": rng.normal(size=(4, 1)),
         "d": np.array([0.3]), "mean": rng.normal(size=4), "var": rng.random(4) + 0.5, "factor": np.array([1.5])}
    p = {k: v.astype(np.float32) for k, v in p.items()}
    nodes = [helper.make_node("Gemm", ["x", "a", "b"], ["h"]),
             helper.make_node("BatchNormalization", ["h", "s", "o", "mean", "var"], ["n"]), helper.make_node("Relu", ["n"], ["r"]),
             helper.make_node("MatMul", ["r", "c"], ["m"]), helper.make_node("Add", ["m", "d"], ["z"]),
             helper.make_node("Mul", ["z", "factor"], ["y"])]
    graph = helper.make_graph(nodes, "layers", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 5])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 1])],
                              [numpy_helper.from_array(v, k) for k, v in p.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return p


def judge_parameters():
    """Which initializers are parameters, and a gradient of the bias that has one element."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        p = make_layers(path)
        x, t = np.ones((2, 5), np.float32), np.zeros((2, 1), np.float32)
        found = steps.run(path, lambda k, n: {"x": x, "target": t}[n], 1, [("loss", "mse"), ("gradients", 1)])[0]
        have = {n for n in found if n.startswith("gradient:")}
        if have != {"gradient:" + n for n in "absocd"}:
            raise RuntimeError(f"parameters are {sorted(have)}")
        wanted = 2 * found["y"].mean() * p["factor"]
        if steps.difference(found["gradient:d"], wanted) > 1e-6:
            raise RuntimeError(f"the gradient of a bias is {found['gradient:d']}, not {wanted}")
    print("parameters: as they should be")


def judge_dropout():
    """Dropouts that drop: forward and backward by masks that numpy makes itself, for steps, seeds and dropouts of their own; what
    is not in training; what is dropped of all."""
    rng = np.random.default_rng(8)
    p = {"a": rng.normal(size=(5, 40)) / 5, "c": rng.normal(size=(40, 3)) / 10}
    p = {k: v.astype(np.float32) for k, v in p.items()}
    ratios, rate = [0.25, 0.6], np.float32(0.01)
    nodes = [helper.make_node("Dropout", ["x", "r0"], ["d"]), helper.make_node("MatMul", ["d", "a"], ["h"]),
             helper.make_node("Dropout", ["h", "r1", "on"], ["e", "unread"]), helper.make_node("Dropout", ["e", "zero"], ["f"]),
             helper.make_node("MatMul", ["f", "c"], ["y"])]
    inits = [numpy_helper.from_array(v, k) for k, v in p.items()]
    inits += [numpy_helper.from_array(np.float32(v), k) for k, v in (("r0", ratios[0]), ("r1", ratios[1]), ("zero", 0))]
    inits.append(numpy_helper.from_array(np.array(True), "on"))
    graph = helper.make_graph(nodes, "dropout", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 5])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])], inits)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        xs, targets = rng.normal(size=(4, 9, 5)).astype(np.float32), rng.normal(size=(4, 9, 3)).astype(np.float32)
        for seed, training in ((5, True), (-2 ** 40, True), (5, False)):
            feeds = {"x": lambda k: xs[k], "target": lambda k: targets[k], "learning-rate": lambda k: rate,
                     "seed": lambda k: np.array(seed), "training": lambda k: np.array(training)}
            found = steps.run(path, lambda k, n: feeds[n](k), 4,
                              [("loss", "mse"), ("optimizer", "sgd"), ("mode", "double"), ("dropout", 1)])
            q = {k: v.astype(np.float64) for k, v in p.items()}
            for k in range(4):
                masks = [np.where(uniform(seed, k, i, shape) < np.float32(r), 0, 1 / (1 - np.float64(np.float32(r))))
                         if training else 1.0 for i, (r, shape) in enumerate(zip(ratios, ((9, 5), (9, 40))))]
                d = xs[k].astype(np.float64) * masks[0]
                f = d @ q["a"] * masks[1]
                y = f @ q["c"]
                value, g = mse(y, targets[k].astype(np.float64))
                q = {"a": q["a"] - rate * d.T @ (g @ q["c"].T * masks[1]), "c": q["c"] - rate * f.T @ g}
                wanted = {"loss": value, "y": y, "var :draws": k + 1, **{"var " + n: v for n, v in q.items()}}
                if set(found[k]) != set(wanted):
                    raise RuntimeError(f"dropout: has {sorted(found[k])}, wanted {sorted(wanted)}")
                for n, v in wanted.items():
                    if not steps.difference(found[k][n], v) <= 1e-6:
                        raise RuntimeError(f"dropout: '{n}' after step {k}: {found[k][n]}, wanted {v}")
    print("dropout: as it should be")


def judge_statistics():
    """Batch normalization that trains: its own mean and variance, what is kept of them, and gradients through both."""
    rng = np.random.default_rng(5)
    momentum, epsilon, rate = 0.8, 1e-2, np.float32(0.1)
    p = {"scale": [1.5, 0.5, 2], "bias": [0.1, 0, -0.2], "mean": [0, 1, 0], "variance": [1, 2, 0.5]}
    p = {k: np.array(v, np.float32) for k, v in p.items()}
    xs, targets = rng.normal(size=(2, 4, 6, 3, 5)).astype(np.float32)
    node = helper.make_node("BatchNormalization", ["x", "scale", "bias", "mean", "variance"], ["y", "m", "v"],
                            training_mode=1, momentum=momentum, epsilon=epsilon)
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 3, 5]) for n in "xy"]
    graph = helper.make_graph([node], "statistics", info[:1], info[1:], [numpy_helper.from_array(v, k) for k, v in p.items()])
    p = {k: v.astype(np.float64) for k, v in p.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8), path)
        feeds = {"x": lambda k: xs[k], "target": lambda k: targets[k], "learning-rate": lambda k: rate}
        options = [("loss", "mse"), ("optimizer", "sgd"), ("mode", "double")]
        for more in [], [("data_parallel", 1)]:
            q = dict(p)
            for k, found in enumerate(steps.run(path, lambda k, n: feeds[n](k), 4, options + more)):
                x, along = xs[k].astype(np.float64), (0, 2)
                mean, variance = x.mean(along), x.var(along)
                hat = (x - mean[:, None]) / np.sqrt(variance + epsilon)[:, None]
                y = hat * q["scale"][:, None] + q["bias"][:, None]
                value, g = mse(y, targets[k].astype(np.float64))
                q = {"scale": q["scale"] - rate * (g * hat).sum(along), "bias": q["bias"] - rate * g.sum(along),
                     "mean": momentum * q["mean"] + (1 - momentum) * mean,
                     "variance": momentum * q["variance"] + (1 - momentum) * variance}
                wanted = {"loss": value, "y": y, **{"var " + n: v for n, v in q.items()}}
                if set(found) != set(wanted):
                    raise RuntimeError(f"statistics: has {sorted(found)}, wanted {sorted(wanted)}")
                for n, v in wanted.items():
                    if not steps.difference(found[n], v) <= 1e-6:
                        raise RuntimeError(f"statistics: '{n}' after step {k}: {found[n]}, wanted {v}")
        found = steps.run(path, lambda k, n: feeds[n](k), 1, options + [("frozen", "mean")])[0]
        if "var mean" in found or "new:mean" in found or "var variance" not in found:
            raise RuntimeError(f"frozen statistics: {sorted(found)}")


def judge_all_ignored():
    """A batch of which no label counts: the loss is no number, and gradients are 0, as in PyTorch."""
    rng = np.random.default_rng(3)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        make_model(path, rng, 4, (2,))
        feeds = {"x": rng.normal(size=(3, 5)).astype(np.float32), "labels": np.full((3, 2), -100)}
        for smoothing in 0, 0.2, 1:
            found = steps.run(path, lambda k, n: feeds[n], 1, [("loss", "cross-entropy"), ("gradients", 1), ("label_smoothing", smoothing)])[0]
            if not np.isnan(found["loss"]) or any(found["gradient:" + n].any() for n in "abc"):
                raise RuntimeError(f"all ignored, smoothing {smoothing}: {found}")
    print("all ignored: gradients are 0")


def some_labels(classes, ignore=None):
    def make(rng, k, shape):
        labels = rng.integers(0, classes, shape)
        if ignore is not None:
            labels[rng.random(shape) < 0.3] = ignore
        return labels
    return make


def main():
    judge_parameters()
    sgd = [("optimizer", "sgd")]
    for label, options, make in [
        ("sgd", sgd, Sgd), ("sgd momentum", sgd + [("momentum", 0.9)], lambda: Sgd(0.9)),
        ("sgd nesterov", sgd + [("momentum", 0.8), ("nesterov", 1)], lambda: Sgd(0.8, 1)),
        ("sgd decay", sgd + [("momentum", 0.5), ("weight_decay", 0.1)], lambda: Sgd(0.5, 0, 0.1)),
        ("adam", [("optimizer", "adam")], Adam),
        ("adam all", [("optimizer", "adam"), ("beta1", 0.8), ("beta2", 0.95), ("epsilon", 1e-3), ("weight_decay", 0.2)],
         lambda: Adam(0.8, 0.95, 1e-3, 0.2)),
        ("adamw", [("optimizer", "adamw")], lambda: Adam(weight_decay=0.01, decoupled=True)),
        ("the default", [], lambda: Adam(weight_decay=0.01, decoupled=True)),
        ("adamw all", [("optimizer", "adamw"), ("beta1", 0.7), ("weight_decay", 0.3), ("epsilon", 1e-2)],
         lambda: Adam(0.7, 0.999, 1e-2, 0.3, True)),
    ]:
        judge(label, [("loss", "mse")] + options, mse, make)
        judge(label + ", clipped", [("loss", "mse"), ("clip_norm", 0.05)] + options, mse, make, clip=0.05)
    judge("scaled", [("loss", "mse"), ("loss_scale", 1024)] + sgd, mse, Sgd)
    judge("of one process", [("loss", "mse"), ("data_parallel", 1)] + sgd, mse, Sgd)
    judge_statistics()
    judge_dropout()
    judge_all_ignored()
    judge("frozen", [("loss", "mse"), ("frozen", "[ab]")] + sgd, mse, Sgd, frozen=("a", "b"))
    judge("bce", [("loss", "bce")] + sgd, bce, Sgd)
    judge("bce of images", [("loss", "bce")] + sgd, bce, Sgd, behind=(2, 3))
    entropy = [("loss", "cross-entropy")] + sgd
    judge("cross-entropy", entropy, cross_entropy, Sgd, labels=some_labels(4))
    judge("of images", entropy, cross_entropy, Sgd, behind=(2, 3), labels=some_labels(4))
    judge("ignored", entropy, cross_entropy, Sgd, behind=(3,), labels=some_labels(4, -100))
    judge("ignored class", entropy + [("ignore_index", 2)], lambda x, t: cross_entropy(x, t, ignore=2), Sgd, behind=(3,),
          labels=some_labels(4))
    judge("smoothed", entropy + [("label_smoothing", 0.1)], lambda x, t: cross_entropy(x, t, smoothing=0.1), Sgd,
          labels=some_labels(4, -100))
    with tempfile.TemporaryDirectory() as folder:
        w = np.array([0.5, 2, 0, 1.5, 1], np.float32)
        path = os.path.join(folder, "w.npy")
        np.save(path, w)
        for smoothing in 0, 0.25, 1:
            judge(f"weights, smoothing {smoothing}",
                  entropy + [("class_weights", path), ("label_smoothing", smoothing), ("ignore_index", 7)],
                  lambda x, t: cross_entropy(x, t, w.astype(np.float64), smoothing, 7), Sgd, 5, (2,),
                  labels=some_labels(5, 7))


if __name__ == "__main__":
    main()
