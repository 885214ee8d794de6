"""What dtypes promise: the rule by which they meet, and what each becomes when it is converted to each other."""

from __future__ import annotations

from itertools import permutations, product
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner
from dtype_values import converted, edge_values
from xdsl.parser import Parser

import tenon
from tenon.dialects.types.shapes import InferenceError
from tenon.dialects.types.types import BOOLS, FLOATS, INTEGERS, element_type, numpy_dtype, promote
from tenon.lowering.pipeline import run_passes
from tenon.passes.simplify.fold import MOST_RESULT_ELEMENTS
from tenon.runtime.knobs import knobs
from tenon.runtime.lower import new_context
from tenon.tools.cli import main

Array = np.ndarray[Any, Any]
NAMES = tuple(map(str, (*BOOLS, *INTEGERS, *FLOATS)))
BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def documented(first: str, second: str) -> str:
    """The rule of `promote` for two dtypes, written as a table of cases."""
    if first == second:
        return first
    if "i1" in (first, second):
        return second if first == "i1" else first
    if first in BITS or second in BITS:
        if first in BITS and second in BITS:
            return "f32" if BITS[first] == BITS[second] else max(first, second, key=BITS.__getitem__)
        return first if first in BITS else second
    widths = {name: int(name.lstrip("ui")) for name in (first, second)}
    if first[0] == second[0]:
        return max(first, second, key=widths.__getitem__)
    unsigned, signed = (first, second) if first[0] == "u" else (second, first)
    width = max(widths[signed], 2 * widths[unsigned])
    return f"i{width}" if width <= 64 else "f32"


@pytest.mark.parametrize("first", NAMES)
def test_two_dtypes_meet_by_the_documented_rule(first: str) -> None:
    for second in NAMES:
        assert str(promote([element_type(first), element_type(second)])) == documented(first, second)


def test_integers_meet_as_in_numpy_where_there_is_an_integer_for_both() -> None:
    for first, second in product((*BOOLS, *INTEGERS), repeat=2):
        theirs = np.promote_types(numpy_dtype(first), numpy_dtype(second))
        if theirs.kind != "f":
            assert numpy_dtype(promote([first, second])) == theirs


def test_the_order_of_operands_does_not_matter() -> None:
    for names in product(NAMES, repeat=3):
        elements = [element_type(name) for name in names]
        assert len({promote(order) for order in permutations(elements)}) == 1


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_an_unsigned_dtype_has_several_names(width: int) -> None:
    names: tuple[Any, ...] = (f"ui{width}", f"u{width}", f"uint{width}", np.dtype(f"uint{width}").type)
    assert {str(element_type(name)) for name in names} == {f"ui{width}"}


# --- conversion -------------------------------------------------------------------------------------------------------


def bits(array: Array) -> Array:
    """The bits of numbers, all NaN alike."""
    if array.dtype.kind != "f" and array.dtype != ml_dtypes.bfloat16:
        return array
    return np.where(array != array, -1, array.view(f"i{array.dtype.itemsize}"))


