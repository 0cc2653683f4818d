"""The layers of neural networks, forwards and backwards, against numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tinygrad import Context, Tensor, nn

from .numerics import Array, array, close, run, same, seeded, some, tensor


def whole(shape: tuple[int, ...], *key: object) -> Array:
    """Small integers as float32, whose sums of products are exact."""
    return seeded("whole", shape, *key).integers(-4, 5, shape).astype(np.float32)


def convolve(x: Array, w: Array, stride: int = 1, pad: int = 0, groups: int = 1, dilation: int = 1) -> Array:
    """Convolution as defined. ``x`` is (batch, channels, height, width), ``w`` (out, channels/groups, kh, kw)."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    n, _, h, width = x.shape
    out, cg, kh, kw = w.shape
    oh = (h - dilation * (kh - 1) - 1) // stride + 1
    ow = (width - dilation * (kw - 1) - 1) // stride + 1
    y = np.zeros((n, out, oh, ow), np.float64)
    for o in range(out):
        first = (o // (out // groups)) * cg
        for i in range(oh):
            for j in range(ow):
                rows = slice(i * stride, i * stride + dilation * (kh - 1) + 1, dilation)
                columns = slice(j * stride, j * stride + dilation * (kw - 1) + 1, dilation)
                y[:, o, i, j] = (x[:, first : first + cg, rows, columns] * w[o]).sum((1, 2, 3))
    return y.astype(np.float32)


CONVOLUTIONS = {
    "3x3": ((1, 3, 8, 8), (4, 3, 3, 3), {}),
    "1x1": ((2, 4, 5, 5), (3, 4, 1, 1), {}),
    "stride": ((1, 2, 9, 9), (3, 2, 3, 3), {"stride": 2}),
    "padding": ((1, 2, 6, 7), (2, 2, 3, 3), {"pad": 1}),
    "groups": ((1, 4, 6, 6), (6, 2, 3, 3), {"groups": 2}),
    "depthwise": ((1, 4, 6, 6), (4, 1, 3, 3), {"groups": 4, "pad": 1}),
    "dilation": ((1, 2, 9, 9), (2, 2, 3, 3), {"dilation": 2}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str) -> None:
    xs, ws, options = CONVOLUTIONS[name]
    x, w = whole(xs, name, "x"), whole(ws, name, "w")

    def fn(x: Tensor, w: Tensor) -> Tensor:
        return x.conv2d(
            w,
            stride=options.get("stride", 1),
            padding=options.get("pad", 0),
            groups=options.get("groups", 1),
            dilation=options.get("dilation", 1),
        )

    same(run(fn, x, w), convolve(x, w, **options), signed_zeros=False)


def test_winograd_gives_the_same() -> None:
    x, w = some("float32", (1, 3, 10, 10)), some("float32", (4, 3, 3, 3))
    with Context(WINO=1):
        got = run(lambda x, w: x.conv2d(w), x, w)
    close(got, convolve(x, w), "float32", ulp=64, absolute=1e-3)


def test_half_convolution() -> None:
    x, w = whole((1, 8, 6, 6), "x").astype(np.float16), whole((16, 8, 3, 3), "w").astype(np.float16)
    want = convolve(x.astype(np.float32), w.astype(np.float32)).astype(np.float16)
    same(run(lambda x, w: x.conv2d(w), x, w), want, signed_zeros=False)


def test_transposed_convolution() -> None:
    x, w = whole((1, 2, 4, 4), "x"), whole((2, 3, 3, 3), "w")
    want = convolve(np.pad(x, ((0, 0), (0, 0), (2, 2), (2, 2))), w.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1])
    same(run(lambda x, w: x.conv_transpose2d(w), x, w), want, signed_zeros=False)


def test_pooling() -> None:
    x = some("float32", (2, 3, 8, 8))
    windows = x.reshape(2, 3, 4, 2, 4, 2)
    same(run(lambda x: x.max_pool2d((2, 2)), x), windows.max((3, 5)))
    close(run(lambda x: x.avg_pool2d((2, 2)), x), windows.mean((3, 5)), "float32", ulp=4, absolute=1e-6)


def softmax(x: Array) -> Array:
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


SOFT: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Array], Array]]] = {
    "softmax": (lambda x: x.softmax(-1), softmax),
    "log_softmax": (lambda x: x.log_softmax(-1), lambda x: np.log(softmax(x))),
    "logsumexp": (lambda x: x.logsumexp(-1), lambda x: np.log(np.exp(x.astype(np.float64)).sum(-1))),
    "layernorm": (
        lambda x: x.layernorm(),
        lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5),
    ),
    "normalize": (lambda x: x.normalize(), lambda x: x / np.linalg.norm(x, axis=1, keepdims=True)),
    "std": (lambda x: x.std(-1), lambda x: x.std(-1, ddof=1)),
}


