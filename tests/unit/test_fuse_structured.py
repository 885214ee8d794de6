"""`fuse-structured` keeps every number, and fuses what its rules say."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects import get_all_dialects, math
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg.ops import FillOp, GenericOp, IndexOp
from xdsl.parser import Parser

from tenon.dialects.interpreter.interpreter import Interpreter
from tenon.dialects.upstream.xdsl_corrections import correct_xdsl
from tenon.passes.dominance import check_dominance
from tenon.passes.fuse.fuse_structured import FuseStructuredPass

Shape = tuple[int, ...]
EXTENTS = {"i": 4, "j": 3, "k": 5}


def tensor(shape: Shape) -> str:
    return f"tensor<{'x'.join([*map(str, shape), 'f32'])}>"


def indexing_map(loops: str, indices: Sequence[str]) -> str:
    return f"affine_map<({', '.join(loops)}) -> ({', '.join(indices)})>"


class KernelWriter:
    """Writes a random kernel: elementwise generics, reductions, contractions and windows over small tensors."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0
        self.values: list[tuple[str, Shape]] = [
            ("%x", (4, 3)), ("%y", (3, 4)), ("%v", (3,)), ("%w", (4,)), ("%s", ()), ("%m", (3, 5)), ("%u", (1, 3)),
        ]  # fmt: skip

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def readable(self, loops: str) -> list[tuple[str, Shape, list[str]]]:
        """The values that can be read in these loops, and the indices to read them at."""
        found: list[tuple[str, Shape, list[str]]] = []
        for name, shape in self.values:
            by_size = {EXTENTS[loop]: loop for loop in loops}
            if all(size == 1 or size in by_size for size in shape):
                found.append((name, shape, ["0" if size == 1 else by_size[size] for size in shape]))
        # Later values more often, so that chains grow.
        return found[-6:] if self.random.random() < 0.7 else found

    def generic(
        self,
        loops: str,
        reduced: str,
        inputs: Sequence[tuple[str, Shape, Sequence[str]]],
        outputs: Sequence[tuple[str, Sequence[str]]],
        body: Sequence[str],
        yielded: Sequence[str],
    ) -> None:
        shapes = [tuple(EXTENTS[index] for index in indices) for _, indices in outputs]
        results = [self.fresh() for _ in outputs]
        maps = [indexing_map(loops, indices) for _, _, indices in inputs]
        maps += [indexing_map(loops, indices) for _, indices in outputs]
        kinds = ", ".join('"reduction"' if loop in reduced else '"parallel"' for loop in loops)
        names = ", ".join(f"%p{n}: f32" for n in range(len(inputs)))
        types = ", ".join(tensor(shape) for shape in shapes)
        ins = f"ins({', '.join(i[0] for i in inputs)} : {', '.join(tensor(i[1]) for i in inputs)})" if inputs else ""
        self.lines += [
            f"{', '.join(results)} = linalg.generic {{indexing_maps = [{', '.join(maps)}],",
            f"    iterator_types = [{kinds}]}} {ins} outs({', '.join(o for o, _ in outputs)} : {types}) {{",
            f"^bb0({', '.join(filter(None, [names, *(f'%o{n}: f32' for n in range(len(outputs)))]))}):",
            *body,
            f"linalg.yield {', '.join(yielded)} : {', '.join('f32' for _ in yielded)}",
            f"}} -> ({types})",
        ]
        self.values += zip(results, shapes, strict=True)

    def destination(self, shape: Shape, fill: bool) -> str:
        empty = self.fresh()
        self.lines.append(f"{empty} = tensor.empty() : {tensor(shape)}")
        if not fill:
            return empty
        filled = self.fresh()
        self.lines.append(f"{filled} = linalg.fill ins(%zero : f32) outs({empty} : {tensor(shape)}) -> {tensor(shape)}")
        return filled

    def elementwise(self) -> None:
        loops = self.random.choice(["ij", "ij", "ij", "ji", "j", "i", ""])
        known = self.readable(loops)
        inputs = [self.random.choice(known) for _ in range(min(len(known), self.random.randint(0, 3)))]
        body, scalars = list[str](), [f"%p{n}" for n in range(len(inputs))]
        for _ in range(self.random.randint(1, 3)):
            a, b, r = self.scalar(scalars, body), self.scalar(scalars, body), self.fresh()
            choice = self.random.random()
            if choice < 0.5:
                body.append(f"{r} = arith.{self.random.choice(['addf', 'subf', 'maximumf'])} {a}, {b} : f32")
            elif choice < 0.65:
                body.append(f"{r} = math.tanh {a} : f32")
            elif choice < 0.8 and loops:
                index, number = self.fresh(), self.fresh()
                dim = self.random.randrange(len(loops))
                body += [
                    f"{index} = linalg.index {dim} : index",
                    f"{number} = arith.index_cast {index} : index to i64",
                    f"{r} = arith.sitofp {number} : i64 to f32",
                ]
            elif choice < 0.9 and "j" in loops:
                index = self.fresh()
                source = self.random.choice([name for name, shape in self.values if shape == (3,)])
                body += [
                    f"{index} = linalg.index {loops.index('j')} : index",
                    f"{r} = tensor.extract {source}[{index}] : tensor<3xf32>",
                ]
            else:
                body.append(f"{r} = arith.divf {a}, {self.constant(body)} : f32")
            scalars.append(r)
        # The output may be laid out the other way round.
        out = loops[::-1] if self.random.random() < 0.2 else loops
        count = self.random.choice([1, 1, 1, 2])
        shape = tuple(EXTENTS[loop] for loop in out)
        outputs = [(self.destination(shape, fill=False), list(out)) for _ in range(count)]
        self.generic(loops, "", inputs, outputs, body, [scalars[-1], self.scalar(scalars, body)][:count])

    def scalar(self, scalars: list[str], body: list[str]) -> str:
        return self.random.choice(scalars) if scalars else self.constant(body)

    def constant(self, body: list[str]) -> str:
        name = self.fresh()
        body.append(f"{name} = arith.constant {self.random.choice(['2.0', '4.0'])} : f32")
        return name

    def filled(self) -> None:
        name = self.destination((4, 3), fill=True)
        self.values.append((name, (4, 3)))

    def reduction(self) -> None:
        loops, reduced = self.random.choice([("ij", "j"), ("ij", "i"), ("ji", "i"), ("ijk", "j"), ("ij", "ij")])
        known = self.readable(loops)
        whole = [value for value in known if set(value[2]) >= set(reduced)]
        if not whole or set("".join("".join(v[2]) for v in whole)) < set(reduced):
            return
        inputs = [self.random.choice(whole), self.random.choice(known)]
        kept = [loop for loop in loops if loop not in reduced]
        told = set(kept).union(*(set(value[2]) for value in inputs))
        if not set(loops) <= told:
            return
        shape = tuple(EXTENTS[loop] for loop in kept)
        output = self.destination(shape, fill=True)
        body = ["%t = arith.mulf %p0, %p1 : f32", "%r = arith.addf %o0, %t : f32"]
        self.generic(loops, reduced, inputs, [(output, kept)], body, ["%r"])

    def window(self) -> None:
        """The sums of neighbouring entries; an operand that is not read tells the size of the window."""
        sources = [name for name, shape in self.values if shape == (4,)]
        window, empty, result = self.fresh(), self.destination((3,), fill=True), self.fresh()
        maps = ", ".join(f"affine_map<(a, b) -> ({m})>" for m in ("a + b", "b", "a"))
        self.lines += [
            f"{window} = tensor.empty() : tensor<2xf32>",
            f'{result} = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "reduction"]}}',
            f"    ins({self.random.choice(sources)}, {window} : tensor<4xf32>, tensor<2xf32>)",
            f"    outs({empty} : tensor<3xf32>) {{",
            "^bb0(%p0: f32, %p1: f32, %o0: f32):",
            "%r = arith.addf %p0, %o0 : f32",
            "linalg.yield %r : f32",
            "} -> tensor<3xf32>",
        ]
        self.values.append((result, (3,)))

    def program(self, size: int) -> str:
        steps = [self.elementwise] * 6 + [self.reduction] * 2 + [self.window, self.filled]
        for _ in range(size):
            self.random.choice(steps)()
        returned = self.random.sample(self.values, min(len(self.values), self.random.randint(1, 3)))
        returned[0] = self.values[-1]
        types = ", ".join(tensor(shape) for _, shape in returned)
        inputs = ", ".join(f"{name}: {tensor(shape)}" for name, shape in KernelWriter(0).values)
        body = "\n".join(self.lines)
        return (
            f"func.func private @kernel({inputs}) -> ({types}) attributes {{kernel}} {{\n"
            f"%zero = arith.constant 0.0 : f32\n"
            f"{body}\nfunc.return {', '.join(name for name, _ in returned)} : {types}\n}}"
        )


