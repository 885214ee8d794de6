"""Files of states: nothing is lost or half written, whenever a process is killed, and training goes on bit by bit."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from seeds import run_seed

import tenon
from tenon import saving

TREE: dict[Any, Any] = {
    "model": {"0.weight": np.arange(6.0).reshape(2, 3), "half": np.ones(3, ml_dtypes.bfloat16)},
    "groups": [{"betas": (0.9, 0.999), "lr": 1e-3}, None, True, 3, "text", float("-inf"), {}, [], ()],
    7: np.array(3, np.uint8),
    "none": np.zeros((0, 2), np.float16),
    "large": 2**100,
}


def test_a_tree_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    saving.save(
        path, TREE | {"tensor": tenon.tensor([1.0, 2.0], requires_grad=True), "torch": torch.ones(2).bfloat16()}
    )
    found = saving.load(path)
    np.testing.assert_array_equal(found.pop("tensor"), np.array([1, 2], np.float32))
    assert found.pop("torch").dtype == ml_dtypes.bfloat16
    assert repr(found) == repr(TREE)
    assert found["none"].shape == (0, 2)
    found["model"]["0.weight"][0, 0] = 5  # its own memory
    assert os.listdir(tmp_path) == ["state.safetensors"]
    arrays, _ = saving.read_arrays(path)
    assert [*arrays] == sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))


def test_a_file_of_others_and_files_that_are_not_whole(tmp_path: Path) -> None:
    header = json.dumps({"a": {"dtype": "I16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    whole = struct.pack("<Q", len(header)) + header + np.array([1, -2], "<i2").tobytes()
    path = tmp_path / "a.safetensors"
    path.write_bytes(whole)
    np.testing.assert_array_equal(saving.load(path)["a"], np.array([1, -2], np.int16))
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="is not a whole safetensors file"):
            saving.load(path)
    saving.save(path, TREE)
    content = bytearray(path.read_bytes())
    generator = random.Random(0)
    for _ in range(300):
        changed = bytearray(content)
        changed[generator.randrange(len(content) // 2)] = generator.randrange(256)
        path.write_bytes(changed)
        with contextlib.suppress(ValueError):  # and no other error
            saving.load(path)


@pytest.mark.parametrize(
    ("tree", "error", "text"),
    [
        ({"a": {"b": object()}}, TypeError, r"a\.b is a object"),
        ({"a": {(1, 2): 3}}, TypeError, "a has keys that are neither"),
        ({"a": np.zeros(2), "b": {"c": np.zeros(2, complex)}}, TypeError, "complex128"),
        ({"a.b": np.zeros(2), "a": {"b": np.zeros(2)}}, ValueError, r"two leaves are called a\.b"),
        ({"__metadata__": np.zeros(2)}, ValueError, "an array is called __metadata__"),
    ],
)
def test_what_cannot_be_saved_leaves_what_was_there(tree: Any, error: Any, text: str, tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    saving.save(path, 1)
    with pytest.raises(error, match=text):
        saving.save(path, tree)
    assert saving.load(path) == 1
    assert os.listdir(tmp_path) == ["state.safetensors"]


def test_the_last_are_kept(tmp_path: Path) -> None:
    checkpoints = saving.Checkpoints(tmp_path / "run", keep=2)
    assert checkpoints.restore() is None
    for step in (5, 10, 1000):
        checkpoints.save(step, {"step": step})
    assert checkpoints.steps() == [10, 1000]
    assert checkpoints.restore() == (1000, {"step": 1000})
    assert checkpoints.restore(10) == (10, {"step": 10})
    checkpoints.path(1000).write_bytes(b"")
    with pytest.warns(UserWarning, match="an older checkpoint is taken"):
        assert checkpoints.restore() == (10, {"step": 10})
    with pytest.raises(ValueError, match="keep is 0"):
        saving.Checkpoints(tmp_path, keep=0)


def test_a_run_that_goes_back_keeps_what_it_saves(tmp_path: Path) -> None:
    checkpoints = saving.Checkpoints(tmp_path, keep=1)
    checkpoints.save(300, {"step": 300})
    checkpoints.path(300).write_bytes(b"")  # as after a fault of the disk
    for step in (210, 220):
        checkpoints.save(step, {"step": step})
    with pytest.warns(UserWarning, match="an older checkpoint is taken"):
        assert checkpoints.restore() == (220, {"step": 220})
    checkpoints.save(300, {"step": "again"})
    assert checkpoints.steps() == [300]


WRITER = """
import sys
import numpy as np
from tenon import saving

