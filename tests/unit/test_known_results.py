"""Types that were inferred before are found again only for operands and settings that are the same."""

import numpy as np
import pytest

import tenon
from tenon.dialects.definition.memo import KnownResults
from tenon.dialects.definition.registry import tensor_function

X = np.ones((2, 3), np.float32)


def types_of(function, *arguments):
    return [str(t) for t in tenon.jit(function).trace(*arguments).module.body.block.first_op.function_type.outputs]


def test_shapes_and_dtypes_are_told_apart():
    for shape, dtype, shown in (
        ((2, 3), np.float32, "tensor<2x3xf32>"),
        ((3, 2), np.float32, "tensor<3x2xf32>"),
        ((2, 3), np.float64, "tensor<2x3xf64>"),
        ((2, 3), np.int32, "tensor<2x3xi32>"),
    ):
        for _ in range(2):
            assert types_of(lambda x: x + x, np.ones(shape, dtype)) == [shown]


def test_settings_that_are_equal_in_python_are_told_apart():
    for _ in range(2):
        assert types_of(lambda x: tenon.sum(x, axis=(0, 1)), X) == ["tensor<f32>"]
        with pytest.raises(TypeError, match=r"\(False, True\) is not a tuple of integers"):
            types_of(lambda x: tenon.sum(x, axis=(False, True)), X)
        with pytest.raises(TypeError, match="setting 'keepdims'"):
            types_of(lambda x: tenon.sum(x, axis=0, keepdims=1), X)  # pyright: ignore[reportArgumentType]
    for alpha in (0.0, -0.0, 1.0):
        text = str(tenon.jit(lambda x, alpha=alpha: tenon.selu(x, alpha=alpha)).trace(X))
        assert f"{{alpha = {alpha}}}" in text


def test_numbers_are_told_apart_by_their_bits():
    products = [tenon.jit(lambda x, z=z: x * z)(np.float32(1.0)) for z in (0.0, -0.0)]
    assert [bool(np.signbit(p)) for p in products] == [False, True]
    for number, shown in ((1, "tensor<2xi8>"), (True, "tensor<2xi8>"), (1.0, "tensor<2xf32>")):
        assert types_of(lambda x, number=number: x + number, np.ones(2, np.int8)) == [shown]
    with pytest.raises(OverflowError, match="300, which does not fit into i8"):
        types_of(lambda x: x + 300, np.ones(2, np.int8))


def test_errors_come_each_time():
    for _ in range(2):
        with pytest.raises(ValueError, match=r"tenon.add: shapes do not broadcast: dimension -1 is 3 in x and 2 in y"):
            tenon.jit(lambda x, y: x + y).trace(X, X.T)


def test_what_takes_the_place_of_another_is_asked_again():
    def known_results_test(x):
        return x

    tensor_function(known_results_test)
    # one of its own: what these settings are said to be must not stay behind for an op
    known_results = KnownResults()
    known = known_results.with_settings({"axis": (0,)}, lambda: ({}, {}))
    assert known_results.with_settings({"axis": (0,)}, lambda: ({}, {})) is known
    tensor_function(known_results_test)
    assert known_results.with_settings({"axis": (0,)}, lambda: ({}, {})) is not known


def test_what_is_known_is_bounded():
    known_results = KnownResults()
    for size in range(3000):
        known_results.with_settings({"axis": (size,)}, lambda: ({}, {}))
    assert len(known_results._settings) <= 1024
