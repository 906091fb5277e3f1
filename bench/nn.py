"""Forward and backward passes of linear layers: the functions of hypatia/nn.h, and plans, against PyTorch, on a GPU or a CPU.

    python3 bench/nn.py --library LIBHYPATIA-RT.SO [--hypatiac BIN] [--device cuda|cpu] [--types bf16,fp32,fp16,tf32] [--only TEXT,...] [--cases LIST]
                        [--tune SECONDS] [--compile [MODE,...]] [--rounds N] [--row-seconds S] [--tsv FILE]

A run is one forward pass and one backward pass with all gradients (dx, and of each layer dW and db); a relu follows each layer but
the last of several. Ours is measured untuned, and after hyp_nn_tune of so many seconds ("tuned"); with --hypatiac also as a plan of both
passes, written out as a model ("plan"), and tuned as long ("plan, tuned"). Peers: PyTorch's autograd
("eager") and, with --compile, torch.compile in each of these modes ("compile default"; max-autotune-no-cudagraphs takes a minute
a row). All use the same numbers in the same process and take turns, each round beginning
with another one; a time is the median over the rounds, in microseconds of one run. Two modes:

  graph   runs captured into a CUDA graph, which is replayed: what the device needs. A GPU alone
  call    as the host calls it, again and again

The floor is what a run needs at least: bytes at the bandwidth of a copy (x, every weight twice, dy, and all results, once each),
operations at the rate of the fastest product of its type, both measured in the same process, and four launches a layer at what
one more empty kernel takes in a graph. Errors are |g - r| / |r| (2-norms) of the worst result against float64. "mask" is what the functions keep
of a relu behind the last layer, in bits an element; other relus keep nothing but their results, which the next weight's gradient reads.
"""
import argparse
import ctypes as c
import os
import statistics
import sys
import tempfile
import time

import torch
from onnx import TensorProto, helper, save

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu"))
from ceilings import Ceilings  # noqa: E402
from networks import TYPES, Case, parse_cases  # noqa: E402
from runtime import DTYPES, Diag, EngineOptions, HYP_DEVICE_CPU, HYP_DEVICE_CUDA, Library, Plan, Tensor, compile_plan  # noqa: E402
from timing import capture, error, geometric_mean, milliseconds, repeat, take_turns  # noqa: E402

CASES = [Case(256, (256, 512)), Case(1024, (784, 2048)), Case(8192, (4096, 4096)),
         Case(256, (256, 512, 256)), Case(256, (256, 512, 512, 512, 256)), Case(256, (256,) + (512,) * 5 + (256,)),
         Case(1024, (784, 2048, 10)), Case(1024, (784, 2048, 2048, 2048, 10)), Case(1024, (784,) + (2048,) * 5 + (10,)),
         Case(8192, (4096,) * 3), Case(8192, (4096,) * 5), Case(8192, (4096,) * 7), Case(1024, (4096, 16384, 4096))]
CPU_CASES = [Case(64, (256, 512)), Case(128, (784, 2048)), Case(512, (1024, 1024)), Case(64, (256, 512, 256)),
             Case(128, (784, 2048, 10)), Case(32, (64, 128, 128, 10))]
NONE, RELU = 0, 1
OURS = ("ours", "tuned", "plan", "plan, tuned")
MOST_CALLS, MOST_CAPTURED = 50, 100


class Layer(c.Structure):
    _fields_ = [("weight", Tensor), ("bias", Tensor), ("act", c.c_int), ("reserved", c.c_uint32)]


class Gradient(c.Structure):
    _fields_ = [("weight", Tensor), ("bias", Tensor)]


class RunOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("tf32", c.c_bool), ("accumulate", c.c_bool), ("accumulate_input", c.c_bool),
                ("stream", c.c_void_p), ("x_strides", c.c_void_p), ("y_strides", c.c_void_p), ("dx_strides", c.c_void_p)]


