"""The table that superoptimizers of tensor graphs are compared on, and more networks of its kind.

    python3 bench/table.py [--bin build/release/bin] [--threads 1,2] [--only TEXT] [--rounds 5] [--seconds 0.5]
                           [--tune 20] [--machine native] [--profile FILE] [--models FOLDER] [--json FILE]
    python3 bench/table.py --folder FOLDER [--batch 1] [--length 32] ...
    python3 bench/table.py --lines [--target cpu] [--limit 60]
    python3 bench/table.py --gpu [--types fp32,bf16] [--library LIBHYPATIA-RT.SO] [--timed 15] [--compile] [--json FILE --resume]

Every network (bench/table_networks.py) is compiled as it is (hypatiac --no-rewrite), in normal form (idioms and layers,
nothing fused), rewritten, and rewritten and tuned. All four run in turns with onnxruntime and OpenVINO, so that a busy machine
hits all; OpenVINO's columns are left out where it is missing, which is said. A time is the least of the rounds' first deciles, since what
else runs on a machine only adds; a gain is the time as it is over the time of this form. Beside them: the plan's steps, the seconds that
rewriting took to search, the speedups and the seconds that were published for Tensat and TASO (on a GPU of 2020), what the machine
needs at least for the weights and the operations, and the largest difference to onnxruntime, relative to the largest number
of an output. ! marks a form that is slower than the network as it is by more than 2 %, or a peer that is ahead by as much.

--folder measures the models (*.onnx) of a folder in place of these, their symbolic sizes fixed. Below each table stands the
geometric mean of each peer's time over the tuned plan's, and where a peer is ahead.

--lines compiles models of n parts, for n from 4 to 64, and prints the seconds of the search and the slope of the last doubling
on doubly logarithmic paper; and products of n variables, with the operations of the plan over the least possible.
--gpu runs on a GPU: bench/gpu/table_gpu.py.
"""
import argparse
import concurrent.futures
import glob
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from table_networks import NETWORKS, chain, convolutions, least_chain_flops, linears

HERE = os.path.dirname(os.path.abspath(__file__))
NORMAL = ("normalize", "recognize", "linear")
# Published in 2021: speedups in percent of Tensat and TASO over the graph as it came, seconds of Tensat's search.
PUBLISHED = {"NasRNN": (68.9, 45.4, 0.5), "SqueezeNet": (24.5, 6.7, 0.3), "Inception-v3": (10.0, 6.3, 5.1),
             "BERT": (9.2, 8.5, 1.4), "VGG-19": (8.9, 8.9, 0.4), "ResNeXt-50": (8.8, 5.5, 0.7), "NasNet-A": (7.3, 1.9, 10.6)}
BYTES = {"f32": 4, "i32": 4, "bf16": 2, "f16": 2, "i8": 1, "u8": 1, "bool": 1}
FORMS = ("as it is", "normal form", "rewritten", "tuned")
MARGIN = 1.02  # slower by less is the noise of a busy machine
EXAMPLES = (("parallel linears", linears), ("parallel convolutions", convolutions))


class TooLong(Exception):
    pass


def run_tool(args, name, *rest, limit=None, **more):
    try:
        done = subprocess.run([os.path.join(args.bin, name), *rest], capture_output=True, text=True, timeout=limit, **more)
    except subprocess.TimeoutExpired:
        raise TooLong from None
    except FileNotFoundError:
        sys.exit(f"{os.path.join(args.bin, name)} is not there: build it (cmake --preset release, as README.md says), or name its folder by --bin")
    if done.returncode:
        raise RuntimeError(f"{name} {' '.join(rest)}:\n{done.stderr}")
    return done.stdout


def normal_rules(args):
    lines = (line.split() for line in run_tool(args, "hypatiac", "--list-rules").splitlines())
    return ",".join(words[0] for words in lines if words[2] in NORMAL)


