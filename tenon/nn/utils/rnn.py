"""Sequences of several lengths in one tensor: padded, or packed step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import tenon


class PackedSequence(NamedTuple):
    """The elements of sequences, longest first, step by step without padding: `batch_sizes` says how many sequences
    have each step. `sorted_indices` is their order, and `unsorted_indices` the way back, or both are `None`."""

    data: Any
    batch_sizes: Any
    sorted_indices: Any = None
    unsorted_indices: Any = None


def pad_sequence(sequences: Sequence[Any], batch_first: bool = False, padding_value: float = 0.0) -> Any:
    """Sequences (length, ...) in one tensor (longest, batch, ...), or (batch, longest, ...) if `batch_first`, with
    `padding_value` behind the shorter ones."""
    if not sequences:
        raise ValueError("pad_sequence: there are no sequences")
    longest = max(sequence.shape[0] for sequence in sequences)
    rows: list[Any] = []
    for sequence in sequences:
        rank, missing = len(sequence.shape), longest - sequence.shape[0]
        high = (missing, *(0,) * (rank - 1))
        rows.append(tenon.pad(sequence, (0,) * rank, high, value=padding_value) if missing else sequence)
    return tenon.stack(rows, axis=0 if batch_first else 1)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """The sequences that `pad_sequence` made one tensor of, by their lengths."""
    rows = padded_sequences if batch_first else padded_sequences.swapaxes(0, 1)
    return [rows[i, : int(length)] for i, length in enumerate(np.asarray(lengths))]


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """The elements of padded sequences (longest, batch, ...) step by step, without the padding.

    Raises `ValueError` for lengths that are not those of the batch, and, if `enforce_sorted`, that grow.
    """
    rows = input if batch_first else input.swapaxes(0, 1)
    sizes = np.asarray(lengths).astype(np.int64)
    if sizes.shape != (rows.shape[0],) or (sizes < 1).any() or sizes.max() > rows.shape[1]:
        raise ValueError(
            f"pack_padded_sequence: lengths are {sizes.tolist()} where {rows.shape[0]} from 1 to {rows.shape[1]} are "
            "needed"
        )
    order = None
    if not enforce_sorted:
        order = np.argsort(-sizes, kind="stable")
    elif (np.diff(sizes) > 0).any():
        raise ValueError("pack_padded_sequence: lengths grow; sort the sequences, or set enforce_sorted=False")
    ranked = sizes if order is None else sizes[order]
    counts = np.array([int((ranked > step).sum()) for step in range(int(ranked[0]))], np.int64)
    return packed_as(PackedSequence(None, counts, order, None if order is None else np.argsort(order)), rows)


def packed_as(like: PackedSequence, rows: Any) -> PackedSequence:
    """Padded sequences (batch, longest, ...) packed as others of the same lengths are."""
    counts = np.asarray(like.batch_sizes)
    places = np.concatenate([np.arange(count) for count in counts])
    rows_of = places if like.sorted_indices is None else np.asarray(like.sorted_indices)[places]
    return like._replace(data=rows[rows_of, np.repeat(np.arange(len(counts)), counts)])


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Any, Any]:
    """The padded sequences (longest, batch, ...), in their order before they were packed, and their lengths."""
    data, counts, _, back = sequence
    counts = np.asarray(counts)
    steps = len(counts) if total_length is None else total_length
    if steps < len(counts):
        raise ValueError(f"pad_packed_sequence: total_length is {steps}, and there are {len(counts)} steps")
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    batch = int(counts[0])
    is_there = np.zeros((steps, batch), bool)
    is_there[: len(counts)] = np.arange(batch) < counts[:, None]
    places = np.zeros((steps, batch), np.int64)
    places[: len(counts)] = np.minimum(starts[:, None] + np.arange(batch), len(data) - 1)
    lengths = is_there.sum(0)
    if back is not None:
        is_there, places, lengths = is_there[:, back], places[:, back], lengths[back]
    if batch_first:
        is_there, places = is_there.T, places.T
    found = data[np.ascontiguousarray(places)]
    mask = is_there.reshape((*is_there.shape, *(1,) * (len(found.shape) - 2)))
    return tenon.select(mask, found, padding_value).astype(found.dtype), lengths


def pack_sequence(sequences: Sequence[Any], enforce_sorted: bool = True) -> PackedSequence:
    """The elements of sequences (length, ...) step by step."""
    lengths = [sequence.shape[0] for sequence in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)
