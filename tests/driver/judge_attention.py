"""Attention as optimizers write it (com.microsoft), in its forms, against onnxruntime."""
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


def main():
    judge, count = judging.Judge(), 0
    for family in (projected, multi_head, packed, embeddings):
        for name, m, cases, *wanted in family():
            judge.judge(name, m, cases, VARIANTS, *wanted)
            count += 1
    return judge.finish(count)


if __name__ == "__main__":
    sys.exit(main())
