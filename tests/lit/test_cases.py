"""Tests of passes are read as examples: a short case for each rewrite, which a failure names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from cases import Case, cases, failed_case
from xdsl.pattern_rewriter import RewritePattern

from tenon.lowering.math import expand_math, legalize_arith
from tenon.passes.layout import layout
from tenon.passes.machine import GENERIC
from tenon.passes.simplify.equations_arithmetic import ARITHMETIC_EQUATIONS
from tenon.passes.simplify.equations_bands import BAND_EQUATIONS
from tenon.passes.simplify.equations_dtypes import DTYPE_EQUATIONS
from tenon.passes.simplify.equations_products import NORMALIZED_PRODUCTS
from tenon.passes.simplify.equations_shape import SHAPE_EQUATIONS
from tenon.passes.simplify.equations_truth import TRUTH_EQUATIONS

pytestmark = pytest.mark.quick

FOLDER = Path(__file__).parent
MOST_LINES = 15
"""Of the case in the middle, in its order of length."""


def cases_in(folder: str) -> dict[Path, list[Case]]:
    return {file: cases(file.read_text()) for file in sorted((FOLDER / folder).rglob("*.mlir"))}


@pytest.mark.parametrize("folder", ["passes", "lowering"])
def test_cases_are_short(folder: str) -> None:
    lengths = [len(case.lines) for found in cases_in(folder).values() for case in found]
    assert median(lengths) <= MOST_LINES


@pytest.mark.parametrize("folder", ["passes", "lowering"])
def test_names_tell_cases_apart(folder: str) -> None:
    for file, found in cases_in(folder).items():
        (name, count), *_ = Counter(case.name for case in found).most_common(1)
        assert name, f"{file.name}: a case has no name"
        assert count == 1, f"{file.name}: {count} cases are {name}"


@pytest.mark.parametrize("folder", ["passes", "lowering"])
def test_cases_begin_with_what_they_show(folder: str) -> None:
    for file, found in cases_in(folder).items():
        for case in found:
            assert next(iter(case.lines.values())).startswith("// "), f"{file.name}: {case.name} says not what it shows"


CANONICALIZE = (
    ARITHMETIC_EQUATIONS,
    DTYPE_EQUATIONS,
    TRUTH_EQUATIONS,
    SHAPE_EQUATIONS,
    BAND_EQUATIONS,
    NORMALIZED_PRODUCTS,
)


@pytest.mark.parametrize(
    ("files", "tables"),
    [("canonicalize/*.mlir", CANONICALIZE), ("layout.mlir", (layout._equations(GENERIC),))],
    ids=["canonicalize", "layout"],
)
def test_each_equation_has_a_case(files: str, tables: tuple[Mapping[Any, Sequence[RewritePattern]], ...]) -> None:
    """Named after it: `@add_zero` and `@add_zero_on_integers` are cases of `AddZero`."""
    names = [case.name for file in (FOLDER / "passes").glob(files) for case in cases(file.read_text())]
    equations = {type(pattern) for table in tables for patterns in table.values() for pattern in patterns}
    if tables is not CANONICALIZE:  # what it has from there is shown there
        equations -= {type(pattern) for table in CANONICALIZE for patterns in table.values() for pattern in patterns}
    for equation in equations:
        name = "@" + re.sub(r"(?<!^)(?=[A-Z])", "_", equation.__name__).lower()
        assert any(f"{other}_".startswith(f"{name}_") for other in names), f"{equation.__name__} has no case {name}"


@pytest.mark.parametrize(
    ("file", "rewritten"),
    [
        ("legalize-arith", {*legalize_arith._REWRITES, *legalize_arith._OF_HALVES}),
        ("expand-math", {*expand_math._IN_F32, *expand_math._IN_F64, *expand_math._OF_TWO}),
    ],
)
def test_each_op_that_is_written_out_has_a_case(file: str, rewritten: set[str]) -> None:
    lines = (FOLDER / "lowering" / f"{file}.mlir").read_text().splitlines()
    given = {op for line in lines if not line.startswith("//") for op in re.findall(r"= (\w+\.\w+)", line)}
    assert rewritten <= given


def test_a_failure_names_its_case() -> None:
    text = """// RUN: true

func.func private @inner()
func.func @one()
// CHECK: 1

SEPARATOR
// What is shown.
func.func @main()
// CHECK: 2
"""
    for separator in ("// -----\n", ""):
        file = text.replace("SEPARATOR\n", separator)
        for check, name in (("// CHECK: 1", "@one"), ("// CHECK: 2", "What is shown.")):
            line = file[: file.index(check)].count("\n") + 1
            assert failed_case(file, f"/tests/a.mlir:{line}: error: Couldn't match") == name
    assert failed_case(text, "error: no such file") is None