def view(t):
    """A hyp_tensor of a torch tensor."""
    return Tensor(None, t.data_ptr(), t.numel() * t.element_size(), DTYPES.get(t.dtype, 0), int(t.is_cuda), t.dim(), 0,
                  (c.c_int64 * 8)(*t.shape))


class Numbers:
    """A case's tensors in a type, and its results in float64."""

    def __init__(self, case, kind, device):
        self.case, self.kind, dtype = case, kind, TYPES[kind].torch
        random = torch.Generator(device).manual_seed(1)

        def draw(scale, *shape):
            return (torch.randn(*shape, generator=random, device=device) * scale).to(dtype)
        pairs = list(zip(case.widths, case.widths[1:]))
        self.x, self.dy = draw(1, case.batch, case.widths[0]), draw(1, case.batch, case.widths[-1])
        self.weights = [draw(k ** -0.5, n, k) for k, n in pairs]
        self.biases = [draw(0.1, n) for k, n in pairs]
        self.relus = [case.last_relu or i + 1 < len(pairs) for i in range(len(pairs))]

    def forward(self, x, weights, biases):
        for w, b, relu in zip(weights, biases, self.relus):
            x = torch.nn.functional.linear(x, w, b)
            x = torch.relu(x) if relu else x
        return x

    def leaves(self, dtype=None):
        """Copies that gradients are asked of: x, the weights, the biases."""
        return [t.detach().to(dtype or t.dtype).clone().requires_grad_() for t in (self.x, *self.weights, *self.biases)]

    def passes(self, forward, leaves, dy):
        n = len(self.weights)
        y = forward(leaves[0], leaves[1:1 + n], leaves[1 + n:])
        return [y, *torch.autograd.grad(y, leaves, dy)]

    def in_float64(self):
        return self.passes(self.forward, self.leaves(torch.float64), self.dy.double())

    def bytes(self):
        """Moved at least."""
        element = TYPES[self.kind].torch.itemsize
        weights = sum(w.numel() for w in self.weights)
        return element * (3 * weights + 2 * sum(b.numel() for b in self.biases) + 3 * self.x.numel() + 2 * self.dy.numel())


class Ours:
    """The functions on a case's tensors."""

    def __init__(self, lib, numbers, device, stream):
        self.lib, self.diag, self.nn = lib, Diag(), c.c_void_p()
        kind = HYP_DEVICE_CUDA if device == "cuda" else HYP_DEVICE_CPU
        options = EngineOptions(size=c.sizeof(EngineOptions), device=kind, threads=torch.get_num_threads() if stream is None else 0)
        self.check(lib.hyp_nn_create(c.byref(options), c.c_void_p(stream.cuda_stream if stream else None), c.byref(self.nn),
                                     c.byref(self.diag)))
        n = len(numbers.weights)
        self.y, self.dx = torch.empty_like(numbers.dy), torch.empty_like(numbers.x)
        self.dw, self.db = ([torch.empty_like(t) for t in list] for list in (numbers.weights, numbers.biases))
        self.layers = (Layer * n)(*(Layer(view(w), view(b), RELU if relu else NONE, 0) for w, b, relu in
                                    zip(numbers.weights, numbers.biases, numbers.relus)))
        self.gradients = (Gradient * n)(*(Gradient(view(w), view(b)) for w, b in zip(self.dw, self.db)))
        self.options = RunOptions(size=c.sizeof(RunOptions), tf32=numbers.kind == "tf32")
        x, y, dy, dx = map(view, (numbers.x, self.y, numbers.dy, self.dx))
        bytes = c.c_size_t()
        self.check(lib.hyp_mlp_saved_bytes(self.nn, self.layers, n, c.byref(x), c.byref(bytes), c.byref(self.diag)))
        hidden = sum(numbers.dy.shape[0] * w.shape[0] for w in numbers.weights[:-1]) * numbers.dy.element_size()
        self.mask_bits = (bytes.value - hidden) * 8 / numbers.dy.numel() if numbers.relus[-1] else 0
        self.saved = torch.empty(max(1, bytes.value), dtype=torch.uint8, device=numbers.x.device)
        saved = view(self.saved)
        self.keep = (numbers, x, y, dy, dx, saved)
        layers, more = (self.nn, self.layers, c.c_size_t(n), c.byref(x)), (c.byref(self.options), c.byref(self.diag))
        self.forward = layers + (c.byref(y), c.byref(saved)) + more
        self.backward = layers + (c.byref(saved), c.byref(dy), c.byref(dx), self.gradients) + more
        self.same = layers + (c.byref(dx), self.gradients, c.byref(self.options))
        self.check(lib.hyp_mlp_reserve(*self.same, c.byref(self.diag)))

    def check(self, status):
        if status:
            raise RuntimeError(self.diag.message.decode())

    def run(self):
        self.check(self.lib.hyp_mlp_forward(*self.forward))
        self.check(self.lib.hyp_mlp_backward(*self.backward))

    def tune(self, seconds):
        self.check(self.lib.hyp_nn_tune(*self.same, c.c_double(seconds), c.byref(self.diag)))

    def describe(self):
        lines = []
        write = c.CFUNCTYPE(None, c.c_char_p, c.c_void_p)(lambda line, _: lines.append(line.decode()))
        self.lib.hyp_nn_describe(self.nn, write, None)
        return lines

    def results(self):
        return [self.y, self.dx, *self.dw, *self.db]

    def close(self):
        self.lib.hyp_nn_destroy(self.nn)


