"""The parser of modules: xDSL's, with an error at the place that is wrong for whatever goes wrong.

xDSL's parser leaves some malformed text to Python, whose `KeyError` or `RecursionError` says nothing of the text, and
reports a value that is not defined at the end of the file. Every op that is read gets the location of its text.

For upstream are the places of errors (patches 14 and 15) and splats without a list of their elements (16). The rest is
not: that every exception becomes a parse error would hide defects of xDSL, and limits, hints and locations are choices.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar, NoReturn

from xdsl.context import Context
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    FusedLoc,
    ModuleOp,
    NoneAttr,
    TensorType,
    UnknownLoc,
)
from xdsl.ir import Operation, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import DiagnosticException, ParseError
from xdsl.utils.lexer import Span
from xdsl.utils.mlir_lexer import MLIRTokenKind

from tenon.dialects.support.location import location_at
from tenon.dialects.support.suggestion import did_you_mean

_TELLING = (DiagnosticException, ValueError, TypeError, NotImplementedError)
"""Errors whose text says what is wrong with what was read."""
_BYTECODE = b"ML\xefR"
_BYTE_ORDER_MARK = "\ufeff"


class ModuleParser(Parser):
    """Parses the text of a module; raises `ParseError` alone, `ValueError` for what is not text at all."""

    LARGEST_LITERAL: ClassVar[int] = 1 << 30
    """The bytes that the values of a dense literal may take."""

    def __init__(self, ctx: Context, input: str | bytes, name: str = "<unknown>") -> None:
        if isinstance(input, bytes) and input.startswith(_BYTECODE):
            raise ValueError(f"{name}: is bytecode of MLIR, not text")
        try:
            text = input.decode() if isinstance(input, bytes) else input
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}: is not text: byte {error.start} is no UTF-8") from None
        super().__init__(ctx, text.removeprefix(_BYTE_ORDER_MARK), name)
        # Where each value that is not defined yet is used first.
        self._first_uses: dict[str, Span] = {}
        self._defined_locations: set[str] = set()

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """The module; text without an operation is one that is empty, as to upstream."""
        if allow_implicit_module and self._current_token.kind == MLIRTokenKind.EOF:
            return ModuleOp([])
        try:
            self._read_location_aliases()
            module = super().parse_module(allow_implicit_module)
        except ParseError as error:
            if error.msg.startswith("values used but not defined"):
                self._require_definitions(0)
            raise
        except RecursionError:
            self.raise_error("nested too deeply")
        except Exception as error:
            self._raise_from(error, self.pos)
        if not self._has_location(module):
            module.location = location_at(self, 0)
        return module

    def parse_operation(self) -> Operation:
        start = self.pos
        try:
            op = super().parse_operation()
        except (ParseError, RecursionError):
            raise
        except Exception as error:
            self._raise_from(error, start)
        if not self._has_location(op):
            op.location = location_at(self, start)
        if self._first_uses and op.has_trait(IsolatedFromAbove):
            self._require_definitions(start)
        return op

    def _read_location_aliases(self) -> None:
        """Upstream names locations at the end of the text (`#loc1 = loc("file":3:4)`), behind their uses."""
        start = self.pos
        for alias in _LOCATION_ALIAS.finditer(self.lexer.input.content):
            self._resume_from(alias.end())
            self.attribute_aliases.setdefault(alias[1], self.parse_attribute())
        self._resume_from(start)

    def _parse_alias_def(self) -> None:
        known = self.attribute_aliases
        text = self.lexer.input.content
        if (alias := _LOCATION_ALIAS.match(text, self.pos)) is not None and alias[1] not in self._defined_locations:
            self._defined_locations.add(alias[1])
            known.pop(alias[1], None)
        super()._parse_alias_def()

    def _parse_location(self) -> Any:
        """As in xDSL; of a range of a file (`"file":3:4 to :9`) where it begins, of a fusion not what it is for."""
        if self.parse_optional_keyword("fused"):
            if self.parse_optional_punctuation("<"):
                self.parse_attribute()
                self.parse_punctuation(">")
            parts = self.parse_comma_separated_list(self.Delimiter.SQUARE, self._parse_location)
            return FusedLoc(tuple(parts), NoneAttr())
        location = super()._parse_location()
        if isinstance(location, FileLineColLoc) and self.parse_optional_keyword("to"):
            self.parse_optional_integer()
            self.parse_punctuation(":")
            self.parse_integer()
        return location

    def _has_location(self, op: Operation) -> bool:
        """Whether the text gives `op` a location, which is then not one in the text itself."""
        location = op.location
        if isinstance(location, FileLineColLoc):
            return location.filename.data != self.lexer.input.name
        return not isinstance(location, UnknownLoc)

    def _raise_from(self, error: Exception, start: int) -> NoReturn:
        """Raise a `ParseError` at the line that begins at, or contains, `start`."""
        text = self.lexer.input.content
        end = text.find("\n", start)
        span = Span(start, len(text) if end < 0 else end, self.lexer.input)
        raise ParseError(span, _described(error)) from error

    def resolve_operand(self, operand: UnresolvedOperand, type: Any) -> SSAValue[Any]:
        if operand.operand_name not in self.ssa_values:
            self._first_uses.setdefault(operand.operand_name, operand.span)
        return super().resolve_operand(operand, type)

    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span) -> None:
        super()._register_ssa_definition(name, values, span)
        self._first_uses.pop(name, None)

    def _require_definitions(self, start: int) -> None:
        """Raise at the first use behind `start` of a value that is defined nowhere up to here."""
        undefined = [name for name in self.forward_ssa_references if name in self._first_uses]
        uses = [use for use in map(self._first_uses.__getitem__, undefined) if use.start >= start]
        if uses:
            first = min(uses, key=lambda use: use.start)
            self.raise_error(f"value {first.text} is used but not defined", first)

    def _get_op_by_name(self, name: str) -> type[Operation]:
        found = self.ctx.get_optional_op(name, dialect_stack=self._parser_state.dialect_stack)
        if found is not None:
            return found
        dialect, dot, _ = name.rpartition(".")
        position = self.lexer.input.content.rfind(name, 0, self.pos)
        known = [op.name for op in self.ctx.loaded_ops if op.name.startswith(f"{dialect}.") or not dot]
        hint = did_you_mean(name, known) or did_you_mean(name, self.ctx.registered_dialect_names)
        place = Span(position, position + len(name), self.lexer.input)
        self.raise_error(f"operation {name} is not registered{hint}", place)

    def _parse_dense_literal_type(self) -> Any:
        start = self.pos
        type_: Any = super()._parse_dense_literal_type()
        end = len(self.lexer.input.content[: self.pos].rstrip())
        count = prod(type_.get_shape()) * type_.element_type.compile_time_size
        if count > self.LARGEST_LITERAL:
            advice = "compute such values, by tenon.full for example"
            limit = f"a literal has up to {self.LARGEST_LITERAL}"
            self.raise_error(f"the values of {type_} take {count} bytes, and {limit}; {advice}", start, end)
        return type_

    def parse_dense_int_or_fp_elements_attr(self, type: Any) -> DenseIntOrFPElementsAttr[Any]:
        """As in xDSL, but one number for all elements never becomes a list of as many Python numbers."""
        if type is not None:
            return super().parse_dense_int_or_fp_elements_attr(type)
        start = self.pos
        self.parse_punctuation("<", " in dense attribute")
        if self._current_token.kind not in _NUMBER_BEGINS:
            self._resume_from(start)
            return super().parse_dense_int_or_fp_elements_attr(None)
        (number,), _ = self._parse_tensor_literal()
        self.parse_punctuation(">", " in dense attribute")
        self.parse_punctuation(":", " in dense attribute")
        found: Any = self._parse_dense_literal_type()
        element = found.element_type
        values: Any = [number.to_type(self, element)]
        one = DenseIntOrFPElementsAttr.from_list(TensorType(element, ()), values)
        return DenseIntOrFPElementsAttr(found, BytesAttr(one.data.data * prod(found.get_shape())))


_LOCATION_ALIAS = re.compile(r"^(#[\w.$-]+)[ \t]*=[ \t]*(?=loc[ \t]*\()", re.MULTILINE)
_NUMBER_BEGINS = (MLIRTokenKind.INTEGER_LIT, MLIRTokenKind.FLOAT_LIT, MLIRTokenKind.MINUS, MLIRTokenKind.BARE_IDENT)


def _described(error: Exception) -> str:
    text = str(error)
    return text if isinstance(error, _TELLING) and text else f"malformed ({type(error).__name__}: {text})"
