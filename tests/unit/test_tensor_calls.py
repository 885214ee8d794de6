"""Calls of ops on tensors that stay out of Python: what they give and record, for whom, and that they leak nothing."""

from __future__ import annotations

import gc
import inspect
import math
import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import tenon
from tenon import nn
from tenon.dialects.definition.traits import GradientError
from tenon.eager import known_tapes
from tenon.eager import tensor as tensors
from tenon.eager.tape import Node
from tenon.runtime import evaluate
from tenon.runtime.call.callable_class import is_supported
from tenon.runtime.stages import Compiled
from tenon.traces.program import Program

pytestmark = [
    pytest.mark.skipif(not is_supported(), reason="native calls need CPython with a global lock"),
    pytest.mark.usefixtures("new_calls"),
]
F32 = np.float32


def array(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, F32)


@contextmanager
def calls_of_python(monkeypatch: pytest.MonkeyPatch) -> Generator[list[str]]:
    """A block in which ops that are served, and nodes that are made, by Python are noted."""
    noted: list[str] = []
    compiled, init = evaluate._compiled, Node.__init__
    with monkeypatch.context() as patched:
        patched.setattr(evaluate, "_compiled", lambda *args: (noted.append("op"), compiled(*args))[1])
        patched.setattr(Node, "__init__", lambda *args: (noted.append("node"), init(*args))[1])
        yield noted


CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum of two": lambda _, x, y: x + y,
    "with itself": lambda _, x, __: x * x,
    "with a number": lambda _, x, __: x * 2.5,
    "with an integer": lambda _, x, __: x - 3,
    "broadcast": lambda _, x, y: x * y[0],
    "negative": lambda _, x, __: -x,
    "product": lambda _, x, y: x @ y,
    "function": lambda library, x, __: library.exp(x),
    "method": lambda _, x, __: x.tanh(),
    "setting": lambda library, x, __: library.sum(x, axis=0),
    "parts": lambda _, x, y: x[1:] * y[:-1],
    "transposed": lambda _, x, y: x.T * y,
    "several operands": lambda library, x, y: library.cat([x, y], 1),
    "a tuple of operands": lambda library, x, y: library.stack((x, x * y), 0),
    "with a factor": lambda _, x, y: x.add(y, alpha=0.5),
    "several results": lambda library, x, _: (library.top_k if library is tenon else library.topk)(x, 2)[0],
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_native_and_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function = CALLS[name]
    arrays = array(4, 4), array(4, 4, seed=1)
    for wanted in (False, True):
        x, y = [tenon.tensor(a, requires_grad=wanted) for a in arrays]
        # so many calls of the same sizes may be served by a program of all sizes
        for _ in range(20):
            function(tenon, x, y)
        with calls_of_python(monkeypatch) as noted:
            for _ in range(20):
                function(tenon, x, y)
        # those of a program for all sizes are counted now and then, and may get code of their own
        assert len(noted) <= 4
        result = function(tenon, x, y)
        p, q = [torch.from_numpy(a).requires_grad_(wanted) for a in arrays]
        expected = function(torch, p, q)
        assert type(result) is tenon.Tensor
        np.testing.assert_allclose(result.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
        assert result.requires_grad == wanted
        if wanted:
            result.sum().backward()
            expected.sum().backward()
            for leaf, peer in ((x, p), (y, q)):
                assert (leaf.grad is None) == (peer.grad is None)
                if peer.grad is not None:
                    np.testing.assert_allclose(leaf.grad.numpy(), peer.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_calls_under_autocast_are_native_and_those_of_their_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    weights, given = tenon.tensor(array(4, 4), requires_grad=True), tenon.tensor(array(4, 4, seed=1))
    product, step = tenon.jit(lambda x, y: x @ y), tenon.trace(lambda x: given @ x)

    def run(dtype: str | None) -> list[Any]:
        weights.grad = None
        with tenon.autocast(dtype=dtype or "bf16", enabled=dtype is not None):
            hidden = given @ weights
            found = [hidden, hidden * 0.3, hidden + 3, (abs(hidden) + 0.1) ** 0.3, hidden.softmax(-1), step(given)]
            found.append(product(given, given))
        found[4].square().sum().backward()
        return [*[x.detach() for x in found], weights.grad]

    expected = {dtype: run(dtype) for dtype in ("bf16", None, "f16")}
    assert [str(x.dtype) for x in expected["f16"]] == ["float16"] * 3 + ["float32"] * 2 + ["float16"] * 2 + ["float32"]
    for dtype in ("bf16", None) * 3:
        run(dtype)
    with calls_of_python(monkeypatch) as noted, monkeypatch.context() as patched:
        for owner, name in ((Compiled, "launch"), (Program, "run")):
            patched.setattr(owner, name, lambda *args: noted.append("function"))
        for dtype in ("bf16", None, "bf16"):
            for one, other in zip(run(dtype), expected[dtype], strict=True):
                assert one.dtype == other.dtype
                np.testing.assert_array_equal(one.numpy(), other.numpy())
    assert not noted
    with ThreadPoolExecutor(1) as pool, tenon.autocast("f16"):
        assert pool.submit(lambda: (given @ given).dtype).result() == F32  # which holds for this thread alone
    with calls_of_python(monkeypatch) as noted:
        assert [str(x.dtype) for x in run("f16")[:3]] == ["float16"] * 3
    assert noted


def test_numbers_of_native_calls_are_rounded_to_bf16_as_elsewhere() -> None:
    zero, generator = np.zeros((), ml_dtypes.bfloat16), np.random.default_rng(0)
    numbers: list[float] = (generator.standard_normal(200) * 10.0 ** generator.integers(-38, 38, 200)).tolist()
    numbers += [1.00390625, 1.01171875, 3.4e38, math.inf, -math.inf, math.nan, 257, 259, -(2**40) - 1, 0.0, -0.0]
    for _ in range(3):
        assert (tenon.add(zero, 0.5), tenon.add(zero, 1)) == (0.5, 1)
    for number in numbers:
        found, expected = tenon.add(zero, number), np.asarray(number, ml_dtypes.bfloat16)
        np.testing.assert_array_equal(np.float32(found), np.float32(expected))


def test_results_without_gradients_have_no_source() -> None:
    x = tenon.tensor(array(3), requires_grad=True)
    for _ in range(4):
        assert (x > 0)._source is None
        values, places = x.top_k(2)
        assert values._source is not None
        assert places._source is None


def test_parameters_and_subclasses() -> None:
    class Marked(tenon.Tensor):
        pass

    w = nn.Parameter(array(3))
    m = Marked(array(3))
    for _ in range(4):
        assert type(w * 2) is tenon.Tensor
        assert (w * 2).requires_grad
        np.testing.assert_array_equal((m + m).numpy(), 2 * array(3))


def test_lines_of_native_records() -> None:
    layer = nn.Linear(3, 3).requires_grad_()
    x = tenon.tensor(array(2, 3), requires_grad=True)
    for _ in range(4):
        h = x * 1.0
        line = inspect.currentframe().f_lineno + 1  # pyright: ignore[reportOptionalMemberAccess]
        z = layer(h)
        part = h[0]
        part += 1
        with pytest.raises(
            RuntimeError, match=rf"read or computed \(.*test_tensor_calls.py:{line}\).*changed in place"
        ):
            z.sum().backward()


def test_each_thread_has_its_mode() -> None:
    x = tenon.tensor(array(3), requires_grad=True)
    for _ in range(3):
        _ = x * 2
    inside, leave, recorded = threading.Event(), threading.Event(), list[bool]()

    def silent() -> None:
        with tenon.no_grad():
            inside.set()
            recorded.append((x * 2).requires_grad)
            leave.wait(10)
            recorded.append((x * 2).requires_grad)
        recorded.append((x * 2).requires_grad)

    thread = threading.Thread(target=silent)
    thread.start()
    assert inside.wait(10)
    assert (x * 2).requires_grad
    leave.set()
    thread.join(10)
    assert recorded == [False, False, True]


def test_threads_that_end_without_recording_leave_nothing() -> None:
    x = tenon.tensor(array(3), requires_grad=True)
    for _ in range(20):
        thread = threading.Thread(target=lambda: tenon.set_grad_enabled(False))
        thread.start()
        thread.join()
        seen: list[bool] = []
        other = threading.Thread(target=lambda: seen.append((x * 2).requires_grad))  # noqa: B023
        other.start()
        other.join()
        assert seen == [True]


def test_threads_compute_at_once() -> None:
    w, x = tenon.tensor(array(8, 8), requires_grad=True), tenon.tensor(array(8, 8, seed=1))
    expected = np.tanh(array(8, 8) @ array(8, 8, seed=1)) + 1
    wrong: list[Any] = []

    def work() -> None:
        for _ in range(300):
            y = (w @ x).tanh() + 1.0
            if not np.allclose(y.detach().numpy(), expected, atol=1e-5):
                wrong.append(y)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.usefixtures("few_objects")
def test_nothing_leaks() -> None:
    w, x = tenon.tensor(array(4, 4), requires_grad=True), tenon.tensor(array(4, 4))

    def work() -> None:
        for _ in range(200):
            h = (w @ x + 1.0).exp()
            h = h.top_k(2)[0] * h[:, :2]
            with tenon.no_grad():
                h = h.sum() * w

    def counts() -> list[int]:
        gc.collect()
        own = sum(isinstance(held, Node | tenon.Tensor) for held in gc.get_objects())
        held = (w, x, w._array, w._source, w._memory, tenon.Tensor, Node, type(w._memory), w.dtype)
        return [own, *map(sys.getrefcount, held)]

    work()
    before = counts()
    work()
    after = counts()
    # one in a thousand calls would show
    assert [b - a for a, b in zip(before, after, strict=True)] == pytest.approx([0] * len(before), abs=5)


@pytest.mark.usefixtures("few_objects")
def test_a_long_record_is_let_go() -> None:
    x = tenon.tensor(array(3), requires_grad=True)
    y = x
    for _ in range(50_000):
        y = y + x
    del y
    gc.collect()
    assert sum(isinstance(held, Node) for held in gc.get_objects()) < 1000


# --- tapes like one before --------------------------------------------------------------------------------------------


def loss_of(library: Any, x: Any, c: Any, scale: float) -> Any:
    h = x * c + x
    h = (h.exp() * scale + 1) * h.T
    values = (library.top_k if library is tenon else library.topk)(h, 2)[0]
    return (values * values).sum() + x.mean()


def test_tapes_like_one_before_have_the_gradients_of_torch() -> None:
    for seed in range(4):
        given = array(4, 4, seed=seed), array(4, 4, seed=seed + 10)
        x, p = tenon.tensor(given[0], requires_grad=True), torch.from_numpy(given[0]).requires_grad_()
        for scale in (2.0, 3.5):
            loss_of(tenon, x, tenon.tensor(given[1]), scale).backward()
            loss_of(torch, p, torch.from_numpy(given[1]), scale).backward()
            np.testing.assert_allclose(x.grad.numpy(), p.grad.numpy(), rtol=1e-4)


def test_known_tapes_build_no_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    x, c = tenon.tensor(array(4, 4), requires_grad=True), tenon.tensor(array(4, 4, seed=1))
    for _ in range(3):
        loss_of(tenon, x, c, 2.0).backward()
    monkeypatch.setattr(known_tapes, "Graph", None)
    monkeypatch.setattr(tensors, "differentiate", None)
    x.grad = None
    loss_of(tenon, x, c, 4.0).backward()
    assert x.grad is not None
    p = torch.from_numpy(array(4, 4)).requires_grad_()
    loss_of(torch, p, torch.from_numpy(array(4, 4, seed=1)), 4.0).backward()
    np.testing.assert_allclose(x.grad.numpy(), p.grad.numpy(), rtol=1e-4)


DIFFERENT: list[Callable[[Any, Any, Any, Any], Any]] = [
    lambda _, x, c, d: (x * c * d).sum(),
    lambda _, x, c, __: (x * c * c).sum(),
    lambda _, x, c, __: (x * c * x).sum(),
    lambda _, x, c, d: (c * x * d).sum(),
    lambda _, x, c, d: ((x * c) * (x * d)).sum(),
    lambda _, x, c, d: ((x * c) * (x * c)).sum() + 0 * d.sum(),
    lambda _, x, c, __: (lambda h: (h * h).sum())(x * c),
    lambda _, x, __, ___: (x * 2 * 3.0).sum(),
    lambda _, x, __, ___: (x * 2.0 * 3).sum(),
    lambda _, x, c, __: (x.T * c).sum(),
    lambda _, x, c, __: (x * c.T).sum(),
    lambda _, x, c, __: (x[0] * c).sum(),
    lambda _, x, c, __: (x[:1] * c).sum(),
    lambda _, x, c, __: ((x - c) / c).sum(),
    lambda _, x, c, __: ((c - x) / c).sum(),
    lambda _, x, c, __: x.sum() - (x * c).sum(),
]


def test_tapes_that_differ_a_little_are_told_apart() -> None:
    arrays = [array(3, 3, seed=s) for s in range(3)]
    for _ in range(2):
        for function in DIFFERENT:
            results: list[Any] = []
            for library in (tenon, torch):
                x = library.tensor(arrays[0], requires_grad=True)
                function(library, x, library.tensor(arrays[1]), library.tensor(arrays[2])).backward()
                assert x.grad is not None
                results.append(np.asarray(x.grad))
            np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-6)


def test_hooks_of_leaves_and_retained_graphs_of_known_tapes() -> None:
    x = tenon.tensor(array(3), requires_grad=True)
    for _ in range(3):
        x.grad = None
        y = (x * x).sum()
        y.backward(retain_graph=True)
        handle = x.register_hook(lambda g: g * 10)
        y.backward()
        handle.remove()
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), 22 * array(3), rtol=1e-6)
        with pytest.raises(RuntimeError, match="went through"):
            y.backward()


