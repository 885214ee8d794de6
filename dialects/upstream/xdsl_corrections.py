"""What xDSL 0.74 gets wrong: text that it does not read back as it printed it, or never ends to read, ops that it
does not verify, and a difference.

- A hexadecimal number in a dense float literal is the bits of a float, as in MLIR. xDSL prints infinities, NaN and some
large numbers that way (`dense<[0x7FC00000, 1.0]>`) but takes them for integers (patch 01).
- A dense literal is one number where all of its elements have the same bits. xDSL compares numbers, of which NaN is not
equal to itself, and -0.0 is to 0.0 (02).
- Numbers of a type that it has no bytes for (`dense<1> : tensor<2xi128>`) are an error in the text, not in xDSL (03).
- `arith` has no `remf` (04).
- A `linalg.generic` of several results has their types in parentheses (05).
- A string that does not end takes time that doubles with each character that might belong to it (06).
- `linalg.index` has to name a loop of its `linalg.generic` (07).
- A constant step of a loop of `scf` has to be positive. Of `scf.parallel` (08); not for upstream: MLIR verifies no step
of `scf.for`, although a loop of step 0 does not end.
- A number less an affine expression is computed as the expression less the number (09).
- The branches of `scf.if` have to yield what its results are, and the regions of `scf.while` what the other takes.
- A slice has an offset, a size and a stride for each axis of what it is of, and the sizes that its type says, but for
axes of one element; a view of memory has the strides and the offset that follow from those.
- `tensor.empty` has an operand for each size that its type leaves open.
- A constant of type `index` has 64 bits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    TensorType,
)
from xdsl.dialects.linalg.ops import GenericOp, IndexOp
from xdsl.dialects.memref import SubviewOp
from xdsl.dialects.scf import ConditionOp, ForOp, IfOp, ParallelOp, WhileOp, YieldOp
from xdsl.dialects.tensor import EmptyOp, ExtractSliceOp, InsertSliceOp
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.parser import Parser
from xdsl.parser.attribute_parser import AttrParser
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.mlir_lexer import MLIRLexer

from tenon.dialects.upstream.custom_formats import read_custom_formats
from tenon.dialects.upstream.float_remainder import RemFOp
from tenon.dialects.upstream.xdsl_speed import speed_up_xdsl

_Element = AttrParser._TensorLiteralElement  # pyright: ignore[reportPrivateUsage]
_to_type = _Element.to_type
_parse_dense_elements = AttrParser.parse_dense_int_or_fp_elements_attr
_parse_generic = GenericOp.parse.__func__


def _number_of_type(element: Any, parser: AttrParser, type_: Any) -> Any:
    text = element.span.text
    if not isinstance(type_, AnyFloat) or text[:2] not in ("0x", "0X"):
        return _to_type(element, parser, type_)
    bits = int(text, 16)
    if bits >> (8 * type_.compile_time_size):
        parser.raise_error(f"{text} has more bits than {type_}", at_position=element.span)
    return next(iter(type_.iter_unpack(bits.to_bytes(type_.compile_time_size, "little"))))


def _is_splat(attribute: DenseIntOrFPElementsAttr[Any]) -> bool:
    data, size = attribute.data.data, attribute.get_element_type().compile_time_size
    return data == data[:size] * (len(data) // size)


def _parse_generic_of_several_results(cls: type[GenericOp], parser: Parser) -> GenericOp:
    parse_list = parser.parse_comma_separated_list

    def parse_types_in_parentheses(delimiter: Any, parse: Callable[[], Any], *context: str) -> Any:
        if delimiter is parser.Delimiter.NONE and parse == parser.parse_attribute:
            types = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
            if types is not None:
                return types
        return parse_list(delimiter, parse, *context)

    parser.parse_comma_separated_list = parse_types_in_parentheses  # pyright: ignore[reportAttributeAccessIssue]
    try:
        return _parse_generic(cls, parser)
    finally:
        parser.parse_comma_separated_list = parse_list


# As in xDSL, but each character can be matched in one way only: what a group takes it does not give back.
_STRING = re.compile(r'"(?:[^"\\\n\v\f]|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')


def _parse_dense(parser: AttrParser, type: Any) -> Any:
    start = parser.pos
    try:
        return _parse_dense_elements(parser, type)
    except NotImplementedError:
        parser.raise_error("dense: the numbers are of a type that has no form in memory", start, parser.pos)


def _verify_index(op: IndexOp) -> None:
    parent, number = op.parent_op(), op.dim.value.data
    loops = len(parent.iterator_types) if isinstance(parent, GenericOp) else 0
    if not 0 <= number < loops:
        raise VerifyException(f"linalg.index: there is no loop {number} among the {loops} of linalg.generic")


def _verify_steps(op: ForOp | ParallelOp) -> None:
    for step in (op.step,) if isinstance(op, ForOp) else op.step:
        owner = step.owner
        value = owner.value if isinstance(owner, ConstantOp) else None
        if isinstance(value, IntegerAttr) and value.value.data <= 0:
            raise VerifyException(f"{op.name}: step is {value.value.data} where a positive number is needed")


def _verify_constant(op: ConstantOp) -> None:
    value = op.value
    if (
        isinstance(value, IntegerAttr)
        and isinstance(value.type, IndexType)
        and not -(1 << 63) <= value.value.data < 1 << 64
    ):
        raise VerifyException(f"arith.constant: {value.value.data} has more than the 64 bits of an index")


def _verify_empty(op: EmptyOp) -> None:
    type_ = op.tensor.type
    assert isinstance(type_, TensorType)
    if (count := len(op.dynamic_sizes)) != (missing := type_.get_shape().count(DYNAMIC_INDEX)):
        raise VerifyException(f"tensor.empty: {type_} leaves {missing} sizes open, and there are {count} operands")


def _verify_slice(op: ExtractSliceOp | InsertSliceOp | SubviewOp) -> None:
    whole, part = (op.dest.type, op.source.type) if isinstance(op, InsertSliceOp) else (op.source.type, op.result.type)
    assert isinstance(whole, TensorType | MemRefType)
    assert isinstance(part, TensorType | MemRefType)
    axes = whole.get_num_dims()
    offsets, sizes, strides = (
        numbers.get_values() for numbers in (op.static_offsets, op.static_sizes, op.static_strides)
    )
    for name, count in (("offsets", len(offsets)), ("sizes", len(sizes)), ("strides", len(strides))):
        if count != axes:
            raise VerifyException(f"{op.name}: there are {count} {name}, and {whole} has {axes} axes")
    kept = _kept(sizes, part.get_shape())
    if whole.element_type != part.element_type or kept is None:
        raise VerifyException(f"{op.name}: {part} is not a part of {whole} of sizes {[*sizes]}")
    if isinstance(whole, MemRefType) and isinstance(part, MemRefType):
        _check_layout(op, whole, part, kept, offsets, strides)


def _check_layout(
    op: Operation,
    whole: MemRefType[Attribute],
    part: MemRefType[Attribute],
    kept: Sequence[int],
    offsets: Sequence[int],
    steps: Sequence[int],
) -> None:
    strides, found = whole.get_strides(), part.get_strides()
    if strides is None or found is None:
        return
    known = [_times(stride, step) for stride, step in zip(strides, steps, strict=True)]
    starts = [whole.get_offset(), *(_times(stride, start) for stride, start in zip(strides, offsets, strict=True))]
    offset = None if None in starts else sum(start for start in starts if start is not None)
    # Of axes of one element any may be left out, and their strides do not matter.
    pairs = [
        (stride, known[axis]) for stride, axis, size in zip(found, kept, part.get_shape(), strict=True) if size != 1
    ]
    for is_, needed in ((part.get_offset(), offset), *pairs):
        if is_ is not None and is_ != needed:
            raise VerifyException(f"{op.name}: {part} is at another place than the part of {whole} that is viewed")


def _times(stride: int | None, number: int) -> int | None:
    """The product, as far as it is known."""
    if number == 0:
        return 0
    return None if stride is None or number == DYNAMIC_INDEX else stride * number


def _kept(sizes: Sequence[int], shape: Sequence[int]) -> list[int] | None:
    """The axes of `sizes` that `shape` has, the others of which have one element; None if it is no such shape."""
    kept: list[int] = []
    for axis, size in enumerate(sizes):
        if len(kept) < len(shape) and shape[len(kept)] == size:
            kept.append(axis)
        elif size != 1:
            return None
    return kept if len(kept) == len(shape) else None


def _check_flow(
    op: Operation, what: str, given: Iterable[SSAValue], what_takes: str, taken: Iterable[SSAValue]
) -> None:
    types, wanted = [value.type for value in given], [value.type for value in taken]
    if types != wanted:
        raise VerifyException(f"{op.name}: {what} {_listed(types)} where {what_takes} {_listed(wanted)}")


def _listed(types: list[Attribute]) -> str:
    return f"({', '.join(map(str, types))})"


def _end(op: Operation, region: Region, kind: type[Operation]) -> Operation:
    last = None if region.last_block is None else region.last_block.last_op
    if not isinstance(last, kind):
        raise VerifyException(f"{op.name}: a region does not end with {kind.name}")
    return last


def _verify_branches(op: IfOp) -> None:
    if op.results and not op.false_region.blocks:
        raise VerifyException(
            f"scf.if: there is no else region, though there are results {_listed([*op.result_types])}"
        )
    for name, region in (("then", op.true_region), ("else", op.false_region)):
        if region.blocks:
            yielded = _end(op, region, YieldOp).operands
            _check_flow(op, f"the {name} region yields", yielded, "the results are", op.results)


def _verify_while(op: WhileOp) -> None:
    op.get_irdl_definition().verify(op)
    arguments, passed = op.before_region.block.args, op.after_region.block.args
    _check_flow(op, "the operands are", op.operands, "the first region takes", arguments)
    condition = _end(op, op.before_region, ConditionOp)
    _check_flow(op, "the condition passes on", condition.operands[1:], "the second region takes", passed)
    _check_flow(op, "the second region takes", passed, "the results are", op.results)
    yielded = _end(op, op.after_region, YieldOp).operands
    _check_flow(op, "the second region yields", yielded, "the first region takes", arguments)


def _verified_by(verify: Callable[[Any], None], check: Callable[[Any], None]) -> Callable[[Any], None]:
    def verify_(op: Any) -> None:
        verify(op)
        check(op)

    return verify_


_CHECKS: tuple[tuple[type[Operation], Callable[[Any], None]], ...] = (
    (IndexOp, _verify_index),
    (ForOp, _verify_steps),
    (ParallelOp, _verify_steps),
    (IfOp, _verify_branches),
    (ConstantOp, _verify_constant),
    (EmptyOp, _verify_empty),
    (ExtractSliceOp, _verify_slice),
    (InsertSliceOp, _verify_slice),
    (SubviewOp, _verify_slice),
)
_VERIFIERS = {kind: _verified_by(kind.verify_, check) for kind, check in _CHECKS} | {WhileOp: _verify_while}


def _subtracted_from(expression: AffineExpr, other: AffineExpr | int) -> AffineExpr:
    return expression * -1 + other


def correct_xdsl() -> None:
    """Install the corrections, and what is faster (`xdsl_speed`); doing so again changes nothing."""
    speed_up_xdsl()
    read_custom_formats()
    _Element.to_type = _number_of_type  # pyright: ignore[reportAttributeAccessIssue]
    DenseIntOrFPElementsAttr.is_splat = _is_splat  # pyright: ignore[reportAttributeAccessIssue]
    AttrParser.parse_dense_int_or_fp_elements_attr = _parse_dense  # pyright: ignore[reportAttributeAccessIssue]
    for kind, verify in _VERIFIERS.items():
        kind.verify_ = verify  # pyright: ignore[reportAttributeAccessIssue]
    if RemFOp not in arith.Arith.operations:
        arith.Arith._operations.append(RemFOp)  # pyright: ignore[reportPrivateUsage]
    MLIRLexer._unescaped_characters_regex = _STRING  # pyright: ignore[reportPrivateUsage]
    AffineExpr.__rsub__ = _subtracted_from  # pyright: ignore[reportAttributeAccessIssue]
    GenericOp.parse = classmethod(_parse_generic_of_several_results)  # pyright: ignore[reportAttributeAccessIssue]
