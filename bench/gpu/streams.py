"""Streams, captures and other libraries' captures on a GPU: what must hold, and what it costs the host.

    python3 bench/gpu/streams.py --bin DIR/bin [--library LIBHYPATIA-RT.SO] [--only captures,streams,torch,buffers,calls]
                                 [--captures 1000] [--rounds 15]

captures  so many runs captured into graphs of the program's, with shapes that grow, are evicted and tuned in between, and old
          graphs replayed after every one of them: results must be those of other contexts, bit for bit
streams   8 contexts on 8 streams against one context, runs a second
torch     PyTorch captures in the usual (global) mode in one thread, while another loads plans, reserves shapes and runs: no
          capture may fail
buffers   after shapes were reserved: 1 to 12 sets of buffers in turn, microseconds a run on the host, and memory of the device
          that was taken, which must be none; what the runtime said of graphs
calls     microseconds on the host: a run on the context's stream, on another one, behind and before events, from a graph

The exit code is 1 where something does not hold. Give it to compute-sanitizer with --captures 50.
"""
import argparse
import ctypes as c
import hashlib
import os
import random
import statistics
import sys
import tempfile
import threading
import time

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from runtime import HYP_DEVICE_CUDA, HYP_MEMORY_CUDA, Diag, EngineOptions, Library, Log, Tensor, TuneOptions, compile_plan

WIDTH, MOST_ROWS = 256, 2048
ROW = WIDTH * 4  # bytes


class ContextOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("stream", c.c_void_p), ("priority", c.c_int32), ("memory_limit", c.c_uint64),
                ("work_limit", c.c_double), ("shapes", c.c_size_t)]


class RunOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("stream", c.c_void_p), ("wait", c.POINTER(c.c_void_p)), ("wait_count", c.c_size_t),
                ("record", c.c_void_p)]


class Driver:
    """The CUDA driver: every call that fails ends the program."""

    NAMES = {"cuMemAlloc": "_v2", "cuMemFree": "_v2", "cuMemGetInfo": "_v2", "cuStreamDestroy": "_v2", "cuEventDestroy": "_v2",
             "cuCtxPushCurrent": "_v2", "cuMemcpyHtoDAsync": "_v2", "cuMemcpyDtoHAsync": "_v2", "cuStreamBeginCapture": "_v2",
             "cuGraphInstantiate": "WithFlags"}

    def __init__(self):
        self.lib, context, device = c.CDLL("libcuda.so.1"), c.c_void_p(), c.c_int()
        self.cuInit(0)
        self.cuDeviceGet(c.byref(device), 0)
        self.cuDevicePrimaryCtxRetain(c.byref(context), device)
        self.context = context
        self.enter()

    def __getattr__(self, name):
        function = getattr(self.lib, name + self.NAMES.get(name, ""))

        def call(*args):
            result = function(*args)
            if result:
                raise RuntimeError(f"{name}: {result}")
        setattr(self, name, call)
        return call

    def enter(self):
        self.cuCtxPushCurrent(self.context)

    def memory(self, size):
        at = c.c_uint64()
        self.cuMemAlloc(c.byref(at), c.c_size_t(size))
        return at.value

    def stream(self):
        stream = c.c_void_p()
        self.cuStreamCreate(c.byref(stream), 1)  # does not wait for the legacy stream
        return stream

    def event(self):
        event = c.c_void_p()
        self.cuEventCreate(c.byref(event), 2)  # without times
        return event

    def put(self, at, array, stream):
        self.cuMemcpyHtoDAsync(c.c_uint64(at), array.ctypes.data_as(c.c_void_p), c.c_size_t(array.nbytes), stream)
        self.cuStreamSynchronize(stream)

    def digest(self, at, size, stream):
        bytes_ = np.empty(size, np.uint8)
        self.cuMemcpyDtoHAsync(bytes_.ctypes.data_as(c.c_void_p), c.c_uint64(at), c.c_size_t(size), stream)
        self.cuStreamSynchronize(stream)
        return hashlib.sha1(bytes_).digest()

    def free_bytes(self):
        free, total = c.c_size_t(), c.c_size_t()
        self.cuMemGetInfo(c.byref(free), c.byref(total))
        return free.value


