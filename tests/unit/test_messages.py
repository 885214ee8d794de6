"""What is said about programs that are wrong, and which lines of theirs are shown."""

# Ops that are defined here are found under `tenon`, which its stubs do not know.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false

from __future__ import annotations

import copy
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenon
from tenon import nn, optim
from tenon.dialects.definition.memo import KnownResults
from tenon.dialects.support import suggestion
from tenon.runtime.knobs import knobs

X = np.ones((3, 4), np.float32)


def sgd_of(*sizes: int) -> Any:
    """An optimizer with a group of one parameter of each size."""
    groups = [{"params": [tenon.tensor(np.ones(size), requires_grad=True)]} for size in sizes]
    return tenon.optim.SGD(0.1, 0.9).over(groups)


def stepped(steps: Any) -> Any:
    (x,) = steps.param_groups[0]["params"]
    x.sum().backward()
    steps.step()
    return steps


KEY = np.array([1, 2], np.int32)
MESSAGES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: tenon.round(X, decimals=400), ValueError, "tenon.round: decimals is 400 where -38 to 38"),
    (lambda: tenon.unique(X, dim=5), ValueError, "unique: dim is 5, which is no axis of shape"),
    (lambda: optim.lr_scheduler.StepLR(sgd_of(1), 3).load_state_dict({}), ValueError, "the state lacks made; it has"),
    (lambda: sgd_of(1).load_state_dict({"state": []}), ValueError, "SGD: the state lacks param_groups; it has state"),
    (lambda: optim.GradScaler().load_state_dict({"scale": 1.0}), ValueError, "GradScaler: the state lacks count"),
    (lambda: nn.set_rng_state(3), TypeError, "set_rng_state: the state is a int where a dict is needed"),
    (lambda: tenon.select([X > 0, X > 1], [X, X], 0.0), TypeError, "condition and x are lists of arrays; write where("),
    (lambda: tenon.sofmax(X), AttributeError, "no op 'sofmax', did you mean 'softmax'"),
    (lambda: tenon.busday_count, AttributeError, "no op 'busday_count', which NumPy has"),
    (lambda: tenon.jit(lambda x: x.sofmax())(X), AttributeError, "op 'sofmax', did you mean 'softmax'"),
    (lambda: tenon.softmax(X, axes=1), TypeError, "unknown setting 'axes' (settings: axis), did you mean 'axis'"),
    (lambda: tenon.jit(lambda x: np.sum(x))(X), TypeError, "numpy.sum cannot be traced (argument tensor<3x4xf32>); use "
     "tenon.sum"),
    (lambda: tenon.jit(lambda x: np.concatenate([x, x]))(X), TypeError, "numpy.concatenate cannot be traced"),
    (lambda: tenon.jit(lambda x: x.item())(X), TypeError, "the elements of a traced value (tensor<3x4xf32>)"),
    (lambda: tenon.jit(lambda x: f"{x:.2f}")(X), TypeError, "the elements of a traced value (tensor<3x4xf32>)"),
    (lambda: tenon.grad(lambda x: x, argnums="x")(1.0), TypeError, "grad: argnums is 'x' where the position of"),
    (lambda: tenon.tensor_op(lambda x: x), TypeError, "tensor_op: <lambda> is no class of a family of ops"),
    (lambda: tenon.full(2, 3, 4), TypeError, "full: the dtype is 4; sizes go into one tuple, such as (2, 4)"),
    (lambda: tenon.linalg.eig, AttributeError, "'eig': there are no complex dtypes; eigh has the eigenvalues"),
    (lambda: tenon.complex, AttributeError, "'complex': there are no complex dtypes; tenon.dft has real"),
    (lambda: tenon.distributions, AttributeError, "'distributions': draw by tenon.randn, rand, bernoulli"),
    (lambda: tenon.rand((2**70,)), ValueError, "tenon.rand: shape is (1180591620717411303424,), of more elements than"),
    (lambda: tenon.tensor(X).split(0), ValueError, "split: the size of parts is 0 where 1 or more is needed"),
    (lambda: tenon.tensor(X).split((1.5, 1.5)), TypeError, "split: (1.5, 1.5) is neither the size of parts nor a"),
    (lambda: tenon.tensor(X).split(2.0), TypeError, "split: 2.0 is neither the size of parts nor a sequence of sizes"),
    (lambda: tenon.jit(lambda x: x.split(2)).trace(tenon.ShapeDtype((tenon.dim("n"), 4))), ValueError,
     "split: axis 0 has the size n, which is known at launch only; take slices"),
    (lambda: tenon.tensor(X).split((2, 2)), ValueError, "split: parts of the sizes [2, 2] do not make up axis 0"),
    (lambda: nn.Liner, AttributeError, "module 'tenon.nn' has no attribute 'Liner', did you mean 'Linear'"),
    (lambda: tenon.optim.Adm, AttributeError, "module 'tenon.optim' has no attribute 'Adm', did you mean 'Adam'"),
    (lambda: tenon.data.DataLoadr, AttributeError, "did you mean 'DataLoader'"),
    (lambda: sgd_of(2).load_state_dict(sgd_of(2, 3).state_dict()), ValueError, "SGD: the state is of 2 groups of "
     "parameters, and there are 1, of 1 parameters"),
    (lambda: sgd_of(2).load_state_dict({"param_groups": [{"lr": 1.0}], "state": [None]}), ValueError, "SGD: group 0 of "
     "the state lacks momentum, weight_decay, nesterov; it has lr"),
    (lambda: sgd_of(2).load_state_dict(stepped(sgd_of(3)).state_dict()), ValueError, "velocity.0 of group 0 has shape "
     "(3,) in the state and (2,) here"),
    (lambda: tenon.scatter_add(X, 1, np.array([1]), X), ValueError, "the source has shape (3, 4), and the index (1,)"),
    (lambda: nn.SyncBatchNorm, AttributeError, "there is one device"),
    (lambda: tenon.save, AttributeError, "write tenon.saving.save(path, tree)"),
    (lambda: nn.Linear(2, 3).wieght, AttributeError, "Linear has no attribute 'wieght', did you mean 'weight'"),
    (lambda: nn.Linear(2, 3, bais=False), TypeError, "Linear: there is no argument 'bais' (arguments: in_features, "
     "out_features, bias, dtype, seed), did you mean 'bias'"),
    (lambda: tenon.optim.Adam(learning_rate=1.0), TypeError, "Adam: there is no argument 'learning_rate'"),
    (lambda: tenon.jit(lambda x: x.requires_grad)(X), AttributeError, "tenon.grad and tenon.value_and_grad"),
    (lambda: tenon.jit(lambda x: x.relu_())(X), AttributeError, "write x = x.relu(...)"),
    (lambda: tenon.jit(lambda x: x + tenon.randn(3, 4).numpy())(X), TypeError, "tenon.random_normal(key, ...)"),
    (lambda: tenon.autocast("cpu", dtype="f9"), ValueError, "autocast: dtype is f9, neither f16 nor bf16"),
    (lambda: nn.Embedding(3, 2)(np.array([0, 3])), IndexError, "Embedding: index 3 is none of 0 to 2"),
    (lambda: nn.BatchNorm1d(3)(np.ones((1, 3), np.float32)), ValueError, "one number of each channel"),
    (lambda: tenon.jit(lambda n: tenon.zeros((2, n)))(3), TypeError, "zeros: the shape is a traced value"),
    (lambda: tenon.jit(lambda n: tenon.ones(n))(3), TypeError, "ones: the shape is a traced value"),
    (lambda: tenon.jit(lambda n: range(n))(3), TypeError, "counts loops in static= of jit"),
    (lambda: tenon.jit(lambda i: X[:, i])(3), TypeError, "index tenon.asarray(array) instead"),
    (lambda: tenon.jit(lambda x: np.asarray(x))(X), TypeError, "compute on it with tenon functions"),
    (lambda: tenon.jit(lambda x: np.linalg.inv(x))(X), TypeError, "numpy.linalg.inv cannot be traced"),
    (lambda: tenon.jit(lambda x: x.at[0].set(X[:2]))(X), ValueError, "values have shape (2, 4), which does not "
     "broadcast to (4,), that of x[key]"),
    (lambda: tenon.cond(np.array(True), X, X), TypeError, "cond: a ndarray is given where a function is needed"),
    (lambda: tenon.while_loop(True, abs, X), TypeError, "while_loop: a bool is given where a function"),  # pyright: ignore
    (lambda: tenon.scan(X, X), TypeError, "scan: a ndarray is given where a function is needed"),  # pyright: ignore
    (lambda: tenon.vmap(X), TypeError, "vmap: a ndarray is given where a function is needed"),  # pyright: ignore
    (lambda: tenon.grad(X), TypeError, "grad: a ndarray is given where a function is needed"),  # pyright: ignore
    (lambda: tenon.vjp(X, X), TypeError, "vjp: a ndarray is given where a function is needed"),  # pyright: ignore
    (lambda: tenon.jvp(X, (X,), (X,)), TypeError, "jvp: a ndarray is given where a function"),  # pyright: ignore
    (lambda: tenon.zeros((2, -1)), ValueError, "zeros: the shape is (2, -1), which has a negative size"),
    (lambda: nn.Sequential([nn.ReLU()]), TypeError, "Sequential: layer 0 is a list, which cannot be called"),  # pyright: ignore
    (lambda: tenon.full((2,), None), TypeError, "full: the value is None where a number is needed"),
    (lambda: tenon.ones((2.5, 1)), TypeError, "ones: the shape is (2.5, 1) where integers are needed"),  # pyright: ignore
    (lambda: tenon.empty(-2), ValueError, "empty: the shape is (-2,), which has a negative size"),
    (lambda: tenon.full((-2, 3), 1), ValueError, "full: the shape is (-2, 3), which has a negative size"),
    (lambda: tenon.eye(2, -3), ValueError, "eye: m is -3 where an integer of at least 0 is needed"),
    (lambda: tenon.arange(0.0, np.nan), ValueError, "arange: start, stop and step are (0.0, nan, 1), which are not"),
    (lambda: tenon.linspace(0, 1, -3), ValueError, "linspace: num is -3 where an integer of at least 0 is needed"),
    (lambda: tenon.rand(-2, 3), ValueError, "tenon.rand: shape is (-2, 3) where sizes of at least 0 are needed"),
    (lambda: tenon.randint(5, (-2,)), ValueError, "tenon.randint: shape is (-2,) where sizes of at least 0 are needed"),
    (lambda: tenon.randint(5, 5, (2,)), ValueError, "tenon.randint: low is 5 and high is 5, which no integers are"),
    (lambda: tenon.randperm(-3), ValueError, "tenon.randperm: count is -3 where an integer of at least 0 is needed"),
    *[(lambda draw=draw: draw(KEY, shape=(-2, 3)), ValueError, f"{draw.__name__}: shape is (-2, 3) where sizes")
      for draw in (tenon.random_bits, tenon.random_uniform, tenon.random_normal, tenon.random_exponential,
                   tenon.random_gumbel, tenon.random_bernoulli, tenon.random_truncated_normal)],
    (lambda: tenon.random_integers(KEY, (-1,), 0, 5), ValueError, "random_integers: shape is (-1,) where sizes of at"),
    (lambda: tenon.random_categorical(KEY, X, -1), ValueError, "random_categorical: count is -1 where an integer"),
    (lambda: tenon.jit(tenon.random_normal, static="shape")(KEY, (3, -1)), ValueError, "random_normal: shape is (3, "),
    (lambda: tenon.jvp(np.sin, (X,), (X.astype("f8"),)), TypeError, "jvp: tangent: value has dtype f64 where f32"),
    (lambda: tenon.jvp(tenon.add, (X, X), (X, X.astype("f2"))), TypeError, "jvp: tangent 1: value has dtype f16"),
    (lambda: tenon.zeros(("a", 2)), TypeError, "zeros: the shape is ('a', 2) where integers are needed"),
    (lambda: tenon.random_normal(KEY, ("a",)), TypeError, "random_normal: shape is ('a',) where integers are needed"),  # pyright: ignore
    (lambda: tenon.median(X, axis=(0, 1)), TypeError, "axis is (0, 1) where an integer is needed"),  # pyright: ignore
    (lambda: tenon.quantile(X, []), ValueError, "quantile: q is [] where a number from 0 to 1, or a list of such, is"),
    (lambda: optim.GradScaler("gpu"), TypeError, "GradScaler: init_scale is 'gpu' where a number is needed"),
    (lambda: optim.GradScaler("cuda", 8.0, 3.0, growth_factor=4.0), TypeError, "growth_factor is given by position, 3"),
    (lambda: nn.Conv2d(1, 4, 3)(X), ValueError, "Conv2d: x has shape (3, 4) where 4 dimensions are needed"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "kind", "message"), MESSAGES)
