"""`scf`, calls and returns to LLVM basic blocks with explicit phis.

Loops come out rotated (tested at the end, guarded in front where the trip count may be zero), so that machine code is
good without any IR pass. `scf.parallel` becomes nested serial loops; its results are combined in iteration order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import SymbolRefAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from tenon.lowering.llvm.function import KEPT_LOOP, FunctionWriter, Handlers
from tenon.lowering.llvm.tiles import plan_tiles, values_of
from tenon.lowering.llvm.types import I64, LlvmType

_SMALL = 24
"""Lines of an innermost loop up to which LLVM may write out some of its iterations."""

_WRITTEN_OUT = 300
"""Lines up to which LLVM may write out all iterations of an innermost loop."""

CONTROL_HANDLERS = Handlers()
handles = CONTROL_HANDLERS.register


def emit_loop(
    writer: FunctionWriter,
    index_type: LlvmType,
    bounds: tuple[str, str, str],
    initial: Sequence[tuple[LlvmType, str]],
    body: Callable[[str, list[str]], list[str]],
    trips: int | None = None,
) -> list[str]:
    """A loop over `bounds` (lower, upper, step) that carries values; `body` maps (index, carried) to the next carried.

    How often it runs, told by bounds that are numbers or by `trips`, decides at compile time whether a guard or a loop
    is needed at all. LLVM may write out iterations of small innermost loops; those of others, which hold loops or are
    vectors already, would only take it time.
    """
    lower, upper, step = bounds
    are_numbers = not any(bound.startswith("%") for bound in bounds)
    if are_numbers:
        trips = max(0, -((int(lower) - int(upper)) // int(step)))
    if trips == 0:
        return [value for _, value in initial]
    if trips == 1:
        with writer.region():
            return body(lower, [value for _, value in initial])
    enter, done = writer.fresh("loop"), writer.fresh("done")
    before = writer.current_block
    text = index_type.text
    if trips is not None:
        writer.branch(enter)
    else:
        writer.branch_if(writer.emit(f"icmp slt {text} {lower}, {upper}"), enter, done)
    writer.start_block(enter)
    phis = [writer.reserve() for _ in range(len(initial) + 1)]
    before_body, kept = len(writer.lines), writer.kept_loops
    with writer.region():
        carried = body(phis[0][1], [name for _, name in phis[1:]])
    latch = writer.current_block
    wraps = " nsw" if index_type == I64 else ""
    following = writer.emit(f"add{wraps} {text} {phis[0][1]}, {step}")
    again = writer.emit(f"icmp slt {text} {following}, {upper}")
    lines = len(writer.lines) - before_body
    is_innermost = writer.kept_loops == kept
    is_written_out = are_numbers and trips is not None and is_innermost and trips * lines <= _WRITTEN_OUT
    if not is_written_out:
        writer.kept_loops += 1
    writer.branch_if(again, enter, done, "" if is_written_out or (is_innermost and lines <= _SMALL) else KEPT_LOOP)
    writer.fill(*phis[0], writer.phi_text(index_type, [(lower, before), (following, latch)]))
    for phi, (value_type, start), value in zip(phis[1:], initial, carried, strict=True):
        writer.fill(*phi, writer.phi_text(value_type, [(start, before), (value, latch)]))
    writer.start_block(done)
    if trips is not None:
        return carried
    return [
        writer.phi(value_type, [(start, before), (value, latch)])
        for (value_type, start), value in zip(initial, carried, strict=True)
    ]


def counted_loop(writer: FunctionWriter, trips: str, body: Callable[[str], None]) -> None:
    """A loop from 0 to `trips` that carries nothing."""

    def run(index: str, _: list[str]) -> list[str]:
        body(index)
        return []

    emit_loop(writer, I64, ("0", trips, "1"), (), run)


def _values(writer: FunctionWriter, op: Operation | None) -> list[str]:
    """The operands of a terminator."""
    return [] if op is None else [writer.values[operand] for operand in values_of(op.operands)]


def _bind(writer: FunctionWriter, targets: Sequence[SSAValue], values: Sequence[str]) -> None:
    for target, value in zip(targets, values, strict=True):
        writer.values[target] = value


def _trips(writer: FunctionWriter, lower: SSAValue, upper: SSAValue, step: SSAValue) -> int | None:
    """How often a loop runs that goes on for a number from wherever it starts, as in a chunk; `None` for all others."""
    end, by = upper.owner, writer.integers.get(step)
    if not isinstance(end, arith.AddiOp) or by is None or lower not in (end.lhs, end.rhs):
        return None
    distance = writer.integers.get(end.rhs if end.lhs is lower else end.lhs)
    return None if distance is None else max(0, -(-distance // by))


def _bind_index(writer: FunctionWriter, index: SSAValue, value: str) -> None:
    """An induction variable; a loop of one trip gives it a number."""
    writer.values[index] = value
    if not value.startswith("%"):
        writer.integers[index] = int(value)


@handles("scf.for")
def _for(writer: FunctionWriter, op: Operation) -> None:
    assert isinstance(op, scf.ForOp)
    block = op.body.block
    index, *arguments = values_of(block.args)
    bounds = cast(tuple[str, str, str], tuple(writer.values[bound] for bound in op.operands[:3]))
    initial = [(writer.stored_type_of(value), writer.values[value]) for value in values_of(op.iter_args)]

    def body(position: str, carried: list[str]) -> list[str]:
        _bind_index(writer, index, position)
        _bind(writer, arguments, carried)
        return _values(writer, writer.operations(block))

    trips = _trips(writer, op.lb, op.ub, op.step)
    results = emit_loop(writer, writer.stored_type_of(index), bounds, initial, body, trips)
    _bind(writer, values_of(op.results), results)


@handles("scf.parallel")
def _parallel(writer: FunctionWriter, op: Operation) -> None:
    assert isinstance(op, scf.ParallelOp)
    block = op.body.block
    bounds = list(zip(op.lowerBound, op.upperBound, op.step, strict=True))
    types = [writer.stored_type_of(value) for value in op.initVals]

    def nest(depth: int, carried: list[str]) -> list[str]:
        if depth == len(bounds):
            reduce = writer.operations(block)
            return carried if reduce is None else _combine(writer, reduce, carried)

        def body(position: str, inner: list[str]) -> list[str]:
            _bind_index(writer, block.args[depth], position)
            return nest(depth + 1, inner)

        lower, upper, step = (writer.values[bound] for bound in bounds[depth])
        initial = list(zip(types, carried, strict=True))
        return emit_loop(writer, I64, (lower, upper, step), initial, body, _trips(writer, *bounds[depth]))

    _bind(writer, op.results, nest(0, [writer.values[value] for value in op.initVals]))


def _combine(writer: FunctionWriter, reduce: Operation, carried: list[str]) -> list[str]:
    """The regions of `scf.reduce`, each applied to what is carried and this iteration's value."""
    results = []
    for region, value, operand in zip(reduce.regions, carried, reduce.operands, strict=True):
        _bind(writer, region.block.args, [value, writer.values[operand]])
        results += _values(writer, writer.operations(region.block))
    return results


