"""Cases of recurrences."""
import numpy as np
from make_ops import case, check_ort, d, relu, sigmoid

rng = np.random.default_rng(75)
TIME, BATCH, SIZE = 3, 2, 2
ACTS = {"Sigmoid": sigmoid, "Tanh": np.tanh, "Relu": relu}


def draw(*shape):
    return (rng.integers(-32, 33, shape) / 16).astype(np.float32)


def rnn(x, r, state, p, acts, clip):
    return acts[0](clip(x + state[0] @ r)), None


def gru_with(after):
    def gru(x, r, state, b, acts, clip):
        h, n = state[0], SIZE
        update, reset = np.split(acts[0](clip(x[:, :2 * n] + h @ r[:, :2 * n])), 2, 1)
        inner = reset * (h @ r[:, 2 * n:] + b) if after else (reset * h) @ r[:, 2 * n:] + b
        return (1 - update) * acts[1](clip(x[:, 2 * n:] + inner)) + update * h, None
    return gru


def lstm_with(coupled):
    def lstm(x, r, state, p, acts, clip):
        h, c = state
        i, o, f, g = np.split(x + h @ r, 4, 1)
        pi, po, pf = np.split(p, 3)
        i, f, g = acts[0](clip(i + pi * c)), acts[0](clip(f + pf * c)), acts[1](clip(g))
        c = (1 - i if coupled else f) * c + i * g
        return acts[0](clip(o + po * c)) * acts[2](c), c
    return lstm


def scan(step, x, r, extra, acts, lengths=None, h=None, c=None, reverse=False, clip=0.0):
    """Every sequence by itself: results, last state, last cell."""
    batch, clipped = x.shape[1], (lambda v: np.clip(v, -clip, clip)) if clip else (lambda v: v)
    y, last = np.zeros((*x.shape[:2], r.shape[0])), [np.zeros((batch, r.shape[0])) for _ in range(2)]
    for b in range(batch):
        state = [np.zeros((1, r.shape[0])) if s is None else d(s[b:b + 1]) for s in (h, c)]
        times = list(range(x.shape[0] if lengths is None else lengths[b]))
        for t in times[::-1] if reverse else times:
            new = step(d(x[t, b:b + 1]), d(r), state, d(extra), acts, clipped)
            state = [new[0], state[1] if new[1] is None else new[1]]
            y[t, b] = state[0][0]
        for to, s in zip(last, state):
            to[b] = s[0]
    return y, last[0], last[1]


def one(op, name, gates, step, acts, extra=None, lengths=None, h=None, c=None, attrs="", **options):
    """extra: the bias of a GRU's candidate, or an LSTM's peepholes."""
    x, r = draw(TIME, BATCH, gates * SIZE), draw(SIZE, gates * SIZE)
    none = np.zeros(SIZE if op == "gru" else 3 * SIZE, np.float32) if extra is None else extra
    results = scan(step, x, r, none, [ACTS[a] for a in acts], lengths, h, c, options.get("reverse", False),
                   options.get("clip", 0.0))[:3 if op == "lstm" else 2]
    inputs = {"lstm": [x, r, lengths, h, c, extra], "gru": [x, r, extra, lengths, h], "rnn": [x, r, lengths, h]}[op]
    while inputs[-1] is None:
        inputs.pop()
    case(op, name, attrs, inputs, list(results))
    bias = np.zeros((1, 2 * gates * SIZE), np.float32)
    if op == "gru" and extra is not None:
        bias[0, 5 * SIZE:] = extra
    model = dict(hidden_size=SIZE, activations=acts, direction="reverse" if options.get("reverse") else "forward")
    model |= {k: v for k, v in options.items() if k in ("clip", "linear_before_reset", "input_forget")}
    up = lambda a: None if a is None else a[None]
    given = [x, np.eye(gates * SIZE, dtype=np.float32)[None], np.ascontiguousarray(r.T)[None], bias, lengths, up(h)]
    given += [up(c), up(extra)] if op == "lstm" else []
    expected = [results[0][:, None], *(s[None] for s in results[1:])]
    check_ort(op.upper(), model, given, expected, [np.float32] * len(expected))


