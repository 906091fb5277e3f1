"""Plans and peers within one process, in turns of milliseconds, forth and back: what differs by a few hundredths where a machine
is faster and slower from one tenth of a second to the next.

    python3 bench/turns.py [--bin build/release/bin] [--threads 1,2] [--only TEXT] [--turns 20] [--ms 3] [--machine native]
                           [--profile FILE] [--tune SECONDS] [--side NAME=LIBRARY[:PLANS]]... [--peers onnxruntime,OpenVINO]
                           [--folder FOLDER] [--models FOLDER] [--plans FOLDER] [--batch 1] [--length 32]
                           [--json FILE [--resume] [--budget SECONDS]]

Networks are those of bench/table.py, or the models (*.onnx) of --folder. "now" is the plan that hypatiac makes of one, run by
libhypatia-rt.so of --bin; --tune adds the same plan tuned for so many seconds. --side adds another library: on the plans of "now", or on
those of a folder that --plans has kept for another build (files NETWORK-THREADS.bin). A peer that is missing is left out, which is said.

A turn of a side is the shortest run within so many milliseconds. A figure is the median over all turns of a side's time over "now"'s
in the same turn, and beside it the ratio of both first deciles. Runs of plans are timed in C (bench/turns.c), those of peers in Python, with
inputs and outputs bound. With several threads a turn begins when all others' are asleep, which look for work
for tens of milliseconds after a run, and with a run that is not timed. Below a table stand geometric means, and who is ahead of "now" by more than 2 %.
"""
import argparse
import ctypes
import json
import math
import os
import statistics
import sys
import tempfile
import time

import numpy as np

from table import MARGIN, Openvino, find_models, load_openvino, make_feeds, microseconds, network_parser, run_tool

DTYPES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11}
PAUSE, MOST_PAUSES = 0.025, 40  # seconds: longer than the system takes to count what a running thread has used
NOW = "now"


class Tensor(ctypes.Structure):
    """hyp_tensor of hypatia/types.h, of an array."""
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("dtype", ctypes.c_int),
                ("memory", ctypes.c_int), ("rank", ctypes.c_int32), ("reserved", ctypes.c_uint32), ("dims", ctypes.c_int64 * 8)]

    def __init__(self, name, array):
        if array.ndim > 8:
            raise RuntimeError(f"{name} has {array.ndim} axes, and plans have at most 8")
        super().__init__(name.encode(), array.ctypes.data, array.nbytes, DTYPES[str(array.dtype)], 0, array.ndim, 0,
                         (ctypes.c_int64 * 8)(*array.shape))


class Diag(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 4096)]


class Plan:
    """A plan in a library: block(seconds) is the shortest run in microseconds."""

    def __init__(self, module, library, plan, threads, feeds, outputs):
        self.module, self.diag = module, Diag()
        self.outputs = {name: np.zeros_like(value, order="C") for name, value in outputs.items()}
        self.bound = [[np.ascontiguousarray(value) for value in feeds.values()], list(self.outputs.values())]
        tensors = [(Tensor * len(names))(*(Tensor(name, array) for name, array in zip(names, arrays)))
                   for names, arrays in zip((feeds, outputs), self.bound)]
        self.side = module.turns_open(library.encode(), plan.encode(), threads, tensors[0], len(feeds), tensors[1],
                                      len(outputs), ctypes.byref(self.diag))
        if not self.side:
            raise RuntimeError(f"{plan} in {library}: {self.diag.message.decode(errors='replace')}")

    def block(self, seconds):
        least = self.module.turns_block(self.side, seconds, ctypes.byref(self.diag))
        if least < 0:
            raise RuntimeError(self.diag.message.decode(errors="replace"))
        return 1e6 * least

    def difference(self, wanted):
        """The largest, relative to the largest number of an output."""
        return max(float(np.max(np.abs(self.outputs[n].astype(float) - y), initial=0) / max(1e-30, np.max(np.abs(y), initial=0)))
                   for n, y in wanted.items())

    def close(self):
        self.module.turns_close(self.side)


