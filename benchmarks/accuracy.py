"""How exact the elementary functions are: the largest error in units in the last place (ULP), over dense sweeps.

`python benchmarks/accuracy.py` sweeps each function over f32 numbers spread evenly over all bit patterns (every
exponent, subnormal numbers, arguments of sine and cosine as large as there are) and over f64 numbers, and prints the
largest errors of Tenon beside those of NumPy, the C library and PyTorch, as far as these have the function and are
there. `--write FILE` puts the table into a page.

The error is |result - exact| over the distance of neighbouring floats at `exact`. For f32, exact is a float64 result
(SciPy's for erf and gelu); for f64, it is an x87 extended result, or mpmath's. A NaN, or an infinity, that only one of
the two has counts as an infinite error.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.special

import tenon

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]

CHUNK = 1 << 20
STRIDE = 251  # prime: 2^32 / 251 is 17.1 million points
F64_POINTS = 1 << 18
MPMATH_POINTS = 1 << 12


@dataclass(frozen=True)
class Subject:
    """A function, and who computes it: `exact` takes float64, `extended` x87 numbers, `multiple` mpmath's."""

    name: str
    exact: Function
    tenon: Function
    numpy: Function | None = None
    extended: Function | None = None
    multiple: str | None = None
    """An expression of mpmath in `x`, where x87 numbers are not exact enough or have no such function."""
    operands: int = 1


def _sigmoid(x: Any) -> Any:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


SUBJECTS = (
    Subject("exp", np.exp, tenon.exp, np.exp, np.exp),
    Subject("exp2", np.exp2, tenon.exp2, np.exp2, np.exp2),
    Subject("expm1", np.expm1, tenon.expm1, np.expm1, np.expm1),
    Subject("log", np.log, tenon.log, np.log, np.log),
    Subject("log2", np.log2, tenon.log2, np.log2, np.log2),
    Subject("log10", np.log10, tenon.log10, np.log10, np.log10),
    Subject("log1p", np.log1p, tenon.log1p, np.log1p, np.log1p),
    Subject("sin", np.sin, tenon.sin, np.sin, np.sin),
    Subject("cos", np.cos, tenon.cos, np.cos, np.cos),
    Subject("tan", np.tan, tenon.tan, np.tan, np.tan),
    Subject("asin", np.arcsin, tenon.asin, np.arcsin, np.arcsin),
    Subject("acos", np.arccos, tenon.acos, np.arccos, np.arccos),
    Subject("atan", np.arctan, tenon.atan, np.arctan, np.arctan),
    Subject("atan2", np.arctan2, tenon.atan2, np.arctan2, np.arctan2, operands=2),
    Subject("sinh", np.sinh, tenon.sinh, np.sinh, np.sinh),
    Subject("cosh", np.cosh, tenon.cosh, np.cosh, np.cosh),
    Subject("asinh", np.arcsinh, tenon.asinh, np.arcsinh, np.arcsinh),
    Subject("acosh", np.arccosh, tenon.acosh, np.arccosh, np.arccosh),
    Subject("atanh", np.arctanh, tenon.atanh, np.arctanh, np.arctanh),
    Subject("cbrt", np.cbrt, tenon.cbrt, np.cbrt, np.cbrt),
    Subject("tanh", np.tanh, tenon.tanh, np.tanh, np.tanh),
    Subject("erf", scipy.special.erf, tenon.erf, scipy.special.erf, multiple="erf(x)"),
    Subject("erfc", scipy.special.erfc, tenon.erfc, scipy.special.erfc, multiple="erfc(x)"),
    Subject("sigmoid", _sigmoid, tenon.sigmoid, scipy.special.expit, _sigmoid),
    Subject("gelu", lambda x: x * scipy.special.ndtr(x), tenon.gelu, multiple="x * erfc(-x / sqrt(2)) / 2"),
    Subject("pow", np.power, tenon.power, np.power, np.power, operands=2),
)


def evenly_spread(count: int, stride: int, kind: type[Any]) -> Iterator[Array]:
    """Floats of the type `kind` at every `stride`-th bit pattern, in chunks."""
    unsigned = np.dtype(f"u{np.dtype(kind).itemsize}")
    for start in range(0, count, CHUNK):
        number = np.arange(start, min(start + CHUNK, count), dtype=np.uint64)
        chunk = (number * np.uint64(stride)).astype(unsigned).view(kind)
        yield np.where(np.isnan(chunk), np.nan, chunk).astype(kind)  # signalling ones give what they like


