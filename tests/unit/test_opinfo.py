"""PyTorch's own sample inputs (OpInfo) as a second opinion: its values and its gradients, for every op that is shared.

`opinfo_*.py` say how each of PyTorch's ops is written with Tenon's. A sample that asks for what Tenon does not
have is left out by name (`Unshared`); each op must agree on one sample or more.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tenon

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal import common_utils
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.opinfo import core
    from torch.utils._pytree import tree_flatten, tree_unflatten

import opinfo_elementwise  # noqa: E402, F401  # pyright: ignore[reportUnusedImport]
import opinfo_indices  # noqa: E402, F401  # pyright: ignore[reportUnusedImport]
import opinfo_networks  # noqa: E402, F401  # pyright: ignore[reportUnusedImport]
import opinfo_shapes  # noqa: E402, F401  # pyright: ignore[reportUnusedImport]
from opinfo_table import TABLE, VALUES_ALONE, Unshared  # noqa: E402
from seeds import drawn  # noqa: E402

# For each group of samples torch searches the whole stack for a test of unittest, which took a sixth of the time.
core.extract_test_fn = common_utils.extract_test_fn = lambda: None

MOST = 4
"""How many samples of an op are tried, if not fewer are drawn, spread evenly over all it has."""
LEAST_OPS = 395

NAMES = {op.name + (f".{op.variant_test_name}" if op.variant_test_name else ""): op for op in op_db}


def to_array(tensor: Any) -> np.ndarray:
    if tensor._is_zerotensor():
        tensor = torch.zeros(tensor.shape, dtype=tensor.dtype)
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def samples(op: Any, dtype: Any, differentiable: bool) -> list[Any]:
    torch.manual_seed(0)
    np.random.seed(0)
    found = list(op.sample_inputs("cpu", dtype, requires_grad=differentiable))
    return found if len(found) <= MOST else [found[i * (len(found) - 1) // (MOST - 1)] for i in range(MOST)]


def tensors_of(tree: Any) -> list[Any]:
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


def expected(op: Any, sample: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """Results, cotangents and gradients as tensors; cotangents are `None` for results without a gradient."""
    results = tensors_of(op(sample.input, *sample.args, **sample.kwargs))
    inputs = tensors_of((sample.input, sample.args, sample.kwargs))
    generator = torch.Generator().manual_seed(1)
    cotangents = [
        torch.randn(r.shape, generator=generator, dtype=r.dtype) if r.requires_grad else None for r in results
    ]
    pairs = [(r, c) for r, c in zip(results, cotangents, strict=True) if c is not None]
    wanted = [x for x in inputs if x.requires_grad]
    if not pairs or not wanted:
        return results, [None] * len(results), []
    found = torch.autograd.grad([r for r, _ in pairs], wanted, [c for _, c in pairs], allow_unused=True)
    return results, cotangents, [torch.zeros_like(x) if g is None else g for x, g in zip(wanted, found, strict=True)]


def computed(name: str, sample: Any, cotangents: Sequence[Any]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The same by Tenon, in one executable."""
    leaves, structure = tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    arrays = [to_array(leaves[i]) for i in places]
    smooth = [p for p, i in enumerate(places) if leaves[i].requires_grad]
    given = [to_array(c) for c in cotangents if c is not None]

    def call(values: Sequence[Any]) -> list[Any]:
        filled = list(leaves)
        for place, value in zip(places, values, strict=True):
            filled[place] = value
        first, args, kwargs = tree_unflatten(filled, structure)
        result = TABLE[name](first, *args, **kwargs)
        return list(result) if isinstance(result, tuple | list) else [result]

    def whole(values: list[Any], seeds: list[Any]) -> Any:
        if not seeds:
            return call(values), []

        def of_smooth(*moved: Any) -> Any:
            rest = list(values)
            for place, value in zip(smooth, moved, strict=True):
                rest[place] = value
            results = call(rest)
            return tuple([r for r, c in zip(results, cotangents, strict=False) if c is not None])

        _, pull_back = tenon.vjp(of_smooth, *[values[p] for p in smooth])
        return call(values), list(pull_back(tuple(seeds)))

    results, gradients = tenon.jit(whole)(arrays, given)
    return results, gradients


def assert_agree(found: Sequence[Any], exact: Sequence[Any], what: str) -> None:
    assert len(found) == len(exact), f"{len(found)} {what} where torch has {len(exact)}"
    for one, other in zip(found, exact, strict=True):
        right = to_array(other)
        assert np.shape(one) == right.shape, what
        if right.dtype.kind in "biu":
            np.testing.assert_array_equal(one, right, err_msg=what)
        else:
            np.testing.assert_allclose(one, right, rtol=1e-6, atol=1e-8, err_msg=what)


def dtype_of(op: Any) -> Any:
    supported = op.supported_dtypes("cpu")
    return next(d for d in (torch.float64, torch.int64, torch.int32, torch.bool) if d in supported)


@pytest.mark.parametrize("name", sorted(TABLE))
@pytest.mark.filterwarnings("ignore")
def test_values_and_gradients_are_those_of_torch(name: str) -> None:
    op = NAMES[name]
    dtype = dtype_of(op)
    differentiable = dtype.is_floating_point and op.supports_autograd and name not in VALUES_ALONE
    agreed, left_out = 0, []
    chosen, others = drawn(samples(op, dtype, differentiable), name)
    for number, sample in enumerate([*chosen, *others]):
        if number >= len(chosen) and agreed:
            break
        results, cotangents, gradients = expected(op, sample)
        try:
            own, own_gradients = computed(name, sample, cotangents)
        except Unshared as reason:
            left_out.append(str(reason))
            continue
        assert_agree(own, results, "result")
        assert_agree(own_gradients, gradients, "gradient")
        agreed += 1
    assert agreed, f"no sample of {name} is shared: {', '.join(left_out)}"


def test_enough_ops_are_shared() -> None:
    assert len(TABLE) >= LEAST_OPS
