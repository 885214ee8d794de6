"""Buffered modules compute what the tensor modules computed, in memory that does not overlap."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import DenseArrayBase, FunctionType, MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import CopyOp, GlobalOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import PassFailedException

import tenon
from tenon.dialects.interpreter.interpreter import Interpreter
from tenon.dialects.types.size import replaced
from tenon.dialects.types.types import numpy_dtype
from tenon.dialects.upstream.xdsl_corrections import correct_xdsl
from tenon.lowering.buffers.bufferize import bufferize
from tenon.lowering.buffers.memory_plan import Lifetime, MemoryPlan, plan_memory
from tenon.lowering.buffers.memory_report import memory_report
from tenon.lowering.options import LoweringOptions
from tenon.lowering.pipeline import lower, lower_by_function, run_passes, stages
from tenon.passes.dominance import check_dominance
from tenon.runtime.lower import new_context, options

Array = np.ndarray[Any, Any]

IDENTITY, ROW = "affine_map<(d0, d1) -> (d0, d1)>", "affine_map<(d0, d1) -> (0, d1)>"
TRANSPOSED = "affine_map<(d0, d1) -> (d1, d0)>"


def kernel(name: str, inputs: Sequence[tuple[str, str]], results: Sequence[str], body: str) -> str:
    """A kernel of one generic over matrices; `inputs` are (type, map), the body names elements %p0 and results %r0."""
    arguments = ", ".join(f"%a{i}: {type_}" for i, (type_, _) in enumerate(inputs))
    types = ", ".join(results)
    maps = ", ".join([*(map_ for _, map_ in inputs), *(IDENTITY for _ in results)])
    empties = "\n".join(f"  %e{i} = tensor.empty() : {type_}" for i, type_ in enumerate(results))
    elements = ", ".join([*(f"%p{i}: f32" for i in range(len(inputs))), *(f"%o{i}: f32" for i in range(len(results)))])
    names = ", ".join(f"%t#{i}" for i in range(len(results))) if len(results) > 1 else "%t"
    return f"""
func.func private @{name}({arguments}) -> ({types}) attributes {{kernel}} {{
{empties}
  %t{f":{len(results)}" if len(results) > 1 else ""} = linalg.generic {{indexing_maps = [{maps}],
      iterator_types = ["parallel", "parallel"]}}
      ins({", ".join(f"%a{i}" for i in range(len(inputs)))} : {", ".join(type_ for type_, _ in inputs)})
      outs({", ".join(f"%e{i}" for i in range(len(results)))} : {types}) {{
  ^bb0({elements}):
    {body}
    linalg.yield {", ".join(f"%r{i}" for i in range(len(results)))} : {", ".join("f32" for _ in results)}
  }} -> ({types})
  func.return {names} : {types}
}}"""


M, V = "tensor<4x4xf32>", "tensor<1x4xf32>"
KERNELS = "\n".join(
    [
        kernel("double", [(M, IDENTITY)], [M], "%r0 = arith.addf %p0, %p0 : f32"),
        kernel("transpose", [(M, TRANSPOSED)], [M], "%r0 = arith.negf %p0 : f32"),
        kernel("add", [(M, IDENTITY), (M, IDENTITY)], [M], "%r0 = arith.addf %p0, %p1 : f32"),
        kernel("skew", [(M, IDENTITY), (M, TRANSPOSED)], [M], "%r0 = arith.subf %p0, %p1 : f32"),
        kernel(
            "both",
            [(M, IDENTITY), (M, IDENTITY)],
            [M, M],
            "%r0 = arith.addf %p0, %p1 : f32\n    %r1 = arith.subf %p0, %p1 : f32",
        ),
        kernel("spread", [(V, ROW), (M, IDENTITY)], [M], "%r0 = arith.subf %p1, %p0 : f32"),
        kernel("next_row", [(V, IDENTITY)], [V], "%r0 = arith.addf %p0, %p0 : f32"),
        f"""
