"""Mixed precision: dtypes by what ops state, losses and scales as PyTorch's, in both faces."""

# Ops that are defined here are found under `tenon`, which its stubs do not know.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon import nn, optim

GENERATOR = np.random.default_rng(0)
BATCHES = [(GENERATOR.standard_normal((32, 8)).astype(np.float32), GENERATOR.integers(0, 5, 32)) for _ in range(4)] * 4


def network(library: Any) -> Any:
    return library.Sequential(library.Linear(8, 16), library.LayerNorm(16), library.Tanh(), library.Linear(16, 5))


def networks() -> tuple[Any, Any, Any]:
    """One network for PyTorch, for tensors and for functions."""
    torch.manual_seed(0)
    theirs, own, functional = network(torch.nn), network(nn), network(nn)
    own.load_state_dict(theirs.state_dict())
    functional.load_state_dict(theirs.state_dict())
    return theirs, own.requires_grad_(), functional


def test_losses_are_those_of_torch() -> None:
    theirs, own, model = networks()
    their_steps, rule = torch.optim.SGD(theirs.parameters(), 0.1, 0.9), optim.SGD(0.1, 0.9)
    steps, state = rule.over(own), rule.init(model)

    @tenon.jit
    def step(model: Any, state: Any, x: Any, y: Any) -> Any:
        @tenon.autocast("bf16")
        def loss(model: Any) -> Any:
            return tenon.cross_entropy(model(x), y)

        value, gradient = tenon.value_and_grad(loss)(model)
        return *rule.update(model, gradient, state), value

    for x, y in BATCHES:
        their_steps.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            expected = torch.nn.functional.cross_entropy(theirs(torch.tensor(x)), torch.tensor(y))
        expected.backward()
        their_steps.step()
        steps.zero_grad()
        with tenon.autocast(dtype="bf16"):
            logits = own(x)
            found = tenon.cross_entropy(logits, y)
        found.backward()
        steps.step()
        assert (str(logits.dtype), found.dtype, own[0].weight.grad.dtype) == ("bfloat16", np.float32, np.float32)
        model, state, value = step(model, state, x, y)
        # bf16 has 8 bits; in f32 the losses agree to 1e-6
        np.testing.assert_allclose(found.item(), expected.item(), rtol=1e-2)
        assert float(value) == found.item()


SQUARE = np.ones((2, 2), np.float32)


@pytest.mark.parametrize(
    ("function", "given", "dtype"),
    [
        (lambda x: x @ x, np.float32, np.float16),
        (lambda x: tenon.conv1d(x.reshape((1, 2, 2)), x.reshape((2, 2, 1))), np.float32, np.float16),
        (lambda x: tenon.einsum("ij,jk->ki", x, x), np.float32, np.float16),
        (lambda x: tenon.linear(x, x, x[0]), np.float32, np.float16),
        (lambda x: tenon.addmm(x[0], x, x, alpha=2), np.float32, np.float16),
        (lambda x: tenon.addmm(x.astype("f64"), x, x), np.float32, np.float64),
        (lambda x: nn.Bilinear(2, 2, 3)(x, x), np.float32, np.float16),
        (lambda x: x @ x, np.float64, np.float64),
        (tenon.exp, np.float16, np.float32),
        (tenon.sum, np.float16, np.float32),
        (tenon.softmax, np.float16, np.float32),
        (lambda x: tenon.layer_norm(x, axis=(-1,)), np.float16, np.float32),
        (lambda x: tenon.mse_loss(x, x), np.float16, np.float32),
        (tenon.max, np.float16, np.float16),
        (tenon.relu, np.float16, np.float16),
        (lambda x: x + SQUARE, np.float16, np.float32),
        (lambda x: tenon.max_pool1d(x.reshape((1, 2, 2)), window=(2,)), np.float32, np.float32),
    ],
)
def test_dtypes_by_kinds_of_ops(function: Any, given: Any, dtype: Any) -> None:
    x = SQUARE.astype(given)
    for call in (lambda x: function(tenon.tensor(x)), tenon.jit(function)):
        with tenon.autocast("f16"):
            assert call(x).dtype == dtype
        assert function(tenon.tensor(x)).dtype != np.float16 or given == np.float16


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: (0.3 * x) @ (x - 0.7).reshape(4, 2),
        lambda x: (0.3 / x + 0.1).exp(),
        lambda x: (x**1.5).exp().reshape(8),
    ],
)
def test_numbers_adopt_the_dtype_in_gradients_too(function: Any, dtype: str) -> None:
    data = GENERATOR.uniform(0.5, 1.5, (2, 4)).astype(np.float32)
    own: Any = tenon.tensor(data, requires_grad=True)
    theirs: Any = torch.tensor(data, requires_grad=True)
    result, expected = function(own.astype(dtype)), function(theirs.to(getattr(torch, dtype)))
    result.sum().backward()
    expected.sum().backward()
    assert str(result.dtype) == dtype
    np.testing.assert_allclose(own.grad, theirs.grad, rtol=0.03 if dtype == "bfloat16" else 0.004)


