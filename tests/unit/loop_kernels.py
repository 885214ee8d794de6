"""Kernels of the buffered stage for tests: text, random generics with their meaning in NumPy, and ways to run them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from tenon.dialects.interpreter.interpreter import Interpreter
from tenon.dialects.upstream.amx import Amx
from tenon.dialects.upstream.prefetch import MemRefWithPrefetch
from tenon.dialects.upstream.vector_arith import VectorArith
from tenon.dialects.upstream.vector_ops import VectorOps
from tenon.lowering.nests.convert_structured_to_loops import ConvertStructuredToLoopsPass
from tenon.lowering.schedules.schedule import SchedulePass

Array = NDArray[Any]


def parse(text: str, *, verify: bool = True) -> ModuleOp:
    """The module of `text`, which may be at any stage from the buffered one on."""
    context = Context()
    for name, load in get_all_dialects().items():
        if name not in ("arith", "memref", "vector"):
            context.register_dialect(name, load)
    context.load_dialect(VectorArith)
    context.load_dialect(MemRefWithPrefetch)
    context.load_dialect(VectorOps)
    context.load_dialect(Amx)
    module = Parser(context, text).parse_module()
    if verify:
        module.verify()
    return module


def write_schedules(module: ModuleOp, vector_bits: int) -> None:
    """Write the schedules of a machine of such vectors into `module`."""
    SchedulePass(vector_bits).apply(Context(), module)


def to_loops(module: ModuleOp, vector_bits: int | None) -> ModuleOp:
    """Lower in place; without `vector_bits` as the schedules in the text say. What comes out verifies and parses."""
    if vector_bits is not None:
        write_schedules(module, vector_bits)
        module.verify()
        parse(str(module))
    ConvertStructuredToLoopsPass().apply(Context(), module)
    module.verify()
    assert str(parse(str(module))) == str(module)
    return module


def interpret(module: ModuleOp, kernel: str, inputs: Sequence[Array], outputs: Sequence[Array]) -> list[Array]:
    """What `kernel` leaves in copies of `outputs`."""
    results = [output.copy() for output in outputs]
    Interpreter().run(module, kernel, [*(array.copy() for array in inputs), *results])
    return results


@dataclass(frozen=True)
class RandomGeneric:
    """A generic of one output and its operands' contents: small whole numbers, so any order sums exactly."""

    extents: tuple[int, ...]
    reductions: tuple[bool, ...]
    inputs: tuple[tuple[tuple[dict[int, int], ...], Array], ...]  # for each index its factors by loop; contents
    output: tuple[tuple[dict[int, int], ...], Array]
    combine: str
    filled: bool

    def text(self, schedule: str = "") -> str:
        """A module with the kernel `@k(inputs..., output)`."""
        loops = ", ".join(f"d{i}" for i in range(len(self.extents)))
        operands = [*self.inputs, self.output]
        maps = ", ".join(
            f"affine_map<({loops}) -> ({', '.join(_expression(index) for index in indices)})>"
            for indices, _ in operands
        )
        kinds = ", ".join('"reduction"' if r else '"parallel"' for r in self.reductions)
        types = [_memref(array) for _, array in operands]
        names = [f"%x{i}" for i in range(len(self.inputs))]
        arguments = ", ".join(f"{name}: {type_}" for name, type_ in zip((*names, "%o"), types, strict=True))
        fill = f"linalg.fill ins(%one : f32) outs(%o : {types[-1]})" if self.filled else ""
        products = "\n".join(
            f"    %p{i + 1} = arith.mulf %p{i}, %a{i + 1} : f32" for i in range(len(names) - 1)
        ).replace("%p0", "%a0")
        last = f"%p{len(names) - 1}" if len(names) > 1 else "%a0"
        block = ", ".join(f"%a{i}: f32" for i in range(len(names)))
        body = {
            "add": f"%r = arith.addf %acc, {last} : f32",
            "max": f"%r = arith.maximumf %acc, {last} : f32",
            "subtract": f"%r = arith.subf {last}, %acc : f32",
            "overwrite": f"%r = arith.addf {last}, %one : f32",
        }[self.combine]
        attribute = f" attrs = {{schedule = {{{schedule}}}}}" if schedule else ""
        return f"""
func.func private @k({arguments}) attributes {{kernel}} {{
  %one = arith.constant 1.0 : f32
  {fill}
  linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
      ins({", ".join(names)} : {", ".join(types[:-1])}) outs(%o : {types[-1]}){attribute} {{
  ^bb0({block}, %acc: f32):
{products}
    {body}
    linalg.yield %r : f32
  }}
  func.return
}}"""

    def expected(self) -> Array:
        """The output, one iteration at a time."""
        result = self.output[1].copy()
        if self.filled:
            result[...] = 1
        for point in np.ndindex(self.extents):
            value = np.float32(1)
            for indices, array in self.inputs:
                value *= array[tuple(sum(f * point[loop] for loop, f in index.items()) for index in indices)]
            where = tuple(sum(f * point[loop] for loop, f in index.items()) for index in self.output[0])
            before = result[where]
            result[where] = {
                "add": before + value,
                "max": max(before, value),
                "subtract": value - before,
                "overwrite": value + 1,
            }[self.combine]
        return result


