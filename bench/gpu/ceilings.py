"""What the device can do at most: matrix products without anything after them, copies, launches; and what of it a
network needs."""
import statistics

import torch

from networks import LARGE, TYPES
from timing import capture, in_turns

COPY = "copy"


def make_product(kind, rows, columns, terms, device):
    """x w^T of random operands, by PyTorch."""
    dtype = TYPES[kind].torch
    x, w = (torch.randn(n, terms, device=device).to(dtype) for n in (rows, columns))
    if kind == "fp8":
        x, w, one = x.to(torch.float8_e4m3fn), w.to(torch.float8_e4m3fn), torch.ones((), device=device)
        return lambda: torch._scaled_mm(x, w.T, scale_a=one, scale_b=one, out_dtype=dtype)
    y = torch.empty(rows, columns, device=device, dtype=dtype)
    return lambda: torch.mm(x, w.T, out=y)


class Ceilings:
    """Measured with the network LARGE's product and a square one of a type, in turns; rates in operations and bytes a
    second. The first is None where PyTorch has no such product."""

    def __init__(self, kind, stream, rounds):
        device, scale = ("cuda", 1) if stream else ("cpu", 32)  # the CPU shows that the program works
        self.kind = kind
        m, (k, n) = LARGE.batch // scale, (w // scale for w in LARGE.widths)
        self.flops, self.calls = {}, {}
        for rows, columns, terms in ((m, n, k), (m, m, m)):
            name, product = f"product {rows}x{columns}x{terms}", make_product(kind, rows, columns, terms, device)
            try:
                product()
            except (RuntimeError, AttributeError, TypeError):
                continue
            self.calls[name], self.flops[name] = product, 2.0 * rows * columns * terms
        source = torch.randn((1 << 28) // scale, device=device)
        target = torch.empty_like(source)
        self.copied = 2.0 * source.numel() * source.element_size()
        self.calls[COPY] = lambda: target.copy_(source)
        samples = in_turns(self.calls, 1, rounds, stream)
        self.take({name: statistics.median(s) for name, s in samples.items()})
        self.launch = self.time_launch(stream)

    def take(self, microseconds):
        """Takes the medians of samples of self.calls, from wherever they were measured."""
        rates = [self.flops[name] / us * 1e6 for name, us in microseconds.items() if name in self.flops]
        self.rate = max(rates, default=None)
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

    def floors(self, case):
        """Microseconds that a network takes at least, for what it moves, computes and launches (a kernel a layer)."""
        floors = {"bytes": case.bytes(self.kind) / self.bandwidth * 1e6, "launches": case.layers * self.launch}
        if self.rate:
            floors["flops"] = case.flops / self.rate * 1e6
        return floors

    def describe(self):
        rate = f"{self.rate / 1e12:.1f} TFLOP/s" if self.rate else "not known"
        return (f"{self.kind}: matrix rate {rate}, copies {self.bandwidth / 1e12:.3f} TB/s, a launch in a graph "
                f"{self.launch:.2f} us")
