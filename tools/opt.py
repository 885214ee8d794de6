"""`tenon-opt`: parse a module at any stage, run passes on it, print it.

xDSL's driver with Tenon's dialects and passes; a Tenon pass replaces an xDSL pass of the same name. Dialects and passes
are loaded when they are first named, because most of a short run is start-up.

The module is verified, dominance included, after parsing and after the last pass, and with `--verify-each` or
`TENON_VERIFY=1` after every pass. When something fails, the passes are run again on the input with every check on: that
finds the first pass at fault and the IR before it, and a successful run pays nothing for it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib.metadata import version
from io import BytesIO, StringIO
from pathlib import Path
from types import ModuleType
from typing import IO, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.universe import Universe
from xdsl.utils.arg_spec import ArgSpec, parse_pipeline
from xdsl.utils.exceptions import (
    ArgSpecParseError,
    DiagnosticException,
    ParseError,
    ShrinkException,
    UnregisteredConstructException,
)
from xdsl.xdsl_opt_main import xDSLOptMain

from tenon.dialects.support.suggestion import did_you_mean
from tenon.dialects.support.user_traceback import hide_own_frames
from tenon.dialects.universe import UPSTREAM
from tenon.dialects.upstream.module_parser import ModuleParser
from tenon.dialects.upstream.xdsl_corrections import correct_xdsl
from tenon.lowering.pipeline import PASSES as LOWERING_PASSES
from tenon.passes.pipeline import PASSES as TENSOR_PASSES
from tenon.passes.verification import Verification
from tenon.runtime.knobs import knobs
from tenon.runtime.python_state import collection_paused
from tenon.runtime.store.files import write_file
from tenon.runtime.user_ops import note_place
from tenon.tools.output import discard_output, message_of
from tenon.tools.universe import TENON_UNIVERSE
from tenon.tools.verification import verify_module


class PassFailure(Exception):
    """The pass at `index` of the pipeline raised `error`, or `error` was found in the IR that it left."""

    def __init__(self, index: int, error: Exception, *, left_invalid_ir: bool) -> None:
        super().__init__(index, error)
        self.index = index
        self.error = error
        self.left_invalid_ir = left_invalid_ir

    def describe(self, name: str) -> str:
        """One sentence that names the pass and says what went wrong."""
        message = str(self.error)
        # The name of the exception says nothing about a failure that was reported on purpose.
        if not isinstance(self.error, _REPORTED) or not message:
            message = f"{type(self.error).__name__}: {message}" if message else type(self.error).__name__
        return f"pass '{name}' {'left invalid ir' if self.left_invalid_ir else 'failed'}: {message}"


_REPORTED = (DiagnosticException, ValueError, NotImplementedError)


class TenonOptMain(xDSLOptMain):
    """The command: options, registration and the run; `main` turns errors into messages."""

    version_format: ClassVar[str] = f"tenon-opt {version('tenon')} (xdsl {{xdsl_version}})"
    specs: tuple[ArgSpec, ...]
    verification: Verification

    def __init__(self, args: Sequence[str] | None = None) -> None:
        self.step_seconds: list[tuple[str, float]] = []
        super().__init__("parse a module, run passes on it and print it", args)

    def _import_ops(self) -> None:
        from tenon.dialects.universe import registered_dialects
        from tenon.runtime.user_ops import import_ops

        modules = [import_ops(file) for file in self.args.ops]
        for dialect in registered_dialects():
            if dialect.name not in self.ctx.registered_dialect_names:
                self.ctx.load_dialect(dialect)
            elif dialect.name not in TENON_UNIVERSE.all_dialects:
                raise ValueError(f"ops of users cannot be in the dialect '{dialect.name}', which is one of xDSL's")
        for user_pass in _passes_of(modules, ModulePass):
            name = user_pass.name
            known = self.available_passes.get(name)
            if known is None:
                self.register_pass(name, lambda user_pass=user_pass: user_pass)
            elif known() is not user_pass:
                where = f"{user_pass.__module__}.{user_pass.__qualname__}"
                raise ValueError(f"{where}: there is another pass '{name}'")

    def register_all_dialects(self) -> None:
        # What Tenon prints must read back: its loops compare and convert vectors, which xDSL's own `arith` types as
        # scalars, they fetch ahead, and xDSL's text forms need correcting.
        correct_xdsl()
        dialects = Universe.get_multiverse().all_dialects | TENON_UNIVERSE.all_dialects | UPSTREAM
        for name, load in dialects.items():
            self.ctx.register_dialect(name, load)

    def register_all_frontends(self) -> None:
        super().register_all_frontends()

        def parse(stream: IO[bytes]) -> ModuleOp:
            parser = ModuleParser(self.ctx, stream.read(), self.get_input_name())
            return parser.parse_module(not self.args.no_implicit_module)

        self.available_frontends["mlir"] = parse

    def get_input_name(self) -> str:
        return "<stdin>" if self.args.input_file is None else self.args.input_file

    def register_all_passes(self) -> None:
        super().register_all_passes()
        if shared := TENSOR_PASSES.keys() & LOWERING_PASSES.keys():
            raise AssertionError(f"passes and lowering both define {', '.join(sorted(shared))}")
        for name, load in (TENSOR_PASSES | LOWERING_PASSES).items():
            self.register_pass(name, load)

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        arg_parser.prog = "tenon-opt"
        arg_parser.add_argument(
            "--ops",
            action="append",
            metavar="OPS",
            help="import ops and passes of your own first: a file, or a module by name",
        )
        arg_parser.add_argument("--verify-each", action="store_true", help="verify the module after every pass")
        arg_parser.add_argument(
            "--print-ir-after-all", action="store_true", help="print the module to stderr after every pass"
        )
        arg_parser.add_argument("--timing", action="store_true", help="print the time of every step to stderr")
        arg_parser.add_argument(
            "--reproducer-dir",
            type=Path,
            metavar="DIR",
            help="where a failing pass leaves the IR before it (default: the directory for temporary files)",
        )

    def _name_standard_input(self) -> None:
        """`-` is standard input, as it is for the other commands, and those of MLIR."""
        if self.args.input_file == "-":
            self.args.input_file = None
        if self.args.input_file is None and sys.stdin is None:
            raise ValueError("standard input is closed")
        if self.args.output_file in (None, "-") and sys.stdout is None:
            raise ValueError("standard output is closed")

    def setup_pipeline(self) -> None:
        self._name_standard_input()
        if self.args.ops:
            self._import_ops()
        self.specs = tuple(parse_pipeline(self.args.passes))
        self.pipeline = PassPipeline(tuple(self._create_pass(spec) for spec in self.specs))

    def _create_pass(self, spec: ArgSpec) -> ModulePass:
        if spec.name not in self.available_passes:
            raise ValueError(f"there is no pass '{spec.name}'{did_you_mean(spec.name, self.available_passes)}")
        try:
            return self.available_passes[spec.name]().from_spec(spec)
        except ValueError as error:
            raise ValueError(f"pass '{spec.name}': {error}") from error

    def run(self) -> None:
        """Process every chunk of the input; the output file is written at the end, and only if all went well."""
        chunks, extension = self.prepare_input()
        with self._open_output() as output:
            for index, (chunk, line_offset) in enumerate(chunks):
                with chunk:
                    # Empty lines in the place of the chunks before keep the lines of all locations as they are.
                    source = b"\n" * line_offset + chunk.read()
                if index > 0:
                    output.write("// -----\n")
                try:
                    output.write(self._process(source, extension))
                except ParseError as error:
                    if not self.args.parsing_diagnostics:
                        raise
                    print(error)
                except ShrinkException:
                    if not self.args.shrink:
                        raise
                    print("Success, can shrink")
                    return
                except DiagnosticException as error:
                    if not self.args.verify_diagnostics:
                        raise
                    print(message_of(error))
                output.flush()
        if self.args.timing or self.args.time_passes:
            print(self._render_timing(), file=sys.stderr)
        if self.args.shrink:
            print("Failure, can't shrink")
            sys.exit(1)

    def _process(self, source: bytes, extension: str) -> str:
        with self._timed("parse"):
            module = self.parse_chunk(BytesIO(source), extension)
        if module is None:
            return ""
        self.verification = Verification()
        with self._timed("verify"):
            self._verify(module)
        failed = None
        try:
            self.apply_passes(module)
        except PassFailure as failure:
            failed = failure
        if failed is not None:  # not as something that happened while the first failure was handled
            if self.args.verify_diagnostics and isinstance(failed.error, DiagnosticException):
                raise failed.error from None
            raise self._report(failed, source, extension) from failed.error
        with self._timed("print"):
            return self.output_resulting_program(module)

    def apply_passes(self, prog: ModuleOp) -> None:
        """Run the pipeline; raise `PassFailure` for whatever goes wrong in it or is found wrong after it."""
        last = len(self.specs) - 1
        for index, (spec, module_pass) in enumerate(zip(self.specs, self.pipeline.passes, strict=True)):
            with self._timed(spec.name):
                self._apply(index, module_pass, prog)
            if self.args.verify_each or knobs.verify or index == last:
                with self._timed("verify"):
                    self._verify_after(index, prog)
            if self.args.print_ir_after_all:
                print(f"// -----// IR after {spec} //----- //\n{prog!s}\n", file=sys.stderr)
            if self.args.print_between_passes and index != last:
                print(f"IR after {spec.name}:\n{prog!s}\n\n\n")

    def _apply(self, index: int, module_pass: ModulePass, module: ModuleOp) -> None:
        try:
            module_pass.apply(self.ctx, module)
        except ShrinkException:
            raise
        except Exception as error:
            raise PassFailure(index, error, left_invalid_ir=False) from error

    def _verify(self, module: ModuleOp) -> None:
        if not self.args.disable_verify:
            verify_module(module, self.verification)

    def _verify_after(self, index: int, module: ModuleOp) -> None:
        try:
            self._verify(module)
        except Exception as error:
            raise PassFailure(index, error, left_invalid_ir=True) from error

    def _report(self, failure: PassFailure, source: bytes, extension: str) -> FailedRun:
        failure, specs, text = self._find_first_failure(failure, source, extension)
        message = failure.describe(self.specs[failure.index].name)
        command = ["-p", ",".join(str(spec) for spec in specs), *[f"--ops={source}" for source in self.args.ops or ()]]
        command += [f"--{flag}" for flag in _REPRODUCED_FLAGS if getattr(self.args, flag.replace("-", "_"))]
        path, line = _write_reproducer(self.args.reproducer_dir, specs[-1].name, message, command, text)
        return FailedRun(message, failure.error, path, line)

    def _find_first_failure(
        self, failure: PassFailure, source: bytes, extension: str
    ) -> tuple[PassFailure, tuple[ArgSpec, ...], str]:
        """The first pass at fault, the passes that repeat its failure, and the IR to start them from."""
        module = self.parse_chunk(BytesIO(source), extension)
        assert module is not None
        for index, module_pass in enumerate(self.pipeline.passes[: failure.index + 1]):
            before = _print_generic(module)
            try:
                with redirect_stdout(StringIO()):
                    self._apply(index, module_pass, module)
                self._verify_after(index, module)
            except PassFailure as repeated:
                return repeated, (self.specs[index],), before
        # The passes did not repeat it, so the whole run is the best that can be offered.
        return failure, self.specs[: failure.index + 1], source.decode(errors="replace")

    @contextmanager
    def _open_output(self) -> Generator[IO[str]]:
        name = self.args.output_file
        if name is None or name == "-":
            yield sys.stdout
            return
        buffer = StringIO()
        yield buffer
        write_file(Path(name), buffer.getvalue())

    @contextmanager
    def _timed(self, step: str) -> Generator[None]:
        start = time.perf_counter()
        yield
        self.step_seconds.append((step, time.perf_counter() - start))

    def _render_timing(self) -> str:
        total = sum(seconds for _, seconds in self.step_seconds)
        rows = [*self.step_seconds, ("total", total)]
        lines = [f"{seconds:10.4f} {seconds / total:7.1%}  {step}" for step, seconds in rows]
        return "\n".join([f"{'seconds':>10} {'share':>7}  step", *lines])


def _passes_of(modules: Sequence[ModuleType], base: type[ModulePass]) -> Generator[type[ModulePass]]:
    """The passes with a name of their own that derive from `base` and are in modules of users, or in those below."""
    for found in base.__subclasses__():
        home = found.__module__
        is_there = getattr(sys.modules.get(home), found.__qualname__, None) is found
        is_of_users = is_there and home.partition(".")[0] not in ("tenon", "xdsl") and "name" in vars(found)
        if is_of_users and any(f"{home}.".startswith(f"{m.__name__}.") or found in vars(m).values() for m in modules):
            yield found
        yield from _passes_of(modules, found)


_REPRODUCED_FLAGS = ("allow-unregistered-dialect", "disable-verify", "no-implicit-module")


class FailedRun(Exception):
    """A pass failed with `cause`, and what repeats it was written to `reproducer`."""

    def __init__(self, message: str, cause: Exception, reproducer: Path, command: str) -> None:
        super().__init__(message)
        self.cause = cause
        self.reproducer = reproducer
        self.command = command


def _print_generic(module: ModuleOp) -> str:
    """The module in generic form, which needs no custom printer to work and no custom parser to be read back."""
    from xdsl.printer import Printer

    stream = StringIO()
    Printer(stream, print_generic_format=True, print_debuginfo=True).print_op(module)
    return stream.getvalue() + "\n"


def _write_reproducer(
    directory: Path | None, name: str, message: str, options: Sequence[str], text: str
) -> tuple[Path, str]:
    import shlex
    import tempfile

    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
    descriptor, file_name = tempfile.mkstemp(prefix=f"tenon-opt-{name}-", suffix=".mlir", dir=directory)
    path = Path(file_name).absolute()
    command = shlex.join(["tenon-opt", str(path), *options])
    with open(descriptor, "w") as file:
        file.write(f"// {message.splitlines()[0]}\n// repeat with: {command}\n{text}")
    return path, command


def _complain(message: str) -> None:
    print(f"tenon-opt: error: {message}", file=sys.stderr)


def _print_failed_run(failed: FailedRun) -> None:
    if knobs.traceback == "full" or not isinstance(failed.cause, _REPORTED):
        from traceback import print_exception

        hide_own_frames(failed.cause)
        print_exception(failed.cause)
    else:
        note_place(failed.cause)
    _complain("\n".join([str(failed), *getattr(failed.cause, "__notes__", ())]))
    print(f"tenon-opt: the ir before it is in {failed.reproducer}", file=sys.stderr)
    print(f"tenon-opt: repeat with: {failed.command}", file=sys.stderr)


def main(args: Sequence[str] | None = None) -> int:
    """Run `tenon-opt` with `args` (those of the process by default) and return its exit code."""
    try:
        with collection_paused():
            TenonOptMain(args).run()
    except FailedRun as failed:
        _print_failed_run(failed)
    except BrokenPipeError:
        discard_output()
    except KeyboardInterrupt:
        return 130
    except (ParseError, DiagnosticException, UnregisteredConstructException, ArgSpecParseError) as error:
        note_place(error)
        _complain(message_of(error))
    except (ValueError, OSError) as error:
        if knobs.traceback == "full":
            raise
        note_place(error)
        _complain(message_of(error))
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
