"""Why kernels of the buffered stage have the steps that they have on a GPU, as text: what each decider says against a
kernel, the one that has steps for it, and the tiles among which these were chosen."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from xdsl.dialects.builtin import ModuleOp

from tenon.lowering.buffers.alignments import alignments, write_alignments
from tenon.lowering.grid_schedules.contractions import large_product
from tenon.lowering.grid_schedules.decide_steps import DECIDERS, steps_of
from tenon.lowering.grid_schedules.matrix_instructions import candidates
from tenon.lowering.grid_schedules.product_tiles import told
from tenon.lowering.grid_schedules.warpgroup_instructions import candidates as warpgroup_candidates
from tenon.lowering.kernels.collapse_loops import collapse_loops
from tenon.lowering.kernels.statement import kernels_of, read_kernel
from tenon.lowering.steps.nest import Nest
from tenon.lowering.steps.pack import ASYNC
from tenon.lowering.steps.table import ATTRIBUTE, given_steps
from tenon.passes.machine import Gpu

TILED = {
    "warpgroup instructions": warpgroup_candidates,
    "warpgroup instructions, threads copy": partial(warpgroup_candidates, copies=ASYNC),
    "matrix instructions": candidates,
}
"""The deciders that choose among tiles of a product."""


def explain(module: ModuleOp, gpu: Gpu, serialised: Mapping[str, str]) -> str:
    """The text for all kernels of a module that nothing was decided for yet; it stays as it is. Of kernels that are
    `serialised` it says why (see `Built`)."""
    lines: list[str] = []
    given, aligned = given_steps(module), alignments(module, gpu.access)
    for function in kernels_of(module.clone()):
        write_alignments(function, aligned.get(function.sym_name.data))
        lines.append(f"{function.sym_name.data}")
        if ATTRIBUTE in function.attributes or function.sym_name.data in given:
            lines.append("  its steps are given")
            continue
        machine = gpu
        if (remark := serialised.get(function.sym_name.data)) is not None:
            machine = gpu.common
            lines.append(f"  by instructions of {gpu.architecture} the assembler serialises it: {remark}")
        collapse_loops(function)
        for name, decider in DECIDERS.items():
            steps = steps_of(function, machine, decider)
            if isinstance(steps, str):
                lines.append(f"  {name}: {steps}")
                continue
            lines.append(f"  {name}: chosen")
            nest = Nest.of(read_kernel(function), machine)
            product = large_product(nest)
            if name in TILED and not isinstance(product, str):
                lines += [f"    {line}" for line in told(TILED[name](nest, product))]
            lines += [f"    {step}" for step in steps]
            break
        else:
            lines.append("  a thread or a block for each iteration of its outermost loop")
    return "".join(f"{line}\n" for line in lines)