def test_messages(program: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as raised:
        program()
    assert message in str(raised.value)


def nothing(*_: Any, **__: Any) -> None:
    """A hook that lacks its return."""


FORGOTTEN: list[tuple[type[tenon.TensorOp], dict[str, Any], str]] = [
    (tenon.ElementwiseOp, {"scalar": nothing}, "the result of scalar is a NoneType where a value or a number"),
    (tenon.ElementwiseOp, {"scalar": lambda x: (x, x)}, "the result of scalar is 2 values where 1 are declared"),
    (tenon.ElementwiseOp, {"scalar": lambda x: "x"}, "the result of scalar is a str where a value or a number"),
    (
        tenon.ReductionOp,
        {
            "axis": tenon.setting(tuple, default=None),
            "keepdims": tenon.setting(bool, default=False),
            "initial": lambda element: 0.0,
            "scalar": nothing,
        },
        "the result of scalar is a NoneType where a value or a number is needed",
    ),
    (
        tenon.CumulativeOp,
        {"axis": tenon.setting(int, default=0), "initial": lambda element: 0.0, "scalar": nothing},
        "the result of scalar is a NoneType where a value or a number is needed",
    ),
    (tenon.CompositeOp, {"decompose": nothing}, "decompose returns (NoneType) where 1 traced values are needed"),
    (tenon.IndexingOp, {"infer": lambda x: x, "element": nothing}, "the result of element is a NoneType where"),
    (tenon.IndexMapOp, {"infer": nothing, "source": lambda index, shape, /: index}, "infer returns a NoneType where"),
    (tenon.IndexMapOp, {"infer": lambda x: x, "source": nothing}, "source returns a NoneType where an index"),
    (tenon.ContractionOp, {"indexing": lambda i, j: None}, "indexing returns a NoneType where a tuple of indices"),
]


@pytest.mark.parametrize(("family", "members", "message"), FORGOTTEN)
def test_what_hooks_forget_to_return_is_named(family: type[Any], members: dict[str, Any], message: str) -> None:
    hooks = {name: staticmethod(value) if callable(value) else value for name, value in members.items()}
    declared = {"x": tenon.operand_def(tenon.FLOAT_TENSOR), "result": tenon.result_def(tenon.FLOAT_TENSOR)}
    name = f"messages_test.forgotten_{FORGOTTEN.index((family, members, message))}"
    op = tenon.tensor_op(type("Forgotten", (family,), {"name": name, "__module__": __name__, **declared, **hooks}))
    with pytest.raises(TypeError) as raised:
        op.apply(X)
    assert message in str(raised.value)


TWO: dict[str, Any] = {"a": tenon.operand_def(tenon.FLOAT_TENSOR), "b": tenon.operand_def(tenon.FLOAT_TENSOR)}
SCALED: dict[str, Any] = {"scale": tenon.setting(float, default=1.0)}
WRONGLY_CALLED: list[tuple[type[tenon.TensorOp], dict[str, Any], str]] = [
    (tenon.ElementwiseOp, {"scalar": lambda a: a}, "scalar(a) is given (a, b): too many positional arguments"),
    (
        tenon.ElementwiseOp,
        {"scalar": lambda a, b: a, **SCALED},
        "scalar(a, b) is given (a, b, scale=): got an unexpected",
    ),
    (
        tenon.ElementwiseOp,
        {"scalar": lambda a, b, c: a},
        "scalar(a, b, c) is given (a, b): missing a required argument",
    ),
    (tenon.CompositeOp, {"decompose": lambda a, b, scale: a}, "decompose(a, b, scale) is given (a, b): missing"),
    (tenon.ElementwiseOp, {"scalar": min, "vjp": lambda g, a, b: g}, "vjp(g, a, b) is given (g, out, a, b): too many"),
    (tenon.IndexingOp, {"infer": lambda a: a, "element": lambda index, a, b: a}, "infer(a) is given (a, b): too many"),
    (
        tenon.IndexingOp,
        {"infer": lambda a, b: a, "element": lambda a, b: a},
        "element(a, b) is given (index, a, b): too",
    ),
    (tenon.HostOp, {"infer": lambda a, b: a, "reference": lambda a: a}, "reference(a) is given (a, b): too many"),
    (
        tenon.ElementwiseOp,
        {"scalar": min, "check": lambda a: None},
        "check(a) is given (): missing a required argument",
    ),
    (tenon.WindowOp, {"indexing": min, "extents": lambda a: {}}, "extents(a) is given (): missing a required argument"),
    (tenon.WindowOp, {"indexing": min, "initial": lambda: 0.0}, "initial() is given (element): too many positional"),
]


@pytest.mark.parametrize(("family", "members", "message"), WRONGLY_CALLED)
def test_hooks_that_do_not_take_what_they_are_given(family: type[Any], members: dict[str, Any], message: str) -> None:
    """It is told where the op is defined."""
    hooks = {name: staticmethod(value) if callable(value) else value for name, value in members.items()}
    result = {"result": tenon.result_def(tenon.FLOAT_TENSOR), "name": "messages_test.wrong", "__module__": __name__}
    with pytest.raises(TypeError) as raised:
        tenon.tensor_op(type("Wrong", (family,), {**TWO, **result, **hooks}))
    assert f"Wrong (messages_test.wrong): {message}" in str(raised.value)


def test_an_op_whose_inference_fails_is_named() -> None:
    def infer(x: Any) -> Any:
        shape: Any = tenon.shape_of(x)
        (size,) = shape  # fails for matrices
        return tenon.tensor_type((size,), tenon.element_of(x))

    members = {
        "name": "messages_test.vectors",
        "infer": staticmethod(infer),
        "source": staticmethod(lambda index, shape, /: index),
    }
    declared = {
        "__module__": __name__,
        "x": tenon.operand_def(tenon.FLOAT_TENSOR),
        "result": tenon.result_def(tenon.FLOAT_TENSOR),
    }
    op = tenon.tensor_op(type("VectorsOp", (tenon.IndexMapOp,), {**members, **declared}))
    with pytest.raises(ValueError, match="too many values to unpack") as caught:
        op.apply(np.ones((2, 3)))
    assert caught.value.__notes__ == ["in messages_test.vectors, whose result types are inferred"]


@pytest.mark.parametrize("hook", ["scalar", "vjp"])
def test_a_hook_that_is_a_method_would_be_given_the_op_in_front(hook: str) -> None:
    hooks = {"scalar": staticmethod(lambda x: x), hook: lambda x, *_: x}
    members = {"name": "messages_test.method", "__module__": __name__, **hooks}
    with pytest.raises(TypeError, match=rf"Wrong \(messages_test.method\): {hook} must be a @staticmethod"):
        tenon.tensor_op(type("Wrong", (tenon.UnaryOp,), members))


def test_an_op_without_a_name() -> None:
    with pytest.raises(TypeError, match=r"Nameless: has no name; write name = 'mine.nameless', for example"):
        tenon.tensor_op(type("Nameless", (tenon.UnaryOp,), {"scalar": staticmethod(lambda x: x)}))


@pytest.mark.parametrize(
    ("indexing", "message"),
    [
        (
            lambda m, n, k: ((m, k), (k, m), (m, n)),
            "no operand tells how far loop n of indexing runs; the hook extents",
        ),
        (lambda m, n, k: ((m, k), (k, n), (m * n,)), "an index of indexing is no sum of multiples of loops"),
    ],
    ids=["untold", "product"],
)
def test_loops_that_are_nobodys_and_indices_that_are_no_sums(indexing: Any, message: str) -> None:
    name = f"messages_test.product_{message[:2]}"
    members = {**TWO, "result": tenon.result_def(tenon.FLOAT_TENSOR), "indexing": staticmethod(indexing)}
    op: Any = tenon.tensor_op(type("Wrong", (tenon.ContractionOp,), {"name": name, "__module__": __name__, **members}))
    with pytest.raises(ValueError, match=f"{name}: {message}"):
        op.apply(X[:3, :3], X[:3, :3])


def product(x: Any) -> Any:
    return tenon.matmul(x, x)


def unending(x: Any) -> Any:
    return unending(x)


@pytest.mark.parametrize(
    "program",
    [
        lambda: product(X),
        lambda: tenon.jit(product)(X),
        lambda: tenon.grad(lambda x: product(x).sum())(X),
        lambda: tenon.vmap(lambda x: product(x[None]))(X),
        lambda: nn.Sequential(product)(X),
        lambda: tenon.jit(nn.Sequential(nn.Sequential(product)))(X),
    ],
)
def test_tracebacks_show_the_users_lines_alone(program: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="dimension k is 4 in x and") as raised:
        program()
    shown = traceback.extract_tb(raised.value.__traceback__)
    assert {frame.filename for frame in shown} == {__file__}
    assert shown[-1].name == "product"
    with knobs.override(traceback="full"), pytest.raises(ValueError, match="dimension k") as raised:
        program()
    assert {frame.filename for frame in traceback.extract_tb(raised.value.__traceback__)} > {__file__}


def test_defects_keep_their_whole_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Tenon did not raise on purpose shows where it happened."""

    def broken(*_: Any, **__: Any) -> Any:
        return {}["missing"]

    monkeypatch.setitem(broken.__globals__, "__name__", "tenon.broken")
    op: Any = tenon.matmul.op  # pyright: ignore[reportFunctionMemberAccess]
    monkeypatch.setattr(op, "infer", broken)
    monkeypatch.setattr(op, "KNOWN", KnownResults())  # or it need not be inferred, where others did before
    with pytest.raises(KeyError) as raised:
        tenon.jit(lambda x: tenon.matmul(x, x.T))(X)
    frames = traceback.extract_tb(raised.value.__traceback__)
    assert frames[-1].name == "broken"
    assert len(frames) > 5


def test_users_own_errors_show_the_users_lines_alone() -> None:
    def failing(x: Any) -> Any:
        return {}[x.shape]

    with pytest.raises(KeyError) as raised:
        tenon.jit(failing)(X)
    assert [frame.filename for frame in traceback.extract_tb(raised.value.__traceback__)] == [__file__, __file__]


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: tenon.jit(f),
        lambda f: tenon.grad(f),
        lambda f: tenon.vmap(f),
        lambda f: tenon.jit(tenon.value_and_grad(f)),
        lambda f: tenon.jit(tenon.checkpoint(f)),
        lambda f: tenon.jit(lambda x: tenon.vjp(f, x, cotangent=x)),
        lambda f: tenon.jit(lambda x: tenon.jvp(f, (x,), (x,))),
        lambda f: tenon.jit(lambda x: tenon.cond(x.sum() > 0, f, f, x)),
        lambda f: tenon.jit(lambda x: tenon.scan(lambda c: c, x, x)),  # pyright: ignore[reportArgumentType]
    ],
)
def test_a_wrong_number_of_arguments_is_the_users_error(transform: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=r"(missing|takes) 1 (required )?positional argument") as raised:
        transform(lambda x, y: x + y)(X)
    assert {frame.filename for frame in traceback.extract_tb(raised.value.__traceback__)} == {__file__}


def test_layers_of_tenon_are_named() -> None:
    with pytest.raises(ValueError, match="dimension k is 4 in x and 5 in y") as raised:
        nn.Sequential(nn.Linear(5, 2))(X)
    assert raised.value.__notes__[0] == "in Linear(in_features=5, out_features=2, bias=True)"


def test_modules_need_no_initializer_of_the_base() -> None:
    class Network(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            return self.layer(x)

    network = Network()
    assert sorted(dict(network.named_parameters())) == ["layer.bias", "layer.weight"]
    assert tenon.jit(lambda network, x: network(x))(network, X).shape == (3, 2)
    assert network.eval().training is False


def test_traced_values_may_be_copied_and_asked_for_their_shape() -> None:
    def function(x: Any) -> Any:
        assert np.shape(x) == (3, 4)
        assert np.ndim(x) == 2
        assert np.size(x) == 12
        assert f"{x}" == "<traced tensor<3x4xf32>>"
        return copy.deepcopy([x])[0] + copy.copy(x) + np.transpose(np.transpose(x))

    np.testing.assert_array_equal(tenon.jit(function)(X), 3 * X)


def test_keys_may_be_unsigned() -> None:
    words = np.array([3_000_000_000, 7], np.uint32)
    np.testing.assert_array_equal(tenon.random_bits(words, (4,)), tenon.random_bits(words.view(np.int32), (4,)))


@pytest.mark.parametrize("holder", [nn.Linear(2, 3), tenon.tensor(X), nn], ids=["module", "tensor", "package"])
def test_to_ask_whether_there_is_an_attribute_costs_no_search(holder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(suggestion, "get_close_matches", lambda name, *_, **__: asked.append(name) or ["another"])
    assert not hasattr(holder, "unheard")
    assert not asked
    with pytest.raises(AttributeError) as caught:
        holder.unheard  # noqa: B018
    for _ in range(2):
        assert str(caught.value).endswith("'unheard', did you mean 'another'")
    assert asked == ["unheard"]
    assert str(copy.copy(caught.value)) == str(caught.value)