@pytest.mark.usefixtures("few_objects")
def test_training_does_not_grow() -> None:
    w, x = tenon.tensor(array(16, 16), requires_grad=True), tenon.tensor(array(4, 16, seed=1))

    def work() -> None:
        for _ in range(100):
            w.grad = None
            ((x @ w).tanh() ** 2).sum().backward()
            gradient = w.grad
            assert gradient is not None
            with tenon.no_grad():
                w.add_(gradient * -0.1)

    def counts() -> list[int]:
        gc.collect()
        kinds = (Node, tenon.Tensor, np.ndarray)
        return [sum(isinstance(held, kind) for held in gc.get_objects()) for kind in kinds]

    work()
    before = counts()
    work()
    assert counts() == before


def test_gradients_with_respect_to_some_leaves() -> None:
    for _ in range(2):
        x, y = [tenon.tensor(array(3, seed=seed), requires_grad=True) for seed in range(2)]
        z = x * y.exp() + x
        seed = tenon.tensor(array(3, seed=5))
        (of_y,) = tenon.autograd.grad(z, y, seed, retain_graph=True)
        both = tenon.autograd.grad(z, (x, y), seed, retain_graph=True)
        np.testing.assert_allclose(of_y.numpy(), array(3, seed=5) * array(3) * np.exp(array(3, seed=1)), rtol=1e-5)
        np.testing.assert_allclose(both[1].numpy(), of_y.numpy())
        np.testing.assert_allclose(both[0].numpy(), array(3, seed=5) * (np.exp(array(3, seed=1)) + 1), rtol=1e-5)
        z.backward(seed)
        np.testing.assert_allclose(x.grad.numpy(), both[0].numpy())


