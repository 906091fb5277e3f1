"""Compilation: models in every form, options, rules in text, errors; and what is done with a plan besides running it."""

import os
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np
import onnx
import pytest
from conftest import close, model
from onnx import TensorProto, external_data_helper, helper

import hypatia


def test_models_in_every_form(layers, tmp_path, draw):
    path = tmp_path / "model.onnx"
    onnx.save(layers.model, path)
    plans = [hypatia.compile(m) for m in (layers.model, layers.model.SerializeToString(), str(path), path)]
    assert len({plan.to_bytes() for plan in plans[:2]}) == 1 and plans[2].to_bytes() == plans[3].to_bytes()
    x = draw.standard_normal((3, 8)).astype(np.float32)
    for plan in plans:
        close(plan(x), layers(x))
    with pytest.raises(TypeError):
        hypatia.compile(7)
    with pytest.raises(hypatia.FileError, match="nowhere.onnx"):
        hypatia.compile("nowhere.onnx")
    with pytest.raises(hypatia.MalformedError, match="^model: "):
        hypatia.compile(b"no model at all")
    with pytest.raises(hypatia.Error):
        hypatia.compile(b"")


def test_external_data(layers, tmp_path, draw):
    path = tmp_path / "model.onnx"
    copy = onnx.ModelProto()
    copy.CopyFrom(layers.model)
    external_data_helper.convert_model_to_external_data(copy, location="weights", size_threshold=0)
    onnx.save(copy, path)
    assert os.path.getsize(tmp_path / "weights") > 0
    x = draw.standard_normal((3, 8)).astype(np.float32)
    close(hypatia.compile(path)(x), layers(x))


def test_options(layers, draw):
    plan = hypatia.compile(layers.model, dims={"batch": 2}, threads=1)
    assert plan.inputs == [hypatia.Io("x", "f32", (2, 8))] and plan.outputs[0].shape == (2, 4)
    assert hypatia.compile(layers.model, shapes={"x": (3, None)}).inputs[0].shape == (3, 8)
    with pytest.raises(hypatia.InvalidArgumentError):
        plan(np.zeros((3, 8), np.float32))
    open_plan = hypatia.compile(layers.model)
    assert open_plan.inputs[0].shape == ("batch", 8) and open_plan.device == "cpu" and open_plan.precision == "fp32"
    report = open_plan.compilation
    assert (
        report.plan_steps == 1
        and report.nodes_before == 3
        and "fused-mlp" in report.steps
        and "strict" in report.verified
    )
    assert any(rule.name == "gemm-linear" or rule.used for rule in report.rules) and "3 nodes that run -> 1" in str(
        report
    )
    as_it_is = hypatia.compile(layers.model, rewrite=False)
    assert as_it_is.compilation.plan_steps > 1 and not as_it_is.compilation.rules
    x = draw.standard_normal((2, 8)).astype(np.float32)
    for other in (plan, as_it_is, hypatia.compile(layers.model, target="cpu:avx2", typical={"batch": 1}, verify="off")):
        close(other(x), layers(x))
    narrow = hypatia.compile(layers.model, precision="bf16")
    assert narrow.precision == "bf16"
    np.testing.assert_allclose(narrow(x), layers(x), rtol=0.05, atol=0.3)
    bound = hypatia.compile(layers.model, bind={"x": x})
    assert bound.inputs == []
    close(bound(), layers(x))
    for_gpu = hypatia.compile(layers.model, target="cuda", device="cpu")
    assert for_gpu.device == "cpu"
    close(for_gpu(x), layers(x))


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(precision="fp7"), "fp7"),
        (dict(target="abacus"), "abacus"),
        (dict(dims={"bach": 2}), "batch"),
        (dict(verify="maybe"), "maybe"),
        (dict(disable_rules=["no-such-rule"]), "no-such-rule"),
        (dict(shapes={"z": [1]}), "z"),
        (dict(precision="fp8"), "samples"),
        (dict(profile="nowhere.profile"), "nowhere.profile"),
        (dict(explain="nothing"), "nothing"),
        (dict(memory_budget=1), "bytes"),
        (dict(bind={"x": np.zeros((2, 9), np.float32)}), "x"),
    ],
)
def test_options_that_are_wrong(layers, options, message):
    with pytest.raises(hypatia.Error, match=message):
        hypatia.compile(layers.model, **options)


