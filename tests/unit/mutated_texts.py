"""Texts of modules with something wrong in them, which the compiler has to take, or to refuse with a reason.

The texts are those of `tests/lit`, of every stage, changed at random: tokens, numbers, types, lines, characters. Each
is read, verified, printed and read back, and taken through random passes with a verification after each; what is at the
tensor stage and small is run. An error has to be one that was raised on purpose. Anything else is a fault of the
compiler, and so are an abort and a hang. As a command, it looks for such faults:

    python tests/unit/mutated_texts.py --count 10000 --seed 1 --keep faults

Every case follows from the seed and its number, so that `--first N --count 1` repeats one.
"""

from __future__ import annotations

import argparse
import json
import linecache
import os
import random
import re
import resource
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from text_mutations import WEIGHTS_OF_MUTATIONS, texts

SECONDS = 30
"""How long the processor may work on one case before it counts as a hang."""
WAIT = 600
"""How many seconds to wait for an answer: on a busy machine much more than what the processor takes."""
MEMORY = 6 << 30
"""The address space of a worker, in bytes: memory that is not asked for by size alone is a fault as well."""
ELEMENTS_TO_RUN = 100_000


@dataclass(frozen=True)
class Case:
    """One case of a search: a text, the passes to run on it, and whether it is to be run if it can be."""

    text: str
    passes: tuple[str, ...]
    is_run: bool


def case(seed: int, number: int) -> Case:
    """The case of a number, which follows from it and the seed."""
    chance = random.Random(f"{seed}:{number}")
    text = _with_main(chance.choice(texts()))
    for _ in range(chance.choice((0, 1, 1, 1, 1, 2, 2, 3, 5))):
        text = chance.choices([*WEIGHTS_OF_MUTATIONS], [*WEIGHTS_OF_MUTATIONS.values()])[0](text, chance)
    return Case(text, _passes(chance), chance.random() < 0.25)


def _with_main(text: str) -> str:
    """The text with its first function called `@main`, which some passes and runs ask for."""
    first = re.search(r"func\.func @(\w+)\(", text)
    return text if first is None or "@main" in text else re.sub(rf"@{first[1]}\b", "@main", text)


def _passes(chance: random.Random) -> tuple[str, ...]:
    from tenon.lowering.pipeline import PASSES as LOWERING
    from tenon.lowering.pipeline import stages
    from tenon.passes.pipeline import PASSES

    names = [name for name in (*PASSES, *LOWERING) if name not in ("specialize", "map-to-grid")]
    if chance.random() < 0.5:
        return tuple(chance.choices(names, k=chance.choice((1, 1, 2, 3))))
    return ("lower",) if chance.random() < 0.5 else chance.choice(stages(chance.choice(_targets()))).passes


def _targets() -> list[Any]:
    from tenon.lowering.options import LoweringOptions
    from tenon.passes.machine import GPU, MACHINES

    return [LoweringOptions(gpu=GPU), *map(LoweringOptions, MACHINES.values())]


# --- what may happen --------------------------------------------------------------------------------------------------


def fault(case: Case) -> str | None:
    """What the compiler does with a case that it should not do; `None` where all is well."""
    from xdsl.utils.exceptions import DiagnosticException, ParseError

    expected = (
        ParseError,
        DiagnosticException,
        ValueError,
        TypeError,
        NotImplementedError,
        ArithmeticError,
        RuntimeError,
    )
    steps: list[str] = []
    try:
        _compile(case, steps)
    except (*expected, MemoryError) as error:
        if (place := _not_on_purpose(error)) is not None:
            return f"{steps[-1]}: {place}"
        if steps[-1].endswith("left invalid ir") or steps[-1] == "read back":
            return f"{steps[-1]}: {str(error).splitlines()[0]}"
    except Exception as error:
        return f"{steps[-1]}: {_place(error)}"
    return None


def _compile(case: Case, steps: list[str]) -> None:
    from xdsl.context import Context

    from tenon.lowering.pipeline import run_passes
    from tenon.tools.verification import verify_module

    steps.append("parse")
    module = _parsed(case.text)
    steps.append("verify")
    verify_module(module)
    steps.append("print")
    text = str(module)
    steps.append("read back")
    verify_module(_parsed(text))
    if case.is_run:
        steps.append("run")
        _run(module.clone())
    for name in _lowering(module) if case.passes == ("lower",) else case.passes:
        steps.append(name)
        run_passes(Context(), module, [name])
        steps.append(f"{name} left invalid ir")
        verify_module(module)


def _parsed(text: str) -> Any:
    from tenon.dialects.upstream.module_parser import ModuleParser

    return ModuleParser(_context(), text, "text.mlir").parse_module()


@cache
def _context() -> Any:
    from tenon.dialects.upstream.xdsl_corrections import correct_xdsl
    from tenon.runtime.lower import new_context

    correct_xdsl()
    return new_context()


def _lowering(module: Any) -> Iterator[str]:
    from tenon.lowering.options import LoweringOptions
    from tenon.lowering.pipeline import stage_of, stages
    from tenon.passes.machine import MACHINES

    order = stages(LoweringOptions(MACHINES["avx2"]))
    start = [stage.name for stage in order].index(stage_of(module))
    return (name for stage in order[start:] for name in stage.passes)