class Compiled:
    """A plan and what hypatiac says of it. Verifying is left out: results are compared with onnxruntime's here."""

    def __init__(self, args, model, plan, *options, limit=None):
        profile = ["--profile", args.profile] if args.profile else []
        said = run_tool(args, "hypatiac", model, "-o", plan, "--stats", "--verify", "off", *profile, *options, limit=limit)
        self.plan, self.seconds = plan, {what: float(s) for what, s in re.findall(r"(\w+) (\d+\.\d+)",
                                                                                 re.search(r"^seconds .*$", said, re.M)[0])}
        self.described = json.loads(run_tool(args, "hypatia", "inspect", plan, "--json"))
        found = re.search(r"^e-graph +(\d+) e-nodes, .* stop: (.*)$", said, re.M)
        self.e_nodes, self.stop = (int(found[1]), found[2]) if found else (0, "")

    @property
    def steps(self):
        return len(self.described["steps"])

    @property
    def flops(self):
        return sum(step["flops"] for step in self.described["steps"])

    @property
    def weight_bytes(self):
        """That a run has to read, each weight once (merged ones have no names); of a table only the rows that are taken."""
        read = {}
        for number, step in enumerate(self.described["steps"]):
            for place, tensor in enumerate(step["reads"]):
                size = BYTES.get(tensor["dtype"], 8) * math.prod(tensor["shape"])
                key = tensor["name"] or (number, place)
                if tensor["place"] == "weight":
                    read[key] = max(read.get(key, 0), min(size, step["bytes"]))
        return min(sum(read.values()), self.described["weights_bytes"])


def compile_forms(args, model, folder, *options, at_once=1):
    """By name, all but the tuned one."""
    ways = {"as it is": ["--no-rewrite"], "normal form": ["--only-rules", args.normal_rules], "rewritten": []}
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        made = pool.map(lambda i, way: Compiled(args, model, os.path.join(folder, f"{i}.bin"), *options, *way),
                        range(len(ways)), ways.values())
        return dict(zip(ways, made))


def published(name):
    """Cells: speedup of Tensat, of TASO, seconds."""
    if name not in PUBLISHED:
        return ["-"] * 3
    tensat, taso, seconds = PUBLISHED[name]
    return [f"{1 + tensat / 100:.2f}x", f"{1 + taso / 100:.2f}x", f"{seconds} s"]


def microseconds(us):
    return f"{us / 1000:.2f} ms" if us >= 1000 else f"{us:.1f} us"


def ratio(value, bad):
    return f"{value:.2f}x{'!' if bad else ''}"


# ---- the CPU ------------------------------------------------------------------------------------------------------

def load_openvino():
    try:
        import openvino
        return openvino
    except ImportError as failure:
        print(f"OpenVINO is left out: {failure}")
        return None


def first_decile(call, seconds):
    """Microseconds of a call: what one in ten is below, of at least three."""
    samples, clock = [], time.perf_counter_ns
    end = clock() + int(seconds * 1e9)
    while clock() < end or len(samples) < 3:
        begin = clock()
        call()
        samples.append(clock() - begin)
    return float(np.percentile(samples, 10)) / 1000


def measure_ours(plan, seconds, warmup=20):
    """The same of a plan (models.Hypatia), in a process of its own."""
    plan.run("bench", "-q", "--warmup", str(warmup), "--iterations", "3", "--duration", str(seconds), "--json", plan.json)
    with open(plan.json, encoding="utf-8") as file:
        return float(np.percentile(json.load(file)["samples_us"], 10))


class Openvino:
    def __init__(self, openvino, model, feeds, threads):
        core = openvino.Core()
        compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
                                                     "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"})
        self.request = compiled.create_infer_request()
        for name, value in feeds.items():
            self.request.set_tensor(name, openvino.Tensor(value, shared_memory=True))
        self.request.infer()


