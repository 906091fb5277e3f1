"""The table, the file and the summary of bench/gpu/linear_relu.py.

The file has tab-separated columns, a line for every way to run a network in every mode:

  model, type   "mlp 1024: 784-2048-10" (batch, widths), "bf16"
  mode          graph, call: see linear_relu.py; kernels: the sum of what a plan's kernels take alone; predicted: by the
                cost model; host: what a run call takes until it returns; ceiling: products and copies of fixed sizes
                in the same turns as this network; left out: see note
  way           tuned, fused, unfused, eager, torch.compile, jax; of a ceiling its name; driver: a bare launch
  median_us, min_us, spread_us   of one run; spread is half the distance between the quartiles
  error         |y - r| / |r| against float64
  floor_bytes_us, floor_flops_us, floor_launches_us   what the network takes at least
  note          why a way is left out, or a mode of it
"""
import statistics

import torch

from networks import LARGE, THIN, TYPES, Case
from timing import geometric_mean, spread

PLANS = ("tuned", "fused", "unfused")
PEERS = {"graph": ("eager", "torch.compile"), "call": ("eager", "torch.compile", "jax")}
ALIKE = {"graph": ["graph"], "call": ["call"], "any mode": ["graph", "call"]}  # what is compared with what
COLUMNS = ["model", "type", "mode", "way", "median_us", "min_us", "spread_us", "error", "floor_bytes_us",
           "floor_flops_us", "floor_launches_us", "note"]
AIMS = {"fastest peer": 1.5, "eager": 2.4}  # geometric means
BATCH_1 = {Case(1, (784, 512, 512, 10)): 5.0, Case(1, (768, 3072, 768)): 7.0}  # microseconds, bf16


class Row:
    """What was found of one network in one type."""

    def __init__(self, case, kind):
        self.case, self.kind = case, kind
        self.samples = {}    # (mode, way): microseconds of one run
        self.errors = {}     # by way
        self.notes = {}      # by way
        self.kernels = {}    # by plan: samples of the sum
        self.predicted = {}  # by plan
        self.floors = {}     # bytes, flops, launches: microseconds
        self.rate = self.bandwidth = None  # operations and bytes a second, measured beside it

    @property
    def name(self):
        return f"{self.case.name} {self.kind}"

    def median(self, mode, way):
        values = self.kernels.get(way) if mode == "kernels" else self.samples.get((mode, way))
        return statistics.median(values) if values else None

    def ours(self):
        return "tuned" if ("graph", "tuned") in self.samples else "fused"

    def is_right(self, way):
        return self.errors[way] <= TYPES[self.kind].error * (self.case.layers + 1)

    def fastest(self, modes, ways):
        times = [self.median(mode, way) for mode in modes for way in ways]
        return min(time for time in times if time is not None)

    def speedup(self, like, over):
        """Of our plan over "eager" or the "fastest peer"."""
        modes = ALIKE[like]
        ways = PEERS["call"] if over == "fastest peer" else [over]
        return self.fastest(modes, ways) / self.fastest(modes, [self.ours()])


class Table:
    def __init__(self, tsv):
        self.file = open(tsv, "w") if tsv else None
        self.failed = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.file:
            self.file.close()

    def say(self, text):
        print(text, flush=True)

    def write(self, *columns):
        if self.file:
            self.file.write("\t".join(columns) + "\n")
            self.file.flush()  # what is known stays if a later network ends the process

    def begin(self, device, rounds):
        self.title = (f"{device}, PyTorch {torch.__version__}; microseconds of one run, medians of up to {rounds} "
                      f"rounds in turns")
        self.say(self.title)
        self.write(*COLUMNS)
        heads = [f"{mode}: " + " ".join(f"{way.split('.')[-1]:>9s}" for way in PLANS + PEERS[mode]) for mode in PEERS]
        self.say(f"{'model':44s} {'type':4s} | {heads[0]} | {heads[1]} |   kernels predicted     floor        | "
                 f"error of ours, {', '.join(PEERS['call'])}")

    def note(self, case, kind, text):
        self.say(f"{case.name:44s} {kind:4s} | {text}")
        self.write(case.name, kind, "left out", "all", *[""] * 7, text)

    def add(self, row):
        def times(mode, ways):
            medians = [row.median(mode, way) for way in ways]
            return " ".join("        -" if t is None else f"{t:9.2f}" for t in medians)
        ours, floor = row.ours(), max(row.floors, key=row.floors.get)
        errors = " ".join(f"{row.errors[way]:.1e}" if way in row.errors else "   -   "
                          for way in (ours, *PEERS["call"]))
        self.say(f"{row.case.name:44s} {row.kind:4s} |        {times('graph', PLANS + PEERS['graph'])} |       "
                 f"{times('call', PLANS + PEERS['call'])} | {row.median('kernels', ours):9.2f} "
                 f"{row.predicted[ours]:9.2f} {row.floors[floor]:9.2f} {floor[:6]:6s} | {errors}")
        floors = [f"{row.floors[what]:.3f}" if what in row.floors else "" for what in ("bytes", "flops", "launches")]
        kernels = {("kernels", way): values for way, values in row.kernels.items()}
        predicted = {("predicted", way): [value] for way, value in row.predicted.items()}
        for (mode, way), values in {**row.samples, **kernels, **predicted}.items():
            error = f"{row.errors[way]:.3e}" if way in row.errors else ""
            self.write(row.case.name, row.kind, mode, way, f"{statistics.median(values):.3f}", f"{min(values):.3f}",
                       f"{spread(values):.3f}", error, *floors, "")
        for way, text in row.notes.items():
            self.write(row.case.name, row.kind, "left out", way, *[""] * 7, text)