def test_types_of_options_that_are_wrong(layers):
    for options in (
        dict(dims={"batch": "two"}),
        dict(dims={3: 3}),
        dict(max_nodes=-1),
        dict(max_seconds="long"),
        dict(bind={"x": "text"}),
        dict(shapes={"x": [1] * 9}),
        dict(only_rules=[3]),
        dict(threads="all"),
        dict(threads=2**40),
    ):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            hypatia.compile(layers.model, **options)
    with pytest.raises(TypeError):
        hypatia.compile(layers.model, no_such_option=1)
    with pytest.raises(ValueError, match="no device"):
        hypatia.compile(layers.model, device="abacus")


DROP = '(rule drop-relu :class A :doc "no relu" (relu ?x) => ?x)'


def test_rules_in_text(layers, tmp_path, draw):
    x = draw.standard_normal((4, 8)).astype(np.float32)
    with pytest.raises(hypatia.MismatchError, match="drop-relu"):
        hypatia.compile(layers.model, rules=DROP, allow_approximate=True, verify="strict")
    with pytest.warns(UserWarning, match="wrong"):
        plan = hypatia.compile(layers.model, rules=DROP, allow_approximate=True, verify="warn")
    close(plan(x), (x @ layers.A + layers.a) @ layers.B + layers.b)
    file = tmp_path / "my.rules"
    file.write_text(DROP)
    for given in (file, str(file), [DROP], [file, "(rule other :class E (neg (neg ?x)) => ?x)"]):
        names = [rule.name for rule in hypatia.rules(given, builtin_rules=False, allow_approximate=True)]
        assert names[0] == "drop-relu"
    with pytest.raises(hypatia.MalformedError, match=r"rules:1:\d+: .*did you mean 'relu'"):
        hypatia.compile(layers.model, rules="(rule a (relu ?x) => (rel ?x))")
    with pytest.raises(hypatia.MalformedError, match=r"rules\[1\]:2:"):
        hypatia.rules([DROP, "\n(rule a (relu ?x) => ?y)"])
    assert len(hypatia.rules()) > 100 and all(rule.doc for rule in hypatia.rules())


def test_progress_and_what_it_raises(layers):
    seen = []
    hypatia.compile(layers.model, progress=seen.append)
    assert {"import", "optimize"} <= {p.phase for p in seen} and all(p.seconds >= 0 for p in seen)
    with pytest.raises(ZeroDivisionError):
        hypatia.compile(layers.model, progress=lambda p: 1 / 0)
    answer = hypatia.compile(layers.model, explain="act").compilation.answer
    assert "fuse" in answer


