"""Tensors: what is computed at once, recorded and differentiated is what PyTorch gives for the same program."""

# Ops that are defined here are found under `tenon`, which its stubs do not know.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon.eager import tape_programs as programs

F32 = np.float32
Program = Callable[..., Any]


def array(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, F32)


def detached(x: Any) -> Any:
    return x.detach().numpy()


# --- programs in both -------------------------------------------------------------------------------------------------

PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


@program
def product(_: Any, a: Any, b: Any, __: Any) -> Any:
    return (a @ b).tanh()


@program
def numbers(_: Any, a: Any, __: Any, c: Any) -> Any:
    return (1 - a * 2.5 / 3) ** 2 - 0.5 * c


@program
def value_used_twice(_: Any, a: Any, __: Any, c: Any) -> Any:
    h = a * c
    return h * h + h


@program
def in_place(_: Any, a: Any, __: Any, c: Any) -> Any:
    y = a * 2
    y += c
    y *= a
    return y


@program
def parts_are_set(_: Any, a: Any, __: Any, c: Any) -> Any:
    y = a * 2
    y[1] = c[0]
    y[:, 2] *= 3
    v = y[2]
    v += 1
    y[0, 1] = 5.0
    return y * y


@program
def base_changes_under_a_view(_: Any, a: Any, __: Any, c: Any) -> Any:
    y = a * 2
    v = y[1:3]
    y *= c
    return v * v


@program
def view_of_a_view(_: Any, a: Any, __: Any, c: Any) -> Any:
    y = a * 1
    z = y.reshape(2, 10)[1, 2:8]
    z *= 3
    return y * c


@program
def transposed_view(_: Any, a: Any, __: Any, c: Any) -> Any:
    y = a * 1
    z = y.T
    z[1] *= c[:, 0]
    return y * y


@program
def view_of_all(_: Any, a: Any, __: Any, c: Any) -> Any:
    y = a * 2
    v = y[:, :]
    v *= c
    y *= c
    return y * y


@program
def two_views_change(_: Any, a: Any, __: Any, ___: Any) -> Any:
    y = a * 1
    p, q = y[0], y[1]
    p *= 2
    q += p
    return y * y + p


@program
def reshaped(_: Any, a: Any, __: Any, c: Any) -> Any:
    return a.reshape(2, 10).T.reshape(-1) * 3 + c.reshape(20)


@program
def gathered(_: Any, a: Any, __: Any, c: Any) -> Any:
    return a[[0, 2, 2]] * c[1:4]


@program
def masked(_: Any, a: Any, __: Any, ___: Any) -> Any:
    return a[a > 0] ** 2


@program
def mask_is_set(_: Any, a: Any, __: Any, c: Any) -> Any:
    y = a * 1
    y[y < 0] = 0
    return y * c


@program
def op_in_place(_: Any, a: Any, __: Any, c: Any) -> Any:
    y = a * 2
    y.relu_()
    return y * c


@program
def broadcast(_: Any, a: Any, __: Any, c: Any) -> Any:
    return a[0][None] * c + a[:, 1:2]


@program
def detach(_: Any, a: Any, __: Any, c: Any) -> Any:
    return a * a.detach() + c


@program
def change_that_is_not_recorded(library: Any, a: Any, __: Any, c: Any) -> Any:
    y = a * 2
    with library.no_grad():
        y *= 2
    return y * c


@program
def reductions(_: Any, a: Any, __: Any, c: Any) -> Any:
    return (a**2).sum() - c.mean() + a.sum(dim=0, keepdim=True).exp().sum()


@program
def numbers_in_what_is_not_computed_again(_: Any, a: Any, __: Any, c: Any) -> Any:
    return (a / 2.0 + 1.0).abs() * c


@program
def clone(_: Any, a: Any, __: Any, c: Any) -> Any:
    y = a.clone()
    y *= c
    return y + a


