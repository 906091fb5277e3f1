"""Twenty modules of PyTorch, of the kinds that people compile: for the tests of the backend, and for its benchmark
(bench/torch_backend.py), which takes them larger. Each is a function of a scale, 1 or more, that gives a module, and
its inputs for a batch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Residual(nn.Module):
    def __init__(self, inner, outer=None):
        super().__init__()
        self.inner, self.outer = inner, outer or nn.Identity()

    def forward(self, x):
        return self.outer(x + self.inner(x))


def conv_norm(i, o, size=3, stride=1, groups=1, act=True):
    layers = [nn.Conv2d(i, o, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(o)]
    return nn.Sequential(*layers, *([nn.ReLU()] if act else []))


class Attention(nn.Module):
    def __init__(self, width, heads, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, mask=None):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Bert(nn.Module):
    """Embeddings, encoder layers with a mask of padding, and a head."""

    def __init__(self, words, width, heads, layers):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(64, width)
        self.norm = nn.LayerNorm(width)
        self.attention = nn.ModuleList(Attention(width, heads) for _ in range(layers))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.head = nn.Linear(width, 2)

    def forward(self, ids, mask):
        x = self.norm(self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device)))
        seen = mask[:, None, None, :].bool()
        for i, (attention, mlp) in enumerate(zip(self.attention, self.mlp)):
            x = self.norms[2 * i](x + attention(x, seen))
            x = self.norms[2 * i + 1](x + mlp(x))
        return self.head(torch.tanh(x[:, 0]))


class Gpt(nn.Module):
    """A block with a causal mask that is a buffer."""

    def __init__(self, width, heads, length):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))
        self.register_buffer("mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(c, dim=2))
        weights = (q @ k.transpose(-2, -1)) * (c // self.heads) ** -0.5
        weights = weights.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf")).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


class Recurrent(nn.Module):
    def __init__(self, kind, width):
        super().__init__()
        self.cells, self.head = kind(width, width, num_layers=2, batch_first=True), nn.Linear(width, 5)

    def forward(self, x):
        return self.head(self.cells(x)[0][:, -1])


class UNet(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.down1, self.down2, self.middle = conv_norm(3, c), conv_norm(c, 2 * c), conv_norm(2 * c, 4 * c)
        self.up2, self.up1 = nn.ConvTranspose2d(4 * c, 2 * c, 2, 2), nn.ConvTranspose2d(2 * c, c, 2, 2)
        self.merge2, self.merge1 = conv_norm(4 * c, 2 * c), conv_norm(2 * c, c)
        self.head = nn.Conv2d(c, 2, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        m = self.middle(F.max_pool2d(b, 2))
        y = self.merge2(torch.cat([self.up2(m), b], 1))
        return self.head(self.merge1(torch.cat([self.up1(y), a], 1)))


class Mixer(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
        self.channels = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Vit(nn.Module):
    def __init__(self, width, heads, size=32, patch=8):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.places = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        self.norm1, self.norm2, self.norm = (nn.LayerNorm(width) for _ in range(3))
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        x = x + self.attention(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return self.head(self.norm(x)[:, 0])


class Dlrm(nn.Module):
    """Bags of words and numbers, and the products of each with each."""

    def __init__(self, rows, width, tables=3):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, width), nn.ReLU(), nn.Linear(width, 1), nn.Sigmoid())
        self.register_buffer("pairs", torch.tensor([i * (tables + 1) + j for i in range(tables + 1) for j in range(i)]))

    def forward(self, numbers, words):
        x = self.bottom(numbers)
        rows = torch.stack([x, *(bag(words[:, i]) for i, bag in enumerate(self.bags))], 1)
        products = torch.bmm(rows, rows.transpose(1, 2)).flatten(1)[:, self.pairs]
        return self.top(torch.cat([x, products], 1))


class Branching(nn.Module):
    """A graph break, and a way that depends on the data."""

    def __init__(self, width):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        x = self.a(x).relu()
        if x.sum().item() > 0:
            x = self.b(x).tanh()
        else:
            x = x - 1
        return self.c(x)


def mlp(s):
    w = 64 * s
    layers = [nn.Linear(w, 2 * w), nn.ReLU(), nn.Linear(2 * w, 2 * w), nn.ReLU(), nn.Linear(2 * w, 10)]
    return nn.Sequential(*layers), lambda b: (torch.randn(b, w),)


def cnn(s):
    c = 8 * s
    layers = [conv_norm(3, c), nn.MaxPool2d(2), conv_norm(c, 2 * c), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(2 * c, 10)), lambda b: (torch.randn(b, 3, 32, 32),)


def resnet_block(s):
    c = 16 * s
    inner = nn.Sequential(conv_norm(c, c), conv_norm(c, c, act=False))
    return Residual(inner, nn.ReLU()), lambda b: (torch.randn(b, c, 14, 14),)


def depthwise_cnn(s):
    c = 8 * s
    block = nn.Sequential(conv_norm(c, 4 * c, 1), conv_norm(4 * c, 4 * c, groups=4 * c), conv_norm(4 * c, c, 1, act=False))
    return nn.Sequential(conv_norm(3, c, stride=2), Residual(block)), lambda b: (torch.randn(b, 3, 32, 32),)


def encoder_layer(s):
    w = 64 * s
    layer = nn.TransformerEncoderLayer(w, 4, 4 * w, batch_first=True, norm_first=True, activation="gelu")
    return layer, lambda b: (torch.randn(b, 16, w),)


def bert(s):
    def inputs(b):
        lengths = torch.randint(4, 17, (b, 1))
        return torch.randint(0, 100, (b, 16)), (torch.arange(16) < lengths).long()

    return Bert(100, 64 * s, 4, 2), inputs


def gpt(s):
    return Gpt(64 * s, 4, 32), lambda b: (torch.randn(b, 24, 64 * s),)


def lstm(s):
    return Recurrent(nn.LSTM, 32 * s), lambda b: (torch.randn(b, 12, 32 * s),)


def gru(s):
    return Recurrent(nn.GRU, 32 * s), lambda b: (torch.randn(b, 12, 32 * s),)


def unet(s):
    return UNet(8 * s), lambda b: (torch.randn(b, 3, 32, 32),)


def generator(s):
    c = 8 * s
    layers = [nn.ConvTranspose2d(32, 4 * c, 4, 1, 0), nn.BatchNorm2d(4 * c), nn.ReLU()]
    layers += [nn.ConvTranspose2d(4 * c, 2 * c, 4, 2, 1), nn.BatchNorm2d(2 * c), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(2 * c, 3, 4, 2, 1), nn.Tanh()), lambda b: (torch.randn(b, 32, 1, 1),)


def autoencoder(s):
    w = 64 * s
    widths = [4 * w, w, w // 4, w, 4 * w]
    layers = [part for i, o in zip(widths, widths[1:]) for part in (nn.Linear(i, o), nn.SiLU())]
    return nn.Sequential(*layers[:-1], nn.Sigmoid()), lambda b: (torch.randn(b, 4 * w),)


def mixer(s):
    return Mixer(16, 64 * s), lambda b: (torch.randn(b, 16, 64 * s),)


def vit(s):
    return Vit(64 * s, 4), lambda b: (torch.randn(b, 3, 32, 32),)


def group_norm(s):
    c = 8 * s
    layers = [nn.Conv2d(3, c, 3, padding=1), nn.GroupNorm(4, c), nn.SiLU(), nn.Conv2d(c, c, 3, padding=1)]
    return nn.Sequential(*layers, nn.GroupNorm(4, c)), lambda b: (torch.randn(b, 3, 16, 16),)


def dlrm(s):
    return Dlrm(200, 16 * s), lambda b: (torch.randn(b, 13), torch.randint(0, 200, (b, 3, 4)))


def conv1d(s):
    c = 16 * s
    layers = [nn.Conv1d(4, c, 5, padding=2), nn.LeakyReLU(0.1), nn.Conv1d(c, c, 3, dilation=2), nn.ELU(), nn.AvgPool1d(2)]
    return nn.Sequential(*layers), lambda b: (torch.randn(b, 4, 64),)


def conv3d(s):
    c = 4 * s
    layers = [nn.Conv3d(1, c, 3, padding=1), nn.BatchNorm3d(c), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(c, 2 * c, 3)]
    return nn.Sequential(*layers), lambda b: (torch.randn(b, 1, 8, 16, 16),)


def attention(s):
    return Attention(64 * s, 4, causal=True), lambda b: (torch.randn(b, 20, 64 * s),)


def branching(s):
    return Branching(32 * s), lambda b: (torch.randn(b, 32 * s),)


MODULES = {
    made.__name__: made
    for made in (
        mlp, cnn, resnet_block, depthwise_cnn, encoder_layer, bert, gpt, lstm, gru, unet, generator, autoencoder, mixer,
        vit, group_norm, dlrm, conv1d, conv3d, attention, branching,
    )
}  # fmt: skip


def make(name, scale=1, dtype=torch.float32, device="cpu"):
    """A module for inference, with statistics of normalizations that are not those of a new one, and its inputs for a
    batch."""
    torch.manual_seed(3)
    module, inputs = MODULES[name](scale)
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.running_mean.normal_(0, 0.3)
            part.running_var.uniform_(0.5, 2)
    module = module.eval().to(device=device, dtype=dtype)

    def draw(batch):
        return tuple(x.to(device=device, dtype=dtype if x.is_floating_point() else None) for x in inputs(batch))

    return module, draw
