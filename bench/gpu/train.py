"""Whole training steps (forward, loss, backward, AdamW) on a GPU, as plans, beside PyTorch's.

    python3 bench/gpu/train.py --bin DIR/bin [--library LIBHYPATIA-RT.SO] [--only mlp,gpt2,resnet18] [--types fp32,bf16]
                               [--rounds 7] [--tune 20] [--compile [MODE]] [--steps 20]

mlp       1024 rows, 4096 -> 16384 -> 4096, ReLU between, mean squared error
gpt2      GPT-2 small (12 layers of 768) from random weights, 8 x 512 tokens, the next token's cross-entropy
resnet18  64 images of 224 x 224, 1000 classes, batch normalization of the batch

The models are PyTorch's; each is exported, and both sides begin with the same weights and see the same batch. In bf16 parameters
and AdamW's state stay in 32 bits (PyTorch: autocast). A step gives its loss and nothing else. Ways in turns: the plan untuned and tuned; PyTorch's eager operators with fused
AdamW, called and from a CUDA graph; with --compile torch.compile in this mode (max-autotune-no-cudagraphs), likewise. Medians of rounds; "memory" is what the device's
allocators held at most (a plan's: weights, variables, scratch memory; PyTorch's: with its parameters, and gradients
that were there before). "loss" is the largest difference of the two losses over
--steps steps from the same start, relative. The floor is that of the products: two operations a term, thrice the forward pass.
"""
import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
import warnings

import torch
from torch import nn

from runtime import Library, Plan, compile_plan
from timing import capture, in_turns, milliseconds, repeat

RATE = 1e-3


class Mlp(nn.Module):
    def __init__(self, sizes=(4096, 16384, 4096)):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(k, n) for k, n in zip(sizes, sizes[1:]))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x)


