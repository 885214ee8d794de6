"""The ops that are defined, and the functions that hooks and users find by name."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

from tenon.dialects.support.device import DEFAULT_DEVICE

OpClass = type[Any]
"""A class that `tensor_op` made an op. `TensorOp` itself calls its relatives by name, so that it comes after this."""
Evaluator = Callable[[OpClass, tuple[Any, ...], dict[str, Any]], Any]

_REGISTRY: dict[str, OpClass] = {}
_FUNCTIONS: dict[str, Callable[..., Any]] = {}
_METHODS: dict[str, Callable[..., Any]] = {}
_FUNCTIONS_OF_ARRAYS: list[Callable[[str], Any]] = []
_TRACED_DEVICE: list[Callable[[str], bool]] = []
_TENSORS: list[Callable[[str, Any, str | None, bool], Any]] = []
_FRONT: list[Callable[[str], bool]] = []
_PLACEMENT: list[Callable[[Any, str | None, Any], Any]] = []
_EVALUATOR: list[Evaluator] = []
_GENERATION: list[int] = [0]
_WATCHING: list[Callable[[], None]] = []
_OF_USERS: list[Any] = []
_HOOKS: list[Callable[[], bool]] = []
_LIBRARIES: list[str] = []
_LOADED: list[bool] = []


def registry() -> dict[str, OpClass]:
    """The registered op classes, subclasses of `TensorOp`, by IR name, in order of definition."""
    _load_library()
    return _REGISTRY


def find_function(name: str) -> Callable[..., Any] | None:
    """The function of the op called `name` without its dialect (`exp`), or of one of its aliases."""
    _load_library()
    return _FUNCTIONS.get(name)


def install_library(module: str) -> None:
    """Have `module`, whose import registers Tenon's own ops, imported by the first look-up of anything by its name.

    Its last statement must define `__all__`.
    """
    _LIBRARIES[:] = [module]


def _load_library() -> None:
    # Ops call each other by name, so that the library is needed by the time of the first call, and not before. Every
    # look-up loads it, because a user's op must not be found under the name of one of Tenon's.
    if not _LOADED:
        libraries = [import_module(name) for name in _LIBRARIES]
        # Ops look each other up while the library is being loaded, too; its list of names comes last.
        if all(hasattr(library, "__all__") for library in libraries):
            _LOADED.append(True)


def function_names() -> list[str]:
    """The names that `find_function` knows."""
    _load_library()
    return list(_FUNCTIONS)


def generation() -> int:
    """How often an op or a function has taken the place of another one of its name.

    What was computed from ops is stale when this has changed, whatever the op: ops call each other by name. It changes,
    too, when something that hooks of users read is another one.
    """
    for changed in _HOOKS:
        if changed():
            _start_generation()
    return _GENERATION[0]


def of_users() -> list[Any]:
    """The op classes and plain functions that are not Tenon's own, in order of definition, with former ones."""
    return _OF_USERS


def watch_hooks(changed: Callable[[], bool]) -> None:
    """Have `changed` asked whether something that hooks read is another one."""
    _HOOKS[:] = [changed]


def watch_generation(changed: Callable[[], None]) -> None:
    """Have `changed` called after each change of `generation`."""
    _WATCHING.append(changed)


def _start_generation() -> None:
    _GENERATION[0] += 1
    for changed in _WATCHING:
        changed()


def tensor_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a plain function of values part of the functions that ops and users find by name.

    Defined again, it replaces the former one. A user's function never takes over the name of one of Tenon's, which a
    warning tells: Tenon's ops call each other by name, too.
    """
    name = function.__name__
    existing = _FUNCTIONS.get(name)
    if not _is_own(function) and (_is_front(name) or (existing is not None and _is_own(existing))):
        warnings.warn(f"tenon.{name} stays the function of Tenon's own", stacklevel=2)
        return function
    _FUNCTIONS[name] = function
    if not _is_own(function):
        _OF_USERS.append(function)
    if existing is not None:
        _start_generation()
    return function


def also_function(function: Callable[..., Any], *names: str) -> None:
    """Have a plain function of Tenon's own found under other names, too."""
    for name in names:
        _FUNCTIONS[name] = function


