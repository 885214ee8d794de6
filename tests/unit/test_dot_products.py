"""Products of bf16 and of i8 that lanes add up in groups, against NumPy in f64 and in i64."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_kernels import Array, interpret, parse, to_loops
from numpy.typing import NDArray

import tenon
from tenon.lowering.llvm.emit_llvm import emit_llvm
from tenon.runtime.cpu.compile import host_target, native_assembly
from tenon.runtime.lower import machine

BF16 = np.dtype(ml_dtypes.bfloat16)
LAYOUTS = {"A·B": ("mk", "kn"), "A·Bᵀ": ("mk", "nk"), "Aᵀ·B": ("km", "kn"), "Aᵀ·Bᵀ": ("km", "nk")}
SIZES = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 13, 16, 19])
EXTENSIONS = {"bf16": ("extf", "extf"), "ss": ("extsi", "extsi"), "us": ("extui", "extsi"), "su": ("extsi", "extui")}
EXTENSIONS["uu"] = ("extui", "extui")


@dataclass(frozen=True)
class Contraction:
    """`o[b, m, n] = start + sum over k of x * y` of narrow numbers; `kind` says which, and how they are extended."""

    kind: str
    sizes: dict[str, int]
    operands: tuple[str, str]
    filled: bool

    def arrays(self) -> tuple[Array, Array, Array]:
        """The operands, and what the output holds before: whole numbers that f32 adds up exactly."""
        random = np.random.default_rng(sum(self.sizes.values()))
        shapes = [tuple(self.sizes[loop] for loop in indices) for indices in (*self.operands, "bmn")]
        narrow, wide = (BF16, np.float32) if self.kind == "bf16" else (np.int8, np.int32)
        x, y, o = (random.integers(-128, 128, shape) for shape in shapes)
        return x.astype(narrow), y.astype(narrow), o.astype(wide)

    def expected(self) -> Array:
        """The output, by `numpy.einsum`."""
        *narrow, before = self.arrays()
        x, y = (
            (a.view(np.uint8) if op == "extui" else a).astype(np.int64)
            for a, op in zip(narrow, EXTENSIONS[self.kind], strict=True)
        )
        total = np.einsum(f"{self.operands[0]},{self.operands[1]}->bmn", x, y)
        return (total + (1 if self.filled else before)).astype(before.dtype)

    def text(self, schedule: dict[str, int]) -> str:
        """A module with the kernel `@k(x, y, o)`; its loops are b, m, n and k."""
        dims = {loop: f"d{number}" for number, loop in enumerate("bmnk")}
        maps = ", ".join(
            f"affine_map<(d0, d1, d2, d3) -> ({', '.join(dims[loop] for loop in indices)})>"
            for indices in (*self.operands, "bmn")
        )
        narrow, wide, one, letter = ("bf16", "f32", "1.0", "f") if self.kind == "bf16" else ("i8", "i32", "1", "i")
        x, y, o = (
            f"memref<{''.join(f'{self.sizes[loop]}x' for loop in indices)}{element}>"
            for indices, element in zip((*self.operands, "bmn"), (narrow, narrow, wide), strict=True)
        )
        entries = ", ".join(f"{key} = {number} : i64" for key, number in schedule.items())
        first, second = EXTENSIONS[self.kind]
        return f"""