def parse(text: str) -> ModuleOp:
    correct_xdsl()
    context = Context()
    for name, dialect in get_all_dialects().items():
        context.register_dialect(name, dialect)
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def arguments() -> list[np.ndarray[Any, Any]]:
    generator = np.random.default_rng(0)
    shapes = [shape for _, shape in KernelWriter(0).values]
    return [generator.integers(-2, 3, shape).astype(np.float32) for shape in shapes]


def fuse(text: str) -> ModuleOp:
    module = parse(text)
    FuseStructuredPass().apply(Context(), module)
    module.verify()
    check_dominance(module)
    return module


def count(module: ModuleOp, *op_types: type) -> int:
    return sum(isinstance(op, op_types) for op in module.walk())


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 14))
@example(seed=3_151_794_200, size=10)  # one that is gone reads at computed indices what another then drops
@settings(max_examples=60)
def test_random_kernels_keep_their_numbers(seed: int, size: int) -> None:
    text = KernelWriter(seed).program(size)
    before, after = parse(text), fuse(text)
    expected = Interpreter().run(before, "kernel", arguments())
    for want, got in zip(expected, Interpreter().run(after, "kernel", arguments()), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert count(after, GenericOp) <= count(before, GenericOp)
    assert count(after, math.TanhOp) <= count(before, math.TanhOp), "an expensive body was duplicated"


def generic(
    result: str, inputs: Sequence[tuple[str, str, str]], output: tuple[str, str, str], kinds: str, body: str, loops: str
) -> str:
    """`inputs` and `output` are (value, shape, indices); the body names elements %p0, ... and %o, and its result %r."""
    maps = ", ".join(f"affine_map<({loops}) -> ({indices})>" for _, _, indices in [*inputs, output])
    iterators = ", ".join('"reduction"' if kind == "r" else '"parallel"' for kind in kinds)
    names = ", ".join(value for value, _, _ in inputs)
    types = ", ".join(f"tensor<{shape}>" for _, shape, _ in inputs)
    elements = "".join(f"%p{n}: f32, " for n in range(len(inputs)))
    return f"""
  {result} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}}
      ins({names} : {types}) outs({output[0]} : tensor<{output[1]}>) {{
  ^bb0({elements}%o: f32):
    {body}
    linalg.yield %r : f32
  }} -> tensor<{output[1]}>"""


def kernel(arguments: str, results: str, body: str, returned: str) -> str:
    return f"""
func.func private @kernel({arguments}) -> ({results}) attributes {{kernel}} {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x3xf32>
  %row = tensor.empty() : tensor<4xf32>
  %sum = linalg.fill ins(%zero : f32) outs(%row : tensor<4xf32>) -> tensor<4xf32>
  %square = tensor.empty() : tensor<4x4xf32>
  %product = linalg.fill ins(%zero : f32) outs(%square : tensor<4x4xf32>) -> tensor<4x4xf32>{body}
  func.return {returned} : {results}
}}"""


M = "4x3xf32"
TM = f"tensor<{M}>"
EXP, ADD, TWICE = "%r = math.exp %p0 : f32", "%r = arith.addf %p0, %p1 : f32", "%r = arith.addf %p0, %p0 : f32"
ACCUMULATE = "%r = arith.addf %p0, %o : f32"
MULTIPLY_ADD = "%t = arith.mulf %p0, %p1 : f32\n    %r = arith.addf %t, %o : f32"


def elementwise(result: str, inputs: Sequence[str], body: str) -> str:
    return generic(result, [(value, M, "a, b") for value in inputs], ("%e", M, "a, b"), "pp", body, "a, b")


def row_sum(result: str, value: str) -> str:
    return generic(result, [(value, M, "a, b")], ("%sum", "4xf32", "a"), "pr", ACCUMULATE, "a, b")


def product(result: str, left: str) -> str:
    """`left` (4 by 3) times %y (3 by 4): each element is read four times."""
    inputs = [(left, M, "a, c"), ("%y", "3x4xf32", "c, b")]
    return generic(result, inputs, ("%product", "4x4xf32", "a, b"), "ppr", MULTIPLY_ADD, "a, b, c")


def generics(text: str) -> list[GenericOp]:
    before, after = parse(text), fuse(text)
    shapes = [argument.type.get_shape() for argument in next(iter(before.ops)).body.block.args]  # pyright: ignore
    generator = np.random.default_rng(0)
    inputs = [generator.integers(-2, 3, shape).astype(np.float32) for shape in shapes]
    expected, got = (Interpreter().run(module, "kernel", inputs) for module in (before, after))
    for want, result in zip(expected, got, strict=True):
        np.testing.assert_allclose(result, want, rtol=1e-6)
    if shutil.which("mlir-opt-22") is not None:
        done = subprocess.run(["mlir-opt-22"], input=str(after), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return [op for op in after.walk() if isinstance(op, GenericOp)]


def test_chain_becomes_one_generic() -> None:
    body = elementwise("%1", ["%x"], EXP) + elementwise("%2", ["%1"], EXP) + elementwise("%3", ["%2", "%x"], ADD)
    (fused,) = generics(kernel(f"%x: {TM}", TM, body, "%3"))
    assert len(fused.inputs) == 1


def test_expensive_producer_moves_into_its_only_reduction() -> None:
    (fused,) = generics(
        kernel(f"%x: {TM}", "tensor<4xf32>", elementwise("%1", ["%x"], EXP) + row_sum("%2", "%1"), "%2")
    )
    assert [iterator.data.value for iterator in fused.iterator_types] == ["parallel", "reduction"]


def test_expensive_producer_with_two_consumers_stays() -> None:
    body = elementwise("%1", ["%x"], EXP) + row_sum("%2", "%1")
    inputs = [("%1", M, "a, b"), ("%2", "4xf32", "a")]
    body += generic("%3", inputs, ("%e", M, "a, b"), "pp", "%r = arith.divf %p0, %p1 : f32", "a, b")
    assert len(generics(kernel(f"%x: {TM}", TM, body, "%3"))) == 3


def test_cheap_producer_moves_into_both_consumers() -> None:
    body = elementwise("%1", ["%x"], TWICE) + row_sum("%2", "%1")
    inputs = [("%1", M, "a, b"), ("%2", "4xf32", "a")]
    body += generic("%3", inputs, ("%e", M, "a, b"), "pp", ADD, "a, b")
    assert len(generics(kernel(f"%x: {TM}", TM, body, "%3"))) == 2


@pytest.mark.parametrize(("body", "fused_count"), [(EXP, 2), (TWICE, 1)])
def test_broadcast_operand_is_computed_again_only_if_cheap(body: str, fused_count: int) -> None:
    vector = generic("%1", [("%v", "3xf32", "a")], ("%w", "3xf32", "a"), "p", body, "a")
    inputs = [("%x", M, "a, b"), ("%1", "3xf32", "b")]
    text = "\n  %w = tensor.empty() : tensor<3xf32>" + vector
    text += generic("%2", inputs, ("%e", M, "a, b"), "pp", ADD, "a, b")
    assert len(generics(kernel(f"%x: {TM}, %v: tensor<3xf32>", TM, text, "%2"))) == fused_count


@pytest.mark.parametrize(("body", "fused_count"), [(TWICE, 2), ("%r = arith.bitcast %p0 : f32 to f32", 1)])
def test_contraction_takes_only_casts(body: str, fused_count: int) -> None:
    text = elementwise("%1", ["%x"], body) + product("%2", "%1")
    assert len(generics(kernel(f"%x: {TM}, %y: tensor<3x4xf32>", "tensor<4x4xf32>", text, "%2"))) == fused_count


def test_transposed_copy_becomes_an_indexing_map() -> None:
    transposed = generic(
        "%1", [("%z", "3x4xf32", "b, a")], ("%e", M, "a, b"), "pp", "%r = arith.bitcast %p0 : f32 to f32", "a, b"
    )
    text = transposed + product("%2", "%1")
    (fused,) = generics(kernel("%z: tensor<3x4xf32>, %y: tensor<3x4xf32>", "tensor<4x4xf32>", text, "%2"))
    assert str(fused.indexing_maps.data[1].data) == "(d0, d1, d2) -> (d2, d0)"


def test_returned_intermediate_becomes_a_second_result() -> None:
    body = elementwise("%1", ["%x"], EXP) + elementwise("%2", ["%1"], TWICE)
    (fused,) = generics(kernel(f"%x: {TM}", f"{TM}, {TM}", body, "%1, %2"))
    assert len(fused.results) == 2


def test_generics_that_read_the_same_tensor_become_one() -> None:
    body = elementwise("%1", ["%x"], EXP) + elementwise("%2", ["%x"], TWICE)
    (fused,) = generics(kernel(f"%x: {TM}", f"{TM}, {TM}", body, "%1, %2"))
    assert len(fused.inputs) == 1


def test_generic_between_keeps_others_apart() -> None:
    """%3 needs a sum of %1, so %1 cannot move to the place of %3."""
    body = elementwise("%1", ["%x"], EXP) + row_sum("%2", "%1")
    inputs = [("%x", M, "a, b"), ("%2", "4xf32", "a")]
    body += generic("%3", inputs, ("%e", M, "a, b"), "pp", ADD, "a, b")
    assert len(generics(kernel(f"%x: {TM}", f"{TM}, {TM}", body, "%1, %3"))) == 3


INDEX = """%i = linalg.index 1 : index
    %n = arith.index_cast %i : index to i64
    %f = arith.sitofp %n : i64 to f32
    %r = arith.addf %p0, %f : f32"""


@pytest.mark.parametrize(("read_at", "index"), [("b, a", 0), ("a, b", 1)])
def test_loop_index_is_renamed(read_at: str, index: int) -> None:
    first = elementwise("%1", ["%x"], INDEX)
    shape, loops = ("3x4xf32", "%t") if read_at == "b, a" else (M, "%e")
    empty = "\n  %t = tensor.empty() : tensor<3x4xf32>"
    text = empty + first + generic("%2", [("%1", M, read_at)], (loops, shape, "a, b"), "pp", EXP, "a, b")
    (fused,) = generics(kernel(f"%x: {TM}", f"tensor<{shape}>", text, "%2"))
    (op,) = (op for op in fused.walk() if isinstance(op, IndexOp))
    assert op.dim.value.data == index


def test_loop_index_under_a_window_is_not_inlined() -> None:
    first = generic("%1", [("%v", "4xf32", "a")], ("%row", "4xf32", "a"), "p", INDEX.replace("1 :", "0 :"), "a")
    text = """
  %window = tensor.empty() : tensor<2xf32>
  %w = tensor.empty() : tensor<3xf32>
  %windows = linalg.fill ins(%zero : f32) outs(%w : tensor<3xf32>) -> tensor<3xf32>"""
    inputs = [("%1", "4xf32", "a + b"), ("%window", "2xf32", "b")]
    text += first + generic("%2", inputs, ("%windows", "3xf32", "a"), "pr", ACCUMULATE, "a, b")
    _, windowed = generics(kernel("%v: tensor<4xf32>", "tensor<3xf32>", text, "%2"))
    assert len(windowed.inputs) == 2, "the operand that tells the size of the window was dropped"


def test_fill_becomes_a_constant() -> None:
    text = f"\n  %c = linalg.fill ins(%zero : f32) outs(%e : {TM}) -> {TM}" + elementwise("%1", ["%x", "%c"], ADD)
    module = fuse(kernel(f"%x: {TM}", TM, text, "%1"))
    assert count(module, FillOp) == 0
    assert len(generics(kernel(f"%x: {TM}", TM, text, "%1"))[0].inputs) == 1


def test_unused_results_and_operands_are_dropped() -> None:
    body = elementwise("%1", ["%x", "%x", "%y"], "%r = arith.addf %p0, %p1 : f32")
    (fused,) = generics(kernel(f"%x: {TM}, %y: {TM}", TM, body, "%1"))
    assert len(fused.inputs) == 1


def test_other_functions_stay() -> None:
    text = kernel(f"%x: {TM}", TM, elementwise("%1", ["%x"], EXP) + elementwise("%2", ["%1"], EXP), "%2")
    assert count(fuse(text.replace("attributes {kernel}", "")), GenericOp) == 2
