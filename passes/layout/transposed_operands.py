"""Operands that a contraction would read across memory, in the order of its result.

A contraction inside of strips of rows runs many times with the same operand. Its vectors go along the last dimension
of its result, so an operand that has this dimension further out, as the keys of an attention, S[i, j] += Q[i, d] * K[j,
d], is transposed once before: S[i, j] += Q[i, d] * T[d, j]. Strips along all loops of the result, as of a layer with an
activation, copy their columns to panels, which puts them in order, and so do tiles of matrices, once for all strips:
there a weight is transposed only if that can be done in front of a loop. A contraction alone has panels, too, but where
only the launch tells the extents of inner reductions: then it is transposed before as well.

So are short rows that another reduction reads for each element of a result with which its kernel goes on, such as
the coordinates of points whose distances are added up: S[i] += D[i, j], D[i, j] += |X[i, d] - Y[j, d]|.

A long sum over two operands that outgrow a cache, one of which is read across memory, such as the gradient of a weight,
W[m, n] += X[k, m] * Y[k, n], is fast with both copied to panels, which takes all of its loops: it shares them with no
other op (see `lowering.schedules.packing`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import BFloat16Type, IntegerType, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.families import ContractionOp, ElementwiseOp, ReductionOp
from tenon.dialects.ops.contract.contraction import ContractOp
from tenon.dialects.ops.elementwise.arithmetic import MultiplyOp
from tenon.dialects.ops.elementwise.constant import ConstantOp
from tenon.dialects.ops.reduce.reduction import SumOp
from tenon.dialects.types.size import Size, estimate
from tenon.dialects.types.types import element_of, numpy_dtype, shape_of
from tenon.passes.iteration import Iteration, axes_of, iteration_of
from tenon.passes.machine import Machine
from tenon.passes.tile_products import tiles_pay

FEWEST_REUSES = 32
"""How often an element must be read for a pass over memory to pay that only changes its place."""
LONG_SUM = 128
"""Terms of an element of the result beside which one more pass over that element costs little."""


@dataclass(frozen=True)
class TransposedOperand:
    """The operand `index` of a contraction, and the order of its axes that puts the result's last loop last."""

    index: int
    operand: SSAValue
    order: tuple[int, ...]


def operand_to_transpose(op: ContractionOp, machine: Machine) -> TransposedOperand | None:
    """The operand of `op` that should be transposed for `machine`, if there is one."""
    iteration = iteration_of(op)
    if iteration is None:
        return None
    along = _last_loop(iteration.results[0])
    if along is None:
        return None
    for index, access in enumerate(iteration.operands):
        if access is None or along not in access:
            continue
        last = _last_loop(access)
        if last == along or last is None or iteration.space.parallel[last] or _reuses(iteration, index) < FEWEST_REUSES:
            return None
        if _takes_tiles(op, iteration, index, machine):
            return None
        moved = access.index(along)
        order = (*[axis for axis in range(len(access)) if axis != moved], moved)
        return TransposedOperand(index, op.operands[index], order)
    return None


def rows_to_transpose(op: Operation, group: Collection[Operation], machine: Machine) -> list[tuple[Operation, int]]:
    """Which operands, and of which ops of `group`, have the short rows that `op` reduces, each for many elements of a
    result that others of the group use: none where these ops are used for anything else, or one has no such rows."""
    known = shape_of(op.operands[0].type) if isinstance(op, ReductionOp) else None
    if known is None or len(known) < 2 or any(isinstance(extent, Size) for extent in known):
        return []
    assert isinstance(op, ReductionOp)
    *_, columns, length = known
    lanes = machine.vector_bits // (8 * numpy_dtype(element_of(op.operands[0].type)).itemsize)
    is_used = any(use.operation in group for result in op.results for use in result.uses)
    if axes_of(op) != (len(known) - 1,) or not 1 < length <= lanes <= columns or not is_used:
        return []
    if isinstance(op, SumOp) and isinstance(op.x.owner, MultiplyOp):
        return []  # sums of products have panels, in strips as well
    found: list[tuple[Operation, int]] = []
    inside: set[Operation] = {op}
    pending: list[Operation] = [op]
    while pending:
        user = pending.pop()
        for index, operand in enumerate(user.operands):
            owner, sizes = operand.owner, shape_of(operand.type) or ()
            if isinstance(owner, ElementwiseOp) and owner in group:
                pending += [owner] if owner not in inside else []
                inside.add(owner)
            elif sizes[-2:] == (columns, length):
                if owner in group or prod(known) < FEWEST_REUSES * prod(sizes):
                    return []
                found.append((user, index))
    results = [result for inner in inside - {op} for result in inner.results]
    return found if all(use.operation in inside for result in results for use in result.uses) else []


