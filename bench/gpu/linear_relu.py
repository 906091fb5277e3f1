"""Layers with a relu, one and many: plans against PyTorch and JAX, on one GPU.

    python3 bench/gpu/linear_relu.py --hypatiac BIN --library LIBHYPATIA-RT.SO [--quick] [--only TEXT] [--cases LIST]
                                     [--tsv FILE] [--markdown FILE]
                                     [--types bf16,fp32,fp16,tf32,fp8] [--seconds S] [--compile-seconds S] [--rounds N]

Of every network two plans are compiled: with all rules ("fused"), and without those that put activations into a
product's kernel ("unfused": a product with its bias, then a relu kernel). The first is also tuned on this GPU
("tuned"). Peers are PyTorch eager, torch.compile (mode max-autotune) and JAX (jit). A peer that is missing, fails,
computes in another type, or that no time was left for is left out, with the reason in the table's column `note`.

Everything runs in one process on the same device tensors, in turns, so that clocks and power hit all alike; a time
is the median over the rounds, in microseconds of one run. Instances of one and the same plan were seen to differ by
4 %, so plans of small networks are loaded several times, and the samples of their instances count as one list. Two
modes:

  call    as the host calls it, again and again; launches, Python and what a library does at every call are included.
          torch.compile uses its own CUDA graphs, its input staying in place. JAX is timed by the host's clock, waiting
          once for many calls.
  graph   runs captured into a CUDA graph, which is replayed: what the device needs. torch.compile without its own
          graphs here. JAX cannot be captured.

and more figures of each plan: "kernels", the sum of what its kernels take, each alone (hyp_context_time_steps);
"predicted", by the cost model; and for one row of input "host", what a run call takes until it returns (bench-host-
time). Errors are |y - r| / |r| (2-norms) against float64 on the same inputs.

Floors are what the network needs at least: bytes at the bandwidth of a copy (every weight, the input and the output
once), operations at the rate of the fastest product of its type, launches (one a layer) at the time of an empty
kernel in a graph; all three measured in the same run. A network whose weights stay in the cache may be below the
floor of bytes.

The exit code is 1 when a fused plan is slower than the unfused one beyond noise, or a tuned one slower than an
untuned one, or one is wrong.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peers  # noqa: E402
from ceilings import Ceilings  # noqa: E402
from networks import CASES, LARGE, Network, QUICK, THIN, parse_cases  # noqa: E402
from report import BATCH_1, Row, Table, judge, summarize, write_markdown  # noqa: E402
from runtime import Library, Plan, compile_plan  # noqa: E402
from timing import capture, error, milliseconds, repeat, take_turns  # noqa: E402

ALL = "bf16,fp32,fp16,tf32"  # of TYPES; fp8 when it is asked for
UNFUSED = ["--disable-rule=fuse-linear-relu"]
MOST_CALLS, MOST_CAPTURED = 50, 200  # runs in a sample: called by the host, in a graph
SLOW = 5e11  # operations of networks that take seconds to write, load and sample
TURNS = 3  # parts of the rounds, with a look at the kernels after each
MODES = ("graph", "call")


class Bench:
    """What all networks share."""

    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.cuda = torch.cuda.is_available()
        self.device, self.target = ("cuda", "cuda") if self.cuda else ("cpu", "cpu")
        self.stream = torch.cuda.Stream() if self.cuda else None
        self.library = Library(os.path.abspath(args.library))
        self.ahead = {}  # (peer, row): why it is not compiled

    def handle(self):
        return self.stream.cuda_stream if self.stream else None

    def wait(self):
        if self.stream:
            self.stream.synchronize()


class Contest:
    """The ways to run one network: calls by (way, instance) for both modes, JAX apart, and what is known of each."""

    def __init__(self, bench, case, kind):
        self.bench, self.row = bench, Row(case, kind)
        self.calls = {mode: {} for mode in MODES}
        self.plans, self.first, self.outputs, self.jax = [], {}, {}, None  # first: by way, one of its plans
        peers.set_precision(kind)
        self.network = Network(case, kind, bench.device)
        self.reference = self.network.in_float64()

    def add(self, way, call, result, modes=MODES, instance=0):
        for mode in modes:
            self.calls[mode][way, instance] = call
        self.outputs[way] = result

    def attempt(self, way, what):
        """A way that fails is noted, and the others go on."""
        try:
            what()
        except Exception as failure:
            self.row.notes[way] = peers.short(failure)
            self.forget(way)

    def forget(self, way):
        self.calls = {mode: {key: call for key, call in calls.items() if key[0] != way}
                      for mode, calls in self.calls.items()}
        if way == "jax":
            self.jax = None

    # ---- plans ----

    def load(self, path):
        y = torch.full_like(self.reference, float("nan"), dtype=self.network.x.dtype)
        plan = Plan(self.bench.library, path, self.bench.handle(), [self.network.x], [y])
        self.plans.append(plan)
        for _ in range(3):  # the second run is captured
            plan.run()
        return plan, y

    def add_plan(self, way, path, instances):
        for i in range(instances):
            plan, y = self.load(path)
            self.add(way, plan.run, y, instance=i)
            if i == 0:
                self.first[way] = plan
                self.row.predicted[way] = sum(seconds for _, _, seconds in plan.steps()) * 1e6
                self.row.kernels[way] = []

    def tune(self, untuned, path):
        plan, _ = self.load(untuned)
        plan.tune(self.bench.args.tune_seconds, path)

    def add_product(self, ceilings):
        """The network's product alone, by the fastest algorithm that tuning finds: one more to compare with."""
        onnx, path = (os.path.join(self.bench.folder, name) for name in ("product.onnx", "product.plan"))
        self.network.write_onnx(onnx, products_alone=True)
        compile_plan(self.bench.args.hypatiac, onnx, path, *self.network.options(self.bench.folder),
                     target=self.bench.target)
        if self.bench.cuda:
            self.tune(path, path)
        ceilings.calls["product, tuned plan"] = self.load(path)[0].run
        ceilings.flops["product, tuned plan"] = self.row.case.flops

    def add_plans(self):
        bench, case = self.bench, self.row.case
        paths = {way: os.path.join(bench.folder, way + ".plan") for way in ("fused", "unfused", "tuned")}
        onnx = os.path.join(bench.folder, "model.onnx")
        self.network.write_onnx(onnx)
        precision = self.network.options(bench.folder)
        instances = 3 if case.flops < 2e11 else 1
        for way, options in (("fused", []), ("unfused", UNFUSED)):
            compile_plan(bench.args.hypatiac, onnx, paths[way], *precision, *options, target=bench.target)
            self.add_plan(way, paths[way], instances)
        if bench.cuda:
            self.attempt("tuned", lambda: self.add_tuned(paths, instances))

    def add_tuned(self, paths, instances):
        self.tune(paths["fused"], paths["tuned"])
        self.add_plan("tuned", paths["tuned"], instances)

    # ---- peers ----

    def add_torch_compile(self):
        compiled = peers.torch_compile(self.network)
        result = compiled["call"](self.network.x).clone()  # the next call overwrites it
        for mode, f in compiled.items():
            self.add("torch.compile", lambda f=f: f(self.network.x), result, modes=[mode])

    def add_jax(self):
        self.jax = peers.Jax(self.network)
        self.outputs["jax"] = torch.from_dlpack(self.jax.result)

    def add_peers(self):
        self.add("eager", lambda: self.network(self.network.x), self.network(self.network.x))
        for peer, add in (("torch.compile", self.add_torch_compile), ("jax", self.add_jax)):
            note = self.bench.ahead.get((peer, (self.row.case, self.row.kind)), "left out")
            if note:
                self.row.notes[peer] = note
            else:
                self.attempt(peer, add)

    # ---- times ----

    def graph_samplers(self, runs):
        """A graph that cannot be captured is noted as its way's."""
        samplers = {}
        for (way, instance), call in self.calls["graph"].items():
            try:
                graph = capture(call, runs, self.bench.stream)
            except Exception as failure:
                self.row.notes[way] = "in a graph: " + peers.short(failure)
                continue
            samplers["graph", way, instance] = self.sampler(graph.replay, runs)
        return samplers

    def sampler(self, call, runs):
        return lambda: milliseconds(call, self.bench.stream) * 1000 / runs

    def jax_sampler(self, runs):
        def sample():
            self.bench.wait()
            return self.jax.microseconds(runs)
        return sample

    def time(self, ceilings):
        """About 2 ms a sample, and not too many runs; fewer rounds where samples are long. The device's ceilings are
        measured in the same turns where the network is to be compared with them."""
        once = min(milliseconds(repeat(self.calls["call"]["fused", 0], 3), self.bench.stream) / 3 for _ in range(3))
        runs = max(1, min(MOST_CALLS, int(2 / once)))
        samplers = self.graph_samplers(max(1, min(MOST_CAPTURED, int(2 / once))))
        for (way, instance), call in self.calls["call"].items():
            samplers["call", way, instance] = self.sampler(repeat(call, runs), runs)
        if self.jax:
            samplers["call", "jax", 0] = self.jax_sampler(runs)
        if self.row.case in (LARGE, THIN):
            for name, call in ceilings.calls.items():
                samplers["ceiling", name, 0] = self.sampler(call, 1)
        take_turns(samplers, 1)
        seconds = len(samplers) * runs * once * 1e-3
        rounds = max(6, min(self.bench.args.rounds, int(self.bench.args.row_seconds / seconds))) // TURNS
        for _ in range(TURNS):
            for (mode, way, _), values in take_turns(samplers, rounds).items():
                self.row.samples.setdefault((mode, way), []).extend(values)
            for way, plan in self.first.items():
                self.row.kernels[way].append(sum(plan.time_steps()) * 1e6)
        if self.row.case in (LARGE, THIN):
            ceilings.take({way: statistics.median(s) for (mode, way), s in self.row.samples.items()
                           if mode == "ceiling"})
            ceilings.calls.pop("product, tuned plan", None)  # its plan ends with this network

    def time_host(self):
        plan = os.path.join(self.bench.folder, self.row.ours() + ".plan")
        for way, us in zip((self.row.ours(), "driver"), host_time(self.bench.args.host_time, plan)):
            self.row.samples["host", way] = [us]

    def drop_wrong_peers(self):
        """A peer that computes in another type than is asked for cannot be compared."""
        for way in ("torch.compile", "jax"):
            if way in self.row.errors and not self.row.is_right(way):
                self.row.notes[way] = f"its error is {self.row.errors[way]:.1e}: it does not compute in {self.row.kind}"
                self.forget(way)

    def run(self, ceilings):
        self.add_plans()
        self.add_peers()
        self.bench.wait()
        self.row.errors = {way: error(y, self.reference) for way, y in self.outputs.items()}
        self.drop_wrong_peers()
        if self.row.case == LARGE:
            self.attempt("product, tuned plan", lambda: self.add_product(ceilings))
        self.time(ceilings)
        if self.bench.args.host_time and self.row.case in BATCH_1:
            self.attempt("host time", self.time_host)
        self.row.floors = ceilings.floors(self.row.case)
        self.row.rate, self.row.bandwidth = ceilings.rate, ceilings.bandwidth
        return self.row

    def close(self):
        self.bench.wait()
        for plan in self.plans:
            plan.close()


