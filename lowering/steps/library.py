"""`library(cublas)`: cuBLAS computes the whole kernel, in one call of the host in place of a launch.

It multiplies matrices of f16, bf16, f32 or f64, plain, transposed or batched, if nothing else is done to the sums but
to round them to the elements of the result: operands are those in memory, and sums are f32, those of f64 f64, as in
code of threads, in another order. No other step is done to such a kernel, which becomes a declaration that says what
is multiplied (`Multiplication`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from xdsl.dialects import arith, func, linalg
from xdsl.dialects.builtin import DenseArrayBase, MemRefType, StringAttr, i64
from xdsl.ir import Attribute, SSAValue

from tenon.lowering.steps.nest import Nest, NestAccess, NestStatement
from tenon.lowering.steps.pieces import is_zero
from tenon.lowering.steps.products import multiplied
from tenon.lowering.steps.step import Step
from tenon.passes.machine import CUBLAS

LIBRARY = "library"
"""The attribute of a kernel that says what computes it."""
ELEMENTS = ("f16", "bf16", "f32", "f64")
"""That cuBLAS multiplies here; results are of the same, or the sums."""
_LARGEST = (1 << 31) - 1
"""Of the numbers that cuBLAS takes as 32 bits."""


@dataclass(frozen=True)
class Operand:
    """Matrices among the arguments of a kernel, lines of neighbours each."""

    argument: int
    element: str
    line: int
    """Elements from a line to the next: a row, or a column if they are `transposed`."""
    transposed: bool
    between: int
    """Elements from a matrix to the next; 0: there is one, which all products have."""


@dataclass(frozen=True)
class Multiplication:
    """So many products of a matrix of `rows` by `depth` and one of `depth` by `columns`. The result has whole rows of
    neighbours."""

    rows: int
    columns: int
    depth: int
    count: int
    left: Operand
    right: Operand
    result: Operand

    @property
    def element(self) -> str:
        """What is multiplied."""
        return self.left.element

    def attributes(self) -> Mapping[str, Attribute]:
        """The attributes of a declaration that stands for this."""
        sizes = (self.rows, self.columns, self.depth, self.count)
        operands = {
            name: (one.argument, one.line, int(one.transposed), one.between)
            for name, one in (("left", self.left), ("right", self.right), ("result", self.result))
        }
        lists = {name: DenseArrayBase.from_list(i64, numbers) for name, numbers in {"sizes": sizes, **operands}.items()}
        return {LIBRARY: StringAttr(CUBLAS), **lists}

    @staticmethod
    def of(function: func.FuncOp) -> Multiplication:
        """What a declaration stands for."""
        lists: dict[str, tuple[int, ...]] = {}
        for name in ("sizes", "left", "right", "result"):
            numbers = function.attributes[name]
            assert isinstance(numbers, DenseArrayBase)
            lists[name] = tuple(map(int, numbers.get_values()))
        operands: list[Operand] = []
        for name in ("left", "right", "result"):
            argument, line, transposed, between = lists[name]
            buffer = function.function_type.inputs.data[argument]
            assert isinstance(buffer, MemRefType)
            operands.append(Operand(argument, str(buffer.element_type), line, bool(transposed), between))
        rows, columns, depth, count = lists["sizes"]
        left, right, result = operands
        return Multiplication(rows, columns, depth, count, left, right, result)


def is_library_call(function: func.FuncOp) -> bool:
    """Whether a declaration stands for what a library computes."""
    return LIBRARY in function.attributes


@dataclass(frozen=True)
class Library(Step):
    """Have the library `by` compute the kernel."""

    name = "library"

    by: str

    def obstacle(self, nest: Nest) -> str | None:
        if self.by != CUBLAS:
            return f"there is no library {self.by}, only {CUBLAS}"
        if (obstacle := next(library_obstacles(nest), None)) is not None:
            return obstacle
        if isinstance(found := multiplication(nest), str):
            return found
        if self.by not in nest.machine.libraries:
            return "cuBLAS is not there: not installed, not wanted (TENON_CUBLAS=0), or no part of what is compiled"
        return None

    def apply(self, nest: Nest) -> None:
        nest.library = self.by


def multiplication(nest: Nest) -> Multiplication | str:
    """The products of matrices that a kernel is, as cuBLAS does them; a text that says why it is none, or more."""
    reducing = [statement for statement in nest.statements if statement.reduced]
    others = [statement for statement in nest.statements if not statement.reduced]
    if len(reducing) != 1 or len(others) > 1:
        return f"{len(reducing)} statements reduce and {len(others)} do not, expected a product and what rounds it"
    (product,) = reducing
    element = multiplied(product)
    if isinstance(element, str):
        return element
    if not is_zero(product.statement.initial[0]):
        return "sums do not begin with 0"
    result = _stored(product, others)
    if isinstance(result, str):
        return result
    if "shared_arguments" in nest.kernel.function.attributes:
        return "the result shares memory with an operand"
    operands = [access for access in product.inputs if access.access.is_used]
    elements = [str(_memref(access).element_type) for access in (*operands, result)]
    if str(element) not in ELEMENTS or elements[2] not in (elements[0], str(_memref(product.outputs[0]).element_type)):
        return f"cuBLAS multiplies {', '.join(ELEMENTS)} here, not {elements[0]} to {elements[2]}"
    return _arranged(nest, operands, result)


def _stored(product: NestStatement, others: Sequence[NestStatement]) -> NestAccess | str:
    """Where sums of a product are stored, by themselves or rounded."""
    if not others:
        return product.outputs[0]
    (rounding,) = others
    used = [access for access in rounding.inputs if access.access.is_used]
    body = rounding.statement.body
    ops = [op for op in body.ops if not isinstance(op, linalg.ops.YieldOp)]
    is_rounded = len(rounding.outputs) == 1 and len(ops) == 1 and isinstance(ops[0], arith.TruncFOp)
    if not is_rounded or [access.place for access in used] != [product.outputs[0].place]:
        return "more is done to the sums than to round them"
    return rounding.outputs[0]


def _memref(access: NestAccess) -> MemRefType:
    type_ = access.access.buffer.type
    assert isinstance(type_, MemRefType)
    return type_


@dataclass(frozen=True)
class _Axis:
    """Axes that are gone through as one: how far it is from one iteration to the next in both operands and the
    result."""

    extent: int
    steps: tuple[int, int, int]


def _arranged(nest: Nest, operands: Sequence[NestAccess], result: NestAccess) -> Multiplication | str:
    """The matrices that operands and the result are made of."""
    arguments: list[SSAValue] = list(nest.kernel.function.body.block.args)
    accesses = [*operands, result]
    found = [_steps(access) for access in accesses]
    steps = [known for known in found if known is not None]
    if len(steps) != len(accesses) or any(access.buffer not in arguments for access in accesses):
        return "an operand or the result is no argument whose elements are a constant distance apart"
    groups: dict[tuple[bool, ...], list[str]] = {}
    for axis, extent in nest.extents.items():
        if extent == 0:
            return "nothing is multiplied"
        if extent > 1:
            groups.setdefault(tuple(axis in known for known in steps), []).append(axis)
    roles = ((True, False, True), (False, True, True), (True, True, False), (True, True, True))
    if any(where not in roles for where in groups):
        return "an axis is neither of rows, columns, products nor what is summed up"
    for role in roles[:2]:  # many products of one operand
        own = groups.get(role, [])
        if len(own) > 1 and _merged(nest, own, steps) is None:
            outermost = max(own, key=lambda axis: steps[2][axis])
            own.remove(outermost)
            groups.setdefault(roles[3], []).append(outermost)
    merged = [_merged(nest, groups.get(role, []), steps) for role in roles]
    whole = [axis for axis in merged if axis is not None]
    if len(whole) != len(roles):
        return "rows, columns or products are not a constant distance apart"
    rows, columns, depth, count = whole
    left, right = 0, 1
    if columns.extent > 1 and columns.steps[2] != 1:  # the result is the transposed product of what is transposed
        rows, columns, left, right = columns, rows, right, left
    numbers = [arguments.index(access.buffer) for access in accesses]

    def matrix(number: int, down: _Axis, across: _Axis) -> Operand | None:
        lines = _lines(down.extent, across.extent, down.steps[number], across.steps[number])
        element = str(_memref(accesses[number]).element_type)
        return None if lines is None else Operand(numbers[number], element, *lines, count.steps[number])

    one, other, out = matrix(left, rows, depth), matrix(right, depth, columns), matrix(2, rows, columns)
    if one is None or other is None or out is None or out.transposed:
        return "neighbours of an operand or of the result are along no axis of a matrix"
    sizes = rows.extent, columns.extent, depth.extent, count.extent
    if max(*sizes, one.line, other.line, out.line) > _LARGEST:
        return "a matrix is larger than cuBLAS takes"
    return Multiplication(*sizes, one, other, out)


def _steps(access: NestAccess) -> dict[str, int] | None:
    """How many elements an iteration of each axis moves, if that and where the first one is does not depend on more."""
    strides = _memref(access).get_strides()
    if strides is None or None in strides or any(access.constants) or access.access.padding is not None:
        return None
    steps: dict[str, int] = {}
    for factors, stride in zip(access.factors, strides, strict=True):
        for axis, factor in factors:
            steps[axis] = steps.get(axis, 0) + factor * (stride or 0)
    return steps


def _merged(nest: Nest, axes: Sequence[str], steps: Sequence[Mapping[str, int]]) -> _Axis | None:
    """Axes as one, if each goes on where the next one ends, in all that have them."""
    if not axes:
        return _Axis(1, (0, 0, 0))
    known_of = next(known for known in reversed(steps) if axes[0] in known)
    ordered = sorted(axes, key=lambda axis: -known_of[axis])
    for known in steps:
        for outer, inner in pairwise(ordered):
            if known.get(outer, 0) != known.get(inner, 0) * nest.extents[inner]:
                return None
    first, second, third = (known.get(ordered[-1], 0) for known in steps)
    return _Axis(prod(nest.extents[axis] for axis in axes), (first, second, third))


def _lines(rows: int, columns: int, down: int, across: int) -> tuple[int, bool] | None:
    """From line to line, and whether lines are columns, of a matrix that moves so far from row to row and from column
    to column."""
    for lines, neighbours, line, step, transposed in (
        (rows, columns, down, across, False),
        (columns, rows, across, down, True),
    ):
        if neighbours == 1 or step == 1:
            length = line if lines > 1 else neighbours
            if length >= neighbours:
                return length, transposed
    return None


def library_obstacles(nest: Nest) -> Iterator[str]:
    """What is against a library that computes a nest: other steps."""
    if nest.tiles or any(not loop.in_order or loop.name != loop.axis for loop in nest.loops):
        yield "a library runs no loops of a kernel, and other steps say how threads do"
