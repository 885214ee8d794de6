"""`torch.nn.utils.parametrize` by its names: parameters that modules compute of others whenever they are asked for.

A module with such a parameter is of a class of its own, in which that is a property; what it is computed of lies in
`module.parametrizations`, by PyTorch's names. So it takes part in all that modules take part in: traces, optimizers,
checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tenon.dialects.support.suggestion import attribute_hints
from tenon.eager.modes import no_grad
from tenon.eager.parameters import as_arrays
from tenon.eager.tensor import Parameter, Tensor
from tenon.nn.container import ModuleDict, ModuleList
from tenon.nn.module import Array, Module


class ParametrizationList(ModuleList):
    """The modules that compute a parameter, one after the other, and what the first one is given: `original`, or, of
    several, `original0`, `original1`, ...

    Called without arguments, it is the parameter.
    """

    def __init__(self, modules: Any, value: Array) -> None:
        super().__init__(modules)
        given = self._inverse(value)
        self.is_one = not isinstance(given, tuple | list)
        self.count = 1 if self.is_one else len(given)
        originals = [given] if self.is_one else given
        for name, original in zip(self.original_names, originals, strict=True):
            self.register_parameter(name, in_place_of(original, value))

    @property
    def original_names(self) -> list[str]:
        """The names of what the first module is given."""
        return ["original"] if self.is_one else [f"original{number}" for number in range(self.count)]

    def _inverse(self, value: Any) -> Any:
        with no_grad():
            for module in reversed([*self]):
                if hasattr(module, "right_inverse"):
                    value = module.right_inverse(value)
        return value

    def right_inverse(self, value: Array) -> None:
        """Have the parameter be `value`, as far as the modules say of what they compute that: by `right_inverse`."""
        given = self._inverse(value)
        with no_grad():
            for name, made in zip(self.original_names, [given] if self.is_one else given, strict=True):
                own = getattr(self, name)
                if isinstance(own, Tensor):
                    own[...] = made.detach() if isinstance(made, Tensor) else made
                else:
                    setattr(self, name, made)

    def forward(self) -> Array:
        first, *others = self
        value = first(*[getattr(self, name) for name in self.original_names])
        for module in others:
            value = module(value)
        return value


def in_place_of(made: Any, value: Any) -> Any:
    """A new array in the place of `value`: a parameter, where that is one."""
    if not isinstance(value, Tensor):
        return made.detach().numpy() if isinstance(made, Tensor) else made
    if made is value:
        return value
    return Parameter(made.detach() if isinstance(made, Tensor) else made, requires_grad=value.requires_grad)


class Computed:
    """How a parameter of a module is computed; a part of the module's class, told from others by its value."""

    name: str

    def get(self, module: Any) -> Any:
        """The parameter."""
        raise NotImplementedError

    def put(self, module: Any, value: Any) -> None:
        """Have the parameter be `value`."""
        raise NotImplementedError


@dataclass(frozen=True)
class OfParametrizations(Computed):
    """A parameter as the modules in `parametrizations` compute it."""

    name: str

    def get(self, module: Any) -> Any:
        return module.parametrizations[self.name]()

    def put(self, module: Any, value: Any) -> None:
        module.parametrizations[self.name].right_inverse(value)


def _property(how: Computed) -> property:
    def get(module: Any) -> Any:
        try:
            return how.get(module)
        except AttributeError as error:  # which would mean that there is no such attribute
            raise RuntimeError(f"{how.name} of a {type(module).__name__}: {error}") from error

    return property(get, how.put, doc=f"The parameter `{how.name}`, which is computed.")


@lru_cache(maxsize=1024)
def _kind_with(base: type[Module], parameters: tuple[Computed, ...]) -> type[Module]:
    """The class of modules like those of `base` that compute some parameters."""

    def reduce(self: Any, _: Any) -> Any:
        return _rebuilt, (base, parameters, vars(self))

    properties = {how.name: _property(how) for how in parameters}
    own = {"__module__": base.__module__, "__doc__": base.__doc__, "__reduce_ex__": reduce}
    return type(f"Parametrized{base.__name__}", (base,), {**own, "PLAIN": base, "COMPUTED": parameters, **properties})


def _rebuilt(base: type[Module], parameters: tuple[Computed, ...], attributes: dict[str, Any]) -> Module:
    module = object.__new__(_kind_with(base, parameters))
    vars(module).update(attributes)
    return module