func.func private @same(%a: {M}) -> {M} attributes {{kernel}} {{
  func.return %a : {M}
}}
func.func private @twice(%a: {M}) -> ({M}, {M}) attributes {{kernel}} {{
  %e = tensor.empty() : {M}
  %t = linalg.generic {{indexing_maps = [{IDENTITY}, {IDENTITY}], iterator_types = ["parallel", "parallel"]}}
      ins(%a : {M}) outs(%e : {M}) {{
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  }} -> {M}
  func.return %t, %t : {M}, {M}
}}
func.func private @first_row(%a: {M}) -> {V} attributes {{kernel}} {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : {V}
  %f = linalg.fill ins(%zero : f32) outs(%e : {V}) -> {V}
  %t = linalg.generic {{indexing_maps = [{IDENTITY}, {ROW}], iterator_types = ["reduction", "parallel"]}}
      ins(%a : {M}) outs(%f : {V}) {{
  ^bb0(%p: f32, %o: f32):
    %r = arith.addf %p, %o : f32
    linalg.yield %r : f32
  }} -> {V}
  func.return %t : {V}
}}
func.func private @update(%x: {M}, %y: {M}) -> {M} attributes {{kernel}} {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : {M}
  %f = linalg.fill ins(%zero : f32) outs(%e : {M}) -> {M}
  %square = linalg.generic {{indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>,
      affine_map<(d0, d1, d2) -> (d2, d1)>,
      affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%y, %y : {M}, {M}) outs(%f : {M}) {{
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %o, %p : f32
    linalg.yield %r : f32
  }} -> {M}
  %t = linalg.generic {{indexing_maps = [{IDENTITY}, {IDENTITY}, {IDENTITY}, {IDENTITY}],
      iterator_types = ["parallel", "parallel"]}} ins(%x, %square, %y : {M}, {M}, {M}) outs(%e : {M}) {{
  ^bb0(%p: f32, %q: f32, %s: f32, %o: f32):
    %d = arith.subf %p, %q : f32
    %r = arith.addf %d, %s : f32
    linalg.yield %r : f32
  }} -> {M}
  func.return %t : {M}
}}
func.func private @flat(%a: tensor<16xf32>) -> tensor<16xf32> attributes {{kernel}} {{
  %e = tensor.empty() : tensor<16xf32>
  %t = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]}} ins(%a : tensor<16xf32>) outs(%e : tensor<16xf32>) {{
  ^bb0(%p: f32, %o: f32):
    %one = arith.constant 1.0 : f32
    %r = arith.addf %p, %one : f32
    linalg.yield %r : f32
  }} -> tensor<16xf32>
  func.return %t : tensor<16xf32>
}}""",
    ]
)


class ProgramWriter:
    """Writes a random entry function over 4x4 matrices: calls, reshapes, branches and loops, nested."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def pick(self, values: Sequence[str]) -> str:
        # Later values more often, so that chains grow; but any value may be used again.
        return values[max(self.random.randrange(len(values)), self.random.randrange(len(values)))]

    def call(self, name: str, operands: Sequence[str], types: Sequence[str], results: Sequence[str]) -> list[str]:
        names = [self.fresh() for _ in results]
        self.lines.append(
            f"{', '.join(names)} = func.call @{name}({', '.join(operands)}) : "
            f"({', '.join(types)}) -> ({', '.join(results)})"
        )
        return names

    def statement(self, values: list[str], depth: int) -> None:
        choices = [self.write_call] * 8 + [self.write_flat, self.write_row, self.write_constant]
        if depth < 2:
            choices += [self.write_if, self.write_for, self.write_scan, self.write_while]
        self.random.choice(choices)(values, depth)

    def block(self, values: list[str], depth: int) -> list[str]:
        """Statements of a nested block; the values that can be used at its end."""
        inner = list(values)
        for _ in range(self.random.randint(0, 4)):
            self.statement(inner, depth)
        return inner

    def write_call(self, values: list[str], depth: int) -> None:
        name, arity, results = self.random.choice(
            [("double", 1, 1), ("transpose", 1, 1), ("add", 2, 1), ("skew", 2, 1), ("both", 2, 2), ("same", 1, 1),
             ("twice", 1, 2)]
        )  # fmt: skip
        values += self.call(name, [self.pick(values) for _ in range(arity)], [M] * arity, [M] * results)

    def write_flat(self, values: list[str], depth: int) -> None:
        shape, flat, back, square = (self.fresh() for _ in range(4))
        self.lines += [
            f"{shape} = arith.constant dense<[16]> : tensor<1xindex>",
            f"{flat} = tensor.reshape {self.pick(values)}({shape}) : ({M}, tensor<1xindex>) -> tensor<16xf32>",
        ]
        (result,) = self.call("flat", [flat], ["tensor<16xf32>"], ["tensor<16xf32>"])
        self.lines += [
            f"{square} = arith.constant dense<[4, 4]> : tensor<2xindex>",
            f"{back} = tensor.reshape {result}({square}) : (tensor<16xf32>, tensor<2xindex>) -> {M}",
        ]
        values.append(back)

    def write_row(self, values: list[str], depth: int) -> None:
        (row,) = self.call("first_row", [self.pick(values)], [M], [V])
        values += self.call("spread", [row, self.pick(values)], [V, M], [M])

    def write_constant(self, values: list[str], depth: int) -> None:
        name = self.fresh()
        rows = ", ".join("[" + ", ".join(f"{self.random.randint(-4, 4)}.0" for _ in range(4)) + "]" for _ in range(4))
        self.lines.append(f"{name} = arith.constant dense<[{rows}]> : {M}")
        values.append(name)

    def write_if(self, values: list[str], depth: int) -> None:
        names = [self.fresh() for _ in range(self.random.randint(1, 2))]
        predicate, types = self.fresh(), ", ".join(M for _ in names)
        self.lines.append(f"{predicate} = tensor.extract %p[] : tensor<i1>")
        self.lines.append(f"{', '.join(names)} = scf.if {predicate} -> ({types}) {{")
        for keyword in ("} else {", "}"):
            inner = self.block(values, depth + 1)
            self.lines.append(f"scf.yield {', '.join(self.pick(inner) for _ in names)} : {types}")
            self.lines.append(keyword)
        values += names

    def bounds(self) -> str:
        self.lines += [f"{self.fresh()} = arith.constant {n} : index" for n in (0, 4, 1)]
        return f"%v{self.count - 2} to %v{self.count - 1} step %v{self.count}"

    def write_for(self, values: list[str], depth: int) -> None:
        size = self.random.randint(1, 3)
        bounds, index = self.bounds(), self.fresh()
        carried, names = [self.fresh() for _ in range(size)], [self.fresh() for _ in range(size)]
        pairs = ", ".join(f"{c} = {self.pick(values)}" for c in carried)
        types = ", ".join([M] * size)
        self.lines.append(f"{', '.join(names)} = scf.for {index} = {bounds} iter_args({pairs}) -> ({types}) {{")
        inner = self.block([*values, *carried], depth + 1)
        self.lines += [f"scf.yield {', '.join(self.pick(inner) for _ in carried)} : {types}", "}"]
        values += names

    def write_scan(self, values: list[str], depth: int) -> None:
        """A loop that reads a row of one matrix and writes a row of another in each step."""
        source, start = self.pick(values), self.pick(values)
        if self.random.random() < 0.7:
            start = self.fresh()
            self.lines.append(f"{start} = tensor.empty() : {M}")
        bounds = self.bounds()
        index, stacked, row, stepped, inserted, result, state, last = (self.fresh() for _ in range(8))
        self.lines += [
            f"{result}, {last} = scf.for {index} = {bounds} iter_args({stacked} = {start}, "
            f"{state} = {self.pick(values)}) -> ({M}, {M}) {{",
            f"{row} = tensor.extract_slice {source}[{index}, 0] [1, 4] [1, 1] : {M} to {V}",
        ]
        inner = self.block([*values, state], depth + 1)
        self.lines.append(f"{stepped} = func.call @next_row({row}) : ({V}) -> {V}")
        (moved,) = self.call("spread", [row, self.pick(inner)], [V, M], [M])
        inserted_row = self.random.choice([stepped, stepped, row])
        self.lines += [
            f"{inserted} = tensor.insert_slice {inserted_row} into {stacked}[{index}, 0] [1, 4] [1, 1] : {V} into {M}",
            f"scf.yield {inserted}, {self.random.choice([moved, self.pick(inner)])} : {M}, {M}",
            "}",
        ]
        values += [result, last]

    def write_while(self, values: list[str], depth: int) -> None:
        result, index_start, counted = (self.fresh() for _ in range(3))
        before, index, bound, more, passed, kept, following, one = (self.fresh() for _ in range(8))
        self.lines += [
            f"{index_start} = arith.constant 0 : index",
            f"{counted}, {result} = scf.while ({index} = {index_start}, {before} = {self.pick(values)}) : "
            f"(index, {M}) -> (index, {M}) {{",
            f"{bound} = arith.constant 3 : index",
            f"{more} = arith.cmpi slt, {index}, {bound} : index",
        ]
        inner = self.block([*values, before], depth + 1)
        self.lines += [
            f"scf.condition({more}) {index}, {self.pick(inner)} : index, {M}",
            "} do {",
            f"^bb0({passed}: index, {kept}: {M}):",
            f"{one} = arith.constant 1 : index",
            f"{following} = arith.addi {passed}, {one} : index",
        ]
        inner = self.block([*values, kept], depth + 1)
        self.lines += [f"scf.yield {following}, {self.pick(inner)} : index, {M}", "}"]
        values.append(result)

    def program(self, statements: int, *, donate: bool) -> str:
        values = ["%x", "%y"]
        for _ in range(statements):
            self.statement(values, 0)
        outputs = [self.pick(values) for _ in range(self.random.randint(1, 4))]
        attribute = ""
        if donate:
            donors = self.random.sample([0, 1, *([-1] * len(outputs))], len(outputs))
            attribute = f"attributes {{donations = array<i64: {', '.join(map(str, donors))}>}} "
        types = ", ".join(M for _ in outputs)
        body = "\n".join(f"  {line}" for line in self.lines)
        return (
            f"func.func @main(%x: {M}, %y: {M}, %p: tensor<i1>) -> ({types}) {attribute}{{\n{body}\n"
            f"  func.return {', '.join(outputs)} : {types}\n}}\n{kernels_of(body)}"
        )


