"""Train a small convolutional network on handwritten digits, and follow its training step through every stage of the
compiler.

The data: 1,797 images of 8x8 pixels from the UCI repository, as scikit-learn's package carries them. A fifth is held
out.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parent))
from digits_numpy import NumpyNetwork

import tenon
from tenon import nn, optim

BATCH = 64


class DigitNetwork(nn.Module):
    """(n, 1, 8, 8) images to (n, 10) scores: two 3x3 convolutions with pooling, then a linear layer."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = np.random.default_rng(seed)
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1, seed=generator)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1, seed=generator)
        self.head = nn.Linear(64 * 2 * 2, 10, seed=generator)

    def forward(self, images: Any) -> Any:
        hidden = tenon.max_pool2d(tenon.relu(self.conv1(images)), window=(2, 2))
        hidden = tenon.max_pool2d(tenon.relu(self.conv2(hidden)), window=(2, 2))
        return self.head(tenon.reshape(hidden, (images.shape[0], -1)))


def load(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training images and labels, then those of the held-out fifth."""
    digits: Any = load_digits()
    images = (digits.images / 16).astype(np.float32)[:, None]
    labels = digits.target.astype(np.int64)
    order = np.random.default_rng(seed).permutation(len(labels))
    held_out, training = np.split(order, [len(labels) // 5])
    return images[training], labels[training], images[held_out], labels[held_out]


optimizer = optim.Adam(lr=2e-3)


@tenon.jit(donate=("model", "state"))
def train_step(model: DigitNetwork, state: Any, images: Any, labels: Any) -> Any:
    """Forward, backward and update, as one executable."""

    def loss(model: DigitNetwork) -> Any:
        return tenon.cross_entropy(model(images), labels)

    value, gradients = tenon.value_and_grad(loss)(model)
    model, state = optimizer.update(model, gradients, state)
    return model, state, value


@tenon.jit
def predict(model: DigitNetwork, images: Any) -> Any:
    """The scores of images."""
    return model(images)


def train(model: DigitNetwork, images: np.ndarray, labels: np.ndarray, epochs: int, seed: int) -> DigitNetwork:
    """The model after `epochs` passes over the images, in batches of random order."""
    generator = np.random.default_rng(seed)
    state = optimizer.init(model)
    value = np.float32(np.nan)
    steps = len(labels) // BATCH
    with tqdm(total=epochs * steps, desc="training", unit="step", mininterval=0.5) as progress:
        for _ in range(epochs):
            for batch in generator.permutation(len(labels))[: steps * BATCH].reshape(steps, BATCH):
                model, state, value = train_step(model, state, images[batch], labels[batch])
                progress.update()
            progress.set_postfix(loss=f"{float(value):.4f}")
    return model


def compare_speed(images: np.ndarray, labels: np.ndarray, seed: int, rounds: int) -> tuple[float, float]:
    """Median seconds per training step, here and in NumPy, measured in turns; the losses of the first step must
    agree."""
    model = DigitNetwork(seed)
    state = optimizer.init(model)
    network = NumpyNetwork(model.state_dict(), lr=optimizer.lr)
    ours: list[float] = []
    theirs: list[float] = []
    for step in range(rounds):
        batch = np.arange(step * BATCH, (step + 1) * BATCH) % len(labels)
        x, y = images[batch], labels[batch]
        started = time.perf_counter()
        model, state, value = train_step(model, state, x, y)
        middle = time.perf_counter()
        expected = network.step(x, y)
        ours.append(middle - started)
        theirs.append(time.perf_counter() - middle)
        np.testing.assert_allclose(value, expected, rtol=2e-3)
    return float(np.median(ours)), float(np.median(theirs))


def run_again(folder: Path, model: DigitNetwork, images: np.ndarray) -> float:
    """Run the loop IR of `predict` through the command line; the largest difference from what was computed here."""
    file = sorted(folder.glob("predict.*.mlir"))[-1]
    leaves = [*model.state_dict().values(), images]
    np.savez(folder / "predict.args.npz", *leaves)
    output = folder / "predict.result.npy"
    command = ["run", str(file), "--args", str(folder / "predict.args.npz"), "-o", str(output)]
    print(f"$ tenon {' '.join(command)}")
    subprocess.run([sys.executable, "-m", "tenon.tools.cli", *command], check=True)
    return float(np.abs(np.load(output) - predict(model, images)).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ir", type=Path, default=Path("build/digits-ir"), help="folder for the IR of every stage")
    options = parser.parse_args()
    images, labels, test_images, test_labels = load(options.seed)
    model = DigitNetwork(options.seed)

    started = time.perf_counter()
    with tenon.knobs.override(dump_ir=options.ir):
        train_step(DigitNetwork(options.seed), optimizer.init(model), images[:BATCH], labels[:BATCH])
        predict(model, test_images)
    print(f"compiled the training step and the prediction in {time.perf_counter() - started:.2f} s")

    model = train(model, images, labels, options.epochs, options.seed)
    accuracy = float((predict(model, test_images).argmax(axis=1) == test_labels).mean())
    print(f"accuracy on {len(test_labels)} held-out images: {100 * accuracy:.2f} %")

    ours, theirs = compare_speed(images, labels, options.seed, rounds=60)
    print(f"training step: {1e3 * ours:.2f} ms; in NumPy {1e3 * theirs:.2f} ms ({theirs / ours:.1f} times as long)")
    print(f"the IR of every stage: {options.ir.resolve()}")
    difference = run_again(options.ir, model, test_images)
    print(f"largest difference of the scores when the loop IR is run from its file: {difference:.1e}")
    if accuracy < 0.98:
        raise SystemExit(f"accuracy {accuracy:.4f} is below 0.98")


if __name__ == "__main__":
    main()
