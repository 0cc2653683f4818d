"""Train a small neural network on an emulated GPU, and check every step against plain numpy.

    MOCKGPU=1 DEV=AMD python examples/train_mlp.py

The task: points on three interleaved spiral arms, to be told apart by a multilayer perceptron (2 -> 32 -> 32 -> 3).
It is trained twice from the same weights on the same batches:

1. with tinygrad: its compiler makes GPU kernels, its runtime queues them, and ``TinyJit`` replays the whole training
   step as one graph of commands from the third step on, exactly as on a real card;
2. with numpy, where the gradients are written out by hand.

Both must tell the same story: the losses of every step and the final weights have to agree to float32 accuracy.
The exit status is 0 if they do, 1 if they do not.
"""

from __future__ import annotations

import itertools
import sys
import time

import numpy as np
from tinygrad import Context, Device, Tensor, TinyJit, nn

STEPS = 16
BATCH = 48
WIDTH = 32
CLASSES = 3
LEARNING_RATE = 0.2
MOMENTUM = 0.9
#: Largest allowed difference, relative to the size of the values. A float32 has a relative precision of 6e-8; sums of
#: some dozens of products in another order, carried through 16 steps, stay well below this.
TOLERANCE = 1e-5

Weights = list[np.ndarray]


def spiral_batches(rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """One batch a step: points ``(BATCH, 2)`` as float32, and the number of the arm of each, ``(BATCH,)`` as int32."""
    batches = []
    for _ in range(STEPS):
        arm = rng.integers(0, CLASSES, BATCH)
        radius = rng.uniform(0.1, 1.0, BATCH)
        angle = 2 * np.pi * arm / CLASSES + 3 * radius + rng.normal(0, 0.1, BATCH)
        points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        batches.append((points.astype(np.float32), arm.astype(np.int32)))
    return batches


def initial_weights(rng: np.random.Generator) -> Weights:
    """Matrix and bias of each of the three layers, in turn."""
    sizes = [2, WIDTH, WIDTH, CLASSES]
    weights: Weights = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        matrix = rng.normal(0, np.sqrt(2 / fan_in), (fan_in, fan_out))
        weights += [matrix.astype(np.float32), np.zeros(fan_out, np.float32)]
    return weights


# ---- the same training, first on the GPU ------------------------------------------------------------------------


def train_on_gpu(start: Weights, batches: list[tuple[np.ndarray, np.ndarray]]) -> tuple[list[float], Weights]:
    params = [Tensor(w) for w in start]
    optimizer = nn.optim.SGD(params, lr=LEARNING_RATE, momentum=MOMENTUM)

    def model(x: Tensor) -> Tensor:
        w1, b1, w2, b2, w3, b3 = params
        x = (x @ w1 + b1).relu()
        x = (x @ w2 + b2).relu()
        return x @ w3 + b3

    @TinyJit
    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(x).sparse_categorical_crossentropy(y).backward()
        return loss.realize(*optimizer.schedule_step())

    losses = []
    with Context(TRAINING=1):
        for i, (points, arms) in enumerate(batches):
            began = time.perf_counter()
            loss = step(Tensor(points).realize(), Tensor(arms).realize()).item()
            seconds = time.perf_counter() - began
            losses.append(loss)
            print(f"step {i:2d}  loss {loss:.5f}  {seconds:6.2f} s  {'#' * round(40 * loss)}")
    return losses, [p.numpy() for p in params]


# ---- and then in numpy ------------------------------------------------------------------------------------------


def train_in_numpy(start: Weights, batches: list[tuple[np.ndarray, np.ndarray]]) -> tuple[list[float], Weights]:
    params = [w.copy() for w in start]
    velocity = [np.zeros_like(w) for w in start]
    losses = []
    for points, arms in batches:
        w1, b1, w2, b2, w3, b3 = params
        # Forwards.
        h1 = np.maximum(points @ w1 + b1, 0)
        h2 = np.maximum(h1 @ w2 + b2, 0)
        logits = h2 @ w3 + b3
        logits -= logits.max(axis=1, keepdims=True)
        log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        losses.append(float(-log_p[np.arange(BATCH), arms].mean()))
        # Backwards: the gradient of the loss at each layer's output, from the last to the first.
        d3 = (np.exp(log_p) - np.eye(CLASSES, dtype=np.float32)[arms]) / np.float32(BATCH)
        d2 = (d3 @ w3.T) * (h2 > 0)
        d1 = (d2 @ w2.T) * (h1 > 0)
        grads = [points.T @ d1, d1.sum(0), h1.T @ d2, d2.sum(0), h2.T @ d3, d3.sum(0)]
        # Gradient descent with momentum.
        for p, v, g in zip(params, velocity, grads, strict=True):
            v *= np.float32(MOMENTUM)
            v += g
            p -= np.float32(LEARNING_RATE) * v
    return losses, params


# ---- do they agree? ---------------------------------------------------------------------------------------------


def relative_error(got: np.ndarray, want: np.ndarray) -> float:
    """The largest difference, in units of the largest wanted value. Not-a-number counts as infinitely wrong."""
    error = np.abs(got - want).max() / np.abs(want).max()
    return float("inf") if np.isnan(error) else float(error)


def main() -> int:
    rng = np.random.default_rng(2024)
    batches, start = spiral_batches(rng), initial_weights(rng)
    print(f"training on {Device.DEFAULT} ({Device[Device.DEFAULT].arch})")
    losses, weights = train_on_gpu(start, batches)
    want_losses, want_weights = train_in_numpy(start, batches)

    names = ["losses", "weights 1", "bias 1", "weights 2", "bias 2", "weights 3", "bias 3"]
    pairs = zip([np.array(losses), *weights], [np.array(want_losses), *want_weights], strict=True)
    errors = {name: relative_error(got, want) for name, (got, want) in zip(names, pairs, strict=True)}
    wrong = {name: e for name, e in errors.items() if not e <= TOLERANCE}
    print(f"largest relative difference to numpy: {max(errors.values()):.1e} (allowed: {TOLERANCE:.0e})")
    if wrong:
        print("WRONG: " + ", ".join(f"{name} differ by {e:.1e}" for name, e in wrong.items()), file=sys.stderr)
        return 1
    if not losses[-1] < losses[0] / 2:
        print(f"WRONG: the network did not learn, the loss went from {losses[0]} to {losses[-1]}", file=sys.stderr)
        return 1
    print("OK: the emulated GPU and numpy agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
