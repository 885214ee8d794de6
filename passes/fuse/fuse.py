"""Outlines ops that can share their loops into kernels, which ends the tensor stage.

Before: tensor ops of known shapes whose composites were decomposed. After: each function with the attribute `kernel`
holds the ops of one fusion group; every other function holds only calls, `tenon.constant`, `tenon.reshape` (which
changes no memory), region ops and terminators. Constants of one repeated number are part of the kernels that use
them, and so are casts of what contractions multiply (`widened_operands`). Equal kernels are one function.

What becomes one group is said in `grouping`; ops that `chain-products` marked are one before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue, Use
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.definition.settings import array_of
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.traits import ComputedByUsers, KeepsMemory, KnownValue, states
from tenon.dialects.families import CompositeOp, ContractionOp, ReductionOp
from tenon.dialects.families.control_flow import ControlFlowOp
from tenon.dialects.families.opaque import OpaqueOp
from tenon.dialects.ops.control.checkpoint import RECOMPUTED
from tenon.dialects.ops.move.shape import ReshapeOp, TransposeOp
from tenon.dialects.types.types import shape_of
from tenon.passes.fuse.grouping import MOST_INPUTS, Group, Grouping
from tenon.passes.fuse.rederive import Rederivation
from tenon.passes.iteration import iteration_of
from tenon.passes.layout.joined_results import join_in_place
from tenon.passes.layout.summed_windows import contract_sums
from tenon.passes.layout.transposed_operands import (
    copies_columns,
    may_have_panels,
    operand_to_transpose,
    rows_to_transpose,
    with_transposed,
)
from tenon.passes.layout.widened_operands import Widened, restored, take_narrow_operands
from tenon.passes.loops.chained import chained
from tenon.passes.machine import Machine
from tenon.passes.simplify.dce import Effects, erase_dead_ops, functions_by_name

# A constant that is read at computed places must be in memory; up to this size a kernel may have its own copy.
_SMALL_CONSTANT = 256


@dataclass(frozen=True)
class FusePass(ModulePass):
    """Outline groups of ops that share loops into kernels for the `machine` (text, see `Machine`). With `strips`,
    contractions may be cut into these; without, one shares its loops with what is done to each element of its result
    alone. With `ranges`, what computes the elements that concatenations and the like move is taken in, if
    `split-index-sets` follows; with `updates`, what computes places and updates of a scatter, `any` or only what is
    `arithmetic`, if `fuse-structured{loops=true}` follows. So many rows as `long_rows` says, or more, may be of any
    length if they are only reduced and used element by element; 0: what is kept of each has a limit."""

    name = "fuse"

    strips: bool = True
    ranges: bool = True
    updates: str = ""
    long_rows: int = 0
    machine: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        effects = Effects(op)
        machine = Machine.of_option(self.name, self.machine)
        outliner = _Outliner(op, effects, machine, self)
        for function in list(functions_by_name(op).values()):
            if "kernel" in function.attributes:
                continue
            _check_decomposed(function)
            for block in function.body.blocks:
                erase_dead_ops(block, effects)
                outliner.outline(block)
                erase_dead_ops(block, effects)


def _is_outside(op: Operation) -> bool:
    """Whether `op` stays in the function that calls the kernels."""
    if not isinstance(op, TensorOp) or isinstance(op, OpaqueOp):
        return True
    return states(op, KnownValue) or states(op, KeepsMemory)


def _is_cloned(value: SSAValue) -> bool:
    """Whether kernels hold what makes `value` themselves instead of taking it as an argument."""
    op = value.owner
    if not isinstance(op, Operation) or not states(op, KnownValue):
        return states(op, ComputedByUsers) and not any(_is_outside_use(op, use) for use in value.uses)
    array = array_of(op.properties["value"])  # pyright: ignore[reportArgumentType]
    if array.size != 1 and any(array.strides):
        return False
    return array.size <= _SMALL_CONSTANT or not any(_reads_anywhere(use.operation, use.index) for use in value.uses)


def _is_outside_use(op: Operation | Block, use: Use) -> bool:
    user = use.operation
    is_inside = user.parent is op.parent and isinstance(user, TensorOp) and not _is_outside(user)
    return not is_inside or _reads_anywhere(user, use.index)


def _reads_anywhere(op: Operation, index: int) -> bool:
    iteration = iteration_of(op)
    return isinstance(op, OpaqueOp) if iteration is None else iteration.operands[index] is None


class _Outliner:
    """Turns groups into kernels of one module, and remembers the kernels that are there already."""

    def __init__(self, module: ModuleOp, effects: Effects, machine: Machine, options: FusePass) -> None:
        self._module = module
        self._machine = machine
        self._options = options
        self._effects = effects
        self._names = set(functions_by_name(module))
        self._kernels: dict[Hashable, str] = {}
        self._cloned: dict[SSAValue, bool] = {}
        self._transposed: dict[tuple[Block, SSAValue, tuple[int, ...]], SSAValue] = {}
        self._widened: Widened = {}

    def outline(self, block: Block) -> None:
        """Outline the groups of `block` and of the regions inside of it."""
        terminator = block.last_op
        assert terminator is not None
        assert terminator.has_trait(IsTerminator)
        if self._options.strips:
            join_in_place(block)
            contract_sums(block)
        self._widened |= take_narrow_operands(block, halves=not self._options.strips)
        for operations in chained(block):
            place = operations[-1].next_op
            assert place is not None
            group = Group(operations[0], 0)
            group.operations, group.closed = operations, False
            self._outline_group(group, place)
        grouping = Grouping(
            block,
            self._effects.is_pure,
            self._is_cloned,
            self._machine,
            strips=self._options.strips,
            ranges=self._options.ranges,
            updates=self._options.updates,
            long_rows=self._options.long_rows,
        )
        Rederivation(grouping.group_of, grouping.positions, self._is_cloned, self._machine.l2, MOST_INPUTS).run()
        for group in grouping.in_order():
            if states(op := group.operations[0], ComputedByUsers) and self._is_cloned(op.results[0]):
                continue  # it stays until its last user has a clone
            if len(group.operations) > 1 or not _is_outside(group.operations[0]):
                # What is added up over rows comes last: the other ops say what the shared loops are.
                group.operations.sort(
                    key=lambda op: (not group.added_up.isdisjoint(op.results), grouping.positions[op])
                )
                self._outline_group(group, terminator)
                continue
            # What stays keeps its place among the calls.
            (op,) = group.operations
            op.detach()
            block.insert_op_before(op, terminator)
            for region in op.regions:
                for inner in region.blocks:
                    self.outline(inner)

    def _is_cloned(self, value: SSAValue) -> bool:
        known = self._cloned.get(value)
        if known is None:
            known = self._cloned[value] = _is_cloned(value)
        return known

    def _outline_group(self, group: Group, terminator: Operation) -> None:
        block = terminator.parent
        assert block is not None
        is_single = len(group.operations) == 1
        operations = [part for op in group.operations for part in restored(op, self._widened)]
        if not is_single:
            _merge_equal(operations)
        if self._options.strips and not (is_single and may_have_panels(operations[0])):
            self._transpose_operands(operations, len(group.shared), terminator)
        reshapes: list[Operation] = []
        if group.closed or is_single:
            reshapes = _drop_kept_dimensions(operations)
        kernel = _Kernel(operations, self._is_cloned)
        name = self._kernels.get(kernel.key)
        is_new = name is None
        if name is None:
            name = self._kernels[kernel.key] = self._new_name()
        call = func.CallOp(name, list(kernel.inputs), [value.type for value in kernel.outputs])
        call.location = operations[-1].location
        block.insert_op_before(call, terminator)
        for value, result in zip(kernel.outputs, call.results, strict=True):
            result.name_hint = value.name_hint
            value.replace_uses_with_if(result, lambda use: use.operation not in kernel.members)
        for reshape in reshapes:
            reshape.detach()
            block.insert_op_before(reshape, terminator)
        if is_new:
            self._module.body.block.add_op(kernel.outlined(name))
        else:
            for op in reversed(operations):
                Rewriter.erase_op(op)

    def _transpose_operands(self, operations: list[Operation], shared: int, terminator: Operation) -> None:
        """Give the contractions of a group of so many `shared` loops, and what reduces short rows, the operands that
        they are fast with, in kernels before the group's."""
        for op in tuple(operations):
            if isinstance(op, ContractionOp):
                self._transpose_operand(op, operations, shared, terminator)
                continue
            for user, index in rows_to_transpose(op, operations, self._machine):
                self._transpose_rows(user, index, operations, terminator)

    def _transpose_operand(
        self, op: ContractionOp, operations: list[Operation], shared: int, terminator: Operation
    ) -> None:
        if (transposed := operand_to_transpose(op, self._machine)) is None:
            return
        if transposed.operand.owner in operations:
            return
        place = _in_front_of_loops(transposed.operand, terminator)
        if place is terminator and copies_columns(op, shared):
            return

        def reading(known: SSAValue) -> tuple[TensorOp, int]:
            rewritten = with_transposed(op, transposed, known)
            rewritten.location = op.location
            rewritten.results[0].name_hint = op.results[0].name_hint
            Rewriter.replace_op(op, rewritten)
            operations[operations.index(op)] = rewritten
            return rewritten, transposed.index

        self._with_transposed(transposed.operand, transposed.order, place, op, reading)

    def _transpose_rows(self, user: Operation, index: int, operations: list[Operation], terminator: Operation) -> None:
        """Let `user` read its operand from a transpose of it."""
        operand = user.operands[index]
        rank = len(shape_of(operand.type) or ())
        order = (*range(rank - 2), rank - 1, rank - 2)

        def reading(known: SSAValue) -> tuple[TensorOp, int]:
            back = TransposeOp.build_from([known], {"permutation": order})
            back.location = user.location
            Rewriter.insert_op(back, InsertPoint.before(user))
            operations.insert(operations.index(user), back)
            user.operands[index] = back.results[0]
            return back, 0

        self._with_transposed(operand, order, _in_front_of_loops(operand, terminator), user, reading)

    def _with_transposed(
        self,
        operand: SSAValue,
        order: tuple[int, ...],
        place: Operation,
        op: Operation,
        reading: Callable[[SSAValue], tuple[TensorOp, int]],
    ) -> None:
        """Have the transpose of `operand` computed by a kernel in front of `place`, unless one has it already, for what
        `reading` makes of it for `op`: an op and which operand of it that is."""
        assert place.parent is not None
        key = (place.parent, operand, order)
        known = self._transposed.get(key)
        is_new = known is None
        if known is None:
            transpose = TransposeOp.build_from([operand], {"permutation": order})
            transpose.location = op.location
            place.parent.insert_op_before(transpose, place)
            known = transpose.results[0]
        reader, index = reading(known)
        if is_new:
            assert isinstance(known.owner, Operation)
            self._outline_group(Group(known.owner, 0), place)
        self._transposed[key] = reader.operands[index]

    def _new_name(self) -> str:
        number = len(self._kernels)
        while (name := f"kernel_{number}") in self._names:
            number += 1
        self._names.add(name)
        return name


