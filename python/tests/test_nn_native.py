"""What hypatia.nn is over, with arrays of NumPy: the layers of hypatia/nn.h, and what they are wrongly given."""

import numpy as np
import pytest

import hypatia
from hypatia import _native

CPU, RELU, NONE = 1, 1, 0


@pytest.fixture
def nn():
    return _native.Nn(CPU, 0, 1)


def case(draw):
    x, w, b, v = (draw.standard_normal(s).astype(np.float32) for s in ((5, 7), (9, 7), (9,), (3, 9)))
    return x, ((w, b, RELU), (v, None, NONE))


def test_both_passes(nn, draw):
    x, layers = case(draw)
    (w, b, _), (v, _, _) = layers
    saved = np.empty(nn.saved_bytes(layers, x, None), np.uint8)
    y = np.empty((5, 3), np.float32)
    nn.forward(layers, x, y, saved, None, False)
    h = np.maximum(x @ w.T + b, 0)
    np.testing.assert_allclose(y, h @ v.T, rtol=1e-4, atol=1e-5)
    dy = draw.standard_normal(y.shape).astype(np.float32)
    dx, dw, db, dv = (np.empty_like(a) for a in (x, w, b, v))
    nn.backward(layers, x, saved, dy, dx, ((dw, db), (dv, None)), None, False)
    dh = (dy @ v) * (h > 0)
    for got, wanted in ((dx, dh @ w), (dw, dh.T @ x), (db, dh.sum(0)), (dv, dy.T @ h)):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    other = np.empty_like(y)
    nn.forward(layers, x, other, None, None, False)
    assert np.array_equal(y, other)


def test_wrong_arguments(nn, draw):
    x, layers = case(draw)
    y, saved = np.empty((5, 3), np.float32), np.empty(nn.saved_bytes(layers, x, None), np.uint8)
    with pytest.raises(hypatia.InvalidArgumentError):
        nn.forward(layers, x[:, :6].copy(), y, saved, None, False)
    with pytest.raises(hypatia.InvalidArgumentError):
        nn.forward(layers, x, y[:, :2].copy(), saved, None, False)
    with pytest.raises(hypatia.InvalidArgumentError):
        nn.forward(layers, x, y, saved[:1].copy(), None, False)
    with pytest.raises(hypatia.InvalidArgumentError):
        nn.forward(layers, x.astype(np.float64), y, saved, None, False)
    with pytest.raises(hypatia.InvalidArgumentError):
        nn.forward(((layers[0][0], None, 99),), x, np.empty((5, 9), np.float32), None, None, False)
    with pytest.raises(hypatia.InvalidArgumentError):
        nn.forward((), x, y, None, None, False)
    for wrong in ((1,), (x,), ((x, None),), (("w", None, 0),)):
        with pytest.raises(TypeError):
            nn.forward(wrong, x, y, None, None, False)
    with pytest.raises(ValueError, match="2 layers, and gradients of 1"):
        nn.backward(layers, x, saved, y, None, ((None, None),), None, False)
    with pytest.raises(TypeError):
        nn.backward(layers, x, saved, y, None, ((None,), 3), None, False)
    with pytest.raises(TypeError):
        nn.forward(layers, "x", y, None, None, False)
    with pytest.raises(hypatia.Error):
        _native.Nn(7, 0, 1)
