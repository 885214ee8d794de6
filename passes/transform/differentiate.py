"""Reverse-mode differentiation of tensor IR.

Before: a function on tensors without calls. After: besides it, `@<name>_vjp`, which takes the function's arguments and
a cotangent for each floating-point result, and returns the results and a gradient for each floating-point argument.

The rules: an op with a `vjp` hook has its own; every other composite or elementwise op is run again, on tensor values,
and what that yields is differentiated instead. Since gradients are ordinary ops, they can be differentiated in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType, UnrankedTensorType
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.definition.signature import map_grouped
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.traits import ConstantToGradients, GradientError, NoGradient
from tenon.dialects.definition.value import InsertionPoint, TracedValueError, Value, inserting, ops
from tenon.dialects.families import CompositeOp, ElementwiseOp, PrimitiveOp, as_tuple
from tenon.dialects.families.control_flow import ControlFlowOp
from tenon.dialects.ops.control.debug import CheckFiniteOp, checks_gradients
from tenon.dialects.support.frozen_arguments import freeze, frozen_positions
from tenon.dialects.support.location import at_line
from tenon.dialects.types.size import UndecidedSizeError
from tenon.dialects.types.types import bit_width, element_of, is_float, shape_of


def gradients(
    outputs: Sequence[Value], cotangents: Sequence[Value | None], inputs: Sequence[Value]
) -> list[Value | None]:
    """The cotangents of `inputs`, given those of `outputs`, built at the insertion point.

    `None` stands for zero. Only what depends on `inputs` is looked at; nothing before them is.
    """
    accumulated: dict[SSAValue, Value] = {}
    for output, cotangent in zip(outputs, cotangents, strict=True):
        if cotangent is not None:
            _accumulate(accumulated, output.ssa, cotangent)
    sources = {value.ssa for value in inputs}
    active = _active_operations([output.ssa for output in outputs], sources)
    for op in reversed(active):
        incoming = [accumulated.get(result) for result in op.results]
        if all(cotangent is None for cotangent in incoming):
            continue
        if isinstance(op, ControlFlowOp):
            _check_rules(op, sources, active)
        for value, cotangent in _pull_back(op, incoming):
            if cotangent is not None and is_float(element_of(value.type)):
                gradient = fitted(cotangent, value)
                _check(op, value, gradient)
                _accumulate(accumulated, value, gradient)
    return [accumulated.get(value.ssa) for value in inputs]


def _check(op: Operation, value: SSAValue, gradient: Value) -> None:
    """Where that is asked for, add a check of the gradient of `op` with respect to `value`, one of its operands."""
    if asked := checks_gradients():
        position = next((i for i, operand in enumerate(op.operands) if operand is value), None)
        of_what = "a value that it uses" if position is None else f"operand {position}"
        what = f"the gradient of {op.name} with respect to {of_what}"
        CheckFiniteOp.apply(gradient, what=what, where=at_line(op), infinities=asked == "nan")


def _check_rules(op: ControlFlowOp, sources: set[SSAValue], active: Sequence[Operation]) -> None:
    """Raise `GradientError` where `op` uses what changes with `sources`, and has no gradient for."""
    lacking = [v for v in op.without_rule() if not _is_constant(v)]
    if sources.intersection(lacking) or {value.owner for value in lacking}.intersection(active):
        raise GradientError(
            "a function with a gradient of its own reads a value from around it that gradients are wanted with respect "
            f"to, and its rule gives none for that; make it an argument{at_line(op)}"
        )


def _accumulate(accumulated: dict[SSAValue, Value], value: SSAValue, cotangent: Value) -> None:
    known = accumulated.get(value)
    accumulated[value] = cotangent if known is None else ops.add(known, cotangent)


def fitted(cotangent: Value, value: SSAValue) -> Value:
    """`cotangent` in the shape and dtype of `value`: summed over the dimensions that `value` was broadcast along."""
    target = Value(value)
    shape = target.shape
    extra = cotangent.ndim - len(shape)
    spread = [i for i, size in enumerate(shape, extra) if size == 1 and cotangent.shape[i] != 1]
    if extra:
        cotangent = ops.sum(cotangent, axis=(*range(extra), *spread))
        if spread:
            cotangent = ops.reshape(cotangent, shape=shape)
    elif spread:
        cotangent = ops.sum(cotangent, axis=tuple(spread), keepdims=True)
    if cotangent.shape != shape:
        cotangent = ops.broadcast_to(cotangent, shape=shape)
    return (
        ops.cast(cotangent, dtype=target.element_type) if cotangent.element_type != target.element_type else cotangent
    )


def _is_differentiable(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType | UnrankedTensorType) and is_float(element_of(value.type))


def _is_constant(value: SSAValue) -> bool:
    """Whether gradients take a tensor for a constant: what is chosen by whole numbers or truth values does not change
    with them."""
    owner = value.owner
    return not _is_differentiable(value) or (isinstance(owner, Operation) and owner.has_trait(ConstantToGradients))


def _moves_with(op: Operation) -> Sequence[SSAValue]:
    """What the results of `op` may change with: its operands, and those outer values from which something leads to what
    its regions yield."""
    if not op.regions:
        return op.operands
    found = dict.fromkeys(op.operands)
    seen = set[SSAValue]()
    pending = [v for region in op.regions for block in region.blocks if block.last_op for v in block.last_op.operands]
    while pending:
        value = pending.pop()
        if value in seen or _is_constant(value):
            continue
        seen.add(value)
        if not op.is_ancestor(value.owner):
            found[value] = None
        elif isinstance(value.owner, Operation):
            pending += _moves_with(value.owner)
    return [*found]


def _active_operations(outputs: Sequence[SSAValue], sources: set[SSAValue]) -> list[Operation]:
    """The ops between `sources` and `outputs`, operands before users. Iterative: chains may be deep."""
    depends: dict[Operation, bool] = {}
    order: list[Operation] = []
    for output in outputs:
        stack: list[tuple[Operation, Iterator[SSAValue]]] = []
        if isinstance(output.owner, Operation) and output not in sources and output.owner not in depends:
            depends[output.owner] = False
            stack.append((output.owner, iter(_moves_with(output.owner))))
        while stack:
            op, remaining = stack[-1]
            descended = False
            for value in remaining:
                if value in sources:
                    depends[op] = True
                    continue
                owner = value.owner
                if not isinstance(owner, Operation) or _is_constant(value):
                    continue
                if owner not in depends:
                    depends[owner] = False
                    stack.append((owner, iter(_moves_with(owner))))
                    descended = True
                    break
                if depends[owner]:
                    depends[op] = True
            if descended:
                continue
            stack.pop()
            if depends[op]:
                order.append(op)
                if stack:
                    depends[stack[-1][0]] = True
    return order


def _pull_back(op: Operation, cotangents: list[Value | None]) -> Iterable[tuple[SSAValue, Value | None]]:
    """Pairs of a value that `op` uses and a contribution to its cotangent."""
    region_rule = getattr(op, "pull_back", None)
    if region_rule is not None:
        return region_rule(cotangents, gradients)
    if isinstance(op, func.CallOp):
        raise GradientError(f"func.call: functions are differentiated one by one; run inline first{at_line(op)}")
    if not isinstance(op, TensorOp):
        raise GradientError(f"{op.name}: differentiation knows no rule for this op{at_line(op)}")
    operands = map_grouped(Value, op.grouped_operands())
    rule = getattr(type(op), "vjp", None)
    if rule is not None:
        filled = [ops.zeros_like(Value(r)) if c is None else c for r, c in zip(op.results, cotangents, strict=True)]
        several = len(op.results) > 1
        results = tuple([Value(r) for r in op.results])
        try:
            given = rule(
                tuple(filled) if several else filled[0], results if several else results[0], *operands, **op.settings
            )
        except (UndecidedSizeError, TracedValueError) as error:
            raise type(error)(f"{op.name}: no gradient follows: {error}{at_line(op)}") from None
        return _paired(op, given)
    if op.has_trait(NoGradient) or isinstance(op, PrimitiveOp) or not isinstance(op, ElementwiseOp | CompositeOp):
        raise GradientError(f"{op.name}: has no gradient{at_line(op)}")
    if isinstance(op, CompositeOp):
        again = op.decomposed(operands)
    else:
        again = op.results_on_tensors(operands)
        if any(isinstance(value, Value) and not value.is_tensor for value in again):
            raise GradientError(
                f"{op.name}: scalar makes a scalar of tensors, so that no gradient follows; write it with functions "
                f"of tenon, or define vjp{at_line(op)}"
            )
    flat = [Value(v) for v in dict.fromkeys(op.operands)]
    # Numbers, and what is no float, do not move.
    pairs = zip(again, cotangents, strict=True)
    moving = [(v, c) for v, c in pairs if isinstance(v, Value) and is_float(v.element_type)]
    found = gradients([v for v, _ in moving], [c for _, c in moving], flat)
    return zip([v.ssa for v in flat], found, strict=True)


def _paired(op: TensorOp, given: Any) -> Iterator[tuple[SSAValue, Value | None]]:
    """The operands with what the rule `vjp` of `op` has given for them; raises where it cannot be their cotangents."""
    declared = op.grouped_operands()
    if not isinstance(given, tuple | list | Value):
        raise GradientError(
            f"{op.name}: vjp returns {_shown(given)} where a tuple of {len(declared)} gradients is needed{at_line(op)}"
        )
    gradients = as_tuple(given)
    if len(gradients) != len(declared):
        raise GradientError(
            f"{op.name}: vjp gives {len(gradients)} gradients for {len(declared)} operands{at_line(op)}"
        )
    for operand, values, cotangents in zip(op.SIGNATURE.operands, declared, gradients, strict=True):
        if isinstance(values, tuple):
            if cotangents is None:
                continue
            if not isinstance(cotangents, tuple | list) or len(cotangents) != len(values):
                given = f"{len(cotangents)} gradients" if isinstance(cotangents, tuple | list) else _shown(cotangents)
                raise GradientError(
                    f"{op.name}: vjp gives {given} for {operand.name}, which is {len(values)} operands{at_line(op)}"
                )
            for position, (value, cotangent) in enumerate(zip(values, cotangents, strict=True)):
                yield value, _checked(op, f"{operand.name}[{position}]", value, cotangent)
        elif values is not None:
            yield values, _checked(op, operand.name, values, cotangents)


def _checked(op: TensorOp, name: str, operand: SSAValue, cotangent: Any) -> Value | None:
    """A cotangent of `operand`: of its shape or, where it was broadcast to the result, of that of the result."""
    if cotangent is None:
        return None
    if not isinstance(cotangent, Value):
        raise GradientError(
            f"{op.name}: vjp gives {_shown(cotangent)} for {name} where a traced value or None is needed{at_line(op)}"
        )
    if not is_float(element_of(operand.type)):
        return cotangent
    if not is_float(cotangent.element_type) or bit_width(cotangent.element_type) < bit_width(element_of(operand.type)):
        raise GradientError(
            f"{op.name}: vjp gives a gradient of dtype {cotangent.element_type} for {name}, which is "
            f"{operand.type}{at_line(op)}"
        )
    own = shape_of(operand.type)
    if not _sums_to(cotangent.shape, own):
        raise GradientError(
            f"{op.name}: vjp gives a gradient of shape {cotangent.shape} for {name}, which has shape {own}{at_line(op)}"
        )
    return cotangent


def _sums_to(shape: tuple[int, ...], target: tuple[int, ...] | None) -> bool:
    """Whether what was broadcast from `target` may have `shape`."""
    if target is None or len(shape) < len(target):
        return target is None
    behind = shape[len(shape) - len(target) :]
    return all(own in (1, size) or own < 0 or size < 0 for own, size in zip(target, behind, strict=True))


def _shown(given: Any) -> str:
    return "None" if given is None else f"a {type(given).__name__}"


def differentiate(function: func.FuncOp) -> func.FuncOp:
    """A new function `@<name>_vjp` for `function`, not inserted anywhere; frozen arguments have no gradients in it."""
    inputs = list(function.function_type.inputs)
    outputs = list(function.function_type.outputs)
    if not all(isinstance(t, TensorType | UnrankedTensorType) for t in (*inputs, *outputs)):
        raise GradientError(f"@{function.sym_name.data} is not a function of tensors: {function.function_type}")
    if not function.body.blocks:
        raise GradientError(f"@{function.sym_name.data} has no body")
    seeds = [t for t in outputs if is_float(element_of(t))]
    frozen = frozen_positions(function)
    wanted = [i for i, t in enumerate(inputs) if is_float(element_of(t)) and i not in frozen]
    results = [*outputs, *[inputs[i] for i in wanted]]
    derived = func.FuncOp(f"{function.sym_name.data}_vjp", ([*inputs, *seeds], results))
    freeze(derived, frozen)
    block = derived.body.block
    for old, new in zip(function.body.block.args, block.args, strict=False):
        new.name_hint = old.name_hint
    mapper: dict[SSAValue, SSAValue] = dict(zip(function.body.block.args, block.args, strict=False))
    for argument, copy in zip(function.body.block.args, block.args, strict=False):
        copy.name_hint = argument.name_hint
    for op in function.body.block.ops:
        if isinstance(op, func.ReturnOp):
            break
        block.add_op(op.clone(mapper))
    terminator = function.body.block.last_op
    assert isinstance(terminator, func.ReturnOp)
    values = [Value(mapper.get(v, v)) for v in terminator.operands]
    given = iter([Value(a) for a in block.args[len(inputs) :]])
    with inserting(InsertionPoint(block)):
        cotangents = [next(given) if is_float(v.element_type) else None for v in values]
        arguments = [Value(block.args[i]) for i in wanted]
        found = gradients(values, cotangents, arguments)
        zeros = [ops.zeros_like(a) if g is None else g for g, a in zip(found, arguments, strict=True)]
        block.add_op(func.ReturnOp(*[v.ssa for v in (*values, *zeros)]))
    # A gradient may be known better than what it is the gradient of.
    derived.update_function_type()
    return derived


@dataclass(frozen=True)
class DifferentiatePass(ModulePass):
    """Add the vector-Jacobian product of `function` to the module."""

    name = "differentiate"

    function: str = "main"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        derived_name = f"{self.function}_vjp"
        if any(isinstance(f, func.FuncOp) and f.sym_name.data == derived_name for f in op.ops):
            raise PassFailedException(f"differentiate: there is a function @{derived_name} already")
        for candidate in op.ops:
            if isinstance(candidate, func.FuncOp) and candidate.sym_name.data == self.function:
                try:
                    derived = differentiate(candidate)
                except TypeError as error:
                    raise PassFailedException(str(error)) from None
                op.body.block.insert_op_after(derived, candidate)
                return
        raise PassFailedException(f"differentiate: there is no function @{self.function}")
