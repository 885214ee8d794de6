"""The loss of connectionist temporal classification: Graves et al., "Connectionist temporal classification: labelling
unsegmented sequence data with recurrent neural networks", ICML 2006."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tenon
from tenon.dialects.support.plain_arrays import host_array
from tenon.nn.module import Array

_NEVER = -1e30
"""The logarithm of a probability of 0, as a number that sums and differences of logarithms can be taken of."""


def ctc_losses(
    log_probs: Array, targets: Array, input_lengths: Any, target_lengths: Any, blank: int
) -> tuple[Array, Array]:
    """The loss of each sample (N,), and the lengths of the labels, for log-probabilities (T, N, C)."""
    steps, batch, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise ValueError(f"CTCLoss: blank is {blank}, none of the {classes} classes")
    inputs = _lengths("input_lengths", input_lengths, batch, steps)
    is_padded = len(targets.shape) == 2 or batch == 1
    lengths = _lengths("target_lengths", target_lengths, batch, targets.shape[-1] if is_padded else None)
    if not is_padded and isinstance(lengths, np.ndarray) and int(lengths.sum()) != targets.shape[0]:
        raise ValueError(
            f"CTCLoss: there are {targets.shape[0]} targets, and target_lengths add up to {int(lengths.sum())}"
        )
    return _losses(log_probs, _padded(targets, lengths, batch), inputs, lengths, blank), lengths


def _lengths(name: str, given: Any, batch: int, most: int | None) -> Any:
    """A length for each sample. Raises for another number of them, for what is no integer, and, where they are known,
    for one that is negative or more than `most`."""
    if getattr(given, "_is_traced", False):
        given = given._array  # of a tensor in a function that is traced
    is_traced = isinstance(given, tenon.Value)
    lengths: Any = (
        given if is_traced else host_array(np.asarray(given) if isinstance(given, int | tuple | list) else given)
    )
    if np.dtype(lengths.dtype).kind not in "iu":
        raise TypeError(f"CTCLoss: {name} has dtype {lengths.dtype} where integers are needed")
    if math.prod(lengths.shape) != batch:
        raise ValueError(f"CTCLoss: {name} has shape {tuple(lengths.shape)}, and there are {batch} samples")
    if is_traced:
        return tenon.cast(tenon.reshape(lengths, shape=(batch,)), dtype="i32")
    least, greatest = int(lengths.min(initial=0)), int(lengths.max(initial=0))
    if least < 0 or (most is not None and greatest > most):
        raise ValueError(
            f"CTCLoss: {name} has {least if least < 0 else greatest} where a length of 0 to {most} is needed"
            if most is not None
            else f"CTCLoss: {name} has {least}, and lengths are 0 or more"
        )
    return lengths.astype(np.int32).reshape(batch)


def _padded(targets: Array, lengths: Array, batch: int) -> Array:
    """Labels (N, S), of those of all samples one behind the other if that is what they are."""
    if len(targets.shape) == 2:
        return targets
    if batch == 1:
        return tenon.expand_dims(targets, axis=0)
    if isinstance(lengths, tenon.Value):
        raise ValueError(
            "CTCLoss: in a traced function labels are needed as (N, S), since how many each sample has is not known"
        )
    counts = lengths
    places = np.arange(max(int(counts.max(initial=0)), 1))
    starts = np.cumsum(counts) - counts
    return tenon.gather(targets, np.minimum(starts[:, None] + places, max(targets.shape[0] - 1, 0)), axis=0)


@tenon.jit
def _losses(log_probs: Array, targets: Array, inputs: Array, lengths: Array, blank: Array) -> Array:
    steps, batch, classes = log_probs.shape
    labels = targets.shape[1]
    dtype = log_probs.dtype
    targets = tenon.cast(targets, dtype="i32")
    blanks = tenon.broadcast_to(tenon.cast(tenon.asarray(blank), dtype="i32"), (batch, labels + 1))
    # blank, first label, blank, ..., last label, blank
    pairs = tenon.reshape(tenon.stack([blanks[:, :labels], targets], axis=-1), shape=(batch, 2 * labels))
    states = tenon.concatenate([pairs, blanks[:, labels:]], axis=1)
    shape = (steps, batch, 2 * labels + 1)
    # What is no class stands behind the labels that count.
    within = tenon.clip(states, low=0, high=classes - 1)
    seen = tenon.take_along_axis(log_probs, tenon.broadcast_to(within, shape), axis=2)
    before = _shifted(states, 2, -1)
    may_skip = tenon.logical_and(states != blank, states != before)
    place = tenon.iota(shape=(2 * labels + 1,))
    start = tenon.select(place < tenon.minimum(2, 2 * tenon.expand_dims(lengths, axis=1) + 1), seen[0], _NEVER)

    def step(alpha: Array, given: tuple[Array, Array]) -> tuple[Array, None]:
        emitted, time = given
        reached = tenon.logaddexp(alpha, _shifted(alpha, 1, _NEVER))
        skipped = tenon.select(may_skip, _shifted(alpha, 2, _NEVER), _NEVER)
        found = tenon.maximum(tenon.logaddexp(reached, skipped) + emitted, _NEVER)
        return tenon.select(tenon.expand_dims(time < inputs, axis=1), found, alpha), None

    times = tenon.iota(shape=(steps,)) + 0
    alpha, _ = tenon.scan(step, start, (seen[1:], times[1:]))
    last = tenon.expand_dims(2 * lengths, axis=1)
    ends = tenon.logical_or(place == last, place == last - 1)
    likelihood = tenon.logsumexp(tenon.select(ends, alpha, _NEVER), axis=1)
    # The sum of the probabilities is one, and so has no part in the value; see `CTCLoss`.
    counted = tenon.expand_dims(times, axis=1) < inputs
    total = tenon.sum(tenon.select(tenon.expand_dims(counted, axis=2), tenon.exp(log_probs), 0.0), axis=(0, 2))
    losses = tenon.select(likelihood < _NEVER / 2, np.inf, -likelihood)
    return (losses + (total - tenon.stop_gradient(total))).astype(dtype)


def _shifted(x: Array, by: int, value: float) -> Array:
    """`x` (N, L) moved along its last axis, with `value` before it."""
    kept = max(x.shape[1] - by, 0)
    return tenon.pad(x[:, :kept], low=(0, x.shape[1] - kept), high=(0, 0), value=float(value))


__all__ = ["ctc_losses"]
