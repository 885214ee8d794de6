"""What is computed is what the program says now: nothing of an earlier call is left, and what could be is refused."""

from __future__ import annotations

import enum
import functools
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenon
from tenon.runtime.knobs import knobs
from tenon.runtime.reads import libraries

X = np.array([1.0, 2.0, 3.0])


class Ordinary:
    """An object that is told from others by its identity alone."""

    def __init__(self, weight: Any) -> None:
        self.weight = weight

    def scaled(self, x: Any) -> Any:
        return self.weight * x

    @tenon.jit
    def compiled(self, x: Any) -> Any:
        return self.weight * x


# Functions of an array that read `box[0]` at each call.
READERS: dict[str, Callable[[list[Any]], Callable[[Any], Any]]] = {
    "grad": lambda box: tenon.grad(lambda w: (w * box[0]).sum()),
    "value_and_grad": lambda box: lambda w: tenon.value_and_grad(lambda w: (w * box[0]).sum())(w)[1],
    "second": lambda box: tenon.grad(lambda w: tenon.grad(lambda w: 0.5 * (w * w * box[0]).sum())(w).sum()),
    "vjp": lambda box: lambda w: tenon.vjp(lambda w: w * box[0], w)[1](np.ones(3))[0],
    "vjp_with_cotangent": lambda box: lambda w: tenon.vjp(lambda w: w * box[0], w, cotangent=np.ones(3))[1][0],
    "jvp": lambda box: lambda w: tenon.jvp(lambda w: w * box[0], (w,), (np.ones(3),))[1],
    "checkpoint": lambda box: lambda w: tenon.checkpoint(lambda w: w * 0 + box[0])(w),
    "vmap": lambda box: tenon.vmap(lambda w: w * 0 + box[0]),
    "cond": lambda box: lambda w: tenon.cond(True, lambda w: w * 0 + box[0], lambda w: w, w),
    "while_loop": lambda box: lambda w: tenon.while_loop(lambda w: w[0] < 0, lambda w: w * 0 + box[0], -w),
    "scan": lambda box: lambda w: tenon.scan(lambda c, _: (c * 0 + box[0], None), w, length=1)[0],
}


@pytest.mark.parametrize("what", READERS)
def test_closures_are_read_at_each_call(what: str) -> None:
    box: list[Any] = [None]
    function = READERS[what](box)
    for value in (2.0, 7.0):
        box[0] = np.full((3, 3) if what == "vmap" else 3, value)
        expected = np.full((3, 3, 3) if what == "vmap" else 3, value)
        np.testing.assert_array_equal(function(X), expected)


