"""Functions whose gradients are Python: those of PyTorch, beside it."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedBaseClass=false
# pyright: reportIncompatibleMethodOverride=false

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon import nn, optim
from tenon.eager import engine, known_tapes, tape_programs

GENERATOR = np.random.default_rng(0)
X, W = (GENERATOR.standard_normal((3, 4)).astype(np.float32) for _ in range(2))


def functions(library: Any) -> dict[str, Any]:
    base = library.autograd.Function

    class Cube(base):
        @staticmethod
        def forward(ctx: Any, x: Any, scale: float) -> Any:
            ctx.save_for_backward(x)
            ctx.scale = scale
            return x**3 * scale

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            assert ctx.needs_input_grad == (True, False)
            return g * 3 * x**2 * ctx.scale, None

    class Two(base):
        @staticmethod
        def forward(x: Any, y: Any) -> Any:
            return x * y, (x + y).exp()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs, output[1])

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            x, y, power = ctx.saved_tensors
            return first * y + second * power, first * x + second * power

    class Reversed(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return -g

    class Exp(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0]

    return {"cube": Cube.apply, "two": Two.apply, "reversed": Reversed.apply, "exp": Exp.apply}


def between(t: Any, f: Any, x: Any, w: Any) -> Any:
    return (f["cube"](x * w, 2.0) * w).sum() + f["exp"](f["exp"](x) * 0.1).mean()


def of_two(t: Any, f: Any, x: Any, w: Any) -> Any:
    first, second = f["two"](x * 2, f["reversed"](w))
    return first.sum() * 2 + (second * x).mean()


def of_one_of_two(t: Any, f: Any, x: Any, w: Any) -> Any:
    return f["two"](x * 2, w)[1].sum()


def at_the_end(t: Any, f: Any, x: Any, w: Any) -> Any:
    return f["exp"]((x * w).sum())


def of_a_gradient(t: Any, f: Any, x: Any, w: Any) -> Any:
    cubes, power = f["cube"](x, 1.0), f["two"](x, w)[1]
    slopes = t.autograd.grad((cubes + power + f["exp"](x * 2)).sum(), x, create_graph=True)[0]
    return (slopes * w).sum()


@pytest.mark.parametrize("program", [between, of_two, of_one_of_two, at_the_end, of_a_gradient])
def test_gradients_are_those_of_torch(program: Any) -> None:
    made: list[list[Any]] = []
    for library in (tenon, torch):
        x, w = library.tensor(X, requires_grad=True), library.tensor(W, requires_grad=True)
        result: Any = None
        for _ in range(2):  # the second time finds the programs of the first one
            result = program(library, functions(library), x, w)
            x.grad = w.grad = None
            result.backward(retain_graph=True)
            result.backward()
        made.append([result.detach().numpy(), x.grad.numpy(), w.grad.numpy()])
    for found, expected in zip(*made, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_in_a_trained_network_and_in_a_trace() -> None:
    """A straight-through estimator; a step of it as one program has the same numbers."""
    losses: list[list[float]] = []
    for is_traced in (False, True):
        reverse = functions(tenon)["cube"]
        nn.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1)).requires_grad_()
        steps = optim.SGD(lr=0.1).over(model)

        def step(x: Any, model: Any = model, steps: Any = steps, reverse: Any = reverse) -> Any:
            steps.zero_grad()
            loss = (reverse(model(x), 0.5) - 1).square().mean()
            loss.backward()
            steps.step()
            return loss

        run = tenon.trace(step) if is_traced else step
        losses.append([run(tenon.tensor(X)).item() for _ in range(4)])
    np.testing.assert_allclose(*losses, rtol=1e-5)


class Wrong(tenon.autograd.Function):
    """What `backward` gives is an attribute."""

    gives: Any = None

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x)
        return x * y

    @classmethod
    def backward(cls, ctx: Any, g: Any) -> Any:
        return Wrong.gives(ctx, g)


@pytest.mark.parametrize(
    ("gives", "message"),
    [
        (lambda ctx, g: g, "Wrong.backward gives 1 gradients, and forward takes 2 arguments"),
        (lambda ctx, g: (g[0], g), r"Wrong.backward: gradient 0 has shape \(4,\), and the argument \(3, 4\)"),
        (lambda ctx, g: (1.0, g), "Wrong.backward: gradient 0 is a float where a tensor is needed"),
    ],
)
def test_what_is_refused(gives: Any, message: str) -> None:
    x, w = tenon.tensor(X, requires_grad=True), tenon.tensor(W, requires_grad=True)
    Wrong.gives = staticmethod(gives)
    with pytest.raises((TypeError, ValueError), match=message):
        Wrong.apply(x, w).sum().backward()
    assert x.grad is None


def test_traps() -> None:
    x = tenon.tensor(X, requires_grad=True)
    own = functions(tenon)
    result = own["exp"](x * 1)
    total = result.sum()
    total.backward()
    with pytest.raises(RuntimeError, match="was let go; call backward"):
        total.backward()
    changed = x * 1
    total = own["cube"](changed, 1.0).sum()
    changed[0] = 1.0
    with pytest.raises(RuntimeError, match="which was changed in place"):
        total.backward()
    changed = x * 1
    total = own["cube"](changed, 1.0).sum()
    changed += 1  # gives the tensor other memory
    x.grad = None
    total.backward()
    np.testing.assert_allclose(np.asarray(x.grad), 3 * X**2, rtol=1e-5)
    with pytest.raises(tenon.TracedValueError, match=r"Exp.apply: its gradient is Python"):
        tenon.grad(lambda x: own["exp"](x).sum())(X)
    with tenon.no_grad():
        assert own["exp"](x).is_leaf
    with pytest.raises(AttributeError, match=r"write tenon\.debug"):
        _ = tenon.autograd.set_detect_anomaly  # pyright: ignore


class Both(tenon.autograd.Function):
    """Twice its operand, what is infinite or no number, and a view, which has no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any, saved: bool) -> Any:
        results = x * 2, x / 0.0, (x * 3)[0]
        if saved:
            ctx.save_for_backward(x, *results)
        ctx.mark_non_differentiable(results[2])
        return results

    @staticmethod
    def backward(ctx: Any, g: Any, other: Any, _: Any) -> Any:
        return g * 2 + other, None


