"""Calls that stay out of Python: which are made by entries, what they give, and that they leak nothing.

Each kind of call is compared with the general way, which `JitFunction.__call__` is.
"""

from __future__ import annotations

import copy
import gc
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

import tenon
from tenon import nn
from tenon.runtime.arguments.tree import flatten, static_field, unflatten
from tenon.runtime.call.callable_class import is_supported
from tenon.runtime.call.entry import Dispatch
from tenon.runtime.call.entry_code import code
from tenon.runtime.call.loaded import native_call, tape_functions
from tenon.runtime.call.native_walk import walk_code
from tenon.runtime.call.tensors import through_python
from tenon.runtime.cpu.native_code import load_native
from tenon.runtime.jit import JitFunction
from tenon.runtime.stages import Compiled

pytestmark = pytest.mark.skipif(not is_supported(), reason="native calls need CPython with a global lock")


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def general_calls(monkeypatch: pytest.MonkeyPatch, function: Any) -> list[int]:
    """A list that grows by one entry with each call of `function`, jitted or compiled, that takes the general way."""
    calls: list[int] = []
    parameters = function.signature.parameters if isinstance(function, Compiled) else function.parameters
    take_apart = parameters.take_apart

    def counted(*args: Any) -> Any:
        calls.append(1)
        return take_apart(*args)

    monkeypatch.setattr(parameters, "take_apart", counted)
    return calls


def assert_same_trees(given: Any, expected: Any) -> None:
    leaves, structure = flatten(given)
    expected_leaves, expected_structure = flatten(expected)
    assert structure is expected_structure
    for leaf, wanted in zip(leaves, expected_leaves, strict=True):
        assert type(leaf) is type(wanted)
        assert leaf.dtype == wanted.dtype
        np.testing.assert_array_equal(leaf, wanted)


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass(frozen=True)
class Settings:
    scale: Any
    power: int = static_field(2)
    names: tuple[str, ...] = static_field(("a", "b"))


@dataclass
class Slotted:
    __slots__ = ("left", "right")
    left: Any
    right: Any


@dataclass
class Listed:
    value: Any
    sizes: list[int] = field(default_factory=lambda: [1, 2], metadata={"static": True})


class Block(nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self.inner = {"weight": floats(3, seed=seed), "bias": floats(3, seed=seed + 1)}
        self.rates = [0.5, "label", None]
        self.parts = (floats(3, seed=seed + 2), None)

    def forward(self, x: Any) -> Any:
        return x * self.inner["weight"] + self.inner["bias"] + self.parts[0] * self.rates[0]


def anything(*args: Any, **kwargs: Any) -> Any:
    """A result with the structure of the arguments, the leaves doubled and in reverse order."""
    leaves, structure = flatten((args, kwargs))
    return unflatten(structure, [leaf * 2 for leaf in leaves])


CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "arrays": ((floats(16), floats(16, seed=1)), {}),
    "scalar_array": ((np.array(1.5, np.float32),), {}),
    "empty": ((floats(0, 3), floats(3)), {}),
    "dtypes": ((np.arange(3), np.arange(3, dtype=np.uint8), np.ones(2, np.bool_), floats(2).astype(np.float16)), {}),
    "keywords": ((floats(3),), {"b": floats(4), "a": floats(5)}),
    "numbers": ((1.5, -3, True), {"x": floats(2)}),
    "numpy_numbers": ((np.int32(-3), np.float64(1.5), np.bool_(True), np.float16(0.5), np.uint8(200)), {}),
    "tuple": (((floats(2), (floats(3),)), ()), {}),
    "list": (([floats(2), [floats(3), 1.0]],), {}),
    "dict": (({"b": floats(2), "a": {"c": floats(3)}, 3: floats(1)},), {}),
    "constants": ((floats(2), "text", None, np.float32, len), {"mode": "other"}),
    "namedtuple": ((Pair(floats(2), floats(3)),), {}),
    "dataclass": ((Settings(floats(2)), Settings(floats(3), 4, ("c",))), {}),
    "slots": ((Slotted(floats(2), (floats(1),)),), {}),
    "static_list": ((Listed(floats(2)),), {}),
    "module": ((Block(0), floats(3)), {}),
}


