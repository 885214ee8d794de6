"""Functions of the user's that run when a module is called, or when the gradients of its arguments are found."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Literal, NamedTuple, Self
from weakref import WeakKeyDictionary

import tenon
from tenon.dialects.definition.value import Value, insertion_point
from tenon.eager.modes import MODE, TRACING
from tenon.eager.tensor import Tensor

Kind = Literal["forward_pre", "forward", "backward_pre", "backward"]
_NUMBERS = count()


class Hook(NamedTuple):
    """A function that is called with a module: before and after `forward`, or with gradients."""

    kind: Kind
    number: int
    function: Callable[..., Any]
    with_kwargs: bool


_SUCCESSORS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""What has taken the place of modules, with their hooks."""


def take_over_hooks(module: Any, successor: Any) -> None:
    """Give the hooks of a module to what takes its place."""
    successor.hooks = module.hooks
    if module.hooks:
        _SUCCESSORS[module] = successor


class ModuleHandle:
    """A registered hook of a module; `remove()` takes it away."""

    def __init__(self, module: Any, kind: Kind, function: Callable[..., Any], with_kwargs: bool, prepend: bool) -> None:
        if not callable(function):
            raise TypeError(f"{type(module).__name__}: a {type(function).__name__} cannot be called, and is no hook")
        hook = Hook(kind, next(_NUMBERS), function, with_kwargs)
        self._module, self._hook = module, hook
        # The tuple is part of what a compiled function is told apart by.
        module.hooks = (hook, *module.hooks) if prepend else (*module.hooks, hook)

    def remove(self) -> None:
        """Have the hook called no more, by what has taken the place of the module either."""
        module = self._module
        while module is not None:
            module.hooks = tuple([hook for hook in module.hooks if hook.number != self._hook.number])
            module = _SUCCESSORS.get(module)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def call_with_hooks(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `module.forward` gives, as the hooks leave it."""
    hooks: tuple[Hook, ...] = module.hooks
    for hook in hooks:
        if hook.kind == "forward_pre":
            args, kwargs = _changed_arguments(module, hook, args, kwargs)
    watched = _Gradients(module, hooks, args) if any(hook.kind.startswith("backward") for hook in hooks) else None
    result = module.forward(*(args if watched is None else watched.inputs(args)), **kwargs)
    for hook in hooks:
        if hook.kind == "forward":
            named = (kwargs,) if hook.with_kwargs else ()
            changed = hook.function(module, args, *named, result)
            result = result if changed is None else changed
    return result if watched is None else watched.outputs(result)


def _changed_arguments(
    module: Any, hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    changed = hook.function(module, args, kwargs) if hook.with_kwargs else hook.function(module, args)
    if changed is None:
        return args, kwargs
    if not hook.with_kwargs:
        return changed if isinstance(changed, tuple) else (changed,), kwargs
    if not (isinstance(changed, tuple) and len(changed) == 2 and isinstance(changed[1], dict)):
        raise TypeError(
            f"{type(module).__name__}: a hook before forward gives {type(changed).__name__} where None or the "
            "arguments and a dict of the named ones are needed"
        )
    return changed  # pyright: ignore[reportUnknownVariableType]


class _Gradients:
    """The gradients of one call of a module."""

    def __init__(self, module: Any, hooks: Sequence[Hook], args: tuple[Any, ...]) -> None:
        if insertion_point() is not None and (TRACING.session is None or any(isinstance(v, Value) for v in args)):
            raise RuntimeError(
                f"{type(module).__name__}: hooks of gradients are called by backward() of tensors; a function of "
                "arrays that is traced (jit, grad) has none, so remove them"
            )
        self.module = module
        self.before = [hook.function for hook in hooks if hook.kind == "backward_pre"]
        self.after = [hook.function for hook in hooks if hook.kind == "backward"]
        self.of_outputs: tuple[Any, ...] = ()
        self.places: list[int] = []
        self.count = 0

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, watched."""
        self.count = len(args)
        self.places = [i for i, value in enumerate(args) if _is_watched(value)]
        if not self.places or not self.after:
            return args
        given = list(args)
        for place, tensor in zip(self.places, _together([args[i] for i in self.places], self._found), strict=True):
            given[place] = tensor
        return tuple(given)

    def outputs(self, result: Any) -> Any:
        """The results, watched."""
        values: Sequence[Any] = result if isinstance(result, tuple) else (result,)
        places = [i for i, value in enumerate(values) if _is_watched(value)]
        if not places:
            return result

        def began(gradients: tuple[Any, ...]) -> tuple[Any, ...]:
            for hook in self.before:
                shown = _spread(gradients, places, len(values))
                gradients = _replaced(self.module, hook(self.module, shown), gradients, places, len(values))
            self.of_outputs = _spread(gradients, places, len(values))
            if not self.places:
                self._found(())
            return gradients

        made = list(values)
        for place, tensor in zip(places, _together([values[i] for i in places], began), strict=True):
            made[place] = tensor
        if not isinstance(result, tuple):
            return made[0]
        return type(result)(*made) if hasattr(result, "_fields") else tuple(made)

    def _found(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.after:
            shown = _spread(gradients, self.places, self.count)
            changed = hook(self.module, shown, self.of_outputs)
            gradients = _replaced(self.module, changed, gradients, self.places, self.count)
        return gradients


def _is_watched(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad and MODE.records


def _spread(values: Sequence[Any], places: Sequence[int], count: int) -> tuple[Any, ...]:
    """`count` values, those at `places` given and the others `None`."""
    known = dict(zip(places, values, strict=True))
    return tuple([known.get(i) for i in range(count)])


def _replaced(
    module: Any, changed: Any, gradients: tuple[Any, ...], places: Sequence[int], count: int
) -> tuple[Any, ...]:
    """The gradients that a hook gives in the place of those it was shown."""
    if changed is None:
        return gradients
    given: tuple[Any, ...] = changed if isinstance(changed, tuple) else (changed,)
    if len(given) != count:
        raise ValueError(f"{type(module).__name__}: a hook gives {len(given)} gradients where {count} are needed")
    return tuple([new if (new := given[i]) is not None else old for i, old in zip(places, gradients, strict=True)])


def _together(tensors: Sequence[Any], hook: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> list[Any]:
    """The same tensors, whose gradients `hook` is given at once when all of them are known, and may replace.

    Several are one vector on the way, which has one gradient.
    """
    if len(tensors) == 1:
        made = tensors[0].clone()
        made.register_hook(lambda gradient: hook((gradient,))[0])
        return [made]
    wide = max([tensor.dtype for tensor in tensors], key=lambda dtype: dtype.itemsize)
    flat = tenon.concatenate([tenon.reshape(tensor.astype(wide), shape=(-1,)) for tensor in tensors], axis=0)
    bounds = [0]
    for tensor in tensors:
        bounds.append(bounds[-1] + tensor.size)

    def apart(vector: Any) -> list[Any]:
        parts = zip(tensors, bounds, bounds[1:], strict=False)
        return [tenon.reshape(vector[low:high], shape=t.shape).astype(t.dtype) for t, low, high in parts]

    def on_vector(gradient: Any) -> Any:
        changed = hook(tuple(apart(gradient)))
        return tenon.concatenate([tenon.reshape(g.astype(wide), shape=(-1,)) for g in changed], axis=0)

    flat.register_hook(on_vector)
    return apart(flat)


__all__ = ["Hook", "ModuleHandle", "call_with_hooks"]
