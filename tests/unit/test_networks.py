"""Random networks agree with torch: layers of every kind, in every mode, and those that once failed.

The networks are new in each run, by a seed that the head of the report shows. A failure prints the smallest network
that was found to fail as well, ready for `FAILED_ONCE`, and the command that draws the first one again.
`python tests/search.py` looks at as many as there is time for.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import networks_dense
import networks_image
import networks_sequence
import numpy as np
import pytest
import torch
from networks import Network, Oracle, leaves
from networks_check import Undecided, check, data_of, expected_of
from networks_dense import Activation, Experts, Gated, Linear, Norm, Residual
from networks_draw import draw
from networks_image import Conv, Patches, Pool, Transposed
from networks_sequence import Attention, Embedding
from networks_shrink import shrunk
from seeds import run_seed
from torch.nn import functional as F

import tenon

SEARCH = Path(__file__).parents[1] / "search.py"

COUNT, REAL = 180, 10
"""How many networks there are to draw from, and of how many one has sizes as programs do."""
SMALL_WORK, REAL_WORK = 2e6, 2e8
SECONDS_TO_SHRINK = 60


def drawn(seed: object, number: int) -> Network:
    """The network of this number in a run with this seed."""
    real = number % REAL == REAL - 1
    return draw(Random(f"{seed}-{number}"), real, REAL_WORK if real else SMALL_WORK)


def network_of(text: str) -> Network:
    """The network that prints as this."""
    names = {**vars(networks_dense), **vars(networks_image), **vars(networks_sequence), "Network": Network}
    return eval(text, names)


def failure(network: Network) -> Exception | None:
    """What is wrong with a network."""
    try:
        check(network)
    except Undecided:
        return None
    except Exception as error:
        return error
    return None


def kind_of(error: Exception) -> str:
    """What a failure has in common with those of smaller networks."""
    return type(error).__name__


def report(network: Network, error: Exception, seconds: float) -> str:
    """The smallest network that fails in this way, as Python."""
    small = shrunk(network, lambda n: (e := failure(n)) is not None and kind_of(e) == kind_of(error), seconds)
    return f"{kind_of(error)}: {error}\n  drawn:  {network!r}\n  shrunk: {small!r}\n  which gives: {failure(small)!r}"


def test_the_oracle_leaves_the_weights_that_an_optimizer_changes() -> None:
    network = network_of("Network(shape=(3,), layers=(Linear(size=4),), loss='mse', mode='adamw', dtype='f64')")
    data = data_of(network)
    before = [weight.copy() for weight in leaves(data.weights)]
    expected_of(network, data, torch.float64, Oracle())
    for weight, same in zip(leaves(data.weights), before, strict=True):
        np.testing.assert_array_equal(weight, same)


@pytest.mark.variation
@pytest.mark.parametrize("number", range(COUNT))
def test_a_random_network_agrees_with_torch(number: int) -> None:
    network = drawn(run_seed(), number)
    try:
        check(network)
    except Undecided as reason:
        pytest.skip(f"{reason}: {network!r}")
    except Exception as error:
        raise AssertionError(report(network, error, SECONDS_TO_SHRINK)) from error


FAILED_ONCE: list[Any] = [
    # a sum that is filled as a whole, and added to through a view that was turned
    Network((1, 1, 8), (Patches(), Attention(heads=8, size=2, shared=8, context=1)), batch=16),
    Network(shape=(1,), layers=(Linear(size=2, bias=False), Gated(size=33, kind="sine")), dtype="bf16", batch=64),
    Network(
        shape=(2,),
        layers=(Embedding(vocabulary=5, size=7, places=True), Activation(kind="sine"), Norm()),
        mode="gradient",
        dtype="f64",
        batch=2,
        vocabulary=5,
        equal=True,
    ),
    Network(shape=(4,), layers=(Experts(count=4, kind="one_hot"),), mode="gradient", batch=4),
    Network(shape=(4,), layers=(Linear(size=3),), mode="adam", dtype="f64", batch=4),
    Network(shape=(64,), layers=(Linear(size=256), Activation(), Linear(size=64)), mode="gradient", batch=512),
    Network(shape=(64, 8, 8), layers=(Conv(channels=64, kernel=3),), call="constant", equal=True),
    Network(shape=(1, 2, 3), layers=(Pool(window=2, padding=1), Conv(channels=1, bias=False)), mode="gradient"),
    Network(shape=(1, 1, 1), layers=(Experts(count=2, hidden=16, kind="gather"),), mode="gradient"),
    Network(
        shape=(2, 3),
        layers=(
            Conv(channels=1, stride=2, padding=1, bias=False),
            Norm(kind="running"),
            Conv(channels=1, kernel=3, stride=2, padding=1),
            Activation(kind="relu"),
            Transposed(channels=3, kernel=4, stride=2),
        ),
        loss="smoothed",
        mode="hvp",
        call="dynamic",
        dtype="f64",
        batch=8,
        seed=27908,
    ),
]


@pytest.mark.parametrize("network", FAILED_ONCE, ids=range(len(FAILED_ONCE)))
def test_a_network_that_once_failed_agrees_with_torch(network: Network) -> None:
    check(network)


# --- what finds them --------------------------------------------------------------------------------------------------


def test_networks_print_as_python() -> None:
    for number in range(40):
        network = drawn("printed", number)
        assert network_of(repr(network)) == network


def test_a_failure_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(networks_dense.ACTIVATIONS, "silu", (lambda x: tenon.silu(x) * 1.001, F.silu, False))
    layers = (Linear(9), Residual((Activation("silu"), Linear(9))), Activation("gelu"))
    network = Network((5,), layers, mode="gradient", batch=8, seed=3)
    error = failure(network)
    assert isinstance(error, AssertionError)
    text = report(network, error, 60)
    assert f"drawn:  {network!r}" in text
    shrunk = next(line for line in text.splitlines() if "shrunk" in line)
    assert shrunk.split(": ", 1)[1].strip() == "Network(shape=(1,), layers=(Activation(kind='silu'),))"


@pytest.mark.parametrize(
    ("case", "seconds", "message"),
    [
        ("__import__('os').abort()", 60, "crashed exit status -6"),
        ("exec('while True: pass')", 4, "hung no answer after"),
    ],
)
def test_a_search_survives_what_it_finds(case: str, seconds: int, message: str) -> None:
    command = [sys.executable, str(SEARCH), "--start-limit", str(seconds), "--limit", "1", "--case", case]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stdout.startswith(message), result.stderr
