"""`tenon.trace` of functions that write to dicts, lists and attributes around them, and of hooks: as in PyTorch."""

from __future__ import annotations

import array
import copy
import re
import types
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon import nn
from tenon.traces.changes import Standing
from tenon.traces.stand_ins import TraceError

Case = tuple[Callable[[Any], Any], Callable[[], Any]]
"""A function of a tensor, and what it has left behind."""


@pytest.fixture(autouse=True)
def no_program_again_and_again() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def replaced(xp: Any) -> Case:
    kept: dict[str, Any] = {"mean": xp.tensor([0.0, 0.0]), "last": None, "now": xp.tensor([1.0, 2.0])}

    def function(x: Any) -> Any:
        kept["mean"] = 0.9 * kept["mean"] + 0.1 * x
        kept["last"], kept["now"] = kept["now"], x * 2
        return kept["mean"] + kept["last"]

    return function, lambda: kept


def exchanged(xp: Any) -> Case:
    kept: dict[str, Any] = {"a": xp.tensor([1.0, 0.0]), "b": xp.tensor([5.0, 5.0])}

    def function(x: Any) -> Any:
        before = kept["a"]
        kept["a"], kept["b"] = kept["b"] + x, kept["a"]
        return before

    return function, lambda: kept


def trees(xp: Any) -> Case:
    kept: Any = types.SimpleNamespace(state=None, shown={})

    def function(x: Any) -> Any:
        hidden, count = (x * 0, 0) if kept.state is None else kept.state
        kept.state = ((hidden + x).detach(), count + 1)
        kept.shown = {"x": [x * 3, None], "state": kept.state[0]}
        return kept.state[0]

    return function, lambda: (kept.state, kept.shown)


def counted(_: Any) -> Case:
    kept: dict[str, Any] = {"steps": 0, "rate": 1.0, "loss": 0.0}

    def function(x: Any) -> Any:
        kept["steps"] += 1
        kept["rate"] = kept["rate"] * 0.5 + 2
        kept["loss"] += x.sum()
        return x * 1

    return function, lambda: kept


def appended(_: Any) -> Case:
    losses: list[Any] = []
    of_name: dict[str, list[Any]] = defaultdict(list)
    last: deque[Any] = deque(maxlen=2)

    def function(x: Any) -> Any:
        losses.append(x.sum())
        of_name["a"] += [x * 2, 1]
        last.append(x * 1)
        return x * 1

    return function, lambda: (losses, dict(of_name), last)


def told(xp: Any) -> Case:
    kept: dict[str, Any] = {"steps": 0, "now": xp.tensor([1.0, 2.0]), "told": []}

    def function(x: Any) -> Any:
        kept["steps"] += 1
        kept["told"] += [kept["steps"], kept["now"]]
        kept["now"] = kept["now"] * 2
        return x * 1

    return function, lambda: kept


def of_set(_: Any) -> Case:
    told: set[str] = set()

    def function(x: Any) -> Any:
        if "first" not in told:
            told.add("first")
            return x * 3
        return x * 2

    return function, lambda: sorted(told)


def of_closure(_: Any) -> Case:
    total: Any = None

    def function(x: Any) -> Any:
        nonlocal total
        total = x if total is None else total + x
        function.doubled = total * 2  # pyright: ignore[reportFunctionMemberAccess]
        return total * 1

    return function, lambda: (total, function.doubled)  # pyright: ignore[reportFunctionMemberAccess]


def of_closure_without_value(_: Any) -> Case:
    total: Any

    def function(x: Any) -> Any:
        nonlocal total
        try:
            total = total + x
        except NameError:
            total = x * 1.0
        return total * 1

    return function, lambda: total


def of_class(_: Any) -> Case:
    class Kept:
        __slots__ = ("last",)
        count = 0
        total: Any = None
        last: Any

    kept = Kept()

    def function(x: Any) -> Any:
        Kept.count += 1
        Kept.total = x if Kept.total is None else Kept.total + x
        kept.last = x * 3
        return Kept.total * 1

    return function, lambda: (Kept.count, Kept.total, kept.last)


