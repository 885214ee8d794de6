"""Calls of `jit` functions on tensors that require gradients: what is kept for `backward`, and for how long."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon import nn
from tenon.eager import backward, tape_programs
from tenon.eager.tape import LARGE, Node
from tenon.lowering.pipeline import run_passes
from tenon.runtime.executables import executable
from tenon.runtime.lower import new_context

F32 = np.float32
SIZE = 96
"""Matrices of this many rows and columns are large enough to be let go one by one."""
assert SIZE * SIZE * 4 > LARGE


def array(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, F32)


def tensors(*shapes: tuple[int, ...]) -> list[Any]:
    return [tenon.tensor(array(*shape, seed=i), requires_grad=True) for i, shape in enumerate(shapes)]


def peers(*given: Any) -> list[Any]:
    return [torch.from_numpy(tensor.detach().numpy().copy()).requires_grad_() for tensor in given]


def assert_same_gradients(given: list[Any], expected: list[Any]) -> None:
    for tensor, peer in zip(given, expected, strict=True):
        np.testing.assert_allclose(tensor.grad.numpy(), peer.grad.numpy(), rtol=2e-4, atol=2e-5)


@tenon.jit
def two_layers(x: Any, w: Any, u: Any) -> Any:
    return tenon.tanh(tenon.tanh(x @ w) @ u)


def two_layers_in_torch(x: Any, w: Any, u: Any) -> Any:
    return torch.tanh(torch.tanh(x @ w) @ u)


def kept(y: Any) -> list[Any]:
    """The arrays that the call which gave `y` keeps besides its operands and results."""
    node: Any = y._source.node
    given = 1 if node.call.kept is None else node.call.kept.given
    return [saved for saved in node.computed[given:] if not isinstance(saved, tuple)]


def programs_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The programs that `backward` compiles from now on."""
    found: list[str] = []

    def noted(module: Any, device: str, name: str) -> Any:
        simple = module.clone()
        run_passes(new_context(), simple, ["decompose", "canonicalize", "cse", "dce"])
        found.append(str(simple))
        return executable(module, device, name)

    tape_programs._PROGRAMS._values.clear()
    monkeypatch.setattr(backward, "executable", noted)
    return found


