"""Cases of attention."""
import numpy as np
from make_ops import BF16, case, d

rng = np.random.default_rng(74)


def rand(*shape):
    return (rng.integers(-32, 33, shape) / 16).astype(np.float32)


def attention(q, k, v, mask=None, scale=1.0, fill=-np.inf):
    s = scale * (d(q) @ np.swapaxes(d(k), -1, -2))
    if mask is not None:
        s = np.where(mask, fill, s) if mask.dtype == bool else s + d(mask)
    e = np.exp(s - s.max(-1, keepdims=True, initial=-np.inf))
    return e / e.sum(-1, keepdims=True) @ d(v)


def cases():
    q, k, v = rand(2, 3, 4, 5), rand(2, 3, 6, 5), rand(2, 3, 6, 2)
    case("attention", "heads", "", [q, k, v], attention(q, k, v))
    case("attention", "scaled", ":scale 0.25", [q, k, v], attention(q, k, v, scale=0.25))
    case("attention", "matrices", ":scale -0.5", [q[0, 0], k[0, 0], v[0, 0]], attention(q[0, 0], k[0, 0], v[0, 0], scale=-0.5))
    case("attention", "keys as columns", ":trans-k 0", [q, np.swapaxes(k, -1, -2).copy(), v], attention(q, k, v))
    case("attention", "rows first", ":rows-first 1", [q, k, v], attention(q, k, v).swapaxes(1, 2))
    q5, k5, v5 = rand(2, 2, 3, 4, 3), rand(2, 2, 1, 5, 3), rand(2, 2, 1, 5, 2)
    case("attention", "rows first, before groups", ":rows-first 2", [q5, k5, v5],
         attention(q5, k5, v5).transpose(0, 3, 1, 2, 4))
    case("attention", "rows first, three axes", ":rows-first 1", [q[0], k[0], v[0]], attention(q[0], k[0], v[0]).swapaxes(0, 1))
    case("attention", "one head of keys", "", [q, k[:, :1], v[:, :1]], attention(q, k[:, :1], v[:, :1]))
    case("attention", "a batch of values", "", [q[0, 0], k[0, 0], v], attention(q[0, 0], k[0, 0], v))
    for name, mask in [("whole", rand(2, 3, 4, 6)), ("of keys", rand(2, 1, 1, 6)), ("matrix", rand(4, 6)), ("number", rand())]:
        case("attention", f"mask, {name}", "", [q, k, v, mask], attention(q, k, v, mask))
    causal = np.triu(np.ones((4, 6), bool), 3)
    case("attention", "causal", "", [q, k, v, causal], attention(q, k, v, causal))
    hidden = np.zeros((2, 1, 4, 6), bool)
    hidden[0, 0, 1] = True
    case("attention", "a row that sees nothing", ":fill -10000.0", [q, k, v, hidden], attention(q, k, v, hidden, fill=-1e4))
    case("attention", "shown", ":shown 1", [q, k, v, ~causal], attention(q, k, v, causal))
    with np.errstate(all="ignore"):
        case("attention", "a row of minus infinity", "", [q, k, v, hidden], attention(q, k, v, hidden))
    case("attention", "no keys", "", [rand(2, 3), rand(0, 3), rand(0, 2)], np.zeros((2, 2)))
    case("attention", "no rows", "", [rand(0, 3), rand(4, 3), rand(4, 2)], np.zeros((0, 2)))
    case("attention", "no width", "", [rand(2, 0), rand(4, 0), v[0, 0, :4]], np.broadcast_to(d(v[0, 0, :4]).mean(0), (2, 2)))
    plain = d(q) @ np.swapaxes(d(k), -1, -2) @ d(v)
    case("attention", "without a softmax", ":softmax 0", [q, k, v], plain)
    case("attention", "without a softmax, scaled, keys as columns, rows first", ":softmax 0 :trans-k 0 :rows-first 1 :scale -0.5",
         [q, np.swapaxes(k, -1, -2).copy(), v], (-0.5 * plain).swapaxes(1, 2))
    case("attention", "without a softmax, no keys", ":softmax 0", [rand(2, 3), rand(0, 3), rand(0, 2)], np.zeros((2, 2)))
    case("attention", "without a softmax, no width", ":softmax 0", [rand(2, 0), rand(4, 0), v[0, 0, :4]], np.zeros((2, 2)))
    gradient_cases()


