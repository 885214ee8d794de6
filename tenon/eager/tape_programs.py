"""The programs of tapes, which are found again; and one for tapes that differ in sizes alone, as of batches or episodes
of several lengths.

Where a tape is like one before but for some sizes, these get names, and the program that is compiled then serves every
tape in which equal names mean equal sizes: dimensions of what is given, and numbers in the settings of calls that are
such a size, a multiple of one, or some more or less. What the names stand for in a result follows from the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from tenon.dialects.definition.autocast import autocast
from tenon.dialects.definition.operands import to_value
from tenon.dialects.definition.registry import generation
from tenon.dialects.definition.value import insertion_point
from tenon.dialects.ops.control.debug import checks_gradients
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.dialects.types.assumptions import assuming, require_positive_sizes
from tenon.dialects.types.size import Size, names_of, replaced
from tenon.eager.backward import Graph, Program, Slot, noted_needs, trace_types, traced
from tenon.eager.tape import Array, Call, Type
from tenon.runtime.arguments.interface import main_function
from tenon.runtime.dynamic import say_why_specialized
from tenon.runtime.knobs import knobs
from tenon.runtime.python_state import collection_paused

_PROGRAMS: BoundedCache[Program] = BoundedCache(1024)


def program_for(graph: Graph, seeds: Sequence[Type], *, is_own: bool = False) -> Program:
    """The program that gives the gradients with respect to `graph.ends`, for cotangents of the roots of such types;
    with `is_own` for these sizes alone."""
    key = (graph.key, tuple(seeds), knobs.interpret, knobs.code_settings, generation())
    if checks_gradients():
        key = (*key, tuple([node.place for node in graph.nodes]))  # messages name these lines
    program = None if is_own else _PROGRAMS.get(key)
    if program is None:
        with collection_paused(), autocast(enabled=False):
            can_share = not (is_own or knobs.interpret or checks_gradients()) and graph.device == "cpu"
            shared = _program_for_all_sizes(graph, seeds, key[2:]) if can_share else None
            program = _PROGRAMS[key] = shared or traced(graph, seeds).compiled(graph.device)
    return program


def pull_back(graph: Graph, cotangents: Sequence[Array]) -> list[Array | None]:
    """The gradients with respect to `graph.ends`, given cotangents of its roots; `None` where nothing depends."""
    if insertion_point() is not None:
        return _pull_back_in_trace(graph, cotangents)
    program = program_for(graph, [(c.dtype, c.shape) for c in cotangents])
    arrays = [graph.array(slot) for slot in program.reads]
    found = iter(() if program.executable is None else program.executable.run([*arrays, *cotangents]))
    return [next(found) if is_reached else None for is_reached in program.reached]


def reads_of(graph: Graph, seeds: Sequence[Type]) -> Sequence[Slot]:
    """The slots of the arrays that gradients are computed of."""
    if insertion_point() is None:
        return program_for(graph, seeds).reads
    return [slot for slot, place in enumerate(graph.slots) if place.elements is not None]


def _pull_back_in_trace(graph: Graph, cotangents: Sequence[Any]) -> list[Any]:
    """The same where the calls were made in a trace, and belong to it."""
    released = next((node for node in graph.nodes if node.is_released), None)
    if released is not None:
        raise graph.missing(graph.results_of(released)[0])
    reads = reads_of(graph, ())
    with autocast(enabled=False):
        given = [graph.value(slot, to_value(graph.array(slot))) for slot in reads]
        return graph.pulled_back(reads, [*given, *map(to_value, cotangents)])


_MOST, _REFUSED = 4, 2
"""Programs for one kind of tape, and how many that cannot be made are enough."""

_NUMBER, _TUPLE, _SLICE = object(), object(), object()


def _taken_apart(value: Any, numbers: list[int]) -> Hashable:
    """What settings are but for their integers, which go to `numbers`."""
    if type(value) is int:
        numbers.append(value)
        return _NUMBER
    if type(value) in (tuple, list):
        return _TUPLE, tuple([_taken_apart(inner, numbers) for inner in value])
    if type(value) is slice:
        return _SLICE, tuple([_taken_apart(inner, numbers) for inner in (value.start, value.stop, value.step)])
    return value


def _put_together(value: Any, numbers: Iterator[Any]) -> Any:
    """Settings like `value` with other integers."""
    if type(value) is int:
        return next(numbers)
    if type(value) in (tuple, list):
        return tuple([_put_together(inner, numbers) for inner in value])
    if type(value) is slice:
        return slice(*[_put_together(inner, numbers) for inner in (value.start, value.stop, value.step)])
    return value


class _Numbers:
    """The integers of a tape (settings of calls, dimensions), and all else that tells it from others."""

    def __init__(self, graph: Graph, seeds: Sequence[Type]) -> None:
        self.of_calls: list[list[int]] = []
        calls = tuple([self._of(node.call) for node in graph.nodes])
        wiring = tuple([(operands, results) for _, operands, results in graph.wiring])
        self.of_slots = [place.type[1] if isinstance(place.type, tuple) else () for place in graph.slots]
        self.of_seeds = [shape for _, shape in seeds]
        slots = [(place.type, place.elements is None, place.order) for place in graph.slots]
        types = tuple([((t[0], len(t[1])) if isinstance(t, tuple) else t, *rest) for t, *rest in slots])
        kinds = tuple([(dtype, len(shape)) for dtype, shape in seeds])
        self.kind: Hashable = (calls, wiring, types, kinds, *graph.places)

    def _of(self, call: Call) -> Hashable:
        numbers: list[int] = []
        self.of_calls.append(numbers)
        return call.key if call.parts is None else (call.parts.kind, _taken_apart(call.parts.settings, numbers))

    @property
    def all(self) -> tuple[int, ...]:
        """All of them, in an order."""
        return tuple([n for group in (*self.of_calls, *self.of_slots, *self.of_seeds) for n in group])


@dataclass
class _Sized:
    """A program for the tapes of a kind whose numbers are like these, of which some are sizes with names."""

    numbers: tuple[Any, ...]
    program: Program
    needed: Sequence[Any]
    """For each call which arrays its gradient needs."""

    def serves(self, numbers: Sequence[int], shapes: Callable[[Program], Sequence[tuple[int, ...]]]) -> bool:
        """Whether it is for a tape of these numbers."""
        values = {size.name: n for size, n in zip(self.numbers, numbers, strict=True) if _name_of(size) is not None}
        if min(values.values(), default=1) < 1:
            return False
        if any(replaced(size, values) != n for size, n in zip(self.numbers, numbers, strict=True)):
            return False
        if self.program.executable is None:
            return True
        interface = self.program.executable.interface
        try:
            told = interface.bind(shapes(self.program))
        except ValueError:  # of a size for which it was not compiled
            return False
        return {*names_of(size for shape, _ in interface.outputs for size in shape)} <= told.keys()


@dataclass
class _Kind:
    """What is known of tapes that differ in numbers alone."""

    last: _Numbers
    programs: list[_Sized] = field(default_factory=list[_Sized])
    refused: int = 0


_KINDS: BoundedCache[_Kind] = BoundedCache(256)


def _program_for_all_sizes(graph: Graph, seeds: Sequence[Type], meant: Hashable) -> Program | None:
    """The program for a tape and for those that are like it but for sizes, where there was one before; `meant` is what
    it depends on besides. `None` where the tape is the first of its kind, or has to have a program of its own."""
    numbers = _Numbers(graph, seeds)
    key = (numbers.kind, meant)
    try:
        kind = _KINDS.get(key)
    except TypeError:  # of settings that are no keys
        return None
    if kind is None:
        _KINDS[key] = _Kind(numbers)
        return None

    def shapes(program: Program) -> list[tuple[int, ...]]:
        return [*[graph.slots[slot].array_type[1] for slot in program.reads], *[shape for _, shape in seeds]]

    for known in kind.programs:
        if known.serves(numbers.all, shapes):
            noted_needs(graph, known.needed)
            return known.program
    if numbers.all == kind.last.all or kind.refused >= _REFUSED or len(kind.programs) >= _MOST:
        return None
    try:
        made = _made(graph, seeds, kind.last, numbers)
        if not made.serves(numbers.all, shapes):
            raise ValueError("its sizes do not follow from those of what it is given")
        kind.programs.append(made)
    except Exception as error:  # one of the program itself is found again when it is compiled for these sizes
        say_why_specialized("backward", error)
        kind.refused += 1
        return None
    finally:
        kind.last = numbers
    return made.program


def _made(graph: Graph, seeds: Sequence[Type], before: _Numbers, now: _Numbers) -> _Sized:
    names: dict[tuple[int, int], Any] = {}
    own = {slot for _, _, results in graph.wiring for slot in results}
    for slot, shapes in enumerate(zip(before.of_slots, now.of_slots, strict=True)):
        for pair in () if slot in own else zip(*shapes, strict=True):
            if pair[0] != pair[1] and pair not in names:
                if min(pair) < 2:
                    raise ValueError("a dimension of size 1 may be repeated, and one of 0 has no elements")
                names[pair] = Size.named(f"n{len(names)}")
    named = [[_named(pair, names) for pair in zip(*pairs, strict=True)] for pairs in _pairs(before, now, "of_calls")]
    sized = copy(graph)
    sized.slots = [copy(place) for place in graph.slots]
    sized.applies = {
        node: node.call.parts.apply(_put_together(node.call.parts.settings, iter(numbers)))
        for node, numbers in zip(graph.nodes, named, strict=True)
        if node.call.parts is not None and numbers
    }
    for slot, pairs in enumerate(_pairs(before, now, "of_slots")):
        sized.resize(slot, tuple([_named(pair, names) for pair in zip(*pairs, strict=True)]) if slot not in own else ())
    with assuming({size.name: number for (_, number), size in names.items()}) as conditions:
        _infer(sized, own)
        shapes = [sized.slots[slot].type[1] for slot in graph.root_slots]
        made = traced(sized, [(dtype, shape) for (dtype, _), shape in zip(seeds, shapes, strict=True)])
        require_positive_sizes(main_function(made.module), conditions)
    of_slots = [place.type[1] if isinstance(place.type, tuple) else () for place in sized.slots]
    every = tuple([n for group in (*named, *of_slots, *shapes) for n in group])
    return _Sized(every, made.compiled(graph.device), [node.call.needed.get(node.signature) for node in graph.nodes])


def _pairs(before: _Numbers, now: _Numbers, name: str) -> list[Any]:
    return list(zip(getattr(before, name), getattr(now, name), strict=True))


def _name_of(size: Any) -> str | None:
    return size.name if isinstance(size, Size) else None


def _named(pair: tuple[int, int], names: dict[tuple[int, int], Any]) -> Any:
    """The size that a number is which was the first of a pair before, and is the second now."""
    before, now = pair
    if before == now:
        return now
    if pair in names:
        return names[pair]
    for (first, second), size in names.items():
        if before % first == 0 and now == before // first * second:
            return before // first * size
    for (first, second), size in names.items():
        if before - first == now - second:
            return size + (before - first)
    raise ValueError(f"a setting of a call was {before} and is {now}, which is the size of nothing that is given")


def _infer(graph: Graph, own: set[Slot]) -> None:
    """Find what sizes the results of calls have."""
    given = [slot for slot in range(len(graph.slots)) if slot not in own]

    def function(*arrays: Any) -> Any:
        values = {slot: graph.value(slot, array) for slot, array in zip(given, arrays, strict=True)}
        computed, _ = graph.replayed(values)
        for slot in own:
            graph.resize(slot, tuple(computed[slot].shape))
        return ()

    trace_types(function, [graph.slots[slot].array_type for slot in given])
