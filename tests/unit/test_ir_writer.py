"""The writer of native code: what it writes computes what the same lines of Python would."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from math import inf

import numpy as np
import pytest

from tenon.runtime.cpu.compile import compile_native, host_target
from tenon.runtime.cpu.ir_types import F32, F64, I1, I8, I32, I64, PTR, U64, VOID, Struct, Type, Union, pointer
from tenon.runtime.cpu.ir_values import Operand, Value
from tenon.runtime.cpu.ir_writer import Module
from tenon.runtime.cpu.load import load_objects

pytestmark = pytest.mark.quick

PAIR = Struct(tag=I32, value=F64)
code = Module()
count = code.variable("count", I64)


@code.function(I64, number=I64)
def collatz(number: Value) -> Operand:
    """A loop with both branches, and with an exit of its own."""
    steps, now = code.local(I64, 0), code.local(I64, number)
    with code.loop():
        code.break_if(now == 1)
        with code.if_(now % 2 == 0):
            now.set(now >> 1)
        with code.else_():
            now.set(now * 3 + 1)
        steps.set(steps + 1)
    return steps


@code.function(I64, numbers=pointer(I64), length=I64, wanted=I64)
def tenon_search(numbers: Value, length: Value, wanted: Value) -> Operand:
    """The place of a number, behind those below zero, which count twice; -1 if there is none."""
    passed = code.local(I64, 0)
    with code.each(length) as i:
        with code.if_(numbers[i] < 0):
            passed.set(passed + 2)
            code.continue_()
        code.return_if(numbers[i] == wanted, passed)
        passed.set(passed + 1)
    return -1


@code.function(I64, operation=I64, first=I64, second=I64)
def tenon_calculate(operation: Value, first: Value, second: Value) -> Operand:
    result = code.local(I64)
    with code.switch(operation) as case:
        with case(0, 3):
            result.set(first + second)
        with case(1):
            code.return_(collatz(first))
        with case(2):
            result.set(code.select(first.to(U64) < second.to(U64), first, second))
    return result


@code.function(I64, pairs=pointer(PAIR), length=I64)
def tenon_sum(pairs: Value, length: Value) -> Operand:
    """The sum of the tags of pairs whose values are infinite as f32, which become 0; and how many there were."""
    total = code.local(I64, 0)
    with code.each(length) as i:
        pair = pairs[i]
        with code.if_(pair.value.to(F32).to(F64) == inf):
            total.set(total + pair.tag.to(I64))
            pair.put(value=0.0)
            count.fetch("add", 1, "seq_cst")
    before, is_replaced = count.exchange(0, 100, "seq_cst seq_cst")
    return code.select(is_replaced, total, before * 1000 + total)


class Pair(ctypes.Structure):
    _fields_ = (("tag", ctypes.c_int32), ("value", ctypes.c_double))


@pytest.fixture(scope="module")
def native() -> dict[str, Callable[..., int]]:
    assert code.exports == ("tenon_search", "tenon_calculate", "tenon_sum")
    target = host_target()
    loaded = load_objects([compile_native(code.text(target.triple), target)], target, exports=code.exports)
    prototype = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    found = {name: prototype(loaded.entry(name)) for name in code.exports}
    found["tenon_calculate"] = ctypes.CFUNCTYPE(*[ctypes.c_int64] * 4)(loaded.entry("tenon_calculate"))
    return found | {"kept": lambda: len([loaded])}


def test_what_is_short_or_called_once_is_part_of_what_calls_it() -> None:
    made = Module()

    @made.function(I64, "noinline", number=I64)
    def apart(number: Value) -> Value:
        return number + 1

    def power(number: Value) -> Value:
        for _ in range(50):
            number = number * number
        return number

    @made.function(I64, number=I64)
    def once(number: Value) -> Value:
        return power(number)

    @made.function(I64, number=I64)
    def twice(number: Value) -> Value:
        return power(number)

    @made.function(I64, number=I64)
    def short(number: Value) -> Value:
        return number + 2

    @made.function(I64, number=I64)
    def tenon_all(number: Value) -> Value:
        return apart(once(short(short(twice(twice(number))))))

    headers = [line for line in made.text().splitlines() if line.startswith("define")]
    inlined = [line.split("@")[1].split("(")[0] for line in headers if "alwaysinline" in line]
    assert inlined == ["once", "short"]


def test_loops_and_exits(native: dict[str, Callable[..., int]]) -> None:
    numbers = np.array([5, -1, 7, -2, 9], np.int64)
    found = [native["tenon_search"](numbers.ctypes.data, length, wanted) for length, wanted in ((5, 9), (4, 9), (5, 7))]
    assert found == [6, -1, 3]
    assert native["tenon_search"](numbers.ctypes.data, 0, 5) == -1


@pytest.mark.parametrize(("call", "result"), [((0, 2, 3), 5), ((3, -2, 3), 1), ((1, 27, 0), 111), ((2, -1, 3), 3)])
def test_branches_and_calls(native: dict[str, Callable[..., int]], call: tuple[int, ...], result: int) -> None:
    assert native["tenon_calculate"](*call) == result


def test_fields_and_atomics(native: dict[str, Callable[..., int]]) -> None:
    pairs = (Pair * 3)((1, 1e300), (2, 2.0), (4, 1e39))
    assert native["tenon_sum"](ctypes.addressof(pairs), 3, 0) == 2005
    assert [pair.value for pair in pairs] == [0, 2, 0]


@pytest.mark.parametrize("kinds", [(I32, F64), (I8, I64, I8), (I1, I32, PTR, I8), (I8, I8, I32)])
def test_structures_lie_as_in_c(kinds: tuple[Type, ...]) -> None:
    of_c = {1: ctypes.c_int8, 4: ctypes.c_int32, 8: ctypes.c_int64}
    fields = {f"f{i}": kind for i, kind in enumerate(kinds)}
    expected = type("Expected", (ctypes.Structure,), {"_fields_": [(n, of_c[k.size]) for n, k in fields.items()]})
    outer = type("Outer", (ctypes.Structure,), {"_fields_": [("first", ctypes.c_int8), ("inner", expected)]})
    made = Struct(**fields)
    assert made.offsets == {name: getattr(expected, name).offset for name in fields}
    around = Struct(first=I8, inner=made)
    assert (made.size, around.size) == (ctypes.sizeof(expected), ctypes.sizeof(outer))
    assert around.offsets["inner"] == getattr(outer, "inner").offset  # noqa: B009
    assert Union(first=I64, inner=made).offsets == {"first": 0, "inner": 0}


def test_words_are_given_by_name() -> None:
    both = Union(number=Struct(operation=I64, value=I64), text=Struct(operation=I64, length=I64, start=PTR))
    assert both.words_of("text", {"start": 3, "operation": 1, "length": 2}) == [1, 2, 3]
    assert both.words_of("number", {"operation": 1, "value": 2}) == [1, 2, 0]
    with pytest.raises(ValueError, match="operation are not the words operation, value"):
        both.words_of("number", {"operation": 1})


def _behind_a_jump(module: Module, value: Value) -> None:
    module.return_()
    _ = value + 1


def _else_alone(module: Module, value: Value) -> None:
    with module.else_():
        pass


def _as_a_condition(module: Module, value: Value) -> None:
    assert value == 1


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (lambda _, value: value.load(), TypeError, "%value does not point to a value"),
        (lambda _, value: value.place("x"), AttributeError, "%value points to nothing with a field x"),
        (lambda _, value: value(1), TypeError, "%value does not point to a function"),
        (lambda _, value: value + value.to(I32), TypeError, "is i32, expected i64"),
        (lambda _, value: value + None, TypeError, "None is given where i64 is expected"),
        (_behind_a_jump, RuntimeError, "nothing leads to: .* = add i64 %value, 1"),
        (_else_alone, RuntimeError, "an else without an if before it"),
        (_as_a_condition, TypeError, "not known while it is written"),
    ],
)
def test_what_does_not_fit_is_refused(
    body: Callable[[Module, Value], None], error: type[Exception], message: str
) -> None:
    module = Module()

    @module.function(VOID, value=I64)
    def wrong(value: Value) -> None:  # pyright: ignore[reportUnusedFunction]
        body(module, value)

    with pytest.raises(error, match=message):
        module.text()
