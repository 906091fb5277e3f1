"""Cases of the gradients of layers."""
import numpy as np
from make_ops import BF16, case, d

rng = np.random.default_rng(75)


def rand(*shape):
    return (rng.integers(-32, 33, shape) / 16).astype(np.float32)


def cases():
    g, x = rand(5, 3), rand(5, 4)
    case("linear-gradient", "rows", "", [g, x], [d(g).T @ d(x), d(g).sum(0)])
    case("linear-gradient", "turned", ":turned 1", [g, x], [d(x).T @ d(g), d(g).sum(0)])
    case("linear-gradient", "one row", "", [g[:1], x[:1]], [d(g[:1]).T @ d(x[:1]), d(g[0])])
    case("linear-gradient", "no rows", "", [g[:0], x[:0]], [np.zeros((3, 4)), np.zeros(3)])
    case("linear-gradient", "no inputs", ":turned 1", [g, x[:, :0]], [np.zeros((0, 3)), d(g).sum(0)])
    case("linear-gradient", "no results", "", [g[:, :0], x], [np.zeros((0, 4)), np.zeros(0)])
    narrow = [a.astype(BF16) for a in (g, x)]
    case("linear-gradient", "bf16", "", narrow, [d(narrow[0]).T @ d(narrow[1]), d(narrow[0]).sum(0)])
