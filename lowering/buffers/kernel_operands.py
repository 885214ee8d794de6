"""In the memory of which operands a kernel on tensors can have its results."""

from __future__ import annotations

from xdsl.dialects import func, linalg, scf
from xdsl.ir import BlockArgument, OpResult, SSAValue
from xdsl.ir.affine import AffineMap

from tenon.dialects.families.iteration_space import IterationSpace, Subscript
from tenon.dialects.families.linalg_builders import PARALLEL


def updated_operands(kernel: func.FuncOp) -> dict[int, int]:
    """The operands of this kernel (on tensors) of which a result is made by replacing elements, with the number of that
    result: the kernel has such an operand in the result's memory, and what is not replaced is left alone."""
    if not kernel.body.blocks or (returned := kernel.body.block.last_op) is None:
        return {}
    found: dict[int, int] = {}
    for number, value in enumerate(returned.operands):
        start = value
        while start.has_one_use() and (replaced := _replaced(start)) is not None:
            start = replaced
        if start is not value and start.owner is kernel.body.block and _is_read_in_place(start):
            assert isinstance(start, BlockArgument)
            found[start.index] = number
    return found


def _replaced(value: SSAValue) -> SSAValue | None:
    """The tensor of which some elements are replaced in `value`."""
    if not isinstance(value, OpResult):
        return None
    if isinstance(op := value.op, scf.ForOp):
        return op.iter_args[value.index]
    if isinstance(op, linalg.ops.GenericOp):
        number = len(op.inputs) + value.index
        return None if op.indexing_maps.data[number].data.is_projected_permutation() else op.operands[number]
    return None


def _is_read_in_place(value: SSAValue) -> bool:
    """Whether `value` is used once, but for what a generic that replaces elements of it reads where it does."""
    if value.has_one_use():
        return True
    users = {use.operation for use in value.uses}
    (op, *others) = users
    return not others and isinstance(op, linalg.ops.GenericOp) and all(u.index in read_in_place(op) for u in value.uses)


def read_in_place(op: linalg.ops.GenericOp) -> set[int]:
    """The operands of a generic that are its one destination, and where it reads what it then writes there."""
    maps, operands = op.indexing_maps.data, op.operands
    if len(op.outputs) != 1 or any(iterator != PARALLEL for iterator in op.iterator_types):
        return set()
    if not _reaches_each_once(op, maps[-1].data):
        return set()
    return {n for n, operand in enumerate(operands) if operand is operands[-1] and maps[n] == maps[-1]}


def elementwise_operands(kernel: func.FuncOp) -> frozenset[int]:
    """Which operands' memory a result of this kernel (on tensors) may reuse.

    None, unless all results come from one all-parallel generic that writes them with one map, each element once. An
    operand counts if that generic reads it with this map, and nothing reads it otherwise: then each of its elements is
    read before the element of the result in its place is written, in whatever order the loops run, and whatever the
    kernel computes before.
    """
    if not kernel.body.blocks:
        return frozenset()
    block = kernel.body.block
    returned = block.last_op.operands if block.last_op is not None else ()
    owners = {value.owner for value in returned}
    if len(set(returned)) != len(returned) or len(owners) != 1:
        return frozenset()
    (generic,) = owners
    if not isinstance(generic, linalg.ops.GenericOp) or any(i != PARALLEL for i in generic.iterator_types):
        return frozenset()
    input_count = len(generic.inputs)
    maps = [attribute.data for attribute in generic.indexing_maps]
    written = maps[input_count]
    if not written.is_projected_permutation() or any(map_ != written for map_ in maps[input_count:]):
        return frozenset()
    if not _reaches_each_once(generic, written):
        return frozenset()
    return frozenset(
        argument.index
        for argument in block.args
        if argument.first_use is not None
        and all(
            use.operation is generic and use.index < input_count and maps[use.index] == written for use in argument.uses
        )
    )


def _reaches_each_once(generic: linalg.ops.GenericOp, map_: AffineMap) -> bool:
    """Whether no two iterations of `generic` reach one element by `map_`: each loop is (a part of) an index alone, but
    for loops of one iteration, by which others say that they read a part of a dimension."""
    extents = IterationSpace.of(generic).extents
    found: list[int] = []
    for place in map_.results:
        loops = [loop for loop, factor in Subscript.of(place).factors.items() if factor and extents[loop] != 1]
        if len(loops) > 1:
            return False
        found += loops
    return all(extent == 1 or loop in found for loop, extent in enumerate(extents))
