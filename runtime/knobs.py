"""Every environment variable that Tenon reads, typed and documented in one place.

`knobs` reads the environment at each access, so a change of `os.environ` takes effect with what is compiled next: code
that a function was compiled to before stays in use. `knobs.override` sets values for a block of code, in the whole
process, and holds for functions that were compiled before as well: `knobs.code_settings` is part of what tells their
signatures apart. A value that is not accepted raises `ValueError` where it is read.
Reading costs about a microsecond: read a knob while compiling, not in every call of a compiled function.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, NoReturn, Self, TypeVar, overload

from tenon.dialects.support.suggestion import did_you_mean
from tenon.runtime.epoch import expire

_Value = TypeVar("_Value")


class Knob(Generic[_Value]):
    """One setting: the variable that carries it, its default, what it accepts and what it does.

    `parse` turns the text of the variable into the value and raises `ValueError` for text that is not accepted.
    """

    name: str

    def __init__(
        self,
        variable: str,
        parse: Callable[[str], _Value],
        default: Callable[[], _Value],
        *,
        accepts: str,
        default_text: str,
        effect: str,
        decides_code: bool = False,
    ) -> None:
        self.variable = variable
        self.accepts = accepts
        self.default_text = default_text
        self.effect = effect
        self.decides_code = decides_code
        self._parse = parse
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Knobs, owner: type) -> _Value: ...
    def __get__(self, instance: Knobs | None, owner: type) -> Self | _Value:
        if instance is None:
            return self
        overrides = instance.overrides
        if self.name in overrides:
            return overrides[self.name]
        text = os.environ.get(self.variable, "")
        return self.parse(text) if text else self._default()

    def __set__(self, instance: Knobs, value: _Value) -> NoReturn:
        raise AttributeError(f"knobs.{self.name} is read-only: set {self.variable} or use knobs.override")

    def parse(self, text: str) -> _Value:
        """The value that `text` stands for; raise `ValueError` with the variable, the text and what is accepted."""
        try:
            return self._parse(text)
        except ValueError:
            raise ValueError(f"{self.variable} is {text!r}, expected {self.accepts}") from None

    def convert(self, value: object) -> _Value:
        """The value that a Python `value` stands for: `None` is the default, all else goes through its text."""
        return self._default() if value is None else self.parse(str(value))


def _boolean(text: str) -> bool:
    match text.lower():
        case "1" | "true" | "yes" | "on":
            return True
        case "0" | "false" | "no" | "off":
            return False
        case _:
            raise ValueError(text)


def _flag(variable: str, effect: str, *, default: bool = False, decides_code: bool = False) -> Knob[bool]:
    return Knob(
        variable,
        _boolean,
        lambda: default,
        accepts="1, 0, true, false, yes, no, on or off",
        default_text=str(int(default)),
        effect=effect,
        decides_code=decides_code,
    )


def _decision(variable: str, effect: str) -> Knob[bool]:
    """A flag that is set unless it says no, and decides what code is made."""
    return _flag(variable, effect, default=True, decides_code=True)


def _check(variable: str, effect: str) -> Knob[str]:
    return Knob(
        variable,
        _choice("nan", "finite", ""),
        str,
        accepts="`nan`, or `finite` for infinities as well",
        default_text="unset: nothing",
        effect=effect,
        decides_code=True,
    )


def _choice(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(text)
        return text

    return parse


def _integer(minimum: int, maximum: int | None = None) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if value < minimum or (maximum is not None and value > maximum):
            raise ValueError(text)
        return value

    return parse


def _megabytes(variable: str, default: int, effect: str) -> Knob[int]:
    accepts = "an integer of at least 0"
    return Knob(variable, _integer(0), lambda: default, accepts=accepts, default_text=str(default), effect=effect)


def _vector_bits(text: str) -> int:
    return int(_choice("128", "256", "512")(text))


def _words(text: str) -> str:
    words = sorted({word.strip() for word in text.split(",")} - {""})
    if not all(word.isidentifier() for word in words):
        raise ValueError(text)
    return ",".join(words)


def _features(text: str) -> str:
    features = [feature.strip() for feature in text.split(",")]
    if not all(feature[:1] in ("+", "-") and feature[1:] for feature in features):
        raise ValueError(text)
    return ",".join(features)


def _path(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        # there is no such user, or none who has a home
        raise ValueError(text) from error


def _path_or_none(text: str) -> Path | None:
    with suppress(ValueError):
        return _path(text)
    return None


def _default_cache_dir() -> Path | None:
    # The XDG base directory specification says that a relative path is invalid and must be ignored.
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return base / "tenon" if base.is_absolute() else _path_or_none("~/.cache/tenon")


def _identity(value: Any) -> Any:
    """What tells a value of a knob from others: of a path, which file is there as well."""
    if not isinstance(value, Path):
        return value
    try:
        status = value.stat()
    except OSError:
        return value
    return str(value), status.st_ino, status.st_mtime_ns, status.st_size


def _optional(parse: Callable[[str], _Value]) -> Callable[[str], _Value | None]:
    return parse


def _unset() -> None:
    return None


class Knobs:
    """The settings of this process; use the one instance, `knobs`."""

    overrides: dict[str, Any]
    code_settings: tuple[tuple[str, Any], ...]
    """The overrides that decide what code is made, as names and what tells values apart: hashable, and read in no time.

    A file that is written again is another one for blocks that begin afterwards.
    """

    debug = Knob(
        "TENON_DEBUG",
        _integer(0, 4),
        lambda: 0,
        accepts="an integer from 0 to 4",
        default_text="0",
        effect="what is reported on stderr: 1 executables, 2 also the time of each pass and each input that is copied, "
        "3 also the loop IR, 4 also the IR after every pass",
    )
    dump_ir = Knob(
        "TENON_DUMP_IR",
        _optional(_path),
        _unset,
        accepts="a directory",
        default_text="unset",
        effect="write the IR after every pass to a file of its own in this directory",
    )
    verify = _flag("TENON_VERIFY", "verify the IR after every pass, to find the pass that breaks it")
    log_compiles = _flag("TENON_LOG_COMPILES", "say on stderr what was compiled and why a recompile happened")
    interpret = _flag("TENON_INTERPRET", "run the IR with NumPy instead of compiling it", decides_code=True)
    cache = _flag("TENON_CACHE", "keep compiled kernels on disk and reuse them", default=True)
    cache_dir = Knob(
        "TENON_CACHE_DIR",
        _path_or_none,
        _default_cache_dir,
        accepts="a directory",
        default_text="$XDG_CACHE_HOME/tenon or ~/.cache/tenon",
        effect="where compiled kernels are kept; nowhere if that is not known, such as below a home of nobody",
    )
    cache_limit_mb = _megabytes(
        "TENON_CACHE_LIMIT_MB", 1024, "size of the cache in MB above which the entries unused for longest are removed"
    )
    result_pool_mb = _megabytes(
        "TENON_RESULT_POOL_MB", 512, "memory of large results that are gone, kept for those that come next; read once"
    )
    check_results = _check(
        "TENON_CHECK_RESULTS", "check what each op of a program gives, and raise an error that names op and line"
    )
    check_gradients = _check(
        "TENON_CHECK_GRADIENTS", "check each gradient, and raise an error that names the line of the forward pass"
    )
    check_memory = _flag(
        "TENON_CHECK_MEMORY",
        "run CPU kernels on copies between pages that must not be touched, and raise an error that names the buffer "
        "where one reads or writes beyond it, or uses what was freed",
        decides_code=True,
    )
    vector_bits = Knob(
        "TENON_VECTOR_BITS",
        _optional(_vector_bits),
        _unset,
        accepts="128, 256 or 512",
        default_text="unset: the widest the target has",
        effect="width of the vectors in CPU kernels",
        decides_code=True,
    )
    target_cpu = Knob(
        "TENON_TARGET_CPU",
        _optional(str),
        _unset,
        accepts="a processor name of LLVM",
        default_text="unset: this machine's",
        effect="processor that CPU kernels are compiled for, such as `znver4`",
        decides_code=True,
    )
    target_features = Knob(
        "TENON_TARGET_FEATURES",
        _optional(_features),
        _unset,
        accepts="names of LLVM's features, each with + or - in front, such as `+avx2,-avx512f`",
        default_text="unset: this machine's",
        effect="features that CPU kernels may use beside those of the processor (`+`), or may not use (`-`)",
        decides_code=True,
    )
    exact_math = Knob(
        "TENON_EXACT_MATH",
        _words,
        str,
        accepts="functions of `math` separated by commas, such as `exp,powf`",
        default_text="unset: none",
        effect="functions that CPU kernels compute in f64 and round once where they are of f32, and leave to the C "
        "library where they are of f64, instead of within 2.5 ULP (see the pass `expand-math`)",
        decides_code=True,
    )
    minimal_filtering = _decision(
        "TENON_MINIMAL_FILTERING",
        "convolve windows of three rows with fewer products, where that is faster; 0 keeps an infinity or a NaN of the "
        "image to the windows that have it",
    )
    skip_masked = _decision(
        "TENON_SKIP_MASKED",
        "leave out what causal and sliding masks hide; 0: infinities and NaNs there are multiplied by zero",
    )
    bf16_dots = _decision(
        "TENON_BF16_DOTS",
        "multiply bf16 by instructions for pairs and tiles, which take subnormals for 0, if there are some; 0: in f32",
    )
    tf32 = _flag("TENON_TF32", "let a GPU multiply matrices of f32 by 11 significant bits (tf32)", decides_code=True)
    deterministic = _decision(
        "TENON_DETERMINISTIC",
        "give results on a GPU that are the same bits in each call; 0 lets threads add floats at computed places in "
        "whatever order they come, without sorting",
    )
    cublas = _decision(
        "TENON_CUBLAS", "let cuBLAS, if it is installed, multiply matrices on a GPU where that is known to be faster"
    )
    cuda_graphs = _flag("TENON_CUDA_GRAPHS", "launch calls on the same memory of a GPU as CUDA graphs", default=True)
    cuda_sync = _flag("TENON_CUDA_SYNC", "wait for each kernel on a GPU, so that errors name the one that failed")
    traceback = Knob(
        "TENON_TRACEBACK",
        _choice("user", "full"),
        lambda: "user",
        accepts="`user` or `full`",
        default_text="user: frames of the program alone",
        effect="whether tracebacks of errors that were raised on purpose show Tenon's own frames as well",
    )
    num_threads = Knob(
        "TENON_NUM_THREADS",
        _optional(_integer(1, 1024)),
        _unset,
        accepts="an integer from 1 to 1024",
        default_text="unset: one for each processor that the process may use",
        effect="threads that CPU kernels run on, until `tenon.set_num_threads` is called",
    )
    tuning = Knob(
        "TENON_TUNING",
        _optional(_path),
        _unset,
        accepts="a tuning record, as `tenon tune` writes it",
        default_text="unset: the cost model alone",
        effect="take the schedules of kernels from this file where it has some for their structure and processor",
        decides_code=True,
    )
    reproducible = _flag(
        "TENON_REPRODUCIBLE",
        "choose schedules by nothing that depends on the day: refuse to measure, and to go on with a tuning record "
        "that has nothing for this processor",
        decides_code=True,
    )

    def __init__(self) -> None:
        self._use({})

    @classmethod
    def all(cls) -> tuple[Knob[Any], ...]:
        """Every knob, in the order of the documentation."""
        return tuple(knob for knob in vars(cls).values() if isinstance(knob, Knob))

    def _use(self, overrides: dict[str, Any]) -> None:
        self.overrides = overrides
        self.code_settings = tuple(
            (knob.name, _identity(overrides[knob.name]))
            for knob in self.all()
            if knob.decides_code and knob.name in overrides
        )
        expire()

    @contextmanager
    def override(self, **values: object) -> Generator[Knobs]:
        """Set knobs by attribute name, `with knobs.override(debug=2): ...`, in all threads until the block ends.

        `None` stands for the default. Raise `TypeError` for a name that no knob has and `ValueError` for a value that
        the knob does not accept, before anything is changed.
        """
        by_name = {knob.name: knob for knob in self.all()}
        if unknown := sorted(values.keys() - by_name.keys()):
            meant = did_you_mean(unknown[0], by_name)
            raise TypeError(f"no knob is named {', '.join(unknown)}{meant}; there are {', '.join(by_name)}")
        converted = {name: by_name[name].convert(value) for name, value in values.items()}
        previous = self.overrides
        self._use(previous | converted)
        try:
            yield self
        finally:
            self._use(previous)


knobs = Knobs()


def render_table() -> str:
    """The knobs as a Markdown table: variable, attribute, accepted values, default and effect."""
    rows = [("Variable", "Attribute", "Accepts", "Default", "Effect"), ("---",) * 5]
    rows += [
        (f"`{knob.variable}`", f"`knobs.{knob.name}`", knob.accepts, knob.default_text, knob.effect)
        for knob in Knobs.all()
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