def kernels_of(body: str) -> str:
    """The kernels that `body` calls."""
    called = set(re.findall(r"func\.call @(\w+)", body))
    kernels = re.finditer(r"^func\.func private @(\w+).*?^}", KERNELS, re.MULTILINE | re.DOTALL)
    return "\n".join(kernel[0] for kernel in kernels if kernel[1] in called)


def parse(text: str) -> ModuleOp:
    correct_xdsl()
    context = Context()
    for name, dialect in get_all_dialects().items():
        context.register_dialect(name, dialect)
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def function(module: ModuleOp, name: str = "main") -> FuncOp:
    return next(op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == name)


def run_buffered(module: ModuleOp, inputs: Sequence[Array]) -> list[Array]:
    """Call the entry; outputs and the arena start as NaN, and a donated input is passed as its output too."""
    main = function(module)
    arguments = [array.copy() for array in inputs]
    donations = main.attributes.get("donations")
    assert isinstance(main.function_type, FunctionType)
    *outputs, arena = main.function_type.inputs.data[len(inputs) :]
    donors = donations.get_values() if isinstance(donations, DenseArrayBase) else [-1] * len(outputs)
    for type_, donor in zip(outputs, donors, strict=True):
        assert isinstance(type_, MemRefType)
        if donor >= 0:
            arguments.append(arguments[donor])
        else:
            dtype = numpy_dtype(type_.element_type)
            arguments.append(np.full(type_.get_shape(), np.nan if dtype.kind == "f" else 0, dtype))
    assert isinstance(arena, MemRefType)
    Interpreter().run(module, "main", [*arguments, np.full(arena.get_shape(), -1, np.int8)])
    return arguments[len(inputs) :]


def check_same_numbers(text: str, inputs: Sequence[Array]) -> tuple[ModuleOp, MemoryPlan]:
    """Bufferize `text` and compare with the tensor program; the module and its plan."""
    module = parse(text)
    expected = Interpreter().run(module, "main", [array.copy() for array in inputs])
    plan = bufferize(module)["main"]
    module.verify()
    check_dominance(module)
    printed = str(module)
    assert "tensor<" not in "".join(line for line in printed.splitlines() if "memref.global" not in line)
    assert not plan.conflicts()
    assert plan.lower_bound <= plan.peak_bytes
    for want, got in zip(expected, run_buffered(module, inputs), strict=True):
        np.testing.assert_array_equal(got, want)
    assert str(parse(printed)) == printed
    return module, plan


