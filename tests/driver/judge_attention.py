"""Attention as optimizers write it (com.microsoft) and as exporters do, in its forms, against onnxruntime."""
import os
import sys

import judging

np = judging.hyp.need("numpy", "onnx")[0]
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

F32, I32 = TensorProto.FLOAT, TensorProto.INT32
VARIANTS = [("cpu", True), ("cpu", False)]
HEADS, SIZE = 2, 4
WIDTH = HEADS * SIZE
rng = np.random.default_rng(17)


def rand(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def model(op, inputs, outputs, **attrs):
    """inputs: name -> None where absent, an array of a constant, or (type, symbolic shape); in the operator's order."""
    names = [name if what is not None else "" for name, what in inputs.items()]
    node = helper.make_node(op, names, [f"y{i}" for i in range(len(outputs))], domain="com.microsoft", **attrs)
    given = [helper.make_tensor_value_info(n, *w) for n, w in inputs.items() if isinstance(w, tuple)]
    constants = [numpy_helper.from_array(w, n) for n, w in inputs.items() if isinstance(w, np.ndarray)]
    graph = helper.make_graph([node], "g", given,
                              [helper.make_tensor_value_info(f"y{i}", t, None) for i, t in enumerate(outputs)], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def masks(batch, queries, keys):
    """name -> (symbolic shape, drawn mask) of the forms of masks."""
    lengths = rng.integers(1, keys + 1, batch).astype(np.int32)
    words = (np.arange(keys) < lengths[:, None]).astype(np.int32)
    pairs = np.tril(np.ones((queries, keys), np.int32), keys - queries)
    return {"no mask": None, "lengths": (["b"], lengths), "words": (["b", "t"], words),
            "pairs": (["b", "s", "t"], np.broadcast_to(pairs, (batch, queries, keys)).copy())}


def projected():
    for causal in (0, 1):
        for form in ("no mask", "lengths", "words", "pairs"):
            for past in (False, True):
                values = {"x": (F32, ["b", "s", 6]), "w": rand(6, 3 * WIDTH), "bias": rand(3 * WIDTH)}
                shape = masks(2, 3, 3)[form]
                values["mask"] = (I32, [("t" if past else "s") if d == "t" else d for d in shape[0]]) if shape else None
                values["past"] = (F32, [2, "b", HEADS, "p", SIZE]) if past else None
                cases = []
                for batch, queries, before in ((1, 1, 2), (2, 3, 0), (3, 4, 2)):
                    before = before if past else 0
                    feeds = {"x": rand(batch, queries, 6)}
                    if shape:
                        feeds["mask"] = masks(batch, queries, queries + before)[form][1]
                    if past:
                        feeds["past"] = rand(2, batch, HEADS, before, SIZE)
                    cases.append(feeds)
                if past and shape and form != "lengths":
                    continue  # a mask as wide as the keys of past and present: two symbols that the model does not relate
                outputs = [F32, F32] if past else [F32]
                name = f"Attention {form}{', causal' * causal}{', past' * past}"
                yield name, model("Attention", values, outputs, num_heads=HEADS, unidirectional=causal), cases
    weights = {"x": (F32, ["b", "s", 6]), "w": rand(6, 2 * WIDTH + 6), "bias": rand(2 * WIDTH + 6)}
    yield ("Attention, narrow values", model("Attention", weights, [F32], num_heads=HEADS, scale=0.3,
                                             qkv_hidden_sizes=[WIDTH, WIDTH, 6]), [{"x": rand(2, 3, 6)}])
    weights = {**weights, "w": rand(6, 3 * WIDTH), "bias": rand(3 * WIDTH), "mask": None, "past": None,
               "more": (F32, ["b", HEADS, "s", "s"])}
    yield ("Attention, numbers to add", model("Attention", weights, [F32], num_heads=HEADS),
           [{"x": rand(b, s, 6), "more": rand(b, HEADS, s, s)} for b, s in ((1, 2), (2, 5))])


def multi_head():
    sizes = ((1, 1, 2), (2, 3, 4))
    for form in ("no mask", "lengths", "words", "pairs"):
        shape = masks(2, 3, 3)[form]
        values = {"q": (F32, ["b", "s", WIDTH]), "k": (F32, ["b", "t", WIDTH]), "v": (F32, ["b", "t", WIDTH]),
                  "bias": rand(3 * WIDTH), "mask": (I32, shape[0]) if shape else None}
        cases = []
        for b, s, t in sizes:
            feeds = {"q": rand(b, s, WIDTH), "k": rand(b, t, WIDTH), "v": rand(b, t, WIDTH)}
            if shape:
                feeds["mask"] = masks(b, s, t)[form][1]
            cases.append(feeds)
        yield f"MultiHeadAttention {form}", model("MultiHeadAttention", values, [F32], num_heads=HEADS), cases


def packed():
    """onnxruntime has no such kernels on a CPU: numpy judges."""
    def attention(q, k, v):  # [batch, length, heads, size]
        scores = np.einsum("bshd,bthd->bhst", q.astype(np.float64), k) / np.sqrt(SIZE)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        y = np.einsum("bhst,bthd->bshd", weights / weights.sum(-1, keepdims=True), v)
        return [y.reshape(*y.shape[:2], WIDTH).astype(np.float32)]

    sizes = ((1, 1, 2), (2, 3, 4))
    cases = [{"q": rand(b, s, HEADS, 3, SIZE)} for b, s, _ in sizes]
    yield ("MultiHeadAttention, all packed",
           model("MultiHeadAttention", {"q": (F32, ["b", "s", HEADS, 3, SIZE])}, [F32], num_heads=HEADS), cases,
           [attention(*(c["q"][:, :, :, i] for i in range(3))) for c in cases])
    cases = [{"q": rand(b, s, WIDTH), "kv": rand(b, t, HEADS, 2, SIZE)} for b, s, t in sizes]
    values = {"q": (F32, ["b", "s", WIDTH]), "kv": (F32, ["b", "t", HEADS, 2, SIZE])}
    yield ("MultiHeadAttention, keys and values packed", model("MultiHeadAttention", values, [F32], num_heads=HEADS), cases,
           [attention(c["q"].reshape(*c["q"].shape[:2], HEADS, SIZE), c["kv"][:, :, :, 0], c["kv"][:, :, :, 1])
            for c in cases])


def embeddings():
    for segments in (False, True):
        for mask in (False, True):
            for places in (False, True):
                ids = (I32, ["b", "s"])
                values = {"ids": ids, "segment_ids": ids if segments else None, "words": rand(11, 6), "places": rand(9, 6),
                          "segments": rand(2, 6) if segments else None, "gamma": rand(6), "beta": rand(6),
                          "mask": ids if mask else None, "position_ids": ids if places else None}
                cases = []
                for b, s in ((1, 2), (3, 5)):
                    draw = {"ids": 11, "segment_ids": 2, "mask": 2, "position_ids": 9}
                    cases.append({name: rng.integers(0, most, (b, s)).astype(np.int32)
                                  for name, most in draw.items() if values[name] is not None})
                name = f"EmbedLayerNormalization{', segments' * segments}{', mask' * mask}{', places' * places}"
                yield name, model("EmbedLayerNormalization", values, [F32, I32], epsilon=1e-5), cases


class Written:
    """A graph as exporters write it, node by node."""

    def __init__(self):
        self.nodes, self.constants, self.inputs = [], [], []

    def input(self, name, *shape, dtype=F32):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def const(self, value):
        self.constants.append(numpy_helper.from_array(np.asarray(value), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def __getattr__(self, op):
        def add(*inputs, **attrs):
            self.nodes.append(helper.make_node(op, inputs, [f"n{len(self.nodes)}"], **attrs))
            return self.nodes[-1].output[0]
        return add

    def split(self, x, heads, size, perm=(0, 2, 1, 3)):
        """[b, s, heads * size] as [b, heads, s, size], or as perm says."""
        return self.Transpose(self.Reshape(x, self.const(np.array([0, -1, heads, size]))), perm=perm)

    def join(self, y, width):
        return self.Reshape(self.Transpose(y, perm=[0, 2, 1, 3]), self.const(np.array([0, -1, width])))

    def repeat(self, x, heads, times, size):
        """Each head so many times: keys and values that groups of heads share."""
        x = self.Expand(self.Unsqueeze(x, self.const(np.array([2]))), self.const(np.array([1, 1, times, 1, 1])))
        return self.Reshape(x, self.const(np.array([0, heads * times, -1, size])))

    def model(self, *outputs):
        for y in outputs:
            self.nodes.append(helper.make_node("Identity", [y], [f"y{len(self.nodes)}"]))
        ends = [helper.make_tensor_value_info(n.output[0], F32, None) for n in self.nodes[len(self.nodes) - len(outputs):]]
        graph = helper.make_graph(self.nodes, "g", self.inputs, ends, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


LENGTHS = ((1, 1, 1), (2, 3, 5), (1, 1, 1000), (1, 1000, 1), (2, 200, 333), (1, 1000, 1000))
BOOL = TensorProto.BOOL


def heads_of(w, keys_transposed=True):
    q, k, v = (w.input(n, "b", length, WIDTH) for n, length in (("q", "s"), ("k", "t"), ("v", "t")))
    return w.split(q, HEADS, SIZE), w.split(k, HEADS, SIZE, (0, 2, 3, 1) if keys_transposed else (0, 2, 1, 3)), w.split(v, HEADS, SIZE)


def exported():
    """Every one of these runs as one step. mask: its place among the axes of the scores [b, heads, s, t]."""
    shapes = {"none": None, "keys": ("b", 1, 1, "t"), "pairs": ("s", "t"), "batch": ("b", 1, "s", "t"),
              "heads": (1, HEADS, "s", "t"), "whole": ("b", HEADS, "s", "t")}
    for form, shape in shapes.items():
        for way in ("add", "add to", "hide", "keep") if shape else ("none",):
            w = Written()
            q, k, v = heads_of(w)
            scores = w.Div(w.MatMul(q, k), w.const(np.float32(np.sqrt(SIZE))))
            if shape:
                m = w.input("mask", *shape, dtype=F32 if "add" in way else BOOL)
                low = w.const(np.float32(-1e4 if form == "keys" else -np.inf)) if "add" not in way else None
                scores = {"add": lambda: w.Add(scores, m), "add to": lambda: w.Add(m, scores),
                          "hide": lambda: w.Where(m, low, scores), "keep": lambda: w.Where(m, scores, low)}[way]()
            y = w.MatMul(w.Softmax(scores, axis=-1), v)
            cases = []
            for b, s, t in LENGTHS if form in ("none", "keys") else LENGTHS[:4]:
                sizes = {"b": b, "s": s, "t": t}
                feeds = {"q": rand(b, s, WIDTH), "k": rand(b, t, WIDTH), "v": rand(b, t, WIDTH)}
                if shape:
                    drawn = rand(*(sizes.get(d, d) for d in shape))
                    feeds["mask"] = drawn if "add" in way else drawn < 0
                    if way in ("hide", "keep"):
                        feeds["mask"][..., 0] = way == "keep"  # each row sees a key
                cases.append(feeds)
            yield f"exported, mask {form}, {way}", w.model(w.join(y, WIDTH)), cases

    w = Written()  # rows that see nothing: NaN, as of the softmax
    q, k, v = heads_of(w, False)
    m = w.input("mask", "s", "t")
    y = w.MatMul(w.Softmax(w.Add(w.MatMul(q, w.Transpose(k, perm=[0, 1, 3, 2])), m), axis=3), v)
    hidden = np.where(np.arange(4)[:, None] == 2, -np.inf, rand(4, 5)).astype(np.float32)
    yield "exported, a hidden row", w.model(y), [{"q": rand(2, 4, WIDTH), "k": rand(2, 5, WIDTH), "v": rand(2, 5, WIDTH), "mask": hidden}]

    w = Written()  # past keys and values, which are outputs with the new ones behind them, and groups of heads
    q = w.Mul(w.split(w.input("q", "b", "s", 2 * WIDTH), 2 * HEADS, SIZE), w.const(np.float32(0.5)))
    now = [w.split(w.input(n, "b", "s", WIDTH), HEADS, SIZE) for n in ("k", "v")]
    k, v = (w.Concat(w.input(p, "b", HEADS, "p", SIZE), x, axis=2) for p, x in zip(("past_k", "past_v"), now))
    scores = w.MatMul(q, w.Transpose(w.repeat(k, HEADS, 2, SIZE), perm=[0, 1, 3, 2]))
    scores = w.Where(w.input("mask", "s", "t", dtype=BOOL), w.const(np.float32(np.finfo(np.float32).min)), scores)
    y = w.MatMul(w.Softmax(scores, axis=-1), w.repeat(v, HEADS, 2, SIZE))
    cases = []
    for b, s, p in ((1, 1, 0), (2, 3, 0), (1, 1, 7), (2, 1, 999), (1, 100, 900)):
        feeds = {"q": rand(b, s, 2 * WIDTH), "k": rand(b, s, WIDTH), "v": rand(b, s, WIDTH)}
        feeds |= {n: rand(b, HEADS, p, SIZE) for n in ("past_k", "past_v")}
        cases.append({**feeds, "mask": np.triu(np.ones((s, s + p), bool), p + 1)})
    yield "exported, past keys and groups of heads", w.model(w.join(y, 2 * WIDTH), k, v), cases

    w = Written()  # one head, no axis of heads; q, k and v are slices of one product
    x = w.MatMul(w.input("x", "b", "s", 6), w.const(rand(6, 3 * WIDTH) / 4))
    q, k, v = (w.Slice(x, w.const(np.array([i * WIDTH])), w.const(np.array([(i + 1) * WIDTH])), w.const(np.array([2]))) for i in range(3))
    y = w.MatMul(w.Softmax(w.MatMul(q, w.Transpose(k, perm=[0, 2, 1])), axis=2), v)
    yield "exported, one head", w.model(y), [{"x": rand(b, s, 6)} for b, s in ((1, 1), (3, 7), (2, 130))]

    w = Written()  # the same with heads
    x = w.MatMul(w.input("x", "b", "s", 6), w.const(rand(6, 3 * WIDTH) / 4))
    q, k, v = (w.split(w.Slice(x, w.const(np.array([i * WIDTH])), w.const(np.array([(i + 1) * WIDTH])), w.const(np.array([2]))), HEADS, SIZE)
               for i in range(3))
    y = w.MatMul(w.Softmax(w.MatMul(q, w.Transpose(k, perm=[0, 1, 3, 2])), axis=3), v)
    yield "exported, heads of one product", w.model(w.join(y, WIDTH)), [{"x": rand(b, s, 6)} for b, s in ((1, 1), (3, 7), (2, 130))]


def is_one_step(judge, m):
    path = os.path.join(judge.folder.name, "steps.onnx")
    with open(path, "wb") as file:
        file.write(m.SerializeToString())
    steps = judging.hyp.tool("hypatiac", path, "--dry-run", "-v").stdout
    return "\n  attention  " in steps and "\n  softmax  " not in steps


def main():
    judge, count = judging.Judge("1.21"), 0  # older ones get masks of MultiHeadAttention wrong
    for family in (projected, multi_head, packed, embeddings, exported):
        for name, m, cases, *wanted in family():
            if family is exported and not is_one_step(judge, m):
                judge.fail(name, "it does not run as one step")
            judge.judge(name, m, cases, VARIANTS, *wanted)
            count += 1
    return judge.finish(count)


if __name__ == "__main__":
    sys.exit(main())
