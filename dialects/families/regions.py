"""Which values ops with regions use."""

from __future__ import annotations

from xdsl.ir import Operation, Region, SSAValue


def captured_values(*regions: Region) -> list[SSAValue]:
    """The values defined outside of `regions` that ops in them use, each once, in order of use."""
    inner: set[SSAValue] = set()
    for region in regions:
        for block in region.blocks:
            inner.update(block.args)
        for op in region.walk():
            inner.update(op.results)
            for nested in op.regions:
                for block in nested.blocks:
                    inner.update(block.args)
    used = (operand for region in regions for op in region.walk() for operand in op.operands)
    return list(dict.fromkeys([operand for operand in used if operand not in inner]))


def used_values(op: Operation) -> list[SSAValue]:
    """The operands of `op`, and the outer values that its regions use."""
    return [*op.operands, *captured_values(*op.regions)] if op.regions else list(op.operands)