def check_upstream(module: ModuleOp) -> None:
    """`mlir-opt-22` accepts the module."""
    if shutil.which("mlir-opt-22") is None:
        pytest.skip("mlir-opt-22 is not installed")
    done = subprocess.run(["mlir-opt-22"], input=str(module), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def matrices() -> list[Array]:
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    return [x, 3 - x.T @ np.eye(4, dtype=np.float32), np.array(True)]


def copies(module: ModuleOp) -> Iterator[CopyOp]:
    return (op for op in function(module).walk() if isinstance(op, CopyOp))


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 12), donate=st.booleans(), predicate=st.booleans())
@settings(max_examples=40)
def test_random_programs(seed: int, size: int, donate: bool, predicate: bool) -> None:
    x, y, _ = matrices()
    text = ProgramWriter(seed).program(size, donate=donate)
    module, plan = check_same_numbers(text, [x, y, np.array(predicate)])
    report = memory_report(module)
    assert not report.conflicts()
    assert (report.peak_bytes, len(report.buffers)) <= (plan.peak_bytes, len(plan.buffers))


def entry(signature: str, body: str) -> str:
    return f"func.func @main{signature} {{\n{body}\n}}\n{kernels_of(body)}"


def test_chain_needs_no_temporary() -> None:
    """Elementwise kernels write over their operands, so all of it happens in the output."""
    body = f"""
  %0 = func.call @double(%x) : ({M}) -> {M}
  %1 = func.call @double(%0) : ({M}) -> {M}
  %2 = func.call @add(%1, %x) : ({M}, {M}) -> {M}
  func.return %2 : {M}"""
    module, plan = check_same_numbers(entry(f"(%x: {M}) -> {M}", body), matrices()[:1])
    assert plan.peak_bytes == 0
    assert not list(copies(module))
    check_upstream(module)


def test_transpose_does_not_write_over_its_operand() -> None:
    body = f"""
  %0 = func.call @transpose(%x) : ({M}) -> {M}
  %1 = func.call @transpose(%0) : ({M}) -> {M}
  func.return %1 : {M}"""
    _, plan = check_same_numbers(entry(f"(%x: {M}) -> {M}", body), matrices()[:1])
    assert plan.peak_bytes == plan.lower_bound == 64


def test_operand_read_in_two_ways_is_not_written_over() -> None:
    """skew(%0, %0) reads %0 both in place and transposed."""
    body = f"""
  %0 = func.call @double(%x) : ({M}) -> {M}
  %1 = func.call @skew(%0, %0) : ({M}, {M}) -> {M}
  func.return %1 : {M}"""
    _, plan = check_same_numbers(entry(f"(%x: {M}) -> {M}", body), matrices()[:1])
    assert plan.peak_bytes == 64


def test_returned_inputs_constants_and_repeats_are_copied() -> None:
    body = f"""
  %c = arith.constant dense<2.0> : {M}
  %0 = func.call @double(%x) : ({M}) -> {M}
  func.return %x, %c, %0, %0 : {M}, {M}, {M}, {M}"""
    module, plan = check_same_numbers(entry(f"(%x: {M}) -> ({M}, {M}, {M}, {M})", body), matrices()[:1])
    assert len(list(copies(module))) == 3
    assert plan.peak_bytes == 0
    check_upstream(module)


def test_reshape_of_a_result_is_written_straight_into_the_output() -> None:
    body = f"""
  %0 = func.call @double(%x) : ({M}) -> {M}
  %s = arith.constant dense<[2, 8]> : tensor<2xindex>
  %1 = tensor.reshape %0(%s) : ({M}, tensor<2xindex>) -> tensor<2x8xf32>
  %2 = tensor.collapse_shape %1 [[0, 1]] : tensor<2x8xf32> into tensor<16xf32>
  func.return %2 : tensor<16xf32>"""
    module, plan = check_same_numbers(entry(f"(%x: {M}) -> tensor<16xf32>", body), matrices()[:1])
    assert not list(copies(module))
    assert plan.peak_bytes == 0
    check_upstream(module)


def test_scalar_reshapes() -> None:
    body = """
  %s = arith.constant dense<> : tensor<0xindex>
  %0 = tensor.reshape %x(%s) : (tensor<1xf32>, tensor<0xindex>) -> tensor<f32>
  func.return %0 : tensor<f32>"""
    module, _ = check_same_numbers(entry("(%x: tensor<1xf32>) -> tensor<f32>", body), [np.ones(1, np.float32)])
    check_upstream(module)


def test_swapped_carried_values_go_through_a_temporary() -> None:
    body = f"""
  %lower = arith.constant 0 : index
  %upper = arith.constant 3 : index
  %step = arith.constant 1 : index
  %a, %b = scf.for %i = %lower to %upper step %step iter_args(%p = %x, %q = %y) -> ({M}, {M}) {{
    scf.yield %q, %p : {M}, {M}
  }}
  func.return %a, %b : {M}, {M}"""
    module, plan = check_same_numbers(entry(f"(%x: {M}, %y: {M}) -> ({M}, {M})", body), matrices()[:2])
    assert plan.peak_bytes == 64
    assert len(list(copies(module))) == 2 + 3
    check_upstream(module)