def _in_front_of_loops(value: SSAValue, place: Operation) -> Operation:
    """`place`, or the outermost loop around it that does not change `value`."""
    loop = place.parent_op()
    while isinstance(loop, ControlFlowOp) and loop.runs[1] not in (0, 1) and not loop.is_ancestor(value.owner):
        place, loop = loop, loop.parent_op()
    return place


def _merge_equal(operations: list[Operation]) -> None:
    """Compute once what the ops of a group compute twice: `recompute` cannot know what becomes one kernel."""
    if not any(RECOMPUTED in op.attributes for op in operations):
        return
    known: dict[Hashable, Operation] = {}
    for op in tuple(operations):
        op.attributes.pop(RECOMPUTED, None)
        attributes = frozenset(op.properties.items()), frozenset(op.attributes.items())
        first = known.setdefault((type(op), tuple(op.operands), *attributes), op)
        if first is op:
            continue
        for result, kept in zip(op.results, first.results, strict=True):
            result.replace_all_uses_with(kept)
        operations.remove(op)
        Rewriter.erase_op(op)


def _drop_kept_dimensions(operations: list[Operation]) -> list[Operation]:
    """Make reductions leave out the dimensions they reduce; returns the reshapes that put them back.

    The reduction is then the last thing that its kernel does, and the reshape costs nothing.
    """
    reshapes: list[Operation] = []
    for position, op in enumerate(operations):
        if not isinstance(op, ReductionOp) or not op.settings["keepdims"]:
            continue
        reduced = type(op).build_from(list(op.operands), {**op.settings, "keepdims": False})
        shape = shape_of(op.results[0].type)
        reshape = ReshapeOp.build_from([reduced.results[0]], {"shape": shape})
        reduced.location = reshape.location = op.location
        reshape.results[0].name_hint = op.results[0].name_hint
        Rewriter.replace_op(op, [reduced, reshape])
        operations[position] = reduced
        reshapes.append(reshape)
    return reshapes


