"""The ops of `nvgpu` that a warp's products of matrices are made of, which xDSL 0.74 lacks, with upstream's names, text
and meaning: copies that are not waited for, `ldmatrix` and `mma.sync`. Values are what one thread holds. The dialect
has those of `bulk_copies.py`, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    BoolAttr,
    Float32Type,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    UnitAttr,
    VectorType,
    i32,
    i64,
)
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tenon.dialects.upstream.bulk_copies import BULK_COPIES, BULK_TYPES

WORKGROUP = 3
"""The memory space that the threads of a block share."""
COPIED_BYTES = (4, 8, 16)
TILES = (1, 2, 4)
TRANSPOSED_BITS = 16
"""Of the elements of matrices that `ldmatrix` transposes."""


def _bits(element: Attribute) -> int:
    return (
        element.width.data
        if isinstance(element, IntegerType)
        else element.bitwidth
        if isinstance(element, AnyFloat)
        else 64
    )


def check_shared(op: str, type_: Attribute) -> None:
    """Raise `VerifyException` for a memref of the operand of `op` that is not in shared memory."""
    assert isinstance(type_, MemRefType)
    space = type_.memory_space
    if not isinstance(space, IntegerAttr) or space.value.data != WORKGROUP:
        raise VerifyException(f"{op}: {type_} is not in memory space {WORKGROUP}")


@irdl_attr_definition
class DeviceAsyncTokenType(ParametrizedAttribute, TypeAttribute):
    """What copies, and groups of them, are known by."""

    name = "nvgpu.device.async.token"


@irdl_op_definition
class DeviceAsyncCopyOp(IRDLOperation):
    """Begin to copy `dstElements` neighbours from `src` to `dst`, which is in shared memory; from `src_elements` on the
    copy is zeros."""

    name = "nvgpu.device_async_copy"

    dst = operand_def(MemRefType)
    dst_indices = var_operand_def(IndexType())
    src = operand_def(MemRefType)
    src_indices = var_operand_def(IndexType())
    src_elements = opt_operand_def(IndexType())
    dst_elements = prop_def(IntegerAttr, prop_name="dstElements")
    bypass_l1 = opt_prop_def(UnitAttr, prop_name="bypassL1")
    token = result_def(DeviceAsyncTokenType())

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        dst: SSAValue,
        dst_indices: Sequence[SSAValue],
        src: SSAValue,
        src_indices: Sequence[SSAValue],
        elements: int,
        src_elements: SSAValue | None = None,
    ) -> None:
        """What takes the widest access bypasses the cache of the multiprocessor."""
        super().__init__(
            operands=[dst, dst_indices, src, src_indices, src_elements],
            properties={"dstElements": IntegerAttr.from_index_int_value(elements)},
            result_types=[DeviceAsyncTokenType()],
        )
        if self.byte_count == max(COPIED_BYTES):
            self.properties["bypassL1"] = UnitAttr()

    @property
    def byte_count(self) -> int:
        """Bytes that are written; an `i1` takes a whole one."""
        assert isinstance(self.dst.type, MemRefType)
        return self.dst_elements.value.data * -(-_bits(self.dst.type.element_type) // 8)

    def verify_(self) -> None:
        check_shared(self.name, self.dst.type)
        if self.byte_count not in COPIED_BYTES:
            raise VerifyException(
                f"{self.name}: {self.byte_count} bytes, expected one of {', '.join(map(str, COPIED_BYTES))}"
            )


@irdl_op_definition
class DeviceAsyncCreateGroupOp(IRDLOperation):
    """Make a group of the copies that the thread has begun since the last one."""

    name = "nvgpu.device_async_create_group"

    copies = var_operand_def(DeviceAsyncTokenType())
    token = result_def(DeviceAsyncTokenType())

    def __init__(self, copies: Sequence[SSAValue] = ()) -> None:
        super().__init__(operands=[copies], result_types=[DeviceAsyncTokenType()])

    # As upstream's, but for a group without operands: without the braces a parser would take the result of the op on
    # the next line for one.
    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.copies, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)
        if not self.copies:
            printer.print_string("{}")

    @classmethod
    def parse(cls, parser: Parser) -> DeviceAsyncCreateGroupOp:
        copies = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        made = cls([parser.resolve_operand(copy, DeviceAsyncTokenType()) for copy in copies or ()])
        made.attributes.update(attributes)
        return made


@irdl_op_definition
class DeviceAsyncWaitOp(IRDLOperation):
    """Wait until at most `numGroups` of the thread's newest groups are left."""

    name = "nvgpu.device_async_wait"

    group = operand_def(DeviceAsyncTokenType())
    groups = opt_prop_def(IntegerAttr, prop_name="numGroups")

    def __init__(self, group: SSAValue, groups: int) -> None:
        super().__init__(operands=[group], properties={"numGroups": IntegerAttr(groups, i32)})

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$group attr-dict"