SCAN = f"""
  %lower = arith.constant 0 : index
  %upper = arith.constant 4 : index
  %step = arith.constant 1 : index
  %none = tensor.empty() : {M}
  %rows = scf.for %i = %lower to %upper step %step iter_args(%to = %none) -> ({M}) {{
    %row = tensor.extract_slice %from[%i, 0] [1, 4] [1, 1] : {M} to {V}
    %next = func.call @next_row(%row) : ({V}) -> {V}
    %with = tensor.insert_slice %next into %to[%i, 0] [1, 4] [1, 1] : {V} into {M}
    scf.yield %with : {M}
  }}"""


def test_slices_of_the_arena_are_views() -> None:
    body = f"  %from = func.call @transpose(%x) : ({M}) -> {M}{SCAN}"
    body += f"\n  %0 = func.call @transpose(%rows) : ({M}) -> {M}\n  func.return %0 : {M}"
    module, plan = check_same_numbers(entry(f"(%x: {M}) -> {M}", body), matrices()[:1])
    assert not list(copies(module))
    assert plan.peak_bytes == 128
    assert (memory_report(module).peak_bytes, memory_report(module).lower_bound) == (128, 128)
    check_upstream(module)


def test_slices_of_arguments_are_read_and_written_in_place() -> None:
    body = SCAN.replace("%from", "%x") + f"\n  func.return %rows : {M}"
    module, plan = check_same_numbers(entry(f"(%x: {M}) -> {M}", body), matrices()[:1])
    assert not list(copies(module))
    assert plan.peak_bytes == 0
    check_upstream(module)


def test_slice_that_drops_a_dimension() -> None:
    body = f"""
  %i = arith.constant 2 : index
  %row = tensor.extract_slice %x[%i, 0] [1, 4] [1, 1] : {M} to tensor<4xf32>
  %element = tensor.extract_slice %x[%i, 1] [1, 1] [1, 1] : {M} to tensor<f32>
  %column = tensor.extract_slice %x[0, %i] [4, 1] [1, 1] : {M} to tensor<4xf32>
  func.return %row, %element, %column : tensor<4xf32>, tensor<f32>, tensor<4xf32>"""
    results = "(tensor<4xf32>, tensor<f32>, tensor<4xf32>)"
    module, _ = check_same_numbers(entry(f"(%x: {M}) -> {results}", body), matrices()[:1])
    check_upstream(module)


def loop_over_rows(steps: str) -> str:
    """A loop that carries a matrix of the arena, %to, through `steps`, which update it to %with."""
    return entry(
        f"(%x: {M}) -> {M}",
        f"""
  %lower = arith.constant 0 : index
  %upper = arith.constant 4 : index
  %step = arith.constant 1 : index
  %start = func.call @transpose(%x) : ({M}) -> {M}
  %rows = scf.for %i = %lower to %upper step %step iter_args(%to = %start) -> ({M}) {{
    %row = tensor.extract_slice %to[%i, 0] [1, 4] [1, 1] : {M} to {V}
    %next = func.call @next_row(%row) : ({V}) -> {V}
{steps}
    scf.yield %with : {M}
  }}
  %0 = func.call @transpose(%rows) : ({M}) -> {M}
  func.return %0 : {M}""",
    )


INSERT = f"    {{}} = tensor.insert_slice {{}} into {{}}[%i, 0] [1, 4] [1, 1] : {V} into {M}\n"
SPREAD = f"    {{}} = func.call @spread({{}}, {{}}) : ({V}, {M}) -> {M}\n"


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(
            INSERT.format("%1", "%next", "%to") + SPREAD.format("%with", "%row", "%1"),
            id="the slice is read after the row it was taken from is replaced",
        ),
        pytest.param(
            f"    %1 = func.call @first_row(%to) : ({M}) -> {V}\n"
            + INSERT.format("%2", "%next", "%to")
            + SPREAD.format("%with", "%1", "%2"),
            id="the destination is read between the call and the insertion",
        ),
        pytest.param(
            f"    %1 = func.call @first_row(%x) : ({M}) -> {V}\n"
            + INSERT.format("%2", "%1", "%to")
            + INSERT.format("%3", "%next", "%2")
            + SPREAD.format("%with", "%1", "%3"),
            id="the inserted row is read after it is replaced",
        ),
        pytest.param(
            INSERT.format("%1", "%next", "%to") + INSERT.format("%with", "%row", "%1"),
            id="the slice is put back",
        ),
        pytest.param(
            f"    %1 = func.call @first_row(%x) : ({M}) -> {V}\n    %j = arith.subi %upper, %i : index\n"
            "    %k = arith.subi %j, %step : index\n"
            f"    %with = tensor.insert_slice %1 into %to[%k, 0] [1, 4] [1, 1] : {V} into {M}\n",
            id="the offset is computed after the row",
        ),
        pytest.param(
            f"    %1 = func.call @first_row(%x) : ({M}) -> {V}\n"
            + INSERT.format("%2", "%1", "%to")
            + f"    %with = func.call @skew(%2, %to) : ({M}, {M}) -> {M}\n",
            id="the matrix is read after a row of a copy of it is replaced",
        ),
        pytest.param(
            f"    %1 = func.call @first_row(%x) : ({M}) -> {V}\n    %c = arith.cmpi slt, %i, %step : index\n"
            f"    %with = scf.if %c -> ({M}) {{\n"
            + INSERT.format("%2", "%1", "%to")
            + f"      scf.yield %2 : {M}\n    }} else {{\n      scf.yield %to : {M}\n    }}\n",
            id="the row is inserted in one branch only",
        ),
        pytest.param(
            f"    %1 = tensor.extract_slice %start[0, %i] [4, 1] [1, 1] : {M} to tensor<4x1xf32>\n"
            "    %shape = arith.constant dense<[1, 4]> : tensor<2xindex>\n"
            f"    %2 = tensor.reshape %1(%shape) : (tensor<4x1xf32>, tensor<2xindex>) -> {V}\n"
            + SPREAD.format("%with", "%2", "%to"),
            id="a column is copied together",
        ),
    ],
)
def test_views_of_a_matrix_that_changes(steps: str) -> None:
    module, _ = check_same_numbers(loop_over_rows(steps), matrices()[:1])
    check_upstream(module)