@pytest.mark.parametrize("is_compiled", [False, True], ids=["jitted", "compiled"])
@pytest.mark.parametrize("name", CALLS)
def test_native_calls_give_what_the_general_way_gives(
    name: str, is_compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    args, kwargs = CALLS[name]
    function = tenon.jit(anything)
    if is_compiled:
        function = function.compile(*args, **kwargs)
    expected = function(*args, **kwargs)
    function(*args, **kwargs)
    calls = general_calls(monkeypatch, function)
    for _ in range(3):
        assert_same_trees(function(*args, **kwargs), expected)
    assert len(calls) == 0
    equal = copy.deepcopy((args, kwargs))
    assert_same_trees(function(*equal[0], **equal[1]), expected)
    assert len(calls) == 0


def warmed(function: Any, *args: Any, **kwargs: Any) -> Any:
    for _ in range(3):
        function(*args, **kwargs)
    return function


@pytest.mark.parametrize(
    "other",
    [
        floats(17),
        floats(16, 1),
        floats(16).astype(np.float64),
        floats(32)[::2],
        floats(16).astype(">f4"),
        np.frombuffer(bytes(65), np.uint8)[1:].view(np.float32),
        floats(16).view(np.recarray),
        np.float32(3),
        2.5,
        [1.0, 2.0],
    ],
    ids=["size", "rank", "dtype", "strides", "byte_order", "alignment", "subclass", "scalar", "number", "list"],
)
@pytest.mark.filterwarnings("ignore:.*of the other byte order")
def test_other_arguments_take_the_general_way(other: Any) -> None:
    function = warmed(tenon.jit(lambda x: tenon.sum(x) if not isinstance(x, list) else x[0] + x[1]), floats(16))
    plain = tenon.jit(function.function)
    for _ in range(3):
        np.testing.assert_array_equal(function(other), plain.__call__(other))


def test_several_signatures_each_have_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    function = tenon.jit(lambda x: x + 1)
    inputs = [floats(n) for n in range(1, 9)]
    for x in inputs:
        warmed(function, x)
    calls = general_calls(monkeypatch, function)
    for x in inputs:
        np.testing.assert_array_equal(function(x), x + 1)
    assert not calls


def test_more_signatures_than_are_looked_through() -> None:
    function = tenon.jit(lambda x, n: x * n, static="n")
    x = floats(3)
    for _ in range(3):
        for n in range(20):
            np.testing.assert_array_equal(function(x, n), x * np.float32(n))


def test_static_values_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    function = tenon.jit(lambda x, value: x * value, static="value")
    x = np.ones(1)
    for value in (1, 1.0, True, 0.0, -0.0, 2, 2.0):
        for _ in range(3):
            result = function(x, value)
            expected = function.__call__(x, value)
            assert result.dtype == expected.dtype
            assert np.signbit(result[0]) == np.signbit(expected[0])
            np.testing.assert_array_equal(result, expected)
    calls = general_calls(monkeypatch, function)
    function(x, float("2"))
    assert not calls


def test_compiled_functions_take_one_signature_in_native_calls_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    function = tenon.jit(lambda w, x, scale, y=None: (x @ w) * scale + (0 if y is None else y), static="scale")
    w, x = floats(3, 4), floats(2, 3)
    compiled = warmed(function.compile(w, x, 2.0), w, x, 2.0)
    frozen = function.freeze(w).compile(x=x, scale=3.0, y=floats(4))
    place = np.zeros((2, 4), np.float32)
    for _ in range(3):
        assert frozen(x=x, scale=3.0, out=place, y=floats(4)) is place
        np.testing.assert_allclose(place, x @ w * 3 + floats(4), rtol=1e-6)
        np.testing.assert_allclose(frozen(y=floats(4), x=x, scale=3.0), x @ w * 3 + floats(4), rtol=1e-6)
    calls = general_calls(monkeypatch, compiled)
    np.testing.assert_allclose(compiled(w, x, 2.0), x @ w * 2, rtol=1e-6)
    np.testing.assert_allclose(frozen(x=x, scale=3.0, out=place, y=floats(4)), x @ w * 3 + floats(4), rtol=1e-6)
    assert not calls
    with pytest.raises(TypeError, match=r"scale is 3\.0 where 2\.0 is needed"):
        compiled(w, x, 3.0)
    with pytest.raises(TypeError, match=r"x is f32\[5, 3\] where f32\[2, 3\] is needed"):
        compiled(w, floats(5, 3), 2.0)
    with pytest.raises(TypeError, match=r"given as \(_, x=_, scale=_\) where \(_, _, _\) is needed"):
        compiled(w, x=x, scale=2.0)
    with pytest.raises(TypeError, match=r"given as \(_, x=_, scale=_, y=_, w=_\) where"):
        frozen(x=x, scale=3.0, y=floats(4), w=w)


def test_compiled_functions_are_no_part_of_a_trace() -> None:
    compiled = tenon.jit(lambda x: x + 1).compile(floats(3))
    with pytest.raises(tenon.TracedValueError, match="in a trace, call the function itself, not what was compiled"):
        tenon.jit(lambda x: compiled(x) * 2)(floats(3))


def test_static_contents_that_change_are_seen() -> None:
    axes = [0]
    function = warmed(tenon.jit(lambda x, axes: tenon.sum(x, axis=tuple(axes)), static="axes"), floats(2, 3), axes)
    assert function(floats(2, 3), axes).shape == (3,)
    axes[0] = 1
    assert function(floats(2, 3), axes).shape == (2,)
    module = Block(0)
    apply = warmed(tenon.jit(lambda m, x: m(x)), module, floats(3))
    before = apply(module, floats(3))
    module.rates[0] = 2.5
    assert not np.array_equal(apply(module, floats(3)), before)
    vars(module)["extra"] = "attribute"
    apply(module, floats(3))


def test_objects_that_compare_by_contents_take_the_general_way() -> None:
    class Mode:
        def __init__(self, factor: int) -> None:
            self.factor = factor

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Mode) and other.factor == self.factor

        def __hash__(self) -> int:
            return hash(self.factor)

    mode = Mode(2)
    function = warmed(tenon.jit(lambda x, mode: x * mode.factor), floats(2), mode)
    mode.factor = 3
    np.testing.assert_array_equal(function(floats(2), mode), floats(2) * 3)