def test_backward_computes_nothing_of_the_call_again(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = programs_of(monkeypatch)
    given = tensors((6, SIZE), (SIZE, SIZE), (SIZE, SIZE))
    two_layers(*given).sum().backward()
    (program,) = programs
    # of the gradients, two for each layer
    assert program.count("tenon.contract") == 4
    expected = peers(*given)
    two_layers_in_torch(*expected).sum().backward()
    assert_same_gradients(given, expected)


def test_what_is_kept_is_what_the_gradient_needs() -> None:
    x, w, u = tensors((6, SIZE), (SIZE, SIZE), (SIZE, SIZE))
    (hidden,) = kept(two_layers(x, w, u))
    np.testing.assert_allclose(hidden.array, np.tanh(x.detach().numpy() @ w.detach().numpy()), rtol=1e-4, atol=1e-5)
    # the gradient of `u` alone needs no less, that of nothing but the last layer's input no more
    assert len(kept(two_layers(x.detach(), w.detach(), u))) == 1
    assert len(kept(two_layers(x, w.detach(), u.detach()))) == 1


def test_nothing_is_kept_where_no_gradient_is_wanted() -> None:
    given = tensors((6, SIZE), (SIZE, SIZE), (SIZE, SIZE))
    with tenon.no_grad():
        assert two_layers(*given)._source is None
    assert two_layers(*[tensor.detach() for tensor in given])._source is None


def test_a_checkpoint_is_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    @tenon.jit
    def layers(x: Any, w: Any, u: Any) -> Any:
        return tenon.checkpoint(lambda x: tenon.tanh(tenon.tanh(x @ w) @ u))(x)

    programs = programs_of(monkeypatch)
    given = tensors((6, SIZE), (SIZE, SIZE), (SIZE, SIZE))
    y = layers(*given)
    assert not kept(y)
    y.sum().backward()
    # what is computed again is not simplified further
    assert programs[0].count("tenon.contract") == 4
    assert programs[0].count("tenon.matmul") == 2
    expected = peers(*given)
    two_layers_in_torch(*expected).sum().backward()
    assert_same_gradients(given, expected)


@pytest.mark.usefixtures("few_objects")
def test_what_is_kept_is_let_go() -> None:
    given = tensors((SIZE, SIZE), (SIZE, SIZE), (SIZE, SIZE))
    for retained in (True, False):
        y = two_layers(*given)
        y.sum().backward(retain_graph=retained)
        assert bool(kept(y)) == retained
    with pytest.raises(RuntimeError, match=r"went through .*before"):
        y.sum().backward()
    del y
    gc.collect()
    assert not any(isinstance(held, Node) and held.name == "two_layers" for held in gc.get_objects())


def test_a_retained_graph_gives_the_same_again() -> None:
    given = tensors((6, SIZE), (SIZE, SIZE), (SIZE, SIZE))
    y = two_layers(*given)
    loss = (y * y).sum()
    loss.backward(retain_graph=True)
    once = [tensor.grad.numpy().copy() for tensor in given]
    loss.backward()
    for tensor, first in zip(given, once, strict=True):
        np.testing.assert_allclose(tensor.grad.numpy(), 2 * first, rtol=1e-6)


@pytest.mark.parametrize("changed", ["operand", "result"])
def test_changes_in_place_are_refused_where_the_gradient_reads(changed: str) -> None:
    x, w, u = tensors((6, SIZE), (SIZE, SIZE), (SIZE, SIZE))
    h = x * 1.0
    y = two_layers(h, w, u)
    loss = y.sum()
    part = (h if changed == "operand" else y)[0]
    part += 1
    with pytest.raises(RuntimeError, match=r"two_layers read or computed.*changed in place"):
        loss.backward()


def test_other_changes_in_place_are_none_of_its_business() -> None:
    given = tensors((6, SIZE), (SIZE, SIZE), (SIZE, SIZE))
    expected = peers(*given)
    for library, leaves, function in ((tenon, given, two_layers), (torch, expected, two_layers_in_torch)):
        y = function(*leaves) * 1.0
        y += 1
        part = y[1:]
        part *= 0.5
        library.sum(y).backward()
    assert_same_gradients(given, expected)


def test_hooks_see_the_gradients_of_results_and_operands() -> None:
    given = tensors((6, SIZE), (SIZE, SIZE), (SIZE, SIZE))
    expected = peers(*given)
    for library, leaves, function in ((tenon, given, two_layers), (torch, expected, two_layers_in_torch)):
        h = leaves[0] * 2
        y = function(h, *leaves[1:]) * 0.1
        for watched in (h, y):
            watched.register_hook(lambda gradient: gradient * 3)
        library.sum(y * y).backward()
    assert_same_gradients(given, expected)


def test_gradients_of_gradients_see_all_that_they_depend_on() -> None:
    given = tensors((4, 5), (5, 5), (5, 3))
    expected = peers(*given)
    for library, leaves, function in ((tenon, given, two_layers), (torch, expected, two_layers_in_torch)):
        y = function(*leaves)
        found = library.autograd.grad((y * y).sum(), leaves, create_graph=True)
        loss: Any = sum((gradient * gradient).sum() for gradient in found)
        loss.backward()
    assert_same_gradients(given, expected)


def test_gradients_of_gradients_after_what_is_needed_is_known() -> None:
    """From the second call on, large arrays that no gradient needs are not kept."""
    for _ in range(3):
        given = tensors((SIZE, SIZE), (SIZE, SIZE), (SIZE, SIZE))
        expected = peers(*given)
        for library, leaves, function in ((tenon, given, two_layers), (torch, expected, two_layers_in_torch)):
            y = function(*leaves) * 0.01
            (found,) = library.autograd.grad((y * y).sum(), leaves[:1], create_graph=True)
            (found * found).sum().backward()
        assert_same_gradients(given, expected)


def test_a_gradient_that_a_function_brings_along_holds_to_any_order() -> None:
    @tenon.tensor_op
    class RoundedOp(tenon.UnaryOp):
        """Rounds, with the gradient of the identity."""

        name = "test_recorded.rounded"

        @staticmethod
        def scalar(x: Any) -> Any:
            return tenon.floor(x + 0.5)

        @staticmethod
        def vjp(cotangent: Any, result: Any, x: Any) -> Any:
            return (cotangent,)

    rounded: Any = tenon.jit(lambda x: tenon.rounded(x * x) * x)  # pyright: ignore[reportAttributeAccessIssue]
    (x,) = tensors((5,))
    (first,) = tenon.autograd.grad(rounded(x).sum(), x, create_graph=True)
    first.sum().backward()
    values = x.detach().numpy()
    np.testing.assert_allclose(first.detach().numpy(), 2 * values * values + np.floor(values**2 + 0.5), rtol=1e-5)
    np.testing.assert_allclose(x.grad.numpy(), 6 * values, rtol=1e-5)


SEVERAL: dict[str, Callable[[Any, Any], Any]] = {
    "one of the results": lambda a, _: a.sum(),
    "both results": lambda a, b: (a * b).sum(),
    "a result twice": lambda a, b: (a * a).sum() + a.mean() + b[0, 0],
}


@pytest.mark.parametrize("name", SEVERAL)
def test_several_results(name: str) -> None:
    @tenon.jit
    def pair(x: Any, y: Any, scale: float) -> Any:
        p = x @ y
        return {"sum": tenon.exp(p * scale), "places": tenon.argmax(p, axis=1), "other": p, "given": x}

    given = tensors((4, 4), (4, 4))
    expected = peers(*given)
    for _ in range(2):
        made = pair(*given, 0.1)
        assert made["places"]._source is None
        SEVERAL[name](made["sum"] + made["given"], made["other"]).backward()
        p = expected[0] @ expected[1]
        SEVERAL[name](torch.exp(p * 0.1) + expected[0], p).backward()
        assert_same_gradients(given, expected)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_keep_what_their_steps_computed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = programs_of(monkeypatch)
    model: Any = getattr(nn, kind)(5, 7, bidirectional=True).requires_grad_()
    peer: Any = getattr(torch.nn, kind)(5, 7, bidirectional=True)
    peer.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in model.state_dict().items()})
    x = array(9, 3, 5)
    for _ in range(2):
        (model(tenon.tensor(x))[0] ** 2).sum().backward()
        (peer(torch.from_numpy(x))[0] ** 2).sum().backward()
    assert_same_gradients([*model.parameters()], [*peer.parameters()])
    # one scan for each direction
    assert programs[0].count("tenon.scan") == 2