def computed_of(module: Module) -> tuple[Computed, ...]:
    """The parameters that a module computes."""
    return getattr(type(module), "COMPUTED", ())


def compute(module: Module, how: Computed) -> None:
    """Have a module compute a parameter, which is taken from its attributes. Raises `KeyError` if it is none."""
    if any(known.name == how.name for known in computed_of(module)):
        raise ValueError(f"{how.name} of a {type(module).__name__} is computed already")
    if how.name not in vars(module):
        raise KeyError(f"{type(module).__name__} has no parameter {how.name!r}")
    delattr(module, how.name)
    module.__class__ = _kind_with(type_before_parametrizations(module), (*computed_of(module), how))


def store(module: Module, how: Computed, value: Any, parts: Sequence[str] = ()) -> None:
    """Have a parameter that a module computes be `value` as an attribute again, instead of those with its name and one
    of `parts` behind it, of which it was computed."""
    for part in parts:
        delattr(module, f"{how.name}{part}")
    if parts:
        module.buffer_names = tuple([known for known in module.buffer_names if known in vars(module)])
    kept = tuple([known for known in computed_of(module) if known != how])
    plain = type_before_parametrizations(module)
    module.__class__ = _kind_with(plain, kept) if kept else plain
    setattr(module, how.name, value)


def register_parametrization(module: Any, tensor_name: str, parametrization: Module) -> Any:
    """Have the parameter `tensor_name` be what `parametrization` computes of the one that is there, or of what its
    `right_inverse` makes of that; and, if one is registered already, of what that computes.

    Raises `ValueError` where it gives another shape or dtype, and `KeyError` where there is no such parameter.
    """
    how = OfParametrizations(tensor_name)
    is_first = how not in computed_of(module)
    value = as_arrays(getattr(module, tensor_name, None))
    if value is None:
        raise KeyError(f"{type(module).__name__} has no parameter {tensor_name!r}")
    known = [] if is_first else [*module.parametrizations[tensor_name]]
    made = ParametrizationList([*known, parametrization], value) if is_first else None
    if made is None and hasattr(parametrization, "right_inverse"):
        raise ValueError(f"{tensor_name}: only the first parametrization may have a right_inverse")
    found = made() if made is not None else parametrization(value)
    if (tuple(found.shape), found.dtype) != (tuple(value.shape), value.dtype):
        raise ValueError(
            f"{tensor_name} of a {type(module).__name__} is {value.dtype}{list(value.shape)}, and the parametrization "
            f"gives {found.dtype}{list(found.shape)}"
        )
    if made is None:
        module.parametrizations[tensor_name].append(parametrization)
        return module
    compute(module, how)
    if "parametrizations" not in vars(module):
        module.parametrizations = ModuleDict()
    module.parametrizations[tensor_name] = made
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a parameter of a module is computed, or the one that is named."""
    names = [how.name for how in computed_of(module) if isinstance(how, OfParametrizations)]
    return bool(names) if tensor_name is None else tensor_name in names


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """Make `tensor_name` a parameter again: what was computed last, or, without `leave_parametrized`, what that was
    computed of, if it is one."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"{tensor_name} of a {type(module).__name__} is not parametrized")
    made = module.parametrizations[tensor_name]
    if not leave_parametrized and not made.is_one:
        raise ValueError(f"{tensor_name} is computed of {made.count} parameters: leave_parametrized=False has none")
    original = as_arrays(getattr(made, made.original_names[0]))
    with no_grad():
        value = made() if leave_parametrized else original
    if leave_parametrized and isinstance(original, Tensor) and made.is_one:
        original.data = value  # which optimizers go on to change
        value = original
    del module.parametrizations[tensor_name]
    if not len(module.parametrizations):
        del module.parametrizations
    store(module, OfParametrizations(tensor_name), in_place_of(value, original))
    return module


def type_before_parametrizations(module: Module) -> type[Module]:
    """The class of a module that computes no parameter."""
    return getattr(type(module), "PLAIN", type(module))


__all__ = [
    "ParametrizationList",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "type_before_parametrizations",
]

if not TYPE_CHECKING:
    __getattr__ = attribute_hints(
        __name__, {"cached": "a parameter is computed where it is asked for; keep it in a variable to use it twice"}
    )
