"""What a function of `jit` reads while it is traced, and the guards of its program.

What it reads is found before the trace and compared with what is there after it. What the function itself has changed
meanwhile (a list that it appends to, a count) is no input of what it computes but something that it does once, as it is
traced: it is not guarded.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Sequence
from copy import copy
from functools import partial
from typing import Any

from tenon.runtime.arguments.arguments import Static
from tenon.runtime.arguments.tree import Structure
from tenon.runtime.reads.guards import Guards, content_of, is_fixed, is_made_of, same, same_array
from tenon.runtime.reads.places import GONE, MISSING, Place
from tenon.runtime.reads.reads import Reads, found_in
from tenon.runtime.reads.seen import Seen
from tenon.runtime.tracing.trace import Captures


class Reading:
    """One trace of `function`, with what it may read."""

    def __init__(
        self,
        function: Callable[..., Any],
        leaves: Sequence[Any],
        structure: Structure,
        *,
        on_gpu: bool = False,
        captures: Captures | None = None,
        reads: Reads | None = None,
    ) -> None:
        """`leaves` are those arguments that are no data; `on_gpu` says where the program runs. `captures` are given to
        the trace, and `reads` finds what may be read, in the place of those that programs of `jit` have."""
        self._reads = reads = reads or Reads()
        reads.add_structure(structure)
        objects = [leaf.value if isinstance(leaf, Static) else leaf for leaf in leaves]
        found_in(reads, function, [(value, "an argument") for value in objects])
        self.has_changed = False
        """Whether something was another one after the trace, once the guards are made."""
        self._kept = {id(array): array if is_fixed(array) else array.copy() for _, array in reads.arrays}
        self._collections = [copy(content_of(collection)) for collection in reads.collections]
        self.captures: Captures = captures or Seen(on_gpu=on_gpu)
        """What the trace must be given."""

    def guards(self, told: Container[int] = ()) -> Guards | None:
        """What must hold for the program to be run, now that it is traced; `None` where nothing needs to. What is
        `told` from others by its key, functions and variables of closures, is not compared."""
        reads, kept = self._reads, self._kept
        before = self._count()
        moved = {id(h.container) for h in reads.held if isinstance(h.container, list) and h.changes()}

        def stays(place: Place | None, is_as_before: Callable[[Any], bool]) -> bool:
            if place is None:
                return True
            try:
                return is_as_before(place.get())
            except GONE:
                return False

        reads.identities = [(p, value) for p, value in reads.identities if stays(p, partial(operator.is_, value))]
        reads.constants = [(p, value) for p, value in reads.constants if stays(p, partial(same, value))]
        reads.arrays = [
            (p, array)
            for p, array in reads.arrays
            if stays(p, partial(operator.is_, array)) and same_array(array, kept[id(array)])
        ]
        reads.lengths = [(held, count) for held, count in reads.lengths if len(held) == count and id(held) not in moved]
        reads.keys = [(held, keys) for held, keys in reads.keys if tuple(held) == keys]
        reads.functions = [(function, parts) for function, parts in reads.functions if is_made_of(function, parts)]
        reads.absent = [place for place in reads.absent if place.found() is MISSING]
        reads.collections = [
            now for now, before in zip(reads.collections, self._collections, strict=True) if content_of(now) == before
        ]
        self.has_changed = self._count() != before or any(holder.changes() for holder in reads.held)
        reads.identities = [(p, value) for p, value in reads.identities if id(p.container) not in told]
        reads.constants = [(p, value) for p, value in reads.constants if id(p.container) not in told]
        reads.absent = [place for place in reads.absent if id(place.container) not in told]
        reads.functions = [(function, parts) for function, parts in reads.functions if id(function) not in told]
        guards = Guards()
        guards.add_reads(reads, kept)
        for array, elements in self.captures.foreign:
            if id(array) not in kept and same_array(array, elements):
                guards.add_array(None, array, elements)
        guards.add_read_on_gpu(reads, self.captures.arrays)
        guards.finish()
        return guards if guards else None

    def _count(self) -> int:
        reads = self._reads
        found = reads.identities, reads.constants, reads.arrays, reads.lengths, reads.keys
        return sum(map(len, (*found, reads.functions, reads.absent, reads.collections)))