def test_new_arrays_in_closures_need_no_other_code(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TENON_CACHE_DIR", str(tmp_path))
    batch = X

    def loss(w: Any) -> Any:
        return tenon.sum(tenon.scan(lambda c, x: (c * x * batch, c * scale), w, batch)[0])

    gradient = tenon.grad(loss)
    with knobs.override(log_compiles=True):
        for factor in (1.0, 2.0, 3.0):
            batch, scale = X * factor, np.float64(factor)
            np.testing.assert_allclose(gradient(X), np.prod(batch) * batch**3)
    assert capfd.readouterr().err.count("compiling") == 1


def test_arrays_that_change_while_they_are_traced_count_as_they_were() -> None:
    buffer = np.zeros(3)

    def total(w: Any) -> Any:
        result = 0.0
        for step in range(4):
            buffer[:] = step // 2
            result = result + (w * buffer).sum()
        return result

    np.testing.assert_array_equal(tenon.grad(total)(X), np.full(3, 2.0))
    np.testing.assert_array_equal(tenon.jit(tenon.grad(total))(X), np.full(3, 2.0))


def test_pull_back_belongs_to_its_point() -> None:
    primal, factor = X.copy(), [np.float64(2.0)]
    value, pull_back = tenon.vjp(lambda w: factor[0] * w * w, primal)
    primal[:], factor[0] = 0.0, np.float64(5.0)
    np.testing.assert_array_equal(value, 2 * X * X)
    for seed in (1.0, 2.0):
        np.testing.assert_allclose(pull_back(np.full(3, seed))[0], seed * 4 * X)
    with pytest.raises(ValueError, match=r"vjp: cotangent: value has shape \(2,\) where \(3,\) is needed"):
        pull_back(np.ones(2))
    with pytest.raises(ValueError, match="which has not the structure of the value"):
        pull_back((np.ones(3),))

    def inside(w: Any) -> Any:
        factor[0] = np.float64(3.0)
        _, pull_back = tenon.vjp(lambda w: factor[0] * w, w)
        factor[0] = np.float64(9.0)
        return pull_back(tenon.ones_like(w))[0]

    np.testing.assert_array_equal(tenon.jit(inside)(X), np.full(3, 3.0))


def test_objects_that_could_change_are_refused() -> None:
    thing = Ordinary(np.ones(3))
    words = r"\(a Ordinary\) could change without being noticed: Ordinary does not define __eq__ and __hash__; make"

    @tenon.jit
    def scale(thing: Any, x: Any) -> Any:
        return thing.weight * x

    with pytest.raises(TypeError, match=rf"^scale: argument thing {words}"):
        scale(thing, X)
    with pytest.raises(TypeError, match=rf"^compiled: argument self {words}"):
        thing.compiled(X)
    with pytest.raises(TypeError, match=r"argument f\.self \(a Ordinary\) could change"):
        tenon.jit(lambda f, x: f(x))(thing.scaled, X)
    with pytest.raises(TypeError, match=r"argument things\.a\.0 \(a Ordinary\) could change"):
        tenon.jit(lambda things, x: x)({"a": [thing]}, X)
    with pytest.raises(TypeError, match=r"argument rng \(a Generator\) could change"):
        tenon.jit(lambda rng, x: x)(np.random.default_rng(0), X)
    with pytest.raises(TypeError, match=r"a dict holds what could change without being noticed: Ordinary"):
        tenon.jit(lambda x: x)({thing: X})

    class Model(tenon.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.settings = thing

    with pytest.raises(TypeError, match=r"Model\.settings \(a Ordinary\) could change without being noticed"):
        tenon.jit(lambda model, x: x)(Model(), X)
    # who names it promises that it does not change
    np.testing.assert_array_equal(tenon.jit(scale.function, static="thing")(thing, X), X)


class Mode(enum.Enum):
    FAST = 1


@pytest.mark.parametrize(
    "value",
    [
        *(Mode.FAST, np.dtype("f4"), np.float32, np, np.add, tenon.exp, tenon.jit(tenon.exp), "s", None, ..., object()),
        *(slice(1, None), functools.partial(tenon.sum, axis=0), len, str.upper, (1, Mode), frozenset("a")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_does_not_change_is_part_of_the_signature(value: Any) -> None:
    seen: list[Any] = []

    def function(value: Any, x: Any) -> Any:
        seen.append(value)
        return x + 1

    compiled = tenon.jit(function, static="value" if isinstance(value, tuple) else ())
    for _ in range(3):
        np.testing.assert_array_equal(compiled(value, X), X + 1)
    assert len(seen) == 1
    assert seen == [value]


def test_arrays_behind_bound_methods_are_data() -> None:
    layer = tenon.nn.Linear(3, 3, seed=0)
    compiled = tenon.jit(lambda apply, x: apply(x))
    x = np.ones(3, np.float32)
    for _ in range(3):
        layer.weight = layer.weight + 1
        np.testing.assert_allclose(compiled(layer.forward, x), layer.weight @ x + layer.bias, rtol=1e-6)
    assert len(compiled._compiled) == 1


USERS = """\
class Layer:
    factor = 2.0

    def __init__(self):
        self.weight = 3.0

    def __call__(self, x):
        return x * self.weight * self.factor + offset

offset = 0.0
layer = Layer()

def apply(x):
    return layer(x)
"""


@pytest.mark.parametrize("is_named", [True, False], ids=["as a standard module", "not at all"])
@pytest.mark.parametrize("form", [tenon.jit, tenon.trace])
def test_code_of_the_users_whatever_its_module_is_called(
    form: Any, is_named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file `colorsys.py` is not Python's, and code that is run in a bare dict has no module."""
    found: dict[str, Any] = {}
    if is_named:
        path = tmp_path / "colorsys.py"
        path.write_text(USERS)
        spec = importlib.util.spec_from_file_location("colorsys", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "colorsys", module)
        monkeypatch.setattr(libraries, "_KNOWN", {})
        spec.loader.exec_module(module)
        found = vars(module)
    else:
        exec(USERS, found)
    x = tenon.tensor([1.0]) if form is tenon.trace else np.ones(1, np.float32)
    apply = form(found["apply"])
    assert apply(x)[0] == 6
    found["layer"].weight = 5.0
    assert apply(x)[0] == 10
    found["Layer"].factor = 1.0
    assert apply(x)[0] == 5
    found["offset"] = 1.0
    assert apply(x)[0] == 6
