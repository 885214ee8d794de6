"""What would be silently stale or silently lost elsewhere is right, or is an error, for arrays and for tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenon
from tenon import nn, optim
from tenon.dialects.definition.value import TracedValueError

ONES = np.ones(3, np.float32)


@pytest.mark.parametrize("face", [lambda x: x, tenon.tensor], ids=["arrays", "tensors"])
@pytest.mark.parametrize(
    "transformed",
    [
        lambda f: tenon.grad(lambda x: tenon.sum(f(x))),
        lambda f: lambda x: tenon.value_and_grad(lambda x: tenon.sum(f(x)))(x)[1],
        lambda f: tenon.vmap(f),
        lambda f: lambda x: tenon.vjp(f, x)[1](np.ones(3, np.float32))[0],
        lambda f: lambda x: tenon.jvp(f, (x,), (np.ones(3, np.float32),))[1],
    ],
    ids=["grad", "value_and_grad", "vmap", "vjp", "jvp"],
)
def test_transformed_functions_see_what_is_there_now(transformed: Callable[..., Any], face: Callable[..., Any]) -> None:
    factor: Any = face(np.full((), 2.0, np.float32))
    compute = transformed(lambda x: x * factor)

    def is_now(value: float) -> bool:
        return np.asarray(compute(ONES)).tolist() == [value] * 3

    assert is_now(2.0)
    factor[...] = 3.0
    assert is_now(3.0)
    factor = face(np.full((), 5.0, np.float32))
    assert is_now(5.0)


@pytest.mark.parametrize(
    "reads",
    [
        lambda x, t: x * t,
        lambda x, t: t + x,
        lambda x, t: x + tenon.sum(t),
        lambda x, t: x * t[0].item(),
        lambda x, t: x if t[0] > 0 else -x,
        lambda x, t: x + np.asarray(t),
        lambda x, t: t,
    ],
    ids=["operand", "operator", "reduced", "item", "truth", "array", "result"],
)
def test_jit_refuses_tensors_from_around(reads: Callable[..., Any]) -> None:
    tensor = tenon.tensor(ONES)
    with pytest.raises(
        TracedValueError, match=r"read from around a function of jit.*give it as an argument, or.*trace"
    ):
        tenon.jit(lambda x: reads(x, tensor))(ONES)
    assert type(tensor) is tenon.Tensor
    followed = tenon.trace(lambda x: reads(x, tensor), symbolic=False)
    assert np.asarray(followed(tenon.tensor(ONES))).tolist() == np.asarray(reads(tenon.tensor(ONES), tensor)).tolist()


def test_what_could_change_is_no_static_argument() -> None:
    class Settings:
        weight = 2.0

    with pytest.raises(TypeError, match=r"argument s .* could change without being noticed"):
        tenon.jit(lambda x, s: x * s.weight)(ONES, Settings())


TRANSFORMED = {"jit": tenon.jit, "grad": lambda f: tenon.grad(lambda x: tenon.sum(f(x))), "vmap": tenon.vmap}


@pytest.mark.parametrize(
    ("transformed", "layer"),
    [(TRANSFORMED["jit"], nn.Dropout(0.5)), *[(made, nn.BatchNorm2d(2)) for made in TRANSFORMED.values()]],
    ids=["jit-dropout", *[f"{name}-norm" for name in TRANSFORMED]],
)
def test_a_module_in_training_mode_is_threaded_or_refused(transformed: Callable[..., Any], layer: Any) -> None:
    images = np.ones((1, 2, 2, 3, 3), np.float32)
    before = {name: np.array(value) for name, value in layer.named_buffers()}
    with pytest.raises(TracedValueError, match="of a module that is no argument"):
        transformed(lambda x: layer(x))(images if transformed is tenon.vmap else images[0])
    for name, value in layer.named_buffers():
        np.testing.assert_array_equal(value, before[name])
    traced = tenon.trace(lambda x: layer(x))
    traced(tenon.tensor(images[0]))
    assert any(not np.array_equal(np.asarray(v), before[name]) for name, v in layer.named_buffers())


@pytest.mark.parametrize("name", ["grad", "vmap"])
def test_a_dropout_draws_anew_in_a_function_that_is_traced_for_one_call(name: str) -> None:
    layer = nn.Dropout(0.5)
    first, second = (TRANSFORMED[name](lambda x: layer(x))(np.ones((2, 100), np.float32)) for _ in range(2))
    assert {*np.unique(first)} == {*np.unique(second)} == {0.0, 2.0}
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_of_python_lose_nothing(dtype: Any) -> None:
    values = np.full(3, 3.0, dtype)
    expected = values * dtype(0.1)
    for found in (
        tenon.multiply(values, 0.1),
        tenon.jit(lambda x, y: x * y)(values, 0.1),
        (tenon.tensor(values) * 0.1).numpy(),
        tenon.trace(lambda x, y: x * y)(tenon.tensor(values), 0.1).numpy(),
    ):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, expected)


def test_masked_arrays_are_refused() -> None:
    masked = np.ma.array([1.0, 2.0, 3.0], mask=np.array([False, True, False]))
    for take in (
        lambda: tenon.sum(masked),
        lambda: tenon.jit(lambda x: x)(masked),
        lambda: tenon.jit(lambda x: x + masked)(ONES),
        lambda: tenon.grad(lambda x: tenon.sum(x))(masked),
        lambda: tenon.tensor(masked),
        lambda: tenon.tensor(ONES) + masked,
        lambda: tenon.trace(lambda x: x + masked)(tenon.tensor(ONES)),
    ):
        with pytest.raises(TypeError, match="mask would be ignored"):
            take()


def test_optimizers_refuse_what_does_not_fit() -> None:
    rule, params = optim.Adam(lr=0.1), {"w": ONES}
    state = rule.init(params)
    for gradient, found in ((np.ones(4, np.float32), r"f32\[4\]"), (np.ones(3), r"f64\[3\]")):
        with pytest.raises(ValueError, match=rf"Adam: w is {found} in gradients where f32\[3\] is needed"):
            rule.update(params, {"w": gradient}, state)
    with pytest.raises(ValueError, match="Adam: there is nothing floating-point to train"):
        rule.init({"w": np.ones(3, np.int32)})
    tensor = tenon.tensor(ONES, requires_grad=True)
    for gradient in (tenon.tensor(np.ones(4, np.float32)), tenon.tensor(np.ones(3))):
        with pytest.raises(ValueError, match=r"grad of float32\[3\] is set to"):
            tensor.grad = gradient
    assert tensor.grad is None
    with pytest.raises(TypeError, match=r"parameter 1 is int64.* cannot be trained"):
        rule.over([tensor, tenon.tensor([1, 2])])


def test_the_object_of_a_compiled_method_must_not_change() -> None:
    class Scaler:
        def __init__(self) -> None:
            self.weight = 2.0

        def scaled(self, x: Any) -> Any:
            return x * self.weight

    scaler = Scaler()
    with pytest.raises(
        TypeError, match=r"jit: this Scaler, whose method is compiled, could change.*or use tenon\.trace"
    ):
        tenon.jit(scaler.scaled)
    traced = tenon.trace(scaler.scaled)
    assert traced(tenon.tensor(ONES)).tolist() == [2.0] * 3
    scaler.weight = 5.0
    assert traced(tenon.tensor(ONES)).tolist() == [5.0] * 3
