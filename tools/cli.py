"""`tenon`: run, compile and look at programs from the command line."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import wraps
from math import prod
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
            expected = ValueError, TypeError, ArithmeticError, OSError, RuntimeError, ImportError, MemoryError
            if isinstance(error, (*expected, DiagnosticException, ParseError)):
                raise UserError(_message(error)) from None
            what = f"{type(error).__name__}: {_message(error)}"
            raise InternalError(f"{what}\nthis is a fault in tenon; TENON_DEBUG=1 shows where") from None

    return wrapper


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}" if error.filename else error.strerror.lower()
    return "\n".join([str(error).strip() or type(error).__name__, *getattr(error, "__notes__", ())])


def read_module(path: str, context: Any = None) -> Any:
    """The verified module in a file (`-` for standard input), parsed in `context`, by default a new one."""
    from tenon.dialects.upstream.module_parser import ModuleParser
    from tenon.runtime.lower import new_context
    from tenon.tools.verification import verify_module

    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text()
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is not text") from None
    module = ModuleParser(context or new_context(), text, "<stdin>" if path == "-" else path).parse_module()
    verify_module(module)
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
                arrays = [np.load(file, allow_pickle=False)]
            else:
                with np.load(file, allow_pickle=False) as archive:
                    arrays = [archive[name] for name in archive.files]
    except (ValueError, EOFError, zipfile.BadZipFile):
        # NumPy advises to allow pickles, which would run whatever code is in the file.
        raise ValueError(f"{path} is not a {path.suffix} file of numbers") from None
    # A file may have been written on a machine of the other byte order.
    return [a if a.dtype.isnative else a.astype(a.dtype.newbyteorder("=")) for a in arrays]


def _generated(kind: str, text: str) -> np.ndarray[Any, Any]:
    from tenon.dialects.types.types import element_type, numpy_dtype

    text, _, seed = text.partition(":")
    *sizes, dtype = text.split("x")
    try:
        if wrong := [size for size in sizes if not size.isdecimal()]:
            raise ValueError(f"{wrong[0]!r} is no size")
        shape, element = tuple(int(s) for s in sizes), numpy_dtype(element_type(dtype))
        if seed and not seed.isdecimal():
            raise ValueError(f"seed {seed!r} is no number")
        generator = np.random.default_rng(int(seed or "0"))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{kind}:{text}: {error}; write shape and dtype like {kind}:4x3xf32") from None
    count = prod(shape)
    try:
        return _values(kind, count, element, generator).reshape(shape)
    except (MemoryError, ValueError, OverflowError):
        needed = f"{count} elements take {count * element.itemsize} bytes"
        raise ValueError(f"{kind}:{text}: {needed}, which cannot be allocated") from None


def _values(kind: str, count: int, element: np.dtype[Any], generator: np.random.Generator) -> np.ndarray[Any, Any]:
    if kind == "random":
        if stand_in(element).kind in "iub":
            values = generator.integers(
                0, 2 if element.kind == "b" else min(10, ml_dtypes.iinfo(element).max + 1), count
            )
        else:
            values = generator.standard_normal(count)
    else:
        values = {"zeros": np.zeros, "ones": np.ones, "iota": np.arange}[kind](count)
    return values.astype(element)


@click.group()
@click.version_option(package_name="tenon", prog_name="tenon")
@click.option("--ops", multiple=True, metavar="OPS", help="Import ops of your own first: a file, or a module by name.")
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
    """Run @main of FILE (.mlir at any stage, `-` for standard input), or the model in an .onnx file, and print or save
    its results.

    Arguments are .npy files, .npz files (every array in it, in order), numbers, or generated arrays: `random:4x3xf32`
    (`random:4x3xf32:7` for seed 7), `zeros:…`, `ones:…`, `iota:…`.
    """
    from tenon.passes.simplify.dce import erase_unreachable_functions
    from tenon.runtime.arguments.interface import takes_buffers
    from tenon.runtime.dynamic import executable_for_all_sizes
    from tenon.runtime.executables import executable
    from tenon.runtime.knobs import knobs
    from tenon.runtime.lower import new_context

    if output is not None and output.suffix not in (".npy", ".npz"):
        raise ValueError(f"output {output} ends neither in .npy nor in .npz")
    if output is not None and not output.parent.is_dir():
        raise ValueError(f"{output}: there is no folder {output.parent}")
    given = [a for spec in arguments for part in spec.split(",") for a in parse_argument(part)]
    name = Path(file).stem if file != "-" else "main"
    with knobs.override(interpret=interpret or knobs.interpret):
        if is_onnx(file):
            model = import_model(file, device)
            check_count(output, len(model.outputs))
            computed: Sequence[Any] = model(*fit_inputs(model, given))
        else:
            context = new_context()
            module = read_module(file, context)
            if not takes_buffers(module):
                erase_unreachable_functions(module, "main")
            given = fit_arguments(module, with_resources(module, context, given))
            check_count(output, results_of(module))
            compiled = executable_for_all_sizes(module, device, name, [array.shape for array in given])
            if compiled is None:
                specialize_to(module, given)
                compiled = executable(module, device, name)
            computed = compiled.run(given)
    results = [np.asarray(r.get() if hasattr(r, "get") else r) for r in computed]
    if output is None:
        for position, result in enumerate(results):
            click.echo(f"result {position}: {result.dtype}{list(result.shape)}")
            click.echo(np.array2string(result, threshold=1000))
        return
    save(output, results)


def is_onnx(file: str) -> bool:
    """Whether a file is an ONNX model, by its name."""
    return Path(file).suffix.lower() == ".onnx"


def import_model(file: str, device: str = "cpu") -> Any:
    """The model in an ONNX file."""
    import tenon

    return tenon.onnx.load(file, device=device)


def fit_inputs(model: Any, given: Sequence[np.ndarray[Any, Any]]) -> list[Any]:
    """`given` as inputs of an ONNX model: numbers take the dtype that is declared, and so does what stands for a dtype
    that no file holds."""
    declared = [info.dtype for info in model.inputs] + [None] * len(given)
    return [
        array if dtype is None else converted(array, dtype, f"argument {position} of the model")
        for position, (array, dtype) in enumerate(zip(given, declared, strict=False))
    ]


def converted(array: np.ndarray[Any, Any], dtype: np.dtype[Any], where: str) -> np.ndarray[Any, Any]:
    """`array` in `dtype`, if it is a number (of rank 0), or what stands for that dtype in files; any other array as it
    is.

    Raises `ValueError` for numbers that an integer dtype does not have.
    """
    if array.ndim and (dtype.isbuiltin == 1 or array.dtype != stand_in(dtype)):
        return array
    with np.errstate(invalid="ignore"):
        result = array.astype(dtype)
    if stand_in(dtype).kind in "iub" and not np.array_equal(result.astype(stand_in(dtype)), array):
        raise ValueError(f"{where} is {dtype}, got {array}")
    return result


def stand_in(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What stands for `dtype` in a .npy file: that itself, where NumPy has it; f32, i8 or u8 for those of ml_dtypes."""
    if dtype.isbuiltin == 1:
        return dtype
    try:
        return np.dtype(np.int8 if ml_dtypes.iinfo(dtype).min < 0 else np.uint8)
    except ValueError:
        return np.dtype(np.float32)