@handles("scf.if")
def _if(writer: FunctionWriter, op: Operation) -> None:
    assert isinstance(op, scf.IfOp)
    then, merge = writer.fresh("then"), writer.fresh("merge")
    has_else = bool(op.false_region.blocks)
    otherwise = writer.fresh("else") if has_else else merge
    writer.branch_if(writer.values[op.cond], then, otherwise)
    arms = [(then, op.true_region), (otherwise, op.false_region)]
    _merge(writer, op, [(label, region) for label, region in arms if region.blocks], merge)


def _merge(writer: FunctionWriter, op: Operation, arms: Sequence[tuple[str, Region]], merge: str) -> None:
    """The regions of which one runs, each in the block of its label, and the results of `op` where they meet."""
    ends: list[tuple[list[str], str]] = []
    for label, region in arms:
        writer.start_block(label)
        with writer.region():
            ends.append((_values(writer, writer.operations(region.block)), writer.current_block))
        writer.branch(merge)
    writer.start_block(merge)
    for number, result in enumerate(op.results):
        incoming = [(values[number], block) for values, block in ends]
        writer.values[result] = writer.phi(writer.stored_type_of(result), incoming)


@handles("scf.while")
def _while(writer: FunctionWriter, op: Operation) -> None:
    assert isinstance(op, scf.WhileOp)
    before, after = op.before_region.block, op.after_region.block
    head, body, done = writer.fresh("while"), writer.fresh("do"), writer.fresh("done")
    entered = writer.current_block
    writer.branch(head)
    writer.start_block(head)
    phis = [writer.reserve() for _ in before.args]
    _bind(writer, before.args, [name for _, name in phis])
    with writer.region():
        condition, *passed = _values(writer, writer.operations(before))
        writer.branch_if(condition, body, done)
        writer.start_block(body)
        _bind(writer, after.args, passed)
        carried = _values(writer, writer.operations(after))
    latch = writer.current_block
    writer.branch(head)
    for phi, argument, start, value in zip(phis, before.args, op.arguments, carried, strict=True):
        incoming = [(writer.values[start], entered), (value, latch)]
        writer.fill(*phi, writer.phi_text(writer.stored_type_of(argument), incoming))
    writer.start_block(done)
    _bind(writer, op.results, passed)


@handles("scf.execute_region", "memref.alloca_scope")
def _inline_region(writer: FunctionWriter, op: Operation) -> None:
    if len(op.regions[0].blocks) != 1:
        raise ValueError(f"emit_llvm: {op.name} in {writer.name} has {len(op.regions[0].blocks)} blocks, expected one")
    _bind(writer, op.results, _values(writer, writer.operations(op.regions[0].block)))


@handles("scf.index_switch")
def _switch(writer: FunctionWriter, op: Operation) -> None:
    assert isinstance(op, scf.IndexSwitchOp)
    merge, default = writer.fresh("merge"), writer.fresh("default")
    labels = [writer.fresh("case") for _ in op.case_regions]
    cases = zip(op.cases.get_values(), labels, strict=True)
    table = " ".join(f"i64 {case}, label %{label}" for case, label in cases)
    writer.effect(f"switch i64 {writer.values[op.arg]}, label %{default} [ {table} ]")
    arms = [*zip((default, *labels), (op.default_region, *op.case_regions), strict=True)]
    _merge(writer, op, arms, merge)


@handles("func.call")
def _call(writer: FunctionWriter, op: Operation) -> None:
    callee = op.properties["callee"]
    assert isinstance(callee, SymbolRefAttr)
    arguments = ", ".join(writer.typed(operand) for operand in op.operands)
    name = callee.root_reference.data
    match op.results:
        case ():
            writer.effect(f"call void @{name}({arguments})")
        case (result,):
            writer.define(result, f"call {writer.stored_type_of(result).text} @{name}({arguments})")
        case results:
            raise ValueError(f"emit_llvm: call of {name} has {len(results)} results, at most one is supported")


def function_body(writer: FunctionWriter, block: Block) -> list[str]:
    """The lines of a function whose arguments are already bound."""
    plan_tiles(writer, block)
    returned = writer.operations(block)
    lines_values = _values(writer, returned)
    lines = writer.finish()
    if returned is None or not lines_values:
        return [*lines, "  ret void"]
    return [*lines, f"  ret {writer.typed(returned.operands[0])}"]