def _expression(factors: dict[int, int]) -> str:
    return " + ".join(f"d{loop}" if f == 1 else f"d{loop} * {f}" for loop, f in factors.items()) or "0"


def _memref(array: Array) -> str:
    return f"memref<{''.join(f'{size}x' for size in array.shape)}f32>"


def _contents(draw: st.DrawFn, shape: Sequence[int]) -> Array:
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    # Negative ones alone show a lane that holds nothing: its zero would be the maximum.
    low, high = draw(st.sampled_from([(-2, 3), (-4, 0)]))
    return random.integers(low, high, tuple(shape)).astype(np.float32)


@st.composite
def random_generics(draw: st.DrawFn, *, windows: bool = True) -> RandomGeneric:
    """Any generic of up to four loops, with windows in inputs and gradients of windows in the output."""
    count = draw(st.integers(1, 4))
    sizes = st.sampled_from([1, 2, 3, 5, 8, 17, 33] if count < 3 else [1, 2, 3, 4, 7])
    extents = [draw(sizes) for _ in range(count)]
    if draw(st.integers(0, 9)) == 0:
        extents[draw(st.integers(0, count - 1))] = 0
    reductions = [draw(st.booleans()) for _ in range(count)]

    def size_of(index: dict[int, int]) -> int:
        return max(1 + sum(f * (extents[loop] - 1) for loop, f in index.items()), 0) if index else 1

    def access(indices: list[dict[int, int]]) -> tuple[tuple[dict[int, int], ...], Array]:
        return tuple(indices), _contents(draw, [size_of(index) for index in indices])

    inputs = [access([{loop: 1} for loop in range(count)])] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(0 if inputs else 1, 2))):
        loops = [loop for loop in draw(st.permutations(range(count))) if draw(st.integers(0, 3))]
        indices: list[dict[int, int]] = [{loop: 1} for loop in loops]
        if windows and len(indices) > 1 and draw(st.integers(0, 3)) == 0:
            first = indices.pop()
            indices[-1] = {next(iter(indices[-1])): draw(st.sampled_from([1, 2])), **first}
        if draw(st.integers(0, 5)) == 0:
            indices.append({})
        inputs.append(access(indices))
    plain = {
        loop
        for indices, _ in inputs
        for index in indices
        if index in ({0: 1}, {1: 1}, {2: 1}, {3: 1})
        for loop in index
    }
    parallel = [loop for loop in draw(st.permutations(range(count))) if not reductions[loop]]
    missing = [loop for loop in range(count) if loop not in plain and loop not in parallel]
    if missing:
        inputs.append(access([{loop: 1} for loop in missing]))
    output = [{loop: 1} for loop in parallel]
    reduced = [loop for loop in range(count) if reductions[loop]]
    combine = draw(st.sampled_from(["add", "add", "max", "subtract"]))
    if not reduced:
        combine = draw(st.sampled_from(["add", "overwrite"]))
    if windows and len(reduced) > 1 and draw(st.integers(0, 2)) == 0:
        output.append({reduced[0]: draw(st.sampled_from([1, 2])), reduced[1]: 1})
        combine = "add"
        if any(extents[loop] == 0 for loop in reduced[:2]):
            extents_changed = [max(extent, 1) for extent in extents]
            if extents_changed != extents:
                output.pop()
    return RandomGeneric(tuple(extents), tuple(reductions), tuple(inputs), access(output), combine, draw(st.booleans()))


@dataclass(frozen=True)
class GroupValue:
    """A buffer of a group: the dimensions of the iteration space that it has, and whether it keeps the others as 1."""

    dims: tuple[int, ...]
    keeps: bool

    def shape(self, extents: Sequence[int]) -> tuple[int, ...]:
        if self.keeps:
            return tuple(size if dim in self.dims else 1 for dim, size in enumerate(extents))
        return tuple(extents[dim] for dim in self.dims)