def host_time(program, plan):
    """What a run call and a bare launch of a graph cost the host, in microseconds, by bench-host-time."""
    done = subprocess.run([program, plan], capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise RuntimeError(done.stderr)
    lines = {text: float(ns) / 1000 for text, ns in re.findall(r"^(.*?) +(\d+) ns", done.stdout, re.M)}
    return lines["run call, device tensors"], lines["driver: launching a graph of one operation"]


def measure(bench, case, kind, ceilings):
    if bench.cuda:
        torch.cuda.empty_cache()
    contest = Contest(bench, case, kind)
    try:
        return contest.run(ceilings)
    finally:
        contest.close()


def measure_all(bench, rows, table, end):
    ceilings, done = {}, []
    for case, kind in rows:
        if time.monotonic() > end:
            table.note(case, kind, "not run, no time left")
            continue
        if kind not in ceilings:
            peers.set_precision(kind)
            ceilings[kind] = Ceilings(kind, bench.stream, rounds=7)
            table.say(ceilings[kind].describe())
        try:
            row = measure(bench, case, kind, ceilings[kind])
            table.add(row)
        except Exception as failure:
            table.note(case, kind, peers.short(failure))
            table.failed.append(f"{case.name} {kind}: {peers.short(failure)}")
            continue
        done.append(row)
    return done


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hypatiac", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--host-time", metavar="BIN", help="bench-host-time, to measure what a run call costs the host")
    parser.add_argument("--tsv")
    parser.add_argument("--markdown", help="a file for the table and the summary as Markdown")
    parser.add_argument("--only", default="", help="networks whose name contains this")
    parser.add_argument("--cases", help="other networks: 256:256-512-256,1024:784-2048")
    parser.add_argument("--types", default=ALL)
    parser.add_argument("--peers", default="torch.compile,jax", help="besides eager")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--row-seconds", type=float, default=0.6, help="about how long to sample a network")
    parser.add_argument("--tune-seconds", type=float, default=1.5, help="for each plan")
    parser.add_argument("--seconds", type=float, help="in all; 360, 90 with --quick")
    parser.add_argument("--compile-seconds", type=float, help="of them for peers, all networks together; 2 of 5")
    parser.add_argument("--quick", action="store_true", help="few networks, bf16 and fp32")
    args = parser.parse_args()
    if args.quick and args.types == ALL:
        args.types = "bf16,fp32"
    args.rounds = min(args.rounds, 9) if args.quick else args.rounds
    args.seconds = args.seconds if args.seconds is not None else 90 if args.quick else 360
    args.compile_seconds = args.compile_seconds if args.compile_seconds is not None else 0.4 * args.seconds
    return args


