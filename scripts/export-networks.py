#!/usr/bin/env python3
"""Exports small networks of many kinds with PyTorch's exporter, seeds and sizes fixed: what docs/networks.md measures.

    scripts/export-networks.py FOLDER [--only TEXT]

Every network is a function below, which gives the module and its inputs; its name, with dashes, is the file's. Modules
of export-models.py are used here, too. Needs torch and onnx.
"""
import argparse
import importlib.util
import os
import sys
import warnings

import torch
from torch import nn
from torch.nn import functional as F

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location("models", os.path.join(HERE, "export-models.py"))
models = importlib.util.module_from_spec(spec)
spec.loader.exec_module(models)

NETWORKS = {}


def network(make):
    NETWORKS[make.__name__.replace("_", "-")] = make
    return make


class Calls(nn.Module):
    """A module whose forward is a function of it; parts are its modules."""

    def __init__(self, forward, **parts):
        super().__init__()
        self.function = forward
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, *inputs):
        return self.function(self, *inputs)


class Sum(nn.Sequential):
    """What goes in is added to what comes out."""

    def forward(self, x):
        return x + super().forward(x)


class Joined(nn.ModuleList):
    """What several modules make of one input, side by side."""

    def forward(self, x):
        return torch.cat([part(x) for part in self], 1)


# ---- dense layers ---------------------------------------------------------------------------------------------------

def dense(*sizes, act=nn.ReLU, norm=None, last=None):
    layers = []
    for i, (before, after) in enumerate(zip(sizes, sizes[1:])):
        layers.append(nn.Linear(before, after))
        if i + 2 < len(sizes):
            layers += [norm(after), act()] if norm else [act()]
    return nn.Sequential(*layers, *([last] if last else []))


NETWORKS["mlp-tabular"] = lambda: (dense(30, 64, 32, 1, last=nn.Sigmoid()), torch.randn(1, 30))
NETWORKS["mlp-digits"] = lambda: (dense(784, 256, 128, 10), torch.randn(1, 784))
NETWORKS["mlp-digits-64-rows"] = lambda: (dense(784, 512, 256, 10, norm=nn.BatchNorm1d), torch.randn(64, 784))
NETWORKS["mlp-deep"] = lambda: (dense(32, *[64] * 20, 8, act=nn.Tanh), torch.randn(1, 32))
NETWORKS["mlp-wide"] = lambda: (dense(512, 2048, 2048, 10, act=nn.GELU), torch.randn(1, 512))
NETWORKS["mlp-beyond-the-cache"] = lambda: (dense(2048, 4096, 4096, 1000), torch.randn(1, 2048))
NETWORKS["mlp-policy-256-rows"] = lambda: (dense(24, 64, 64, 6, act=nn.Tanh), torch.randn(256, 24))


@network
def mlp_residual():
    block = [Sum(nn.LayerNorm(256), nn.Linear(256, 512), nn.SiLU(), nn.Linear(512, 256)) for _ in range(4)]
    return nn.Sequential(nn.Linear(64, 256), *block, nn.Linear(256, 1)), torch.randn(16, 64)


NETWORKS["mlp-categories"] = lambda: (models.Tabular((100, 50, 20, 12), 20, 256, 10), models.ids(12, 32, 4),
                                      torch.randn(32, 20))
NETWORKS["mlp-autoencoder"] = lambda: (dense(784, 256, 64, 16, 64, 256, 784, last=nn.Sigmoid()), torch.randn(1, 784))


@network
def mlp_experts():
    def forward(m, x):
        parts = torch.stack([expert(x) for expert in m.experts], 1)
        return (torch.softmax(m.gate(x), -1)[:, :, None] * parts).sum(1)
    experts = nn.ModuleList(dense(128, 256, 64) for _ in range(8))
    return Calls(forward, experts=experts, gate=nn.Linear(128, 8)), torch.randn(16, 128)


