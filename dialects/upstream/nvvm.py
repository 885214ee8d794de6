"""Ops of the dialect `nvvm`, which xDSL 0.74 lacks, with upstream's names, texts and meanings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i1, i32, i64
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer


@irdl_op_definition
class BallotOp(IRDLOperation):
    """The lanes of the warp, among those in `mask`, for which `condition` holds: a bit for each, in all of them. Of the
    kinds of votes that upstream has this is `ballot`."""

    name = "nvvm.vote.sync"

    mask = operand_def(i32)
    condition = operand_def(i1)
    lanes = result_def(i32)

    @classmethod
    def of(cls, mask: SSAValue, condition: SSAValue) -> Self:
        """The vote on `condition`."""
        return cls.create(operands=(mask, condition), result_types=(i32,))

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        parser.parse_keyword("ballot")
        mask = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        condition = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation("->")
        result = parser.parse_type()
        operands = (parser.resolve_operand(mask, i32), parser.resolve_operand(condition, i1))
        return cls.create(operands=operands, result_types=(result,), attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ballot ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" -> ")
        printer.print_attribute(self.lanes.type)


@irdl_op_definition
class WgmmaFenceOp(IRDLOperation):
    """Let products of a warpgroup use registers that its threads have changed."""

    name = "nvvm.wgmma.fence.aligned"
    assembly_format = "attr-dict"


@irdl_op_definition
class WgmmaCommitOp(IRDLOperation):
    """Make a group of the products that a warpgroup has begun since the last one."""

    name = "nvvm.wgmma.commit.group.sync.aligned"
    assembly_format = "attr-dict"


@irdl_op_definition
class WgmmaWaitOp(IRDLOperation):
    """Wait until at most `group` of the newest groups of products are left."""

    name = "nvvm.wgmma.wait.group.sync.aligned"

    group = prop_def(IntegerAttr)

    def __init__(self, left: int) -> None:
        super().__init__(properties={"group": IntegerAttr(left, i64)})

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        attributes = parser.parse_optional_attr_dict()
        left = cls(parser.parse_integer(allow_boolean=False))
        left.attributes |= attributes
        return left

    def print(self, printer: Printer) -> None:
        printer.print_op_attributes(self.attributes)
        printer.print_string(f" {self.group.value.data}")


class _Keyword(ParametrizedAttribute):
    """An attribute of which one value is used."""

    KEYWORD: ClassVar[str]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            parser.parse_keyword(cls.KEYWORD)
        return ()

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.KEYWORD)


@irdl_attr_definition
class ProxyKindAttr(_Keyword):
    """Between which proxies accesses are ordered: that of threads, and that of what reads shared memory for them."""

    name = "nvvm.proxy_kind"
    KEYWORD: ClassVar[str] = "async.shared"


@irdl_attr_definition
class SharedSpaceAttr(_Keyword):
    """Whose shared memory is meant."""

    name = "nvvm.shared_space"
    KEYWORD: ClassVar[str] = "cta"


@irdl_op_definition
class FenceProxyOp(IRDLOperation):
    """Let products and copies that threads do not wait for read what the thread has stored to shared memory."""

    name = "nvvm.fence.proxy"

    kind = prop_def(ProxyKindAttr)
    space = prop_def(SharedSpaceAttr)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__(properties={"kind": ProxyKindAttr(), "space": SharedSpaceAttr()})


class _AtBarrier(IRDLOperation):
    """What a thread does at one of the barriers of a block, which are numbered, for so many threads."""

    number = operand_def(i32)
    threads = operand_def(i32)

    assembly_format = "`id` `=` $number `number_of_threads` `=` $threads attr-dict"

    def __init__(self, number: SSAValue, threads: SSAValue) -> None:
        super().__init__(operands=[number, threads])


@irdl_op_definition
class BarrierOp(_AtBarrier):
    """Wait until so many threads are there, or have been."""

    name = "nvvm.barrier"


@irdl_op_definition
class BarrierArriveOp(_AtBarrier):
    """Be there, and go on."""

    name = "nvvm.barrier.arrive"


@irdl_op_definition
class MBarrierInitFenceOp(IRDLOperation):
    """Let copies that threads do not wait for use the barriers that the thread has made."""

    name = "nvvm.fence.mbarrier.init"


@irdl_op_definition
class ElectOp(IRDLOperation):
    """Whether the thread is the one that is chosen of its warp, all of which is here."""

    name = "nvvm.elect.sync"

    chosen = result_def(i1)

    def __init__(self) -> None:
        super().__init__(result_types=[i1])


ACTIONS = ("increase", "decrease")


@irdl_op_definition
class SetMaxRegisterOp(IRDLOperation):
    """Let each thread of a warpgroup have so many registers: what some give up, others can have."""

    name = "nvvm.setmaxregister"

    count = prop_def(IntegerAttr, prop_name="regCount")
    action = prop_def(StringAttr)

    def __init__(self, count: int, action: str) -> None:
        super().__init__(properties={"regCount": IntegerAttr(count, i32), "action": StringAttr(action)})

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        action = next((action for action in ACTIONS if parser.parse_optional_keyword(action) is not None), None)
        if action is None:
            parser.raise_error(f"expected one of {', '.join(ACTIONS)}")
        changed = cls(parser.parse_integer(allow_boolean=False), action)
        changed.attributes |= parser.parse_optional_attr_dict()
        return changed

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.action.data} {self.count.value.data}")
        printer.print_op_attributes(self.attributes)


NVVM = Dialect(
    "nvvm",
    [
        *(BallotOp, WgmmaFenceOp, WgmmaCommitOp, WgmmaWaitOp, FenceProxyOp, MBarrierInitFenceOp, ElectOp),
        *(SetMaxRegisterOp, BarrierOp, BarrierArriveOp),
    ],
    [ProxyKindAttr, SharedSpaceAttr],
)