@pytest.mark.parametrize("interpret", [False, True], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("source", NAMES)
def test_each_dtype_converts_to_each_other(source: str, interpret: bool) -> None:
    values = edge_values(source)
    with knobs.override(interpret=interpret):
        results = tenon.jit(lambda x: [tenon.cast(x, dtype=target) for target in NAMES])(values)
    for target, result in zip(NAMES, results, strict=True):
        expected = converted(values, numpy_dtype(element_type(target)))
        assert result.dtype == expected.dtype
        wrong = bits(result) != bits(expected)
        assert not wrong.any(), f"{source} to {target}: {values[wrong]} gave {result[wrong]}, not {expected[wrong]}"


@pytest.mark.parametrize("source", NAMES)
def test_constants_convert_as_data_does(source: str) -> None:
    values = edge_values(source)
    values = values[:: 1 + len(values) // MOST_RESULT_ELEMENTS]
    for target in NAMES:
        constant = tenon.jit(lambda target=target: tenon.cast(tenon.constant(value=values), dtype=target))
        module = constant.trace().module
        run_passes(new_context(), module, ["canonicalize"])
        assert "tenon.cast" not in str(module) or source == target
        expected = converted(values, numpy_dtype(element_type(target)))
        np.testing.assert_array_equal(bits(constant()), bits(expected))


# --- text and interface -----------------------------------------------------------------------------------------------


def test_unsigned_tensors_read_back() -> None:
    constant = np.array([[0, 1], [2**63, 2**64 - 1]], np.uint64)
    module = tenon.jit(lambda x: (x + constant, tenon.cast(x, dtype="u8"))).trace(constant).module
    text = str(module)
    assert "tensor<2x2xui64>" in text
    assert "18446744073709551615" in text
    assert str(Parser(new_context(), text).parse_module()) == text


@pytest.mark.parametrize("stage", ["trace", "lower"])
def test_outputs_keep_their_dtypes_whatever_the_stage(stage: str) -> None:
    from tenon.runtime.executables import executable

    x = np.array([1, 2**31, 2**32 - 1], np.uint32)
    module = getattr(tenon.jit(lambda x: (x + x, x > 3, tenon.cast(x, dtype="i32"))), stage)(x).module
    again = Parser(new_context(), str(module)).parse_module()
    for interpret in (False, True):
        with knobs.override(interpret=interpret):
            made = executable(again, "cpu")
        assert made.interface.inputs == (((3,), "ui32"),)
        assert [dtype for _, dtype in made.interface.outputs] == ["ui32", "i1", "i32"]
        results = made.run([x])
        for result, expected in zip(results, (x + x, x > 3, x.view(np.int32)), strict=True):
            assert result.dtype == expected.dtype
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("stage", ["trace", "lower"])
def test_files_run_with_unsigned_arguments(tmp_path: Path, stage: str) -> None:
    x = np.array([1, 128, 255], np.uint8)
    module = getattr(tenon.jit(lambda x: tenon.floor_divide(x, 2)), stage)(x).module
    (tmp_path / "program.mlir").write_text(str(module))
    np.save(tmp_path / "x.npy", x)
    arguments = [
        "run",
        str(tmp_path / "program.mlir"),
        "--args",
        str(tmp_path / "x.npy"),
        "-o",
        str(tmp_path / "y.npy"),
    ]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    found = np.load(tmp_path / "y.npy")
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, [0, 64, 127])


def test_numbers_that_an_unsigned_dtype_does_not_hold_are_errors() -> None:
    x = np.array([1, 2], np.uint8)
    np.testing.assert_array_equal(tenon.jit(lambda x: x + 254)(x), np.array([255, 0], np.uint8))
    for number in (-1, 256):
        with pytest.raises(OverflowError, match=f"tenon.add: y is {number}, which does not fit into ui8"):
            tenon.jit(lambda x, number=number: x + number)(x)


@pytest.mark.parametrize(("source", "target"), [("f32", "i64"), ("f32", "bool"), ("i8", "u16")])
def test_bits_are_taken_as_a_dtype_of_one_width_only(source: str, target: str) -> None:
    x = np.zeros(2, numpy_dtype(element_type(source)))
    needed = f"tenon.bitcast: dtype is {element_type(target)}, which has not as many bits as {source} of x"
    with pytest.raises(InferenceError, match=needed):
        tenon.bitcast(x, dtype=target)


def test_unsigned_values_go_through_control_flow() -> None:
    def halvings(x: Any) -> Any:
        def halve(state: tuple[Any, Any]) -> tuple[Any, Any]:
            return state[0] + 1, state[1] >> 1

        return tenon.while_loop(lambda state: tenon.any(state[1] > 1), halve, (np.uint8(0), x))

    count, rest = tenon.jit(halvings)(np.array([2**63, 5], np.uint64))
    assert (count, count.dtype, rest.dtype) == (63, np.uint8, np.uint64)
    np.testing.assert_array_equal(rest, [1, 0])


@pytest.mark.parametrize("number", [np.float64(2), np.float32(2), np.float16(2), np.int64(2), np.int8(2)], ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_numbers_of_numpy_have_their_dtype_in_and_out_of_a_trace(number: Any, dtype: Any) -> None:
    x = np.ones(3, dtype)
    wanted = tenon.multiply(x, np.full(3, number)).dtype
    assert tenon.multiply(x, number).dtype == wanted
    assert tenon.jit(lambda x: x * number)(x).dtype == wanted


@pytest.mark.parametrize("number", [True, 2, 0.5], ids=repr)
@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float16])
@pytest.mark.parametrize("op", [tenon.maximum, tenon.add], ids=["maximum", "add"])
def test_numbers_of_python_are_as_weak_in_and_out_of_a_trace(op: Any, dtype: Any, number: Any) -> None:
    x = np.array([1, 0, 1], dtype)
    of_truth = {"True": np.bool_ if op is tenon.maximum else np.int64, "2": np.int64}
    wanted: Any = of_truth.get(repr(number)) if dtype is np.bool_ else dtype
    wanted = np.float32 if number == 0.5 and dtype is not np.float16 else wanted
    for found in (op(x, number), op(number, tenon.tensor(x)), tenon.jit(lambda x: op(x, number))(x)):
        assert found.dtype == wanted
        np.testing.assert_allclose(found, getattr(np, op.__name__)(x.astype(wanted), wanted(number)))
