"""Layers of hypatia.nn against what PyTorch's own give in double."""

import copy
import threading

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402

from hypatia.nn import FusedMLP, LinearReLU  # noqa: E402

TOLERANCE = {torch.float32: 2e-5, torch.float16: 1e-2, torch.bfloat16: 6e-2}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(5)


def compare(module, x, dtype=torch.float32):
    """Result and all gradients, of the module and of one in double that PyTorch computes."""
    exact = copy.deepcopy(module).double()
    module, x = module.to(dtype), x.to(dtype).requires_grad_()
    with torch.no_grad():
        for a, b in zip(exact.parameters(), module.parameters()):
            a.copy_(b)
    wide = x.detach().double().requires_grad_()
    y, wanted = module(x), exact(wide)
    assert type(y.grad_fn).__name__ == "_LayersBackward" and type(wanted.grad_fn).__name__ != "_LayersBackward"
    dy = torch.randn_like(y)
    y.backward(dy)
    wanted.backward(dy.double())
    pairs = [(y, wanted), (x.grad, wide.grad), *((a.grad, b.grad) for a, b in zip(module.parameters(), exact.parameters()))]
    for got, want in pairs:
        assert got.dtype == dtype and got.shape == want.shape
        assert (got.double() - want).norm() <= TOLERANCE[dtype] * want.norm()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(5, 17), (17,), (2, 3, 4, 17), (1, 17), (64, 17)])
def test_linear_relu(shape, bias, dtype):
    compare(LinearReLU(17, 9, bias=bias), torch.randn(shape), dtype)


@pytest.mark.parametrize("last", ["none", "relu", "gelu"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu-tanh", "silu", "none"])
@pytest.mark.parametrize("widths", [[7, 5], [7, 13, 5], [7, 16, 16, 16, 3]])
def test_mlp(widths, activation, last):
    compare(FusedMLP(widths, activation=activation, last=last), torch.randn(6, 7))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_mlp_on_a_gpu(dtype, activation):
    with torch.cuda.stream(torch.cuda.Stream()):
        compare(FusedMLP([32, 64, 16], activation=activation).cuda(), torch.randn(8, 32, device="cuda"), dtype)
        compare(LinearReLU(17, 9).cuda(), torch.randn(5, 17, device="cuda"), dtype)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_mlp_types(dtype, bias):
    compare(FusedMLP([32, 64, 16], bias=bias), torch.randn(8, 32), dtype)


def test_a_sequential_of_torch_is_the_same():
    plain = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
    ours = FusedMLP([6, 8, 2])
    names = {"0": "layers.0", "2": "layers.1"}
    ours.load_state_dict({f"{names[name[0]]}{name[1:]}": value for name, value in plain.state_dict().items()})
    x = torch.randn(3, 6)
    torch.testing.assert_close(ours(x), plain(x), rtol=1e-5, atol=1e-5)
    one = LinearReLU(6, 8)
    one.load_state_dict(plain[0].state_dict())
    torch.testing.assert_close(one(x), plain[:2](x), rtol=1e-5, atol=1e-5)


def test_not_dense():
    module = LinearReLU(6, 8)
    x = torch.randn(6, 5).t().requires_grad_()
    y = module(x)
    y.backward(torch.ones(()).expand(5, 8))  # a gradient without memory of its own, as of sum()
    wanted = torch.relu(x.detach() @ module.weight.t() + module.bias)
    torch.testing.assert_close(y, wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(x.grad, (wanted > 0).float() @ module.weight, rtol=1e-5, atol=1e-5)


def test_only_the_gradients_that_are_wanted():
    module, x = FusedMLP([6, 8, 2]), torch.randn(3, 6)
    module.layers[0].requires_grad_(False)
    module(x).sum().backward()
    assert module.layers[0].weight.grad is None and module.layers[1].bias.grad is not None
    assert module.layers[1].weight.grad is not None and x.grad is None
    with torch.no_grad():
        assert not module(x).requires_grad


def test_gradients_add_up():
    module, x = LinearReLU(6, 8), torch.randn(3, 6)
    module(x).sum().backward()
    once = module.weight.grad.clone()
    module(x).sum().backward()
    torch.testing.assert_close(module.weight.grad, 2 * once)


def test_a_weight_that_changes_between_the_passes():
    module, x = LinearReLU(6, 8), torch.randn(3, 6, requires_grad=True)
    y = module(x)
    with torch.no_grad():
        module.weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_second_derivatives_are_refused():
    module, x = LinearReLU(6, 8), torch.randn(3, 6, requires_grad=True)
    (g,) = torch.autograd.grad(module(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


def test_training_learns():
    draw = torch.randn(256, 8)
    wanted = (draw[:, :1] * draw[:, 1:2]).tanh()
    module = FusedMLP([8, 64, 64, 1], activation="silu")
    optimizer = torch.optim.Adam(module.parameters(), 3e-3)
    losses = []
    for _ in range(150):
        optimizer.zero_grad()
        loss = (module(draw) - wanted).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < 0.2 * losses[0]


def test_what_the_library_has_not_is_pytorchs():
    module = LinearReLU(6, 8)
    for given in (module.double()(torch.randn(3, 6).double()), module.float()(torch.randn(0, 6))):
        assert type(given.grad_fn).__name__ != "_LayersBackward"
    with torch.autocast("cpu", torch.bfloat16):
        assert module(torch.randn(3, 6)).dtype == torch.bfloat16
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        module(torch.randn(3, 7))
    with pytest.raises(RuntimeError, match="dtype"):
        module(torch.randn(3, 6).double())
    with pytest.raises(ValueError, match="no activation 'tan'"):
        FusedMLP([6, 8], activation="tan")
    with pytest.raises(ValueError, match="widths"):
        FusedMLP([6])


def test_threads():
    """Handles are shared; what they save belongs to the tensors."""
    module, results = FusedMLP([32, 64, 8]), []
    inputs = [torch.randn(16, 32, requires_grad=True) for _ in range(8)]

    def work(x):
        for _ in range(20):
            x.grad = None
            y = module(x)
            torch.autograd.grad(y.sum(), x)
        results.append((x, torch.autograd.grad(module(x).sum(), x)[0]))

    threads = [threading.Thread(target=work, args=(x,)) for x in inputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    exact = copy.deepcopy(module).double()
    assert len(results) == 8
    for x, got in results:
        wide = x.detach().double().requires_grad_()
        torch.testing.assert_close(got.double(), torch.autograd.grad(exact(wide).sum(), wide)[0], rtol=1e-4, atol=1e-5)


def test_torch_compile():
    module = FusedMLP([6, 8, 2])
    x = torch.randn(3, 6)
    got = torch.compile(module, backend="aot_eager", fullgraph=True)(x)
    torch.testing.assert_close(got, module(x), rtol=1e-5, atol=1e-5)
