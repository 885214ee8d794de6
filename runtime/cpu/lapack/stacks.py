"""Functions of stacks of matrices as native code: a loop that gives each matrix to LAPACK.

Matrices of programs lie row by row and LAPACK's column by column, so that they are copied in between, as NumPy does.
Each function takes the addresses of its arrays, operands first, the number of matrices, and sizes. It says whether it
is done: where LAPACK refuses a matrix, or there is no memory to work in, it is not, and who called it raises what is to
be said.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from tenon.passes.machine import GENERIC
from tenon.runtime.cpu.ir_types import F32, F64, I1, I8, I32, I64, PTR, VOID, Type, pointer
from tenon.runtime.cpu.ir_values import Operand, Value
from tenon.runtime.cpu.ir_writer import Module
from tenon.runtime.cpu.lapack.lanes import COUNT, REALS, for_each_group, gathered, scattered
from tenon.runtime.cpu.lapack.transposing import symmetrizing, turning

ASKED = -1
"""The length of a workspace with which LAPACK is asked how long it should be."""
_MOST_VECTORS = GENERIC.l1 // REALS.size
"""Of how many elements the operands and results of a matrix may be to be computed beside others."""
_NO_ROOM = 1 << 40
"""In the place of LAPACK's `info` where there is no memory for a workspace."""


