"""Loop-stage programs for the tests of the CUDA path, with what NumPy makes of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from random_numbers import generator
from xdsl.context import Context
from xdsl.dialects import builtin, func, gpu, math, memref, scf, vector
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from tenon.dialects.upstream.vector_arith import VectorArith
from tenon.lowering.cuda.map_to_grid import MapToGridPass
from tenon.lowering.math.legalize_arith import LegalizeArithPass

Array = NDArray[Any]
RANDOM = generator(7)


def parse(text: str) -> ModuleOp:
    context = Context()
    for dialect in (VectorArith, builtin.Builtin, func.Func, gpu.GPU, math.Math, memref.MemRef, scf.Scf, vector.Vector):
        context.load_dialect(dialect)
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def with_constants(body: str) -> str:
    """`body` after the index constants `%cN` that it uses."""
    numbers = sorted({int(number) for number in re.findall(r"%c(\d+)\b", body)} | {0, 1})
    return "\n".join(f"%c{number} = arith.constant {number} : index" for number in numbers) + "\n" + body


def parallel(loops: dict[str, int], body: str) -> str:
    """An `scf.parallel` over `loops`, from names of variables to extents."""
    rank = len(loops)
    bounds = ["%c0"] * rank + [f"%c{extent}" for extent in loops.values()] + ["%c1"] * rank
    variables = ", ".join(f"%{name}: index" for name in loops)
    return (
        f'"scf.parallel"({", ".join(bounds)}) <{{operandSegmentSizes = array<i32: {rank}, {rank}, {rank}, 0>}}> ({{\n'
        f"^bb0({variables}):\n{body}\nscf.reduce\n}}) : ({', '.join(['index'] * 3 * rank)}) -> ()"
    )


def sequential(variable: str, extent: int, body: str) -> str:
    return f"scf.for %{variable} = %c0 to %c{extent} step %c1 {{\n{body}\n}}"


def reduction(result: str, variable: str, extent: int, initial: str, kind: str, body: str) -> str:
    """A reduction that yields `%next`, a combination of `%acc` and what `body` computes."""
    return (
        f"{result} = scf.for %{variable} = %c0 to %c{extent} step %c1 iter_args(%acc = {initial}) -> ({kind}) {{\n"
        f"{body}\nscf.yield %next : {kind}\n}}"
    )


def program(inputs: Sequence[str], outputs: Sequence[str], kernel: str) -> str:
    """A module with one kernel, whose arguments are `%a0`, `%a1`... (inputs) and `%r0`... (outputs)."""
    names = [f"%a{number}" for number in range(len(inputs))] + [f"%r{number}" for number in range(len(outputs))]
    types = [f"memref<{shape}>" for shape in (*inputs, *outputs)]
    parameters = ", ".join(f"{name}: {kind}" for name, kind in zip(names, types, strict=True))
    return f"""
    func.func @main({parameters}, %arena: memref<0xi8>)
        attributes {{num_inputs = {len(inputs)} : i64, num_outputs = {len(outputs)} : i64}} {{
      func.call @kernel_0({", ".join(names)}) : ({", ".join(types)}) -> ()
      func.return
    }}
    func.func private @kernel_0({parameters}) attributes {{kernel}} {{
      {with_constants(kernel)}
      func.return
    }}"""


@dataclass
class Case:
    """A loop-stage module, its inputs and what NumPy makes of them."""

    text: str
    inputs: list[Array]
    expected: list[Array]
    block: int
    """Threads in a block of the first kernel: tells which form the rule chose."""
    tolerance: float = 1e-5


def floats(*shape: int, dtype: Any = np.float32) -> Array:
    return RANDOM.standard_normal(shape).astype(dtype)


def elementwise() -> Case:
    x, y = floats(300, 7), floats(7)
    body = """
      %x = memref.load %a0[%i, %j] : memref<300x7xf32>
      %y = memref.load %a1[%j] : memref<7xf32>
      %s = arith.addf %x, %y : f32
      %t = math.tanh %s : f32
      memref.store %t, %r0[%i, %j] : memref<300x7xf32>"""
    text = program(["300x7xf32", "7xf32"], ["300x7xf32"], parallel({"i": 300, "j": 7}, body))
    return Case(text, [x, y], [np.tanh(x + y)], 256)


SOFTMAX = """
%lowest = arith.constant 0xff800000 : f32
%zero = arith.constant 0.0 : f32
"""


def softmax(rows: int, columns: int, block: int) -> Case:
    x, kind = floats(rows, columns), f"memref<{rows}x{columns}xf32>"
    load = f"%v = memref.load %a0[%i, %j] : {kind}\n"
    scratch = f"memref<{columns}xf32>"
    largest = reduction("%m", "j", columns, "%lowest", "f32", load + "%next = arith.maximumf %acc, %v : f32")
    weights = load + f"%d = arith.subf %v, %m : f32\n%e = math.exp %d : f32\nmemref.store %e, %w[%j] : {scratch}"
    load_weight = f"%e = memref.load %w[%j] : {scratch}\n"
    total = reduction("%s", "j", columns, "%zero", "f32", load_weight + "%next = arith.addf %e, %acc : f32")
    scaled = load_weight + f"%q = arith.divf %e, %s : f32\nmemref.store %q, %r0[%i, %j] : {kind}"
    body = "\n".join(
        [
            f"%w = memref.alloca() : {scratch}",
            largest,
            parallel({"j": columns}, weights),
            total,
            parallel({"j": columns}, scaled),
        ]
    )
    weights_of = np.exp(x - x.max(1, keepdims=True))
    text = program([kind[7:-1]], [kind[7:-1]], SOFTMAX + parallel({"i": rows}, body))
    return Case(text, [x], [weights_of / weights_of.sum(1, keepdims=True)], block)


def matmul(m: int, n: int, k: int, block: int) -> Case:
    a, b = floats(m, k), floats(k, n)
    body = reduction(
        "%s",
        "k",
        k,
        "%zero",
        "f32",
        f"""
          %a = memref.load %a0[%i, %k] : memref<{m}x{k}xf32>
          %b = memref.load %a1[%k, %j] : memref<{k}x{n}xf32>
          %next = math.fma %a, %b, %acc : f32""",
    )
    body += f"\nmemref.store %s, %r0[%i, %j] : memref<{m}x{n}xf32>"
    kernel = "%zero = arith.constant 0.0 : f32\n" + parallel({"i": m, "j": n}, body)
    return Case(program([f"{m}x{k}xf32", f"{k}x{n}xf32"], [f"{m}x{n}xf32"], kernel), [a, b], [a @ b], block, 1e-4)


def argmax() -> Case:
    """The pair of a value and its index: no combiner of one value, so each thread takes a row."""
    x = floats(40, 100)
    body = """
      %best:2 = scf.for %j = %c0 to %c100 step %c1 iter_args(%m = %lowest, %p = %none) -> (f32, i64) {
        %v = memref.load %a0[%i, %j] : memref<40x100xf32>
        %q = arith.index_cast %j : index to i64
        %better = arith.cmpf ogt, %v, %m : f32
        %n = arith.select %better, %v, %m : f32
        %o = arith.select %better, %q, %p : i64
        scf.yield %n, %o : f32, i64
      }
      memref.store %best#0, %r0[%i] : memref<40xf32>
      memref.store %best#1, %r1[%i] : memref<40xi64>"""
    constants = "%lowest = arith.constant 0xff800000 : f32\n%none = arith.constant -1 : i64\n"
    text = program(["40x100xf32"], ["40xf32", "40xi64"], constants + parallel({"i": 40}, body))
    return Case(text, [x], [x.max(1), x.argmax(1)], 64)


