"""`sum-beside-rows`: a kernel that goes through rows adds up columns of what it reads or computes, beside that.

Before: the buffered stage. A kernel reduces the rows of arrays, such as the gradient of a norm of rows; others add up
the columns of one of these arrays, whose rows the first one reads or writes: gradients of scales and shifts.

After: the first one has a loop over groups of rows, and for each of these the sums of its columns; what is left for the
others is to add up groups. So each array is read once, and one that was made for its sums alone is not in memory.

    for i: f(x[i, :]) -> y[i, :]                    for p: for r: f(x[p * 64 + r, :]) -> y[p * 64 + r, :]
    for j: s[j] = sum of x[i, j] over i      ->                   t[p, :] = t[p, :] + x[p * 64 + r, :]
                                                    for j: s[j] = sum of t[p, j] over p

Blocks have groups, and keep the sums of a group in registers (`decide_rows_and_columns` in `rows`).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, func, linalg, memref
from xdsl.dialects.builtin import (
    MemRefType,
    ModuleOp,
    NoneAttr,
    StringAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from tenon.dialects.families.monoid import combining_op
from tenon.dialects.upstream.walking import all_ops, ops_of
from tenon.lowering.buffers.memref_facts import WHOLE_VIEWS, row_major_strides
from tenon.lowering.buffers.shared_arguments import shared_arguments
from tenon.lowering.grid_schedules.grouped_rows import GroupedRows, combining_columns, drop_argument, row_axis
from tenon.lowering.grid_schedules.parts import add_arguments, unscheduled_kernels
from tenon.lowering.grid_schedules.rows import decide_rows, held_threads
from tenon.lowering.kernels.collapse_loops import collapse_loops
from tenon.lowering.kernels.statement import (
    Kernel,
    buffer_shape,
    element_type,
    read_kernel,
    root_of,
)
from tenon.lowering.steps.nest import Nest, NestError
from tenon.lowering.steps.pieces import is_zero
from tenon.passes.machine import Gpu

THREADS = 512
"""Of each multiprocessor, for the rows that are gone through at a time."""
LEAST = 16
"""Rows of a group: the sums of groups are that much less to write and read than what they are sums of."""


@dataclass(frozen=True)
class SumBesideRowsPass(ModulePass):
    """Add up columns where rows are gone through."""

    name = "sum-beside-rows"

    machine: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine = Gpu.of_option(self.name, self.machine)
        kernels = {kernel.sym_name.data: kernel for kernel in unscheduled_kernels(op, self.name)}
        for kernel in kernels.values():
            collapse_loops(kernel)
        sums = {name: found for name, kernel in kernels.items() if (found := _matrix_of_sum(read_kernel(kernel)))}
        if not sums:
            return
        calls, in_place = ops_of(op, func.CallOp), shared_arguments(op)
        arrays = {call.operands[0] for call in calls if call.callee.string_value() in sums}
        beside = {call.callee.string_value() for call in calls if not arrays.isdisjoint(call.operands)}
        others = [name for name in kernels if name in beside and name not in {*sums, *in_place}]
        rows = {name: found for name in others if (found := _rows(kernels[name], machine)) is not None}
        written = {name: _written(kernel) for name, kernel in kernels.items()}
        made: dict[Hashable, Made] = {}
        scratch = _Scratch()
        for call in [call for call in calls if call.callee.string_value() in rows]:
            name = call.callee.string_value()
            found = _Beside.of(call, rows[name], sums, written)
            if found is None:
                continue
            key = name, found.key
            if key not in made:
                made[key] = _kernels(op, kernels, found, machine, len(made))
            found.replace(*made[key], scratch)
        called = {call.callee.string_value() for call in ops_of(op, func.CallOp)}
        for name, kernel in kernels.items():
            if name not in called and name in {*rows, *sums}:
                Rewriter.erase_op(kernel)


Made = tuple[func.FuncOp, Mapping[int, MemRefType], Sequence[func.FuncOp]]
Written = Mapping[str, Collection[int]]
"""The numbers of the arguments that kernels write."""


@dataclass(frozen=True)
class _Rows:
    """A kernel of `count` rows, which go to groups of `length`; the numbers of its arguments that are matrices of these
    rows, and how many columns these have."""

    count: int
    length: int
    arguments: Mapping[int, int]

    @property
    def groups(self) -> int:
        return self.count // self.length


def _matrix_of_sum(kernel: Kernel) -> tuple[int, ...] | None:
    """The rows and columns of a kernel that does nothing but add up, in its second argument, the columns of its first
    one, or of what is computed of each element."""
    arguments = kernel.function.body.block.args
    if len(kernel.statements) != 1 or len(kernel.items) != 1 or len(arguments) != 2:
        return None
    (statement,) = kernel.statements
    if len(statement.outputs) != 1 or len(statement.extents) != 2 or not is_zero(statement.initial[0]):
        return None
    total = combining_op(statement.body, statement.accumulators[0])
    inputs, (output,) = [access for access in statement.inputs if access.is_used], statement.outputs
    if len(inputs) != 1 or not isinstance(total, arith.AddfOp):
        return None
    (read,) = inputs
    if any(op.regions or op.dialect_name() not in ("arith", "math") for op in list(statement.body.ops)[:-1]):
        return None
    if root_of(read.buffer) is not arguments[0] or root_of(output.buffer) is not arguments[1]:
        return None
    is_plain = read.plain_loops() in ((0, 1), [0, 1]) and output.plain_loops() in ((1,), [1])
    return statement.extents if is_plain and read.shape == statement.extents else None


def _rows(function: func.FuncOp, machine: Gpu) -> _Rows | None:
    """The rows of a kernel that may be grouped: all statements go through them, all that depends on one is there by its
    number alone, and registers hold what a block has of one."""
    kernel = read_kernel(function)
    try:
        nest = Nest.of(kernel, machine)
        if isinstance(decide_rows(nest), str):
            return None
    except NestError:
        return None
    threads = held_threads(nest)
    if threads is None or any(op.name == "linalg.index" or isinstance(op, memref.LoadOp) for op in function.walk()):
        return None
    axis = row_axis(nest)
    if any(not isinstance(a.type, MemRefType) or a.type.layout != NoneAttr() for a in function.body.block.args):
        return None
    matrices = dict[SSAValue, int]()
    along, others = set[SSAValue](), set[SSAValue]()
    for statement in nest.statements:
        if axis not in statement.axes or axis in statement.reduced:
            return None
        for access in (*statement.inputs, *statement.outputs):
            (along if axis in access.axes else others).add(access.buffer)
            if axis not in access.axes:
                continue
            plain, shape = access.plain_axes(), access.access.shape
            if plain[0] != axis or axis in plain[1:] or None in plain or shape[0] != nest.extents[axis]:
                return None
            if len(shape) == 2:
                matrices[access.buffer] = shape[1]
    if along & others:
        return None
    rows = nest.extents[axis]
    most = min(machine.multiprocessors * max(THREADS // threads, 1), rows // LEAST)
    groups = next((n for n in range(most, max(most // 2, machine.multiprocessors // 2), -1) if rows % n == 0), 0)
    arguments = enumerate(function.body.block.args)
    found = {number: matrices[argument] for number, argument in arguments if argument in matrices}
    return _Rows(rows, rows // groups, found) if groups > 1 else None


@dataclass(frozen=True)
class _Sum:
    """A call that adds up the columns of an argument of a kernel of rows."""

    call: func.CallOp
    argument: int
    only: bool
    """Whether nobody else reads the argument, which the kernel of rows writes."""


@dataclass(frozen=True)
class _Beside:
    """A call of a kernel of rows, and the sums that it can do beside that."""

    call: func.CallOp
    rows: _Rows
    sums: tuple[_Sum, ...]

    @staticmethod
    def of(call: func.CallOp, rows: _Rows, sums: Mapping[str, tuple[int, ...]], written: Written) -> _Beside | None:
        """That of a call, if there are `sums` of the same rows; `written` has the arguments that kernels write."""
        found: list[_Sum] = []
        for number, columns in rows.arguments.items():
            array = call.operands[number]
            users = [use.operation for use in array.uses if use.operation is not call]
            own = [
                user
                for user in users
                if isinstance(user, func.CallOp)
                and sums.get(user.callee.string_value()) == (rows.count, columns)
                and user.operands[0] is array
                and user.parent is call.parent
                and _may_move(user, call, number in written[call.callee.string_value()], written)
            ]
            is_made = number in written[call.callee.string_value()] and isinstance(array.owner, Operation)
            only = is_made and len(own) == len(users)
            found += [_Sum(user, number, only) for user in own]
        return _Beside(call, rows, tuple(found)) if found else None

    @property
    def key(self) -> Hashable:
        """What tells kernels for this."""
        return tuple([(known.argument, known.only, known.call.callee.string_value()) for known in self.sums])

    def replace(
        self,
        kernel: func.FuncOp,
        views: Mapping[int, MemRefType],
        combining: Sequence[func.FuncOp],
        scratch: _Scratch,
    ) -> None:
        """Call the kernel that adds up groups, which is shown `views` of arguments, and others that add up these."""
        dropped = {known.argument for known in self.sums if known.only}
        builder = Builder(InsertPoint.before(self.call))
        operands: list[SSAValue] = []
        for number, operand in enumerate(self.call.operands):
            if (type_ := views.get(number)) is not None:
                shape = type_.get_shape()
                strides = row_major_strides(shape)
                operand = builder.insert(
                    memref.ReinterpretCastOp(operand, [], [], [], [0], shape, strides, type_)
                ).result
            if number not in dropped:
                operands.append(operand)
        types = [function.body.block.args[0].type for function in combining]
        parts = scratch.buffers(self.call, types, reused=all(self._follows(known.call) for known in self.sums))
        made = builder.insert(func.CallOp(kernel.sym_name.data, [*operands, *parts], []))
        for known, part, function in zip(self.sums, parts, combining, strict=True):
            call = func.CallOp(function.sym_name.data, [part, known.call.operands[1]], [])
            is_behind = self.call.is_before_in_block(known.call)
            builder = Builder(InsertPoint.before(known.call) if is_behind else InsertPoint.after(made))
            builder.insert(call)
            Rewriter.erase_op(known.call)
        Rewriter.erase_op(self.call)

    def _follows(self, call: func.CallOp) -> bool:
        """Whether nothing but such sums comes between the call of the kernel and another one, so that what the one has
        for the other is not needed any more when it is called next."""
        own, op = {known.call for known in self.sums}, self.call.next_op
        if not self.call.is_before_in_block(call):
            return True
        while op is not None and (op in own or op.name in _VIEWS or isinstance(op, arith.ConstantOp)):
            if op is call:
                return True
            op = op.next_op
        return False


class _Scratch:
    """What kernels have for those that add up groups: each call that is followed by these has the same memory."""

    def __init__(self) -> None:
        self._known: dict[Hashable, SSAValue] = {}

    def buffers(self, call: func.CallOp, types: Sequence[Attribute], *, reused: bool) -> list[SSAValue]:
        """Buffers of these types for a call: those of other calls of the function, if they are `reused`."""
        function = call.parent_op()
        while not isinstance(function, func.FuncOp):
            assert function is not None
            function = function.parent_op()
        found: list[SSAValue] = []
        for number, type_ in enumerate(types):
            assert isinstance(type_, MemRefType)
            key = function, type_, number
            if not reused or key not in self._known:
                made = memref.AllocOp([], [], type_)
                first = function.body.block.first_op if reused else call
                assert first is not None
                assert first.parent is not None
                first.parent.insert_op_before(made, first)
                found.append(made.memref)
                if reused:
                    self._known[key] = made.memref
            else:
                found.append(self._known[key])
        return found


def _may_move(user: func.CallOp, call: func.CallOp, is_written: bool, written: Written) -> bool:
    """Whether what `user` adds up may be added up by `call`, before or behind which it is."""
    is_behind = call.is_before_in_block(user)
    if is_written and not is_behind:
        return False
    first, last = (call, user) if is_behind else (user, call)
    array, total = _memory(user.operands[0]), _memory(user.operands[1])
    op = first.next_op
    while op is not None and op is not last:
        for inner in all_ops(op):
            changed = _changed(inner, written)
            if array in changed or any(_memory(operand) is total for operand in inner.operands if changed):
                return False
        op = op.next_op
    return total is not array and all(_memory(operand) is not total for operand in call.operands)


def _changed(op: Operation, written: Written) -> set[SSAValue]:
    """The memory that an op may write to, or, if it may write to some, reads."""
    if not isinstance(op, func.CallOp):
        is_view = op.name.startswith(("arith.", "scf.yield")) or op.name in _VIEWS
        return set() if is_view else {_memory(operand) for operand in op.operands}
    numbers = written.get(op.callee.string_value(), range(len(op.operands)))
    return {_memory(op.operands[number]) for number in numbers}


_VIEWS = ("memref.view", "memref.alloc", "memref.reinterpret_cast", "memref.subview", "memref.collapse_shape")


def _memory(value: SSAValue) -> SSAValue:
    """What a view shows: an argument, or a place of the arena."""
    while isinstance(value.owner, (memref.ReinterpretCastOp, memref.SubviewOp, *WHOLE_VIEWS)):
        value = value.owner.operands[0]
    return value


def _written(function: func.FuncOp) -> list[int]:
    """The numbers of the arguments that a kernel may write."""
    kernel, arguments = read_kernel(function), list(function.body.block.args)
    if len(kernel.statements) != len(kernel.items):
        return list(range(len(arguments)))
    roots = [root_of(output.buffer) for statement in kernel.statements for output in statement.outputs]
    return [number for number, argument in enumerate(arguments) if argument in roots]


def _kernels(module: ModuleOp, kernels: Mapping[str, func.FuncOp], beside: _Beside, machine: Gpu, number: int) -> Made:
    """The kernel of rows that adds up columns, what it is shown of arguments, and the kernels that add up what it has
    of groups."""
    function = kernels[beside.call.callee.string_value()]
    copy, name = function.clone(), f"{function.sym_name.data}_sums{number}"
    for attribute in ("num_inputs", "num_outputs"):
        copy.attributes.pop(attribute, None)
    copy.properties["sym_name"] = StringAttr(name)
    module.body.block.insert_op_before(copy, function)
    groups = GroupedRows(copy, beside.rows.groups, beside.rows.length, machine)
    arguments = groups.arguments
    dropped = dict.fromkeys([arguments[known.argument] for known in beside.sums if known.only])
    for argument in dropped:
        groups.keep_inside(argument)
    groups.cut()
    combining: dict[Hashable, func.FuncOp] = {}
    order: list[func.FuncOp] = []
    for known in beside.sums:
        like = kernels[known.call.callee.string_value()]
        (total,), source = ops_of(like, linalg.ops.GenericOp), groups.source(arguments[known.argument])
        part = MemRefType(element_type(total.outputs[0]), [beside.rows.groups, buffer_shape(source)[-1]])
        (target,) = add_arguments(copy, [part])
        groups.add_up(source, total, target)
        key = like.sym_name.data, part
        if key not in combining:
            combining[key] = combining_columns(module, like, part, f"{name}_columns{len(combining) or ''}")
        order.append(combining[key])
    for argument in dropped:
        drop_argument(copy, argument)
    return copy, groups.views, order
