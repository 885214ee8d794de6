"""Optimizers against a restatement of PyTorch's formulas in NumPy, and whole training steps as one program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenon
from tenon import nn, optim

Arrays = dict[str, np.ndarray]


def doubles(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def sgd(p: Arrays, gradients: list[Arrays], lr: float, momentum: float, weight_decay: float, nesterov: bool) -> Arrays:
    """torch.optim.SGD, dampening 0, as its documentation states the algorithm."""
    p, buffers = dict(p), dict[str, np.ndarray]()
    for gradient in gradients:
        for name, value in p.items():
            g = gradient[name] + weight_decay * value
            if momentum:
                buffers[name] = momentum * buffers[name] + g if name in buffers else g
                g = g + momentum * buffers[name] if nesterov else buffers[name]
            p[name] = value - lr * g
    return p


def adam(
    p: Arrays, gradients: list[Arrays], lr: float, betas: Any, eps: float, weight_decay: float, decoupled: bool
) -> Arrays:
    """torch.optim.Adam and AdamW, as their documentation states the algorithms."""
    p = dict(p)
    first, second = ({name: np.zeros_like(v) for name, v in p.items()} for _ in range(2))
    for t, gradient in enumerate(gradients, 1):
        for name, value in p.items():
            g = gradient[name]
            if decoupled:
                value = value - lr * weight_decay * value
            else:
                g = g + weight_decay * value
            first[name] = betas[0] * first[name] + (1 - betas[0]) * g
            second[name] = betas[1] * second[name] + (1 - betas[1]) * g * g
            m, v = first[name] / (1 - betas[0] ** t), second[name] / (1 - betas[1] ** t)
            p[name] = value - lr * m / (np.sqrt(v) + eps)
    return p


CASES: dict[str, tuple[optim.Optimizer, Any]] = {
    "sgd": (optim.SGD(0.1), lambda p, g: sgd(p, g, 0.1, 0, 0, False)),
    "momentum": (optim.SGD(0.1, momentum=0.9), lambda p, g: sgd(p, g, 0.1, 0.9, 0, False)),
    "nesterov": (optim.SGD(0.1, 0.9, 0.01, nesterov=True), lambda p, g: sgd(p, g, 0.1, 0.9, 0.01, True)),
    "adam": (optim.Adam(0.01), lambda p, g: adam(p, g, 0.01, (0.9, 0.999), 1e-8, 0, False)),
    "adam, decay": (
        optim.Adam(0.01, (0.8, 0.9), 1e-3, 0.1),
        lambda p, g: adam(p, g, 0.01, (0.8, 0.9), 1e-3, 0.1, False),
    ),
    "adamw": (optim.AdamW(0.01), lambda p, g: adam(p, g, 0.01, (0.9, 0.999), 1e-8, 0.01, True)),
}


def parameters() -> Arrays:
    return {"w": doubles(3, 4), "b": doubles(4, seed=1)}


def slopes() -> list[Arrays]:
    return [{"w": doubles(3, 4, seed=10 + i), "b": doubles(4, seed=20 + i)} for i in range(5)]


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_formulas(name: str, jitted: bool) -> None:
    optimizer, reference = CASES[name]
    update = tenon.jit(optimizer.update, donate=("params", "state")) if jitted else optimizer.update
    params, state = parameters(), optimizer.init(parameters())
    for gradient in slopes():
        params, state = update(params, gradient, state)
    for key, value in reference(parameters(), slopes()).items():
        assert params[key].dtype == np.float64
        np.testing.assert_allclose(params[key], value, rtol=2e-6, atol=1e-7)


def test_adam_keeps_its_digits_in_float32() -> None:
    optimizer, reference = CASES["adam"]
    single = {k: v.astype(np.float32) for k, v in parameters().items()}
    params, state = single, optimizer.init(single)
    gradients = [{k: v.astype(np.float32) for k, v in g.items()} for g in slopes()]
    for gradient in gradients:
        params, state = optimizer.update(params, gradient, state)
    expected = reference(
        {k: v.astype(float) for k, v in single.items()}, [{k: v.astype(float) for k, v in g.items()} for g in gradients]
    )
    for key, value in expected.items():
        assert params[key].dtype == np.float32
        np.testing.assert_allclose(params[key] - single[key], value - single[key], rtol=2e-4, atol=1e-6)


def test_rate_of_a_schedule_is_data() -> None:
    optimizer = optim.SGD(1.0)
    traces: list[int] = []

    @tenon.jit
    def step(params: Any, gradient: Any, state: Any, rate: Any) -> Any:
        traces.append(1)
        return optimizer.update(params, gradient, state, lr=rate)

    for rate in (0.5, 0.25):
        params, _ = step(parameters(), slopes()[0], optimizer.init(parameters()), rate)
        np.testing.assert_allclose(params["w"], parameters()["w"] - rate * slopes()[0]["w"], rtol=1e-6)
    assert len(traces) == 1
    params, _ = optim.Adam(9.0).update(parameters(), slopes()[0], optim.Adam().init(parameters()), lr=1e-3)
    np.testing.assert_allclose(
        params["b"], adam(parameters(), slopes()[:1], 1e-3, (0.9, 0.999), 1e-8, 0, False)["b"], rtol=1e-6
    )


def test_steps_outside_of_a_trace_compile_once(capfd: pytest.CaptureFixture[str]) -> None:
    params, state = parameters(), optim.SGD(0.125).init(parameters())
    with tenon.knobs.override(log_compiles=True):
        for gradient in slopes():
            params, state = optim.SGD(0.125).update(params, gradient, state)
    assert capfd.readouterr().err.count("compiling update:") == 1


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        generator = np.random.default_rng(0)
        self.convolution = nn.Conv2d(1, 8, 3, padding=1, seed=generator)
        self.norm = nn.BatchNorm2d(8)
        self.dropout = nn.Dropout(0.1, seed=1)
        self.output = nn.Linear(8 * 9, 3, seed=generator)

    def forward(self, x: Any) -> Any:
        x = tenon.max_pool2d(tenon.relu(self.norm(self.convolution(x))), window=(2, 2))
        return self.output(self.dropout(x.reshape((x.shape[0], -1))))


def stripes(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """6x6 images of horizontal stripes, vertical stripes or noise."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 3, count)
    images = generator.standard_normal((count, 1, 6, 6)).astype(np.float32) * 0.3
    images[labels == 0, 0, ::2] += 1
    images[labels == 1, 0, :, ::2] += 1
    return images, labels


