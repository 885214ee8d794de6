"""Names and arguments as in PyTorch mean the same, on tensors, on arrays, and in traces."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import tenon
import tenon.nn.functional as F
from tenon import nn, optim
from tenon.data import ConcatDataset, DataLoader, Subset, TensorDataset, random_split
from tenon.dialects.definition.both_faces import ABSENT, absent
from tenon.dialects.definition.registry import find_function, function_names
from tenon.dialects.definition.value import Value
from tenon.eager.tensor import Tensor
from tenon.utils.checkpoint import checkpoint_sequential

TF = torch.nn.functional
GENERATOR = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return GENERATOR.standard_normal(shape).astype(np.float32)


def arrays(found: Any) -> list[Any]:
    if isinstance(found, tuple | list):
        return [array for part in found for array in arrays(part)]
    return [np.asarray(found.detach() if hasattr(found, "detach") else found)]


def close(found: Any, expected: Any) -> None:
    found, expected = arrays(found), arrays(expected)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


def traced(program: Callable[..., Any], given: Sequence[Any]) -> Any:
    """What a function of traced values gives; that code is made of it is tested elsewhere, for each op."""
    with tenon.knobs.override(interpret=True):
        return tenon.jit(program)(*given)


X, Y, M = floats(3, 4), floats(3, 4), floats(4, 5)
B, C = floats(2, 3, 4), floats(2, 4, 5)
V, W = floats(4), floats(4)
MASK = X > 0
PLACES = np.array([2, 0, 1])

# Programs of the library and of arrays as its tensors, which is PyTorch or Tenon.
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "cat": (lambda t, x, y: t.cat((x, y), dim=1), (X, Y)),
    "stack": (lambda t, x, y: t.stack([x, y], dim=-1), (X, Y)),
    "block_diag": (lambda t, x, y: t.block_diag(x, y[:2], x[0]), (X, Y)),
    "diff": (lambda t, x: (t.diff(x, dim=0), x.diff(), x.diff(2, -1), t.diff(x, prepend=x[:, :1])), (X,)),
    "outer": (lambda t, x, y: (t.outer(x, y), x.outer(y)), (V, W)),
    "round": (lambda t, x: (t.round(x, decimals=1), x.round(decimals=2), (1e3 * x).round(decimals=-2)), (X,)),
    "mm": (lambda t, x, y: t.mm(x, y), (X, M)),
    "bmm": (lambda t, x, y: t.bmm(x, y), (B, C)),
    "mv": (lambda t, x, y: t.mv(x, y), (X, V)),
    "dot": (lambda t, x, y: t.dot(x, y), (V, W)),
    "inner": (lambda t, x, y: t.inner(x, y), (X, V)),
    "kron": (lambda t, x, y, v: (t.kron(x, y), t.kron(v, x), t.kron(v, v)), (X, M, V)),
    "tensordot": (lambda t, x, y: t.tensordot(x, y, dims=1), (X, M)),
    "tensordot of axes": (lambda t, x, y: t.tensordot(x, y, dims=([1, 0], [1, 0])), (X, Y)),
    "vecdot": (lambda t, x, y: t.linalg.vecdot(x, y, dim=0), (X, Y)),
    "cross": (lambda t, x, y: t.linalg.cross(x, y, dim=1), (X[:, :3], Y[:, :3])),
    "vector_norm": (lambda t, x: t.linalg.vector_norm(x, dim=1, keepdim=True), (X,)),
    "matrix_norm": (lambda t, x: t.linalg.matrix_norm(x, ord=1, keepdim=True), (B,)),
    "addmm": (lambda t, x, y, z: t.addmm(z, x, y, beta=0.5, alpha=2), (X, M, floats(5))),
    "baddbmm": (lambda t, x, y, z: t.baddbmm(z, x, y), (B, C, floats(2, 3, 5))),
    "addmv": (lambda t, x, y, z: t.addmv(z, x, y), (X, V, floats(3))),
    "addcmul": (lambda t, x, y: t.addcmul(x, x, y, value=0.5), (X, Y)),
    "addcdiv": (lambda t, x, y: t.addcdiv(x, x, y, value=0.5), (X, Y)),
    "add, alpha": (lambda t, x, y: t.add(x, y, alpha=2), (X, Y)),
    "sub, alpha": (lambda t, x, y: t.sub(x, y, alpha=0.5), (X, Y)),
    "div, down": (lambda t, x, y: t.div(x, y, rounding_mode="floor"), (X, Y)),
    "div, toward zero": (lambda t, x, y: t.div(x, y, rounding_mode="trunc"), (X, Y)),
    "div": (lambda t, x, y: t.div(x, y), (X, Y)),
    "var_mean": (lambda t, x: t.var_mean(x, dim=1), (X,)),
    "std_mean": (lambda t, x: t.std_mean(x, dim=0, keepdim=True, unbiased=False), (X,)),
    "cov": (lambda t, x: t.cov(x), (X,)),
    "cov, method": (lambda t, x: x.cov(correction=0), (X,)),
    "corrcoef": (lambda t, x: t.corrcoef(x), (X,)),
    "bucketize": (lambda t, x, y: t.bucketize(x, y), (X, np.array([-1, 0, 1], np.float32))),
    "bucketize, right": (lambda t, x: t.bucketize(x, x[0].sort()[0] if t is torch else x[0].sort(), right=True), (X,)),
    "histc": (lambda t, x: t.histc(x, bins=5, min=-1, max=1), (X,)),
    "histc of all": (lambda t, x: x.histc(4), (X,)),
    "histc of one number": (lambda t, x: t.histc(x * 0 + 3, bins=4), (X,)),
    "histc, ends": (lambda t, x: t.histc(x, bins=3, min=0, max=3), (np.array([0, 1, 2, 3, 3, -1, 4], np.float32),)),
    "trapezoid": (lambda t, x: t.trapezoid(x, dx=0.5, dim=0), (X,)),
    "trapezoid at places": (lambda t, x, y: t.trapezoid(x, y), (X, V)),
    "kthvalue": (lambda t, x: t.kthvalue(x, 2), (X,)),
    "kthvalue, method": (lambda t, x: x.kthvalue(3, dim=0, keepdim=True), (X,)),
    "topk by names": (lambda t, x: (x.topk(2, dim=1).values, x.topk(2).indices), (X,)),
    "rsub": (lambda t, x, y: t.rsub(x, y, alpha=3), (X, Y)),
    "cdist": (lambda t, x, y: t.cdist(x, y), (X, Y)),
    "pdist": (lambda t, x: t.nn.functional.pdist(x, p=3.0), (X,)),
    "cholesky_solve": (lambda t, x, y: t.cholesky_solve(y, t.linalg.cholesky(x @ x.T)), (X, floats(3, 2))),
    "cholesky_inverse": (lambda t, x: t.linalg.cholesky(x @ x.T, upper=True).cholesky_inverse(True), (X,)),
    "logdet": (lambda t, x: (t.logdet(x @ x.T), (-(x @ x.T)).logdet(), (x @ x.T * 0).logdet()), (X,)),
    "chunk": (lambda t, x: t.chunk(x, 3, dim=1), (X,)),
    "split, sizes": (lambda t, x: x.split((1, 3), dim=1), (X,)),
    "split, size": (lambda t, x: x.split(3, -1), (X,)),
    "split, array": (lambda t, x: x.split([1, 3] if t is torch else np.array([1, 3]), 1), (X,)),
    "split, one": (lambda t, x: x.split(2), (B,)),
    "chunk, method": (lambda t, x: x.chunk(2, -1), (B,)),
    "unbind": (lambda t, x: t.unbind(x, 1), (X,)),
    "narrow": (lambda t, x: t.narrow(x, 1, -3, 2), (X,)),
    "index_select": (lambda t, x, i: t.index_select(x, 0, i), (X, PLACES)),
    "index_add": (lambda t, x, i, y: t.index_add(x, 0, i, y), (X, PLACES, Y)),
    "masked_fill": (lambda t, x, m: x.masked_fill(m, float("-inf")), (X, MASK)),
    "movedim": (lambda t, x: t.movedim(x, 0, -1), (B,)),
    "swapdims": (lambda t, x: t.swapdims(x, 0, 2), (B,)),
    "transpose": (lambda t, x: t.transpose(x, 1, 2), (B,)),
    "transpose of a matrix": (lambda t, x: x.transpose(0, 1), (X,)),
    "transpose by name": (lambda t, x: t.transpose(x, dim0=0, dim1=-1), (B,)),
    "permute": (lambda t, x: x.permute(2, 0, 1), (B,)),
    "permute of a tuple": (lambda t, x: t.permute(x, (2, 0, 1)), (B,)),
    "t": (lambda t, x: x.t(), (X,)),
    "mT": (lambda t, x: x.mT, (B,)),
    "view": (lambda t, x: x.view(2, -1), (B,)),
    "size": (lambda t, x: x.view(x.size(0), -1), (B,)),
    "view_as": (lambda t, x, y: x.view_as(y), (X, floats(4, 3))),
    "expand_as": (lambda t, x, y: x.expand_as(y), (V, X)),
    "unflatten": (lambda t, x: t.unflatten(x, 1, (2, -1)), (X,)),
    "ravel": (lambda t, x: t.ravel(x), (B,)),
    "hstack": (lambda t, x, y: t.hstack((x, y)), (X, Y)),
    "vstack": (lambda t, x, y: t.vstack((x, y)), (V, W)),
    "fliplr": (lambda t, x: t.fliplr(x), (X,)),
    "median": (lambda t, x: t.median(x), (X,)),
    "median with NaN": (
        lambda t, x, m: (t.median(t.where(m, x, float("nan"))), t.where(m, x, 0.0).median()),
        (X, MASK),
    ),
    "quantile": (lambda t, x: t.quantile(x, 0.3, dim=1, keepdim=True), (X,)),
    "quantiles with NaN": (
        lambda t, x, m: t.quantile(
            t.where(m, x, float("nan")), t.tensor([0.3, 1.0]) if t is torch else [0.3, 1.0], dim=0, keepdim=True
        ),
        (X, MASK),
    ),
    "clamp_min": (lambda t, x: t.clamp_min(x, 0.1), (X,)),
    "clamp_max": (lambda t, x: x.clamp_max(0.1), (X,)),
    "clamp": (lambda t, x: t.clamp(x, min=-0.5, max=0.5), (X,)),
    "frac": (lambda t, x: t.frac(x * 3), (X,)),
    "fmax": (lambda t, x, y: t.fmax(x, y), (np.array([1, np.nan], np.float32), np.array([np.nan, 2], np.float32))),
    "fmin": (lambda t, x, y: t.fmin(x, y), (np.array([1, np.nan], np.float32), np.array([np.nan, 2], np.float32))),
    "isclose": (lambda t, x: t.isclose(x, x + 1e-7), (X,)),
    "var": (lambda t, x: x.var(dim=1, unbiased=False), (X,)),
    "sum by other names": (lambda t, x: t.sum(input=x, dim=(0, 1), keepdim=True), (X,)),
    "where": (lambda t, x, m: t.where(m, x, x * 2), (X, MASK)),
    "tril": (lambda t, x: t.tril(x, diagonal=-1), (X,)),
    "type_as": (lambda t, x, y: x.type_as(y), (PLACES, X)),
    "zeros": (lambda t, x: t.zeros(2, 3) + x.new_ones(3), (X,)),
    "zeros_like": (lambda t, x: t.zeros_like(x) + t.ones((3, 4)), (X,)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_functions_are_those_of_torch(name: str) -> None:
    """On tensors, on arrays where no method is asked for, and in a trace."""
    program, given = PROGRAMS[name]
    expected = program(torch, *map(torch.tensor, given))
    close(program(tenon, *map(tenon.tensor, given)), expected)
    close(traced(lambda *values: program(tenon, *values), given), expected)


METHODS: dict[str, Callable[[Any], Any]] = {
    "expand": lambda x: x.expand(5, -1, -1, 4),
    "expand, new axes": lambda x: x.expand(2, 3, -1, 3, -1),
    "expand, tuple": lambda x: x.expand((2, -1, -1)),
    "squeeze": lambda x: x.unsqueeze(dim=1).squeeze(dim=1),
    "permute": lambda x: x.permute(dims=(2, 0, 1)),
    "unfold": lambda x: x.unfold(-1, 3, 1) * x.unfold(1, 1, 2).sum(),
    "add": lambda x: x.add(x, alpha=3).sub(x, alpha=2).div(2.0),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_those_of_torch(name: str) -> None:
    """The methods that tensors have of their own, and not of an op, take what the op takes."""
    given, expected = (library.tensor(B, requires_grad=True) for library in (tenon, torch))
    own, theirs = METHODS[name](given), METHODS[name](expected)
    close(own, theirs)
    close(traced(METHODS[name], [B]), theirs)
    (own * own).sum().backward()
    (theirs * theirs).sum().backward()
    close(given.grad, expected.grad)


def test_places_and_moving_averages() -> None:
    x: Any = tenon.tensor(B)
    theirs = torch.tensor(B)
    close((x > 0).nonzero(as_tuple=False), (theirs > 0).nonzero(as_tuple=False))
    close((x > 0).nonzero(as_tuple=True), (theirs > 0).nonzero(as_tuple=True))
    close(x.clone().mul_(0.9).add_(x, alpha=0.1), theirs.clone().mul_(0.9).add_(theirs, alpha=0.1))
    mask, other = x > 0, theirs > 0
    for own, expected in (mask.amax(dim=1), other.amax(dim=1)), (mask.min(), other.min()):
        assert own.dtype == np.bool_
        assert own.tolist() == expected.tolist()
    assert tenon.maximum(mask, mask.logical_not()).tolist() == torch.maximum(other, ~other).tolist()
    whole = np.array([[3, 1], [3, 1], [0, 2]])
    wanted: list[dict[str, Any]] = [
        {},
        {"return_counts": True},
        {"return_inverse": True, "return_counts": True, "dim": 0},
    ]
    for settings in wanted:
        close(tenon.tensor(whole).unique(**settings), torch.tensor(whole).unique(**settings))
        close(tenon.unique(whole, **settings), torch.unique(torch.tensor(whole), **settings))
    library: Any = tenon
    assert library.empty(2, 3).shape == library.empty((2, 3)).shape == (2, 3)
    with pytest.raises(ValueError, match=r"-1 has to stand for a size of \(2, 3, 4\)"):
        x.expand(-1, 2, 3, 4)
    with pytest.raises(TypeError, match="nonzero: size is missing; in a traced function shapes cannot"):
        tenon.jit(lambda x: library.where(x > 0))(np.ones(3))


def test_what_looks_at_a_tensor_is_a_view() -> None:
    x = tenon.tensor(np.zeros((4, 6), np.float32))
    looks = [
        x.chunk(2)[1],
        x.split(1)[0],
        x.unbind(0)[0],
        x.narrow(1, 0, 2),
        x.t(),
        x.view(-1),
        x.movedim(0, 1),
        x.unflatten(1, (2, 3)),
    ]
    for look in looks:
        look += 1
    assert x.sum().item() == 12 + 6 + 6 + 8 + 4 * 24


def test_masked_select_and_bincount() -> None:
    close(
        tenon.masked_select(tenon.tensor(X), tenon.tensor(MASK)),
        torch.masked_select(torch.tensor(X), torch.tensor(MASK)),
    )
    counts = np.array([0, 3, 3, 1])
    close(tenon.bincount(tenon.tensor(counts), minlength=3), torch.bincount(torch.tensor(counts), minlength=3))
    weights = floats(4)
    close(tenon.bincount(counts, weights), torch.bincount(torch.tensor(counts), torch.tensor(weights)))
    narrow = np.full(300, 200, np.uint8)  # neither the count nor the sum fits
    for given in (None, narrow):
        wanted = torch.bincount(torch.tensor(narrow), None if given is None else torch.tensor(given)).numpy()
        traced = tenon.jit(lambda x, given=given: tenon.bincount(x, given, minlength=201))
        for found in (
            tenon.bincount(narrow, given),
            tenon.bincount(tenon.tensor(narrow), given).numpy(),
            traced(narrow),
        ):
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)
    with pytest.raises(ValueError, match=r"^bincount: x has dtype float32 where integers are needed"):
        tenon.bincount(np.ones(3, np.float32))
    assert tenon.allclose(X, X + 1e-9) is True


IMAGE, KERNEL = floats(2, 4, 6, 6), floats(3, 4, 3, 3)
LABELS, CLASSES = np.array([1, 0, 3]), floats(3, 4)
SHARES = np.abs(floats(3, 4)) % 1
RUNNING = floats(4), np.abs(floats(4))
FUNCTIONAL: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **{
        name: (lambda f, x, name=name: getattr(f, name)(x), (X,))
        for name in (
            *("relu", "relu6", "elu", "selu", "celu", "gelu", "silu", "mish", "glu", "leaky_relu", "hardtanh"),
            *("hardswish", "hardshrink", "hardsigmoid", "sigmoid", "logsigmoid", "tanh", "tanhshrink", "softsign"),
            *("softshrink", "softplus", "normalize"),
        )
    },
    "softmax": (lambda f, x: f.softmax(x, dim=0), (X,)),
    "log_softmax": (lambda f, x: f.log_softmax(x, 1), (X,)),
    "softmin": (lambda f, x: f.softmin(x, dim=1), (X,)),
    "threshold": (lambda f, x: f.threshold(x, 0.1, 7.0), (X,)),
    "linear": (lambda f, x, w, b: f.linear(x, w, b), (X, floats(5, 4), floats(5))),
    "prelu": (lambda f, x, w: f.prelu(x, w), (IMAGE, floats(4))),
    "conv2d": (lambda f, x, w: f.conv2d(x, w, stride=2, padding=1), (IMAGE, KERNEL)),
    "conv1d": (lambda f, x, w: f.conv1d(x, w, None, 1, 1), (B, floats(2, 3, 3))),
    "conv_transpose2d": (
        lambda f, x, w: f.conv_transpose2d(x, w, None, 2, 1, 1),
        (IMAGE, floats(4, 3, 3, 3)),
    ),
    "max_pool2d": (lambda f, x: f.max_pool2d(x, kernel_size=2), (IMAGE,)),
    "avg_pool2d": (lambda f, x: f.avg_pool2d(x, 3, 1, 1), (IMAGE,)),
    "lp_pool2d": (lambda f, x: f.lp_pool2d(x, 2.0, 3, stride=2), (IMAGE,)),
    "max_unpool2d": (lambda f, x: f.max_unpool2d(*f.max_pool2d(x, 2, return_indices=True), 2), (IMAGE,)),
    "max_unpool2d to a size": (
        lambda f, x: f.max_unpool2d(*f.max_pool2d(x, 3, 2, return_indices=True), 3, 2, output_size=(6, 6)),
        (IMAGE,),
    ),
    "local_response_norm": (lambda f, x: f.local_response_norm(x, 3, k=2.0), (IMAGE,)),
    "adaptive_avg_pool2d": (lambda f, x: f.adaptive_avg_pool2d(x, (1, 1)), (IMAGE,)),
    "interpolate": (lambda f, x: f.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False), (IMAGE,)),
    "interpolate to a size": (lambda f, x: f.interpolate(x, size=(3, 3)), (IMAGE,)),
    "pixel_shuffle": (lambda f, x: f.pixel_shuffle(x, 2), (IMAGE,)),
    "unfold": (lambda f, x: f.unfold(x, 3), (IMAGE,)),
    "pad": (lambda f, x: f.pad(x, (1, 2, 0, 1), value=3.0), (IMAGE,)),
    "pad, less": (lambda f, x: f.pad(x, (-1, 2)), (IMAGE,)),
    "pad by reflection": (lambda f, x: f.pad(x, (1, 2, 2, 1), mode="reflect"), (IMAGE,)),
    "pad around": (lambda f, x: f.pad(x, (1, 2, 2, 1), mode="circular"), (IMAGE,)),
    "pad by the edge": (lambda f, x: f.pad(x, (1, 2, 2, 1), mode="replicate"), (IMAGE,)),
    "layer_norm": (lambda f, x, w, b: f.layer_norm(x, (4,), w, b), (X, V, W)),
    "rms_norm": (lambda f, x, w: f.rms_norm(x, (4,), w), (X, V)),
    "group_norm": (lambda f, x, w, b: f.group_norm(x, 2, w, b), (IMAGE, V, W)),
    "instance_norm": (lambda f, x: f.instance_norm(x), (IMAGE,)),
    "batch_norm": (lambda f, x, m, v, w: f.batch_norm(x, m, v, w), (IMAGE, *RUNNING, V)),
    "embedding": (lambda f, w, i: f.embedding(i, w), (X, PLACES)),
    "one_hot": (lambda f, i: f.one_hot(i, 5), (PLACES,)),
    "cosine_similarity": (lambda f, x, y: f.cosine_similarity(x, y, dim=1), (X, Y)),
    "pairwise_distance": (lambda f, x, y: f.pairwise_distance(x, y), (X, Y)),
    "attention": (lambda f, q: f.scaled_dot_product_attention(q, q, q, is_causal=True), (floats(2, 3, 5, 4),)),
    "attention by a mask": (
        lambda f, q, m: f.scaled_dot_product_attention(q, q, q, attn_mask=m),
        (floats(2, 3, 5, 4), np.tri(5, dtype=bool)),
    ),
    "attention where nothing counts": (
        lambda f, q, m: f.scaled_dot_product_attention(q, q, q, attn_mask=m),
        (floats(2, 3, 5, 4), np.tri(5, k=-1, dtype=bool)),
    ),
    "attention where nothing is added but -inf": (
        lambda f, q, m: f.scaled_dot_product_attention(q, q, q, attn_mask=m),
        (floats(2, 3, 5, 4), np.where(np.tri(5, k=-2, dtype=bool), 0, -np.inf).astype(np.float32)),
    ),
    "cross_entropy": (lambda f, x, y: f.cross_entropy(x, y, label_smoothing=0.1), (CLASSES, LABELS)),
    "cross_entropy by names": (lambda f, x, y: f.cross_entropy(input=x, target=y, reduction="sum"), (CLASSES, LABELS)),
    "cross_entropy of images": (
        lambda f, x, y: f.cross_entropy(x, y),
        (IMAGE, GENERATOR.integers(0, 4, (2, 6, 6))),
    ),
    "nll_loss": (lambda f, x, y: f.nll_loss(f.log_softmax(x, dim=1), y), (CLASSES, LABELS)),
    "mse_loss": (lambda f, x, y: f.mse_loss(x, y, reduction="none"), (X, Y)),
    "l1_loss": (lambda f, x, y: f.l1_loss(x, y), (X, Y)),
    "smooth_l1_loss": (lambda f, x, y: f.smooth_l1_loss(x, y), (X, Y)),
    "binary_cross_entropy": (
        lambda f, x, y: f.binary_cross_entropy(x, y, reduction="sum"),
        (SHARES, SHARES[::-1].copy()),
    ),
    "binary_cross_entropy_with_logits": (
        lambda f, x, y: f.binary_cross_entropy_with_logits(x, y, pos_weight=None),
        (X, SHARES),
    ),
    "kl_div": (lambda f, x, y: f.kl_div(x, y, reduction="batchmean"), (X, SHARES)),
    "margin_ranking_loss": (lambda f, x, y: f.margin_ranking_loss(x, y, x * 0 + 1, margin=0.2), (X, Y)),
    "triplet_margin_with_distance_loss": (
        lambda f, x, y: f.triplet_margin_with_distance_loss(
            x, y, x + y, distance_function=lambda a, b: (a - b).abs().sum(-1), margin=0.5, swap=True
        ),
        (X, Y),
    ),
    "triplet_margin_loss": (lambda f, x, y: f.triplet_margin_loss(x, y, x + y), (X, Y)),
    "dropout, evaluating": (lambda f, x: f.dropout(x, 0.5, training=False), (X,)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONAL)
def test_functional_is_that_of_torch(name: str) -> None:
    program, given = FUNCTIONAL[name]
    expected = program(TF, *map(torch.tensor, given))
    close(program(F, *map(tenon.tensor, given)), expected)
    close(traced(lambda *values: program(F, *values), given), expected)


def test_queries_for_which_nothing_counts_have_no_gradients() -> None:
    q, mask = floats(2, 3, 5, 4), np.tri(5, k=-1, dtype=bool)
    x, theirs = tenon.tensor(q, requires_grad=True), torch.tensor(q, requires_grad=True)
    (F.scaled_dot_product_attention(x, x, x, attn_mask=tenon.tensor(mask)) * x.detach()).sum().backward()
    (TF.scaled_dot_product_attention(theirs, theirs, theirs, torch.tensor(mask)) * theirs.detach()).sum().backward()
    close(x.grad, theirs.grad)


def test_functions_that_draw_or_change() -> None:
    nn.manual_seed(0)
    x = tenon.tensor(np.ones((1000, 4, 2), np.float32), requires_grad=True)
    dropped = F.dropout(x, 0.25)
    assert set(np.unique(dropped.detach())) == {np.float32(0), np.float32(4 / 3)}
    assert abs((dropped.detach() == 0).astype("f32").mean().item() - 0.25) < 0.03
    dropped.sum().backward()
    close(x.grad, dropped)
    whole = F.dropout1d(x.detach(), 0.5).numpy()
    assert (whole == whole[..., :1]).all()
    assert 0.4 < (whole == 0).mean() < 0.6
    with pytest.raises(tenon.TracedValueError, match="draws when it is called"):
        tenon.jit(lambda x: F.dropout(x))(X)
    chosen = F.gumbel_softmax(tenon.tensor(X), hard=True)
    close(chosen.sum(dim=1), np.ones(3))
    mean, variance = tenon.tensor(RUNNING[0]), tenon.tensor(RUNNING[1])
    theirs = [*map(torch.tensor, RUNNING)]
    close(
        F.batch_norm(tenon.tensor(IMAGE), mean, variance, training=True),
        TF.batch_norm(torch.tensor(IMAGE), *theirs, training=True),
    )
    close([mean, variance], theirs)


def test_einsum_of_a_list() -> None:
    x, y = tenon.tensor(np.ones((2, 3)), requires_grad=True), tenon.tensor(np.ones((3, 4)))
    for call in (tenon.einsum, tenon.trace(lambda equation, given: tenon.einsum(equation, given))):
        assert call("ij,jk->ik", [x, y]).shape == (2, 4)
    tenon.einsum("ij,jk->", (x, y)).backward()
    np.testing.assert_array_equal(x.grad, np.full((2, 3), 4.0))
    assert tenon.einsum("ij->j", [[1.0, 2.0], [3.0, 4.0]]).tolist() == [4.0, 6.0]  # one matrix


def test_distributions_of_what_is_learned() -> None:
    share = tenon.tensor([0.0, 1.0], requires_grad=True)
    assert tenon.bernoulli(share * 1).tolist() == [0.0, 1.0]
    assert tenon.multinomial(share * 1, 1).tolist() == [1]
    assert not tenon.normal(share * 1, 0.0).requires_grad


def test_random_tensors() -> None:
    def draw() -> list[Any]:
        tenon.manual_seed(3)
        x = tenon.randn(2, 3)
        weights = tenon.tensor([0.0, 1.0, 3.0])
        return [
            x, tenon.rand((2, 3)), tenon.randn_like(x), tenon.randint(5, (4,)), tenon.randint(2, 5, size=(4,)),
            tenon.randperm(5), tenon.bernoulli(tenon.tensor([0.0, 1.0])), tenon.normal(0.0, 1.0, (2,)),
            tenon.multinomial(weights, 2), x.clone().uniform_(-1, 1), x.clone().normal_(),
        ]  # fmt: skip

    first, second = draw(), draw()
    close(first, second)
    assert all(isinstance(x, Tensor) for x in first)
    assert sorted(first[5].tolist()) == [0, 1, 2, 3, 4]
    assert first[6].tolist() == [0.0, 1.0]
    assert sorted(first[8].tolist()) == [1, 2]
    assert abs(tenon.randn(100_000).std().item() - 1) < 0.02
    for dtype in ("f16", "bf16"):
        assert 0.45 < float(tenon.rand(10_000, dtype=dtype).astype("f32").mean()) < 0.55
        assert float(tenon.rand(10_000, dtype=dtype).max()) < 1.0
    drawn = tenon.multinomial(tenon.tensor([[1.0, 3.0]]), 20_000, replacement=True)
    assert abs(drawn.astype("f32").mean().item() - 0.75) < 0.02
    with pytest.raises(ValueError, match="not negative"):
        tenon.multinomial(tenon.tensor([-1.0, 2.0]), 1)
    with pytest.raises(ValueError, match="fewer than 2"):
        tenon.multinomial(tenon.tensor([0.0, 2.0]), 2)
    with pytest.raises(tenon.TracedValueError, match="random_normal"):
        tenon.jit(lambda x: x + tenon.randn(3))(V)
    with pytest.raises(TypeError, match="a generator would give the same numbers in all calls"):
        tenon.trace(lambda x: (x * 1).uniform_(generator=3))(tenon.tensor(V))


def public(cls: type) -> set[str]:
    return {name for parent in cls.__mro__ for name in vars(parent) if not name.startswith("_")}


def test_traced_values_have_what_tensors_have() -> None:
    """Or say what there is instead; and the other way round."""
    functions = set(function_names())
    lacking = public(Tensor) - public(Value) - functions
    assert {name for name in lacking if absent(name, find_function) is None} == set()
    assert set(ABSENT) <= lacking, "these are there, and need no reason"
    assert public(Value) - public(Tensor) - functions == {"element_type", "is_tensor", "ssa"}


def test_in_place_and_data() -> None:
    x = tenon.tensor(X, requires_grad=True)
    x.data = x.data * 2
    close(x, 2 * X)
    x.data[0] = 0.0
    x.data.clamp_(min=0)
    assert x.requires_grad
    assert x.is_leaf
    assert (x.detach()[0] == 0).all()
    assert x.detach().min().item() == 0
    y = tenon.tensor(X)
    close(y.masked_fill_(y > 0, 9.0), np.where(X > 0, 9, X))
    assert y.to("cpu") is y
    assert y.to(tenon.float32) is y
    assert str(y.to("cpu", dtype="f64").dtype) == "float64"
    assert y.stride() == (4, 1)
    assert y.is_contiguous()
    assert not y.t().is_contiguous()
    assert y.is_floating_point()
    with pytest.raises(RuntimeError, match=r"pip install 'tenon\[cuda12\]'"):
        y.cuda()
    assert tenon.device("cpu") == "cpu"
    assert not tenon.cuda.is_available()


def test_backward_to_some() -> None:
    x, y = (tenon.tensor(given, requires_grad=True) for given in (X, Y))
    z = x * y
    (z * z).sum().backward(inputs=[y, z])
    assert x.grad is None
    close([y.grad, z.grad], [2 * X * X * Y, 2 * X * Y])


RULES: list[tuple[str, dict[str, Any]]] = [
    ("Adam", {"lr": 1e-2, "amsgrad": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.4, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.01, "maximize": True, "weight_decay": 0.1}),
]


@pytest.mark.parametrize(("name", "settings"), RULES)
def test_optimizers_over_parameters(name: str, settings: dict[str, Any]) -> None:
    """`Adam(model.parameters(), lr=...)`, of a module whose parameters are no tensors yet."""
    torch.manual_seed(0)  # from some beginnings, the last bits of f32 grow
    theirs = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    own = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    own.load_state_dict(theirs.state_dict())
    own[2].bias = nn.Parameter(own[2].bias, requires_grad=False)
    theirs[2].bias.requires_grad_(False)
    losses: list[list[float]] = []
    for library, model, rules in ((tenon, own, optim), (torch, theirs, torch.optim)):
        steps = getattr(rules, name)(model.parameters(), **settings)
        schedule = rules.lr_scheduler.StepLR(steps, 5, 0.5)
        losses.append([])
        for _ in range(12):
            steps.zero_grad()
            loss = (model(library.tensor(X)) ** 2).mean()
            loss.backward()
            steps.step()
            schedule.step()
            losses[-1].append(loss.item())
    np.testing.assert_allclose(*losses, rtol=2e-5)
    assert not own[2].bias.requires_grad


SCHEDULES: list[Callable[[Any, Any], Any]] = [
    lambda s, steps: s.MultiStepLR(steps, [3, 7]),
    lambda s, steps: s.ExponentialLR(steps, 0.9),
    lambda s, steps: s.CosineAnnealingLR(steps, T_max=10, eta_min=0.01),
    lambda s, steps: s.LinearLR(steps, total_iters=4),
    lambda s, steps: s.LambdaLR(steps, lambda t: 1 / (1 + t)),
    lambda s, steps: s.OneCycleLR(steps, max_lr=0.5, epochs=5, steps_per_epoch=4),
]


@pytest.mark.parametrize("make", SCHEDULES)
def test_schedules(make: Callable[[Any, Any], Any]) -> None:
    x, theirs = tenon.tensor([1.0], requires_grad=True), torch.ones(1, requires_grad=True)
    sgd: Any = optim.SGD
    own, their_steps = sgd([x], lr=0.2), torch.optim.SGD([theirs], lr=0.2)
    schedule, their_schedule = make(optim.lr_scheduler, own), make(torch.optim.lr_scheduler, their_steps)
    theirs.grad = torch.zeros(1)
    for _ in range(10):
        their_steps.step()
        schedule.step()
        their_schedule.step()
        np.testing.assert_allclose(schedule.get_last_lr(), their_schedule.get_last_lr(), rtol=1e-6)


def test_utils() -> None:
    theirs, own = torch.nn.Linear(3, 2), nn.Linear(3, 2).requires_grad_()
    own.load_state_dict(theirs.state_dict())
    close(nn.utils.parameters_to_vector(own.parameters()), torch.nn.utils.parameters_to_vector(theirs.parameters()))
    nn.utils.vector_to_parameters(tenon.tensor(np.arange(8, dtype=np.float32)), own.parameters())
    close([own.weight, own.bias], [np.arange(6).reshape(2, 3), np.array([6, 7])])
    with pytest.raises(ValueError, match=r"where \(8,\) is needed"):
        nn.utils.vector_to_parameters(np.zeros(7), own.parameters())
    for norm in (1.0, 2.0, 3.0, float("inf")):
        own.load_state_dict(theirs.state_dict())
        for model, library in ((own, tenon), (theirs, torch)):
            model.zero_grad()
            model(library.tensor(X[:, :3])).sum().backward()
        clips = [
            library.clip_grad_norm_(m.parameters(), 0.5, norm)
            for m, library in ((own, nn.utils), (theirs, torch.nn.utils))
        ]
        close(*clips)
        close([p.grad for p in own.parameters()], [p.grad for p in theirs.parameters()])


def test_sequences_of_several_lengths() -> None:
    rnn, theirs = nn.utils.rnn, torch.nn.utils.rnn
    rows = [floats(n, 2) for n in (2, 4, 1)]
    own_rows, their_rows = [*map(tenon.tensor, rows)], [*map(torch.tensor, rows)]
    padded = rnn.pad_sequence(own_rows, batch_first=True, padding_value=7.0)
    close(padded, theirs.pad_sequence(their_rows, batch_first=True, padding_value=7.0))
    packed = rnn.pack_padded_sequence(padded, [2, 4, 1], batch_first=True, enforce_sorted=False)
    expected = theirs.pack_sequence(their_rows, enforce_sorted=False)
    close(packed.data, expected.data)
    close(packed.batch_sizes, expected.batch_sizes)
    close(rnn.pad_packed_sequence(packed, True, -1.0), theirs.pad_packed_sequence(expected, True, -1.0))
    close(rnn.unpad_sequence(padded, [2, 4, 1], batch_first=True), rows)
    with pytest.raises(ValueError, match="lengths grow"):
        rnn.pack_padded_sequence(padded, [2, 4, 1], batch_first=True)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_layers_of_packed_sequences(kind: str) -> None:
    """Each direction begins at an end of its own, and the last states are those at the ends."""
    theirs = getattr(torch.nn, kind)(2, 3, num_layers=2, bidirectional=True).double()
    own = getattr(nn, kind)(2, 3, num_layers=2, bidirectional=True).double()
    own.load_state_dict(theirs.state_dict())
    rows, start = [np.random.default_rng(n).normal(size=(n, 2)) for n in (2, 4, 1, 4)], np.ones((4, 4, 3))
    for order, is_sorted in (([0, 1, 2, 3], False), ([1, 3, 0, 2], True)):
        found: list[list[Any]] = []
        for lib, model in ((torch, theirs), (tenon, own)):
            given = [lib.tensor(rows[place], requires_grad=True) for place in order]
            state = lib.tensor(start * 0.1)
            packed = lib.nn.utils.rnn.pack_sequence(given, enforce_sorted=is_sorted)
            made, ended = model(packed, (state, 2 * state) if kind == "LSTM" else state)
            made, lengths = lib.nn.utils.rnn.pad_packed_sequence(made)
            ended = [*ended] if kind == "LSTM" else [ended]
            (made.sin().sum() + sum((part * part).sum() for part in ended)).backward()
            found.append([made, lengths, *ended, *[row.grad for row in given], model.weight_hh_l0_reverse.grad])
        close(found[1], found[0])


def test_torch_utils() -> None:
    x = tenon.tensor(X, requires_grad=True)
    layers = nn.Sequential(*[nn.Tanh() for _ in range(5)])
    for segments in (1, 2, 5):
        close(checkpoint_sequential(layers, segments, x, use_reentrant=False), layers(x))
    with pytest.raises(ValueError, match="segments is 6 where 1 to 5 are needed"):
        checkpoint_sequential(layers, 6, x)
    assert tenon.utils.data.DataLoader is tenon.data.DataLoader
    assert isinstance(x.shape, tenon.Size)


def test_data_sets() -> None:
    data = TensorDataset(tenon.tensor(X), tenon.tensor(LABELS))
    (x, y), *_ = DataLoader(data, batch_size=2, collate_fn=None)
    assert isinstance(x, Tensor)
    assert isinstance(y, Tensor)
    close([x, y], [X[:2], LABELS[:2]])
    found = [*DataLoader(Subset(data, [2, 0]), collate_fn=lambda examples: [int(label) for _, label in examples])]
    assert found == [[3], [1]]
    assert [int(ConcatDataset([data, data])[i][1]) for i in (0, 4, -1)] == [1, 0, 3]
    parts = random_split(range(10), [0.7, 0.3], generator=0)
    assert [*map(len, parts)] == [7, 3]
    assert sorted([*parts[0], *parts[1]]) == [*range(10)]
    with pytest.raises(ValueError, match="add up to 9"):
        random_split(range(10), [5, 4])


def test_traps() -> None:
    layer = nn.Linear(3, 2).requires_grad_()
    with pytest.raises(
        TypeError, match=r"weight of a Linear is a parameter that is learned, and a ndarray would not be"
    ):
        layer.weight = np.ones((2, 3), np.float32)
    layer.weight = nn.Parameter(np.ones((2, 3), np.float32))
    layer.bias = None
    assert {type(value) for value in nn.Sequential(layer, nn.BatchNorm1d(2)).state_dict().values()} == {np.ndarray}

    expected = torch.nn.Module()
    expected.inner = torch.nn.BatchNorm1d(2)
    expected.register_buffer("seen", torch.zeros(1))
    expected.scale = torch.nn.Parameter(torch.ones(1))
    model = nn.Module()
    model.inner = nn.BatchNorm1d(2)
    model.register_buffer("seen", np.zeros(1))
    model.scale = nn.Parameter(np.ones(1, np.float32))
    assert list(model.state_dict()) == list(expected.state_dict())
    assert [n for n, _ in model.named_parameters()] == [n for n, _ in expected.named_parameters()]


def test_quantized_layers_keep_hooks_and_take_single_images() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU())
    seen: list[Any] = []
    handle = model[0].register_forward_hook(lambda module, args, result: seen.append(tuple(result.shape)))
    image = np.abs(floats(1, 5, 5))
    tenon.quantization.prepare(model)(image)
    model = tenon.quantization.convert(model)
    close(model(image), model(image[None])[0])
    assert seen == [(2, 3, 3), (2, 3, 3), (1, 2, 3, 3)]
    handle.remove()
    model(image)
    assert len(seen) == 3


def test_tensors_of_sizes_and_of_numbers() -> None:
    assert tenon.Tensor(2, 3).shape == (2, 3)
    assert tenon.Tensor(4).shape == (4,)
    assert tenon.Tensor(2, dtype="f64").dtype == np.float64
    assert tenon.Tensor([4]).tolist() == [4]
    assert tenon.tensor(4).tolist() == nn.Parameter(np.float32(4)).item() == 4
    assert not nn.Parameter(tenon.Tensor(2, 3), False).requires_grad
    with pytest.raises(TypeError, match="are several arguments, and no sizes"):
        tenon.Tensor([1.0], [2.0])