def ceilings(threads, folder):
    """Operations and bytes a second: the best of products of matrices in onnxruntime, and of reading an array in numpy
    (one thread's bandwidth whatever the number of threads)."""
    from mlp_cpu import median_call
    from models import Onnxruntime
    from onnx import TensorProto, helper
    size, path = 1024, os.path.join(folder, "ceiling.onnx")
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size, size]) for name in "aby"]
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["y"])], "g", values[:2], values[2:])
    with open(path, "wb") as file:
        file.write(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())
    feeds = {name: np.random.default_rng(0).standard_normal((size, size), np.float32) for name in "ab"}
    product = Onnxruntime(path, feeds, threads)
    flops = max(2e6 * size ** 3 / product.measure(0.2) for _ in range(3))
    array = np.ones(1 << 24, np.float32)
    return flops, max(4e6 * len(array) / median_call(lambda: array.dot(array), 0.1) for _ in range(3))


def difference(ours, outputs, folder):
    """The largest, relative to the largest number of an output."""
    paths = {name: os.path.join(folder, f"y{i}.npy") for i, name in enumerate(outputs)}
    ours.run("run", *(a for n, p in paths.items() for a in ("--output", f"{n}=@{p}")))
    return max(float(np.max(np.abs(np.load(paths[n]) - y)) / max(1e-30, np.max(np.abs(y)))) for n, y in outputs.items())


def measure_cpu(args, openvino, name, model, feeds, folder):
    """Prints a row for every number of threads."""
    from models import Hypatia, Onnxruntime
    shapes = [f"{key}:{'x'.join(map(str, x.shape)) or 'scalar'}" for key, x in feeds.items()]
    plans = compile_forms(args, model, folder, "--target", f"cpu:{args.machine}",
                          *(word for shape in shapes for word in ("--shapes", shape)))
    for threads in args.threads:
        tuned = os.path.join(folder, f"tuned{threads}.bin")
        run_tool(args, "hypatia", "tune", plans["rewritten"].plan, "-o", tuned, "--device", "cpu", "--threads", str(threads),
                 "--seconds", str(args.tune), "-q", env={**os.environ, "OMP_NUM_THREADS": str(threads)})
        paths = [plans[form].plan if form in plans else tuned for form in FORMS]
        sides = {form: Hypatia(args.bin, path, folder, feeds, threads) for form, path in zip(FORMS, paths)}
        ort = Onnxruntime(model, feeds, threads)
        peers = {"onnxruntime": lambda: ort.session.run_with_iobinding(ort.binding)}
        outputs = dict(zip((info.name for info in ort.session.get_outputs()), ort.outputs))
        error = max(difference(sides[form], outputs, folder) for form in FORMS)
        if openvino:
            peers["OpenVINO"] = Openvino(openvino, model, feeds, threads).request.infer
        args.ceilings[threads] = tuple(map(max, args.ceilings[threads], ceilings(threads, folder)))
        rounds = {side: [] for side in [*sides, *peers]}
        for _ in range(args.rounds):
            for form, plan in sides.items():
                rounds[form].append(measure_ours(plan, args.seconds))
            for peer, call in peers.items():
                call()  # others have used the caches since
                rounds[peer].append(first_decile(call, args.seconds))
        args.rows[threads].append((name, plans, rounds, error))
        print(f"{threads} thread(s) {row(args, threads, *args.rows[threads][-1])}", file=sys.stderr, flush=True)
        yield {"network": name, "threads": threads, "difference": error, "us": rounds, "seconds": plans["rewritten"].seconds,
               "steps": {form: plan.steps for form, plan in plans.items()}}