def perturbed(xp: Any) -> Case:
    kept = {"by": xp.tensor([0.1, 0.1], requires_grad=True)}

    def function(x: Any) -> Any:
        loss = ((x + kept["by"]) ** 2).sum()
        loss.backward()
        kept["by"] = (kept["by"] + 0.1 * kept["by"].grad).detach().requires_grad_()
        return loss.detach()

    return function, lambda: kept["by"].detach()


def shown_elsewhere(xp: Any) -> Case:
    weight = xp.tensor([1.0, 2.0])
    kept = {"before": weight}

    def function(x: Any) -> Any:
        weight.mul_(0.5)
        change = weight - kept["before"]
        kept["before"] = weight.clone() + x
        return change

    return function, lambda: (weight, kept)


def plain(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: plain(item) for key, item in tree.items()}
    if isinstance(tree, list | tuple | deque):
        return [plain(item) for item in tree]
    return np.round(tree.tolist(), 4).tolist() if hasattr(tree, "tolist") else tree


CASES = [
    *[replaced, exchanged, trees, counted, appended, told, of_set, of_closure, of_closure_without_value, of_class],
    *[perturbed, shown_elsewhere],
]


@pytest.mark.parametrize("case", CASES)
def test_what_is_written_around_a_function_is_there_after_each_call(case: Callable[[Any], Case]) -> None:
    function, left = case(tenon)
    expected, left_by_torch = case(torch)
    traced = tenon.trace(function)
    for number in range(5):
        x = np.array([number + 1, 2], np.float32)
        result, wanted = traced(tenon.tensor(x)), expected(torch.tensor(x))
        np.testing.assert_allclose(result.numpy(), wanted.numpy(), rtol=1e-5)
        assert plain(left()) == plain(left_by_torch())
    assert len(traced._programs) <= 2, "one that finds nothing there yet, and one for all further calls"


def test_what_lies_elsewhere_after_a_call_is_another_tensor() -> None:
    kept: dict[str, Any] = {}

    @tenon.trace
    def step(x: Any) -> Any:
        kept["x"] = [x * 2]
        return kept["x"][0]

    found = [step(tenon.tensor([float(n)])) for n in range(3)]
    assert kept["x"][0] is found[-1]
    assert [x.item() for x in found] == [0.0, 2.0, 4.0]


def test_what_a_call_has_left_is_an_argument_of_the_next() -> None:
    kept: dict[str, Any] = {"x": tenon.tensor([1.0])}

    @tenon.trace
    def step(x: Any) -> Any:
        kept["x"] = kept["x"] + x * 2
        return kept["x"]

    @tenon.trace
    def doubles(x: Any) -> None:
        x.mul_(2.0)
        kept["x"] = kept["x"] + x

    x = tenon.tensor([1.0])
    for expected in (3.0, 9.0, 27.0, 81.0):
        x = step(x)
        assert x.item() == expected
    assert len(step._programs) == 1
    doubles(tenon.tensor([1.0]))
    with pytest.raises(TraceError, match=r"doubles changes argument 0 in place.*kept\.x has its memory"):
        doubles(kept["x"])
    assert kept["x"].item() == 83.0


def test_a_file_has_no_lists_to_append_to(tmp_path: Path) -> None:
    losses: list[Any] = []
    step = tenon.trace(lambda x: losses.append(x * 2))
    with pytest.raises(TypeError, match="save: <lambda> appends to a list; return what it appends instead"):
        step.save(tmp_path / "step", tenon.tensor([1.0]))
    told: set[str] = set()
    with pytest.raises(TypeError, match="save: <lambda> changes a set; return what is in it instead"):
        tenon.trace(lambda x: told.add("x")).save(tmp_path / "step", tenon.tensor([1.0]))
    assert (losses, told) == ([], set())