checkpoints = saving.Checkpoints(sys.argv[1], keep=2)
found = checkpoints.restore()
step = 0 if found is None else found[0]
print(step, flush=True)
while True:
    step += 1
    checkpoints.save(step, {"step": step, "a": np.full(200_000, step), "b": [np.full(3, step), step]})
"""


def test_kills_while_writing(tmp_path: Path) -> None:
    generator, last = random.Random(run_seed()), 0
    for _ in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert int(process.stdout.readline()) == last
            time.sleep(generator.uniform(0, 0.2))
            process.kill()
        found = saving.Checkpoints(tmp_path).restore()
        if found is not None:
            step, state = found
            assert state["step"] == state["b"][1] == step >= last
            assert {*state["a"], *state["b"][0]} == {step}
            last = step
    saving.Checkpoints(tmp_path, keep=1).save(last + 1, {})
    assert os.listdir(tmp_path) == [saving.Checkpoints(tmp_path).path(last + 1).name]


TRAINING = """
import sys
import numpy as np
import tenon
from tenon import nn, optim, saving
from tenon.data import ArrayDataset, DataLoader

nn.manual_seed(0)
x = np.random.default_rng(0).standard_normal((24, 4)).astype(np.float32)
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1)).requires_grad_()
steps = optim.Adam(1e-2).over(model)
parts = {
    "model": model, "steps": steps, "schedule": optim.Scheduler(steps, optim.cosine(1e-2, 40)),
    "scaler": optim.GradScaler(growth_interval=5), "average": optim.Average(model, 0.9),
    "loader": DataLoader(ArrayDataset(x, x[:, :1]), 4, shuffle=True, num_workers=2),
}
checkpoints = saving.Checkpoints(sys.argv[1], keep=2)
losses = []
if found := checkpoints.restore():
    for name, part in parts.items():
        part.load_state_dict(found[1][name])
    losses = found[1]["losses"]
    nn.set_rng_state(found[1]["rng"])
while len(losses) < 20:
    for given, wanted in parts["loader"]:
        steps.zero_grad()
        loss = ((model(given) - wanted) ** 2).mean()
        parts["scaler"].scale(loss).backward()
        parts["scaler"].step(steps)
        parts["scaler"].update()
        parts["schedule"].step()
        parts["average"].update()
        losses.append(loss.item())
        state = {name: part.state_dict() for name, part in parts.items()}
        checkpoints.save(len(losses), {**state, "losses": losses, "rng": nn.get_rng_state()})
        print(len(losses), flush=True)
        if len(losses) == 20:
            break
print("end", *losses, float(parts["average"].values[0].sum()), nn.Linear(1, 1).weight[0, 0])
"""


def test_killed_training_goes_on_bit_by_bit(tmp_path: Path) -> None:
    def run(folder: Path, kill_at: int | None) -> str:
        command = [sys.executable, "-c", TRAINING, str(folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout or ():
                if line.startswith("end"):
                    return line
                if int(line) == kill_at:
                    time.sleep(generator.uniform(0, 0.01))
                    os.kill(process.pid, signal.SIGKILL)
        return ""

    generator = random.Random(run_seed())
    expected = run(tmp_path / "whole", None)
    for kill_at in (generator.randrange(1, 9), generator.randrange(10, 18)):
        run(tmp_path / "killed", kill_at)
    assert run(tmp_path / "killed", None) == expected != ""
