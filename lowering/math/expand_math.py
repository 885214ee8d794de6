"""Replace elementary functions by inline arithmetic.

Before: loop-stage IR with `math` operations, and `arith.remf`, on scalars and vectors.
After: `math` functions of f32 and f64, and `fpowi` in any type, are `arith` and `math` operations that hardware has;
scalars and vectors go through the same formula, so they give the same bits. `math` on f16 and bf16 is done in f32.
Calls of the C library's functions are left for numbers that no formula is for, where there are such: sines, cosines and
tangents of large angles, and powers in f64 of numbers that are not normal, or whose results are not.

Formulas in f32 are within 2.7 units in the last place, in f64 within 2.5. The functions in the option `exact`, by their
names in `math`, are computed in f64 and rounded once in place of f32, which takes two to four times as long; in f64
they are left to the C library.

Integers that are divided by a constant, in vectors, are multiplied by one over it and corrected (`division.py`).

An exponential with the flag `afn` is 0 below 2^-103 in f32 and 2^-970 in f64, the smallest normal number over the
distance from 1 to the next.

The option `scaling` says that the processor has the instructions of AVX-512 that multiply by powers of two, which
`llvm.call_intrinsic` names. Without it that is two products.

Without the option `multiply-add` the processor has no fused multiply-add. In f64 a call for each would cost more than
one for the function, so that f64 is left to the C library, but for small whole powers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

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
    ModuleOp,
    VectorType,
    f32,
    f64,
    i64,
)
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.support.location import position_of
from tenon.dialects.upstream.float_remainder import RemFOp
from tenon.dialects.upstream.vector_arith import element_type_of
from tenon.dialects.upstream.walking import all_ops
from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.math import angles, division, exponential, logarithm, powers
from tenon.lowering.math import f32 as functions
from tenon.lowering.math import remainder as remainders
from tenon.lowering.math.builder import ArithmeticBuilder, Constants
from tenon.lowering.math.float_formats import format_of
from tenon.passes.machine import GENERIC

Formula = Callable[[ArithmeticBuilder, SSAValue], SSAValue]

_IN_BOTH: dict[str, Formula] = {
    "math.acos": angles.acos,
    "math.acosh": logarithm.acosh,
    "math.asin": angles.asin,
    "math.asinh": logarithm.asinh,
    "math.atan": angles.atan,
    "math.atanh": logarithm.atanh,
    "math.cbrt": powers.cbrt,
    "math.cosh": exponential.cosh,
    "math.sinh": exponential.sinh,
    "math.tan": angles.tan,
    "math.tanh": exponential.tanh,
}
_IN_F32: dict[str, Formula] = {
    **_IN_BOTH,
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
}
_IN_F64: dict[str, Formula] = {
    **_IN_BOTH,
    "math.cos": angles.cos,
    "math.erf": exponential.erf,
    "math.exp": exponential.exp,
    "math.exp2": exponential.exp2,
    "math.expm1": exponential.expm1,
    "math.log": logarithm.log,
    "math.log10": logarithm.log10,
    "math.log1p": logarithm.log1p,
    "math.log2": logarithm.log2,
    "math.sin": angles.sin,
}

_OF_LARGE_F32 = {"math.sin": functions.sin_of_large, "math.cos": functions.cos_of_large}
"""Formulas for arguments from the format's limit up to `TRIGONOMETRIC_LIMIT`."""
_OF_ANGLES = frozenset({"math.cos", "math.sin", "math.tan"})
_OF_TWO = frozenset({"math.atan2", "math.powf"})
_C_NAMES = {"math.powf": "pow"}

_INDEX = IndexType()

_SIGN_ONLY = frozenset({"math.absf", "math.copysign"})

_LARGEST_CHAIN = 4
"""Constant exponents up to this many become multiplications."""


def exact_functions() -> tuple[str, ...]:
    """The functions that the option `exact` may name."""
    return tuple(sorted(name.removeprefix("math.") for name in (*_IN_F32, *_OF_TWO)))


@dataclass(frozen=True)
class ExpandMathPass(FunctionPass):
    """The pass `expand-math`; see the module docstring."""

    name = "expand-math"
    kernels_only = False

    exact: tuple[str, ...] = ()
    scaling: bool = GENERIC.scaling
    multiply_add: bool = GENERIC.multiply_add

    def change(self, module: ModuleOp) -> Change:
        if unknown := sorted(set(self.exact) - set(exact_functions())):
            raise ValueError(f"expand-math: exact names {', '.join(unknown)}, none of {', '.join(exact_functions())}")
        return lambda function: _FunctionExpander(module, function, self).run()


