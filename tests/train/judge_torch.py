"""Gradients, losses and optimizers of training steps against PyTorch, where it is installed (it is not in CI).

    judge_torch.py [NAME]      the models of tests/models/torch whose names contain NAME, and the rest without one

Models are run by a small interpreter of ONNX in torch, in double, whose autograd gives the gradients; steps run in the reference
interpreter, in double, too. Optimizers and losses go 200 steps in f32, as PyTorch's own run."""
import glob
import os
import sys
import tempfile

import steps

np, onnx = steps.hyp.need("numpy", "onnx")
try:
    import torch
    from torch.nn import functional as F
except ImportError as missing:
    print(f"skipped: PyTorch is not installed ({missing})")
    sys.exit(77)
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


# ---- ONNX in torch: what the models have

def dtype_of(code):
    kind = np.dtype(helper.tensor_dtype_to_np_dtype(code))
    return torch.float64 if kind.kind == "f" else torch.from_numpy(np.zeros(1, kind)).dtype


def ints(t):
    return [int(v) for v in (t.reshape(-1).tolist() if torch.is_tensor(t) else t)]


def reshape(x, shape, **_):
    return x.reshape([x.shape[i] if s == 0 else s for i, s in enumerate(ints(shape))])


def slice_(x, starts, ends, axes=None, by=None):
    axes = ints(axes) if axes is not None else range(len(ints(starts)))
    by = ints(by) if by is not None else [1] * len(ints(starts))
    for s, e, a, b in zip(ints(starts), ints(ends), axes, by):
        at = range(x.shape[a])[slice(s, e if not (b < 0 and e < -x.shape[a]) else None, b)]
        x = x.index_select(a, torch.tensor(list(at), dtype=torch.int64))
    return x


def gather(x, i, axis=0):
    i = torch.where(i < 0, i + x.shape[axis], i)
    out = x.index_select(axis, i.reshape(-1))
    axis %= x.dim()
    return out.reshape(x.shape[:axis] + i.shape + x.shape[axis + 1:])


def conv(x, w, b=None, strides=None, pads=None, dilations=None, group=1, **_):
    n = x.dim() - 2
    pads = pads or [0] * 2 * n
    x = F.pad(x, [p for i in reversed(range(n)) for p in (pads[i], pads[n + i])])
    return [None, F.conv1d, F.conv2d, F.conv3d][n](x, w, b, strides or 1, 0, dilations or 1, group)


def max_pool(x, kernel_shape, strides=None, pads=None, **_):
    n = x.dim() - 2
    pads = pads or [0] * 2 * n
    x = F.pad(x, [p for i in reversed(range(n)) for p in (pads[i], pads[n + i])], value=-np.inf)
    return F.max_pool2d(x, kernel_shape, strides)


def gemm(a, b, c=None, alpha=1.0, beta=1.0, transA=0, transB=0):
    y = alpha * (a.T if transA else a) @ (b.T if transB else b)
    return y if c is None else y + beta * c


def layer_norm(x, scale=None, bias=None, axis=-1, epsilon=1e-5, **_):
    return F.layer_norm(x, x.shape[axis % x.dim():], scale, bias, epsilon)


def batch_norm(x, scale, bias, mean, var, epsilon=1e-5, **_):
    return F.batch_norm(x, mean, var, scale, bias, False, 0, epsilon)


def reduce_mean(x, axes=None, keepdims=1, **_):
    return x.mean(ints(axes), keepdim=bool(keepdims))