def run(library: Any, function: Program) -> tuple[Any, list[Any]]:
    leaves = [library.tensor(array(*s, seed=i), requires_grad=True) for i, s in enumerate([(4, 5), (5, 3), (4, 5)])]
    result = function(library, *leaves)
    result.sum().backward()
    return detached(result), [None if leaf.grad is None else detached(leaf.grad) for leaf in leaves]


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_those_of_torch(name: str) -> None:
    result, gradients = run(tenon, PROGRAMS[name])
    expected, slopes = run(torch, PROGRAMS[name])
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    for gradient, slope in zip(gradients, slopes, strict=True):
        assert (gradient is None) == (slope is None)
        if gradient is not None:
            np.testing.assert_allclose(gradient, slope, rtol=1e-4, atol=1e-5)


# --- gradients --------------------------------------------------------------------------------------------------------


def hooked(library: Any) -> list[Any]:
    a = library.tensor(array(4, 5), requires_grad=True)
    h = a * 3
    h.register_hook(lambda g: g * 2)
    removed = h.register_hook(lambda g: g * 100)
    a.register_hook(lambda g: g + 1)
    k = h.exp()
    k.retain_grad()
    removed.remove()
    (k + h).sum().backward()
    return [detached(a.grad), detached(k.grad)]


def test_hooks_and_kept_gradients() -> None:
    for got, expected in zip(hooked(tenon), hooked(torch), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def second(library: Any) -> Any:
    x = library.tensor(array(4, 5), requires_grad=True)
    y = (x**3).sum() + (x.exp() * x).sum()
    (first,) = library.autograd.grad(y, (x,), create_graph=True)
    (found,) = library.autograd.grad((first**2).sum(), (x,))
    return detached(found)


def test_second_order() -> None:
    np.testing.assert_allclose(second(tenon), second(torch), rtol=1e-4)


def through_squares(library: Any) -> tuple[Any, ...]:
    """A second derivative through products with square transposed matrices, plus a number that no gradient reads."""
    generator = np.random.default_rng(0)
    x, w, v = (
        library.tensor(generator.standard_normal(shape).astype(np.float32), requires_grad=True)
        for shape in ((3, 4), (4, 4), (4, 4))
    )
    y = ((x @ w.T).tanh() @ v.T).tanh()
    (first,) = library.autograd.grad(y.sum(), (x,), create_graph=True)
    (second,) = library.autograd.grad(first.sum(), (x,), create_graph=True)
    ((second + 1.5) ** 2).sum().backward()
    return first, second, x.grad, w.grad, v.grad


def test_second_order_through_transposed_squares() -> None:
    for own, theirs in zip(through_squares(tenon), through_squares(torch), strict=True):
        np.testing.assert_allclose(own.detach().numpy(), theirs.detach().numpy(), rtol=2e-5, atol=2e-6)


def test_third_order_of_a_polynomial() -> None:
    x = tenon.tensor(array(5), requires_grad=True)
    y = (x**4).sum()
    for _ in range(2):
        (gradient,) = tenon.autograd.grad(y, (x,), create_graph=True)
        y = gradient.sum()
    (gradient,) = tenon.autograd.grad(y, (x,))
    assert gradient is not None
    np.testing.assert_allclose(gradient.numpy(), 24 * detached(x), rtol=1e-4)


def test_gradients_of_inner_values() -> None:
    x = tenon.tensor(array(5), requires_grad=True)
    h = x * 2
    y = (h * h).sum() + x.sum()
    of_h, of_x = tenon.autograd.grad(y, (h, x), retain_graph=True)
    np.testing.assert_allclose(of_h.numpy(), 2 * detached(h), rtol=1e-6)
    np.testing.assert_allclose(of_x.numpy(), 4 * detached(h) + 1, rtol=1e-6)
    assert x.grad is None
    with pytest.raises(RuntimeError, match="input 1 was not used"):
        tenon.autograd.grad(y, (x, tenon.tensor(1.0, requires_grad=True)))


def test_gradients_add_up_until_they_are_taken_away() -> None:
    x = tenon.tensor(array(3), requires_grad=True)
    (x * x).sum().backward()
    (x * 3).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * detached(x) + 3, rtol=1e-6)
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), np.full(3, 3.0))


