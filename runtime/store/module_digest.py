"""What tells modules apart: a digest of their ops, types, attributes and names of values.

Two modules have the same digest if they print alike and their types have the same sizes (which types do not print).
Printing takes five times as long, and where a module has constants of many elements, longer than tracing it.
"""

from __future__ import annotations

import hashlib
import marshal
import struct

from xdsl.dialects.builtin import ArrayAttr, DenseIntOrFPElementsAttr, FloatAttr, MemRefType, TensorType
from xdsl.ir import Attribute, Operation, Region, SSAValue

from tenon.dialects.types.size import Size

_PLAIN = 2
"""The version of marshal's format in which equal values have equal bytes: later ones say what is one object."""


def digest(module: Operation) -> str:
    """A sha256 in hexadecimal of `module`: of all that its text says, and of the sizes in its types.

    Where ops come from is no part of it.
    """
    described = _Description()
    described.add(module)
    return hashlib.sha256(marshal.dumps(described.words, _PLAIN)).hexdigest()


class _Description:
    """Words that say what ops are; each list of them follows its length, so that they can be read in one way only.

    Values, blocks and attributes are numbers, in the order in which they appear.
    """

    def __init__(self) -> None:
        self.words: list[str | int | bytes | None] = []
        self._values: dict[int, int] = {}
        self._blocks: dict[int, int] = {}
        # By identity, since most attributes are shared and to hash one walks all of it; then by what they are.
        self._attributes: dict[int, int] = {}
        self._texts: dict[str, int] = {}

    def add(self, op: Operation) -> None:
        """Describe `op` and what is inside of it."""
        words, numbers = self.words, self._values
        operands, results = op.operands, op.results
        words += (op.name, len(operands))
        words += [numbers.setdefault(id(operand), len(numbers)) for operand in operands]
        words.append(len(results))
        for result in results:
            self._define(result)
        for attributes in (op.properties, op.attributes):
            words.append(len(attributes))
            for name, attribute in attributes.items():
                number = self._attribute(attribute)
                words += (name, number)
        words.append(len(op.successors))
        words += [self._blocks[id(block)] for block in op.successors]
        words.append(len(op.regions))
        for region in op.regions:
            self._add_region(region)

    def _add_region(self, region: Region) -> None:
        blocks = list(region.blocks)
        self.words.append(len(blocks))
        for block in blocks:
            self._blocks[id(block)] = len(self._blocks)
        for block in blocks:
            ops = list(block.ops)
            self.words += (len(block.args), len(ops))
            for argument in block.args:
                self._define(argument)
            for op in ops:
                self.add(op)

    def _define(self, value: SSAValue) -> None:
        number = self._values.setdefault(id(value), len(self._values))
        type_ = self._attribute(value.type)
        self.words += (number, type_, value.name_hint)

    def _attribute(self, attribute: Attribute) -> int:
        """The number of `attribute`, which is told from all others where it first appears."""
        known = self._attributes.get(id(attribute))
        if known is None:
            text = self._text(attribute)
            known = self._texts.get(text)
            if known is None:
                known = self._texts[text] = len(self._texts)
                self.words.append(text)
            self._attributes[id(attribute)] = known
        return known

    def _text(self, attribute: Attribute) -> str:
        """What an attribute is. Numbers are given by their bits: as text, they take long or are rounded."""
        match attribute:
            case TensorType() | MemRefType():
                shape = attribute.get_shape()
                return f"{attribute} of {shape}" if any(isinstance(size, Size) for size in shape) else str(attribute)
            case DenseIntOrFPElementsAttr():
                data = attribute.data.data
                return f"dense {hashlib.sha256(data).hexdigest()} {self._attribute(attribute.type)}"
            case FloatAttr():
                return f"float {struct.pack('<d', attribute.value.data).hex()} {self._attribute(attribute.type)}"
            case ArrayAttr():
                return f"array {[self._attribute(element) for element in attribute.data]}"
            case _:
                return str(attribute)
