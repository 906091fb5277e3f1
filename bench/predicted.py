"""How true a profile is: what the steps of plans take beside what it predicted.

    python3 bench/predicted.py MODEL... [--bin build/release/bin] [--target cpu:avx2] [--profile FILE] [--precision fp32]
                               [--device cpu] [--threads 1] [--dim batch=1,length=32] [--seconds 1] [--rounds 3]
                               [--no-rewrite] [--picture FILE.svg] [--title TEXT]

MODEL: ONNX files or folders of them. Every plan is compiled for the target, with symbolic sizes as --dim has them (those it does
not name are 1), and its steps are timed one by one (`hypatia bench --steps`), medians; of several rounds over all models the least
counts, as in a calibration: what else runs on the machine only adds. A clock around a step costs about as much
as the shortest steps take, so steps below --least microseconds, measured and predicted, are counted by their sum only.

Printed for each model: its steps; how many of them lie within 1.5 (measured over predicted from 2/3 to 3/2), and which share of
the measured time these are; the sums. Then the same for each kind of step. The picture has a dot for every step.
"""
import argparse
import glob
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
NEAR = 1.5


def find_models(paths):
    for path in paths:
        yield from sorted(glob.glob(os.path.join(path, "*.onnx"))) if os.path.isdir(path) else [path]


def symbols_of(tool, plan):
    described = json.loads(subprocess.run([tool, "inspect", plan, "--json"], check=True, capture_output=True, text=True).stdout)
    return {dim for tensor in described["inputs"] for dim in tensor["dims"] if isinstance(dim, str)}


def compile_plan(args, model, plan):
    """The sizes that its steps are predicted for, as options of `hypatia`."""
    options = ["--target", args.target, "--precision", args.precision, "--verify", "off", "-q"]
    options += ["--profile", args.profile] if args.profile else []
    options += ["--no-rewrite"] if args.no_rewrite else []
    compiler = [os.path.join(args.bin, "hypatiac"), model, "-o", plan, *options]
    subprocess.run(compiler, check=True)
    known = symbols_of(os.path.join(args.bin, "hypatia"), plan)
    sizes = {name: args.dims.get(name, 1) for name in sorted(known)}
    if known:  # again, for these sizes
        subprocess.run([*compiler, *(w for name, size in sizes.items() for w in ("--typical", f"{name}={size}"))], check=True)
    return [w for name, size in sizes.items() for w in ("--dim", f"{name}={size}")]


def time_steps(args, plan, sizes, out):
    """[(label, kernel, measured us, predicted us)]"""
    subprocess.run([os.path.join(args.bin, "hypatia"), "bench", plan, "--device", args.device, "--threads", str(args.threads),
                    "--steps", "-q", "--duration", str(args.seconds), "--json", out, *sizes],
                   check=True, env={**os.environ, "OMP_NUM_THREADS": str(args.threads)})
    with open(out, encoding="utf-8") as file:
        return joined((s["label"], s["kernel"], s["measured_us"], s["predicted_us"]) for s in json.load(file)["steps"])


def measure(args, models, folder):
    """{model: steps}, each with the least that it took in a round."""
    plans, steps = {}, {}
    for i, model in enumerate(models):
        plans[model] = os.path.join(folder, f"{i}.bin")
        plans[model] = plans[model], compile_plan(args, model, plans[model])
    for _ in range(args.rounds):
        for model, (plan, sizes) in plans.items():
            now = time_steps(args, plan, sizes, os.path.join(folder, "steps.json"))
            before = steps.get(model, now)
            steps[model] = [(*a[:2], min(a[2], b[2]), a[3]) for a, b in zip(now, before)]
    return steps


def joined(steps):
    """Copies that follow each other make one result: their kernel may do all of them at once."""
    out = []
    for step in steps:
        if out and step[1] == "copy" and out[-1][:2] == step[:2] and step[0] == "concat":
            out[-1] = (*step[:2], out[-1][2] + step[2], out[-1][3] + step[3])
        else:
            out.append(step)
    return out


def is_near(step):
    return 1 / NEAR <= step[2] / max(step[3], 1e-9) <= NEAR