def back(op, r, slopes, lengths, g, states, reverse, after):
    """What ir/ops.def says of the gradients, a sequence at a time. slopes: by name; states: h, and of an LSTM c."""
    time, batch, size = slopes["n"].shape
    gates = r.shape[1] // size
    d, last = np.zeros((time, batch, gates * size)), [np.zeros((batch, size)) for _ in states]
    for b in range(batch):
        h, *c = [np.zeros(size) if s is None else d64(s[b]) for s in states]
        times = list(range(time if lengths is None else lengths[b]))
        for t in times if reverse else times[::-1]:
            k = {name: d64(v[t, b]) if v is not None else 0 for name, v in slopes.items()}
            h = h + (0 if g is None else g[t, b])
            if op == "lstm":
                c[0] = c[0] + k["a"] * h
                d[t, b] = np.concatenate([k["i"] * c[0], k["o"] * h, k["f"] * c[0] + 0 * h, k["n"] * c[0]])
                c[0], h = c[0] * k["k"], d64(r) @ d[t, b]
            elif op == "gru":
                r1, r2, new = d64(r[:, :2 * size]), d64(r[:, 2 * size:]), k["n"] * h
                e = h if after else r2 @ new
                d[t, b] = np.concatenate([k["u"] * h, k["s"] * e, new])
                h = k["k"] * h + r1 @ d[t, b, :2 * size] + (r2 @ (k["m"] * new) if after else k["m"] * e)
            else:
                d[t, b] = k["n"] * h
                h = d64(r) @ d[t, b]
        for to, s in zip(last, [h, *c]):
            to[b] = s
    return [d, *last]


d64 = lambda a: np.asarray(a, np.float64)


def one_back(op, name, gates, names, lengths=None, g=True, states=True, reverse=False, after=False, absent=""):
    slopes = {s: None if s in absent else draw(TIME, BATCH, SIZE) for s in names}
    r = draw(SIZE, gates * SIZE)
    g = draw(TIME, BATCH, SIZE) if g else None
    first = [draw(BATCH, SIZE) if states else None for _ in range(2 if op == "lstm" else 1)]
    inputs = [slopes["n"], r, lengths, g, *first, *list(slopes.values())[1:]]
    while inputs[-1] is None:
        inputs.pop()
    attrs = (":reverse 1 " if reverse else "") + (":reset-after 1" if after else "")
    case(op + "-gradient", name, attrs.strip(), inputs, back(op, r, slopes, lengths, g, first, reverse, after))


def gradients(lengths):
    one_back("rnn", "plain", 1, "n", states=False)
    one_back("rnn", "backward, of the last state alone", 1, "n", lengths, g=False, reverse=True)
    one_back("gru", "reset before", 3, "nuskm")
    one_back("gru", "reset before, lengths", 3, "nuskm", lengths, reverse=True)
    one_back("gru", "reset after", 3, "nuskm", lengths, states=False, after=True)
    one_back("gru", "reset after, backward", 3, "nuskm", reverse=True, after=True, absent="u")
    one_back("lstm", "plain", 4, "niofak")
    one_back("lstm", "lengths, no slope of the forget gate", 4, "niofak", lengths, absent="f")
    one_back("lstm", "backward", 4, "niofak", lengths, states=False, reverse=True)


def cells(lengths, h, c):
    x, r, p = draw(TIME, BATCH, 4 * SIZE), draw(SIZE, 4 * SIZE), draw(3 * SIZE)
    for name, reverse in (("all times", False), ("all times, backward", True)):
        y, last_h, last_c = scan(lstm_with(False), x, r, p, [sigmoid, np.tanh, np.tanh], lengths, h, c, reverse)
        all_c = np.zeros_like(y)
        for b in range(BATCH):  # of parts of sequences, which end where a cell is wanted
            for n in range(1, lengths[b] + 1):
                part = x[lengths[b] - n:lengths[b], b:b + 1] if reverse else x[:n, b:b + 1]
                end = scan(lstm_with(False), part, r, p, [sigmoid, np.tanh, np.tanh], None, h[b:b + 1], c[b:b + 1], reverse)[2]
                all_c[lengths[b] - n if reverse else n - 1, b] = end[0]
        case("lstm-cells", name, ":reverse 1" if reverse else "", [x, r, lengths, h, c, p], [y, last_h, last_c, all_c])


def cases():
    lengths, h, c = np.array([2, 3], np.int32), draw(BATCH, SIZE), draw(BATCH, SIZE)
    usual = ["Sigmoid", "Tanh", "Tanh"]
    one("rnn", "plain", 1, rnn, ["Tanh"])
    one("rnn", "backward from a state", 1, rnn, ["Relu"], None, lengths, h, attrs=":reverse 1 :f relu", reverse=True)
    one("gru", "plain", 3, gru_with(False), usual[:2])
    one("gru", "reset after", 3, gru_with(True), usual[:2], draw(SIZE), None, h, attrs=":reset-after 1",
        linear_before_reset=1)
    one("gru", "lengths", 3, gru_with(False), usual[:2], draw(SIZE), lengths, h, attrs=":reverse 1", reverse=True)
    one("lstm", "plain", 4, lstm_with(False), usual)
    one("lstm", "everything", 4, lstm_with(False), usual, draw(3 * SIZE), lengths, h, c, attrs=":reverse 1", reverse=True)
    one("lstm", "clipped", 4, lstm_with(False), ["Sigmoid", "Relu", "Tanh"], None, None, h, c, attrs=":clip 0.5 :g relu",
        clip=0.5)
    one("lstm", "coupled", 4, lstm_with(True), usual, None, None, h, c, attrs=":coupled 1", input_forget=1)
    cells(lengths, h, c)
    gradients(lengths)
