"""What functions of `jit` read besides their arguments is guarded: what is computed is what the program says now."""

from __future__ import annotations

import array
import functools
import gc
import math
import threading
import types
import warnings
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import tenon
from tenon import nn, optim
from tenon.runtime.reads.guards import is_fixed
from tenon.runtime.reads.reads import Reads, found_in

X = np.array([1.0, 2.0, 3.0])
FACTOR = 2.0
OFFSETS = np.ones(3)
SETTINGS = types.SimpleNamespace(scale=1.0, layers=[1, 2], table={"a": 2.0})


class Thing:
    gain = 3.0

    def __init__(self) -> None:
        self.power = 2.0
        self.history: list[float] = []

    def apply(self, x: Any) -> Any:
        return x * self.power * self.gain

    @staticmethod
    def shifted(x: Any) -> Any:
        return x + FACTOR

    @classmethod
    def scaled(cls, x: Any) -> Any:
        return x * cls.gain


class Slotted:
    __slots__ = ("weight",)

    def __init__(self) -> None:
        self.weight = np.ones(3)


class Derived(Thing):
    pass


def helper(x: Any) -> Any:
    return x * FACTOR


def variants(function: Any) -> int:
    return len(function._compiled)


def general_calls(function: Any, monkeypatch: pytest.MonkeyPatch, *args: Any) -> int:
    """How many of three calls are not native."""
    for _ in range(2):
        function(*args)
    calls: list[Any] = []
    original = tenon.JitFunction._orders
    with monkeypatch.context() as patched:
        patched.setattr(tenon.JitFunction, "_orders", lambda *given: calls.append(1) or original(*given))
        for _ in range(3):
            function(*args)
    return len(calls)


Change = Callable[[pytest.MonkeyPatch], tuple[Callable[..., Any], Callable[[], Any]]]
CHANGES: list[Any] = []
"""Each gives a function, and what changes something that it reads."""


def changes(made: Change) -> Change:
    CHANGES.append(made)
    return made


@changes
def _global(patch: pytest.MonkeyPatch) -> Any:
    return lambda x: x * FACTOR, lambda: patch.setitem(globals(), "FACTOR", 5.0)


@changes
def _array_in_place(patch: pytest.MonkeyPatch) -> Any:
    offsets = np.ones(3)
    return lambda x: x + offsets, lambda: offsets.__setitem__(1, 7.0)


@changes
def _columns_in_place(patch: pytest.MonkeyPatch) -> Any:
    offsets = np.ones((3, 3)).T[::2]
    return lambda x: x + offsets, lambda: offsets.__setitem__((1, 1), 7.0)


@changes
def _view_of_global(patch: pytest.MonkeyPatch) -> Any:
    return lambda x: x + OFFSETS[::-1], lambda: patch.setitem(globals(), "OFFSETS", np.arange(3.0))


@changes
def _sum_by_numpy(patch: pytest.MonkeyPatch) -> Any:
    offsets = np.ones(3)
    return lambda x: x + float(np.sum(offsets)), lambda: offsets.__setitem__(0, 4.0)


@changes
def _cell(patch: pytest.MonkeyPatch) -> Any:
    shift = 1.0

    def change() -> None:
        nonlocal shift
        shift = 4.0

    return lambda x: x + shift, change


@changes
def _attribute(patch: pytest.MonkeyPatch) -> Any:
    thing = Thing()
    return lambda x: thing.apply(x), lambda: setattr(thing, "power", 3.0)


@changes
def _array_of_slot(patch: pytest.MonkeyPatch) -> Any:
    thing = Slotted()
    return lambda x: thing.weight * x, lambda: setattr(thing, "weight", np.zeros(3))


@changes
def _attribute_of_class(patch: pytest.MonkeyPatch) -> Any:
    thing = Thing()
    return lambda x: thing.apply(x), lambda: patch.setattr(Thing, "gain", 4.0)


@changes
def _method(patch: pytest.MonkeyPatch) -> Any:
    thing = Thing()
    return lambda x: thing.apply(x), lambda: patch.setattr(Thing, "apply", lambda self, x: x - self.power)


