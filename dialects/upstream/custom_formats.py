"""Text that upstream's `mlir-opt` prints for ops of which xDSL 0.74 reads the generic form alone, or a part.

- `scf.parallel (%i) = (%l) to (%u) step (%s) init (%x) -> f32 { ... }`
- `scf.while : () -> () { ... } do { ... }`, where nothing is carried
- `memref.copy %x, %y : memref<4xf32> to memref<4xf32>`
- `memref.global "private" constant @c : memref<2xf32> = dense<[1.0, 2.0]>`

What is printed stays the generic form, but of loops. For upstream they come with printers.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects import memref, scf
from xdsl.dialects.builtin import DenseArrayBase, IndexType, MemRefType, StringAttr, TensorType, UnitAttr, i32
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.parser import Parser, UnresolvedOperand

_parse_while = scf.WhileOp.parse.__func__


def _parse_parallel(cls: type[scf.ParallelOp], parser: Parser) -> scf.ParallelOp:
    names = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: parser.parse_argument(expect_type=False))
    bounds: list[list[SSAValue]] = []
    for keyword in ("=", "to", "step"):
        if keyword == "=":
            parser.parse_punctuation(keyword)
        else:
            parser.parse_keyword(keyword)
        place = parser.pos
        bounds.append([parser.resolve_operand(operand, IndexType()) for operand in _operands(parser)])
        if len(bounds[-1]) != len(names):
            parser.raise_error(f"{len(bounds[-1])} numbers for {len(names)} loops", place, parser.pos)
    place = parser.pos
    initial = _operands(parser) if parser.parse_optional_keyword("init") else []
    types = _result_types(parser) if parser.parse_optional_punctuation("->") else []
    if len(types) != len(initial):
        parser.raise_error(f"{len(types)} results for {len(initial)} initial values", place, parser.pos)
    operands = [parser.resolve_operand(operand, type_) for operand, type_ in zip(initial, types, strict=True)]
    body = parser.parse_region([name.resolve(IndexType()) for name in names])
    _end_with_reduce(body.block)
    sizes = DenseArrayBase.from_list(i32, [*map(len, bounds), len(operands)])
    return cls.create(
        operands=[*bounds[0], *bounds[1], *bounds[2], *operands],
        result_types=types,
        properties={"operandSegmentSizes": sizes},
        attributes=parser.parse_optional_attr_dict(),
        regions=[body],
    )


def _operands(parser: Parser) -> list[UnresolvedOperand]:
    return parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)


def _result_types(parser: Parser) -> list[Any]:
    types = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    return [parser.parse_type()] if types is None else types


def _end_with_reduce(block: Block) -> None:
    """Without reductions upstream may leave the terminator out."""
    if not isinstance(block.last_op, scf.ReduceOp):
        block.add_op(scf.ReduceOp())


def _parse_while_of_nothing(cls: type[scf.WhileOp], parser: Parser) -> scf.WhileOp:
    """As in xDSL, whose list of what is carried has to be there."""
    if not parser.parse_optional_punctuation(":"):
        return _parse_while(cls, parser)
    place = parser.pos
    carried = parser.parse_function_type()
    if carried.inputs.data:
        parser.raise_error(f"{len(carried.inputs.data)} types for 0 operands", place, parser.pos)
    before = parser.parse_region()
    parser.parse_keyword("do")
    after = parser.parse_region()
    op = cls((), carried.outputs.data, before, after)
    attributes = parser.parse_optional_attr_dict_with_keyword()
    op.attributes |= attributes.data if attributes is not None else {}
    return op


def _parse_copy(cls: type[memref.CopyOp], parser: Parser) -> memref.CopyOp:
    source = parser.parse_unresolved_operand()
    parser.parse_punctuation(",")
    destination = parser.parse_unresolved_operand()
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    from_ = parser.resolve_operand(source, parser.parse_type())
    parser.parse_keyword("to")
    op = cls(from_, parser.resolve_operand(destination, parser.parse_type()))
    op.attributes |= attributes
    return op


def _parse_global(cls: type[memref.GlobalOp], parser: Parser) -> memref.GlobalOp:
    visibility = parser.parse_optional_str_literal()
    is_constant = parser.parse_optional_keyword("constant") is not None
    name = parser.parse_symbol_name()
    parser.parse_punctuation(":")
    place = parser.pos
    type_ = parser.parse_type()
    if not isinstance(type_, MemRefType):
        parser.raise_error(f"{type_} where a memref is needed", place, parser.pos)
    parser.parse_punctuation("=")
    value: Attribute = UnitAttr()
    if not parser.parse_optional_keyword("uninitialized"):
        parser.parse_keyword("dense")
        value = parser.parse_dense_int_or_fp_elements_attr(TensorType(type_.element_type, type_.get_shape()))
    properties: dict[str, Attribute] = {
        "sym_name": name,
        "sym_visibility": StringAttr(visibility if visibility is not None else "public"),
        "type": type_,
        "initial_value": value,
        **({"constant": UnitAttr()} if is_constant else {}),
    }
    attributes = parser.parse_optional_attr_dict()
    if "alignment" in attributes:
        properties["alignment"] = attributes.pop("alignment")
    return cls.create(properties=properties, attributes=attributes)


def read_custom_formats() -> None:
    """Let xDSL read them; doing so again changes nothing."""
    scf.ParallelOp.parse = classmethod(_parse_parallel)  # pyright: ignore[reportAttributeAccessIssue]
    scf.WhileOp.parse = classmethod(_parse_while_of_nothing)  # pyright: ignore[reportAttributeAccessIssue]
    memref.GlobalOp.parse = classmethod(_parse_global)  # pyright: ignore[reportAttributeAccessIssue]
    memref.CopyOp.parse = classmethod(_parse_copy)  # pyright: ignore[reportAttributeAccessIssue]