def test_what_cannot_be_written_at_each_call_is_refused_where_it_is_read() -> None:
    kept: dict[str, Any] = {"steps": 1, "losses": []}
    x = tenon.tensor([1.0])

    def decays() -> Any:
        kept["steps"] += 1
        return x * min(0.9, 1 / kept["steps"])

    def scales() -> Any:
        kept["steps"] += 1
        return x * kept["steps"]

    def prints() -> Any:
        kept["steps"] += 1
        return x * 2, repr(kept["steps"])

    def sets_bits() -> Any:
        kept["steps"] += 1
        return x * (kept["steps"] | 8)

    def asks() -> Any:
        kept["steps"] += 1
        return x * kept["steps"].bit_length()

    def looks_back() -> Any:
        kept["losses"].append(x * 2)
        return kept["losses"][-1]

    for function, told in [
        (decays, r"the number in kept\.steps is changed at each call, and is read here"),
        *[(function, r"the number in kept\.steps is .* read here") for function in (scales, prints, sets_bits, asks)],
        (looks_back, r"kept\.losses is appended to at each call, and is read"),
    ]:
        with pytest.raises(TraceError, match=told) as caught:
            tenon.trace(function)()
        lines = [frame.lineno for frame in caught.traceback if str(frame.path).endswith("test_traced_places.py")]
        assert lines[-1] == function.__code__.co_firstlineno + 1, "the line that reads it"
    assert kept == {"steps": 1, "losses": []}


def test_a_list_that_cannot_be_exchanged_is_not_appended_to() -> None:
    pair: tuple[str, list[Any]] = "losses", []

    def appends(x: Any, seen: list[Any] = []) -> Any:  # noqa: B006
        (pair[1] if x.ndim else seen).append(x * 2)

    for x in (tenon.tensor([1.0]), tenon.tensor(1.0)):
        with pytest.raises(TraceError, match=r"appends changes (pair\.1|appends)\.0 from nothing to .*at each call"):
            tenon.trace(appends)(x)
    assert (pair[1], appends.__defaults__) == ([], ([],))


@pytest.mark.parametrize(
    ("held", "change"),
    [
        (np.zeros(2, np.float32), lambda held, _: np.add(held, 1, out=held)),
        (bytearray(2), lambda held, _: held.append(1)),
        (array.array("i", [1, 2]), lambda held, _: held.reverse()),
        ({"a"}, lambda held, x: held.add(x * 2)),
    ],
)
def test_elements_that_a_program_does_not_change_stay_as_they_are(held: Any, change: Callable[[Any, Any], Any]) -> None:
    before = copy.copy(held)

    def function(x: Any) -> Any:
        change(held, x)
        return x * 1

    said = (
        f"function changes what is in {'held' if isinstance(held, np.ndarray) else f'a {type(held).__name__}'}, which"
    )
    with pytest.raises(TraceError, match=said):
        tenon.trace(function)(tenon.tensor([1.0]))
    np.testing.assert_equal(held, before)


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x: Any) -> None:
        self.x = x


@pytest.mark.parametrize(
    ("kind", "hold"),
    [
        ("SimpleNamespace", lambda x: types.SimpleNamespace(inner=types.SimpleNamespace(x=[x]))),
        ("deque", lambda x: deque([x])),
        ("set", lambda x: {x}),
        ("Slotted", Slotted),
        ("function", lambda x: lambda: x),
        ("generator", lambda x: (x for _ in range(2))),
    ],
)
def test_traced_tensors_do_not_leave_the_trace_in_objects(kind: str, hold: Callable[[Any], Any]) -> None:
    kept = types.SimpleNamespace(held=None)

    def gives(x: Any) -> Any:
        return hold(x * 2)

    def keeps(x: Any) -> None:
        kept.held = hold(x * 2)

    for function in (gives, keeps):
        with pytest.raises(TraceError, match=f"{function.__name__} gives or keeps a {kind} with a tensor or a number"):
            tenon.trace(function)(tenon.tensor([1.0]))
    assert kept.held is None
    model = nn.Linear(2, 2)
    assert tenon.trace(lambda x: (model, model(x)))(tenon.ones(2))[0] is model


