"""The nine configurations of examples/nine and their first layers alone: measures them on a CPU, and makes tables, verdicts and a picture
of what was measured. scripts/nine.sh runs it; docs/seeds.md shows what it gives.

    python3 bench/nine.py measure --bin build/release/bin --tsv FILE [--only TEXT] [--rows 256,128,64] [--threads 1] [--rounds 7]
    python3 bench/nine.py report [--forward FILE] [--backward FILE] [--title TEXT] [--svg FILE] [--page docs/seeds.md --part cpu]

`measure` compiles each model as it came ("unfused", --no-rewrite), rewritten ("fused") and tuned on this machine ("tuned"), and runs
them and the framework (PyTorch where it is installed, else onnxruntime) in turns, so that a busy machine hits all of them; a time is
the median over the rounds of the median call. On one CPU the large sizes would take hours, so there are fewer rows, which the tables say.

`report` reads such files, those of bench/gpu/linear_relu.py (forward on a GPU) and of bench/nn.py (forward and backward). How many times as long
the framework takes is compared with the seeds' targets; where one is not met the reason is what was measured: how close to the rate of the fastest
product of the run, or of the device where the file has it, the way is. --page puts the tables in place of those of the same part.
"""
import argparse
import csv
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "examples/nine"))
import nine  # noqa: E402

TARGETS = {"small": (1.00, 1.00), "medium": (1.05, 1.10), "large": (1.10, 1.20)}
FRAMEWORKS = ("eager", "PyTorch", "onnxruntime")
OURS = ("tuned", "fused", "ours", "unfused")  # the first that was measured is what a user would run
NOISE = 0.005
NEAR = 0.9  # of a rate, above which products leave nothing to win


# ---- measuring ---------------------------------------------------------------------------------------------------------------

def median_call(call, seconds):
    """Median microseconds of a call over about so many seconds."""
    samples, end = [], time.perf_counter() + seconds
    while not samples or time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        samples.append(time.perf_counter() - begin)
    return statistics.median(samples) * 1e6


class Plan:
    def __init__(self, args, folder, way, model, x):
        self.args, self.way = args, way
        self.path, self.x, self.out = (os.path.join(folder, f"{way}.{end}") for end in ("bin", "npy", "json"))
        options = ["--no-rewrite"] if way == "unfused" else ["--tune", "--seconds", str(args.tune_seconds)] if way == "tuned" else []
        self.tool("hypatiac", model, "-o", self.path, "-q", "--verify", "off", "--target", "cpu:native", "--threads", str(args.threads),
                  *options)
        import numpy as np
        np.save(self.x, x)
        y = os.path.join(folder, way + "-y.npy")
        self.run("run", "-q", "--output", "y=@" + y)
        self.y = np.load(y)

    def tool(self, name, *rest):
        subprocess.run([os.path.join(self.args.bin, name), *rest], check=True, stdout=subprocess.DEVNULL)

    def run(self, command, *rest):
        self.tool("hypatia", command, self.path, "--device", "cpu", "--threads", str(self.args.threads), "--input", "x=@" + self.x, *rest)

    def measure(self, seconds):
        self.run("bench", "-q", "--warmup", "10", "--iterations", "1", "--duration", str(seconds), "--json", self.out)
        with open(self.out, encoding="utf-8") as file:
            return float(re.search(r'"p50_us":([\d.e+-]+)', file.read())[1])


class Torch:
    name = "PyTorch"

    def __init__(self, model, x, threads):
        import torch
        from onnx import numpy_helper
        torch.set_num_threads(threads)
        stored = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in model.graph.initializer}
        count, relus = len(stored) // 2, sum(node.op_type == "Relu" for node in model.graph.node)
        layers = [(stored[f"w{i}"], stored[f"b{i}"], i < relus) for i in range(count)]
        x = torch.from_numpy(x)

        def call():
            with torch.inference_mode():
                y = x
                for w, b, relu in layers:
                    y = torch.nn.functional.linear(y, w, b)
                    y = torch.relu(y) if relu else y
                return y
        self.call, self.y, self.version = call, call().numpy(), f"PyTorch {torch.__version__}"

    def measure(self, seconds):
        return median_call(self.call, seconds)