class Stacks(Module):
    """A module for matrices of f32 or f64, calling a LAPACK whose integers have so many bits. Each is computed in its
    own dtype, as in SciPy, PyTorch and JAX: f64 in the place of f32 takes twice the time."""

    def __init__(self, bits: int, integer_bits: int) -> None:
        super().__init__()
        self.real = F64 if bits == 64 else F32
        self.matrices = pointer(self.real)
        self.integer: Type = I64 if integer_bits == 64 else I32
        self.needed: list[str] = []
        self._allocate, self._free = self.external("malloc", PTR, I64), self.external("free", VOID, PTR)

        self._turned, self.symmetric = turning(self, self.real), symmetrizing(self, self.real)

    def turned(self, target: Value, source: Value, rows: Value, columns: Value, width: Value | None = None) -> None:
        """Make `target` (columns, rows) `source` (rows, columns) transposed, whose rows begin `width` elements apart if
        that is more than `columns`."""
        self._turned(target, source, rows, columns, columns if width is None else width)

    def stacked(
        self,
        name: str,
        sizes: Sequence[str],
        operands: Callable[..., Sequence[Value]],
        results: Callable[..., Sequence[Value | int]],
        scratch: Callable[..., Value | int],
        step: Callable[..., Operand],
        lanes: Callable[..., Operand] | None = None,
    ) -> None:
        """Define a function of stacks. Of its sizes follow the numbers of elements that each operand and each result
        has for a matrix, and how many to have room for besides; `step(room, *arrays, **sizes)` is done for each matrix
        and gives LAPACK's `info`, which is 0 if all is well. `lanes(*arrays, **sizes)` does it first for several small
        ones side by side."""

        def body(arrays: Value, stacks: Value, **given: Value) -> Operand:
            taken, made = operands(**given), results(**given)
            counts, first_result = [self.number(I64, 0) + count for count in (*taken, *made)], len(taken)
            if lanes is not None:
                whole = functools.reduce(operator.add, counts)
                with self.if_((stacks >= COUNT) & (whole <= _MOST_VECTORS)):
                    self.return_if(self._side_by_side(arrays, stacks, counts, first_result, lanes, given), 1)
            room = self.workspace(scratch(**given))
            is_done = self.local(I1, room.is_not_null)
            with self.if_(is_done.to(I1)), self.each(stacks) as stack:
                parts = [arrays[i].to(self.matrices).at(stack * count) for i, count in enumerate(counts)]
                info = step(room, *parts, **given)
                is_done.set(self.made(I1, f"icmp eq i64 {self.operand(info, I64)}, 0"))
                self.break_if(~is_done)
            self.release(room)
            return is_done

        body.__name__ = f"tenon_{name}"
        self.function(I1, arrays=pointer(PTR), stacks=I64, **dict.fromkeys(sizes, I64))(body)

    def _side_by_side(
        self,
        arrays: Value,
        stacks: Value,
        counts: Sequence[Value],
        first_result: int,
        lanes: Callable[..., Operand],
        given: dict[str, Value],
    ) -> Value:
        """Do it for groups of matrices, each as wide as a vector; whether all are done."""
        room, parts = self.array(REALS, _MOST_VECTORS, align=REALS.size), list[Value]()
        for count in counts:
            parts.append(room)
            room = room.at(count)
        is_done = self.local(I1, 1)

        def group(first: Value) -> None:
            stored = [arrays[i].to(self.matrices).at(first * count) for i, count in enumerate(counts)]
            for target, source, count in zip(parts[:first_result], stored, counts, strict=False):
                gathered(self, target, source, count)
            info = lanes(self, *parts, **given)
            is_done.set(self.made(I1, f"icmp eq i64 {self.operand(info, I64)}, 0"))
            self.break_if(~is_done)
            for i in range(first_result, len(counts)):
                scattered(self, stored[i], parts[i], counts[i])

        for_each_group(self, stacks, group)
        return is_done

    def lapack(self, name: str, *arguments: Operand | str) -> Value:
        """Call a function of LAPACK, whose last argument is `info`, which is given back. Integers are passed by their
        addresses, letters as such; arrays are addresses."""
        info = self.local(I64)
        info.set(0)
        self.blas(name, *arguments, info.address)
        return info

    def lapack_with_room(self, name: str, *arguments: Operand | str, behind: Sequence[Operand] = ()) -> Value:
        """The same for a function that is given a workspace and its length, before what is `behind`: LAPACK is asked
        how long it should be."""
        wanted = self.array(self.real)
        self.lapack(name, *arguments, wanted, ASKED, *behind)
        length = self.integer_of(wanted.load())
        return self.with_room([length], lambda work: self.lapack(name, *arguments, work, length, *behind))

    def with_room(self, lengths: Sequence[Value | int], call: Callable[..., Value]) -> Value:
        """The `info` of a call that is given workspaces of such lengths."""
        info, rooms = self.local(I64, _NO_ROOM), list(map(self.workspace, lengths))
        with self.if_(self.all_there(rooms)):
            info.set(call(*rooms))
        for room in rooms:
            self.release(room)
        return info

    def all_there(self, rooms: Sequence[Value]) -> Value:
        """Whether there was memory for all of these."""
        return functools.reduce(operator.and_, [room.is_not_null for room in rooms])

    def blas(self, name: str, *arguments: Any) -> None:
        """Call a function without `info`."""
        full = f"{'d' if self.real is F64 else 's'}{name}"
        self.needed.append(full)
        given = [self._address(argument) for argument in arguments]
        self.external(full, VOID, *[PTR] * len(given))(*given)

    def _address(self, argument: Any) -> Value:
        if isinstance(argument, Value) and argument.kind.text == "ptr":
            return argument
        if isinstance(argument, str):
            return self.local(I8, ord(argument)).address
        if isinstance(argument, float):
            return self.local(self.real, argument).address
        kind = argument.kind if isinstance(argument, Value) else I64
        return self.local(kind, argument).address

    def letter(self, condition: Value, yes: str, no: str) -> Value:
        """One of two letters."""
        return self.select(condition, self.number(I8, ord(yes)), self.number(I8, ord(no)))

    def integer_of(self, number: Value) -> Value:
        """The integer that a real has, or one that is larger: an f32 may have been rounded."""
        found = self.made(I64, f"fptosi {number.kind.text} {number.read()} to i64")
        return found if self.real is F64 else found + (found >> 22)

    def behind_integers(self, room: Value, count: Value) -> Value:
        """The part of a workspace behind so many integers of LAPACK's."""
        return room.at(count * (I64.size // self.real.size))

    def workspace(self, count: Value | int) -> Value:
        """Room for so many reals and integers, and at least for one; null where there is no memory."""
        return self._allocate((self.number(I64, 1) + count) * I64.size).to(self.matrices)

    def release(self, room: Value) -> None:
        """Give room back, if there was any."""
        self._free(room)
