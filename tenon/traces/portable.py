"""Programs without the ops of users, so that they mean the same where the definitions of these are not there.

An op of a user is written out by Tenon's own: a composite one by what it is composed of, an element-by-element one by
its function of tensors, contractions, index maps and reductions by the general op of their family, what else loops over
elements by scans and gathers (`portable_loops`). Where one states a
gradient of its own, the whole program brings its gradient along.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from tenon.dialects.definition.registry import registry
from tenon.dialects.definition.signature import map_grouped
from tenon.dialects.definition.value import InsertionPoint, Value, emit, inserting, ops
from tenon.dialects.families import (
    CompositeOp,
    ContractionOp,
    CumulativeOp,
    ElementwiseOp,
    IndexingOp,
    IndexMapOp,
    ReductionOp,
    ScatterOp,
    WindowOp,
)
from tenon.dialects.families.control_flow import YieldOp
from tenon.dialects.families.host import HostOp
from tenon.dialects.ops.control.with_gradient import WithGradientOp
from tenon.dialects.types.size import Size
from tenon.dialects.types.types import compute_type, element_of, is_float
from tenon.passes.transform.differentiate import gradients
from tenon.runtime.arguments.interface import main_function
from tenon.traces import portable_loops as loops

_DEEPEST = 64


def portable(module: ModuleOp) -> ModuleOp:
    """A copy of `module` in which all ops are Tenon's own, with the same values and gradients.

    Raises `TypeError` for an op of a user that cannot be written out.
    """
    copy = module.clone()
    # What an op is composed of may state a gradient, too.
    _write_out(copy, lambda op: is_foreign(op) and not _states_gradient(op))
    if any(map(_states_gradient, copy.walk())):
        _bring_gradient(copy)
        _write_out(copy, is_foreign)
    return copy


def is_foreign(op: Operation) -> bool:
    """Whether an op is a user's."""
    return is_user_class(type(op))


def is_user_class(kind: type) -> bool:
    """Whether a class is a user's."""
    return not kind.__module__.startswith(("tenon.", "xdsl."))


def _states_gradient(op: Operation) -> bool:
    """Whether an op of a user has a gradient that its meaning does not tell."""
    kinds = [kind for kind in type(op).__mro__ if not kind.__module__.startswith(("tenon.", "xdsl."))]
    return is_foreign(op) and any("vjp" in vars(kind) for kind in kinds)


def _bring_gradient(module: ModuleOp) -> None:
    """Put the program into an op that has its gradient, too."""
    main = main_function(module)
    block = main.body.block
    *inner, last = block.ops
    assert isinstance(last, func.ReturnOp)
    types = [value.type for value in last.operands]
    inputs = [argument.type for argument in block.args]
    floats = [type_ for type_ in types if is_float(element_of(type_))]
    gradient = Block(arg_types=[*inputs, *floats])
    with inserting(InsertionPoint(gradient)):
        sources = [ops.identity(Value(argument)) for argument in gradient.args[: len(inputs)]]
        known: dict[SSAValue, SSAValue] = dict(zip(block.args, [s.ssa for s in sources], strict=True))
        for op in inner:
            emit(op.clone(known))
        outputs = [Value(known[v]) for v in last.operands]
        moving = [v for v in outputs if is_float(v.element_type)]
        wanted = [s for s in sources if is_float(s.element_type)]
        found = gradients(moving, [Value(a) for a in gradient.args[len(inputs) :]], wanted)
        emit(YieldOp(*[(ops.zeros_like(s) if g is None else g).ssa for g, s in zip(found, wanted, strict=True)]))
    body = Block(arg_types=inputs)
    for argument, own in zip(block.args, body.args, strict=True):
        argument.replace_all_uses_with(own)
    returned = list(last.operands)
    last.detach()
    last.erase()
    for op in inner:
        op.detach()
        body.add_op(op)
    body.add_op(YieldOp(*returned))
    whole = WithGradientOp.of(list(block.args), body, gradient, types)
    block.add_op(whole)
    block.add_op(func.ReturnOp(*whole.results))


def _write_out(root: Operation, is_wanted: Callable[[Operation], bool]) -> None:
    found: list[Operation] = []
    for _ in range(_DEEPEST):
        found = [op for op in root.walk() if is_wanted(op)]
        if not found:
            return
        for op in found:
            _write_out_one(op)
    raise TypeError(f"{found[0].name}: still not written out after {_DEEPEST} steps; it is composed of itself")