func.func private @k(%x: {x}, %y: {y}, %o: {o}) attributes {{kernel}} {{
  %one = arith.constant {one} : {wide}
  {f"linalg.fill ins(%one : {wide}) outs(%o : {o})" if self.filled else ""}
  linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}}
      ins(%x, %y : {x}, {y}) outs(%o : {o}) {f"attrs = {{schedule = {{{entries}}}}}" if entries else ""} {{
  ^bb0(%a: {narrow}, %c: {narrow}, %acc: {wide}):
    %d = arith.{first} %a : {narrow} to {wide}
    %e = arith.{second} %c : {narrow} to {wide}
    %p = arith.mul{letter} %d, %e : {wide}
    %r = arith.add{letter} %acc, %p : {wide}
    linalg.yield %r : {wide}
  }}
  func.return
}}"""


@st.composite
def contractions(draw: st.DrawFn) -> Contraction:
    sizes = {"b": draw(st.sampled_from([1, 1, 2])), **{loop: draw(SIZES) for loop in "mnk"}}
    x, y = LAYOUTS[draw(st.sampled_from(list(LAYOUTS)))]
    batched = draw(st.sampled_from([("b", "b"), ("b", ""), ("", "b")]))
    kind = draw(st.sampled_from(list(EXTENSIONS)))
    return Contraction(kind, sizes, (batched[0] + x, batched[1] + y), draw(st.booleans()))


@st.composite
def schedules(draw: st.DrawFn, case: Contraction) -> dict[str, int]:
    """A register tile whose lanes take groups, the copies that it needs, and any blocks around it."""
    count, depth = draw(st.integers(1, 4)), 2 if case.kind == "bf16" else 4
    schedule = {"vector": 2, "width": draw(st.sampled_from([2, 4, 8])), "unroll": draw(st.integers(1, 3))}
    schedule |= {"jam": 1, "jam_count": count, "pack": 1, "dot": 3, "depth": depth}
    if case.kind in ("ss", "uu") or not case.operands[0].endswith("k") or draw(st.booleans()):
        schedule["pack_jam"] = 0
    if draw(st.booleans()):
        schedule["jam_block"] = draw(st.integers(1, 3)) * count
    if draw(st.booleans()):
        schedule["block"] = draw(st.integers(1, 3)) * depth
    return schedule


@settings(max_examples=60)
@given(data=st.data(), case=contractions())
def test_every_schedule(data: st.DataObject, case: Contraction) -> None:
    x, y, o = case.arrays()
    text = case.text(data.draw(schedules(case)))
    (result,) = interpret(to_loops(parse(text), None), "k", [x, y], [o])
    np.testing.assert_array_equal(result, case.expected())


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("bf16", {"depth": 4}, "groups of bf16 have 2 elements"),
        ("bf16", {"dot": 1}, "loop 1 is no reduction"),
        ("bf16", {"block": 3}, "block is 3, no multiple of depth 2"),
        ("ss", {"depth": 4}, "the groups of input 0 are not in memory as they are taken"),
        ("us", {"depth": 4, "pack": 0, "pack_jam": 1}, "cannot be packed"),
    ],
)
def test_schedules_that_cannot_be_obeyed(kind: str, changes: dict[str, int], message: str) -> None:
    case = Contraction(kind, {"b": 1, "m": 3, "n": 8, "k": 9}, ("bmk", "bkn"), filled=True)
    schedule = {"vector": 2, "width": 4, "unroll": 1, "jam": 1, "jam_count": 3, "pack": 1, "dot": 3, "depth": 2}
    with pytest.raises(ValueError, match=message):
        to_loops(parse(case.text(schedule | changes)), None)


# Compiled for this processor


def normal(*shape: int) -> NDArray[Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(BF16)


def whole(dtype: Any, *shape: int) -> NDArray[Any]:
    limits = np.iinfo(dtype)
    return np.random.default_rng(sum(shape)).integers(limits.min, limits.max + 1, shape).astype(dtype)


def assert_near(result: Any, x: Array, y: Array, exact: Array) -> None:
    """bf16 results within their rounding, and what f32 sums of `x` and `y`'s products may be off."""
    error = np.abs(np.asarray(result).astype(float) - exact)
    bound = np.abs(exact) * 2.0**-8 + 2.0**-20 * np.abs(x.astype(float)) @ np.abs(y.astype(float))
    assert (error <= bound).all(), float((error - bound).max())


SHAPES = [(1, 7, 5), (8, 16, 1), (8, 16, 2), (13, 37, 29), (64, 64, 64), (97, 3, 101), (31, 130, 257), (7, 4099, 3)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_bf16(shape: tuple[int, int, int], layout: str) -> None:
    sizes = dict(zip("mnk", shape, strict=True))
    x, y = (normal(*(sizes[loop] for loop in indices)) for indices in LAYOUTS[layout])
    flips = [indices in ("km", "nk") for indices in LAYOUTS[layout]]
    found = tenon.jit(lambda x, y: (x.T if flips[0] else x) @ (y.T if flips[1] else y))(x, y)
    x, y = (a.T if flip else a for a, flip in zip((x, y), flips, strict=True))
    assert found.dtype == BF16
    assert_near(found, x, y, x.astype(float) @ y.astype(float))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("first", "second"), [(f, s) for f in (np.int8, np.uint8) for s in (np.int8, np.uint8)])