def test_graphs_that_are_retained() -> None:
    x = tenon.tensor(array(3), requires_grad=True)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 4 * detached(x), rtol=1e-6)
    with pytest.raises(RuntimeError, match=r"went through tenon.multiply \(.*test_tensor.py:\d+\) before"):
        y.backward()


def test_overwritten_values_are_told_with_both_lines() -> None:
    x = tenon.tensor(array(4, 5), requires_grad=True)
    y = x * 2
    z = y * y
    part = y[0]
    part += 1
    with pytest.raises(
        RuntimeError, match=r"(?s)multiply read or computed \(.*test_tensor.py:\d+\).*changed in place "
    ):
        z.sum().backward()
    assert x.grad is None


def test_results_in_place_that_were_overwritten_are_not_taken_for_others() -> None:
    x = tenon.tensor(array(4, 5), requires_grad=True)
    y = x * 2
    y.exp_()
    z = y * 1
    y[0] = 5
    with pytest.raises(RuntimeError, match="changed in place"):
        (y.sum() + z.sum()).backward()


def test_values_that_were_overwritten_unrecorded_are_not_taken_for_others() -> None:
    x = tenon.tensor(array(4, 5), requires_grad=True)
    y, z = x.exp(), x * 2
    y.detach()[0] = 3
    with pytest.raises(RuntimeError, match=r"exp read or computed .* changed in place"):
        y.sum().backward()
    with tenon.no_grad():
        z[0] = 3
    (z * z).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 4 * z.detach().numpy(), rtol=1e-6)


def test_values_that_were_overwritten_through_a_view_are_not_taken_for_others() -> None:
    x = tenon.tensor(array(4, 5), requires_grad=True)
    for look in (lambda y: y[0], lambda y: y.T, lambda y: y.reshape(20)):
        y = x.exp()
        part = look(y)
        part *= 2
        with pytest.raises(RuntimeError, match="changed in place"):
            y.sum().backward()
        y = x * 3
        part = look(y)
        part *= y.mean()
        y *= 2
        x.grad = None
        (y * y).sum().backward()
        p = torch.from_numpy(array(4, 5)).requires_grad_()
        q = p * 3
        seen = look(q)
        seen.mul_(q.mean())
        q.mul_(2)
        (q * q).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), p.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_a_leaf_changes_only_where_nothing_is_recorded() -> None:
    x = tenon.tensor(array(3), requires_grad=True)
    with pytest.raises(RuntimeError, match="no_grad"):
        x += 1
    y = x * x
    with tenon.no_grad():
        x[0] = 5.0
    (x * x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * detached(x))
    with pytest.raises(RuntimeError, match="changed in place"):
        y.sum().backward()


def test_modes() -> None:
    x = tenon.tensor(1.0, requires_grad=True)
    with tenon.no_grad():
        assert not tenon.is_grad_enabled()
        assert not (x * 2).requires_grad
        with tenon.enable_grad():
            assert (x * 2).requires_grad
    assert (x * 2).requires_grad
    tenon.set_grad_enabled(False)
    assert not (x * 2).requires_grad
    tenon.set_grad_enabled(True)

    @tenon.no_grad()
    def twice(v: Any) -> Any:
        return v * 2

    assert not twice(x).requires_grad
    assert not (x > 0).requires_grad


def test_programs_are_kept_by_what_was_recorded() -> None:
    x = tenon.tensor(array(7, 3), requires_grad=True)

    def step(scale: float) -> None:
        (x * scale).sin().sum().backward()

    step(2.0)
    before = len(programs._PROGRAMS)
    step(3.0)
    assert len(programs._PROGRAMS) == before
    x.grad = None
    step(4.0)
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), 4 * np.cos(4 * detached(x)), rtol=1e-4)


@pytest.mark.usefixtures("few_objects")
def test_what_no_gradient_needs_is_let_go() -> None:
    x = tenon.tensor(array(300, 200), requires_grad=True)

    def forward() -> tuple[Any, Any]:
        h = x + 1
        held = weakref.ref(h._array)
        return h.exp().sum(), held

    first, _ = forward()
    first.backward()
    second, held = forward()
    gc.collect()
    assert held() is None
    second.backward()


