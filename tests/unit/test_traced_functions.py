"""`tenon.trace`: what a traced function gives and leaves behind is what it does call by call, and nothing is stale."""

from __future__ import annotations

import gc
import math
import sys
import threading
import time
import types
import warnings
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest

import tenon
from tenon import nn, optim
from tenon.dialects.definition.value import TracedValueError
from tenon.eager import tape
from tenon.runtime.python_state import quick_switches
from tenon.traces import function as traced_function
from tenon.traces.stand_ins import TraceError

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(16, 3)).astype(np.float32)
LABELS = RNG.integers(0, 4, 16)


def programs(traced: Any) -> int:
    return len(traced._programs)


def network(*, seed: int = 0, statistics: bool = False) -> Any:
    nn.manual_seed(seed)
    layers: list[Any] = [nn.Linear(3, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 4)]
    return nn.Sequential(*layers).requires_grad_()


def training(rule: Any, wrap: Callable[..., Any], steps: int = 5) -> tuple[list[float], list[Any]]:
    model = network()
    optimizer = rule.over(model)

    def step(points: Any, labels: Any) -> Any:
        optimizer.zero_grad()
        loss = tenon.cross_entropy(model(points), labels)
        loss.backward()
        optim.clip_grad_norm_(model, 0.5)
        optimizer.step()
        return loss

    run = wrap(step)
    losses: list[float] = []
    for number in range(steps):
        optimizer.param_groups[0]["lr"] = 0.1 / (1 + number)
        losses.append(run(POINTS, LABELS).item())
    if wrap is not _as_it_is:
        assert programs(run) == 1, "the state is there before the first step is traced"
    return losses, [p.detach().numpy() for p in model.parameters()]


def _as_it_is(function: Any) -> Any:
    return function


@pytest.mark.parametrize("rule", [optim.SGD(lr=0.1, momentum=0.9), optim.Adam(lr=0.1)], ids=["sgd", "adam"])
def test_a_training_step_is_that_of_single_calls(rule: Any) -> None:
    losses, parameters = training(rule, _as_it_is)
    traced_losses, traced_parameters = training(rule, tenon.trace)
    np.testing.assert_allclose(traced_losses, losses, rtol=1e-5)
    for traced, plain in zip(traced_parameters, parameters, strict=True):
        np.testing.assert_allclose(traced, plain, rtol=1e-4, atol=1e-6)
    assert losses[0] != losses[1]


def test_running_statistics_follow() -> None:
    images = RNG.normal(size=(4, 2, 3, 3)).astype(np.float32)
    results: list[Any] = []
    for wrap in (_as_it_is, tenon.trace):
        norm = nn.BatchNorm2d(2).requires_grad_()
        run = wrap(norm)
        for _ in range(3):
            run(tenon.tensor(images))
        results.append(np.asarray(norm.running_var))
    np.testing.assert_allclose(results[1], results[0], rtol=1e-6)
    assert abs(results[0] - 1).max() > 1e-3


def test_views_and_changes_in_place() -> None:
    def step(x: Any, state: Any) -> Any:
        row = state[0]
        row += x
        state[1:, ::-1] = x * 2.0
        state.T[0] *= 3.0
        part = state.reshape(-1)[1:3].detach()
        part += 1.0
        state[state > 40.0] = -1.0
        mine = tenon.tensor(np.zeros(3, np.float32))
        mine[1] = x.sum()
        return row, mine

    outcomes: list[Any] = []
    for run in (step, tenon.trace(step)):
        state = tenon.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
        view = state[1]
        row: Any = None
        mine: Any = None
        for number in range(3):
            row, mine = run(tenon.tensor([1.0, 2.0, float(number)]), state)
        assert row._view.base is state
        row += 0.5
        outcomes.append((state.tolist(), view.tolist(), row.tolist(), mine.tolist()))
    assert outcomes[0] == outcomes[1]


def _with_row(x: Any) -> Any:
    y = x * 1.5
    y[0] = 0.25
    row = y[1]
    row += x[0]
    return y


