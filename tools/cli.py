"""`tenon`: run, compile and look at programs from the command line."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import wraps
from pathlib import Path
from typing import IO, Any

import click
import ml_dtypes
import numpy as np


class UserError(click.ClickException):
    """An error in what the user gave; printed as one message, exit status 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"tenon: error: {self.format_message()}", err=True)


class InternalError(UserError):
    """A fault of Tenon itself; printed as one message, exit status 70."""

    exit_code = 70


def reported(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn errors into messages. With `TENON_DEBUG` they keep their traceback."""
    from xdsl.utils.exceptions import DiagnosticException, ParseError

    from tenon.runtime.knobs import knobs
    from tenon.tools.output import discard_output

    @wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except click.exceptions.ClickException:
            raise
        except BrokenPipeError:
            discard_output()
            sys.exit(1)
        except Exception as error:
            if knobs.debug:
                raise
            expected = ValueError, TypeError, ArithmeticError, OSError, RuntimeError, ImportError
            if isinstance(error, (*expected, DiagnosticException, ParseError)):
                raise UserError(_message(error)) from None
            what = f"{type(error).__name__}: {_message(error)}"
            raise InternalError(f"{what}\nthis is a fault in tenon; TENON_DEBUG=1 shows where") from None

    return wrapper


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}" if error.filename else error.strerror.lower()
    return "\n".join([str(error).strip() or type(error).__name__, *getattr(error, "__notes__", ())])


def read_module(path: str) -> Any:
    """The verified module in a file (`-` for standard input)."""
    from xdsl.parser import Parser

    from tenon.passes.dominance import check_dominance
    from tenon.runtime.lower import new_context

    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text()
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is not text") from None
    module = Parser(new_context(), text, "<stdin>" if path == "-" else path).parse_module()
    module.verify()
    check_dominance(module)
    return module


def parse_argument(spec: str) -> list[np.ndarray[Any, Any]]:
    """The arrays that one `--args` entry stands for; see the help of `tenon run`."""
    kind, _, rest = spec.partition(":")
    if kind in ("zeros", "ones", "random", "iota") and rest:
        return [_generated(kind, rest)]
    path = Path(spec)
    if path.suffix in (".npy", ".npz"):
        return _loaded(path)
    try:
        number = float(spec)
    except ValueError:
        raise ValueError(
            f"argument {spec!r} is neither a .npy or .npz file, nor a number, nor like random:4x3xf32"
        ) from None
    return [np.asarray(int(spec) if spec.lstrip("+-").isdigit() else number)]


def _loaded(path: Path) -> list[np.ndarray[Any, Any]]:
    try:
        with path.open("rb") as file:
            if path.suffix == ".npy":
                return [np.load(file, allow_pickle=False)]
            with np.load(file, allow_pickle=False) as archive:
                return [archive[name] for name in archive.files]
    except (ValueError, EOFError, zipfile.BadZipFile):
        # NumPy advises to allow pickles, which would run whatever code is in the file.
        raise ValueError(f"{path} is not a {path.suffix} file of numbers") from None


def _generated(kind: str, text: str) -> np.ndarray[Any, Any]:
    from tenon.dialects.types import element_type, numpy_dtype

    text, _, seed = text.partition(":")
    *sizes, dtype = text.split("x")
    try:
        shape, element = tuple(int(s) for s in sizes), numpy_dtype(element_type(dtype))
        generator = np.random.default_rng(int(seed or "0"))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{kind}:{text}: {error}; write shape and dtype like {kind}:4x3xf32") from None
    count = int(np.prod(shape))
    if kind == "random":
        integral = element.kind in "ib"
        values = (
            generator.integers(0, 2 if element.kind == "b" else 10, count)
            if integral
            else generator.standard_normal(count)
        )
    else:
        values = {"zeros": np.zeros, "ones": np.ones, "iota": np.arange}[kind](count)
    return values.astype(element).reshape(shape)


@click.group()
@click.version_option(package_name="tenon", prog_name="tenon")
@click.option("--ops", multiple=True, metavar="FILE.py", help="Import ops of your own from this Python file first.")
@reported
def main(ops: tuple[str, ...]) -> None:
    """Tenon: define a tensor op once, run it everywhere."""
    from tenon.runtime.user_ops import import_ops

    for file in ops:
        import_ops(file)


@main.command()
@click.argument("file")
@click.option("--args", "arguments", multiple=True, help="An argument of @main; repeat it, or separate by commas.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Save results: .npy or .npz.")
@click.option("--device", default="cpu", show_default=True, type=click.Choice(["cpu", "cuda"]))
@click.option("--interpret", is_flag=True, help="Run on the NumPy interpreter instead of compiling.")
@reported
def run(file: str, arguments: tuple[str, ...], output: Path | None, device: str, interpret: bool) -> None:
    """Run @main of FILE (.mlir at any stage, `-` for standard input) and print or save its results.

    Arguments are .npy files, .npz files (every array in it, in order), numbers, or generated arrays: `random:4x3xf32`
    (`random:4x3xf32:7` for seed 7), `zeros:…`, `ones:…`, `iota:…`.
    """
    from tenon.runtime.dynamic import executable_for_all_sizes
    from tenon.runtime.executables import executable
    from tenon.runtime.knobs import knobs

    if output is not None and output.suffix not in (".npy", ".npz"):
        raise ValueError(f"output {output} ends neither in .npy nor in .npz")
    if output is not None and not output.parent.is_dir():
        raise ValueError(f"{output}: there is no folder {output.parent}")
    module = read_module(file)
    given = [a for spec in arguments for part in spec.split(",") for a in parse_argument(part)]
    given = fit_arguments(module, given)
    count = results_of(module)
    name = Path(file).stem if file != "-" else "main"
    if output is not None and output.suffix == ".npy" and count != 1:
        raise ValueError(f"{count} results do not fit into {output}; use .npz")
    with knobs.override(interpret=interpret or knobs.interpret):
        compiled = executable_for_all_sizes(module, device, name, [array.shape for array in given])
        if compiled is None:
            specialize_to(module, given)
            compiled = executable(module, device, name)
    results = [np.asarray(r.get() if hasattr(r, "get") else r) for r in compiled.run(given)]
    if output is None:
        for position, result in enumerate(results):
            click.echo(f"result {position}: {result.dtype}{list(result.shape)}")
            click.echo(np.array2string(result, threshold=1000))
        return
    save(output, results)


def save(output: Path, results: Sequence[np.ndarray[Any, Any]]) -> None:
    """Write arrays to a .npy or .npz file (there `result0`, `result1`, …); bf16, which neither knows, becomes f32."""
    kept: list[Any] = [r.astype(np.float32) if r.dtype == ml_dtypes.bfloat16 else r for r in results]
    from tenon.runtime.files import replacing

    with replacing(output) as temporary:
        if output.suffix == ".npy":
            np.save(temporary, kept[0])
        else:
            np.savez(temporary, **{f"result{i}": r for i, r in enumerate(kept)})


def results_of(module: Any) -> int:
    """The number of results of `@main`, whatever the stage."""
    from tenon.runtime.interface import main_function

    main = main_function(module)
    count: Any = main.attributes.get("num_outputs")
    return len(main.function_type.outputs) if count is None else count.value.data


def fit_arguments(module: Any, given: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """`given` checked against the parameters of `@main`, and numbers converted to their dtypes.

    Raises `ValueError` naming the parameter, what it takes and what was given.
    """
    from xdsl.dialects.builtin import IndexType

    from tenon.dialects.types import array_type, element_of, numpy_dtype
    from tenon.runtime.arguments import as_array
    from tenon.runtime.interface import Interface, main_function

    main = main_function(module)
    names = [a.name_hint or str(i) for i, a in enumerate(main.body.block.args)]
    types: list[Any] = list(main.function_type.inputs)
    if "num_inputs" in main.attributes:
        types = types[: len(Interface.of(module).inputs)]
    if any(isinstance(t, IndexType) for t in types):
        raise ValueError("@main takes sizes as arguments; run what it was made from: the file at the tensor stage")
    if len(given) != len(types):
        raise ValueError(f"@main takes {len(types)} arguments ({', '.join(map(str, types))}), got {len(given)}")
    fitted: list[np.ndarray[Any, Any]] = []
    for name, type_, array in zip(names, types, given, strict=False):
        wanted = numpy_dtype(type_.element_type)
        array = as_array(array, f"argument {name} of @main")
        is_exact = wanted == ml_dtypes.bfloat16 and array.dtype == np.float32
        if array.dtype != wanted and (array.ndim == 0 or is_exact):
            array = array.astype(wanted)
        have = array_type(array)
        if not _fits(type_, array):
            raise ValueError(f"argument {name} of @main is {type_}, got {element_of(have)}{list(array.shape)}")
        fitted.append(array)
    return fitted


def specialize_to(module: Any, given: Sequence[np.ndarray[Any, Any]]) -> None:
    """Let unknown dimensions of a module on tensors take the sizes of the arguments."""
    from tenon.dialects.types import array_type, is_static
    from tenon.passes.specialize import specialize
    from tenon.runtime.interface import main_function

    main = main_function(module)
    if "num_inputs" not in main.attributes and not all(is_static(t) for t in main.function_type.inputs):
        specialize(main, [array_type(array) for array in given])


def _fits(type_: Any, array: np.ndarray[Any, Any]) -> bool:
    from tenon.dialects.types import numpy_dtype, shape_of

    shape = tuple(type_.get_shape()) if hasattr(type_, "layout") else shape_of(type_)
    if array.dtype != numpy_dtype(type_.element_type):
        return False
    return shape is None or (
        len(shape) == array.ndim and all(s < 0 or s == n for s, n in zip(shape, array.shape, strict=True))
    )


@main.command("compile")
@click.argument("file")
@click.option("--target", default="cpu", show_default=True, help="cpu, or cuda:ARCH such as cuda:sm_90.")
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), help="Folder for the files.")
@reported
def compile_(file: str, target: str, output: Path | None) -> None:
    """Compile @main of FILE for a target and write what was made: source text, machine code and loop IR.

    For CUDA neither a GPU nor a driver is needed.
    """
    from tenon.runtime.build import build
    from tenon.runtime.dynamic import name_unknown_sizes
    from tenon.runtime.files import replacing

    folder = output or Path(Path(file).stem if file != "-" else "main")
    module = read_module(file)
    name_unknown_sizes(module)
    products = build(module, target)
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as files:
        for name, data in products.items():
            files.enter_context(replacing(folder / name)).write_bytes(data)
    for name in products:
        click.echo(str(folder / name))


@main.command("ops")
@click.argument("names", nargs=-1)
@reported
def list_ops(names: tuple[str, ...]) -> None:
    """List the ops: signature and meaning. With NAMES, those ops with their whole documentation."""
    from tenon.dialects.registry import find_function, registry

    if not names:
        for name, cls in registry().items():
            summary = (cls.__doc__ or "").strip().splitlines()[0]
            click.echo(f"{name.removeprefix('tenon.')}{cls.PARAMETERS}: {summary}")
        return
    for name in names:
        function = find_function(name.removeprefix("tenon."))
        cls = getattr(function, "op", None)
        if cls is None:
            raise ValueError(f"there is no op named {name!r}")
        click.echo(f"{cls.name}{cls.PARAMETERS}  ({cls.family()})\n\n{(cls.__doc__ or '').strip()}\n")


if __name__ == "__main__":
    main()
