"""Hooks on gradients of tensors do what PyTorch's do: which are called, in which order, and what is found then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tenon

Log = list[tuple[str, Any]]


def leaf(library: Any, *elements: float) -> Any:
    return (
        library.tensor(np.array(elements or (1.0, 2.0)) if library is tenon else [*(elements or (1.0, 2.0))])
        .to(library.float64)
        .detach()
        .requires_grad_()
    )


def noted(log: Log, name: str, factor: float | None = None) -> Callable[[Any], Any]:
    """A hook that notes what it is given, and gives `factor` times that."""

    def hook(gradient: Any) -> Any:
        log.append((name, gradient.detach().clone()))
        return None if factor is None else gradient * factor

    return hook


def after(log: Log, name: str) -> Callable[[Any], None]:
    return lambda tensor: log.append((name, tensor.grad.detach().clone()))


def chain(library: Any, log: Log) -> tuple[Any, Any, Any, Any]:
    """A leaf, two values that are computed of it, one after the other, and a sum, with hooks on all."""
    x = leaf(library)
    h = x * 3
    k = h * h
    y = (k * 2).sum()
    for name, factor, tensor in (("x", 2, x), ("h", 3, h), ("k", 5, k), ("y", 7, y)):
        tensor.register_hook(noted(log, name, factor))
    return x, h, k, y


WANTED = ("x", "h", "k", "y", "xh", "hx", "hk", "xk", "ky", "xhky", "hh", "xx")


@pytest.mark.parametrize("wanted", WANTED)
def test_gradients_of_several_values(wanted: str) -> None:
    """What goes on to others that are wanted is captured before its hooks, all else after them."""

    def found(library: Any, log: Log) -> Any:
        values = dict(zip("xhky", chain(library, log), strict=True))
        return library.autograd.grad(values["y"], [values[name] for name in wanted])

    compare(found)


def mid_hook_is_not_on_the_way(library: Any, log: Log) -> Any:
    x, z = leaf(library), leaf(library, 1, 1)
    h = x * 3
    h.register_hook(noted(log, "h", 2))
    x.register_hook(noted(log, "x", 2))
    return library.autograd.grad((h * h * z).sum(), z)


def shared_value(library: Any, log: Log) -> Any:
    x = leaf(library)
    h = x * 3
    h.register_hook(noted(log, "h", 2))
    return library.autograd.grad((h * h).sum() + h.sum(), (x, h))


def no_replacement(library: Any, log: Log) -> Any:
    x = leaf(library)
    h = x * 3
    x.register_hook(noted(log, "x"))
    h.register_hook(noted(log, "h"))
    return library.autograd.grad((h * h).sum(), (x, h))


def several_hooks_of_one(library: Any, log: Log) -> Any:
    x = leaf(library)
    h = x * 3
    first = h.register_hook(noted(log, "first", 2))
    h.register_hook(noted(log, "second", 5))
    h.register_hook(noted(log, "third", 7))
    first.remove()
    return library.autograd.grad((h * h).sum(), h)


def root_that_is_a_leaf(library: Any, log: Log) -> Any:
    x = leaf(library)
    x.register_hook(noted(log, "x", 2))
    return library.autograd.grad(x, x, leaf(library).detach())


def unused_inputs(library: Any, log: Log) -> Any:
    x, z = leaf(library), leaf(library)
    z.register_hook(noted(log, "z", 2))
    return library.autograd.grad((x * x).sum(), (x, z), allow_unused=True)


def materialized_inputs(library: Any, log: Log) -> Any:
    x, z = leaf(library), leaf(library)
    z.register_hook(noted(log, "z", 2))
    return library.autograd.grad((x * x).sum(), (x, z), materialize_grads=True)


def second_order(library: Any, log: Log) -> Any:
    x = leaf(library)
    h = x * x
    h.register_hook(noted(log, "h", 2))
    found = library.autograd.grad((h * h).sum(), (h, x), create_graph=True)
    return *found, *library.autograd.grad(found[0].sum() + found[1].sum(), x)


def through_a_function(library: Any, log: Log) -> Any:
    class Doubled(library.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            log.append(("backward", gradient.detach()))
            return gradient * 2

    x = leaf(library)
    k = x * 3
    k.register_hook(noted(log, "k", 3))
    h = Doubled.apply(k)
    h.register_hook(noted(log, "h", 2))
    y = (h * h).sum()
    return [library.autograd.grad(y, wanted, retain_graph=True) for wanted in (h, k, (h, k), (h, x), (k, x), x)]


def retained(library: Any, log: Log, backward: Callable[[Any, Any, Any], Any]) -> Any:
    x = leaf(library)
    h = x * 3
    h.register_hook(noted(log, "before", 2))
    h.retain_grad()
    h.retain_grad()
    h.register_hook(noted(log, "after", 5))
    found = backward((h * h).sum(), x, h)
    return found, h.grad, x.grad


def retained_by_backward(library: Any, log: Log) -> Any:
    return retained(library, log, lambda y, x, h: y.backward())


def retained_by_backward_twice(library: Any, log: Log) -> Any:
    return retained(library, log, lambda y, x, h: [y.backward(retain_graph=True), y.backward()])


def retained_by_grad_of_itself(library: Any, log: Log) -> Any:
    return retained(library, log, lambda y, x, h: library.autograd.grad(y, h))


def retained_by_grad_of_the_leaf(library: Any, log: Log) -> Any:
    return retained(library, log, lambda y, x, h: library.autograd.grad(y, x))


def retained_by_grad_of_both(library: Any, log: Log) -> Any:
    return retained(library, log, lambda y, x, h: library.autograd.grad(y, (x, h)))


def inputs_of_backward(library: Any, log: Log) -> Any:
    return retained(library, log, lambda y, x, h: y.backward(inputs=[h, x]))


def changed(library: Any, log: Log, change: Callable[[Any], Any]) -> Any:
    x = leaf(library)
    h = x * 3
    h.register_hook(noted(log, "before", 2))
    h.retain_grad()
    part = change(h)
    h.register_hook(noted(log, "after", 7))
    (h * 5).sum().backward()
    return h.grad, x.grad, part is None


def changed_by_an_operator(library: Any, log: Log) -> Any:
    def change(h: Any) -> None:
        h *= 2

    return changed(library, log, change)


def changed_at_an_index(library: Any, log: Log) -> Any:
    return changed(library, log, lambda h: h.__setitem__(0, 7.0))


def changed_through_a_view(library: Any, log: Log) -> Any:
    def change(h: Any) -> None:
        part = h[:1]
        part.register_hook(noted(log, "view before", 11))
        part *= 4
        part.register_hook(noted(log, "view after", 13))

    return changed(library, log, change)


def changed_through_a_view_at_an_index(library: Any, log: Log) -> Any:
    def change(h: Any) -> None:
        part = h[:2]
        part.register_hook(noted(log, "view", 11))
        part[0] = 4.0

    return changed(library, log, change)


def changed_where_nothing_is_recorded(library: Any, log: Log) -> Any:
    x = leaf(library)
    h = x * 3
    h.register_hook(noted(log, "h", 2))
    h.retain_grad()
    with library.no_grad():
        h *= 4
    (h * h).sum().backward()
    return h.grad, x.grad


def grad_of_what_was_changed(library: Any, log: Log) -> Any:
    x = leaf(library)
    h = x * 3
    h.register_hook(noted(log, "before", 2))
    h *= 2
    h.register_hook(noted(log, "after", 7))
    return library.autograd.grad((h * 5).sum(), h)


def after_accumulation(library: Any, log: Log) -> Any:
    x, z = leaf(library), leaf(library, 3, 3)
    x.register_post_accumulate_grad_hook(after(log, "x"))
    x.register_hook(noted(log, "slope", 2))
    x.register_post_accumulate_grad_hook(after(log, "x again"))
    z.register_post_accumulate_grad_hook(after(log, "z")).remove()
    unused = leaf(library)
    unused.register_post_accumulate_grad_hook(after(log, "unused"))
    for _ in range(2):
        (x * x * z).sum().backward()
    return x.grad, z.grad


def after_accumulation_in_inputs(library: Any, log: Log) -> Any:
    x, z = leaf(library), leaf(library, 3, 3)
    x.register_post_accumulate_grad_hook(after(log, "x"))
    z.register_post_accumulate_grad_hook(after(log, "z"))
    (x * z).sum().backward(inputs=[x])
    return x.grad, z.grad


def after_accumulation_and_grad(library: Any, log: Log) -> Any:
    x = leaf(library)
    x.register_post_accumulate_grad_hook(after(log, "x"))
    return library.autograd.grad((x * x).sum(), x)


def steps_in_backward(library: Any, log: Log) -> Any:
    x = leaf(library)

    def step(tensor: Any) -> None:
        with library.no_grad():
            tensor -= 0.1 * tensor.grad
        tensor.grad = None

    x.register_post_accumulate_grad_hook(step)
    for _ in range(3):
        (x * x).sum().backward()
    return x, x.grad


PROGRAMS = [
    mid_hook_is_not_on_the_way,
    shared_value,
    no_replacement,
    several_hooks_of_one,
    root_that_is_a_leaf,
    unused_inputs,
    materialized_inputs,
    second_order,
    through_a_function,
    retained_by_backward,
    retained_by_backward_twice,
    retained_by_grad_of_itself,
    retained_by_grad_of_the_leaf,
    retained_by_grad_of_both,
    inputs_of_backward,
    changed_by_an_operator,
    changed_at_an_index,
    changed_through_a_view,
    changed_through_a_view_at_an_index,
    changed_where_nothing_is_recorded,
    grad_of_what_was_changed,
    after_accumulation,
    after_accumulation_in_inputs,
    after_accumulation_and_grad,
    steps_in_backward,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs(program: Callable[[Any, Log], Any]) -> None:
    compare(program)


def compare(program: Callable[[Any, Log], Any]) -> None:
    (found, log), (expected, known) = (run(program, library) for library in (tenon, torch))
    assert found == expected
    assert log == known


def run(program: Callable[[Any, Log], Any], library: Any) -> tuple[Any, Any]:
    log: Log = []
    return plain(program(library, log)), plain(log)


def plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return np.asarray(value.detach()).tolist() if hasattr(value, "detach") else value


def test_what_is_no_hook_after_accumulation() -> None:
    for library in (tenon, torch):
        x = leaf(library)
        with pytest.raises(RuntimeError):
            (x * 2).register_post_accumulate_grad_hook(lambda tensor: None)
        with pytest.raises(RuntimeError):
            leaf(library).detach().register_post_accumulate_grad_hook(lambda tensor: None)
        x.register_post_accumulate_grad_hook(lambda tensor: 5)
        with pytest.raises(TypeError):
            x.sum().backward()


def test_hooks_after_accumulation_are_traced() -> None:
    x, y = leaf(tenon), leaf(tenon)

    def step(tensor: Any) -> None:
        with tenon.no_grad():
            tensor -= 0.1 * tensor.grad
        tensor.grad = None

    def losses(w: Any, scale: Any) -> Any:
        loss = (w * w * scale).sum()
        loss.backward()
        return loss

    traced = tenon.trace(lambda scale: losses(x, scale))
    handles = [w.register_post_accumulate_grad_hook(step) for w in (x, y)]
    for scale in (1.0, 2.0, 3.0):
        assert traced(tenon.tensor(scale)).item() == losses(y, tenon.tensor(scale)).item()
        np.testing.assert_array_equal(x.tolist(), y.tolist())
    for handle in handles:
        handle.remove()
    traced(tenon.tensor(1.0))
    losses(y, tenon.tensor(1.0))
    np.testing.assert_array_equal(x.tolist(), y.tolist())
    np.testing.assert_array_equal(x.grad.numpy(), y.grad.numpy())


def test_grad_manager_takes_hooks_on_what_is_computed() -> None:
    w = tenon.tensor([1.0, 2.0])
    manager = tenon.GradManager()
    manager.attach(w)
    with manager:
        h = w * 2
        h.register_hook(lambda gradient: gradient * 10)
        manager.backward((h * h).sum())
    assert w.grad.tolist() == [80.0, 160.0]


def unrecorded(library: Any, log: Log, is_leaf: bool, *, asked: Callable[..., Any], hooked: str) -> Any:
    """What is found with respect to a tensor that is changed without a record between two uses of it."""
    x = leaf(library)
    h = x if is_leaf else x * 3
    if hooked == "before":
        h.register_hook(noted(log, "h", 10))
    k = (h * library.tensor([1.0, 3.0]).to(library.float64)).sum()
    with library.no_grad():
        h.mul_(2)
    with library.no_grad():
        h.add_(1)
    if hooked == "after":
        h.register_hook(noted(log, "h", 10))
    y = (h * library.tensor([5.0, 7.0]).to(library.float64)).sum()
    return asked(library, x, h, k, y)


def by_grad(library: Any, x: Any, h: Any, k: Any, y: Any) -> Any:
    found = [library.autograd.grad(of, h, retain_graph=True)[0] for of in (k, y, k + y)]
    return *found, *library.autograd.grad(k + y, (h, x), allow_unused=True)


def by_backward(library: Any, x: Any, h: Any, k: Any, y: Any) -> Any:
    h.retain_grad()
    (k + y).backward()
    return h.grad, x.grad


def by_inputs(library: Any, x: Any, h: Any, k: Any, y: Any) -> Any:
    k.backward(inputs=[h], retain_graph=True)
    (y + k).backward(inputs=[h])
    return h.grad


@pytest.mark.parametrize("is_leaf", [False, True])
@pytest.mark.parametrize("hooked", ["never", "before", "after"])
@pytest.mark.parametrize("asked", [by_grad, by_backward, by_inputs])
def test_a_tensor_that_is_changed_without_a_record_stays_the_same_to_gradients(
    is_leaf: bool, hooked: str, asked: Callable[..., Any]
) -> None:
    compare(lambda library, log: unrecorded(library, log, is_leaf, asked=asked, hooked=hooked))
