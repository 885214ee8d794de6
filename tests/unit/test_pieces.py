"""`tenon.trace(symbolic=False)`: calls wait until an element is asked for. What is right, PyTorch tells, which runs
them at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon import nn, optim
from tenon.runtime.executables import executable
from tenon.runtime.stages import FlatCall
from tenon.traces import known_pieces, pieces
from tenon.traces.function import TracedFunction
from tenon.traces.waiting import Waiting

ROWS = np.random.default_rng(0).uniform(0.2, 1.0, (4, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def _of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_pieces, "_WORTH_IT", 0)


def in_pieces(function: Callable[..., Any]) -> TracedFunction:
    return tenon.trace(function, symbolic=False)


def arrays(tree: Any) -> list[Any]:
    if isinstance(tree, list | tuple):
        return [array for item in tree for array in arrays(item)]
    return [tree.detach().numpy() if hasattr(tree, "detach") else np.asarray(tree)]


def compare(function: Callable[..., Any], *given: Any, calls: int = 4) -> TracedFunction:
    """Calls of `function` in pieces, beside the same on tensors of PyTorch: of what it gives, and of its arguments."""
    traced = in_pieces(function)
    for call in range(calls):
        own = [tenon.tensor(array + call) for array in given]
        others = [torch.tensor(array + call) for array in given]
        for found, expected in zip(arrays([traced(*own), own]), arrays([function(*others), others]), strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)
    return traced


def branching(x: Any) -> Any:
    y = (x * 2.0 + 1.0).sin() * x
    if y.sum() > 0:
        return y.exp() + float(y.max())
    return -y * x


def views(x: Any) -> Any:
    y = x * 2.0
    row, column = y[1], y.T[0]
    row += 1.0
    z = y.reshape(-1).exp()
    column *= 3.0
    hidden = x * 7.0
    one, other = hidden[0], hidden.T[0]
    del hidden
    one += 1.0
    return y, row, z, column, y.T.reshape(-1), y[1:, 0].sum(), one, other


def in_place(x: Any) -> Any:
    y = x + 1.0
    kept = y * 1.0
    y += x
    y *= y
    before = x * 3.0
    x += 5.0
    x[0] = 0.5
    first = x * 2.0
    x[1] = 0.25
    second = x * 2.0
    x[[2]] = 4.0
    third = first + second + x
    x.abs_()
    x -= y
    return y, kept, before, first, second, third, x * 1.0


def joined(x: Any) -> Any:
    y = x.exp()
    return (y / y.sum(1, keepdim=True)).mean(), y.max(), x - y, 2.0**y, y > 1.5, y**2


@pytest.mark.parametrize("function", [branching, views, in_place, joined])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_function_does_what_it_does_call_by_call(function: Any, sign: float) -> None:
    compare(function, ROWS * np.float32(sign))


def test_calls_wait_for_elements_and_run_as_one_program_from_the_second_time_on() -> None:
    kinds: list[type] = []

    def function(x: Any) -> Any:
        y = x.sin() * 2.0 + 1.0
        kinds.append(type(y))
        total = float(y.sum().item())
        kinds.append(type(y))
        return y * total

    traced = in_pieces(function)
    x = tenon.tensor(ROWS)
    for compiled in (0, 1, 1):
        np.testing.assert_allclose(traced(x).numpy(), (y := np.sin(ROWS) * 2 + 1) * y.sum(), rtol=1e-5)
        assert traced._pieces.compiled == compiled  # pyright: ignore[reportPrivateUsage]
    assert kinds == [Waiting, tenon.Tensor] * 3


def test_what_nobody_can_ask_for_is_no_result() -> None:
    def function(x: Any) -> Any:
        return ((x.exp() + 1.0).log() * 2.0).tanh()

    traced = in_pieces(function)
    x = tenon.tensor(ROWS)
    for _ in range(2):
        traced(x)
    places = [traced._pieces._first]  # pyright: ignore[reportPrivateUsage]
    while places[-1].following:
        places += places[-1].following.values()
    (end,) = places[-1].ends.values()
    assert end.program is not None
    assert end.outputs == [4]


def test_python_runs_at_every_call() -> None:
    count, log = [0], list[float]()

    def function(x: Any) -> Any:
        count[0] += 1
        y = x * np.random.default_rng(count[0]).uniform() + 1.0
        log.append(y.sum().item())
        return y

    traced = in_pieces(function)
    for call in range(1, 5):
        factor = np.float32(np.random.default_rng(call).uniform())
        np.testing.assert_allclose(traced(tenon.tensor(ROWS)).numpy(), ROWS * factor + 1, rtol=1e-6)
    assert count == [4]
    assert len({*log}) == 4


def test_floats_that_change_become_inputs() -> None:
    traced = in_pieces(lambda x, rate: (x * rate + 0.5).exp() - rate)
    for rate in np.linspace(-1, 1, 9).tolist():
        np.testing.assert_allclose(
            traced(tenon.tensor(ROWS), rate).numpy(), np.exp(ROWS * rate + 0.5) - rate, rtol=1e-5
        )
    assert traced._pieces.compiled <= 2  # pyright: ignore[reportPrivateUsage]


def test_arrays_and_memory_that_others_write_to_count_as_they_were() -> None:
    scale, shared = np.ones((4, 3), np.float32), ROWS.copy()

    def function(x: Any) -> Any:
        scale[:], shared[:] = 1.0, ROWS
        y = x * scale + tenon.as_tensor(shared)
        scale[:], shared[:] = 7.0, 9.0
        return y * 2.0

    traced = in_pieces(function)
    for _ in range(3):
        np.testing.assert_allclose(traced(tenon.tensor(ROWS)).numpy(), ROWS * 4)


def test_a_tensor_seen_by_numpy_has_its_elements() -> None:
    def function(x: Any) -> Any:
        y = x * 2.0
        before = x + y
        x.numpy()[0] = 100.0
        return before, np.asarray(y).sum(), [*map(float, y[0])], y.shape, repr(x + y)[:6]

    traced = in_pieces(function)
    for _ in range(3):
        before, total, row, shape, said = traced(tenon.tensor(ROWS))
        np.testing.assert_allclose(before.numpy(), ROWS * 3)
        np.testing.assert_allclose([total, *row], [(2 * ROWS).sum(), *(2 * ROWS[0])], rtol=1e-6)
        assert (shape, said) == ((4, 3), "tensor")


def test_errors_come_where_they_are_made_and_leave_results_whole() -> None:
    held: list[Any] = []

    def function(x: Any) -> Any:
        held.append(x * 2.0)
        held.append(held[-1] + 1.0)
        return held[-1] @ held[-1]

    for _ in range(3):
        held.clear()
        with pytest.raises(Exception, match="4"):
            in_pieces(function)(tenon.tensor(ROWS))
        np.testing.assert_allclose(held[1].numpy(), ROWS * 2 + 1)
        assert type(held[0]) is tenon.Tensor


def test_a_training_step_has_torchs_losses() -> None:
    own = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(0.0), nn.Linear(8, 1)).requires_grad_()
    other = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Dropout(0.0), torch.nn.Linear(8, 1))
    own.load_state_dict({name: value.detach().numpy() for name, value in other.state_dict().items()})
    steps, others = optim.SGD(lr=0.1, momentum=0.9).over(own), torch.optim.SGD(other.parameters(), 0.1, momentum=0.9)

    @in_pieces
    def step(x: Any) -> Any:
        steps.zero_grad()
        result = own(x)
        loss = ((result - x.sum(1, keepdim=True)) ** 2).mean()
        if loss.item() > 1e-3:  # the gradient goes on through what waited
            loss = loss * 2.0
        loss.backward()
        (size,) = [(own[0].weight * own[0].weight).sum()]
        steps.step()
        return loss, size

    loss: Any = None
    for _ in range(8):
        others.zero_grad()
        x = torch.tensor(ROWS)
        expected = ((other(x) - x.sum(1, keepdim=True)) ** 2).mean()
        expected = expected * 2.0 if expected.item() > 1e-3 else expected
        expected.backward()
        weight: Any = other[0].weight
        before = (weight**2).sum()
        others.step()
        loss, size = step(tenon.tensor(ROWS))
        np.testing.assert_allclose([loss.item(), size.item()], [expected.item(), before.item()], rtol=2e-4)
    assert loss.requires_grad
    assert step._pieces.compiled  # pyright: ignore[reportPrivateUsage]


def test_gradients_stop_where_nothing_is_recorded() -> None:
    @in_pieces
    def function(x: Any) -> Any:
        with tenon.no_grad():
            factor = (x * x).sum()
        y = x * factor + x.detach()
        return y, factor, y > 0

    for _ in range(3):
        x = tenon.tensor(ROWS, requires_grad=True)
        y, factor, positive = function(x)
        assert (y.requires_grad, factor.requires_grad, positive.requires_grad) == (True, False, False)
        y.sum().backward()
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), np.full((4, 3), (ROWS**2).sum()), rtol=1e-5)


def test_hooks_and_second_derivatives() -> None:
    seen: list[Any] = []

    @in_pieces
    def function(x: Any) -> Any:
        y = (x * x) * x
        y.register_hook(lambda gradient: seen.append(gradient.numpy().copy()))
        return (y * 2.0).sum()

    for _ in range(3):
        x = tenon.tensor(ROWS, requires_grad=True)
        (slope,) = tenon.autograd.grad(function(x), (x,), create_graph=True)
        (second,) = tenon.autograd.grad(slope.sum(), (x,))
        np.testing.assert_allclose(slope.detach().numpy(), 6 * ROWS**2, rtol=1e-5)
        np.testing.assert_allclose(second.numpy(), 12 * ROWS, rtol=1e-5)
    np.testing.assert_array_equal(seen[-1], np.full((4, 3), 2.0))


def test_functions_of_small_tensors_are_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    kinds: list[type] = []

    def function(x: Any) -> Any:
        kinds.append(type(y := x * 2.0))
        return y

    traced = in_pieces(function)
    for size in (3, 3, 3, 100_000, 100_000, 3, 3):
        traced(tenon.tensor(np.ones(size, np.float32)))
    at_once = tenon.Tensor
    assert kinds == [Waiting, at_once, at_once, Waiting, Waiting, Waiting, at_once]


def test_pieces_and_programs_within_one_another() -> None:
    inner = tenon.trace(lambda x: x.exp() * 2.0)
    pieces_inside = in_pieces(lambda x: x + 1.0 if x.sum() > 0 else x)
    jitted = tenon.jit(lambda x: tenon.sqrt(x))

    @in_pieces
    def function(x: Any) -> Any:
        y = x * 2.0
        return jitted(y) + inner(y) + pieces_inside(y)

    for _ in range(3):
        expected = np.sqrt(ROWS * 2) + np.exp(ROWS * 2) * 2 + ROWS * 2 + 1
        np.testing.assert_allclose(function(tenon.tensor(ROWS)).numpy(), expected, rtol=1e-5)


def test_threads_that_compile_for_other_floats_run_what_was_compiled_for_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = {factor: threading.Event() for factor in (2.0, 3.0)}
    compile_piece = pieces.compiled

    def compiled(steps: Any, types: Any, floats: Any, varying: Any, *rest: Any) -> Any:
        program = compile_piece(steps, types, floats, varying, *rest)
        made[floats[0]].set()
        if floats[0] == 2.0:  # it began first, and comes to its end last
            assert made[3.0].wait(10)
        return program

    monkeypatch.setattr(pieces, "compiled", compiled)
    traced = in_pieces(lambda x, factor: (x * factor + 1.0) * x)
    found: dict[float, Any] = {}

    def call(factor: float) -> None:
        found[factor] = traced(tenon.tensor(ROWS), factor).numpy()

    call(2.0)
    first = threading.Thread(target=call, args=(2.0,))
    first.start()
    assert made[2.0].wait(10)
    call(3.0)
    first.join()
    call(3.0)
    for factor, result in found.items():
        np.testing.assert_allclose(result, (ROWS * factor + 1) * ROWS, rtol=1e-6)


def test_a_program_refuses_another_number_of_arrays() -> None:
    module = tenon.jit(lambda x: x + 1.0).trace(ROWS).module
    launch = FlatCall(executable(module, "cpu", "piece"), "piece")
    for given in ((), (ROWS, ROWS)):
        with pytest.raises(TypeError, match=rf"piece: {len(given)} arrays where the program takes 1"):
            launch(*given)


def test_what_numpy_writes_between_two_reads_of_a_tensor_counts() -> None:
    x = tenon.tensor(ROWS)
    shown = x.numpy()

    @in_pieces
    def function(x: Any) -> Any:
        shown[:] = 1.0
        y = x * 1.0
        shown[:] = 7.0
        z = x * 1.0
        return y + 0.0, z + 0.0

    for _ in range(3):
        y, z = function(x)
        assert (y.numpy() == 1.0).all()
        assert (z.numpy() == 7.0).all()


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_change_that_is_not_recorded_leaves_the_gradient_what_it_was(is_recorded: bool) -> None:
    def function(x: Any, given: Any, no_grad: Callable[[], Any]) -> Any:
        y = given * 2.0
        if is_recorded:  # a gradient comes in by a change
            y += x * 3.0
        with no_grad():
            y += 1.0
        return y

    traced = in_pieces(function)
    for _ in range(3):
        x, other = tenon.tensor(ROWS, requires_grad=True), torch.tensor(ROWS, requires_grad=True)
        given = (tenon.tensor(ROWS), torch.tensor(ROWS)) if is_recorded else (x, other)
        found, expected = traced(x, given[0], tenon.no_grad), function(other, given[1], torch.no_grad)
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-6)
        found.sum().backward()
        expected.sum().backward()
        assert x.grad is not None
        assert other.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), other.grad.numpy())


@pytest.mark.parametrize(
    "ask", [lambda y: y.sum().item(), lambda y: y.T.numpy().copy(), lambda y: (y + 1.0).numpy(), lambda y: y.tolist()]
)
def test_another_thread_asks_for_what_waits(ask: Callable[[Any], Any]) -> None:
    found: list[Any] = []

    def asked_for(y: Any) -> None:
        thread = threading.Thread(target=lambda: found.append(ask(y)))
        thread.start()
        thread.join()

    @in_pieces
    def function(x: Any) -> Any:
        y = x * 2.0
        asked_for(y)
        z = (y + 1.0) * 3.0
        asked_for(z)
        z += y[0]
        return z.T

    for _ in range(3):
        found.clear()
        result = function(tenon.tensor(ROWS))
        np.testing.assert_allclose(result.numpy(), ((ROWS * 2 + 1) * 3 + ROWS[0] * 2).T, rtol=1e-6)
        for made, asked in zip(found, (ROWS * 2, (ROWS * 2 + 1) * 3), strict=True):
            np.testing.assert_allclose(made, ask(tenon.tensor(asked)), rtol=1e-5)


def test_threads_ask_while_calls_are_made() -> None:
    seen: list[Any] = []
    is_over = threading.Event()

    def ask() -> None:
        while not is_over.is_set():
            for y, expected in seen[-3:]:
                assert y.shape == (4, 3)
                np.testing.assert_array_equal((y + 0.0).numpy(), expected)

    @in_pieces
    def function(x: Any) -> Any:
        y, expected = x, ROWS
        for _ in range(20):
            y, expected = y + 0.5, expected + np.float32(0.5)
            seen.append((y, expected))
        return y, expected

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(2) as pool:
            asking = [pool.submit(ask) for _ in range(2)]
            for _ in range(10):
                np.testing.assert_array_equal(*function(tenon.tensor(ROWS)))
            is_over.set()
            for done in asking:
                done.result()
    finally:
        is_over.set()
        sys.setswitchinterval(interval)


def test_a_call_that_raised_leaves_nothing_in_the_piece() -> None:
    @in_pieces
    def function(x: Any, other: Any, wrong: Any) -> Any:
        y = x * 2.0
        if wrong is not None:
            with pytest.raises(Exception, match="5"):
                tenon.add(y, wrong)
        return y * 3.0 + other

    for wrong in (np.ones(5, np.float32), None, None, np.ones(5, np.float32), None):
        given = None if wrong is None else tenon.tensor(wrong)
        result = function(tenon.tensor(ROWS), tenon.tensor(ROWS + 1), given)
        np.testing.assert_allclose(result.numpy(), ROWS * 6 + ROWS + 1, rtol=1e-6)


@pytest.mark.parametrize("size", [6, 1 << 17])
def test_what_is_changed_through_views_of_what_waits_has_gradients(size: int) -> None:
    def program(x: Any) -> Any:
        y = x * 1
        rows = y.reshape(2, size // 2)
        part = rows[1]
        part *= 2
        y[0] = 3.0
        rows[0] += part
        return (y * y).sum() + part.sum()

    values = np.linspace(0, 1, size)
    traced = tenon.trace(program, symbolic=False)
    theirs: Any = torch.tensor(values, requires_grad=True)
    program(theirs).backward()
    for _ in range(3):
        ours: Any = tenon.tensor(values, requires_grad=True)
        traced(ours).backward()
        np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-12)


@pytest.mark.parametrize("how", [lambda f: f, tenon.trace, tenon.trace(symbolic=False)])
def test_a_hook_on_a_view_that_was_changed_gets_the_gradient_of_its_own_uses(how: Any) -> None:
    def program(x: Any) -> Any:
        y = x * 1
        part = y.reshape(2, 3)[1]
        part *= 2
        part.register_hook(lambda gradient: gradient * 3)
        return (y * y).sum() + part.sum()

    ours: Any = tenon.tensor(np.arange(6.0), requires_grad=True)
    theirs: Any = torch.arange(6.0, dtype=torch.float64, requires_grad=True)
    how(program)(ours).backward()
    program(theirs).backward()
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-12)