@changes
def _method_overridden(patch: pytest.MonkeyPatch) -> Any:
    thing = Derived()
    return lambda x: thing.apply(x), lambda: patch.setattr(Derived, "apply", lambda self, x: -x, raising=False)


@changes
def _static_method(patch: pytest.MonkeyPatch) -> Any:
    return lambda x: Thing.shifted(x), lambda: patch.setattr(Thing, "shifted", staticmethod(lambda x: -x))


@changes
def _class_method(patch: pytest.MonkeyPatch) -> Any:
    return lambda x: Thing.scaled(x), lambda: patch.setattr(Thing, "scaled", classmethod(lambda cls, x: -x))


@changes
def _list(patch: pytest.MonkeyPatch) -> Any:
    items = [np.float64(1.0), 2.0]
    return lambda x: x * items[0] + items[1], lambda: items.__setitem__(1, 9.0)


@changes
def _length_of_list(patch: pytest.MonkeyPatch) -> Any:
    items = [1.0, 2.0]
    return lambda x: x * len(items), lambda: items.append(3.0)


@changes
def _dict(patch: pytest.MonkeyPatch) -> Any:
    table = {"a": 1.0}
    return lambda x: x * table["a"], lambda: table.update(a=6.0)


@changes
def _nested(patch: pytest.MonkeyPatch) -> Any:
    table = {"a": [{"b": np.ones(3)}]}
    return lambda x: x * table["a"][0]["b"], lambda: table["a"][0].update(b=np.zeros(3))


@changes
def _set(patch: pytest.MonkeyPatch) -> Any:
    flags = {"double"}
    return lambda x: x * 2 if "double" in flags else x, flags.clear


@changes
def _queue(patch: pytest.MonkeyPatch) -> Any:
    queue = deque([1.0])
    return lambda x: x * queue[0], lambda: queue.__setitem__(0, 3.0)


@changes
def _number_of_numpy(patch: pytest.MonkeyPatch) -> Any:
    table = {"a": np.float32(1.0)}
    return lambda x: x * table["a"], lambda: table.update(a=np.float32(3.0))


@changes
def _default(patch: pytest.MonkeyPatch) -> Any:
    def function(x: Any, by: Any = np.ones(3)) -> Any:  # noqa: B008
        return x * by

    return function, lambda: function.__defaults__[0].__setitem__(0, 3.0)  # pyright: ignore


@changes
def _defaults(patch: pytest.MonkeyPatch) -> Any:
    def function(x: Any, by: float = 2.0, *, shift: float = 1.0) -> Any:
        return x * by + shift

    def change() -> None:
        function.__defaults__ = (4.0,)
        function.__kwdefaults__ = {"shift": 8.0}

    return function, change


@changes
def _partial(patch: pytest.MonkeyPatch) -> Any:
    weight = np.ones(3)
    return functools.partial(lambda w, x: w * x, weight), lambda: weight.__setitem__(2, 5.0)


@changes
def _helper(patch: pytest.MonkeyPatch) -> Any:
    return lambda x: helper(x), lambda: patch.setitem(globals(), "helper", lambda x: x + 1)


@changes
def _helper_of_helper(patch: pytest.MonkeyPatch) -> Any:
    return lambda x: helper(x), lambda: patch.setitem(globals(), "FACTOR", 8.0)