def tensor(at, rows):
    return Tensor(None, at, rows * ROW, TensorProto.FLOAT, HYP_MEMORY_CUDA, 2, 0, (c.c_int64 * 8)(rows, WIDTH))


class Engine:
    def __init__(self, library, path):
        self.library, self.lib, self.said = library, library.lib, []
        self.log = Log(lambda line, _: self.said.append(line.decode()))
        options = EngineOptions(size=c.sizeof(EngineOptions), device=HYP_DEVICE_CUDA, log=c.cast(self.log, c.c_void_p))
        self.handle, diag = c.c_void_p(), Diag()
        library.check(self.lib.hyp_engine_load_file(path.encode(), c.byref(options), c.byref(self.handle), c.byref(diag)), diag)

    def close(self):
        self.lib.hyp_engine_destroy(self.handle)


class Context:
    def __init__(self, engine, stream=None, shapes=0):
        self.lib, self.diag, self.handle, self.check = engine.lib, Diag(), c.c_void_p(), engine.library.check
        options = ContextOptions(size=c.sizeof(ContextOptions), stream=stream, shapes=shapes)
        self.must(self.lib.hyp_context_create(engine.handle, c.byref(options), c.byref(self.handle), c.byref(self.diag)))

    def must(self, status):
        self.check(status, self.diag)

    def stream(self):
        return c.c_void_p(self.lib.hyp_context_stream(self.handle))

    def reserve(self, rows):
        self.must(self.lib.hyp_context_reserve(self.handle, c.byref(tensor(0, rows)), c.c_size_t(1), c.byref(self.diag)))

    def caller(self, x, y, rows, options=None):
        """A function that runs: all that ctypes does once is done."""
        a, b, diag = tensor(x, rows), tensor(y, rows), c.byref(self.diag)
        args = (self.handle, c.byref(a), c.c_size_t(1), c.byref(b), c.c_size_t(1), c.byref(options) if options else None, diag)
        call, keep = self.lib.hyp_context_run_with, (a, b, options)

        def run(_=keep):
            if call(*args):
                raise RuntimeError(self.diag.message.decode())
        return run

    def run(self, x, y, rows, options=None):
        self.caller(x, y, rows, options)()

    def synchronize(self):
        self.must(self.lib.hyp_context_synchronize(self.handle, c.byref(self.diag)))

    def tune(self, rows, seconds):
        options = TuneOptions(size=c.sizeof(TuneOptions), seconds=seconds)
        self.must(self.lib.hyp_context_tune(self.handle, c.byref(tensor(0, rows)), c.c_size_t(1), c.byref(options), None,
                                            c.byref(self.diag)))

    def close(self):
        self.lib.hyp_context_destroy(self.handle)


