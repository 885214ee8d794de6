"""The attribute `visible` of a generic: which iterations of one of its loops count (see `skip-masked`)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import AffineMapAttr, DictionaryAttr, IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from tenon.dialects.families.iteration_space import Subscript
from tenon.lowering.kernels.statement import Statement
from tenon.lowering.loop_ir.builder import INDEX, Limits, LoopBuilder, Span

VISIBLE = "visible"


@dataclass(frozen=True)
class Visible:
    """What `visible` says: iterations of `loop` that count start `lower`, and end `upper`, behind that of `row`."""

    loop: int
    row: int
    lower: int | None
    upper: int | None


def write_visible(statement: Statement, visible: Visible) -> None:
    """Set the attribute."""

    def bound(distance: int) -> Attribute:
        return AffineMapAttr(AffineMap(len(statement.extents), 0, (AffineDimExpr(visible.row) + distance,)))

    entries: dict[str, Attribute] = {"loop": IntegerAttr(visible.loop, i64)}
    if visible.lower is not None:
        entries["lower"] = bound(visible.lower)
    if visible.upper is not None:
        entries["upper"] = bound(visible.upper)
    statement.op.attributes[VISIBLE] = DictionaryAttr(entries)


def read_visible(statement: Statement) -> Visible | None:
    """The attribute of a statement. Raises `ValueError` for one that does not fit its loops."""
    attribute = statement.op.attributes.get(VISIBLE)
    if attribute is None:
        return None
    entries = attribute.data if isinstance(attribute, DictionaryAttr) else {}
    loop = entries.get("loop")
    bounds = {key: _bound(entries[key]) for key in ("lower", "upper") if key in entries}
    found = {bound[0] for bound in bounds.values() if bound is not None}
    count = len(statement.extents)
    if not isinstance(loop, IntegerAttr) or None in bounds.values() or len(found) != 1:
        raise ValueError(f"visible: {attribute} has not a loop, and bounds that are another loop plus a constant")
    row, column = next(iter(found)), loop.value.data
    if not (0 <= column < count and 0 <= row < count) or row == column:
        raise ValueError(f"visible: loop is {column} and its bounds depend on loop {row}, but the op has {count} loops")
    distances = {key: bound[1] for key, bound in bounds.items() if bound is not None}
    return Visible(column, row, distances.get("lower"), distances.get("upper"))


def _bound(attribute: Attribute) -> tuple[int, int] | None:
    """The loop and the constant that the result of a map is the sum of."""
    if not isinstance(attribute, AffineMapAttr) or len(attribute.data.results) != 1:
        return None
    subscript = Subscript.of(attribute.data.results[0])
    loops = list(subscript.factors.items())
    return (loops[0][0], subscript.constant) if len(loops) == 1 and loops[0][1] == 1 else None


def visible_limits(builder: LoopBuilder, visible: Visible, rows: Span, columns: int, tile: int) -> Limits:
    """Where the columns start and end that one of `rows` sees, of `columns` in all: multiples of `tile`, or the end;
    there is at least one tile between them."""

    number = builder.index_constant

    def larger(value: SSAValue, least: SSAValue) -> SSAValue:
        return builder.pure(arith.MaxSIOp, (value, least), INDEX)

    def smaller(value: SSAValue, most: int) -> SSAValue:
        return builder.pure(arith.MinSIOp, (value, number(most)), INDEX)

    def whole_tiles(value: SSAValue) -> SSAValue:
        if tile == 1:
            return value
        tiles = builder.pure(arith.DivUIOp, (value, number(tile)), INDEX)
        return builder.pure(arith.MuliOp, (tiles, number(tile)), INDEX)

    lower, upper = number(0), number(columns)
    if visible.lower is not None:
        first = builder.index(rows.start + visible.lower)
        lower = whole_tiles(smaller(larger(first, lower), columns - 1))
    if visible.upper is not None:
        last = builder.index(rows.start + (rows.extent - 1 + visible.upper + tile - 1))
        least = number(tile)
        if visible.lower is not None:
            least = builder.pure(arith.AddiOp, (lower, least), INDEX)
        upper = smaller(whole_tiles(larger(last, least)), columns)
    return lower, upper
