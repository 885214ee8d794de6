"""What the iterations of a loop cost on one core: the cost model of `parallelize`.

In hundredths of a nanosecond, right within a factor of three or so, which is enough to tell what is worth a thread:

- a load or store moves 32 bytes per nanosecond (between what cache and memory give) and takes 0.1 ns at least;
- arithmetic takes 0.25 ns for 64 bytes of results or less; divisions, roots, reductions over lanes and the functions of
  `math` take more (`_COSTS`, `_FUNCTION`), as `expand-math` has not been at work yet;
- index arithmetic and constants are free, a loop multiplies by its iterations, a branch counts both of its sides.

A loop whose number of iterations is neither constant nor known in front of the parallel loop counts as
`UNKNOWN_TRIPS`.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, MemRefType, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tenon.dialects.upstream.amx import TileType
from tenon.lowering.buffers.memref_facts import element_bytes
from tenon.lowering.loop_ir.launch_numbers import Number, known, product, total, trips
from tenon.lowering.loop_ir.nests import constant_int

UNKNOWN_TRIPS = 32

# hundredths of a nanosecond for 64 bytes of results
_COSTS = {
    **dict.fromkeys(("arith.divf", "arith.remf", "math.sqrt", "math.rsqrt"), 250),
    **dict.fromkeys(("arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.floordivsi"), 600),
    **dict.fromkeys(("math.fma", "math.absf", "math.copysign", "math.floor", "math.ceil", "math.roundeven"), 25),
    "vector.reduction": 300,
    "vector.gather": 1600,
    **dict.fromkeys(("amx.tile_load", "amx.tile_mulf", "amx.tile_muli"), 30),
}
_SIMPLE, _FUNCTION, _CALL, _LOOP = 25, 600, 2000, 50
_FREE = frozenset({"arith.constant", "vector.broadcast", "vector.create_mask", "amx.tile_zero"})
_ACCESSES = frozenset({"load", "store", "maskedload", "maskedstore"})


Loop = scf.ParallelOp | scf.ForOp


def loop_bounds(loop: Loop) -> list[tuple[SSAValue, SSAValue, SSAValue]]:
    """Where each dimension of a loop starts and ends, and its step."""
    if isinstance(loop, scf.ForOp):
        return [(loop.lb, loop.ub, loop.step)]
    return list(zip(loop.lowerBound, loop.upperBound, loop.step, strict=True))


def loop_trips(loop: Loop) -> list[Number]:
    """How often each dimension of a loop runs."""
    return [trips(*map(known, bounds)) for bounds in loop_bounds(loop)]


def loop_work(loop: Loop) -> Number:
    """What all iterations of `loop` cost; a number that can be computed in front of it."""
    work = _block_cost(loop.body.block, loop)
    for count in loop_trips(loop):
        work = product(work, count)
    return work


def _block_cost(block: Block, outer: Loop) -> Number:
    simple = 0
    cost: Number = 0
    for op in block.ops:
        if op.regions:
            cost = total(cost, _cost_of_regions(op, outer))
        else:
            simple += _simple_cost(op)
    return total(cost, simple)


def _cost_of_regions(op: Operation, outer: Loop) -> Number:
    if isinstance(op, scf.ForOp | scf.ParallelOp):
        cost = total(_block_cost(op.body.block, outer), _LOOP)
        for bounds in loop_bounds(op):
            is_seen = not any(_is_inside(bound, outer) for bound in bounds if constant_int(bound) is None)
            cost = product(cost, trips(*map(known, bounds)) if is_seen else _most_trips(*bounds))
        return cost
    cost = 0
    for region in op.regions:
        for block in region.blocks:
            cost = total(cost, _block_cost(block, outer))
    return product(cost, UNKNOWN_TRIPS) if isinstance(op, scf.WhileOp) else cost


def _most_trips(lower: SSAValue, upper: SSAValue, step: SSAValue) -> int:
    """How often a loop runs at most, whose start or end is computed: its end may be the smaller of two numbers."""
    ends = upper.owner.operands if isinstance(upper.owner, arith.MinSIOp) else ()
    most = [end for value in ends if (end := constant_int(value)) is not None]
    length = constant_int(step)
    return -(-most[0] // length) if most and length else UNKNOWN_TRIPS


def _is_inside(value: SSAValue, loop: Loop) -> bool:
    """Whether a value is computed in the body of `loop`."""
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    while block is not None and block is not loop.body.block:
        parent = block.parent_op()
        block = parent.parent if parent is not None else None
    return block is not None


def _simple_cost(op: Operation) -> int:
    name = op.name
    if name in _FREE:
        return 0
    dialect, _, rest = name.partition(".")
    if rest in _ACCESSES:
        moved = op.results[0] if op.results else op.operands[-1 if rest == "maskedstore" else 0]
        return max(10, _bytes(moved.type) * 100 // 32)
    if not op.results or isinstance(op.results[0].type, IndexType | MemRefType):
        return _CALL if name in ("memref.copy", "func.call") else 0
    simple = _FUNCTION if dialect == "math" else _SIMPLE
    return _COSTS.get(name, simple) * max(1, -(-_bytes(op.results[0].type) // 64))


@lru_cache(1024)
def _bytes(value_type: Attribute) -> int:
    if isinstance(value_type, TileType):
        return value_type.rows * value_type.row_bytes
    if isinstance(value_type, VectorType):
        return prod(value_type.get_shape()) * element_bytes(value_type.element_type)
    return element_bytes(value_type)