class Onnxruntime:
    name = "onnxruntime"

    def __init__(self, model, x, threads):
        from mlp_cpu import Onnxruntime as Session
        self.session = Session(model.SerializeToString(), x, threads)
        import onnxruntime
        self.y, self.version = self.session.y, f"onnxruntime {onnxruntime.__version__}"

    def measure(self, seconds):
        return self.session.measure(seconds)


def framework():
    for kind, module in ((Torch, "torch"), (Onnxruntime, "onnxruntime")):
        try:
            __import__(module)
            return kind
        except ImportError:
            pass
    sys.exit("bench/nine.py: neither PyTorch nor onnxruntime is installed, and there is nothing to compare with")


def measure_one(args, size, layers, rows, kind, folder):
    """(way, microseconds, error) of each way."""
    import numpy as np
    model, path = nine.make_model(size, layers, rows), os.path.join(folder, "model.onnx")
    with open(path, "wb") as file:
        file.write(model.SerializeToString())
    x = np.random.default_rng(1).standard_normal((rows, nine.widths(size, layers)[0]), np.float32)
    ways = {way: Plan(args, folder, way, path, x) for way in ("unfused", "fused", "tuned")}
    ways[kind.name] = kind(model, x, args.threads)
    wanted = ways[kind.name].y
    samples = {way: [] for way in ways}
    for i in range(args.rounds):
        order = list(ways)
        for way in order[i % len(order):] + order[:i % len(order)]:  # none is always behind the same other
            samples[way].append(ways[way].measure(args.seconds))
    for way, values in samples.items():
        error = float(np.linalg.norm(ways[way].y - wanted) / np.linalg.norm(wanted))
        if error > 1e-4:
            sys.exit(f"bench/nine.py: {size}-{layers} {way}: off by {error:.1e}")
        yield way, statistics.median(values), error
    args.title = f"{ways[kind.name].version}, {args.threads} thread{'s' * (args.threads > 1)}"
    if args.load > 0.5:
        args.title += f", beside other work (a load of {args.load:.1f} on {os.cpu_count()} processors before)"


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        found = re.search(r"model name\s*: (.*)", file.read())
    return found[1] if found else "a processor without a name"


def measure(args):
    rows, kind, args.load = dict(zip(nine.SIZES, map(int, args.rows.split(",")))), framework(), os.getloadavg()[0]
    with open(args.tsv, "w", encoding="utf-8") as file:
        for n, (size, layers) in enumerate(nine.configurations(args.only)):
            with tempfile.TemporaryDirectory() as folder:
                found = list(measure_one(args, size, layers, rows[size], kind, folder))
            if n == 0:
                print(f"# {processor()}, fp32, {args.title}\n" + "\t".join(("model", "type", "mode", "way", "median_us", "error")), file=file)
            for way, us, error in found:
                print("\t".join((nine.name_of(size, layers, rows[size]), "fp32", "call", way, f"{us:.3f}", f"{error:.1e}")), file=file, flush=True)
            print(f"{size}-{layers}, {rows[size]} rows: " + ", ".join(f"{way} {us:.1f} us" for way, us, _ in found), flush=True)


def print_cases(args):
    rows = dict(zip(nine.SIZES, args.rows.split(",")))
    print(",".join(f"{rows[size]}:{'-'.join(map(str, nine.widths(size, layers)))}" for size, layers in nine.configurations(args.only)))


# ---- the report --------------------------------------------------------------------------------------------------------------

class Row:
    """One configuration in one type, as one file has it."""

    def __init__(self, size, layers, kind):
        self.size, self.layers, self.kind = size, layers, kind
        self.us, self.rows, self.flops_us, self.rate_share = {}, nine.SIZES[size][0], None, None

    @property
    def name(self):
        return f"{self.size}, {self.layers} layers" if self.layers > 1 else f"{self.size}, one layer and its relu"

    @property
    def flops(self):
        ends = nine.widths(self.size, self.layers)
        return 2.0 * self.rows * sum(k * n for k, n in zip(ends, ends[1:]))

    def ours(self):
        return next(way for way in OURS if way in self.us)

    def peer(self):
        return next((way for way in FRAMEWORKS if way in self.us), None)

    def ratio(self):
        return self.us[self.peer()] / self.us[self.ours()] if self.peer() else None