def test_attention_trains() -> None:
    theirs = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    own = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).requires_grad_()
    own.load_state_dict(theirs.state_dict())
    x = GENERATOR.standard_normal((2, 5, 8)).astype(np.float32)
    theirs(torch.tensor(x)).square().mean().backward()
    with tenon.autocast(dtype="bf16"):
        result = own(x)
        loss = (result * result).mean()
    loss.backward()
    expected: dict[str, Any] = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    for name, parameter in own.named_parameters():
        np.testing.assert_allclose(parameter.grad, expected[name], atol=0.02, err_msg=name)


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize(("name", "settings"), [("RNN", {}), ("LSTM", {"proj_size": 3}), ("GRU", {})])
def test_recurrent_layers_train(name: str, settings: dict[str, Any]) -> None:
    """Their states keep the dtype that they begin with."""
    theirs, own = getattr(torch.nn, name)(8, 4, **settings), getattr(nn, name)(8, 4, **settings).requires_grad_()
    own.load_state_dict(theirs.state_dict())
    x = GENERATOR.standard_normal((5, 2, 8)).astype(np.float32)
    expected = theirs(torch.tensor(x))[0]
    expected.square().mean().backward()
    with tenon.autocast("bf16"):
        result, last = own(tenon.tensor(x))
    (result * result).mean().backward()
    assert {result.dtype, *[state.dtype for state in (last if name == "LSTM" else (last,))]} == {np.dtype(np.float32)}
    np.testing.assert_allclose(result.detach(), expected.detach(), atol=0.02)
    for own_parameter, parameter in zip(own.parameters(), theirs.parameters(), strict=True):
        assert own_parameter.grad.dtype == np.float32
        np.testing.assert_allclose(own_parameter.grad, parameter.grad, atol=0.02)


def test_where_it_holds() -> None:
    product = tenon.jit(lambda x: x @ x)
    for _ in range(3):  # so that calls outside are native
        assert product(SQUARE).dtype == tenon.matmul(SQUARE, SQUARE).dtype == np.float32
        with tenon.autocast("f16"):
            assert product(SQUARE).dtype == tenon.matmul(SQUARE, SQUARE).dtype == np.float16
            with tenon.autocast(enabled=False):
                assert product(SQUARE).dtype == np.float32
            # what was computed before is differentiated as it was computed
            x = tenon.tensor(SQUARE, requires_grad=True)
        loss = (x @ x).sum()
        with tenon.autocast("f16"):
            loss.backward()
        np.testing.assert_array_equal(x.grad.numpy(), 4 * SQUARE)
    with pytest.raises(ValueError, match="autocast: dtype is f32, neither f16 nor bf16"):
        tenon.autocast("f32")


def test_numbers_beside_converted_operands_lose_nothing() -> None:
    values = GENERATOR.uniform(0.5, 2.0, 8).astype(np.float16)
    x: Any = tenon.tensor(values, requires_grad=True)
    for _ in range(3):
        with tenon.autocast("f16"):
            found = x**0.3
        gradient: Any = tenon.autograd.grad(found.sum(), (x,))[0]
        np.testing.assert_allclose(found.detach(), values.astype(np.float64) ** 0.3, rtol=1e-6)
        np.testing.assert_allclose(gradient, 0.3 * values.astype(np.float64) ** -0.7, rtol=1e-3)


def test_a_decorator_that_several_threads_enter_leaves_each_what_it_had() -> None:
    first, second = threading.Event(), threading.Event()

    @tenon.autocast("f16")
    def within(wait: Callable[[], Any]) -> None:
        wait()

    def within_bf16() -> Any:
        with tenon.autocast("bf16"):
            within(lambda: first.set() or second.wait(10))
            return tenon.matmul(SQUARE, SQUARE).dtype

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(within_bf16)
        assert first.wait(10)
        within(lambda: second.set() or other.result(10))
        assert str(other.result()) == "bfloat16"
    assert tenon.matmul(SQUARE, SQUARE).dtype == np.float32