def scatter_add() -> Case:
    """No loop is common to both statements: one block, the updates by its first thread."""
    x, positions, updates = floats(100), RANDOM.integers(0, 100, 50), floats(50)
    copy = "%v = memref.load %a0[%i] : memref<100xf32>\nmemref.store %v, %r0[%i] : memref<100xf32>"
    update = """
      %p = memref.load %a1[%u] : memref<50xi64>
      %q = arith.index_cast %p : i64 to index
      %old = memref.load %r0[%q] : memref<100xf32>
      %by = memref.load %a2[%u] : memref<50xf32>
      %new = arith.addf %old, %by : f32
      memref.store %new, %r0[%q] : memref<100xf32>"""
    expected = x.copy()
    np.add.at(expected, positions, updates)
    kernel = parallel({"i": 100}, copy) + "\n" + sequential("u", 50, update)
    return Case(program(["100xf32", "50xi64", "50xf32"], ["100xf32"], kernel), [x, positions, updates], [expected], 128)


def booleans() -> Case:
    """An i1 is a byte in memory; any and all of each row."""
    x = RANDOM.random((6, 90)) < np.array([0, 1, 0.02, 0.98, 0.5, 0.5])[:, None]
    load = "%v = memref.load %a0[%i, %j] : memref<6x90xi1>\n"
    body = (
        reduction("%any", "j", 90, "%false", "i1", load + "%next = arith.ori %acc, %v : i1")
        + "\n"
        + reduction("%all", "j", 90, "%true", "i1", load + "%next = arith.andi %acc, %v : i1")
        + "\n%odd = arith.xori %any, %all : i1\n"
        + "".join(f"memref.store %{name}, %r{n}[%i] : memref<6xi1>\n" for n, name in enumerate(("any", "all", "odd")))
    )
    constants = "%false = arith.constant false\n%true = arith.constant true\n"
    text = program(["6x90xi1"], ["6xi1"] * 3, constants + parallel({"i": 6}, body))
    return Case(text, [x], [np.asarray(r) for r in (x.any(1), x.all(1), x.any(1) ^ x.all(1))], 128, 0)