def test_slice_that_is_carried_is_copied() -> None:
    body = f"""
  %lower = arith.constant 0 : index
  %upper = arith.constant 4 : index
  %step = arith.constant 1 : index
  %start = func.call @transpose(%x) : ({M}) -> {M}
  %first = func.call @first_row(%x) : ({M}) -> {V}
  %row, %last = scf.for %i = %lower to %upper step %step iter_args(%before = %first, %m = %x) -> ({V}, {M}) {{
    %next = func.call @spread(%before, %m) : ({V}, {M}) -> {M}
    %now = tensor.extract_slice %start[%i, 0] [1, 4] [1, 1] : {M} to {V}
    scf.yield %now, %next : {V}, {M}
  }}
  %0 = func.call @spread(%row, %last) : ({V}, {M}) -> {M}
  func.return %0 : {M}"""
    check_same_numbers(entry(f"(%x: {M}) -> {M}", body), matrices()[:1])


def test_branch_writes_into_the_output() -> None:
    body = f"""
  %c = tensor.extract %p[] : tensor<i1>
  %0 = scf.if %c -> ({M}) {{
    %1 = func.call @double(%x) : ({M}) -> {M}
    scf.yield %1 : {M}
  }} else {{
    %2 = func.call @transpose(%x) : ({M}) -> {M}
    scf.yield %2 : {M}
  }}
  func.return %0 : {M}"""
    x, _, predicate = matrices()
    module, plan = check_same_numbers(entry(f"(%x: {M}, %p: tensor<i1>) -> {M}", body), [x, predicate])
    assert plan.peak_bytes == 0
    assert not list(copies(module))
    check_upstream(module)


DONATED = f"""
  %0 = func.call @double(%x) : ({M}) -> {M}
  func.return %0 : {M}"""
KEPT = f"""
  %0 = func.call @double(%x) : ({M}) -> {M}
  %1 = func.call @skew(%0, %x) : ({M}, {M}) -> {M}
  func.return %1 : {M}"""
EARLY = f"""
  %0 = func.call @double(%x) : ({M}) -> {M}
  %1 = func.call @transpose(%x) : ({M}) -> {M}
  func.return %0, %1 : {M}, {M}"""
SWAPPED = f"  func.return %y, %x : {M}, {M}"
UPDATED = f"""
  %0 = func.call @update(%x, %y) : ({M}, {M}) -> {M}
  func.return %0 : {M}"""


@pytest.mark.parametrize(
    ("body", "results", "donations", "peak"),
    [
        pytest.param(DONATED, 1, "0", 0, id="elementwise kernel writes over the donated input"),
        pytest.param(KEPT, 1, "0", 64, id="input is read transposed when the result is written"),
        pytest.param(EARLY, 2, "0, -1", 64, id="input is still read after the result is known"),
        pytest.param(SWAPPED, 2, "0, 1", 64, id="outputs swap the donated inputs"),
        pytest.param(UPDATED, 1, "0", 0, id="last statement of a kernel writes over what it alone reads"),
        pytest.param(UPDATED, 1, "1", 64, id="an earlier statement reads what the last one would write over"),
    ],
)
def test_donation(body: str, results: int, donations: str, peak: int) -> None:
    types = ", ".join([M] * results)
    text = entry(f"(%x: {M}, %y: {M}) -> ({types}) attributes {{donations = array<i64: {donations}>}}", body)
    module, plan = check_same_numbers(text, matrices()[:2])
    assert plan.peak_bytes == peak
    check_upstream(module)


SCATTER = """
func.func @main(%x: tensor<4xf32>, %at: tensor<3xi64>, %updates: tensor<3xf32>) -> tensor<4xf32> {
  %0 = func.call @scatter(%x, %at, %updates) : (tensor<4xf32>, tensor<3xi64>, tensor<3xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
func.func private @scatter(%x: tensor<4xf32>, %at: tensor<3xi64>, %updates: tensor<3xf32>) -> tensor<4xf32>
    attributes {kernel} {
  %lower = arith.constant 0 : index
  %upper = arith.constant 3 : index
  %step = arith.constant 1 : index
  %result = scf.for %i = %lower to %upper step %step iter_args(%to = %x) -> (tensor<4xf32>) {
    %number = tensor.extract %at[%i] : tensor<3xi64>
    %index = arith.index_cast %number : i64 to index
    %old = tensor.extract %to[%index] : tensor<4xf32>
    %update = tensor.extract %updates[%i] : tensor<3xf32>
    %new = arith.addf %old, %update : f32
    %with = tensor.insert %new into %to[%index] : tensor<4xf32>
    scf.yield %with : tensor<4xf32>
  }
  func.return %result : tensor<4xf32>
}"""


