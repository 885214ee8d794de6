"""Replace elementary functions by inline arithmetic.

Before: loop-stage IR with `math` operations on scalars and vectors.
After: `exp`, `exp2`, `expm1`, `log`, `log2`, `log10`, `log1p`, `tanh`, `erf`, `sin`, `cos` and `powf` in f32, and
`fpowi` and `ipowi` in any type, are `arith` and `math` operations that hardware has; scalars and vectors go through the
same formula, so they give the same bits. `math` on f16 and bf16 is done in f32. What remains of `math` are the
operations LLVM has instructions for and those left to the C library: f64, and the rarer functions in f32.

Formulas in f32 are within 2.7 units in the last place. The functions in the option `exact`, by their names in `math`,
are computed in f64 and rounded once instead, which costs a call per element, or for `powf` twice the time.

The option `scaling` says that the processor has the instructions of AVX-512 that multiply by powers of two: they are
`scalar.scaleb`. Without it that is two products, also in place of `scalar.scaleb` that is there already.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import arith, math, scf, vector
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    BFloat16Type,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    ModuleOp,
    VectorType,
    f32,
    f64,
    i64,
)
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from tenon.dialects.scaling import ScaleOp
from tenon.lowering import expand_math_functions as functions
from tenon.lowering.expand_math_builder import ArithmeticBuilder, Constants
from tenon.lowering.vector_arith import element_type_of

_IN_F32: dict[str, Callable[[ArithmeticBuilder, SSAValue], SSAValue]] = {
    "math.cos": functions.cos,
    "math.erf": functions.erf,
    "math.exp": functions.exp,
    "math.exp2": functions.exp2,
    "math.expm1": functions.expm1,
    "math.log": functions.log,
    "math.log10": functions.log10,
    "math.log1p": functions.log1p,
    "math.log2": functions.log2_,
    "math.sin": functions.sin,
    "math.tanh": functions.tanh,
}

_OF_LARGE = {"math.sin": (functions.sin_of_large, "sinf"), "math.cos": (functions.cos_of_large, "cosf")}

_INDEX = IndexType()

_SIGN_ONLY = frozenset({"math.absf", "math.copysign"})

_LARGEST_CHAIN = 4
"""Constant exponents up to this many become multiplications."""


def exact_functions() -> tuple[str, ...]:
    """The functions that the option `exact` may name."""
    return tuple(sorted(name.removeprefix("math.") for name in (*_IN_F32, "math.powf")))


@dataclass(frozen=True)
class ExpandMathPass(ModulePass):
    """The pass `expand-math`; see the module docstring."""

    name = "expand-math"

    exact: tuple[str, ...] = ()
    scaling: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if unknown := sorted(set(self.exact) - set(exact_functions())):
            raise ValueError(f"expand-math: exact names {', '.join(unknown)}, none of {', '.join(exact_functions())}")
        for function in list(op.ops):
            if isinstance(function, FuncOp) and function.body.blocks:
                _FunctionExpander(op, function, {f"math.{name}" for name in self.exact}, self.scaling).run()


class _FunctionExpander:
    """Expands the operations of one function."""

    def __init__(self, module: ModuleOp, function: FuncOp, exact: Collection[str], scaling: bool) -> None:
        self.module = module
        self.function = function
        self.exact = exact
        self.scaling = scaling
        self.constants = Constants(function.body.block)

    def run(self) -> None:
        for op in [op for op in self.function.walk() if op.name.startswith("math.") or isinstance(op, ScaleOp)]:
            self.expand(op)

    def expand(self, op: Operation) -> None:
        """Replace one operation of `math`, if there is something to replace it with."""
        element = element_type_of(op.operands[0].type)
        if isinstance(element, Float16Type | BFloat16Type) and op.name not in _SIGN_ONLY:
            self._expand_wider(op, f32)
        elif op.name in self.exact and op.name in _IN_F32 and isinstance(element, Float32Type):
            self._expand_wider(op, f64)
        elif op.name in _IN_F32 and isinstance(element, Float32Type):
            b = self._builder(op)
            result = _IN_F32[op.name](b, op.operands[0])
            if op.name in _OF_LARGE:
                large = b.compare("oge", b.absolute(op.operands[0]), functions.TRIGONOMETRIC_LIMIT_F32)
                result = b.unless(large, result, lambda inner: self._of_large(inner, op))
            self._replace(op, result)
        elif isinstance(op, ScaleOp):
            self._replace(op, self._builder(op).scale(op.x, op.exponent))
        elif op.name == "math.powf" and isinstance(element, Float32Type):
            self._expand_power(op)
        elif op.name == "math.fpowi":
            self._expand_integer_exponent(op, element)
        elif op.name == "math.ipowi":
            self._expand_integer_power(op)

    def _builder(self, op: Operation) -> ArithmeticBuilder:
        return ArithmeticBuilder(op, self.constants, op.operands[0].type, scaling=self.scaling)

    @staticmethod
    def _replace(op: Operation, value: SSAValue) -> None:
        if value.name_hint is None:
            value.name_hint = op.results[0].name_hint
        op.results[0].replace_all_uses_with(value)
        op.detach()
        op.erase()

    def _expand_wider(self, op: Operation, element: AnyFloat) -> None:
        """op(x) -> truncf(op(extf(x)))"""
        b = self._builder(op)
        type_ = b.f32 if element == f32 else b.f64
        operands = [b.extend(x, type_) if x.type == op.results[0].type else x for x in op.operands]
        wide = type(op).create(operands=operands, result_types=[type_], properties=op.properties)
        self._replace(op, b.narrow(b.insert(wide), op.results[0].type))
        self.expand(wide)

    def _expand_power(self, op: Operation) -> None:
        b = self._builder(op)
        base, exponent = op.operands
        constant = _constant_element(exponent)
        if constant is not None and constant == int(constant or 0.5) and 0 < abs(constant) <= _LARGEST_CHAIN:
            self._replace(op, _chain(b, base, int(constant)))
        elif op.name in self.exact:
            self._replace(op, functions.power(b, base, b.extend(exponent, b.f64)))
        else:
            self._replace(op, functions.power_f32(b, base, exponent))

    def _expand_integer_exponent(self, op: Operation, element: Attribute) -> None:
        """fpowi(x, n): a few multiplications, else powf(x, sitofp(n))"""
        b = self._builder(op)
        base, exponent = op.operands
        constant = _constant_element(exponent)
        if constant is not None and 0 < abs(constant) <= _LARGEST_CHAIN:
            self._replace(op, _chain(b, base, int(constant)))
            return
        wide = b.to_float(exponent, b.f64)
        if isinstance(element, Float32Type):
            self._replace(op, functions.power(b, base, wide))
        elif isinstance(element, Float64Type):
            power = math.PowFOp.create(operands=[base, wide], result_types=[base.type], properties=op.properties)
            self._replace(op, b.insert(power))

    def _expand_integer_power(self, op: Operation) -> None:
        """ipowi(x, n) by repeated squaring, wrapping; a negative n gives 0 unless x is 1 or -1."""
        b = self._builder(op)
        base, exponent = op.operands
        constant = _constant_element(exponent)
        if constant is not None and constant >= 0:
            self._replace(op, _square_and_multiply(b, base, int(constant)))
            return
        width = cast(IntegerType, element_type_of(base.type)).width.data
        one, zero = b.constant(1, base.type), b.constant(0, base.type)
        bounds = [b.constant(bound, _INDEX) for bound in (0, width, 1)]
        body = Block(arg_types=[_INDEX, base.type, base.type, base.type])
        _, result, square, rest = body.args
        anchor = scf.YieldOp.create()
        body.add_op(anchor)
        inner = ArithmeticBuilder(anchor, self.constants, base.type)
        odd = inner.compare_integers("ne", inner.both(rest, one), zero)
        multiplied = inner.select(odd, inner.integer_mul(result, square), result)
        carried = [multiplied, inner.integer_mul(square, square), inner.shift_right(rest, 1, signed=False)]
        anchor.operands = carried
        loop = scf.ForOp.create(
            operands=[*bounds, one, base, exponent], result_types=[base.type] * 3, regions=[Region(body)]
        )
        positive = b.insert(loop)
        sign = b.select(b.compare_integers("ne", b.both(exponent, one), zero), base, one)
        unit = b.either(b.compare_integers("eq", base, one), b.compare_integers("eq", base, -1))
        inverse = b.select(unit, sign, zero)
        self._replace(op, b.select(b.compare_integers("slt", exponent, zero), inverse, positive))

    def _of_large(self, b: ArithmeticBuilder, op: Operation) -> SSAValue:
        """Sine and cosine of large arguments; those beyond the limits of formulas go to the C library."""
        (x,) = op.operands
        formula, function = _OF_LARGE[op.name]
        limit = b.constant(functions.TRIGONOMETRIC_LIMIT, b.f32)
        return b.unless(
            b.compare("oge", b.absolute(x), limit), formula(b, x), lambda inner: self._call(inner, x, function)
        )

    def _call(self, b: ArithmeticBuilder, x: SSAValue, function: str) -> SSAValue:
        self._declare(function)
        if isinstance(x.type, VectorType):
            return b.insert(_call_each_lane(x, function, self.constants))
        return b.insert(CallOp(function, [x], [x.type]))

    def _declare(self, name: str) -> None:
        for other in self.module.ops:
            if isinstance(other, FuncOp) and other.sym_name.data == name:
                return
        self.module.body.block.add_op(FuncOp.external(name, [f32], [f32]))


def _call_each_lane(x: SSAValue, function: str, constants: Constants) -> Operation:
    """A loop over the lanes: this is the rare path, so its code is small rather than fast."""
    vector_type = cast(VectorType, x.type)
    (lanes,) = vector_type.get_shape()
    body = Block(arg_types=[_INDEX, vector_type])
    lane, gathered = body.args
    position = {"static_position": DenseArrayBase.from_list(i64, [DYNAMIC_INDEX])}
    element = vector.ExtractOp.create(operands=[x, lane], result_types=[f32], properties=position)
    call = CallOp(function, [element.results[0]], [f32])
    inserted = vector.InsertOp.create(
        operands=[call.results[0], gathered, lane], result_types=[vector_type], properties=position
    )
    body.add_ops([element, call, inserted, scf.YieldOp.create(operands=inserted.results)])
    bounds = [constants.get(bound, _INDEX) for bound in (0, lanes, 1)]
    return scf.ForOp.create(operands=[*bounds, x], result_types=[vector_type], regions=[Region(body)])


def _constant_element(value: SSAValue) -> float | int | None:
    """The number that every element of a constant is, None for any other value."""
    if isinstance(value, BlockArgument) or not isinstance(value.owner, arith.ConstantOp):
        return None
    attribute = value.owner.value
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        elements = set(attribute.get_values())
        return cast(float, elements.pop()) if len(elements) == 1 else None
    return attribute.value.data  # pyright: ignore[reportAttributeAccessIssue]


def _chain(b: ArithmeticBuilder, base: SSAValue, exponent: int) -> SSAValue:
    """base^exponent by multiplications, 0 < |exponent| <= 4"""
    value = base
    match abs(exponent):
        case 2:
            value = b.mul(base, base)
        case 3:
            value = b.mul(b.mul(base, base), base)
        case 4:
            square = b.mul(base, base)
            value = b.mul(square, square)
        case _:
            pass
    return b.div(1.0, value) if exponent < 0 else value


def _square_and_multiply(b: ArithmeticBuilder, base: SSAValue, exponent: int) -> SSAValue:
    """base^exponent for integers and a constant exponent >= 0"""
    result, square = None, base
    while exponent:
        if exponent & 1:
            result = square if result is None else b.integer_mul(result, square)
        exponent >>= 1
        if exponent:
            square = b.integer_mul(square, square)
    return b.constant(1, base.type) if result is None else result