@changes
def _decorated(patch: pytest.MonkeyPatch) -> Any:
    shift = [1.0]

    def twice(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(x: Any) -> Any:
            return function(function(x))

        return wrapper

    cached = functools.lru_cache(lambda: None)
    return twice(lambda x: x + shift[0] if cached() is None else x), lambda: shift.__setitem__(0, 2.0)


@changes
def _module(patch: pytest.MonkeyPatch) -> Any:
    layer = nn.Linear(3, 3, seed=0)
    return lambda x: layer(x), lambda: vars(layer)["weight"].__imul__(2)


@changes
def _mode_of_module(patch: pytest.MonkeyPatch) -> Any:
    layer = nn.BatchNorm2d(1).eval()
    return lambda x: layer(x.reshape(1, 1, 1, 3)), lambda: layer.running_mean.__iadd__(2)


@changes
def _other_module(patch: pytest.MonkeyPatch) -> Any:
    layers = [nn.Linear(3, 3, seed=0)]
    return lambda x: layers[0](x), lambda: layers.__setitem__(0, nn.Linear(3, 3, seed=1))


@changes
def _function_as_argument(patch: pytest.MonkeyPatch) -> Any:
    shift = [1.0]

    def added(x: Any) -> Any:
        return x + shift[0]

    compiled = tenon.jit(lambda f, x: f(x))

    def function(x: Any) -> Any:
        return added(x)

    function.jitted = lambda x: compiled(added, x)  # pyright: ignore
    return function, lambda: shift.__setitem__(0, 3.0)


@changes
def _jit_inside(patch: pytest.MonkeyPatch) -> Any:
    shift = [1.0]
    inner = tenon.jit(lambda x: x + shift[0])
    return lambda x: inner(x) * 2, lambda: shift.__setitem__(0, 3.0)


@changes
def _grad_inside(patch: pytest.MonkeyPatch) -> Any:
    shift = [1.0]
    return tenon.grad(lambda x: tenon.sum(x * x * shift[0])), lambda: shift.__setitem__(0, 3.0)


@changes
def _vmap_inside(patch: pytest.MonkeyPatch) -> Any:
    shift = [1.0]
    return tenon.vmap(lambda x: x * shift[0]), lambda: shift.__setitem__(0, 3.0)


@changes
def _scan_inside(patch: pytest.MonkeyPatch) -> Any:
    shift = [1.0]
    inner = tenon.jit(lambda c, v: (c + v * shift[0], c))
    return lambda x: tenon.scan(inner, x, np.ones((2, 3)))[0], lambda: shift.__setitem__(0, 3.0)


@changes
def _recursion(patch: pytest.MonkeyPatch) -> Any:
    base = [1.0]

    def power(x: Any, n: int = 3) -> Any:
        return x * power(x, n - 1) if n else base[0] + x

    return power, lambda: base.__setitem__(0, 2.0)


@changes
def _code(patch: pytest.MonkeyPatch) -> Any:
    def inner(x: Any) -> Any:
        return x * 2.0

    return lambda x: inner(x), lambda: setattr(inner, "__code__", (lambda x: x * 5.0).__code__)


@changes
def _defaults_that_are_new(patch: pytest.MonkeyPatch) -> Any:
    def inner(x: Any, *others: Any) -> Any:
        return x * len(inner.__defaults__ or (1,))

    return lambda x: inner(x), lambda: setattr(inner, "__defaults__", (1, 2))


@changes
def _keyword_defaults(patch: pytest.MonkeyPatch) -> Any:
    def inner(x: Any, *, factor: float = 2.0) -> Any:
        return x * factor

    return lambda x: inner(x), lambda: setattr(inner, "__kwdefaults__", {"factor": 4.0})


@changes
def _attribute_of_function(patch: pytest.MonkeyPatch) -> Any:
    def inner(x: Any) -> Any:
        return x * inner.factor  # pyright: ignore[reportFunctionMemberAccess]

    inner.factor = 2.0  # pyright: ignore[reportFunctionMemberAccess]
    return lambda x: inner(x), lambda: setattr(inner, "factor", 3.0)


@changes
def _new_attribute_of_function(patch: pytest.MonkeyPatch) -> Any:
    def inner(x: Any) -> Any:
        return x * getattr(inner, "factor", 2.0)

    return lambda x: inner(x), lambda: setattr(inner, "factor", 3.0)


@changes
def _keywords_of_partial(patch: pytest.MonkeyPatch) -> Any:
    inner = functools.partial(lambda x, factor: x * factor, factor=2.0)
    return lambda x: inner(x), lambda: inner.keywords.__setitem__("factor", 3.0)


@changes
def _order_of_dict(patch: pytest.MonkeyPatch) -> Any:
    powers = {"twice": 2.0, "more": 3.0}

    def function(x: Any) -> Any:
        for power in powers.values():
            x = x * power + 1.0
        return x

    return function, lambda: powers.__setitem__("twice", powers.pop("twice"))


@changes
def _order_of_ordered_dict(patch: pytest.MonkeyPatch) -> Any:
    powers = OrderedDict(twice=2.0, more=3.0)

    def function(x: Any) -> Any:
        for power in powers.values():
            x = x * power + 1.0
        return x

    return function, lambda: powers.move_to_end("twice")


@changes
def _globals(patch: pytest.MonkeyPatch) -> Any:
    return lambda x: x * globals()["FACTOR"], lambda: patch.setitem(globals(), "FACTOR", 7.0)


@changes
def _global_that_was_missing(patch: pytest.MonkeyPatch) -> Any:
    def function(x: Any) -> Any:
        try:
            return x * MISSING_BEFORE  # pyright: ignore
        except NameError:
            return x

    return function, lambda: patch.setitem(globals(), "MISSING_BEFORE", 7.0)


@changes
def _builtin_that_is_hidden(patch: pytest.MonkeyPatch) -> Any:
    return lambda x: x * max(2.0, 3.0), lambda: patch.setitem(globals(), "max", min)


@changes
def _member_that_was_missing(patch: pytest.MonkeyPatch) -> Any:
    class Bare:
        pass

    bare = Bare()
    return lambda x: x * getattr(bare, "factor", 2.0), lambda: setattr(Bare, "factor", 3.0)


@changes
def _deep(patch: pytest.MonkeyPatch) -> Any:
    held: Any = [2.0]
    last = held
    for _ in range(3000):
        held = [held]

    def function(x: Any) -> Any:
        found = held
        while isinstance(found[0], list):
            found = found[0]
        return x * found[0]

    return function, lambda: last.__setitem__(0, 3.0)


@changes
def _array_of_the_standard_library(patch: pytest.MonkeyPatch) -> Any:
    held = array.array("d", [1.0, math.nan])
    return lambda x: x * held[0], lambda: held.__setitem__(0, 3.0)


@changes
def _sign_of_zero_in_an_array(patch: pytest.MonkeyPatch) -> Any:
    held = array.array("d", [0.0])
    return lambda x: x + math.copysign(1.0, held[0]), lambda: held.__setitem__(0, -0.0)


@changes
def _view_of_memory(patch: pytest.MonkeyPatch) -> Any:
    memory = bytearray(b"0123")
    held = memoryview(memory)[::2]
    return lambda x: x * float(held[1]), lambda: memory.__setitem__(2, 7)


@changes
def _computed_name_in_a_module(patch: pytest.MonkeyPatch) -> Any:
    module = types.ModuleType("settings_of_a_user")
    module.__dict__["factor_1"] = 2.0
    return lambda x: x * getattr(module, f"factor_{x.ndim}"), lambda: setattr(module, "factor_1", 3.0)


@changes
def _attributes_that_a_module_computes(patch: pytest.MonkeyPatch) -> Any:
    module, table = types.ModuleType("table_of_a_user"), {"factor": 2.0}
    module.__dict__["__getattr__"] = lambda name: table[name]
    return lambda x: x * module.factor, lambda: table.update(factor=3.0)


@changes
def _attributes_that_a_metaclass_computes(patch: pytest.MonkeyPatch) -> Any:
    table = {"factor": 2.0}

    class Kind(type):
        def __getattr__(cls, name: str) -> float:
            return table[name]

    class Constants(metaclass=Kind):
        pass

    return lambda x: x * Constants.factor, lambda: table.update(factor=3.0)


@changes
def _descriptor(patch: pytest.MonkeyPatch) -> Any:
    table = {"factor": 2.0}

    class FromTable:
        def __get__(self, held: Any, kind: Any) -> float:
            return table["factor"]

    class Held:
        factor = FromTable()

    held = Held()
    return lambda x: x * held.factor, lambda: table.update(factor=3.0)


@changes
def _class_of_an_object(patch: pytest.MonkeyPatch) -> Any:
    class Doubled(Thing):
        def apply(self, x: Any) -> Any:
            return 2.0 * super().apply(x)

    thing = Derived()
    return lambda x: thing.apply(x), lambda: setattr(thing, "__class__", Doubled)


@pytest.mark.parametrize("what", CHANGES, ids=lambda what: what.__name__.strip("_"))
def test_what_is_read_is_guarded(what: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    function, change = what(monkeypatch)
    jitted = getattr(function, "jitted", None) or tenon.jit(function)
    x = X.astype(np.float32) if what in (_module, _other_module, _mode_of_module) else X
    before = np.asarray(function(x))
    for _ in range(4):
        np.testing.assert_allclose(jitted(x), before, rtol=1e-6)
    change()
    after = np.asarray(function(x))
    assert not np.allclose(before, after)
    for _ in range(4):
        np.testing.assert_allclose(jitted(x), after, rtol=1e-6)
    if isinstance(jitted, tenon.JitFunction):
        assert variants(jitted) == 2


NATIVE = [
    *(_global, _cell, _attribute, _list, _dict, _array_in_place, _module, _method, _set),
    *(_code, _order_of_dict, _builtin_that_is_hidden),
]


@pytest.mark.parametrize("what", NATIVE)
def test_guarded_calls_are_native(what: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    function, change = what(monkeypatch)
    jitted = tenon.jit(function)
    x = X.astype(np.float32)
    assert general_calls(jitted, monkeypatch, x) == 0
    change()
    assert general_calls(jitted, monkeypatch, x) == 0
    assert variants(jitted) == 2


def test_what_was_compiled_is_found_again() -> None:
    scale = 1.0
    jitted = tenon.jit(lambda x: x * scale)
    for value in (1.0, 2.0) * 5:
        scale = value
        np.testing.assert_array_equal(jitted(X), X * value)
    assert variants(jitted) == 2


def test_what_nothing_asks_for_is_not_guarded() -> None:
    thing, other = Thing(), 1.0
    jitted = tenon.jit(lambda x: thing.apply(x))
    for step in range(3):
        thing.history.append(step + other)
        jitted(X)
    assert variants(jitted) == 1
    guards = tenon.jit(lambda x: tenon.exp(np.pi * x)).trace(X).guards
    assert guards is not None
    assert len(guards) == 1, "the code of the function itself"


class Keeper:
    mask: Any


@pytest.mark.parametrize("kept", ["nothing", "itself", "a view"])
def test_arrays_that_a_function_makes_are_guarded_if_others_have_them(kept: str) -> None:
    keeper = Keeper()

    def masked(x: Any) -> Any:
        mask = np.tri(*x.shape)
        if kept != "nothing":
            keeper.mask = mask if kept == "itself" else mask[:1]
        return x * mask

    jitted = tenon.jit(masked)
    guards = jitted.trace(X).guards
    assert guards is not None
    assert ("an array" in [name for name, _ in guards._checks]) == (kept != "nothing")
    for _ in range(3):
        np.testing.assert_array_equal(jitted(X), X * np.tri(*X.shape))


def test_of_objects_of_tenon_is_read_what_their_methods_ask_for() -> None:
    scaler, rule = optim.GradScaler(8.0, growth_interval=2), optim.SGD(0.1)
    jitted = tenon.jit(lambda p, g, state: scaler.updated(rule, p, g, rule.init(p), state)[0])
    state = scaler.init()
    np.testing.assert_allclose(jitted(X, 8 * X, state), 0.9 * X)
    scaler.load_state_dict({"scale": 4.0, "count": 1})  # which `updated` does not read
    np.testing.assert_allclose(jitted(X, 8 * X, state), 0.9 * X)
    assert variants(jitted) == 1
    scaler.enabled = False
    np.testing.assert_allclose(jitted(X, 8 * X, state), 0.2 * X)


def test_what_the_function_does_besides_happens_once() -> None:
    runs, count, buffer = [], 0, np.zeros(3)

    @tenon.jit
    def noted(x: Any) -> Any:
        nonlocal count
        runs.append("traced")
        count += 1
        buffer[:] = count
        return x + buffer

    for x in (X, X, X[:1], X, X):
        noted(x)
    assert runs == ["traced"] * 2
    assert variants(noted) == 2


def test_compiled_programs_say_what_has_changed() -> None:
    scale, unused = [2.0], [1.0]
    compiled = tenon.jit(lambda x: x * scale[0]).compile(X)
    for _ in range(3):
        np.testing.assert_array_equal(compiled(X), X * 2)
    unused[0], scale[0] = 2.0, 3.0
    with pytest.raises(TypeError, match=r"<lambda>: scale\.0 is another than when this was traced; compile it again"):
        compiled(X)
    scale[0] = 2.0
    np.testing.assert_array_equal(compiled(X), X * 2)


def test_gradients_of_calls_on_tensors_are_those_of_now() -> None:
    scale, weights = [2.0], np.ones(3, np.float32)
    jitted = tenon.jit(lambda x: tenon.sum(x * scale[0] * weights))

    def slope() -> Any:
        x = tenon.tensor([1.0, 2.0, 3.0], requires_grad=True)
        jitted(x).backward()
        return x.grad.tolist()

    assert slope() == slope() == [2.0] * 3
    scale[0] = 5.0
    assert slope() == slope() == [5.0] * 3
    weights[0] = 2.0
    assert slope() == slope() == [10.0, 5.0, 5.0]


def test_read_only_arrays_are_taken_to_stay() -> None:
    fixed = np.ones(3)
    fixed.flags.writeable = False
    jitted = tenon.jit(lambda x: x + fixed)
    assert jitted(X).tolist() == jitted(X).tolist() == [2, 3, 4]
    fixed.flags.writeable = True
    fixed[0] = 5.0
    for _ in range(3):
        assert jitted(X).tolist() == [6, 3, 4]


def test_what_counts_as_read_only() -> None:
    """A view that cannot write says nothing of the array that it is a view of; bytes never change."""
    mine = np.ones(4)
    view = mine[:]
    view.flags.writeable = False
    assert not is_fixed(mine)
    assert not is_fixed(view)
    assert is_fixed(np.frombuffer(mine.tobytes()).reshape(2, 2))
    assert not is_fixed(np.frombuffer(bytearray(mine.tobytes())))


def test_methods_and_data_of_trees() -> None:
    shift = [1.0]

    @dataclass
    class Model:
        weight: Any

        @tenon.jit
        def apply(self, x: Any) -> Any:
            return self.shifted(self.weight * x)

        def shifted(self, x: Any) -> Any:
            return x + shift[0]

    model = Model(np.full(3, 2.0))
    for value in (1.0, 5.0):
        shift[0] = value
        for _ in range(3):
            np.testing.assert_array_equal(model.apply(X), X * 2 + value)
    Model.shifted = lambda self, x: x  # pyright: ignore
    np.testing.assert_array_equal(model.apply(X), X * 2)


def test_equal_code_of_two_modules_is_two_functions() -> None:
    def made(factor: float) -> Any:
        module: Any = types.ModuleType("made")
        exec("K = 0.0\ndef scaled(x):\n    return x * K", vars(module))
        module.K = factor
        return module

    one, other = made(2.0), made(3.0)
    assert one.scaled.__code__ == other.scaled.__code__
    for wrap, x in ((tenon.jit, X), (tenon.trace, tenon.tensor(X))):
        compute = wrap(lambda x, one=one.scaled, other=other.scaled: one(x) + other(x))
        other.K = 3.0
        np.testing.assert_array_equal(np.asarray(compute(x)), X * 5)
        other.K = 4.0
        np.testing.assert_array_equal(np.asarray(compute(x)), X * 6)


def test_functions_inside_of_others_see_what_is_there_now() -> None:
    scale = 2.0
    inner = tenon.jit(lambda x: x * scale)
    faces = {
        "jit": tenon.jit(lambda x: inner(x)),
        "grad": tenon.grad(lambda x: tenon.sum(inner(x) * X)),
        "vmap": tenon.vmap(inner),
        "scan": lambda x: tenon.scan(lambda c, _: (inner(c), None), x, length=1)[0],
        "trace": tenon.trace(lambda x: inner(x)),
    }
    for value in (2.0, 3.0, 2.0):
        scale = value
        for name, face in faces.items():
            expected = value * X
            np.testing.assert_array_equal(np.asarray(face(X)), expected, err_msg=name)


def test_threads_see_what_is_there_now() -> None:
    state = types.SimpleNamespace(scale=0.0)
    jitted = tenon.jit(lambda x: x * state.scale)
    go, done = threading.Barrier(5), threading.Barrier(5)
    found: list[float] = []

    def work() -> None:
        for _ in range(4):
            go.wait(20)
            for _ in range(20):
                found.append(jitted(X)[0])
            done.wait(20)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for value in (1.0, 2.0, 1.0, 3.0):
        state.scale = value
        found.clear()
        go.wait(20)
        done.wait(20)
        assert found == [value] * 80
    for thread in threads:
        thread.join()
    assert variants(jitted) == 3


def test_what_changes_again_and_again_is_warned_of_and_bounded(capfd: pytest.CaptureFixture[str]) -> None:
    step = 0.0
    jitted = tenon.jit(lambda x: x + step)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(20):
            step = float(number)
            np.testing.assert_array_equal(jitted(X), X + number)
    assert [str(w.message) for w in caught] == [
        "<lambda> has been traced 9 times, last since step changed; pass what changes as an argument, or make it a "
        "tensor"
    ]
    assert caught[0].filename == __file__
    assert variants(jitted) == 16
    with tenon.knobs.override(log_compiles=True):
        step = -1.0
        jitted(X)
    assert "tenon: tracing <lambda> again: step is another" in capfd.readouterr().err


@pytest.mark.usefixtures("few_objects")
def test_programs_go_with_their_functions() -> None:
    held = [np.ones(3)]
    reference = weakref.ref(held[0])
    jitted = tenon.jit(lambda x: x + held[0])
    for _ in range(3):
        jitted(X)
    held.clear()
    del jitted
    gc.collect()
    assert reference() is None


SCALE = [2.0]


class Row(NamedTuple):
    k: float

    def scaled(self, x: Any) -> Any:
        return x * SCALE[0] * self.k


class Settings(dict[str, float]):
    k = 1.0

    def scaled(self, x: Any) -> Any:
        return x * SCALE[0] * self.k


class Numbers(list[float]):
    k = 1.0

    def scaled(self, x: Any) -> Any:
        return x * SCALE[0] * self.k


@pytest.mark.parametrize("held", [Row(1.0), Settings(a=1.0), Numbers([1.0])], ids=lambda held: type(held).__name__)
def test_classes_that_are_collections(held: Any) -> None:
    SCALE[0] = 2.0
    jitted = tenon.jit(lambda x: held.scaled(x))
    for _ in range(2):
        assert jitted(X).tolist() == [2, 4, 6]
    SCALE[0] = 3.0
    assert jitted(X).tolist() == [3, 6, 9]
    if not isinstance(held, Row):
        held.k = 2.0
        assert jitted(X).tolist() == [6, 12, 18]


def test_items_of_a_list_that_the_function_appends_to() -> None:
    history: list[Any] = [2.0]

    def function(x: Any) -> Any:
        history.append("called")
        return x * history[0]

    jitted = tenon.jit(function)
    for _ in range(2):
        assert jitted(X).tolist() == [2, 4, 6]
    history[0] = 3.0
    assert jitted(X).tolist() == [3, 6, 9]


def test_what_packages_hold_is_not_read() -> None:
    """What the rewritten `assert` names leads to all that the test runner has loaded."""

    def function(x: Any) -> Any:
        assert np.shape(x) == (3,)
        return x

    reads = Reads()
    found_in(reads, function, [])
    assert len(reads.identities) + len(reads.constants) < 100


def test_what_takes_long_to_compare_is_warned_of() -> None:
    many = [float(i) for i in range(10_000)]
    jitted = tenon.jit(lambda x: x * many[1])
    with pytest.warns(UserWarning, match=r"each call of <lambda> compares 1\d{4} values .* about 0.1 ms"):
        jitted(X)
    many[1] = 5.0
    with pytest.warns(UserWarning, match="each call of"):
        np.testing.assert_array_equal(jitted(X), X * 5)


def test_a_view_of_memory_that_was_released_is_no_obstacle() -> None:
    held = memoryview(b"0123")
    held.release()
    jitted = tenon.jit(lambda x, is_read=False: x * (held[0] if is_read else 2.0))
    np.testing.assert_array_equal(jitted(X), X * 2)
