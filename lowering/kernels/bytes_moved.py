"""The bytes that a buffered function moves: what its kernels and copies read and write of buffers that outlive them.

A kernel moves an element of an operand once, however often its statements touch it: it reads those that it has not
written before, and writes those that it stores. Which elements these are follows from the indexing maps; where places
are computed, each read or write counts for an element, up to those of the whole buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects import arith, func, linalg, memref, scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, MemRefType, ModuleOp
from xdsl.ir import Operation, SSAValue

from tenon.dialects.families.iteration_space import Subscript
from tenon.lowering.buffers.memref_facts import element_bytes
from tenon.lowering.kernels.statement import Access, Statement, buffer_shape, element_type, read_kernel, root_of

Mask = np.ndarray[Any, np.dtype[np.bool_]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]
UNKNOWN = 1 << 62
"""The iterations of a loop of which any number may run."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes that the `calls` of one kernel read and write during one call of the program.

    A call in a branch counts whether or not the branch is taken. One in a `while` loop, whose iterations are not known
    before it runs, counts once: then this is what is moved at least, `at_least`. Donated arguments count as given away.
    """

    kernel: str
    read: int
    written: int
    calls: int
    at_least: bool = False

    def __str__(self) -> str:
        times = f" in {self.calls} calls" if self.calls != 1 else ""
        rest = ", once for all iterations of a while loop" if self.at_least else ""
        return f"{self.read:>12} bytes read, {self.written:>12} written by {self.kernel}{times}{rest}"


def bytes_moved(module: ModuleOp, function_name: str = "main") -> tuple[Moved, ...]:
    """What each kernel moves that the function of a buffered `module` calls, and its copies (`memref.copy`), in the
    order of the first calls. The kernels are read by `read_kernel`, which changes them."""
    functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, func.FuncOp)}
    of_kernel: dict[str, tuple[int, int]] = {}
    found: dict[str, Moved] = {}
    entry = functions[function_name]
    for op in entry.body.walk():
        if isinstance(op, func.CallOp):
            name = op.callee.string_value()
            if name not in of_kernel:
                of_kernel[name] = _moved_by(functions[name])
            read, written = of_kernel[name]
        elif isinstance(op, memref.CopyOp) and not _is_in_place(op, entry):
            name = op.name
            read = written = prod(buffer_shape(op.source)) * element_bytes(element_type(op.source))
        else:
            continue
        trips = list(map(_trips, _loops_around(op)))
        calls = prod([count for count in trips if count != UNKNOWN])
        so_far = found.get(name, Moved(name, 0, 0, 0))
        found[name] = Moved(
            name,
            so_far.read + calls * read,
            so_far.written + calls * written,
            so_far.calls + calls,
            so_far.at_least or UNKNOWN in trips,
        )
    return tuple(found.values())


def _is_in_place(op: memref.CopyOp, entry: func.FuncOp) -> bool:
    """Whether a donated argument is copied to the output that takes over its memory: that moves nothing."""
    donors, inputs = entry.attributes.get("donations"), entry.attributes["num_inputs"]
    source, target = map(_whole, op.operands)
    if not isinstance(donors, DenseArrayBase) or source is None or target is None:
        return False
    args = entry.body.block.args
    assert isinstance(inputs, IntegerAttr)
    pairs = zip(donors.get_values(), args[inputs.value.data :], strict=False)
    return any(output is target and donor != -1 and args[donor] is source for donor, output in pairs)


def _whole(buffer: SSAValue) -> SSAValue | None:
    """What `buffer` is all of, in another shape perhaps."""
    root = buffer.owner.source if isinstance(buffer.owner, memref.ReinterpretCastOp) else buffer
    return root if prod(buffer_shape(root)) == prod(buffer_shape(buffer)) else None


def _moved_by(function: func.FuncOp) -> tuple[int, int]:
    """The bytes that one call of a kernel reads and writes."""
    if not function.body.blocks:  # the code is the target's
        inputs = function.attributes["num_inputs"]
        assert isinstance(inputs, IntegerAttr)
        types = [type_ for type_ in function.function_type.inputs if isinstance(type_, MemRefType)]
        sizes = [prod(type_.get_shape()) * element_bytes(type_.element_type) for type_ in types]
        return sum(sizes[: inputs.value.data]), sum(sizes[inputs.value.data :])
    touched: dict[SSAValue, list[tuple[bool, Places]]] = {}
    for item in read_kernel(function).items:
        touches = _of_statement(item) if isinstance(item, Statement) else _of_loops(item)
        for buffer, is_write, places in touches:
            if not isinstance(root_of(buffer).owner, memref.AllocOp):
                touched.setdefault(buffer, []).append((is_write, places))
    read = written = 0
    for buffer, parts in touched.items():
        size = element_bytes(element_type(buffer))
        elements = _counted(buffer_shape(buffer), parts)
        read += elements[0] * size
        written += elements[1] * size
    return read, written


Places = tuple[Mask, ...] | int
"""For each dimension which of its indices are touched; or how many elements there are at most."""
_Touch = tuple[SSAValue, bool, Places]
"""A buffer, whether it is written, and where."""


def _of_statement(statement: Statement) -> Iterator[_Touch]:
    extents = statement.extents
    reads = [access for access in statement.inputs if access.is_used]
    for position, output in enumerate(statement.outputs):
        if statement.initial[position] is None and statement.reads_output(position):
            reads.append(output)
    yield from ((access.buffer, False, _places(access, extents)) for access in reads)
    for load in statement.body_loads():
        yield load.memref, False, _computed_places(load, statement)
    yield from ((access.buffer, True, _places(access, extents)) for access in statement.outputs)


def _of_loops(item: Operation) -> Iterator[_Touch]:
    """Loops that read and replace elements one by one; what is replaced is taken to be read before."""
    for kind in (memref.LoadOp, memref.StoreOp):
        for op in item.walk():
            if isinstance(op, kind):
                yield op.memref, kind is memref.StoreOp, prod(map(_trips, _loops_around(op)))


def _places(access: Access, extents: Sequence[int]) -> Places:
    loops = [loop for subscript in access.subscripts for loop in subscript.factors if extents[loop] != 1]
    if len(set(loops)) < len(loops):  # a diagonal
        return prod([extents[loop] for loop in set(loops)])
    return tuple([_indices(*pair, extents) for pair in zip(access.subscripts, access.shape, strict=True)])


def _indices(subscript: Subscript, size: int, extents: Sequence[int]) -> Mask:
    """The indices that a subscript has: a run, for the longest loop, from each place that the others lead to."""
    factors = sorted(((extents[loop], factor) for loop, factor in subscript.factors.items()), reverse=True)
    count, step = factors[0] if factors else (1, 1)
    starts = np.array([subscript.constant])
    for extent, factor in factors[1:]:
        starts = np.unique(np.add.outer(starts, factor * np.arange(extent)))
    mask = np.zeros(size, np.bool_)
    for start in starts.tolist():
        ends = sorted((start, start + step * (count - 1)))
        mask[ends[0] : ends[1] + 1 : abs(step) or 1] = True
    return mask


def _computed_places(load: memref.LoadOp, statement: Statement) -> int:
    """At how many places a read in the body of a statement is at most: the iterations of the loops that tell where."""
    everything = {*range(len(statement.extents)), *_loops_around(load, statement.op)}
    loops: set[int | Operation] = set()
    pending, seen = list[SSAValue](load.indices), set[SSAValue]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        owner = value.owner
        if isinstance(owner, linalg.ops.IndexOp):
            loops.add(owner.dim.value.data)
        elif isinstance(owner, Operation):
            loops |= everything if owner.regions else set()
            pending += owner.operands
        elif owner is statement.body:
            place = statement.body.args.index(value)
            loops |= statement.inputs[place].loops() if place < len(statement.inputs) else everything
        elif isinstance(owner.parent_op(), scf.ForOp | scf.IfOp | scf.WhileOp):
            loops |= everything
    return prod([statement.extents[loop] if isinstance(loop, int) else _trips(loop) for loop in loops])


def _counted(shape: tuple[int, ...], touches: Sequence[tuple[bool, Places]]) -> tuple[int, int]:
    """How many elements of a buffer are read that were not written before, and how many are written."""
    masks = [places for _, places in touches if isinstance(places, tuple)]
    classes = [_classes(size, [places[dim] for places in masks]) for dim, size in enumerate(shape)]
    sizes = reduce(np.multiply.outer, [count for _, count in classes], np.ones((), np.int64))
    total = int(sizes.sum())
    read, written = np.zeros((2, *sizes.shape), np.bool_)
    some_read = some_written = 0
    for is_write, places in touches:
        if isinstance(places, tuple):
            parts = [mask[first] for mask, (first, _) in zip(places, classes, strict=True)]
            here = reduce(np.logical_and.outer, parts, np.ones((), np.bool_))
            if is_write:
                written |= here
            else:
                read |= here & ~written
        elif is_write:
            some_written += places
        else:
            some_read = min(some_read + places, total - int(sizes[read | written].sum()))
    return min(int(sizes[read].sum()) + some_read, total), min(int(sizes[written].sum()) + some_written, total)


def _classes(size: int, masks: Sequence[Mask]) -> tuple[Numbers, Numbers]:
    """The indices of a dimension that no mask tells apart: one of each class, and how many are in it."""
    partial = [mask for mask in masks if not mask.all()]
    if not partial:  # as they mostly are, of however many elements
        return np.zeros(min(size, 1), np.int64), np.full(min(size, 1), size)
    label = np.zeros(size, np.int64)
    for mask in partial:
        label = np.unique(2 * label + mask, return_inverse=True)[1]
    _, first, count = np.unique(label, return_index=True, return_counts=True)
    return first, count


def _loops_around(op: Operation, stop: Operation | None = None) -> Iterator[Operation]:
    around = op.parent_op()
    while around is not None and around is not stop:
        if isinstance(around, scf.ForOp | scf.WhileOp):
            yield around
        around = around.parent_op()


def _trips(loop: Operation) -> int:
    """How often a loop runs."""
    if not isinstance(loop, scf.ForOp):
        return UNKNOWN
    ops = [value.owner for value in (loop.lb, loop.ub, loop.step)]
    attributes = [op.value for op in ops if isinstance(op, arith.ConstantOp)]
    bounds = [attribute.value.data for attribute in attributes if isinstance(attribute, IntegerAttr)]
    return len(range(*bounds)) if len(bounds) == len(ops) else UNKNOWN