def test_memory_is_let_go_with_the_result() -> None:
    x = tenon.tensor(array(10), requires_grad=True)
    h = x.exp()
    held = weakref.ref(h._array)
    y = (h * h).sum()
    y.backward()
    del h, y
    assert held() is None


# --- with the rest of Tenon -------------------------------------------------------------------------------------------


def test_compiled_functions_are_recorded() -> None:
    function = tenon.jit(lambda x, s: (x * s).sin().sum())
    x = tenon.tensor(array(4), requires_grad=True)
    function(x * 2, 3.0).backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 * np.cos(6 * detached(x)), rtol=1e-4)
    assert isinstance(function(array(4), 1.0), np.ndarray)


def test_transformations_give_tensors() -> None:
    x = tenon.tensor(array(4), requires_grad=True)
    slope = tenon.grad(lambda v: (v**3).sum())(x)
    (slope * slope).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 36 * detached(x) ** 3, rtol=1e-4)
    np.testing.assert_allclose(detached(tenon.vmap(lambda v: v * 2)(x)), 2 * detached(x))
    carry, ys = tenon.scan(lambda c, v: (c + v, c * v), tenon.tensor(0.0), x)
    assert carry.requires_grad
    assert ys.shape == (4,)


def test_an_op_of_a_user_is_recorded() -> None:
    @tenon.tensor_op
    class Cubed(tenon.UnaryOp):
        name = "tensortest.cubed"

        @classmethod
        def scalar(cls, x: Any) -> Any:
            return x * x * x

    x = tenon.tensor(array(4), requires_grad=True)
    tenon.cubed(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * detached(x) ** 2, rtol=1e-4)


def test_several_results() -> None:
    x = tenon.tensor(array(3, 4), requires_grad=True)
    values, places = x.top_k(2)
    values.sum().backward()
    expected = np.zeros((3, 4), F32)
    np.put_along_axis(expected, places.numpy(), 1, -1)
    np.testing.assert_array_equal(x.grad.numpy(), expected)


# --- as an array ------------------------------------------------------------------------------------------------------


def test_made_of_what_people_have() -> None:
    assert tenon.tensor([1.0, 2.0]).dtype == F32
    assert tenon.tensor([1, 2]).dtype == np.int64
    assert tenon.tensor(np.zeros(3)).dtype == np.float64
    assert tenon.tensor(2.5).shape == ()
    assert tenon.tensor([tenon.tensor(1.0), 2.0]).shape == (2,)
    source = torch.arange(3.0)
    np.testing.assert_array_equal(tenon.tensor(source).numpy(), source.numpy())
    given = np.zeros(3, F32)
    assert np.shares_memory(tenon.as_tensor(given).numpy(), given)
    assert not np.shares_memory(tenon.tensor(given).numpy(), given)
    assert np.shares_memory(torch.from_dlpack(tenon.as_tensor(given)).numpy(), given)


def test_writes_reach_arrays_that_share_the_memory() -> None:
    given = np.zeros(3, F32)
    x = tenon.as_tensor(given)
    x += 1
    x[0] = 5
    np.testing.assert_array_equal(given, [5, 1, 1])
    y = tenon.tensor(given)
    seen = y.numpy()
    y *= 2
    np.testing.assert_array_equal(seen, [10, 2, 2])


def test_numpy_functions() -> None:
    x = tenon.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    for result in (np.sin(x), np.add(1.0, x), np.sum(x, axis=0), np.ones((2, 2), F32) @ x, np.exp(x)):
        assert isinstance(result, tenon.Tensor)
        assert result.requires_grad
    assert np.shape(x) == (2, 2)
    assert np.allclose(x.detach(), x.detach())


def test_shapes_that_depend_on_values() -> None:
    x = tenon.tensor([0.0, 2.0, 0.0, 2.0, 1.0])
    np.testing.assert_array_equal(x.nonzero()[0].numpy(), [1, 3, 4])
    np.testing.assert_array_equal(x.unique().numpy(), [0, 1, 2])
    assert x[x > 0].shape == (3,)


