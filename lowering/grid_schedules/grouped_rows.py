"""A kernel of rows that goes through groups of them, and adds up columns of each beside that (`sum_beside_rows`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects import arith, func, linalg, memref
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    FunctionType,
    MemRefType,
    ModuleOp,
    StringAttr,
    i32,
)
from xdsl.ir import Block, BlockArgument, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.rewriter import Rewriter

from tenon.dialects.families.linalg_builders import PARALLEL, REDUCTION
from tenon.dialects.types.types import i8
from tenon.dialects.upstream.walking import ops_of
from tenon.lowering.kernels.statement import buffer_shape, element_type, read_kernel, root_of
from tenon.lowering.steps.nest import Nest
from tenon.passes.machine import Gpu


class GroupedRows:
    """Rewrites a copy of a kernel of rows so that it goes through groups of them, and adds up columns of each."""

    def __init__(self, function: func.FuncOp, groups: int, length: int, machine: Gpu) -> None:
        self.function = function
        self.arguments = list(function.body.block.args)
        nest = Nest.of(read_kernel(function), machine)
        axis = row_axis(nest)
        self.statements = [
            (
                known.statement,
                known.axes.index(axis),
                [axis in access.axes for access in (*known.inputs, *known.outputs)],
            )
            for known in nest.statements
        ]
        self.shape = (groups, length)
        entry = function.body.block
        first = next(op for op in entry.ops if not isinstance(op, memref.CollapseShapeOp | arith.ConstantOp))
        self.extents = memref.AllocOp([], [], MemRefType(i8, self.shape))
        entry.insert_op_before(self.extents, first)
        self.first = first
        self.split: dict[SSAValue, SSAValue] = {}
        """Buffers, as they were, and with a dimension for groups, and one for the rows of these."""
        self.inside: dict[SSAValue, SSAValue] = {}
        """What stands for arguments that became buffers inside of the kernel."""
        self.views: dict[int, MemRefType] = {}
        """What arguments, by number, are shown as."""

    def shown(self, argument: SSAValue) -> SSAValue:
        """What statements have of an argument: itself, or a view."""
        accesses = [access for statement, _, _ in self.statements for access in statement.accesses]
        return next(access.buffer for access in accesses if root_of(access.buffer) is argument)

    def keep_inside(self, argument: SSAValue) -> None:
        """Have an argument be a buffer inside of the kernel."""
        shown = self.shown(argument)
        made = memref.AllocOp([], [], MemRefType(element_type(shown), buffer_shape(shown)))
        self.function.body.block.insert_op_before(made, self.first)
        shown.replace_all_uses_with(made.memref)
        self.inside[argument] = made.memref

    def source(self, argument: SSAValue) -> SSAValue:
        """What columns are added up of, now that statements are cut."""
        return self.split[self.inside.get(argument) or self.shown(argument)]

    def cut(self) -> None:
        """Give each statement a loop over groups in front of that over rows."""
        block = self.function.body.block
        for buffer in dict.fromkeys(self._buffers()):
            type_ = MemRefType(element_type(buffer), [*self.shape, *buffer_shape(buffer)[1:]])
            argument = root_of(buffer)
            if isinstance(argument, BlockArgument):
                self.views[self.arguments.index(argument)] = type_
                new: SSAValue = block.insert_arg(type_, argument.index)
            else:
                assert isinstance(buffer.owner, memref.AllocOp)
                made = memref.AllocOp([], [], type_)
                block.insert_op_before(made, buffer.owner)
                new = made.memref
            buffer.replace_all_uses_with(new)
            self.split[buffer] = new
            if isinstance(argument, BlockArgument):
                drop_argument(self.function, argument)
            elif isinstance(buffer.owner, memref.AllocOp):
                Rewriter.erase_op(buffer.owner)
        for statement, at, along in self.statements:
            self._cut(statement.op, at, along)

    def _buffers(self) -> Iterator[SSAValue]:
        for statement, _, along in self.statements:
            yield from [value for value, is_row in zip(statement.op.operands, along, strict=True) if is_row]

    def _cut(self, op: linalg.ops.GenericOp, at: int, along: Sequence[bool]) -> None:
        count = len(op.iterator_types.data) + 1
        before = [AffineDimExpr(n + int(n > at)) for n in range(count - 1)]
        maps: list[AffineMap] = [AffineMap(count, 0, (AffineDimExpr(at), AffineDimExpr(at + 1)))]
        for known, is_row in zip(op.indexing_maps.data, along, strict=True):
            results = [result.replace_dims_and_symbols(before, []) for result in known.data.results]
            if is_row:
                results[:1] = maps[0].results
            maps.append(AffineMap(count, 0, tuple(results)))
        kinds = list(op.iterator_types.data)
        kinds.insert(at, PARALLEL)
        inputs, outputs = len(op.inputs), len(op.outputs)
        op.operands = [self.extents.memref, *op.operands]
        op.body.block.insert_arg(i8, 0)
        op.properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, [inputs + 1, outputs])
        op.properties["indexing_maps"] = ArrayAttr([AffineMapAttr(map_) for map_ in maps])
        op.properties["iterator_types"] = ArrayAttr(kinds)

    def add_up(self, source: SSAValue, like: linalg.ops.GenericOp, target: SSAValue) -> None:
        """Add up the columns of each group of an array, as another op does those of all rows."""
        groups, columns = buffer_shape(target)
        group, row, column = (AffineDimExpr(n) for n in range(3))
        element = element_type(target)
        assert isinstance(element, AnyFloat)
        zero = arith.ConstantOp(FloatAttr(0.0, element))
        total = memref.AllocOp([], [], MemRefType(element, [groups, columns]))
        region = like.body.clone()
        region.block.insert_arg(i8, 0)
        maps = [(group, row), (group, row, column), (group, column)]
        added = linalg.ops.GenericOp(
            [self.extents.memref, source],
            [total.memref],
            region,
            ArrayAttr([AffineMapAttr(AffineMap(3, 0, places)) for places in maps]),
            ArrayAttr([PARALLEL, REDUCTION, PARALLEL]),
        )
        body = Block(arg_types=[element, element])
        body.add_op(linalg.ops.YieldOp(body.args[0]))
        plain = AffineMapAttr(AffineMap(2, 0, (AffineDimExpr(0), AffineDimExpr(1))))
        stored = linalg.ops.GenericOp(
            [total.memref], [target], Region(body), ArrayAttr([plain, plain]), ArrayAttr([PARALLEL, PARALLEL])
        )
        fill = linalg.ops.FillOp([zero.result], [total.memref], [])
        last = self.function.body.block.last_op
        assert last is not None
        self.function.body.block.insert_ops_before([zero, total, fill, added, stored], last)


def row_axis(nest: Nest) -> str:
    """The axis along which rows are counted, where all statements reduce the other one."""
    return next(axis for axis in nest.extents if not any(axis in s.reduced for s in nest.statements))


def combining_columns(module: ModuleOp, function: func.FuncOp, part: MemRefType, name: str) -> func.FuncOp:
    """A kernel that adds up the columns of an array of another type than a given one."""
    copy = function.clone()
    for attribute in ("num_inputs", "num_outputs"):
        copy.attributes.pop(attribute, None)
    copy.properties["sym_name"] = StringAttr(name)
    module.body.block.insert_op_before(copy, function)
    block = copy.body.block
    old, new = block.args[0], block.insert_arg(part, 0)
    (op,) = ops_of(copy, linalg.ops.GenericOp)
    op.operands = [new if root_of(operand) is old else operand for operand in op.operands]
    number = next(n for n, operand in enumerate(op.operands) if operand is new)
    body = Block(arg_types=[element_type(operand) for operand in op.operands])
    total = arith.AddfOp(body.args[-1], body.args[number], flags=arith.FastMathFlagsAttr([arith.FastMathFlag.REASSOC]))
    body.add_ops([total, linalg.ops.YieldOp(total.result)])
    op.body.detach_block(op.body.block)
    op.body.add_block(body)
    drop_argument(copy, old)
    return copy


def drop_argument(function: func.FuncOp, argument: BlockArgument) -> None:
    """Take an argument from a kernel, of which there are no more than views that nobody uses."""
    for use in [*argument.uses]:
        Rewriter.erase_op(use.operation)
    block = function.body.block
    block.erase_arg(argument)
    function.function_type = FunctionType.from_lists([known.type for known in block.args], [])
