"""What Hypatia is compared with: torch.compile and JAX, compiled ahead in processes of their own.

Compiling with all tuning takes them seconds a network. So several processes compile, each network's results going to
the caches that both libraries keep on disk, and a time limit holds for all; the process that measures then only
loads. What is timed for tuning is still timed alone: processes take turns on the GPU. Networks that no time was left
for are named.
"""
import contextlib
import multiprocessing
import os
import statistics
import sys
import time
import traceback

import torch

from networks import Network

TOO_LATE = "not run, no time left to compile"
# As they are called: with torch.compile's own CUDA graphs. In a graph of ours: without them.
TORCH_MODES = {"graph": "max-autotune-no-cudagraphs", "call": "max-autotune"}
JAX_PRECISION = {"fp32": "highest", "tf32": "tensorfloat32"}  # else its default, which matters to no 16-bit type


def set_environment(folder):
    """Before JAX and torch.compile are used, in every process: where they keep what they compiled, and how much memory
    JAX takes."""
    os.environ.update({
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, "inductor"),
        "JAX_COMPILATION_CACHE_DIR": os.path.join(folder, "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "PYTHONWARNINGS": "ignore::UserWarning",  # of semaphores that ended processes leave
    })


def set_precision(kind):
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"


def short(failure):
    """One line of an exception, for a table."""
    lines = [line for line in str(failure).splitlines() if line.strip()]
    return f"{type(failure).__name__}: {lines[0].strip()[:120]}" if lines else type(failure).__name__


# ---- torch.compile ------------------------------------------------------------------------------------------------

def torch_compile(network):
    """The network compiled for its input, by mode of calling; the first calls, which compile and record, are made. What
    was compiled before is forgotten, or else torch.compile would soon give up on the next network of the same class."""
    import torch._dynamo
    torch._dynamo.reset()
    torch._dynamo.mark_static_address(network.x)  # its CUDA graphs need no copy then, as a plan needs none
    compiled = {}
    with torch.no_grad():
        for how, mode in TORCH_MODES.items():
            compiled[how] = torch.compile(network, mode=mode, dynamic=False)
            for _ in range(3):
                compiled[how](network.x)
    return compiled


def precompile_torch(case, kind, device):
    set_precision(kind)
    torch_compile(Network(case, kind, device))


# ---- JAX ------------------------------------------------------------------------------------------------------------

class Jax:
    """A network as a jitted function and its arguments, which are the network's tensors where they lie."""

    def __init__(self, network):
        import jax
        case, precision = network.case, JAX_PRECISION.get(network.kind)

        def forward(x, *parameters):
            layers = list(zip(parameters[::2], parameters[1::2]))
            for i, (w, b) in enumerate(layers):
                x = jax.numpy.matmul(x, w, precision=precision) + b
                if case.last_relu or i + 1 < len(layers):
                    x = jax.numpy.maximum(x, 0)
            return x

        def array(tensor):
            return jax.dlpack.from_dlpack(tensor.detach())
        self.arguments = [array(network.x)]
        for w, b in zip(network.weights, network.biases):
            self.arguments += [array(w.T.contiguous()), array(b)]
        self.forward = jax.jit(forward)
        self.result = self.forward(*self.arguments)  # compiles
        self.result.block_until_ready()

    def microseconds(self, runs):
        """Calls one after the other, and one wait in the end, by the host's clock."""
        start = time.perf_counter()
        for _ in range(runs):
            y = self.forward(*self.arguments)
        y.block_until_ready()
        return (time.perf_counter() - start) * 1e6 / runs


# ---- compiling in several processes -------------------------------------------------------------------------------

class Turns:
    """Who may use the GPU while several processes compile. JAX comes first, since its own tuning cannot be told to
    wait: several processes at once, but large networks, which keep the GPU busy, one after the other. From then on
    candidates of torch.compile are timed, one at a time."""

    def __init__(self, spawn):
        self.jax_large, self.jax_done, self.torch = spawn.Lock(), spawn.Event(), spawn.RLock()


def wait_for_turn(turns):
    """Makes torch.compile time its candidates in its turn. False where it has a way to time that is not known here."""
    try:
        from torch._inductor.runtime import benchmarking
        kind = type(benchmarking.benchmarker)
        plain = kind.benchmark_gpu

        def one_at_a_time(*args, **kwargs):
            turns.jax_done.wait()
            with turns.torch:
                return plain(*args, **kwargs)
        kind.benchmark_gpu = one_at_a_time
        return True
    except (ImportError, AttributeError):
        return False


