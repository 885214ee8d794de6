"""What a traced function reads besides its arguments, with the tensors and the state that its program is given."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenon.eager.changes import sharing
from tenon.eager.recording import Stored
from tenon.nn.module import Module
from tenon.runtime.reads.places import Place
from tenon.runtime.reads.reads import Reads, found_in


class TensorReads(Reads):
    """What was found, and the tensors and modules among it."""

    has_inputs = True

    def __init__(self) -> None:
        super().__init__()
        self.tensors: dict[int, tuple[Any, str]] = {}
        """Tensors and what they are called, by identity."""
        self.modules: list[Module] = []

    def _visit(self, value: Any, place: Place | None, name: str, *, data: Any = None) -> None:
        super()._visit(value, place, name, data=data)
        if isinstance(value, Stored) and data == () and place is not None:
            self.tensors[id(value)] = (value, name)  # what a module calls its parameters is what others know

    def _enter(self, value: Any, name: str, data: Any) -> None:
        if not isinstance(value, Stored):
            super()._enter(value, name, data)
            return
        self.tensors.setdefault(id(value), (value, name))
        for held in (*(() if value._view is None else (value._view.base,)), *sharing(value)):
            if id(held) not in self.objects:
                self._visit(held, None, f"{name}.base")

    def _add_object(self, value: Any, name: str) -> None:
        if isinstance(value, Module):
            self.modules.append(value)
        super()._add_object(value, name)

    def _is_input(self, owner: Any, place: Place, value: Any, data: Any) -> bool:
        is_buffer = isinstance(owner, Module) and place.key in owner.buffer_names
        if is_buffer and isinstance(value, Stored) and value._source is None:
            self.data.append((place, value, False))
            return True
        return False


def reads_of(function: Callable[..., Any], arguments: list[tuple[Any, str]]) -> TensorReads:
    """What `function` may read, and what can be reached from those of its arguments that are no arrays."""
    reads = TensorReads()
    found_in(reads, function, arguments)
    return reads
