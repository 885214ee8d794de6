"""`reduce-in-parts`: long reductions that have few results, for a GPU (text, see `Gpu`), in two phases.

Before: the buffered stage. After: a kernel whose first statement leaves most multiprocessors without work is two. The
first, `@k_parts`, reduces parts of equal length, and writes what it has of each to a buffer that the caller allocates;
the second, under the old name, reduces that, and does what followed.

    out = sum over i < 16777216 of f(x[i])      parts[g] = sum over i < 32768 of f(x[g, i])
                                                out = sum over g < 512 of parts[g]

Which part an element is in, and the order in which parts are combined, depend on sizes and the machine alone: results
are the same from launch to launch. Of a length without a fitting divisor, and of selections (the index of the largest),
the parts are ranges of an index, and what is left over is one more part, of a kernel `@k_rest`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, func, linalg, memref
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    FloatAttr,
    FunctionType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    NoneAttr,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from tenon.dialects.families.linalg_builders import PARALLEL
from tenon.dialects.families.monoid import Monoid, combining_monoid
from tenon.dialects.types.size import Size
from tenon.dialects.upstream.walking import all_ops, ops_of
from tenon.lowering.buffers.memref_facts import row_major_strides
from tenon.lowering.grid_schedules.columns import SPAN
from tenon.lowering.grid_schedules.contractions import large_product
from tenon.lowering.grid_schedules.parts import Parts, join_reductions, separate_elements, unscheduled_kernels
from tenon.lowering.grid_schedules.uneven_parts import UnevenReduction, combine_parts
from tenon.lowering.kernels.collapse_loops import collapse_loops
from tenon.lowering.kernels.selection import Selection, selection_of, slice_of
from tenon.lowering.kernels.statement import (
    Access,
    Kernel,
    LoopKind,
    Statement,
    buffer_shape,
    element_type,
    read_kernel,
    root_of,
)
from tenon.lowering.steps.nest import Nest, NestError
from tenon.passes.machine import Gpu

LEAST_ELEMENTS = 1 << 17
"""That a second launch is worth."""
SHORTEST_PART = 512
"""Elements of a part, where its results are few: a block has as many threads."""
PARTS = 4
"""Blocks for each multiprocessor: what the last ones leave idle is little then."""

TILE = 64
"""Rows and columns of a product that a block has: more only where there are enough of them."""
SHORTEST_PRODUCT = 256
"""Products for each sum of a part, below which to add up parts takes longer than the parts."""
BLOCKS_OF_FEW = 4
"""Of each multiprocessor, for products of so few tiles that most had none: small tiles have few threads."""
COPIED_TOGETHER = 16
"""Elements of each part that are a multiple of what one access moves."""


@dataclass(frozen=True)
class ReduceInPartsPass(ModulePass):
    """Make two kernels of those that reduce much to little."""

    name = "reduce-in-parts"

    machine: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine = Gpu.of_option(self.name, self.machine)
        for function in unscheduled_kernels(op, self.name):
            collapse_loops(function)
            separate_elements(op, function, partial(_is_long, machine))
            found = _find(function, machine)
            if found is not None:
                found.split(op)


def _find(function: func.FuncOp, machine: Gpu) -> _Reduction | UnevenReduction | None:
    """How a kernel is to be split, if it is."""
    kernel = read_kernel(function)
    if not kernel.statements or len(kernel.statements) != len(kernel.items):
        return None
    if _is_long(machine, kernel.statements[0]):
        kernel = join_reductions(function, kernel)
    first, *others = kernel.statements
    reductions = first.loops(LoopKind.REDUCTION)
    selection = selection_of(first.body, first.accumulators)
    if not reductions or first.loops(LoopKind.SEQUENTIAL):
        return None
    if any(isinstance(extent, Size) for extent in first.extents):
        return None
    tiles = _tiles(kernel, machine)
    if not _is_plain(first, selection, None if tiles is None else reductions[0]):
        return None
    if tiles is not None:
        wanted = (BLOCKS_OF_FEW if 2 * tiles <= machine.multiprocessors else 1) * machine.multiprocessors // tiles
        inner = prod(first.extents[known] for known in reductions[1:])
        parts = _parts_of_product(first.extents[reductions[0]], inner, wanted)
        return _Reduction(function, first, reductions[0], parts) if parts > 1 else None
    loop, *inner = [known for known in reductions if first.extents[known] > 1] or reductions
    length = first.extents[loop]
    results = prod(extent for known, extent in enumerate(first.extents) if known not in reductions)
    if prod(first.extents) < LEAST_ELEMENTS or any(prod(other.extents) > results for other in others):
        return None
    is_row, is_wide = _along_memory(first, results, machine)
    blocks = results if is_row or is_wide else -(-results // machine.warp)
    wanted = PARTS * machine.multiprocessors // max(blocks, 1)
    shortest = (SHORTEST_PART if is_row else machine.warp) // prod(first.extents[known] for known in inner)
    most = min(wanted, length // max(shortest, 1))
    parts = next((parts for parts in range(most, max(most // 2, 1), -1) if length % parts == 0), 1)
    if parts > 1 and selection is None:
        return _Reduction(function, first, loop, parts)
    uneven = Parts.of(length, most)
    return UnevenReduction(function, first, loop, uneven, selection) if uneven.count > 1 else None


def _along_memory(statement: Statement, results: int, machine: Gpu) -> tuple[bool, bool]:
    """Whether the largest input of a reduction has neighbours along what is reduced, and whether each multiprocessor
    could have columns of it."""
    inputs = [access for access in statement.inputs if access.is_used]
    if not inputs:
        return True, False
    largest = max(inputs, key=lambda access: prod(access.shape))
    is_row = any(largest.step(known) == 1 for known in statement.loops(LoopKind.REDUCTION))
    return is_row, results * largest.element_bytes >= machine.multiprocessors * SPAN


def _is_long(machine: Gpu, statement: Statement) -> bool:
    """Whether a statement is a reduction that has fewer results than multiprocessors, and much to combine for them."""
    if not statement.loops(LoopKind.REDUCTION) or any(isinstance(extent, Size) for extent in statement.extents):
        return False
    results = prod(statement.extents[loop] for loop in statement.loops(LoopKind.PARALLEL))
    return results < machine.multiprocessors and prod(statement.extents) >= LEAST_ELEMENTS


def _tiles(kernel: Kernel, machine: Gpu) -> int | None:
    """How many blocks a product of matrices has at least; None for other reductions."""
    try:
        nest = Nest.of(kernel, machine)
    except NestError:
        return None
    product = large_product(nest)
    if isinstance(product, str):
        return None
    rows, columns = (-(-nest.extents[axis] // TILE) for axis in (product.row, product.column))
    return rows * columns * prod(nest.extents[axis] for axis in product.others(nest))


def _parts_of_product(outer: int, inner: int, most: int) -> int:
    """How many parts of equal length a product is summed up in, whose outermost sum has `outer` terms of `inner` each:
    at most so many, none too short, and each a whole number of runs that are copied together, if that can be."""
    parts = [n for n in range(min(most, outer * inner // SHORTEST_PRODUCT), 1, -1) if outer % n == 0]
    return next((n for n in parts if inner > 1 or outer // n % COPIED_TOGETHER == 0), 1)


def _beginning(monoid: Monoid, element: Attribute, initial: SSAValue | None) -> IntegerAttr | FloatAttr:
    """What a part begins with: what changes nothing, or what the whole begins with, if that is a zero of another sign.
    Products of warpgroups begin with 0 for nothing, and the assembler serialises short ones that begin with -0."""
    identity = monoid.identity(element)
    known = initial.owner.value if initial is not None and isinstance(initial.owner, arith.ConstantOp) else None
    if isinstance(known, FloatAttr) and isinstance(identity, FloatAttr) and known.value.data == identity.value.data:
        return known
    return identity


def _is_plain(statement: Statement, selection: Selection | None, cut: int | None) -> bool:
    """Whether a statement combines, by monoids or as a selection, and from initial values, what depends on its operands
    alone, and no window moves along the loop `cut`; without one, there is no window."""
    arguments = statement.op.parent_op()
    assert isinstance(arguments, func.FuncOp)
    if any(initial is None for initial in statement.initial):
        return False
    monoids = [combining_monoid(statement.body, accumulator) for accumulator in statement.accumulators]
    if selection is None and None in monoids:
        return False
    if any(op.regions or isinstance(op, memref.LoadOp) for op in statement.body.ops):
        return False
    if selection is None and any(isinstance(op, linalg.ops.IndexOp) for op in statement.body.ops):
        return False
    for access in statement.accesses:
        type_, root = access.buffer.type, root_of(access.buffer)
        windows = [s for s, plain in zip(access.subscripts, access.plain_loops(), strict=True) if plain is None]
        if any(cut is None or subscript.factors.get(cut) for subscript in windows):
            return False
        if not isinstance(type_, MemRefType) or type_.layout != NoneAttr():
            return False
        if access in statement.inputs and not (_is_shape(access) or root in arguments.body.block.args):
            return False
    outer = [op for op in slice_of(list(_values_from_outside(statement))) if op.parent is not statement.body]
    return all(isinstance(op, arith.ConstantOp) for op in outer)


def _is_shape(access: Access) -> bool:
    """Whether an operand is there for the extents of loops alone."""
    return not access.is_used and isinstance(access.buffer.owner, memref.AllocOp)


def _values_from_outside(statement: Statement) -> set[SSAValue]:
    """What a body uses of the function around it."""
    inside = set(all_ops(statement.op))
    operands = {operand for op in statement.body.ops for operand in op.operands}
    return {value for value in operands if isinstance(value.owner, Operation) and value.owner not in inside}


@dataclass(frozen=True)
class _Reduction:
    """A kernel whose `first` statement reduces along `loop`, and others inside of it, which is to have `parts`."""

    function: func.FuncOp
    first: Statement
    loop: int
    parts: int

    def split(self, module: ModuleOp) -> None:
        """Make two kernels of the function, and change what calls it."""
        given = [access for access in self.first.inputs if not _is_shape(access)]
        inputs = [self._view_type(access) for access in given]
        parts = [
            MemRefType(element_type(output.buffer), [self.parts, *buffer_shape(output.buffer)])
            for output in self.first.outputs
        ]
        monoids = [combining_monoid(self.first.body, accumulator) for accumulator in self.first.accumulators]
        name = f"{self.function.sym_name.data}_parts"
        module.body.block.insert_op_before(self._partial(name, inputs, parts, monoids), self.function)
        arguments: list[SSAValue] = list(self.function.body.block.args)
        numbers = [arguments.index(root_of(access.buffer)) for access in given]
        shapes = [access.buffer.owner for access in self.first.inputs if _is_shape(access)]
        combine_parts(self.function, self.first, parts, monoids)
        for shape in shapes:
            if isinstance(shape, Operation) and not any(result.uses for result in shape.results):
                Rewriter.erase_op(shape)
        for call in ops_of(module, func.CallOp):
            if call.callee.string_value() == self.function.sym_name.data:
                _call(call, name, numbers, inputs, parts)

    def _view_type(self, access: Access) -> MemRefType:
        """The type of an input when the loop is cut."""
        shape: list[int] = []
        for size, loop in zip(access.shape, access.plain_loops(), strict=True):
            shape += [self.parts, size // self.parts] if loop == self.loop else [size]
        return MemRefType(element_type(access.buffer), shape)

    def _map(self, access: Access, map_: AffineMap, *, is_output: bool) -> AffineMap:
        """An index map of the statement, with a loop over parts in front of all others."""
        results: list[AffineExpr] = [AffineDimExpr(0)] if is_output else []
        moved = [AffineDimExpr(loop + 1) for loop in range(map_.num_dims)]
        for loop, subscript in zip(access.plain_loops(), map_.results, strict=True):
            if loop == self.loop:
                results.append(AffineDimExpr(0))
            results.append(subscript.replace_dims_and_symbols(moved, []))
        return AffineMap(map_.num_dims + 1, 0, tuple(results))

    def _partial(
        self,
        name: str,
        inputs: Sequence[MemRefType],
        parts: Sequence[MemRefType],
        monoids: Sequence[Monoid | None],
    ) -> func.FuncOp:
        """The kernel that reduces parts."""
        body = Block(arg_types=[*inputs, *parts])
        known: dict[SSAValue, SSAValue] = {}
        for value in _values_from_outside(self.first):
            assert isinstance(value.owner, Operation)
            body.add_op(value.owner.clone(known))
        outputs = body.args[len(inputs) :]
        for output, monoid, initial in zip(outputs, monoids, self.first.initial, strict=True):
            assert monoid is not None
            neutral = arith.ConstantOp(_beginning(monoid, element_type(output), initial))
            body.add_ops([neutral, linalg.ops.FillOp([neutral.result], [output], [])])
        op = self.first.op.clone(known)
        accesses = [(access, False) for access in self.first.inputs] + [(a, True) for a in self.first.outputs]
        maps = [
            self._map(access, known.data, is_output=is_output)
            for (access, is_output), known in zip(accesses, op.indexing_maps.data, strict=True)
        ]
        arguments = iter(body.args)
        operands: list[SSAValue] = []
        for access in self.first.inputs:
            if _is_shape(access):
                made = memref.AllocOp([], [], self._view_type(access))
                body.add_op(made)
                operands.append(made.memref)
            else:
                operands.append(next(arguments))
        op.operands = [*operands, *arguments]
        op.properties["indexing_maps"] = ArrayAttr([AffineMapAttr(map_) for map_ in maps])
        op.properties["iterator_types"] = ArrayAttr([PARALLEL, *op.iterator_types.data])
        body.add_ops([op, func.ReturnOp()])
        function = func.FuncOp(name, FunctionType.from_lists(body.arg_types, []), Region(body), StringAttr("private"))
        function.attributes |= {"kernel": UnitAttr()}
        return function


def _call(
    call: func.CallOp,
    name: str,
    numbers: Sequence[int],
    inputs: Sequence[MemRefType],
    parts: Sequence[MemRefType],
) -> None:
    """Call both kernels in the place of one."""
    builder = Builder(InsertPoint.before(call))
    views: list[SSAValue] = []
    for number, type_ in zip(numbers, inputs, strict=True):
        shape = type_.get_shape()
        cast = memref.ReinterpretCastOp(call.operands[number], [], [], [], [0], shape, row_major_strides(shape), type_)
        views.append(builder.insert(cast).result)
    made = [builder.insert(memref.AllocOp([], [], type_)).memref for type_ in parts]
    builder.insert(func.CallOp(name, [*views, *made], []))
    call.operands = (*call.operands, *made)