def half_precision() -> Case:
    """f16 and bf16 are storage: extend, compute, truncate once."""
    values = np.concatenate([floats(500) * 100, [np.inf, -np.inf, np.nan, 65519, 65520, 1e-7, 6e-8, 3e-8, -0.0]])
    with np.errstate(over="ignore"):
        f16 = values.astype(np.float32).astype(np.float16)
    bf16 = values.astype(np.float32).astype(ml_dtypes.bfloat16)
    body = """
      %h = memref.load %a0[%i] : memref<509xf16>
      %b = memref.load %a1[%i] : memref<509xbf16>
      %x = arith.extf %h : f16 to f32
      %y = arith.extf %b : bf16 to f32
      %p = arith.mulf %x, %third : f32
      %q = arith.mulf %y, %third : f32
      %s = arith.truncf %p : f32 to f16
      %t = arith.truncf %q : f32 to bf16
      memref.store %s, %r0[%i] : memref<509xf16>
      memref.store %t, %r1[%i] : memref<509xbf16>
      memref.store %one, %r2[%i] : memref<509xf16>"""
    third = np.float32(1 / 3)
    expected = [
        (f16.astype(np.float32) * third).astype(np.float16),
        (bf16.astype(np.float32) * third).astype(ml_dtypes.bfloat16),
        np.ones(509, np.float16),
    ]
    constants = "%third = arith.constant 0.3333333333 : f32\n%one = arith.constant 1.0 : f16\n"
    kernel = constants + parallel({"i": 509}, body)
    return Case(
        program(["509xf16", "509xbf16"], ["509xf16", "509xbf16", "509xf16"], kernel), [f16, bf16], expected, 256
    )


def double_precision() -> Case:
    x = floats(3, 200, dtype=np.float64)
    load = "%v = memref.load %a0[%i, %j] : memref<3x200xf64>\n"
    body = reduction("%s", "j", 200, "%c", "f64", load + "%e = math.exp %v : f64\n%next = arith.addf %acc, %e : f64")
    kernel = "%c = arith.constant 0.1 : f64\n" + parallel({"i": 3}, body + "\nmemref.store %s, %r0[%i] : memref<3xf64>")
    return Case(program(["3x200xf64"], ["3xf64"], kernel), [x], [0.1 + np.exp(x).sum(1)], 256, 1e-14)


def two_loops_two_results() -> Case:
    """A nest of two reduction loops is divided as one, for both of its results."""
    x = RANDOM.integers(-9, 9, (4, 6, 50)).astype(np.int32)
    body = """
      %s:2 = scf.for %j = %c0 to %c6 step %c1 iter_args(%t = %zero, %m = %zero) -> (i32, i32) {
        %k2 = arith.addi %j, %c0 : index
        %q:2 = scf.for %k = %c0 to %c50 step %c2 iter_args(%u = %t, %n = %m) -> (i32, i32) {
          %v = memref.load %a0[%i, %k2, %k] : memref<4x6x50xi32>
          %w = arith.addi %u, %v : i32
          %o = arith.minsi %v, %n : i32
          scf.yield %w, %o : i32, i32
        }
        scf.yield %q#0, %q#1 : i32, i32
      }
      memref.store %s#0, %r0[%i] : memref<4xi32>
      memref.store %s#1, %r1[%i] : memref<4xi32>"""
    kernel = "%zero = arith.constant 0 : i32\n" + parallel({"i": 4}, body)
    part = x[:, :, ::2].reshape(4, -1)
    expected = [part.sum(1, dtype=np.int32), np.minimum(part.min(1), 0)]
    return Case(program(["4x6x50xi32"], ["4xi32"] * 2, kernel), [x], expected, 256, 0)


