"""Trains a small convolutional network on scikit-learn's bundled handwritten digits and writes cnn.onnx and, as 0.pgm to
9.pgm, the first unseen image of every digit beside this script. Needs PyTorch and scikit-learn; nothing is downloaded.
The results are committed, so that nobody has to run this to use them.
"""
import os

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
EPOCHS, BATCH = 30, 64


def block(inputs, outputs):
    return [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]


def train(images, labels):
    model = nn.Sequential(*block(1, 8), *block(8, 16), nn.Flatten(), nn.Linear(16 * 2 * 2, 10), nn.Softmax(dim=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(images)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.nll_loss(torch.log(model(images[chosen]) + 1e-9), labels[chosen]).backward()
            optimizer.step()
    return model.eval()


def write_pgm(path, image):
    """An image of 8 x 8 pixels from 0 to 16, as a PGM file in text."""
    rows = [" ".join(f"{int(pixel):2d}" for pixel in row) for row in image]
    with open(path, "w", encoding="ascii") as file:
        file.write("P2\n8 8\n16\n" + "\n".join(rows) + "\n")


def main():
    torch.manual_seed(0)
    digits = load_digits()
    train_x, test_x, train_y, test_y = train_test_split(digits.images, digits.target, test_size=0.25, random_state=0)
    as_input = lambda images: torch.tensor(images / 16, dtype=torch.float32).unsqueeze(1)
    model = train(as_input(train_x), torch.tensor(train_y))
    with torch.no_grad():
        accuracy = (model(as_input(test_x)).argmax(1) == torch.tensor(test_y)).float().mean()
    print(f"accuracy on {len(test_y)} unseen images: {accuracy:.3f}")
    torch.onnx.export(model, (as_input(test_x[:1]),), os.path.join(HERE, "cnn.onnx"), input_names=["image"],
                      output_names=["probabilities"], dynamic_axes={"image": {0: "batch"}, "probabilities": {0: "batch"}},
                      opset_version=17, dynamo=False)
    for digit in range(10):
        write_pgm(os.path.join(HERE, f"{digit}.pgm"), test_x[list(test_y).index(digit)])


if __name__ == "__main__":
    main()