def test_copies_and_pickles() -> None:
    x = tenon.tensor(array(3), requires_grad=True)
    for made in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert made.requires_grad
        np.testing.assert_array_equal(detached(made), detached(x))
    with pytest.raises(RuntimeError, match="detach"):
        pickle.dumps(x * 2)


def test_printed() -> None:
    x = tenon.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    assert repr(x) == "tensor([[1., 2.],\n        [3., 4.]], requires_grad=True)"
    assert repr(x.sum()) == "tensor(10., grad_fn=<sum>)"
    assert repr(tenon.tensor([1.0], dtype="f64")) == "tensor([1.], dtype=float64)"
    assert f"{tenon.tensor(1.25):.1f}" == "1.2"


REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "unknown method": (lambda x: x.softmaxx(), AttributeError, "did you mean 'softmax'"),
    "index outside": (lambda x: x[5], IndexError, "out of bounds"),
    "index of floats": (lambda x: x[[1.5]], IndexError, "an index is of float64 where integers or truth values"),
    "index that is a float": (lambda x: x[1.5], IndexError, r"index 1\.5 is a float where integers or truth values"),
    "slice of floats": (lambda x: x[0.5:], TypeError, "integer"),
    "device": (lambda x: x.to("cuda:x"), ValueError, "device 'cuda:x' is not one of cpu, cuda, cuda:N"),
    "truth": (bool, ValueError, "not known"),
    "cotangent": (lambda x: x.backward(np.ones(3)), ValueError, r"float32\[3\]"),
    "integers": (lambda _: tenon.tensor([1]).requires_grad_(), RuntimeError, "only tensors of floats"),
    "array of a leaf": (np.asarray, RuntimeError, "detach"),
    "no graph": (lambda x: x.detach().sum().backward(), RuntimeError, "was not computed of one"),
    "shape in place": (lambda x: x.detach().__iadd__(np.ones((3, 2, 3), F32)), ValueError, "cannot hold the result"),
    "dtype in place": (lambda _: tenon.tensor([1]).__iadd__(1.5), TypeError, "cannot hold the result"),
    "dtype": (lambda _: tenon.tensor([1], dtype="c8"), TypeError, "c8"),
    "gradient": (lambda x: setattr(x, "grad", tenon.tensor(1.0)), ValueError, "is set to"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    function, error, text = REFUSED[name]
    with pytest.raises(error, match=text):
        function(tenon.tensor(array(2, 3), requires_grad=True))


# --- memory that is given, and PyTorch's other methods ----------------------------------------------------------------


def test_results_into_given_memory() -> None:
    x = array(3, 4)
    for _ in range(4):
        out = np.zeros((3, 4), F32)
        assert tenon.add(x, 1.0, out=out) is out
        np.testing.assert_array_equal(out, x + 1)
        strided = np.zeros((4, 3), F32).T
        tenon.exp(x, out=strided)
        np.testing.assert_allclose(strided, np.exp(x), rtol=1e-6)
        own = x.copy()
        tenon.multiply(own, own, out=own)
        np.testing.assert_array_equal(own, x * x)
    y = tenon.tensor(x)
    part = y[1]
    assert tenon.multiply(y, 2.0, out=y) is y
    np.testing.assert_array_equal(part.numpy(), 2 * x[1])
    w = tenon.tensor(x, requires_grad=True)
    z = tenon.tensor(np.zeros((3, 4), F32))
    tenon.exp(w, out=z)
    z.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), np.exp(x), rtol=1e-5)
    with pytest.raises(ValueError, match=r"add: out is float32\[3\] where the result is float32\[3, 4\]"):
        tenon.add(y, y, out=tenon.tensor(np.zeros(3, F32)))
    with pytest.raises(RuntimeError, match="no_grad"):
        tenon.add(y, y, out=w)
    for target in (np.zeros(3, F32), np.zeros((3, 4)), [0.0], (np.zeros_like(x), np.zeros_like(x))):
        with pytest.raises((TypeError, ValueError), match="out"):
            tenon.add(x, x, out=target)


