"""What a program was compiled for, and whether a call is one for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tenon.runtime.arguments.arguments import WIDE_FLOAT, Parameters, WideFloat
from tenon.runtime.arguments.frozen import FrozenArguments
from tenon.runtime.arguments.leaf_sizes import LeafSizes
from tenon.runtime.arguments.orders import Orders, Place
from tenon.runtime.arguments.tree import Structure


@dataclass(frozen=True)
class Signature:
    """What a program was compiled for: the parameters of its function, the key of the call, and the call in words.

    `names` are those of the leaves that are data.
    """

    parameters: Parameters
    key: tuple[Any, ...]
    described: dict[str, str]
    names: tuple[str, ...]
    sizes: LeafSizes | None = None
    frozen: FrozenArguments | None = None
    """The arguments that calls do not give."""
    orders: Orders = field(default_factory=dict[int, Place])
    """Those of the data, by position."""

    def joined(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """All arguments of a call that gives these, keywords in the order of the call compiled for."""
        if self.frozen is not None:
            args, kwargs = self.frozen.joined(self.parameters.name, args, kwargs)
        _, keywords = self.key[0].children
        if kwargs.keys() == set(keywords.names):
            kwargs = {name: kwargs[name] for name in keywords.names}
        return args, kwargs

    def arrays(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The data of all arguments of a call that must be like the one compiled for; raises `TypeError` naming what
        differs."""
        leaves, structure = self.parameters.take_apart(args, kwargs)
        key, arrays = self.parameters.signature(leaves, structure, self.sizes)
        if key != self.key and WIDE_FLOAT in key and WIDE_FLOAT not in self.key:
            leaves = [float(leaf) if type(leaf) is WideFloat else leaf for leaf in leaves]
            key, arrays = self.parameters.signature(leaves, structure, self.sizes)
        if key != self.key:
            given = self.parameters.described(leaves, structure, self.sizes)
            names = [name for name in {**self.described, **given} if self.described.get(name) != given.get(name)]
            shown = self.parameters.described(leaves, structure)
            differences = [
                f"{n} is {shown.get(n, 'absent')} where {self.described.get(n, 'nothing')} is needed" for n in names
            ]
            given_as, compiled_for = _call_form(structure), _call_form(self.key[0])
            if not differences and given_as != compiled_for:
                differences = [f"arguments are given as {given_as} where {compiled_for} is needed"]
            raise TypeError(
                f"{self.parameters.name}: {', '.join(differences) or 'the arguments have another structure'}"
            )
        return arrays


def _call_form(structure: Structure) -> str:
    """How a call gives its arguments: by position and by keyword."""
    positional, keywords = structure.children
    return f"({', '.join(['_'] * len(positional.children) + [f'{name}=_' for name in keywords.names])})"