def exponents_for(base: Array, largest: float) -> Array:
    """Exponents for `base`: half of them give results of every magnitude, and one in four is a whole number."""
    random = np.random.default_rng(zlib.crc32(base.tobytes()))
    wanted = random.uniform(-largest - 30, largest + 2, base.size)
    with np.errstate(all="ignore"):
        scaled = wanted / np.log2(np.abs(base.astype(np.float64)))
    free = np.exp(random.uniform(-20, 20, base.size)) * random.choice([-1.0, 1.0], base.size)
    chosen = np.where(np.arange(base.size) % 2 == 0, scaled, free)
    chosen = np.where(np.arange(base.size) % 4 == 1, random.integers(-40, 40, base.size), chosen)
    return np.where(np.isfinite(chosen), chosen, 1.0).astype(base.dtype)


def abscissas_for(ordinate: Array) -> Array:
    """Abscissas for `ordinate`: three of four are of like magnitude, the others of any."""
    random = np.random.default_rng(zlib.crc32(ordinate.tobytes()))
    factor = np.exp(random.normal(size=ordinate.size) * 3) * random.choice([-1.0, 1.0], ordinate.size)
    with np.errstate(all="ignore"):
        like = ordinate * factor.astype(ordinate.dtype)
    return np.where(np.arange(ordinate.size) % 4 == 0, random.permutation(ordinate), like)


def arguments(subject: Subject, chunk: Array) -> tuple[Array, ...]:
    """The operands for a chunk of the sweep."""
    if subject.operands == 1:
        return (chunk,)
    if subject.name == "atan2":
        return chunk, abscissas_for(chunk)
    return chunk, exponents_for(chunk, 1024 if chunk.itemsize == 8 else 128)


def errors(result: Array, exact: Array) -> Array:
    """Distances from the exact results in ULP of the type of `result`."""
    kind = np.finfo(result.dtype)
    with np.errstate(all="ignore"):
        rounded = exact.astype(result.dtype)
        _, exponent = np.frexp(exact)
        ulp = np.ldexp(np.ones_like(exact), np.maximum(exponent - 1, kind.minexp) - kind.nmant)
        distance = np.abs(result.astype(exact.dtype) - exact) / ulp
    same = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
    both_finite = np.isfinite(result) & np.isfinite(rounded)
    return np.where(same & ~both_finite, 0, np.where(both_finite, distance, np.inf)).astype(np.float64)


@dataclass
class Worst:
    """The largest error so far, and where it is."""

    error: float = 0.0
    at: tuple[float, ...] = ()

    def see(self, result: Any, exact: Array, operands: tuple[Array, ...]) -> None:
        found = errors(np.asarray(result), exact)
        worst = int(np.argmax(found))
        if found[worst] > self.error:
            self.error, self.at = float(found[worst]), tuple([float(operand[worst]) for operand in operands])


@dataclass
class Competitors:
    """Who else computes the functions."""

    folder: str = field(default_factory=tempfile.mkdtemp)

    @cached_property
    def library(self) -> ctypes.CDLL | None:
        """Loops over the C library's functions, `None` where there is no compiler."""
        compiler = shutil.which("cc")
        if compiler is None:
            return None
        names = {subject.name: subject.operands for subject in SUBJECTS if subject.name not in ("sigmoid", "gelu")}
        lines = ["#include <math.h>"]
        for name, operands in names.items():
            call = f"{name}f(x[i])" if operands == 1 else f"{name}f(x[i], y[i])"
            lines.append(f"void all_{name}(const float *x, const float *y, float *z, long n)")
            lines.append(f"{{ for (long i = 0; i < n; ++i) z[i] = {call}; }}")
        source, target = Path(self.folder, "functions.c"), Path(self.folder, "functions.so")
        source.write_text("\n".join(lines))
        command = [compiler, "-O2", "-fno-builtin", "-shared", "-fPIC", str(source), "-o", str(target), "-lm"]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(target))

    def c_library(self, subject: Subject) -> Function | None:
        """The C library's function on f32 arrays."""
        loop = getattr(self.library, f"all_{subject.name}", None) if self.library else None
        if loop is None:
            return None

        def function(x: Array, y: Array | None = None) -> Array:
            z, second = np.empty_like(x), x if y is None else y
            loop(*[ctypes.c_void_p(a.ctypes.data) for a in (x, second, z)], ctypes.c_long(x.size))
            return z

        return function

    @staticmethod
    def torch(subject: Subject) -> Function | None:
        """PyTorch's function on arrays."""
        torch = _torch()
        if torch is None:
            return None
        function = torch.nn.functional.gelu if subject.name == "gelu" else getattr(torch, subject.name, None)
        return function and (lambda *arrays: function(*[torch.from_numpy(a) for a in arrays]).numpy())