def test_scatter_updates_a_copy_in_place() -> None:
    inputs = [np.arange(4, dtype=np.float32), np.array([1, 3, 1]), np.array([10, 20, 30], np.float32)]
    module, _ = check_same_numbers(SCATTER, inputs)
    assert not any(isinstance(op, CopyOp) for op in function(module, "scatter").walk())
    assert sum(isinstance(op, CopyOp) for op in function(module, "main").walk()) == 1
    check_upstream(module)


def test_accumulation_into_an_argument_keeps_the_argument() -> None:
    text = f"""
func.func @main(%x: {M}, %v: {V}) -> ({V}, {V}) {{
  %0 = func.call @accumulate(%x, %v) : ({M}, {V}) -> {V}
  func.return %0, %v : {V}, {V}
}}
func.func private @accumulate(%x: {M}, %v: {V}) -> {V} attributes {{kernel}} {{
  %0 = linalg.generic {{indexing_maps = [{IDENTITY}, {ROW}], iterator_types = ["reduction", "parallel"]}}
      ins(%x : {M}) outs(%v : {V}) {{
  ^bb0(%p: f32, %o: f32):
    %r = arith.addf %p, %o : f32
    linalg.yield %r : f32
  }} -> {V}
  func.return %0 : {V}
}}"""
    check_same_numbers(text, [matrices()[0], np.ones((1, 4), np.float32)])


def test_random_program_is_accepted_upstream() -> None:
    module = parse(ProgramWriter(7).program(40, donate=False))
    bufferize(module)
    check_upstream(module)


def test_constants_are_globals_with_names_of_their_own() -> None:
    body = f"""
  %c = arith.constant dense<2.0> : {M}
  %unused = arith.constant dense<3.0> : {M}
  %0 = func.call @double(%c) : ({M}) -> {M}
  func.return %0 : {M}"""
    text = entry(f"(%x: {M}) -> {M}", body).replace("@double", "@constant_0")
    module, _ = check_same_numbers(text, matrices()[:1])
    assert str(module).count("memref.global") == 1
    assert "@constant_1" in str(module)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"func.func @main(%x: {M}) -> {M} {{\n  %0 = func.call @other(%x) : ({M}) -> {M}\n  func.return %0 : {M}\n"
            f"}}\nfunc.func private @other({M}) -> {M}",
            "bufferize: @main calls @other, which is not a kernel of this module",
        ),
        (
            "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {\n  func.return %x : tensor<?xf32>\n}",
            r"bufferize: @main has tensor<\?xf32> in its signature, which is not a static tensor",
        ),
        (
            f"func.func @main(%x: {M}) -> {M} attributes {{donations = array<i64: 3>}} {{\n  func.return %x : {M}\n}}",
            r"bufferize: donations \[3\] of @main do not name distinct inputs",
        ),
        (
            f"func.func @main(%x: {M}) -> {V} attributes {{donations = array<i64: 0>}} {{\n"
            f"  %0 = tensor.extract_slice %x[0, 0] [1, 4] [1, 1] : {M} to {V}\n  func.return %0 : {V}\n}}",
            "bufferize: @main cannot be given input 0 of type memref<4x4xf32> for an output memref<1x4xf32>",
        ),
        (
            f"func.func @main(%x: {M}) -> {V} {{\n"
            f"  %0 = tensor.extract_slice %x[0, 0] [1, 4] [1, 2] : {M} to {V}\n  func.return %0 : {V}\n}}",
            "tensor.extract_slice: sizes .* must be static and strides .* must be 1",
        ),
        (
            f"func.func @main(%x: {M}) -> {V} {{\n"
            f"  %0 = tensor.extract_slice %x[0, 3] [1, 4] [1, 1] : {M} to {V}\n  func.return %0 : {V}\n}}",
            r"tensor.extract_slice: 3 to 6 along axis 1 is outside of tensor<4x4xf32>",
        ),
        (
            f"func.func @main(%x: {M}) -> {M} {{\n  %i = arith.constant 4 : index\n"
            f"  %0 = tensor.extract %x[%i, %i] : {M}\n  func.return %x : {M}\n}}",
            r"tensor.extract: 4 along axis 0 is outside of tensor<4x4xf32>",
        ),
        (
            f"func.func @main(%x: {M}) -> {M} {{\n  %0 = tensor.cast %x : {M} to {M}\n  func.return %0 : {M}\n}}",
            "bufferize: tensor.cast on tensors in @main is not structured IR",
        ),
        (
            """func.func private @k(%x: tensor<9xf32>, %o: tensor<9xf32>) attributes {kernel} {
              linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
                              iterator_types = ["parallel"]} ins(%x : tensor<9xf32>) outs(%o : tensor<9xf32>) {
              ^bb0(%a: f32, %b: f32):
                linalg.yield %a : f32
              }
              func.return
            }""",
            "bufferize: linalg.generic has 0 results, expected 1, one for each tensor in outs",
        ),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(PassFailedException, match=message):
        bufferize(parse(text))


def test_types_without_a_size_in_memory() -> None:
    text = f"""
func.func @main(%x: {M}) -> {M} {{
  %0 = func.call @double(%x) : ({M}) -> {M}
  %1 = func.call @double(%0) : ({M}) -> {M}
  func.return %1 : {M}
}}
{kernel("double", [(M, IDENTITY)], [M], "%r0 = arith.addf %p0, %p0 : f32")}"""
    with pytest.raises(ValueError, match="an element has no size in memory: dtype f80 is not one of f16"):
        bufferize(parse(text.replace("f32", "f80")))


