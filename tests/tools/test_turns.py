"""bench/turns.py: a small measurement with a second library and tuned plans, resumed, and tables that say of figures what is so.
Nothing here depends on how long anything takes."""
import contextlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../support")]
import hyp  # noqa: E402

onnx, np, onnxruntime = hyp.need("onnx", "numpy", "onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

SCRIPT = os.path.join(hyp.ROOT, "bench/turns.py")
sys.path.append(os.path.dirname(SCRIPT))
spec = importlib.util.spec_from_file_location("bench_turns", SCRIPT)
bench = importlib.util.module_from_spec(spec)
spec.loader.exec_module(bench)
LIBRARY = os.path.join(hyp.LIB, "libhypatia-rt.so")


def write_model(path, width):
    weights = np.random.default_rng(width).standard_normal((width, 3)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Gather", ["h", "which"], ["y"], axis=0)]
    graph = helper.make_graph(nodes, "m", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", width]),
                                           helper.make_tensor_value_info("which", TensorProto.INT64, [2])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def run(*options, code=0):
    done = subprocess.run([sys.executable, SCRIPT, "--bin", hyp.BIN, "--library", LIBRARY, *options], capture_output=True, text=True)
    assert done.returncode == code, f"{done.stdout}{done.stderr}"
    return done.stdout, done.stderr


def check_measuring(folder):
    for name, width in (("first", 4), ("second", 5), ("third", 6)):
        write_model(os.path.join(folder, f"{name}.onnx"), width)
    plans, figures = os.path.join(folder, "plans"), os.path.join(folder, "turns.json")
    quick = ["--folder", folder, "--plans", plans, "--length", "7", "--turns", "2", "--ms", "0.1", "--peers", "onnxruntime", "--json", figures]
    out, _ = run(*quick, "--threads", "1,2", "--only", "FIRST,sec", "--side", f"again={LIBRARY}", "--tune", "0.05")
    assert sorted(os.listdir(plans)) == sorted(f"{name}-{threads}{tuned}.bin" for name in ("first", "second") for threads in "12"
                                               for tuned in ("", "-tuned")), os.listdir(plans)
    assert out.count("\n| first |") == out.count("\n| second |") == 2 and "third" not in out, out
    assert "| network | now | tuned | again | onnxruntime | difference |" in out and out.count("again: geometric mean ") == 2, out
    results = json.load(open(figures))
    assert [(r["network"], r["threads"]) for r in results] == [("first", 1), ("second", 1), ("first", 2), ("second", 2)]
    for result in results:
        assert set(result["us"]) == {"now", "tuned", "again", "onnxruntime"} and result["difference"] < 1e-5, result
        assert all(len(times) == 2 and min(times) > 0 for times in result["us"].values()), result
    out, said = run(*quick, "--threads", "1", "--resume", "--budget", "0", "--side", f"again={LIBRARY}:{plans}")
    assert "third, 1 thread(s): no time was left" in said and json.load(open(figures)) == results[:2], said


def check_refusals(folder):
    for options, what in (([f"--side={LIBRARY}"], "wanted NAME=LIBRARY"), (["--side=now=" + LIBRARY], "other than"),
                          (["--side=x=/nowhere/lib.so"], "a library that is there")):
        assert what in run(*options, code=2)[1]
    assert "bench-turns.so is not there" in run("--bin", folder, code=1)[1]
    other = os.path.join(hyp.BIN, "bench-turns.so")  # a library, but none of Hypatia's
    said = run("--folder", folder, "--only", "first", "--turns", "1", "--peers", "none", "--library", other)[1]
    assert "the library has no hyp_engine_load_file" in said, said


def check_tables():
    times = {"now": [10.0, 20.0, 10.0], "before": [11.0, 24.0, 11.0], "peer": [9.0, 10.0, 9.5]}
    assert bench.row("net", times, 2e-7) == "| net | 10.0 us | 1.10 (1.10) | 0.90! (0.91) | 2e-07 |", bench.row("net", times, 2e-7)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        bench.print_table(1, [{"network": "net", "us": times, "difference": 0}])
        bench.print_table(2, [])
    assert 'before: geometric mean 1.100 times the time of "now"; ahead in 0 of 1: none' in out.getvalue(), out.getvalue()
    assert "ahead in 1 of 1: net 0.90" in out.getvalue() and "2 thread(s)" not in out.getvalue(), out.getvalue()


with tempfile.TemporaryDirectory() as made:
    check_tables()
    check_measuring(made)
    check_refusals(made)