@cache
def _torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return torch


def sweep_f32(subject: Subject, competitors: Competitors, stride: int) -> tuple[int, dict[str, Worst]]:
    """The number of points, and the largest error of each who computes the function in f32."""
    functions: dict[str, Function | None] = {
        "tenon": tenon.jit(subject.tenon),
        "numpy": subject.numpy,
        "C library": competitors.c_library(subject),
        "torch": competitors.torch(subject),
    }
    worst = {name: Worst() for name, function in functions.items() if function is not None}
    points = 2**32 // stride
    for chunk in evenly_spread(points, stride, np.float32):
        operands = arguments(subject, chunk)
        with np.errstate(all="ignore"):
            exact = np.asarray(subject.exact(*[operand.astype(np.float64) for operand in operands]))
            for name, record in worst.items():
                function = functions[name]
                assert function is not None
                record.see(function(*operands), exact, operands)
    return points, worst


def _in_mpmath(expression: str, x: Array) -> Array:
    import mpmath

    names = {name: getattr(mpmath, name) for name in ("erf", "erfc", "sqrt")}
    with mpmath.workprec(200):
        results = [eval(expression, {**names, "x": mpmath.mpf(float(v))}) for v in x]
        parts = [(float(r), float(r - float(r)) if mpmath.isfinite(r) else 0.0) for r in results]
    return np.array([np.longdouble(high) + np.longdouble(low) for high, low in parts])


