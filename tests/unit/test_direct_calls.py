"""Calls of `grad`, `vmap` and their like outside of a trace take a program that is there, and see what is there now."""

from __future__ import annotations

import functools
import gc
import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenon
from tenon import func, nn, optim
from tenon.runtime import retrace

X = np.array([1.0, 2.0, 3.0], np.float32)
ONES = np.ones(3, np.float32)
_scale = np.float32(1.0)
CALLS = 7

Scenario = Callable[[], Iterator[Any]]
"""Gives what each of some calls gave, with changes of what these read between them."""
SCENARIOS: dict[str, tuple[Scenario, bool]] = {}


def scenario(is_kept: bool) -> Callable[[Scenario], Scenario]:
    """`is_kept` says whether some call takes the program of one before."""

    def named(made: Scenario) -> Scenario:
        SCENARIOS[made.__name__] = made, is_kept
        return made

    return named


def slope(f: Callable[..., Any], *args: Any) -> Any:
    return tenon.grad(lambda x, *rest: f(x, *rest).sum())(*(args or (X,)))


@scenario(True)
def a_global() -> Iterator[Any]:
    global _scale

    def scaled(x: Any) -> Any:
        return x * _scale

    for i in range(CALLS):
        _scale = np.float32(1.0 + i // 4)
        yield slope(scaled)


@scenario(True)
def functions_made_again() -> Iterator[Any]:
    factors = [np.float32(1.0)]
    for i in range(9):
        if i == 6:
            factors[0] = np.float32(5.0)

        def scaled(x: Any) -> Any:
            return x * factors[0]

        def outer(x: Any, inner: Any = scaled) -> Any:
            return inner(x) + scaled(x)

        yield slope(outer)


@scenario(True)
def variables_that_two_functions_have_each() -> Iterator[Any]:
    def pair(value: Any) -> Any:
        def put(new: Any) -> None:
            nonlocal value
            value = new

        return (lambda x: (x * value).sum()), put

    first, second = pair(np.float32(1.0)), pair(np.float32(1.0))
    gradients = [tenon.grad(f) for f, _ in (first, second)]
    for i in range(6):
        if i == 3:
            first[1](np.float32(5.0))
        yield gradients[0](X)
        yield gradients[1](X)


@scenario(True)
def lists_arrays_and_defaults() -> Iterator[Any]:
    array, held = ONES.copy(), {"factors": [np.float32(2.0)]}

    def f(x: Any, *, by: Any = held["factors"]) -> Any:
        return x * by[0] * array

    for i in range(12):
        if i == 4:
            array[1] = 7.0
        if i == 6:
            held["factors"][0] = np.float32(3.0)
        if i == 9:
            assert f.__kwdefaults__ is not None
            f.__kwdefaults__["by"] = [np.float32(4.0)]
        yield slope(f)


@scenario(True)
def attributes_and_methods() -> Iterator[Any]:
    class Model:
        factor = np.float32(2.0)

        def loss(self, x: Any) -> Any:
            return (x * self.factor).sum()

    first, second = Model(), Model()
    for i in range(8):
        if i == 4:
            first.factor = np.float32(3.0)
        if i == 6:
            Model.factor = np.float32(4.0)
        yield tenon.grad(first.loss)(X)
        yield tenon.grad(second.loss)(X)


@scenario(True)
def branches_and_axes() -> Iterator[Any]:
    factors, axes = [np.float32(2.0)], [0, None]
    branches = [lambda x: x * factors[0], lambda x: x]
    product = tenon.vmap(lambda x, y: x * y, axes)
    for i in range(9):
        if i == 4:
            factors[0], axes[1] = np.float32(3.0), 0
        if i == 6:
            branches[0] = lambda x: x + x
        yield tenon.switch(0, branches, X)
        yield product(np.ones((3, 3), np.float32), X)


@scenario(True)
def kinds_of_numbers() -> Iterator[Any]:
    for number in (2, 2.0, True, np.float32(2), np.float64(2), -0.0, 0.0) * 4:
        found = [tenon.checkpoint(lambda x, n: x * n, X, number), tenon.checkpoint(lambda x: x * number, X)]  # noqa: B023
        yield [found, [np.asarray(v).dtype.itemsize for v in found]]


@scenario(True)
def modes() -> Iterator[Any]:
    weight = tenon.tensor(X, requires_grad=True)
    for i in range(9):
        with tenon.set_grad_enabled(i // 3 != 1), tenon.autocast("cpu", "bf16", enabled=i // 3 == 2):
            made = tenon.checkpoint(lambda x: x * weight, tenon.tensor(X))
            yield made.detach(), made.requires_grad


@scenario(True)
def modules() -> Iterator[Any]:
    layers = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Dropout(0.5)).eval()
    layers[0].weight = np.eye(3, dtype=np.float32)
    for i in range(12):
        layers[1].train(i // 4 == 1)
        if i == 10:
            layers[0].weight = 2 * np.eye(3, dtype=np.float32)
        yield slope(layers)


@scenario(True)
def training() -> Iterator[Any]:
    layer = nn.Linear(3, 3, bias=False)
    layer.weight = np.eye(3, dtype=np.float32)
    optimizer: Any = None
    for i in range(9):
        loss = (tenon.checkpoint(layer, tenon.tensor(X)) ** 2).sum()
        yield loss.detach(), loss.requires_grad
        if i == 2:
            optimizer = optim.SGD(0.1).over(layer)
        elif optimizer is not None:
            loss.backward()
            (weight,) = layer.parameters()
            yield weight.grad
            optimizer.step()
            optimizer.zero_grad()


@scenario(True)
def tensors_from_around() -> Iterator[Any]:
    weight, offset = tenon.tensor(X), tenon.tensor(ONES)
    held = [weight]

    def f(x: Any) -> Any:
        return x * held[0] * offset.shape[0]

    for i in range(14):
        if i == 4:
            weight.add_(1.0)
        if i == 6:
            held[0] = tenon.tensor(ONES)
        if i == 8:
            offset = tenon.tensor([1.0, 2.0])
        if i == 11:
            held[0].requires_grad_()
        made = tenon.checkpoint(f, tenon.tensor(X))
        yield made.detach(), made.requires_grad
        if made.requires_grad:
            made.sum().backward()
            yield held[0].grad


@scenario(False)
def elements_of_tensors() -> Iterator[Any]:
    number, place = tenon.tensor(1.0), tenon.tensor(np.array(0))
    reads: list[Callable[[], Any]] = [
        number.item,
        lambda: 2.0 if number else 3.0,
        lambda: float(np.asarray(number)),
        lambda: [5.0, 6.0][place],
        lambda: 7.0 if 1 in place else 8.0,
        lambda: len(str(number)),
    ]
    for read in reads:
        for i in range(3):
            number.fill_(0.0 if i == 2 else 12.0)
            place.fill_(int(i == 2))
            yield slope(lambda x: x * np.float32(read()))  # noqa: B023


@scenario(True)
def gradients_of_tensors() -> Iterator[Any]:
    weight = tenon.tensor(X, requires_grad=True)
    for i in range(8):
        if i == 3:
            weight.grad = tenon.tensor(ONES)
        if i == 6:
            weight.grad.add_(1.0)
        yield slope(lambda x: x if weight.grad is None else x * weight.grad, tenon.tensor(X))


@scenario(False)
def draws() -> Iterator[Any]:
    generator, layer = np.random.default_rng(0), nn.Dropout(0.5)
    model = nn.Sequential(layer)
    functions: list[Callable[[Any], Any]] = [
        lambda x: x * np.float32(np.random.rand()),
        lambda x: x * np.float32(generator.random()),
        lambda x: x * tenon.rand(3),
        layer,
        lambda x: func.functional_call(model, {}, (x,)),
    ]
    for f in functions:
        for _ in range(4):
            yield slope(f)


@scenario(False)
def what_functions_do_besides() -> Iterator[Any]:
    log: list[int] = []
    counts, numbers, tensor = {"calls": 0}, itertools.count(), tenon.tensor(ONES)
    calls = 0

    def counted(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return x

    functions: list[Callable[[Any], Any]] = [
        lambda x: (log.append(len(log)), x * np.float32(len(log)))[1],
        lambda x: (log.append(len(log)), x)[1],
        lambda x: (counts.update(calls=counts["calls"] + 1), x)[1],
        lambda x: x * np.float32(next(numbers)),
        lambda x: (tensor.fill_(7.0), x)[1],
        lambda x: (print("called"), x)[1],
        counted,
    ]
    for f in functions:
        for _ in range(4):
            tensor[0] = 1.0
            yield slope(f)
            yield [len(log), counts["calls"], tensor.tolist(), calls]


def leaves(tree: Any) -> list[Any]:
    if isinstance(tree, list | tuple):
        return [leaf for item in tree for leaf in leaves(item)]
    return [np.asarray(tree.detach() if isinstance(tree, tenon.Tensor) else tree)]


@pytest.mark.parametrize("name", SCENARIOS)
def test_calls_are_as_if_each_were_traced(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made, is_kept = SCENARIOS[name]
    traces: list[int] = []
    original = retrace.trace
    monkeypatch.setattr(retrace, "trace", lambda *args, **kwargs: (traces.append(1), original(*args, **kwargs))[1])

    def run() -> tuple[list[Any], str, int]:
        traces.clear()
        retrace._forget("start", {"generation": 2})
        tenon.manual_seed(0)
        np.random.seed(0)
        found = [[v.copy() for v in leaves(item)] for item in made()]
        return found, capsys.readouterr().out, len(traces)

    found, said, count = run()
    monkeypatch.setattr(retrace, "_STATES", [lambda: None])
    expected, expected_said, expected_count = run()
    for own, plain in zip(found, expected, strict=True):
        for a, b in zip(own, plain, strict=True):
            np.testing.assert_array_equal(a, b)
    assert said == expected_said
    assert (count < expected_count) == is_kept


@pytest.mark.parametrize("kind", [lambda x: x, tenon.tensor], ids=["arrays", "tensors"])
def test_the_second_program_serves(kind: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    parameters = {name: kind(value.detach().numpy().copy()) for name, value in model.named_parameters()}
    rows, wanted = kind(np.ones((5, 3), np.float32)), kind(np.array([0, 1, 1, 0, 1]))
    label = np.array(0)
    traces: list[int] = []
    original = retrace.trace
    monkeypatch.setattr(retrace, "trace", lambda *args, **kwargs: (traces.append(1), original(*args, **kwargs))[1])

    def step() -> list[Any]:
        def loss(parameters: Any, x: Any, y: Any) -> Any:
            return nn.functional.cross_entropy(func.functional_call(model, parameters, (x[None],)), y[None])

        def whole(x: Any) -> Any:
            return func.functional_call(model, parameters, (x,)).sum()

        return [
            tenon.vmap(tenon.grad(loss), (None, 0, 0))(parameters, rows, wanted),
            tenon.value_and_grad(functools.partial(loss, y=label))(parameters, rows[0]),
            tenon.jvp(whole, (rows[0],), (rows[1],)),
            tenon.hessian(whole)(rows[0]),
            tenon.jacrev(whole)(rows[0]),
            tenon.checkpoint(whole, rows[0]),
        ]

    made, counts = [], []
    for _ in range(4):
        traces.clear()
        made.append(step())
        counts.append(len(traces))
    assert counts[2:] == [0, 0]


@pytest.mark.usefixtures("few_objects")
def test_programs_keep_nothing_from_a_collection() -> None:
    class Held:
        factor = np.float32(2.0)

    def run() -> weakref.ref[Any]:
        held = Held()
        for _ in range(4):
            slope(lambda x: x * held.factor)
        return weakref.ref(held)

    found = run()
    gc.collect()
    assert found() is None