def test_an_op_of_a_user_states_its_own() -> None:
    class DoubledOp(tenon.UnaryOp):
        """Twice."""

        name = "mixedtest.doubled"
        AUTOCAST = "low"

        @staticmethod
        def scalar(x: Any) -> Any:
            return x + x

    tenon.tensor_op(DoubledOp)
    with tenon.autocast("f16"):
        assert tenon.doubled(SQUARE).dtype == np.float16

    class WrongOp(tenon.UnaryOp):
        """Wrong."""

        name = "mixedtest.wrong"
        AUTOCAST = "half"

        @staticmethod
        def scalar(x: Any) -> Any:
            return x

    with pytest.raises(TypeError, match="AUTOCAST is 'half' where 'low', 'full' or None is needed"):
        tenon.tensor_op(WrongOp)


def test_scale_and_steps_are_those_of_torch() -> None:
    settings: Any = {"init_scale": 8.0, "growth_interval": 2}
    theirs = torch.amp.GradScaler("cpu", **settings)
    own = optim.GradScaler(**settings)
    p, q = torch.tensor([1.0, 2.0], requires_grad=True), tenon.tensor([1.0, 2.0], requires_grad=True)
    their_steps, steps, rule = torch.optim.Adam([p], 0.1), optim.Adam(0.1).over([q]), optim.Adam(0.1)
    values, state, scale = {"q": np.array([1.0, 2.0], np.float32)}, None, own.init()
    state = rule.init(values)
    updated = tenon.jit(lambda values, gradient, state, scale: own.updated(rule, values, gradient, state, scale))
    pairs: Any = ((torch, p, theirs, their_steps), (tenon, q, own, steps))
    for factor in (1.0, 1.0, float("inf"), 2.0, float("nan"), 3.0, 1.0, 1.0, 2.0):
        for library, x, scaler, optimizer in pairs:
            optimizer.zero_grad()
            scaler.scale((x * x).sum() * library.tensor(factor)).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), rtol=1e-6)
        assert own.value == theirs.get_scale()
        gradient = tenon.grad(lambda v, scale, factor: own.scaled((v["q"] * v["q"]).sum() * factor, scale))(
            values, scale, np.float32(factor)
        )
        values, state, scale = updated(values, gradient, state, scale)
        np.testing.assert_array_equal(values["q"], q.detach().numpy())
        assert float(scale["scale"]) == own.value
    again = optim.GradScaler()
    again.load_state_dict(own.state_dict())
    assert again.state_dict() == own.state_dict()
    assert optim.GradScaler(enabled=False).scale(q) is q


@pytest.mark.parametrize("unscales", [False, True])
@pytest.mark.parametrize("where", ["inside", "outside"])
def test_a_traced_step_decides_in_its_program(where: str, unscales: bool) -> None:
    settings: Any = {"init_scale": 8.0, "growth_interval": 2}
    theirs, own = torch.amp.GradScaler("cpu", **settings), optim.GradScaler(**settings)
    p, q = torch.tensor([1.0, 2.0], requires_grad=True), tenon.tensor([1.0, 2.0], requires_grad=True)
    their_steps, steps = torch.optim.Adam([p], 0.1), optim.Adam(0.1).over([q])

    @tenon.trace
    def step(factor: Any) -> Any:
        steps.zero_grad()
        own.scale((q * q).sum() * factor).backward()
        if unscales:
            own.unscale_(steps)
            optim.clip_grad_norm_([q], 1.0)
        made = own.step(steps)
        if where == "inside":
            own.update()
        return made

    for factor in (float("inf"), 1.0, 1.0, float("inf"), 2.0, float("nan"), 3.0, 1.0, 1.0, 2.0):
        their_steps.zero_grad()
        theirs.scale((p * p).sum() * factor).backward()
        if unscales:
            theirs.unscale_(their_steps)
            torch.nn.utils.clip_grad_norm_([p], 1.0)
        before = p.tolist()
        theirs.step(their_steps)
        theirs.update()
        made = step(tenon.tensor(factor))
        if where == "outside":
            own.update()
        assert bool(made) == (p.tolist() != before)
        assert own.value == theirs.get_scale()
        np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), rtol=1e-5)
    assert len(step._programs) == 1, "the state is there before the first step is traced"


@pytest.mark.parametrize("start", [2.0**24, 2.0**10], ids=["overflows", "finite"])
def test_a_network_in_f16_is_trained_by_one_program(start: float) -> None:
    def training(wrap: Any) -> tuple[list[float], float]:
        nn.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).requires_grad_()
        steps, scaler = optim.SGD(lr=0.1, momentum=0.9).over(model), optim.GradScaler(start, growth_interval=3)
        x = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)
        y = np.sin(x.sum(1, keepdims=True))

        def step() -> Any:
            steps.zero_grad()
            with tenon.autocast("f16"):
                loss = ((model(x) - y) ** 2).mean()
            scaler.scale(loss).backward()
            scaler.step(steps)
            scaler.update()
            return loss

        run = wrap(step)
        return [run().item() for _ in range(12)], scaler.value

    (plain, scale), (traced, traced_scale) = training(lambda f: f), training(tenon.trace)
    assert scale == traced_scale
    assert (scale < start) == (start == 2.0**24)
    np.testing.assert_allclose(traced, plain, rtol=2e-3)
    assert plain[-1] < plain[0]