class Peer:
    def __init__(self, call):
        self.call = call

    def block(self, seconds):
        clock, least = time.perf_counter_ns, float("inf")
        begin = last = clock()
        while least == float("inf") or last - begin < 1e9 * seconds:
            start = last
            self.call()
            last = clock()
            least = min(least, last - start)
        return least / 1000

    def close(self):
        pass


def load_module(args):
    path = os.path.join(args.bin, "bench-turns.so")
    if not os.path.exists(path):
        sys.exit(f"{path} is not there: build the target bench-turns, or name its folder by --bin")
    module = ctypes.CDLL(path)
    module.turns_open.restype, module.turns_block.restype = ctypes.c_void_p, ctypes.c_double
    module.turns_open.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p,
                                  ctypes.c_size_t, ctypes.c_void_p]
    module.turns_block.argtypes = [ctypes.c_void_p, ctypes.c_double, ctypes.c_void_p]
    module.turns_close.argtypes = [ctypes.c_void_p]
    return module


def compile_plans(args, name, model, feeds, threads, folder):
    """Paths by side; a plan that the folder has is kept."""
    plan = os.path.join(folder, f"{name}-{threads}.bin")
    if not os.path.exists(plan):
        shapes = (f"{key}:{'x'.join(map(str, x.shape)) or 'scalar'}" for key, x in feeds.items())
        run_tool(args, "hypatiac", model, "-o", plan, "-q", "--verify", "off", "--target", f"cpu:{args.machine}", "--threads",
                 str(threads), *(["--profile", args.profile] if args.profile else []),
                 *(word for shape in shapes for word in ("--shapes", shape)))
    plans = {NOW: plan}
    if args.tune > 0:
        plans["tuned"] = os.path.join(folder, f"{name}-{threads}-tuned.bin")
        if not os.path.exists(plans["tuned"]):
            run_tool(args, "hypatia", "tune", plan, "-o", plans["tuned"], "--device", "cpu", "--threads", str(threads), "--seconds",
                     str(args.tune), "-q", env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    return plans


def open_sides(args, name, model, feeds, threads, folder):
    """All sides by name, "now" first, and the largest difference of a plan to onnxruntime."""
    from models import Onnxruntime
    ort = Onnxruntime(model, feeds, threads)
    wanted = dict(zip((info.name for info in ort.session.get_outputs()), ort.outputs))
    plans = {side: (args.library, plan) for side, plan in compile_plans(args, name, model, feeds, threads, folder).items()}
    for side, (library, other) in args.side.items():
        plans[side] = (library, os.path.join(other, f"{name}-{threads}.bin") if other else plans[NOW][1])
    sides = {side: Plan(args.module, library, plan, threads, feeds, wanted) for side, (library, plan) in plans.items()}
    error = max(side.difference(wanted) for side in sides.values())
    if "onnxruntime" in args.peers:
        sides["onnxruntime"] = Peer(lambda: ort.session.run_with_iobinding(ort.binding))
    if args.openvino:
        sides["OpenVINO"] = Peer(Openvino(args.openvino, model, feeds, threads).request.infer)
    return sides, error


def wait_for_rest():
    """Until no other thread of the process is busy: those of a peer look for work for tens of milliseconds after its last run."""
    for _ in range(MOST_PAUSES):
        before = time.process_time()
        time.sleep(PAUSE)
        if time.process_time() - before < PAUSE / 4:
            return


def take_turns(args, sides, threads):
    """Microseconds of every turn, by side."""
    times, order = {side: [] for side in sides}, list(sides)
    for number in range(-1, args.turns):  # the first warms up
        for side in order if number % 2 else order[::-1]:
            if threads > 1:
                wait_for_rest()
                sides[side].block(0)  # wakes its own
            least = sides[side].block(args.ms / 1000)
            if number >= 0:
                times[side].append(least)
    return times


def compare(times, side):
    """Over "now": the median of the ratios of a turn, and the ratio of the first deciles."""
    decile = {name: np.percentile(times[name], 10) for name in (side, NOW)}
    return statistics.median(a / b for a, b in zip(times[side], times[NOW])), float(decile[side] / decile[NOW])


def row(name, times, error):
    cells = [name, microseconds(np.percentile(times[NOW], 10))]
    for side in times:
        if side != NOW:
            median, deciles = compare(times, side)
            cells.append(f"{median:.2f}{'!' if median * MARGIN < 1 else ''} ({deciles:.2f})")
    return f"| {' | '.join(cells)} | {error:.0e} |"


def print_means(rows):
    """What stands below a table of names and times."""
    for side in rows[0][1]:
        if side == NOW:
            continue
        ratios = {name: compare(times, side)[0] for name, times, _ in rows}
        ahead = [f"{name} {r:.2f}" for name, r in ratios.items() if r * MARGIN < 1]
        print(f"\n{side}: geometric mean {statistics.geometric_mean(ratios.values()):.3f} times the time of \"{NOW}\"; ahead in {len(ahead)} of "
              f"{len(ratios)}: {', '.join(ahead) or 'none'}")


def measure_network(args, name, model, feeds, threads, folder):
    sides, error = open_sides(args, name, model, feeds, threads, folder)
    try:
        return take_turns(args, sides, threads), error
    finally:
        for side in sides.values():
            side.close()


def measure(args, threads, folder, done):
    """Results of all networks, of which `done` has some, by name."""
    for name, model in find_models(args, folder):
        if name in done:
            yield done[name]
            continue
        if time.monotonic() > args.end:
            print(f"{name}, {threads} thread(s): no time was left", file=sys.stderr)
            continue
        feeds = make_feeds(args, model)
        try:
            times, error = measure_network(args, name.replace(" ", "-"), model, feeds, threads, args.plans or folder)
        except RuntimeError as failure:
            print(f"{name}: {failure}", file=sys.stderr)
            continue
        print(row(name, times, error), file=sys.stderr, flush=True)
        yield {"network": name, "threads": threads, "us": times, "difference": error}


def print_table(threads, results):
    rows = [(result["network"], result["us"], result["difference"]) for result in results]
    if not rows:
        return
    heads = ["network", NOW, *(side for side in rows[0][1] if side != NOW), "difference"]
    print(f"\n{threads} thread(s)\n\n| {' | '.join(heads)} |\n{'|---' * len(heads)}|", *(row(*found) for found in rows), sep="\n")
    print_means(rows)


def take_side(text):
    name, _, where = text.partition("=")
    library, _, plans = where.partition(":")
    if not name or name == NOW or not os.path.isfile(library):
        raise argparse.ArgumentTypeError(f"{text}: wanted NAME=LIBRARY or NAME=LIBRARY:FOLDER, a name other than \"{NOW}\" and a library that is there")
    return name, (library, plans)


def main():
    parser = network_parser([1], __doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--library", help="that runs the plans; libhypatia-rt.so beside --bin unless said")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--ms", type=float, default=3, help="of a turn of a side")
    parser.add_argument("--tune", type=float, default=0, help="seconds: plans tuned for so long are a side, too")
    parser.add_argument("--side", type=take_side, action="append", default=[], help="NAME=LIBRARY[:PLANS]: another library")
    parser.add_argument("--peers", type=lambda t: t.split(","), default=["onnxruntime", "OpenVINO"], help="\"none\": no peer")
    parser.add_argument("--plans", help="keep the plans in this folder, and take those that are there")
    parser.add_argument("--json", help="write the time of every turn")
    parser.add_argument("--resume", action="store_true", help="keep what the file of --json has, measure the rest")
    parser.add_argument("--budget", type=float, default=math.inf, help="begin no further network after so many seconds")
    args = parser.parse_args()
    args.side, args.module = dict(args.side), load_module(args)
    args.library = args.library or os.path.join(args.bin, "../lib/libhypatia-rt.so")
    args.openvino = load_openvino() if "OpenVINO" in args.peers else None
    if args.plans:
        os.makedirs(args.plans, exist_ok=True)
    args.end, before, results = time.monotonic() + args.budget, [], []
    if args.resume and args.json and os.path.exists(args.json):
        with open(args.json, encoding="utf-8") as file:
            before = json.load(file)
    with tempfile.TemporaryDirectory() as folder:
        for threads in args.threads:
            done = {result["network"]: result for result in before if result["threads"] == threads}
            results += measure(args, threads, folder, done)
            print_table(threads, [result for result in results if result["threads"] == threads])
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(results, file)


if __name__ == "__main__":
    sys.exit(main())
