"""`nn.utils.prune` hides what PyTorch's does: the same text, over several steps of an optimizer."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import copy
import importlib
import pickle
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon import nn, optim
from tenon.nn.utils import prune

importlib.import_module("torch.nn.utils.prune")

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.standard_normal((6, 4)), RANDOM.standard_normal((6, 3))
SHAPES = {"0.weight": (5, 4), "0.bias": (5,), "2.weight": (3, 5), "2.bias": (3,)}
STATE = {name: RANDOM.standard_normal(shape) for name, shape in SHAPES.items()}


def every_second(lib: ModuleType) -> Any:
    class EverySecond(lib.nn.utils.prune.BasePruningMethod):
        """That of PyTorch's tutorial."""

        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t: Any, default_mask: Any) -> Any:
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    return EverySecond


def masks(lib: ModuleType, how: str, first: Any, last: Any) -> None:
    own = lib.nn.utils.prune
    if how == "elements":
        own.l1_unstructured(first, "weight", amount=0.3)
        own.l1_unstructured(first, "weight", amount=4)
        own.custom_from_mask(last, "bias", mask=lib.tensor([1, 0, 1]))
    elif how == "slices":
        own.ln_structured(first, name="weight", amount=2, n=2, dim=0)
        own.ln_structured(first, name="weight", amount=0.5, n=1, dim=1)
        own.ln_structured(last, name="weight", amount=1, n=float("inf"), dim=-1)
    elif how == "together":
        own.l1_unstructured(last, "weight", amount=2)
        pairs = [(first, "weight"), (last, "weight"), (last, "bias")]
        own.global_unstructured(pairs, pruning_method=own.L1Unstructured, amount=0.4)
    else:
        every_second(lib).apply(first, "weight")
        every_second(lib).apply(first, "weight")
        own.identity(last, "weight")


def run(lib: ModuleType, how: str) -> list[Any]:
    model = lib.nn.Sequential(lib.nn.Linear(4, 5), lib.nn.Tanh(), lib.nn.Linear(5, 3)).double()
    model.load_state_dict({name: lib.tensor(array) for name, array in STATE.items()})
    steps = lib.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    found: list[Any] = []

    def step() -> Any:
        steps.zero_grad()
        loss = lib.nn.functional.mse_loss(model(lib.tensor(X)), lib.tensor(Y))
        loss.backward()
        steps.step()
        return loss

    found.append(step())
    masks(lib, how, model[0], model[2])
    found += [lib.nn.utils.prune.is_pruned(model), step(), step(), model[0].weight_mask]
    if lib is tenon:
        found.append(tenon.trace(step)())
        copied = pickle.loads(pickle.dumps(copy.deepcopy(model)))
        np.testing.assert_array_equal(copied(tenon.tensor(X)).detach(), model(tenon.tensor(X)).detach())
    else:
        found.append(step())
    state = model.state_dict()
    found += [sorted(state), *[lib.as_tensor(state[name]).clone() for name in sorted(state)]]
    lib.nn.utils.prune.remove(model[0], "weight")
    found += [step(), sorted(model.state_dict()), model[0].weight, sorted(n for n, _ in model.named_buffers())]
    return found


@pytest.mark.parametrize("how", ["elements", "slices", "together", "of users"])
def test_what_is_hidden_is_hidden_in_torch(how: str) -> None:
    for own, theirs in zip(run(tenon, how), run(torch, how), strict=True):
        if isinstance(theirs, bool | list):
            assert own == theirs
        else:
            given = own.detach().numpy() if isinstance(own, tenon.Tensor) else own
            np.testing.assert_allclose(given, theirs.detach().numpy(), rtol=1e-9, atol=1e-12)


def test_masks_at_random_and_what_is_refused() -> None:
    layer: Any = nn.Linear(8, 6)
    prune.random_unstructured(layer, "weight", amount=10)
    assert int((np.asarray(layer.weight_mask) == 0).sum()) == 10
    prune.random_structured(layer, "weight", amount=0.5, dim=0)
    assert int((np.asarray(layer.weight_mask).sum(1) == 0).sum()) == 3
    assert (np.asarray(layer.weight)[np.asarray(layer.weight_mask) == 0] == 0).all()
    jitted = tenon.jit(lambda layer, x: layer(x))(layer, np.ones((2, 8), np.float32))
    np.testing.assert_allclose(
        jitted, np.asarray(layer.weight).sum(1) + np.asarray(layer.bias) + np.zeros((2, 1)), rtol=1e-5
    )
    for call, message in (
        (lambda: prune.l1_unstructured(layer, "bias", amount=1.5), r"amount is 1\.5 where a share"),
        (lambda: prune.l1_unstructured(layer, "bias", amount=7), r"amount is 7, and there are 6"),
        (lambda: prune.l1_unstructured(layer, "bias", 1, importance_scores=np.ones(2)), r"importance_scores has shape"),
        (lambda: prune.remove(layer, "bias"), r"bias of a \w+ has no mask"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(KeyError, match="has no parameter 'weigth'"):
        prune.identity(layer, "weigth")
    assert optim.SGD(lr=0.1).over(layer).param_groups[0]["params"]