def script(library: Any, kind: str, state: Any, wrap: Callable[[Any], Any]) -> tuple[list[float], Any]:
    """The losses of a small transformer in mixed precision, as a training script for PyTorch is written."""
    functional, scaler_of = library.nn.functional, library.amp.GradScaler if library is torch else optim.GradScaler

    class Model(library.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.norm = library.nn.Embedding(11, 16), library.nn.LayerNorm(16)
            self.parts, self.out = library.nn.Linear(16, 48), library.nn.Linear(16, 16)
            self.head = library.nn.Linear(16, 11, bias=False)
            self.head.weight = self.table.weight

        def forward(self, places: Any) -> Any:
            x = self.table(places)
            query, key, value = self.parts(self.norm(x)).chunk(3, dim=2)
            weights = (query @ key.transpose(-2, -1)) * 0.25
            later = library.triu(library.ones(12, 12), 1) == 1
            weights = functional.softmax(weights.masked_fill(later, float("-inf")), dim=-1)
            return self.head(x + functional.gelu(self.out(weights @ value)))

    model = Model()
    if state is not None:
        model.load_state_dict(state)
    first = {name: value.detach().clone() for name, value in model.state_dict().items()} if library is torch else None
    optimizer = library.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = library.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    scaler = scaler_of("cpu", enabled=kind == "f16")
    dtype = library.float16 if kind == "f16" else library.bfloat16

    def step(places: Any, targets: Any) -> Any:
        optimizer.zero_grad(set_to_none=True)
        with library.autocast(device_type="cpu", dtype=dtype):
            loss = functional.cross_entropy(model(places).view(-1, 11), targets.view(-1))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        library.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss

    run, losses = wrap(step), list[float]()
    numbers = np.arange(39).reshape(3, 13) * 5 % 11
    for _ in range(10):
        losses.append(run(library.tensor(numbers[:, :-1]), library.tensor(numbers[:, 1:])).item())
        schedule.step()
    assert scaler.get_scale() == (65536.0 if scaler.is_enabled() else 1.0)
    return losses, first


@pytest.mark.parametrize(("kind", "wrap"), [("bf16", lambda step: step), ("f16", tenon.trace)], ids=["bf16", "f16"])
def test_a_script_for_pytorch_trains_as_it_does_there(kind: str, wrap: Any) -> None:
    expected, state = script(torch, kind, None, lambda step: step)
    losses, _ = script(tenon, kind, state, wrap)
    np.testing.assert_allclose(losses, expected, rtol=1e-2 if kind == "bf16" else 2e-3)
    assert expected[-1] < expected[0]


def test_a_second_step_before_the_update_is_refused() -> None:
    p = tenon.tensor([1.0], requires_grad=True)
    steps, scaler = optim.SGD(lr=0.1).over([p]), optim.GradScaler(1024.0)
    scaler.scale(p.sum()).backward()
    scaler.step(steps)
    steps.zero_grad()
    scaler.scale(p.sum()).backward()
    with pytest.raises(RuntimeError, match=r"step\(\) was called for these parameters since the last update"):
        scaler.step(steps)
    scaler.update()
    scaler.step(steps)
    np.testing.assert_allclose(p.detach().numpy(), [0.8], rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "error", "text"),
    [
        (lambda s, x: optim.GradScaler(0.0), ValueError, "init_scale is 0.0"),
        (lambda s, x: optim.GradScaler(growth_factor=1.0), ValueError, "growth_factor is 1.0"),
        (lambda s, x: optim.GradScaler(backoff_factor=1.0), ValueError, "backoff_factor is 1.0"),
        (lambda s, x: optim.GradScaler(growth_interval=0), ValueError, "growth_interval is 0"),
        (lambda s, x: s.update(), RuntimeError, "before step"),
        (lambda s, x: s.step(x), ValueError, "call backward"),
    ],
)
def test_refused(function: Any, error: Any, text: str) -> None:
    steps = optim.SGD(0.1).over([tenon.tensor([1.0], requires_grad=True)])
    with pytest.raises(error, match=text):
        function(optim.GradScaler(), steps)
