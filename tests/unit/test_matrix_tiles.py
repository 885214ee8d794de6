"""Products of bf16 and of i8 in tile registers, against NumPy in f64 and in i64."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_kernels import interpret, parse, to_loops
from numpy.typing import NDArray
from test_dot_products import BF16, LAYOUTS, Contraction, assert_near, normal, whole
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

import tenon
from tenon.dialects.families import ContractionOp
from tenon.lowering.llvm.emit_llvm import emit_llvm
from tenon.lowering.schedules.schedule import SchedulePass
from tenon.passes.layout.transposed_operands import operand_to_transpose
from tenon.passes.layout.widened_operands import take_narrow_operands
from tenon.passes.machine import Machine
from tenon.runtime import lower
from tenon.runtime.lower import machine

MACHINE = "avx512 tiles=bf16,i8"
TILES = machine().tiles
needs_tiles = pytest.mark.skipif(TILES != ("bf16", "i8"), reason="this processor has no tiles, or the system none")


def tiled(case: Contraction) -> ModuleOp:
    """The loops of a contraction on a machine with tiles, as it decides."""
    module = parse(case.text({}))
    SchedulePass(machine=MACHINE).apply(Context(), module)
    return to_loops(module, None)


# What is emitted, on any processor: the interpreter runs it

SIZES = st.sampled_from([1, 15, 16, 17, 32, 33])


@st.composite
def contractions(draw: st.DrawFn, kinds: tuple[str, ...] = ("bf16", "ss", "us", "su", "uu")) -> Contraction:
    sizes = {"b": draw(st.sampled_from([1, 2])), "m": draw(SIZES), "n": draw(SIZES)}
    sizes["k"] = draw(st.sampled_from([1, 31, 32, 64, 65, 130]))
    batched = draw(st.sampled_from([("b", "b"), ("b", ""), ("", "b")]))
    x, y = LAYOUTS[draw(st.sampled_from(list(LAYOUTS)))]
    return Contraction(
        draw(st.sampled_from(kinds)), sizes, (batched[0] + x, batched[1] + y), filled=draw(st.booleans())
    )


@settings(max_examples=10)
@given(case=contractions())
def test_what_is_decided(case: Contraction) -> None:
    x, y, o = case.arrays()
    (result,) = interpret(tiled(case), "k", [x, y], [o])
    np.testing.assert_array_equal(result, case.expected())


@settings(max_examples=8)
@given(data=st.data(), case=contractions())
def test_every_schedule(data: st.DataObject, case: Contraction) -> None:
    depth = 2 if case.kind == "bf16" else 4
    rows = data.draw(st.sampled_from([7, 16, 32]))
    schedule = {"vector": 2, "width": 16, "unroll": data.draw(st.integers(1, 2)), "jam": 1, "jam_count": rows}
    schedule |= {"pack": 1, "dot": 3, "depth": depth, "tile": 16}
    if case.sizes["k"] % (16 * depth) or not case.operands[0].endswith("k") or data.draw(st.booleans()):
        schedule["pack_jam"] = 0
    for key, unit in (("jam_block", rows), ("vector_block", 1), ("pack_block", 1)):
        if data.draw(st.booleans()):
            schedule[key] = data.draw(st.integers(1, 3)) * max(unit, 16 if unit == 1 else 1)
    x, y, o = case.arrays()
    (result,) = interpret(to_loops(parse(case.text(schedule)), None), "k", [x, y], [o])
    np.testing.assert_array_equal(result, case.expected())


def test_rows_of_each_batch_are_copied() -> None:
    case = Contraction("ss", {"b": 2, "m": 17, "n": 33, "k": 130}, ("bmk", "kn"), filled=False)
    schedule = {"vector": 2, "width": 16, "unroll": 2, "jam": 1, "jam_count": 32, "pack": 1, "pack_jam": 0}
    module = to_loops(parse(case.text(schedule | {"dot": 3, "depth": 4, "tile": 16})), None)
    x, y, o = case.arrays()
    np.testing.assert_array_equal(interpret(module, "k", [x, y], [o])[0], case.expected())


CASE = Contraction("bf16", {"b": 1, "m": 40, "n": 40, "k": 64}, ("bmk", "bkn"), filled=True)


@pytest.mark.quick
@pytest.mark.parametrize("name", ["avx512", "avx512 tiles=i8", "avx2 tiles=", "neon"])
def test_machines_without_tiles_have_the_code_that_they_had(name: str) -> None:
    module = parse(CASE.text({}))
    SchedulePass(machine=name).apply(Context(), module)
    assert "tile" not in str(module)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tile": 8}, "tile is 8 and width 16, but tiles have 16 of both"),
        ({"width": 8}, "tile is 16 and width 8"),
        ({"jam_count": 48, "unroll": 1}, "there are registers for 32 rows and 2 vectors"),
        ({"block": 32}, "block does not go with tile"),
        ({"vector_block": 0}, "vector_block is 0, not at least 1"),
        ({"pack": None}, "input 1 advances along the lanes, and is not packed so"),
        ({"tile": None, "pack_block": 32}, "vector_block and pack_block need tile"),
    ],
)
def test_schedules_that_cannot_be_obeyed(changes: dict[str, int | None], message: str) -> None:
    schedule: dict[str, int | None] = {"vector": 2, "width": 16, "unroll": 2, "jam": 1, "jam_count": 32, "pack": 1}
    schedule |= {"dot": 3, "depth": 2, "tile": 16} | changes
    with pytest.raises(ValueError, match=message):
        to_loops(parse(CASE.text({key: number for key, number in schedule.items() if number is not None})), None)


def test_rows_that_the_last_tile_would_reach_beyond_are_copied() -> None:
    case = Contraction("bf16", {"b": 1, "m": 40, "n": 40, "k": 70}, ("bmk", "bkn"), filled=True)
    schedule = {"vector": 2, "width": 16, "unroll": 2, "jam": 1, "jam_count": 32, "pack": 1}
    with pytest.raises(ValueError, match="loop 3 has 70 iterations, no multiple of 16 groups of 2"):
        to_loops(parse(case.text(schedule | {"dot": 3, "depth": 2, "tile": 16})), None)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("shape", "elements", "wide", "transposed"),
    [
        ((64, 64, 64), (BF16, BF16), "f32", False),
        ((64, 64, 31), (BF16, BF16), "f32", True),
        ((32, 32, 32), (BF16, BF16), "f32", True),
        ((64, 64, 64), (np.uint8, np.int8), "i32", False),
        ((64, 64, 64), (np.int8, np.int8), "i8", True),
    ],
)
def test_operands_that_tiles_take_are_not_transposed(
    shape: tuple[int, int, int], elements: tuple[Any, Any], wide: str, transposed: bool
) -> None:
    m, n, k = shape

    def program(x: Any, y: Any) -> Any:
        return tenon.einsum("mk,nk->mn", tenon.cast(x, dtype=wide), tenon.cast(y, dtype=wide))

    traced = tenon.jit(program).trace(np.ones((m, k), elements[0]), np.ones((n, k), elements[1]))
    take_narrow_operands(next(op for op in traced.module.walk() if isinstance(op, func.FuncOp)).body.block)
    (contraction,) = [op for op in traced.module.walk() if isinstance(op, ContractionOp)]
    assert (operand_to_transpose(contraction, Machine.parse(MACHINE)) is not None) == transposed


# Registers and their shapes


def emitted(body: str, tiles: tuple[str, ...] = ("bf16", "i8")) -> str:
    arguments = "%a: memref<64x64xbf16>, %o: memref<64x64xf32>"
    text = f"""