def test_gradients_of_results_that_nothing_depends_on_are_zeros_whatever_these_hold() -> None:
    for start in (0.0, 1.0):
        x = tenon.tensor(X * start, requires_grad=True)
        Both.apply(x, True)[0].sum().backward()
        np.testing.assert_array_equal(np.asarray(x.grad), np.full(X.shape, 2.0))


@pytest.mark.usefixtures("few_objects")
@pytest.mark.parametrize("is_pulled_back", [False, True])
@pytest.mark.parametrize("saved", [False, True])
def test_the_arrays_of_a_call_go_with_its_results(saved: bool, is_pulled_back: bool) -> None:
    """They were part of a circle, which takes Python a collection to find."""
    x = tenon.tensor(X, requires_grad=True)
    gc.collect()
    gc.disable()
    try:
        results = Both.apply(x * 1, saved)
        held = [weakref.ref(given) for result in results for given in (result, result._array)]
        if is_pulled_back:
            results[0].sum().backward(retain_graph=True)
        del results
        assert [reference() for reference in held] == [None] * 6
    finally:
        gc.enable()


def graphs_of(monkeypatch: pytest.MonkeyPatch, function: Callable[[], Any]) -> int:
    """How many graphs a call builds that native code does not know yet."""
    built: list[int] = []
    for module in (engine, known_tapes):
        whole = module.Graph
        monkeypatch.setattr(module, "Graph", lambda *a, whole=whole, **k: built.append(1) or whole(*a, **k))
    function()
    monkeypatch.undo()
    return len(built)


def test_a_tape_with_functions_is_known_the_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def stepped(library: Any) -> Callable[[], list[float]]:
        made = functions(library)
        x: Any = library.tensor([0.3, 0.6], requires_grad=True)

        def step() -> list[float]:
            x.grad = None
            first, second = made["two"](made["cube"](x * 3, 0.5) * x, x)
            ((first * 2).sum() + (second * x).sum()).backward()
            gradient: Any = x.grad
            return gradient.tolist()

        return step

    step = stepped(tenon)
    step()
    assert graphs_of(monkeypatch, step) == 0
    np.testing.assert_allclose(step(), stepped(torch)(), rtol=1e-5)


def test_gradients_with_respect_to_results_go_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    start = tenon.tensor([1.0, 2.0], requires_grad=True)

    def unrolled() -> Any:
        x: Any = start
        for _ in range(3):
            slope: Any = tenon.autograd.grad((x**3).sum(), x, create_graph=True)[0]
            x = x - 0.1 * slope
        return x.sum()

    unrolled()
    assert graphs_of(monkeypatch, unrolled) == 3, "one for each gradient, and none for what is before it"
    start.grad = None
    unrolled().backward()
    theirs = torch.tensor([1.0, 2.0], requires_grad=True)
    y: Any = theirs
    for _ in range(3):
        (slope,) = torch.autograd.grad((y**3).sum(), y, create_graph=True)
        y = y - 0.1 * slope
    y.sum().backward()
    assert theirs.grad is not None
    np.testing.assert_allclose(start.grad.numpy(), theirs.grad.numpy(), rtol=1e-5)
    result = unrolled()
    result.backward(retain_graph=True)
    assert graphs_of(monkeypatch, lambda: unrolled().backward()) == 3, "and that through all of them is known"