def _write_out_one(op: Operation) -> None:
    block = op.parent
    assert block is not None
    if isinstance(op, HostOp):
        raise TypeError(f"{op.name}: calls Python, which is in no file")
    families = [family for family in _WRITTEN if isinstance(op, family) and _means_its_family(op, family)]
    if not families:
        raise TypeError(
            f"{op.name}: of users' ops, those whose family says what they mean can be written to a file, and opaque "
            "ones, and what has a `structured` of its own, cannot; define it as a CompositeOp"
        )
    with inserting(InsertionPoint(block, op, folds_literals=True)):
        results = _WRITTEN[families[0]](op, map_grouped(Value, cast(Any, op).grouped_operands()))
    for result, value in zip(op.results, results, strict=True):
        result.replace_all_uses_with(value.ssa)
    Rewriter.erase_op(op)


def _elementwise(op: ElementwiseOp, operands: Any) -> list[Value]:
    """The results of an element-by-element op as its function computes them of whole tensors."""
    cls: Any = type(op)
    wide = map_grouped(lambda v: v.astype(compute_type(v.element_type)), cls.lift(operands))
    made = cls.scalar(*wide, **op.settings)
    results = made if isinstance(made, tuple | list) else (made,)
    found: list[Value] = []
    for value, result in zip(results, op.results, strict=True):
        like = Value(result)
        given = value if isinstance(value, Value) else ops.full(like.shape, value, dtype=like.dtype)
        given = given.astype(like.dtype)
        found.append(given if given.shape == like.shape else ops.broadcast_to(given, shape=like.shape))
    return found


def _means_its_family(op: Any, family: type[Any]) -> bool:
    """Whether what an op means follows from the hooks of its family alone."""
    return family is CompositeOp or type(op).structured is family.structured


def _contraction(op: ContractionOp, operands: Any) -> list[Value]:
    """The general contraction of the same loops."""
    factors = [Value(v) for v in op.operands]
    structure = type(op).loops([v.shape for v in factors], op.settings)
    like = Value(op.results[0])
    found = ops.contract(
        tuple([v.astype(like.dtype) for v in factors]),
        maps=(*structure.operands, structure.result_map),
        extents=structure.extents,
        shape=structure.result_shape,
    )
    return [found]


def _index_map(op: IndexMapOp, operands: Any) -> list[Value]:
    """The elements at the places that the op reads, which are written down."""
    x, like = Value(_of_known_sizes(op).operands[0]), Value(op.results[0])
    source = type(op).source_map(x.shape, like.ndim, op.settings)
    index = [*np.indices(like.shape)]
    parts = [np.broadcast_to(np.asarray(e.eval(index, []), np.int64), like.shape) for e in source.results]
    places = np.ravel_multi_index(tuple(parts), x.shape) if parts else np.zeros(like.shape, np.int64)
    return [ops.take(x.reshape(-1), np.ascontiguousarray(places), axis=0)]


def _reduction(op: ReductionOp, operands: Any) -> list[Value]:
    """Tenon's own reduction that combines elements in the same way."""
    cls = type(op)
    own = next(
        (
            known
            for known in registry().values()
            if issubclass(known, ReductionOp)
            and known.COMBINE is not None
            and known.COMBINE == cls.COMBINE
            and not is_user_class(known)
            and [*known.SIGNATURE.settings][:2] == ["axis", "keepdims"]
        ),
        None,
    )
    is_plain = all(hook.__module__.startswith("tenon.") for hook in (cls.initial, cls.scalar, cls.finish))
    if own is not None and is_plain:
        x, like = Value(op.operands[0]), Value(op.results[0])
        made = own.apply(x.astype(like.dtype), **{name: op.settings[name] for name in ("axis", "keepdims")})
        if made.dtype == like.dtype:
            return [made]
    if cls.finish is not ReductionOp.finish or cls.reduce is not ReductionOp.reduce:
        raise TypeError(f"{op.name}: of reductions, those that say `scalar` alone can be written to a file")
    return loops.reduction(_of_known_sizes(op))


def _of_known_sizes(op: Any) -> Any:
    """An op of which no dimension has only a name; raises `TypeError` for others."""
    sizes = [size for value in (*op.operands, *op.results) for size in Value(value).shape]
    if any(isinstance(size, Size) for size in sizes):
        raise TypeError(f"{op.name}: is written to a file for known sizes alone, and a dimension has only a name")
    return op


_WRITTEN: dict[type[Any], Callable[[Any, Any], Any]] = {
    CompositeOp: lambda op, operands: op.decomposed(operands),
    ElementwiseOp: _elementwise,
    ContractionOp: _contraction,
    IndexMapOp: _index_map,
    ReductionOp: _reduction,
    WindowOp: lambda op, operands: loops.window(_of_known_sizes(op)),
    CumulativeOp: lambda op, operands: loops.cumulative(_of_known_sizes(op)),
    IndexingOp: lambda op, operands: loops.indexing(_of_known_sizes(op)),
    ScatterOp: lambda op, operands: loops.scatter(_of_known_sizes(op)),
}
"""How ops of a family are written by Tenon's own."""

__all__ = ["is_foreign", "portable"]