#: tinygrad writes the constants 1e-5 and 1e-12 of these without a decimal point, which LLVM does not read as a double.
NOT_IN_DOUBLE = ("layernorm", "normalize")


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(n, d) for n in SOFT for d in ("float16", "float32", "float64") if not (n in NOT_IN_DOUBLE and d == "float64")],
)
def test_normalising_functions(name: str, dtype: str) -> None:
    fn, ref = SOFT[name]
    x = some(dtype, (5, 24))
    bound = {"float16": 6e-3, "float32": 4e-6, "float64": 1e-8}[dtype]
    np.testing.assert_allclose(run(fn, x), ref(x.astype(np.float64)), rtol=bound, atol=bound)


def test_softmax_survives_large_and_infinite_inputs() -> None:
    x = np.array([[1000, 999, 998], [-np.inf, 0, 0], [-1e30, 1e30, 0]], np.float32)
    np.testing.assert_allclose(run(lambda x: x.softmax(-1), x), softmax(x), rtol=1e-5, atol=1e-7)


def test_cross_entropy() -> None:
    x, y = some("float32", (8, 5)), np.array([0, 4, 2, 2, 1, 3, 0, 4], np.int32)
    want = -np.log(softmax(x))[np.arange(8), y].mean()
    np.testing.assert_allclose(run(lambda x, y: x.sparse_categorical_crossentropy(y), x, y), want, rtol=1e-5)


def test_attention() -> None:
    q, k, v = (some("float32", (2, 3, 6, 8), n) for n in "qkv")
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2) / np.sqrt(8)
    causal = np.where(np.tril(np.ones((6, 6), bool)), scores, -np.inf)
    got = run(lambda q, k, v: q.scaled_dot_product_attention(k, v), q, k, v)
    np.testing.assert_allclose(got, softmax(scores) @ v, rtol=1e-5, atol=1e-5)
    got = run(lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True), q, k, v)
    np.testing.assert_allclose(got, softmax(causal) @ v, rtol=1e-5, atol=1e-5)


def test_batch_norm_in_training_and_in_use() -> None:
    layer, x = nn.BatchNorm(3), some("float32", (4, 3, 5, 5))
    mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
    with Context(TRAINING=1):
        got = layer(tensor(x)).numpy()
    shape = (1, 3, 1, 1)
    want = (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + 1e-5)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.1 * mean, rtol=1e-4, atol=1e-6)


GRADIENTS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Array], Array]]] = {
    "square": (lambda x: x.square(), lambda x: 2 * x),
    "sin": (lambda x: x.sin(), np.cos),
    "exp": (lambda x: x.exp(), np.exp),
    "tanh": (lambda x: x.tanh(), lambda x: 1 - np.tanh(x) ** 2),
    "sigmoid": (lambda x: x.sigmoid(), lambda x: np.exp(-x) / (1 + np.exp(-x)) ** 2),
    "relu": (lambda x: x.relu(), lambda x: (x > 0).astype(x.dtype)),
    "reciprocal": (lambda x: 1 / (x + 6), lambda x: -1 / (x + 6) ** 2),
    "log": (lambda x: (x + 6).log(), lambda x: 1 / (x + 6)),
    "max": (lambda x: x.max(1), lambda x: (x == x.max(1, keepdims=True)).astype(x.dtype)),
    "cumsum": (lambda x: x.cumsum(1), lambda x: np.broadcast_to(np.arange(x.shape[1], 0, -1.0), x.shape)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient(name: str) -> None:
    fn, ref = GRADIENTS[name]
    x = tensor(some("float32", (4, 9)))
    fn(x).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(array(x.grad), ref(x.numpy().astype(np.float64)), rtol=2e-5, atol=2e-5)


def test_gradients_of_a_product_and_a_convolution() -> None:
    a, b = tensor(whole((5, 6), "a")), tensor(whole((6, 7), "b"))
    (a @ b).sum().backward()
    assert a.grad is not None and b.grad is not None
    same(array(a.grad), np.broadcast_to(b.numpy().sum(1), (5, 6)).copy(), signed_zeros=False)
    same(array(b.grad), np.broadcast_to(a.numpy().sum(0)[:, None], (6, 7)).copy(), signed_zeros=False)
    x, w = tensor(whole((1, 2, 6, 6), "x")), tensor(whole((3, 2, 3, 3), "w"))
    x.conv2d(w).sum().backward()
    assert w.grad is not None
    windows = np.lib.stride_tricks.sliding_window_view(x.numpy()[0], (3, 3), (1, 2)).sum((1, 2))
    same(array(w.grad), np.broadcast_to(windows, (3, 2, 3, 3)).copy(), signed_zeros=False)
