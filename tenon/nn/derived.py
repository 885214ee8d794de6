"""Modules that are an op with settings, derived from the definition of the op; layers whose first size follows from
what they are called on, derived from the layer; and what modules with windows share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

import tenon
from tenon.dialects.definition.settings import REQUIRED
from tenon.dialects.support.plain_arrays import elements_of, is_on_gpu
from tenon.eager.modes import is_traced
from tenon.eager.parameters import CALLS
from tenon.nn.module import Array, Module
from tenon.runtime.cuda.arrays import place_of
from tenon.runtime.evaluate import ArrayFunction

Sizes = int | tuple[int, ...]
Shown = Literal["all", "values", "changed", "none"]

_TORCH_NAMES = {"axis": "dim"}


def sizes_of(value: Any, rank: int, name: str) -> tuple[Any, ...]:
    """A size for each of `rank` dimensions, of one for all or of as many; raises `ValueError`, with `name`, for another
    number."""
    sizes = tuple(value) if isinstance(value, list | tuple) else (value,)
    if len(sizes) not in (1, rank):
        raise ValueError(f"{name} is {value} where one size or {rank} are needed")
    return sizes if len(sizes) == rank else sizes * rank


def check_sizes(module: Any, least: int = 0, **sizes: Any) -> None:
    """Raise unless each of the arguments of `module`, or each of its numbers, is an integer of `least` or more."""
    for name, given in sizes.items():
        for size in given if isinstance(given, list | tuple) else (given,):
            if not isinstance(size, int | np.integer):
                raise TypeError(f"{type(module).__name__}: {name} is {given!r} where an integer is needed")
            if size < least:
                raise ValueError(f"{type(module).__name__}: {name} is {given} where {least} or more is needed")


def _set_arguments(module: Module, signature: inspect.Signature, args: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Make the arguments of a constructor, and the defaults of others, attributes of a module."""
    try:
        bound = signature.bind(*args, **named)
    except TypeError as error:
        raise TypeError(f"{type(module).__name__}{signature}: {error}") from None
    bound.apply_defaults()
    for name, value in bound.arguments.items():
        setattr(module, name, value)


class OpModule(Module):
    """An op with its settings as attributes; the operands are what the module is called on."""

    FUNCTION: ClassVar[Callable[..., Any]]
    ARGUMENTS: ClassVar[Mapping[str, str | None]] = {}
    """The op's setting for each argument; `None` for an argument that means nothing here (`inplace`)."""
    FIXED: ClassVar[Mapping[str, Any]] = {}
    """Settings that no argument says."""
    SHOWN: ClassVar[Shown] = "all"
    SIGNATURE: ClassVar[inspect.Signature] = inspect.Signature()

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__()
        own = {setting: name for name, setting in self.ARGUMENTS.items() if setting not in (None, name)}
        _set_arguments(self, self.SIGNATURE, args, {own.get(name, name): value for name, value in settings.items()})

    def forward(self, *operands: Array) -> Array:
        settings = {own: getattr(self, name) for name, own in self.ARGUMENTS.items() if own is not None}
        return type(self).FUNCTION(*operands, **settings, **self.FIXED)

    def extra_repr(self) -> str:
        if self.SHOWN == "none":
            return ""
        said: list[str] = []
        for name, own in self.ARGUMENTS.items():
            value = getattr(self, name)
            is_default = value == self.SIGNATURE.parameters[name].default
            if not (is_default and (own is None or self.SHOWN == "changed")):
                said.append(f"{value}" if self.SHOWN == "values" and own is not None else f"{name}={value!r}")
        return ", ".join(said)


def derive(
    name: str,
    function: Any,
    *arguments: str,
    renamed: Mapping[str, str] | None = None,
    fixed: Mapping[str, Any] | None = None,
    without: Sequence[str] = (),
    shown: Shown = "all",
    inplace: bool = False,
    module: str = "",
    base: type[OpModule] = OpModule,
    **defaults: Any,
) -> type[OpModule]:
    """The module called `name` of the op of `function`, whose settings are its arguments, with the op's defaults.

    `arguments` says which settings, if not all, in which order; `renamed` what they are called; `defaults` which
    defaults are others; settings that are `fixed` or stay as they are (`without`) are no arguments. An argument
    `inplace` is taken, and changes nothing. `module` is where the class is a global name, the caller's unless given;
    `base` is what it is a subclass of.
    """
    known = function.op.SIGNATURE.settings
    other, constant = {**_TORCH_NAMES, **(renamed or {})}, fixed or {}
    names = {other.get(own, own): own for own in (arguments or known) if own not in (*constant, *without)}
    parameters = [_parameter(name, defaults.get(name, known[own].default)) for name, own in names.items()]
    if inplace:
        parameters.append(_parameter("inplace", False))
    own: dict[str, str | None] = {**names, **({"inplace": None} if inplace else {})}
    signature = inspect.Signature(parameters)
    attributes = {
        "FUNCTION": staticmethod(function),
        "ARGUMENTS": own,
        "FIXED": dict(constant),
        "SHOWN": shown,
        "SIGNATURE": signature,
        "__signature__": signature,
        "__doc__": f"`tenon.{function.__name__}` as a module: {_summary(function.op)}",
        "__module__": module or _caller(),  # where pickle looks for it
    }
    return type(name, (base,), attributes)


def _caller() -> str:
    """The name of the module from which the function that calls this was called."""
    frame = inspect.currentframe()
    for _ in range(2):
        frame = None if frame is None else frame.f_back
    return __name__ if frame is None else frame.f_globals.get("__name__", __name__)


