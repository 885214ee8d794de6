"""Dimensions of arguments that may have any size: how they are named, and programs that serve all sizes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp, TensorType

from tenon.dialects.types.size import Size, UndecidedSizeError
from tenon.dialects.types.types import is_static
from tenon.runtime.arguments.arguments import Parameters, Static, is_array
from tenon.runtime.arguments.interface import Interface, input_names, main_function
from tenon.runtime.arguments.leaf_sizes import LeafSizes
from tenon.runtime.arguments.tree import Structure
from tenon.runtime.executables import Executable, executable
from tenon.runtime.knobs import knobs

DynamicAxes = Sequence[Any] | Mapping[int, Any]
"""The names of dimensions: an entry for each, `None` where it is compiled for, or entries by axis."""


class DynamicDimensions:
    """What the setting `dynamic` of `jit` says, by argument."""

    def __init__(self, function: str, given: Any) -> None:
        if not isinstance(given, Mapping):
            raise TypeError(f"{function}: dynamic is {given!r} where names of axes by argument are needed")
        self._function = function
        self._given = {name: self._by_axis(name, axes) for name, axes in given.items()}
        self._known: dict[Any, LeafSizes] = {}
        # The signatures that cannot be compiled for all sizes.
        self.refused: set[Any] = set()

    def _by_axis(self, argument: str, axes: Any) -> dict[int, Any]:
        entries = axes.items() if isinstance(axes, Mapping) else enumerate(axes) if not isinstance(axes, str) else None
        if entries is None:
            raise TypeError(f"{self._function}: dynamic: {argument} is {axes!r} where a name for each axis is needed")
        sizes: dict[int, Any] = {}
        for axis, name in entries:
            if isinstance(axis, bool) or not isinstance(axis, int):
                raise TypeError(f"{self._function}: dynamic: an axis of {argument} is {axis!r}, which is no integer")
            if isinstance(name, str):
                sizes[axis] = Size.named(name)
            elif isinstance(name, Size):
                sizes[axis] = name
            elif name is not None:
                raise TypeError(
                    f"{self._function}: dynamic: axis {axis} of {argument} is {name!r}, which is no name; None stands "
                    "for a size that is compiled for"
                )
        return sizes

    def sizes_of(self, leaves: Sequence[Any], structure: Structure, parameters: Parameters) -> LeafSizes:
        """The dimensions of the leaves of a call that may have any size; raises `ValueError` naming what is missing."""
        ranks = tuple([len(shape) if (shape := getattr(x, "shape", None)) is not None else 0 for x in leaves])
        known = self._known.get((structure, ranks))
        if known is None:
            known = self._known[structure, ranks] = self._found(leaves, ranks, structure, parameters)
        return known

    def _found(
        self, leaves: Sequence[Any], ranks: Sequence[int], structure: Structure, parameters: Parameters
    ) -> LeafSizes:
        names = parameters.leaf_names(structure)
        by_position: dict[int, dict[int, Any]] = {}
        for argument, axes in self._given.items():
            positions = [i for i, name in enumerate(names) if name == argument or name.startswith(f"{argument}.")]
            if not positions:
                raise ValueError(f"{self._function}: dynamic: no argument is named {argument} ({', '.join(names)})")
            for position in positions:
                if isinstance(leaves[position], Static) or not is_array(leaves[position]):
                    continue
                rank = ranks[position]
                if outside := [axis for axis in axes if not -rank <= axis < rank]:
                    raise ValueError(
                        f"{self._function}: dynamic: {names[position]} has rank {rank} and no axis {outside[0]}"
                    )
                by_position[position] = {axis % rank: size for axis, size in axes.items()}
                if len(by_position[position]) < len(axes):
                    raise ValueError(f"{self._function}: dynamic: an axis of {names[position]} is named twice")
        return LeafSizes(by_position)


def has_unknown_sizes(module: ModuleOp) -> bool:
    """Whether `@main` takes tensors, some of which have dimensions that are not known."""
    types = main_function(module).function_type.inputs.data
    return all(isinstance(t, TensorType) for t in types) and not all(map(is_static, types))


def name_unknown_sizes(module: ModuleOp) -> None:
    """Name the unknown dimensions of the arguments of `@main`, if there are any, in place.

    Raises `InferenceError` where ops ask for sizes that cannot be told.
    """
    if has_unknown_sizes(module):
        from tenon.passes.transform.name_sizes import name_sizes

        name_sizes(module)


def executable_for_all_sizes(
    module: ModuleOp, device: str, name: str, shapes: Sequence[tuple[int, ...]]
) -> Executable | None:
    """The executable of a module with unknown dimensions, which is compiled once, for arguments of `shapes`.

    `None` where the module has none, or must be compiled for these shapes: then the reason is said where that is
    wanted. Raises `SizeMismatchError` where the shapes contradict the names that the module declares.
    """
    if not has_unknown_sizes(module):
        return None
    _check_declared_sizes(module, shapes)
    if knobs.interpret:
        return None
    named = module.clone()
    try:
        if device != "cpu":
            raise UndecidedSizeError(f"programs for {device} are compiled for known sizes")
        name_unknown_sizes(named)
        made = executable(named, device, name)
        made.interface.bind(shapes)
    except Exception as error:  # an error of the program itself is found again when it is compiled for the shapes
        say_why_specialized(name, error)
        return None
    return made


def _check_declared_sizes(module: ModuleOp, shapes: Sequence[tuple[int, ...]]) -> None:
    from tenon.passes.named_shapes import declared_shapes

    main = main_function(module)
    declared = zip(declared_shapes(main), shapes, strict=True)
    inputs = tuple([(given if sizes is None else tuple(sizes), "") for sizes, given in declared])
    Interface(inputs, (), 0, (), names=input_names(main, len(inputs))).bind(shapes)


def say_why_specialized(name: str, reason: Exception) -> None:
    """Say on stderr, where that is wanted, why a program is compiled for the sizes of its arguments alone."""
    if knobs.log_compiles or knobs.debug >= 1:
        print(f"tenon: {name} is compiled for the sizes of its arguments: {reason}", file=sys.stderr)