def test_methods_and_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class Scaler:
        factor: float

        @tenon.jit
        def scale(self, x: Any) -> Any:
            return x * self.factor

    first, second = Scaler(2.0), Scaler(3.0)
    for _ in range(3):
        np.testing.assert_array_equal(first.scale(floats(3)), floats(3) * 2)
        np.testing.assert_array_equal(second.scale(floats(3)), floats(3) * 3)
    function = warmed(tenon.jit(lambda x: x + 1), floats(3))
    other = copy.copy(function)
    del function
    np.testing.assert_array_equal(warmed(other, floats(3))(floats(3)), floats(3) + 1)
    calls = general_calls(monkeypatch, other)
    other(floats(3))
    assert not calls
    compiled = warmed(other.compile(floats(3)), floats(3))
    same = copy.copy(compiled)
    del compiled
    np.testing.assert_array_equal(warmed(same, floats(3))(floats(3)), floats(3) + 1)
    calls = general_calls(monkeypatch, same)
    same(floats(3))
    assert not calls
    assert isinstance(other, JitFunction)
    assert (type(other).__name__, type(other).__module__) == ("JitFunction", "tenon.runtime.jit")


def test_inside_of_a_trace_calls_join_it() -> None:
    x = floats(3)
    inner = warmed(tenon.jit(lambda x: tenon.add(x, 1)), x)
    assert "tenon.add" in str(tenon.jit(lambda y: inner(x) * y).trace(x))
    np.testing.assert_array_equal(tenon.jit(lambda y: inner(x) * y)(x), (x + 1) * x)


