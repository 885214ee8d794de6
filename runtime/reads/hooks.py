"""What hooks of users' ops read besides what they are given: numbers, arrays and functions from around them.

What an op means is computed from its hooks once and kept, so that a hook counts as it is with what it reads. Where
something there is another one, ops count as defined again: whatever asks for the `generation` compares, and so does
every native call of what users' ops may have gone into.
"""

from __future__ import annotations

import warnings
from collections import Counter, deque
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from tenon.dialects.definition.registry import of_users, watch_hooks
from tenon.dialects.support.forking import new_lock
from tenon.dialects.support.user_traceback import user_stacklevel
from tenon.runtime.call.entry_words import Guard
from tenon.runtime.call.loaded import holding
from tenon.runtime.reads.guards import Guards, is_fixed
from tenon.runtime.reads.libraries import is_library_class
from tenon.runtime.reads.reads import Reads

_LARGE = 1 << 16
"""Bytes of an array from which on it is the same as long as it is that very array: others are compared at each call."""
_MANY = 16
"""Changes of what an op's hooks read after which no more are looked for: a hook that changes it itself has no end."""


class Hooks:
    """Guards of what hooks read, by the names of ops."""

    def __init__(self) -> None:
        self._seen = 0
        self._definitions: dict[str, Any] = {}
        self._guards: dict[str, Guards] = {}
        self._changes = Counter[str]()
        self._lock = new_lock()
        self._finish()

    def _finish(self) -> None:
        guards = [*self._guards.values()]
        self.native: list[Guard] = [guard for own in guards for guard in own.native]
        """The guards for native code."""
        # In Python it takes a hundred times as long, and every op that is built asks.
        native = holding(self.native) if self.native else None
        self.hold = native or (lambda: all(own.hold() for own in guards))

    def changed(self) -> bool:
        """Whether something is another than when this was asked last."""
        definitions = of_users()
        if self._seen == len(definitions) and (not self.native or self.hold()):
            return False
        with self._lock:
            changed = [name for name, guards in self._guards.items() if not guards.hold()]
            for name in changed:
                self._note_change(name)
            new = {_name_of(definition): definition for definition in definitions[self._seen :]}
            self._seen = len(definitions)
            self._definitions |= new
            for name in {*changed, *new}:
                self._read(name)
            self._finish()
        return bool(changed)

    def _note_change(self, name: str) -> None:
        self._changes[name] += 1
        if self._changes[name] == _MANY:
            warnings.warn(
                f"{name}: {self._guards[name].broken()}, which its hooks read, has changed {_MANY} times and counts as "
                "it is from now on; hooks are pure functions: pass what changes as an operand or a setting",
                stacklevel=user_stacklevel(),
            )

    def _read(self, name: str) -> None:
        guards = None if self._changes[name] >= _MANY else _guards_of(self._definitions[name])
        if guards is None:
            self._guards.pop(name, None)
        else:
            self._guards[name] = guards


def _guards_of(definition: Any) -> Guards | None:
    """What must be as it is for an op to mean what it means, or a plain function; `None` where nothing must."""
    reads, hooks = Reads(), [*_hooks_of(definition)]
    for hook in hooks:
        reads.add_function(hook)
    # The hooks themselves are another's when the op is defined again, and classes get attributes while they are used.
    reads.functions = [(function, parts) for function, parts in reads.functions if function not in hooks]
    reads.lengths = [(held, count) for held, count in reads.lengths if isinstance(held, dict | list | deque)]
    large = [(place, array) for place, array in reads.arrays if array.nbytes > _LARGE]
    reads.identities += [(place, array) for place, array in large if place is not None]
    reads.arrays = [(place, array) for place, array in reads.arrays if array.nbytes <= _LARGE]
    guards = Guards()
    guards.add_reads(reads, {id(array): array if is_fixed(array) else array.copy() for _, array in reads.arrays})
    guards.finish()
    return guards if len(guards) else None


def _name_of(definition: Any) -> str:
    return definition.name if isinstance(definition, type) else definition.__name__


def _hooks_of(definition: Any) -> Iterator[FunctionType]:
    if not isinstance(definition, type):
        yield definition
        return
    kernels: Any = getattr(definition, "KERNELS", ())
    members = [member for base in definition.__mro__ if not is_library_class(base) for member in vars(base).values()]
    for member in (*members, *[part for kernel in kernels for part in vars(kernel).values()]):
        function = getattr(member, "__func__", member)
        if isinstance(function, FunctionType):
            yield function


HOOKS = Hooks()
watch_hooks(HOOKS.changed)
