"""Functions of the array API standard give what `array-api-strict` gives, on arrays and in traced functions; those that
are not there stand with their reason in `docs/array-api.md`.

`TENON_ARRAY_API_CASES` is how many calls of each function are drawn.
"""

# Ops that are defined here are found under `tenon`, which its stubs do not know.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import functools
import os
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from array_api_cases import CASES, NUMBERS

import tenon

PAGE = (Path(__file__).parents[2] / "docs" / "array-api.md").read_text()
CALLS = int(os.environ.get("TENON_ARRAY_API_CASES", "1"))
OF_ARRAYS_ALONE = {"nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values"}
CONSTANTS = ("e", "inf", "nan", "newaxis", "pi")
OF_STRICT_ALONE = {"ArrayAPIStrictFlags", "Device"}


def names() -> list[str]:
    """What the standard names, as `array_api_strict` has it."""
    own = [
        name
        for name in strict.__all__
        if name not in OF_STRICT_ALONE and not name.startswith("__") and not name.endswith("_flags")
    ]
    return [
        *[name for name in own if name not in ("linalg", "fft")],
        *[f"linalg.{name}" for name in strict.linalg.__all__],
        *[f"fft.{name}" for name in strict.fft.__all__],
    ]


def absent() -> set[str]:
    """What the first column of the page's table of absent functions names."""
    table = PAGE.partition("## What is not there")[2].partition("\n## ")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}


def find(module: Any, name: str) -> Any:
    return functools.reduce(getattr, name.split("."), module)


def test_each_name_is_there_or_has_its_reason() -> None:
    missing: set[str] = set()
    for name in names():
        try:
            find(tenon, name)
        except AttributeError:
            missing.add(name)
    assert missing == absent()


def replaced(value: Any, by: Callable[[Any], Any]) -> Any:
    """`value` with each array in it what `by` gives for it."""
    if isinstance(value, list | tuple):
        return type(value)(replaced(one, by) for one in value)
    return by(value) if isinstance(value, np.ndarray) else value


def leaves(result: Any) -> list[Any]:
    return list(result) if isinstance(result, list | tuple) else [result]


def taped(array: Any) -> Any:
    """`array` as a tensor, of which gradients are wanted if there are any."""
    return tenon.tensor(array, requires_grad=array.dtype.kind == "f")


def untaped(result: Any) -> Any:
    """Tensors as arrays."""
    found = [one.detach().numpy() if isinstance(one, tenon.Tensor) else one for one in leaves(result)]
    return found if isinstance(result, list | tuple) else found[0]


def check(found: Any, wanted: Any) -> None:
    assert len(leaves(found)) == len(leaves(wanted))
    for given, oracle in zip(leaves(found), leaves(wanted), strict=True):
        expected = np.asarray(oracle)
        assert given.shape == expected.shape
        assert given.dtype == expected.dtype
        tolerance = {"float32": 2e-5, "float64": 1e-11}.get(expected.dtype.name, 0)
        np.testing.assert_allclose(given, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CASES)
def test_gives_what_the_standard_says(name: str) -> None:
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    for _ in range(CALLS):
        args, settings = CASES[name](generator)
        theirs = {
            key: strict.float64 if isinstance(value, str) and value == "float64" else replaced(value, strict.asarray)
            for key, value in settings.items()
        }
        wanted = find(strict, name)(*replaced(args, strict.asarray), **theirs)
        function = find(tenon, name)
        check(function(*args, **settings), wanted)
        check(untaped(function(*replaced(args, taped), **settings)), wanted)

        def traced(arrays: list[Any], function: Any = function, args: Any = args, settings: Any = settings) -> Any:
            waiting = iter(arrays)
            return function(*replaced(args, lambda _: next(waiting)), **settings)

        arrays: list[Any] = []
        replaced(args, arrays.append)
        if name in OF_ARRAYS_ALONE:
            with pytest.raises(TypeError, match=r"values"):
                tenon.jit(traced)(arrays)
        else:
            check(tenon.jit(traced)(arrays), wanted)


CREATED: tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...] = (
    ("arange", (2, 9, 3), {"dtype": "int32"}),
    ("arange", (4,), {}),
    ("asarray", ([[1, 2], [3, 4]],), {}),
    ("asarray", ([True],), {"copy": True}),
    ("empty", ((2, 0),), {"dtype": "int8"}),
    ("eye", (3,), {"dtype": "float64"}),
    ("eye", (2, 3), {"k": 1, "dtype": "int64", "device": None}),
    ("full", ((2, 3),), {"fill_value": 7, "dtype": "int16"}),
    ("linspace", (0.0, 1.0, 5), {"dtype": "float64"}),
    ("linspace", (0.0, 1.0), {"num": 4, "endpoint": False, "dtype": "float32"}),
    ("ones", ((2, 3),), {"dtype": "uint8"}),
    ("zeros", (3,), {"dtype": "bool"}),
)


@pytest.mark.parametrize(("name", "args", "settings"), CREATED)
def test_creates_what_the_standard_says(name: str, args: tuple[Any, ...], settings: dict[str, Any]) -> None:
    dtypes = {"dtype": getattr(strict, settings["dtype"])} if "dtype" in settings else {}
    wanted = find(strict, name)(*args, **{**settings, **dtypes})
    check(find(tenon, name)(*args, **settings), wanted)
    check(tenon.jit(lambda: find(tenon, name)(*args, **settings))(), wanted)


def test_constants() -> None:
    for name in CONSTANTS:
        np.testing.assert_equal(getattr(tenon, name), getattr(strict, name))


def test_dtypes() -> None:
    kinds = ("bool", "signed integer", "unsigned integer", "integral", "real floating", "numeric")
    shared = [*NUMBERS, "bool"]
    for name in shared:
        ours, theirs = getattr(tenon, name), getattr(strict, name)
        assert [tenon.isdtype(ours, kind) for kind in kinds] == [strict.isdtype(theirs, kind) for kind in kinds]
        for other in shared:
            assert tenon.can_cast(ours, getattr(tenon, other)) == strict.can_cast(theirs, getattr(strict, other))
    for name in ("float32", "float64"):
        ours, theirs = tenon.finfo(getattr(tenon, name)), strict.finfo(getattr(strict, name))
        assert (ours.bits, ours.eps, ours.max, ours.smallest_normal) == (
            theirs.bits,
            theirs.eps,
            theirs.max,
            theirs.smallest_normal,
        )
    assert tenon.iinfo(tenon.int16).max == strict.iinfo(strict.int16).max
    assert tenon.can_cast(tenon.int8, tenon.int32)
    assert not tenon.can_cast(tenon.int32, tenon.int8)
    assert not tenon.can_cast(tenon.bool, tenon.int8)
    assert tenon.result_type(np.zeros(1, np.int8), tenon.uint8) == tenon.int16
    assert tenon.result_type(tenon.float32, 1.0) == tenon.float32


def test_other_names_of_arguments_are_not_given_twice() -> None:
    with pytest.raises(TypeError, match=r"tenon\.clip: argument 'low' is given twice"):
        tenon.clip(np.zeros(2), low=0.0, min=1.0)
    with pytest.raises(ValueError, match="copy is False where None or True is needed"):
        tenon.reshape(np.zeros(2), (2, 1), copy=False)
    with pytest.raises(ValueError, match="device is 'gpu' where 'cpu', 'cuda' or 'cuda:N' is needed"):
        tenon.zeros(3, device="gpu")