def check_count(output: Path | None, count: int) -> None:
    """Raise `ValueError` unless `count` results fit into the file."""
    if output is not None and output.suffix == ".npy" and count != 1:
        raise ValueError(f"{count} results do not fit into {output}; use .npz")


def with_resources(module: Any, context: Any, given: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """`given` with the arrays that the module brings itself, which may be given as well."""
    from tenon.runtime.arguments.interface import main_function
    from tenon.runtime.store.resources import take_resources

    own = take_resources(module, context)
    count = len(main_function(module).function_type.inputs)
    if not own or len(given) == count:
        return list(given)
    if len(given) != count - len(own):
        raise ValueError(f"@main takes {count - len(own)} arguments besides its {len(own)} weights, got {len(given)}")
    remaining = iter(given)
    return [own[position] if position in own else next(remaining) for position in range(count)]


def save(output: Path, results: Sequence[np.ndarray[Any, Any]]) -> None:
    """Write arrays to a .npy or .npz file (there `result0`, `result1`, …), in the dtypes that files have."""
    kept: list[Any] = [r.astype(stand_in(r.dtype), copy=False) for r in results]
    from tenon.runtime.store.files import replacing

    with replacing(output) as temporary:
        if output.suffix == ".npy":
            np.save(temporary, kept[0])
        else:
            np.savez(temporary, **{f"result{i}": r for i, r in enumerate(kept)})


def results_of(module: Any) -> int:
    """The number of results of `@main`, whatever the stage."""
    from tenon.runtime.arguments.interface import main_function

    main = main_function(module)
    count: Any = main.attributes.get("num_outputs")
    return len(main.function_type.outputs) if count is None else count.value.data


def fit_arguments(module: Any, given: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """`given` checked against the parameters of `@main`, and numbers converted to their dtypes.

    Raises `ValueError` naming the parameter, what it takes and what was given.
    """
    from xdsl.dialects.builtin import IndexType

    from tenon.dialects.definition.signedness import external_elements
    from tenon.dialects.support.frozen_arguments import prepare_function
    from tenon.dialects.types.types import array_type, element_of, numpy_dtype
    from tenon.runtime.arguments.arguments import as_array
    from tenon.runtime.arguments.interface import Interface, main_function, takes_buffers

    main = main_function(module)
    names = [a.name_hint or str(i) for i, a in enumerate(main.body.block.args)]
    types: list[Any] = list(main.function_type.inputs)
    if "num_inputs" in main.attributes or prepare_function(main) is not None:
        types = types[: len((Interface.of if takes_buffers(module) else Interface.of_tensors)(module).inputs)]
    if any(isinstance(t, IndexType) for t in types):
        raise ValueError("@main takes sizes as arguments; run what it was made from: the file at the tensor stage")
    if len(given) != len(types):
        raise ValueError(f"@main takes {len(types)} arguments ({', '.join(map(str, types))}), got {len(given)}")
    external = external_elements(main)
    elements = [t.element_type for t in types] if external is None else external[0]
    fitted: list[np.ndarray[Any, Any]] = []
    for name, type_, element, array in zip(names, types, elements, given, strict=False):
        try:
            wanted = numpy_dtype(element)
        except TypeError as error:
            raise ValueError(f"argument {name} of @main: {error}") from None
        array = as_array(array, f"argument {name} of @main")
        array = converted(array, wanted, f"argument {name} of @main")
        have = array_type(array)
        if array.dtype != wanted or not _fits(type_, array):
            raise ValueError(f"argument {name} of @main is {type_}, got {element_of(have)}{list(array.shape)}")
        fitted.append(array)
    return fitted


def specialize_to(module: Any, given: Sequence[np.ndarray[Any, Any]]) -> None:
    """Let unknown dimensions of a module on tensors take the sizes of the arguments."""
    from tenon.dialects.types.types import array_type, is_static
    from tenon.passes.simplify.dce import erase_unreachable_functions
    from tenon.passes.transform.specialize import specialize
    from tenon.runtime.arguments.interface import main_function

    main = main_function(module)
    if "num_inputs" not in main.attributes and not all(is_static(t) for t in main.function_type.inputs):
        specialize(main, [array_type(array) for array in given])
        # Called functions were copied for these sizes.
        erase_unreachable_functions(module, "main")


def _fits(type_: Any, array: np.ndarray[Any, Any]) -> bool:
    from tenon.dialects.types.types import shape_of

    shape = tuple(type_.get_shape()) if hasattr(type_, "layout") else shape_of(type_)
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
    from tenon.runtime.store.files import replacing

    if is_onnx(file):
        raise ValueError(f"{file} is an ONNX model; import it first: tenon import {file} -o {Path(file).stem}.mlir")
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


@main.command("import")
@click.argument("file")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="The .mlir file to write.")
@click.option(
    "--input",
    "specifications",
    multiple=True,
    metavar="NAME=SPEC",
    help="The shape of an input, such as 4x3 or ?x3, or, where its value is needed, an array as `tenon run` takes it.",
)
@reported
def import_(file: str, output: Path | None, specifications: tuple[str, ...]) -> None:
    """Write the model in FILE (.onnx) as tensor IR, its weights as resources behind the text; `tenon run` takes it.

    Without -o the IR is printed, without weights. Sizes that are not known stay open in the IR.
    """
    if output is not None and not output.parent.is_dir():
        raise ValueError(f"{output}: there is no folder {output.parent}")
    model = import_model(file)
    given = dict(_specification(text) for text in specifications)
    if output is None:
        click.echo(str(model.trace(**given)))
    else:
        model.to_mlir(output, **given)
        click.echo(str(output))


def _specification(text: str) -> tuple[str, Any]:
    name, separator, given = text.rpartition("=")
    if not separator:
        # Names may have colons themselves, as those of TensorFlow do.
        name, separator, given = text.rpartition(":")
    if not separator or not name:
        raise ValueError(f"input {text!r} is not like NAME=4x3")
    sizes = given.split("x")
    if given and all(size == "?" or (size.isascii() and size.isdigit()) for size in sizes):
        return name, [None if size == "?" else int(size) for size in sizes]
    arrays = parse_argument(given)
    if len(arrays) != 1:
        raise ValueError(f"input {name!r} is given {len(arrays)} arrays")
    return name, arrays[0]


@main.command("tune")
@click.argument("file")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="The record; else FILE's name.")
@click.option("--seconds", default=5.0, show_default=True, help="About how long to search for each kernel.")
@reported
def tune_(file: str, output: Path | None, seconds: float) -> None:
    """Measure schedules for the kernels of FILE (.mlir or .onnx) and record those that beat the cost model's.

    What the record says of other kernels and other processors stays in it. TENON_TUNING=RECORD uses it.
    """
    from tenon.lowering.schedules.tuning_record import TuningRecord
    from tenon.runtime.cpu.compile import host_target
    from tenon.runtime.lower import machine
    from tenon.runtime.store.files import write_file
    from tenon.runtime.tuning import processor_name
    from tenon.tools.tune import Outcome, tune

    def report(outcome: Outcome) -> None:
        gain = f"{1e6 * outcome.best:.1f} us, was {1e6 * outcome.seconds:.1f}" if outcome.decision else "as it is"
        click.echo(f"{gain} ({outcome.tried} tried): {outcome.kernel}")

    path = output or Path(file).with_suffix(".tuning.json")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}")
    record = TuningRecord.read(path) if path.exists() else TuningRecord()
    module = import_model(file).trace().module if is_onnx(file) else read_module(file)
    processor = processor_name(host_target(), machine().vector_bits)
    record.processors.setdefault(processor, {}).update(tune(module, seconds, report))
    write_file(path, record.text())
    click.echo(str(path))


@main.command("ops")
@click.argument("names", nargs=-1)
@reported
def list_ops(names: tuple[str, ...]) -> None:
    """List ops and functions: signature and meaning. With NAMES, those with their whole documentation."""
    from tenon.tools.catalog import catalog, family_of, find_entry

    if not names:
        for entry in catalog().values():
            click.echo(f"{entry.name}{entry.signature}: {entry.summary}")
        return
    for entry in map(find_entry, names):
        kind = "function" if entry.op is None else family_of(entry.op)
        click.echo(f"{entry.call}{entry.signature}  ({kind})\n\n{entry.documentation}\n")


@main.command("docs")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--plots/--no-plots", default=True, show_default=True, help="Plot activations; needs matplotlib.")
@reported
def write_reference(folder: Path, plots: bool) -> None:
    """Write the reference pages of the ops into FOLDER: Markdown, generated from the definitions."""
    from tenon.tools.reference import write_pages

    click.echo(f"{len(write_pages(folder, plots=plots))} files in {folder}")


if __name__ == "__main__":
    main()
