"""The backend of torch.compile, and plans of modules of PyTorch, against what PyTorch computes itself."""

import gc
import os
import re
import warnings

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnxscript", reason="onnxscript, which PyTorch's exporter to ONNX needs, is not installed")

from conftest import ROOT  # noqa: E402
from torch import nn  # noqa: E402
from torch_modules import MODULES, make  # noqa: E402

import hypatia  # noqa: E402
import hypatia.torch as ht  # noqa: E402


on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    gc.collect()
    global before
    before = ht.plans()  # which PyTorch has kept from other tests
    # PyTorch's own kernel for whole encoder layers has, in some releases, another gelu than the module asks for.
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    yield
    torch.backends.mha.set_fastpath_enabled(fast)


@pytest.fixture
def recurrent():
    """Recurrent modules are given to backends."""
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


def plans():
    return [plan for plan in ht.plans() if all(plan is not one for one in before)]


def compiled(module, strict=True, **options):
    return torch.compile(module, backend="hypatia", options={"strict": strict, **options})


def net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)).eval()


def near(got, wanted, tolerance=2e-5):
    torch.testing.assert_close(got, wanted, rtol=tolerance, atol=tolerance)


# ---- results ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODULES)
def test_module(name):
    """Batches of three sizes: the second makes the size open, and the third is served by the same plan."""
    module, draw = make(name)
    ours = compiled(module)
    with torch.inference_mode():
        for batch in (3, 5, 2):
            x = draw(batch)
            near(ours(*x), module(*x))
    if name != "branching":  # which has several graphs
        open_plans = [p for p in plans() if any(isinstance(size, str) for io in p.inputs for size in io.shape)]
        assert len(open_plans) == 1, plans()