def read(path):
    """Rows and the line that says where they were measured."""
    title, rows = "", {}
    names = {"-".join(map(str, nine.widths(*one))): one for one in nine.configurations()}
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    if lines and lines[0].startswith("#"):
        title = lines.pop(0)[2:]
    for line in csv.DictReader(lines, delimiter="\t"):
        _, rows_of, ends = line["model"].replace(":", "").split(" ") if line["model"].count(" ") == 2 else ("", "", "")
        if ends not in names or line["mode"] not in ("call", "graph") or not line["median_us"]:
            continue
        size, layers = names[ends]
        row = rows.setdefault((line["type"], line["mode"], size, layers), Row(size, layers, line["type"]))
        row.us[line["way"]] = float(line["median_us"])
        row.rows = int(rows_of)
        floor = line.get("floor_flops_us") or line.get("floor_us")
        row.flops_us = float(floor) if floor else None
    graph = {kind for kind, mode, *_ in rows if mode == "graph"}  # what the device needs goes before what Python adds
    kept = [row for (kind, mode, *_), row in rows.items() if kind not in graph or mode == "graph"]
    kept.sort(key=lambda row: (row.kind, row.layers == 1, list(nine.SIZES).index(row.size), row.layers))
    for kind in {row.kind for row in kept}:
        same = [row for row in kept if row.kind == kind]
        best = max(row.flops / us for row in same for us in row.us.values())
        for row in same:
            row.rate_share = (row.flops_us or row.flops / best) / row.us[row.ours()]
    return title, kept


def verdict(row, of_device):
    low, high = TARGETS[row.size]
    ratio = row.ratio()
    if ratio is None:
        return "-", "there is no framework beside it"
    target = f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}"
    if ratio >= low - NOISE:
        return target, "met"
    rate = "the floor" if of_device else "the highest rate in this run"
    if row.rate_share > NEAR:
        return target, f"not met: at {100 * row.rate_share:.0f} % of {rate} there is nothing left to win"
    if ratio < 1:
        return target, f"not met: the framework is faster; we are at {100 * row.rate_share:.0f} % of {rate}"
    return target, f"not met: faster, but by less, at {100 * row.rate_share:.0f} % of {rate}"


def number(us):
    return "-" if us is None else f"{us:.2f}" if us < 100 else f"{us:.0f}"


def table(rows):
    ways = [way for way in ("unfused", "fused", "ours", "tuned", "eager", "PyTorch", "onnxruntime", "torch.compile", "compile", "jax")
            if any(way in row.us for row in rows)]
    of_device, peers = any(row.flops_us for row in rows), {row.peer() for row in rows}
    shown = {"ours": "untuned", "eager": "PyTorch", "compile": "torch.compile"}
    lines = ["| configuration | rows | type | " + " | ".join(shown.get(way, way) for way in ways) + " | times as fast | target | |",
             "|---" * (len(ways) + 6) + "|"]
    for row in rows:
        target, says = verdict(row, of_device)
        ratio = f"{row.ratio():.2f}" if row.peer() else "-"
        lines.append(f"| {row.name} | {row.rows} | {row.kind} | " + " | ".join(number(row.us.get(way)) for way in ways) +
                     f" | {ratio} | {target} | {says} |")
    met = [row for row in rows if row.layers > 1 and row.peer()]
    if met:
        count = sum(verdict(row, of_device)[1] == "met" for row in met)
        lines += ["", f"Targets met: {count} of {len(met)}, in microseconds of one run; \"times as fast\" is how many times as long "
                  f"{shown.get(*peers & set(shown), '') or next(iter(peers))} takes as {'tuned' if 'tuned' in ways else 'ours'}."]
    return lines


