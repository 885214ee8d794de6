"""Ops of `nvgpu` that copy boxes of a tensor to shared memory without the help of threads, and the barriers that they
are waited for by, with upstream's names and meanings.

A barrier of shared memory counts arrivals and bytes. Where both are what is expected of a phase, this is complete, and
the next one begins. Phases are even and odd by turns; a new barrier is in phase 0, and the one before that is complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IndexType,
    IntAttr,
    IntegerType,
    MemRefType,
    UnrankedMemRefType,
    i1,
)
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    result_def,
    var_operand_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

SHARED = 3
"""The memory space that the threads of a block share."""
BARRIER_BYTES = 8
MOST_RANK, MOST_BOX = 5, 256
"""Dimensions of a tensor that is copied, and elements of a box along each."""


@irdl_attr_definition
class MBarrierGroupType(ParametrizedAttribute, TypeAttribute):
    """Some barriers in shared memory."""

    name = "nvgpu.mbarrier.group"

    count: IntAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            parser.parse_keyword("memorySpace")
            parser.parse_punctuation("=")
            parser.parse_attribute()
            parser.parse_punctuation(",")
            parser.parse_keyword("num_barriers")
            parser.parse_punctuation("=")
            return (IntAttr(parser.parse_integer()),)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"memorySpace = {SHARED} : i64, num_barriers = {self.count.data}")


@irdl_attr_definition
class MBarrierTokenType(ParametrizedAttribute, TypeAttribute):
    """The phase in which a thread arrived."""

    name = "nvgpu.mbarrier.token"


@irdl_attr_definition
class TensorMapType(ParametrizedAttribute, TypeAttribute):
    """What says of a tensor in memory which boxes are copied of it: those of shape `tensor`, whose rows of 128 bytes
    have runs of 16 trade places. What is outside of the tensor is 0."""

    name = "nvgpu.tensormap.descriptor"
    REST: ClassVar[tuple[tuple[str, str], ...]] = (
        ("swizzle", "swizzle_128b"),
        ("l2promo", "l2promo_256b"),
        ("oob", "zero"),
        ("interleave", "none"),
    )

    tensor: MemRefType

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            parser.parse_keyword("tensor")
            parser.parse_punctuation("=")
            tensor = parser.parse_type()
            for key, value in cls.REST:
                parser.parse_punctuation(",")
                parser.parse_keyword(key)
                parser.parse_punctuation("=")
                parser.parse_keyword(value)
            return (tensor,)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("tensor = ")
            printer.print_attribute(self.tensor)
            printer.print_string("".join(f", {key} = {value}" for key, value in self.REST))


@irdl_op_definition
class TmaCreateDescriptorOp(IRDLOperation):
    """Describe a tensor, and boxes of these sizes of it. Where the tensor is an argument of a kernel, the launch does
    so, and the kernel is given the result."""

    name = "nvgpu.tma.create.descriptor"

    tensor = operand_def(UnrankedMemRefType)
    box = var_operand_def(IndexType())
    tensor_map = result_def(TensorMapType)

    def __init__(self, tensor: SSAValue, box: Sequence[SSAValue], type_: TensorMapType) -> None:
        super().__init__(operands=[tensor, box], result_types=[type_])

    def verify_(self) -> None:
        assert isinstance(self.tensor_map.type, TensorMapType)
        shape = self.tensor_map.type.tensor.get_shape()
        if len(shape) != len(self.box) or not 1 <= len(shape) <= MOST_RANK:
            raise VerifyException(f"{self.name}: a box of {len(self.box)} sizes, of a tensor of rank {len(shape)}")
        if max(shape) > MOST_BOX or DYNAMIC_INDEX in shape:
            raise VerifyException(f"{self.name}: a box of {shape}, expected at most {MOST_BOX} along each dimension")


@irdl_op_definition
class TmaAsyncLoadOp(IRDLOperation):
    """Begin to copy the box from `coordinates` on to `dst`, which is shared memory; its bytes arrive at a barrier."""

    name = "nvgpu.tma.async.load"

    dst = operand_def(MemRefType)
    barriers = operand_def(MBarrierGroupType)
    tensor_map = operand_def(TensorMapType)
    coordinates = var_operand_def(IndexType())
    barrier = operand_def(IndexType())
    multicast_mask = opt_operand_def(IntegerType(16))
    predicate = opt_operand_def(i1)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        dst: SSAValue,
        barriers: SSAValue,
        barrier: SSAValue,
        tensor_map: SSAValue,
        coordinates: Sequence[SSAValue],
    ) -> None:
        """Coordinates are those of the innermost dimension first."""
        super().__init__(operands=[dst, barriers, tensor_map, coordinates, barrier, None, None])

    def verify_(self) -> None:
        assert isinstance(self.tensor_map.type, TensorMapType)
        assert isinstance(self.dst.type, MemRefType)
        box = self.tensor_map.type.tensor
        if (self.dst.type.element_type, self.dst.type.get_shape()) != (box.element_type, box.get_shape()):
            raise VerifyException(f"{self.name}: a box of type {box} is copied to {self.dst.type}")
        if len(self.coordinates) != len(box.get_shape()):
            raise VerifyException(f"{self.name}: {len(self.coordinates)} coordinates of {len(box.get_shape())}")


@irdl_op_definition
class MBarrierCreateOp(IRDLOperation):
    """Shared memory for barriers, which have no state yet."""

    name = "nvgpu.mbarrier.create"

    barriers = result_def(MBarrierGroupType)

    def __init__(self, count: int) -> None:
        super().__init__(result_types=[MBarrierGroupType(IntAttr(count))])

    @property
    def count(self) -> int:
        """How many barriers there are."""
        assert isinstance(self.barriers.type, MBarrierGroupType)
        return self.barriers.type.count.data


@irdl_op_definition
class MBarrierInitOp(IRDLOperation):
    """Begin phase 0 of a barrier, in each phase of which `count` threads arrive."""

    name = "nvgpu.mbarrier.init"

    barriers = operand_def(MBarrierGroupType)
    count = operand_def(IndexType())
    barrier = operand_def(IndexType())
    predicate = opt_operand_def(i1)

    def __init__(self, barriers: SSAValue, barrier: SSAValue, count: SSAValue) -> None:
        super().__init__(operands=[barriers, count, barrier, None])


@irdl_op_definition
class MBarrierArriveOp(IRDLOperation):
    """Arrive at a barrier: what the thread did before is done for those who wait for this phase."""

    name = "nvgpu.mbarrier.arrive"

    barriers = operand_def(MBarrierGroupType)
    barrier = operand_def(IndexType())
    token = result_def(MBarrierTokenType)

    def __init__(self, barriers: SSAValue, barrier: SSAValue) -> None:
        super().__init__(operands=[barriers, barrier], result_types=[MBarrierTokenType()])


@irdl_op_definition
class MBarrierArriveExpectOp(IRDLOperation):
    """Arrive at a barrier, and have its phase wait for so many bytes of copies, too."""

    name = "nvgpu.mbarrier.arrive.expect_tx"

    barriers = operand_def(MBarrierGroupType)
    byte_count = operand_def(IndexType())
    barrier = operand_def(IndexType())
    predicate = opt_operand_def(i1)

    def __init__(self, barriers: SSAValue, barrier: SSAValue, byte_count: SSAValue) -> None:
        super().__init__(operands=[barriers, byte_count, barrier, None])


@irdl_op_definition
class MBarrierTryWaitOp(IRDLOperation):
    """Wait until the newest phase of this parity is complete, looking again after so many nanoseconds."""

    name = "nvgpu.mbarrier.try_wait.parity"

    barriers = operand_def(MBarrierGroupType)
    parity = operand_def(i1)
    ticks = operand_def(IndexType())
    barrier = operand_def(IndexType())

    def __init__(self, barriers: SSAValue, barrier: SSAValue, parity: SSAValue, ticks: SSAValue) -> None:
        super().__init__(operands=[barriers, parity, ticks, barrier])


BULK_COPIES = [
    TmaCreateDescriptorOp,
    TmaAsyncLoadOp,
    MBarrierCreateOp,
    MBarrierInitOp,
    MBarrierArriveOp,
    MBarrierArriveExpectOp,
    MBarrierTryWaitOp,
]
BULK_TYPES = [MBarrierGroupType, MBarrierTokenType, TensorMapType]