def split(x, sizes=None, axis=0, num_outputs=None, outputs=1):
    return torch.split(x, ints(sizes) if sizes is not None else -(-x.shape[axis] // outputs), axis)


OPS = {
    "Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b, "Div": lambda a, b: a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc"),
    "MatMul": lambda a, b: a @ b, "Gemm": gemm, "Pow": lambda a, b: a ** b, "Sqrt": torch.sqrt, "Neg": torch.neg,
    "Relu": torch.relu, "Tanh": torch.tanh, "Sigmoid": torch.sigmoid, "Erf": torch.erf, "Cos": torch.cos, "Sin": torch.sin,
    "Reciprocal": torch.reciprocal, "HardSwish": F.hardswish, "Identity": lambda x: x, "Greater": lambda a, b: a > b,
    "Equal": lambda a, b: a == b, "Where": torch.where, "Softmax": lambda x, axis=-1: torch.softmax(x, axis),
    "Clip": lambda x, low=None, high=None: torch.clamp(x, low, high), "Flatten": lambda x, axis=1: x.flatten(axis),
    "GlobalAveragePool": lambda x: x.mean(list(range(2, x.dim())), keepdim=True), "MaxPool": max_pool, "Conv": conv,
    "LayerNormalization": layer_norm, "BatchNormalization": batch_norm, "ReduceMean": reduce_mean,
    "Transpose": lambda x, perm: x.permute(perm), "Concat": lambda *x, axis: torch.cat(x, axis), "Gather": gather,
    "Unsqueeze": lambda x, axes: unsqueeze(x, ints(axes)), "Squeeze": lambda x, axes=None: x.squeeze() if axes is None else x.squeeze(ints(axes)), "Slice": slice_,
    "Shape": lambda x, start=0, end=None: torch.tensor(x.shape[start:end]), "Reshape": reshape,
    "Expand": lambda x, shape: x * torch.ones(ints(shape), dtype=x.dtype) if x.dtype != torch.bool else x.expand(ints(shape)),
    "Range": lambda a, b, c: torch.arange(a.item(), b.item(), c.item(), dtype=a.dtype),
}


def unsqueeze(x, axes):
    for a in sorted(a % (x.dim() + len(axes)) for a in axes):
        x = x.unsqueeze(a)
    return x


def tensor(array):
    t = torch.from_numpy(np.array(array))
    return t.double() if t.dtype.is_floating_point else t


def run_torch(model, values):
    for node in model.graph.node:
        attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        args = [values[i] if i else None for i in node.input]
        if node.op_type == "Constant":
            out = tensor(numpy_helper.to_array(attrs["value"]))
        elif node.op_type == "Cast":
            out = args[0].to(dtype_of(attrs["to"]))
        elif node.op_type == "ConstantOfShape":
            value = tensor(numpy_helper.to_array(attrs["value"])) if "value" in attrs else torch.zeros(1, dtype=torch.float64)
            out = value.expand(ints(args[0])).clone()
        elif node.op_type == "Split":
            out = split(*args, outputs=len(node.output), **attrs)
        else:
            out = OPS[node.op_type](*args, **attrs)
        for name, value in zip(node.output, out if isinstance(out, tuple) else (out,)):
            values[name] = value


# ---- gradients of models

def feed(rng, info, batch, length):
    dims = []
    for d in info.type.tensor_type.shape.dim:
        of_batch = d.dim_param.startswith("batch") or "_dim_0" in d.dim_param
        dims.append(d.dim_value if not d.dim_param else batch if of_batch else length)
    if info.type.tensor_type.elem_type == TensorProto.INT64:
        values = rng.integers(0, 2 if info.name == "mask" else 5, dims)
        if info.name == "mask":
            values[..., 0] = 1
        return values
    return rng.standard_normal(dims).astype(np.float32)


def judge_model(path, rng):
    model = onnx.load(path)
    inits = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    infos = [i for i in model.graph.input if i.name not in inits]
    statistics = {n.input[k] for n in model.graph.node if n.op_type == "BatchNormalization" for k in (3, 4)}
    worst, count = 0.0, 0
    for batch, length in (2, 7), (3, 4):
        feeds = {i.name: feed(rng, i, batch, length) for i in infos}
        values = {n: tensor(v) for n, v in inits.items()} | {n: tensor(v) for n, v in feeds.items()}
        leaves = {n: values[n].requires_grad_() for n, v in inits.items()
                  if v.dtype == np.float32 and v.ndim > 0 and n not in statistics}
        run_torch(model, values)
        y = values[model.graph.output[0].name]
        feeds["target"] = rng.standard_normal(y.shape).astype(np.float32)
        loss = F.mse_loss(y, tensor(feeds["target"]))
        loss.backward()
        found = steps.run(path, lambda k, name: feeds[name], 1, [("loss", "mse"), ("gradients", 1), ("mode", "double")])[0]
        have = {n for n in found if n.startswith("gradient:")}
        wanted = {"gradient:" + n: leaf.grad.numpy() for n, leaf in leaves.items()
                  if leaf.grad is not None and (leaf.numel() > 1 or "gradient:" + n in have)}  # of one: weights of layers alone
        if have != set(wanted):
            raise RuntimeError(f"gradients of {sorted(have ^ set(wanted))} are in one alone")
        wanted["loss"] = loss.item()
        largest = max(np.max(np.abs(v), initial=0) for v in wanted.values())
        for n, v in wanted.items():  # some are 0 but for rounding, as that of a bias of keys is
            size = max(np.max(np.abs(v), initial=0), 1e-6 * largest)
            d = float(np.max(np.abs(found[n] - v), initial=0) / size) if found[n].shape == np.shape(v) else np.inf
            if not d <= 1e-6:
                raise RuntimeError(f"'{n}' is off by {d:.3g} of its largest element")
            worst = max(worst, d)
            count += 1
    return f"{count} gradients, largest difference {worst:.1e} of the largest element"


# ---- recurrences

GATES = {"LSTM": (4, [0, 3, 1, 2]), "GRU": (3, [1, 0, 2]), "RNN": (1, [0])}  # how many, and ONNX's order of PyTorch's


def judge_recurrence(kind, directions, packed):
    """Gradients of all weights, biases and first states of PyTorch's own module, sequences of several lengths packed."""
    time, batch, width, size = 5, 4, 3, 6
    gates, order = GATES[kind]
    rng = np.random.default_rng(11)
    module = {"LSTM": torch.nn.LSTM, "GRU": torch.nn.GRU, "RNN": torch.nn.RNN}[kind](width, size, bidirectional=directions == 2).double()
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.from_numpy(rng.normal(size=p.shape).astype(np.float32) * 0.5))
    turn = lambda a: np.concatenate([np.split(a, gates)[g] for g in order])
    ends = ["l0", "l0_reverse"][:directions]
    of = lambda name, f: np.stack([turn(f(getattr(module, f"{name}_{end}"))) for end in ends])
    parts = lambda f: {"w": of("weight_ih", f), "r": of("weight_hh", f), "b": np.concatenate([of("bias_ih", f), of("bias_hh", f)], 1)}
    states = {n: torch.from_numpy(rng.normal(size=(directions, batch, size)).astype(np.float32)).double().requires_grad_()
              for n in (["h0", "c0"] if kind == "LSTM" else ["h0"])}
    lengths = np.array([5, 2, 4, 1], np.int32) if packed else np.full(batch, time, np.int32)
    inits = {n: v.astype(np.float32) for n, v in parts(lambda p: p.detach().numpy()).items()}
    inits |= {n: v.detach().numpy().astype(np.float32) for n, v in states.items()}
    last = ["yh", "yc"][:len(states)]
    attrs = {"linear_before_reset": 1} if kind == "GRU" else {}
    nodes = [helper.make_node(kind, ["x", "w", "r", "b", "n" if packed else "", *states], ["all", *last], hidden_size=size,
                              direction="bidirectional" if directions == 2 else "forward", **attrs),
             helper.make_node("Sum", ["all", *last], ["y"])]
    graph = helper.make_graph(nodes, kind, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["time", batch, width])] +
                              [helper.make_tensor_value_info("n", TensorProto.INT32, [batch])] * packed,
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["time", directions, batch, size])],
                              [numpy_helper.from_array(v, n) for n, v in inits.items()])
    x, target = rng.normal(size=(time, batch, width)).astype(np.float32), rng.normal(size=(time, directions, batch, size)).astype(np.float32)
    given = torch.nn.utils.rnn.pack_padded_sequence(tensor(x), torch.from_numpy(lengths), enforce_sorted=False)
    out, ended = module(given, tuple(states.values()) if kind == "LSTM" else states["h0"])
    out = torch.nn.utils.rnn.pad_packed_sequence(out)[0].reshape(time, batch, directions, size).permute(0, 2, 1, 3)
    y = out + sum(ended if kind == "LSTM" else [ended])
    loss = F.mse_loss(y, tensor(target))
    loss.backward()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        feeds = {"x": x, "n": lengths, "target": target}
        found = steps.run(path, lambda k, n: feeds[n], 1, [("loss", "mse"), ("gradients", 1), ("mode", "double")])[0]
    wanted = {"loss": loss.item(), "y": y.detach().numpy()}
    wanted |= {"gradient:" + n: v for n, v in parts(lambda p: p.grad.numpy()).items()}
    wanted |= {"gradient:" + n: v.grad.numpy() for n, v in states.items()}
    worst = max(steps.difference(found[n], v) for n, v in wanted.items())
    if not worst <= 1e-6:
        raise RuntimeError(f"off by {worst:.3g}")
    return f"{len(wanted)} values within {worst:.1e}"


