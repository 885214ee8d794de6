"""What tests of an op can leave to Tenon: whether all that the op says about itself agrees.

An oracle for its values remains to be written by hand: none of these checks knows what the op is meant to compute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.parser import Parser
from xdsl.traits import Pure

from tenon.batching import vmap
from tenon.dialects.definition.signature import flat, map_grouped
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.traits import GradientError, NoGradient
from tenon.dialects.definition.value import ops
from tenon.dialects.types.types import array_type, element_type, f64, is_float
from tenon.runtime.arguments.arguments import as_array
from tenon.runtime.jit import jit
from tenon.runtime.knobs import knobs
from tenon.runtime.lower import new_context
from tenon.transform import grad

Arrays = Sequence[np.ndarray[Any, Any]]


def check_op(op: Any, *operands: Any, **settings: Any) -> None:
    """Check an op (its class, or its function) on one sample: the arguments of a call of it, small arrays.

    - Its IR verifies, and is the same after it was printed and parsed.
    - The compiled program, and the interpreter, give results of the inferred shapes and dtypes, and the same ones.
    - The gradient, where it has one, is the slope by central differences, in f64 where the op takes that.
    - `vmap` over all operands, and over each alone, gives what the op gives example by example.

    Raises `AssertionError` naming the op and what disagrees, and whatever error the op raises itself.
    """
    cls = getattr(op, "op", op)
    if not (isinstance(cls, type) and issubclass(cls, TensorOp)):
        raise TypeError(f"check_op: a {type(op).__name__} is given where an op or its class is needed")
    given, found = cls.SIGNATURE.operands, list(operands)
    if len(found) > len(given):
        raise TypeError(f"check_op: {cls.name} has {len(given)} operands, and {len(found)} are given")
    found += [None] * (len(given) - len(found))
    sample = _Sample(cls, map_grouped(lambda x: np.array(as_array(x)), map(_grouped, found)), settings)
    _check_text(sample)
    _check_results(sample)
    _check_gradient(sample)
    if cls.has_trait(Pure):
        _check_batching(sample)


def _grouped(operand: Any) -> Any:
    return tuple(operand) if isinstance(operand, list) else operand


class _Sample:
    """An op with operands and settings; `function` takes the arrays of all operands one by one."""

    def __init__(self, cls: type[TensorOp], operands: Sequence[Any], settings: dict[str, Any]) -> None:
        self.cls = cls
        self.operands = operands
        self.settings = settings
        self.arrays: list[np.ndarray[Any, Any]] = flat(operands)

    def function(self, *arrays: Any) -> tuple[Any, ...]:
        remaining = iter(arrays)
        operands = map_grouped(lambda _: next(remaining), self.operands)
        results = self.cls.apply(*operands, **self.settings)
        return results if isinstance(results, tuple) else (results,)

    def wide(self) -> _Sample:
        """The sample with floats as f64, if the op takes them."""
        floats = [o for o, given in zip(self.cls.SIGNATURE.operands, self.operands, strict=True) if _has_float(given)]
        if not all(f64 in operand.constraint.elements for operand in floats):
            return self
        widened = map_grouped(lambda x: x.astype(np.float64) if _is_float(x) else x, self.operands)
        return _Sample(self.cls, widened, self.settings)


def _is_float(array: Any) -> bool:
    return is_float(element_type(array.dtype))


def _has_float(operand: Any) -> bool:
    return any(map(_is_float, flat((operand,))))


def _same(what: str, found: Any, expected: Any, tolerance: float) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        raise AssertionError(
            f"{what}: {found.dtype}{list(found.shape)} differs from {expected.dtype}{list(expected.shape)}"
        )
    exact = not _is_float(found)
    kind = found.dtype if exact else np.float64
    largest = 0.0 if exact else float(np.abs(expected.astype(kind)[np.isfinite(expected)]).max(initial=1.0))
    np.testing.assert_allclose(
        found.astype(kind),
        expected.astype(kind),
        rtol=0.0 if exact else tolerance,
        atol=tolerance * largest,
        err_msg=what,
    )


def _epsilon(array: Any) -> float:
    """The distance of 1 to the next number of the dtype of `array`; 0 for integers."""
    if not _is_float(array):
        return 0.0
    import ml_dtypes

    return float(ml_dtypes.finfo(array.dtype).eps)


def _check_text(sample: _Sample) -> None:
    module = jit(sample.function).trace(*sample.arrays).module
    module.verify()
    text = str(module)
    again = str(Parser(new_context(), text).parse_module())
    if again != text:
        raise AssertionError(f"{sample.cls.name}: printed and parsed, its IR differs:\n{text}\n{again}")


def _check_results(sample: _Sample) -> None:
    compiled = jit(sample.function)
    inferred = [str(type_) for type_ in _result_types(compiled.trace(*sample.arrays).module)]
    results = compiled(*sample.arrays)
    with knobs.override(interpret=True):
        interpreted = compiled(*sample.arrays)
    for position, (type_, result, other) in enumerate(zip(inferred, results, interpreted, strict=True)):
        name = f"{sample.cls.name}: result {position}"
        for how, array in (("compiled", result), ("interpreted", other)):
            if str(array_type(array)) != type_:
                raise AssertionError(f"{name}: {array_type(array)} is {how} where {type_} is inferred")
        _same(f"{name}, compiled and interpreted", result, other, 64 * _epsilon(result))


def _result_types(module: Any) -> Sequence[Any]:
    (main,) = module.ops
    return main.function_type.outputs.data


def _check_gradient(sample: _Sample) -> None:
    wide = sample.wide()
    wanted = tuple([i for i, array in enumerate(wide.arrays) if _is_float(array)])
    compiled = jit(wide.function)
    generator = np.random.default_rng(0)
    weights = [generator.uniform(0.5, 1.5, r.shape) if _is_float(r) else None for r in compiled(*wide.arrays)]
    if not wanted or all(weight is None for weight in weights) or sample.cls.has_trait(NoGradient):
        return

    def total(*arrays: Any) -> Any:
        pairs = zip(wide.function(*arrays), weights, strict=True)
        return sum([ops.sum(ops.multiply(r, w.astype(r.dtype))) for r, w in pairs if w is not None])

    try:
        gradients = grad(total, wanted)(*wide.arrays)
    except GradientError:
        if getattr(sample.cls, "vjp", None) is not None:
            raise
        return
    epsilon = max(_epsilon(wide.arrays[position]) for position in wanted)
    step, tolerance = epsilon ** (1 / 3), 1e3 * epsilon ** (2 / 3)
    for position, gradient in zip(wanted, gradients, strict=True):
        slopes = _slopes(lambda arrays: _weighed(compiled(*arrays), weights), wide.arrays, position, step)
        what = f"{sample.cls.name}: gradient of operand {position} and central differences"
        _same(what, gradient, slopes.astype(gradient.dtype), tolerance)


def _weighed(results: Sequence[Any], weights: Sequence[Any]) -> float:
    return sum(float((r.astype(np.float64) * w).sum()) for r, w in zip(results, weights, strict=True) if w is not None)


def _slopes(function: Callable[[Arrays], float], arrays: Arrays, position: int, step: float) -> Any:
    """Central differences of `function` in each element of the array at `position`."""
    slopes = np.zeros(arrays[position].shape)
    for index in np.ndindex(*slopes.shape):
        ends: list[tuple[float, float]] = []
        for sign in (1, -1):
            moved = [np.array(array) for array in arrays]
            moved[position][index] += sign * step
            ends.append((float(moved[position][index]), function(moved)))
        slopes[index] = (ends[0][1] - ends[1][1]) / (ends[0][0] - ends[1][0])
    return slopes


def _check_batching(sample: _Sample) -> None:
    count = len(sample.arrays)
    compiled = jit(sample.function)
    examples = [[array, array.reshape(-1)[::-1].reshape(array.shape)] for array in sample.arrays]
    choices = [tuple(range(count)), *[(i,) for i in range(count)]] if count > 1 else [(0,)] * min(count, 1)
    for batched in choices:
        axes = tuple([0 if i in batched else None for i in range(count)])
        given = [np.stack(pair) if i in batched else pair[0] for i, pair in enumerate(examples)]
        together = vmap(sample.function, in_axes=axes)(*given)
        alone = [compiled(*[pair[k if i in batched else 0] for i, pair in enumerate(examples)]) for k in (0, 1)]
        for position, found in enumerate(together):
            expected = np.stack([results[position] for results in alone])
            what = f"{sample.cls.name}: result {position} for many examples of operands {batched} and one by one"
            _same(what, found, expected, 64 * _epsilon(found))


__all__ = ["check_op"]
