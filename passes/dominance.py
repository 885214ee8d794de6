"""Check that every value is defined before it is used, which xDSL's `verify()` leaves out.

Before: the module passes `verify()`. After: nothing has changed, and each operand is defined earlier in its block, in a
block that dominates it, or likewise in an enclosing region; otherwise a `VerifyException` has been raised that shows
each offending operand inside the IR, at its op. As in MLIR, unreachable blocks are not checked, and the body of
`builtin.module` is a graph region, where the order does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.utils.diagnostic import Diagnostic
from xdsl.utils.exceptions import VerifyException

from tenon.dialects.support.location import position_of


def check_dominance(module: Operation) -> None:
    """Raise a `VerifyException`, printed in the IR at each offending op, if a value is used where it is not defined."""
    visible: set[SSAValue] = set()
    violations: list[tuple[Operation, str]] = []
    _check_operation(module, visible, violations)
    if not violations:
        return
    diagnostic = Diagnostic()
    for operation, message in violations:
        diagnostic.add_message(operation, message)
    first = violations[0][1]
    others = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
    diagnostic.raise_exception(module, VerifyException(first + others))


def _check_operation(operation: Operation, visible: set[SSAValue], violations: list[tuple[Operation, str]]) -> None:
    for index, operand in enumerate(operation.operands):
        if operand not in visible:
            violations.append((operation, _describe(operation, index, operand)))
    for region in operation.regions:
        if isinstance(operation, ModuleOp):
            _check_graph_region(region, visible, violations)
        else:
            _check_region(region, visible, violations)


def _check_graph_region(region: Region, visible: set[SSAValue], violations: list[tuple[Operation, str]]) -> None:
    defined = [value for block in region.blocks for value in _definitions(block)]
    visible.update(defined)
    for block in region.blocks:
        for operation in block.ops:
            _check_operation(operation, visible, violations)
    visible.difference_update(defined)


def _check_region(region: Region, visible: set[SSAValue], violations: list[tuple[Operation, str]]) -> None:
    """Walk the blocks in preorder of the dominator tree: what is visible is what the blocks on the way down define."""
    if region.first_block is None:
        return
    dominated = _dominator_tree(region)
    pending: list[tuple[Block, bool]] = [(region.first_block, False)]
    while pending:
        block, is_done = pending.pop()
        if is_done:
            visible.difference_update(_definitions(block))
            continue
        visible.update(block.args)
        for operation in block.ops:
            _check_operation(operation, visible, violations)
            visible.update(operation.results)
        pending.append((block, True))
        pending += [(child, False) for child in reversed(dominated.get(block, ()))]


def _definitions(block: Block) -> Iterable[SSAValue]:
    yield from block.args
    for operation in block.ops:
        yield from operation.results


def _dominator_tree(region: Region) -> dict[Block, list[Block]]:
    """The blocks that each reachable block dominates immediately.

    After Cooper, Harvey and Kennedy, A Simple, Fast Dominance Algorithm (2001). xDSL's `DominanceInfo` counts
    unreachable predecessors, which loses dominators (patch 20 of `dialects/upstream`).
    """
    entry = region.first_block
    if entry is None or entry.last_op is None or not entry.last_op.successors:
        return {}
    order = _reverse_postorder(entry)
    position = {block: index for index, block in enumerate(order)}
    predecessors: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order:
        for successor in _successors(block):
            predecessors[successor].append(block)

    immediate = {entry: entry}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [predecessor for predecessor in predecessors[block] if predecessor in immediate]
            dominator = known[0]
            for other in known[1:]:
                while dominator is not other:
                    if position[dominator] > position[other]:
                        dominator = immediate[dominator]
                    else:
                        other = immediate[other]
            if immediate.get(block) is not dominator:
                immediate[block] = dominator
                changed = True

    children: dict[Block, list[Block]] = {}
    for block in order[1:]:
        children.setdefault(immediate[block], []).append(block)
    return children


def _reverse_postorder(entry: Block) -> list[Block]:
    postorder: list[Block] = []
    seen = {entry}
    pending = [(entry, iter(_successors(entry)))]
    while pending:
        block, successors = pending[-1]
        successor = next((candidate for candidate in successors if candidate not in seen), None)
        if successor is None:
            postorder.append(block)
            pending.pop()
        else:
            seen.add(successor)
            pending.append((successor, iter(_successors(successor))))
    return postorder[::-1]


def _successors(block: Block) -> tuple[Block, ...]:
    return tuple(block.last_op.successors) if block.last_op is not None else ()


def _describe(operation: Operation, index: int, operand: SSAValue) -> str:
    value = f"operand {index}" + (f" (%{operand.name_hint})" if operand.name_hint else "")
    owner = operand.owner
    definition = owner.name if isinstance(owner, Operation) else "a block argument"
    block = owner.parent if isinstance(owner, Operation) else owner
    use = f"{position_of(operation)}{operation.name}: {value} is"
    if block is None:
        return f"{use} defined by {definition}, which is not part of the module"

    enclosing: Operation | None = operation
    while enclosing is not None and enclosing.parent_region() is not block.parent:
        enclosing = enclosing.parent_op()
    if enclosing is None:
        region_owner = block.parent_op()
        scope = region_owner.name if region_owner is not None else "a detached region"
        return f"{use} defined by {definition} inside {scope}, where it cannot be seen from"
    if enclosing is owner:
        what = "itself" if enclosing is operation else f"{definition}, which encloses this use"
        return f"{use} defined by {what}"
    if enclosing.parent is block:
        return f"{use} used before its definition by {definition}"
    return f"{use} defined by {definition} in a block that does not dominate this one"