def test_a_result_without_a_gradient_that_nobody_asks_for() -> None:
    def doubled(x: Any) -> Any:
        return x * 2.0, tenon.while_loop(lambda s: tenon.sum(s) < 30.0, lambda s: s * 2.0, x)

    function = tenon.jit(doubled)
    for _ in range(2):
        x = tenon.tensor([1.0, 2.0], requires_grad=True)
        twice, grown = function(x)
        twice.sum().backward()
        assert x.grad is not None
        assert (x.grad.tolist(), grown.tolist()) == ([2.0, 2.0], [16.0, 32.0])
        with pytest.raises(GradientError, match=r"while_loop: has no reverse-mode gradient"):
            function(x)[1].sum().backward()


def test_views_that_are_no_more_leave_memory_to_its_tensor() -> None:
    x, y = tenon.tensor(np.zeros(16)), tenon.tensor(np.ones(16))
    kept = x[3:5]
    for index in range(16):
        x[index]
    x += y
    assert kept.tolist() == [1.0, 1.0]
    assert x._memory is not None
    assert x._memory.tensors is not None
    assert len(x._memory.tensors) == 2
    del kept
    x += y
    assert x._memory is None
    assert x.tolist() == [2.0] * 16


def test_a_list_of_tensors_in_a_list_is_an_array() -> None:
    x = array(2, 3)
    t = tenon.tensor(x)
    np.testing.assert_array_equal(tenon.stack([[t, t], [t, t]]), np.stack([[x, x], [x, x]]))
    with pytest.raises(tenon.InferenceError, match=r"^tenon.concatenate: tensors\[1\] does not fit"):
        tenon.concatenate([[t], t])


def test_many_small_tensors_are_joined_by_programs_for_few() -> None:
    with tenon.knobs.override(interpret=True):
        rows = np.arange(900.0).reshape(300, 3)
        for axis in (0, -1, 1):
            np.testing.assert_array_equal(tenon.stack([*rows], axis=axis), np.stack([*rows], axis))
        np.testing.assert_array_equal(tenon.concatenate([*rows, np.ones(5)]), np.concatenate([*rows, np.ones(5)]))
        x: Any = tenon.tensor(rows[:40], requires_grad=True)
        joined: Any = tenon.stack([*x], axis=1)
        assert "grad_fn=<concatenate>" in repr(joined)  # of stacks of a few, which other numbers have as well
        (joined**2).sum().backward()
        np.testing.assert_array_equal(x.grad, 2 * rows[:40])
        with pytest.raises(tenon.InferenceError, match=r"tensors\[20\] does not fit those before it"):
            tenon.stack([*rows[:20], np.ones(2)])
