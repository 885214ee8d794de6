"""Keeps the products of a scan for the scan of its gradient.

Before: the tensor stage, decomposed. After: no scan gives, carries or reads what nothing needs, and a scan takes from
an earlier one what both compute, if that is a product of slices as `step_products` says, so that it is not worth less
to read than to compute. The gradient of a scan computes each step again from what the step was given; the products with
weights are kept instead:

    %h = tenon.scan slices(%x) {                %h, %z = tenon.scan slices(%x) {
    ^bb0(%c, %s):                               ^bb0(%c, %s):
      %p = tenon.matmul %c, %w                    %p = tenon.matmul %c, %w
      ... yield %n, %c                            ... yield %n, %c, %p
    %g = tenon.scan slices(%h, ...) {     ->    %g = tenon.scan slices(%z, ...) {
    ^bb0(%d, %e):                               ^bb0(%d, %q):
      %q = tenon.matmul %e, %w                    ...
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from tenon.dialects.families.control_flow import yielded
from tenon.dialects.ops.control.scan import ScanOp
from tenon.passes.loops.rebuilt_scan import erase_unused, with_slices, with_stacked
from tenon.passes.loops.step_products import products_of_slices, static_scans
from tenon.passes.simplify.cse import key_of
from tenon.passes.simplify.dce import Effects


class KeepProductsPass(ModulePass):
    """Let scans read what earlier ones have computed."""

    name = "keep-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        effects = Effects(op)
        for function in op.ops:
            for region in function.regions:
                for block in region.blocks:
                    erase_unused(block, effects)
        for scan in static_scans(op):
            for earlier in dict.fromkeys([sequence.owner for sequence in scan.sequences]):
                if isinstance(earlier, ScanOp) and earlier.steps == scan.steps:
                    scan = _keep(earlier, scan, effects)


def _keep(earlier: ScanOp, scan: ScanOp, effects: Effects) -> ScanOp:
    """`scan`, with what `earlier` computes as well taken from there."""
    known = _same_values(earlier, scan)
    _, values = products_of_slices(scan, among=known)
    if not values:
        return scan
    return with_slices(scan, with_stacked(earlier, [known[value] for value in values], effects), values, effects)


def _same_values(earlier: ScanOp, scan: ScanOp) -> dict[SSAValue, SSAValue]:
    """For values of the body of `scan` those of the body of `earlier` that are equal in the step of the same slices."""
    known: dict[SSAValue, SSAValue] = {}
    count = len(earlier.initial)
    sources: dict[SSAValue, SSAValue] = dict(zip(earlier.sequences, earlier.body.block.args[count:], strict=True))
    sources |= dict(zip(earlier.results[count:], yielded(earlier.body)[count:], strict=True))
    for sequence, argument in zip(scan.sequences, scan.body.block.args[len(scan.initial) :], strict=True):
        if sequence in sources:
            known[argument] = sources[sequence]
    computed = {key_of(op, op.operands): op for op in earlier.body.block.ops if not op.regions}
    for op in scan.body.block.ops:
        found = None if op.regions else computed.get(key_of(op, [known.get(value, value) for value in op.operands]))
        if found is not None:
            known.update(zip(op.results, found.results, strict=True))
    return known
