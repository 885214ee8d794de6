"""The hook `canonicalize` of users' ops: what it leaves behind is looked at, as it may be anything.

A hook that takes away an op which is read, or puts in what stands nowhere, is an error that names it. What it made and
did not put in is dropped: the values that such an op reads would seem to be needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.support.location import at_line
from tenon.dialects.types.shapes import compatible
from tenon.passes.dominance import check_dominance


def check_replacement(hook_of: Operation, op: Operation, replacements: Sequence[SSAValue | None]) -> None:
    """Raise where the hook of an op puts a value of another type, or none, into the place of a result of `op`."""
    for result, value in zip(op.results, replacements, strict=True):
        if value is not None and not compatible(result.type, value.type):
            raise _failed(hook_of, f"puts {value.type} into the place of {result.type}")
        if value is None and result.first_use is not None:
            reader = result.first_use.operation.name
            raise _failed(hook_of, f"puts None into the place of {result.type}, which {reader} reads")


def check_removal(hook_of: Operation, op: Operation) -> None:
    """Raise where the hook of an op takes `op` away, whose results are read."""
    for result in op.results:
        if (use := result.first_use) is not None:
            raise _failed(hook_of, f"takes away {op.name}, whose result {use.operation.name} reads; replace it")


def check_touched(op: Operation, touched: Sequence[Operation]) -> None:
    """Raise where one of the ops that the hook of `op` put in or changed is not valid, or reads what is nowhere."""
    if op.parent is None:
        touched = [*touched, *[use.operation for result in op.results for use in result.uses]]
    for changed in touched:
        if changed.parent is None:
            continue
        for operand in changed.operands:
            if isinstance(operand.owner, Operation) and operand.owner.parent is None:
                raise _failed(op, f"lets {changed.name} read the result of {operand.owner.name}, which stands nowhere")
        try:
            changed.verify(verify_nested_ops=False)
        except Exception as error:
            raise _failed(op, f"leaves an op that is not valid: {error}") from error


def check_order(root: Operation, hooks: Sequence[type[Operation]]) -> None:
    """Raise where a value is read before it is computed, after the hooks of these ops."""
    try:
        check_dominance(root)
    except Exception as error:
        names = ", ".join([hook.name for hook in hooks])
        raise PassFailedException(f"{str(error).partition(chr(10))[0]}, after canonicalize of {names}") from None


def drop_detached(root: Operation) -> None:
    """Let ops that stand nowhere read nothing of what is inside of `root`."""
    inside = {*root.walk()}
    for op in inside:
        arguments = [argument for region in op.regions for block in region.blocks for argument in block.args]
        for value in (*op.results, *arguments):
            for reader in [use.operation for use in value.uses]:
                if reader not in inside and reader.get_toplevel_object() is not root.get_toplevel_object():
                    reader.drop_all_references()


def _failed(op: Operation, what: str) -> PassFailedException:
    return PassFailedException(f"{op.name}: canonicalize {what}{at_line(op)}")
