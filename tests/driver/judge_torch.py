#!/usr/bin/env python3
"""Models as PyTorch's exporters write them (scripts/export-models.py) against onnxruntime: each compiled once, then run
with three batch sizes and three lengths from one plan, on the CPU and the reference backend, and as it was imported.

    judge_torch.py [--cpu|--cuda] [FOLDER]     tests/models/torch

--cpu leaves the reference backend out, which takes minutes for models of full size; --cuda runs plans for a GPU on one.
"""
import glob
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hyp  # noqa: E402
import numpy as np  # noqa: E402

RTOL, ATOL = 1e-3, 1e-5
SIZES = [(1, 1), (2, 7), (5, 12)]  # batch, length


def feed(rng, session, words, batch, length):
    """Random inputs. Integers stay below `words`, which every table has."""
    feeds = {}
    for info in session.get_inputs():
        dims = []
        for axis, d in enumerate(info.shape):
            dims.append(d if isinstance(d, int) else batch if str(d).startswith("batch") or "_dim_0" in str(d) else length)
        if "int" in info.type:
            high = 2 if info.name == "mask" else words
            values = rng.integers(0, high, dims).astype(np.int64)
            if info.name == "mask":
                values[..., 0] = 1  # at least one word counts
            feeds[info.name] = values
        else:
            feeds[info.name] = rng.standard_normal(dims).astype(np.float32)
    return feeds


def worst_of(got, want):
    """The largest difference in units of the tolerance, and the largest relative to max(1, |wanted|)."""
    units, plain = 0.0, 0.0
    for a, b in zip(got, want):
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf"), float("inf")
        if a.size:
            units = max(units, float(np.max(np.abs(a - b) / (ATOL + RTOL * np.abs(b)))))
            plain = max(plain, hyp.difference(a, b))
    return units, plain


def main():
    onnx, ort = hyp.need("onnx", "onnxruntime")
    given = [a for a in sys.argv[1:] if not a.startswith("--")]
    folder = given[0] if given else os.path.join(hyp.ROOT, "tests/models/torch")
    ways = [(False, "cpu"), (True, "cpu")] + ([] if "--cpu" in sys.argv else [(False, "reference")])
    if "--cuda" in sys.argv:
        ways = [(False, "cuda"), (True, "cuda")]
    files = sorted(glob.glob(os.path.join(folder, "*.onnx")))
    if not files:
        print(f"{folder}: no models are there")
        sys.exit(1)
    quiet = ort.SessionOptions()
    quiet.log_severity_level = 4
    failed, rng = 0, np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as scratch:
        plan = os.path.join(scratch, "plan.bin")
        for file in files:
            name = os.path.basename(file)
            session = ort.InferenceSession(file, quiet, providers=["CPUExecutionProvider"])
            runs = [feed(rng, session, 5, *size) for size in SIZES]
            wanted = [session.run(None, feeds) for feeds in runs]
            worst = (0.0, 0.0)
            try:
                for no_rewrite, device in ways:
                    hyp.compile_model(file, plan, target="cuda" if device == "cuda" else "cpu", no_rewrite=no_rewrite)
                    with hyp.Engine(plan, device, threads=2) as engine:
                        for feeds, want in zip(runs, wanted):
                            worst = tuple(map(max, worst, worst_of(engine.run(feeds), want)))
            except hyp.Error as error:
                print(f"FAILED {name}: {error}")
                failed += 1
                continue
            good = worst[0] <= 1
            failed += not good
            nodes = len(onnx.load(file, load_external_data=False).graph.node)
            print(f"{'ok' if good else 'FAILED'} {name}: {nodes} nodes, largest difference {worst[1]:.2g}, {worst[0]:.2g} "
                  "of the tolerance", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
