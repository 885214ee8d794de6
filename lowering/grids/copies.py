"""Copies between buffers and registers: vectors where the elements that a thread has are neighbours in memory."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import vector
from xdsl.ir import SSAValue

from tenon.lowering.grids.thread_code import Registers, ThreadCode
from tenon.lowering.kernels.statement import element_type
from tenon.lowering.loop_ir.builder import Position, vector_type
from tenon.lowering.steps.nest import Loop, Nest, NestAccess
from tenon.lowering.steps.vectorize import allows_vectors, lanes_at_once


def vector_of(nest: Nest, access: NestAccess) -> Loop | None:
    """The vector loop, where its iterations are neighbours of an access that begin at multiples of its extent."""
    if not access.factors:
        return None
    unit = [axis for axis, factor in access.factors[-1] if factor == 1]
    loop = next((loop for loop in nest.loops_of(unit) if loop.vector), None)
    if loop is None:
        return None
    if any(known is not loop and known.stride % loop.extent for known in nest.loops_of([loop.axis])):
        return None
    return loop if allows_vectors(nest, access, loop.axis, lanes_at_once(nest, access, loop.extent)) else None


def copy_in(code: ThreadCode, access: NestAccess) -> Registers:
    """What the thread needs of an argument inside of the loops that it is in, in registers; zeros beyond extents."""
    loop = vector_of(code.nest, access)
    loops = [known for known in code.nest.loops_of(access.axes) if known.name not in code.positions]
    array = code.registers(element_type(access.access.buffer), loops, loop)
    copy_to(code, access, array)
    return array


def copy_to(code: ThreadCode, access: NestAccess, array: Registers) -> None:
    """Have registers hold what the thread needs of an argument; zeros beyond extents."""
    _CopyIn(code, access, array).emit()


def copy_out(code: ThreadCode, access: NestAccess, array: Registers, condition: SSAValue | None) -> None:
    """Store what the thread has of an output, where the condition holds."""
    _CopyOut(code, access, array, condition).emit()


class _Copy:
    """The copy of what a thread has of a buffer, if the `condition` holds: by vectors, the last ones by elements."""

    def __init__(
        self, code: ThreadCode, access: NestAccess, array: Registers, condition: SSAValue | None = None
    ) -> None:
        self.code, self.access, self.array, self.condition = code, access, array, condition
        self.buffer = access.access.buffer
        self.element = element_type(self.buffer)
        self.vectors = vector_of(code.nest, access)
        if self.vectors is not None and (not array.loops or array.loops[-1] is not self.vectors):
            self.vectors = None

    def emit(self) -> None:
        """Append the copy."""
        if self.vectors is None:
            self.code.over(self.array.loops, self._one)
        else:
            self.code.over([loop for loop in self.array.loops if loop is not self.vectors], self._vector)

    def move_element(self) -> None:
        """Copy the element that the thread is at."""
        raise NotImplementedError

    def move_vector(self, lanes: int) -> None:
        """Copy a vector from there on."""
        raise NotImplementedError

    def beyond(self, lanes: int) -> None:
        """What is done first where the element, or a vector from it on, may be beyond an extent."""

    def _one(self) -> None:
        inside = self.code.inside(self.access.axes)
        if inside is not None:
            self.beyond(1)
        self.code.when(self.code.all_of((self.condition, inside)), self.move_element)

    def _vector(self) -> None:
        assert self.vectors is not None
        code, loop = self.code, self.vectors
        whole = code.nest.extents[loop.axis] % loop.extent == 0
        with code.at({loop.name: Position((), loop.extent - 1)}):
            inside = code.all_of((self.condition, code.inside(self.access.axes)))

        def lanes() -> None:
            self._in_parts(loop, self.move_vector)

        if whole and inside is not None:
            self._in_parts(loop, self.beyond)
        if whole or inside is None:
            code.when(inside, lanes)
        else:
            code.builder.conditional(inside, lanes, lambda: code.over([loop], self._one))

    def _in_parts(self, loop: Loop, move: Callable[[int], None]) -> None:
        """`move`, given so many lanes, for each access that a vector takes."""
        lanes = lanes_at_once(self.code.nest, self.access, loop.extent)
        for first in range(0, loop.extent, lanes):
            with self.code.at({loop.name: Position((), first)}):
                move(lanes)

    def _store_vector(self, value: SSAValue, target: SSAValue, indices: list[SSAValue]) -> None:
        self.code.builder.add(vector.StoreOp.create(operands=(value, target, *indices)))

    def _load_vector(self, lanes: int, source: SSAValue, indices: list[SSAValue]) -> SSAValue:
        type_ = vector_type(self.element, lanes)
        return self.code.value(vector.LoadOp.create(operands=(source, *indices), result_types=(type_,)))


class _CopyIn(_Copy):
    def move_element(self) -> None:
        code, array = self.code, self.array
        code.store(code.load(self.buffer, code.place(self.access)), array.memref, code.register(array))

    def move_vector(self, lanes: int) -> None:
        value = self._load_vector(lanes, self.buffer, self.code.place(self.access))
        self._store_vector(value, self.array.memref, self.code.register(self.array))

    def beyond(self, lanes: int) -> None:
        zeros = self.code.builder.broadcast(self.code.zero(self.element), lanes)
        if lanes == 1:
            self.code.store(zeros, self.array.memref, self.code.register(self.array))
        else:
            self._store_vector(zeros, self.array.memref, self.code.register(self.array))


class _CopyOut(_Copy):
    def move_element(self) -> None:
        code, array = self.code, self.array
        code.store(code.load(array.memref, code.register(array)), self.buffer, code.place(self.access))

    def move_vector(self, lanes: int) -> None:
        value = self._load_vector(lanes, self.array.memref, self.code.register(self.array))
        self._store_vector(value, self.buffer, self.code.place(self.access))