@pytest.mark.parametrize("optimizer", [optim.SGD(0.05, momentum=0.9), optim.AdamW(5e-3)], ids=["sgd", "adamw"])
def test_training_step_is_one_program_and_learns(optimizer: optim.Optimizer, capfd: pytest.CaptureFixture[str]) -> None:
    def loss(model: Classifier, x: Any, y: Any) -> Any:
        return tenon.cross_entropy(model(x), y), model

    @tenon.jit(donate=("model", "state"))
    def step(model: Classifier, state: Any, x: Any, y: Any) -> Any:
        (value, model), gradient = tenon.value_and_grad(loss, has_aux=True)(model, x, y)
        model, state = optimizer.update(model, gradient, state)
        return model, state, value

    model = Classifier()
    state = optimizer.init(model)
    addresses = {a.ctypes.data for a in model.state_dict().values()}
    values = []
    with tenon.knobs.override(log_compiles=True):
        for seed in range(40):
            model, state, value = step(model, state, *stripes(32, seed))
            values.append(float(value))
    assert capfd.readouterr().err.count("compiling step:") == 1
    assert values[-1] < 0.3 * values[0]
    # Parameters and buffers stay in the memory that they were given away with.
    assert {a.ctypes.data for a in model.state_dict().values()} == addresses
    assert int(model.dropout.calls) == 40
    x, y = stripes(200, 1000)
    predicted = tenon.jit(lambda model, x: tenon.argmax(model(x), axis=1))(model.eval(), x)
    assert (predicted == y).mean() > 0.9


def test_trees_other_than_modules() -> None:
    params = [np.ones(2), {"n": np.arange(2)}, (np.zeros(1),)]
    changed, _ = optim.SGD(0.5).update(params, [np.ones(2), {"n": None}, (np.ones(1),)], {"velocity": {}})
    np.testing.assert_array_equal(changed[0], [0.5, 0.5])
    np.testing.assert_array_equal(changed[1]["n"], [0, 1])
    np.testing.assert_array_equal(changed[2][0], [-0.5])


def test_errors() -> None:
    optimizer = optim.SGD(0.1)
    with pytest.raises(ValueError, match="SGD: gradients lack b"):
        optimizer.update({"a": np.ones(1), "b": np.ones(1)}, {"a": np.ones(1)}, {"velocity": {}})
    shared = np.ones(3)
    with pytest.raises(ValueError, match="a and b are one array; keep it in one place"):
        optimizer.init({"a": shared, "b": shared})


PARAMS = {"w": np.ones((3, 4), np.float32), "b": [np.ones(2, np.float32)]}


