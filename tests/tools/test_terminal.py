"""What the tools print on a terminal: progress on one line that is gone in the end, colours, lines that fit the width; and that
none of it is there where the output is no terminal."""
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import unicodedata

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../support")]
import hyp  # noqa: E402

onnx, np = hyp.need("onnx", "numpy")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

MODEL = os.path.join(hyp.ROOT, "examples/digits/digits.onnx")
ERASE = b"\r\033[K"
WIDTHS = (40, 80, 200)


def on_terminal(*command, columns=80, err=None, stdin=None, **env):
    """Exit code and what the command writes to a terminal so wide: both streams, or, with a file as `err`, standard output alone.
    Variables None are taken out of the environment."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    variables = os.environ | {"TERM": "xterm", "COLUMNS": None, "NO_COLOR": None, "CLICOLOR_FORCE": None, "HYPATIA_PROGRESS": None} | env
    process = subprocess.Popen([os.path.join(hyp.BIN, command[0]), *map(str, command[1:])], stdin=stdin, stdout=other,
                               stderr=err or other, env={k: v for k, v in variables.items() if v is not None})
    os.close(other)
    told = hyp.read_terminal(main)
    return process.wait(), told.replace(b"\r\n", b"\n")


def shown(*command, code=0, **how):
    found, told = on_terminal(*command, **how)
    assert found == code, (command, found, told)
    return told


def width(text):
    """As Unicode says: nothing for what combines, two for what is wide."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def fits(told, columns):
    for line in re.sub(rb"\033\[[0-9;]*m", b"", told.replace(ERASE, b"")).decode().splitlines():
        assert width(line) <= columns, (width(line), columns, line)