# ---- what is wrong ------------------------------------------------------------------------------------------------

def judge(row):
    """Complaints: a plan that is slower than one that does less, beyond noise; a plan that is wrong."""
    complaints = [f"{row.name}: {way} failed: {row.notes[way]}" for way in PLANS if way in row.notes]
    ways = [way for way in PLANS if ("graph", way) in row.samples]
    for faster, slower in zip(ways, ways[1:]):
        noise = spread(row.samples["graph", faster]) + spread(row.samples["graph", slower])
        difference = row.median("graph", faster) - row.median("graph", slower)
        if difference > max(noise, 0.02 * row.median("graph", slower)):
            complaints.append(f"{row.name}: {faster} is slower than {slower}")
    for way in ways:
        if not row.is_right(way):
            complaints.append(f"{row.name}: the error of {way} is {row.errors[way]:.1e}")
    return complaints


# ---- summary ------------------------------------------------------------------------------------------------------

def of_peers(rows):
    for like in ALIKE:
        for over, aim in AIMS.items() if like in PEERS else [("fastest peer", AIMS["fastest peer"])]:
            ratios = [row.speedup(like, over) for row in rows]
            types = ", ".join(f"{kind} {geometric_mean(some):.2f}" for kind in TYPES
                              if (some := [row.speedup(like, over) for row in rows if row.kind == kind]))
            yield f"{like}: geometric mean over {over} {geometric_mean(ratios):.2f} (aim {aim}): {types}"
        slower = [f"{row.name} ({row.speedup(like, 'fastest peer'):.3f})" for row in rows
                  if row.speedup(like, "fastest peer") < 1 / 1.01]
        yield f"{like}: more than 1 % slower than the fastest peer: {'; '.join(slower) or 'nowhere'}"


def of_kernels(rows):
    """The runtime's own share: a run against the sum of its kernels; and the cost model's against it."""
    def excess(row):
        alone = row.median("kernels", row.ours())
        return row.median("graph", row.ours()) - (1.03 * alone + 0.5)
    above = [f"{row.name} (by {excess(row):.2f} us)" for row in rows if excess(row) > 0]
    yield f"a run takes more than its kernels alone, 3 % and 0.5 us: {'; '.join(above) or 'nowhere'}"
    ratios = {row.name: row.predicted[row.ours()] / row.median("kernels", row.ours()) for row in rows
              if row.predicted[row.ours()] > 0}
    if ratios:
        low, high = min(ratios, key=ratios.get), max(ratios, key=ratios.get)
        yield (f"predicted / measured of kernels: geometric mean {geometric_mean(ratios.values()):.2f}, from "
               f"{ratios[low]:.2f} ({low}) to {ratios[high]:.2f} ({high})")


def of_ceilings(row):
    ours = row.median("graph", row.ours())
    if row.case == LARGE and row.rate:
        share = row.case.flops / (ours * 1e-6) / row.rate
        yield (f"{row.name}: {100 * share:.1f} % of the matrix rate measured beside it, {row.rate / 1e12:.1f} TFLOP/s "
               f"(aim in bf16: 95 %)")
    if row.case == THIN:
        yield (f"{row.name}: {100 * row.floors['bytes'] / ours:.1f} % of the bandwidth of a copy measured beside it, "
               f"{row.bandwidth / 1e12:.3f} TB/s (aim: 85 %)")
    if row.case in BATCH_1 and row.kind == "bf16":
        yield f"{row.name}: {ours:.2f} us (aim: below {BATCH_1[row.case]:.0f})"
    if ("host", row.ours()) in row.samples:
        yield (f"{row.name}: a run call takes the host {row.median('host', row.ours()):.2f} us, a bare launch "
               f"{row.median('host', 'driver'):.2f} (aim: below 5)")


def of_left_out(rows):
    reasons = {}
    for row in rows:
        for way, text in row.notes.items():
            reasons.setdefault((way, text), []).append(row.name)
    for (way, text), names in reasons.items():
        every = "every network" if len(names) == len(rows) else f"{len(names)} of {len(rows)}: {'; '.join(names)}"
        yield f"{way}: {text}: {every}"


def summarize(rows):
    """Lines."""
    if not rows:
        return ["nothing was measured"]
    ceilings = [line for row in rows for line in of_ceilings(row)]
    return [*of_peers(rows), *of_kernels(rows), *ceilings, *of_left_out(rows)]


def write_markdown(path, title, rows, lines):
    """A table in graphs, then called by the host, then what is beside it; and the lines of the summary."""
    heads = ["model (batch: widths)", "type", *PLANS, *PEERS["graph"],
             *(f"called: {way}" for way in ("ours", *PEERS["call"])), "kernels", "predicted", "floor", "error",
             "of eager"]
    with open(path, "w") as file:
        print(title + ".", "", "| " + " | ".join(heads) + " |", "|---" * len(heads) + "|", sep="\n", file=file)
        for row in rows:
            ours = row.ours()
            times = [row.median("graph", way) for way in PLANS + PEERS["graph"]]
            times += [row.median("call", way) for way in (ours, *PEERS["call"])]
            times += [row.median("kernels", ours), row.predicted[ours], max(row.floors.values())]
            shown = ["-" if t is None else f"{t:.2f}" if t < 100 else f"{t:.0f}" for t in times]
            errors = [f"{row.errors[way]:.1e}" for way in (ours, "eager")]
            print("| " + " | ".join([row.case.name, row.kind, *shown, *errors]) + " |", file=file)
        print("", *(f"- {line}" for line in lines), sep="\n", file=file)