@pytest.mark.parametrize(
    "change",
    [
        _with_row,
        lambda x: (x * 1.5).masked_fill(np.eye(2, dtype=bool), 0.25),
        lambda x: (x * 1.5).relu_() * x,
    ],
)
def test_gradients_go_through_changes_in_place(change: Callable[[Any], Any]) -> None:
    def gradients(wrap: Callable[..., Any]) -> Any:
        weight = tenon.tensor([[0.5, -1.0], [2.0, 0.75]], requires_grad=True)

        def step() -> Any:
            loss = change(weight * 2.0).exp().sum()
            loss.backward()
            return loss

        value = wrap(step)().item()
        return value, weight.grad

    (value, gradient), (expected, other) = gradients(lambda f: tenon.trace(f, keep_grad=True)), gradients(_as_it_is)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    np.testing.assert_allclose(gradient, other, rtol=1e-6)


def test_what_was_overwritten_in_a_trace_is_still_known() -> None:
    weight: Any = tenon.tensor([1.0, 2.0, 3.0], requires_grad=True)

    def step() -> Any:
        y = weight * weight
        z = y * y
        part = y[0]
        part += 100.0
        z.sum().backward()

    tenon.trace(step, keep_grad=True)()
    np.testing.assert_allclose(weight.grad, 4 * np.array([1.0, 2.0, 3.0]) ** 3)


def test_gradients_go_through_a_call() -> None:
    weight = tenon.tensor([1.0, 2.0, 3.0], requires_grad=True)

    @tenon.trace
    def loss(x: Any) -> Any:
        with tenon.no_grad():
            scale = (weight * 1.0).sum()
        return (weight * weight.detach() * x).sum() + scale

    x: Any = None
    for _ in range(2):
        weight.grad = None
        x = tenon.tensor([1.0, 1.0, 2.0], requires_grad=True)
        loss(x).backward()
        assert weight.grad is not None
        assert weight.grad.tolist() == [1.0, 2.0, 6.0]
        assert x.grad is not None
        assert x.grad.tolist() == [1.0, 4.0, 9.0]
    with tenon.no_grad():
        assert not loss(x).requires_grad
        weight -= 1.0
        assert loss(x).item() == 0 + 1 + 2 * 4 + 3


def test_second_derivatives_hooks_and_managers() -> None:
    x = tenon.tensor([0.3, 0.7], requires_grad=True)

    @tenon.trace
    def curvature() -> Any:
        (first,) = tenon.autograd.grad(x.sin().sum(), x, create_graph=True)
        (second,) = tenon.autograd.grad(first.sum(), x)
        return second

    np.testing.assert_allclose(curvature().numpy(), -np.sin([0.3, 0.7]), rtol=1e-6)

    manager = tenon.GradManager()
    weight = tenon.tensor([2.0])
    manager.attach(weight, callbacks=lambda tensor, gradient: gradient * 10.0)

    @tenon.trace
    def managed(y: Any) -> Any:
        with manager:
            manager.backward((weight * y).sum())
        found = weight.grad
        weight.grad = None
        return found

    assert managed(tenon.tensor([3.0])).tolist() == [30.0]
    assert managed(tenon.tensor([4.0])).tolist() == [40.0]
    assert weight.grad is None


def test_gradients_are_kept_where_nobody_uses_them() -> None:
    model, x = nn.Linear(3, 1, seed=0).requires_grad_(), tenon.tensor(POINTS)

    @tenon.trace
    def forward_and_back() -> None:
        model(x).sum().backward()

    forward_and_back()
    forward_and_back()
    np.testing.assert_allclose(model.weight.grad.numpy(), 2 * POINTS.sum(0, keepdims=True), rtol=1e-4)
    steps = optim.SGD(lr=0.1).over(model)

    def step() -> None:
        steps.zero_grad()
        model(x).sum().backward()
        steps.step()

    tenon.trace(step)()
    with pytest.raises(RuntimeError, match=r"was not kept by the traced function step.*keep_grad=True"):
        _ = model.weight.grad
    with pytest.raises(RuntimeError, match="was not kept"):
        model(x).sum().backward()
    steps.zero_grad()
    tenon.trace(step, keep_grad=True)()
    np.testing.assert_allclose(model.weight.grad.numpy(), POINTS.sum(0, keepdims=True), rtol=1e-4)