def test_settings_of_a_block_hold_for_native_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    function = warmed(tenon.jit(lambda x: x + 1), floats(3))
    calls = general_calls(monkeypatch, function)
    with tenon.knobs.override(interpret=True):
        function(floats(3))
        assert any(key[0] for key in function._compiled)
    count = len(calls)
    for _ in range(3):
        function(floats(3))
    assert len(calls) == count + 1


# --- memory of results ----------------------------------------------------------------------------


def test_out_takes_the_results() -> None:
    function = tenon.jit(lambda x, y: {"sum": x + y, "parts": (x * 2, y)})
    x, y = floats(4), floats(4, seed=1)
    out = {"sum": np.zeros(4, np.float32), "parts": (np.zeros(4, np.float32), np.zeros(4, np.float32))}
    for call in (function, function, function, function.compile(x, y)):
        for leaf in flatten(out)[0]:
            leaf[...] = 0
        assert call(x, y, out=out) is out
        assert_same_trees(out, {"sum": x + y, "parts": (x * 2, y)})
    one = tenon.jit(lambda x: x + 1)
    place = np.zeros(4, np.float32)
    for _ in range(4):
        place[:] = 0
        assert one(out=place, x=x) is place
        np.testing.assert_array_equal(place, x + 1)
    with tenon.knobs.override(interpret=True):
        assert one(x, out=place) is place
    sized = tenon.jit(lambda x: x * 3, dynamic={"x": ("n",)})
    assert sized(x, out=place) is place
    np.testing.assert_array_equal(place, x * 3)


WRONG_OUTPUTS: dict[str, tuple[Any, str]] = {
    "dtype": (lambda x: np.zeros(4), "f: out is of dtype float64 where the result is of dtype float32"),
    "shape": (lambda x: np.zeros((4, 1), np.float32), r"f: out has shape \[4, 1\] where the result has shape \[4\]"),
    "strides": (lambda x: np.zeros(8, np.float32)[::2], r"f: out has strides \(8,\), but must be contiguous"),
    "alignment": (lambda x: np.zeros(17, np.uint8)[1:].view(np.float32), "f: out is not aligned"),
    "read_only": (lambda x: np.broadcast_to(np.float32(0), (4,))[:], "f: out has strides"),
    "structure": (lambda x: (np.zeros(4, np.float32),), r"f: out is tuple\(0\) where the result is an array"),
    "number": (lambda x: 3.0, "f: out is of type float where a NumPy array is needed"),
    "input": (lambda x: x, "f: out shares memory with input 0"),
}


@pytest.mark.parametrize("name", WRONG_OUTPUTS)
def test_outputs_that_cannot_take_the_results(name: str) -> None:
    def f(x: Any) -> Any:
        return x + 1

    make, message = WRONG_OUTPUTS[name]
    x = floats(4)
    function = warmed(tenon.jit(f), x)
    warmed(function, x, out=np.zeros(4, np.float32))
    for _ in range(3):
        with pytest.raises((TypeError, ValueError), match=message):
            function(x, out=make(x))


@pytest.mark.parametrize("first", [True, False])
def test_outputs_beside_arrays_that_are_copied(first: bool) -> None:
    """What is read backwards, in steps or again and again is copied before results are written, wherever these are."""
    memory = np.zeros(60, np.float32)
    views = memory[20:40][::-1], memory[20:40:2], np.broadcast_to(memory[20:21], (10,))
    for view in views:
        memory[...] = np.arange(60)
        expected = view + 1
        function = tenon.jit(lambda x: x + 1)
        if not first:
            warmed(function, view, out=np.empty_like(expected))
        for begin in (0, 18, 25, 39, 40):
            memory[...] = np.arange(60)
            place = memory[begin : begin + view.size]
            assert function(view, out=place) is place
            np.testing.assert_array_equal(place, expected)


def test_outputs_that_are_read_only_or_share_memory() -> None:
    function = tenon.jit(lambda x: (x + 1, x + 2))
    x = floats(4)
    warmed(function, x, out=(np.zeros(4, np.float32), np.zeros(4, np.float32)))
    both = np.zeros(6, np.float32)
    with pytest.raises(ValueError, match=r"out\.1 shares memory with out\.0|out\.0 shares memory with out\.1"):
        function(x, out=(both[:4], both[2:]))
    fixed = np.zeros(4, np.float32)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match=r"out\.1 is read-only"):
        function(x, out=(np.zeros(4, np.float32), fixed))