@pytest.mark.parametrize("optimizer", [optim.SGD(momentum=0.9), optim.Adam(), optim.AdamW()], ids=repr)
@pytest.mark.parametrize(
    ("gradients", "words"),
    [
        ({**PARAMS, "w": np.ones(4, np.float32)}, r"w is f32\[4\] in gradients where f32\[3, 4\] is needed"),
        ({**PARAMS, "b": [np.ones(2)]}, r"b\.0 is f64\[2\] in gradients where f32\[2\] is needed"),
        ({**PARAMS, "w": None}, "gradients lack w"),
        ({**PARAMS, "c": np.ones(1)}, "gradients have c, unlike params"),
    ],
    ids=["shape", "dtype", "absent", "more"],
)
def test_gradients_of_other_parameters(optimizer: Any, gradients: Any, words: str) -> None:
    for update in (optimizer.update, tenon.jit(optimizer.update)):
        with pytest.raises(ValueError, match=f"{type(optimizer).__name__}: {words}"):
            update(PARAMS, gradients, optimizer.init(PARAMS))


def test_states_of_other_parameters_and_optimizers() -> None:
    adam = optim.Adam()
    with pytest.raises(ValueError, match=r"Adam: state lacks step, mean\.w, mean\.b\.0, square\.w, square\.b\.0"):
        adam.update(PARAMS, PARAMS, optim.SGD(momentum=0.5).init(PARAMS))
    with pytest.raises(ValueError, match=r"SGD: state has step, mean\.w, mean\.b\.0, square\.w, square\.b\.0, unlike"):
        optim.SGD().update(PARAMS, PARAMS, adam.init(PARAMS))
    other = adam.init({"w": np.ones(2, np.float32), "b": [np.ones(2, np.float32)]})
    with pytest.raises(ValueError, match=r"Adam: mean\.w is f32\[2\] in state where f32\[3, 4\] is needed"):
        adam.update(PARAMS, PARAMS, other)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: optim.Adam(lr="a"), "Adam: lr is 'a' where a number is needed"),  # pyright: ignore[reportArgumentType]
        (lambda: optim.SGD(lr=-1), r"SGD: lr is -1, outside of \[0, inf\)"),
        (lambda: optim.AdamW(lr=float("nan")), r"AdamW: lr is nan, outside of \[0, inf\)"),
        (lambda: optim.SGD(momentum=-0.1), r"SGD: momentum is -0\.1, outside"),
        (lambda: optim.SGD(weight_decay=-0.1), r"SGD: weight_decay is -0\.1, outside"),
        (lambda: optim.SGD(nesterov=True), "SGD: nesterov needs a momentum, which is 0"),
        (lambda: optim.Adam(eps=-1e-8), "Adam: eps is -1e-08, outside"),
        (lambda: optim.Adam(betas=(0.9, 1.0)), r"Adam: betas\[1\] is 1\.0, outside of \[0, 1\.0\)"),
        (lambda: optim.Adam(betas=0.9), r"Adam: betas is 0\.9 where two numbers"),  # pyright: ignore[reportArgumentType]
        (lambda: optim.SGD().update(PARAMS, PARAMS, {"velocity": {}}, lr=-1.0), r"SGD: lr is -1\.0, outside"),
        (lambda: optim.SGD().update(PARAMS, PARAMS, {"velocity": {}}, lr=np.ones(3)), r"SGD: lr has shape \(3,\)"),
        (
            lambda: optim.SGD().init({"n": np.arange(3)}),
            r"SGD: there is nothing floating-point to train \(n is i64",
        ),
        (lambda: optim.SGD().init({}), r"SGD: there is nothing floating-point to train \(no arrays\)"),
    ],
    ids=lambda value: "" if callable(value) else value,
)
def test_settings_out_of_range(make: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        make()


def test_integer_parameters_of_a_module() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = np.ones(3, np.float32)
            self.count = np.zeros((), np.int32)

    with pytest.raises(TypeError, match=r"SGD: count is i32\[\], which cannot be trained; make it a buffer"):
        optim.SGD().init(Counting())


def test_paths_that_do_not_tell_leaves_apart_and_unknown_ones() -> None:
    for params in ({1: np.ones(1), "1": np.zeros(1)}, {"a.b": np.ones(1), "a": {"b": np.zeros(1)}}):
        with pytest.raises(ValueError, match=r"two leaves are called (1|a\.b); give the keys names that differ"):
            optim.SGD().init(params)
    with pytest.raises(ValueError, match="there is no leaf v to replace"):
        optim.with_values({"w": np.ones(1)}, {"v": np.ones(1)})
    norm = nn.BatchNorm2d(2)
    with pytest.raises(ValueError, match="BatchNorm2d has no parameter running_mean, wieght"):
        norm.set_parameters({"bias": np.ones(2), "running_mean": np.ones(2), "wieght": np.ones(2)})
    np.testing.assert_array_equal(norm.bias, np.zeros(2))