def _run(module: Any) -> None:
    """Run `@main` of a module at the tensor stage on small arguments; others have no bounds that are checked."""
    import numpy as np
    from xdsl.dialects.builtin import ShapedType, StringAttr, TensorType, UnrankedTensorType

    from tenon.dialects.ops.control.control_flow import WhileLoopOp
    from tenon.dialects.types.types import element_of, numpy_dtype, shape_of
    from tenon.lowering.pipeline import stage_of
    from tenon.runtime.arguments.interface import main_function
    from tenon.runtime.executables import executable
    from tenon.tools.arguments import fit_arguments, specialize_to

    if stage_of(module) != "tensor" or not any(
        getattr(op, "sym_name", None) == StringAttr("main") for op in module.ops
    ):
        return
    for op in module.walk():
        if isinstance(op, WhileLoopOp):
            return  # damaged or not, it may never end by its own meaning
        for value in (*op.results, *(a for region in op.regions for block in region.blocks for a in block.args)):
            if (
                isinstance(value.type, ShapedType)
                and np.prod([max(n, 1) for n in value.type.get_shape()], dtype=float) > ELEMENTS_TO_RUN
            ):
                return
    main = main_function(module)
    if not all(isinstance(type_, TensorType | UnrankedTensorType) for type_ in main.function_type.inputs):
        return
    shapes = [shape_of(type_) for type_ in main.function_type.inputs]
    given = [
        np.ones([3 if size < 0 else size for size in shape or ()], numpy_dtype(element_of(type_)))
        for shape, type_ in zip(shapes, main.function_type.inputs, strict=True)
    ]
    arrays = fit_arguments(module, given)
    specialize_to(module, arrays)
    executable(module, "cpu", "main").run(arrays)


def _not_on_purpose(error: BaseException) -> str | None:
    """Where an error, or one that it was made of, was raised other than by a statement that raises it."""
    while True:
        frame = _innermost(error.__traceback__)
        if frame is not None and not _raises(frame) and not isinstance(error, MemoryError | RecursionError):
            return _place(error)
        cause = error.__cause__
        if cause is None or type(cause).__name__ == "VerifyException":
            return None
        error = cause


def _innermost(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def _raises(trace: TracebackType) -> bool:
    """Whether the line is a `raise`, or is not of the compiler: xDSL's own are reported with their place."""
    code = trace.tb_frame.f_code
    if f"{os.sep}xdsl{os.sep}" in code.co_filename:
        return True
    return "raise" in linecache.getline(code.co_filename, trace.tb_lineno)


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames))
    text = str(error).splitlines()
    return f"{type(error).__name__}: {text[0][:150] if text else ''} [{where}]"


# --- workers ----------------------------------------------------------------------------------------------------------


class Worker:
    """A process that tries cases one by one, and is started again when one of them ends it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.process: subprocess.Popen[bytes] | None = None

    def fault(self, number: int) -> str | None:
        """What the compiler does with a case that it should not do; `None` where all is well."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{number}\n".encode())
        process.stdin.flush()
        if not select.select([process.stdout], [], [], WAIT)[0]:
            self.end()
            return f"hangs: no answer within {WAIT} s"
        answer = process.stdout.readline()
        if not answer:
            code = process.wait()
            self.end()
            is_slow = code == -signal.SIGPROF
            return f"hangs: {SECONDS} s of work" if is_slow else f"aborts: the process ended with status {code}"
        return json.loads(answer)

    def _started(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            environment = os.environ | {"TENON_CACHE": "0", "TENON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
            command = [sys.executable, __file__, "--worker", "--seed", str(self.seed)]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
            )
        return self.process

    def end(self) -> None:
        """End the process, if there is one."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def faults(seed: int, numbers: Sequence[int]) -> Iterator[tuple[int, str]]:
    """The cases among `numbers` that show a fault, and what it is."""
    worker = Worker(seed)
    try:
        for tried, number in enumerate(numbers):
            if tried and tried % 500 == 0:
                print(f"{tried} cases", file=sys.stderr)
            if (found := worker.fault(number)) is not None:
                yield number, found
    finally:
        worker.end()


def _work(seed: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        # Ends the process, in native code as well.
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        print(json.dumps(fault(case(seed, int(line)))), file=answers, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="where cases begin")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--count", type=int, default=1000, help="how many cases to try")
    parser.add_argument("--keep", type=Path, help="a folder for the texts that show a fault")
    parser.add_argument("--here", action="store_true", help="try cases in this process, to look at one with a debugger")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        _work(options.seed)
        return
    numbers = range(options.first, options.first + options.count)
    if options.here:
        for number in numbers:
            tried = case(options.seed, number)
            print(f"{tried.text}\n{','.join(tried.passes)}\n{fault(tried)}")
        return
    kinds: dict[str, int] = {}
    for number, found in faults(options.seed, numbers):
        kind = re.sub(r"\d+", "N", found)
        kinds[kind] = kinds.get(kind, 0) + 1
        if kinds[kind] == 1:
            print(f"{number}: {found}", flush=True)
            if options.keep is not None:
                options.keep.mkdir(parents=True, exist_ok=True)
                tried = case(options.seed, number)
                name = f"{options.seed}-{number}.mlir"
                (options.keep / name).write_text(f"// {found}\n// {','.join(tried.passes)}\n{tried.text}")
    print(f"{options.count} cases, {sum(kinds.values())} faults of {len(kinds)} kinds")


if __name__ == "__main__":
    main()
