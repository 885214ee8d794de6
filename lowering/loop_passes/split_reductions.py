"""Reduction loops in chunks: each chunk gives a partial result, and these are combined in the order of the chunks.

    %r = scf.for %i = (0) to (4096) iter_args(%a = %init) { yield %a + f(%i) }

    %partial = memref.alloca() : memref<64xf32>
    scf.parallel (%c) = (0) to (4096) step (64) {
      %p = scf.for %i = (%c) to (%c + 64) iter_args(%a = -0.0) { yield %a + f(%i) }
      memref.store %p, %partial[%c / 64]
    } {threads}
    %r = scf.for %k = (0) to (64) iter_args(%a = %init) { yield %a + %partial[%k] }

What is carried may be scalars and vectors, each combined by an associative op of its own. The order of the operands
changes, but not from launch to launch: what a chunk is, and when its result is used, does not depend on threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.builder import Builder
from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from tenon.dialects.families.monoid import Monoid
from tenon.dialects.upstream.vector_arith import element_type_of
from tenon.dialects.upstream.walking import ops_of
from tenon.lowering.loop_ir.combiners import combiners_of
from tenon.lowering.loop_ir.launch_numbers import INDEX, Number, Numbers, known, product, smaller, total
from tenon.lowering.loop_ir.nests import NOT_IN_REDUCTIONS, perfectly_nested

_STORES = (*NOT_IN_REDUCTIONS, vector.StoreOp, vector.MaskedStoreOp)


def reduction_kinds(loop: scf.ForOp) -> tuple[Monoid, ...] | None:
    """How each carried value is combined, if `loop` and those nested perfectly in it do nothing else; or None."""
    if not loop.results or ops_of(loop, *_STORES):
        return None
    innermost = loop
    while (inner := perfectly_nested(innermost)) is not None:
        innermost = inner
    return combiners_of(innermost)


def split_reduction(
    loop: scf.ForOp, monoids: Sequence[Monoid], length: Number, count: Number, most: int
) -> scf.ParallelOp:
    """Make `count` chunks, `most` at most, of `length` iterations each; returns the loop over them."""
    numbers = Numbers(loop)
    before = Builder(InsertPoint.before(loop))
    stride = numbers.value(product(length, known(loop.step)))
    zero, one, chunks = numbers.value(0), numbers.value(1), numbers.value(count)
    initial = list(loop.iter_args)
    neutral = [_neutral(before, value.type, monoid) for value, monoid in zip(initial, monoids, strict=True)]
    partial = [_slots(before, value.type, most) for value in initial]
    block = Block(arg_types=[INDEX])
    chunked = before.insert(scf.ParallelOp([loop.lb], [loop.ub], [stride], Region(block)))
    results = Block(arg_types=[INDEX, *[value.type for value in initial]])
    combined = before.insert(scf.ForOp(zero, chunks, one, initial, results))
    for old, new in zip(loop.results, combined.results, strict=True):
        old.replace_all_uses_with(new)
    _combine(results, monoids, partial, zero)
    loop.detach()
    block.add_op(loop)
    start = block.args[0]
    inside = Numbers(loop)
    end = inside.value(smaller(total(start, stride), loop.ub))
    after = Builder(InsertPoint.at_end(block))
    distance = after.insert(arith.SubiOp(start, loop.lb)).result
    slot = after.insert(arith.DivUIOp(distance, stride)).result
    for value, memory in zip(loop.results, partial, strict=True):
        store = vector.StoreOp if isinstance(value.type, VectorType) else memref.StoreOp
        after.insert(store.create(operands=(value, memory, slot, *_rest(memory, zero))))
    after.insert(scf.ReduceOp.create())
    loop.operands = [start, end, loop.step, *neutral]
    return chunked


def _neutral(builder: Builder, value_type: Attribute, monoid: Monoid) -> SSAValue:
    """The value that changes nothing."""
    scalar = builder.insert(arith.ConstantOp(monoid.identity(element_type_of(value_type)))).result
    if not isinstance(value_type, VectorType):
        return scalar
    return builder.insert(vector.BroadcastOp.create(operands=(scalar,), result_types=(value_type,))).results[0]


def _slots(builder: Builder, value_type: Attribute, count: int) -> SSAValue:
    """Room for `count` values."""
    is_vector = isinstance(value_type, VectorType)
    element, shape = (value_type.element_type, value_type.get_shape()) if is_vector else (value_type, ())
    return builder.insert(memref.AllocaOp.get(element, shape=[count, *shape])).memref


def _rest(memory: SSAValue, zero: SSAValue) -> list[SSAValue]:
    """The indices behind that of a slot."""
    assert isinstance(memory.type, MemRefType)
    return [zero] * (memory.type.get_num_dims() - 1)


def _combine(block: Block, monoids: Sequence[Monoid], partial: Sequence[SSAValue], zero: SSAValue) -> None:
    """Fill the loop that combines what the chunks gave with what is carried."""
    builder = Builder(InsertPoint.at_end(block))
    slot, *carried = block.args
    combined: list[SSAValue] = []
    for value, monoid, memory in zip(carried, monoids, partial, strict=True):
        is_vector = isinstance(value.type, VectorType)
        load = vector.LoadOp if is_vector else memref.LoadOp
        operands = (memory, slot, *_rest(memory, zero))
        loaded = builder.insert(load.create(operands=operands, result_types=(value.type,))).results[0]
        combined.append(builder.insert(monoid.combine(value, loaded)).results[0])
    builder.insert(scf.YieldOp(*combined))
