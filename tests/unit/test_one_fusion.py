"""What `fuse` plans for a group is what lowering finds in its kernel: `shared_loops` reads the loops off the kernel's
accesses, so that kernels which were written by hand have them as well, and no pass in between has to carry a note."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

import tenon
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.traits import KnownValue, states
from tenon.dialects.families import IndexingOp, IndexMapOp
from tenon.lowering.kernels.shared_loops import shared_loops
from tenon.lowering.kernels.statement import kernels_of, read_kernel
from tenon.lowering.pipeline import run_passes, stages
from tenon.lowering.schedules.schedule import prepare_kernel
from tenon.passes.fuse.grouping import Group, Grouping
from tenon.runtime.lower import machine, new_context, options

F32 = np.float32
Key = tuple[tuple[str, str], ...]


def array(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape, F32)


def attention(q: Any, k: Any, v: Any) -> Any:
    return tenon.softmax(tenon.einsum("hqd,hkd->hqk", q, k) * 0.125, axis=-1) @ v


def layers(x: Any, v: Any, w: Any) -> Any:
    return tenon.sum(tenon.relu(tenon.relu(x @ v) @ w) ** 2)


def norm(x: Any, scale: Any) -> Any:
    mean = tenon.mean(x, axis=-1, keepdims=True)
    variance = tenon.mean((x - mean) ** 2, axis=-1, keepdims=True)
    return (x - mean) * tenon.rsqrt(variance + 1e-5) * scale


def loss(x: Any, y: Any) -> Any:
    return tenon.mean(tenon.logsumexp(x, axis=-1) - tenon.sum(x * y, axis=-1))


HEADS = (array(4, 128, 64), array(4, 128, 64), array(4, 128, 64))
ROWS = array(512, 300)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "softmax": (lambda x: tenon.softmax(x * 2, axis=-1), (ROWS,)),
    "norm": (norm, (ROWS, ROWS[0])),
    "norm, gradient": (tenon.grad(lambda *a: tenon.sum(norm(*a) ** 3), argnums=(0, 1)), (ROWS, ROWS[0])),
    "loss, gradient": (tenon.grad(loss), (ROWS, np.abs(ROWS))),
    "attention": (attention, HEADS),
    "attention, gradient": (tenon.grad(lambda *a: tenon.sum(attention(*a) ** 2), argnums=(0, 1, 2)), HEADS),
    "layers": (layers, (ROWS, array(300, 200), array(200, 50))),
    "layers, gradient": (tenon.grad(layers, argnums=(0, 1, 2)), (ROWS, array(300, 200), array(200, 50))),
    "group norm": (lambda x: tenon.group_norm(x, groups=4), (array(8, 16, 14, 14),)),
    "cumulative": (
        lambda x: tenon.cumsum(tenon.exp(x), axis=-1) / tenon.sum(tenon.exp(x), axis=-1, keepdims=True),
        (ROWS,),
    ),
    "short rows": (lambda x: tenon.softmax(x, axis=-1), (array(4096, 6),)),
}


def key(operations: Iterable[Operation]) -> Key:
    """What tells a group from others: its ops with their types."""
    names = [
        (op.name, str(op.results[0].type))
        for op in operations
        if isinstance(op, TensorOp) and not states(op, KnownValue)
    ]
    return tuple(sorted(names))


def planned(module: ModuleOp, fuse: str) -> dict[Key, int]:
    """For each group of several ops that share loops, how many iterations these have."""
    found: dict[Key, int] = {}
    in_order = Grouping.in_order

    def note(grouping: Grouping) -> list[Group]:
        groups = in_order(grouping)
        for group in groups:
            moves = any(isinstance(op, IndexMapOp | IndexingOp) for op in group.operations)
            if len(group.operations) > 1 and not group.closed and not moves:
                loops = {grouping._planner.classes.find(loop) for loop in group.shared}
                found[key(group.operations)] = prod([grouping._planner.classes.extents[loop] for loop in loops])
        return groups

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Grouping, "in_order", note)
        run_passes(new_context(), module, [fuse])
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_loops_that_were_planned_are_shared(name: str) -> None:
    function, arrays = PROGRAMS[name]
    module = tenon.jit(function).trace(*arrays).module.clone()
    tensor, *between = stages(options("cpu"))[:3]
    *before, fuse = tensor.passes
    run_passes(new_context(), module, before)
    plans = planned(module, fuse)
    kernels = {kernel.sym_name.data: key(kernel.body.block.ops) for kernel in kernels_of(module)}
    for stage in between:
        run_passes(new_context(), module, stage.passes)
    together = 0
    for function_ in kernels_of(module):
        assert isinstance(function_, func.FuncOp)
        plan = plans.get(kernels.get(function_.sym_name.data, ()))
        prepare_kernel(function_, machine())
        kernel = read_kernel(function_)
        if plan is None or (len(kernel.statements) == 1 and not kernel.intermediates):
            continue
        first = kernel.statements[0]
        assert prod([first.extents[loop[0]] for loop in shared_loops(kernel)]) >= plan
        together += 1
    assert together, "no kernel of several statements"