@network
def mlp_coordinates():
    def forward(m, x):
        for layer in m.layers[:-1]:
            x = torch.sin(30 * layer(x))
        return m.layers[-1](x)
    layers = [nn.Linear(2, 128), *(nn.Linear(128, 128) for _ in range(3)), nn.Linear(128, 3)]
    for layer in layers:  # whose own start makes the angles small, where rounding is
        nn.init.normal_(layer.weight, std=0.02)
    return Calls(forward, layers=nn.ModuleList(layers)), torch.rand(256, 2)


@network
def wide_and_deep():
    def forward(m, numbers, categories):
        parts = [table(categories[:, i]) for i, table in enumerate(m.tables)]
        return torch.sigmoid(m.deep(torch.cat([numbers, *parts], 1)) + m.wide(numbers))
    tables = nn.ModuleList(nn.Embedding(1000, 16) for _ in range(8))
    return (Calls(forward, tables=tables, deep=dense(141, 256, 128, 1), wide=nn.Linear(13, 1)), torch.randn(8, 13),
            models.ids(1000, 8, 8))


NETWORKS["dlrm"] = lambda: (models.Dlrm(13, 1000, 8, 32), torch.randn(16, 13), models.ids(1000, 16, 8))


# ---- convolutions for classes ---------------------------------------------------------------------------------------

def conv(before, after, kernel=3, stride=1, act=nn.ReLU, norm=nn.BatchNorm2d, groups=1):
    return nn.Sequential(nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=not norm),
                         *([norm(after)] if norm else []), *([act()] if act else []))


def classes(channels, count):
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, count))


def picture(size, channels=3):
    return torch.randn(1, channels, size, size)


@network
def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), dense(400, 120, 84, 10)), picture(28, 1)


@network
def lenet_tanh():
    return nn.Sequential(nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(),
                         nn.AvgPool2d(2), nn.Flatten(), dense(256, 120, 84, 10, act=nn.Tanh)), picture(28, 1)


@network
def cnn_digits():
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         dense(9216, 128, 10), nn.LogSoftmax(1)), picture(28, 1)


@network
def cnn_colour():
    return nn.Sequential(conv(3, 32), nn.MaxPool2d(2), conv(32, 64), nn.MaxPool2d(2), nn.Flatten(),
                         dense(4096, 512, 10)), picture(32)


@network
def cnn_large_dense():
    return nn.Sequential(conv(3, 16, norm=None), nn.MaxPool2d(2), conv(16, 32, norm=None), nn.Flatten(),
                         dense(32 * 16 * 16, 1024, 100)), picture(32)


@network
def vgg_11():
    layers, before = [], 3
    for after, pool in ((64, 1), (128, 1), (256, 0), (256, 1), (512, 0), (512, 1), (512, 0), (512, 1)):
        layers += [conv(before, after)] + [nn.MaxPool2d(2)] * pool
        before = after
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10)), picture(32)


@network
def resnet_20():
    widths = [16] * 4 + [32] * 3 + [64] * 3
    stages = [models.Residual(a, b, 1 if a == b else 2) for a, b in zip(widths, widths[1:])]
    return nn.Sequential(conv(3, 16), *stages, classes(64, 10)), picture(32)


NETWORKS["resnet-18"] = lambda: (models.resnet18(64, 100), picture(96))


@network
def preactivation_resnet():
    def block(n):
        return Sum(nn.BatchNorm2d(n), nn.ReLU(), nn.Conv2d(n, n, 3, padding=1, bias=False),
                   nn.BatchNorm2d(n), nn.ReLU(), nn.Conv2d(n, n, 3, padding=1, bias=False))
    return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), block(32), block(32), nn.Conv2d(32, 64, 3, 2, 1),
                         block(64), block(64), nn.BatchNorm2d(64), nn.ReLU(), classes(64, 10)), picture(32)


NETWORKS["mobilenet"] = lambda: (models.mobilenet(24, 100), picture(96))


@network
def depthwise():
    layers, before = [conv(3, 32, stride=2)], 32
    for after, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1)):
        layers += [conv(before, before, stride=stride, groups=before), conv(before, after, 1)]
        before = after
    return nn.Sequential(*layers, classes(256, 10)), picture(64)