def test_i8(shape: tuple[int, int, int], first: Any, second: Any) -> None:
    m, n, k = shape
    x, y = whole(first, m, k), whole(second, k, n)

    def product(x: Any, y: Any) -> Any:
        return tenon.matmul(tenon.cast(x, dtype="i32"), tenon.cast(y, dtype="i32"))

    found = tenon.jit(product)(x, y)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, x.astype(np.int64) @ y.astype(np.int64))


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[NDArray[Any], ...]]] = {
    "batched": (lambda x, y: x @ y, np.matmul, (normal(3, 17, 23), normal(3, 23, 40))),
    "einsum": (
        lambda x, y: tenon.einsum("bik,kjb->ijb", x, y),
        lambda x, y: np.einsum("bik,kjb->ijb", x, y),
        (normal(3, 17, 23), normal(23, 40, 3)),
    ),
    "in f32": (
        lambda x, y: tenon.maximum(tenon.cast(x, dtype="f32") @ tenon.cast(y, dtype="f32") + 0.5, 0.0),
        lambda x, y: np.maximum(x @ y + 0.5, 0.0),
        (normal(33, 41), normal(41, 48)),
    ),
    "gradient": (
        lambda x, y: tenon.grad(lambda x: tenon.sum(tenon.cast(x @ y, dtype="f32")))(x),
        lambda x, y: np.ones((33, 48)) @ y.T,
        (normal(33, 41), normal(41, 48)),
    ),
    "conv2d": (
        lambda x, w: tenon.conv2d(x, w),
        lambda x, w: np.einsum("nchwij,ocij->nohw", np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3)), w),
        (normal(2, 5, 11, 21), normal(9, 5, 3, 3)),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    function, exact, operands = PROGRAMS[name]
    found = np.asarray(tenon.jit(function)(*operands)).astype(float)
    expected = exact(*(operand.astype(float) for operand in operands))
    np.testing.assert_allclose(found, expected, rtol=2.0**-7, atol=2.0**-6)


def test_scaled_product_of_i8_with_an_epilogue() -> None:
    x, y = whole(np.int8, 37, 130), whole(np.int8, 130, 65)

    def program(x: Any, y: Any) -> Any:
        total = tenon.matmul(tenon.cast(x, dtype="i32"), tenon.cast(y, dtype="i32"))
        return tenon.cast(total, dtype="f32") * 0.25

    if "i8" in host_target().dots:
        lowered = str(tenon.jit(program).lower(x, y))
        assert lowered.count("func.call") == 1
        assert "vector.contract" in lowered or "amx.tile_muli" in lowered
    found = tenon.jit(program)(x, y)
    np.testing.assert_array_equal(found, (x.astype(np.int64) @ y.astype(np.int64)).astype(np.float32) * 0.25)


def test_bytes_that_are_made_before_are_multiplied_in_groups() -> None:
    x, y = normal(256, 130).astype(np.float32), whole(np.int8, 65, 130)

    def program(x: Any, y: Any) -> Any:
        made = tenon.cast(tenon.clip(tenon.round(x * 30.0), low=-128, high=127), dtype="i8")
        return tenon.matmul(tenon.cast(made, dtype="i32"), tenon.cast(y, dtype="i32").T)

    if "i8" in host_target().dots:
        lowered = str(tenon.jit(program).lower(x, y))
        assert "vector.contract" in lowered or "amx.tile_muli" in lowered
    made = np.clip(np.rint(x * np.float32(30)), -128, 127).astype(np.int64)
    np.testing.assert_array_equal(tenon.jit(program)(x, y), made @ y.T.astype(np.int64))


@pytest.mark.parametrize("dtype", [BF16, np.dtype(np.int8)], ids=str)
def test_bits_do_not_depend_on_threads(dtype: Any) -> None:
    wide = "f32" if dtype == BF16 else "i32"
    x, y = ((normal if dtype == BF16 else lambda *s: whole(np.int8, *s))(*shape) for shape in ((203, 301), (301, 517)))
    function = tenon.jit(lambda x, y: tenon.cast(x, dtype=wide) @ tenon.cast(y, dtype=wide))
    results: list[Any] = []
    before = tenon.get_num_threads()
    for count in (1, 2, 5):
        tenon.set_num_threads(count)
        results.append(np.asarray(function(x, y)))
    tenon.set_num_threads(before)
    assert all(np.array_equal(result, results[0]) for result in results)


