#!/usr/bin/env python3
"""docs/gallery.md: ten models before and after, by prediction for a CPU and a GPU that are built in. Measures nothing, so that it comes out the
same on every machine.

    scripts/gallery.py            writes the page
    scripts/gallery.py --check    exit code 1 where the page is not what would be written

Nine of the models are small ones of scripts/export-models.py, which are kept in tests/models/torch; one is of examples/. HYP_BIN is the folder of hypatiac
(build/release/bin).
"""
import collections
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PAGE = os.path.join(ROOT, "docs/gallery.md")
BIN = os.environ.get("HYP_BIN", os.path.join(ROOT, "build/release/bin"))
MODELS = [
    ("examples/digits/digits.onnx", "A perceptron, written as products, sums and relus: one kernel does all its layers."),
    ("tests/models/torch/tabular-dynamo.onnx", "Columns of a table, some of them embedded, through normalization and layers. The normalization goes into the layers' weights."),
    ("tests/models/torch/dlrm-dynamo.onnx", "A recommender: embeddings, a product of all pairs, two perceptrons."),
    ("tests/models/torch/mixer-script.onnx", "MLP-Mixer: layers along patches and along channels. The six nodes that the exporter writes for each GELU become an activation of the layer before."),
    ("tests/models/torch/vit-dynamo.onnx", "A vision transformer. On a GPU attention becomes one step; on the CPU products and softmax stay apart, being the cheaper form there."),
    ("tests/models/torch/bert2-script.onnx", "Two layers of BERT, as the older exporter writes them."),
    ("tests/models/torch/bert2-dynamo.onnx", "The same two layers by the newer exporter: other nodes, the same steps."),
    ("tests/models/torch/gpt2-dynamo.onnx", "Two layers of GPT-2 with their past: GELU by tanh is put together again out of eight nodes."),
    ("tests/models/torch/resnet18-dynamo.onnx", "ResNet-18, narrow: sums and relus go into the convolutions, on the CPU all of them (the exporter has put batch normalization there before)."),
    ("tests/models/torch/mobilenet-script.onnx", "MobileNet, narrow: clips, hard-swishes and sums go into the convolutions."),
]
TARGETS = (("cpu:avx2", "CPU"), ("cuda:h100", "GPU"))


def tool(*command):
    done = subprocess.run([os.path.join(BIN, command[0]), *command[1:]], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}:\n{done.stderr}")
    return done.stdout


def compile_model(model, plan, target, *options):
    return tool("hypatiac", model, "-o", plan, "--target", target, "--verify", "off", "--golden", "0", *options)


def describe(plan):
    return json.loads(tool("hypatia", "inspect", plan, "--json"))


def kinds(steps):
    """"4 linear, 2 attention": the commonest first, equal ones by name."""
    counted = sorted(collections.Counter(step["label"] for step in steps).items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{n} {label}" for label, n in counted)


def time_of(seconds):
    """Three figures: predictions do not carry more."""
    us = seconds * 1e6
    return f"{us / 1000:.3g} ms" if us >= 1000 else f"{us:.3g} us"


def examine(model, folder):
    plans, before, after = [], [], []
    for target, _ in TARGETS:
        for name, options in (("before", ["--no-rewrite"]), ("after", [])):
            plan = os.path.join(folder, "plan.bin")
            said = compile_model(model, plan, target, *options)
            found = describe(plan)
            (before if name == "before" else after).append(found)
            if name == "after" and not plans:
                plans.append(re.search(r"(\d+) nodes that run -> (\d+)", said).groups())
                rules = re.findall(r"([\w-]+) \d+x", re.search(r"rules used: (.*)", said)[1])
    return plans[0][0], rules, before, after


def section(path, says, folder):
    nodes, rules, before, after = examine(os.path.join(ROOT, path), folder)
    name = os.path.basename(path)[:-5]
    row = f"| [{name}](#{name}) | {nodes} | " + " | ".join(
        f"{len(b['steps'])} -> {len(a['steps'])} | {time_of(b['predicted_seconds'])} -> {time_of(a['predicted_seconds'])}" for b, a in zip(before, after)) + " |"
    dearest = max(after[0]["steps"], key=lambda step: step["predicted_seconds"])
    longest = max(after[0]["steps"], key=lambda step: len(step["sources"]))
    lines = [f"## {name}", "", f"{says} `{path}`, {nodes} nodes that run.", "",
             "| | steps | predicted | |", "|---|---|---|---|"]
    for (target, _), b, a in zip(TARGETS, before, after):
        for what, found in (("as it came", b), ("rewritten", a)):
            lines.append(f"| `{target}`, {what} | {len(found['steps'])} | {time_of(found['predicted_seconds'])} | {kinds(found['steps'])} |")
    share = 100 * dearest["predicted_seconds"] / sum(step["predicted_seconds"] for step in after[0]["steps"])
    lines += ["", f"On the CPU {share:.0f} % of the time goes into `{dearest['label']}`; one `{longest['label']}` stands for {len(longest['sources'])} nodes of the model. "
              f"{len(rules)} rules had a part in it: " + ", ".join(f"`{rule}`" for rule in rules) + ".", ""]
    return row, lines


def page():
    rows, sections = [], []
    with tempfile.TemporaryDirectory() as folder:
        for path, says in MODELS:
            row, lines = section(path, says, folder)
            rows.append(row)
            sections += lines
    head = ["# Ten models, before and after", "",
            "What `hypatiac` makes of models that PyTorch's two exporters write, small ones with the shapes of those that they are named after; figures of real sizes that were",
            "measured are in [models.md](models.md). Times are predictions for the profiles `" + "` and `".join(target for target, _ in TARGETS) + "`, open sizes counted as 32,",
            "and the same on every machine; \"as it came\" is the model without rewriting (`--no-rewrite`), which still shares passes over memory among elementwise operators.", "",
            "`scripts/gallery.py` writes this page; a test makes it again.", "",
            "| model | nodes | " + " | ".join(f"steps, {name} | predicted" for _, name in TARGETS) + " |", "|---|---|" + "---|---|" * len(TARGETS), *rows, ""]
    return "\n".join(head + sections)


def main():
    text = page()
    if sys.argv[1:] == ["--check"]:
        with open(PAGE, encoding="utf-8") as file:
            kept = file.read()
        sys.stdout.writelines(difflib.unified_diff(kept.splitlines(True), text.splitlines(True), "docs/gallery.md", "as it would be written: scripts/gallery.py"))
        sys.exit(kept != text)
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
