"""Trains the example model on scikit-learn's bundled handwritten digits and writes digits.onnx, images.npy and
labels.npy beside this script. Needs scikit-learn and onnx; nothing is downloaded. The results are committed, so that
nobody has to run this to use them.
"""
import os

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

HERE = os.path.dirname(os.path.abspath(__file__))
TEST_IMAGES = 100


def export(classifier):
    """The trained layers as ONNX: MatMul, Add, Relu as most exporters write them, and a Softmax."""
    nodes, weights, value = [], [], "image"
    for i, (w, b) in enumerate(zip(classifier.coefs_, classifier.intercepts_)):
        weights += [numpy_helper.from_array(w.astype(np.float32), f"w{i}"),
                    numpy_helper.from_array(b.astype(np.float32), f"b{i}")]
        nodes += [helper.make_node("MatMul", [value, f"w{i}"], [f"product{i}"], name=f"layer{i}/MatMul"),
                  helper.make_node("Add", [f"product{i}", f"b{i}"], [f"sum{i}"], name=f"layer{i}/Add")]
        value = f"sum{i}"
        if i + 1 < len(classifier.coefs_):
            nodes.append(helper.make_node("Relu", [value], [f"hidden{i}"], name=f"layer{i}/Relu"))
            value = f"hidden{i}"
    nodes.append(helper.make_node("Softmax", [value], ["probabilities"], name="Softmax", axis=-1))
    graph = helper.make_graph(nodes, "digits",
                              [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 64])],
                              [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], producer_name="examples/digits/train.py",
                             ir_version=8)


def main():
    digits = load_digits()
    images = (digits.data / 16).astype(np.float32)
    train_x, test_x, train_y, test_y = train_test_split(images, digits.target, test_size=0.25, random_state=0)
    classifier = MLPClassifier(hidden_layer_sizes=(128, 64, 32), random_state=0, max_iter=200)
    classifier.fit(train_x, train_y)
    print(f"accuracy on {len(test_y)} unseen images: {classifier.score(test_x, test_y):.3f}")
    with open(os.path.join(HERE, "digits.onnx"), "wb") as file:
        file.write(export(classifier).SerializeToString())
    np.save(os.path.join(HERE, "images.npy"), test_x[:TEST_IMAGES])
    np.save(os.path.join(HERE, "labels.npy"), test_y[:TEST_IMAGES].astype(np.int64))


if __name__ == "__main__":
    main()
