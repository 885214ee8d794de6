"""Arguments of modules, schedules and `jvp` that cannot be meant are errors with their names and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon import nn, optim

IMAGES = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
ROWS: Any = np.ones((2, 3), np.float32)
FRACTION: Any = 1.5


GROUPS: Any = [{"lr": 0.1}]


def steps() -> Any:
    return optim.Adam(lr=0.1).over(nn.Linear(2, 2))


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "linear": (lambda: nn.Linear(-3, 4), "Linear: in_features is -3 where 0 or more is needed"),
    "fraction": (lambda: nn.Linear(FRACTION, 4), "Linear: in_features is 1.5 where an integer is needed"),
    "kernel": (lambda: nn.Conv2d(3, 4, (3, -1)), "Conv2d: kernel_size is (3, -1) where 0 or more is needed"),
    "kernel_rank": (lambda: nn.Conv2d(3, 4, (3, 3, 3)), "kernel_size is (3, 3, 3) where one size or 2 are"),
    "table": (lambda: nn.Embedding(-1, 3), "Embedding: num_embeddings is -1 where 0 or more is needed"),
    "groups": (lambda: nn.GroupNorm(0, 4), "GroupNorm: num_groups is 0 where 1 or more is needed"),
    "channels": (lambda: nn.BatchNorm2d(-1), "BatchNorm2d: num_features is -1 where 0 or more is needed"),
    "shape": (lambda: nn.LayerNorm((2, -1)), "LayerNorm: normalized_shape is (2, -1) where 0 or more is"),
    "layers": (lambda: nn.GRU(2, 3, num_layers=0), "GRU: num_layers is 0 where 1 or more is needed"),
    "pool": (lambda: nn.MaxPool2d((2, 2, 2))(IMAGES), "kernel_size is (2, 2, 2) where one size or 2"),
    "adaptive": (lambda: nn.AdaptiveAvgPool2d((1, 2, 2))(IMAGES), "output_size is (1, 2, 2) where one size"),
    "scale": (lambda: nn.Upsample(scale_factor=(2, 2, 2))(IMAGES), "scale_factor is (2, 2, 2) where one"),
    "no_image": (lambda: nn.Upsample(size=0)(IMAGES), "Upsample: of (8, 8) an image of (0, 0) is made"),
    "no_steps": (lambda: optim.lr_scheduler.StepLR(steps(), 0), "StepLR: step_size is 0 where 1 or more"),
    "no_optimizer": (lambda: optim.lr_scheduler.StepLR(3, 1), "a schedule is given a int where an optimizer"),
    "group": (lambda: optim.Adam(GROUPS), "Adam: a group lacks params; it has lr"),
    "primals": (lambda: tenon.jvp(np.sin, ROWS, ROWS), "jvp: primals is a ndarray where a tuple of an array"),
}


@pytest.mark.parametrize("name", WRONG)
def test_arguments_are_checked(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_one_size_in_a_tuple_is_that_of_each_dimension() -> None:
    theirs = torch.nn.functional.max_pool2d(torch.from_numpy(IMAGES), (2,))
    np.testing.assert_array_equal(nn.MaxPool2d((2,))(IMAGES), theirs.numpy())
    assert nn.AdaptiveAvgPool2d((3,))(IMAGES).shape == (2, 3, 3, 3)