NO_TILES = "-amx-bf16,-amx-int8,-amx-tile" if "+amx-tile" in host_target().features else None


def assembly(x: Any, y: Any, wide: str) -> str:
    function = tenon.jit(lambda x, y: tenon.cast(x, dtype=wide) @ tenon.cast(y, dtype=wide))
    target = host_target()
    module, known = function.lower(x, y).module, machine()
    source = emit_llvm(module, native_f16=target.native_f16, dots=known.dots, tiles=known.tiles)
    return native_assembly(source, target)


@pytest.fixture
def without_tiles() -> Iterator[None]:
    """Processors that have tiles for them have slow dot products of bf16, which are not used otherwise."""
    with tenon.knobs.override(target_features=NO_TILES):
        if host_target().dots != ("bf16", "i8"):
            pytest.skip("this processor has no dot products")
        yield


def test_slow_dot_products_are_not_used() -> None:
    if "+amx-bf16" not in host_target().features:
        pytest.skip("this processor has no tiles")
    assert "bf16" not in host_target().dots
    assert "vdpbf16ps" not in assembly(normal(16, 32), normal(32, 64), "f32")


@pytest.mark.usefixtures("without_tiles")
class TestInstructions:
    def test_are_used(self) -> None:
        assert "vdpbf16ps" in assembly(normal(16, 32), normal(32, 64), "f32")
        assert "vpdpbusd" in assembly(whole(np.int8, 16, 32), whole(np.int8, 32, 64), "i32")

    def test_are_measured_as_the_processor_names_them(self) -> None:
        with tenon.knobs.override(target_cpu="znver4"):
            assert host_target().dots == ("bf16", "i8")
        with tenon.knobs.override(target_cpu="skylake-avx512"):
            assert host_target().dots == ()
        with tenon.knobs.override(target_cpu="icelake-server"):
            assert host_target().dots == ("i8",)
        with tenon.knobs.override(target_features="-avx512f"):
            assert host_target().dots == ()

    def test_of_bf16_take_subnormals_for_zero_unless_the_knob_forbids_them(self) -> None:
        tiny = np.full((16, 32), 2.0**-130).astype(BF16)
        ones = np.ones((32, 64), BF16)
        wide = tenon.jit(lambda x, y: tenon.cast(x, dtype="f32") @ tenon.cast(y, dtype="f32"))
        assert not np.asarray(wide(tiny, ones)).any()
        with tenon.knobs.override(bf16_dots=False):
            np.testing.assert_array_equal(wide(tiny, ones), np.full((16, 64), 2.0**-125, np.float32))
            assert "vdpbf16ps" not in assembly(normal(16, 32), normal(32, 64), "f32")

    @pytest.mark.parametrize("bits", [128, 256])
    def test_of_narrower_vectors(self, bits: int) -> None:
        x, y, small = normal(19, 33), normal(33, 45), whole(np.int8, 33, 45)
        with tenon.knobs.override(vector_bits=bits):
            test_bf16((19, 45, 33), "A·B")
            test_i8((19, 45, 33), np.int8, np.int8)
            assert "vdpbf16ps" in assembly(x, y, "f32")
            assert "vpdpbusd" in assembly(small.T.copy(), small, "i32")


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="runs x86 code")
def test_a_processor_without_them_runs_the_loops() -> None:
    """Also loops that were written for groups."""
    with tenon.knobs.override(target_cpu="haswell"):
        assert host_target().dots == ()
        test_bf16((19, 45, 33), "A·Bᵀ")
        test_i8((19, 45, 33), np.int8, np.uint8)
    for wide, operands in (
        ("f32", (normal(19, 33), normal(33, 45))),
        ("i32", (whole(np.int8, 19, 33), whole(np.int8, 33, 45))),
    ):
        function = tenon.jit(lambda x, y, wide=wide: tenon.cast(x, dtype=wide) @ tenon.cast(y, dtype=wide))
        with tenon.knobs.override(target_features=NO_TILES):
            module = function.lower(*operands)
        assert emit_llvm(module.module).count("x86.avx512") == 0
