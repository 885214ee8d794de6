"""What is a product of matrices, and which instruction computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import arith, linalg
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, i8, i32
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from tenon.dialects.families.monoid import combining_op
from tenon.lowering.instructions.instruction import Instruction
from tenon.lowering.instructions.table import INSTRUCTIONS
from tenon.lowering.instructions.warpgroup import COLUMNS, wgmma_name
from tenon.lowering.kernels.statement import LoopKind
from tenon.lowering.steps.nest import Nest, NestAccess, NestStatement
from tenon.passes.machine import Gpu

TF32 = "tf32"


@dataclass(frozen=True)
class MatrixProduct:
    """A sum of products along the axis `reduced`, of an operand that has the rows of the result and one that has its
    columns; the rows come first in the result. Sums along the axes `around`, such as those of a window, are of such
    products."""

    statement: NestStatement
    row: str
    column: str
    reduced: str
    left: NestAccess
    right: NestAccess
    around: tuple[str, ...] = ()

    def turned(self) -> MatrixProduct:
        """The same with rows and columns exchanged."""
        return replace(self, row=self.column, column=self.row, left=self.right, right=self.left)

    def others(self, nest: Nest) -> list[str]:
        """The axes of which each iteration is a product of its own."""
        return [axis for axis in nest.extents if axis not in (self.row, self.column, self.reduced, *self.around)]


def matrix_product(statement: NestStatement) -> MatrixProduct | str:
    """The product of matrices that a statement is; a text that says why it is none."""
    generic = statement.statement
    if not statement.reduced or LoopKind.SEQUENTIAL in generic.kinds or len(statement.outputs) != 1:
        return "nothing is contracted"
    inputs = [access for access in statement.inputs if access.access.is_used]
    if _product(statement) is None or len(inputs) != 2:
        return "the reduction is no sum of products of two operands"
    output = statement.outputs[0]
    if None in output.plain_axes():
        return "an index of the result is no axis"
    common = [axis for axis in statement.reduced if all(_leads(axis, access) for access in inputs)]
    if not common:
        return "no axis that is reduced moves along both operands"
    extents = dict(zip(statement.axes, map(int, generic.extents), strict=True))
    reduced = max(reversed(common), key=lambda axis: extents[axis])  # of equal ones the one along which neighbours are
    own = [
        [axis for axis in output.axes if axis not in other.axes and _leads(axis, one)]
        for one, other in (inputs, inputs[::-1])
    ]
    if not all(own):
        return "no axis of the result belongs to one operand alone"
    left, right = inputs
    rows, columns = own
    if output.axes.index(rows[-1]) > output.axes.index(columns[-1]):
        left, right, rows, columns = right, left, columns, rows
    tile = {rows[-1], columns[-1], reduced}
    for access in inputs:
        for axis, factors in zip(access.leading, access.factors, strict=True):
            if tile & {known for known, _ in factors} - {axis}:
                return "an index of an operand is no axis"
    around = tuple(axis for axis in statement.reduced if axis != reduced)
    return MatrixProduct(statement, rows[-1], columns[-1], reduced, left, right, around)


def _leads(axis: str, access: NestAccess) -> bool:
    """Whether an axis is in one subscript of an access alone, as what moves within a tile."""
    return axis in access.leading and sum(axis == known for of_one in access.factors for known, _ in of_one) == 1


def _product(statement: NestStatement) -> Operation | None:
    """The multiplication of a statement that adds up products."""
    (accumulator,) = statement.statement.accumulators
    total = combining_op(statement.statement.body, accumulator)
    if not isinstance(total, arith.AddfOp | arith.AddiOp):
        return None
    product = next(operand.owner for operand in total.operands if operand is not accumulator)
    return product if isinstance(product, arith.MulfOp | arith.MuliOp) else None


@dataclass(frozen=True)
class _Form:
    """Elements of operands, what makes them the numbers that are multiplied, the type of the sums, and how names of
    instructions call it."""

    element: Attribute
    extension: type[Operation] | None
    sums: Attribute
    name: str


FORMS = (
    _Form(Float16Type(), arith.ExtFOp, Float32Type(), "f16"),
    _Form(BFloat16Type(), arith.ExtFOp, Float32Type(), "bf16"),
    _Form(i8, arith.ExtSIOp, i32, "s8"),
)
IN_SHARED = ("bf16", "f16")
"""Elements of which instructions of a warpgroup read both operands from shared memory, in either order."""
ROUNDED = _Form(Float32Type(), None, Float32Type(), TF32)
DOUBLE = _Form(Float64Type(), None, Float64Type(), "f64")


def matrix_instruction(statement: NestStatement, machine: Gpu) -> Instruction | str:
    """The instruction of a warp that multiplies and adds what a product of matrices does, with no other rounding of its
    operands than the machine may do; a text that says why there is none."""
    form = _form(statement, machine)
    if isinstance(form, str):
        return form
    return next(
        row for row in INSTRUCTIONS.values() if row.op == "nvgpu.mma.sync" and row.name.endswith(f"_{form.name}")
    )


def warpgroup_instruction(
    statement: NestStatement, machine: Gpu, columns: int, held: NestAccess | None = None
) -> Instruction | str:
    """As `matrix_instruction`, that of a warpgroup for as many columns, with both operands in shared memory but for the
    left one where that is `held` in registers."""
    form = _form(statement, machine)
    if isinstance(form, str):
        return form
    used = [access for access in statement.inputs if access.access.is_used and access is not held]
    if not all(isinstance(factor_of(statement, access), BlockArgument) for access in used):
        return "operands of wgmma are in memory, not rounded before they are multiplied"
    if form.name not in IN_SHARED:
        return f"operands of wgmma are {' or '.join(IN_SHARED)} here, not {form.name}"
    found = INSTRUCTIONS.get(wgmma_name(columns, form.name, "_registers" if held is not None else ""))
    return found if found is not None else f"wgmma has {', '.join(map(str, COLUMNS))} columns, not {columns}"


def multiplied(statement: NestStatement) -> Attribute | str:
    """The elements that a sum of products multiplies exactly, as they are in memory, and adds up as f32, f64 or i32; a
    text that says why it is no such sum."""
    if LoopKind.SEQUENTIAL in statement.statement.kinds or len(statement.outputs) != 1:
        return "nothing is contracted"
    used = [access for access in statement.inputs if access.access.is_used]
    if _product(statement) is None or len(used) != 2:
        return "the reduction is no sum of products of two operands"
    if not all(isinstance(factor_of(statement, access), BlockArgument) for access in used):
        return "an operand is rounded before it is multiplied"
    form = _form(statement, None)
    return form if isinstance(form, str) else form.element


def _form(statement: NestStatement, machine: Gpu | None) -> _Form | str:
    """What a product of matrices multiplies and adds up, as instructions do it, of a machine or of any; a text that
    says why none does."""
    product, (accumulator,) = _product(statement), statement.statement.accumulators
    factors = [factor_of(statement, access) for access in statement.inputs if access.access.is_used]
    elements = {factor.type for factor in factors}
    shown = " and ".join(sorted(map(str, elements)))
    if product is None or len(elements) != 1:
        return f"no instruction multiplies {shown}"
    hints = {ROUNDED: "", DOUBLE: ""}
    if machine is not None:
        hints[ROUNDED] = "" if machine.tf32 else f", and {TF32} is not allowed"
        hints[DOUBLE] = "" if machine.double_products else f", which {machine.architecture} has no units for"
    for form in (*FORMS, *(form for form, hint in hints.items() if not hint)):
        if (
            elements == {form.element}
            and accumulator.type == form.sums
            and _is_plain(statement, product, factors, form)
        ):
            return form
    hint = next((hint for form, hint in hints.items() if elements == {form.element}), "")
    return f"no instruction adds products of {shown} to {accumulator.type}{hint}"


def factor_of(statement: NestStatement, access: NestAccess) -> SSAValue:
    """What a body multiplies of an operand, before that is extended: its elements, or these rounded."""
    argument = statement.statement.body.args[statement.inputs.index(access)]
    users = [use.operation for use in argument.uses]
    return users[0].results[0] if len(users) == 1 and isinstance(users[0], arith.TruncFOp) else argument


def _is_plain(statement: NestStatement, product: Operation, factors: Sequence[SSAValue], form: _Form) -> bool:
    """Whether a body is the sum of the product of two `factors`, rounded and extended as the form says, and nothing
    else."""
    sources = list(product.operands)
    if form.extension is not None:
        extended = [source.owner for source in sources]
        if not all(isinstance(op, form.extension) for op in extended):
            return False
        sources = [op.operands[0] for op in extended if isinstance(op, Operation)]
    if len(factors) != 2 or set(sources) != set(factors):
        return False
    rounded = sum(isinstance(factor.owner, arith.TruncFOp) for factor in factors)
    ops = [op for op in statement.statement.body.ops if not isinstance(op, linalg.ops.YieldOp)]
    return len(ops) == (2 if form.extension is None else 4) + rounded
