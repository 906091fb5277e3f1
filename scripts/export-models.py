#!/usr/bin/env python3
"""Exports models of many kinds with PyTorch, through both of its exporters, with fixed seeds.

    scripts/export-models.py FOLDER [--size small|full] [--only NAME] [--exporter script|dynamo]

small: a few kilobytes each; those of tests/models/torch were made so. full: the sizes that the names say (BERT-base, GPT-2
small, ViT-B/16, ResNet-18 ...), several gigabytes in all. Needs torch, and onnxscript for the dynamo exporter.
"""
import argparse
import inspect
import os
import warnings

import torch
from torch import nn
from torch.nn import functional as F


def attend(q, k, v, mask=None, causal_from=None):
    """Softmax attention over [batch, heads, sequence, size], written out."""
    scores = q @ k.transpose(-2, -1) / (q.shape[-1] ** 0.5)
    if causal_from is not None:
        rows = torch.arange(q.shape[2], device=q.device)[:, None] + causal_from
        columns = torch.arange(k.shape[2], device=q.device)
        scores = scores.masked_fill(columns[None, :] > rows, float("-inf"))
    if mask is not None:
        scores = scores + mask
    return torch.softmax(scores, -1) @ v


def heads(x, count):
    return x.view(x.shape[0], x.shape[1], count, -1).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


class Encoder(nn.Module):
    """A layer of BERT (norm after) or ViT (norm before)."""

    def __init__(self, width, count, inner, before):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.count, self.before = count, before

    def attention(self, x, mask):
        q, k, v = (heads(f(x), self.count) for f in (self.q, self.k, self.v))
        return self.out(joined(attend(q, k, v, mask)))

    def inner(self, x):
        return self.down(F.gelu(self.up(x)))

    def forward(self, x, mask=None):
        if self.before:
            x = x + self.attention(self.norms[0](x), mask)
            return x + self.inner(self.norms[1](x))
        x = self.norms[0](x + self.attention(x, mask))
        return self.norms[1](x + self.inner(x))


class Bert(nn.Module):
    def __init__(self, words, length, width, count, inner, layers):
        super().__init__()
        self.words, self.places, self.kinds = nn.Embedding(words, width), nn.Embedding(length, width), nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(Encoder(width, count, inner, False) for _ in range(layers))
        self.pool = nn.Linear(width, width)

    def forward(self, ids, mask):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))[None] + self.kinds(torch.zeros_like(ids))
        x = self.norm(x)
        bias = (1.0 - mask[:, None, None, :].to(x.dtype)) * -10000.0
        for layer in self.layers:
            x = layer(x, bias)
        return x, torch.tanh(self.pool(x[:, 0]))


class Gpt2(nn.Module):
    """With the keys and values of the past: two tensors [layers, batch, heads, past, size]."""

    def __init__(self, words, length, width, count, layers):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        for table in (self.words, self.places):
            nn.init.normal_(table.weight, std=0.02)  # as GPT-2 does: its words are its last layer, too
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers + 1))
        self.count = count

    def forward(self, ids, past_keys, past_values):
        past = past_keys.shape[3]
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device) + past)[None]
        keys, values = [], []
        for i in range(len(self.qkv)):
            q, k, v = (heads(t, self.count) for t in self.qkv[i](self.norms[2 * i](x)).chunk(3, -1))
            k, v = torch.cat([past_keys[i], k], 2), torch.cat([past_values[i], v], 2)
            keys.append(k)
            values.append(v)
            x = x + self.out[i](joined(attend(q, k, v, causal_from=past)))
            x = x + self.down[i](F.gelu(self.up[i](self.norms[2 * i + 1](x)), approximate="tanh"))
        return self.norms[-1](x) @ self.words.weight.T, torch.stack(keys), torch.stack(values)


class Vit(nn.Module):
    def __init__(self, image, patch, width, count, layers, classes):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.places = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, width) * 0.02)
        self.layers = nn.ModuleList(Encoder(width, count, 4 * width, True) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])


class Mixer(nn.Module):
    def __init__(self, image, patch, width, layers, classes):
        super().__init__()
        tokens = (image // patch) ** 2
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers + 1))
        self.tokens = nn.ModuleList(nn.Sequential(nn.Linear(tokens, width // 2), nn.GELU(), nn.Linear(width // 2, tokens))
                                    for _ in range(layers))
        self.channels = nn.ModuleList(nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
                                      for _ in range(layers))
        self.head = nn.Linear(width, classes)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        for i in range(len(self.tokens)):
            x = x + self.tokens[i](self.norms[2 * i](x).transpose(1, 2)).transpose(1, 2)
            x = x + self.channels[i](self.norms[2 * i + 1](x))
        return self.head(self.norms[-1](x).mean(1))


class Dlrm(nn.Module):
    """Dense features through an MLP, sparse ones through embeddings, dot products of all pairs, an MLP on top."""

    def __init__(self, dense, rows, tables, width):
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(dense, 4 * width), nn.ReLU(), nn.Linear(4 * width, width), nn.ReLU())
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 4 * width), nn.ReLU(), nn.Linear(4 * width, 1))
        i, j = torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("pairs", i * (tables + 1) + j)

    def forward(self, dense, sparse):
        x = self.bottom(dense)
        all = torch.stack([x] + [table(sparse[:, i]) for i, table in enumerate(self.tables)], 1)
        products = (all @ all.transpose(1, 2)).flatten(1).index_select(1, self.pairs)
        return torch.sigmoid(self.top(torch.cat([x, products], 1)))