@on_gpu
@pytest.mark.parametrize("name", MODULES)
def test_module_on_a_gpu(name, monkeypatch, recurrent):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    module, draw = make(name, device="cuda")
    ours = compiled(module)
    with torch.inference_mode(), torch.cuda.stream(torch.cuda.Stream()):
        for batch in (3, 5, 2):
            x = draw(batch)
            y = ours(*x)
            assert y.is_cuda
            near(y, module(*x), 1e-4)
    assert plans()[-1].device == "cuda"


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_gpu)])
def test_recurrent(kind, device, monkeypatch, recurrent):
    """In both directions, with states that are given and wanted."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    torch.manual_seed(3)
    module = kind(6, 8, num_layers=2, bidirectional=True, batch_first=True).to(device).eval()
    ours = compiled(module)
    with torch.inference_mode():
        for batch in (3, 5, 2):
            x, states = torch.randn(batch, 7, 6, device=device), [torch.randn(4, batch, 8, device=device) for _ in range(2)]
            given = tuple(states) if kind is nn.LSTM else states[0]
            (y, last), (wanted, wanted_last) = ours(x, given), module(x, given)
            near(y, wanted)
            for a, b in zip(last, wanted_last) if kind is nn.LSTM else [(last, wanted_last)]:
                near(a, b)
    open_plans = [p for p in plans() if isinstance(p.inputs[0].shape[0], str)]
    assert len(open_plans) == 1 and open_plans[0].device == device
    kernels = {step["kernel"] for step in open_plans[0].inspect()["steps"]}
    assert kind.__name__.lower() in kernels or kind is nn.RNN  # which PyTorch's exporter writes out


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["mlp", "resnet_block", "encoder_layer"])
def test_half(name, dtype):
    module, draw = make(name, dtype=dtype)
    with torch.inference_mode():
        x = draw(4)
        y, wanted = compiled(module)(*x), module(*x)
        assert y.dtype == dtype
        near(y.float(), wanted.float(), 0.05 if dtype == torch.bfloat16 else 0.01)


def test_dynamic_from_the_start():
    module, draw = make("mlp")
    ours = torch.compile(module, backend="hypatia", dynamic=True, options={"strict": True})
    with torch.no_grad():
        for batch in (2, 7, 31):
            x = draw(batch)
            near(ours(*x), module(*x))
    assert len(plans()) == 1 and isinstance(plans()[0].inputs[0].shape[0], str)


def test_a_plan_for_each_shape():
    module, draw = make("mlp")
    ours = compiled(module, dynamic=False)
    with torch.no_grad():
        for batch in (2, 3, 5, 3):
            x = draw(batch)
            near(ours(*x), module(*x))
    assert sorted(p.inputs[0].shape[0] for p in plans()) == [2, 3, 5]


def test_several_outputs_and_kinds_of_inputs():
    class Net(nn.Module):
        def forward(self, x, index, flag):
            return {"rows": x[index], "where": torch.where(flag, x, -x), "count": (x > 0).sum(1)}, x.t() * 2

    module, x = Net(), torch.randn(4, 6).t()  # not dense
    args = (x, torch.tensor([1, 0, 5]), torch.rand(6, 4) > 0.5)
    with torch.no_grad():
        (got, twice), (wanted, other) = compiled(module)(*args), module(*args)
    for name in wanted:
        near(got[name], wanted[name])
    near(twice, other)


def test_inputs_that_require_gradients_nobody_wants():
    module, x = net(), torch.randn(2, 6, requires_grad=True)
    with torch.no_grad():
        y = compiled(module)(x)
        near(y, module(x))
    assert not y.requires_grad


def test_what_goes_wrong_in_pytorch_runs_eager(monkeypatch):
    monkeypatch.setattr(torch.fx.GraphModule, "named_buffers", lambda graph: 1 / 0)
    with torch.no_grad(), pytest.warns(ht.FallbackWarning, match="ZeroDivisionError"):
        x, module = torch.randn(2, 6), net()
        near(compiled(module, strict=False)(x), module(x))


def test_outputs_are_new():
    ours = compiled(net())
    with torch.no_grad():
        x = torch.randn(2, 6)
        a = ours(x)
        kept, b = a.clone(), ours(x + 1)
        assert a.data_ptr() != b.data_ptr() and not a.requires_grad
        near(a, kept, 0)


def test_a_size_in_the_result():
    """A size is a number of the graph, too."""

    class Net(nn.Module):
        def forward(self, x):
            return x.sum(0) / x.shape[0] + x.new_ones(x.shape[0], 1).mean()

    module = Net()
    ours = torch.compile(module, backend="hypatia", dynamic=True, options={"strict": True})
    with torch.no_grad():
        for batch in (3, 8):
            x = torch.randn(batch, 4)
            near(ours(x), module(x))


def test_graph_break_is_compiled_on_both_sides():
    module, draw = make("branching")
    with torch.no_grad():
        x = draw(2)
        near(compiled(module)(*x), module(*x))
    assert len(plans()) >= 2


# ---- falling back ----------------------------------------------------------------------------------------------------


class Unsupported(nn.Module):
    def forward(self, x):
        return torch.linalg.det(x) + 1


def test_unsupported_operator_runs_eager():
    module, x = Unsupported(), torch.randn(3, 4, 4)
    ours = compiled(module, strict=False)
    with torch.no_grad(), pytest.warns(ht.FallbackWarning, match="(?i)det") as told:
        near(ours(x), module(x))
    assert len(told) == 1
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        near(ours(x), module(x))
    assert not plans()


def test_strict():
    with torch.no_grad(), pytest.raises(Exception, match="(?i)det"):
        compiled(Unsupported())(torch.randn(3, 4, 4))


def test_random_numbers_run_eager():
    module = nn.Sequential(nn.Linear(4, 400), nn.Dropout(0.5)).train()
    with torch.no_grad(), pytest.warns(ht.FallbackWarning):
        y = compiled(module, strict=False)(torch.ones(8, 4))
    assert (y == 0).float().mean() > 0.3


def test_a_buffer_that_is_written_runs_eager():
    module = nn.BatchNorm1d(4).train()
    with torch.no_grad(), pytest.warns(ht.FallbackWarning, match="in place"):
        compiled(module, strict=False)(torch.randn(8, 4) + 3)
    assert float(module.running_mean.abs().sum()) > 0 and int(module.num_batches_tracked) == 1


def test_an_input_that_is_written_runs_eager():
    def add(x):
        x.add_(1)
        return x * 2

    x = torch.zeros(3)
    with torch.no_grad(), pytest.warns(ht.FallbackWarning, match="in place"):
        y = compiled(add, strict=False)(x)
    assert x.tolist() == [1, 1, 1] and y.tolist() == [2, 2, 2]


def test_gradients_run_eager():
    module = net()
    ours, x = compiled(module, strict=False), torch.randn(2, 6)
    with pytest.warns(ht.FallbackWarning, match="inference_mode"):
        ours(x).sum().backward()
    assert module[0].weight.grad is not None
    with torch.no_grad():
        near(ours(x), module(x))
    assert len(plans()) == 1
    with pytest.raises(Exception, match="gradients"):
        torch._dynamo.reset()
        compiled(module)(x)


def test_more_shapes_than_plans():
    module, draw = make("mlp")
    ours = compiled(module, strict=False, dynamic=False)
    torch._dynamo.mark_dynamic(draw(2)[0], 0)
    with torch.no_grad(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for batch in range(2, 13):
            x = draw(batch)
            near(ours(*x), module(*x))
    assert sum(issubclass(one.category, ht.FallbackWarning) for one in told) == 1


def test_unknown_options():
    with torch.no_grad(), pytest.raises(Exception, match="no option precission; it has .*precision"):
        compiled(net(), precission="bf16")(torch.randn(2, 6))


# ---- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"updatable": ["*"]}])
def test_changed_weights_are_seen(options):
    module = net()
    ours, x = compiled(module, **options), torch.randn(2, 6)
    with torch.no_grad():
        near(ours(x), module(x))
        first = plans()[0]
        module[0].weight.mul_(3)
        near(ours(x), module(x))
        assert (plans()[0] is first) == bool(options)
        module.load_state_dict({name: value * 0.5 + 1 for name, value in module.state_dict().items()})
        near(ours(x), module(x))
        module[2].bias.data = torch.randn(3)
        near(ours(x), module(x))
        assert (plans()[0] is first) == bool(options)


def test_steps_of_an_optimizer_are_seen():
    module, x = net(), torch.randn(2, 6)
    ours, optimizer = compiled(module), torch.optim.Adam(module.parameters(), 0.1)
    for _ in range(3):
        module(x).square().sum().backward()
        optimizer.step()
        with torch.no_grad():
            near(ours(x), module(x))


def test_frozen_weights_are_not_watched():
    module = net()
    ours, x = compiled(module, frozen=True), torch.randn(2, 6)
    with torch.no_grad():
        y = ours(x)
        module[0].weight.mul_(3)
        near(ours(x), y, 0)


def test_weights_have_the_names_of_the_module():
    module = net()
    with torch.no_grad():
        compiled(module, updatable=["*"])(torch.randn(2, 6))
    assert {w.name for w in plans()[0].weights} == {"0.weight", "0.bias", "2.weight", "2.bias"}


# ---- options ---------------------------------------------------------------------------------------------------------


def test_options_reach_the_compiler():
    with torch.no_grad():
        compiled(net(), precision="bf16", threads=1)(torch.randn(2, 6))
    assert plans()[0].precision == "bf16"


def test_cache(tmp_path):
    module, x = net(), torch.randn(2, 6)
    folder = tmp_path / "cache"
    for _ in range(2):
        torch._dynamo.reset()
        with torch.no_grad():
            near(compiled(module, cache=folder)(x), module(x))
        assert len(os.listdir(folder)) == 1
    assert plans()[0].compilation is None  # it was loaded
    [kept] = folder.iterdir()
    kept.write_bytes(b"no plan")
    torch._dynamo.reset()
    with torch.no_grad():
        near(compiled(module, cache=folder)(x), module(x))
    assert kept.stat().st_size > 100


def test_tune_and_typical_sizes():
    module, draw = make("mlp")
    ours = torch.compile(module, backend="hypatia", dynamic=True, options={"strict": True, "tune": 0.2})
    with torch.no_grad():
        x = draw(5)
        near(ours(*x), module(*x))
    assert isinstance(plans()[0].inputs[0].shape[0], str)


def test_encoder_layers_with_masks():
    """PyTorch has one operator for all of a layer, and hands masks to it."""
    torch.manual_seed(2)
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    module = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    attention = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    x, padding = torch.randn(3, 6, 16), torch.arange(6) >= torch.tensor([[6], [4], [2]])
    causal = torch.triu(torch.ones(6, 6, dtype=torch.bool), 1)
    with torch.no_grad():
        near(compiled(module)(x, src_key_padding_mask=padding)[~padding], module(x, src_key_padding_mask=padding)[~padding])
        near(compiled(module)(x, mask=causal), module(x, mask=causal))
        for named in ({"need_weights": False}, {}, {"average_attn_weights": False}, {"key_padding_mask": padding}):
            for got, wanted in zip(compiled(attention)(x, x, x, **named), attention(x, x, x, **named)):
                assert (got is None) == (wanted is None)
                if got is not None:
                    near(got, wanted)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode):
    module, x = nn.EmbeddingBag(20, 4, mode=mode), torch.randint(0, 20, (3, 5))
    with torch.no_grad():
        near(compiled(module)(x), module(x))


def test_entry_point(tmp_path):
    """As pip installs it: the name is known without an import of hypatia."""
    import subprocess
    import sys

    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 cannot read pyproject.toml")
    with open(os.path.join(ROOT, "python/pyproject.toml"), "rb") as file:
        points = tomllib.load(file)["project"]["entry-points"]["torch_dynamo_backends"]
    folder = tmp_path / "hypatia-0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: hypatia\nVersion: 0\n")
    lines = [f"{name} = {value}\n" for name, value in points.items()]
    (folder / "entry_points.txt").write_text("[torch_dynamo_backends]\n" + "".join(lines))
    program = (
        "import sys, torch; m = torch.compile(torch.nn.Linear(3, 2), backend='hypatia', options={'strict': True})\n"
        "with torch.no_grad(): m(torch.ones(1, 3))\n"
        "print(sys.modules['hypatia.torch'].plans())"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path}
    said = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert said.returncode == 0 and "hypatia.Plan" in said.stdout, said.stderr


# ---- the page --------------------------------------------------------------------------------------------------------


def test_page(tmp_path, monkeypatch, capsys):
    """The code of docs/pytorch.md, block by block, in one program."""
    page, names = os.path.join(ROOT, "docs/pytorch.md"), {}
    monkeypatch.chdir(tmp_path)
    with open(page, encoding="utf-8") as file:
        blocks = re.findall(r"<!-- by: python_package -->\n\n```python\n(.*?)```", file.read(), re.S)
    assert len(blocks) >= 3
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    assert "f32[4, 64]" in capsys.readouterr().out and os.path.getsize("model.bin") > 1000


# ---- from_torch ------------------------------------------------------------------------------------------------------


def test_from_torch():
    module, x = net(), torch.randn(4, 6)
    plan = hypatia.from_torch(module, x)
    assert plan.inputs[0].shape == (4, 6) and plan.inputs[0].name == "input"
    with torch.no_grad():
        near(plan(x), module(x))


def test_from_torch_with_open_sizes():
    module, draw = make("bert")
    plan = hypatia.from_torch(module, draw(3), dynamic={"ids": {0: "rows"}, "mask": {0: "rows"}})
    assert [io.shape for io in plan.inputs] == [("rows", 16), ("rows", 16)] and plan.outputs[0].shape == ("rows", 2)
    with torch.no_grad():
        for batch in (1, 6):
            ids, mask = draw(batch)
            near(plan(ids=ids, mask=mask), module(ids, mask))
    plan = hypatia.from_torch(net(), torch.randn(2, 6), dynamic=True)
    assert plan.inputs[0].shape == ("batch", 6)


def test_from_torch_refuses():
    with pytest.raises(ht.ExportError, match="input"):
        hypatia.from_torch(net(), torch.randn(2, 6), dynamic={"input": {1: "channels"}})
    with pytest.raises(hypatia.InvalidArgumentError, match="dynamic names y; arguments are input"):
        hypatia.from_torch(net(), torch.randn(2, 6), dynamic={"y": {0: "b"}})
    with pytest.raises(hypatia.UnsupportedError, match="(?i)det"):
        hypatia.from_torch(Unsupported(), torch.randn(3, 4, 4))
    with pytest.raises(ht.ExportError, match="in place"):
        hypatia.from_torch(nn.BatchNorm1d(4).train(), torch.randn(8, 4))


def test_from_torch_updates():
    module, x = net(), torch.randn(2, 6)
    plan = hypatia.from_torch(module, x, updatable=["*"])
    with torch.no_grad():
        module[2].weight.mul_(-2)
        plan.update({"2.weight": module[2].weight})
        near(plan(x), module(x))