def test_interrupt(layers):
    """Ctrl-C, at the first word of progress."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            hypatia.compile(layers.model, progress=lambda p: signal.raise_signal(signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, before)


def test_compile_in_threads(layers):
    plans = []
    threads = [
        threading.Thread(target=lambda: plans.append(hypatia.compile(layers.model).to_bytes())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(plans) == 4 and len(set(plans)) == 1


def test_warnings_of_the_model(layers):
    odd = onnx.ModelProto()
    odd.CopyFrom(layers.model)
    odd.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 5
    with pytest.warns(UserWarning, match="y"):
        hypatia.compile(odd)


def test_unsupported():
    strange = helper.make_model(
        helper.make_graph(
            [helper.make_node("Strange", ["x"], ["y"], domain="odd")],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
        ),
        opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("odd", 1)],
        ir_version=9,
    )
    with pytest.raises(hypatia.UnsupportedError, match="Strange") as caught:
        hypatia.compile(strange)
    assert isinstance(caught.value, NotImplementedError) and caught.value.status == 5


# ---- keeping plans -----------------------------------------------------------------------------------------------------


def test_save_and_load(layers, layers_plan, tmp_path, draw):
    x = draw.standard_normal((3, 8)).astype(np.float32)
    path = tmp_path / "plan.bin"
    layers_plan.save(path)
    data = path.read_bytes()
    assert data == layers_plan.to_bytes()
    for plan in (
        hypatia.Plan.load(path),
        hypatia.Plan.load(str(path), device="cpu", threads=1, check=False),
        hypatia.Plan.from_bytes(data),
        hypatia.Plan.load(path, device="reference"),
        pickle.loads(pickle.dumps(hypatia.Plan.load(path, device="reference"))),
    ):
        close(plan(x), layers(x))
        assert plan.compilation is None and plan.to_bytes() == data
    assert plan.device == "reference"
    loaded = hypatia.Plan.load(path)
    os.remove(path)
    close(loaded(x), layers(x))
    assert loaded.inspect()["inputs"] and loaded.to_bytes() == data
    path.write_bytes(b"another file")
    assert loaded.inspect()["steps"] and "fused-mlp" in loaded.describe({"batch": 4})


def test_plans_that_are_none(layers_plan, tmp_path):
    data = layers_plan.to_bytes()
    with pytest.raises(hypatia.FileError):
        hypatia.Plan.load(tmp_path / "nowhere")
    for broken in (
        b"",
        b"x" * 1000,
        data[:-1],
        data[:100] + bytes([data[100] ^ 1]) + data[101:],
        data[:-50] + b"x" + data[-49:],
    ):
        with pytest.raises(hypatia.Error):
            hypatia.Plan.from_bytes(broken)
    with pytest.raises(TypeError):
        hypatia.Plan.from_bytes("text")
    with pytest.raises(hypatia.LimitError):
        hypatia.Plan.from_bytes(data, memory_limit=10)(np.zeros((1, 8), np.float32))
    with pytest.raises(hypatia.SignatureError):
        hypatia.Plan.from_bytes(data, require_signature=bytes(32))
    with pytest.raises(ValueError, match="32 bytes"):
        hypatia.Plan.from_bytes(data, require_signature=b"short")
    with pytest.raises(ValueError):
        hypatia.Plan.load("plan.bin", device="cpu:1")


def test_inspect(layers_plan):
    told = layers_plan.inspect({"batch": 7})
    assert len(told["steps"]) == 1 and told["symbols"] and "7" in str(told["steps"][0])
    assert "hypatia.Plan (x: f32[batch, 8]) -> (y: f32[batch, 4]) on cpu" in repr(layers_plan)
    assert layers_plan.memory_bytes > 0 and layers_plan.predicted_seconds > 0
    with pytest.raises(hypatia.InvalidArgumentError, match="batch"):
        layers_plan.inspect({"bach": 7})


# ---- checks --------------------------------------------------------------------------------------------------------


def test_verify(layers, layers_plan, draw):
    done = layers_plan.verify()
    assert (
        done
        and done.passed
        and all(one.elements and not one.outside for one in done.comparisons)
        and "PASSED" in str(done)
    )
    assert layers_plan.verify(layers.model, dims={"batch": 3}).comparisons[0].elements == 12
    x = draw.standard_normal((2, 8)).astype(np.float32)
    assert layers_plan.verify(layers.model.SerializeToString(), {"x": x})
    other = onnx.ModelProto()
    other.CopyFrom(layers.model)
    other.graph.initializer[1].CopyFrom(onnx.numpy_helper.from_array(layers.a + 1, "a"))
    with pytest.raises(hypatia.InvalidArgumentError, match="any_model"):
        layers_plan.verify(other, {"x": x})
    with pytest.raises(hypatia.MismatchError, match="y: 8 elements"):
        layers_plan.verify(other, {"x": x}, any_model=True)
    with pytest.raises(hypatia.InvalidArgumentError, match="keeps no results"):
        hypatia.compile(layers.model, verify="off").verify()
    with pytest.raises(hypatia.InvalidArgumentError, match="open"):
        layers_plan.verify(layers.model)
    with pytest.raises(hypatia.InvalidArgumentError):
        layers_plan.verify(dims={"batch": 3})


def test_random_inputs(layers_plan):
    x = layers_plan.random_inputs({"batch": 3})["x"]
    assert x.shape == (3, 8) and np.array_equal(x, layers_plan.random_inputs({"batch": 3})["x"]) and np.abs(x).max() < 1
    assert not np.array_equal(x, layers_plan.random_inputs({"batch": 3}, seed=1)["x"])


def test_bench_and_tune(layers, layers_plan, tmp_path):
    times = layers_plan.bench(dims={"batch": 2}, seconds=0.01)
    assert (
        len(times.samples) >= 10 and 0 < times.least <= times.median <= times.percentile(99) and "median" in str(times)
    )
    assert layers_plan.bench(np.zeros((1, 8), np.float32), seconds=0.01).least > 0
    plan = hypatia.compile(layers.model)
    plan(np.zeros((1, 8), np.float32))
    found = plan.tune({"batch": 4}, seconds=0.2)
    assert found.products >= 1 and found.known + found.timed >= 0
    x = plan.random_inputs({"batch": 4})["x"]
    close(plan(x), layers(x))
    plan.save(tmp_path / "tuned.bin")
    assert hypatia.Plan.load(tmp_path / "tuned.bin").tune({"batch": 4}, seconds=0.2).known == found.timed


def test_update(layers, draw):
    plan = hypatia.compile(layers.model, updatable=["B"])
    assert [w.name for w in plan.weights] == ["B"] and plan.weights[0].shape == (16, 4)
    x = draw.standard_normal((3, 8)).astype(np.float32)
    close(plan(x), layers(x))
    new = draw.standard_normal((16, 4)).astype(np.float32)
    plan.update({"B": new})
    close(plan(x), np.maximum(x @ layers.A + layers.a, 0) @ new + layers.b)
    for wrong in ({"A": layers.A}, {"B": new[:3]}, {"B": new.astype(np.float64)}):
        with pytest.raises(hypatia.InvalidArgumentError):
            plan.update(wrong)
    with pytest.raises(TypeError):
        plan.update({"B": "text"})


def test_report(layers, layers_plan, tmp_path):
    page = layers_plan.report()
    assert page.html.lstrip().lower().startswith("<!doctype html") and "fused-mlp" in page.html
    shown = page._repr_html_()
    assert shown.startswith("<iframe") and "<script" not in shown
    page.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page.html
    assert len(hypatia.compile(layers.model, record=False).report().html) < len(page.html)


def test_commands(layers_plan, tmp_path):
    layers_plan.save(tmp_path / "plan.bin")
    for name, args, said in (
        ("hypatia", ["verify", "plan.bin"], "PASSED"),
        ("hypatiac", ["--version"], hypatia.__version__),
        ("hypatia_egraph", ["--version"], hypatia.__version__),
    ):
        code = f"from hypatia import _tools; _tools.{name}()"
        done = subprocess.run(
            [sys.executable, "-c", code, *args], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert said in done.stdout


def test_errors_are_of_one_family():
    kinds = [getattr(hypatia, name) for name in hypatia._error_names]
    assert all(issubclass(kind, hypatia.Error) for kind in kinds) and len({kind.status for kind in kinds}) == len(kinds)
    assert issubclass(hypatia.OutOfMemoryError, MemoryError) and issubclass(hypatia.FileError, OSError)
    assert hypatia.__version__.count(".") == 2 and "plan format" in hypatia.version_details