@irdl_op_definition
class LdMatrixOp(IRDLOperation):
    """Load `numTiles` matrices of 8 by 8 from shared memory to the registers of a warp; each lane gives the place of a
    row."""

    name = "nvgpu.ldmatrix"

    source = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    transpose = prop_def(BoolAttr)
    tiles = prop_def(IntegerAttr, prop_name="numTiles")
    result = result_def(VectorType)

    def __init__(self, source: SSAValue, indices: Sequence[SSAValue], tiles: int, *, transpose: bool) -> None:
        assert isinstance(source.type, MemRefType)
        element = source.type.element_type
        super().__init__(
            operands=[source, indices],
            properties={"transpose": BoolAttr.from_bool(transpose), "numTiles": IntegerAttr(tiles, i32)},
            result_types=[VectorType(element, [tiles, 32 // _bits(element)])],
        )

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$source `[` $indices `]` attr-dict `:` type($source) `->` type($result)"

    def verify_(self) -> None:
        check_shared(self.name, self.source.type)
        assert isinstance(self.result.type, VectorType)
        tiles, shape = self.tiles.value.data, self.result.type.get_shape()
        if tiles not in TILES:
            raise VerifyException(f"{self.name}: {tiles} tiles, expected one of {', '.join(map(str, TILES))}")
        bits = _bits(self.result.type.element_type)
        if self.transpose.value.data and bits != TRANSPOSED_BITS:
            raise VerifyException(f"{self.name}: elements have {bits} bits, those that it transposes {TRANSPOSED_BITS}")
        expected = (tiles, 32 // bits)
        if shape != expected:
            raise VerifyException(f"{self.name}: the result has shape {shape}, {tiles} tiles have {expected}")


@irdl_op_definition
class MmaSyncOp(IRDLOperation):
    """The product of two matrices, of which each lane of a warp holds a part, added to a third."""

    name = "nvgpu.mma.sync"

    a = operand_def(VectorType)
    b = operand_def(VectorType)
    c = operand_def(VectorType)
    shape = prop_def(ArrayAttr[IntegerAttr], prop_name="mmaShape")
    tf32 = opt_prop_def(UnitAttr, prop_name="tf32Enabled")
    result = result_def(VectorType)

    def __init__(self, a: SSAValue, b: SSAValue, c: SSAValue, shape: Sequence[int]) -> None:
        super().__init__(
            operands=[a, b, c],
            properties={"mmaShape": ArrayAttr([IntegerAttr(size, i64) for size in shape])},
            result_types=[c.type],
        )
        assert isinstance(a.type, VectorType)
        if isinstance(a.type.element_type, Float32Type):
            self.properties["tf32Enabled"] = UnitAttr()

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "`(` $a `,` $b `,` $c `)` attr-dict `:` `(` type($a) `,` type($b) `,` type($c) `)` `->` type($result)"
    )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows, columns and depth of the product."""
        return tuple(size.value.data for size in self.shape)

    def verify_(self) -> None:
        if len(self.sizes) != 3:
            raise VerifyException(f"{self.name}: mmaShape has {len(self.sizes)} sizes, expected 3")
        if self.c.type != self.result.type:
            raise VerifyException(f"{self.name}: {self.c.type} is added to, the result has type {self.result.type}")


NvGpu = Dialect(
    "nvgpu",
    [DeviceAsyncCopyOp, DeviceAsyncCreateGroupOp, DeviceAsyncWaitOp, LdMatrixOp, MmaSyncOp, *BULK_COPIES],
    [DeviceAsyncTokenType, *BULK_TYPES],
)
