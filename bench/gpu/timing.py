"""Times of GPU work, taken in turns, and errors. Where the stream is None the work is the CPU's."""
import math
import statistics
import time

import torch


def milliseconds(call, stream):
    if stream is None:
        start = time.perf_counter()
        call()
        return (time.perf_counter() - start) * 1e3
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record(stream)
    call()
    end.record(stream)
    end.synchronize()
    return begin.elapsed_time(end)


class Repeated:
    """Stands for a CUDA graph on the CPU."""

    def __init__(self, call, runs):
        self.replay = repeat(call, runs)


def capture(call, runs, stream):
    if stream is None:
        return Repeated(call, runs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        for _ in range(runs):
            call()
    graph.call = call  # a graph knows addresses only: the tensors that the call holds have to outlive it
    return graph


def repeat(call, runs):
    def repeated():
        for _ in range(runs):
            call()
    return repeated


def take_turns(samplers, rounds):
    """For each way what its sampler returns, once a round. Each round starts with another way."""
    samples = {name: [] for name in samplers}
    names = list(samplers)
    for r in range(rounds):
        for name in names[r % len(names):] + names[:r % len(names)]:
            samples[name].append(samplers[name]())
    return samples


def in_turns(ways, runs, rounds, stream):
    """Microseconds of one run: for each way the samples, one a round."""
    def sampler(call):
        return lambda: milliseconds(call, stream) * 1000 / runs
    for call in ways.values():
        milliseconds(call, stream)
    return take_turns({name: sampler(call) for name, call in ways.items()}, rounds)


def spread(samples):
    """Half the distance between the quartiles."""
    if len(samples) < 2:
        return 0.0
    low, _, high = statistics.quantiles(samples, n=4)
    return (high - low) / 2


def error(y, reference):
    return ((y.double() - reference).norm() / reference.norm()).item()


def geometric_mean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios))) if ratios else math.nan
