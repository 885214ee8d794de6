"""Ops in other orders of axes, and networks that have their channels last."""

from collections import Counter

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sample import SAMPLES
from samples import samples_of
from xdsl.context import Context

import tenon
import tenon.runtime.evaluate  # pyright: ignore[reportUnusedImport]  runs ops on arrays
from tenon.dialects.definition.registry import registry
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.families import ElementwiseOp
from tenon.dialects.ops.move.shape import TransposeOp
from tenon.lowering.pipeline import run_passes
from tenon.passes.pipeline import TENSOR_PIPELINE


def stated(sample):
    """The op of a sample, as it is traced; `None` where it is computed before."""
    module = tenon.jit(lambda *values: sample.apply(values)).trace(*sample.arrays).module
    return next((op for op in module.walk() if op.name == sample.op_name), None)


def in_order(array, rank, order):
    return np.transpose(np.reshape(array, (1,) * (rank - array.ndim) + array.shape), order)


def states_orders(name):
    op_type = registry()[name]
    return op_type.reordered is not TensorOp.reordered and not issubclass(op_type, ElementwiseOp)


NAMES = sorted({sample.op_name for sample in SAMPLES if states_orders(sample.op_name)})


@pytest.mark.parametrize("name", [*NAMES, "tenon.add", "tenon.select", "tenon.clamp"])
def test_reordered_ops_give_the_result_in_that_order(name):
    for sample in samples_of(name, 4):
        op = stated(sample)
        if op is None or len(op.results) != 1:
            continue
        rank = len(op.results[0].type.get_shape())
        order = (rank - 1, *range(rank - 1))
        if rank < 2 or (settings := op.reordered(order)) is None:
            continue
        (expected,) = sample.apply(sample.arrays)
        arrays = [in_order(array, rank, order) for array in sample.arrays]
        found = type(op).apply(*op.group(arrays, op.properties), **settings)
        np.testing.assert_allclose(found, np.transpose(expected, order), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["window_max", "window_argmax", "window_sum"])
def test_windows_over_axes_in_front_of_the_last_one(name):
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 9))
    windows = {"window": (3, 2), "stride": (2, 1), "dilation": (1, 3)}
    op = registry()["tenon." + name]
    expected = op.apply(x, **windows)
    module = tenon.jit(lambda x: op.apply(x, **windows)).trace(x).module
    settings = next(o for o in module.walk() if isinstance(o, op)).reordered((0, 2, 3, 1))
    assert settings == {"window": (3, 2, 1), "stride": (2, 1, 1), "dilation": (1, 3, 1)}
    np.testing.assert_allclose(op.apply(x.transpose(0, 2, 3, 1), **settings), expected.transpose(0, 2, 3, 1))


def pooled(x):
    inner = tenon.max_pool2d(tenon.exp(x.transpose(0, 3, 1, 2)), window=3, stride=2, padding=1)
    return tenon.relu(tenon.avg_pool2d(inner, window=2).transpose(0, 2, 3, 1))


def test_pooling_with_channels_last_transposes_nothing():
    assert not orders_of(pooled, [np.ones((2, 9, 9, 8), np.float32)])


def convolved(x, weight, stride=1):
    padding = (weight.shape[2] - 1) // 2
    return tenon.conv2d(x.transpose(0, 3, 1, 2), weight, stride=stride, padding=padding).transpose(0, 2, 3, 1)


def normalized(x, scale):
    mean = x.mean(axis=(0, 1, 2), keepdims=True)
    return (x - mean) * tenon.rsqrt(((x - mean) ** 2).mean(axis=(0, 1, 2)) + 1e-5) * scale


def network(x, first, second, shortcut, scale):
    """A residual block that halves images, an attention over channels, and a skip that is joined."""
    inner = tenon.relu(normalized(convolved(x, first, 2), scale))
    inner = normalized(convolved(inner, second), scale) + convolved(x, shortcut, 2)
    gates = tenon.sigmoid(inner.mean(axis=(1, 2), keepdims=True))
    joined = tenon.concatenate([tenon.relu(inner * gates), inner], axis=-1)
    pooled = tenon.max_pool2d(joined.transpose(0, 3, 1, 2), window=2, stride=2).transpose(0, 2, 3, 1)
    return tenon.log_softmax(pooled, axis=-1)


def slopes(*arrays):
    return tenon.grad(lambda *given: (network(*given) ** 2).sum(), argnums=(1, 2, 3, 4))(*arrays)


def drawn():
    random = np.random.default_rng(0)
    shapes = (2, 16, 16, 8), (24, 8, 3, 3), (24, 24, 3, 3), (24, 8, 1, 1), (24,)
    return [random.standard_normal(shape, np.float32) for shape in shapes]


def orders_of(function, arrays):
    """The orders in which what has four dimensions is transposed once layouts are given."""
    module = tenon.jit(function).trace(*arrays).module
    run_passes(Context(), module, TENSOR_PIPELINE[: TENSOR_PIPELINE.index("recompute")])
    orders = [op.settings["permutation"] for op in module.walk() if isinstance(op, TransposeOp)]
    return Counter(order for order in orders if len(order) == 4)


def test_nothing_is_transposed_between_the_layers_of_a_network_with_channels_last():
    assert orders_of(network, drawn()) == {(0, 3, 1, 2): 1, (0, 2, 3, 1): 1}
    # The images alone: gradients of weights have no order of their own.
    assert orders_of(slopes, drawn()) == {(0, 3, 1, 2): 1}


def torch_network(x, first, second, shortcut, scale):
    def convolved(x, weight, stride=1):
        return F.conv2d(x.permute(0, 3, 1, 2), weight, None, stride, (weight.shape[2] - 1) // 2).permute(0, 2, 3, 1)

    def normalized(x):
        mean = x.mean((0, 1, 2), keepdim=True)
        return (x - mean) * torch.rsqrt(((x - mean) ** 2).mean((0, 1, 2)) + 1e-5) * scale

    inner = normalized(convolved(torch.relu(normalized(convolved(x, first, 2))), second)) + convolved(x, shortcut, 2)
    gated = torch.relu(inner * torch.sigmoid(inner.mean((1, 2), keepdim=True)))
    joined = torch.cat([gated, inner], -1).permute(0, 3, 1, 2)
    return F.log_softmax(F.max_pool2d(joined, 2).permute(0, 2, 3, 1), -1)


def test_numbers_of_a_network_with_channels_last():
    arrays = drawn()
    leaves = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in arrays]
    expected = torch_network(*leaves)
    np.testing.assert_allclose(tenon.jit(network)(*arrays), expected.detach(), rtol=1e-4, atol=1e-4)
    exact = torch.autograd.grad((expected**2).sum(), leaves[1:])
    for slope, wanted in zip(tenon.jit(slopes)(*arrays), exact, strict=True):
        assert np.abs(slope - wanted.numpy()).max() < 1e-4 * np.abs(wanted.numpy()).max()
