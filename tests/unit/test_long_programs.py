"""What passes do for an op does not depend on how long its program is, or on how many ops read the same value.

Work is counted: calls of Python functions and steps of generators.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count, pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block

import tenon
from tenon.dialects.upstream.block_arguments import erase_arguments
from tenon.lowering.pipeline import run_passes
from tenon.passes.fuse.group import Group, connect, take_place, would_make_circle
from tenon.runtime.lower import new_context
from tenon.runtime.tracing.arguments_read import drop_arguments, read_arguments

X = np.ones(8, np.float32)


def calls(function: Callable[[], Any]) -> int:
    """How many calls of Python functions, and steps of generators, `function` makes."""
    made = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal made
        made += event == "call"

    former = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(former)
    return made


@pytest.mark.parametrize("passes", [("canonicalize",), ("fuse",)])
def test_work_grows_as_the_program_does(passes):
    def work(steps: int) -> int:
        def program(x: Any, y: Any) -> Any:
            for _ in range(steps):
                x = tenon.tanh(tenon.reshape(x * y, (8,))) + tenon.broadcast_to(y, (8,))
            return x

        module = tenon.jit(tenon.grad(lambda x, y: tenon.sum(program(x, y)))).trace(X, X).module
        before = ["inline", "decompose", "canonicalize", "cse", "dce"] if passes == ("fuse",) else ["inline"]
        run_passes(new_context(), module, before, verify=False)
        return calls(lambda: run_passes(new_context(), module, passes, verify=False))

    work(1)
    few, many = work(60), work(240)
    assert many < 4.4 * few


def grown(random: Random, number: int) -> list[Group]:
    groups: list[Group] = []
    for position in range(number):
        group = Group(None, position)  # pyright: ignore[reportArgumentType]
        for before in random.sample(groups, min(len(groups), random.randrange(3))):
            connect(before, group)
        groups.append(group)
    return groups


def leads(before: Group, after: Group) -> bool:
    """Whether a path leads from one group to another one by way of others."""
    pending = [group for group in before.successors if group is not after]
    found: set[Group] = set()
    while pending:
        group = pending.pop()
        if group not in found:
            found.add(group)
            pending += group.successors
    return after in found


@pytest.mark.parametrize("seed", range(20))
def test_circles_of_groups_are_found(seed):
    random = Random(seed)
    groups, places = grown(random, 14), count(14)
    while len(groups) > 2:
        left, right = random.sample(groups, 2)
        would = leads(left, right) or leads(right, left)
        assert would_make_circle(left, right) == would
        if would:
            groups.remove(random.choice([left, right]))  # it stays what it is
            continue
        take_place(left, right)
        groups.remove(left)
        if random.random() < 0.5:
            groups.append(added := Group(None, next(places)))  # pyright: ignore[reportArgumentType]
            connect(right, added)


def test_a_group_that_grows_leaves_those_behind_it_as_they_are():
    chain = [Group(None, position) for position in range(50)]  # pyright: ignore[reportArgumentType]
    for before, after in pairwise(chain):
        connect(before, after)
    known = [group.ancestors for group in chain]
    connect(chain[0], late := Group(None, 50))  # pyright: ignore[reportArgumentType]
    take_place(late, chain[0])
    assert [group.ancestors for group in chain] == known
    assert not would_make_circle(chain[0], chain[1])
    assert would_make_circle(chain[0], chain[2])


def test_arguments_are_erased_together():
    block, other = Block(arg_types=[i32] * 5), Block(arg_types=[i32])
    kept = [block.args[number] for number in (0, 2, 4)]
    total = arith.AddiOp(kept[1], kept[2])
    erase_arguments([block.args[1], other.args[0], block.args[3]])
    assert list(block.args) == kept
    assert [argument.index for argument in block.args] == [0, 1, 2]
    assert not other.args
    with pytest.raises(Exception, match="still has uses"):
        erase_arguments([kept[1]])
    assert total.lhs is kept[1]


def test_an_argument_behind_the_others_is_the_last():
    block = Block(arg_types=[i32, i32])
    first, second = block.args
    added = block.insert_arg(i32, 2)
    assert list(block.args) == [first, second, added]
    assert (added.index, added.block, added.location) == (2, block, first.location)
    inner = block.insert_arg(i32, 1)
    assert [argument.index for argument in block.args] == [0, 1, 2, 3]
    assert list(block.args) == [first, inner, second, added]
    with pytest.raises(ValueError, match="index 5"):
        block.insert_arg(i32, 5)


def test_what_results_do_not_depend_on_is_not_given():
    def program(x: Any, y: Any, z: Any) -> Any:
        _ = y + 1
        return x * z, z

    module = tenon.jit(program).trace(X, X.astype(np.int32), X).module
    assert read_arguments(module, 3) == [0, 2]
    assert read_arguments(module, 1) == [0]
    drop_arguments(module, {1})
    (main,) = module.ops
    assert isinstance(main, FuncOp)
    assert [str(type_) for type_ in main.function_type.inputs] == ["tensor<8xf32>"] * 2
    main.verify()
    assert read_arguments(module, 2) == [0, 1]
