"""Native calls of compiled functions: what a call looks like is written down once, and calls like it stay out of
Python.

A `Dispatch` belongs to one callable and keeps its entries, those used last first. Where the native code does not apply
(see `loaded`), there are no entries, and every call takes the general way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from tenon.dialects.support.forking import new_lock
from tenon.dialects.types.size import Size
from tenon.dialects.types.types import element_type, is_float
from tenon.runtime.arguments.orders import Orders
from tenon.runtime.arguments.tree import LEAF, Structure
from tenon.runtime.call.callable_class import native_class, set_vector_call
from tenon.runtime.call.donation import Donated
from tenon.runtime.call.entry_words import NOT_TRACED, Guard, Place, Traced, Words, guard_words
from tenon.runtime.call.launch import Launch
from tenon.runtime.call.layout import ANY_PRECISION, ENTRY, RESULT, TABLE
from tenon.runtime.call.loaded import native_call
from tenon.runtime.call.size_steps import SizeSteps, UnboundSizeError
from tenon.runtime.call.steps import NUMBERS, Arguments, Building, IndescribableError, Numbers
from tenon.runtime.knobs import knobs

ACTIVE, MADE = 16, 256
"""How many entries of a callable are looked through, and how many are ever made."""
_BYTE = np.dtype(np.uint8)
_COUNT, _FIRST_ENTRY = TABLE.word("count"), TABLE.word("entries")


class Entry:
    """One way to call: words for native code, and the objects that they point to."""

    def __init__(self, words: Words, description: Mapping[str, int | Place], kept: Sequence[Any]) -> None:
        start = words.add(ENTRY.words(description)).index
        self._kept = (words.kept, kept)
        self._memory, address = words.finished()
        self._epoch, self._left = [start + ENTRY.word(name) for name in ("epoch", "calls_left")]
        self.most = int(self._memory[self._left])
        """The calls that it serves before Python is asked again whether it is the best for them; -1 for all."""
        self.address = address + 8 * start

    def renew(self, epoch: int, most: int) -> None:
        """Make the entry hold in this epoch, for so many calls."""
        self.most = most
        self._memory[self._epoch] = epoch
        self._memory[self._left] = most

    def holds_in(self, epoch: int) -> bool:
        """Whether the entry serves calls in this epoch."""
        return self._memory[self._epoch] == epoch

    def go_on(self) -> None:
        """Serve as many calls again, if all were served: Python has been asked."""
        if self._memory[self._left] == 0:
            self._memory[self._left] = self.most


def entry(
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    structure: Structure,
    result: Structure,
    launch: Launch,
    orders: Orders,
    out: str | None = None,
    *,
    numbers: Numbers = NUMBERS,
    call: Any = None,
    most: int = -1,
    precision: int = ANY_PRECISION,
    guards: Sequence[Guard] = (),
    donated: Donated | None = None,
    traced: Traced = NOT_TRACED,
) -> Entry:
    """The entry for calls like `(args, kwargs)`, whose structure is given, as is that of the result.

    Inputs with `orders` must lie like that. With `out`, the keyword argument of this name has arrays that the
    results are written to. Python's `numbers` are read by these steps. With `call`, what the tape calls them, tensors
    are taken for arrays. Arrays whose memory results take over are these, if not `donated`. It serves `most` calls
    until it is renewed (-1: any), under the `autocast` of a number (`precision`), as long as `guards` hold. Raises
    `IndescribableError` for calls like all others.
    """
    words = Words()
    given = [position for position, held in enumerate(launch.inputs) if held is None]
    taken = _memory_of_results(launch, given, has_out=out is not None)
    shapes = [*launch.shapes, *([] if out is None else [shape for _, _, shape in launch.results])]
    copies = knobs.debug < 2  # where they are to be told, they are made in Python
    by_leaf = {leaf: orders[position] for leaf, position in enumerate(given) if position in orders}
    count = len(args) + len(kwargs) + len(traced.extras)
    arguments = Arguments(words, count, taken, shapes, by_leaf, numbers=numbers, copies=copies, wanted=traced.leaves)
    opened(arguments, args, kwargs, structure, out, traced)
    sizes = arguments.sizes
    try:
        sizes.compare()
        for size in launch.positive:
            sizes.require_positive(size)
        program = _description(words, launch, taken, sizes, donated if out is None else None, traced.plain)
    except UnboundSizeError as error:
        raise IndescribableError from error
    target = (len(args) + [*kwargs].index(out), kwargs[out]) if out else None
    made = building(arguments, result, target, traced)
    description: dict[str, int | Place] = {
        **called(arguments, args, kwargs, made),
        **guarded(words, guards, traced, most, precision),
        "takes_over": int(any(leaf >= 0 for leaf in taken)),
        "slots": sizes.count,
        **_on_tensors(words, launch, call, traced),
        **program,
    }
    return Entry(words, description, (launch, structure, result))


def called(
    arguments: Arguments, args: tuple[Any, ...], kwargs: Mapping[str, Any], made: Building
) -> dict[str, int | Place]:
    """What the call looks like, of which all arguments are open, and what is made of its results."""
    return {
        "positional": len(args),
        "keywords": len(kwargs),
        "names": arguments.words.objects(list(kwargs)),
        "registers": arguments.registers,
        "step_count": arguments.count,
        "steps": arguments.finished(),
        "leaf_count": arguments.leaves,
        **made.described(),
    }


def guarded(words: Words, guards: Sequence[Guard], traced: Traced, most: int, precision: int) -> dict[str, int | Place]:
    """Where it holds, and what it is given besides arguments."""
    return {
        "epoch": -1,
        "calls_left": most,
        "precision": precision,
        "guard_count": len(guards) + len(traced.guards),
        "guards": guard_words(words, [*guards, *traced.guards]),
        "extra_count": len(traced.extras),
        "extras": guard_words(words, [guard for guard, _ in traced.extras]),
        "mode": traced.mode,
    }


def _on_tensors(words: Words, launch: Launch, call: Any, traced: Traced) -> dict[str, int | Place]:
    """What the tape calls it, and which results have gradients."""
    if traced.mode:
        return {"takes_tensors": 2, "call": 0, "gradients": 0}
    return {
        "takes_tensors": int(call is not None),
        "call": 0 if call is None else words.keep(call),
        "gradients": sum([is_float(element_type(dtype)) << i for i, (_, dtype, _) in enumerate(launch.results[:63])]),
    }


def building(arguments: Arguments, result: Structure, target: tuple[int, Any] | None, traced: Traced) -> Building:
    """How the result is put together: of new arrays, or it is the tree in a register, which has the arrays for it."""
    made = Building(arguments.words)
    if traced.mode:
        made.parts(traced.result)
    elif target is None:
        made.tree(result)
    else:
        arguments.copies = False
        arguments.open(*target, result)
        arguments.sizes.compare()
        made.register(target[0])
    return made


def opened(
    arguments: Arguments,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    structure: Structure,
    out: str | None,
    traced: Traced,
) -> None:
    """Take apart what a call is given, but what is called `out`, and the extras."""
    positional, keywords = structure.children
    for register, (value, child) in enumerate(zip(args, positional.children, strict=True)):
        arguments.open(register, value, child)
    children = dict(zip(keywords.names, keywords.children, strict=True))
    for register, (name, value) in enumerate(kwargs.items(), len(args)):
        if name != out:
            arguments.open(register, value, children[name])
    for register, (_, like) in enumerate(traced.extras, len(args) + len(kwargs)):
        arguments.open(register, like, LEAF)


def _memory_of_results(launch: Launch, given: Sequence[int], *, has_out: bool) -> list[int]:
    """For each result the leaf whose memory it is written to, -1 for none; leaves of `out` come after all others."""
    if has_out:
        return list(range(len(given), len(given) + len(launch.results)))
    leaf_of = {position: leaf for leaf, position in enumerate(given)}
    return [leaf_of.get(donor, -1) for donor, _, _ in launch.results]


def _description(
    words: Words,
    launch: Launch,
    taken: Sequence[int],
    sizes: SizeSteps,
    donated: Donated | None,
    plain: Sequence[int],
) -> dict[str, int | Place]:
    """What is run."""
    results: list[int | Place] = []
    for number, (leaf, (donor, dtype, shape)) in enumerate(zip(taken, launch.results, strict=True)):
        results += RESULT.words(
            {
                "leaf": leaf,
                "dtype": words.keep(dtype),
                "rank": len(shape),
                "shape": words.add([sizes.word(size) for size in shape]),
                "item_size": dtype.itemsize,
                "argument": words.keep(donated.names[donor]) if donated and donor >= 0 else 0,
                "is_plain": int(number in plain),
                "like": 0,
                "byte_count": 0,
            }
        )
    starts = [0 if held is None else held.ctypes.data for held in launch.inputs]
    ends = [0 if held is None else held.ctypes.data + held.nbytes for held in launch.inputs]
    arena = launch.arena
    memory: dict[str, int | Place] = (
        {"arena": arena.ctypes.data, "takes_arena": int(arena.nbytes > 0), "arena_slot": -1}
        if isinstance(arena, np.ndarray)
        else {"arena": 0, "takes_arena": 0, "arena_slot": sizes.slot(arena)}
    )
    return {
        "input_count": len(launch.inputs),
        "held": words.add(starts),
        "held_ends": words.add(ends),
        "result_count": len(launch.results),
        "results": words.add(results),
        "function": words.keep(donated.function) if donated else 0,
        "main": launch.main,
        "launch": 0,
        "allocate": 0,
        "marks": 0,
        "lost": 0,
        "spares": 0,
        "number_count": len(launch.sizes),
        "numbers": words.add([sizes.slot(Size.named(name)) for name in launch.sizes]),
        **memory,
        "byte": words.keep(_BYTE),
        "releases": int(launch.is_long),
    }


class Dispatch:
    """The entries of a callable. One thread at a time changes them; native code of all threads reads the table."""

    def __init__(self, general: Callable[..., Any]) -> None:
        self._general = general
        # A call from a finalizer may come while the same thread is in here.
        self._lock = new_lock()
        self._entries: dict[Any, Entry] = {}
        self._active: list[Entry] = []
        self._met: set[Any] = set()
        self._table = np.zeros(_FIRST_ENTRY + ACTIVE, np.int64)
        self._table[TABLE.word("general")] = id(general)

    def wants(self, key: Any, epoch: int, most: int = -1) -> bool:
        """Whether an entry should be made for calls of this kind, one of which was made in this epoch.

        Not for the first one, since most kinds of calls come once; and an entry that is there already holds again, for
        `most` calls.
        """
        with self._lock:
            for active in self._active:
                active.go_on()
            entry = self._entries.get(key)
            if entry is not None:
                self._use(entry, epoch, most)
                return False
            is_met = key in self._met
            if not is_met and len(self._met) < 4 * MADE:
                self._met.add(key)
        return is_met and len(self._entries) < MADE and native_call() is not None

    def has_room(self, key: Any) -> bool:
        """Whether there may be an entry for calls of this kind."""
        return key in self._entries or len(self._entries) < MADE

    def add(self, function: Any, key: Any, entry: Entry | None, epoch: int) -> None:
        """Let calls of `function`, an instance of a `native_class`, go by `entry` from now on, if there is one.

        Where another thread was faster, by the entry that is there: one in use must never go.
        """
        if entry is None:
            return
        native = native_call()
        with self._lock:
            entry = self._entries.setdefault(key, entry)
            if native is not None and set_vector_call(function, native, self._table.ctypes.data):
                self._use(entry, epoch, entry.most)

    def _use(self, entry: Entry, epoch: int, most: int) -> None:
        entry.renew(epoch, most)
        # Those of other epochs serve nothing, unless they are renewed, and would keep others out.
        used = [entry, *[other for other in self._active if other is not entry and other.holds_in(epoch)]]
        # Those that fit more calls than are theirs come last, and stay: they serve the calls of others that do not.
        general = [other for other in used if other.most >= 0][: ACTIVE // 2]
        active = self._active = [*[other for other in used if other.most < 0][: ACTIVE - len(general)], *general]
        # With the count at 0 meanwhile, native code never sees an entry that is not there.
        self._table[_COUNT] = 0
        self._table[_FIRST_ENTRY : _FIRST_ENTRY + len(active)] = [used.address for used in active]
        self._table[_COUNT] = len(active)


class NativeCalls:
    """What is called: calls like one that was made before go straight to native code, `__call__` serves all others.

    It asks the dispatch whether it wants to know of the calls that it has served.
    """

    _dispatch: Dispatch

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # a class that derives from one with native calls may call as it likes
        kind: type[Self] = native_class(cls) if NativeCalls in cls.__bases__ else cls
        made: Self = object.__new__(kind)
        made._dispatch = Dispatch(cls.__call__)
        return made

    def has_room(self, key: Any) -> bool:
        """Whether calls of this kind may go by an entry."""
        return self._dispatch.has_room(key)

    def serve(self, key: Any, entry: Entry, epoch: int) -> None:
        """Have calls of this kind go by an entry; there is room."""
        self._dispatch.add(self, key, entry, epoch)

    def __copy__(self) -> Self:
        made = type(self).__new__(type(self))
        vars(made).update({**vars(self), "_dispatch": made._dispatch})
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError
