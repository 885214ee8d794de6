"""Programs of tutorials for PyTorch run with other imports, and have PyTorch's losses, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data
from tutorial_programs import adversaries, autoencoder, language_model

import tenon
import tenon.data
from tenon import nn, optim


@pytest.fixture(autouse=True)
def _without_verification() -> Iterator[None]:
    """Programs this large take twice as long with it."""
    with tenon.knobs.override(verify=False):
        yield


@pytest.mark.parametrize("program", [autoencoder, adversaries, language_model])
def test_losses_are_those_of_torch(program: Callable[..., list[float]]) -> None:
    states: list[dict[str, Any]] = []

    def keep(model: Any) -> None:
        states.append({path: value.clone() for path, value in model.state_dict().items()})

    torch.manual_seed(0)
    expected = program(torch, torch.nn, torch.nn.functional, torch.optim, torch.utils.data, keep)
    rest = iter(states)
    found = program(tenon, nn, nn.functional, optim, tenon.data, lambda model: model.load_state_dict(next(rest)))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