def test_an_interrupt_while_all_is_put_back_leaves_no_stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, Any] = {"steps": 0, "x": tenon.tensor([1.0])}
    restore, left = Standing.restore, [False, True]  # of the traces, the one in which there are stand-ins

    def interrupted(self: Standing) -> None:
        if left and left.pop(0):
            raise KeyboardInterrupt
        restore(self)

    @tenon.trace
    def step() -> None:
        kept["steps"] += 1
        kept["x"] = kept["x"] * 2

    monkeypatch.setattr(Standing, "restore", interrupted)
    with pytest.raises(KeyboardInterrupt):
        step()
    assert (kept["steps"], kept["x"].item()) == (0, 1.0)


def test_a_trace_that_fails_leaves_a_variable_without_a_value() -> None:
    held: Any

    @tenon.trace
    def function(x: Any) -> None:
        nonlocal held
        held = x * 2
        raise ArithmeticError("given up")

    def kept() -> Any:
        return held

    with pytest.raises(ArithmeticError, match="given up"):
        function(tenon.tensor([1.0]))
    with pytest.raises(NameError):
        kept()


def test_the_line_of_a_change_that_is_refused_is_named() -> None:
    names, kept, x = ["a"], types.SimpleNamespace(rate=0.5), tenon.tensor([1.0])

    def takes() -> Any:
        y = x * 2
        names.pop()
        return y

    def inner() -> None:
        kept.rate = [kept.rate]

    def calls() -> Any:
        inner()
        return x * 2

    def fills(given: Any) -> Any:
        given["y"] = x * 2
        return given["y"] + 1

    for function, given, said, line in [
        (takes, (), "takes changes names.0 from 'a' to nothing", takes.__code__.co_firstlineno + 2),
        (calls, (), "calls changes kept.rate from 0.5 to [0.5]", inner.__code__.co_firstlineno + 1),
        (fills, ({},), "fills changes a list or a dict among its arguments", fills.__code__.co_firstlineno + 1),
    ]:
        with pytest.raises(TraceError, match=re.escape(said) + rf" \(.*test_traced_places\.py:{line}\), which"):
            tenon.trace(function)(*given)
    assert (names, kept.rate) == (["a"], 0.5)


def test_hooks_of_modules_and_tensors_run_in_a_trace() -> None:
    def losses(xp: Any, modules: Any, wrap: Callable[[Any], Any]) -> Any:
        first, last = modules
        norms: dict[str, Any] = {}
        calls: list[int] = []

        def halved(_: Any, of_arguments: Any, of_results: Any) -> Any:
            norms["of results"] = (of_results[0] ** 2).sum()
            return (of_arguments[0] * 0.5,)

        def called(_: Any, __: Any, result: Any) -> Any:
            calls.append(1)
            return result * 1.1

        last.register_full_backward_hook(halved)
        last.register_full_backward_pre_hook(lambda _, given: (given[0] * 2,))
        last.register_forward_hook(called)
        last.register_forward_pre_hook(lambda _, given: (given[0] + 0.01,))
        first.weight.register_hook(lambda gradient: gradient * 0.9)

        def step(x: Any) -> Any:
            for p in (*first.parameters(), *last.parameters()):
                p.grad = None
            hidden = xp.tanh(first(x))
            hidden.register_hook(lambda gradient: gradient + 0.01)
            loss = (last(hidden) ** 2).mean()
            loss.backward()
            with xp.no_grad():
                for p in (*first.parameters(), *last.parameters()):
                    p -= 0.1 * p.grad
            return loss.detach()

        run, x = wrap(step), xp.tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3))
        return [(run(x).item(), norms["of results"].item(), len(calls)) for _ in range(4)]

    theirs = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)
    ours = nn.Linear(3, 4).requires_grad_(), nn.Linear(4, 2).requires_grad_()
    for own, other in zip(ours, theirs, strict=True):
        own.load_state_dict({name: value.detach().clone() for name, value in other.state_dict().items()})
    expected = losses(torch, theirs, lambda step: step)
    np.testing.assert_allclose(losses(tenon, ours, tenon.trace), expected, rtol=1e-5)


