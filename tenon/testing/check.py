"""`check`: whether an op or a function agrees with itself in all forms, and with a reference."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.traits import Pure

from tenon.batching import vmap
from tenon.dialects.definition.signature import map_grouped
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.traits import CpuOnly
from tenon.dialects.families.opaque import OpaqueOp
from tenon.dialects.types.shapes import InferenceError
from tenon.dialects.types.types import array_type
from tenon.runtime.arguments.arguments import as_array
from tenon.runtime.arguments.tree import flatten
from tenon.runtime.jit import jit
from tenon.runtime.knobs import knobs
from tenon.runtime.lower import lower_module, new_context
from tenon.testing.derivatives import Derivatives
from tenon.testing.sample import (
    Array,
    Sample,
    at_extremes,
    at_kinks,
    broadcasting,
    epsilon,
    has_floats,
    in_other_dtypes,
    in_other_layouts,
    without_elements,
)

Device = Callable[[ModuleOp, Sequence[Array]], Sequence[Array]]
_SMALL = 64
"""Elements of operands up to which second derivatives are compared: that takes two programs for each."""
_MOST_SHOWN = 8


class CheckError(AssertionError):
    """What was found to disagree: op, check, sample, element and both values of each."""


@dataclass
class Report:
    """What was compared, how often, and what was left out and why."""

    name: str
    compared: dict[str, int] = field(default_factory=dict[str, int])
    left_out: list[str] = field(default_factory=list[str])
    failures: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        counts = ", ".join([f"{check} {count}" for check, count in self.compared.items()])
        return "\n  ".join([f"{self.name}: {counts}", *[f"left out: {why}" for why in self.left_out]])

    def same(self, check: str, sample: Sample, found: Any, expected: Any, tolerance: float, names: str) -> None:
        """Compare arrays, of which `names` says where each comes from; an infinite tolerance compares types alone."""
        self.compared[check] = self.compared.get(check, 0) + 1
        found, expected = np.asarray(found), np.asarray(expected)
        if (why := _difference(found, expected, tolerance, names.split(" and "))) is not None:
            self.fail(check, sample, why)

    def fail(self, check: str, sample: Sample, why: str) -> None:
        self.failures.append(f"{self.name}: {check} ({sample.described()}): {why}")

    @contextmanager
    def trying(self, check: str, sample: Sample, refusals: tuple[type[Exception], ...]) -> Generator[None]:
        """Note that the op refuses a sample, and fail for any other error."""
        try:
            yield
        except refusals as error:
            self.left_out.append(f"{check} ({sample.described()}): {str(error).splitlines()[0]}")
        except Exception as error:
            self.fail(check, sample, f"{type(error).__name__}: {error}")


def _difference(found: Array, expected: Array, tolerance: float, names: Sequence[str]) -> str | None:
    """What is said of arrays that differ: the element where they do so most, with both values."""
    types = [f"{array.dtype}{list(array.shape)}" for array in (found, expected)]
    if types[0] != types[1]:
        return f"{types[0]} {names[0]} and {types[1]} {names[1]}"
    if not has_floats(found):
        wrong = found != expected
        distance = wrong
    else:
        given, wanted = found.astype(np.float64), expected.astype(np.float64)
        finite = np.abs(wanted[np.isfinite(wanted)])
        with np.errstate(invalid="ignore"):
            distance = np.abs(given - wanted)
            allowed = tolerance * np.maximum(np.abs(wanted), finite.max(initial=1.0))
            wrong = ~((distance <= allowed) | (given == wanted) | (np.isnan(given) & np.isnan(wanted)))
        distance = np.where(wrong, np.nan_to_num(distance, nan=np.inf), -1)
    if not wrong.any():
        return None
    index = np.unravel_index(int(np.argmax(distance)), found.shape)
    where = f"[{', '.join(map(str, index))}] " if found.ndim else ""
    return f"{where}is {found[index]} {names[0]} and {expected[index]} {names[1]} ({int(wrong.sum())} of {found.size})"


def check(
    function: Any,
    *operands: Any,
    reference: Callable[..., Any] | None = None,
    gradient: bool = True,
    tolerance: float = 64.0,
    device: Device | None = None,
    **settings: Any,
) -> Report:
    """Check an op (its class, or its function) or any function of arrays on a call of it, with small arrays.

    - The op's IR verifies, and is the same after it was printed and parsed.
    - The compiled program and the interpreter give results of the inferred types, the same numbers (within `tolerance`
      units of the dtype's precision, relative to the largest element), again when called again, and leave operands as
      they are. `reference(*operands, **settings)`, on NumPy arrays with floats as f64, gives them as well.
    - So it is in the other dtypes that the op declares (f32 and f64, for a function), in other layouts, without
      elements, with operands that are repeated, and with NaN, infinities, the smallest and largest numbers.
    - The gradient is the slope by central differences, in f64 where that is taken, and lies between the slopes to both
      sides where a function changes its case; so are `jvp` and the gradient of the gradient. Not so with
      `gradient=False`, for a rule that is meant to be another.
    - `vmap` over all operands, and over each alone, gives what is given example by example.
    - CUDA text can be made for it, compiles where NVRTC is installed, and gives the same where there is a GPU, or where
      `device(loop_module, inputs)` runs it.

    Raises `CheckError` (an `AssertionError`) that lists what disagrees, and what the call as given raises itself.
    The report says what was compared, and which samples the op refuses.
    """
    sample = _sample(function, operands, settings)
    report = Report(sample.name)
    _check_text(report, sample)
    _check_results(report, sample, reference, tolerance)
    refusals: tuple[type[Exception], ...] = (InferenceError, IndexError)  # x[0] of no elements
    if sample.op is None or issubclass(sample.op, OpaqueOp):
        refusals = (*refusals, TypeError, ValueError)  # a function says so in its own way, as kernels do
    _check_variations(report, sample, reference, tolerance, refusals)
    if gradient:
        wide = _widest(report, sample, refusals)
        _check_derivatives(report, wide)
        for other in at_kinks(wide):
            with report.trying("kinks", other, refusals):
                _check_kinks(report, other)
    if sample.op is None or sample.op.has_trait(Pure):
        _check_batching(report, sample, tolerance)
    _check_cuda(report, sample, tolerance, device)
    if report.failures:
        more = len(report.failures) - _MOST_SHOWN
        shown = [*report.failures[:_MOST_SHOWN], *([f"and {more} more"] if more > 0 else [])]
        raise CheckError("\n".join(shown))
    return report


def _sample(function: Any, operands: Sequence[Any], settings: dict[str, Any]) -> Sample:
    cls = getattr(function, "op", function)
    if not (isinstance(cls, type) and issubclass(cls, TensorOp)):
        if not callable(function):
            raise TypeError(f"check: a {type(function).__name__} is given where an op or a function is needed")
        arrays = map_grouped(_own, [tuple(o) if isinstance(o, list) else o for o in operands])
        return Sample(getattr(function, "__qualname__", type(function).__name__), function, arrays, settings)
    declared, found = cls.SIGNATURE.operands, list(operands)
    if len(found) > len(declared):
        raise TypeError(f"check: {cls.name} has {len(declared)} operands, and {len(found)} are given")
    settings = dict(settings)
    found += [settings.pop(operand.name, None) for operand in declared[len(found) :]]
    return Sample(
        cls.name, cls.apply, map_grouped(_own, [tuple(o) if isinstance(o, list) else o for o in found]), settings, cls
    )


def _widest(report: Report, sample: Sample, refusals: tuple[type[Exception], ...]) -> Sample:
    """The sample in f64, or as it is where that is refused."""
    wide = sample.wide()
    with report.trying("gradient in f64", wide, refusals):
        wide.compiled(*wide.arrays)
        return wide
    return sample


def _own(x: Any) -> Array:
    return np.array(as_array(x))


def _check_text(report: Report, sample: Sample) -> None:
    module = sample.compiled.trace(*sample.arrays).module
    module.verify()
    again = Parser(new_context(), str(module)).parse_module()
    report.compared["text"] = 1
    if not module.is_structurally_equivalent(again):
        report.fail("text", sample, f"printed and parsed, its IR differs:\n{module}\n{again}")


def _check_results(
    report: Report,
    sample: Sample,
    reference: Callable[..., Any] | None,
    tolerance: float,
    check_name: str = "results",
) -> None:
    arrays = sample.arrays
    before = [array.tobytes() for array in arrays]
    main = next(iter(sample.compiled.trace(*arrays).module.ops))
    inferred = [str(type_) for type_ in main.function_type.outputs.data]  # pyright: ignore
    # what a kernel given as text reads and writes, nobody else knows
    is_opaque = sample.op is not None and issubclass(sample.op, OpaqueOp)
    with knobs.override(check_memory=True) if is_opaque else nullcontext():
        results = [np.array(r) for r in sample.compiled(*arrays)]
    again = [np.array(r) for r in sample.compiled(*arrays)]
    with knobs.override(interpret=True):
        interpreted = [np.array(r) for r in sample.compiled(*arrays)]
    for position, (type_, result, repeated, other) in enumerate(
        zip(inferred, results, again, interpreted, strict=True)
    ):
        for how, array in (("compiled", result), ("interpreted", other)):
            if str(array_type(array)) != type_:
                report.fail(check_name, sample, f"result {position} is {array_type(array)} {how}, {type_} is inferred")
        allowed = tolerance * epsilon(result)
        report.same(check_name, sample, result, other, allowed, "compiled and interpreted")
        if result.tobytes() != repeated.tobytes():
            report.fail(check_name, sample, f"result {position} is another one when the program is run again")
    for position, (array, bits) in enumerate(zip(arrays, before, strict=True)):
        if array.tobytes() != bits:
            report.fail(check_name, sample, f"the elements of operand {position} are changed")
    if reference is not None:
        wide = map_grouped(lambda x: x.astype(np.float64) if has_floats(x) else x, sample.operands)
        given = flatten(reference(*wide, **sample.settings))[0]
        for position, (result, expected) in enumerate(zip(results, given, strict=True)):
            expected = np.asarray(expected)
            if expected.shape != result.shape:
                why = f"result {position} is of shape {result.shape}, {expected.shape} in the reference"
                report.fail("reference", sample, why)
                continue
            with np.errstate(all="ignore"):
                known = expected.astype(result.dtype)
            allowed = tolerance * epsilon(result)
            report.same("reference", sample, result, known, allowed, "compiled and of the reference")


def _check_variations(
    report: Report,
    sample: Sample,
    reference: Callable[..., Any] | None,
    tolerance: float,
    refusals: tuple[type[Exception], ...],
) -> None:
    """Compare results for other dtypes, layouts and elements."""
    for check_name, samples in (
        ("dtype", in_other_dtypes(sample)),
        ("layout", in_other_layouts(sample)),
        ("no elements", without_elements(sample)),
        ("extremes", at_extremes(sample)),
    ):
        for other in samples:
            with report.trying(check_name, other, refusals):
                # what a reference makes of overflows in between need not be what is right
                known = reference if check_name in ("dtype", "layout") else None
                _check_results(report, other, known, tolerance, check_name)
    for few, many in broadcasting(sample):
        with report.trying("broadcasting", few, refusals):
            results = zip(few.compiled(*few.arrays), many.compiled(*many.arrays), strict=True)
            for found, expected in results:
                report.same("broadcasting", few, found, expected, tolerance * epsilon(found), "repeated and copied")


def _check_derivatives(report: Report, sample: Sample) -> None:
    derivatives = Derivatives(sample)
    gradients = derivatives.gradients()
    if gradients is None:
        report.left_out.append("gradient: there is none")
        return
    for position, found in zip(derivatives.wanted, gradients, strict=True):
        differences = derivatives.differences(position)
        slopes = differences.where_smooth(found).astype(found.dtype)
        name = f"gradient of operand {position}"
        report.same(name, sample, found, slopes, derivatives.tolerance, "by the rules and by central differences")
    with report.trying("jvp", sample, ()):
        found, below, above = derivatives.along()
        slope = (below + above) / 2
        if abs(above - below) <= 100 * derivatives.step * max(1, abs(slope)):
            report.same("jvp", sample, found, slope, derivatives.tolerance, "by jvp and by central differences")
        else:
            report.left_out.append("jvp: the slopes to both sides differ")
    for position in derivatives.wanted:
        name = f"second derivative of operand {position}"
        if sample.arrays[position].size > _SMALL:
            report.left_out.append(f"{name}: it has more than {_SMALL} elements")
            continue
        with report.trying(name, sample, (TypeError,)):
            found, differences = derivatives.second(position)
            slopes = differences.where_smooth(found).astype(found.dtype)
            report.same(name, sample, found, slopes, derivatives.tolerance, "by the rules and by central differences")


def _check_kinks(report: Report, sample: Sample) -> None:
    """The gradient lies between the slopes to both sides, where these are numbers, or those and slopes beside."""
    derivatives = Derivatives(sample)
    for position, found in zip(derivatives.wanted, derivatives.gradients() or [], strict=False):
        report.compared["kinks"] = report.compared.get("kinks", 0) + 1
        with np.errstate(all="ignore"):
            differences = derivatives.differences(position)
            sides = slopes = differences.sides()
            outside = _outside(found, slopes, 100 * derivatives.step)
            if outside.any():
                slopes = np.concatenate([sides, differences.beside()])
                outside = _outside(found, slopes, (100 + 8 * found.size) * derivatives.step)
        for index in np.argwhere(outside & np.isfinite(sides).all(0))[:1]:
            place = tuple(index)
            between = " and ".join([str(slope) for slope in sides[(slice(None), *place)]])
            why = f"gradient of operand {position} at {index.tolist()} is {found[place]}, slopes are {between}"
            report.fail("kinks", sample, why)


def _outside(found: Array, slopes: Array, slack: float) -> Array:
    """Where what was found is not between slopes, give or take `slack` of the steepest."""
    slack_here = slack * np.maximum(1, np.abs(slopes)).max(0)
    return (found < slopes.min(0) - slack_here) | (found > slopes.max(0) + slack_here) | np.isnan(found)


def _check_batching(report: Report, sample: Sample, tolerance: float) -> None:
    count = len(sample.arrays)
    examples = [[array, array.reshape(-1)[::-1].reshape(array.shape)] for array in sample.arrays]
    choices = [tuple(range(count)), *[(i,) for i in range(count)]] if count > 1 else [(0,)] * min(count, 1)
    for batched in choices:
        axes = tuple([0 if i in batched else None for i in range(count)])
        given = [np.stack(pair) if i in batched else pair[0] for i, pair in enumerate(examples)]
        with report.trying(f"vmap of operands {batched}", sample, ()):
            together = vmap(sample.function, in_axes=axes)(*given)
            alone = [
                sample.compiled(*[pair[k if i in batched else 0] for i, pair in enumerate(examples)]) for k in (0, 1)
            ]
            for position, found in enumerate(together):
                expected = np.stack([results[position] for results in alone])
                allowed = tolerance * epsilon(found)
                name = f"vmap of operands {batched}"
                report.same(name, sample, found, expected, allowed, "for all examples and one by one")


def _check_cuda(report: Report, sample: Sample, tolerance: float, device: Device | None) -> None:
    if sample.op is not None and sample.op.has_trait(CpuOnly):
        report.left_out.append("cuda: the op is for the CPU alone")
        return
    from tenon.lowering.cuda.emit_cuda import emit_cuda, kernels
    from tenon.lowering.cuda.map_to_grid import MapToGridPass
    from tenon.lowering.math.legalize_arith import LegalizeArithPass
    from tenon.runtime.cuda import device_cuda, nvrtc

    with report.trying("cuda", sample, ()):
        module = lower_module(sample.compiled.trace(*sample.arrays).module, "cuda")
        if device is None and device_cuda.why_unavailable() is None:
            on_gpu = jit(lambda *arrays: sample.function(*arrays), device="cuda")
            device = lambda module, inputs: [r.get() for r in on_gpu(*inputs)]  # noqa: E731
        if device is not None:
            found = device(module, sample.arrays)
            for result, expected in zip(found, sample.compiled(*sample.arrays), strict=True):
                report.same("cuda", sample, result, expected, tolerance * epsilon(expected), "as CUDA and compiled")
            return
        mapped = module.clone()
        MapToGridPass().apply(new_context(), mapped)
        LegalizeArithPass().apply(new_context(), mapped)
        text = emit_cuda(mapped)
        report.compared["cuda text"] = 1
        if not kernels(mapped):
            report.left_out.append("cuda: the text is not compiled: there are no kernels in it")
        elif (why := nvrtc.why_unavailable()) is not None:
            report.left_out.append(f"cuda: the text is not compiled: {why}")
        else:
            nvrtc.compile_cubin(text, "sm_90")
            report.compared["cuda text compiled"] = 1