def _parameter(name: str, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter
    return kind(name, kind.POSITIONAL_OR_KEYWORD, default=kind.empty if default is REQUIRED else default)


def _summary(op: type) -> str:
    text = (op.__doc__ or "").strip().partition("\n\n")[0]
    return " ".join(text.split())


def module_of(function: Any, name: str | None = None) -> type[OpModule]:
    """A class of modules for the op of `function`, such as one that you defined: its settings are the arguments.

        Squareplus = nn.module_of(tenon.squareplus)
        network = nn.Sequential(nn.Linear(3, 4), Squareplus())

    Raises `TypeError` for what is no function of an op.
    """
    if not isinstance(function, ArrayFunction):
        raise TypeError(f"module_of: {function!r} is not the function of an op, such as tenon.softplus")
    words = function.__name__.split("_")
    return derive(name or "".join([word[:1].upper() + word[1:] for word in words]), function, module=_caller())


class LazyModule(Module):
    """A layer whose first size follows from what it is first called on, or from a state that is loaded: from then on it
    is a `KIND`. Until then it has its settings, and no parameters."""

    KIND: ClassVar[type[Module]]
    AXIS: ClassVar[int]
    """The axis of what it is called on that has the size."""
    STATED: ClassVar[Mapping[str, int]]
    """Arrays of a state by name, and the axis of each that has the size."""
    SIGNATURE: ClassVar[inspect.Signature]
    is_unmade = True

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__()
        _set_arguments(self, self.SIGNATURE, args, settings)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not args:
            raise TypeError(f"{type(self).__name__}: what it is called on, which says its size, has to come first")
        if is_traced():
            raise RuntimeError(
                f"{type(self).__name__}: its size is not known before its first call, which is traced; call the model "
                "on an example before"
            )
        shape = tuple(args[0].shape)
        if not -len(shape) <= self.AXIS < len(shape):
            raise ValueError(f"{type(self).__name__}: x has shape {shape}, which has no axis {self.AXIS}")
        self._become(shape[self.AXIS])
        if is_on_gpu(there := elements_of(args[0])):
            self.to(place_of(there))
        return self(*args, **kwargs)

    def extra_repr(self) -> str:
        names = [name for name in self.SIGNATURE.parameters if name not in ("dtype", "seed")]
        return ", ".join([f"{name}={vars(self)[name]!r}" for name in names])

    def _make_of(self, state: Mapping[str, Array], start: str) -> Callable[[], None]:
        """Take the size from the arrays of a state, if they say it, which have this before their names; gives what
        undoes that."""
        for name, axis in self.STATED.items():
            if (path := start + name) in state:
                shape = tuple(state[path].shape)
                if axis >= len(shape):
                    raise ValueError(
                        f"{path} has shape {shape} in the state, and that of a {self.KIND.__name__} has more dimensions"
                    )
                # channels in axis 1 are those of one group
                return self._become(shape[axis] * (vars(self).get("groups", 1) if axis == 1 else 1))
        return lambda: None

    def _become(self, size: int) -> Callable[[], None]:
        """Be a layer of this size; gives what undoes that."""
        lazy, before = type(self), dict(vars(self))

        def undo() -> None:
            self.__class__ = lazy  # pyright: ignore[reportAttributeAccessIssue]
            vars(self).clear()
            vars(self).update(before)

        given = {name: before[name] for name in self.SIGNATURE.parameters}
        # What it has from now on is no change that a call that fails would take back.
        journal, CALLS.journal = CALLS.journal, None
        try:
            for name in given:
                del vars(self)[name]
            self.__class__ = lazy.KIND  # pyright: ignore[reportAttributeAccessIssue]
            lazy.KIND.__init__(self, size, **given)  # pyright: ignore[reportCallIssue]
        except BaseException:
            undo()
            raise
        finally:
            CALLS.journal = journal
        return undo


def lazy(kind: type[Module], axis: int, **stated: int) -> type[LazyModule]:
    """The layer `Lazy…` that becomes a `kind`, whose first argument is the size of an axis of what it is called on;
    `stated` says which axis of arrays of a state has it."""
    size, *rest = inspect.signature(kind).parameters.values()
    signature = inspect.Signature(rest)
    attributes = {
        "KIND": kind,
        "AXIS": axis,
        "STATED": stated,
        "SIGNATURE": signature,
        "__signature__": signature,
        "__doc__": f"`{kind.__name__}` whose `{size.name}` follows from what it is first called on, or from a state "
        "that is loaded. Call the model on an example before its parameters are asked for, and before it is traced.",
        "__module__": _caller(),  # where pickle looks for it
    }
    return type(f"Lazy{kind.__name__}", (LazyModule,), attributes)


class WindowModule(Module):
    """A module of `RANK` spatial dimensions that is a function with `SETTINGS`, which are attributes."""

    RANK: ClassVar[int]
    SETTINGS: ClassVar[tuple[str, ...]]

    def _settings(self) -> dict[str, Any]:
        """The settings by name."""
        return {name: getattr(self, name) for name in self.SETTINGS}

    def _on_batch(self, function: Callable[[Array], Array], x: Array) -> Array:
        """`function` of `x` (n, c, *image), where n may be missing."""
        rank = len(x.shape)
        if rank not in (self.RANK + 1, self.RANK + 2):
            raise ValueError(
                f"{type(self).__name__}: x has shape {tuple(x.shape)} where {self.RANK + 2} dimensions are needed, or "
                f"{self.RANK + 1} of one sample"
            )
        if rank == self.RANK + 2:
            return function(x)
        return tenon.squeeze(function(tenon.expand_dims(x, axis=0)), axis=0)


__all__ = ["OpModule", "Sizes", "WindowModule", "check_sizes", "derive", "lazy", "module_of", "sizes_of"]