def recurrence() -> Case:
    """A sequential loop around a parallel one over shared state: barriers inside the loop."""
    x = floats(3, 20, 70)
    state = "memref<70xf32>"
    body = "\n".join(
        [
            f"%s = memref.alloca() : {state}",
            parallel({"j": 70}, f"memref.store %zero, %s[%j] : {state}"),
            sequential(
                "t",
                20,
                parallel(
                    {"j": 70},
                    f"""
                      %mirror = arith.subi %c69, %j : index
                      %v = memref.load %a0[%i, %t, %j] : memref<3x20x70xf32>
                      %o = memref.load %s[%mirror] : {state}
                      %n = arith.addf %o, %v : f32
                      memref.store %n, %r0[%i, %t, %j] : memref<3x20x70xf32>""",
                )
                + "\n"
                + parallel(
                    {"j": 70},
                    f"""
                      %n = memref.load %r0[%i, %t, %j] : memref<3x20x70xf32>
                      memref.store %n, %s[%j] : {state}""",
                ),
            ),
        ]
    )
    expected, carried = np.empty_like(x), np.zeros((3, 70), np.float32)
    for t in range(20):
        carried = expected[:, t] = carried[:, ::-1] + x[:, t]
    kernel = "%zero = arith.constant 0.0 : f32\n" + parallel({"i": 3}, body)
    return Case(program(["3x20x70xf32"], ["3x20x70xf32"], kernel), [x], [expected], 128)


def reused_scratch() -> Case:
    """Scratch is overwritten as soon as it was read: a barrier between them, though nothing flows."""
    x, kind, scratch = floats(4, 96), "memref<4x96xf32>", "memref<96xf32>"

    def fill(factor: str) -> str:
        return parallel(
            {"j": 96},
            f"""
              %v = memref.load %a0[%i, %j] : {kind}
              %w = arith.mulf %v, %{factor} : f32
              memref.store %w, %s[%j] : {scratch}""",
        )

    def reverse(result: str) -> str:
        return parallel(
            {"j": 96},
            f"""
              %mirror = arith.subi %c95, %j : index
              %v = memref.load %s[%mirror] : {scratch}
              memref.store %v, %{result}[%i, %j] : {kind}""",
        )

    body = f"%s = memref.alloca() : {scratch}\n" + "\n".join([fill("two"), reverse("r0"), fill("four"), reverse("r1")])
    constants = "%two = arith.constant 2.0 : f32\n%four = arith.constant 4.0 : f32\n"
    text = program(["4x96xf32"], ["4x96xf32"] * 2, constants + parallel({"i": 4}, body))
    return Case(text, [x], [2 * x[:, ::-1], 4 * x[:, ::-1]], 128)


def collapsed() -> Case:
    """Views of an argument and of shared scratch."""
    x = floats(3, 4, 20)
    body = (
        "%s = memref.alloca() : memref<4x20xf32>\n"
        '%f = "memref.collapse_shape"(%s) <{reassociation = [[0 : i64, 1 : i64]]}>'
        " : (memref<4x20xf32>) -> memref<80xf32>\n"
        + parallel(
            {"j": 80}, "%v = memref.load %g[%i, %j] : memref<3x80xf32>\nmemref.store %v, %f[%j] : memref<80xf32>"
        )
        + "\n"
        + parallel(
            {"k": 4, "l": 20},
            """
              %mirror = arith.subi %c3, %k : index
              %v = memref.load %s[%mirror, %l] : memref<4x20xf32>
              memref.store %v, %r0[%i, %k, %l] : memref<3x4x20xf32>""",
        )
    )
    view = (
        '%g = "memref.collapse_shape"(%a0) <{reassociation = [[0 : i64], [1 : i64, 2 : i64]]}>'
        " : (memref<3x4x20xf32>) -> memref<3x80xf32>\n"
    )
    return Case(program(["3x4x20xf32"], ["3x4x20xf32"], view + parallel({"i": 3}, body)), [x], [x[:, ::-1]], 128, 0)


def fibonacci() -> Case:
    """Carried values that change places."""
    body = """
      %end:2 = scf.for %n = %c0 to %i step %c1 iter_args(%a = %zero, %b = %one) -> (i64, i64) {
        %sum = arith.addi %a, %b : i64
        scf.yield %sum, %a : i64, i64
      }
      memref.store %end#0, %r0[%i] : memref<20xi64>"""
    constants = "%zero = arith.constant 0 : i64\n%one = arith.constant 1 : i64\n"
    expected = [0, 1]
    while len(expected) < 20:
        expected.append(expected[-2] + expected[-1])
    return Case(program([], ["20xi64"], constants + parallel({"i": 20}, body)), [], [np.array(expected)], 32, 0)