class Tabular(nn.Module):
    def __init__(self, sizes, numbers, width, classes):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, max(2, width // 8)) for n in sizes)
        inputs = len(sizes) * max(2, width // 8) + numbers
        self.norm = nn.BatchNorm1d(numbers)
        self.layers = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.BatchNorm1d(width), nn.Dropout(0.1),
                                    nn.Linear(width, width), nn.ReLU(), nn.BatchNorm1d(width), nn.Linear(width, classes))

    def forward(self, categories, numbers):
        parts = [table(categories[:, i]) for i, table in enumerate(self.tables)]
        return torch.softmax(self.layers(torch.cat([*parts, self.norm(numbers)], 1)), 1)


class Residual(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
                               nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after))
        same = before == after and stride == 1
        self.b = nn.Identity() if same else nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        return F.relu(self.a(x) + self.b(x))


def resnet18(width, classes):
    stages, before = [], width
    for i in range(4):
        after = width << i
        stages += [Residual(before, after, 1 if i == 0 else 2), Residual(after, after, 1)]
        before = after
    return nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                         nn.MaxPool2d(3, 2, 1), *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


class Separable(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(before, 4 * before, 1, bias=False), nn.BatchNorm2d(4 * before), nn.ReLU6(),
                                    nn.Conv2d(4 * before, 4 * before, 3, stride, 1, groups=4 * before, bias=False),
                                    nn.BatchNorm2d(4 * before), nn.Hardswish(),
                                    nn.Conv2d(4 * before, after, 1, bias=False), nn.BatchNorm2d(after))
        self.same = before == after and stride == 1

    def forward(self, x):
        return x + self.layers(x) if self.same else self.layers(x)


