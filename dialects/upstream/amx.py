"""`amx`, which xDSL 0.74 lacks: matrices in the tile registers of x86, with upstream's names, text and meaning.

    %c = amx.tile_zero : !amx.tile<16x16xf32>
    %a = amx.tile_load %rows[%i, %k], %stride : memref<64x64xbf16> into !amx.tile<16x32xbf16>
    %r = amx.tile_mulf %a, %b, %c : !amx.tile<16x32xbf16>, !amx.tile<16x32xbf16>, !amx.tile<16x16xf32>
    amx.tile_store %out[%i, %j], %r, %stride : memref<64x64xf32>, !amx.tile<16x16xf32>

A row of a tile has 64 bytes at most, and a tile 16 rows. Rows are read and written `stride` elements apart. The second
factor has its rows in groups of as many as make up 32 bits, which lie side by side: `b[k / 2, 2 j + k % 2]` for bf16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    Float16Type,
    Float32Type,
    IndexType,
    IntAttr,
    MemRefType,
    UnitAttr,
    i8,
    i32,
)
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    AttrConstraint,
    BaseAttr,
    IRDLOperation,
    VarConstraint,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    param_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

MOST_ROWS = 16
"""Of a tile."""
MOST_ROW_BYTES = 64
"""Of a row of it."""
_BYTES: dict[Attribute, int] = {i8: 1, i32: 4, BFloat16Type(): 2, Float16Type(): 2, Float32Type(): 4}


@irdl_attr_definition
class TileType(ParametrizedAttribute, TypeAttribute):
    """A matrix in a tile register."""

    name = "amx.tile"

    shape: ArrayAttr[IntAttr] = param_def()
    element_type: Attribute = param_def()

    @classmethod
    def of(cls, rows: int, columns: int, element: Attribute) -> TileType:
        """The tile of `rows` by `columns` elements."""
        return cls(ArrayAttr([IntAttr(rows), IntAttr(columns)]), element)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.shape.data[0].data

    @property
    def columns(self) -> int:
        """How many elements a row has."""
        return self.shape.data[1].data

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return _BYTES[self.element_type]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.columns * self.element_bytes

    def verify(self) -> None:
        if self.element_type not in _BYTES:
            raise VerifyException(f"{self.name}: {self.element_type} is no element of tiles")
        if len(self.shape.data) != 2 or not 1 <= self.rows <= MOST_ROWS:
            raise VerifyException(f"{self.name}: shape {_shape(self)} is not one of 1 to {MOST_ROWS} rows")
        if not 1 <= self.row_bytes <= MOST_ROW_BYTES or self.row_bytes % 4:
            raise VerifyException(
                f"{self.name}: rows of {_shape(self)} have {self.row_bytes} bytes, "
                f"no multiple of 4 up to {MOST_ROW_BYTES}"
            )

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{_shape(self)}x")
            printer.print_attribute(self.element_type)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            shape, element = parser.parse_ranked_shape()
        return ArrayAttr([IntAttr(extent) for extent in shape]), element


def _shape(tile: TileType) -> str:
    return "x".join(str(extent.data) for extent in tile.shape.data)


def tile_type(value: SSAValue) -> TileType:
    """The type of a value that is a tile."""
    assert isinstance(value.type, TileType)
    return value.type


@irdl_op_definition
class TileZeroOp(IRDLOperation):
    """A tile of zeros."""

    name = "amx.tile_zero"

    tile = result_def(TileType)

    assembly_format = "attr-dict `:` type($tile)"
    traits = traits_def(Pure())

    def __init__(self, type_: TileType) -> None:
        super().__init__(result_types=[type_])


def _check_place(op: str, base: SSAValue, indices: Sequence[SSAValue], tile: SSAValue) -> None:
    assert isinstance(base.type, MemRefType)
    if base.type.get_num_dims() != len(indices):
        raise VerifyException(f"{op}: {len(indices)} indices for {base.type}")
    if base.type.element_type != tile_type(tile).element_type:
        raise VerifyException(f"{op}: a tile of {tile_type(tile).element_type} at {base.type}")


@irdl_op_definition
class TileLoadOp(IRDLOperation):
    """The tile whose rows begin at `base[indices]`, `stride` elements apart."""

    name = "amx.tile_load"

    base = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    stride = operand_def(IndexType())
    tile = result_def(TileType)

    assembly_format = "$base `[` $indices `]` `,` $stride attr-dict `:` type($base) `into` type($tile)"

    def __init__(self, base: SSAValue, indices: Sequence[SSAValue], stride: SSAValue, type_: TileType) -> None:
        super().__init__(operands=[base, list(indices), stride], result_types=[type_])

    def verify_(self) -> None:
        _check_place(self.name, self.base, self.indices, self.tile)


@irdl_op_definition
class TileStoreOp(IRDLOperation):
    """Write the rows of a tile to `base[indices]` on, `stride` elements apart."""

    name = "amx.tile_store"

    base = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    tile = operand_def(TileType)
    stride = operand_def(IndexType())

    assembly_format = "$base `[` $indices `]` `,` $tile `,` $stride attr-dict `:` type($base) `,` type($tile)"

    def __init__(self, base: SSAValue, indices: Sequence[SSAValue], tile: SSAValue, stride: SSAValue) -> None:
        super().__init__(operands=[base, list(indices), tile, stride])

    def verify_(self) -> None:
        _check_place(self.name, self.base, self.indices, self.tile)


class TileProductOp(IRDLOperation):
    """`acc + lhs * rhs`: tiles (m, k), (k / g, n g) and (m, n), where groups of g elements have 32 bits."""

    SUM: ClassVar[AttrConstraint] = VarConstraint("SUM", BaseAttr(TileType))

    lhs = operand_def(TileType)
    rhs = operand_def(TileType)
    acc = operand_def(SUM)
    result = result_def(SUM)

    traits = traits_def(Pure())

    ELEMENTS: ClassVar[tuple[Attribute, ...]] = ()
    SUMS: ClassVar[Attribute] = i32

    def __init__(self, lhs: SSAValue, rhs: SSAValue, acc: SSAValue) -> None:
        super().__init__(operands=[lhs, rhs, acc], result_types=[acc.type])

    def verify_(self) -> None:
        lhs, rhs, acc = map(tile_type, self.operands)
        if lhs.element_type not in self.ELEMENTS or lhs.element_type != rhs.element_type:
            raise VerifyException(f"{self.name}: no products of {lhs.element_type} and {rhs.element_type}")
        if acc.element_type != self.SUMS:
            raise VerifyException(f"{self.name}: {acc} holds no sums of products of {lhs.element_type}")
        group = 4 // lhs.element_bytes
        if (lhs.rows, rhs.columns, lhs.columns) != (acc.rows, acc.columns * group, rhs.rows * group):
            raise VerifyException(f"{self.name}: {lhs} times {rhs} is no {acc}")


@irdl_op_definition
class TileMulFOp(TileProductOp):
    """Products of bf16 or f16, added up in f32; subnormal numbers are taken for 0."""

    name = "amx.tile_mulf"

    assembly_format = "$lhs `,` $rhs `,` $acc attr-dict `:` type($lhs) `,` type($rhs) `,` type($acc)"

    ELEMENTS: ClassVar[tuple[Attribute, ...]] = (BFloat16Type(), Float16Type())
    SUMS: ClassVar[Attribute] = Float32Type()


@irdl_op_definition
class TileMulIOp(TileProductOp):
    """Products of i8, of which each factor is signed or, with its flag, not; added up in i32, which wraps around."""

    name = "amx.tile_muli"

    lhs_is_unsigned = opt_prop_def(UnitAttr, prop_name="isZextLhs")
    rhs_is_unsigned = opt_prop_def(UnitAttr, prop_name="isZextRhs")

    assembly_format = (
        "$lhs (`zext` $isZextLhs^)? `,` $rhs (`zext` $isZextRhs^)? `,` $acc "
        "attr-dict `:` type($lhs) `,` type($rhs) `,` type($acc)"
    )

    ELEMENTS: ClassVar[tuple[Attribute, ...]] = (i8,)
    SUMS: ClassVar[Attribute] = i32

    @classmethod
    def of(cls, lhs: SSAValue, rhs: SSAValue, acc: SSAValue, unsigned: tuple[bool, bool]) -> TileMulIOp:
        """The product of factors that are `unsigned` or signed."""
        op = cls(lhs, rhs, acc)
        op.lhs_is_unsigned, op.rhs_is_unsigned = (UnitAttr() if flag else None for flag in unsigned)
        return op

    @property
    def unsigned(self) -> tuple[bool, bool]:
        """Whether each factor is unsigned."""
        return self.lhs_is_unsigned is not None, self.rhs_is_unsigned is not None


Amx = Dialect("amx", [TileZeroOp, TileLoadOp, TileStoreOp, TileMulFOp, TileMulIOp], [TileType])
