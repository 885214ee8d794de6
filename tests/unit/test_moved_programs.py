"""Programs that move elements and combine them read their arguments and write their results, and little else.

What is kept in memory besides, docs/fusion.md says; `kept` says it again.
"""

from __future__ import annotations

from math import prod
from typing import Any

import moved_programs
import numpy as np
import pytest
from moved_programs import Program, by_numpy, by_tenon
from seeds import run_seed
from xdsl.dialects import linalg, memref
from xdsl.ir import Operation

import tenon
from tenon.lowering.kernels.bytes_moved import bytes_moved
from tenon.runtime.lower import buffered_again, options

Mask = np.ndarray[Any, np.dtype[np.bool_]]
MOST = 1.1
"""Bytes that are moved, for each of the arguments, of the result, and of what the rules keep."""

MOVED_TOO_MUCH = ("367024678 19", "x196", "x1438", "x1646", "3095255440 10")
"""Seeds of programs that once did: padding of which a roll leaves a short part at the end of rows; two regions of ops
that both took the transpose between them to be gone with their order of axes; transposes of a result, and of what is
gathered from, that became ones between ops that are fused otherwise."""

ELEMENTWISE = ("scale", "tanh", "add")
RULES = ("used twice", "gathered from", "updated", "repeated", "turned")


def kept(program: Program) -> dict[int, str]:
    """The values, neither arguments nor the result, that a rule keeps in memory, with the rule."""
    last = len(program.steps) - 1
    users = {n: [step for step in program.steps if n in step.operands] for n in range(last)}
    rules: dict[int, str] = {}
    for n, steps in users.items():
        makes = program.steps[n]
        if not makes.operands:
            continue
        is_beside = makes.op in ELEMENTWISE and any(rules.get(m) == "used twice" for m in makes.operands)
        if len(steps) > 1 or is_beside:
            rules[n] = "used twice"
        elif steps[0].op == "take":
            rules[n] = "gathered from"
        elif steps[0].op == "update" or makes.op == "update":
            rules[n] = "updated"
        elif steps[0].op == "broadcast":
            rules[n] = "repeated"
        elif any(_turns(step) for step in (makes, *steps)):
            rules[n] = "turned"
    return rules


def _turns(step: moved_programs.Step) -> bool:
    """Whether a step changes the order of axes."""
    return step.op == "transpose" and list(step.settings) != sorted(step.settings)


def allowed_bytes(program: Program, rules: dict[int, str]) -> int:
    """Bytes of the result and of what it needs of the arguments, and of what is kept: written once, read by each user.

    An update is made where its first operand is, in a copy of that if it is an argument or needed by others.
    """
    last = len(program.steps) - 1
    total = 0
    for n, (step, needed) in enumerate(zip(program.steps, needed_elements(program, rules), strict=True)):
        users = [other for other in program.steps if n in other.operands]
        reads = [other for other in users if not (other.op == "update" and other.operands[0] == n)]
        size = int(needed.sum()) * (8 if step.op == "indices" else 4)
        if step.op == "update":
            total += 4 * prod(program.shapes[step.operands[1]])
        elif n == last or n in rules:
            total += size
        if n in rules or not step.operands:
            total += size * (len(reads) if rules else bool(reads))
            total += 2 * size * (len(reads) < len(users) and (len(users) > 1 or not step.operands))
    return total


def needed_elements(program: Program, rules: dict[int, str]) -> list[Mask]:
    """Of each value the elements that the result, or what is kept as a whole, is made of; all of what is gathered from,
    of which elements may be read several times, or updated."""
    needed = [np.zeros(shape, bool) for shape in program.shapes]
    arguments = dict(zip(program.arguments(), program.arrays(), strict=True))
    for n in reversed(range(len(program.steps))):
        step = program.steps[n]
        needed[n] |= n in rules or n == len(program.steps) - 1
        if step.op in ELEMENTWISE:
            for operand in step.operands:
                needed[operand] |= needed[n]
        elif step.operands:
            # Elements are known by numbers, which are moved as they are; 0 is none.
            numbers, start = list[Any](), 1
            for operand in step.operands:
                size = needed[operand].size
                numbers.append(np.arange(start, start + size).reshape(needed[operand].shape))
                start += size
            values = [
                arguments[m] if program.steps[m].op == "indices" else x
                for m, x in zip(step.operands, numbers, strict=True)
            ]
            moved = np.unique(by_numpy(step, values)[needed[n]])
            for operand, own in zip(step.operands, numbers, strict=True):
                is_whole = operand == step.operands[0] and step.op in ("take", "update")
                needed[operand] |= np.isin(own, moved) | is_whole | (program.steps[operand].op == "indices")
    return needed


def moved_bytes(program: Program) -> int:
    """Bytes that the kernels of a program read and write, and those of what they keep whole inside."""
    traced = tenon.jit(lambda *arrays: program.run(arrays, by_tenon)).trace(*program.arrays())
    buffered = buffered_again(traced.module, options("cpu"))
    assert buffered is not None
    inside = sum(_bytes_inside(op) for op in buffered.walk() if isinstance(op, memref.AllocOp))
    return 2 * inside + sum(kernel.read + kernel.written for kernel in bytes_moved(buffered))


def _bytes_inside(op: memref.AllocOp) -> int:
    """Bytes of an intermediate that does more than to tell the extent of a loop."""
    uses = [use.operation for use in op.memref.uses if not _tells_extents(use.operation, use.index)]
    return 4 * prod(op.memref.type.get_shape()) if uses else 0


def _tells_extents(user: Operation, index: int) -> bool:
    return isinstance(user, linalg.ops.GenericOp) and user.body.block.args[index].first_use is None


@pytest.mark.parametrize("draw", ["known", "new"])
def test_they_move_what_they_must(draw: str) -> None:
    by_rule: set[str] = set()
    without = 0
    new = [f"{run_seed()} {number}" for number in range(50)]
    for seed in (*range(50), *MOVED_TOO_MUCH) if draw == "known" else new:
        program = moved_programs.drawn(seed)
        rules = kept(program)
        moved, allowed = moved_bytes(program), allowed_bytes(program, rules)
        assert moved <= MOST * allowed, f"{moved} bytes are moved, {allowed} allowed, {rules}:\n{program}"
        by_rule.update(rules.values())
        without += not rules
    if draw == "known":
        assert by_rule == set(RULES)
        assert without >= 5, "too few programs keep nothing"


@pytest.mark.parametrize("draw", ["known", "new"])
def test_they_compute_what_numpy_does(draw: str) -> None:
    for number in range(8):
        program = moved_programs.drawn(number if draw == "known" else f"{run_seed()} {number}")
        arrays = program.arrays()
        with tenon.knobs.override(check_memory=True):
            found = tenon.jit(lambda *arrays, program=program: program.run(arrays, by_tenon))(*arrays)
        expected = program.run(arrays, by_numpy)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=str(program))