def copies_columns(op: ContractionOp, shared: int) -> bool:
    """Whether `op` copies what it would read across memory, for it is done in strips along all loops of its result:
    `shared` is how many loops it has in common with other ops."""
    iteration = iteration_of(op)
    return iteration is not None and may_have_panels(op) and sum(iteration.space.parallel) <= shared


def may_have_panels(op: Operation) -> bool:
    """Whether what `op` reads may be copied to panels by its kernel, which has to know how large these are: it cuts the
    outermost reduction, and loops that are parallel, into blocks."""
    iteration = iteration_of(op)
    if iteration is None:
        return True
    space = iteration.space
    summed = [extent for extent, parallel in zip(space.extents, space.parallel, strict=True) if not parallel]
    return not any(isinstance(extent, Size) for extent in summed[1:])


def _takes_tiles(op: ContractionOp, iteration: Iteration, index: int, machine: Machine) -> bool:
    """Whether `op` is a product of two operands, of which `index` has the columns, that instructions on tiles do."""
    if len(op.operands) != 2 or any(isinstance(operand.owner, ConstantOp) for operand in op.operands):
        return False  # a kernel knows its numbers, and sums what they are multiplied by
    names = {_in_tiles(element_of(operand.type), element_of(op.results[0].type)) for operand in op.operands}
    if len(names) != 1 or not names.issubset(machine.tiles):
        return False
    space, access, other = iteration.space, iteration.operands[index], iteration.operands[1 - index]
    along = _last_loop(iteration.results[0])
    assert access is not None
    assert along is not None
    shared = [loop for loop, is_parallel in enumerate(space.parallel) if is_parallel and loop not in (*access, along)]
    rows, terms = _last_loop(tuple([loop for loop in other or () if loop in shared])), _last_loop(access)
    if rows is None or terms is None:
        return False
    sharing = prod([estimate(space.extents[loop]) for loop in shared])
    itemsize = numpy_dtype(element_of(op.operands[index].type)).itemsize
    return tiles_pay(space.extents, (rows, along, terms), sharing, itemsize)


def _in_tiles(element: Attribute, result: Attribute) -> str | None:
    """The name among `Machine.tiles` of an element whose products are added up for a result."""
    if isinstance(element, BFloat16Type):
        return "bf16"
    return "i8" if isinstance(element, IntegerType) and element.width.data == 8 and result == i32 else None


def _last_loop(access: tuple[int | None, ...]) -> int | None:
    return next((loop for loop in reversed(access) if loop is not None), None)


def _reuses(iteration: Iteration, index: int) -> int:
    """How often a contraction reads an element of an operand."""
    access = iteration.operands[index]
    assert access is not None
    return estimate(prod([extent for loop, extent in enumerate(iteration.space.extents) if loop not in access]))


def with_transposed(op: ContractionOp, transposed: TransposedOperand, value: SSAValue) -> TensorOp:
    """`op` with `value` in the place of the operand that it is the transpose of."""
    structure = type(op).loops([shape_of(operand.type) for operand in op.operands], op.settings)
    maps = list(structure.operands)
    index = maps[transposed.index]
    results = tuple([index.results[axis] for axis in transposed.order])
    maps[transposed.index] = AffineMap(index.num_dims, index.num_symbols, results)
    factors = [value if number == transposed.index else factor for number, factor in enumerate(op.operands)]
    settings = {
        "maps": (*maps, structure.result_map),
        "extents": structure.extents,
        "shape": shape_of(op.results[0].type),
    }
    return ContractOp.build_from([tuple(factors)], settings)


def wants_panels(op: Operation, machine: Machine) -> bool:
    """Whether `op` sums for long over operands that outgrow a cache, one of them across its memory."""
    iteration = iteration_of(op)
    if iteration is None or len(iteration.operands) != 2:
        return False
    space = iteration.space
    if not may_have_panels(op) or estimate(space.terms()) < LONG_SUM:
        return False
    if any(_is_near(op, iteration, index, machine) for index in range(2)):
        return False
    along = _last_loop(iteration.results[0])
    rows = [_last_loop(access) for access in iteration.operands if access is not None and along not in access]
    return len(rows) == 1 and rows[0] is not None and space.parallel[rows[0]]


def _is_near(op: Operation, iteration: Iteration, index: int, machine: Machine) -> bool:
    """Whether what one batch reads of an operand stays in the cache that products as fast as loads need it in, which is
    the nearest one unless they take two halves of a vector each (`packing`)."""
    batch = set(iteration.results[0]).intersection(*[access or () for access in iteration.operands])
    loops = {loop for loop in iteration.operands[index] or () if loop is not None} - batch
    itemsize = numpy_dtype(element_of(op.operands[index].type)).itemsize
    near = machine.l2 if machine.halves else machine.l1
    return prod([estimate(iteration.space.extents[loop]) for loop in loops]) * itemsize <= near
