"""Operators of signal processing: Fourier transforms, filter banks, counts of sequences of words."""

from __future__ import annotations

from typing import Any

import numpy as np

from tenon.dialects.definition.value import ops
from tenon.dialects.types.shapes import normalize_axis
from tenon.onnx.node import LARGEST_ARRAY, Node, OnnxError, Operand, check_size
from tenon.onnx.operators import operator


@operator("DFT", since=17)
def dft(node: Node, x: Operand, length: Operand | None = None, axis: Operand | None = None) -> Any:
    """The axis is an attribute before opset 20, and an input from then on."""
    own = node.attribute("axis", 1) if node.opset < 20 else -2
    along = normalize_axis(own if axis is None else int(node.number(axis, "axis")), x.ndim)
    n = None if length is None else int(node.number(length, "dft_length"))
    onesided, inverse = bool(node.attribute("onesided", 0)), bool(node.attribute("inverse", 0))
    return ops.dft(x, axis=along, length=n, inverse=inverse, onesided=onesided)


@operator("STFT", since=17)
def stft(
    node: Node, signal: Operand, step: Operand, window: Operand | None = None, length: Operand | None = None
) -> Any:
    """The transforms (batch, frames, frequencies, 2) of windows of `signal` (batch, n) or (batch, n, parts)."""
    x: Any = ops.expand_dims(signal, axis=-1) if signal.ndim == 2 else signal
    if x.ndim != 3:
        raise OnnxError(f"{node.where}: signal has rank {signal.ndim} where 2 or 3 is needed")
    if length is not None:
        size = int(node.number(length, "frame_length"))
    else:
        size = node.shape(x)[1] if window is None else node.shape(window)[0]
    hop = int(node.number(step, "frame_step"))
    if hop < 1 or not 1 <= size <= node.shape(x)[1]:
        raise OnnxError(f"{node.where}: frames of {size} every {hop} of a signal of {x.shape[1]}")
    # (batch, parts, frames, size) -> (batch, frames, size, parts)
    frames: Any = ops.sliding_windows(ops.transpose(x, permutation=(0, 2, 1)), window=(size,), stride=hop)
    frames = ops.transpose(frames, permutation=(0, 2, 3, 1))
    if window is not None:
        frames = frames * ops.reshape(window, shape=(size, 1))
    return ops.dft(frames, axis=2, onesided=bool(node.attribute("onesided", 1)))


@operator("MelWeightMatrix", since=17)
def mel_weight_matrix(node: Node, bins: Operand, length: Operand, rate: Operand, low: Operand, high: Operand) -> Any:
    """Triangles (frequencies, bins) on the mel scale, 2595 * log10(1 + f / 700).

    As in the standard's reference, the scale is cut into bins + 2 parts, so that the last triangle ends below `high`.
    """
    count, points = int(node.number(bins, "num_mel_bins")), int(node.number(length, "dft_length"))
    sampled = float(node.number(rate, "sample_rate"))
    lowest, highest = float(node.number(low, "lower_edge_hertz")), float(node.number(high, "upper_edge_hertz"))
    if count < 1 or points < 1 or sampled <= 0 or not -700 < lowest <= highest:
        raise OnnxError(
            f"{node.where}: {count} bins from {lowest:g} to {highest:g} Hz of {points} points at {sampled:g} Hz"
        )
    shape, dtype = (points // 2 + 1, count), node.dtype("output_datatype", np.float32)
    assert dtype is not None
    check_size(shape, np.dtype(np.float64), f"{node.where}: the matrix", LARGEST_ARRAY)
    first, last = (2595 * np.log10(1 + f / 700) for f in (lowest, highest))
    hertz = 700 * (10 ** (np.linspace(first, last, count + 2, endpoint=False) / 2595) - 1)
    edges = np.floor((points + 1) * hertz / sampled)
    start, middle, end = edges[:-2], edges[1:-1], edges[2:]
    places = np.arange(shape[0])[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        rising = np.where(middle == start, places == middle, (places - start) / (middle - start))
        falling = (end - places) / (end - middle)
    inner = np.where(places <= middle, rising, falling)
    inside = ((places >= start) & (places <= middle)) | ((places > middle) & (places < end))
    return np.where(inside, inner, 0.0).astype(dtype)


@operator("TfIdfVectorizer", since=9)
def tf_idf_vectorizer(node: Node, x: Operand) -> Any:
    """How often each n-gram of a pool of numbers comes in `x` (words,) or (batch, words), with up to so many skips."""
    pool = node.attribute("pool_int64s")
    if pool is None:
        raise OnnxError(f"{node.where}: pools of strings are not supported")
    starts, indexes = [*node.required("ngram_counts"), len(pool)], np.asarray(node.required("ngram_indexes"), np.int64)
    shortest, longest = node.required("min_gram_length"), node.required("max_gram_length")
    rows: Any = x if x.ndim == 2 else ops.expand_dims(x, axis=0)
    counts: list[Any] = []
    for n in range(1, len(starts)):
        if starts[n - 1] < 0 or starts[n] < starts[n - 1] or (starts[n] - starts[n - 1]) % n:
            raise OnnxError(f"{node.where}: ngram_counts {starts[:-1]} do not fit a pool of {len(pool)}")
        grams = np.asarray(pool[starts[n - 1] : starts[n]], x.dtype).reshape(-1, n)
        if len(grams):
            skips = 0 if n == 1 else node.required("max_skip_count")
            counts.append(_counted(rows, grams, skips if shortest <= n <= longest else -1))
    found: Any = ops.concatenate(counts, axis=1)
    if len(indexes) != found.shape[1] or min(indexes) < 0:
        raise OnnxError(f"{node.where}: ngram_indexes has {len(indexes)} entries where {found.shape[1]} are needed")
    weights = np.asarray(node.attribute("weights") or [1.0] * len(indexes), np.float32)
    match node.required("mode"):
        case "TF":
            scored = found
        case "IDF":
            scored = ops.select(found > 0.0, weights, 0.0)
        case "TFIDF":
            scored = found * weights
        case mode:
            raise OnnxError(f"{node.where}: mode {mode!r} is not one of TF, IDF, TFIDF")
    nothing = ops.full((rows.shape[0], int(indexes.max()) + 1), 0.0, np.float32)
    result = ops.scatter_add(nothing, indexes, scored, axis=1)
    return result if x.ndim == 2 else result[0]


def _counted(rows: Any, grams: np.ndarray[Any, Any], most_skips: int) -> Any:
    """How often `grams` (count, n) come in `rows` (batch, words): f32 (batch, count)."""
    batch, words = rows.shape
    count, n = grams.shape
    total: Any = ops.full((batch, count), 0.0, np.float32)
    for skips in range(most_skips + 1):
        if (n - 1) * (skips + 1) < words:
            windows = ops.sliding_windows(rows, window=(n,), dilation=skips + 1)
            same = ops.all(ops.equal(ops.expand_dims(windows, axis=2), grams), axis=3)
            total = total + ops.sum(ops.cast(same, dtype="f32"), axis=1)
    return total