def make_model(path):
    """256-512-512-256, relu, any batch."""
    rng, sizes, nodes, weights = np.random.default_rng(1), [WIDTH, 512, 512, WIDTH], [], []
    for i, (k, n) in enumerate(zip(sizes, sizes[1:])):
        weights.append(numpy_helper.from_array((rng.standard_normal((k, n)) / np.sqrt(k)).astype(np.float32), f"w{i}"))
        nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"p{i}"]))
        nodes.append(helper.make_node("Relu", [f"p{i}"], [f"x{i + 1}"]))
    io = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", WIDTH]) for name in ("x0", f"x{len(sizes) - 1}")]
    graph = helper.make_graph(nodes, "mlp", io[:1], io[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


class Bench:
    def __init__(self, args, plan):
        self.args, self.plan, self.cuda = args, plan, Driver()
        self.library = Library(args.library)
        lib = self.library.lib
        lib.hyp_context_stream.restype = c.c_void_p
        self.engine, self.wrong = Engine(self.library, plan), 0
        self.x, self.y = self.cuda.memory(MOST_ROWS * ROW), self.cuda.memory(MOST_ROWS * ROW)
        self.stream = self.cuda.stream()
        self.cuda.put(self.x, np.random.default_rng(2).standard_normal((MOST_ROWS, WIDTH)).astype(np.float32), self.stream)

    def need(self, holds, what):
        if not holds:
            self.wrong += 1
            print(f"  WRONG: {what}")

    def host_seconds(self, run, wait, calls=200):
        """Of a call, the device waited for outside of the time: the median of rounds."""
        rounds = []
        for _ in range(self.args.rounds):
            begin = time.perf_counter()
            for _ in range(calls):
                run()
            rounds.append((time.perf_counter() - begin) / calls)
            wait()
        return statistics.median(rounds)

    # ---- what must hold

    def expected(self, rows, known={}):
        """By a context that does nothing else, op by op."""
        if rows not in known:
            context = Context(self.engine, self.stream)
            context.run(self.x, self.y, rows)
            known[rows] = self.cuda.digest(self.y, rows * ROW, self.stream)
            context.close()
        return known[rows]

    def captures(self):
        cuda, random_ = self.cuda, random.Random(3)
        context = Context(self.engine, self.stream, shapes=4)
        graphs, begin = [], time.perf_counter()
        for i in range(self.args.captures):
            rows = 1 + i // 10 * 17 % (MOST_ROWS - 8) + i % 3
            graph, executable = c.c_void_p(), c.c_void_p()
            if i % 2:
                context.reserve(rows)  # else shapes are prepared within the capture
            cuda.cuStreamBeginCapture(self.stream, 0)
            context.run(self.x, self.y, rows)
            cuda.cuStreamEndCapture(self.stream, c.byref(graph))
            cuda.cuGraphInstantiate(c.byref(executable), graph, c.c_ulonglong(0))
            cuda.cuGraphDestroy(graph)
            graphs.append((executable, rows))
            if i == self.args.captures // 2:
                context.tune(64, 2)
            context.run(self.x, self.y, min(rows + 5, MOST_ROWS))
            for old, of in [graphs[-1], graphs[0], random_.choice(graphs)]:
                cuda.cuMemsetD8Async(c.c_uint64(self.y), 0xff, c.c_size_t(of * ROW), self.stream)
                cuda.cuGraphLaunch(old, self.stream)
                got = cuda.digest(self.y, of * ROW, self.stream)
                # Tuning, and what is prepared after it, may do products by other algorithms.
                if i < self.args.captures // 2:
                    self.need(got == self.expected(of), f"a graph of {of} rows after {i} captures")
        kept = context.lib.hyp_context_scratch_bytes(context.handle)
        for executable, _ in graphs:
            cuda.cuGraphExecDestroy(executable)
        context.lib.hyp_context_release_captured(context.handle)
        left = context.lib.hyp_context_scratch_bytes(context.handle)
        self.need(left < kept, "release of what graphs used")
        context.close()
        print(f"  {len(graphs)} captures in {time.perf_counter() - begin:.1f} s; {kept / 2**20:.0f} MiB kept for graphs, then "
              f"{left / 2**20:.0f}")

    def streams(self):
        cuda, count, rows, runs = self.cuda, 8, 16, 2000
        contexts = [Context(self.engine) for _ in range(count)]
        places = [cuda.memory(rows * ROW) for _ in range(count)]
        calls = [context.caller(self.x, y, rows) for context, y in zip(contexts, places)]
        for context in contexts:
            context.reserve(rows)

        def measure(list_):
            begin = time.perf_counter()
            for i in range(runs):
                list_[i % len(list_)]()
            for context in contexts:
                context.synchronize()
            return runs / (time.perf_counter() - begin)
        measure(calls)
        alone = statistics.median(measure(calls[:1]) for _ in range(self.args.rounds))
        together = statistics.median(measure(calls) for _ in range(self.args.rounds))
        for context, y in zip(contexts, places):
            self.need(cuda.digest(y, rows * ROW, context.stream()) == self.expected(rows), "a result of one of 8 streams")
            context.close()
        print(f"  {rows} rows: one context {alone:.0f} runs a second, 8 on 8 streams {together:.0f}, from one thread")

    def torch(self):
        if not torch.cuda.is_available():
            print("  skipped: PyTorch has no GPU here")
            return
        done, failed, count = threading.Event(), [], [0]
        a, b = torch.randn(64, 256, device="cuda"), torch.randn(256, 256, device="cuda")

        def capture():
            torch.relu(a @ b)  # PyTorch makes cuBLAS's handle of a thread when it is first wanted, which cannot be captured
            torch.cuda.synchronize()
            try:
                with torch.cuda.stream(torch.cuda.Stream()):
                    torch.relu(a @ b)
                    torch.cuda.current_stream().synchronize()
                    while not done.is_set():
                        graph = torch.cuda.CUDAGraph()  # torch.cuda.graph waits for the device, which no capture of ours allows
                        graph.capture_begin()
                        for _ in range(20):
                            y = torch.relu(a @ b)
                        graph.capture_end()
                        graph.replay()
                        torch.cuda.current_stream().synchronize()
                        count[0] += 1
            except Exception as error:  # noqa: BLE001 - told of below
                failed.append(error)
        thread = threading.Thread(target=capture)
        thread.start()
        host = np.zeros((MOST_ROWS, WIDTH), np.float32)
        try:
            for i in range(20):
                engine = Engine(self.library, self.plan)
                context = Context(engine, shapes=4)
                for rows in range(1 + i, 1000, 83):
                    context.reserve(rows)
                    x, y = tensor(host.ctypes.data, rows), tensor(host.ctypes.data, rows)
                    y.data, x.memory, y.memory = host.ctypes.data + 1024 * ROW, 0, 0
                    context.must(context.lib.hyp_context_run(context.handle, c.byref(x), c.c_size_t(1), c.byref(y),
                                                             c.c_size_t(1), c.byref(context.diag)))
                context.close()
                engine.close()
        except RuntimeError as error:
            self.need(False, f"preparing while PyTorch captures: {error}")
        done.set()
        thread.join()
        self.need(not failed and count[0] > 0, f"captures of PyTorch's while shapes are prepared: {failed}")
        print(f"  {count[0]} captures while 20 plans were loaded and 240 shapes prepared")

    # ---- what it costs

    def buffers(self):
        cuda, rows = self.cuda, 16
        context = Context(self.engine)
        places = [(cuda.memory(rows * ROW), cuda.memory(rows * ROW)) for _ in range(12)]
        context.reserve(rows)
        context.run(self.x, self.y, rows)
        context.synchronize()
        told, free = len(self.engine.said), cuda.free_bytes()
        for count in (1, 2, 4, 6, 12):
            calls = [context.caller(x, y, rows) for x, y in places[:count]]
            for call in calls * 3:
                call()
            turn = [0]

            def run():
                turn[0] += 1
                calls[turn[0] % count]()
            print(f"  {count:2} sets in turn: {1e6 * self.host_seconds(run, context.synchronize):.2f} us a run on the host")
        self.need(cuda.free_bytes() == free, f"memory of the device that runs took: {free - cuda.free_bytes()} bytes")
        for line in self.engine.said[told:]:
            print("  said:", line)
        self.need(not any("made anew" in line or "step by step" in line for line in self.engine.said), "graphs of reserved shapes")
        context.close()

    def calls(self):
        cuda, rows = self.cuda, 16
        other, first, second = cuda.stream(), cuda.event(), cuda.event()
        cuda.cuEventRecord(first, other)
        context = Context(self.engine)
        context.reserve(rows)
        waits = (c.c_void_p * 1)(first)
        size = c.sizeof(RunOptions)
        ways = {"the context's stream": None,
                "another stream": RunOptions(size=size, stream=other),
                "events before and behind": RunOptions(size=size, wait=waits, wait_count=1, record=second),
                "another stream and events": RunOptions(size=size, stream=other, wait=waits, wait_count=1, record=second)}
        for name, options in ways.items():
            run = context.caller(self.x, self.y, rows, options)
            for _ in range(4):
                run()
            print(f"  {name}: {1e6 * self.host_seconds(run, context.synchronize):.2f} us")
        context.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--library")
    parser.add_argument("--only", default="captures,streams,torch,buffers,calls")
    parser.add_argument("--captures", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    args.library = args.library or os.path.join(args.bin, "../lib/libhypatia-rt.so")
    with tempfile.TemporaryDirectory() as folder:
        model, plan = os.path.join(folder, "mlp.onnx"), os.path.join(folder, "mlp.plan")
        make_model(model)
        compile_plan(f"{args.bin}/hypatiac", model, plan)
        bench = Bench(args, plan)
        print(bench.library.lib.hyp_engine_device_name(bench.engine.handle).decode())
        for name in args.only.split(","):
            print(name)
            getattr(bench, name)()
    sys.exit(1 if bench.wrong else 0)


if __name__ == "__main__":
    main()
