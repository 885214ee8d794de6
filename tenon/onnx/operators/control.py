"""If, Loop and Scan: branches and iterations, decided while importing where that is possible.

What depends on known values alone becomes straight-line code, or a `scan` of so many steps. Otherwise a branch is a
`cond` and an iteration a `while_loop`, if shapes stay as they are; if they do not, or a sequence grows, the values have
to be known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenon.control_flow import cond, scan, while_loop
from tenon.dialects.definition.value import ops
from tenon.dialects.types.shapes import normalize_axis
from tenon.onnx.node import NOTHING, Content, NeedsStep, NeedsValue, Node, OnnxError, Operand, kind_of
from tenon.onnx.operators import operator

_UNROLLED_STEPS = 8
"""Up to so many steps, a loop is written out."""
_MOST_WRITTEN_STEPS = 1000
"""A loop of more steps is not written out, even if a step has to know its number: that would compile for minutes."""
_MOST_STEPS = 2**31
"""A loop of more steps that nothing ends early is refused."""


def _as_truth(operand: Any) -> Any:
    """A condition, of rank 0 or of one element, as a scalar."""
    return ops.reshape(operand, shape=())


def _found(node: Node, operand: Operand | None, what: str) -> np.ndarray[Any, Any] | None:
    """The value of an operand that follows from what is known already, `None` where it does not."""
    if operand is None:
        return None
    try:
        return node.known(operand, what)
    except (NeedsValue, OnnxError):
        return None


def _tree(contents: Sequence[Content]) -> tuple[Any, ...]:
    """Contents as a tree of tensors of the trace, in which an empty optional is `None`."""
    return tuple(
        [list(_tree(c)) if isinstance(c, list) else None if c is NOTHING else ops.asarray(c) for c in contents]
    )


def _contents(tree: Sequence[Any]) -> tuple[Content, ...]:
    """What `_tree` was given, as the graph takes it."""
    return tuple([NOTHING if content is None else content for content in tree])


@operator("If")
def if_(node: Node, condition: Operand) -> Any:
    """Where branches differ in shapes or in lengths of sequences, only one of them can be part of what is compiled."""
    then, otherwise = node.required("then_branch"), node.required("else_branch")
    decided = _found(node, condition, "the condition")
    if decided is not None:
        return (then if decided.reshape(-1)[0] else otherwise)()
    try:
        return _contents(cond(_as_truth(condition), lambda: _tree(then()), lambda: _tree(otherwise())))
    except TypeError:
        return (then if node.known(condition, "the condition").reshape(-1)[0] else otherwise)()


def _stacked(rows: Sequence[Any]) -> Any:
    if (kind := next(filter("tensor".__ne__, map(kind_of, rows)), None)) is not None:
        raise TypeError(f"an output of the body is of kind {kind!r} where a tensor of each step is needed")
    return ops.stack(tuple(rows), axis=0)


@operator("Loop")
def loop(node: Node, count: Operand | None = None, condition: Operand | None = None, *initial: Content) -> Any:
    """The body takes the step, the condition and what is carried, and gives the condition, that, and an output each."""
    body = node.required("body")
    steps, start = _found(node, count, "the trip count"), _found(node, condition, "the condition")
    if start is not None and not start.reshape(-1)[0]:
        steps = np.asarray(0)
    outputs = node.output_count - len(initial)
    if steps is not None and (condition is None or start is not None):
        size = int(steps.reshape(-1)[0])
        if size > _UNROLLED_STEPS:
            scanned = _scanned(node, body, size, initial)
            if scanned is not None:
                return scanned
        if size > 0 or not outputs:
            unrolled = _unrolled(node, body, size, initial)
            if unrolled is not None:
                return unrolled
    if not outputs:
        try:
            return _while(body, count, condition, initial)
        except (TypeError, NeedsStep):
            pass  # what is carried changes its shape, or a step decides one
    limit = None if count is None else int(node.known(count, "the trip count").reshape(-1)[0])
    if condition is not None and not node.known(condition, "the condition").reshape(-1)[0]:
        limit = 0
    return _unrolled(node, body, limit, initial, needs_condition=True)


def _unrolled(
    node: Node, body: Any, limit: int | None, initial: Sequence[Any], *, needs_condition: bool = False
) -> Any:
    """The steps one after the other, for as long as the condition, which has to be known, holds.

    `None` where it is not, unless that `needs_condition`.
    """
    carried, rows, step = list(initial), list[Any](), 0
    while limit is None or step < limit:
        if step == _MOST_WRITTEN_STEPS:
            raise OnnxError(
                f"{node.where}: takes more than {_MOST_WRITTEN_STEPS} steps that differ in shapes or end by a condition"
            )
        going, *results = body(np.asarray(step, np.int64), np.asarray(True), *carried)
        carried, outputs = results[: len(carried)], results[len(carried) :]
        rows.append(outputs)
        step += 1
        known = node.known(going, "the condition") if needs_condition else _found(node, going, "the condition")
        if known is None:
            return None
        if not known.reshape(-1)[0]:
            break
    count = node.output_count - len(initial)
    if count and not rows:
        raise OnnxError(f"{node.where}: takes no steps, so that the shapes of its outputs are not known")
    return *carried, *[_stacked([row[position] for row in rows]) for position in range(count)]


def _scanned(node: Node, body: Any, size: int, initial: Sequence[Any]) -> Any:
    """The loop as a scan of `size` steps; `None` where the condition may end it, or steps differ in shapes."""

    def step(carry: Any, index: Any) -> Any:
        going, *results = body(index, np.asarray(True), *_contents(carry))
        known = _found(node, going, "the condition")
        if known is None or not known.reshape(-1)[0]:
            raise TypeError("the condition may end the loop")
        return _tree(results[: len(initial)]), _tree(results[len(initial) :])

    try:
        carry, outputs = scan(step, _tree(initial), ops.iota(shape=(min(size, _MOST_STEPS),)))
    except TypeError:
        return None
    except NeedsStep:
        if size > _MOST_WRITTEN_STEPS:
            raise
        return None
    if size > _MOST_STEPS:
        raise OnnxError(f"{node.where}: takes {size} steps, more than {_MOST_STEPS}")
    return *_contents(carry), *outputs


def _while(body: Any, count: Operand | None, condition: Operand | None, initial: Sequence[Any]) -> Any:
    """The loop for as long as the condition holds; no outputs are collected."""

    def goes_on(state: Any) -> Any:
        step, going, _ = state
        return going if count is None else ops.logical_and(going, ops.less(step, ops.reshape(count, shape=())))

    def advanced(state: Any) -> Any:
        step, going, carried = state
        following, *results = body(step, going, *_contents(carried))
        return ops.add(step, 1), _as_truth(ops.asarray(following)), _tree(results)

    going = ops.asarray(np.asarray(True)) if condition is None else _as_truth(condition)
    start = (ops.asarray(np.asarray(0, np.int64)), ops.asarray(going), _tree(initial))
    return _contents(while_loop(goes_on, advanced, start)[2])


@operator("Scan", since=8, until=8)
def scan_batch(node: Node, lengths: Operand | None = None, *operands: Operand) -> Any:
    """Each element of a batch, along axis 0 of all operands, for itself; sequences lie along axis 1."""
    if lengths is not None:
        raise OnnxError(f"{node.where}: sequences of different lengths (sequence_lens) are not supported")
    body, count = node.required("body"), node.required("num_scan_inputs")
    states = _states(node, count, len(operands))
    backward = node.attribute("directions") or [0] * count

    def step(carry: Any, slices: Any) -> Any:
        results = body(*carry, *slices)
        return _tree(results[:states]), _tree(results[states:])

    def of_one(_: Any, given: Any) -> Any:
        turned = [ops.flip(x, axis=0) if back else x for x, back in zip(given[states:], backward, strict=True)]
        return (), scan(step, given[:states], tuple(turned))

    carry, stacked = scan(of_one, (), _tree(operands))[1]
    return *carry, *stacked


def _states(node: Node, count: int, operands: int) -> int:
    """How many of the operands are carried, where the last `count` are sequences."""
    if not 1 <= count <= operands:
        raise OnnxError(f"{node.where}: num_scan_inputs is {count} for {operands} operands")
    return operands - count


@operator("Scan", since=9)
def scan_(node: Node, *operands: Operand) -> Any:
    """The body takes what is carried and a slice of each sequence, and gives the same with an output each."""
    body, count = node.required("body"), node.required("num_scan_inputs")
    states = _states(node, count, len(operands))
    initial, sequences = operands[:states], operands[states:]
    outputs = node.output_count - states
    axes = node.attribute("scan_input_axes") or [0] * count
    backward = node.attribute("scan_input_directions") or [0] * count
    turned = [
        ops.flip(moved, axis=0) if is_backward else moved
        for moved, is_backward in zip(
            [_to_front(x, axis) for x, axis in zip(sequences, axes, strict=True)], backward, strict=True
        )
    ]

    def step(carry: Any, slices: Any) -> Any:
        results = body(*carry, *slices)
        return _tree(results[:states]), _tree(results[states:])

    carry, stacked = scan(step, _tree(initial), _tree(turned))
    places = node.attribute("scan_output_axes") or [0] * outputs
    backward = node.attribute("scan_output_directions") or [0] * outputs
    given = [
        _from_front(ops.flip(rows, axis=0) if is_backward else rows, axis)
        for rows, axis, is_backward in zip(stacked, places, backward, strict=True)
    ]
    return *carry, *given


def _to_front(x: Any, axis: int) -> Any:
    axis = normalize_axis(axis, x.ndim)
    order = (axis, *[i for i in range(x.ndim) if i != axis])
    return ops.transpose(x, permutation=order) if axis else x


def _from_front(x: Any, axis: int) -> Any:
    axis = normalize_axis(axis, x.ndim)
    order = (*range(1, axis + 1), 0, *range(axis + 1, x.ndim))
    return ops.transpose(x, permutation=order) if axis else x
