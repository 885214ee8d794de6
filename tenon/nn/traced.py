"""Modules while functions are traced: those from around the trace must not keep traced values, and what is written to
an argument and not returned is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdsl.dialects import func
from xdsl.ir import Block

from tenon.dialects.definition.value import Value
from tenon.runtime.tracing.watch import Watch, watch


def _containers(value: Any) -> Iterator[tuple[Any, Any]]:
    """The dicts and lists at and below `value`, with copies of what they hold."""
    if isinstance(value, dict):
        yield value, dict(value)
        inner = value.values()
    elif isinstance(value, list | tuple):
        if isinstance(value, list):
            yield value, list(value)
        inner = value
    else:
        return
    for item in inner:
        yield from _containers(item)


def watch_if_foreign(module: Any) -> None:
    """Watch `module`, which is about to be called or written to, if a function is traced that has it from around."""
    tracing = watch()
    if tracing is not None and tracing.is_foreign(module):
        _watch_foreign(tracing, module)


def _watch_foreign(watch: Watch, module: Any) -> None:
    """Give `module`, which the trace has not made, and all below it back what they hold now, if they end up with traced
    values.
    """
    held: list[tuple[Any, Any]] = []
    for inner in module.modules():
        watch.note(inner)
        held += _containers(vars(inner))
    before = {id(value) for value in _traced(module).values()}

    def restore() -> str | None:
        left = [path for path, value in _traced(module).items() if id(value) not in before]
        if not left:
            return None
        for container, content in held:
            if isinstance(container, dict):
                container.clear()
                container.update(content)
            else:
                container[:] = content
        return (
            f"{type(module).__name__}: {', '.join(left)} of a module that is no argument of the traced function would "
            "be left with traced values; pass the module as an argument and return it (it holds what it held before)"
        )

    watch.at_end(restore)


def _traced(module: Any) -> dict[str, Value]:
    return {slot.path: slot.value for slot in module.slots() if isinstance(slot.value, Value)}


def watch_buffers(watch: Watch, module: Any) -> None:
    """Report buffers of `module`, which the trace has made of an argument, that change without any effect, and those of
    a module that is at several places of the arguments, which are separate modules in the trace.
    """
    before = {name: vars(module)[name] for name in module.buffer_names}

    def report_separated() -> str | None:
        changed = [name for name, old in before.items() if vars(module).get(name) is not old]
        if not changed or not all(map(watch.places, before.values())):
            return None
        places = " and ".join(watch.places(before[changed[0]]))
        return (
            f"{', '.join(changed)} of a {type(module).__name__} changed, of which the arguments have one array at "
            f"several places ({places}): a traced function changes each by itself; keep a module in one place and use "
            "it twice"
        )

    def report() -> str | None:
        lost = [name for name, old in before.items() if _is_lost(vars(module).get(name), old)]
        if not lost:
            return None
        return (
            f"{', '.join(lost)} of a {type(module).__name__} changed in a traced function that does not return it, so "
            "that the change is lost; return the module, or switch it to evaluation with eval()"
        )

    if before:
        watch.at_success(report)
        watch.at_success(report_separated)


def _is_lost(value: Any, before: Any) -> bool:
    if not isinstance(value, Value) or value is before or value.ssa.first_use is not None:
        return False
    owner = value.ssa.owner
    parent = owner if isinstance(owner, Block) else owner.parent
    # What is batched is computed by other ops; these are in no function.
    while parent is not None:
        op = parent.parent_op()
        if isinstance(op, func.FuncOp):
            return True
        parent = None if op is None else op.parent
    return False