# ---- optimizers and losses

class Net(torch.nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = torch.nn.ParameterDict({k: torch.nn.Parameter(torch.from_numpy(v.copy())) for k, v in p.items()})

    def forward(self, x):
        return torch.relu(x @ self.p["a"] + self.p["b"]) @ self.p["c"]


def make_model(path, p):
    nodes = [helper.make_node("Gemm", ["x", "a", "b"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("MatMul", ["r", "c"], ["y"])]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 16])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 10])],
                              [numpy_helper.from_array(v, k) for k, v in p.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def state_of(optimizer, net):
    out = {}
    for name, p in net.p.items():
        s = optimizer.state[p]
        out["var " + name] = p.detach().numpy().copy()
        for theirs, ours in ("momentum_buffer", "momentum"), ("exp_avg", "m"), ("exp_avg_sq", "v"):
            if s.get(theirs) is not None:
                out[f"var {name}:{ours}"] = s[theirs].numpy().copy()
        if "step" in s:
            out["var :step"] = np.array(int(s["step"]))
    return out


def judge_training(options, make, loss, classes, count=200, clip=0):
    """The worst of all variables over all steps, in f32, relative to 1 + |wanted|, and that of the loss."""
    rng = np.random.default_rng(3)
    p = {"a": rng.normal(size=(16, 32)) * 0.3, "b": rng.normal(size=32) * 0.1, "c": rng.normal(size=(32, 10)) * 0.3}
    p = {k: v.astype(np.float32) for k, v in p.items()}
    x = rng.normal(size=(count, 24, 16)).astype(np.float32)
    hidden = rng.normal(size=(16, 10)).astype(np.float32)
    t = (x @ hidden).argmax(-1) if classes else (1 / (1 + np.exp(-x @ hidden))).astype(np.float32)
    rates = (0.02 * 0.5 * (1 + np.cos(np.pi * np.arange(count) / count)) + 1e-4).astype(np.float32)
    net = Net(p)
    optimizer = make(net.parameters())
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net.onnx")
        make_model(path, p)
        feeds = {"x": x, "labels": t, "target": t, "learning-rate": rates}
        found = steps.run(path, lambda k, n: feeds[n][k], count, options)
    worst = {"state": 0.0, "loss": 0.0}
    for k in range(count):
        for group in optimizer.param_groups:
            group["lr"] = float(rates[k])
        optimizer.zero_grad()
        value = loss(net(torch.from_numpy(x[k])), torch.from_numpy(t[k]))
        value.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
        worst["loss"] = max(worst["loss"], steps.difference(found[k]["loss"], value.item()))
        states = state_of(optimizer, net)
        missing = {n for n in found[k] if n.startswith("var ")} ^ set(states)
        if missing:
            raise RuntimeError(f"variables {sorted(missing)} are in one alone")
        for n, v in states.items():
            worst["state"] = max(worst["state"], steps.difference(found[k][n], v))
    if not (worst["state"] <= 2e-4 and worst["loss"] <= 1e-4):
        raise RuntimeError(f"off by {worst}")
    return f"{count} steps, states within {worst['state']:.1e}, losses within {worst['loss']:.1e}; last loss {value.item():.4f}"


def judge_loss(options, loss, labels):
    """One step's loss and gradients in double."""
    rng = np.random.default_rng(5)
    p = {"a": rng.normal(size=(16, 32)) * 0.3, "b": rng.normal(size=32) * 0.1, "c": rng.normal(size=(32, 10)) * 0.3}
    p = {k: v.astype(np.float32) for k, v in p.items()}
    x = (rng.normal(size=(24, 16)) * 20).astype(np.float32)
    net = Net({k: v.astype(np.float64) for k, v in p.items()})
    t = labels(rng)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net.onnx")
        make_model(path, p)
        feeds = {"x": x, "labels": t, "target": t}
        found = steps.run(path, lambda k, n: feeds[n], 1, options + [("gradients", 1), ("mode", "double")])[0]
    value = loss(net(torch.from_numpy(x).double()), torch.from_numpy(t))
    value.backward()
    wanted = {"loss": value.item()} | {"gradient:" + n: v.grad.numpy() for n, v in net.p.items()}
    worst = max(steps.difference(found[n], v) for n, v in wanted.items())
    if not worst <= 1e-6:
        raise RuntimeError(f"off by {worst:.3g}: {found['loss']} for {value.item()}")
    return f"within {worst:.1e}"


def main():
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    jobs = []
    for path in sorted(glob.glob(os.path.join(steps.hyp.ROOT, "tests/models/torch/*.onnx"))):
        jobs.append((os.path.basename(path), lambda path=path: judge_model(path, np.random.default_rng(1))))
    O = torch.optim
    mse, entropy = [("loss", "mse")], [("loss", "cross-entropy")]
    for name, options, make, clip in [
        ("sgd", [("optimizer", "sgd")], lambda p: O.SGD(p, 0.1), 0),
        ("sgd momentum", [("optimizer", "sgd"), ("momentum", 0.9)], lambda p: O.SGD(p, 0.1, 0.9), 0),
        ("sgd nesterov decay", [("optimizer", "sgd"), ("momentum", 0.9), ("nesterov", 1), ("weight_decay", 0.01)],
         lambda p: O.SGD(p, 0.1, 0.9, nesterov=True, weight_decay=0.01), 0),
        ("adam", [("optimizer", "adam")], lambda p: O.Adam(p), 0),
        ("adam decay", [("optimizer", "adam"), ("weight_decay", 0.05), ("beta1", 0.8), ("beta2", 0.99), ("epsilon", 1e-6)],
         lambda p: O.Adam(p, weight_decay=0.05, betas=(0.8, 0.99), eps=1e-6), 0),
        ("adamw", [], lambda p: O.AdamW(p), 0),
        ("adamw clipped", [("clip_norm", 0.1), ("weight_decay", 0.2)], lambda p: O.AdamW(p, weight_decay=0.2), 0.1),
    ]:
        jobs.append((name + ", mse", lambda o=options, m=make, c=clip: judge_training(mse + o, m, F.mse_loss, False, clip=c)))
        jobs.append((name + ", cross-entropy",
                     lambda o=options, m=make, c=clip: judge_training(entropy + o, m, F.cross_entropy, True, clip=c)))

    def some(ignore):
        def make(rng):
            t = rng.integers(0, 10, 24)
            return np.where(rng.random(24) < 0.3, ignore, t) if ignore is not None else t
        return make
    weights = np.linspace(0, 2, 10).astype(np.float32)
    scratch = tempfile.TemporaryDirectory()
    file = os.path.join(scratch.name, "w.npy")
    np.save(file, weights)
    w = torch.from_numpy(weights).double()
    for smoothing in 0.0, 0.1, 1.0:
        for ignore in None, -100, 3:
            for given in None, w:
                options = entropy + [("label_smoothing", smoothing)] + ([("class_weights", file)] if given is not None else []) + \
                    ([("ignore_index", ignore)] if ignore is not None else [])
                jobs.append((f"cross-entropy, smoothing {smoothing}, ignored {ignore}, weights {given is not None}",
                             lambda o=options, s=smoothing, i=ignore, g=given: judge_loss(
                                 o, lambda y, t: F.cross_entropy(y, t, g, ignore_index=-100 if i is None else i,
                                                                 label_smoothing=s), some(i))))
    jobs.append(("bce", lambda: judge_loss([("loss", "bce")], lambda y, t: F.binary_cross_entropy_with_logits(y, t.double()),
                                           lambda rng: rng.random((24, 10)).astype(np.float32))))
    jobs.append(("mse", lambda: judge_loss(mse, lambda y, t: F.mse_loss(y, t.double()),
                                           lambda rng: rng.normal(size=(24, 10)).astype(np.float32))))
    for kind in GATES:
        for directions in 1, 2:
            for packed in False, True:
                jobs.append((f"{kind}, {directions} directions{', lengths' if packed else ''}",
                             lambda k=kind, d=directions, p=packed: judge_recurrence(k, d, p)))
    failed = 0
    for name, job in jobs:
        if only not in name:
            continue
        try:
            print(f"ok {name}: {job()}", flush=True)
        except RuntimeError as error:
            failed += 1
            print(f"FAILED {name}: {error}", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
