"""Structured kernels as loops: any legal schedule gives NumPy's numbers, and the default ones are those that pay."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from launching import launch
from loop_kernels import (
    RandomGeneric,
    RandomGroup,
    interpret,
    parse,
    random_generics,
    random_groups,
    to_loops,
    write_schedules,
)
from xdsl.context import Context
from xdsl.dialects import math, memref, scf, vector
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tenon.lowering.kernels.obstacles import parts_obstacle, vector_obstacle
from tenon.lowering.kernels.statement import LoopKind, kernels_of, read_kernel

VECTOR_BITS = st.sampled_from([0, 128, 256, 512])


def generic(maps: str, kinds: str, operands: str, body: str, schedule: str = "") -> str:
    """A `linalg.generic`: maps as `(d0) -> (d0); ...`, kinds as `pr`, the body without its yield."""
    indexing = ", ".join(f"affine_map<{m.strip()}>" for m in maps.split(";"))
    iterators = ", ".join({"p": '"parallel"', "r": '"reduction"'}[kind] for kind in kinds)
    attributes = f" attrs = {{schedule = {{{schedule}}}}}" if schedule else ""
    return f"""linalg.generic {{indexing_maps = [{indexing}], iterator_types = [{iterators}]}} {operands}{attributes} {{
    {body}
  }}"""


def kernel(name: str, arguments: str, *statements: str) -> str:
    """A kernel function."""
    body = "\n  ".join(statements)
    return f"func.func private @{name}({arguments}) attributes {{kernel}} {{\n  {body}\n  func.return\n}}\n"


ADD = "^bb0(%e0: f32, %acc: f32):\n %r = arith.addf %acc, %e0 : f32\n linalg.yield %r : f32"
MAX = ADD.replace("arith.addf", "arith.maximumf")
MULTIPLY_ADD = """^bb0(%e0: f32, %e1: f32, %acc: f32):
    %p = arith.mulf %e0, %e1 : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32"""
ZERO = "%zero = arith.constant 0.0 : f32"
LOW = "%low = arith.constant -1.0e30 : f32"


def softmax(name: str, shape: tuple[int, int], axis: int) -> str:
    rows, columns = shape
    kept = "(d0, 0)" if axis == 1 else "(0, d1)"
    small = f"memref<{rows}x1xf32>" if axis == 1 else f"memref<1x{columns}xf32>"
    full = f"memref<{rows}x{columns}xf32>"
    kinds = "pr" if axis == 1 else "rp"
    identity = "(d0, d1) -> (d0, d1)"

    def combining(body: str, op: str) -> str:
        return f"^bb0(%e0: f32, %e1: f32, %acc: f32):\n {body}\n linalg.yield %{op} : f32"

    reduce_maps, combine_maps = f"{identity}; (d0, d1) -> {kept}", f"{identity}; (d0, d1) -> {kept}; {identity}"
    return kernel(
        name,
        f"%x: {full}, %o: {full}",
        ZERO,
        LOW,
        f"%m = memref.alloc() : {small}",
        f"%e = memref.alloc() : {full}",
        f"%s = memref.alloc() : {small}",
        f"linalg.fill ins(%low : f32) outs(%m : {small})",
        generic(reduce_maps, kinds, f"ins(%x : {full}) outs(%m : {small})", MAX),
        generic(
            combine_maps,
            "pp",
            f"ins(%x, %m : {full}, {small}) outs(%e : {full})",
            combining("%d = arith.subf %e0, %e1 : f32\n %r = math.exp %d : f32", "r"),
        ),
        f"linalg.fill ins(%zero : f32) outs(%s : {small})",
        generic(reduce_maps, kinds, f"ins(%e : {full}) outs(%s : {small})", ADD),
        generic(
            combine_maps,
            "pp",
            f"ins(%e, %s : {full}, {small}) outs(%o : {full})",
            combining("%r = arith.divf %e0, %e1 : f32", "r"),
        ),
    )


def matmul(name: str, m: int, n: int, k: int, *, transposed: bool = False, schedule: str = "") -> str:
    b_type = f"memref<{n}x{k}xf32>" if transposed else f"memref<{k}x{n}xf32>"
    b_index = "(d1, d2)" if transposed else "(d2, d1)"
    return kernel(
        name,
        f"%a: memref<{m}x{k}xf32>, %b: {b_type}, %o: memref<{m}x{n}xf32>",
        ZERO,
        f"linalg.fill ins(%zero : f32) outs(%o : memref<{m}x{n}xf32>)",
        generic(
            f"(d0, d1, d2) -> (d0, d2); (d0, d1, d2) -> {b_index}; (d0, d1, d2) -> (d0, d1)",
            "ppr",
            f"ins(%a, %b : memref<{m}x{k}xf32>, {b_type}) outs(%o : memref<{m}x{n}xf32>)",
            MULTIPLY_ADD,
            schedule,
        ),
    )


LOOPS7 = "(d0, d1, d2, d3, d4, d5, d6)"
CONVOLUTION = kernel(
    "convolution",
    "%x: memref<2x3x9x12xf32>, %w: memref<4x3x3x3xf32>, %o: memref<2x4x7x10xf32>",
    ZERO,
    "linalg.fill ins(%zero : f32) outs(%o : memref<2x4x7x10xf32>)",
    generic(
        f"{LOOPS7} -> (d0, d4, d2 + d5, d3 + d6); {LOOPS7} -> (d1, d4, d5, d6); {LOOPS7} -> (d0, d1, d2, d3)",
        "pppprrr",
        "ins(%x, %w : memref<2x3x9x12xf32>, memref<4x3x3x3xf32>) outs(%o : memref<2x4x7x10xf32>)",
        MULTIPLY_ADD,
    ),
)
CONVOLUTION_GRADIENT = kernel(
    "convolution_gradient",
    "%g: memref<2x4x7x10xf32>, %w: memref<4x3x3x3xf32>, %o: memref<2x3x9x12xf32>",
    ZERO,
    "linalg.fill ins(%zero : f32) outs(%o : memref<2x3x9x12xf32>)",
    generic(
        f"{LOOPS7} -> (d0, d1, d2, d3); {LOOPS7} -> (d1, d4, d5, d6); {LOOPS7} -> (d0, d4, d2 + d5, d3 + d6)",
        "prrrprr",
        "ins(%g, %w : memref<2x4x7x10xf32>, memref<4x3x3x3xf32>) outs(%o : memref<2x3x9x12xf32>)",
        MULTIPLY_ADD,
    ),
)
ARGMAX = kernel(
    "argmax",
    "%x: memref<5x37xf32>, %v: memref<5xf32>, %i: memref<5xi64>",
    LOW,
    "%first = arith.constant 0 : i64",
    "linalg.fill ins(%low : f32) outs(%v : memref<5xf32>)",
    "linalg.fill ins(%first : i64) outs(%i : memref<5xi64>)",
    generic(
        "(d0, d1) -> (d0, d1); (d0, d1) -> (d0); (d0, d1) -> (d0)",
        "pr",
        "ins(%x : memref<5x37xf32>) outs(%v, %i : memref<5xf32>, memref<5xi64>)",
        """^bb0(%a: f32, %best: f32, %at: i64):
    %n = linalg.index 1 : index
    %here = arith.index_cast %n : index to i64
    %more = arith.cmpf ogt, %a, %best : f32
    %r = arith.select %more, %a, %best : f32
    %p = arith.select %more, %here, %at : i64
    linalg.yield %r, %p : f32, i64""",
    ),
)
EMBEDDING = kernel(
    "embedding",
    "%t: memref<7x20xf32>, %i: memref<6xi64>, %o: memref<6x20xf32>",
    generic(
        "(d0, d1) -> (d0); (d0, d1) -> (d0, d1)",
        "pp",
        "ins(%i : memref<6xi64>) outs(%o : memref<6x20xf32>)",
        """^bb0(%n: i64, %acc: f32):
    %row = arith.index_cast %n : i64 to index
    %column = linalg.index 1 : index
    %r = memref.load %t[%row, %column] : memref<7x20xf32>
    linalg.yield %r : f32""",
    ),
)
PAD = kernel(
    "pad",
    "%x: memref<10xf32>, %o: memref<16xf32>",
    generic(
        "(d0) -> (d0)",
        "p",
        "outs(%o : memref<16xf32>)",
        """^bb0(%acc: f32):
    %zero = arith.constant 0.0 : f32
    %three = arith.constant 3 : index
    %ten = arith.constant 10 : index
    %i = linalg.index 0 : index
    %k = arith.subi %i, %three : index
    %inside = arith.cmpi ult, %k, %ten : index
    %r = scf.if %inside -> (f32) {
      %v = memref.load %x[%k] : memref<10xf32>
      scf.yield %v : f32
    } else {
      scf.yield %zero : f32
    }
    linalg.yield %r : f32""",
    ),
)
SCATTER = kernel(
    "scatter",
    "%x: memref<19xf32>, %u: memref<3xf32>, %i: memref<3xi64>, %o: memref<19xf32>",
    "%t = memref.alloc() : memref<19xf32>",
    '"memref.copy"(%x, %t) : (memref<19xf32>, memref<19xf32>) -> ()',
    """%c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  scf.for %n = %c0 to %c3 step %c1 {
    %at = memref.load %i[%n] : memref<3xi64>
    %where = arith.index_cast %at : i64 to index
    %new = memref.load %u[%n] : memref<3xf32>
    %old = memref.load %t[%where] : memref<19xf32>
    %sum = arith.addf %old, %new : f32
    memref.store %sum, %t[%where] : memref<19xf32>
  }""",
    '"memref.copy"(%t, %o) : (memref<19xf32>, memref<19xf32>) -> ()',
)
HALF = kernel(
    "half",
    "%x: memref<45xbf16>, %o: memref<45xbf16>",
    generic(
        "(d0) -> (d0); (d0) -> (d0)",
        "p",
        "ins(%x : memref<45xbf16>) outs(%o : memref<45xbf16>)",
        """^bb0(%a: bf16, %acc: bf16):
    %w = arith.extf %a : bf16 to f32
    %s = arith.mulf %w, %w : f32
    %r = arith.truncf %s : f32 to bf16
    linalg.yield %r : bf16""",
    ),
)
DIVISION = kernel(
    "division",
    "%x: memref<21xi32>, %y: memref<21xi32>, %o: memref<21xi32>",
    generic(
        "(d0) -> (d0); (d0) -> (d0); (d0) -> (d0)",
        "p",
        "ins(%x, %y : memref<21xi32>, memref<21xi32>) outs(%o : memref<21xi32>)",
        "^bb0(%a: i32, %b: i32, %acc: i32):\n %r = arith.divsi %a, %b : i32\n linalg.yield %r : i32",
    ),
)
COLUMN_SUM = kernel(
    "column_sum",
    "%x: memref<11x70xf32>, %o: memref<70xf32>",
    ZERO,
    "linalg.fill ins(%zero : f32) outs(%o : memref<70xf32>)",
    generic(
        "(d0, d1) -> (d0, d1); (d0, d1) -> (d1)",
        "rp",
        "ins(%x : memref<11x70xf32>) outs(%o : memref<70xf32>)",
        ADD,
    ),
)
BIASED = kernel(
    "biased",
    "%x: memref<2x3x5x7xf32>, %b: memref<3x1x1xf32>, %o: memref<2x3x5x7xf32>",
    generic(
        "(d0, d1, d2, d3) -> (d0, d1, d2, d3); (d0, d1, d2, d3) -> (d1, 0, 0); (d0, d1, d2, d3) -> (d0, d1, d2, d3)",
        "pppp",
        "ins(%x, %b : memref<2x3x5x7xf32>, memref<3x1x1xf32>) outs(%o : memref<2x3x5x7xf32>)",
        "^bb0(%a: f32, %b0: f32, %acc: f32):\n %r = arith.addf %a, %b0 : f32\n linalg.yield %r : f32",
    ),
)
SQUARE = "memref<24x24xf32>"
SYMMETRIC = kernel(
    "symmetric",
    f"%x: {SQUARE}, %o: {SQUARE}",
    f"%e = memref.alloc() : {SQUARE}",
    generic(
        "(d0, d1) -> (d0, d1); (d0, d1) -> (d0, d1)",
        "pp",
        f"ins(%x : {SQUARE}) outs(%e : {SQUARE})",
        "^bb0(%e0: f32, %acc: f32):\n %r = arith.negf %e0 : f32\n linalg.yield %r : f32",
    ),
    generic(
        "(d0, d1) -> (d0, d1); (d0, d1) -> (d1, d0); (d0, d1) -> (d0, d1)",
        "pp",
        f"ins(%e, %e : {SQUARE}, {SQUARE}) outs(%o : {SQUARE})",
        "^bb0(%e0: f32, %e1: f32, %acc: f32):\n %r = arith.addf %e0, %e1 : f32\n linalg.yield %r : f32",
    ),
)
BOTH_SUMS = kernel(
    "both_sums",
    "%x: memref<5x19xf32>, %r: memref<5xf32>, %c: memref<19xf32>",
    ZERO,
    "linalg.fill ins(%zero : f32) outs(%r : memref<5xf32>)",
    "linalg.fill ins(%zero : f32) outs(%c : memref<19xf32>)",
    generic(
        "(d0, d1) -> (d0, d1); (d0, d1) -> (d0); (d0, d1) -> (d1)",
        "rr",
        "ins(%x : memref<5x19xf32>) outs(%r, %c : memref<5xf32>, memref<19xf32>)",
        """^bb0(%a: f32, %row: f32, %column: f32):
    %s = arith.addf %row, %a : f32
    %t = arith.addf %column, %a : f32
    linalg.yield %s, %t : f32, f32""",
    ),
)
ALTERNATING = kernel(
    "alternating",
    "%x: memref<4x7xf32>, %o: memref<f32>",
    generic(
        "(d0, d1) -> (d1, d0); (d0, d1) -> ()",
        "rr",
        "ins(%x : memref<4x7xf32>) outs(%o : memref<f32>)",
        "^bb0(%e0: f32, %acc: f32):\n %r = arith.subf %e0, %acc : f32\n linalg.yield %r : f32",
    ),
)
ROW_MAXIMUM = kernel(
    "row_maximum",
    "%x: memref<5x37xf32>, %o: memref<5xf32>",
    LOW,
    "linalg.fill ins(%low : f32) outs(%o : memref<5xf32>)",
    generic("(d0, d1) -> (d0, d1); (d0, d1) -> (d0)", "pr", "ins(%x : memref<5x37xf32>) outs(%o : memref<5xf32>)", MAX),
)
EMPTY = COLUMN_SUM.replace("11x", "0x").replace("@column_sum", "@empty")
KERNELS = [
    softmax("softmax", (6, 53), 1),
    softmax("softmax_of_columns", (5, 75), 0),
    matmul("matmul", 13, 83, 5),
    matmul("matmul_transposed", 9, 5, 37, transposed=True),
    CONVOLUTION,
    CONVOLUTION_GRADIENT,
    ARGMAX,
    EMBEDDING,
    PAD,
    SCATTER,
    HALF,
    DIVISION,
    COLUMN_SUM,
    BIASED,
    SYMMETRIC,
    BOTH_SUMS,
    ALTERNATING,
    ROW_MAXIMUM,
    EMPTY,
]


def whole(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Small whole numbers: their sums do not depend on the order."""
    return random.integers(-3, 4, shape).astype(np.float32)


