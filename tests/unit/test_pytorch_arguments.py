"""Functions that PyTorch has by the same name take its names of arguments, by what PyTorch says that they are."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.overrides import get_testing_overrides

import tenon
from tenon import nn
from tenon.dialects.definition.tensor_op import TensorOp

# What says how PyTorch computes, and what it leaves out of this list itself, or calls otherwise in its own documents.
UNUSED = {
    *("out", "args", "kwargs", "dtype", "inplace", "out_int32", "out_dtype", "compute_mode", "cudnn_enabled", "names"),
    *(
        "size_average",
        "reduce",
        "sparse_grad",
        "tensor",
        "tensors",
        "self",
        "e",
        "te",
        "memory_format",
        "requires_grad",
    ),
    *("pin_memory", "layout"),
}
# Functions of other arguments, or of another meaning, which the sharp bits and the reference tell.
OTHERS = {
    *("batch_norm", "convolution", "dropout", "embedding", "group_norm", "instance_norm", "layer_norm", "rms_norm"),
    *("select", "slice_scatter", "split", "trace", "transpose", "permute", "qr", "svd", "topk", "tensordot"),
}
LEFT_OUT = {
    "bernoulli": {"input"},
    "cholesky_solve": {"input1"},  # `input`, where it is called
    "cov": {"fweights", "aweights"},
    "diag_embed": {"diagonal"},  # likewise
    "divide": {"rounding_mode"},
    "histogram": {"min", "max"},  # `range`, where it is called
    "isin": {"assume_unique"},
    "multinomial": {"input"},
    "prelu": {"weight"},
    "nanquantile": {"interpolation"},
    "quantile": {"interpolation"},
    "swapdims": {"axis0"},
}


def names_of(function: Any) -> set[str]:
    """What calls of one of Tenon's functions may name."""
    op = getattr(function, "op", None)
    if op is not None:
        return {*op.PARAMETERS.parameters, *op.OTHER_NAMES}
    found = {*inspect.signature(function, follow_wrapped=False).parameters}
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    found |= {name for cell in cells if isinstance(cell, dict) for name in cell}
    return found | names_of(function.__wrapped__) if hasattr(function, "__wrapped__") else found


def _is_own(function: Any) -> bool:
    """Whether a function is not that of an op that a test defines."""
    return getattr(function, "op", TensorOp).__module__.startswith("tenon.")


def lacking() -> Iterator[tuple[str, set[str]]]:
    for theirs, stand_in in get_testing_overrides().items():
        name = getattr(theirs, "__name__", "_")
        if (
            name.startswith("_")
            or name in OTHERS
            or getattr(torch, name, None) is not theirs
            or not hasattr(tenon, name)
            or not _is_own(getattr(tenon, name))
        ):
            continue
        wanted = {*inspect.signature(stand_in).parameters} - UNUSED - LEFT_OUT.get(name, set())
        yield name, wanted - names_of(getattr(tenon, name))


def test_all_names_of_arguments_are_known() -> None:
    found = dict(lacking())
    assert len(found) > 200
    assert {name: names for name, names in found.items() if names} == {}


X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "roll": lambda library, x: library.roll(input=x, shifts=(1, 2), dims=(0, 1)),
    "flip": lambda library, x: library.flip(x, dims=(0, 1)),
    "tile": lambda library, x: library.tile(x, dims=(2, 1)),
    "pow": lambda library, x: library.pow(x, exponent=2),
    "diagonal": lambda library, x: library.diagonal(x, dim1=1, dim2=0),
    "cumsum": lambda library, x: library.cumsum(x, dim=1, dtype=library.float64),
    "cosine_similarity": lambda library, x: library.cosine_similarity(x1=x, x2=x + 1, dim=1),
    "polygamma": lambda library, x: library.polygamma(n=1, input=abs(x)),
    "searchsorted": lambda library, x: library.searchsorted(sorted_sequence=abs(x).cumsum(1)[0], input=x, right=True),
    "swapaxes": lambda library, x: library.swapdims(input=x, dim0=0, dim1=1),
    "masked_fill": lambda library, x: library.masked_fill(input=x, mask=x > 0, value=1.0),
    "zeros_like": lambda library, x: library.zeros_like(input=x),
    "moveaxis": lambda library, x: library.moveaxis(input=x, source=0, destination=1),
    "zeros": lambda library, x: library.zeros(size=(2, 3)) + library.full(size=(2, 3), fill_value=1.5),
    "broadcast_to": lambda library, x: library.broadcast_to(x, size=(2, 3, 4)),
}


@pytest.mark.parametrize("name", CALLS)
def test_they_mean_what_they_mean_there(name: str) -> None:
    expected = CALLS[name](torch, torch.from_numpy(X)).numpy()
    found = np.asarray(CALLS[name](tenon, tenon.tensor(X)))
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_methods_of_tensors_take_the_same_names() -> None:
    x = tenon.tensor(X)
    np.testing.assert_array_equal(x.transpose(dim0=0, dim1=1), X.T)
    np.testing.assert_array_equal(tenon.tensor(np.zeros_like(X)).copy_(src=x), X)
    assert x.requires_grad_(requires_grad=True).requires_grad
    assert nn.Parameter(X).requires_grad_(requires_grad=False).requires_grad is False