def mobilenet(width, classes):
    return nn.Sequential(nn.Conv2d(3, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.SiLU(),
                         Separable(width, width, 1), Separable(width, 2 * width, 2), Separable(2 * width, 2 * width, 1),
                         Separable(2 * width, 4 * width, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(4 * width, classes))


class Decoder(nn.Module):
    """A block with RMSNorm, rotary embedding, grouped queries and SwiGLU."""

    def __init__(self, width, count, groups, inner):
        super().__init__()
        self.size, self.count, self.groups = width // count, count, groups
        self.q, self.kv = nn.Linear(width, width, bias=False), nn.Linear(width, 2 * groups * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)
        self.scales = nn.ParameterList(nn.Parameter(torch.rand(width) + 0.5) for _ in range(2))
        self.register_buffer("rates", 1 / 10000 ** (torch.arange(0, self.size, 2).float() / self.size))

    def norm(self, x, i):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scales[i]

    def rotate(self, x):
        angles = torch.arange(x.shape[2]).float()[:, None] * self.rates
        cos, sin = torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)
        half = x.shape[-1] // 2
        return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin

    def forward(self, x):
        y = self.norm(x, 0)
        k, v = (heads(t, self.groups) for t in self.kv(y).chunk(2, -1))
        q, k = self.rotate(heads(self.q(y), self.count)), self.rotate(k)
        each = self.count // self.groups
        k, v = (t[:, :, None].expand(-1, -1, each, -1, -1).reshape(t.shape[0], self.count, t.shape[2], t.shape[3])
                for t in (k, v))
        x = x + self.out(joined(attend(q, k, v, causal_from=0)))
        y = self.norm(x, 1)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def image(batch, size):
    return {"image": torch.randn(batch, 3, size, size)}, {"image": {0: "batch"}}


def ids(high, *shape):
    return torch.randint(0, high, shape)


def text_axes(*names):
    return {name: {0: "batch", 1: "sequence"} for name in names}


def bert(words, length, width, count, inner, layers):
    return (Bert(words, length, width, count, inner, layers),
            {"ids": ids(words, 2, 7), "mask": torch.ones(2, 7, dtype=torch.int64)}, text_axes("ids", "mask"))


def gpt2(words, length, width, count, layers):
    past = torch.randn(2, layers, 2, count, 5, width // count)
    axes = {1: "batch", 3: "past"}
    return (Gpt2(words, length, width, count, layers),
            {"ids": ids(words, 2, 3), "past_keys": past[0], "past_values": past[1]},
            {**text_axes("ids"), "past_keys": axes, "past_values": axes})


# name: what makes (model, inputs, dynamic axes), its small and its full arguments
MODELS = {
    "bert2": (bert, (50, 32, 16, 2, 32, 2), (30522, 512, 128, 2, 512, 2)),
    "bert48": (bert, None, (1000, 128, 64, 2, 256, 48)),
    "bert-base": (bert, None, (30522, 512, 768, 12, 3072, 12)),
    "gpt2": (gpt2, (50, 64, 16, 2, 2), (50257, 1024, 768, 12, 12)),
    "vit": (lambda size, *rest: (Vit(size, *rest), *image(2, size)), (16, 4, 16, 2, 2, 10), (224, 16, 768, 12, 12, 1000)),
    "mixer": (lambda size, *rest: (Mixer(size, *rest), *image(2, size)), (16, 4, 16, 2, 10), (224, 16, 512, 8, 1000)),
    "dlrm": (lambda dense, rows, tables, width: (
        Dlrm(dense, rows, tables, width), {"dense": torch.randn(2, dense), "sparse": ids(rows, 2, tables)},
        {"dense": {0: "batch"}, "sparse": {0: "batch"}}), (4, 20, 3, 8), (13, 100000, 26, 64)),
    "tabular": (lambda sizes, numbers, width, classes: (
        Tabular(sizes, numbers, width, classes), {"categories": ids(min(sizes), 2, len(sizes)), "numbers": torch.randn(2, numbers)},
        {"categories": {0: "batch"}, "numbers": {0: "batch"}}), ((5, 7, 9), 4, 16, 3), ((1000, 500, 50, 20, 12), 20, 512, 10)),
    "resnet18": (lambda width, size, classes: (resnet18(width, classes), *image(2, size)), (2, 32, 10), (64, 224, 1000)),
    "mobilenet": (lambda width, size, classes: (mobilenet(width, classes), *image(2, size)), (4, 32, 10), (32, 224, 1000)),
    "decoder": (lambda width, count, groups, inner: (
        Decoder(width, count, groups, inner), {"x": torch.randn(2, 5, width)}, text_axes("x")),
        (16, 4, 2, 24), (1024, 16, 4, 2816)),
}


def settle(model):
    """Statistics of batch normalization that are not the defaults."""
    for m in model.modules():
        if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d)):
            m.running_mean.normal_(0, 0.1)
            m.running_var.uniform_(0.5, 1.5)
            nn.init.uniform_(m.weight, 0.5, 1.5)
            nn.init.normal_(m.bias, 0, 0.1)
    return model.eval()


def export(name, size, exporter, path):
    make, small, full = MODELS[name]
    torch.manual_seed(len(name))
    model, inputs, axes = make(*(small if size == "small" else full))
    model = settle(model)
    names = [p for p in inspect.signature(model.forward).parameters if p in inputs] or list(inputs)
    ordered = {n: inputs[n] for n in (names if len(names) == len(inputs) else inputs)}
    common = dict(input_names=list(ordered), opset_version=18)
    if exporter == "script":
        torch.onnx.export(model, tuple(ordered.values()), path, dynamo=False, dynamic_axes=axes, **common)
        return
    symbols = {}
    shapes = tuple({a: symbols.setdefault(s, torch.export.Dim(s, min=1, max=512)) for a, s in axes[n].items()}
                   for n in ordered)
    torch.onnx.export(model, tuple(ordered.values()), path, dynamo=True, dynamic_shapes=shapes, external_data=size == "full",
                      verbose=False, **common)


def strip(path):
    """Takes out where the exporter ran: stack traces and the like."""
    import onnx
    model = onnx.load(path)
    parts = [model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output,
             *model.graph.initializer, *model.functions, *(n for f in model.functions for n in f.node)]
    for part in parts:
        part.ClearField("doc_string")
        part.ClearField("metadata_props")
    model.ClearField("metadata_props")
    onnx.save(model, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--size", choices=["small", "full"], default="small")
    parser.add_argument("--only", choices=list(MODELS))
    parser.add_argument("--exporter", choices=["script", "dynamo"])
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    os.makedirs(args.folder, exist_ok=True)
    for name in MODELS if not args.only else [args.only]:
        if args.size == "small" and MODELS[name][1] is None:
            continue
        for exporter in ["script", "dynamo"] if not args.exporter else [args.exporter]:
            path = os.path.join(args.folder, f"{name}-{exporter}.onnx")
            export(name, args.size, exporter, path)
            if args.size == "small":
                strip(path)
            print(path, os.path.getsize(path), "bytes", flush=True)


if __name__ == "__main__":
    main()
