"""What the device can do at most: matrix products without anything after them, copies, launches; and what of it a
network needs."""
import statistics

import torch

from networks import LARGE, TYPES
from timing import capture, in_turns

COPY = "copy"


class Ceilings:
    """Measured with the network LARGE's product and a square one of a type, in turns; rates in operations and bytes a
    second."""

    def __init__(self, kind, stream, rounds):
        device, scale = ("cuda", 1) if stream else ("cpu", 32)  # the CPU shows that the program works
        dtype = TYPES[kind].torch
        m, (k, n) = LARGE.batch // scale, (w // scale for w in LARGE.widths)
        self.flops, self.calls = {}, {}
        for rows, columns, terms in ((m, n, k), (m, m, m)):
            x = torch.randn(rows, terms, device=device).to(dtype)
            w = torch.randn(columns, terms, device=device).to(dtype)
            y = torch.empty(rows, columns, device=device, dtype=dtype)
            name = f"product {rows}x{columns}x{terms}"
            self.calls[name] = lambda x=x, w=w, y=y: torch.mm(x, w.T, out=y)
            self.flops[name] = 2.0 * rows * columns * terms
        source = torch.randn((1 << 28) // scale, device=device)
        target = torch.empty_like(source)
        self.copied = 2.0 * source.numel() * source.element_size()
        self.calls[COPY] = lambda: target.copy_(source)
        runs = 2
        samples = in_turns(self.calls, runs, rounds, stream)
        self.take({name: statistics.median(s) for name, s in samples.items()})
        self.launch = self.time_launch(stream)

    def take(self, microseconds):
        """Takes the medians of samples of self.calls, from wherever they were measured."""
        self.rate = max(self.flops[name] / us for name, us in microseconds.items() if name in self.flops) * 1e6
        self.bandwidth = self.copied / microseconds[COPY] * 1e6

    @staticmethod
    def time_launch(stream):
        """Microseconds that one more kernel takes in a CUDA graph, though it does nothing."""
        if stream is None:
            return 0.0
        many, few = 200, 100
        graphs = {runs: capture(lambda: torch.cuda._sleep(0), runs, stream).replay for runs in (many, few)}
        samples = in_turns(graphs, 1, 9, stream)
        return (statistics.median(samples[many]) - statistics.median(samples[few])) / (many - few)

    def floors(self, case, element):
        """Microseconds that a network takes at least, for what it moves, computes and launches (a kernel a layer)."""
        return {"bytes": case.bytes(element) / self.bandwidth * 1e6, "flops": case.flops / self.rate * 1e6,
                "launches": case.layers * self.launch}

    def describe(self):
        return (f"matrix rate {self.rate / 1e12:.1f} TFLOP/s, copies {self.bandwidth / 1e12:.3f} TB/s, "
                f"a launch in a graph {self.launch:.2f} us")