def test_a_parameter_called_out_is_the_functions_own() -> None:
    function = tenon.jit(lambda x, out: x + out)
    collecting = tenon.jit(lambda x, **rest: x + rest["out"])
    for _ in range(3):
        np.testing.assert_array_equal(function(floats(3), out=floats(3)), floats(3) * 2)
        np.testing.assert_array_equal(collecting(floats(3), out=floats(3)), floats(3) * 2)


def test_donated_memory() -> None:
    function = tenon.jit(lambda x, y: (x + y, y * 2), donate=("x",))
    y = floats(64, seed=1)
    for _ in range(4):
        x = floats(64)
        first, second = function(x, y)
        assert np.shares_memory(first, x)
        assert first is not x
        assert second is not y
        np.testing.assert_array_equal(first, floats(64) + y)
    whole = floats(70)
    kept = whole.copy()
    first, _ = function(whole[:64], whole[6:])
    np.testing.assert_array_equal(whole, kept)
    np.testing.assert_array_equal(first, kept[:64] + kept[6:])
    fixed = floats(64)
    fixed.flags.writeable = False
    assert function(fixed, y)[0] is not fixed
    x = floats(64)
    assert function(x, x)[0] is not x
    number = tenon.jit(lambda x: x + 1, donate="x")
    assert [float(number(2.0)) for _ in range(4)] == [3.0] * 4


# --- errors, threads, leaks -----------------------------------------------------------------------


def test_errors_are_those_of_the_general_way() -> None:
    def f(x: Any, y: Any) -> Any:
        return x + y

    function = warmed(tenon.jit(f), floats(3), floats(3))
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        function(floats(3))
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        function(floats(3), z=floats(3))
    with pytest.raises(TypeError, match="f: argument y"):
        function(floats(3), object.__new__(type("Odd", (), {"__hash__": None})))
    with pytest.raises(OverflowError, match="does not fit into i64"):
        warmed(tenon.jit(lambda n: n + 1), 3)(2**70)
    np.testing.assert_array_equal(function(floats(3), floats(3)), floats(3) * 2)


def test_attributes_that_raise_raise() -> None:
    @dataclass
    class Failing:
        value: Any

        def __getattribute__(self, name: str) -> Any:
            if name == "value" and failing:
                raise RuntimeError("gone")
            return object.__getattribute__(self, name)

    failing: list[int] = []
    function = warmed(tenon.jit(lambda node: node.value + 1), Failing(floats(3)))
    failing.append(1)
    with pytest.raises(RuntimeError, match="gone"):
        function(Failing(floats(3)))


@pytest.mark.parametrize("size", [48, 160])
def test_threads_do_not_share_scratch_memory(size: int) -> None:
    function = tenon.jit(lambda x: tenon.sum(tenon.matmul(x, x) + tenon.transpose(x), axis=0))
    inputs = [floats(size, size, seed=seed) for seed in range(4)]
    expected = [warmed(function, x).__call__(x) for x in inputs]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(200):
            if not np.array_equal(function(inputs[number]), expected[number]):
                wrong.append(number)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def test_threads_that_change_the_entries_take_turns() -> None:
    threads: list[threading.Thread] = []

    class Interrupted:
        """An entry at which another thread gets to run while the table is written."""

        most = -1

        def __init__(self, address: int) -> None:
            self._address = address

        def renew(self, epoch: int, most: int) -> None:
            pass

        def holds_in(self, epoch: int) -> bool:
            return True

        @property
        def address(self) -> int:
            if not threads:
                threads.append(threading.Thread(target=dispatch.add, args=(function, 2, others[1], 0)))
                threads[0].start()
                threads[0].join(0.2)
            return self._address

    # of a callable that has no native calls, so that nothing is read at these addresses
    function = tenon.jit(lambda x: x)
    others: list[Any] = [Interrupted(100), Interrupted(200), Interrupted(300)]
    dispatch = Dispatch(JitFunction.__call__)
    dispatch.add(function, 1, others[0], 0)
    threads[0].join()
    assert dispatch._table[1:4].tolist() == [2, 200, 100]
    dispatch.add(function, 1, others[2], 0)
    assert dispatch._table[1:4].tolist() == [2, 100, 200]