def _softmax(x: np.ndarray, axis: int) -> np.ndarray:
    weights = np.exp(x - x.max(axis, keepdims=True))
    return weights / weights.sum(axis, keepdims=True)


def _convolution(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    return np.einsum("nchwij,kcij->nkhw", windows, w)


def _convolution_gradient(g: np.ndarray, w: np.ndarray) -> np.ndarray:
    result = np.zeros((2, 3, 9, 12), np.float32)
    for i in range(3):
        for j in range(3):
            result[:, :, i : i + 7, j : j + 10] += np.einsum("nkhw,kc->nchw", g, w[:, :, i, j])
    return result


def _scatter(x: np.ndarray, u: np.ndarray, i: np.ndarray) -> np.ndarray:
    result = x.copy()
    np.add.at(result, i, u)
    return result


def _alternating(x: np.ndarray) -> np.ndarray:
    total = np.float32(0)
    for value in x.T.ravel():
        total = value - total
    return np.array(total, np.float32)


def _cases() -> dict[str, tuple[list[np.ndarray], list[np.ndarray]]]:
    """Inputs and expected outputs by kernel."""
    import ml_dtypes

    random = np.random.default_rng(0)
    rows, columns = whole(random, 6, 53), whole(random, 5, 75)
    a, b, bt, at = whole(random, 13, 5), whole(random, 5, 83), whole(random, 5, 37), whole(random, 9, 37)
    x, w, g = whole(random, 2, 3, 9, 12), whole(random, 4, 3, 3, 3), whole(random, 2, 4, 7, 10)
    scores, table, picks = whole(random, 5, 37), whole(random, 7, 20), random.integers(0, 7, 6)
    short, target, updates, places = whole(random, 10), whole(random, 19), whole(random, 3), np.array([4, 18, 4])
    half = whole(random, 45).astype(ml_dtypes.bfloat16)
    dividend, divisor = np.arange(-10, 11, dtype=np.int32), random.integers(1, 5, 21).astype(np.int32)
    square, oblong, oddments = whole(random, 24, 24), whole(random, 5, 19), whole(random, 4, 7)
    tall, image, bias = whole(random, 11, 70), whole(random, 2, 3, 5, 7), whole(random, 3, 1, 1)
    return {
        "softmax": ([rows], [_softmax(rows, 1)]),
        "softmax_of_columns": ([columns], [_softmax(columns, 0)]),
        "matmul": ([a, b], [a @ b]),
        "matmul_transposed": ([at, bt], [at @ bt.T]),
        "convolution": ([x, w], [_convolution(x, w)]),
        "convolution_gradient": ([g, w], [_convolution_gradient(g, w)]),
        "argmax": ([scores], [scores.max(1), scores.argmax(1)]),
        "embedding": ([table, picks], [table[picks]]),
        "pad": ([short], [np.pad(short, 3)]),
        "scatter": ([target, updates, places], [_scatter(target, updates, places)]),
        "half": ([half], [(half.astype(np.float32) ** 2).astype(ml_dtypes.bfloat16)]),
        "division": ([dividend, divisor], [np.trunc(dividend / divisor).astype(np.int32)]),
        "column_sum": ([tall], [tall.sum(0)]),
        "biased": ([image, bias], [image + bias]),
        "symmetric": ([square], [-square - square.T]),
        "both_sums": ([oblong], [oblong.sum(1), oblong.sum(0)]),
        "row_maximum": ([scores - 9], [(scores - 9).max(1)]),
        "alternating": ([oddments], [_alternating(oddments)]),
        "empty": ([np.zeros((0, 70), np.float32)], [np.zeros(70, np.float32)]),
    }


CASES = _cases()


@cache
def module_of(vector_bits: int) -> ModuleOp:
    """All kernels as loops."""
    return to_loops(parse("".join(KERNELS)), vector_bits)


def counts(op: Operation) -> Counter[type[Operation]]:
    return Counter(type(inner) for inner in op.walk())


def lowered(text: str, vector_bits: int | None) -> Operation:
    """The only kernel of `text`, as loops."""
    return kernels_of(to_loops(parse(text), vector_bits))[0]


class TestNumbers:
    @given(case=random_generics(), vector_bits=VECTOR_BITS)
    def test_default_schedules_are_right(self, case: RandomGeneric, vector_bits: int) -> None:
        module = to_loops(parse(case.text()), vector_bits)
        (result,) = interpret(module, "k", [array for _, array in case.inputs], [case.output[1]])
        np.testing.assert_array_equal(result, case.expected())

    @given(case=random_generics(), data=st.data())
    def test_any_legal_schedule_is_right(self, case: RandomGeneric, data: st.DataObject) -> None:
        statement = read_kernel(kernels_of(parse(case.text()))[0]).statements[-1]
        numbers: dict[str, int] = {}
        loops = range(len(case.extents))
        vectors = [loop for loop in loops if vector_obstacle(statement, loop) is None]
        tiles = [
            (loop, across)
            for loop in loops
            for across in statement.loops(LoopKind.PARALLEL)
            if loop != across and loop not in vectors and vector_obstacle(statement, loop, across) is None
        ]
        if tiles and data.draw(st.booleans()):
            loop, across = data.draw(st.sampled_from(tiles))
            width = data.draw(st.sampled_from([2, 4, 8]))
            numbers = {"vector": loop, "width": width, "unroll": 1, "jam": across, "jam_count": width}
        elif vectors:
            numbers["vector"] = data.draw(st.sampled_from(vectors))
            numbers["width"] = data.draw(st.sampled_from([1, 2, 4, 8, 16]))
            numbers["unroll"] = data.draw(st.integers(1, 4))
        jams = [loop for loop in statement.loops(LoopKind.PARALLEL) if loop != numbers.get("vector")]
        if "jam" not in numbers and jams and data.draw(st.booleans()):
            numbers |= {"jam": data.draw(st.sampled_from(jams)), "jam_count": data.draw(st.integers(1, 4))}
        loop, kinds = numbers.get("vector"), statement.kinds
        blocked = LoopKind.REDUCTION in kinds and LoopKind.SEQUENTIAL not in kinds and 0 not in statement.extents
        if (
            loop is not None
            and kinds[loop] is LoopKind.PARALLEL
            and blocked
            and "jam" not in numbers
            and data.draw(st.booleans())
        ):
            numbers |= {"rows": data.draw(st.integers(1, 4)), "strip": data.draw(st.integers(1, 20))}
            if parts_obstacle(statement) is None and data.draw(st.booleans()):
                numbers["split"] = data.draw(st.integers(1, 8))
        schedule = ", ".join(f"{key} = {number} : i64" for key, number in numbers.items())
        module = to_loops(parse(case.text(schedule)), None)
        (result,) = interpret(module, "k", [array for _, array in case.inputs], [case.output[1]])
        np.testing.assert_array_equal(result, case.expected())

    @given(case=random_groups(), vector_bits=VECTOR_BITS)
    def test_statements_that_share_loops_are_right(self, case: RandomGroup, vector_bits: int) -> None:
        module = to_loops(parse(case.text()), vector_bits)
        outputs = [np.full(case.values[i].shape(case.extents), np.nan, np.float32) for i in case.outputs]
        for result, expected in zip(interpret(module, "k", case.arguments, outputs), case.expected(), strict=True):
            np.testing.assert_array_equal(result, expected)

    @pytest.mark.parametrize("name", CASES)
    @pytest.mark.parametrize("vector_bits", [0, 256, 512])
    def test_kernel(self, name: str, vector_bits: int) -> None:
        inputs, expected = CASES[name]
        outputs = [np.zeros_like(array) for array in expected]
        for result, array in zip(interpret(module_of(vector_bits), name, inputs, outputs), expected, strict=True):
            np.testing.assert_allclose(result.astype(np.float64), array.astype(np.float64), rtol=1e-6)


class TestCompiled:
    @pytest.mark.parametrize("vector_bits", [0, 512])
    def test_kernels_compiled_together(self, vector_bits: int) -> None:
        from tenon.lowering.llvm.emit_llvm import emit_llvm
        from tenon.lowering.math.legalize_arith import LegalizeArithPass
        from tenon.runtime.cpu.compile import compile_object
        from tenon.runtime.cpu.program import load_program

        names = [name for name in CASES if name != "empty"]
        module = to_loops(parse("".join(KERNELS) + self.main(names)), vector_bits)
        LegalizeArithPass().apply(Context(), module)
        code = load_program([compile_object(emit_llvm(module), optimization=1)])
        inputs = [array for name in names for array in CASES[name][0]]
        expected = [array for name in names for array in CASES[name][1]]
        results = [np.zeros_like(array) for array in expected]
        arena = np.zeros(64, np.uint8)
        launch(code.entry(), [np.ascontiguousarray(array).ctypes.data for array in (*inputs, *results, arena)])
        for result, array in zip(results, expected, strict=True):
            np.testing.assert_allclose(result.astype(np.float64), array.astype(np.float64), rtol=1e-5)

    @staticmethod
    def main(names: list[str]) -> str:
        """A function that calls the kernels; inputs of all, then outputs of all, then the arena."""
        kernels = {op.sym_name.data: op for op in kernels_of(parse("".join(KERNELS)))}
        inputs: list[str] = []
        outputs: list[str] = []
        calls: list[str] = []
        for name in names:
            types = [str(type_) for type_ in kernels[name].function_type.inputs]
            values = [f"%{name}_{number}" for number in range(len(types))]
            arguments = [f"{value}: {type_}" for value, type_ in zip(values, types, strict=True)]
            inputs += arguments[: len(CASES[name][0])]
            outputs += arguments[len(CASES[name][0]) :]
            calls.append(f"func.call @{name}({', '.join(values)}) : ({', '.join(types)}) -> ()")
        body = "\n  ".join(calls)
        return f"""func.func @main({", ".join([*inputs, *outputs])}, %arena: memref<0xi8>)
            attributes {{num_inputs = {len(inputs)} : i64, num_outputs = {len(outputs)} : i64}} {{
  {body}
  func.return
}}"""


@pytest.mark.skipif(shutil.which("mlir-opt-22") is None, reason="mlir-opt-22 is not installed")
class TestUpstream:
    @pytest.mark.parametrize("vector_bits", [0, 512])
    def test_loops_are_accepted(self, vector_bits: int) -> None:
        self.accept(str(module_of(vector_bits)))

    def test_schedules_are_accepted(self) -> None:
        module = parse("".join(KERNELS))
        write_schedules(module, 512)
        assert "schedule = {" in str(module)
        self.accept(str(module))

    @staticmethod
    def accept(text: str) -> None:
        done = subprocess.run(["mlir-opt-22"], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


class TestForm:
    def test_softmax_shares_its_rows_and_keeps_row_values_in_registers(self) -> None:
        function = lowered(softmax("k", (6, 53), 1), 0)
        (outer,) = [op for op in function.regions[0].block.ops if isinstance(op, scf.ParallelOp)]
        assert len(outer.lowerBound) == 1
        (row,) = [op for op in function.walk() if isinstance(op, memref.AllocaOp)]
        assert row.memref.type.get_shape() == (53,)
        assert not counts(function)[memref.AllocOp]

    def test_softmax_of_columns_runs_in_strips(self) -> None:
        function = lowered(softmax("k", (5, 75), 0), 512)
        tops = [op for op in function.regions[0].block.ops if isinstance(op, memref.AllocaOp | scf.ParallelOp)]
        shapes = {op.memref.type.get_shape() for op in function.walk() if isinstance(op, memref.AllocaOp)}
        # 75 columns: a strip of 64, which is one iteration, and the rest.
        assert shapes == {(5, 64), (64,), (5, 11), (11,)}
        assert tops
        assert counts(function)[vector.MaskedStoreOp] > 0

    def test_register_tile_shares_its_loads(self) -> None:
        function = lowered(matmul("k", 12, 64, 100), 512)
        (reduction,) = [op for op in function.walk() if isinstance(op, scf.ForOp)]
        inside = counts(reduction)
        assert inside[vector.FMAOp] == 24
        assert (inside[vector.LoadOp], inside[memref.LoadOp]) == (4, 6)

    def test_transposed_matmul_combines_lanes(self) -> None:
        function = lowered(matmul("k", 1, 5, 32, transposed=True), 512)
        found = counts(function)
        assert found[vector.ReductionOp] == 5
        assert "fastmath<reassoc>" in str(function)

    def test_scalar_reduction_has_one_combining_op(self) -> None:
        function = lowered(matmul("k", 4, 5, 6), 0)
        (reduction,) = [op for op in function.walk() if isinstance(op, scf.ForOp)]
        assert [op.name for op in reduction.body.block.ops][-3:] == ["arith.mulf", "arith.addf", "scf.yield"]
        assert len(reduction.iter_args) == 1
        assert not {math.FmaOp, vector.FMAOp, memref.AllocaOp} & set(counts(function))

    def test_embedding_reads_rows_as_vectors(self) -> None:
        assert counts(lowered(EMBEDDING, 512))[vector.LoadOp] > 0

    def test_gradient_of_a_window_is_vectorized_along_its_unit_stride(self) -> None:
        function = lowered(CONVOLUTION_GRADIENT, 256)
        assert counts(function)[vector.StoreOp] > 0
        assert counts(function)[vector.FMAOp] > 0

    def test_a_schedule_in_the_text_is_kept(self) -> None:
        text = matmul("k", 4, 16, 8, schedule="vector = 1 : i64, width = 4 : i64, unroll = 1 : i64")
        module = to_loops(parse(text), 512)
        assert "vector<4xf32>" in str(module)
        assert "vector<16xf32>" not in str(module)

    def test_scatter_loops_stay(self) -> None:
        (loop,) = [op for op in lowered(SCATTER, 0).walk() if isinstance(op, scf.ForOp)]
        names = [op.name for op in loop.body.block.ops]
        assert names[:2] == ["memref.load", "arith.index_cast"]


class TestErrors:
    @pytest.mark.parametrize(
        ("schedule", "message"),
        [
            ("vector = 3 : i64, width = 4 : i64", "schedule: vector is loop 3, but the op has 3 loops"),
            ("vector = 1 : i64, width = 6 : i64", "schedule: width is 6, not a power of two up to 128"),
            ("vector = 0 : i64, width = 4 : i64", r"schedule: loop 0 cannot be vectorized: .* no unit stride along it"),
            ("width = 4 : i64", "schedule: width and unroll need a vector loop"),
            ("jam_count = 4 : i64", "schedule: jam_count needs a jam loop"),
            ("jam = 2 : i64, jam_count = 2 : i64", "schedule: jam is loop 2, which is not parallel"),
            ("vector = 1 : i64, jam = 1 : i64", "schedule: vector and jam are both loop 1"),
            ("jam = 0 : i64, jam_count = 0 : i64", "jam_count 0; both must be at least 1 and their product at most 64"),
            ("lanes = 4 : i64", "schedule: key 'lanes' is not one of vector, width, unroll, jam, jam_count"),
            ("vector = true", "schedule: vector is"),
        ],
    )
    def test_illegal_schedule(self, schedule: str, message: str) -> None:
        with pytest.raises(ValueError, match=f"kernel @k: .*{message}"):
            to_loops(parse(matmul("k", 4, 5, 6, schedule=schedule)), None)

    def test_large_intermediate_comes_from_the_heap(self) -> None:
        function = lowered(softmax("k", (2, 20000), 1), 512)
        taken = [op.memref for op in function.walk() if isinstance(op, memref.AllocOp)]
        given_back = [op.memref for op in function.walk() if isinstance(op, memref.DeallocOp)]
        assert taken == given_back
        assert {str(memory.type) for memory in taken} == {"memref<20000xf32>"}

    def test_large_intermediate_of_columns_is_cut_to_narrower_strips(self) -> None:
        function = lowered(softmax("k", (600, 64), 0), 512)
        assert max(op.memref.type.get_shape() for op in function.walk() if isinstance(op, memref.AllocaOp)) == (600, 16)

    def test_loop_without_extent(self) -> None:
        text = kernel(
            "k",
            "%x: memref<8xf32>, %o: memref<4xf32>",
            generic(
                "(d0, d1) -> (d0 + d1); (d0, d1) -> (d0)", "pr", "ins(%x : memref<8xf32>) outs(%o : memref<4xf32>)", ADD
            ),
        )
        with pytest.raises(ValueError, match=r"kernel @k: linalg\.generic: loop d1 is no index of any operand"):
            to_loops(parse(text, verify=False), 0)


@pytest.mark.parametrize("element", ["f32", "f64", "i16"])
@pytest.mark.parametrize("bits", [128, 512])
@pytest.mark.parametrize("step", [2, 3, 4, -1, -2, -4])
def test_elements_a_few_apart_are_loaded_with_their_neighbours(step: int, bits: int, element: str) -> None:
    """Ends at the last or the first element of the buffer, behind or before which nothing may be read."""
    add = "arith.addf" if element[0] == "f" else "arith.addi"
    for extent in (2, 15, 16, 17, 50):
        long = abs(step) * (extent - 1) + 1
        x, o = f"memref<3x{long}x{element}>", f"memref<{extent}x{element}>"
        body = (
            f"^bb0(%e0: {element}, %acc: {element}):\n %r = {add} %acc, %e0 : {element}\n linalg.yield %r : {element}"
        )
        maps = f"(d0, d1) -> (d1, d0 * {step} + {max(-step, 0) * (extent - 1)}); (d0, d1) -> (d0)"
        text = kernel("k", f"%x: {x}, %o: {o}", generic(maps, "pr", f"ins(%x : {x}) outs(%o : {o})", body))
        array = np.arange(3 * long).reshape(3, long).astype({"f32": "f4", "f64": "f8", "i16": "i2"}[element])
        module = to_loops(parse(text), bits)
        assert any(isinstance(op, vector.ShuffleOp) for op in module.walk())
        (result,) = interpret(module, "k", [array], [np.zeros(extent, array.dtype)])
        np.testing.assert_array_equal(result, array[:, ::step].sum(axis=0))


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("element", ["i8", "i16", "f32", "f64"])
@pytest.mark.parametrize(("rows", "columns"), [(16, 16), (17, 37), (3, 70), (64, 2)])
def test_tiles_are_transposed_in_registers(rows: int, columns: int, element: str, bits: int) -> None:
    x, o = f"memref<{columns}x{rows}x{element}>", f"memref<{rows}x{columns}x{element}>"
    body = f"^bb0(%e0: {element}, %acc: {element}):\n linalg.yield %e0 : {element}"
    maps = "(d0, d1) -> (d1, d0); (d0, d1) -> (d0, d1)"
    text = kernel("k", f"%x: {x}, %o: {o}", generic(maps, "pp", f"ins(%x : {x}) outs(%o : {o})", body))
    module = to_loops(parse(text), bits)
    assert counts(kernels_of(module)[0])[vector.ShuffleOp]
    dtype = {"i8": np.int8, "i16": np.int16, "f32": np.float32, "f64": np.float64}[element]
    array = np.random.default_rng(rows).integers(-128, 128, (columns, rows)).astype(dtype)
    (result,) = interpret(module, "k", [array], [np.zeros((rows, columns), dtype)])
    np.testing.assert_array_equal(result, array.T)