func.func @main({arguments}) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  {body}
  func.return
}}"""
    return emit_llvm(parse(text), tiles=tiles)


def product(rows: int, number: str) -> str:
    sums, factor = f"!amx.tile<{rows}x16xf32>", f"!amx.tile<{rows}x32xbf16>"
    return f"""
    %z{number} = amx.tile_zero : {sums}
    %x{number} = amx.tile_load %a[%c0, %c0], %c64 : memref<64x64xbf16> into {factor}
    %y{number} = amx.tile_load %a[%c0, %c0], %c64 : memref<64x64xbf16> into !amx.tile<16x32xbf16>
    %r{number} = amx.tile_mulf %x{number}, %y{number}, %z{number} : {factor}, !amx.tile<16x32xbf16>, {sums}
    amx.tile_store %o[%c0, %c0], %r{number}, %c64 : memref<64x64xf32>, {sums}"""


def configurations(text: str) -> int:
    return text.count("call void @llvm.x86.ldtilecfg")


@pytest.mark.quick
def test_shapes_are_loaded_once_where_they_fit() -> None:
    text = emitted(f"scf.for %i = %c0 to %c16 step %c1 {{ {product(16, 'a')} {product(16, 'b')} {product(7, 'c')} }}")
    assert configurations(text) == 1
    assert text.index("ldtilecfg") < text.index("br label")
    assert text.count("call void @llvm.x86.tilerelease") == 1


@pytest.mark.quick
def test_shapes_that_do_not_fit_together_are_loaded_one_after_the_other() -> None:
    loops = (f"scf.for %i{n} = %c0 to %c16 step %c1 {{ {product(n, str(n))} }}" for n in range(3, 13))
    text = emitted("\n".join(loops))
    assert 2 <= configurations(text) < 10
    assert text.count("call void @llvm.x86.tilerelease") == 1


@pytest.mark.quick
def test_more_tiles_than_registers_are_refused() -> None:
    loads = "\n".join(
        f"%t{n} = amx.tile_load %o[%c0, %c0], %c64 : memref<64x64xf32> into !amx.tile<16x16xf32>" for n in range(9)
    )
    stores = "\n".join(
        f"amx.tile_store %o[%c0, %c0], %t{n}, %c64 : memref<64x64xf32>, !amx.tile<16x16xf32>" for n in range(9)
    )
    with pytest.raises(ValueError, match="main has more tiles at once than 8 registers hold"):
        emitted(loads + "\n" + stores)


@pytest.mark.quick
def test_tiles_that_live_together_have_registers_of_their_own() -> None:
    """A product has that of its sums."""
    type_ = "!amx.tile<16x16xf32>"
    *head, last = product(16, "a").strip().splitlines()

    def beside(count: int) -> str:
        names = [f"t{n}" for n in range(count)]
        loads = [f"%{n} = amx.tile_load %o[%c0, %c0], %c64 : memref<64x64xf32> into {type_}" for n in names]
        stores = [f"amx.tile_store %o[%c0, %c0], %{n}, %c64 : memref<64x64xf32>, {type_}" for n in names]
        return emitted("\n".join([*head, *loads, last, *stores]))

    assert sorted(re.findall(r"tilestored64\(i8 (\d)", beside(7))) == list("01234567")
    with pytest.raises(ValueError, match="more tiles at once"):
        beside(8)


SUM, FACTOR = "!amx.tile<16x16xf32>", "!amx.tile<16x32xbf16>"
ZERO = f"%z = amx.tile_zero : {SUM}"
FACTORS = "\n".join(
    f"%{name} = amx.tile_load %a[%c0, %c0], %c64 : memref<64x64xbf16> into {FACTOR}" for name in ("x", "w")
)


def multiplied(result: str, acc: str, rhs: str = "w") -> str:
    return f"%{result} = amx.tile_mulf %x, %{rhs}, %{acc} : {FACTOR}, {FACTOR}, {SUM}"


def stored(tile: str) -> str:
    return f"amx.tile_store %o[%c0, %c0], %{tile}, %c64 : memref<64x64xf32>, {SUM}"


def carrying(body: str, names: str = "%c = %z", types: str = SUM) -> str:
    return f"%s:{types.count('tile')} = scf.for %i = %c0 to %c16 step %c1 iter_args({names}) -> ({types}) {{ {body} }}"


TAKEN_OVER = "a tile whose register is taken over is read by nothing else from here on"
COPIES = {
    "equal factors": ([ZERO, multiplied("p", "z", "x")], "amx.tile_mulf", "acc, lhs and rhs are three different tiles"),
    "added to twice": ([ZERO, multiplied("p", "z"), multiplied("q", "z")], "amx.tile_mulf", TAKEN_OVER),
    "added to in a loop": (
        [ZERO, f"scf.for %i = %c0 to %c16 step %c1 {{ {multiplied('p', 'z')} }}"],
        "amx.tile_mulf",
        TAKEN_OVER,
    ),
    "argument read again": (
        [ZERO, carrying(f"{multiplied('p', 'c')}\n{stored('c')}\nscf.yield %p : {SUM}")],
        "amx.tile_mulf",
        TAKEN_OVER,
    ),
    "start read again": (
        [ZERO, carrying(f"{multiplied('p', 'c')}\nscf.yield %p : {SUM}"), stored("z")],
        "scf.for",
        TAKEN_OVER,
    ),
    "start of two": (
        [ZERO, carrying(f"scf.yield %c, %d : {SUM}, {SUM}", "%c = %z, %d = %z", f"{SUM}, {SUM}")],
        "scf.for",
        TAKEN_OVER,
    ),
    "carried elsewhere": (
        [ZERO, carrying(f"%y = amx.tile_zero : {SUM}\nscf.yield %y : {SUM}")],
        "scf.for",
        "a tile is carried on in its register",
    ),
    "branches": (
        [
            "%t = arith.constant true",
            f"%r = scf.if %t -> ({SUM}) {{ {ZERO}\nscf.yield %z : {SUM} }} else {{ {ZERO}\nscf.yield %z : {SUM} }}",
        ],
        "scf.if",
        "of ops with blocks, only scf.for has tiles as results",
    ),
    "a call": (
        [ZERO, "func.call @main(%a, %o) : (memref<64x64xbf16>, memref<64x64xf32>) -> ()", stored("z")],
        "func.call",
        "no tile lives across what may release its register",
    ),
}


@pytest.mark.quick
@pytest.mark.parametrize(("body", "op", "rule"), COPIES.values(), ids=COPIES)
def test_what_would_take_a_copy_of_a_tile_is_refused(body: list[str], op: str, rule: str) -> None:
    with pytest.raises(ValueError, match=f"^emit_llvm: {op} in main: {rule}$"):
        emitted("\n".join([FACTORS, *body]))


@pytest.mark.quick
def test_tiles_that_a_loop_reads_keep_their_registers() -> None:
    load = f"%v = amx.tile_load %a[%c0, %c0], %c64 : memref<64x64xbf16> into {FACTOR}"
    inside = "\n".join([load, ZERO, multiplied("p", "z", "v"), stored("p")])
    text = emitted(f"{FACTORS}\nscf.for %i = %c0 to %c16 step %c1 {{ {inside} }}")
    assert re.findall(r"(?:tileloadd64|tdpbf16ps)\((i8 \d(?:, i8 \d)*)", text) == [
        "i8 0",
        "i8 1",
        "i8 2",
        "i8 3, i8 0, i8 2",
    ]
    assert configurations(text) == 1


@pytest.mark.quick
def test_targets_without_them_refuse_tiles() -> None:
    with pytest.raises(ValueError, match="main has tiles, and the target has no registers for them"):
        emitted(product(16, "a"), tiles=())
    with pytest.raises(ValueError, match="the target multiplies no tiles of bf16"):
        emitted(product(16, "a"), tiles=("i8",))


@pytest.mark.quick
@pytest.mark.parametrize(
    ("type_", "message"),
    [
        ("17x16xf32", "shape 17x16 is not one of 1 to 16 rows"),
        ("16x17xf32", "have 68 bytes, no multiple of 4 up to 64"),
        ("16x16xf64", "f64 is no element of tiles"),
    ],
)
def test_tiles_that_there_are_not(type_: str, message: str) -> None:
    with pytest.raises(VerifyException, match=message):
        parse(f"func.func private @f(!amx.tile<{type_}>)")


# On this processor

RESTS, BLOCKS, FEW_COLUMNS, EIGHT = (33, 17, 257), (64, 300, 64), (97, 10, 130), (32, 32, 64)
"""Parts of tiles along all loops; blocks of columns; a part of a tile of columns; the fewest tiles of bf16 that pay."""


def takes_tiles(shape: tuple[int, int, int], step: int) -> bool:
    """Whether there are rows and terms enough: a tile of each, and eight products of tiles."""
    m, n, k = shape
    return m >= 16 and k >= step and -(-m // 16) * -(-n // 16) * -(-k // step) >= 8


def compiled(function: Callable[..., Any], *operands: NDArray[Any]) -> tuple[str, Any]:
    """The loops, and what they give."""
    lowered = tenon.jit(function).lower(*operands)
    return str(lowered), np.asarray(lowered.compile()(*operands))


@needs_tiles
@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        *((layout, RESTS) for layout in LAYOUTS),
        *(("A·B", shape) for shape in (BLOCKS, FEW_COLUMNS, EIGHT, (32, 16, 64), (15, 64, 64), (64, 64, 31))),
        ("Aᵀ·Bᵀ", BLOCKS),
    ],
    ids=str,
)
def test_bf16(layout: str, shape: tuple[int, int, int]) -> None:
    sizes = dict(zip("mnk", shape, strict=True))
    x, y = (normal(*(sizes[loop] for loop in indices)) for indices in LAYOUTS[layout])
    flips = [indices in ("km", "nk") for indices in LAYOUTS[layout]]

    def program(x: Any, y: Any) -> Any:
        return (x.T if flips[0] else x) @ (y.T if flips[1] else y)

    loops, found = compiled(program, x, y)
    assert ("amx.tile_mulf" in loops) == takes_tiles(shape, 32)
    x, y = (a.T if flip else a for a, flip in zip((x, y), flips, strict=True))
    assert_near(found, x, y, x.astype(float) @ y.astype(float))


@needs_tiles
@pytest.mark.parametrize(
    ("first", "second", "shape"),
    [
        *((first, second, RESTS) for first in (np.int8, np.uint8) for second in (np.int8, np.uint8)),
        *((np.int8, np.int8, shape) for shape in (BLOCKS, FEW_COLUMNS, EIGHT)),
    ],
)
def test_i8(first: Any, second: Any, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    x, y = whole(first, m, k), whole(second, k, n)

    def program(x: Any, y: Any) -> Any:
        return tenon.matmul(tenon.cast(x, dtype="i32"), tenon.cast(y, dtype="i32"))

    loops, found = compiled(program, x, y)
    assert ("amx.tile_muli" in loops) == takes_tiles(shape, 64)
    np.testing.assert_array_equal(found, x.astype(np.int64) @ y.astype(np.int64))


@needs_tiles
def test_epilogues() -> None:
    x, y, bias = normal(70, 96), normal(96, 50), normal(50).astype(np.float32)

    def program(x: Any, y: Any, bias: Any) -> Any:
        return tenon.relu(tenon.cast(x, dtype="f32") @ tenon.cast(y, dtype="f32") + bias)

    loops, found = compiled(program, x, y, bias)
    assert "amx.tile_mulf" in loops
    assert loops.count("func.call") == 1
    exact = np.maximum(x.astype(float) @ y.astype(float) + bias.astype(float), 0)
    np.testing.assert_allclose(found, exact, rtol=2e-6, atol=2e-5)


@needs_tiles
def test_rows_and_batches_that_only_the_launch_counts() -> None:
    batches, rows = tenon.dim("b"), tenon.dim("n")
    types = [tenon.ShapeDtype((batches, *shape), BF16) for shape in ((rows, 96), (96, 50))]
    lowered = tenon.jit(lambda x, y: tenon.relu(x @ y)).lower(*types)
    assert "amx.tile_mulf" in str(lowered)
    program = lowered.compile()
    for count in (0, 1, 31, 64, 135):
        x, y = normal(2, count, 96), normal(2, 96, 50)
        for found, left, right in zip(program(x, y), x, y, strict=True):
            assert_near(found, left, right, np.maximum(left.astype(float) @ right.astype(float), 0))


@needs_tiles
def test_batches() -> None:
    x, y = normal(3, 70, 96), normal(3, 96, 50)
    loops, found = compiled(lambda x, y: x @ y, x, y)
    assert "amx.tile_mulf" in loops
    for batch in range(3):
        assert_near(found[batch], x[batch], y[batch], x[batch].astype(float) @ y[batch].astype(float))


@needs_tiles
def test_infinities_and_nans_stay_in_their_rows_and_columns() -> None:
    x, y = np.abs(normal(40, 70)) + BF16.type(1), np.abs(normal(70, 40)) + BF16.type(1)
    x[3, 69], x[7, 0], y[69, 39] = np.inf, np.nan, -np.inf
    found = np.asarray(tenon.jit(lambda x, y: x @ y)(x, y)).astype(float)
    exact = x.astype(float) @ y.astype(float)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(exact))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(exact))


@needs_tiles
def test_subnormals_are_zero_unless_the_knob_forbids_it() -> None:
    x, y = np.full((32, 64), 2.0**-130, BF16), np.full((64, 32), 2.0**8, BF16)
    assert not np.asarray(tenon.jit(lambda x, y: x @ y)(x, y)).astype(float).any()
    with tenon.knobs.override(bf16_dots=False):
        exact = np.asarray(tenon.jit(lambda x, y: x @ y)(x, y)).astype(float)
    np.testing.assert_array_equal(exact, 64 * 2.0**-122)


@needs_tiles
def test_bits_do_not_depend_on_threads() -> None:
    x, y = normal(333, 301), normal(301, 517)
    results: list[Any] = []
    for count in (1, 2, 5):
        with tenon.num_threads(count):
            results.append(np.asarray(tenon.jit(lambda x, y: x @ y)(x, y)).view(np.uint16))
    assert all(np.array_equal(result, results[0]) for result in results)


@needs_tiles
def test_children_may_use_them_too() -> None:
    x, y = normal(128, 64), normal(64, 128)
    function = tenon.jit(lambda x, y: x @ y)
    expected = np.asarray(function(x, y))
    child = os.fork()
    if child == 0:
        same = np.array_equal(np.asarray(function(x, y)), expected)
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0


# Who has them


@pytest.mark.quick
def test_a_machine_whose_system_refuses_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower, "may_use_tiles", lambda: False)
    assert machine().tiles == ()


@needs_tiles
def test_the_system_is_asked_where_there_is_what_tiles_are_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """The permission costs a process its small stacks for signals."""
    asked: list[bool] = []
    monkeypatch.setattr(lower, "may_use_tiles", lambda: not asked.append(True))
    for dtype, tiles in ((np.float32, ()), (np.int32, ()), (BF16, TILES), (np.int8, TILES), (np.uint8, TILES)):
        function, x = tenon.jit(lambda x: x @ x), np.ones((2, 2), dtype)
        assert lower.options("cpu", module=function.trace(x).module).machine.tiles == tiles
        function(x)
        assert bool(asked) == bool(tiles)
        asked.clear()


@needs_tiles
@pytest.mark.parametrize("feature", ["amx-tile", "amx-bf16", "amx-int8"])
def test_features_that_are_off_are_not_used(feature: str) -> None:
    with tenon.knobs.override(target_features=f"-{feature}"):
        left = {"amx-tile": (), "amx-bf16": ("i8",), "amx-int8": ("bf16",)}[feature]
        assert machine().tiles == left


@needs_tiles
def test_a_process_that_was_not_permitted_is_when_it_first_compiles() -> None:
    code = (
        "import numpy as np, ml_dtypes, tenon\n"
        "x = np.ones((64, 64), ml_dtypes.bfloat16)\n"
        "assert float(np.asarray(tenon.jit(lambda x: x @ x)(x))[0, 0]) == 64\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.quick
def test_object_code_for_other_programs_uses_none() -> None:
    from tenon.runtime.build import build

    x = normal(64, 64)
    module = tenon.jit(lambda x: x @ x).trace(x).module
    assert b"amx" not in build(module, "cpu")["main.loops.mlir"]


def test_machines_say_what_they_have() -> None:
    assert Machine.parse(MACHINE).tiles == ("bf16", "i8")
    assert Machine.parse(MACHINE).with_vectors(256).tiles == ()
    with pytest.raises(ValueError, match="schedule: tiles names f64, none of bf16, i8"):
        SchedulePass(machine="tiles=f64").apply(Context(), parse(CASE.text({})))