LIFETIMES = st.builds(
    lambda bytes_, first, length: Lifetime("b", bytes_, first, first + length),
    st.integers(0, 5000),
    st.integers(0, 60),
    st.integers(0, 20),
)


@given(st.lists(LIFETIMES, max_size=40))
def test_plan_keeps_live_buffers_apart(lifetimes: list[Lifetime]) -> None:
    plan = plan_memory(lifetimes)
    assert not plan.conflicts()
    assert all(buffer.offset % 64 == 0 for buffer in plan.buffers)
    most = max((sum(b.bytes for b in lifetimes if b.first <= t <= b.last) for t in range(90)), default=0)
    assert plan.lower_bound == most <= plan.peak_bytes <= sum(b.bytes + 63 for b in lifetimes)


def test_plan_reuses_the_smallest_gap() -> None:
    plan = plan_memory([Lifetime("a", 128, 0, 9), Lifetime("b", 64, 0, 4), Lifetime("c", 64, 5, 9)])
    assert [buffer.offset for buffer in plan.buffers] == [0, 128, 128]
    assert plan.peak_bytes == plan.lower_bound == 192
    assert str(plan).splitlines()[-1] == "peak 192 bytes, lower bound 192 bytes"


def test_report_finds_an_overlap() -> None:
    """Two buffers at one place, both needed by the last call."""
    module = parse("""
func.func private @k(%a: memref<4xf32>, %b: memref<4xf32>) attributes {kernel, num_inputs = 1 : i64} {
  func.return
}
func.func @main(%x: memref<4xf32>, %arena: memref<16xi8>) attributes {num_inputs = 1 : i64} {
  %0 = arith.constant 0 : index
  %1 = arith.constant 0 : index
  %a = memref.view %arena[%0][] : memref<16xi8> to memref<4xf32>
  %b = memref.view %arena[%1][] : memref<16xi8> to memref<4xf32>
  func.call @k(%x, %a) : (memref<4xf32>, memref<4xf32>) -> ()
  func.call @k(%a, %b) : (memref<4xf32>, memref<4xf32>) -> ()
  func.call @k(%b, %x) : (memref<4xf32>, memref<4xf32>) -> ()
  func.return
}""")
    report = memory_report(module)
    assert [(left.name, right.name) for left, right in report.conflicts()] == [("a", "b")]
    assert (report.peak_bytes, report.lower_bound) == (16, 32)


def test_buffers_of_equal_named_sizes_take_turns_in_the_arena() -> None:
    n, m = tenon.dim("n"), tenon.dim("m")

    def chain(x: Any, w: Any, y: Any) -> Any:
        for _ in range(4):
            x = tenon.cumsum(x @ w, axis=1)
        return x @ y, (w @ w).sum()

    function = tenon.jit(chain)
    shapes = [tenon.ShapeDtype(shape) for shape in ((n, 8), (8, 8), (8, m))]
    module = function.trace(*shapes).module
    for stage in stages(LoweringOptions())[:2]:
        run_passes(new_context(), module, stage.passes)
    plan = bufferize(module)["main"]
    assert plan.peak_bytes == 2 * (-(-32 * n // 64) * 64) + 256
    for number in (0, 1, 5, 64):
        values = {"n": number, "m": 3}
        placed = [replace(b, bytes=replaced(b.bytes, values), offset=replaced(b.offset, values)) for b in plan.buffers]
        assert not MemoryPlan(tuple(placed), 0, 0).conflicts()
        assert all(b.offset % 64 == 0 for b in placed)
        assert max(b.offset + b.bytes for b in placed) <= replaced(plan.peak_bytes, values)


CONSTANT_IN_A_KERNEL = """
builtin.module {
  func.func private @kernel_0(%x: tensor<4xf32>) -> tensor<4xf32> attributes {kernel} {
    %c = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
    %e = tensor.empty() : tensor<4xf32>
    %t = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]} ins(%x, %c : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %s = arith.addf %a, %b : f32
      linalg.yield %s : f32
    } -> tensor<4xf32>
    func.return %t : tensor<4xf32>
  }
  func.func private @kernel_1(%x: tensor<4xf32>) -> tensor<4xf32> attributes {kernel} {
    %e = tensor.empty() : tensor<4xf32>
    %t = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
    ^bb0(%a: f32, %o: f32):
      %s = arith.mulf %a, %a : f32
      linalg.yield %s : f32
    } -> tensor<4xf32>
    func.return %t : tensor<4xf32>
  }
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = func.call @kernel_0(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %z = func.call @kernel_1(%y) : (tensor<4xf32>) -> tensor<4xf32>
    func.return %z : tensor<4xf32>
  }
}
"""


@pytest.mark.parametrize("verify", [False, True])
def test_kernels_are_bufferized_as_they_are_asked_for(verify):
    def on_buffers() -> dict[str, bool]:
        functions = [op for op in module.ops if isinstance(op, FuncOp)]
        return {f.sym_name.data: all(isinstance(t, MemRefType) for t in f.function_type.inputs) for f in functions}

    module, whole = parse(CONSTANT_IN_A_KERNEL), parse(CONSTANT_IN_A_KERNEL)
    functions = lower_by_function(new_context(), module, options("cpu"), verify=verify)
    # a constant is a variable of the module, which is known as soon as its functions come one by one
    assert on_buffers() == {"kernel_0": True, "kernel_1": verify, "main": True}
    assert any(isinstance(op, GlobalOp) for op in module.ops)
    for _ in functions:
        pass
    assert all(on_buffers().values())
    assert str(module) == str(lower(new_context(), whole, options("cpu")))
