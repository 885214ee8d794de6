"""Functions that programs for PyTorch, NumPy and JAX ask for: values and gradients, on tensors, arrays, in traces."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon import linalg
from tenon.runtime.cuda.device_cuda import CudaUnavailableError

RANDOM: Any = np.random.default_rng(0)
X, Y, B, THREE = (RANDOM.standard_normal(shape) for shape in ((4, 5), (4, 5), (2, 3, 4), (5, 3)))
V, W = RANDOM.standard_normal((2, 4))
HOLES: Any = np.where(X > 0.7, np.nan, X)
HOLES[1] = np.nan
THETA, IMAGE = RANDOM.standard_normal((2, 2, 3)), RANDOM.standard_normal((2, 3, 4, 5))
THETA3, IMAGE3 = RANDOM.standard_normal((2, 3, 4)), RANDOM.standard_normal((2, 1, 2, 3, 4))


def placed(t: Any, theta: Any, image: Any, align: bool, **settings: Any) -> Any:
    f = t.nn.functional
    grid = f.affine_grid(theta, list(image.shape), align_corners=align)
    return f.grid_sample(image, grid, align_corners=align, **settings)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "nansum": (lambda t, x: t.nansum(x), (HOLES,)),
    "nansum, method": (lambda t, x: x.nansum(dim=1, keepdim=True), (HOLES,)),
    "nanmean": (lambda t, x: t.nanmean(x), (HOLES,)),
    "nanmean, method": (lambda t, x: x.nanmean(0), (HOLES,)),
    "aminmax": (lambda t, x: (t.aminmax(x).min, x.aminmax(dim=1, keepdim=True).max), (X,)),
    "dist": (lambda t, x, y: (t.dist(x, y), x.dist(y, 3), t.dist(x, y, float("inf"))), (X, Y)),
    "dist of what is alike": (lambda t, x: t.dist(x, x * 1), (X,)),
    "dstack": (lambda t, x, y: (t.dstack((x, y)), t.dstack((x[0], y[0]))), (X, Y)),
    "dstack of three axes": (lambda t, x: t.dstack([x, x * 2]), (B,)),
    "column_stack": (lambda t, x, v: t.column_stack((v, x, v)), (X, V)),
    "broadcast_tensors": (lambda t, x, v: t.broadcast_tensors(x, v[:, None]), (X, V)),
    **{f"rot90, {k}": (lambda t, x, k=k: (t.rot90(x, k, (1, 2)), x.rot90(k, (-1, 0))), (B,)) for k in range(-1, 4)},
    "diag_embed": (lambda t, x: t.diag_embed(x), (B,)),
    "diag_embed, method": (lambda t, x: x.diag_embed(offset=-2, dim1=0, dim2=-2), (B,)),
    "diag_embed above": (lambda t, x: t.diag_embed(x, 1), (V,)),
    "cross": (lambda t, x, y: t.cross(x, y, dim=-1), (THREE, THREE[::-1].copy())),
    "cross, method": (lambda t, x, y: x.cross(y, dim=0), (THREE.T.copy(), THREE.T[:, ::-1].copy())),
    "multi_dot": (lambda t, x, y, z: t.linalg.multi_dot((x, y.T, x, z)), (X, Y, X.T.copy())),
    "multi_dot of vectors": (lambda t, v, x, y, w: t.linalg.multi_dot([v, x, y.T, w]), (V, X, Y, W)),
    "norm of all": (lambda t, x: t.linalg.norm(x), (B,)),
    "norm of a matrix": (lambda t, x: (t.linalg.norm(x, "nuc"), t.linalg.norm(x, 1), t.linalg.norm(x, 2)), (X,)),
    "norm of a vector": (lambda t, v: (t.linalg.norm(v, float("inf")), t.linalg.norm(v, 3)), (V,)),
    "norm of vectors": (lambda t, x: t.linalg.norm(x, 1, dim=1, keepdim=True), (B,)),
    "norm of matrices": (lambda t, x: t.linalg.norm(x, float("inf"), dim=(2, 0)), (B,)),
    "norm of matrices, kept": (lambda t, x: t.linalg.norm(x, dim=(0, -1), keepdim=True), (B,)),
    "bilinear": (
        lambda t, x, y, w, b: t.nn.functional.bilinear(x, y, w, b),
        (X, Y[:, :3].copy(), RANDOM.standard_normal((2, 5, 3)), RANDOM.standard_normal(2)),
    ),
    "affine_grid": (lambda t, a, x: placed(t, a, x, False), (THETA, IMAGE)),
    "affine_grid of corners": (lambda t, a, x: placed(t, a, x, True, padding_mode="border"), (THETA, IMAGE)),
    "affine_grid, bicubic": (lambda t, a, x: placed(t, a, x, False, mode="bicubic"), (THETA, IMAGE)),
    "affine_grid, nearest": (lambda t, a, x: placed(t, a, x, True, mode="nearest"), (THETA, IMAGE)),
    "affine_grid of volumes": (lambda t, a, x: placed(t, a, x, False), (THETA3, IMAGE3)),
    "masked_scatter": (lambda t, x, y: t.masked_scatter(x, x > 0, y), (X, Y)),
    "masked_scatter of a row": (lambda t, x, v: x.masked_scatter(x.sum(1, keepdims=True) > 0, v), (X, Y)),
}


def parts(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else tuple(found) if isinstance(found, list) else (found,)


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_those_of_torch(name: str) -> None:
    program, given = PROGRAMS[name]
    theirs = [torch.tensor(array, requires_grad=True) for array in given]
    own = [tenon.tensor(array, requires_grad=True) for array in given]
    expected, found = parts(program(torch, *theirs)), parts(program(tenon, *own))
    compiled = parts(tenon.jit(lambda *arrays: program(tenon, *arrays))(*given))
    for one, other, array in zip(found, expected, compiled, strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(array, other.detach().numpy(), rtol=1e-9, atol=1e-11)
        assert one.shape == tuple(other.shape) == array.shape

    def loss(results: Any) -> Any:
        return sum(
            (torch.nan_to_num(r) if isinstance(r, torch.Tensor) else tenon.nan_to_num(r)).sin().sum() for r in results
        )

    loss(expected).backward()
    loss(found).backward()
    slopes = tenon.jit(tenon.grad(lambda *arrays: loss(parts(program(tenon, *arrays))), tuple(range(len(given)))))(
        *given
    )
    for one, other, slope in zip(own, theirs, slopes, strict=True):
        wanted = np.nan_to_num(other.grad.numpy())
        own_slope = np.zeros(one.shape) if one.grad is None else np.nan_to_num(one.grad.numpy())
        np.testing.assert_allclose(own_slope, wanted, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(np.nan_to_num(slope), wanted, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("axis", [None, 0, (0, 1)])
@pytest.mark.parametrize("name", ["nansum", "nanmean", "nanmax", "nanmin"])
@pytest.mark.filterwarnings("ignore:.*(Mean of empty|All-NaN)")
def test_reductions_without_nan_are_those_of_numpy(name: str, axis: Any) -> None:
    for array in (HOLES, np.arange(6).reshape(2, 3), HOLES.astype(np.float32)):
        found = getattr(tenon, name)(array, axis=axis, keepdims=True)
        wanted = getattr(np, name)(array, axis=axis, keepdims=True)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert getattr(tenon, name)(HOLES.astype(np.float16)).dtype == np.float16


def test_numbers_at_equal_ratios_and_hundredths() -> None:
    np.testing.assert_allclose(tenon.logspace(-2, 3, 7), np.logspace(-2, 3, 7), rtol=1e-6)
    np.testing.assert_allclose(tenon.logspace(0, 4, steps=5, base=2), torch.logspace(0, 4, 5, 2).numpy(), rtol=1e-6)
    np.testing.assert_allclose(tenon.jit(lambda a: tenon.logspace(a, 2.0, 4))(1.0), np.logspace(1, 2, 4), rtol=1e-5)
    for q in (30, [0, 25.0, 100]):
        np.testing.assert_allclose(tenon.percentile(X, q, axis=1), np.percentile(X, q, axis=1), rtol=1e-12)


def test_what_is_scattered_by_a_mask_has_to_suffice() -> None:
    x = tenon.tensor([1.0, 2.0, 3.0])
    mask = np.array([True, False, True])
    x.masked_scatter_(mask, tenon.tensor([7.0, 8.0]))  # pyright: ignore[reportAttributeAccessIssue]
    assert x.tolist() == [7.0, 2.0, 8.0]
    with pytest.raises(ValueError, match=r"^masked_scatter: source has 1 elements where 2 are needed"):
        x.masked_scatter(mask, tenon.tensor([7.0]))
    with pytest.raises(TypeError, match=r"^masked_scatter: source is int64 and x float32"):
        x.masked_scatter(mask, np.array([1, 2]))


def read_as(inputs: Any, lengths: Any, targets: Any = ((1, 2, 3), (1, 2, 3)), **settings: Any) -> Any:
    given = np.zeros((5, 2, 4))
    lengths = lengths if isinstance(lengths, tenon.Tensor) else np.array(lengths)
    return tenon.nn.functional.ctc_loss(given, np.array(targets), inputs, lengths, **settings)


def test_lengths_of_sequences_may_be_tensors_of_a_traced_function() -> None:
    loss = tenon.trace(lambda inputs: read_as(inputs, tenon.tensor([3, 2])))
    for inputs in ((5, 4), (3, 5)):
        assert loss(tenon.tensor(inputs)).item() == pytest.approx(float(read_as(inputs, (3, 2))))


def test_errors_say_what_is_needed() -> None:
    for call, message in (
        (lambda: tenon.rot90(X, 1, (0, 0)), r"^rot90: dims is \(0, 0\) where two axes are needed"),
        (lambda: tenon.diag_embed(X, dim1=1, dim2=-2), r"^diag_embed: dim1 and dim2 are both 1"),
        (lambda: linalg.norm(B, 2), r"^norm: there are 3 axes where one or two are needed"),
        (lambda: linalg.norm(V, "fro"), r"^norm: ord is 'fro' where the order of a norm of vectors"),
        (lambda: tenon.nn.functional.affine_grid(THETA, (2, 3, 4)), r"^affine_grid: theta has shape \(2, 2, 3\)"),
        (lambda: tenon.nn.functional.grid_sample(IMAGE, IMAGE, "cubic"), r"^grid_sample: mode is 'cubic', none of"),
        (lambda: tenon.cdist(X, THREE), r"^cdist: x has shape \(4, 5\) and y \(5, 3\) where \(..., m, k\) and"),
        (lambda: tenon.cdist(V, X), r"^cdist: x has shape \(4,\) and y \(4, 5\) where"),
        (lambda: tenon.cdist(B, np.ones((3, 1, 4))), r"^cdist: x has shape \(2, 3, 4\) and y .* do not broadcast"),
        (lambda: read_as((6, 5), (3, 2)), r"^CTCLoss: input_lengths has 6 where a length of 0 to 5 is needed"),
        (lambda: read_as((5, 5), (4, 2)), r"^CTCLoss: target_lengths has 4 where a length of 0 to 3 is needed"),
        (lambda: read_as((5, -1), (3, 2)), r"^CTCLoss: input_lengths has -1 where a length of 0 to 5 is needed"),
        (lambda: read_as((5,), (3, 2)), r"^CTCLoss: input_lengths has shape \(1,\), and there are 2 samples"),
        (
            lambda: read_as((5, 5), (3, 2), [1, 2, 3, 1]),
            r"^CTCLoss: there are 4 targets, and target_lengths add up to 5",
        ),
        (lambda: read_as((5, 5), (3, 2), blank=7), r"^CTCLoss: blank is 7, none of the 4 classes"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_a_branch_of_several() -> None:
    branches = [lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x - y, lambda x, y: tenon.exp(x)]
    chosen = tenon.jit(lambda i, x, y: tenon.switch(i, branches, x, y))
    slope = tenon.jit(tenon.grad(lambda x, i, y: tenon.switch(i, branches, x, y).sum()))
    for index in range(-2, 6):
        branch = branches[min(max(index, 0), 3)]
        np.testing.assert_allclose(chosen(index, X, Y), branch(X, Y), rtol=1e-12)
        np.testing.assert_allclose(slope(X, index, Y), tenon.grad(lambda x, f=branch: f(x, Y).sum())(X), rtol=1e-12)
        x = tenon.tensor(X, requires_grad=True)
        tenon.switch(tenon.tensor(index), branches, x, Y).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), slope(X, index, Y), rtol=1e-12)
    with pytest.raises(ValueError, match=r"^switch: there are no branches"):
        tenon.switch(0, [], X)


def combined_one_by_one(fn: Any, parts: list[Any], reverse: bool, axis: int) -> list[Any]:
    turned = [np.moveaxis(part, axis, 0) for part in parts]
    order = range(len(turned[0]))[::-1] if reverse else range(len(turned[0]))
    found: dict[int, Any] = {}
    carry: Any = None
    for place in order:
        item = [part[place] for part in turned]
        carry = found[place] = item if carry is None else fn(carry, item)
    return [np.moveaxis(np.stack([found[i][k] for i in sorted(found)]), 0, axis) for k in range(len(parts))]


@pytest.mark.parametrize(("reverse", "axis"), [(False, 0), (True, -1)])
def test_a_scan_of_something_associative(reverse: bool, axis: int) -> None:
    def composed(a: Any, b: Any) -> Any:  # of linear maps
        return [a[0] * b[0], a[1] * b[0] + b[1]]

    expected = combined_one_by_one(composed, [X, Y], reverse, axis)
    for found in (
        tenon.associative_scan(composed, [X, Y], reverse, axis),
        tenon.jit(lambda *given: tenon.associative_scan(composed, [*given], reverse=reverse, axis=axis))(X, Y),
    ):
        for own, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(own, wanted, rtol=1e-12)
    x = tenon.tensor(X, requires_grad=True)
    tenon.associative_scan(tenon.multiply, x, reverse, axis).sum().backward()
    theirs = torch.tensor(X, requires_grad=True)
    flipped = theirs.flip(axis) if reverse else theirs
    flipped.cumprod(axis).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), theirs.grad.numpy(), rtol=1e-9)


def test_what_a_scan_refuses() -> None:
    for call, error, message in (
        (lambda: tenon.associative_scan(tenon.add, X, axis=2), ValueError, r"^associative_scan: axis is 2, and elems"),
        (
            lambda: tenon.associative_scan(tenon.add, [X, B]),
            ValueError,
            r"^associative_scan: elems have shapes \(4, 5\), \(2, 3, 4\)",
        ),
        (lambda: tenon.associative_scan(lambda a, b: (a, b), X), TypeError, r"^associative_scan: fn gives the tree"),
        (
            lambda: tenon.associative_scan(lambda a, b: a[0], X),
            TypeError,
            r"^associative_scan: value is tensor<1x5xf64>",
        ),
        (lambda: tenon.associative_scan(tenon.add, []), TypeError, r"^associative_scan: there are no arrays"),
    ):
        with pytest.raises(error, match=message):
            call()
    assert tenon.associative_scan(tenon.add, X[:0]).shape == (0, 5)


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_what_differs_from_the_one_before(dim: int | None) -> None:
    for given in (np.array([[1, 1, 2], [1, 1, 2], [2, 2, 2]]), np.array([[1.0, np.nan], [np.nan, 1.0]])):
        wanted = torch.unique_consecutive(torch.tensor(given), return_inverse=True, return_counts=True, dim=dim)
        settings: dict[str, Any] = {"return_inverse": True, "return_counts": True, "dim": dim}
        own = tenon.tensor(given)
        for found in (tenon.unique_consecutive(given, **settings), own.unique_consecutive(**settings)):  # pyright: ignore
            for part, other in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(np.asarray(part), other.numpy())
        np.testing.assert_array_equal(tenon.unique_consecutive(given, dim=dim), wanted[0].numpy())
    with pytest.raises(ValueError, match=r"^unique_consecutive: dim is 3, which is no axis of shape \(4, 5\)"):
        tenon.unique_consecutive(X, dim=3)


# --- derivatives of functions of tensors ------------------------------------------------------------------------------


def of_two(x: Any, y: Any) -> Any:
    return (x**2 * y.sin()).sum(1)


def two_of_two(x: Any, y: Any) -> tuple[Any, Any]:
    return x * y, (x.exp() * y).sum()


def number(x: Any, y: Any) -> Any:
    return (x**3 * y + x * y**2).sum()


def of_one(x: Any) -> Any:
    return (x**3).sum()


def tree(found: Any) -> Any:
    return [tree(part) for part in found] if isinstance(found, tuple) else found.detach().numpy()


def same(function: Callable[[Any, Any], Any], *given: Any) -> None:
    """What `function` gives of `autograd.functional` and tensors in both."""
    found, expected = (
        tree(function(library.autograd.functional, [library.tensor(array) for array in given]))
        for library in (tenon, torch)
    )
    own, structure = flat(found), flat(expected)
    assert [path for path, _ in own] == [path for path, _ in structure]
    for (_, one), (_, other) in zip(own, structure, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def flat(found: Any, path: str = "") -> list[tuple[str, Any]]:
    if not isinstance(found, list):
        return [(f"{path}{found.shape}", found)]
    return [leaf for i, part in enumerate(found) for leaf in flat(part, f"{path}{i}.")]


def test_derivatives_by_the_names_of_torch() -> None:
    x, y = X[:2, :3].copy(), Y[:2, :3].copy()
    same(lambda f, g: f.jacobian(of_two, tuple(g)), x, y)
    same(lambda f, g: f.jacobian(two_of_two, tuple(g)), x, y)
    same(lambda f, g: f.jacobian(of_one, g[0]), x)
    same(lambda f, g: f.hessian(number, tuple(g)), x, y)
    same(lambda f, g: f.hessian(of_one, g[0]), x)
    same(lambda f, g: f.vjp(of_two, tuple(g[:2]), g[2]), x, y, V[:2].copy())
    same(lambda f, g: f.vjp(of_one, g[0]), x)
    same(lambda f, g: f.jvp(of_two, tuple(g), (g[1], g[0])), x, y)
    same(lambda f, g: f.jvp(of_one, g[0], g[1]), x, y)
    same(lambda f, g: f.hvp(number, tuple(g), (g[1], g[0])), x, y)
    same(lambda f, g: f.hvp(of_one, g[0], g[1]), x, y)
    with pytest.raises(TypeError, match=r"^grad: of_two must return one floating-point number"):
        tenon.autograd.functional.vjp(of_two, (tenon.tensor(x), tenon.tensor(y)))
    with pytest.raises(ValueError, match=r"^jvp: v has other shapes than inputs"):
        tenon.autograd.functional.jvp(of_one, tenon.tensor(x), tenon.tensor(V))
    with pytest.raises(TypeError, match=r"^jacobian: input 0 is a ndarray where a tensor is needed"):
        tenon.autograd.functional.jacobian(of_one, x)


@pytest.mark.parametrize("creates", [False, True])
def test_derivatives_have_gradients_if_that_is_asked_for(creates: bool) -> None:
    found = []
    for library in (tenon, torch):
        x = library.tensor(X, requires_grad=True)
        rows = library.autograd.functional.jacobian(lambda x: x**3, x, create_graph=creates)
        assert rows.requires_grad == creates
        if creates:
            (rows**2).sum().backward()
            found.append(x.grad.numpy())
    if creates:
        np.testing.assert_allclose(*found, rtol=1e-10)


def backward_of_several(library: Any, inputs: bool) -> list[Any]:
    x, y = (library.tensor(array, requires_grad=True) for array in (X, Y))
    h = x * y
    seeds = (None, library.tensor(X))
    library.autograd.backward((h.sum(), h.exp()), seeds, retain_graph=True, inputs=[x] if inputs else None)
    library.autograd.backward([h.sum()])
    library.autograd.backward((x * 2).sum())
    return [x.grad.numpy(), y.grad.numpy()]


@pytest.mark.parametrize("inputs", [False, True])
def test_backward_of_several_tensors(inputs: bool) -> None:
    for own, theirs in zip(backward_of_several(tenon, inputs), backward_of_several(torch, inputs), strict=True):
        np.testing.assert_allclose(own, theirs, rtol=1e-12)
    x = tenon.tensor(X, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"^backward: there are 1 tensors and 2 gradients of them"):
        tenon.autograd.backward([x.sum()], [None, None])
    with pytest.raises(RuntimeError, match=r"^backward: there are no tensors"):
        tenon.autograd.backward([])
    with tenon.autograd.no_grad():
        assert not (x * 2).requires_grad


@pytest.mark.parametrize(("first", "second"), [((3, 4), (3, 3, 4)), ((3,), (3, 4)), ((3, 3, 4), (3,))])
def test_cross_products_of_different_ranks_are_those_of_numpy(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    x, y = RANDOM.standard_normal(first), RANDOM.standard_normal(second)
    np.testing.assert_allclose(tenon.cross(x, y, axis=0), np.cross(x, y, axis=0), rtol=1e-9, atol=1e-12)


def test_means_without_nan_hold_sums_and_counts_beyond_f16() -> None:
    x = np.full(5000, 100, np.float16)
    x[0] = np.nan
    assert tenon.nanmean(x) == 100


MADE: dict[str, Callable[..., Any]] = {
    "zeros": lambda t, **s: t.zeros(2, 3, **s),
    "ones": lambda t, **s: t.ones((2, 3), **s),
    "full": lambda t, **s: t.full((2, 3), 1.5, **s),
    "empty": lambda t, **s: t.empty(0, 3, **s),
    "eye": lambda t, **s: t.eye(2, 3, **s),
    "arange": lambda t, **s: t.arange(0.0, end=1.0, step=0.25, **s),
    "linspace": lambda t, **s: t.linspace(0, end=1, steps=5, **s),
    "logspace": lambda t, **s: t.logspace(0, 1, 5, **s),
    "zeros_like": lambda t, **s: t.zeros_like(t.tensor(X), **s),
    "ones_like": lambda t, **s: t.ones_like(t.tensor(X), **s),
    "full_like": lambda t, **s: t.full_like(t.tensor(X), 2.0, **s),
    "empty_like": lambda t, **s: t.empty_like(t.tensor(X)[:0], **s),
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_with_a_gradient_or_on_a_device_is_a_tensor(name: str) -> None:
    make = MADE[name]
    recorded, placed, theirs = make(tenon, requires_grad=True), make(tenon, device="cpu"), make(torch)
    assert (type(recorded), type(placed)) == (tenon.Tensor,) * 2
    assert (recorded.requires_grad, placed.requires_grad) == (True, False)
    for found in (recorded, placed, make(tenon)):
        np.testing.assert_allclose(tenon.as_tensor(found).detach().numpy(), theirs.numpy(), rtol=1e-6)
    if "_like" not in name:
        assert isinstance(make(tenon), np.ndarray)
        assert isinstance(tenon.jit(lambda x: x + make(tenon, device="cpu"))(0.0), np.ndarray)
    with pytest.raises(TypeError, match="requires_grad is for tensors, and a function of values is traced"):
        tenon.jit(lambda x: x + make(tenon, requires_grad=True))(0.0)


def test_what_is_made_is_a_tensor_where_a_device_is_the_default() -> None:
    tenon.set_default_device("cpu")
    try:
        for name, make in MADE.items():
            assert type(make(tenon)) is tenon.Tensor, name
        mask = tenon.nn.Transformer.generate_square_subsequent_mask(3, dtype="f64")
        assert (type(mask), mask.dtype, mask.isinf().tolist()[1]) == (tenon.Tensor, np.float64, [False, False, True])
        hidden = tenon.zeros(3).requires_grad_()
        ((hidden + tenon.arange(3).unsqueeze(0)) ** 2).sum().backward()
        assert hidden.grad.tolist() == [0.0, 2.0, 4.0]
        # what is computed of arrays stays so
        made = tenon.cumulative_sum(X, axis=0, include_initial=True), tenon.jit(lambda x: x + tenon.ones(5))(X)
        assert [*map(type, made)] == [np.ndarray] * 2
        assert tenon.trace(lambda x: (tenon.arange(3).unsqueeze(1) * x).sum())(tenon.tensor([1.0, 2.0])).item() == 9.0
    finally:
        tenon.set_default_device(None)
    assert isinstance(tenon.zeros(3), np.ndarray)
    if not tenon.cuda.is_available():
        for make in (tenon.set_default_device, lambda device: tenon.device(device).__enter__()):
            with pytest.raises(CudaUnavailableError, match=r"^nothing can be made on cuda: "):
                make("cuda")
        assert isinstance(tenon.zeros(3), np.ndarray)


def test_a_default_device_that_is_set_in_a_block_counts_behind_it() -> None:
    try:
        with tenon.device("cpu"):
            tenon.set_default_device(None)
            assert type(tenon.zeros(3)) is tenon.Tensor
        assert isinstance(tenon.zeros(3), np.ndarray)
        with tenon.device("cpu"), tenon.device("cpu"):
            tenon.set_default_device("cpu")
        assert type(tenon.zeros(3)) is tenon.Tensor
    finally:
        tenon.set_default_device(None)
    assert isinstance(tenon.zeros(3), np.ndarray)


def test_tensors_that_are_made_learn() -> None:
    weight = tenon.zeros(3, requires_grad=True)
    (weight * tenon.arange(3, device="cpu")).sum().backward()
    assert weight.grad.tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(RuntimeError, match="only tensors of floats can require gradients"):
        tenon.arange(3, requires_grad=True)
    traced = tenon.trace(lambda x: (x * tenon.ones(3, device=x.device)).sum())
    assert traced(tenon.tensor([1.0, 2.0, 3.0])).item() == 6.0
