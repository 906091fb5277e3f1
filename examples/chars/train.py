#!/usr/bin/env python3
"""Trains the small character transformer of this example and exports it: chars.onnx, and expected.txt with what PyTorch
generates from the prompt of the test, always taking the likeliest character. Needs torch; takes less than a minute.

The text is that of text.py, drawn with a fixed seed."""
import importlib.util
import os
import sys

import torch
from torch.nn import functional as F

from text import ALPHABET, make_text

HERE = os.path.dirname(os.path.abspath(__file__))
PROMPT, LENGTH = "the old sailor ", 150
LAYERS, HEADS, WIDTH, CONTEXT = 2, 4, 48, 256


def model_class():
    spec = importlib.util.spec_from_file_location("models", os.path.join(HERE, "../../scripts/export-models.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Gpt2


def empty_past(batch):
    return torch.zeros(LAYERS, batch, HEADS, 0, WIDTH // HEADS)


def train(model, text):
    ids = torch.tensor([ALPHABET.index(c) for c in text])
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for step in range(500):
        starts = torch.randint(0, len(ids) - 161, (16,))
        batch = torch.stack([ids[s:s + 161] for s in starts])
        logits, _, _ = model(batch[:, :-1], empty_past(16), empty_past(16))
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 99:
            print(f"step {step + 1}: loss {loss.item():.3f}", file=sys.stderr)


def generate(model, prompt, length):
    with torch.no_grad():
        ids, keys, values = torch.tensor([[ALPHABET.index(c) for c in prompt]]), empty_past(1), empty_past(1)
        text = prompt
        while len(text) < length:
            logits, keys, values = model(ids, keys, values)
            ids = logits[:, -1:].argmax(-1)
            text += ALPHABET[ids.item()]
    return text


def main():
    torch.manual_seed(5)
    model = model_class()(len(ALPHABET), CONTEXT, WIDTH, HEADS, LAYERS)
    for p in model.parameters():
        if p.dim() > 1:
            torch.nn.init.normal_(p, 0, 0.08)
    train(model, make_text(5, 4000))
    model.eval()
    with open(os.path.join(HERE, "expected.txt"), "w", encoding="utf-8") as file:
        file.write(generate(model, PROMPT, LENGTH) + "\n")
    past = torch.randn(LAYERS, 1, HEADS, 5, WIDTH // HEADS)
    torch.onnx.export(model, (torch.zeros(1, 3, dtype=torch.int64), past, past), os.path.join(HERE, "chars.onnx"),
                      input_names=["ids", "past_keys", "past_values"], output_names=["logits", "keys", "values"],
                      dynamic_axes={"ids": {1: "new"}, "past_keys": {3: "past"}, "past_values": {3: "past"}},
                      opset_version=18, dynamo=False)


if __name__ == "__main__":
    main()