class Gpt2Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.na, self.nb = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, mask):
        q, k, v = (t.reshape(*x.shape[:2], self.heads, -1).transpose(1, 2) for t in self.qkv(self.na(x)).chunk(3, -1))
        scores = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5 + mask
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))
        return x + self.down(nn.functional.gelu(self.up(self.nb(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """Logits [tokens, words], so that classes are axis 1; the table of words is that of the logits, too."""

    def __init__(self, words=50257, length=512, width=768, layers=12, heads=12):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Gpt2Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.words.weight, std=0.02)
        self.register_buffer("mask", torch.full((length, length), -1e4).triu(1), persistent=False)

    def forward(self, ids):
        x = self.words(ids) + self.places.weight
        for block in self.blocks:
            x = block(x, self.mask)
        return (self.norm(x) @ self.words.weight.T).reshape(-1, self.words.weight.shape[0])


class Block(nn.Module):
    def __init__(self, k, n, stride):
        super().__init__()
        self.a, self.b = nn.Conv2d(k, n, 3, stride, 1, bias=False), nn.Conv2d(n, n, 3, 1, 1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(n), nn.BatchNorm2d(n)
        self.side = nn.Sequential(nn.Conv2d(k, n, 1, stride, bias=False), nn.BatchNorm2d(n)) if stride > 1 else nn.Identity()

    def forward(self, x):
        return torch.relu(self.nb(self.b(torch.relu(self.na(self.a(x))))) + self.side(x))


class Resnet18(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
        self.start = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(*(Block(*s) for s in sizes))
        self.end = nn.Linear(512, 1000)

    def forward(self, x):
        return self.end(self.blocks(self.start(x)).mean((2, 3)))


def words():
    ids = torch.randint(50257, (8, 512))
    return ids, torch.cat([ids[:, 1:], torch.full((8, 1), -100)], 1).reshape(-1)


# name: module, input and target, loss, PyTorch's loss, operations of the forward pass
CASES = {
    "mlp": (Mlp, lambda: (torch.randn(1024, 4096), torch.randn(1024, 4096)), "mse", nn.functional.mse_loss,
            2 * 1024 * 2 * 4096 * 16384),
    "gpt2": (Gpt2, words, "cross-entropy", nn.functional.cross_entropy,
             2 * 4096 * (12 * (12 * 768 ** 2 + 2 * 512 * 768) + 768 * 50257)),
    "resnet18": (Resnet18, lambda: (torch.randn(64, 3, 224, 224), torch.randint(1000, (64,))), "cross-entropy",
                 nn.functional.cross_entropy, 64 * 3.63e9),
}


def export(module, x, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (x,), path, dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                          input_names=["x"], output_names=["y"], opset_version=17)


class Torch:
    """A step of PyTorch's."""

    def __init__(self, module, loss, kind, x, target, mode=None):
        self.module, self.x, self.target = module, x, target
        forward = lambda x, target: loss(module(x).float(), target)  # noqa: E731
        self.forward = torch.compile(forward, mode=mode) if mode else forward
        self.optimizer = torch.optim.AdamW(module.parameters(), RATE, fused=True, capturable=True)
        self.narrow = kind == "bf16"
        self.loss = torch.zeros((), device="cuda")

    def run(self):
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False) if self.narrow else contextlib.nullcontext():
            loss = self.forward(self.x, self.target)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        self.loss.copy_(loss.detach())


def compile_step(args, onnx, plan, loss, kind):
    begin = time.perf_counter()
    compile_plan(f"{args.bin}/hypatiac", onnx, plan, "--precision", kind, "--verify", "off", "--train", loss,
                 "--optimizer", "adamw", "--loss-only", target=args.target)
    return time.perf_counter() - begin


def used():
    free, total = torch.cuda.mem_get_info()
    return (total - free) / 2 ** 30


def measure(args, library, name, kind, folder, stream):
    make, inputs, loss, torch_loss, flops = CASES[name]
    torch.manual_seed(1)
    module = make().train()
    x, target = inputs()
    onnx, plan, tuned = (os.path.join(folder, f"{name}{end}") for end in (".onnx", ".bin", ".tuned.bin"))
    export(module, x, onnx)
    seconds = compile_step(args, onnx, plan, loss, kind)
    x, target, rate = x.cuda(), target.cuda(), torch.tensor(RATE, device="cuda")
    start = {k: v.clone() for k, v in module.state_dict().items()}
    memory, ways, runs = {}, {}, {}

    def open_plan(way, path):
        before = used()
        outputs = [torch.zeros((), device="cuda")]
        ways[way] = Plan(library, path, stream.cuda_stream, [x, target, rate], outputs)
        for _ in range(3):
            ways[way].run()
        stream.synchronize()
        memory[way] = used() - before
        return outputs

    outputs = open_plan("plan", plan)
    ways["plan"].tune(args.tune, tuned)
    ways.pop("plan").close()
    outputs = open_plan("plan", plan)
    again = Plan(library, tuned, stream.cuda_stream, [x, target, rate], outputs)
    module.load_state_dict(start)
    module.cuda()
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    eager = Torch(module, torch_loss, kind, x, target)
    worst = 0.0
    for _ in range(args.steps):
        again.run()
        eager.run()
        stream.synchronize()
        worst = max(worst, abs(outputs[0].item() - eager.loss.item()) / abs(eager.loss.item()))
    parameters = sum(p.numel() * p.element_size() for p in module.parameters()) / 2 ** 30
    memory["eager"] = (torch.cuda.max_memory_allocated() - held) / 2 ** 30 + parameters
    ways["tuned"] = again
    calls = {"plan": ways["plan"].run, "tuned": again.run, "eager": eager.run}
    calls["eager, in a graph"] = capture(eager.run, 1, stream).replay
    if args.compile:
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        compiled = Torch(module, torch_loss, kind, x, target, args.compile)
        for _ in range(5):
            compiled.run()
        memory["compiled"] = (torch.cuda.max_memory_allocated() - held) / 2 ** 30 + 2 * parameters
        calls["compiled"] = compiled.run
        calls["compiled, in a graph"] = capture(compiled.run, 1, stream).replay
    once = milliseconds(calls["tuned"], stream)
    count = max(1, min(20, int(100 / max(once, 0.1))))
    samples = in_turns({way: repeat(call, count) for way, call in calls.items()}, count, args.rounds, stream)
    times = {way: statistics.median(s) / 1000 for way, s in samples.items()}
    best = min(t for way, t in times.items() if way not in ("plan", "tuned"))
    print(f"| {name} | {kind} | {len(again.steps())} | {seconds:.1f} s | "
          + " | ".join(f"{times[w]:.2f} ms" if w in times else "-" for w in COLUMNS)
          + f" | {best / times['tuned']:.2f}x | {3 * flops / (times['tuned'] * 1e9):.0f} | "
          + " | ".join(f"{memory[w]:.2f}" if w in memory else "-" for w in ("plan", "eager", "compiled")) + f" | {worst:.1e} |",
          flush=True)
    if args.slowest:
        steps = sorted(zip(again.time_steps(), again.steps()), reverse=True)[:args.slowest]
        for taken, (label, kernel, predicted) in steps:
            print(f"    {taken * 1e6:9.1f} us (predicted {predicted * 1e6:9.1f})  {kernel:10} {label}")
    for plan in ways.values():
        plan.close()


COLUMNS = ("plan", "tuned", "eager", "eager, in a graph", "compiled", "compiled, in a graph")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--library")
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--types", default="fp32,bf16")
    parser.add_argument("--target", default="cuda:h200")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tune", type=float, default=20)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--slowest", type=int, default=0, help="print so many of the tuned plan's steps")
    parser.add_argument("--compile", nargs="?", metavar="MODE", const="max-autotune-no-cudagraphs")
    args = parser.parse_args()
    library = Library(args.library or os.path.join(args.bin, "../lib/libhypatia-rt.so"))
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}")
    print("| step | type | steps | compiling | " + " | ".join(COLUMNS) + " | fastest peer / tuned | TFLOP/s | plan GiB | eager GiB"
          " | compiled GiB | loss |")
    print("|" + "---|" * (len(COLUMNS) + 10))
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name in args.only.split(","):
            for kind in args.types.split(","):
                stream = torch.cuda.Stream()
                try:
                    with torch.cuda.stream(stream):
                        measure(args, library, name, kind, folder, stream)
                except (RuntimeError, ValueError, ImportError) as failure:
                    failed = True
                    print(f"{name} {kind}: {str(failure).strip().splitlines()[-1][:300]}", flush=True)
                torch.cuda.empty_cache()
    sys.exit(failed)


if __name__ == "__main__":
    main()
