"""Formulas of element-by-element ops and of their derivatives, read off the definitions by tracing them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from tenon.dialects.definition.settings import REQUIRED
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.traits import NoGradient
from tenon.dialects.definition.value import InsertionPoint, Value, inserting, ops
from tenon.dialects.families import ElementwiseOp, PrimitiveOp, as_tuple
from tenon.dialects.ops.elementwise.constant import ConstantOp
from tenon.dialects.types.types import f64, is_float, tensor_type
from tenon.passes.simplify.canonicalize import CanonicalizePass
from tenon.passes.simplify.cse import CommonSubexpressionEliminationPass
from tenon.passes.transform.differentiate import gradients

# Infix forms as Python binds them: the symbol, how tightly it binds, and what that asks of the left and right operand.
_INFIX = {
    **{name: (symbol, 1, 2, 2) for name, symbol in (("less", "<"), ("less_equal", "<="), ("greater", ">"))},
    **{name: (symbol, 1, 2, 2) for name, symbol in (("greater_equal", ">="), ("equal", "=="), ("not_equal", "!="))},
    "bitwise_or": ("|", 2, 2, 2),
    "bitwise_and": ("&", 3, 3, 3),
    "add": ("+", 4, 4, 4),
    "subtract": ("-", 4, 4, 5),
    "multiply": ("*", 5, 5, 5),
    "divide": ("/", 5, 5, 6),
    "power": ("**", 7, 8, 7),
}
_NEGATION, _ATOM = 6, 8


@dataclass(frozen=True)
class Formula:
    """What an op computes of one element, and its derivative by each float operand, as Python expressions.

    `at_defaults` says whether they hold for the defaults of some settings only.
    """

    results: tuple[str, ...]
    derivatives: dict[str, str]
    at_defaults: bool


def formula(cls: type[TensorOp]) -> Formula | None:
    """The formula of an elementwise op; `None` for other ops and for those that operands do not determine alone.

    The name `result` stands for the result in derivatives, settings that are numbers for themselves. An op of one
    scalar op, and one whose scalars are not tensor ops all, has derivatives only.
    """
    if not issubclass(cls, ElementwiseOp) or len(cls.SIGNATURE.results) != 1:
        return None
    has_rule = getattr(cls, "vjp", None) is not None
    for whole in (True, False) if has_rule else (True,):
        for symbolic in (True, False):
            try:
                return _traced(cls, symbolic, whole and not issubclass(cls, PrimitiveOp))
            except (TypeError, ValueError, AttributeError, AssertionError, ArithmeticError):
                continue  # the definition needs its settings as numbers, or scalar ops
    return None


def _operand_element(constraint: Any) -> Any:
    return f64 if f64 in constraint.elements else constraint.elements[-1]


def _traced(cls: type[ElementwiseOp], symbolic: bool, whole: bool) -> Formula:
    operands = cls.SIGNATURE.operands
    settings = {name: s.default for name, s in cls.SIGNATURE.settings.items()}
    if any(value is REQUIRED for value in settings.values()) or any(o.arity == "variadic" for o in operands):
        raise TypeError("the op has no default form")
    numbers = [n for n, value in settings.items() if symbolic and type(value) is float]
    types = [tensor_type((), _operand_element(o.constraint)) for o in operands]
    main = func.FuncOp("main", ([*types, *[tensor_type((), f64)] * (len(numbers) + 1)], []))
    block = main.body.block
    names = [*[o.name for o in operands], *numbers, "result"]
    texts: dict[SSAValue, tuple[str, int]] = {
        argument: (name, _ATOM) for argument, name in zip(block.args, names, strict=True)
    }
    values = [Value(a) for a in block.args]
    given, result = values[: len(operands)], values[-1]
    settings |= dict(zip(numbers, values[len(operands) :], strict=False))
    with inserting(InsertionPoint(block, folds_literals=True)):
        outputs = as_tuple(cls.scalar(*given, **settings)) if whole else ()
        if not all(isinstance(v, Value) for v in outputs):
            raise TypeError("the result does not depend on the operands")
        derivatives = [] if cls.has_trait(NoGradient) else _derivatives(cls, given, result, outputs, settings)
        kept = [*outputs, *[d for _, d in derivatives if isinstance(d, Value)]]
        block.add_op(func.ReturnOp(*[v.ssa for v in kept]))
    simplified = _simplified(main)
    shown = iter([_expression(v, texts)[0] for v in simplified])
    results = tuple([next(shown) for _ in outputs])
    slopes = {n: next(shown) if isinstance(d, Value) else _number(d) for n, d in derivatives}
    return Formula(results, slopes, at_defaults=len(numbers) < len(settings))


def _derivatives(
    cls: type[ElementwiseOp], given: Sequence[Value], result: Value, outputs: Sequence[Value], settings: dict[str, Any]
) -> list[tuple[str, Any]]:
    """For each float operand its name and the derivative by it: a value, or a number."""
    names = [o.name for o in cls.SIGNATURE.operands]
    floats = [is_float(v.element_type) for v in given]
    rule = getattr(cls, "vjp", None)
    if rule is not None:
        found = as_tuple(rule(1.0, result, *given, **settings))
    elif outputs and is_float(outputs[0].element_type):
        found = gradients(outputs, [ops.ones_like(outputs[0])], given)
    else:
        return []
    derivatives = zip(names, found, floats, strict=True)
    return [(name, d) for name, d, smooth in derivatives if smooth and d is not None]


def _simplified(main: func.FuncOp) -> Sequence[SSAValue]:
    """What `main` returns, after the passes that simplify."""
    main.update_function_type()
    module = ModuleOp([main])
    for simplify in (CanonicalizePass(), CommonSubexpressionEliminationPass(), CanonicalizePass()):
        simplify.apply(Context(), module)
    terminator = main.body.block.last_op
    assert terminator is not None
    return terminator.operands


def _number(value: float) -> str:
    return f"{value:.6g}"


def _expression(value: SSAValue, texts: dict[SSAValue, tuple[str, int]]) -> tuple[str, int]:
    """A value as text, and how tightly its outermost operation binds."""
    if value in texts:
        return texts[value]
    op = value.owner
    if not isinstance(op, TensorOp):
        raise TypeError("a formula is made of ops on tensors")
    name = op.name.removeprefix("tenon.")
    if isinstance(op, ConstantOp):
        number = op.settings["value"].item()
        return _number(number), _NEGATION if number < 0 else _ATOM
    parts = [_expression(operand, texts) for operand in op.operands]
    if name == "negative":
        return f"-{_bound(parts[0], _NEGATION)}", _NEGATION
    if name in _INFIX:
        symbol, strength, left, right = _INFIX[name]
        return f"{_bound(parts[0], left)} {symbol} {_bound(parts[1], right)}", strength
    changed = [f"{n}={v}" for n, v in op.settings.items() if v != op.SIGNATURE.settings[n].default]
    return f"{name}({', '.join([*[text for text, _ in parts], *changed])})", _ATOM


def _bound(part: tuple[str, int], strength: int) -> str:
    text, own = part
    return text if own >= strength else f"({text})"
