"""Functions run in pieces: calls on tensors wait until something asks for an element, and run as one program then.

Python runs at every call, so all that a function does besides stays as it is. What waits is found again by what was
called on what, from the first call of a piece on. The second time that a piece is run, it is compiled; until then, and
where there are too many of them, its calls are made one after the other.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from weakref import ref

import numpy as np

from tenon.dialects.definition.registry import watch_generation
from tenon.dialects.definition.signature import flat
from tenon.dialects.families.host import HostOp
from tenon.dialects.support.forking import new_lock
from tenon.dialects.support.plain_arrays import is_on_gpu
from tenon.eager.backward import is_differentiable
from tenon.eager.modes import MODE, WAITING, set_grad_enabled
from tenon.eager.recording import Stored, as_operands, op_call
from tenon.eager.tape import Array, Operand, Saved, Type
from tenon.eager.tensor import Parameter, Tensor
from tenon.eager.views import Link, View, call_of_link
from tenon.runtime.call.tensors import through_python
from tenon.runtime.knobs import knobs
from tenon.traces.known_pieces import End, Pieces, Place
from tenon.traces.outcomes import looked_at
from tenon.traces.piece_programs import PieceProgram, Step, again, compiled, fixed, types_of
from tenon.traces.waiting import Waiting, awaited, fill, requires_grad, take_place, waiting

_MOST_PROGRAMS = 64
"""Programs that are compiled for one function."""
_LEAST = 2
"""Calls from which on a piece is worth a program."""


class Piece:
    """Calls that wait. A piece is run once; those that come then are in another one.

    One thread makes the calls; any may ask for what they give, and so run them. The lock is held while a call is noted,
    and while all are run; nothing waits for another piece with it.
    """

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._place = pieces.first()
        self._inputs: list[Operand] = []
        self._numbers: dict[tuple[int, int], int] = {}
        self._held: list[Array] = []
        """What keeps the identities of arrays."""
        self._floats: list[float] = []
        self._results: list[ref[Waiting]] = []
        self._is_run = False
        self._lock = new_lock()

    # --- calls that wait ------------------------------------------------------------------------------

    def call(self, function: Any, args: Sequence[Any], settings: dict[str, Any]) -> Any:
        """The result of the function of an op, which waits: a tensor, or a tuple of them. `NotImplemented` where it
        cannot wait."""
        count = _COUNTS.get(function)
        if count is None:
            count = _COUNTS[function] = _operand_count(function.op)
        others = None
        if settings or len(args) != count:
            if settings and not function.op.OTHER_NAMES.keys().isdisjoint(settings):
                count = -1
            try:
                others = fixed((args[count:], settings))
            except TypeError:  # of what is no setting
                count = -1
        if not 0 <= count <= len(args) or not _can_wait(args[:count]):
            operands, own = function.op.bind(args, settings)
            return self.add(function.op, operands, own, function)
        self._run_others(args)
        with self._lock:
            if not self._is_run:
                key = (function, others, MODE.records, *map(self._operand, args[:count]))
                known = self._place.following.get(key)
                if known is None:
                    operands, own = function.op.bind(args, settings)
                    return self._add(key, operands, own, function)
                return self._results_of(known)
        return self._next().call(function, args, settings)

    def add(self, op: Any, operands: Sequence[Any], settings: dict[str, Any], function: Any = None) -> Any:
        """The same for an op and its operands."""
        given = flat(operands)
        if issubclass(op, HostOp) or not _can_wait(given):
            return NotImplemented
        call = op_call(op, operands, settings)
        self._run_others(given)
        with self._lock:
            if not self._is_run:
                key = (call, None, MODE.records, *map(self._operand, given))
                known = self._place.following.get(key)
                return self._add(key, operands, settings, function or op) if known is None else self._results_of(known)
        return self._next().add(op, operands, settings, function)

    def _add(self, key: Any, operands: Sequence[Any], settings: dict[str, Any], function: Any) -> Any:
        op = getattr(function, "op", function)
        given = flat(operands)
        call = op_call(op, operands, settings)
        try:
            types, is_tuple = types_of(call, op, operands, settings)
        except BaseException:  # there is no such call, and its operands are none of this piece
            inputs, floats = self._before(key)
            del self._inputs[inputs:], self._floats[floats:]
            self._numbers = {of: number for of, number in self._numbers.items() if -1 - number < inputs}
            raise
        laid = [_laid(*type_) for type_ in types]
        step = Step(call, self._operands(key), MODE.records, len(self._results), again(function, operands, settings))
        return self._follow(key, step, given, laid, is_tuple)

    def look(self, tensor: Any, array: Array, link: Link) -> Any:
        """What a step shows of a tensor that waits: a view, which would lie as `array` does."""
        with self._lock:
            if WAITING.piece is self and not self._is_run:
                return self._look(tensor, array, link)
        self.run()
        return looked_at(tensor, (link,))

    def _look(self, tensor: Any, array: Array, link: Link) -> Any:
        call = call_of_link(tensor, link)
        key = (call, None, MODE.records, self._operand(tensor))
        known = self._place.following.get(key)
        if known is not None:
            return self._results_of(known)

        def seen(values: Sequence[Any]) -> Any:
            return looked_at(values[0], (link,))

        step = Step(call, self._operands(key), MODE.records, len(self._results), seen, is_view=True)
        return self._follow(key, step, (tensor,), (array,))

    def _follow(
        self, key: Hashable, step: Step, given: Sequence[Any], laid: Sequence[Array], is_tuple: bool = False
    ) -> Any:
        has_gradient = any(map(_requires, given))
        step.is_cut = has_gradient and not step.records
        wanted = [has_gradient and step.records and is_differentiable(array.dtype) for array in laid]
        return self._results_of(self._pieces.follow(self._place, key, Place(step, self._place, laid, wanted, is_tuple)))

    def _results_of(self, place: Place) -> Any:
        self._place, results = place, self._results
        made: list[Waiting] = []
        for laid, wanted in zip(place.laid, place.wanted, strict=True):
            tensor = waiting((self, len(results), laid, wanted))
            results.append(ref(tensor))
            made.append(tensor)
        return tuple(made) if place.is_tuple else made[0]

    def _operand(self, given: Any) -> Any:
        """What a key says of an operand: the number of a result or, below 0, of an input, or what is known of it."""
        kind = type(given)
        if kind is Waiting:
            what: Any = awaited(given)
            if type(what) is tuple:
                return what[1]
            kind = Tensor  # another thread has just computed it
        if kind is float:
            self._floats.append(given)
            return float
        if kind is Tensor or kind is Parameter:
            array, source = given._array, given._source
            # What others may write to unnoticed is copied, each time anew.
            is_seen = given._memory is not None and given._memory.is_exported
            if not is_seen:
                number = self._numbers.get((id(array), id(source)))
                if number is not None:
                    return number
                self._numbers[id(array), id(source)] = -1 - len(self._inputs)
            (kept,) = as_operands((array if is_seen else given,))
            self._inputs.append((source, kept[1]))
            self._held.append(array)
            return array.dtype, array.shape, source is not None
        if kind is np.ndarray:
            self._inputs += as_operands((given,))
            return given.dtype, given.shape, "array"
        return "is", kind, given

    def _before(self, key: Any) -> tuple[int, int]:
        """How many inputs and floats there were before a call whose key was just made."""
        parts = key[3:]
        inputs = len(self._inputs) - sum(type(part) is tuple and part[0] != "is" for part in parts)
        return inputs, len(self._floats) - sum(part is float for part in parts)

    def _operands(self, key: Any) -> tuple[Any, ...]:
        """What a program has for the operands of a call whose key was just made."""
        new, floats = self._before(key)
        found: list[Any] = []
        for part in key[3:]:
            if part is float:
                found.append(("float", floats))
                floats += 1
            elif type(part) is tuple and part[0] != "is":
                found.append(("input", new))
                new += 1
            else:
                found.append(("input", -1 - part) if type(part) is int and part < 0 else part)
        return tuple(found)

    def replace(self, tensor: Any, result: Any) -> bool:
        """Give a tensor that waits the elements of a result, in its place; false where others show them, and where
        gradients go through one of them only, as what the tensor was recorded for stays."""
        with self._lock:
            if not (self._has(tensor) and self._has(result)):
                return False
            _, old, laid, goes_on = awaited(tensor)
            _, slot, array, also = awaited(result)
            if (laid.dtype, laid.shape, goes_on) != (array.dtype, array.shape, also):
                return False
            for view, (base, _) in self._place.shown.items():
                if view == old or (base == old and self._results[view]() is not None):
                    return False
            self._results[old] = _NOBODY
            self._results[slot] = ref(tensor)
            take_place(tensor, result)
            return True

    def _has(self, tensor: Any) -> bool:
        what: Any = awaited(tensor)
        return type(what) is tuple and what[0] is self

    def _run_others(self, operands: Sequence[Any]) -> None:
        """Run the other pieces that operands wait for."""
        for given in operands:
            if type(given) is Waiting:
                what: Any = awaited(given)
                if type(what) is tuple and what[0] is not self:
                    what[0].run()

    def _next(self) -> Any:
        """The piece in which the calls of this thread go on, as this one was run."""
        if WAITING.piece is self:
            WAITING.piece = Piece(self._pieces)
        return WAITING.piece

    # --- running them ---------------------------------------------------------------------------------

    def run(self) -> None:
        """Compute what waits and can still be asked for."""
        with self._lock:
            before, WAITING.piece = WAITING.piece, None
            try:
                if self._results:
                    with through_python(0 if before is None else -1):
                        self._run()
                    self._results.clear()
                self._is_run = True
            finally:
                WAITING.piece = before
        if before is self:
            WAITING.piece = Piece(self._pieces)

    def _run(self) -> None:
        alive = [result() for result in self._results]
        self._pieces.largest = max(self._pieces.largest, self._place.largest)
        if not any(tensor is not None for tensor in alive):
            return
        for _, saved in self._inputs:
            if isinstance(saved, Saved):
                saved.check(None)
        end, program = self._end(alive)
        if program is None:
            self._one_by_one(alive)
            return
        made = program.run(self._inputs, self._floats)
        bases: dict[int, Any] = {}
        for slot, tensor, is_wanted in zip(end.outputs, made, end.wanted, strict=True):
            tensor._source = tensor._source if is_wanted else None
            bases[slot] = tensor if alive[slot] is None else fill(alive[slot], tensor)
        for slot, base, steps in end.views:
            shown = bases[base]
            for step in steps:
                with set_grad_enabled(step.records):
                    shown = step.again((shown,))
            fill(alive[slot], shown)

    def _one_by_one(self, alive: Sequence[Any]) -> None:
        inputs = [_tensor(source, saved) for source, saved in self._inputs]
        values: list[Any] = []
        for step in self._place.steps:
            with set_grad_enabled(step.records):
                made = step.again(step.given(values, inputs, self._floats))
            values += made if isinstance(made, tuple) else (made,)
        taken = {id(value): tensor for value, tensor in zip(values, alive, strict=True) if tensor is not None}
        for value, tensor in zip(values, alive, strict=True):
            if tensor is not None:
                view = fill(tensor, value)._view
                if view is not None and id(view.base) in taken:  # what is changed through it is to be this one
                    tensor._view = View(taken[id(view.base)], view.links)

    def _end(self, alive: Sequence[Any]) -> tuple[End, PieceProgram | None]:
        """What is known of this piece, with a program that fits its floats where there is to be one. Another thread may
        put other programs in its place at any time."""
        floats, ends = tuple(self._floats), self._place.ends
        key = (tuple([tensor is not None for tensor in alive]), knobs.code_settings)
        end = ends.get(key)
        if end is None:
            seen = {slot: of for slot, of in self._place.shown.items() if alive[slot] is not None}
            bases = [base for base, _ in seen.values()]
            # One that shows what nobody else can see is as good as any other result.
            views = [(v, b, s) for v, (b, s) in seen.items() if alive[b] is not None or bases.count(b) > 1]
            outputs = {slot for slot, tensor in enumerate(alive) if tensor is not None}
            outputs = sorted((outputs | {base for _, base, _ in views}) - {slot for slot, _, _ in views})
            wanted = self._place.all_wanted
            end = ends[key] = End(floats, views, outputs, [wanted[slot] for slot in outputs])
            return end, None
        changed = {i for i, (a, b) in enumerate(zip(floats, end.floats, strict=True)) if a.hex() != b.hex()}
        program = end.program
        if program is not None and changed <= program.varying:
            return end, program
        return end, None if end.is_refused else self._compile(end, end.varying | changed)

    def _compile(self, end: End, varying: frozenset[int]) -> PieceProgram | None:
        steps = self._place.steps
        is_worth_it = sum(not step.is_view for step in steps) >= _LEAST and self._pieces.compiled < _MOST_PROGRAMS
        program = None
        if is_worth_it:
            self._pieces.compiled += 1
            end.varying |= varying
            types = [(_type(saved), source is not None) for source, saved in self._inputs]
            program = end.program = compiled(steps, types, self._floats, varying, end.outputs, any(end.wanted))
        end.is_refused = program is None
        return program


_COUNTS: dict[Any, int] = {}
watch_generation(_COUNTS.clear)


def _operand_count(op: Any) -> int:
    """How many operands an op has, if none is a group, and calls of it may wait; -1 for others."""
    is_simple = op.SIGNATURE.is_plain and not issubclass(op, HostOp)
    return len(op.SIGNATURE.operands) if is_simple else -1


_OPERANDS = frozenset((Waiting, Tensor, Parameter, np.ndarray, float, int, bool))


def _can_wait(operands: Sequence[Any]) -> bool:
    """Whether a call on these may wait: not where they are on a GPU, whose streams have calls wait as it is."""
    known = _OPERANDS.issuperset(map(type, operands))
    return known and not any(type(v) in (Tensor, Parameter) and is_on_gpu(v._array) for v in operands)


@lru_cache(maxsize=64)
def _laid(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """An array that lies as results do, whose memory is never touched."""
    return np.empty(shape, dtype)


def _nobody() -> Any:
    return None


_NOBODY: Any = _nobody


def _type(saved: Any) -> Type:
    return saved.array.dtype, saved.array.shape


def _requires(given: Any) -> bool:
    if type(given) is Waiting:
        return requires_grad(given)
    return isinstance(given, Stored) and given._source is not None


def _tensor(source: Any, saved: Any) -> Any:
    """The tensor that was an operand, as it was then."""
    made = Tensor._new(saved.array)
    made._source, made._memory = source, saved.memory
    return made


@contextmanager
def in_pieces(pieces: Pieces) -> Generator[None]:
    """Have calls on tensors wait until something asks for what they give, or the block ends."""
    WAITING.piece = Piece(pieces)
    try:
        with through_python():
            try:
                yield
            finally:
                WAITING.piece.run()
                pieces.end()
    finally:
        WAITING.piece = None


__all__ = ["Pieces", "in_pieces"]
