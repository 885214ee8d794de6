"""Changes of tensors in place, and what they mean for views and for the tape.

Memory that nobody else sees is not written to: the tensor gets the memory of the new elements, and gradients find the
former ones where they were.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from tenon.dialects.definition.value import Value, ops
from tenon.dialects.support.plain_arrays import copied, put
from tenon.eager.modes import TRACING, run_waiting
from tenon.eager.recording import Stored, as_operands, call_of, note, record, wants_gradient
from tenon.eager.tape import RENEWED, Array, Call, Leaf, Operand
from tenon.eager.views import View


def _checked_cast(array: Array, target: Array, name: str) -> None:
    if array.shape != target.shape:
        raise ValueError(
            f"{name}: a tensor of shape {target.shape} cannot hold the result in place, whose shape is {array.shape}"
        )
    if not np.can_cast(array.dtype, target.dtype, "same_kind"):
        raise TypeError(f"{name}: a tensor of {target.dtype} cannot hold the result in place, which is {array.dtype}")


def replace(tensor: Stored, result: Stored, name: str) -> None:
    """Give `tensor` the elements of `result`, a tensor of its own shape."""
    array, target = result._array, tensor._array
    if tensor._memory is not None and tensor._memory.tensors is not None:
        tensor._memory.forget_dead()
    array = tensor._beside(array)
    is_alike = array.dtype is target.dtype and array.shape == target.shape
    if is_alike and _is_plain(tensor) and _is_plain(result) and is_private(tensor):
        tensor._array, tensor._memory = array, None
        return
    if not is_alike:
        _checked_cast(array, target, name)
    run_waiting()
    if tensor._memory is not None and tensor._memory.tensors is not None and can_write_at_once(tensor, result):
        put(target, array)
        tensor._memory.change()
        return
    refuse_leaf(tensor, (tensor, result), name)
    operands = as_operands((result,)) if wants_gradient((tensor, result)) else None
    if isinstance(array, Value) or tensor._is_traced:
        TRACING.session.put(tensor, array)
    elif is_private(tensor):
        # What counts changes goes with the memory: calls may have kept the result, too.
        is_taken = array.dtype is target.dtype and is_private(result)
        tensor._array = array if is_taken else copied(array, target.dtype)
        tensor._memory = result._memory if is_taken else None
    else:
        put(target, array)
        tensor._own_memory().change()
    settle(tensor, lambda: _cast_call(target.dtype), operands)


def restorer(tensor: Stored) -> Callable[[], None]:
    """What gives `tensor` back the elements that it has now, and its place on the tape. A trace undoes its own."""
    if TRACING.session is not None:
        return lambda: None
    run_waiting()
    array, memory, source = tensor._array, tensor._memory, tensor._source
    elements = None if is_private(tensor) else copied(array)

    def restore() -> None:
        if elements is not None:
            put(array, elements)
        tensor._array, tensor._memory, tensor._source = array, memory, source

    return restore


def _cast_call(dtype: np.dtype[Any]) -> Call:
    return call_of("identity", ("identity", dtype), lambda values: (ops.identity(values[0].astype(dtype)),))


def _is_plain(tensor: Stored) -> bool:
    """Whether a tensor is no view, is not traced, and has nothing to do with gradients."""
    return tensor._source is None and tensor._view is None and not tensor._is_traced


def kept(tensor: Stored, others: Sequence[Any]) -> Stored:
    """`tensor`, or a copy where a call that reads it now, and others, is recorded, and it is about to be changed."""
    if is_private(tensor) or not wants_gradient((tensor, *others)):
        return tensor
    copy = tensor._new(tensor._array if tensor._is_traced else copied(tensor._array))
    copy._source = _unhooked(tensor)._source
    return copy


def _unhooked(tensor: Stored) -> Stored:
    """`tensor`, which is about to be changed, or another one like it if it is a view with hooks: these get the gradient
    of what is computed of it, and not of the base, where its change goes on."""
    view: View | None = tensor._view
    if view is None or tensor._source is None or not tensor._source.has_hooks:
        return tensor
    made = tensor._new(tensor._array)
    note(view.call(), (view.base,), made)
    return made


def is_private(tensor: Stored) -> bool:
    """Whether nobody else sees the memory of a tensor."""
    memory = tensor._memory
    return tensor._laid.base is None and (memory is None or not (memory.is_exported or memory.tensors))


def refuse_leaf(tensor: Stored, operands: Sequence[Any], name: str) -> None:
    """Raise `RuntimeError` for a change of a leaf that gradients are with respect to, where calls are recorded."""
    _join(tensor)
    if not wants_gradient(operands):
        return
    memory = tensor._memory
    for held in [tensor] if memory is None or not memory.tensors else sharing(tensor):
        if held._source is not None and held._source.node is None:
            raise RuntimeError(
                f"{name}: a tensor that requires a gradient, of shape {held._array.shape}, cannot be changed in place "
                "where calls are recorded; do that in `with tenon.no_grad():`"
            )


def _join(tensor: Stored) -> None:
    """Put a view that was made where nothing was recorded on the tape, if what it is a view of is there."""
    view: View | None = tensor._view
    if view is not None and tensor._source is None and wants_gradient((view.base,)):
        note(view.call(), (view.base,), tensor)


def can_write_at_once(tensor: Stored, values: Any) -> bool:
    """Whether values are put into memory, and all else there is to do is to count that: nothing that shares the memory,
    nor the values, has to do with gradients or is traced."""
    if tensor._source is not None or tensor._is_traced:
        return False
    if type(values) is not float and not (
        isinstance(values, Stored) and values._source is None and not values._is_traced
    ):
        return False
    memory = tensor._memory
    if memory is None or memory.tensors is None:
        return True
    for r in memory.tensors:
        held = r()
        if held is not None and held._source is not None:
            return False
    return True


def write(
    tensor: Stored, store: Callable[[], None], call: Callable[[], Call], operands: Sequence[Any], name: str
) -> None:
    """Change elements of `tensor` by `store`, which `call` describes; its first operand is the tensor as it was."""
    refuse_leaf(tensor, operands, name)
    noted = as_operands([_unhooked(tensor), *operands[1:]]) if wants_gradient(operands) else None
    if tensor._is_traced or any(isinstance(given, Stored) and given._is_traced for given in operands):
        TRACING.session.write(tensor, call(), operands)
    else:
        run_waiting()
        store()
    tensor._own_memory().change()
    settle(tensor, call, noted)


def settle(tensor: Stored, call: Callable[[], Call], operands: Sequence[Operand] | None) -> None:
    """Give `tensor`, which was changed, a new source, and those that share its memory.

    Without operands, as nothing is recorded, gradients go on to where they went before.
    """
    if operands is None:
        for held in sharing(tensor):
            _renew(held)
        return
    record(call(), operands, (tensor,))
    together = sharing(tensor)
    _settle_views(tensor, together)
    for held in together:
        if held._keeps_grad is not None and held._source is not None:
            held._keeps_grad.move(held._source)


def _settle_views(tensor: Stored, together: Sequence[Any]) -> None:
    """Give a base, and the views of it, sources for what is in their memory since one of them was changed."""
    if len(together) == 1:
        return
    view: View | None = tensor._view
    base = tensor if view is None else view.base
    if view is not None:
        record(view.update_call(), [_overwritten(base), *as_operands((tensor,))], (base,))
    for held in together:  # the tensor as well: its hooks get the gradient of what is computed of it, not of the base
        its: View | None = held._view
        if its is not None:
            note(its.call(), (base,), held)


def _overwritten(tensor: Stored) -> Operand:
    """What the source of a tensor gave, which is not what is in its memory any more."""
    return tensor._source, (tensor._array.dtype, tuple(tensor._array.shape))


def _renew(tensor: Stored) -> None:
    source = tensor._source
    if source is None:
        return
    if isinstance(source, Leaf):
        tensor._source = source.renewed()
    else:
        call = call_of(RENEWED, (RENEWED, source.dtype), lambda values: (ops.identity(values[0]),))
        record(call, [_overwritten(tensor)], (tensor,))


def sharing(tensor: Stored) -> list[Any]:
    """The tensors that share the memory of `tensor`, itself among them."""
    memory = tensor._memory
    if memory is None or not memory.tensors:
        return [tensor]
    return [held for r in memory.tensors if (held := r()) is not None]


def share(tensor: Stored, base: Stored) -> None:
    """Note that `tensor` is a view of `base`."""
    memory = tensor._memory = base._own_memory()
    if memory.tensors is None:
        memory.tensors = [ref(base)]
    elif len(memory.tensors) % 64 == 0:
        memory.tensors = [r for r in memory.tensors if r() is not None]
    memory.tensors.append(ref(tensor))