def row(args, threads, name, plans, rounds, error):
    def over(other, form):
        return least[other] / least[form]
    rewritten, least = plans["rewritten"], {side: min(values) for side, values in rounds.items()}
    flops, bandwidth = args.ceilings[threads]
    floors = {"flops": 1e6 * rewritten.flops / flops, "bytes": 1e6 * rewritten.weight_bytes / bandwidth}
    kind = max(floors, key=floors.get)
    cells = [name, f"{plans['as it is'].steps} -> {rewritten.steps}", f"{rewritten.seconds['rewrite']:.2f} s",
             *(microseconds(least[form]) for form in FORMS),
             *(ratio(over("as it is", form), over("as it is", form) * MARGIN < 1) for form in ("rewritten", "tuned")),
             *published(name)]
    for peer in list(rounds)[len(FORMS):]:
        cells += [microseconds(least[peer]), ratio(over(peer, "tuned"), over(peer, "tuned") * MARGIN < 1)]
    cells += [f"{microseconds(floors[kind])} {kind}", f"{100 * floors[kind] / least['tuned']:.0f} %", f"{error:.1e}"]
    return "| " + " | ".join(cells) + " |"


def print_means(threads, rows):
    """Over all rows of a table: a peer's time over the tuned plan's."""
    for peer in list(rows[0][2])[len(FORMS):] if rows else []:
        ratios = {name: min(rounds[peer]) / min(rounds["tuned"]) for name, _, rounds, _ in rows}
        ahead = [f"{name} {1 / r:.2f}" for name, r in ratios.items() if r * MARGIN < 1]
        print(f"\n{peer}, {threads} thread(s): geometric mean {statistics.geometric_mean(ratios.values()):.2f} times the tuned "
              f"plan's time; ahead in {len(ahead)} of {len(ratios)} (ours over theirs): {', '.join(ahead) or 'none'}")


def find_models(args, folder):
    """Names and paths; networks of ours are written where they are not there yet."""
    def wanted(name):
        return any(text in name.lower() for text in args.only.lower().split(","))
    if args.folder:
        for path in sorted(glob.glob(os.path.join(args.folder, "*.onnx"))):
            name = os.path.basename(path)[:-len(".onnx")]
            if wanted(name):
                yield name, path
        return
    for name in filter(wanted, NETWORKS):
        path = os.path.join(args.models or folder, name.replace(" ", "-") + ".onnx")
        if not os.path.exists(path):
            NETWORKS[name]().save(path)
        yield name, path


def make_feeds(args, model):
    """Inputs of a model, by name, the same each time."""
    import onnxruntime
    from models import make_inputs
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return make_inputs(session, args.batch, args.length, np.random.default_rng(0))


def run_cpu(args):
    try:
        import onnxruntime
    except ImportError as failure:
        sys.exit(f"onnxruntime is needed, as results are compared with its own: {failure}")
    openvino, results = load_openvino(), []
    args.normal_rules, args.rows = normal_rules(args), {threads: [] for threads in args.threads}
    args.ceilings = {threads: (0, 0) for threads in args.threads}
    with tempfile.TemporaryDirectory() as written:
        for name, model in find_models(args, written):
            feeds = make_feeds(args, model)
            try:
                with tempfile.TemporaryDirectory() as folder:
                    results += measure_cpu(args, openvino, name, model, feeds, folder)
            except RuntimeError as failure:
                print(f"{name}: {failure}", file=sys.stderr)
    peers = ["onnxruntime", "/ tuned"] + ["OpenVINO", "/ tuned"] * bool(openvino)
    heads = ["network", "steps", "search", *FORMS, "gain", "gain tuned", "Tensat", "TASO", "its search", *peers, "floor",
             "share", "difference"]
    for threads, rows in args.rows.items():
        flops, bandwidth = args.ceilings[threads]
        versions = f"onnxruntime {onnxruntime.__version__}"
        versions += f", OpenVINO {openvino.__version__.split('-')[0]}" if openvino else ""
        print(f"\n{threads} thread(s); {versions}; a product of matrices {flops / 1e9:.0f} GFLOP/s, reading "
              f"{bandwidth / 1e9:.1f} GB/s\n\n| {' | '.join(heads)} |\n{'|---' * len(heads)}|", *(row(args, threads, *found) for found in rows), sep="\n")
        print_means(threads, rows)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


# ---- compile times ------------------------------------------------------------------------------------------------

