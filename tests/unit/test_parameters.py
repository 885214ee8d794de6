"""Parameters that a module hands out: tensors to programs written for PyTorch, arrays to functions of trees."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import copy
import pickle
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon import nn, optim
from tenon.eager import known_tapes

RULES: Any = optim  # whose rules of lists have other parameters
X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def pair() -> tuple[Any, Any]:
    """The same network, ours and torch's."""
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 5), torch.nn.Linear(5, 2))
    own = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 5), nn.Linear(5, 2))
    own.load_state_dict(theirs.state_dict())
    return own, theirs


def frozen_by_attribute(model: Any, rules: Any) -> Any:
    for parameter in model[0].parameters():
        parameter.requires_grad = False
    return rules.Adam([p for p in model.parameters() if p.requires_grad], lr=0.1)


def by_attributes(model: Any, rules: Any) -> Any:
    """Nothing was listed or called before."""
    model[0].weight.requires_grad = False
    model[2].weight.data.mul_(0.5)
    model[3].bias.data = model[3].bias + 1
    model[2].bias.register_hook(lambda slope: slope * 2)
    return rules.SGD([model[0].weight, model[0].bias, model[2].weight, model[2].bias], lr=0.1)


def tied_by_attributes(model: Any, rules: Any) -> Any:
    model[0].weight.detach().numel()
    model[2].bias = model[0].bias
    assert model[2].bias is model[0].bias
    return rules.SGD(model.parameters(), lr=0.1)


def frozen_as_a_whole(model: Any, rules: Any) -> Any:
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    model[3].requires_grad_(True)
    return rules.SGD(filter(lambda p: p.requires_grad, model.parameters()), lr=0.1, momentum=0.9)


def in_groups(model: Any, rules: Any) -> Any:
    heads = list(model[3].parameters())
    others = [p for p in model.parameters() if all(p is not head for head in heads)]
    return rules.SGD([{"params": others, "lr": 0.01}, {"params": heads}], lr=0.1)


def by_names(model: Any, rules: Any) -> Any:
    decayed = [p for name, p in model.named_parameters() if not name.endswith("bias")]
    others = [p for name, p in model.named_parameters() if name.endswith("bias")]
    return rules.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=0.05)


def written_to(model: Any, rules: Any) -> Any:
    first, *rest = model.parameters()
    first.data.fill_(0.25)
    for parameter in rest:
        parameter.data = parameter.data * 0.5
        parameter.data.add_(0.01)
    return rules.SGD([first, *rest], lr=0.1)


