"""Arrays of JAX and CuPy, where these are installed: on the CPU and, where there is one, on a GPU."""

import gc
import os

import numpy as np
import pytest
from conftest import close

import hypatia

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX else takes most of a GPU's memory


def device_of_jax(kind):
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    try:
        return jax, jax.devices({"cuda": "gpu"}.get(kind, kind))[0]
    except RuntimeError as error:
        pytest.skip(f"JAX has no {kind} here: {str(error).splitlines()[0]}")


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_jax(layers, draw, kind):
    jax, device = device_of_jax(kind)
    plan = hypatia.compile(layers.model, device=kind)
    twice, shifted = jax.jit(lambda x: x * 2), jax.jit(lambda y: y + 1)
    kept = []
    for rows in (5, 4000, 5, 1):
        a = draw.standard_normal((rows, 8)).astype(np.float32)
        y = plan(twice(jax.device_put(a, device)))  # which may be under way still
        assert isinstance(y, jax.Array) and y.devices() == {device} and y.shape == (rows, 4)
        wanted = layers(a * 2)
        close(np.asarray(y), wanted)
        close(np.asarray(shifted(y)), wanted + 1)
        kept.append((y, wanted))
    again = plan.run([jax.device_put(a, device)])
    assert all(isinstance(y, jax.Array) for y in (again.values() if isinstance(again, dict) else again))
    del plan, again
    gc.collect()
    for y, wanted in kept:  # memory of Hypatia's, which JAX has taken over
        close(np.asarray(y), wanted)


def test_jax_and_numpy_together(layers, draw):
    """Who comes first says what outputs are; arrays of NumPy beside it are read, too."""
    jax, device = device_of_jax("cpu")
    plan = hypatia.compile(layers.model)
    a = draw.standard_normal((3, 8)).astype(np.float32)
    assert isinstance(plan(a), np.ndarray) and isinstance(plan(jax.device_put(a, device)), jax.Array)


def test_cupy(layers, draw):
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    if not cupy.cuda.is_available():
        pytest.skip("CuPy has no GPU here")
    plan = hypatia.compile(layers.model, device="cuda")
    a = draw.standard_normal((4000, 8)).astype(np.float32)
    for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
        with stream:
            x, sums = cupy.asarray(a), []
            for k in range(20):  # nobody waits: runs are queued on CuPy's stream, between what makes x and what reads y
                y = plan(x + k / 20)
                assert isinstance(y, cupy.ndarray) and y.shape == (4000, 4)
                sums.append(y + 0)
            turned = plan(cupy.asfortranarray(x))  # copied first
        stream.synchronize()
        for k in (0, 7, 19):
            np.testing.assert_allclose(cupy.asnumpy(sums[k]), layers(a + np.float32(k / 20)), rtol=1e-4, atol=1e-4)
        close(cupy.asnumpy(turned), layers(a))