def test_entries_of_other_epochs_keep_no_others_out() -> None:
    class Kept:
        """An entry of one epoch."""

        def __init__(self, address: int, most: int) -> None:
            self.address, self.most, self.epoch = address, most, -1

        def renew(self, epoch: int, most: int) -> None:
            self.epoch, self.most = epoch, most

        def holds_in(self, epoch: int) -> bool:
            return self.epoch == epoch

    # of a callable that has no native calls, so that nothing is read at these addresses
    function, dispatch = tenon.jit(lambda x: x), Dispatch(JitFunction.__call__)
    for number in range(8):
        general: Any = Kept(number, 1)
        dispatch.add(function, number, general, 0)
    for number in range(100, 112):
        other: Any = Kept(number, -1)
        dispatch.add(function, number, other, 1)
    assert dispatch._table[1:14].tolist() == [12, *range(111, 99, -1)]


def test_scratch_memory_is_there_once() -> None:
    x = floats(48, 48)
    function = tenon.jit(lambda x: tenon.sum(tenon.matmul(x, x) + tenon.transpose(x), axis=0))
    function(x)
    (compiled,) = function._compiled.values()
    assert compiled.interface.arena_bytes > 0
    # of this process: other tests may have run the same program
    count = len(compiled.executable.arenas)
    assert count >= 1
    warmed(function, x)
    assert len(compiled.executable.arenas) == count - 1
    np.testing.assert_array_equal(function(x), function.__call__(x))


def test_nothing_leaks() -> None:
    function = tenon.jit(anything)
    args: tuple[Any, ...] = (Block(0), {"a": floats(2), "b": (floats(3), 1.5)}, Settings(floats(2)), floats(4))
    warmed(function, *args)
    objects = [*flatten(args)[0], args, np.dtype(np.float32), "weight", None, Block]
    add = warmed(tenon.jit(lambda x, y: x + y), floats(16), floats(16))
    x, y, place = floats(16), floats(16), floats(16)
    warmed(add, x, y, out=place)
    sized = warmed(tenon.jit(lambda x: tenon.softmax(x), dynamic={"x": ("n", None)}), floats(3, 4))
    strided, table = floats(32)[::2], floats(5, 4)
    warmed(sized, table)
    gc.collect()
    counts = [sys.getrefcount(o) for o in objects]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(20_000):
        function(*args)
    for _ in range(100_000):
        add(x, y)
        add(x, y, out=place)
        add(strided, y)
        sized(table)
    gc.collect()
    assert max(abs(sys.getrefcount(o) - count) for o, count in zip(objects, counts, strict=True)) < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 8192


def test_native_calls_work_here() -> None:
    """Where their code does not load, all calls go through Python, with the same results; here is what LLVM says."""
    load_native("entry", code.text, code.exports)
    load_native("walk", walk_code.text, walk_code.exports)
    assert "tenon_walk" not in code.exports  # programs that record nothing do not compile it
    assert native_call() is not None
    assert tape_functions() is not None


def test_work_is_counted_where_it_is_known() -> None:
    def work(function: Any, *args: Any) -> int | None:
        return tenon.jit(function).compile(*args).interface.work

    small, large = [work(lambda x: tenon.exp(x) + 1, floats(n)) for n in (64, 6400)]
    assert small is not None
    assert large is not None
    assert 50 * small < large < 100 * small
    one, two = [work(lambda x, y: tenon.matmul(x, y), floats(n, n), floats(n, n)) for n in (16, 32)]
    assert one is not None
    assert two is not None
    assert 4 * one < two < 12 * one
    assert work(lambda x: tenon.while_loop(lambda v: v < 10, lambda v: v + 1, x), np.float32(0)) is None


