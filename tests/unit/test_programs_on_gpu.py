"""Programs of users who come from PyTorch, on a GPU and on the CPU: they give the same.

On the stand-in for CuPy; where there is a device, `pytest -m gpu` runs the same there.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from gpu_tensors import close, floats, gpus, on_gpu, second

import tenon
from tenon import data, nn, optim

__all__ = ["gpus"]  # of which each test has one


def test_names_of_devices() -> None:
    x = on_gpu(floats(3))
    assert (x.device.type, x.device.index, tenon.tensor(1.0).device.index) == ("cuda", 0, None)
    assert tenon.device(x.device) == tenon.device("cuda", 0) == x.device == "cuda:0"
    assert (tenon.device("cuda").type, tenon.device("cuda").index, tenon.device(1).index) == ("cuda", None, 1)
    assert tenon.jit(lambda x: x * (x.device.type == "cpu"))(np.ones(2)).tolist() == [1, 1]


class Noisy(nn.Module):
    """A module whose buffers and draws must be where its parameters are."""

    offset: Any

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4, seed=0), nn.BatchNorm1d(4), nn.Dropout(0.0))
        self.scale = nn.Parameter(tenon.ones(4))
        self.register_buffer("offset", tenon.zeros(4))

    def forward(self, x: Any) -> Any:
        return self.layers(x) * self.scale + self.offset + 0.0 * tenon.randn(4)


def noisy_steps(device: Any) -> list[Any]:
    """What a program gives that names no device."""
    model = Noisy()
    steps = optim.SGD(lr=0.1, momentum=0.9).over(model)
    x, target = tenon.tensor(floats(5, 3)), tenon.as_tensor(floats(5, 4, seed=1))
    found = [model.offset, tenon.randperm(3).sum(), tenon.rand_like(x) * 0, tenon.rand_like(x.cpu()).cpu() * 0]

    def step() -> Any:
        steps.zero_grad()
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        steps.step()
        return loss

    found += [step(), step(), tenon.trace(step)(), model.scale, model.layers[1].running_mean]
    assert {str(tenon.as_tensor(one).device) for one in (*found[:3], *found[4:])} == {device}
    assert str(found[3].device) == "cpu"
    moved = model.cpu()
    assert {str(parameter.device) for parameter in moved.parameters()} == {"cpu"}
    return [tenon.as_tensor(one).detach().cpu().numpy() for one in found]


def test_what_names_no_device_is_made_on_the_default() -> None:
    assert tenon.get_default_device() == "cpu"
    with tenon.device("cpu"):
        expected = noisy_steps("cpu")
        with tenon.device("cuda"):
            assert tenon.zeros(2).device == "cuda:0"
            with tenon.device(second()):
                assert tenon.zeros(2).device == second()
        assert tenon.zeros(2).device == "cpu"
    assert isinstance(tenon.zeros(2), np.ndarray)
    tenon.set_default_device("cuda")
    try:
        assert tenon.get_default_device() == "cuda"
        found = noisy_steps("cuda:0")
        shared = floats(2)
        assert tenon.from_numpy(shared).device == tenon.as_tensor(shared, device="cpu").device == "cpu"
        tenon.as_tensor(shared, device="cpu")[0] = 7.0
        assert shared[0] == 7
    finally:
        tenon.set_default_device(None)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)
    with pytest.raises(ValueError, match=r"^device cuda:77 is not there: this machine has "):
        tenon.set_default_device("cuda:77")
    assert tenon.get_default_device() == "cpu"


def test_draws_there() -> None:
    """Anew at each call: those of modules, and those that a program counts."""
    ones, layer = on_gpu(np.ones((3, 16), np.float32)), nn.Dropout(0.5).to("cuda")
    both = tenon.func.vmap(lambda x: layer(nn.functional.dropout(x, 0.2)), randomness="different")
    for call in (both, tenon.trace(both), lambda x: tenon.checkpoint(layer, x)):
        found = [call(ones), call(ones)]
        assert {str(made.device) for made in found} == {"cuda:0"}
        assert len({tuple(row) for made in found for row in made.tolist()}) == 6


def test_packed_sequences_there() -> None:
    layer, rows = nn.LSTM(2, 3, bidirectional=True, seed=0), [floats(2, 2), floats(3, 2)]
    pack = nn.utils.rnn.pack_sequence
    expected, _ = layer(pack([*map(tenon.tensor, rows)], enforce_sorted=False))
    found, _ = layer.to("cuda")(pack([*map(on_gpu, rows)], enforce_sorted=False))
    close(found.data, expected.data)


def test_ways_to_a_device() -> None:
    x, batch = tenon.tensor(floats(3)), on_gpu(floats(2, 3).astype(np.float64))
    assert x.pin_memory() is x
    assert not x.is_pinned()
    for there in (x.pin_memory().cuda(non_blocking=True), x.to("cuda", non_blocking=True), x.cuda(0, True)):
        close(there, floats(3))
    model = nn.Linear(3, 2, seed=0).to(batch)
    assert model(batch).dtype == np.float64
    close(model(batch), nn.Linear(3, 2, seed=0).double()(batch.cpu()))
    shared = tenon.as_tensor(tenon.from_dlpack(batch))
    shared.mul_(2.0)
    close(batch, 2 * floats(2, 3))


def test_batches_of_tensors_there() -> None:
    x, labels = on_gpu(floats(5, 3)), on_gpu(np.arange(5))
    for dataset in (data.TensorDataset(x, labels), [{"x": row, "n": number} for number, row in enumerate(x)]):
        found = [*data.DataLoader(dataset, batch_size=2, pin_memory=True)]
        batches = [batch["x"] if isinstance(batch, dict) else batch[0] for batch in found]
        assert [batch.shape for batch in batches] == [(2, 3), (2, 3), (1, 3)]
        close(tenon.concat(batches), floats(5, 3))
    elsewhere = data.DataLoader(data.TensorDataset(x.to(second())), batch_size=5)
    close(next(iter(elsewhere))[0], floats(5, 3), second())


def test_arrays_before_tensors() -> None:
    array, x = sys.modules["cupy"].asarray(floats(3)), on_gpu(floats(3, seed=1), requires_grad=True)
    (array * x).sum().backward()
    close(x.grad, floats(3))
    close(array - x.detach(), floats(3) - floats(3, seed=1))
    model = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2, seed=0)).eval()
    expected = model(tenon.tensor(floats(4, 3)))
    close(model.to("cuda").requires_grad_()(on_gpu(floats(4, 3))), expected)


def test_composed_functions_of_arrays() -> None:
    there, here = sys.modules["cupy"].asarray(floats(2, 3, 4)), floats(2, 3, 4)
    mask = np.array([True, False, True])
    for found, expected in (
        (tenon.movedim(there, 0, -1), np.moveaxis(here, 0, -1)),
        (tenon.chunk(there, 2, axis=2)[1], here[:, :, 2:]),
        (tenon.expand_as(there[0, 0], there), np.broadcast_to(here[0, 0], here.shape)),
        (tenon.compress(sys.modules["cupy"].asarray(mask), there, axis=1), here[:, mask]),
        (tenon.compress(tenon.tensor(mask, device="cuda"), there, axis=1), here[:, mask]),
        (tenon.quantization.quantize(there, 0.25), np.clip(np.round(here / 0.25), -128, 127)),
    ):
        np.testing.assert_allclose(found.get(), expected)


def test_quantized_modules() -> None:
    found: list[Any] = []
    for device in ("cpu", "cuda"):
        model = nn.Sequential(nn.Linear(3, 4, seed=0), nn.ReLU(), nn.Linear(4, 2, seed=1)).to(device)
        model, x = tenon.quantization.prepare(model), tenon.tensor(floats(8, 3), device=device)
        model(x)
        model = tenon.quantization.convert(model)
        found.append(model(x))
        for other in ("cuda", device):
            close(model.to(other)(x.to(other)), found[0], str(x.to(other).device))
    close(found[1], found[0])


def test_norms_of_weights_there() -> None:
    for make in (nn.utils.parametrizations.spectral_norm, nn.utils.spectral_norm):
        found: list[Any] = []
        for device in ("cpu", "cuda"):
            tenon.manual_seed(0)
            model = make(nn.Linear(3, 2, seed=0).to(device)).requires_grad_()
            found.append(model(tenon.tensor(floats(4, 3), device=device)))
        close(found[1], found[0])


def test_gradients_are_where_their_tensors_are() -> None:
    x = on_gpu(floats(3), requires_grad=True)
    with pytest.raises(ValueError, match=r"^grad of a tensor on cuda:0 is set to one on cpu$"):
        x.grad = tenon.ones_like(x.detach().cpu())
    x.grad = tenon.tensor(np.ones(3, np.float32), device="cuda")


@pytest.mark.parametrize("line_search_fn", [None, "strong_wolfe"])
def test_lbfgs(line_search_fn: Any) -> None:
    found: list[Any] = []
    for device in ("cpu", "cuda"):
        # in f64: what f32 rounds otherwise shows in its fourth digit after 40 iterations
        w = tenon.tensor(floats(4).astype(np.float64), device=device, requires_grad=True)
        steps = optim.LBFGS([w], lr=0.5, line_search_fn=line_search_fn)

        def closure(w: Any = w, steps: Any = steps) -> Any:
            steps.zero_grad(set_to_none=False)
            loss = ((w * w - 2) ** 2).sum() + w.sum()
            loss.backward()
            return loss

        for _ in range(2):
            steps.step(closure)
        found.append(w)
    close(found[1], found[0])
