"""Samples of every op with unknown dimensions and ranks: a pass leaves valid IR or says what it cannot do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from samples import Sample, samples_of
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute
from xdsl.utils.exceptions import PassFailedException

import tenon
from tenon.dialects.definition.registry import registry
from tenon.dialects.definition.traits import GradientError
from tenon.dialects.definition.value import InsertionPoint, TracedValueError, Value, emit, inserting
from tenon.dialects.types.shapes import InferenceError
from tenon.dialects.types.size import UNKNOWN_DIMENSION, UndecidedSizeError
from tenon.dialects.types.types import element_type, tensor_type
from tenon.passes.pipeline import PASSES
from tenon.passes.verification import Verification

OPS = [name for name in registry() if name.startswith("tenon.")]
REFUSALS = (InferenceError, UndecidedSizeError, GradientError, TracedValueError, PassFailedException)
PIPELINES: tuple[tuple[tuple[str, dict[str, Any]], ...], ...] = (
    (("differentiate", {}), ("decompose", {})),
    (("batch", {"size": 3}), ("decompose", {})),
    (("layout", {}), ("decompose", {}), ("canonicalize", {}), ("cse", {}), ("dce", {})),
)


def unknown(shape: Sequence[int], pattern: str) -> tuple[int, ...] | None:
    """`shape` with what `pattern` names unknown: every size, every other one, or the rank."""
    if pattern == "rank":
        return None
    return tuple([-1 if pattern == "all" or axis % 2 == (pattern == "odd") else n for axis, n in enumerate(shape)])


def program(sample: Sample, pattern: str) -> ModuleOp | None:
    """A function that applies the op to arguments so little known, `None` where inference refuses them."""
    types: list[Attribute] = [tensor_type(unknown(a.shape, pattern), element_type(a.dtype)) for a in sample.arrays]
    main = func.FuncOp("main", (types, []))
    try:
        with inserting(InsertionPoint(main.body.block)):
            results = sample.apply([Value(argument) for argument in main.body.block.args])
            emit(func.ReturnOp(*[result.ssa for result in results]))
    except REFUSALS:
        return None
    main.update_function_type()
    return ModuleOp([main])


@pytest.mark.parametrize("name", OPS)
def test_what_is_done_with_unknown_sizes_is_valid_or_refused(name: str) -> None:
    sample = next((s for s in samples_of(name, 8) if s.arrays and all(a.size for a in s.arrays)), None)
    if sample is None:
        pytest.skip("takes no arrays")
    for pattern in ("all", "odd", "even", "rank"):
        module = program(sample, pattern)
        if module is None:
            continue
        Verification().check(module)
        for passes in PIPELINES:
            changed = module.clone()
            try:
                for pass_name, options in passes:
                    PASSES[pass_name]()(**options).apply(Context(), changed)
                    Verification().after(pass_name, changed)
            except REFUSALS:  # anything else, and invalid IR, fails
                continue


@pytest.mark.parametrize(
    "compute",
    [
        lambda n: n + 1,
        lambda n: 1 - n,
        lambda n: n * n,
        lambda n: 7 % n,
        lambda n: -n,
        lambda n: np.arange(3) * n,
    ],
)
def test_unknown_dimensions_are_not_computed_with(compute: Any) -> None:
    assert UNKNOWN_DIMENSION == -1
    with pytest.raises(UndecidedSizeError, match=r"a size is \?"):
        compute(UNKNOWN_DIMENSION)


def test_the_number_of_unknown_elements_is_no_number() -> None:
    """(-1) * (-1) was taken for one element."""
    block = func.FuncOp("main", ([tensor_type((-1, -1), element_type("f32"))], [])).body.block
    with pytest.raises(UndecidedSizeError):
        _ = Value(block.args[0]).size


def test_zeros_like_takes_a_shape_that_is_not_known() -> None:
    assert "tenon.select" in str(program_of_zeros((-1, 3)))
    assert "tenon.select" in str(program_of_zeros(None))


def program_of_zeros(shape: tuple[int, ...] | None) -> ModuleOp:
    main = func.FuncOp("main", ([tensor_type(shape, element_type("f32"))], []))
    with inserting(InsertionPoint(main.body.block)):
        emit(func.ReturnOp(tenon.zeros_like(Value(main.body.block.args[0])).ssa))
    main.update_function_type()
    return ModuleOp([main])


def test_a_reduction_over_no_axes_keeps_several_unknown_sizes() -> None:
    """It was to become a reshape to (-1, -1)."""
    main = func.FuncOp("main", ([tensor_type((-1, -1), element_type("f32"))], []))
    with inserting(InsertionPoint(main.body.block)):
        emit(func.ReturnOp(tenon.sum(Value(main.body.block.args[0]), axis=()).ssa))
    main.update_function_type()
    module = ModuleOp([main])
    PASSES["canonicalize"]()().apply(Context(), module)
    assert "tenon.sum" in str(module)