def gradients(q, k, v, y, g, mask=None, scale=1.0, fill=-np.inf):
    """By q, k and v of rank 4, y being the result that is known."""
    swap = lambda x: np.swapaxes(d(x), -1, -2)
    s = scale * (d(q) @ swap(k))
    hidden = mask if mask is not None and mask.dtype == bool else np.zeros(1, bool)
    s = np.where(hidden, fill, s) if mask is None or mask.dtype == bool else s + d(mask)
    e = np.exp(s - s.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    ds = p * (d(g) @ swap(v) - (d(y) * d(g)).sum(-1, keepdims=True))
    ds = scale * np.where(hidden, 0, ds)
    return [ds @ d(k), swap(ds) @ d(q), swap(p) @ d(g)]


def gradient_cases():
    q, k, v, g = rand(2, 3, 4, 5), rand(2, 3, 6, 5), rand(2, 3, 6, 2), rand(2, 3, 4, 2)
    one = lambda mask=None, name="", attrs="", **more: case(
        "attention-gradient", name, attrs, [q, k, v, y := attention(q, k, v, mask, **more).astype(np.float32), g] +
        ([] if mask is None else [mask]), gradients(q, k, v, y, g, mask, **more))
    one(name="heads")
    one(name="scaled", attrs=":scale -0.25", scale=-0.25)
    masks = {"whole": (2, 3, 4, 6), "of keys": (2, 1, 1, 6), "matrix": (4, 6), "number": ()}
    for name, mask in ((name, rand(*shape)) for name, shape in masks.items()):
        one(mask, f"mask, {name}", ":scale 0.5", scale=0.5)
    causal = np.triu(np.ones((4, 6), bool), 3)
    one(causal, "causal")
    hidden = np.zeros((2, 1, 4, 6), bool)
    hidden[0, 0, 1] = True
    one(hidden, "a row that sees nothing", ":fill -10000.0 :scale 0.5", fill=-1e4, scale=0.5)
    y = attention(q, k, v, causal).astype(np.float32)
    want = gradients(q, k, v, y, g, causal)
    case("attention-gradient", "shown", ":shown 1", [q, k, v, y, g, ~causal], want)
    rows = lambda x: x.swapaxes(1, 2).copy()
    case("attention-gradient", "rows first", ":rows-first 1", [rows(x) for x in (q, k, v, y, g)] + [causal],
         [rows(x) for x in want])
    case("attention-gradient", "rows first, three axes", ":rows-first 1", [rows(x)[0] for x in (q, k, v, y, g)] + [causal],
         [rows(x)[0] for x in want])
    case("attention-gradient", "matrices", "", [x[0, 1] for x in (q, k, v, y, g)] + [causal], [x[0, 1] for x in want])
    case("attention-gradient", "no rows", "", [rand(0, 3), rand(4, 3), rand(4, 2), rand(0, 2), rand(0, 2)],
         [np.zeros((0, 3)), np.zeros((4, 3)), np.zeros((4, 2))])
    case("attention-gradient", "no keys", "", [rand(2, 3), rand(0, 3), rand(0, 2), rand(2, 2), rand(2, 2)],
         [np.zeros((2, 3)), np.zeros((0, 3)), np.zeros((0, 2))])
    case("attention-gradient", "neither keys nor width", "", [rand(2, 0), rand(0, 0), rand(0, 2), rand(2, 2), rand(2, 2)],
         [np.zeros((2, 0)), np.zeros((0, 0)), np.zeros((0, 2))])
    narrow = [x.astype(BF16) for x in (q, k, v, y, g)]
    case("attention-gradient", "bf16", "", narrow + [causal], gradients(*narrow, causal))