# --- what is read from around ---------------------------------------------------------------------

FACTOR = 2.0
OFFSETS = np.ones(3, np.float32)
SETTINGS = types.SimpleNamespace(scale=1.0, layers=[1, 2])


class Holder:
    gain = 3.0

    def __init__(self) -> None:
        self.power = 2
        self.count = 0

    def apply(self, x: Any) -> Any:
        return x**self.power * self.gain


HOLDER = Holder()


def helper(x: Any) -> Any:
    return x * FACTOR


def test_what_is_read_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    shift, x = 1.0, tenon.tensor([1.0, 2.0, 3.0])

    def compute(x: Any, sign: int = 1) -> Any:
        return helper(HOLDER.apply(x)) * SETTINGS.scale * len(SETTINGS.layers) * sign + shift + OFFSETS

    traced = tenon.trace(compute)

    def check() -> None:
        np.testing.assert_allclose(traced(x).numpy(), compute(x).numpy(), rtol=1e-6)

    check()
    check()
    assert programs(traced) == 1
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    check()
    monkeypatch.setattr(HOLDER, "power", 3)
    check()
    monkeypatch.setattr(Holder, "gain", 4.0)
    check()
    monkeypatch.setattr(SETTINGS, "scale", 2.0)
    SETTINGS.layers.append(3)
    check()
    OFFSETS[1] = 9.0
    check()
    shift = 7.0
    check()
    monkeypatch.setitem(globals(), "helper", lambda x: x)
    check()
    assert programs(traced) == 8
    HOLDER.count += 1
    check()
    assert programs(traced) == 8, "nothing asks for the count"
    np.testing.assert_allclose(traced(x, -1).numpy(), compute(x, -1).numpy(), rtol=1e-6)
    SETTINGS.layers.pop()
    OFFSETS[1] = 1.0


def test_collections_and_bits_of_arrays_are_guarded() -> None:
    flags, queue, levels = {"a"}, deque([1.0, 2.0]), bytearray(b"\1")
    zeros, unknown = np.zeros(1000), np.full(1000, np.nan)
    nan, x = np.float32(np.nan), tenon.tensor(1.0, dtype=np.float64)

    def compute(x: Any) -> Any:
        scaled = x * queue[0] * levels[0] if "a" in flags else -x
        return scaled / zeros[:2], unknown[:2] * x, nan * x

    traced = tenon.trace(compute)

    def check(count: int) -> None:
        for _ in range(2):
            with np.errstate(divide="ignore"):
                for found, expected in zip(traced(x), compute(x), strict=True):
                    np.testing.assert_array_equal(found.numpy(), expected.numpy())
        assert programs(traced) == count

    check(1)
    zeros[:] = -0.0
    check(2)
    queue[0] = 3.0
    check(3)
    levels[0] = 2
    check(4)
    flags.clear()
    check(5)


class Pair(NamedTuple):
    one: Any
    other: Any


def test_named_tuples_are_taken_apart_and_numpy_numbers_told_by_their_bits() -> None:
    divided = tenon.trace(lambda pair, factor: Pair(pair.one / pair.other, pair.one * factor))
    x = tenon.tensor([1.0, 2.0])
    for number in range(1, 4):
        found = divided(Pair(x, np.array([number, 1.0], np.float32)), np.float32(0.0))
        assert type(found) is Pair
        assert found.one.tolist() == [np.float32(1 / number), 2.0]
    assert programs(divided) == 1
    inverse = tenon.trace(lambda x, divisor: x / divisor)
    found = [inverse(x, divisor)[0].item() for divisor in np.array([0.0, -0.0, np.nan, np.nan], np.float32)]
    np.testing.assert_array_equal(found, [np.inf, -np.inf, np.nan, np.nan])
    assert programs(inverse) == 3