def test_results_into_given_memory_are_no_views() -> None:
    x, z = tenon.tensor(array(3, 3)), tenon.tensor(np.zeros((3, 3), F32))
    tenon.transpose(x, permutation=(1, 0), out=z)
    z[0] = 9
    x.mul_(0)
    np.testing.assert_array_equal(z.numpy()[1:], array(3, 3).T[1:])
    np.testing.assert_array_equal(x.numpy(), np.zeros((3, 3)))


METHODS: dict[str, Callable[[Any], Any]] = {
    "numel": lambda x: x.numel(),
    "dim": lambda x: x.dim(),
    "double": lambda x: x.double(),
    "half": lambda x: x.half(),
    "long": lambda x: x.long(),
    "bool": lambda x: x.bool(),
    "cpu": lambda x: x.cpu(),
    "contiguous": lambda x: x.T.contiguous(),
    "fill_": lambda x: x.clone().fill_(2.5),
    "zero_": lambda x: x.clone().zero_(),
    "copy_": lambda x: x.clone().copy_(x[0]),
    "masked_fill": lambda x: x.masked_fill(x > 0, 7.0),
    "masked_fill of columns": lambda x: x[:, :3].masked_fill(x[0, :3] > 0, 7.0),
    "masked_fill of rows": lambda x: x.masked_fill(x[:, :1] > 0, 7.0),
    "divmod": lambda x: divmod(x, 0.25)[1] if hasattr(type(x), "__divmod__") else x % 0.25,
    "round": lambda x: round(x) if hasattr(type(x), "__round__") else x.round(),
    "one truth value": lambda x: x[0, 0][x[0, 0] > -9],
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_those_of_torch(name: str) -> None:
    result, expected = METHODS[name](tenon.tensor(array(3, 4))), METHODS[name](torch.from_numpy(array(3, 4)))
    if not isinstance(expected, int):
        result, expected = result.numpy(), expected.numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-6, strict=not isinstance(expected, int))


def test_gradients_of_filled_and_copied_parts() -> None:
    def program(library: Any) -> Any:
        x = library.tensor(array(3, 4), requires_grad=True)
        y = x * 2
        y[0].fill_(1.0)
        y[1].copy_(x[2])
        (y.masked_fill(y > 1, 0.0).T.contiguous() ** 2).sum().backward()
        return detached(x.grad)

    np.testing.assert_allclose(program(tenon), program(torch), rtol=1e-5)


def test_notebooks_show_a_table() -> None:
    shown = tenon.tensor(np.arange(600, dtype=F32).reshape(20, 30))._repr_html_()
    assert shown.startswith("<div>float32[20, 30] on cpu<table><tr><td>0</td>")
    assert shown.count("<tr>") == 11
    assert shown.count("<td>") == 11 * 11
    assert "&lt;" not in tenon.tensor(1.0)._repr_html_()
    assert "requires a gradient" in tenon.tensor(array(2), requires_grad=True)._repr_html_()


@pytest.mark.parametrize(("dtype", "number"), [("int32", 2**40), ("int8", -200), ("uint8", 300)])
def test_numbers_that_the_dtype_has_not_are_not_assigned(dtype: str, number: int) -> None:
    x = tenon.tensor(np.arange(3, dtype=dtype))
    with pytest.raises(OverflowError, match=f"{dtype} has no such number"):
        x[1] = number
    assert x.tolist() == [0, 1, 2]


def test_a_parameter_that_changes_between_two_calls_has_the_gradients_of_both() -> None:
    w, other = tenon.tensor([1.0, 2.0], requires_grad=True), torch.tensor([1.0, 2.0], requires_grad=True)
    former, before = (w * 3.0).sum(), (other * 3.0).sum()
    with tenon.no_grad(), torch.no_grad():
        w *= 2.0
        other *= 2.0
    (former + (w * w).sum()).backward()
    (before + (other * other).sum()).backward()
    assert w.grad is not None
    assert other.grad is not None
    assert w.grad.tolist() == other.grad.tolist()