def many_layers(path, count, name):
    """Layers between which nothing fuses, with nodes that are named by the function."""
    nodes, weights, at = [], [], "x"
    rng = np.random.default_rng(0)
    for i in range(count):
        weights.append(numpy_helper.from_array(rng.standard_normal((16, 16), np.float32) / 4, f"w{i}"))
        nodes += [helper.make_node("MatMul", [at, f"w{i}"], [f"p{i}"], name("MatMul", i)),
                  helper.make_node("Softmax", [f"p{i}"], [f"s{i}"], name("Softmax", i), axis=1)]
        at = f"s{i}"
    value = lambda name, dims: helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)  # noqa: E731
    graph = helper.make_graph(nodes, "g", [value("x", ["batch", 16])], [value(at, ["batch", 16])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


NAMES = {"plain": lambda op, i: f"encoder/layers.{i}/attention/self/query_projection/{op}",
         "wide": lambda op, i: f"编码器/第{i}层/注意力机制/查询投影的名字非常非常长/{op}",
         "combining": lambda op, i: "Ne\u0301te\u0301/" * 12 + f"{i}/{op}"}


def check_summary(folder):
    """Ten lines, cut to the width on a terminal and whole elsewhere; every step, uncut, with -v; nothing with -q."""
    for kind, name in NAMES.items():
        model, plan = os.path.join(folder, kind + ".onnx"), os.path.join(folder, "m.bin")
        many_layers(model, 30, name)
        whole = hyp.tool("hypatiac", model, "-o", plan)
        assert whole.returncode == 0 and whole.stderr == "", whole.stderr
        lines = whole.stdout.splitlines()
        steps = int(re.search(r"(\d+) plan steps", lines[0])[1])
        listed = [line for line in lines if line.startswith("  ") and "  [" in line]
        rest = re.search(r"^  and (\d+) steps that take less; -v lists all$", whole.stdout, re.M)
        assert steps == 60 and len(lines) == 10 and len(listed) + int(rest[1]) == steps, whole.stdout
        assert any(name(op, i) in whole.stdout for i in range(30) for op in ("MatMul", "Softmax")) and "..." not in whole.stdout
        verbose = hyp.tool("hypatiac", model, "-o", plan, "-v").stdout
        steps = [line for line in verbose.splitlines() if line.startswith("  ") and "  [" in line]
        assert len(steps) == 60 and set(listed) <= set(steps) and all(name("Softmax", i) in verbose for i in range(30))
        dearest = [price for price in re.findall(r"^  ([\d.]+) us  ", hyp.tool("hypatiac", model, "--dry-run", "--stats").stdout, re.M)]
        assert len(dearest) == 60
        for columns in WIDTHS:
            told = shown("hypatiac", model, "-o", plan, columns=columns)
            fits(told, columns)
            assert told.count(b"\n") == 10 and told.decode() and (b"..." in told) == (columns < max(map(width, lines))), told
            assert shown("hypatiac", model, "-o", plan, "-v", err=subprocess.DEVNULL, columns=columns).decode() == verbose
        assert shown("hypatiac", model, "-o", plan, "-q", HYPATIA_PROGRESS="0") == b""
    told = shown("hypatiac", model, "-o", plan, columns=80, COLUMNS="50")  # what the user says goes before what the terminal does
    fits(told, 50)
    assert max(width(line) for line in told.decode().splitlines()) > 40


def check_tables(folder):
    model, plan = os.path.join(folder, "wide.onnx"), os.path.join(folder, "t.bin")
    hyp.tool("hypatiac", model, "-o", plan)
    quick = ("--warmup", "0", "--duration", "0.02")
    for columns in WIDTHS:
        fits(shown("hypatiac", "--list-rules", columns=columns), columns)
        fits(shown("hypatia", "inspect", plan, columns=columns), columns)
        told = shown("hypatia", "bench", plan, "--dim", "batch=3", "--steps", *quick, columns=columns)
        table = told[told.index(b"step"):]
        fits(table, columns)
        assert columns == 80 or (b"a wider terminal" in table) == (columns == 40), table
        assert b"softmax" in table, table
        told = shown("hypatia", "bench", plan, "--dim", "batch=3", "--steps", "-v", *quick, columns=columns)
        assert b"GB/s" in told and b"a wider terminal" not in told
        told = shown("hypatiac", model, "--dry-run", "--stats", "--verify", "off", columns=columns)
        fits(told[:told.index(b"nodes   ")], columns)
    rules = hyp.tool("hypatiac", "--list-rules").stdout
    assert "..." not in re.sub(r"\.\.\.\)?$", "", rules, flags=re.M).replace(" ...", "") or shown("hypatiac", "--list-rules", "-v").decode() == rules
    assert shown("hypatiac", "--list-rules", "-v").decode() == rules
    assert shown("hypatia", "inspect", plan, "-v").decode() == hyp.tool("hypatia", "inspect", plan).stdout
    assert json.loads(shown("hypatia", "inspect", plan, "--json", columns=40))["steps"]


def check_progress(folder):
    """One line, drawn again and erased in the end, on standard error, where that is a terminal."""
    model, plan = os.path.join(folder, "plain.onnx"), os.path.join(folder, "p.bin")
    bench = ("hypatia", "bench", plan, "--dim", "batch=2", "--warmup", "0", "--duration", "0.3")
    for command, what in ((("hypatiac", model, "-o", plan), b"hypatiac: reading the model, 0 s"),
                          (bench, rb"hypatia bench: \d+ samples, about 0:0\d left, 0 s"),
                          ((*bench, "--compare", plan), rb"hypatia bench: round 1, about 0:0\d left, 0 s"),
                          (("hypatia", "tune", plan, "--device", "cpu", "--seconds", "0.2", "--dim", "batch=2", "-o", plan),
                           rb"hypatia tune: product 1 of \d+: .*0 s"),
                          (("hypatia", "verify", plan, "--model", model, "--dim", "batch=2"),
                           b"hypatia verify: running the model in the reference interpreter, 0 s")):
        plain = hyp.tool(*command, env={"HYPATIA_PROGRESS": "0", "TERM": "xterm"})
        assert plain.returncode == 0 and "\r" not in plain.stdout + plain.stderr and "\033" not in plain.stdout + plain.stderr, plain
        told = shown(*command, columns=200, HYPATIA_PROGRESS="0")
        assert re.search(b"\r\033\\[K" + what, told), (command, told)
        drawn = [part for part in told.split(ERASE)[1:]]
        assert all(b"\n" not in part for part in drawn[:-1]), told  # nothing is printed beside the line
        assert not drawn[-1].startswith(command[0].encode() + b": "), told
        assert ERASE not in shown(*command, HYPATIA_PROGRESS="0", TERM="dumb")
        assert ERASE not in shown(*command, HYPATIA_PROGRESS="1000")  # what is over before shows nothing
        with open(os.path.join(folder, "err"), "wb") as err:  # standard output alone is a terminal
            assert ERASE not in shown(*command, HYPATIA_PROGRESS="0", err=err)
        for columns in WIDTHS:
            for part in shown(*command, columns=columns, HYPATIA_PROGRESS="0").split(ERASE)[1:-1]:
                assert width(part.decode()) < columns, part
    assert ERASE not in shown(*bench, "-q", HYPATIA_PROGRESS="0")
    # An error stands on a line of its own.
    wrong = os.path.join(folder, "wrong.rules")
    with open(wrong, "w") as file:
        file.write('(rule wrong :class E :doc "no" (softmax :axis ?a ?x) => ?x)')
    told = shown("hypatiac", model, "-o", plan, "--rules", wrong, "--verify", "strict", code=4, HYPATIA_PROGRESS="0", columns=200)
    assert re.search(ERASE.replace(b"[", b"\\[") + rb"\033\[1;31mhypatiac:\033\[0m the plan is wrong: ", told), told


def check_colours():
    """--color of every tool and command goes before the environment, of which NO_COLOR goes before CLICOLOR_FORCE."""
    red = "\033[1;31m"
    for command in (("hypatiac", "none.onnx", "-o", "x.bin"), ("hypatia", "run", "none.bin"), ("hypatia", "bench", "none.bin"),
                    ("hypatia", "inspect", "none.bin"), ("hypatia", "verify", "none.bin"), ("hypatia", "tune", "none.bin"),
                    ("hypatia", "export", "none.bin", "none", "-o", "none.onnx"), ("hypatia", "train", "none.bin", "--steps", "1"),
                    ("hypatia-egraph", "saturate", "--rules", "none", "--terms", "none")):
        def err(*more, **env):
            at = 2 if command[0] != "hypatiac" else 1
            done = hyp.tool(*command[:at], *more, *command[at:], env={"NO_COLOR": "", "CLICOLOR_FORCE": ""} | env)
            assert done.returncode in (1, 2), done
            return done.stderr
        plain = err()
        assert "\033" not in plain and plain.startswith(command[0]), plain
        assert "\033" not in err("--color", "auto") and "\033" not in err("--color=never", CLICOLOR_FORCE="1")
        assert err("--color=always").startswith(red) and err(CLICOLOR_FORCE="1").startswith(red)
        assert err("--color", "always").replace(red, "").replace("\033[0m", "") == plain
        assert "\033" not in err(CLICOLOR_FORCE="1", NO_COLOR="1") and "\033" not in err(CLICOLOR_FORCE="0")
        assert err("--color", "always", NO_COLOR="1").startswith(red)
        assert "--color: 'red' is none of auto, always, never" in err("--color", "red")
        assert "did you mean '--color'?" in err("--colour", "always")
        told = on_terminal(*command)[1].decode()
        assert told.startswith(red), told
        assert "\033" not in on_terminal(*command, NO_COLOR="1")[1].decode()
    assert "--color auto|always|never" in hyp.tool("hypatia", "tune", "--help").stdout
    assert "needs a value" in hyp.tool("hypatiac", MODEL, "--color").stderr


def hodges_lehmann(first, second, z=2.5758293035489):
    """The estimate and the interval that docs/cli.md promises, from the definition."""
    logs = np.log(np.array(second) / np.array(first))
    n = len(logs)
    walsh = np.sort([(logs[i] + logs[k]) / 2 for i in range(n) for k in range(i + 1)])
    cut = int(np.floor(n * (n + 1) / 4 - z * np.sqrt(n * (n + 1) * (2 * n + 1) / 24)))
    return np.exp([np.median(walsh), walsh[cut - 1], walsh[len(walsh) - cut]])


def check_comparison(folder):
    """Two plans in turns. Which is faster is up to the machine; what is said of it has to follow from what was measured."""
    plan, other, big = (os.path.join(folder, name) for name in ("c.bin", "d.bin", "e.bin"))
    hyp.tool("hypatiac", MODEL, "-o", plan)
    hyp.tool("hypatiac", MODEL, "-o", other, "--no-rewrite")
    path = os.path.join(folder, "c.json")
    bench = ["hypatia", "bench", plan, "--warmup", "0", "--duration", "0.2", "--dim", "batch=2"]
    done = hyp.tool(*bench, "--compare", other, "--json", path)
    assert done.returncode == 0, done.stderr
    said = json.load(open(path))
    assert [p["plan"] for p in said["plans"]] == [plan, other] and said["method"].startswith("Wilcoxon signed-rank")
    first, second = (p["rounds_us"] for p in said["plans"])
    assert len(first) == len(second) >= 10 and all(len(p["samples_us"]) >= len(first) for p in said["plans"])
    for p in said["plans"]:
        assert abs(p["p50_us"] - np.percentile(p["samples_us"], 50, method="inverted_cdf")) < 1e-3 * p["p50_us"]
    wanted = hodges_lehmann(first, second)
    found = np.array([said["ratio"], said["ratio_low"], said["ratio_high"]])
    assert np.allclose(found, wanted, rtol=1e-5), (found, wanted)
    verdict = "faster" if found[2] < 1 else "slower" if found[1] > 1 else "no difference seen"
    assert said["verdict"] == verdict and f"{len(first)} rounds in turns" in done.stdout, (said["verdict"], found)
    line = done.stdout.splitlines()[-1]
    if verdict == "no difference seen":
        assert line.startswith("verdict  no difference seen: between "), line
    else:
        by, half = abs(found[0] - 1) * 100, (found[2] - found[1]) * 50
        assert line.startswith(f"verdict  {other} is {verdict} by {by:.2f} ± {half:.2f} % of the time"), line
    assert f"{'plan':<{len(plan)}}" in done.stdout and "99 % confidence, Wilcoxon signed-rank" in line
    piped = hyp.tool(*bench, "--compare", plan, "--json", "-").stdout
    assert json.loads(piped)["plans"][1]["plan"] == plan
    for more, text in ((["--steps"], "--steps is of one plan"), (["--compare", os.path.join(folder, "no.bin")], "cannot open")):
        done = hyp.tool(*bench, "--compare", other, *more)
        assert done.returncode in (1, 2) and text in done.stderr, done.stderr
    many_layers(os.path.join(folder, "e.onnx"), 1, NAMES["plain"])
    hyp.tool("hypatiac", os.path.join(folder, "e.onnx"), "-o", big)
    done = hyp.tool(*bench, "--compare", big)
    assert done.returncode == 2 and "do not take the same inputs" in done.stderr, done.stderr
    done = hyp.tool(*bench, "--compare", other, "--json", other)
    assert done.returncode == 2 and open(other, "rb").read(4) != b'{"de', done.stderr


def check_spread(folder):
    """The bars of a bench hold every sample, and no more columns than the terminal has."""
    plan = os.path.join(folder, "c.bin")
    path = os.path.join(folder, "s.json")
    bench = ["hypatia", "bench", plan, "--warmup", "0", "--iterations", "500", "--duration", "0.05", "--dim", "batch=2"]
    for columns in (None, *WIDTHS):
        if columns:
            out = shown(*bench, "--json", path, columns=columns).decode()
        else:
            out = hyp.tool(*bench, "--json", path).stdout
        samples = np.array(json.load(open(path))["samples_us"])
        bars = re.findall(r"^(?:spread  |        ) from +([\d.]+) us (#*) ?(\d+)$", out, re.M)
        above = re.search(r"^ +above +([\d.]+) us (#*) ?(\d+)$", out, re.M)
        assert len(bars) == 7 and above, out
        assert sum(int(bar[2]) for bar in bars) + int(above[3]) == len(samples)
        high = np.percentile(samples, 99, method="inverted_cdf")
        assert abs(float(bars[0][0]) - samples.min()) < 1e-3 and abs(float(above[1]) - high) < 1e-3
        assert int(above[3]) == np.sum(samples > high)
        longest = max(len(bar[1]) for bar in bars)
        assert longest == (40 if columns != 40 else 4), (columns, longest)
        if columns:
            fits("\n".join(line for line in out.splitlines() if " us #" in line).encode(), columns)


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_summary(folder)
        check_tables(folder)
        check_progress(folder)
        check_colours()
        check_comparison(folder)
        check_spread(folder)


if __name__ == "__main__":
    main()