class _Kernel:
    """The ops of one group as a function: what goes in, what comes out, and a key that equal kernels share."""

    def __init__(self, operations: Sequence[Operation], is_cloned: Callable[[SSAValue], bool]) -> None:
        self.operations = operations
        self.members = set(operations)
        self.inputs: dict[SSAValue, None] = {}
        self.constants: dict[SSAValue, None] = {}
        for op in operations:
            for value in op.operands:
                if value.owner not in self.members:
                    (self.constants if is_cloned(value) else self.inputs)[value] = None
        self.outputs = [
            result
            for op in operations
            for result in op.results
            if any(use.operation not in self.members for use in result.uses)
        ]
        self.key = self._key()

    def _key(self) -> Hashable:
        numbers: dict[SSAValue, int] = {}
        for value in (*self.inputs, *self.constants):
            numbers[value] = len(numbers)
        described: list[Hashable] = [value.type for value in self.inputs]
        for value in self.constants:
            assert isinstance(value.owner, Operation)
            described.append((type(value.owner), value.type, frozenset(value.owner.properties.items())))
        for op in self.operations:
            operands = tuple([numbers[value] for value in op.operands])
            types = tuple([result.type for result in op.results])
            attributes = frozenset(op.properties.items()), frozenset(op.attributes.items())
            described.append((type(op), operands, types, attributes))
            for result in op.results:
                numbers[result] = len(numbers)
        return (*described, tuple([numbers[value] for value in self.outputs]))

    def outlined(self, name: str) -> func.FuncOp:
        """The function, into which the ops are moved."""
        block = Block(arg_types=[value.type for value in self.inputs])
        mapper: dict[SSAValue, SSAValue] = {}
        for value, argument in zip(self.inputs, block.args, strict=True):
            argument.name_hint = value.name_hint
            mapper[value] = argument
        for value in self.constants:
            assert isinstance(value.owner, Operation)
            block.add_op(value.owner.clone(mapper))
        for op in self.operations:
            op.detach()
            op.operands = [mapper.get(value, value) for value in op.operands]
            block.add_op(op)
        block.add_op(func.ReturnOp(*self.outputs))
        types = list(block.arg_types), [value.type for value in self.outputs]
        function = func.FuncOp(name, types, Region(block), visibility="private")
        function.attributes["kernel"] = UnitAttr()
        function.location = self.operations[-1].location
        return function


def _check_decomposed(function: func.FuncOp) -> None:
    for op in function.walk():
        if isinstance(op, CompositeOp):
            raise PassFailedException(f"fuse: {op.name} is a composite op; run decompose first")