def test_a_queue_changes_at_each_call_or_not_at_all() -> None:
    queue: Any = deque([tenon.tensor(0.0), tenon.tensor(0.0)], maxlen=2)

    @tenon.trace
    def remember(x: Any) -> Any:
        queue.append(x * 1)
        return queue[0] + queue[1]

    assert [remember(tenon.tensor(x)).item() for x in (1.0, 2.0, 4.0)] == [1.0, 3.0, 6.0]
    with pytest.raises(TraceError, match="changes queue"):
        tenon.trace(lambda x: queue.popleft() + x)(tenon.tensor(1.0))
    assert [item.item() for item in queue] == [2.0, 4.0]


class Made:
    def __init__(self) -> None:
        self.factor = FACTOR


def test_modules_imported_and_objects_made_inside_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = types.ModuleType("tn_imported_inside")
    exec("K = 2.0\ndef scaled(x):\n    return x * K", vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def compute(x: Any) -> Any:
        from tn_imported_inside import scaled  # pyright: ignore

        return scaled(x) * Made().factor

    traced, x = tenon.trace(compute), tenon.tensor(1.0)
    assert traced(x).item() == 4.0
    module.K = 3.0
    assert traced(x).item() == 6.0
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    assert traced(x).item() == 15.0
    assert traced(x).item() == 15.0
    assert programs(traced) == 3


def test_the_mode_of_a_module_and_other_tensors_are_noticed() -> None:
    model, x = network(), tenon.tensor(POINTS)
    traced = tenon.trace(model)
    assert traced(x).tolist() != traced(x).tolist(), "dropout draws anew"
    model.eval()
    np.testing.assert_allclose(traced(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-5)
    model[0].weight = nn.Parameter(np.zeros((8, 3), np.float32))
    np.testing.assert_allclose(traced(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-5)
    with tenon.no_grad():
        model[0].weight += 1.0
    np.testing.assert_allclose(traced(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-5)
    assert traced(tenon.tensor(POINTS[:2])).shape == (2, 4)


def test_arguments_that_are_one_tensor() -> None:
    def step(a: Any, b: Any) -> None:
        a += 1.0
        b *= 2.0

    traced = tenon.trace(step)
    for pair in ([1.0], [5.0]), ([1.0], None):
        a = tenon.tensor(pair[0])
        b = a if pair[1] is None else tenon.tensor(pair[1])
        traced(a, b)
        assert (a.tolist(), b.tolist()) == (([2.0], [10.0]) if pair[1] else ([4.0], [4.0]))


@pytest.mark.usefixtures("few_objects")
@pytest.mark.parametrize("grads", [False, True])
def test_programs_do_not_keep_their_first_arguments(grads: bool) -> None:
    weight = tenon.tensor([1.0, 2.0], requires_grad=grads)

    @tenon.trace
    def step(items: Any, array: Any, name: str) -> Any:
        items[1][...] = items[0] * 2
        return {name: (items[0] * weight, items[0][:1], array), "given": items[1]}

    references: list[Any] = []
    for number in range(3):
        x, y = tenon.tensor([1.0, 2.0]), tenon.tensor([0.0, 0.0])
        array = np.full(2, float(number))
        found = step([x, y], array, "name")
        assert found["given"] is y
        assert y.tolist() == [2.0, 4.0]
        references += [weakref.ref(held) for held in (x, y, array, x._array)]
        del x, y, array, found
    gc.collect()
    assert [type(reference()) for reference in references] == [type(None)] * len(references)
    assert programs(step) == 1


def test_programs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenon.traces.function._MOST", 4)
    step = tenon.trace(lambda x, n: x * n)
    for number in range(6):
        assert step(tenon.tensor([1.0]), number).item() == number
    assert programs(step) == 4


def test_kinds_of_a_call_are_bounded() -> None:
    call = tape.Call("f", "f", lambda values: (values[0],))
    for number in range(300):
        call.note_needed(number, ((True,), (False,)))
    assert [*call.needed] == [*range(44, 300)]


def test_many_programs_are_warned_of() -> None:
    count = 0

    @tenon.trace
    def counted(x: Any) -> Any:
        return x + count

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for count in range(12):
            assert counted(tenon.tensor(0.0)).item() == count
    assert [str(w.message) for w in caught if "count changed; pass what changes" in str(w.message)]


# --- what a program cannot do -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "asks",
    [
        lambda x: x if x.sum() > 0 else -x,
        lambda x: x * x[0].item(),
        lambda x: [x] * int(x[0]),
        lambda x: x[x > 0],
        lambda x: np.asarray(x).sum(),
        lambda x: x.nonzero(),
    ],
    ids=["truth", "item", "int", "mask", "numpy", "nonzero"],
)
def test_control_flow_on_values(asks: Callable[[Any], Any]) -> None:
    x = tenon.tensor([1.0, -2.0])
    traced = tenon.trace(asks)
    with pytest.raises(TracedValueError, match=r"not known while <lambda> is traced.*(cond|select|symbolic=False)"):
        traced(x)
    assert x.tolist() == [1.0, -2.0]
    assert type(x) is tenon.Tensor
    result, expected = tenon.trace(asks, symbolic=False)(x), asks(x)
    assert str(result) == str(expected)


def test_what_happens_in_python_is_refused_and_undone() -> None:
    names = ["a"]
    holder, x = Holder(), tenon.tensor([1.0])
    generator = np.random.default_rng(0)

    def counts() -> Any:
        nonlocal x
        vars(holder)["count"] = [holder.count]
        return x * 2

    def takes() -> Any:
        return x * len(names.pop())

    def draws() -> Any:
        return x * generator.normal()

    with pytest.raises(TraceError, match=r"counts changes holder.count from 0 to \[0\].*symbolic=False"):
        tenon.trace(counts)()
    with pytest.raises(TraceError, match="draws numbers"):
        tenon.trace(draws)()
    with pytest.raises(TraceError, match=r"takes changes names\.0 from 'a' to nothing"):
        tenon.trace(takes)()
    assert holder.count == 0
    assert names == ["a"]


@pytest.mark.parametrize(
    "change",
    [
        lambda given, x: given["made"].append(x * 2),
        lambda given, x: given.update(result=x * 2),
        lambda given, x: given["made"].clear(),
    ],
    ids=["append", "set", "clear"],
)
def test_containers_among_arguments_do_not_change(change: Callable[[Any, Any], Any]) -> None:
    given: Any = {"made": [tenon.tensor(1.0)]}
    with pytest.raises(TraceError, match="<lambda> changes a list or a dict among its arguments"):
        tenon.trace(change)(given, tenon.tensor(1.0))
    assert [*given] == ["made"]
    assert len(given["made"]) == 1


def test_what_is_assigned_is_there_after_each_call() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last: Any = None

        def forward(self, x: Any) -> Any:
            self.last = {"doubled": x * 2}
            return self.last["doubled"] + 1

    model = Model()
    traced = tenon.trace(model)
    for value in (1.0, 2.0, 3.0):
        assert traced(tenon.tensor([value])).item() == 2 * value + 1
        assert model.last["doubled"].item() == 2 * value


def test_errors_leave_everything_as_it_was() -> None:
    x, y = tenon.tensor([1.0, 2.0]), tenon.tensor([0.0])

    @tenon.trace
    def fails() -> Any:
        y[0] = 5.0
        x.exp_()
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fails()
    assert (x.tolist(), y.tolist()) == ([1.0, 2.0], [0.0])
    outer = tenon.tensor([1.0], requires_grad=True) * 2
    with pytest.raises(TraceError, match="recorded before it was called"):
        tenon.trace(lambda: (outer * 2).sum().backward())()


def test_the_sum_of_a_diagonal_is_still_there() -> None:
    square = np.arange(9.0).reshape(3, 3)
    assert tenon.trace(square) == 12
    assert tenon.trace(square, offset=1) == 6
    assert tenon.jit(lambda x: tenon.trace(x))(square) == 12
    assert tenon.trace(tenon.tensor(square)).item() == 12


def test_jitted_functions_and_control_flow_inside() -> None:
    double = tenon.jit(lambda x: x * 2.0)

    @tenon.trace
    def run(x: Any) -> Any:
        y = tenon.cond(x.sum() > 0, lambda v: v * 3.0, lambda v: v - 1.0, double(x))
        total, _ = tenon.scan(lambda c, v: (c + v, c), tenon.tensor(0.0), y)
        return total

    for values in ([1.0, 2.0], [-1.0, -2.0]):
        x = tenon.tensor(values, requires_grad=True)
        total = run(x)
        total.backward()
        positive = sum(values) > 0
        assert total.item() == (6 * sum(values) if positive else 2 * sum(values) - 2)
        assert x.grad is not None
        assert x.grad.tolist() == ([6.0, 6.0] if positive else [2.0, 2.0])
    assert math.isfinite(total.item())


@pytest.mark.usefixtures("few_objects")
def test_an_object_that_has_the_identity_of_one_that_went_is_another() -> None:
    traced = tenon.trace(lambda x, holder: x * holder.count)
    x, kept = tenon.tensor([1.0]), list[weakref.ref[Holder]]()
    for count in range(5):
        holder = Holder()
        holder.count = count
        kept.append(weakref.ref(holder))
        assert traced(x, holder).item() == count
        del holder
    gc.collect()
    assert not any(held() for held in kept)
    assert programs(traced) == 0


def test_a_change_through_a_view_of_what_is_no_argument_is_refused() -> None:
    @tenon.trace
    def plus_one(part: Any) -> Any:
        part += 1.0
        return part

    whole = tenon.tensor(POINTS)
    with pytest.raises(TraceError, match=r"plus_one changes a tensor of shape \(16, 3\) that it was not seen to read"):
        plus_one(whole[:2])
    np.testing.assert_array_equal(whole.numpy(), POINTS)
    np.testing.assert_array_equal(plus_one(whole).numpy(), POINTS + 1)


@pytest.mark.parametrize(
    "key",
    [
        lambda i, m: ([0, 1], slice(None)),
        lambda i, m: (i, 1),
        lambda i, m: (slice(None), [0, 2]),
        lambda i, m: (np.array([0, 1]), slice(0, 2)),
        lambda i, m: m,
    ],
    ids=["list", "tensor", "columns", "array", "mask"],
)
def test_what_is_assigned_by_any_kind_of_subscript(key: Any) -> None:
    def function(x: Any, i: Any, m: Any) -> Any:
        y = x.clone()
        y[key(i, m)] = 5
        return y

    x, i, m = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([0, 2]), np.array([True, False, True, False])
    wanted = x.copy()
    wanted[key(i, m)] = 5
    np.testing.assert_array_equal(tenon.trace(function)(*map(tenon.tensor, (x, i, m))), wanted)


def test_a_value_that_does_not_fit_rows_of_a_mask_is_refused() -> None:
    def function(x: Any, m: Any) -> Any:
        y = x.clone()
        y[m] = np.ones(5, np.float32)
        return y

    with pytest.raises(ValueError, match="cannot be repeated to 1"):
        tenon.trace(function)(tenon.tensor(np.zeros((4, 1), np.float32)), tenon.tensor(np.ones(4, bool)))


def test_threads_trace_and_call_over_one_module() -> None:
    model, total = nn.Linear(3, 4, seed=0).requires_grad_(), tenon.tensor([0.0])
    x = tenon.tensor(POINTS)
    expected = model(x).detach().numpy()
    together = threading.Barrier(3)

    def counted(scale: int) -> Callable[..., Any]:
        def function(x: Any) -> Any:
            total.add_(1.0)
            return model(x).detach() * scale

        return tenon.trace(function)

    def trace_and_call(number: int) -> None:
        for scale in range(4):
            function = counted(10 * number + scale)
            together.wait(20)
            for _ in range(6):
                np.testing.assert_allclose(function(x), (10 * number + scale) * expected, rtol=1e-5, atol=1e-6)

    with quick_switches(), ThreadPoolExecutor(3) as pool:
        list(pool.map(trace_and_call, range(1, 4)))
    assert total.item() == 3 * 4 * 6
    assert type(model.weight) is nn.Parameter


def in_another_thread(function: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result(20)


def test_numbers_that_other_threads_draw_meanwhile_are_not_the_functions() -> None:
    drawn = threading.Event()
    with ThreadPoolExecutor(1) as pool:

        def doubled(x: Any) -> Any:
            if not drawn.is_set():
                drawn.set()
                pool.submit(np.random.rand).result(20)
            return x * 2

        assert tenon.trace(doubled)(tenon.tensor([1.0])).tolist() == [2.0]
        assert drawn.is_set()
        with pytest.raises(TraceError, match="draws numbers of NumPy's or Python's"):
            tenon.trace(lambda x: x + np.random.rand())(tenon.tensor([1.0]))


@pytest.mark.parametrize("is_known", [False, True])
def test_a_trace_may_wait_for_calls_in_other_threads_on_other_tensors(is_known: bool) -> None:
    doubled = tenon.trace(lambda x: (x * 2).sum())

    def ten() -> float:
        return [doubled(tenon.tensor([3.0, 2.0])).item() for _ in range(5)][-1]

    if is_known:
        assert [ten() for _ in range(3)] == [10.0] * 3
    traced = tenon.trace(lambda x: x * in_another_thread(ten))
    assert [traced(tenon.tensor([1.0])).tolist() for _ in range(2)] == [[10.0]] * 2
    assert ten() == 10.0


def test_a_trace_that_waits_for_a_call_that_waits_for_it_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traced_function, "_PATIENCE", 0.0)
    model, x = nn.Linear(3, 1, seed=0).requires_grad_(), tenon.tensor(np.ones((2, 3), np.float32))
    total = tenon.trace(lambda x: model(x).sum())
    y = x.clone()
    traced = tenon.trace(lambda x: model(x) * in_another_thread(lambda: total(y)))
    with pytest.raises(
        RuntimeError, match=r"has in a trace, which waits \(.*test_traced_functions.py:\d+\): if that is"
    ):
        traced(x)
    np.testing.assert_allclose(total(x).item(), model(x).sum().item(), rtol=1e-6)


def test_a_trace_that_takes_long_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it waits for something meanwhile."""
    monkeypatch.setattr(traced_function, "_PATIENCE", 2.0)
    model, x = nn.Linear(3, 1, seed=0).requires_grad_(), tenon.tensor(np.ones((2, 3), np.float32))
    total, begun = tenon.trace(lambda x: model(x).sum()), threading.Event()
    y = x.clone()

    def slow(x: Any) -> Any:
        begun.set()
        time.sleep(0.8)
        time.sleep(0.8)
        time.sleep(0.8)
        time.sleep(0.8)
        return model(x)

    with ThreadPoolExecutor(1) as pool:
        slowly = pool.submit(tenon.trace(slow), x)
        assert begun.wait(20)
        np.testing.assert_allclose(total(y).item(), model(y).sum().item(), rtol=1e-6)
        np.testing.assert_allclose(slowly.result(20).detach().numpy(), model(x).detach().numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tenon.concat([[x, x + 1], [[x, x], 2 * x][0]], axis=1),
        lambda x: tenon.stack([(x, x), [2 * x, x]]),
        lambda x: tenon.hstack([[x], [3 * x]]),
        lambda x: tenon.add(x, [x, 2 * x]),
    ],
    ids=["concat", "stack", "hstack", "add"],
)
def test_nested_sequences_of_what_is_traced_are_stacked_as_those_of_arrays(function: Callable[[Any], Any]) -> None:
    x = POINTS.astype(np.float64)
    expected = np.asarray(function(x))
    np.testing.assert_array_equal(tenon.jit(function)(x), expected)
    np.testing.assert_array_equal(tenon.trace(function)(tenon.tensor(x)), expected)
    given = tenon.tensor(x, requires_grad=True)
    tenon.trace(lambda: (function(given) * function(given)).sum().backward())()
    direction = np.random.default_rng(1).normal(size=x.shape)
    slope = ((function(x + 1e-6 * direction) ** 2).sum() - (function(x - 1e-6 * direction) ** 2).sum()) / 2e-6
    np.testing.assert_allclose((given.grad.numpy() * direction).sum(), slope, rtol=1e-6)