def test_a_hook_that_comes_later_is_called() -> None:
    weight = tenon.tensor([1.0], requires_grad=True)

    @tenon.trace
    def step() -> Any:
        weight.grad = None
        (weight * 2).sum().backward()

    step()
    handle = weight.register_hook(lambda gradient: gradient * 10)
    step()
    assert weight.grad.item() == 20.0
    with tenon.no_grad():
        weight.mul_(1.0)
    handle.remove()
    step()
    assert weight.grad.item() == 2.0


class Trebled(tenon.autograd.Function):
    @staticmethod
    def forward(*args: Any) -> Any:
        return args[1] * 1

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] * 3


def test_gradients_of_python_are_not_lost_in_a_trace(tmp_path: Any) -> None:
    weight = tenon.tensor([1.0], requires_grad=True)
    trebled = tenon.trace(lambda: Trebled.apply(weight))
    with pytest.raises(TraceError, match=r"would go through backward of Trebled \(.*test_traced_places.py"):
        trebled.save(tmp_path / "trebled.tenon")
    trebled().backward()
    assert weight.grad.item() == 3.0
    weight.grad = None
    tenon.trace(lambda: Trebled.apply(weight).sum().backward())()
    assert weight.grad.item() == 3.0
    with pytest.raises(TraceError, match="registers a hook on a tensor of shape"):
        tenon.trace(lambda: weight.register_hook(lambda gradient: gradient * 0))()
    weight.grad = None
    (weight * 1).sum().backward()
    assert weight.grad.item() == 1.0


def python_on_the_way(F: Any, kept: dict[str, Any], x: Any, is_hooked: bool) -> Any:
    """The same for torch and Tenon: hooks and a gradient in Python on the way from `x` to a number."""

    class Cubed(F.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            (x,) = ctx.saved_tensors
            return gradients[0] * x * 3

    scale = x.detach().mean()
    hidden = F.tanh(x) * 2
    if is_hooked:
        hidden.register_hook(lambda gradient: gradient * scale)
    hidden.retain_grad()
    kept["hidden"] = hidden
    x.register_hook(lambda gradient: gradient + 1)
    return (Cubed.apply(hidden) + F.exp(-hidden)).mean()


@pytest.mark.parametrize("size", [3, 1 << 17])
def test_backward_of_a_traced_call_goes_through_hooks_and_functions(size: int) -> None:
    values = np.random.default_rng(size).uniform(-1, 1, size)
    given: Any = tenon.tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    kept: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    settings = {"hooked": True}
    traced = tenon.trace(lambda x: python_on_the_way(tenon, kept[0], x, settings["hooked"]))
    for step in range(5):
        settings["hooked"] = step < 3
        for x, step_of in zip(
            given, (traced, lambda x: python_on_the_way(torch, kept[1], x, settings["hooked"])), strict=True
        ):
            x.grad = None
            (step_of(x * (step + 1)) * 3).backward()
        np.testing.assert_allclose(given[0].grad, given[1].grad, rtol=1e-12, atol=1e-20)
        np.testing.assert_allclose(kept[0]["hidden"].grad, kept[1]["hidden"].grad, rtol=1e-12, atol=1e-20)


def test_a_hook_that_is_gone_leaves_one_program() -> None:
    layer: Any = nn.Linear(2, 2, seed=0).requires_grad_()
    model = nn.Sequential(layer, nn.Tanh())
    seen: list[Any] = []
    handle = layer.register_full_backward_hook(lambda module, given, found: seen.append(found[0].tolist()))
    loss = tenon.trace(lambda x: (model(x) ** 2).sum())
    x = tenon.tensor([[1.0, -2.0]])
    for _ in range(3):
        loss(x).backward()
    gradient = layer.weight.grad.numpy() / 3
    assert len(seen) == 3
    handle.remove()
    for _ in range(3):
        layer.weight.grad = None
        result = loss(x)
        assert result._source.name == "<lambda>"
        result.backward()
        np.testing.assert_allclose(np.asarray(layer.weight.grad), gradient, rtol=1e-6)
    assert len(seen) == 3