def value_method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a plain function of a value, and of what else it is given, something that `Value` does by its name."""
    _METHODS[function.__name__] = function
    return function


def find_method(name: str) -> Callable[..., Any]:
    """What `value_method` was given under `name`."""
    _load_library()
    return _METHODS[name]


def _is_front(name: str) -> bool:
    return bool(_FRONT) and _FRONT[0](name)


def _is_own(function: Callable[..., Any]) -> bool:
    """Whether what `_FUNCTIONS` has is Tenon's own: an op's function, or a plain one."""
    return str(getattr(getattr(function, "op", function), "__module__", "")).startswith("tenon.")


def is_of_user(op_type: OpClass) -> bool:
    """Whether an op is defined outside of Tenon and xDSL."""
    return not op_type.__module__.startswith(("tenon.", "xdsl."))


def install_evaluator(evaluator: Evaluator) -> None:
    """Set what runs ops on concrete arrays, outside of any trace."""
    _EVALUATOR[:] = [evaluator]


def install_functions(find: Callable[[str], Any]) -> None:
    """Set what finds the functions that are called outside of any trace, by their names."""
    _FUNCTIONS_OF_ARRAYS[:] = [find]


def install_front(has_own: Callable[[str], bool]) -> None:
    """Set what tells whether the front module has something of its own by a name, which no op's function can take."""
    _FRONT[:] = [has_own]


def install_placement(place: Callable[[Any, str | None, Any], Any]) -> None:
    """Set what brings an array of the host to a device, or, where none is said, to where another array is."""
    _PLACEMENT[:] = [place]


def install_traced_device(check: Callable[[str], bool]) -> None:
    """Set what tells whether what is traced runs on a device."""
    _TRACED_DEVICE[:] = [check]


def is_traced_device(device: str) -> bool:
    """Whether what is traced now is known to run on a device."""
    return bool(_TRACED_DEVICE) and _TRACED_DEVICE[0](device)


def placed(array: Any, device: str | None, like: Any = None) -> Any:
    """An array that was made on the host, on a device, or where `like` is."""
    return _PLACEMENT[0](array, device, like) if _PLACEMENT and (device is not None or like is not None) else array


def install_tensors(make: Callable[[str, Any, str | None, bool], Any]) -> None:
    """Set what makes a tensor of what a function of that name has made, on a device, that may require a gradient."""
    _TENSORS[:] = [make]


def as_asked(function: str, made: Any, device: str | None, requires_grad: bool) -> Any:
    """What a function has made, as a tensor where the call names a device or asks for gradients.

    Else it stays an array, which a function of `jit` may read from around it, and which is a parameter in a module.
    """
    return made if device is None and not requires_grad else _TENSORS[0](function, made, device, requires_grad)


def by_default(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that creates, as users call it: on the device that is the default, if there is one."""

    @functools.wraps(function)
    def create(*args: Any, **kwargs: Any) -> Any:
        if DEFAULT_DEVICE and kwargs.get("device") is None:
            kwargs["device"] = DEFAULT_DEVICE[0]
        return function(*args, **kwargs)

    return create


def find_function_of_arrays(name: str) -> Any:
    """What `find_function` finds, as it is called outside of any trace."""
    return (_FUNCTIONS_OF_ARRAYS[0] if _FUNCTIONS_OF_ARRAYS else find_function)(name)


def evaluate(cls: OpClass, operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Run op `cls` on concrete arrays, by what the runtime installed."""
    if not _EVALUATOR:
        raise RuntimeError(f"{cls.name}: nothing runs ops on arrays yet; import tenon.runtime.evaluate")
    return _EVALUATOR[0](cls, operands, settings)


def register(cls: OpClass, function: Callable[..., Any]) -> None:
    """Add an op and its function, under the op's name and its aliases.

    An op defined again in the same module replaces the former one, as when a notebook cell is run again; of another
    module it is an error. A user's op never takes over the name of one of Tenon's functions, which a warning tells.
    """
    previous = _REGISTRY.get(cls.name)
    if previous is not None and previous.__module__ != cls.__module__:
        raise ValueError(f"{cls.name}: already defined by {previous.__module__}.{previous.__qualname__}")
    _REGISTRY[cls.name] = cls
    if not _is_own(function):
        _OF_USERS.append(cls)
    is_new = previous is None
    for name in (cls.name.rpartition(".")[2], *cls.ALIASES) if cls.HAS_FUNCTION else ():
        existing = _FUNCTIONS.get(name)
        op = getattr(existing, "op", None)
        is_taken = existing is not None and _is_own(existing) and (op is None or op.name != cls.name)
        if is_taken or (not _is_own(function) and _is_front(name)):
            warnings.warn(
                f"{cls.name}: tenon.{name} stays the function of Tenon's own; call {cls.__name__}.apply", stacklevel=4
            )
            continue
        if op is not None and op.name != cls.name and not _is_own(function):
            warnings.warn(
                f"{cls.name}: tenon.{name} is this op from now on; {op.name} is reached through its class only",
                stacklevel=4,
            )
        is_new = is_new and existing is None
        _FUNCTIONS[name] = function
    if not is_new:
        _start_generation()