@dataclass(frozen=True)
class RandomGroup:
    """Statements in sequence: each adds values or takes their maximum, over the dimensions that its result lacks."""

    extents: tuple[int, ...]
    values: tuple[GroupValue, ...]  # the arguments, then what each statement makes
    statements: tuple[tuple[tuple[int, ...], str], ...]  # positions in `values`; how a result is combined
    arguments: tuple[Array, ...]
    outputs: tuple[int, ...]  # which values are outputs

    def text(self) -> str:
        """A module with the kernel `@k(arguments..., outputs...)`."""
        types = [f"memref<{''.join(f'{s}x' for s in v.shape(self.extents))}f32>" for v in self.values]
        given = [*range(len(self.arguments)), *self.outputs]
        lines = [
            f"func.func private @k({', '.join(f'%v{i}: {types[i]}' for i in given)}) attributes {{kernel}} {{",
            "  %zero = arith.constant 0.0 : f32",
            "  %low = arith.constant -1000000.0 : f32",
        ]
        lines += [f"  %v{i} = memref.alloc() : {t}" for i, t in enumerate(types) if i not in given]
        for number, (sources, combine) in enumerate(self.statements):
            target = len(self.arguments) + number
            lines += self._statement(sources, target, combine, types)
        return "\n".join([*lines, "  func.return", "}"])

    def _statement(self, sources: Sequence[int], target: int, combine: str, types: Sequence[str]) -> list[str]:
        rank, out = len(self.extents), self.values[target]
        used = sorted({dim for s in sources for dim in self.values[s].dims} | set(out.dims))
        reduces = any(dim not in out.dims for dim in used)
        # Loops that no operand has would have no extent, so every generic runs over its own dimensions only.
        renamed = {dim: position for position, dim in enumerate(used)}
        head = ", ".join(f"d{i}" for i in range(len(used)))
        kinds = ", ".join('"parallel"' if dim in out.dims else '"reduction"' for dim in used)
        maps = ", ".join(
            f"affine_map<({head}) -> ("
            + ", ".join(
                f"d{renamed[dim]}" if dim in self.values[v].dims else "0"
                for dim in (range(rank) if self.values[v].keeps else self.values[v].dims)
            )
            + ")>"
            for v in (*sources, target)
        )
        lines = []
        if reduces:
            start = "%zero" if combine == "add" else "%low"
            lines.append(f"  linalg.fill ins({start} : f32) outs(%v{target} : {types[target]})")
        names = ", ".join(f"%v{s}" for s in sources)
        block = ", ".join(f"%a{i}: f32" for i in range(len(sources)))
        lines.append(
            f"  linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}} "
            f"ins({names} : {', '.join(types[s] for s in sources)}) outs(%v{target} : {types[target]}) {{"
        )
        lines.append(f"  ^bb0({block}, %acc: f32):")
        for i in range(1, len(sources)):
            lines.append(f"    %s{i} = arith.subf {'%a0' if i == 1 else f'%s{i - 1}'}, %a{i} : f32")
        last = "%a0" if len(sources) == 1 else f"%s{len(sources) - 1}"
        if reduces:
            op = "arith.addf" if combine == "add" else "arith.maximumf"
            lines.append(f"    %r = {op} %acc, {last} : f32")
            last = "%r"
        lines += [f"    linalg.yield {last} : f32", "  }"]
        return lines

    def expected(self) -> list[Array]:
        """The outputs, by NumPy on arrays that have every dimension."""
        known = [
            array.reshape(GroupValue(value.dims, True).shape(self.extents))
            for array, value in zip(self.arguments, self.values, strict=False)
        ]
        for number, (sources, combine) in enumerate(self.statements):
            out = self.values[len(self.arguments) + number]
            total = known[sources[0]]
            for source in sources[1:]:
                total = total - known[source]
            used = {dim for s in sources for dim in self.values[s].dims} | set(out.dims)
            axes = tuple(sorted(used - set(out.dims)))
            shape = [size if dim in used else 1 for dim, size in enumerate(self.extents)]
            total = np.broadcast_to(total, shape)
            if axes:
                total = (
                    total.sum(axes, keepdims=True)
                    if combine == "add"
                    else total.max(axes, keepdims=True, initial=-1000000)
                )
            known.append(total)
        return [known[i].reshape(self.values[i].shape(self.extents)).astype(np.float32) for i in self.outputs]


@st.composite
def random_groups(draw: st.DrawFn) -> RandomGroup:
    """Up to four statements over up to three dimensions, in a chain with branches."""
    rank = draw(st.integers(1, 3))
    extents = tuple(
        draw(st.sampled_from([1, 2, 3, 5, 8, 17, 35] if rank < 3 else [1, 2, 4, 5, 9])) for _ in range(rank)
    )

    def value() -> GroupValue:
        dims = tuple(dim for dim in range(rank) if draw(st.integers(0, 2)))
        return GroupValue(dims, draw(st.booleans()))

    values = [GroupValue(tuple(range(rank)), True)] + [value() for _ in range(draw(st.integers(0, 1)))]
    arguments = tuple(_contents(draw, v.shape(extents)) for v in values)
    statements: list[tuple[tuple[int, ...], str]] = []
    for _ in range(draw(st.integers(2, 4))):
        latest = len(values) - 1
        others = [draw(st.integers(0, latest))] if draw(st.booleans()) else []
        sources = tuple(dict.fromkeys([latest, *others]))
        out = value()
        used = {dim for s in sources for dim in values[s].dims}
        out = GroupValue(tuple(dim for dim in out.dims if dim in used), out.keeps)
        if draw(st.booleans()):
            out = GroupValue(tuple(sorted(used)), out.keeps)
        statements.append((sources, draw(st.sampled_from(["add", "max"]))))
        values.append(out)
    made = range(len(arguments), len(values))
    outputs = tuple(i for i in made if i == made[-1] or draw(st.integers(0, 3)) == 0)
    return RandomGroup(extents, tuple(values), tuple(statements), arguments, outputs)