class _FunctionExpander:
    """Expands the operations of one function."""

    def __init__(self, module: ModuleOp, function: FuncOp, options: ExpandMathPass) -> None:
        self.module = module
        self.function = function
        self.exact = {f"math.{name}" for name in options.exact}
        self.scaling = options.scaling
        self.multiply_add = options.multiply_add
        self.constants = Constants(function.body.block)

    def run(self) -> None:
        formulas = [op for op in all_ops(self.function) if op.name.startswith("math.") or isinstance(op, RemFOp)]
        quotients = [op for op in all_ops(self.function) if isinstance(op, arith.DivfOp)]
        for op in formulas:
            type_ = op.operands[0].type
            if isinstance(type_, VectorType) and len(type_.get_shape()) != 1:
                raise PassFailedException(
                    f"{position_of(op)}expand-math: {op.name} in @{self.function.sym_name.data} is on {type_}, which "
                    f"has {len(type_.get_shape())} dimensions where a vector has one"
                )
            self.expand(op)
        for op in quotients if self.multiply_add else ():
            self._expand_quotient(op)

    def _expand_quotient(self, op: arith.DivfOp) -> None:
        """Divide vectors of integers by a constant."""
        is_vector = isinstance(op.lhs.type, VectorType) and len(op.lhs.type.get_shape()) == 1
        if is_vector and element_type_of(op.lhs.type) in (f32, f64) and division.is_integral(op.lhs):
            divisor = _constant_element(op.rhs)
            if divisor is not None and division.is_divisor(divisor):
                self._replace(op, division.by_constant(self._builder(op), op.lhs, divisor))

    def expand(self, op: Operation) -> None:
        """Replace one operation, if there is something to replace it with."""
        element = element_type_of(op.operands[0].type)
        if isinstance(element, Float16Type | BFloat16Type) and op.name not in _SIGN_ONLY:
            self._expand_wider(op, f32)
        elif op.name == "math.fpowi":
            self._expand_integer_exponent(op, element)
        elif op.name not in self.exact:
            self._expand_formula(op, element)
        elif isinstance(element, Float32Type):
            self._expand_exactly(op)

    def _expand_formula(self, op: Operation, element: Attribute) -> None:
        """The formula for the type of the operands, if there is one"""
        is_f32 = isinstance(element, Float32Type)
        if not is_f32 and not self.multiply_add:
            self._expand_small_power(op)
            return
        formula = (_IN_F32 if is_f32 else _IN_F64).get(op.name)
        if op.name == "math.powf":
            self._expand_power(op, is_f32=is_f32)
        elif isinstance(op, RemFOp):
            self._replace(op, remainders.remainder(self._builder(op), op.lhs, op.rhs))
        elif op.name == "math.atan2":
            self._replace(op, angles.atan2(self._builder(op), *op.operands))
        elif op.name in _OF_ANGLES:
            assert formula is not None
            self._expand_angle(op, formula, is_f32=is_f32)
        elif isinstance(op, math.ExpOp) and arith.FastMathFlag.APPROX_FUNC in op.fastmath.data:
            exp = functions.exp if is_f32 else exponential.exp
            self._replace(op, exp(self._builder(op), op.operand, format_of(op.operand).least_exponent))
        elif formula is not None:
            self._replace(op, formula(self._builder(op), op.operands[0]))

    def _expand_angle(self, op: Operation, formula: Formula, *, is_f32: bool) -> None:
        """Formulas as far as they reach, and the C library's function from there"""
        b = self._builder(op)
        (x,) = op.operands
        large = b.compare("oge", b.absolute(x), format_of(x).trigonometric_limit)
        further = _OF_LARGE_F32.get(op.name) if is_f32 else None
        if further is None:
            self._replace(op, b.unless(large, formula(b, x), lambda inner: self._call(inner, op)))
            return

        def of_large(inner: ArithmeticBuilder) -> SSAValue:
            limit = inner.constant(functions.TRIGONOMETRIC_LIMIT, inner.f32)
            beyond = inner.compare("oge", inner.absolute(x), limit)
            return inner.unless(beyond, further(inner, x), lambda innermost: self._call(innermost, op))

        self._replace(op, b.unless(large, formula(b, x), of_large))

    def _expand_exactly(self, op: Operation) -> None:
        """f32 by way of f64"""
        if op.name == "math.powf":
            b = self._builder(op)
            base, exponent = op.operands
            chain = _constant_power(b, base, exponent)
            self._replace(op, functions.power(b, base, b.extend(exponent, b.f64)) if chain is None else chain)
        elif op.name in _IN_F32 or op.name in _OF_TWO:
            self._expand_wider(op, f64)

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
        if element == f64:
            self._expand_formula(wide, f64)
        else:
            self.expand(wide)

    def _expand_power(self, op: Operation, *, is_f32: bool) -> None:
        b = self._builder(op)
        base, exponent = op.operands
        chain = _constant_power(b, base, exponent)
        if chain is not None:
            self._replace(op, chain)
        elif is_f32:
            self._replace(op, functions.power_f32(b, base, exponent))
        else:
            self._replace(op, powers.power(b, base, exponent, lambda inner: self._call(inner, op)))

    def _expand_small_power(self, op: Operation) -> None:
        if op.name == "math.powf":
            chain = _constant_power(self._builder(op), *op.operands)
            if chain is not None:
                self._replace(op, chain)

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
            self._expand_formula(power, element)

    def _call(self, b: ArithmeticBuilder, op: Operation) -> SSAValue:
        """The C library's function for `op`"""
        element = element_type_of(op.operands[0].type)
        name = _C_NAMES.get(op.name, op.name.removeprefix("math.")) + ("f" if element == f32 else "")
        self._declare(name, element, len(op.operands))
        if isinstance(op.operands[0].type, VectorType):
            return b.insert(_call_each_lane(op.operands, name, self.constants))
        return b.insert(CallOp(name, list(op.operands), [element]))

    def _declare(self, name: str, element: Attribute, operands: int) -> None:
        for other in self.module.ops:
            if isinstance(other, FuncOp) and other.sym_name.data == name:
                return
        self.module.body.block.add_op(FuncOp.external(name, [element] * operands, [element]))


