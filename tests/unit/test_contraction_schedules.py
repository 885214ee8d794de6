"""Sums of products under every kind of schedule, against NumPy."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_kernels import Array, interpret, parse, to_loops

import tenon
from tenon import Value

LAYOUTS = {"A·B": ("mk", "kn"), "A·Bᵀ": ("mk", "nk"), "Aᵀ·B": ("km", "kn"), "Aᵀ·Bᵀ": ("km", "nk")}
SIZES = st.sampled_from([0, 1, 2, 3, 5, 7, 8, 13, 16, 19])


@dataclass(frozen=True)
class Contraction:
    """`o[b, m, n] = start + sum over k of x * y`, with the indices of all three in any order; whole numbers."""

    sizes: dict[str, int]
    operands: tuple[str, str]
    filled: bool
    result: str = "bmn"

    def arrays(self) -> tuple[Array, Array, Array]:
        """The operands, and what the output holds before."""
        random = np.random.default_rng(sum(self.sizes.values()))
        shapes = [tuple(self.sizes[loop] for loop in indices) for indices in (*self.operands, self.result)]
        x, y, o = (random.integers(-3, 4, shape).astype(np.float32) for shape in shapes)
        return x, y, o

    def expected(self) -> Array:
        """The output, by `numpy.einsum`."""
        x, y, before = self.arrays()
        total = np.einsum(f"{self.operands[0]},{self.operands[1]}->{self.result}", x, y)
        return total + (np.float32(1) if self.filled else before)

    def text(self, schedule: dict[str, int] | None) -> str:
        """A module with the kernel `@k(x, y, o)`; its loops are b, m, n and k."""
        dims = {loop: f"d{number}" for number, loop in enumerate("bmnk")}
        maps = ", ".join(
            f"affine_map<(d0, d1, d2, d3) -> ({', '.join(dims[loop] for loop in indices)})>"
            for indices in (*self.operands, self.result)
        )
        x, y, o = (
            f"memref<{''.join(f'{self.sizes[loop]}x' for loop in indices)}f32>"
            for indices in (*self.operands, self.result)
        )
        entries = ", ".join(f"{key} = {number} : i64" for key, number in (schedule or {}).items())
        return f"""