def test_a_function_without_a_gradient_says_so_in_backward() -> None:
    @tenon.jit
    def halved(x: Any) -> Any:
        return tenon.while_loop(lambda x: tenon.sum(x) > 1, lambda x: x * 0.5, x)

    (x,) = tensors((3,))
    y = halved(x)
    with pytest.raises(TypeError, match="while_loop: has no reverse-mode gradient"):
        y.sum().backward()


@pytest.mark.parametrize("donated", [(), ("x",)])
def test_static_numbers_stay_numbers(donated: tuple[str, ...]) -> None:
    def power(x: Any, n: int, scale: float) -> Any:
        for _ in range(n):
            x = x * x
        return x * scale

    compiled = tenon.jit(power, static=("n", "scale"), donate=donated)
    for n, scale in ((1, 0.5), (2, 0.5), (1, 0.25)):
        x: Any = tenon.tensor(array(3), requires_grad=True)
        leaf = torch.from_numpy(array(3)).requires_grad_()
        compiled((given := x * 1.0), n, scale=scale).sum().backward()
        np.testing.assert_array_equal(given.detach().numpy(), array(3))
        power(leaf, n, scale).sum().backward()
        assert_same_gradients([x], [leaf])


def test_no_memory_is_given_away_where_the_function_is_computed_again() -> None:
    @tenon.jit(donate="x")
    def multiplied(x: Any, n: int) -> Any:
        return x * x * n

    x: Any = tenon.tensor(array(3), requires_grad=True)
    given = x * 1.0
    # integers have rules of their own
    multiplied(given, 3).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 * array(3), rtol=1e-6)
    np.testing.assert_array_equal(given.detach().numpy(), array(3))


def test_what_a_function_reads_is_guarded() -> None:
    scale = 2.0

    @tenon.jit
    def scaled(x: Any) -> Any:
        return tenon.exp(x * scale)

    (x,) = tensors((3,))
    for scale in (2.0, 3.0, 2.0):
        y = scaled(x)
        np.testing.assert_allclose(
            tenon.autograd.grad(y.sum(), x)[0].numpy(), scale * np.exp(scale * x.detach().numpy()), rtol=1e-5
        )


def test_wrong_arguments_are_refused_as_in_other_calls() -> None:
    (x,) = tensors((3, 3))
    with pytest.raises(TypeError, match="two_layers"):
        two_layers(x, x)
    with pytest.raises(ValueError, match="matmul"):
        two_layers(x, tenon.tensor(array(4, 4)), x)
    with pytest.raises(TypeError, match="object"):
        two_layers(x, x, object())


def test_frozen_arguments() -> None:
    weights = np.array([1.0, 2.0, 3.0], np.float32)
    frozen = tenon.jit(lambda w, x: tenon.exp(x * w)).freeze(weights)
    for x in (tenon.tensor([0.1, 0.2, 0.3]), tenon.tensor([0.1, 0.2, 0.3], requires_grad=True)):
        for result in (frozen(x), frozen(x=x)):
            np.testing.assert_allclose(result.detach().numpy(), np.exp(x.detach().numpy() * weights), rtol=1e-6)
    frozen(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), weights * np.exp(x.detach().numpy() * weights), rtol=1e-6)


def test_out_is_not_written_where_it_would_not_be_recorded() -> None:
    function, out = tenon.jit(lambda x: tenon.exp(x)), tenon.tensor([0.0, 0.0])
    x = tenon.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(TypeError, match="out= are not recorded"):
        function(x, out=out)
    assert out.tolist() == [0, 0]
    with tenon.no_grad():
        assert function(x, out=out) is out
    np.testing.assert_allclose(out.numpy(), np.exp([1.0, 2.0]), rtol=1e-6)


@pytest.mark.usefixtures("few_objects")
def test_what_a_function_captured_goes_with_it() -> None:
    def made() -> tuple[Callable[[Any], Any], weakref.ref[Any]]:
        captured = np.full(3, 2.0, np.float32)
        return tenon.jit(lambda x: tenon.sum(x * captured)), weakref.ref(captured)

    function, held = made()
    x = tenon.tensor([1.0, 2.0, 3.0], requires_grad=True)
    function(x).backward()
    assert x.grad.tolist() == [2, 2, 2]
    del function
    gc.collect()
    assert held() is None