def test_known_programs_serve_what_lies_between(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(library: Any, weight: Any, seen: list[Any]) -> Any:
        class Halves(library.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any, scale: float) -> Any:
                ctx.save_for_backward(x)
                ctx.scale = scale
                return x * x * scale, x + 1

            @staticmethod
            def backward(ctx: Any, first: Any, second: Any) -> Any:
                (x,) = ctx.saved_tensors
                return 2 * x * first * ctx.scale + second, None

        hidden = (weight * 2).tanh()
        for scale in (0.5, 2.0):
            squared, moved = Halves.apply(hidden, scale)
            squared.register_hook(lambda gradient: seen.append(gradient.sum().item()) or gradient * 3)
            hidden = hidden + squared.sin() * 0.1 + moved
        return Halves.apply(hidden.sum() * 0.1, 1.0)[0]

    values = np.linspace(-1, 1, 6).astype(np.float32)
    own: Any = tenon.tensor(values, requires_grad=True)
    theirs: Any = torch.tensor(values, requires_grad=True)
    for _ in range(3):
        seen: tuple[list[Any], list[Any]] = [], []
        own.grad, theirs.grad = None, None
        result: Any = program(tenon, own, seen[0])
        with monkeypatch.context() as patched:
            patched.setattr("tenon.eager.differentiation.gradients_of", None)
            result.backward()
        program(torch, theirs, seen[1]).backward()
        gradients: list[Any] = [own.grad, theirs.grad]
        np.testing.assert_allclose(*gradients, rtol=1e-5)
        np.testing.assert_allclose(seen[0], seen[1], rtol=1e-5)
        with pytest.raises(RuntimeError, match="retain_graph=True"):
            result.backward()


def test_a_tape_that_ends_in_a_function_is_another_than_one_that_ends_in_a_leaf() -> None:
    def result(library: Any, weight: Any, is_called: bool) -> Any:
        made = functions(library)
        x = made["cube"](weight, 0.5) if is_called else weight
        return (x.tanh() * 2).sum()

    for is_called in (False, True, False, True):
        ours: Any = tenon.tensor([0.3, 0.6], requires_grad=True)
        theirs: Any = torch.tensor([0.3, 0.6], requires_grad=True)
        for library, weight in ((tenon, ours), (torch, theirs)):
            result(library, weight, is_called).backward()
        np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-5)


def unrolled_beside(library: Any, made: dict[str, Any], weight: Any, steps: int, is_hooked: bool) -> Any:
    """Steps each of which reads the state before by itself, and by a call of Python or a value with a hook."""
    state: Any = weight * 1
    for _ in range(steps):
        side = state * 0.5
        if is_hooked:
            side.register_hook(lambda gradient: gradient * 0.9)
        state = (state * weight).tanh() + (side.sin() if is_hooked else made["cube"](side, 0.5))
    return state.sum()


@pytest.mark.parametrize("is_hooked", [False, True])
def test_steps_beside_functions_and_hooks_have_programs_in_common(
    monkeypatch: pytest.MonkeyPatch, is_hooked: bool
) -> None:
    ours: Any = tenon.tensor([0.3, 0.6, -0.2], requires_grad=True)
    theirs: Any = torch.tensor([0.3, 0.6, -0.2], requires_grad=True)
    made = functions(tenon), functions(torch)
    compiled: list[Any] = []
    compile_graph = tape_programs.traced

    def noted(graph: Any, seeds: Any) -> Any:
        compiled.append(graph)
        return compile_graph(graph, seeds)

    monkeypatch.setattr(tape_programs, "traced", noted)
    known_tapes._KNOWN.clear()
    for steps in (6, 7, 9, 12):
        before = len(compiled)
        for weight in (ours, theirs):
            weight.grad = None
        unrolled_beside(tenon, made[0], ours, steps, is_hooked).backward()
        unrolled_beside(torch, made[1], theirs, steps, is_hooked).backward()
        np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-4)
        assert steps == 6 or len(compiled) == before
        assert all(len(graph.nodes) <= 6 for graph in compiled)


@pytest.mark.usefixtures("few_objects")
@pytest.mark.parametrize("retains", [False, True])
def test_what_backward_needed_is_let_go_where_the_result_stays(retains: bool) -> None:
    class Scaled(tenon.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.factor = x * 2
            kept.append(weakref.ref(ctx.factor))
            return x + ctx.factor

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.factor

    kept: list[Any] = []
    x = tenon.tensor(X, requires_grad=True)
    results = [Scaled.apply(x), Scaled.apply(x)]
    assert len({id(y._source.call) for y in results}) == 1  # what is the same for all calls is made once
    for y in results:
        y.sum().backward(retain_graph=retains)
    gc.collect()
    assert [ref() is not None for ref in kept] == [retains, retains]


def test_gradients_are_checked_against_differences() -> None:
    class Wrong(tenon.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    x, y = (tenon.tensor(X.astype(np.float64) + shift, requires_grad=True) for shift in (0, 1))
    assert tenon.autograd.gradcheck(lambda x, y, times: ((x * y).sin() * times, x.sum()), (x, y, 3))
    assert not tenon.autograd.gradcheck(Wrong.apply, x, raise_exception=False)
    with pytest.raises(RuntimeError, match=r"result 0 with respect to input 0 has an element 1.0 where .* give [12]\."):
        tenon.autograd.gradcheck(Wrong.apply, x)
    with pytest.raises(ValueError, match="none of the inputs requires a gradient"):
        tenon.autograd.gradcheck(Wrong.apply, x.detach())
    assert x.grad is None