def main():
    args = parse_arguments()
    end = time.monotonic() + args.seconds
    warnings.filterwarnings("ignore")
    among = parse_cases(args.cases) if args.cases else QUICK if args.quick else CASES
    cases = [case for case in among if args.only in case.name]
    rows = [(case, kind) for kind in args.types.split(",") for case in cases]
    rows.sort(key=lambda row: row[0].flops > SLOW)  # so that what no time is left for is not all of a type
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, Table(args.tsv) as table:
        peers.set_environment(folder)
        bench = Bench(args, folder)
        table.begin(torch.cuda.get_device_name() if bench.cuda else "CPU, which shows that this program works",
                    args.rounds)
        here = []
        for peer in filter(None, args.peers.split(",")):
            reason = peers.missing(peer)
            bench.ahead.update({(peer, row): reason for row in rows})
            here += [peer] * (not reason)
        start = time.monotonic()
        compiled = peers.compile_ahead(here, rows, args.compile_seconds, folder, bench.device)
        bench.ahead.update(compiled.why)
        table.say(f"compiled ahead in {time.monotonic() - start:.0f} s: {compiled.describe() or 'nothing'}")
        with torch.cuda.stream(bench.stream) if bench.cuda else torch.no_grad(), torch.no_grad():
            start = time.monotonic()
            done = measure_all(bench, rows, table, end)
            table.say(f"measured {len(done)} of {len(rows)} networks in {time.monotonic() - start:.0f} s")
        lines = summarize(done)
        table.say("\n".join(["", *lines]))
        if args.markdown:
            write_markdown(args.markdown, table.title, done, lines)
        complaints = table.failed + [complaint for row in done for complaint in judge(row)]
        for complaint in complaints:
            table.say(complaint)
    sys.exit(1 if complaints or not done else 0)


if __name__ == "__main__":
    main()