def reductions_in_a_loop() -> Case:
    """One reduction after another, each divided among the threads, without any other barrier between them."""
    x = floats(3, 10, 80)
    load = "%v = memref.load %a0[%i, %t, %j] : memref<3x10x80xf32>\n"
    body = (
        "%end = scf.for %t = %c0 to %c10 step %c1 iter_args(%state = %zero) -> (f32) {\n"
        + reduction("%s", "j", 80, "%zero", "f32", load + "%next = arith.addf %acc, %v : f32")
        + "\n%h = arith.mulf %state, %half : f32\n%n = arith.addf %h, %s : f32\nscf.yield %n : f32\n}\n"
        + "memref.store %end, %r0[%i] : memref<3xf32>"
    )
    expected = np.zeros(3, np.float32)
    for t in range(10):
        expected = expected / 2 + x[:, t].sum(1)
    constants = "%zero = arith.constant 0.0 : f32\n%half = arith.constant 0.5 : f32\n"
    return Case(program(["3x10x80xf32"], ["3xf32"], constants + parallel({"i": 3}, body)), [x], [expected], 128)


def total() -> Case:
    """No parallel loop at all: one block."""
    x = floats(1000)
    body = reduction(
        "%s",
        "i",
        1000,
        "%zero",
        "f32",
        "%v = memref.load %a0[%i] : memref<1000xf32>\n%next = arith.addf %acc, %v : f32",
    )
    kernel = f"%zero = arith.constant 0.0 : f32\n{body}\nmemref.store %s, %r0[] : memref<f32>"
    return Case(program(["1000xf32"], ["f32"], kernel), [x], [x.sum()], 1024)


def countdown() -> Case:
    """scf.while and scf.if with results, in a thread: the length of each Collatz sequence."""
    x = np.arange(1, 41, dtype=np.int64)
    body = """
      %n = memref.load %a0[%i] : memref<40xi64>
      %end:2 = scf.while (%v = %n, %steps = %zero) : (i64, i64) -> (i64, i64) {
        %more = arith.cmpi ugt, %v, %one : i64
        scf.condition(%more) %v, %steps : i64, i64
      } do {
      ^bb0(%v: i64, %steps: i64):
        %bit = arith.andi %v, %one : i64
        %is_odd = arith.cmpi ne, %bit, %zero : i64
        %next = scf.if %is_odd -> (i64) {
          %t = arith.muli %v, %three : i64
          %u = arith.addi %t, %one : i64
          scf.yield %u : i64
        } else {
          %h = arith.shrsi %v, %one : i64
          scf.yield %h : i64
        }
        %counted = arith.addi %steps, %one : i64
        scf.yield %next, %counted : i64, i64
      }
      memref.store %end#1, %r0[%i] : memref<40xi64>"""
    constants = "".join(
        f"%{name} = arith.constant {value} : i64\n" for name, value in (("zero", 0), ("one", 1), ("three", 3))
    )

    def steps(n: int) -> int:
        return 0 if n == 1 else 1 + steps(3 * n + 1 if n % 2 else n // 2)

    text = program(["40xi64"], ["40xi64"], constants + parallel({"i": 40}, body))
    return Case(text, [x], [np.array([steps(n) for n in range(1, 41)])], 64, 0)


CASES: dict[str, Callable[[], Case]] = {
    "elementwise": elementwise,
    "softmax": lambda: softmax(5, 200, 256),
    "softmax_in_threads": lambda: softmax(70, 9, 96),
    "softmax_in_workspace": lambda: softmax(2, 11000, 1024),
    "matmul_in_blocks": lambda: matmul(5, 7, 70, 128),
    "matmul_in_threads": lambda: matmul(20, 17, 16, 256),
    "argmax": argmax,
    "scatter_add": scatter_add,
    "booleans": booleans,
    "half_precision": half_precision,
    "double_precision": double_precision,
    "two_loops_two_results": two_loops_two_results,
    "recurrence": recurrence,
    "reused_scratch": reused_scratch,
    "collapsed": collapsed,
    "fibonacci": fibonacci,
    "reductions_in_a_loop": reductions_in_a_loop,
    "total": total,
    "countdown": countdown,
}


def grid_mapped(text: str) -> ModuleOp:
    module = parse(text)
    MapToGridPass().apply(Context(), module)
    LegalizeArithPass().apply(Context(), module)
    module.verify()
    return module
