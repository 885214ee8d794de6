"""`tenon`: run, compile and look at programs from the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import wraps
from pathlib import Path
from typing import IO, Any

import click
import numpy as np

from tenon.tools.arguments import fit_arguments, fit_inputs, parse_argument, specialize_to, stand_in


class UserError(click.ClickException):
    """An error in what the user gave; printed as one message, exit status 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"tenon: error: {self.format_message()}", err=True)


class InternalError(UserError):
    """A fault of Tenon itself; printed as one message, exit status 70."""

    exit_code = 70


def reported(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn errors into messages. With `TENON_TRACEBACK=full` they keep their traceback."""
    from xdsl.utils.exceptions import DiagnosticException, ParseError

    from tenon.runtime.knobs import knobs
    from tenon.runtime.user_ops import note_place
    from tenon.tools.output import discard_output, message_of

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
            if knobs.traceback == "full":
                raise
            is_of_user = note_place(error)
            expected = ValueError, TypeError, ArithmeticError, OSError, RuntimeError, ImportError, MemoryError
            if isinstance(error, (*expected, DiagnosticException, ParseError)):
                raise UserError(message_of(error)) from None
            what = f"{type(error).__name__}: {message_of(error)}"
            if is_of_user:
                raise UserError(what) from None
            raise InternalError(f"{what}\nthis is a fault in tenon; TENON_TRACEBACK=full shows where") from None

    return wrapper


def read_module(path: str, context: Any = None) -> Any:
    """The verified module in a file (`-` for standard input), parsed in `context`, by default a new one."""
    from tenon.dialects.upstream.module_parser import ModuleParser
    from tenon.runtime.arguments.interface import check_main
    from tenon.runtime.lower import new_context
    from tenon.tools.verification import verify_module

    if path == "-" and sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]
        raise ValueError("standard input is closed")
    text = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    module = ModuleParser(context or new_context(), text, "<stdin>" if path == "-" else path).parse_module()
    verify_module(module)
    check_main(module)
    return module


def _device(_context: click.Context, _option: click.Parameter, given: str) -> str:
    from tenon.runtime.cuda.names import checked_device

    try:
        return checked_device(given)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


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
@click.option("--device", default="cpu", show_default=True, callback=_device, help="cpu, cuda, or one GPU: cuda:1.")
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
    from tenon.runtime.arguments.tree import flatten
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
            # The tensors of a sequence come one after the other, and none for an optional without a value.
            computed: Sequence[Any] = flatten(model(*fit_inputs(model, given)))[0]
            check_count(output, len(computed))
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


@main.command("compile")
@click.argument("file")
@click.option("--target", default="cpu", show_default=True, help="cpu, or cuda:ARCH such as cuda:sm_90.")
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), help="Folder for the files.")
@reported
def compile_(file: str, target: str, output: Path | None) -> None:
    """Compile @main of FILE for a target and write what was made: source text, machine code and loop IR.

    For CUDA neither a GPU nor a driver is needed; a table says what each kernel takes of a multiprocessor, moves and
    computes, and which time that predicts.
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


@main.command("explain")
@click.argument("file")
@click.option("--target", default="cpu", show_default=True, help="cpu, or cuda:ARCH such as cuda:sm_90a.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON in place of text.")
@reported
def explain_(file: str, target: str, as_json: bool) -> None:
    """Say how the kernels of FILE (.mlir or .onnx) are to run on a target, and why: which ways were asked for, what is
    against each, which one is chosen, and of a GPU what that is predicted to take.

    Nothing is run, and for CUDA neither a GPU nor a driver is needed.
    """
    from tenon.runtime.build import explain
    from tenon.runtime.dynamic import name_unknown_sizes

    module = program_of(file)
    name_unknown_sizes(module)
    explanation = explain(module, target)
    click.echo(explanation.json() if as_json else str(explanation), nl=False)


def program_of(file: str) -> Any:
    """The module in a file, or of an ONNX model."""
    return import_model(file).trace().module if is_onnx(file) else read_module(file)


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
@click.option("--target", default="cpu", show_default=True, callback=_device, help="cpu, cuda, or one GPU: cuda:1.")
@reported
def tune_(file: str, output: Path | None, seconds: float, target: str) -> None:
    """Measure schedules for the kernels of FILE (.mlir or .onnx) and record those that beat the cost model's.

    What the record says of other kernels and other processors stays in it. TENON_TUNING=RECORD uses it.
    """
    from tenon.lowering.tuning_record import TuningRecord
    from tenon.runtime.store.files import write_file
    from tenon.tools.tune import processor, tune
    from tenon.tools.tune_search import Outcome

    def report(outcome: Outcome) -> None:
        gain = f"{1e6 * outcome.best:.1f} us, was {1e6 * outcome.seconds:.1f}" if outcome.decision else "as it is"
        click.echo(f"{gain} ({outcome.tried} tried): {outcome.kernel}")

    path = output or Path(file).with_suffix(".tuning.json")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}")
    name = processor(target)
    record = TuningRecord.read(path) if path.exists() else TuningRecord()
    found = tune(program_of(file), seconds, report, target)
    record.processors.setdefault(name, {}).update(found)
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
