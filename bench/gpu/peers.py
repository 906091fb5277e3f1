"""What Hypatia is compared with: torch.compile and JAX, compiled ahead in processes of their own.

Compiling with all tuning takes them seconds a network. So several processes compile, each network's results going to
the caches that both libraries keep on disk, and a time limit holds for all; the process that measures then only
loads. The candidates of torch.compile's tuning are still timed alone: processes take turns on the GPU. Networks that
no time was left for are named.
"""
import multiprocessing
import os
import sys
import time
import traceback

import torch

from networks import Network

TOO_LATE = "not run, no time left to compile"
# As they are called: with torch.compile's own CUDA graphs. In a graph of ours: without them.
TORCH_MODES = {"graph": "max-autotune-no-cudagraphs", "call": "max-autotune"}
JAX_PRECISION = {"fp32": "highest", "tf32": "tensorfloat32"}


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
        case = network.case

        def forward(x, *parameters):
            layers = list(zip(parameters[::2], parameters[1::2]))
            for i, (w, b) in enumerate(layers):
                x = x @ w + b
                if case.last_relu or i + 1 < len(layers):
                    x = jax.numpy.maximum(x, 0)
            return x

        def array(tensor):
            return jax.dlpack.from_dlpack(tensor.detach())
        self.arguments = [array(network.x)]
        for w, b in zip(network.weights, network.biases):
            self.arguments += [array(w.T.contiguous()), array(b)]
        self.forward = jax.jit(forward)
        with jax.default_matmul_precision(JAX_PRECISION.get(network.kind, "default")):
            self.result = self.forward(*self.arguments)  # compiles
        self.result.block_until_ready()

    def microseconds(self, runs):
        """Calls one after the other, and one wait in the end, by the host's clock."""
        start = time.perf_counter()
        for _ in range(runs):
            y = self.forward(*self.arguments)
        y.block_until_ready()
        return (time.perf_counter() - start) * 1e6 / runs


def precompile_jax(case, kind, device):
    Jax(Network(case, kind, device))


# ---- compiling in several processes -------------------------------------------------------------------------------

def time_alone(lock):
    """Makes the timing of torch.compile's candidates wait for that of other processes. False where it cannot."""
    try:
        from torch._inductor.runtime import benchmarking
        kind = type(benchmarking.benchmarker)
        plain = kind.benchmark_gpu

        def one_at_a_time(*args, **kwargs):
            with lock:
                return plain(*args, **kwargs)
        kind.benchmark_gpu = one_at_a_time
        return True
    except (ImportError, AttributeError):
        return False


def result_path(folder, peer, index):
    return os.path.join(folder, f"{peer}-{index}")


def compile_some(peer, rows, next_row, lock, folder, device, threads):
    """The work of one process: leaves a file for every row, with what went wrong in it."""
    log = os.open(os.path.join(folder, f"log-{os.getpid()}"), os.O_CREAT | os.O_WRONLY)
    os.dup2(log, 1)
    os.dup2(log, 2)
    set_environment(folder)
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = str(threads)
    exclusive = peer == "jax" or not time_alone(lock)
    while multiprocessing.parent_process().is_alive():
        with next_row.get_lock():
            index = next_row.value
            next_row.value += 1
        if index >= len(rows):
            return
        message = ""
        try:
            if exclusive:
                lock.acquire()
            (precompile_jax if peer == "jax" else precompile_torch)(*rows[index], device)
        except Exception as failure:
            traceback.print_exc()
            message = short(failure)
        finally:
            if exclusive:
                lock.release()
        with open(result_path(folder, peer, index) + ".new", "w") as file:
            file.write(message)
        os.rename(result_path(folder, peer, index) + ".new", result_path(folder, peer, index))


def compile_ahead(peers, rows, seconds, folder, device):
    """Compiles (case, type) rows, in their order, for as long as there is time. Returns {(peer, row): what went wrong,
    "" for nothing}."""
    spawn = multiprocessing.get_context("spawn")
    lock, cores, end = spawn.RLock(), os.cpu_count() or 1, time.monotonic() + seconds
    next_row = {peer: spawn.Value("i", 0) for peer in peers}
    processes = []
    for peer in peers:
        count = max(1, min(3, cores // 5)) if peer == "torch.compile" else 1
        arguments = (peer, rows, next_row[peer], lock, folder, device, max(1, cores // (count + 1)))
        processes += [(peer, spawn.Process(target=compile_some, args=arguments)) for _ in range(count)]
    for _, process in processes:
        process.start()
    for _, process in processes:
        process.join(max(0, end - time.monotonic()))
    reasons = {peer: TOO_LATE for peer in peers}
    for peer, process in processes:
        if process.exitcode:
            reasons[peer] = f"the process that compiles it ended with {process.exitcode}"
        process.terminate()
    for _, process in processes:
        process.join(5)
        if process.is_alive():
            process.kill()
    results = {}
    for peer in peers:
        for index, row in enumerate(rows):
            path = result_path(folder, peer, index)
            results[peer, row] = open(path).read() if os.path.exists(path) else reasons[peer]
    return results


def missing(peer):
    """Why a peer cannot be used at all; empty when it can."""
    try:
        __import__("jax" if peer == "jax" else "torch._inductor")
        return ""
    except Exception as failure:
        return short(failure)


if __name__ == "__main__":
    sys.exit("this is a part of linear_relu.py")
