"""Calls of the functions of the array API standard, drawn at random: arguments with arrays in them, and keywords."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Call = tuple[tuple[Any, ...], dict[str, Any]]
Draw = Callable[[np.random.Generator], Call]

FLOATS = ("float32", "float64")
SIGNED, UNSIGNED = ("int8", "int16", "int32", "int64"), ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*SIGNED, *UNSIGNED)
NUMBERS = (*FLOATS, *INTEGERS)
ALL = (*NUMBERS, "bool")
SHAPES = ((), (0,), (3,), (2, 3), (3, 0, 2), (2, 1, 3))


def one_of(generator: np.random.Generator, choices: Any) -> Any:
    return choices[int(generator.integers(len(choices)))]


def array(generator: np.random.Generator, dtype: str, shape: tuple[int, ...], low: float = -9, high: float = 9) -> Any:
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype in FLOATS:
        return np.asarray(generator.uniform(low, high, shape)).astype(dtype)
    return np.asarray(generator.integers(0 if dtype in UNSIGNED else int(low), int(high), shape)).astype(dtype)


def of_one(dtypes: Any, low: float = -9, high: float = 9, **choices: Any) -> Draw:
    """Calls with one array, and each keyword one of its choices."""

    def draw(generator: np.random.Generator) -> Call:
        x = array(generator, one_of(generator, dtypes), one_of(generator, SHAPES), low, high)
        return (x,), {name: one_of(generator, values) for name, values in choices.items()}

    return draw


def of_two(dtypes: Any, low: float = -9, high: float = 9) -> Draw:
    """Calls with two arrays of one dtype, whose shapes broadcast."""

    def draw(generator: np.random.Generator) -> Call:
        shape = one_of(generator, SHAPES)
        other = shape if generator.random() < 0.5 else shape[int(generator.integers(len(shape) + 1)) :]
        dtype = one_of(generator, dtypes)
        x, y = array(generator, dtype, shape, low, high), array(generator, dtype, other, low, high)
        return ((x, y) if generator.random() < 0.5 else (y, x)), {}

    return draw


def of_rank(dtypes: Any, shapes: Any, *arguments: Any, **choices: Any) -> Draw:
    """Calls with an array of one of the shapes, arguments behind it and keywords, each one of its choices."""

    def draw(generator: np.random.Generator) -> Call:
        x = array(generator, one_of(generator, dtypes), one_of(generator, shapes))
        return (x, *[one_of(generator, values) for values in arguments]), {
            name: one_of(generator, values) for name, values in choices.items()
        }

    return draw


def of_several(dtypes: Any, *shapes: tuple[int, ...], as_list: bool = False, **choices: Any) -> Draw:
    """Calls with arrays of one dtype and the shapes."""

    def draw(generator: np.random.Generator) -> Call:
        dtype = one_of(generator, dtypes)
        arrays = tuple([array(generator, dtype, shape) for shape in shapes])
        return ((list(arrays),) if as_list else arrays), {
            name: one_of(generator, values) for name, values in choices.items()
        }

    return draw


def definite(*arguments: Any, **choices: Any) -> Draw:
    """Calls with symmetric positive definite matrices whose eigenvalues are apart."""
    draw_any = of_rank(FLOATS, SQUARES, *arguments, **choices)

    def draw(generator: np.random.Generator) -> Call:
        (x, *rest), settings = draw_any(generator)
        x = x / 40 + np.diag(np.arange(2, 2 + x.shape[-1], dtype=x.dtype))
        return (x + x.swapaxes(-1, -2), *rest), settings

    return draw


def equations(generator: np.random.Generator) -> Call:
    (a,), _ = definite()(generator)
    return (a, array(generator, a.dtype.name, (a.shape[-1], *one_of(generator, ((), (3,)))))), {}


def places(generator: np.random.Generator) -> Call:
    return (array(generator, one_of(generator, ALL), (3, 4)), generator.integers(0, 3, 5)), {
        "axis": one_of(generator, (0, 1))
    }


def along(generator: np.random.Generator) -> Call:
    return (array(generator, one_of(generator, ALL), (3, 4)), generator.integers(0, 3, (3, 4))), {
        "axis": one_of(generator, (0, 1, -1))
    }


def sorted_first(generator: np.random.Generator) -> Call:
    dtype = one_of(generator, NUMBERS)
    x = array(generator, dtype, (6,))
    settings: dict[str, Any] = {"side": one_of(generator, ("left", "right"))}
    if generator.random() < 0.5:
        settings["sorter"] = np.argsort(x, stable=True)
    else:
        x = np.sort(x)
    return (x, array(generator, dtype, (4,))), settings


def chosen(generator: np.random.Generator) -> Call:
    dtype = one_of(generator, ALL)
    return (
        array(generator, "bool", (2, 1)),
        array(generator, dtype, (2, 3)),
        array(generator, dtype, (3,)),
    ), {}


AXES = (None, 0, -1)
MATRICES = ((2, 3), (3, 3), (2, 3, 2))
SQUARES = ((3, 3), (2, 2, 2))
VECTORS = ((3,), (2, 3), (2, 3, 2))

_FLOAT_FUNCTIONS = ["asinh", "atan", "cos", "cosh", "exp", "expm1", "sin", "sinh", "tan", "tanh"]
_WHOLE = ["ceil", "floor", "round", "trunc", "positive", "negative", "abs", "sign", "square"]
_COMPARED = ["equal", "not_equal"]

CASES: dict[str, Draw] = {
    **dict.fromkeys(_FLOAT_FUNCTIONS, of_one(FLOATS, -3, 3)),
    **dict.fromkeys(("acos", "asin", "atanh"), of_one(FLOATS, -0.9, 0.9)),
    **dict.fromkeys(("acosh", "log", "log1p", "log2", "log10", "sqrt", "reciprocal"), of_one(FLOATS, 1, 9)),
    **dict.fromkeys(_WHOLE, of_one(NUMBERS)),
    **dict.fromkeys(("isfinite", "isinf", "isnan"), of_one(NUMBERS)),
    **dict.fromkeys(("signbit",), of_one(FLOATS)),
    **dict.fromkeys(("logical_not",), of_one(("bool",))),
    **dict.fromkeys(("bitwise_invert",), of_one((*INTEGERS, "bool"))),
    **dict.fromkeys(("add", "subtract", "multiply", "maximum", "minimum"), of_two(NUMBERS)),
    **dict.fromkeys(("greater", "greater_equal", "less", "less_equal"), of_two(NUMBERS)),
    **dict.fromkeys(_COMPARED, of_two(ALL)),
    **dict.fromkeys(("divide", "atan2", "copysign", "hypot", "logaddexp", "nextafter"), of_two(FLOATS)),
    **dict.fromkeys(("floor_divide", "remainder", "pow"), of_two(NUMBERS, 1, 5)),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), of_two((*INTEGERS, "bool"))),
    **dict.fromkeys(("bitwise_left_shift", "bitwise_right_shift"), of_two(INTEGERS, 0, 6)),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), of_two(("bool",))),
    "clip": of_rank(NUMBERS, SHAPES, min=(None, 1), max=(None, 4)),
    "where": chosen,
    # manipulation
    "broadcast_arrays": of_several(ALL, (2, 1), (3,), ()),
    "broadcast_to": of_rank(ALL, ((3,), (1, 3), ()), ((2, 3), (4, 2, 3))),
    "concat": of_several(ALL, (2, 3), (2, 3), as_list=True, axis=(0, 1, -1)),
    "expand_dims": of_rank(ALL, SHAPES, axis=(0, -1)),
    "flip": of_one(ALL, axis=(None,)),
    "matrix_transpose": of_rank(ALL, MATRICES),
    "moveaxis": of_rank(ALL, ((2, 3, 4), (2, 0, 3)), (0, -1), (1, -1)),
    "permute_dims": of_rank(ALL, ((2, 3, 4), (2, 0, 3)), axes=((1, 2, 0), (2, 0, 1))),
    "repeat": of_rank(ALL, VECTORS, (2, 3), axis=AXES),
    "reshape": of_rank(ALL, ((2, 3), (6,)), ((3, 2), (-1,), (1, 6)), copy=(None, True)),
    "roll": of_rank(ALL, VECTORS, (1, -2), axis=AXES),
    "squeeze": of_rank(ALL, ((2, 1, 3), (0, 1)), (1,)),
    "stack": of_several(ALL, (2, 3), (2, 3), as_list=True, axis=(0, 1, -1)),
    "tile": of_rank(ALL, VECTORS, ((2,), (2, 1), (1, 2, 2))),
    "unstack": of_rank(ALL, MATRICES, axis=(0, -1)),
    # creation
    "full_like": of_rank(NUMBERS, SHAPES, (1, 3)),
    **dict.fromkeys(("ones_like", "zeros_like"), of_one(ALL)),
    **dict.fromkeys(("tril", "triu"), of_rank(ALL, MATRICES, k=(0, 1, -1))),
    "meshgrid": of_several(NUMBERS, (3,), (2,), indexing=("xy", "ij")),
    # searching, sorting, sets
    **dict.fromkeys(("argmax", "argmin"), of_rank(NUMBERS, VECTORS, axis=AXES, keepdims=(False, True))),
    "count_nonzero": of_one(ALL, axis=(None,), keepdims=(False, True)),
    "nonzero": of_rank(ALL, VECTORS),
    "searchsorted": sorted_first,
    "argsort": of_rank(NUMBERS, VECTORS, axis=(0, -1), descending=(False, True)),
    "sort": of_rank(NUMBERS, VECTORS, axis=(0, -1), descending=(False, True)),
    **dict.fromkeys(("unique_all", "unique_counts", "unique_inverse", "unique_values"), of_one(ALL)),
    # array-api-strict 2.6.1 takes no notice of `invert`.
    "isin": of_several(INTEGERS, (2, 3), (4,)),
    "take": places,
    "take_along_axis": along,
    # statistics
    **dict.fromkeys(("max", "min"), of_rank(NUMBERS, VECTORS, axis=AXES, keepdims=(False, True))),
    "mean": of_rank(FLOATS, VECTORS, axis=AXES, keepdims=(False, True)),
    **dict.fromkeys(
        ("std", "var"), of_rank(FLOATS, VECTORS, axis=AXES, correction=(0, 1, 1.0), keepdims=(False, True))
    ),
    **dict.fromkeys(("sum", "prod"), of_one(NUMBERS, 0, 3, axis=(None,), dtype=("float64",), keepdims=(False, True))),
    **dict.fromkeys(
        ("cumulative_sum", "cumulative_prod"),
        of_rank(NUMBERS, VECTORS, axis=(0, -1), dtype=("float64",), include_initial=(False, True)),
    ),
    "diff": of_rank(NUMBERS, VECTORS, axis=(0, -1), n=(0, 1, 2)),
    **dict.fromkeys(("all", "any"), of_one(ALL, axis=(None,), keepdims=(False, True))),
    # linear algebra
    "matmul": of_several(NUMBERS, (2, 2, 3), (3, 2)),
    "tensordot": of_several(NUMBERS, (2, 3, 4), (3, 4, 2), axes=(((1, 2), (0, 1)), ((0,), (2,)))),
    "vecdot": of_several(NUMBERS, (2, 3), (2, 3), axis=(-1,)),
    "linalg.cholesky": definite(upper=(False, True)),
    "linalg.cross": of_several(NUMBERS, (2, 3), (1, 3), axis=(-1,)),
    "linalg.det": of_rank(FLOATS, SQUARES),
    "linalg.diagonal": of_rank(ALL, MATRICES, offset=(0, 1, -1)),
    "linalg.matmul": of_several(NUMBERS, (2, 2, 3), (3, 2)),
    "linalg.eigh": definite(),
    "linalg.eigvalsh": definite(),
    "linalg.inv": definite(),
    "linalg.matrix_norm": of_rank(
        FLOATS, MATRICES, ord=("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf), keepdims=(False, True)
    ),
    "linalg.matrix_power": definite((0, 1, 3, -2)),
    "linalg.matrix_rank": of_rank(FLOATS, MATRICES),
    "linalg.matrix_transpose": of_rank(ALL, MATRICES),
    "linalg.pinv": of_rank(("float64",), MATRICES),
    "linalg.qr": of_rank(("float64",), MATRICES, mode=("reduced", "complete")),
    "linalg.slogdet": definite(),
    "linalg.solve": equations,
    "linalg.svd": of_rank(("float64",), MATRICES, full_matrices=(True, False)),
    "linalg.svdvals": of_rank(FLOATS, MATRICES),
    "linalg.outer": of_several(NUMBERS, (3,), (2,)),
    "linalg.tensordot": of_several(NUMBERS, (2, 3), (3, 2), axes=(1,)),
    "linalg.trace": of_rank(FLOATS, MATRICES, offset=(0, 1, -1)),
    "linalg.vecdot": of_several(NUMBERS, (2, 3), (2, 3), axis=(-1,)),
    "linalg.vector_norm": of_rank(FLOATS, VECTORS, axis=AXES, ord=(0, 1, 2, 3, np.inf, -np.inf)),
}
