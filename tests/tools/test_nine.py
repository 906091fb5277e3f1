"""The nine configurations: models that are the same each time, a small measurement, and tables that say of figures what is so."""
import contextlib
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../support")]
import hyp  # noqa: E402

onnx, np, onnxruntime = hyp.need("onnx", "numpy", "onnxruntime")
SCRIPT = os.path.join(hyp.ROOT, "bench/nine.py")
spec = importlib.util.spec_from_file_location("bench_nine", SCRIPT)
bench = importlib.util.module_from_spec(spec)
spec.loader.exec_module(bench)


def check_models(folder):
    for run in ("a", "b"):
        subprocess.run([sys.executable, os.path.join(hyp.ROOT, "examples/nine/nine.py"), os.path.join(folder, run), "--only", "small"], check=True)
    names = sorted(os.listdir(os.path.join(folder, "a")))
    assert names == ["small-1.onnx", "small-2.onnx", "small-4.onnx", "small-6.onnx"], names
    for name in names:
        first, second = (open(os.path.join(folder, run, name), "rb").read() for run in ("a", "b"))
        assert first == second, f"{name}: two runs write other bytes"
        onnx.checker.check_model(os.path.join(folder, "a", name))
    assert len(bench.nine.configurations()) == 12 and bench.nine.widths("medium", 4) == (784, 2048, 2048, 2048, 10)
    model = os.path.join(folder, "a/small-4.onnx")
    out = hyp.tool("hypatiac", model, "--dry-run").stdout
    assert "7 nodes that run -> 1" in out, out


def check_measuring(folder):
    """With onnxruntime, or PyTorch where this interpreter has it."""
    path, svg, page = (os.path.join(folder, name) for name in ("f.tsv", "f.svg", "page.md"))
    done = subprocess.run([sys.executable, SCRIPT, "measure", "--bin", hyp.BIN, "--tsv", path, "--only", "small-1,small-2", "--rows", "4,2,2",
                           "--rounds", "2", "--seconds", "0.01", "--tune-seconds", "0.1"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with open(page, "w") as file:
        file.write("before\n<!-- nine:cpu -->\nold\n<!-- /nine:cpu -->\nafter\n")
    done = subprocess.run([sys.executable, SCRIPT, "report", "--forward", path, "--svg", svg, "--page", page, "--part", "cpu"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text = open(page).read()
    assert text.startswith("before\n<!-- nine:cpu -->\n![") and text.endswith("<!-- /nine:cpu -->\nafter\n") and "old" not in text, text
    assert text.count("\n| small, ") == 2 and "| 4 | fp32 |" in text, text
    times = {tuple(line.split("\t")[k] for k in (0, 3)): float(line.split("\t")[4]) for line in open(path) if line[0] not in "#m" or line.startswith("mlp")}
    for (model, way), us in times.items():
        assert us > 0 and model in ("linear-relu 4: 256-512", "mlp 4: 256-512-256") and way in ("unfused", "fused", "tuned", "PyTorch", "onnxruntime")
        assert f" {bench.number(us)} |" in text, (model, way, us)
    assert len(times) == 8
    assert xml.parse(svg).getroot().tag.endswith("svg")
    done = subprocess.run([sys.executable, SCRIPT, "report", "--forward", path, "--page", page, "--part", "gpu"], capture_output=True, text=True)
    assert done.returncode == 1 and "has no place" in done.stderr


def told(folder, lines, heads):
    path = os.path.join(folder, "t.tsv")
    with open(path, "w") as file:
        file.write("\n".join("\t".join(map(str, line)) for line in [heads, *lines]) + "\n")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        args = type("Args", (), {"forward": path, "backward": None, "title": "somewhere", "svg": None, "page": None, "part": None})
        bench.report(args)
    return {line.split(" | ")[0][2:]: line for line in out.getvalue().splitlines() if line.startswith("| ")}, out.getvalue()


def check_verdicts(folder):
    """Files as bench/gpu/linear_relu.py and bench/nn.py write them: ratios, targets, and reasons that follow from the figures."""
    heads = ("model", "type", "mode", "way", "median_us", "min_us", "floor_flops_us")

    def ways(model, floor, **us):
        return [(model, "bf16", mode, way.replace("_", "."), value * (9 if mode == "call" else 1), 1, floor) for way, value in us.items()
                for mode in ("graph", "call")]
    rows, text = told(folder, ways("mlp 256: 256-512-256", 1, tuned=4, fused=5, eager=3.99) +
                      ways("mlp 1024: 784-2048-10", 10, tuned=20, fused=30, eager=20.94) +
                      ways("mlp 1024: 784-2048-2048-2048-10", 10, tuned=20, fused=30, eager=20.89) +
                      ways("mlp 8192: 4096-4096-4096", 380, tuned=400, unfused=500, eager=430) +
                      ways("mlp 8192: 4096-4096-4096-4096-4096", 380, fused=500, eager=400) +
                      ways("linear-relu 8192: 4096-4096", 200, tuned=250, eager=301) +
                      ways("mlp 64: 256-256-256", 200, tuned=250, eager=301), heads)
    assert rows["small, 2 layers"].endswith("| 1.00 | 1.00 | met |"), rows
    assert rows["medium, 2 layers"].endswith("| 1.05 | 1.05 to 1.10 | met |"), rows  # 1.047 is within what repeats
    assert "| 1.04 | 1.05 to 1.10 | not met: faster, but by less, at 50 % of the floor |" in rows["medium, 4 layers"], rows
    assert "| 1.07 | 1.10 to 1.20 | not met: at 95 % of the floor there is nothing left to win |" in rows["large, 2 layers"], rows
    assert "| 0.80 | 1.10 to 1.20 | not met: the framework is faster; we are at 76 % of the floor |" in rows["large, 4 layers"], rows
    assert rows["large, one layer and its relu"].endswith("| 1.20 | 1.10 to 1.20 | met |"), rows
    assert len(rows) == 7 and "Targets met: 2 of 5" in text, text  # single layers and other networks do not count
    rows, text = told(folder, [("mlp 128: 784-2048-10", "fp32", "call", way, us, 25, "1e-7") for way, us in (("ours", 30), ("eager", 60))],
                      ("model", "type", "mode", "way", "median_us", "floor_us", "error"))
    assert "| 128 | fp32 | 30.00 | 60.00 | 2.00 | 1.05 to 1.10 | met |" in rows["medium, 2 layers"], rows
    row = bench.Row("large", 6, "bf16")
    assert row.flops == 2 * 8192 * 6 * 4096 ** 2


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_models(folder)
        check_measuring(folder)
        check_verdicts(folder)


if __name__ == "__main__":
    main()