def _call_each_lane(operands: Sequence[SSAValue], function: str, constants: Constants) -> Operation:
    """A loop over the lanes: this is the rare path, so its code is small rather than fast."""
    vector_type = cast(VectorType, operands[0].type)
    element = vector_type.element_type
    (lanes,) = vector_type.get_shape()
    body = Block(arg_types=[_INDEX, vector_type])
    lane, gathered = body.args
    position = {"static_position": DenseArrayBase.from_list(i64, [DYNAMIC_INDEX])}
    elements = [
        vector.ExtractOp.create(operands=[x, lane], result_types=[element], properties=position) for x in operands
    ]
    call = CallOp(function, [extract.results[0] for extract in elements], [element])
    inserted = vector.InsertOp.create(
        operands=[call.results[0], gathered, lane], result_types=[vector_type], properties=position
    )
    body.add_ops([*elements, call, inserted, scf.YieldOp.create(operands=inserted.results)])
    bounds = [constants.get(bound, _INDEX) for bound in (0, lanes, 1)]
    return scf.ForOp.create(operands=[*bounds, operands[0]], result_types=[vector_type], regions=[Region(body)])


def _constant_element(value: SSAValue) -> float | int | None:
    """The number that every element of a constant is, which may have been broadcast; None for any other value."""
    if isinstance(value.owner, vector.BroadcastOp):
        return _constant_element(value.owner.source)
    if isinstance(value, BlockArgument) or not isinstance(value.owner, arith.ConstantOp):
        return None
    attribute = value.owner.value
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        elements = set(attribute.get_values())
        return cast(float, elements.pop()) if len(elements) == 1 else None
    return attribute.value.data  # pyright: ignore[reportAttributeAccessIssue]


def _constant_power(b: ArithmeticBuilder, base: SSAValue, exponent: SSAValue) -> SSAValue | None:
    """base^exponent for a constant exponent that a few multiplications do for"""
    constant = _constant_element(exponent)
    if constant is not None and constant == int(constant or 0.5) and 0 < abs(constant) <= _LARGEST_CHAIN:
        return _chain(b, base, int(constant))
    return None


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