class Summary:
    """Of the steps of a model, or of a kind."""

    def __init__(self, steps, least):
        counted = [s for s in steps if max(s[2], s[3]) >= least]
        near = [s for s in counted if is_near(s)]
        self.count, self.near = len(counted), len(near)
        self.measured, self.predicted = sum(s[2] for s in steps), sum(s[3] for s in steps)
        self.time_near = sum(s[2] for s in near) / max(self.measured, 1e-9)
        ratios = sorted(s[2] / max(s[3], 1e-9) for s in counted)
        self.middle = statistics.median(ratios) if ratios else math.nan

    def row(self, name):
        share = 100 * self.near / self.count if self.count else 100
        return (f"| {name} | {self.count} | {share:.0f} % | {100 * self.time_near:.0f} % | {self.middle:.2f} | "
                f"{self.measured:.1f} | {self.predicted:.1f} | {self.measured / max(self.predicted, 1e-9):.2f} |")


HEAD = ("steps | near | of the time | median ratio | measured us | predicted us | ratio |\n" + "|---" * 8 + "|")


def draw(path, title, steps, least):
    """A doubly logarithmic picture, predicted to the right, measured upwards, the band of NEAR shaded."""
    kinds = sorted({s[0] for s in steps}, key=lambda kind: -sum(s[0] == kind for s in steps))
    colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"]
    low, high, size, left, top = math.floor(math.log10(least)), 6, 420, 60, 40
    high = max(low + 1, math.ceil(math.log10(max(max(s[2], s[3]) for s in steps))))

    def at(value):
        return size * (math.log10(max(value, least)) - low) / (high - low)

    def dot(step):
        colour = colours[min(kinds.index(step[0]), len(colours) - 1)]
        return (f'<circle cx="{left + at(step[3]):.1f}" cy="{top + size - at(step[2]):.1f}" r="2.5" fill="{colour}" '
                f'fill-opacity="0.6"/>')

    shift = size * math.log10(NEAR) / (high - low)
    band = [(0, shift), (0, 0), (shift, 0), (size, size - shift), (size, size), (size - shift, size)]
    corners = " ".join(f"{left + x:.1f},{top + size - y:.1f}" for x, y in band)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + size + 150} {top + size + 60}" font-family="sans-serif" '
             f'font-size="12"><title>{title}</title><rect width="100%" height="100%" fill="white"/>',
             f'<text x="{left}" y="24" font-size="14">{title}</text>', f'<polygon points="{corners}" fill="#e8e8e8"/>',
             f'<rect x="{left}" y="{top}" width="{size}" height="{size}" fill="none" stroke="#444"/>']
    for power in range(low, high + 1):
        place = size * (power - low) / (high - low)
        parts.append(f'<text x="{left + place:.1f}" y="{top + size + 18}" text-anchor="middle">1e{power}</text>'
                     f'<text x="{left - 6}" y="{top + size - place + 4:.1f}" text-anchor="end">1e{power}</text>')
    parts.append(f'<text x="{left + size / 2}" y="{top + size + 42}" text-anchor="middle">predicted, us</text>'
                 f'<text x="14" y="{top + size / 2}" transform="rotate(-90 14 {top + size / 2})" text-anchor="middle">'
                 "measured, us</text>")
    parts += [dot(step) for step in steps if max(step[2], step[3]) >= least]
    for i, kind in enumerate(kinds[:len(colours) - 1] + ["others"] * (len(kinds) >= len(colours))):
        parts.append(f'<circle cx="{left + size + 16}" cy="{top + 10 + 20 * i}" r="4" fill="{colours[i]}"/>'
                     f'<text x="{left + size + 26}" y="{top + 14 + 20 * i}">{kind}</text>')
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(parts) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+")
    parser.add_argument("--bin", default=os.path.join(HERE, "../build/release/bin"))
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--profile")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dim", dest="dims", default={}, type=lambda t: {n: int(v) for n, v in (d.split("=") for d in t.split(","))})
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--least", type=float, default=0.5, help="microseconds")
    parser.add_argument("--no-rewrite", action="store_true")
    parser.add_argument("--picture")
    parser.add_argument("--title", default="steps of plans, measured and predicted")
    args = parser.parse_args()
    every = []
    print(f"| model | {HEAD}")
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(args, list(find_models(args.models)), folder)
    for model, steps in measured.items():
        every += steps
        print(Summary(steps, args.least).row(os.path.splitext(os.path.basename(model))[0]), flush=True)
    print(Summary(every, args.least).row("all"))
    print(f"\n| kind | {HEAD}")
    for kind in sorted({s[0] for s in every}, key=lambda kind: -sum(s[2] for s in every if s[0] == kind)):
        print(Summary([s for s in every if s[0] == kind], args.least).row(kind))
    if args.picture:
        draw(args.picture, args.title, every, args.least)


if __name__ == "__main__":
    sys.exit(main())