@pytest.mark.parametrize("key", [0, [0], np.array([True, False])], ids=["integer", "places", "mask"])
@pytest.mark.parametrize("traced", [False, True])
def test_assigned_numbers_lose_nothing(traced: bool, key: Any) -> None:
    """Of Python's floats, as known and as arguments of a trace, beside doubles and wide integers."""

    def assigned(x: Any, value: Any) -> Any:
        y = x * 1
        y[key] = value
        return y

    function = tenon.trace(assigned) if traced else assigned
    x = tenon.tensor(np.zeros(2), requires_grad=True)
    y = function(x, 0.1)
    assert detached(y).tolist() == [0.1, 0.0]
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 1.0]
    assert function(tenon.tensor([1, 2]), 16777217.0).tolist() == [16777217, 2]


PARTS: dict[str, Any] = {
    "integer": 1,
    "slices": (slice(None, None, -2), slice(1, 3)),
    "none": None,
    "places": (np.array([0, 2, 0]), np.array([1, 1, 1])),
    "rows": [2, 0, 2, 2],
    "mask": array(3, 4) > 0,
    "rows of a mask": np.array([True, False, True]),
    "truth": True,
}
UPDATES = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("method", ["set", *UPDATES])
def test_parts_are_updated_in_a_new_tensor(method: str, part: str) -> None:
    """As in functions of arrays: what `ufunc.at` does of NumPy, with gradients by central differences."""
    x, key = array(3, 4).astype(np.float64), PARTS[part]
    given = array(*x[key].shape, seed=1).astype(np.float64) * 2
    weights = array(3, 4, seed=2)

    def expected(x: Any, given: Any) -> Any:
        made = x.copy()
        if method == "set":
            made[key] = given
        else:
            UPDATES[method].at(made, key, given)
        return made

    t, values = tenon.tensor(x, requires_grad=True), tenon.tensor(given, requires_grad=True)
    if part != "truth":
        update = tenon.trace(lambda t, values: getattr(t.at[key], method)(values))
        np.testing.assert_array_equal(detached(update(t, values)), expected(x, given))
    made = getattr(t.at[key], method)(values)
    np.testing.assert_array_equal(detached(made), expected(x, given))
    np.testing.assert_array_equal(detached(t), x)
    if method == "set" and part in ("places", "rows"):
        return  # the last of several is none that NumPy promises
    (made * weights).sum().backward()
    for operand, at in ((t, 0), (values, 1)):
        slopes = np.zeros_like(detached(operand))
        for place in np.ndindex(slopes.shape):
            ends: list[Any] = []
            for step in (1e-6, -1e-6):
                moved = [x.copy(), given.copy()]
                moved[at][place] += step
                ends.append((expected(*moved) * weights).sum())
            slopes[place] = (ends[0] - ends[1]) / 2e-6
        np.testing.assert_allclose(operand.grad.numpy(), slopes, rtol=1e-6, atol=1e-6)


def test_parts_are_updated_at_places_that_are_traced() -> None:
    x, place = tenon.tensor(array(3, 4)), tenon.tensor([1, 1])
    plain = x.numpy().copy()
    expected = np.where(plain > 0, 0, plain)
    np.testing.assert_array_equal(tenon.trace(lambda x: x.at[x > 0].set(0.0))(x).numpy(), expected)
    expected = plain.copy()
    expected[1] += 2 * plain[0]
    np.testing.assert_allclose(tenon.trace(lambda x, i: x.at[i].add(x[0]))(x, place).numpy(), expected, rtol=1e-6)
    found, _ = tenon.scan(lambda total, i: (total + x.at[i].set(0.0).sum(), None), np.float32(0), np.arange(3))
    np.testing.assert_allclose(found, 2 * plain.sum(), rtol=1e-5)
    np.testing.assert_array_equal(x.at[place].get().numpy(), plain[[1, 1]])
    with pytest.raises(
        ValueError, match=r"x\.at\[key\]: values have shape \(3,\), which does not broadcast to \(2, 4\)"
    ):
        x.at[place].add(array(3))
