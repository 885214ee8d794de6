"""The generics of a kernel and who uses their results, kept up to date while operands come and go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from xdsl.dialects import linalg, tensor
from xdsl.dialects.builtin import TensorType, i8
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.utils.type import get_element_type_or_self

from tenon.dialects.families.iteration_space import IterationSpace
from tenon.dialects.types.size import is_at_most
from tenon.passes.fuse.generics import (
    Generic,
    erase,
    read_generic,
    tidy_body,
)


class GenericUses:
    """The generics of one block: `producers` and `readers` of values, and the positions of ops that use a value in
    another way than as an operand that a generic reads, `other_uses`."""

    def __init__(self, block: Block):
        self.generics: list[Generic] = []
        self.producers: dict[SSAValue, Generic | linalg.ops.FillOp] = {}
        self.readers: dict[SSAValue, list[Generic]] = {}
        self.other_uses: dict[SSAValue, list[int]] = {}
        self._collect(block)

    def _collect(self, block: Block) -> None:
        for position, op in enumerate(block.ops):
            operands: Sequence[SSAValue] = op.operands
            if isinstance(op, linalg.ops.GenericOp) and op.results:
                generic = read_generic(op, position)
                self.generics.append(generic)
                for value in generic.inputs:
                    self.readers.setdefault(value, []).append(generic)
                for result in generic.results:
                    self.producers[result] = generic
                operands = generic.outputs
            elif isinstance(op, linalg.ops.FillOp) and op.results:
                self.producers[op.results[0]] = op
            for value in operands:
                self.use_at(value, position)
            for region in op.regions:
                for inner in region.walk():
                    for value in inner.operands:
                        if isinstance(value.type, TensorType):
                            self.use_at(value, position)

    def use_at(self, value: SSAValue, position: int) -> None:
        """The op at `position` uses `value` in another way than as an operand that a generic reads."""
        self.other_uses.setdefault(value, []).append(position)

    def use_count(self, generic: Generic) -> int:
        """How often results of `generic` are used."""
        return sum(len(self.readers.get(r, ())) + len(self.other_uses.get(r, ())) for r in generic.results)

    def read_once(self, generic: Generic) -> bool:
        """Whether those who read results of `generic` have no more iterations, all together, than it has."""
        if any(self.other_uses.get(result) for result in generic.results):
            return False
        readers = [reader for result in generic.results for reader in self.readers.get(result, ())]
        return is_at_most(sum(prod(reader.space.extents) for reader in readers), prod(generic.space.extents))

    def are_used_later(self, earlier: Generic, later: Generic) -> bool:
        """Whether everything else that uses `earlier` comes after `later`."""
        return all(
            all(reader is later or reader.position > later.position for reader in self.readers.get(result, ()))
            and all(position > later.position for position in self.other_uses.get(result, ()))
            for result in earlier.results
        )

    def forget(self, generic: Generic) -> None:
        """`generic` will be erased: it uses nothing any more."""
        for value in generic.inputs:
            self.readers[value].remove(generic)
        for value in generic.outputs:
            self.other_uses[value].remove(generic.position)
        for op in generic.block.walk():
            if isinstance(op, tensor.ExtractOp):
                self.other_uses[op.tensor].remove(generic.position)
        # What reads at computed indices uses other generics, which may be erased before this one.
        for op in reversed(tuple(generic.block.ops)):
            erase(op)
        generic.op.operands = []
        generic.is_gone = True

    def collapse_inputs(self, generic: Generic) -> None:
        """Pass equal operands once."""
        seen: dict[tuple[SSAValue, AffineMap], int] = {}
        index = 0
        while index < len(generic.inputs):
            first = seen.setdefault(generic.reads[index], index)
            if first == index:
                index += 1
            else:
                self.replace_input(generic, index, generic.block.args[first])

    def add_input(self, generic: Generic, value: SSAValue, map_: AffineMap) -> SSAValue:
        """The element of `value` in the body; an operand that is there already is used again."""
        if (value, map_) in generic.reads:
            return generic.block.args[generic.reads.index((value, map_))]
        argument = generic.block.insert_arg(get_element_type_or_self(value.type), len(generic.inputs))
        generic.inputs.append(value)
        generic.space = replace(generic.space, operands=(*generic.space.operands, map_))
        self.readers.setdefault(value, []).append(generic)
        return argument

    def add_single_loop(self, generic: Generic) -> AffineExpr:
        """Another loop, of one iteration, around the body, behind all others."""
        single = tensor.EmptyOp([], TensorType(i8, [1]))
        assert generic.op.parent is not None
        generic.op.parent.insert_op_before(single, generic.op)
        space = generic.space
        count = len(space.extents)
        operands, results = (
            tuple([AffineMap(count + 1, 0, places.results) for places in maps])
            for maps in (space.operands, space.results)
        )
        generic.space = IterationSpace((*space.extents, 1), (*space.parallel, True), operands, results)
        loop = AffineExpr.dimension(count)
        self.add_input(generic, single.tensor, AffineMap(count + 1, 0, (loop,)))
        return loop

    def replace_input(self, generic: Generic, index: int, scalar: SSAValue) -> None:
        """Use `scalar` in the body instead of the element of an operand, which is dropped."""
        self.readers[generic.inputs.pop(index)].remove(generic)
        generic.space = generic.space.without(index)
        argument = generic.block.args[index]
        argument.replace_all_uses_with(scalar)
        generic.block.erase_arg(argument)
        generic.has_changed = True

    def drop_unused(self, generic: Generic) -> None:
        """Drop results that nothing uses, and operands that neither the body nor the extents of loops need."""
        terminator = generic.block.last_op
        assert terminator is not None
        for number in reversed(range(len(generic.block.args))):
            index, argument = number - len(generic.inputs), generic.block.args[number]
            space = generic.space.without(number)
            if argument.first_use is not None or not space.results or not space.tells_extents():
                continue
            if index < 0:
                self.readers[generic.inputs.pop(number)].remove(generic)
            elif not (self.readers.get(generic.results[index]) or self.other_uses.get(generic.results[index])):
                self.other_uses[generic.outputs.pop(index)].remove(generic.position)
                generic.results.pop(index)
                terminator.operands = [*terminator.operands[:index], *terminator.operands[index + 1 :]]
                tidy_body(generic.block)
            else:
                continue
            generic.block.erase_arg(argument)
            generic.space = space
