"""The networks that Hypatia began with, as ONNX: small, medium and large perceptrons of 2, 4 and 6 layers, a relu behind each layer but
the last, and the first layer of each size alone, with its relu.

    python3 examples/nine/nine.py FOLDER [--rows N] [--only small-2,medium]

writes FOLDER/small-2.onnx, ... and FOLDER/small-1.onnx, ..., for any number of rows, or for N. Weights are drawn with a fixed seed: the
same files each time. Needs onnx and numpy. scripts/nine.sh measures them; docs/seeds.md tells what came of it.
"""
import argparse
import os

# Rows of a batch, and what goes in, between and out.
SIZES = {"small": (256, 256, 512, 256), "medium": (1024, 784, 2048, 10), "large": (8192, 4096, 4096, 4096)}
LAYERS = (2, 4, 6)


def widths(size, layers):
    _, first, hidden, last = SIZES[size]
    return (first, hidden) if layers == 1 else (first, *[hidden] * (layers - 1), last)


def name_of(size, layers, rows=None):
    """As the benchmarks of bench/ call it: "mlp 256: 256-512-256"."""
    return f"{'linear-relu' if layers == 1 else 'mlp'} {rows or SIZES[size][0]}: {'-'.join(map(str, widths(size, layers)))}"


def configurations(only=""):
    """(size, layers) of the nine, behind the single layers, of those whose name begins with one of the texts."""
    all = [(size, layers) for layers in (1, *LAYERS) for size in SIZES]
    return [(size, layers) for size, layers in all if any(f"{size}-{layers}".startswith(text) for text in only.split(","))]


def make_model(size, layers, rows=None):
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper
    rng, nodes, weights, value, ends = np.random.default_rng(0), [], [], "x", widths(size, layers)
    for i, (k, n) in enumerate(zip(ends, ends[1:])):
        relu = layers == 1 or i + 1 < layers
        weights += [numpy_helper.from_array(rng.standard_normal((n, k), np.float32) / np.float32(k ** 0.5), f"w{i}"),
                    numpy_helper.from_array(rng.standard_normal(n, np.float32) * np.float32(0.1), f"b{i}")]
        product = f"g{i}" if relu else "y"
        nodes.append(helper.make_node("Gemm", [value, f"w{i}", f"b{i}"], [product], f"layer{i}/Gemm", transB=1))
        value = "y" if i + 1 == layers else f"h{i}"
        if relu:
            nodes.append(helper.make_node("Relu", [product], [value], f"layer{i}/Relu"))
    edges = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows or "batch", width])
             for name, width in (("x", ends[0]), ("y", ends[-1]))]
    graph = helper.make_graph(nodes, f"{size}-{layers}", edges[:1], edges[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    for size, layers in configurations(args.only):
        with open(os.path.join(args.folder, f"{size}-{layers}.onnx"), "wb") as file:
            file.write(make_model(size, layers, args.rows).SerializeToString())


if __name__ == "__main__":
    main()