@network
def squeeze_excite():
    class Excited(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.a, self.b = conv(n, n), conv(n, n, act=None)
            self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), dense(n, n // 4, n, last=nn.Sigmoid()))

        def forward(self, x):
            y = self.b(self.a(x))
            return F.relu(x + y * self.gate(y)[:, :, None, None])
    return nn.Sequential(conv(3, 32), Excited(32), conv(32, 64, stride=2), Excited(64), classes(64, 10)), picture(32)


@network
def fire():
    def module(before, squeezed, after):
        return nn.Sequential(conv(before, squeezed, 1, norm=None),
                             Joined([conv(squeezed, after, 1, norm=None), conv(squeezed, after, norm=None)]))
    return nn.Sequential(conv(3, 32, stride=2, norm=None), module(32, 16, 32), module(64, 16, 32), nn.MaxPool2d(2),
                         module(64, 32, 64), module(128, 32, 64), nn.MaxPool2d(2), module(128, 48, 96),
                         nn.Conv2d(192, 100, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()), picture(64)


@network
def densenet():
    class Dense(nn.Module):
        def __init__(self, before, growth, count):
            super().__init__()
            self.layers = nn.ModuleList(nn.Sequential(nn.BatchNorm2d(before + i * growth), nn.ReLU(),
                                                      nn.Conv2d(before + i * growth, growth, 3, padding=1, bias=False))
                                        for i in range(count))

        def forward(self, x):
            for layer in self.layers:
                x = torch.cat([x, layer(x)], 1)
            return x
    return nn.Sequential(nn.Conv2d(3, 24, 3, padding=1), Dense(24, 12, 4), conv(72, 36, 1), nn.AvgPool2d(2),
                         Dense(36, 12, 4), conv(84, 42, 1), nn.AvgPool2d(2), Dense(42, 12, 4),
                         classes(90, 10)), picture(32)


@network
def inception():
    def module(before):
        return Joined([conv(before, 32, 1), nn.Sequential(conv(before, 24, 1), conv(24, 32)),
                       nn.Sequential(conv(before, 16, 1), conv(16, 32), conv(32, 32)),
                       nn.Sequential(nn.AvgPool2d(3, 1, 1), conv(before, 32, 1))])
    return nn.Sequential(conv(3, 32), module(32), nn.MaxPool2d(2), module(128), module(128),
                         classes(128, 10)), picture(32)


@network
def shufflenet():
    class Shuffled(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.layers = nn.Sequential(conv(n, n, 1), conv(n, n, groups=n, act=None), conv(n, n, 1))

        def forward(self, x):
            a, b = x.chunk(2, 1)
            x = torch.stack([a, self.layers(b)], 2)
            return x.transpose(1, 2).flatten(1, 2)
    return nn.Sequential(conv(3, 48, stride=2), Shuffled(24), Shuffled(24), conv(48, 96, stride=2),
                         Shuffled(48), Shuffled(48), classes(96, 10)), picture(64)


@network
def convnext():
    class Last(nn.LayerNorm):
        def forward(self, x):
            return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    def block(n):
        return Sum(nn.Conv2d(n, n, 7, padding=3, groups=n), Last(n), nn.Conv2d(n, 4 * n, 1), nn.GELU(),
                   nn.Conv2d(4 * n, n, 1))
    return nn.Sequential(nn.Conv2d(3, 48, 4, 4), Last(48), block(48), block(48), Last(48), nn.Conv2d(48, 96, 2, 2),
                         block(96), block(96), classes(96, 10)), picture(64)


@network
def words_1d():
    def layer(before, after, kernel, stride):
        return nn.Sequential(nn.Conv1d(before, after, kernel, stride), nn.BatchNorm1d(after), nn.ReLU(),
                             nn.MaxPool1d(4))
    return nn.Sequential(layer(1, 32, 80, 16), layer(32, 32, 3, 1), layer(32, 64, 3, 1), nn.AdaptiveAvgPool1d(1),
                         nn.Flatten(), nn.Linear(64, 35)), torch.randn(1, 1, 8000)


@network
def temporal():
    def block(n, dilation):
        return Sum(nn.ConstantPad1d((2 * dilation, 0), 0.0), nn.Conv1d(n, n, 3, dilation=dilation), nn.ReLU(),
                   nn.Conv1d(n, n, 1))
    blocks = (block(32, 1 << i) for i in range(6))
    return nn.Sequential(nn.Conv1d(8, 32, 1), *blocks, nn.Conv1d(32, 4, 1)), torch.randn(1, 8, 256)


@network
def text_cnn():
    def forward(m, ids):
        x = m.words(ids).transpose(1, 2)
        return m.head(torch.cat([F.relu(layer(x)).amax(2) for layer in m.layers], 1))
    layers = nn.ModuleList(nn.Conv1d(64, 100, kernel) for kernel in (3, 4, 5))
    return Calls(forward, words=nn.Embedding(2000, 64), layers=layers, head=nn.Linear(300, 4)), models.ids(2000, 1, 48)


# ---- images from images ---------------------------------------------------------------------------------------------

class Unet(nn.Module):
    def __init__(self, base, deep, up):
        super().__init__()
        widths = [base << i for i in range(deep + 1)]
        self.down = nn.ModuleList(self.double(before, after) for before, after in zip([3, *widths], widths))
        self.up = nn.ModuleList(up(2 * n, n) for n in reversed(widths[:-1]))
        self.after = nn.ModuleList(self.double(2 * n, n) for n in reversed(widths[:-1]))
        self.last = nn.Conv2d(base, 1, 1)

    @staticmethod
    def double(before, after):
        return nn.Sequential(conv(before, after), conv(after, after))

    def forward(self, x):
        kept = []
        for i, down in enumerate(self.down):
            x = down(F.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for up, after, aside in zip(self.up, self.after, reversed(kept[:-1])):
            x = after(torch.cat([aside, up(x)], 1))
        return torch.sigmoid(self.last(x))


def transposed(before, after):
    return nn.ConvTranspose2d(before, after, 2, 2)


def resized(mode):
    return lambda before, after: nn.Sequential(nn.Upsample(scale_factor=2, mode=mode),
                                               nn.Conv2d(before, after, 3, padding=1))


NETWORKS["unet-8"] = lambda: (Unet(8, 3, transposed), picture(96))
NETWORKS["unet-16"] = lambda: (Unet(16, 3, transposed), picture(64))
NETWORKS["unet-32"] = lambda: (Unet(32, 2, transposed), picture(64))
NETWORKS["unet-bilinear"] = lambda: (Unet(12, 3, resized("bilinear")), picture(64))
NETWORKS["unet-nearest"] = lambda: (Unet(16, 3, resized("nearest")), picture(64))


@network
def autoencoder():
    return nn.Sequential(conv(1, 16, stride=2, norm=None), conv(16, 32, stride=2, norm=None), nn.Conv2d(32, 64, 7),
                         nn.ConvTranspose2d(64, 32, 7), nn.ReLU(), nn.ConvTranspose2d(32, 16, 3, 2, 1, 1), nn.ReLU(),
                         nn.ConvTranspose2d(16, 1, 3, 2, 1, 1), nn.Sigmoid()), picture(28, 1)


@network
def variational_autoencoder():
    def forward(m, x, noise):
        mean, spread = m.encoder(x).chunk(2, 1)
        return m.decoder(mean + torch.exp(0.5 * spread) * noise)
    encoder = nn.Sequential(conv(3, 32, stride=2), conv(32, 64, stride=2), nn.Flatten(), nn.Linear(4096, 64))
    decoder = nn.Sequential(nn.Linear(32, 4096), nn.Unflatten(1, (64, 8, 8)), nn.ConvTranspose2d(64, 32, 4, 2, 1),
                            nn.ReLU(), nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Sigmoid())
    return Calls(forward, encoder=encoder, decoder=decoder), picture(32), torch.randn(1, 32)


@network
def super_resolution():
    return nn.Sequential(nn.Conv2d(1, 64, 5, padding=2), nn.Tanh(), nn.Conv2d(64, 32, 3, padding=1), nn.Tanh(),
                         nn.Conv2d(32, 9, 3, padding=1), nn.PixelShuffle(3)), picture(40, 1)


@network
def style_transfer():
    def layer(before, after, kernel, stride=1):
        return nn.Sequential(nn.ReflectionPad2d(kernel // 2), nn.Conv2d(before, after, kernel, stride),
                             nn.InstanceNorm2d(after, affine=True))
    residual = [Sum(layer(32, 32, 3), nn.ReLU(), layer(32, 32, 3)) for _ in range(2)]
    return nn.Sequential(layer(3, 16, 9), nn.ReLU(), layer(16, 32, 3, 2), nn.ReLU(), *residual,
                         nn.Upsample(scale_factor=2), layer(32, 16, 3), nn.ReLU(), nn.ReflectionPad2d(4),
                         nn.Conv2d(16, 3, 9)), picture(64)


# ---- generators and discriminators ----------------------------------------------------------------------------------

def leaky():
    return nn.LeakyReLU(0.2)


def generator(channels, base, steps):
    """DCGAN's: from noise by transposed convolutions."""
    layers, before = [nn.ConvTranspose2d(100, base << (steps - 1), 4, bias=False)], base << (steps - 1)
    for i in reversed(range(steps - 1)):
        layers += [nn.BatchNorm2d(before), nn.ReLU(), nn.ConvTranspose2d(before, base << i, 4, 2, 1, bias=False)]
        before = base << i
    return nn.Sequential(*layers, nn.BatchNorm2d(base), nn.ReLU(), nn.ConvTranspose2d(base, channels, 4, 2, 1),
                         nn.Tanh())


NETWORKS["dcgan-generator"] = lambda: (generator(3, 64, 4), torch.randn(1, 100, 1, 1))
NETWORKS["dcgan-generator-32"] = lambda: (generator(1, 32, 3), torch.randn(1, 100, 1, 1))


@network
def dcgan_discriminator():
    layers, before = [nn.Conv2d(3, 32, 4, 2, 1), leaky()], 32
    for after in (64, 128, 256):
        layers += [nn.Conv2d(before, after, 4, 2, 1, bias=False), nn.BatchNorm2d(after), leaky()]
        before = after
    return nn.Sequential(*layers, nn.Conv2d(before, 1, 4), nn.Sigmoid()), picture(64)


@network
def resizing_generator():
    return nn.Sequential(nn.Linear(64, 64 * 8 * 8), nn.Unflatten(1, (64, 8, 8)), nn.BatchNorm2d(64),
                         nn.Upsample(scale_factor=2), conv(64, 64, act=leaky), nn.Upsample(scale_factor=2),
                         conv(64, 32, act=leaky), nn.Conv2d(32, 3, 3, padding=1), nn.Tanh()), torch.randn(1, 64)


NETWORKS["mlp-generator"] = lambda: (dense(100, 256, 512, 1024, 784, act=leaky, norm=nn.BatchNorm1d, last=nn.Tanh()),
                                     torch.randn(1, 100))
NETWORKS["mlp-discriminator"] = lambda: (dense(784, 512, 256, 1, act=leaky, last=nn.Sigmoid()), torch.randn(16, 784))


# ---- attention ------------------------------------------------------------------------------------------------------

NETWORKS["encoder"] = lambda: (nn.Sequential(*(models.Encoder(128, 4, 512, False) for _ in range(2))),
                               torch.randn(1, 32, 128))
NETWORKS["decoder"] = lambda: (nn.Sequential(*(models.Decoder(128, 4, 2, 352) for _ in range(2))),
                               torch.randn(1, 32, 128))
NETWORKS["bert"] = lambda: (models.Bert(1000, 64, 128, 2, 512, 2), models.ids(1000, 1, 48),
                            torch.ones(1, 48, dtype=torch.int64))


@network
def gpt_with_past():
    past = torch.randn(2, 2, 1, 4, 31, 32)
    return models.Gpt2(1000, 64, 128, 4, 2), models.ids(1000, 1, 1), past[0], past[1]


NETWORKS["vit"] = lambda: (models.Vit(32, 4, 96, 3, 3, 10), picture(32))
NETWORKS["mixer"] = lambda: (models.Mixer(32, 4, 64, 4, 10), picture(32))


@network
def attention_head():
    def forward(m, x):
        q, k, v = m.qkv(x).chunk(3, -1)
        return models.attend(q, k, v)
    return Calls(forward, qkv=nn.Linear(64, 192)), torch.randn(1, 64, 64)


@network
def cross_attention():
    def forward(m, x, context):
        q, k, v = models.heads(m.q(x), 4), models.heads(m.k(context), 4), models.heads(m.v(context), 4)
        return m.norm(x + m.out(models.joined(models.attend(q, k, v))))
    return (Calls(forward, q=nn.Linear(128, 128), k=nn.Linear(96, 128), v=nn.Linear(96, 128), out=nn.Linear(128, 128),
                  norm=nn.LayerNorm(128)), torch.randn(2, 16, 128), torch.randn(2, 50, 96))


@network
def graph_convolution():
    def forward(m, x, adjacent):
        adjacent = adjacent / adjacent.sum(1, keepdim=True)
        return torch.log_softmax(m.b(adjacent @ F.relu(m.a(adjacent @ x))), 1)
    return Calls(forward, a=nn.Linear(64, 32), b=nn.Linear(32, 7)), torch.randn(100, 64), torch.rand(100, 100)


# ---- recurrent cells, written out -----------------------------------------------------------------------------------

@network
def lstm():
    def forward(m, x):
        h = c = torch.zeros(1, 128)
        for i in range(8):
            a, b, d, e = (m.x(x[:, i]) + m.h(h)).chunk(4, 1)
            c = torch.sigmoid(b) * c + torch.sigmoid(a) * torch.tanh(d)
            h = torch.sigmoid(e) * torch.tanh(c)
        return m.head(h)
    return Calls(forward, x=nn.Linear(64, 512), h=nn.Linear(128, 512), head=nn.Linear(128, 10)), torch.randn(1, 8, 64)


@network
def gru():
    def forward(m, x, h):
        for i in range(8):
            a, b = m.x(x[:, i]).chunk(3, 1), m.h(h).chunk(3, 1)
            r, z = torch.sigmoid(a[0] + b[0]), torch.sigmoid(a[1] + b[1])
            h = (1 - z) * torch.tanh(a[2] + r * b[2]) + z * h
        return h
    return Calls(forward, x=nn.Linear(64, 384), h=nn.Linear(128, 384)), torch.randn(4, 8, 64), torch.randn(4, 128)


@network
def lstm_step():
    def forward(m, x, h, c):
        hs, cs = [], []
        for i, layer in enumerate(m.layers):
            a, b, d, e = layer(torch.cat([x, h[i]], 1)).chunk(4, 1)
            cs.append(torch.sigmoid(b) * c[i] + torch.sigmoid(a) * torch.tanh(d))
            x = torch.sigmoid(e) * torch.tanh(cs[-1])
            hs.append(x)
        return m.head(x), torch.stack(hs), torch.stack(cs)
    layers = nn.ModuleList(nn.Linear(512, 1024) for _ in range(2))
    return (Calls(forward, layers=layers, head=nn.Linear(256, 65)), torch.randn(1, 256), torch.randn(2, 1, 256),
            torch.randn(2, 1, 256))


def export(name, path):
    torch.manual_seed(len(name))
    model, *inputs = NETWORKS[name]()
    torch.onnx.export(models.settle(model), tuple(inputs), path, dynamo=False, opset_version=18,
                      input_names=[f"x{i}" for i in range(len(inputs))])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--only", default="", help="networks whose name contains this")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    os.makedirs(args.folder, exist_ok=True)
    for name in (name for name in NETWORKS if args.only in name):
        path = os.path.join(args.folder, f"{name}.onnx")
        export(name, path)
        print(path, os.path.getsize(path), "bytes", flush=True)


if __name__ == "__main__":
    main()
