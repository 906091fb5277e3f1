"""Times of GPU work, taken in turns, and errors."""
import statistics

import torch


def milliseconds(call, stream):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record(stream)
    call()
    end.record(stream)
    end.synchronize()
    return begin.elapsed_time(end)


def capture(call, runs, stream):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        for _ in range(runs):
            call()
    return graph


def repeat(call, runs):
    def repeated():
        for _ in range(runs):
            call()
    return repeated


def in_turns(ways, runs, rounds, stream):
    """Microseconds of one run: for each way the samples, one a round. Each round starts with another way."""
    samples = {name: [] for name in ways}
    names = list(ways)
    for name in names:
        milliseconds(ways[name], stream)
    for r in range(rounds):
        for name in names[r % len(names):] + names[:r % len(names)]:
            samples[name].append(milliseconds(ways[name], stream) * 1000 / runs)
    return samples


def spread(samples):
    """Half the distance between the quartiles."""
    low, _, high = statistics.quantiles(samples, n=4)
    return (high - low) / 2


def error(y, reference):
    return ((y.double() - reference).norm() / reference.norm()).item()