def test_compiled_functions_of_ops_have_calls_of_their_own() -> None:
    x = np.linspace(-1, 1, 12, dtype=np.float32)
    tenon.gelu(x)
    compiled = tenon.jit(tenon.gelu)
    for shape in ((12,), (12,), (12,), (3, 4), (3, 4), (3, 4)):
        given = x.reshape(shape)
        np.testing.assert_array_equal(compiled(given), tenon.gelu(given))
    with tenon.knobs.override(exact_math="exp"):
        compiled(x)


def test_a_program_that_knows_of_no_tensors_calls_natively() -> None:
    program = (
        "import numpy, tenon; f = tenon.jit(lambda x: (x * x).sum()); print([f(numpy.ones(3)) for _ in range(9)][-1])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "3.0"), done.stderr


def call_meanwhile(function: Callable[[], Any]) -> Any:
    """What a function gives in whose kernel another thread begins to have calls of tensors go through Python."""
    begin, has_begun, end = threading.Event(), threading.Event(), threading.Event()

    def run() -> None:
        begin.wait()
        with through_python():
            has_begun.set()
            end.wait()

    thread, interval = threading.Thread(target=run), sys.getswitchinterval()
    thread.start()
    try:
        sys.setswitchinterval(1000)  # the other thread runs where a kernel lets it, and nowhere else
        begin.set()
        result = function()
        for _ in range(1000):  # a kernel may be done before the thread is awake
            if has_begun.is_set():
                return result
            result = function()
        raise AssertionError("no kernel let the other thread run")
    finally:
        sys.setswitchinterval(interval)
        end.set()
        thread.join()


def test_a_gradient_is_found_where_calls_begin_to_go_through_python_in_a_kernel() -> None:
    x = tenon.Tensor(np.full(1 << 22, 0.5, np.float32)).requires_grad_()
    for _ in range(4):
        tenon.tanh(x)
    result = call_meanwhile(lambda: tenon.tanh(x))
    result.backward(tenon.ones_like(result))
    assert x.grad is not None
    np.testing.assert_allclose(np.asarray(x.grad), 1 - np.tanh(0.5) ** 2, rtol=1e-5)


def test_a_change_is_noted_where_calls_begin_to_go_through_python_in_a_kernel() -> None:
    x, w = tenon.Tensor(floats(1 << 16)), tenon.Tensor(floats(1)).requires_grad_()

    @tenon.trace
    def change(x: Any) -> None:
        for _ in range(100):
            x.tanh_()

    def used_and_changed() -> Any:
        total = (x * w).sum()
        change(x)
        return total

    for _ in range(4):
        used_and_changed()
    total = call_meanwhile(used_and_changed)
    with pytest.raises(RuntimeError, match="which was changed in place"):
        total.backward()


def test_programs_that_call_python_are_called_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    inverse = tenon.jit(lambda x: tenon.debug.check_finite(tenon.inv(x), "inverse") + 1)
    for _ in range(3):
        inverse(np.eye(2))
    calls = general_calls(monkeypatch, inverse)
    for _ in range(3):
        np.testing.assert_array_equal(inverse(np.eye(2)), np.eye(2) + 1)
        with pytest.raises(np.linalg.LinAlgError, match=r"^tenon\.inv: singular") as caught:
            inverse(np.zeros((2, 2)))
        assert len(caught.traceback) == 1
        with pytest.raises(FloatingPointError, match=r"^inverse is "):
            inverse(np.eye(2) * 5e-324)
    assert not calls


def test_what_python_raises_in_a_program_reaches_the_thread_that_called_it() -> None:
    inverse = tenon.jit(lambda x: (tenon.inv(x), x * 2))
    for _ in range(3):
        inverse(np.eye(2))

    def work(is_bad: bool) -> int:
        raised = 0
        for _ in range(300):
            try:
                inverse(np.eye(2) * (not is_bad))
            except np.linalg.LinAlgError:
                raised += 1
        return raised

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, [True, False, True, False])) == [300, 0, 300, 0]
