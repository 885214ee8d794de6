"""Modules as objects: parts by path, hooks, state, conversion, lists and dicts, and what errors leave behind."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon import nn, optim


@pytest.fixture(autouse=True)
def interpreted() -> Iterator[None]:
    with tenon.knobs.override(interpret=True):
        yield


X = np.arange(6, dtype=np.float32).reshape(2, 3) / 4 - 0.5


def network() -> Any:
    return nn.Sequential(nn.Linear(3, 4, seed=0), nn.Tanh(), nn.Linear(4, 2, seed=1))


# --- parts ------------------------------------------------------------------------------------------------------------


def test_places_in_lists_that_have_no_module() -> None:
    layers = nn.ModuleList([nn.Linear(3, 4), None])
    assert layers[1] is None
    assert len(layers) == 2
    assert [*layers.state_dict()] == ["0.weight", "0.bias"]
    assert nn.ModuleDict({"down": None})["down"] is None
    with pytest.raises(TypeError, match="a int is no module"):
        nn.ModuleList([1])


def test_parts_by_path() -> None:
    net = nn.Sequential(network(), nn.BatchNorm1d(2))
    assert [name for name, _ in net.named_modules()] == ["", "0", "0.0", "0.1", "0.2", "1"]
    assert [name for name, _ in net.named_modules("net")][:2] == ["net", "net.0"]
    assert [name for name, _ in net.named_children()] == ["0", "1"]
    assert [type(child).__name__ for child in net.children()] == ["Sequential", "BatchNorm1d"]
    assert [name for name, _ in net.named_parameters(recurse=False)] == []
    assert [name for name, _ in net[0][0].named_parameters("first")] == ["first.weight", "first.bias"]
    assert [name for name, _ in net.named_buffers()] == [
        f"1.{name}" for name in ("running_mean", "running_var", "num_batches_tracked")
    ]
    assert net.get_submodule("0.2") is net[0][2]
    assert net.get_parameter("0.0.weight") is net[0][0].weight
    assert net.get_buffer("1.running_var") is net[1].running_var
    with pytest.raises(AttributeError, match=r"Sequential has no parameter '0.0.weigth', did you mean '0.0.weight'"):
        net.get_parameter("0.0.weigth")
    tied = nn.Sequential(net[0], net[0])
    assert len(list(tied.modules())) == 5
    assert len(list(tied.parameters())) == 4
    assert next(tied.parameters()) is net[0][0].weight


def test_parts_that_are_registered() -> None:
    net = nn.Module()
    net.register_parameter("scale", np.ones(2))
    net.register_parameter("shift", None)
    net.register_module("inner", nn.Linear(2, 2))
    net.register_buffer("seen", np.zeros(1))
    net.register_buffer("scratch", np.zeros(1), persistent=False)
    assert list(net.state_dict()) == ["scale", "seen", "inner.weight", "inner.bias"]
    assert [name for name, _ in net.named_buffers()] == ["seen", "scratch"]
    net.register_buffer("scratch", np.zeros(1))
    assert "scratch" in net.state_dict()
    again = tenon.jit(lambda net: net)(net)
    assert list(again.state_dict()) == list(net.state_dict())
    with pytest.raises(TypeError, match="parameter 'x' of a Module is a str, and no array"):
        net.register_parameter("x", "y")
    with pytest.raises(TypeError, match="'x' of a Module is a int, and no module"):
        net.register_module("x", 1)  # pyright: ignore[reportArgumentType]
    for name in ("", "a.b", "forward"):
        with pytest.raises(KeyError, match="cannot be called"):
            net.register_buffer(name, np.zeros(1))


def test_modules_that_are_replaced_by_name() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Sequential(nn.ReLU()))
    inner = model._modules["2"]
    assert [*model._modules] == ["0", "1", "2"]
    model._modules["1"], inner._modules["0"] = nn.Tanh(), nn.ELU()
    assert [type(child).__name__ for child in (model[1], inner[0])] == ["Tanh", "ELU"]
    del model._modules["0"]
    assert (len(model._modules), "0" in model._modules, [*dict(model.named_modules())]) == (
        2,
        False,
        ["", "1", "2", "2.0"],
    )


def test_apply_reaches_all_modules_from_below() -> None:
    seen: list[str] = []

    def note(module: Any) -> None:
        seen.append(type(module).__name__)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.weight)

    net = network()
    assert net.apply(note) is net
    assert seen == ["Linear", "Tanh", "Linear", "Sequential"]
    assert not net[0].weight.any()


def test_conversion_of_floats() -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).requires_grad_()
    weight = net[0].weight
    net(X).sum().backward()
    assert net.double() is net
    assert net[0].weight is weight
    assert {str(value.dtype) for value in net.state_dict().values()} == {"float64", "int64"}
    assert weight.grad.dtype == np.float64
    assert net(X.astype(np.float64)).dtype == np.float64
    for name, dtype in (("half", "float16"), ("bfloat16", "bfloat16"), ("float", "float32")):
        getattr(net, name)()
        assert str(net[0].weight.dtype) == dtype == str(net[1].running_mean.dtype)
    assert str(network().to(np.float64)[0].weight.dtype) == "float64"
    assert net.to("cpu") is net
    with pytest.raises(TypeError, match="parameters are floats, and cannot be int32"):
        net.to("i32")
    with pytest.raises(RuntimeError, match="computed cannot be converted in place"):
        (weight * 2).convert_("f64")


def test_optimizers_go_on_with_what_was_converted() -> None:
    net = network().requires_grad_().double()
    steps = optim.SGD(lr=0.1).over(net)
    before = net[0].weight.detach().numpy().copy()
    net(X.astype(np.float64)).sum().backward()
    steps.step()
    assert not np.array_equal(net[0].weight.detach(), before)


# --- hooks ------------------------------------------------------------------------------------------------------------


def test_hooks_around_forward() -> None:
    net, said = network(), []
    expected = net(2 * X) + 1

    def double(module: Any, args: Any) -> Any:
        said.append(("before", module is net, len(args)))
        return args[0] * 2

    def raised(module: Any, args: Any, result: Any) -> Any:
        said.append(("after", module is net, result.shape))
        return result + 1

    with net.register_forward_pre_hook(double), net.register_forward_hook(raised):
        np.testing.assert_allclose(net(X), expected, rtol=1e-6)
        np.testing.assert_allclose(tenon.jit(lambda net, x: net(x))(net, X), expected, rtol=1e-6)
    assert [word for word, *_ in said] == ["before", "after"] * 2
    np.testing.assert_allclose(net(2 * X) + 1, expected, rtol=1e-6)  # they are gone
    np.testing.assert_allclose(tenon.jit(lambda net, x: net(x))(net, 2 * X) + 1, expected, rtol=1e-6)


def test_hooks_in_order_and_with_named_arguments() -> None:
    class Scaled(nn.Module):
        def forward(self, x: Any, scale: float = 1.0) -> Any:
            return x * scale

    module, order = Scaled(), []
    module.register_forward_hook(lambda *_: order.append("second"))
    module.register_forward_hook(lambda *_: order.append("first"), prepend=True)
    module.register_forward_pre_hook(lambda m, args, kwargs: (args, {"scale": 3.0}), with_kwargs=True)
    module.register_forward_hook(lambda m, args, kwargs, result: order.append(kwargs["scale"]), with_kwargs=True)
    np.testing.assert_array_equal(module(X, scale=2.0), 3 * X)
    assert order == ["first", "second", 3.0]
    with pytest.raises(TypeError, match="Scaled: a int cannot be called, and is no hook"):
        module.register_forward_hook(1)  # pyright: ignore[reportArgumentType]
    module.register_forward_pre_hook(lambda m, args, kwargs: args, with_kwargs=True)
    with pytest.raises(TypeError, match="Scaled: a hook before forward gives tuple where None or the arguments"):
        module(X)


def _gradients(library: Any, tensor: Any, make: Any, *, change: bool) -> list[Any]:
    """What hooks of gradients see of a module of two arguments and results, and what they lead to."""
    seen: list[Any] = []
    module = make()

    def before(_: Any, outputs: Any) -> Any:
        seen.append([None if g is None else g.detach().numpy().copy() for g in outputs])
        return tuple([g * 2 for g in outputs]) if change else None

    def after(_: Any, inputs: Any, outputs: Any) -> Any:
        seen.append([None if g is None else g.detach().numpy().copy() for g in (*inputs, *outputs)])
        return (inputs[0] * 3, None, inputs[2]) if change else None

    module.register_full_backward_pre_hook(before)
    module.register_full_backward_hook(after)
    x, y = tensor(X), tensor(X.T.copy())
    first, second = module(x, 2.0, y)
    ((first * first).sum() + second.sum()).backward()
    return [*seen, [x.grad.numpy(), y.grad.numpy()]]


@pytest.mark.parametrize("change", [False, True])
def test_hooks_of_gradients_are_torchs(change: bool) -> None:
    def both(library: Any) -> Any:
        class Both(library.Module):
            def forward(self, x: Any, scale: float, y: Any) -> Any:
                return x @ y, (x * scale) * 1.0

        return Both

    found = _gradients(nn, lambda a: tenon.tensor(a, requires_grad=True), both(nn), change=change)
    expected = _gradients(torch.nn, lambda a: torch.from_numpy(a).requires_grad_(), both(torch.nn), change=change)
    for one, other in zip(found, expected, strict=True):
        for have, want in zip(one, other, strict=True):
            assert (have is None) == (want is None)
            if want is not None:
                np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)


def test_hooks_of_gradients_of_the_first_layer_and_of_parameters() -> None:
    net, seen = network().requires_grad_(), []
    handle = net[0].register_full_backward_hook(lambda m, inputs, outputs: seen.append((inputs, outputs[0].shape)))
    net(X).sum().backward()
    assert seen == [((None,), (2, 4))]
    with pytest.raises(RuntimeError, match="Linear: hooks of gradients are called by backward"):
        tenon.grad(lambda net: net(X).sum())(net)
    with tenon.no_grad():
        net(X)
    handle.remove()
    net(X).sum().backward()
    assert len(seen) == 1
    net[0].register_full_backward_hook(lambda m, inputs, outputs: (None, None))
    with pytest.raises(ValueError, match="Linear: a hook gives 2 gradients where 1 are needed"):
        net(tenon.tensor(X, requires_grad=True)).sum().backward()


# --- errors leave things as they were ---------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_in_a_hook_leaves_the_state_as_it_was(error: type[BaseException]) -> None:
    net = nn.Sequential(nn.Linear(3, 2, seed=0), nn.BatchNorm1d(2), nn.Dropout(), nn.Linear(2, 2)).requires_grad_()
    net(X).sum().backward()
    before = {
        name: np.array(value.detach() if hasattr(value, "detach") else value)
        for name, value in net.state_dict().items()
    }
    gradients = [np.array(p.grad) for p in net.parameters()]

    def fail(*_: Any) -> None:
        raise error("of the user")

    def unchanged() -> None:
        for name, value in net.state_dict().items():
            np.testing.assert_array_equal(value.detach() if hasattr(value, "detach") else value, before[name])
        for p, gradient in zip(net.parameters(), gradients, strict=True):
            np.testing.assert_array_equal(p.grad, gradient)

    with net[3].register_forward_hook(fail), pytest.raises(error, match="of the user"):
        net(X)
    unchanged()
    with net[0].register_full_backward_hook(fail):
        loss = net(X).sum()
        after = {name: np.array(value) for name, value in net.named_buffers()}
        with pytest.raises(error, match="of the user"):
            loss.backward()
    before.update(after)
    unchanged()


# --- lists and dicts --------------------------------------------------------------------------------------------------


def test_lists_of_modules() -> None:
    layers = nn.ModuleList([nn.Linear(2, 2)])
    layers.append(nn.ReLU()).extend([nn.Tanh()])
    layers.insert(1, nn.Sigmoid())
    layers += [nn.Linear(2, 3)]
    assert [type(layer).__name__ for layer in layers] == ["Linear", "Sigmoid", "ReLU", "Tanh", "Linear"]
    del layers[1]
    assert type(layers.pop(1)).__name__ == "ReLU"
    layers[1] = nn.Linear(2, 5)
    assert [name for name, _ in layers.named_parameters()] == [f"{i}.{w}" for i in range(3) for w in ("weight", "bias")]
    assert len(layers[1:]) == 2
    assert isinstance(layers[1:], nn.ModuleList)
    assert repr(nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh()])) == repr(
        torch.nn.ModuleList([torch.nn.ReLU(), torch.nn.ReLU(), torch.nn.Tanh()])
    )
    with pytest.raises(TypeError, match="ModuleList: a function is no module"):
        layers.append(lambda x: x)
    with pytest.raises(NotImplementedError, match="ModuleList does not define forward"):
        layers(X)


def test_sequential_with_names_and_slices() -> None:
    net = nn.Sequential(OrderedDict(first=nn.Linear(3, 4, seed=0), act=lambda x: x * 2.0, last=nn.Linear(4, 2, seed=1)))
    assert [name for name, _ in net.named_parameters()] == [
        f"{n}.{w}" for n in ("first", "last") for w in ("weight", "bias")
    ]
    np.testing.assert_allclose(tenon.jit(lambda net, x: net(x))(net, X), net(X), rtol=1e-5)
    np.testing.assert_allclose(net[:2](X), net[0](X) * 2, rtol=1e-6)
    net.add_module("end", nn.ReLU())
    assert len(net) == 4
    with pytest.raises(KeyError, match="an item cannot be called 'forward'"):
        net.add_module("forward", nn.ReLU())


def test_shared_arrays_have_their_first_name() -> None:
    def tied(library: Any) -> Any:
        net = library.Sequential(library.Embedding(5, 3), library.Tanh(), library.Linear(3, 5))
        net[2].weight = net[0].weight
        net.append(net[1])
        return net

    theirs, own = tied(torch.nn), tied(nn)
    for net in own, own.requires_grad_():
        for options in {}, {"remove_duplicate": False}, {"recurse": False}:
            expected = [name for name, _ in theirs.named_parameters(**options)]
            assert [name for name, _ in net.named_parameters(**options)] == expected
        assert net.get_parameter("2.weight") is net[0].weight
        assert len(list(net.parameters())) == len(list(theirs.parameters()))
    optim.SGD(lr=0.1).over(own)
    assert sorted(own.state_dict()) == sorted(theirs.state_dict())


def test_dicts_of_modules_and_of_parameters() -> None:
    heads = nn.ModuleDict({"a": nn.Linear(2, 2)})
    heads["b"] = nn.Linear(2, 3)
    heads.update({"c": nn.Identity()})
    assert heads.keys() == ["a", "b", "c"] == list(heads)
    assert "b" in heads
    assert [name for name, _ in heads.items()] == heads.keys()
    del heads["c"]
    assert [name for name, _ in heads.named_parameters()] == ["a.weight", "a.bias", "b.weight", "b.bias"]
    with pytest.raises(KeyError, match="x"):
        heads["x"]
    with pytest.raises(KeyError, match="an item cannot be called 'keys'"):
        heads["keys"] = nn.ReLU()
    weights = nn.ParameterDict({"w": np.ones(2)})
    both = nn.ParameterList([np.ones(2), nn.Parameter(np.zeros(3))])
    net = nn.Module()
    net.register_module("weights", weights)
    net.register_module("both", both)
    assert list(net.state_dict()) == ["weights.w", "both.0", "both.1"]
    net.requires_grad_()
    assert both[0].requires_grad
    assert weights["w"].requires_grad
    heads.clear()
    assert len(heads) == 0


# --- modules of ops ---------------------------------------------------------------------------------------------------


def test_a_module_of_any_op() -> None:
    Shrink = nn.module_of(tenon.shrink)
    assert repr(nn.Sequential(Shrink(bias=0.5))) == "Sequential(\n  (0): Shrink(lambd=0.5, bias=0.5)\n)"
    np.testing.assert_array_equal(Shrink(0.1, 0.2)(X), tenon.shrink(X, lambd=0.1, bias=0.2))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(nn.ELU(2.0)))(X), nn.ELU(2.0)(X))
    np.testing.assert_array_equal(nn.Softmax(axis=0)(X), nn.Softmax(0)(X))
    with pytest.raises(TypeError, match=r"ELU\(alpha=1.0, inplace=False\): got an unexpected keyword argument 'beta'"):
        nn.ELU(beta=1)
    with pytest.raises(TypeError, match="module_of: 3 is not the function of an op"):
        nn.module_of(3)


def test_dropout_of_channels_and_of_selus() -> None:
    x = np.ones((16, 32, 5), np.float32)
    result = np.asarray(nn.Dropout1d(0.25, seed=0)(x))
    assert (result == result[:, :, :1]).all()
    assert abs((result[:, :, 0] > 0).mean() - 0.75) < 5 * np.sqrt(0.1875 / 512)
    values = np.random.default_rng(0).standard_normal(40_000).astype(np.float32)
    dropped = np.asarray(nn.AlphaDropout(0.3, seed=0)(values))
    assert abs(dropped.mean()) < 0.03
    assert abs(dropped.std() - 1) < 0.03
    assert not np.asarray(nn.Dropout(1.0)(x)).any()
    feature = np.asarray(nn.FeatureAlphaDropout(0.5, seed=0)(x))
    assert (feature == feature[:, :, :1]).all()
    slopes = np.asarray(nn.RReLU(0.1, 0.3, seed=0)(-np.ones(1000, np.float32)))
    assert -0.3 <= slopes.min() < -0.28 < -0.12 < slopes.max() <= -0.1
    with pytest.raises(ValueError, match=r"Dropout2d: x has shape \(2, 3\) where 4 dimensions are needed"):
        nn.Dropout2d()(X)


WRONG: list[tuple[Any, str]] = [
    (lambda: nn.BatchNorm2d(3)(X), r"BatchNorm2d: x has shape \(2, 3\) where 4 dimensions are needed"),
    (lambda: nn.BatchNorm1d(4)(X), r"BatchNorm1d: x has shape \(2, 3\), and num_features is 4"),
    (lambda: nn.GroupNorm(2, 3), "num_channels is 3, no multiple of num_groups, 2"),
    (lambda: nn.LayerNorm(4)(X), r"LayerNorm: x has shape \(2, 3\), which does not end in \(4,\)"),
    (lambda: nn.LSTM(4, 2)(X), r"LSTM: x has shape \(2, 3\), and input_size is 4"),
    (lambda: nn.GRU(3, 4, proj_size=2), "GRU: proj_size is 2; only an LSTM has one"),
    (lambda: nn.LSTM(3, 4)(X, X), "LSTM: there are 1 states where 2 are needed"),
    (lambda: nn.GRU(3, 4)(X, X), r"GRU: a state has shape \(2, 3\) where \(1, 4\) is needed"),
    (lambda: nn.RNN(3, 4, nonlinearity="sin"), "RNN: nonlinearity is 'sin', neither 'tanh' nor 'relu'"),
    (lambda: nn.MultiheadAttention(6, 4), "embed_dim 6 is no multiple of num_heads 4"),
    (lambda: nn.MultiheadAttention(6, 3)(X, X, X), r"query has shape \(2, 3\) where 3 dimensions are needed"),
    (lambda: nn.TransformerEncoderLayer(4, 2, activation="sin"), "activation 'sin' is not one of relu, gelu"),
    (lambda: nn.Upsample(), "size or scale_factor is needed, and not both"),
    (lambda: nn.Upsample(2, mode="cubic"), "mode 'cubic' is not one of nearest"),
    (lambda: nn.ReflectionPad2d((1, 2)), r"padding is \(1, 2\) where one size or 4 are needed"),
    (lambda: nn.MSELoss(reduction="men")(X, X), "reduction"),
    (
        lambda: nn.NLLLoss(reduction="men"),  # pyright: ignore[reportArgumentType]
        "reduction is 'men', and not 'mean', 'sum' or 'none'",
    ),
    (lambda: nn.Embedding(3, 2, padding_idx=5), "padding_idx is 5, and there are 3 rows"),
    (lambda: nn.Conv2d(2, 2, 3, padding_mode="edge"), "padding_mode 'edge' is not one of zeros, reflect"),
    (lambda: nn.init.xavier_uniform_(np.ones(3)), "has no fan"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_what_is_wrong_is_named(wrong: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        wrong()