def draw(rows, title):
    """A bar for each configuration: how many times as long the framework takes, with the target's band behind it."""
    rows = [row for row in rows if row.peer()]
    left, top, step, width, most = 250, 46, 26, 420, max([1.5, *(row.ratio() for row in rows)]) * 1.02
    at = lambda value: left + width * value / most  # noqa: E731
    height = top + step * len(rows) + 34
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 60} {height}" role="img" font-family="sans-serif" font-size="13">',
           f"<title>{escape(title)}</title>",
           "<style>.t{fill:#222}.b{fill:#3b6fb6}.n{fill:#b65c3b}.g{fill:#9c9;opacity:.5}.l{stroke:#222}"
           "@media(prefers-color-scheme:dark){.t{fill:#ddd}.l{stroke:#ddd}.g{fill:#686}}</style>",
           f'<text class="t" x="{left}" y="20">times as fast as the framework; green: the target</text>']
    for i, row in enumerate(rows):
        y, (low, high) = top + step * i, TARGETS[row.size]
        kind = "b" if row.ratio() >= low - NOISE else "n"
        band = max(at(high) - at(low), 3)
        out += [f'<text class="t" x="{left - 8}" y="{y + 14}" text-anchor="end">{escape(row.name)}, {row.kind}</text>',
                f'<rect class="g" x="{at(low):.1f}" y="{y - 2}" width="{band:.1f}" height="{step - 2}"/>',
                f'<rect class="{kind}" x="{left}" y="{y + 3}" width="{at(row.ratio()) - left:.1f}" height="13"/>',
                f'<text class="t" x="{at(row.ratio()) + 5:.1f}" y="{y + 14}">{row.ratio():.2f}</text>']
    out += [f'<line class="l" x1="{at(1):.1f}" x2="{at(1):.1f}" y1="{top - 8}" y2="{height - 26}"/>',
            f'<text class="t" x="{at(1):.1f}" y="{height - 10}" text-anchor="middle">1.00</text>', "</svg>"]
    return "\n".join(out) + "\n"


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def replace_part(page, part, lines):
    with open(page, encoding="utf-8") as file:
        text = file.read()
    begin, end = f"<!-- nine:{part} -->", f"<!-- /nine:{part} -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        sys.exit(f"{page}: has no place for the part '{part}'")
    head, rest = text.split(begin)
    with open(page, "w", encoding="utf-8") as file:
        file.write(head + begin + "\n" + "\n".join(lines) + "\n" + end + rest.split(end)[1])


def report(args):
    lines, drawn, title = [], [], ""
    for what, path in (("Forward", args.forward), ("Forward and backward, all gradients", args.backward)):
        if not path:
            continue
        found, rows = read(path)
        title = args.title or found or title
        if not rows:
            sys.exit(f"{path}: has none of the configurations")
        lines += [f"{what}. {title}.", "", *table(rows), ""]
        drawn += rows if what == "Forward" else []
    if args.svg and drawn:
        with open(args.svg, "w", encoding="utf-8") as file:
            file.write(draw(drawn, "The nine configurations: " + (args.title or title)))
        if args.page:
            lines = [f"![how many times as fast as the framework](pictures/{os.path.basename(args.svg)})", "", *lines]
    print("\n".join(lines))
    if args.page:
        replace_part(args.page, args.part, lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("measure")
    one.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    one.add_argument("--tsv", required=True)
    one.add_argument("--only", default="")
    one.add_argument("--rows", default="256,128,64", help="of small, medium and large")
    one.add_argument("--threads", type=int, default=1)
    one.add_argument("--rounds", type=int, default=7)
    one.add_argument("--seconds", type=float, default=0.3, help="of every round and way")
    one.add_argument("--tune-seconds", type=float, default=5)
    three = commands.add_parser("cases", help="print the configurations as --cases of bench/nn.py and bench/gpu/linear_relu.py wants them")
    three.add_argument("--rows", default=",".join(str(size[0]) for size in nine.SIZES.values()))
    three.add_argument("--only", default="")
    two = commands.add_parser("report")
    for option in ("--forward", "--backward", "--title", "--svg", "--page", "--part"):
        two.add_argument(option)
    args = parser.parse_args()
    {"measure": measure, "report": report, "cases": print_cases}[args.command](args)


if __name__ == "__main__":
    main()