def sweep_f64(subject: Subject, count: int = F64_POINTS) -> dict[str, Worst]:
    """The largest errors in f64, of Tenon and of NumPy, over fewer points: `count` of each kind, fewer in mpmath."""
    functions = {"tenon": tenon.jit(subject.tenon), "numpy": subject.numpy}
    worst = {name: Worst() for name, function in functions.items() if function is not None}
    points = count if subject.multiple is None else min(count, MPMATH_POINTS)
    random = np.random.default_rng(0)
    bits = random.integers(0, 2**64, points, np.uint64, endpoint=False).view(np.float64)
    farthest = 800 if subject.multiple is None else 40
    spread = [random.uniform(-1, 1, points // 2), random.uniform(-farthest, farthest, points // 4), bits]
    near = np.concatenate([random.normal(size=points) * 3, *spread])
    x = near[~np.isnan(near)]
    if subject.multiple is not None:
        x = x[np.abs(x) < 1e3]
    operands = arguments(subject, x)
    with np.errstate(all="ignore"):
        if subject.multiple is not None:
            exact = _in_mpmath(subject.multiple, x)
        else:
            assert subject.extended is not None
            exact = np.asarray(subject.extended(*[operand.astype(np.longdouble) for operand in operands]))
        for name, record in worst.items():
            function = functions[name]
            assert function is not None
            record.see(function(*operands), exact, operands)
    return worst


def _shown(record: Worst | None) -> str:
    return "" if record is None else f"{record.error:.2f}"


HEADER = """\
| function | points (f32) | Tenon | NumPy | C library | PyTorch | Tenon's worst at | Tenon (f64) | NumPy (f64) |
|---|---|---|---|---|---|---|---|---|"""


def row(subject: Subject, competitors: Competitors, stride: int) -> str:
    """A line of the table."""
    points, f32 = sweep_f32(subject, competitors, stride)
    f64 = sweep_f64(subject)
    columns = [_shown(f32.get(name)) for name in ("tenon", "numpy", "C library", "torch")]
    at = ", ".join(f"{np.float32(v)!s}" for v in f32["tenon"].at)
    wide = [_shown(f64.get(name)) for name in ("tenon", "numpy")]
    return " | ".join([f"| {subject.name}", f"{points:,}", *columns, at, *wide]) + " |"


PAGE = """\
# Accuracy

The largest error of each function in units in the last place (ULP): the distance from the exact result over that of
neighbouring floats there. `python benchmarks/accuracy.py --write docs/accuracy.md` measures this table, over f32
numbers spread evenly over all bit patterns: every exponent, subnormal numbers, and arguments of sine and cosine as
large as there are. A power gets exponents that make results of every magnitude, and whole ones. The columns
for f64 are over {f64:,} numbers and more ({multiple:,} for erf, erfc and gelu, whose exact results need mpmath).
NumPy's column has SciPy's function where NumPy has none.

SciPy's and PyTorch's sigmoid is 0 below -88.7, where the exact result is subnormal, and so is SciPy's erfc in f64 above
26.64; PyTorch's gelu overflows from 1.7e38 on, and its sinh and cosh before their results do.

{table}

On the CPU, all functions are inline arithmetic, the same for scalars and vectors. Left to the C library are sines and
cosines of arguments from 2^30 on, tangents of those from 2^16 on in f32 and from 2^30 on in f64, and powers in f64 of
numbers that are zero, subnormal, infinite or NaN, or that are of such magnitudes; and all of f64 on processors without
fused multiply-adds. On a GPU, CUDA's mathematical library takes the place of the inline arithmetic and of the C
library; the table does not measure it. Exponentials, hyperbolic tangents, square roots and quotients of which all that
becomes is rounded to f16 or bf16, with nothing on the way that cancels, are approximated there by its instructions, to
2^-17 and better: a result is within 0.51 ULP of these types. So is gelu of them everywhere, by a formula shorter than
that of f32.

On the CPU, what divides many elements by one number (each row of a softmax by its sum, or by a norm) multiplies by its
reciprocal where no element can overflow or vanish for it, and is within 1.5 ULP; all other quotients are within 0.5.

Derivatives are exact to 6 ULP in f64, and values to 4, but for those that `tests/unit/test_values_and_slopes.py` lists
with their reasons: where a function crosses 0 the error is small against 1, as are those of the derivatives of tanh and
sigmoid, which are computed from the result; and in exp(-x^2) the rounding of x^2 counts x^2 times. Remainders of
division are exact at any quotient.

Long sums, means, contractions and norms are sums of sums, in whatever order their loops run: 50,000,000 equal f32 (0.1)
add up to within 5e-7, also in rows and columns, and in products of matrices within 4e-6 (NumPy: 2e-7 for the sum, 1e-1
down columns, 8e-5 in products; PyTorch: 8e-7, 9e-7 and 4e-5). Running sums add one element after the other.

Convolutions whose windows have three rows are computed by minimal filtering where that is faster. In f32 its largest
error is 1.1e-6 of the largest result, and 0.9e-6 for the sum itself (64 channels). An infinity or a NaN of the image
reaches up to three more rows of the result there; `TENON_MINIMAL_FILTERING=0`, or the option `filtering=false` of the
passes `layout` and `canonicalize`, leaves the sum as it is.

A causal mask, or that of a sliding window, hides columns from whole strips of rows, which are then not computed. That
is exact where `select(mask, scores, -inf)` hides them: what the scores are does not matter, and a row that sees nothing
is NaN. The weights there are zero, and what they are multiplied by is taken to be finite: an infinity or a NaN in a row
of the values, or of their cotangent, does not become a NaN in the strips that see nothing of it. `TENON_SKIP_MASKED=0`
computes everything. A mask that is added hides nothing, since `x + -inf` is NaN for an `x` that is NaN or infinite; nor
does one that selects a large finite number, or one that is an argument of the function.

Weights of an attention, terms of `logsumexp`, and of losses by classes, that are below 2^-103 of the largest of their
row (2^-970 in f64) are taken for 0 on the CPU, where nothing but sums reads them: a million of them do not show beside
that one, unless what they are multiplied by is 2^60 times as large. Subnormal numbers take some processors a hundred
times as long. A softmax whose weights are a result keeps them.

Products of bf16, and of bf16 cast to f32, are exact in f32 and added up there. Contractions of eight rows or more use
the processor's instruction for pairs of them where it has one (x86 `vdpbf16ps`), as oneDNN and PyTorch do: its
additions round to nearest even, and subnormal numbers, operands and sums, are taken for 0. `TENON_BF16_DOTS=0`, or
the option `dots` of the pass `schedule` without `bf16`, computes with f32's multiply-adds instead, which know subnormal
numbers. Results are rounded to bf16 once, subnormal ones as well. Products of i8 and ui8 cast to i32 are exact either
way.
"""


def main() -> None:
    """Print the table, and write it into a page if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("functions", nargs="*", help="names of functions; all by default")
    parser.add_argument("--stride", type=int, default=STRIDE, help="one in how many f32 numbers is taken")
    parser.add_argument("--write", type=Path, help="the page to write")
    options = parser.parse_args()
    competitors = Competitors()
    chosen = [subject for subject in SUBJECTS if not options.functions or subject.name in options.functions]
    lines = [HEADER]
    print(HEADER, flush=True)
    for subject in chosen:
        lines.append(row(subject, competitors, options.stride))
        print(lines[-1], flush=True)
    if options.write is not None:
        options.write.write_text(PAGE.format(f64=F64_POINTS, multiple=MPMATH_POINTS, table="\n".join(lines)))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
