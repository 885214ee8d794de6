"""In the memory of which operands a kernel on tensors can have its results."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import func, linalg, scf
from xdsl.dialects.builtin import TensorType
from xdsl.ir import BlockArgument, OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

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
    if any(map_ != written for map_ in maps[input_count:]) or not _reaches_each_once(generic, written):
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
    """Whether no two iterations of `generic` reach one element by `map_`: what it leaves out are loops of one
    iteration, by which others say that they read a part of a dimension."""
    if not map_.is_projected_permutation():
        return False
    left_out = set(range(map_.num_dims)) - map_.used_dims()
    return all(_iterations(generic, loop) == 1 for loop in left_out)


def _iterations(generic: linalg.ops.GenericOp, loop: int) -> Any:
    """How often a loop of `generic` runs, which an operand that it indexes by itself says; or `None`."""
    for attribute, value in zip(generic.indexing_maps, generic.operands, strict=True):
        for number, index in enumerate(attribute.data.results):
            if isinstance(index, AffineDimExpr) and index.position == loop:
                assert isinstance(value.type, TensorType)
                return value.type.get_shape()[number]
    return None