func.func private @k(%x: {x}, %y: {y}, %o: {o}) attributes {{kernel}} {{
  %one = arith.constant 1.0 : f32
  {f"linalg.fill ins(%one : f32) outs(%o : {o})" if self.filled else ""}
  linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}}
      ins(%x, %y : {x}, {y}) outs(%o : {o}) {f"attrs = {{schedule = {{{entries}}}}}" if entries else ""} {{
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %p = arith.mulf %a, %c : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }}
  func.return
}}"""

    def check(self, schedule: dict[str, int] | None, vector_bits: int | None) -> None:
        """Lower as `schedule` says, or as the pass decides, and compare."""
        x, y, o = self.arrays()
        (result,) = interpret(to_loops(parse(self.text(schedule)), vector_bits), "k", [x, y], [o])
        np.testing.assert_array_equal(result, self.expected())


@st.composite
def contractions(draw: st.DrawFn) -> Contraction:
    sizes = {"b": draw(st.sampled_from([1, 1, 2])), **{loop: draw(SIZES) for loop in "mnk"}}
    x, y = LAYOUTS[draw(st.sampled_from(list(LAYOUTS)))]
    batched = draw(st.sampled_from([("b", "b"), ("b", ""), ("", "b")]))
    result = draw(st.sampled_from(["bmn", "bmn", "bnm"]))
    return Contraction(sizes, (batched[0] + x, batched[1] + y), draw(st.booleans()), result)


@st.composite
def schedules(draw: st.DrawFn) -> dict[str, int]:
    """A register tile with lanes along n and rows along m, and any blocks and panels around it."""
    count = draw(st.integers(1, 4))
    schedule = {"vector": 2, "width": draw(st.sampled_from([2, 4, 8])), "unroll": draw(st.integers(1, 3))}
    schedule |= {"jam": 1, "jam_count": count}
    for key, numbers in {
        "pack": st.just(1),
        "pack_jam": st.just(0),
        "jam_block": st.integers(1, 3).map(lambda tiles: tiles * count),
        "block": st.integers(1, 9),
        "fetch_jam": st.just(0),
        "rest": st.just(3),
    }.items():
        if draw(st.booleans()):
            schedule[key] = draw(numbers)
    return schedule


@st.composite
def row_schedules(draw: st.DrawFn) -> dict[str, int]:
    """A register tile with lanes along n in blocks of rows, and hints that may point behind the operand."""
    schedule = {"vector": 2, "width": draw(st.sampled_from([2, 4, 8])), "unroll": draw(st.integers(1, 3))}
    if draw(st.booleans()):
        schedule |= {"jam": 1, "jam_count": draw(st.integers(1, 4))}
    schedule |= {"rows": draw(st.integers(1, 9))}
    for key in ("strip", "split", "ahead"):
        if draw(st.booleans()):
            schedule[key] = draw(st.integers(1, 20))
    return schedule


class TestNumbers:
    @settings(max_examples=40)
    @given(case=contractions(), schedule=row_schedules())
    def test_blocks_of_rows(self, case: Contraction, schedule: dict[str, int]) -> None:
        if case.operands[1].endswith("k") or 0 in (case.sizes["n"], case.sizes["k"]):
            return  # lanes along n need contiguous columns, and blocks need iterations
        if case.result.endswith("m"):
            schedule |= {"jam": 1, "jam_count": 3}  # tiles are transposed, of rows along m
        case.check(schedule, None)

    @settings(max_examples=60)
    @given(case=contractions(), schedule=schedules())
    def test_blocks_and_panels(self, case: Contraction, schedule: dict[str, int]) -> None:
        if case.operands[1].endswith("k"):
            schedule["pack"] = 1  # lanes along n are contiguous in a panel only
        if not case.operands[0].endswith("mk"):
            schedule.pop("fetch_jam", None)  # rows of a tile do not lie behind each other
            schedule.pop("rest", None)  # nor are their elements neighbours
        if "pack" not in schedule or "pack_jam" in schedule:
            schedule.pop("rest", None)
        case.check(schedule, None)

    @settings(max_examples=30)
    @given(case=contractions(), vector_bits=st.sampled_from([128, 256, 512]))
    def test_what_the_pass_decides(self, case: Contraction, vector_bits: int) -> None:
        case.check(None, vector_bits)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.int8])
@pytest.mark.parametrize("subscripts", ["bki,bkj->bij", "bik,bkj->bji"])
def test_results_that_lie_across(subscripts: str, dtype: type) -> None:
    """Few neighbours in the result, and many columns to have lanes along: whole tiles and what is left of them."""
    sizes = {"b": 2, "k": 40, "i": 70, "j": 11} if subscripts.endswith("ij") else {"b": 2, "k": 40, "i": 11, "j": 70}
    random = np.random.default_rng(0)
    operands = subscripts.partition("->")[0].split(",")
    x, y = (random.integers(-2, 3, [sizes[loop] for loop in indices]).astype(dtype) for indices in operands)
    compiled = tenon.jit(lambda x, y: tenon.einsum(subscripts, x, y))
    expected = np.einsum(subscripts, x.astype(np.float64), y.astype(np.float64)).astype(dtype)
    np.testing.assert_array_equal(np.asarray(compiled(x, y)), expected)


TWO_PRODUCTS = """
func.func private @k(%x: memref<3x7x4xf32>, %y: memref<3x4x5xf32>, %z: memref<3x7x2xf32>, %o: memref<3x5x2xf32>)
    attributes {kernel, strips = array<i64: STRIPS>} {
  %zero = arith.constant 0.0 : f32
  %s = memref.alloc() : memref<3x7x5xf32>
  linalg.fill ins(%zero : f32) outs(%s : memref<3x7x5xf32>)
  linalg.generic {indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (b, k, n)>,
      affine_map<(b, m, n, k) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %y : memref<3x7x4xf32>, memref<3x4x5xf32>) outs(%s : memref<3x7x5xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %p = arith.mulf %a, %c : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  linalg.fill ins(%zero : f32) outs(%o : memref<3x5x2xf32>)
  linalg.generic {indexing_maps = [affine_map<(b, n, d, m) -> (b, m, n)>, affine_map<(b, n, d, m) -> (b, m, d)>,
      affine_map<(b, n, d, m) -> (b, n, d)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%s, %z : memref<3x7x5xf32>, memref<3x7x2xf32>) outs(%o : memref<3x5x2xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %p = arith.mulf %a, %c : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}"""


@pytest.mark.parametrize("strips", ["1, 1, 1", "3, 5, 7", "2, 5, 7", "1, 2, 3", "2, 3, 4"])
def test_strips_of_any_length(strips: str) -> None:
    """Over batches, columns, and rows that the second product adds up: what they leave over has a nest of its own."""
    random = np.random.default_rng(0)
    x, y, z = (random.integers(-3, 4, shape).astype(np.float32) for shape in ((3, 7, 4), (3, 4, 5), (3, 7, 2)))
    module = to_loops(parse(TWO_PRODUCTS.replace("STRIPS", strips)), None)
    (found,) = interpret(module, "k", [x, y, z], [np.full((3, 5, 2), np.nan, np.float32)])
    np.testing.assert_array_equal(found, np.swapaxes(x @ y, 1, 2) @ z)


class TestStreamedOperands:
    """Products of few rows, whose other operand is read a few rows at a time."""

    @pytest.mark.parametrize(
        ("m", "k", "n", "dtype"),
        [
            (1, 1031, 1100, np.float32),
            (1, 9001, 257, np.float64),
            (3, 1500, 1031, np.float32),
            (7, 4001, 300, np.float64),
            (13, 2100, 1001, np.float32),
            (37, 300, 3001, np.float32),
        ],
    )
    def test_against_numpy(self, m: int, k: int, n: int, dtype: type[np.floating]) -> None:
        random = np.random.default_rng(m)
        x, y = random.standard_normal((m, k)).astype(dtype), random.standard_normal((k, n)).astype(dtype)
        found = np.asarray(tenon.jit(lambda x, y: x @ y)(x, y))
        exact = x.astype(np.float64) @ y.astype(np.float64)
        assert np.abs(found - exact).max() < 50 * np.finfo(dtype).eps * np.abs(exact).max()

    @pytest.mark.parametrize(
        ("k", "m", "n"), [(9001, 33, 10), (5003, 7, 130), (8192, 200, 17), (100001, 3, 3), (2048, 260, 270)]
    )
    def test_tall_operands(self, k: int, m: int, n: int) -> None:
        """Sums over the rows of both operands."""
        random = np.random.default_rng(m)
        x, y = random.integers(-3, 4, (k, m)).astype(np.float32), random.integers(-3, 4, (k, n)).astype(np.float32)
        np.testing.assert_array_equal(np.asarray(tenon.jit(lambda x, y: x.T @ y)(x, y)), x.T @ y)

    @pytest.mark.parametrize(("m", "k", "n"), [(2, 1031, 101), (3, 640, 37), (5, 4099, 3), (7, 300, 129)])
    def test_transposed_operand_read_once(self, m: int, k: int, n: int) -> None:
        random = np.random.default_rng(m)
        x, y = random.integers(-3, 4, (m, k)).astype(np.float32), random.integers(-3, 4, (n, k)).astype(np.float32)
        np.testing.assert_array_equal(np.asarray(tenon.jit(lambda x, y: x @ y.T)(x, y)), x @ y.T)

    @pytest.mark.parametrize(("m", "k", "n"), [(600, 2, 521), (523, 17, 700), (1031, 5, 263)])
    def test_result_larger_than_operands(self, m: int, k: int, n: int) -> None:
        random = np.random.default_rng(m)
        x, y = random.integers(-3, 4, (m, k)).astype(np.float32), random.integers(-3, 4, (k, n)).astype(np.float32)
        np.testing.assert_array_equal(np.asarray(tenon.jit(lambda x, y: x @ y)(x, y)), x @ y)

    def test_rows_with_a_reduction_of_their_own(self) -> None:
        """65 columns leave one that fills no vector, and what lies side by side in a row is no reduction of it."""
        random = np.random.default_rng(0)
        x, y = (random.integers(-3, 4, shape).astype(np.float32) for shape in ((256, 64, 40), (64, 65)))
        found = tenon.jit(lambda x, y: (x[:, :, :, None] * y[None, :, None, :]).sum((1, 2)))(x, y)
        np.testing.assert_array_equal(np.asarray(found), x.sum(2) @ y)

    def test_with_batches_that_share_an_operand(self) -> None:
        random = np.random.default_rng(0)
        x, y = random.standard_normal((3, 2, 1201)), random.standard_normal((1201, 333))
        np.testing.assert_allclose(np.asarray(tenon.jit(lambda x, y: x @ y)(x, y)), x @ y, atol=1e-10)


TILE = {"vector": 2, "width": 4, "jam": 1, "jam_count": 2}


class TestErrors:
    @pytest.mark.parametrize(
        ("schedule", "message"),
        [
            ({"vector": 3, "width": 4, "block": 2}, "blocks need lanes along a parallel loop, a reduction, and no seq"),
            ({"jam": 1, "jam_count": 2, "pack": 1}, "pack needs a vector loop"),
            ({"vector": 2, "width": 4, "pack_jam": 0}, "pack_jam and jam_block need a jam loop"),
            ({**TILE, "jam_block": 3}, "jam_block is 3, no multiple of jam_count 2"),
            ({**TILE, "block": 0}, "block is 0, not at least 1"),
            ({**TILE, "taps": 1}, "taps is loop 1, which is no reduction loop beside the vectors"),
            ({**TILE, "taps": 3, "block": 2}, "taps goes with lanes along a parallel loop, and not with blocks"),
            ({**TILE, "pack": 2}, "input 2 cannot be packed, the op has 2 inputs"),
            ({**TILE, "split": 4}, "rows, strip and split need a vector loop"),
            ({**TILE, "rows": 4, "split": 0}, "split is 0, not at least 1"),
            ({**TILE, "rows": 4, "pack": 1}, "rows and strip do not go with panels and blocks"),
            ({**TILE, "ahead": 0}, "ahead is 0; it needs lanes along a loop that is not reduced, and at least 1"),
            ({"vector": 3, "width": 4, "ahead": 2}, "ahead is 2; it needs lanes along a loop that is not reduced"),
            ({**TILE, "fetch_jam": 2}, "fetch_jam is 2, but the op has 2 inputs"),
            ({**TILE, "fetch_jam": 1}, "fetch_jam is 1, but no other loop may go along its rows than the jammed one"),
            (
                {"vector": 2, "width": 4, "jam": 0, "jam_count": 2, "fetch_jam": 0},
                "fetch_jam is 0, but its rows are not what the reduction goes along",
            ),
            ({**TILE, "pack": 0}, "input 0 cannot be packed along loop 2: others could not share a panel"),
        ],
    )
    def test_illegal_blocks(self, schedule: dict[str, int], message: str) -> None:
        case = Contraction({"b": 2, "m": 4, "n": 8, "k": 8}, ("bmk", "bkn"), filled=True)
        with pytest.raises(ValueError, match=f"kernel @k: schedule: {message}"):
            case.check(schedule, None)

    def test_rows_that_follow_each_other_are_not_fetched(self) -> None:
        text = """
func.func private @k(%x: memref<4x8xf32>, %o: memref<4x8xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : memref<4x8xf32>) outs(%o : memref<4x8xf32>)
      attrs = {schedule = {vector = 1 : i64, width = 4 : i64, ahead = 2 : i64}} {
  ^bb0(%a: f32, %acc: f32):
    linalg.yield %a : f32
  }
  func.return
}"""
        with pytest.raises(ValueError, match="ahead needs a reduction loop, or inputs that are read in pieces"):
            to_loops(parse(text), None)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
@pytest.mark.parametrize("sizes", [(33, 64, 17), (211, 300, 130)])
def test_widened_operands(sizes: tuple[int, int, int], dtype: str) -> None:
    """Of any order of axes; whole numbers, whose products and sums are exact."""
    m, k, n = sizes
    random = np.random.default_rng(0)
    x, y = (
        random.integers(-2, 3, shape).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        for shape in ((m, k), (k, n))
    )
    exact = x.astype(np.float64) @ y.astype(np.float64)

    def product(x: Value, y: Value) -> Value:
        return tenon.cast(x, dtype="f32") @ tenon.cast(y, dtype="f32")

    with tenon.knobs.override(bf16_dots=False):
        np.testing.assert_array_equal(tenon.jit(product)(x, y), exact)
        np.testing.assert_array_equal(tenon.jit(lambda x, y: product(x.T, y))(x.T.copy(), y), exact)
        np.testing.assert_array_equal(tenon.jit(lambda x, y: product(x, y.T))(x, y.T.copy()), exact)
        if dtype != "int8" and np.abs(exact).max() <= 256:
            np.testing.assert_array_equal(np.asarray(tenon.jit(lambda x, y: x @ y)(x, y), np.float64), exact)