def write_passes(numbers, path):
    """Both passes as a model: y, dx, and dW and db of every layer, of x and dy; weights are constants."""
    kind, nodes, given = TYPES[numbers.kind], [], []

    def constant(name, tensor):
        raw = tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
        given.append(helper.make_tensor(name, kind.onnx, tensor.shape, raw, raw=True))

    def add(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    count, h = len(numbers.weights), ["x"]
    for i, (w, b, relu) in enumerate(zip(numbers.weights, numbers.biases, numbers.relus)):
        constant(f"w{i}", w)
        constant(f"b{i}", b)
        out = "y" if i + 1 == count else f"h{i}"
        add("Gemm", [h[-1], f"w{i}", f"b{i}"], f"z{i}" if relu else out, transB=1)
        h.append(add("Relu", [f"z{i}"], out) if relu else out)
    given += [helper.make_tensor("zero", kind.onnx, (), b"\0" * kind.torch.itemsize, raw=True),
              helper.make_tensor("rows", TensorProto.INT64, (1,), [0])]
    g = "dy"
    for i in reversed(range(count)):
        if numbers.relus[i]:
            add("Greater", [h[i + 1], "zero"], f"is{i}")
            g = add("Where", [f"is{i}", g, "zero"], f"g{i}")
        add("Gemm", [g, h[i]], f"dw{i}", transA=1)
        add("ReduceSum", [g, "rows"], f"db{i}", keepdims=0)
        g = add("MatMul", [g, f"w{i}"], f"dh{i}" if i else "dx")
    outputs = [("y", numbers.dy), ("dx", numbers.x), *((f"dw{i}", w) for i, w in enumerate(numbers.weights)),
               *((f"db{i}", b) for i, b in enumerate(numbers.biases))]
    infos = lambda list: [helper.make_tensor_value_info(name, kind.onnx, t.shape) for name, t in list]  # noqa: E731
    graph = helper.make_graph(nodes, "passes", infos([("x", numbers.x), ("dy", numbers.dy)]), infos(outputs), given)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


class Planned:
    """The passes as plans: as compiled, and tuned."""

    def __init__(self, args, numbers, folder, stream):
        onnx, path, tuned = (os.path.join(folder, "passes" + end) for end in (".onnx", ".bin", ".tuned.bin"))
        write_passes(numbers, onnx)
        target = "cuda:h200" if args.device == "cuda" else "cpu:native"
        compile_plan(args.hypatiac, onnx, path, "--precision", TYPES[numbers.kind].precision, "--verify", "off", target=target)
        library, handle = Library(os.path.abspath(args.library)), stream.cuda_stream if stream else None

        def open_plan(path):
            results = [torch.empty_like(t) for t in (numbers.dy, numbers.x, *numbers.weights, *numbers.biases)]
            return Plan(library, path, handle, [numbers.x, numbers.dy], results), results

        self.plans = {"plan": open_plan(path)}
        if args.tune and stream:
            self.plans["plan"][0].tune(args.tune, tuned)
            self.plans["plan, tuned"] = open_plan(tuned)

    def close(self):
        for plan, _ in self.plans.values():
            plan.close()


class Row:
    """One case in one type."""

    def __init__(self, case, kind, args, lib, stream):
        self.planned = None
        self.case, self.kind, self.args, self.stream = case, kind, args, stream
        self.numbers = Numbers(case, kind, args.device)
        self.errors, self.notes = {}, []
        self.ours = {"ours": Ours(lib, self.numbers, args.device, stream)}
        if args.tune and stream:
            self.ours["tuned"] = Ours(lib, self.numbers, args.device, stream)
            self.ours["tuned"].tune(args.tune)
        self.ways = {way: ours.run for way, ours in self.ours.items()}
        if args.hypatiac:
            with tempfile.TemporaryDirectory() as folder:
                self.planned = Planned(args, self.numbers, folder, stream)
            self.ways.update((way, plan.run) for way, (plan, _) in self.planned.plans.items())

    def judge(self, way, results):
        self.errors[way] = max(error(r, w) for r, w in zip(results, self.reference))

    def add_peers(self):
        leaves, numbers = self.numbers.leaves(), self.numbers
        self.ways["eager"] = lambda: numbers.passes(numbers.forward, leaves, numbers.dy)
        if self.args.compile:
            torch._dynamo.reset()
        for mode in filter(None, (self.args.compile or "").split(",")):
            forward = torch.compile(numbers.forward, dynamic=False, mode=mode)
            call = lambda forward=forward: numbers.passes(forward, leaves, numbers.dy)  # noqa: E731
            try:
                call()
                self.ways["compile " + mode] = call
            except Exception as failure:
                self.notes.append(f"torch.compile, {mode}: " + str(failure).split("\n")[0][:80])

    def verify(self):
        self.reference = self.numbers.in_float64()
        for way, ours in self.ours.items():
            ours.run()
            if self.stream:
                self.stream.synchronize()
            self.judge(way, ours.results())
        planned = self.planned.plans if self.planned else {}
        for way, (plan, results) in planned.items():
            plan.run()
            if self.stream:
                self.stream.synchronize()
            self.judge(way, results)
        for way in set(self.ways) - set(self.ours) - set(planned):
            self.judge(way, self.ways[way]())
        del self.reference

    def time(self):
        once = min(milliseconds(repeat(self.ways["eager"], 2), self.stream) / 2 for _ in range(3))
        runs, captured = (max(1, min(most, int(2 / once))) for most in (MOST_CALLS, MOST_CAPTURED))
        samplers = {}
        for way, call in self.ways.items():
            samplers["call", way] = self.sampler(repeat(call, runs), runs)
            if not self.stream:
                continue
            try:
                samplers["graph", way] = self.sampler(capture(call, captured, self.stream).replay, captured)
            except Exception as failure:
                self.notes.append(f"{way} in a graph: {str(failure).splitlines()[0][:80]}")
        take_turns(samplers, 1)
        seconds = len(samplers) * once * runs * 1e-3
        rounds = max(5, min(self.args.rounds, int(self.args.row_seconds / seconds)))
        self.medians = {key: statistics.median(values) for key, values in take_turns(samplers, rounds).items()}

    def sampler(self, call, runs):
        return lambda: milliseconds(call, self.stream) * 1000 / runs

    def floor(self, ceilings):
        us = [self.numbers.bytes() / ceilings.bandwidth * 1e6, 4 * self.case.layers * ceilings.launch]
        if ceilings.rate:
            us.append(3 * self.case.flops / ceilings.rate * 1e6)
        return max(us)

    def ratio(self, mode):
        """How many times as long the fastest peer takes."""
        def least(ways):
            return min((us for (m, way), us in self.medians.items() if m == mode and way in ways), default=None)
        ours, peers = least(OURS), least(set(self.ways) - set(OURS))
        return peers / ours if ours and peers else None

    def close(self):
        for ours in self.ours.values():
            ours.close()
        if self.planned:
            self.planned.close()


def load(path):
    lib = c.CDLL(os.path.abspath(path))
    lib.hyp_nn_destroy.argtypes, lib.hyp_nn_destroy.restype = [c.c_void_p], None
    return lib


def measure(case, kind, args, lib, stream, ceilings):
    row = Row(case, kind, args, lib, stream)
    row.add_peers()
    row.verify()
    row.time()
    floor = row.floor(ceilings)
    ratios = {mode: row.ratio(mode) for mode in ("graph", "call")}
    cells = [f"{mode} {way} {us:.1f}" for (mode, way), us in sorted(row.medians.items(), reverse=True)]
    print(f"{case.name} {kind}: " + ", ".join(cells) + f", floor {floor:.1f}, mask {row.ours['ours'].mask_bits:.2f}; peer/ours " +
          ", ".join(f"{mode} {r:.2f}" for mode, r in ratios.items() if r) +
          "; errors " + ", ".join(f"{way} {e:.1e}" for way, e in row.errors.items()) + "".join("; " + n for n in row.notes),
          flush=True)
    if args.describe:
        for line in list(row.ours.values())[-1].describe():
            print("   ", line, flush=True)
    lines = [f"{case.name}\t{kind}\t{mode}\t{way}\t{us:.3f}\t{floor:.3f}\t{row.errors[way]:.3e}"
             for (mode, way), us in row.medians.items()]
    row.close()
    return ratios, lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--hypatiac")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--cases", help="other ones: 256:256-512-256,1024:784-2048")
    parser.add_argument("--types", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--tune", type=float, default=10, help="seconds for each case and type; 0: not at all")
    parser.add_argument("--compile", nargs="?", metavar="MODES", const="default")
    parser.add_argument("--describe", action="store_true", help="also what the steps are done by")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--row-seconds", type=float, default=5)
    parser.add_argument("--stop", type=float, default=1e9, help="seconds after which no case begins")
    parser.add_argument("--tsv")
    args = parser.parse_args()
    cuda, began = args.device == "cuda", time.monotonic()
    kinds = (args.types or ("bf16,fp32,fp16,tf32" if cuda else "fp32,bf16")).split(",")
    stream = torch.cuda.Stream() if cuda else None
    lib, found, lines = load(args.library), {}, []
    torch.set_float32_matmul_precision("highest")
    with torch.cuda.stream(stream):
        for kind in kinds:
            torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
            ceilings = Ceilings(kind, stream, 5)
            for case in parse_cases(args.cases) if args.cases else CASES if cuda else CPU_CASES:
                if not any(text in case.name for text in args.only.split(",")) or time.monotonic() - began > args.stop:
                    continue
                ratios, some = measure(case, kind, args, lib, stream, ceilings)
                lines += some
                for mode, ratio in ratios.items():
                    if ratio:
                        found.setdefault(mode, []).append(ratio)
                if cuda:
                    torch.cuda.empty_cache()
    for mode, ratios in found.items():
        print(f"{mode}: {len(ratios)} rows, geometric mean {geometric_mean(ratios):.2f}, worst {min(ratios):.2f}")
    if args.tsv:
        with open(args.tsv, "w") as file:
            file.write("\n".join(["model\ttype\tmode\tway\tmedian_us\tfloor_us\terror"] + lines) + "\n")


main()