def line(args, what, make, folder, counts):
    """One family of models: seconds of the search for every size, as long as they stay below the limit."""
    path, times = os.path.join(folder, "line.onnx"), []
    for n in counts:
        make(n).save(path)
        try:
            done = [Compiled(args, path, os.path.join(folder, "line.bin"), "--target", args.target, limit=args.limit)
                    for _ in range(args.rounds)]
        except TooLong:
            print(f"| {what} | {n} | > {args.limit:.0f} s | - | - | - | not compiled in time |", flush=True)
            return
        seconds = statistics.median(d.seconds["rewrite"] for d in done)
        times.append((n, seconds))
        slope = "-"
        if len(times) > 1:
            (m, before), (n, after) = times[-2:]
            slope = f"{math.log(after / before) / math.log(n / m):.1f}"
        print(f"| {what} | {n} | {1e3 * seconds:.1f} ms | {slope} | {done[0].e_nodes} | {done[0].steps} | {done[0].stop} |",
              flush=True)
        yield done[0], n


def run_lines(args):
    print("| model | n | search | slope | e-nodes | steps | why it ended |\n" + "|---" * 7 + "|")
    with tempfile.TemporaryDirectory() as folder:
        for what, make in EXAMPLES:
            for _ in line(args, what, make, folder, (4, 8, 16, 32, 64)):
                pass
        found = list(line(args, "product of variables", chain, folder, (2, 4, 8, 16)))
    print()
    for compiled, n in found:
        print(f"product of {n} variables: {compiled.flops / least_chain_flops(n):.4f} of the least possible operations")


def network_parser(threads, about=None):
    """Options that say which networks are measured, and how plans of them are made."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--bin", default=os.path.join(HERE, "../build/release/bin"))
    parser.add_argument("--threads", type=lambda t: [int(n) for n in t.split(",")], default=threads)
    parser.add_argument("--only", default="", help="networks whose name contains one of these, with commas between")
    parser.add_argument("--machine", default="native", help="whose costs the plans for the CPU are made by")
    parser.add_argument("--profile", help="device profile for hypatiac")
    parser.add_argument("--models", help="keep the models in this folder, and take those that are there")
    parser.add_argument("--folder", help="measure the models of this folder in place of the networks")
    parser.add_argument("--batch", type=int, default=1, help="for --folder: symbolic axes that are a batch")
    parser.add_argument("--length", type=int, default=32, help="for --folder: other symbolic axes")
    return parser


def main():
    parser = network_parser([1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of every round and side")
    parser.add_argument("--tune", type=float, default=20, help="seconds for tuning a plan, at most")
    parser.add_argument("--timed", type=float, help="for --gpu: tuned is the plan that hypatiac --timed chooses in so many seconds")
    parser.add_argument("--json", help="write the figures of every round")
    parser.add_argument("--lines", action="store_true", help="compile times of models of n parts")
    parser.add_argument("--target", default="cpu", help="for --lines")
    parser.add_argument("--limit", type=float, default=60, help="seconds that compiling a part of a line may take")
    parser.add_argument("--gpu", action="store_true", help="on a GPU")
    parser.add_argument("--types", default="fp32,bf16", help="for --gpu")
    parser.add_argument("--library", help="for --gpu: libhypatia-rt.so, beside --bin's folder unless said")
    parser.add_argument("--budget", type=float, default=math.inf, help="for --gpu: no further network after so many seconds")
    parser.add_argument("--compile", action="store_true", help="for --gpu: torch.compile, too")
    parser.add_argument("--compile-seconds", type=float, default=150, help="for --gpu: that it may take for all networks of a type")
    parser.add_argument("--resume", action="store_true", help="for --gpu: keep what the file of --json has, measure the rest")
    args = parser.parse_args()
    if args.gpu:
        sys.path.append(os.path.join(HERE, "gpu"))
        import table_gpu
        return table_gpu.run(args)
    return run_lines(args) if args.lines else run_cpu(args)


if __name__ == "__main__":
    sys.exit(main())