def compile_jax(row, device, turns):
    with turns.jax_large if row[0].flops > 1e10 else contextlib.nullcontext():
        Jax(Network(*row, device))


def compile_torch(row, device, turns, in_turn):
    if in_turn:
        precompile_torch(*row, device)
        return
    turns.jax_done.wait()
    with turns.torch:
        precompile_torch(*row, device)


def result_path(folder, peer, index):
    return os.path.join(folder, f"{peer}-{index}")


def compile_some(peer, rows, next_row, turns, folder, device, threads):
    """The work of one process: leaves a file for every row, with the seconds it took and what went wrong."""
    log = os.open(os.path.join(folder, f"log-{os.getpid()}"), os.O_CREAT | os.O_WRONLY)
    os.dup2(log, 1)
    os.dup2(log, 2)
    set_environment(folder)
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = str(threads)
    in_turn = peer == "torch.compile" and wait_for_turn(turns)
    while multiprocessing.parent_process().is_alive():
        with next_row.get_lock():
            index = next_row.value
            next_row.value += 1
        if index >= len(rows):
            return
        start, message = time.monotonic(), ""
        try:
            if peer == "jax":
                compile_jax(rows[index], device, turns)
            else:
                compile_torch(rows[index], device, turns, in_turn)
        except Exception as failure:
            traceback.print_exc()
            message = short(failure)
        path = result_path(folder, peer, index)
        with open(path + ".new", "w") as file:
            file.write(f"{time.monotonic() - start:.1f} {message}")
        os.rename(path + ".new", path)


def end_processes(processes):
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(5)
        if process.is_alive():
            process.kill()


class Ahead:
    """What compiling ahead came to: why[peer, row] is what went wrong, "" for nothing; seconds[peer] a list."""

    def __init__(self):
        self.why, self.seconds = {}, {}

    def read(self, peer, rows, folder, reason):
        self.seconds[peer] = []
        for index, row in enumerate(rows):
            self.why[peer, row] = reason
            if os.path.exists(result_path(folder, peer, index)):
                with open(result_path(folder, peer, index)) as file:
                    seconds, self.why[peer, row] = file.read().split(" ", 1)
                self.seconds[peer].append(float(seconds))

    def describe(self):
        done = {peer: [why for (p, _), why in self.why.items() if p == peer] for peer in self.seconds}
        return "; ".join(f"{peer} {done[peer].count('')} of {len(done[peer])} networks, "
                         f"{statistics.median(seconds or [0]):.1f} s each" for peer, seconds in self.seconds.items())


def compile_ahead(peers, rows, seconds, folder, device):
    """Compiles (case, type) rows, in their order, for as long as there is time."""
    spawn = multiprocessing.get_context("spawn")
    turns, cores, start = Turns(spawn), os.cpu_count() or 1, time.monotonic()
    counts = {"jax": max(1, min(4, cores // 4)), "torch.compile": max(1, min(5, cores // 3))}
    next_row = {peer: spawn.Value("i", 0) for peer in peers}
    processes = {peer: [spawn.Process(target=compile_some, args=(peer, rows, next_row[peer], turns, folder, device,
                                                                 max(1, cores // counts[peer] + 1)))
                        for _ in range(counts[peer])] for peer in peers}
    for process in sum(processes.values(), []):
        process.start()
    result = Ahead()
    for peer, share in (("jax", 0.5), ("torch.compile", 1)):
        for process in processes.get(peer, []):
            process.join(max(0, start + share * seconds - time.monotonic()))
        ended = [process.exitcode for process in processes.get(peer, []) if process.exitcode]
        end_processes(processes.get(peer, []))
        turns.jax_done.set()
        if peer in peers:
            result.read(peer, rows, folder, f"a process that compiles it ended with {ended[0]}" if ended else TOO_LATE)
    return result


def missing(peer):
    """Why a peer cannot be used at all; empty when it can."""
    try:
        __import__("jax" if peer == "jax" else "torch._inductor")
        return ""
    except Exception as failure:
        return short(failure)


if __name__ == "__main__":
    sys.exit("this is a part of linear_relu.py")