@pytest.mark.parametrize(
    "make", [frozen_by_attribute, by_attributes, tied_by_attributes, frozen_as_a_whole, in_groups, by_names, written_to]
)
def test_as_in_torch(make: Any) -> None:
    """Three steps of programs that say nothing of what is learned but by parameters."""
    made: list[list[Any]] = []
    for library, rules, model in zip((tenon, torch), (optim, torch.optim), pair(), strict=True):
        steps, x = make(model, rules), library.tensor(X)
        for _ in range(3):
            steps.zero_grad()
            (model(x) ** 2).mean().backward()
            steps.step()
        made.append([p.detach().numpy() for p in model.parameters()])
    for found, expected in zip(*made, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_attributes_of_a_module_that_nothing_learns() -> None:
    """They are tensors by themselves, also after a copy, and arrays to functions; what functions give has arrays."""
    own, _ = pair()
    step = tenon.jit(lambda model, x: (model(x), model))
    expected = np.tanh(X @ own[0].weight.T + own[0].bias)
    assert isinstance(own[0].weight, nn.Parameter)
    assert isinstance(copy.deepcopy(own)[3].weight, nn.Parameter)
    np.testing.assert_allclose(own[:2](X), expected, rtol=1e-5)
    scores, made = step(own, X)
    assert type(scores) is type(made[0].weight) is np.ndarray
    (own[0].weight ** 2).sum().backward()
    np.testing.assert_allclose(np.asarray(own[0].weight.grad), 2 * own[0].weight.detach(), rtol=1e-6)
    for table in nn.Embedding(4, 2, padding_idx=1), nn.EmbeddingBag(4, 2, padding_idx=1):
        assert table.weight[1].tolist() == [0.0, 0.0]
        assert table.weight[0].tolist() != [0.0, 0.0]
    own[0].weight = own[0].weight * 2
    np.testing.assert_allclose(step(own, X)[1][0].weight, 2 * made[0].weight, rtol=1e-6)


def test_by_hand() -> None:
    """No optimizer: a module that is called on tensors learns, and is changed where nothing is recorded."""
    made: list[list[Any]] = []
    for library, model in zip((tenon, torch), pair(), strict=True):
        for _ in range(2):
            (model(library.tensor(X)) ** 2).sum().backward()
            with library.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.01 * parameter.grad
                    parameter.grad.zero_()
                model[3].bias.copy_(library.tensor([1.0, 2.0]))
        made.append([p.detach().numpy() for p in model.parameters()])
    for found, expected in zip(*made, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_listed_parameters_leave_functions_of_trees_as_they_are() -> None:
    own, _ = pair()
    step = tenon.jit(lambda model, x: (model(x) ** 2).sum())
    before = step(own, X)
    assert sum(p.numel() for p in own.parameters()) == sum(p.size for _, p in own.named_arrays())
    after, (value, slopes) = step(own, X), tenon.value_and_grad(lambda model: (model(X) ** 2).sum())(own)
    assert type(after) is type(value) is type(before)
    np.testing.assert_allclose([after, value], before, rtol=1e-6)
    assert type(own(X)) is np.ndarray
    rule = optim.Adam()
    changed, _ = rule.update(own, slopes, rule.init(own))
    assert isinstance(changed[0].weight, np.ndarray)
    for name, parameter in own.named_parameters():
        np.testing.assert_array_equal(parameter, own.state_dict()[name])
    for made in copy.deepcopy(own), pickle.loads(pickle.dumps(own)):
        np.testing.assert_allclose(step(made, X), before, rtol=1e-6)


@pytest.mark.parametrize("first_asked", [lambda both: both, lambda both: both[0], lambda both: both[1]])
def test_one_array_in_a_module_is_one_parameter(first_asked: Any) -> None:
    """Whichever part is asked first; a state that is loaded changes no identity."""
    both = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    both[1].weight = both[0].weight
    asked = next(first_asked(both).parameters())
    assert len([*both.parameters()]) == 3
    assert asked is both[0].weight is both[1].weight
    both[0].load_state_dict({"weight": np.ones((4, 4), np.float32), "bias": np.zeros(4, np.float32)})
    both[1].requires_grad_()
    assert asked is both[0].weight is both[1].weight
    assert asked.sum().item() == 16


class Scale(nn.Module):
    """A product with one parameter."""

    def __init__(self, weight: Any) -> None:
        self.weight = weight

    def forward(self, x: Any) -> Any:
        while isinstance(x, list | dict):
            x = x["x"] if isinstance(x, dict) else x[0]
        return (self.weight * x).sum()


def test_modules_of_one_array_are_separate() -> None:
    """Those made after another was trained have the array as it is, and so have copies that were made before."""
    weight = np.ones(3, np.float32)
    first = Scale(weight)
    average = copy.copy(first)
    first(tenon.tensor(X[0])).backward()
    RULES.SGD(first.parameters(), lr=1.0).step()
    assert not np.array_equal(first.weight.detach(), weight)
    for other in Scale(weight), average:
        (found,) = other.parameters()
        np.testing.assert_array_equal(found.detach(), weight)
    assert average.weight is not first.weight


def trained(model: Any) -> None:
    steps = RULES.SGD(model.parameters(), lr=1.0)
    model(tenon.tensor(X)).sum().backward()
    steps.step()


def zeroed(model: Any) -> None:
    with tenon.no_grad():
        model.weight.zero_()


def filled(model: Any) -> None:
    model.weight.data.fill_(3)


def exchanged(model: Any) -> None:
    model.weight.data = model.weight.data * 2


def loaded(model: Any) -> None:
    model.load_state_dict({"weight": np.full((2, 3), 4, np.float32), "bias": np.zeros(2, np.float32)})


@pytest.mark.parametrize("change", [trained, zeroed, filled, exchanged, loaded])
@pytest.mark.parametrize("is_named", [True, False])
def test_jit_around_a_listed_module_is_not_stale(change: Any, is_named: bool) -> None:
    """Neither where the function names the module nor where it has it from somewhere that nothing looks into."""
    model = nn.Linear(3, 2)
    assert sum(p.numel() for p in model.parameters()) == 8
    behind = weakref.ref(model)
    evaluate = tenon.jit((lambda x: model(x)) if is_named else (lambda x: behind()(x)))  # pyright: ignore[reportOptionalCall]
    before = np.array(evaluate(X))
    np.testing.assert_allclose(before, model(X), rtol=1e-5, atol=1e-6)
    change(model)
    if change is trained:
        with pytest.raises(TypeError, match="read from around a function of jit"):
            evaluate(X)
    else:
        assert not np.allclose(evaluate(X), before)
        np.testing.assert_allclose(evaluate(X), model(X), rtol=1e-5, atol=1e-6)
    predict = tenon.jit(lambda model, x: model(x))
    frozen = predict.freeze(model)
    assert "tensor<2x3xf32>" in str(predict.trace(model, X))
    expected = np.array(model(tenon.tensor(X)).detach())
    with tenon.no_grad():
        model.weight.fill_(7.0)
    np.testing.assert_allclose(frozen(X), expected, rtol=1e-5, atol=1e-6)


def test_a_listed_parameter_is_read_by_an_op_of_a_function() -> None:
    """It is the array of its module there, as it is where the module is called."""
    model = nn.Linear(3, 2)
    array, weight = np.array(model.weight), model.weight
    for function in (lambda x: x * weight), (lambda x: tenon.multiply(x, model.weight)):
        np.testing.assert_array_equal(tenon.jit(function)(X[:2]), X[:2] * array)
    np.testing.assert_array_equal(tenon.grad(lambda x: (x * weight).sum())(X[:2]), array)


def test_what_is_computed_of_listed_parameters() -> None:
    """It is recorded, as in torch, and the module stays one of arrays to a loop of functions."""
    own, theirs = pair()
    for library, model in (tenon, own), (torch, theirs):
        penalty = sum((p**2).sum() for p in model.parameters())
        (model(library.tensor(X)).sum() + penalty).backward()
    for one, other in zip(own.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(one.grad, other.grad, rtol=1e-4, atol=1e-5)
    model, rule = nn.Linear(3, 2), optim.SGD(lr=0.1)
    state = rule.init(model)
    slopes = tenon.grad(lambda model: (model(X) ** 2).sum())
    for _ in range(2):
        assert sum((p**2).sum().item() for p in model.parameters()) > 0
        model, state = rule.update(model, slopes(model), state)
        assert type(model.weight) is np.ndarray


@dataclass
class Unhashable(nn.Module):
    weight: Any

    def forward(self, x: Any) -> Any:
        return (self.weight * x).sum()


class Outer(nn.Module):
    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def forward(self) -> Any:
        return self.inner(tenon.tensor(X[0]))


@pytest.mark.parametrize(
    "call",
    [
        lambda model, x: model(x=x),
        lambda model, x: model([x]),
        lambda model, x: model({"x": [x]}),
        lambda model, x: Outer(model)(),
        lambda model, x: Unhashable(model.weight)(x),
    ],
)
def test_called_on_a_tensor_in_any_way(call: Any) -> None:
    assert call(Scale(np.ones(3, np.float32)), tenon.tensor(X[0])).requires_grad


def test_an_error_while_parameters_are_made_is_one_of_that_call_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = Scale(np.ones(3, np.float32)), tenon.tensor(X[0])
    with monkeypatch.context() as changed:
        changed.setattr(Scale, "make_learned", _without_memory)
        with pytest.raises(MemoryError):
            model(x)
    assert model(x).requires_grad


def _without_memory(_: Any) -> None:
    raise MemoryError


def test_parameters_that_come_after_the_first_call() -> None:
    earlier, x = Scale(np.ones(3, np.float32)), tenon.tensor(X[0])
    model: Any = Scale(np.ones(3, np.float32))
    model(x)
    model.more = list[Any]([np.ones(3, np.float32)])
    model(x)
    assert model.more[0].requires_grad
    model.below = earlier
    model(x)
    assert earlier.weight.requires_grad
    model.set_parameters({"more.0": np.zeros(3, np.float32)})
    model(x)
    assert model.more[0].requires_grad


def test_integers_are_no_parameters_to_learn() -> None:
    model: Any = Scale(np.ones(3, np.float32))
    model.places = np.arange(3)
    assert model.requires_grad_().weight.requires_grad
    assert type(model.requires_grad_(False).places) is np.ndarray
    with pytest.raises(TypeError, match="parameter 1 is an array of int64, which cannot be trained; make it a buffer"):
        RULES.SGD(model.parameters(), lr=1.0)


def test_tapes_that_do_not_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes of other lengths and choices go by the programs of their calls, until one comes again."""
    monkeypatch.setattr(known_tapes, "_LONG", 8)
    monkeypatch.setattr(known_tapes, "_WASTED", 12)
    known_tapes._KNOWN.clear()
    own, theirs = pair()
    counts: list[int] = []
    for length in 2, 3, 4, 5, 4:
        found: list[list[Any]] = []
        for library, model in (tenon, own), (torch, theirs):
            scores, state = [], library.tensor(X[:1])
            for step in range(length):
                low, high = model(state).chunk(2, dim=1)  # two results of one call
                state = state + high * 0.1
                scores.append((low if step % 2 else high)[0, 0])
            model.zero_grad()
            library.stack(scores).mean().backward()
            found.append([p.grad.numpy() for p in model.parameters()])
        for one, other in zip(*found, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
        counts.append(len(known_tapes._KNOWN))
    assert counts == [1, 1, 1, 1, 2]


def test_attributes_that_were_read_are_arrays_to_functions_around_them() -> None:
    layer, x = nn.Linear(3, 2), np.ones((1, 3), np.float32)
    function = tenon.jit(lambda x: x @ layer.weight.T)
    before = function(x)
    assert layer.weight.shape == (2, 3)
    np.testing.assert_array_equal(function(x), before)
    with tenon.no_grad():
        layer.weight.mul_(2)
    np.testing.assert_array_equal(function(x), 2 * before)


def test_attributes_of_a_class_that_extends_a_layer_are_its_own() -> None:
    class Scaled(nn.Linear):
        def __init__(self) -> None:
            super().__init__(3, 2)
            self.scale, self.names = np.ones(2, np.float32), np.array(["a", "b"])

    layer = Scaled()
    assert (layer.scale.shape, list(layer.names)) == ((2,), ["a", "b"])
    assert not hasattr(nn.Linear, "scale")
    with pytest.raises(AttributeError, match=r"Linear has no attribute 'scale'$"):
        getattr(nn.Linear(3, 2), "scale")  # noqa: B009


def test_a_module_whose_parameters_were_listed_is_called_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    layers, x = [nn.Linear(3, 3, seed=seed) for seed in (0, 1)], np.ones((2, 3), np.float32)
    run = tenon.jit(lambda layers, x: layers[1](layers[0](x)))
    expected = run(layers, x)
    assert [len([*layer.parameters()]) for layer in layers] == [2, 2]
    for _ in range(3):
        run(layers, x)

    def refuse(*_: Any) -> Any:
        raise AssertionError("this call is for Python")

    with monkeypatch.context() as patched:
        patched.setattr(run.parameters, "take_apart", refuse)
        np.testing.assert_array_equal(run(layers, x), expected)
        with tenon.no_grad():
            layers[1].bias[...] = layers[1].bias + 1
        np.testing.assert_allclose(run(layers, x), expected + 1, rtol=1e-5)
        with pytest.raises(AssertionError):
            run([nn.Linear(3, 3), nn.Linear(3, 3)], x)
    layers[0].requires_grad_()
    result = run(layers, x)
    assert isinstance(result, tenon.Tensor)
    assert result.requires_grad


class Leaving(nn.Module):
    """A module with tensors that are no parameters: constants, and what a call leaves behind."""

    def __init__(self) -> None:
        self.places = tenon.tensor([1.0, 2.0, 3.0])
        self.masks = [tenon.tensor([1.0, 0.0, 1.0])]
        self.weight = nn.Parameter(np.ones(3, np.float32))
        self.hidden: Any = None

    def forward(self, x: Any) -> Any:
        self.hidden = x * self.weight
        self.penalty = (self.weight * self.weight).sum()
        return self.hidden * self.masks[0] + self.places


def test_tensors_that_are_no_parameters() -> None:
    module, x = Leaving(), tenon.tensor([[1.0, 2.0, 3.0]])
    optimizer = optim.SGD(lr=0.5).over(module)
    for _ in range(2):
        optimizer.zero_grad()
        (module(x).sum() + module.penalty).backward()  # what is left behind has its gradient
        optimizer.step()
    # With x and the mask the slope is x * mask + 2 w: 1 - 0.5 * (3, 2, 5), and then from there.
    np.testing.assert_allclose(module.weight.tolist(), [-0.5, 0.0, -1.5])
    assert module.places.tolist() == [1.0, 2.0, 3.0]
    assert [name for name, _ in module.named_parameters()] == [*module.state_dict()] == ["weight"]
    assert module.half().weight.dtype == np.float16  # though a tensor that was computed is not converted
    module.places = nn.Parameter(np.zeros(3, np.float32))  # which is one from now on
    module.register_parameter("shift", tenon.tensor([1.0]))
    for holder in (nn.ParameterList([tenon.tensor([1.0])]), nn.ParameterDict({"0": tenon.tensor([1.0])})):
        assert [*holder.state_dict()] == [name for name, _ in holder.named_parameters()] == ["0"]
    assert sorted(name for name, _ in module.named_parameters()) == ["places", "shift", "weight"]


def test_values_that_a_traced_call_leaves_are_no_parameters() -> None:
    result, module = tenon.jit(lambda module, x: (module(x), module))(Leaving(), np.ones((1, 3), np.float32))
    assert result.tolist() == [[2.0, 2.0, 4.0]]
    assert [name for name, _ in module.named_parameters()] == ["weight"]
    assert module.hidden.tolist() == [[1.0, 1.0, 1.0]]
