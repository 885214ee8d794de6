"""Object code of a module whose functions come one by one, by several threads, which begin before the last one came.

Functions are compiled in parts of some length, those together that the same of LLVM's passes are run on. What is in a
part depends on the functions and their order alone, so that object code is the same at any number of threads. A
module that is shorter than a part is compiled as a whole.

A thread has an LLVM context and a target machine of its own, as LLVM asks for. llvmlite lets one thread at a time into
LLVM; where passes run and code is generated, which takes most of the time, LLVM is called without its lock.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Self

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from tenon.dialects.definition.registry import is_of_user
from tenon.dialects.families.opaque import kernel_of, op_of
from tenon.lowering.llvm.emit_llvm import EmittedFunction, ModuleEmitter, brings_text, module_text
from tenon.runtime.cpu.compile import Target, optimized, parsed, pass_builder, pass_manager, target_machine
from tenon.runtime.cpu.llvm_lock import emitted, run_passes
from tenon.runtime.cpu.llvm_parts import Passes, hidden, references
from tenon.runtime.cpu.target_check import said_against
from tenon.runtime.python_state import quick_switches

LINES_OF_A_PART = 500
"""About 25 ms of code generation."""

COST = {Passes.ALL: 3, Passes.FEW: 2, Passes.NONE: 1}
"""How many lines take as long as one that these passes are run on."""

_RISKY = re.compile(r"\basm\b|@llvm\.|\bgc\b")
"""In text whose code LLVM may refuse to generate; most has nothing of it, and is not worth a process."""
_SHOWN = 6


@dataclass
class _Part:
    """Functions that are compiled together, and how long that takes, in lines."""

    passes: Passes
    functions: dict[FuncOp, EmittedFunction] = field(default_factory=dict[FuncOp, EmittedFunction])
    length: int = 0

    def add(self, op: FuncOp, function: EmittedFunction) -> None:
        self.functions[op] = function
        self.length += sum(text.count("\n") for text in function.texts) * COST[self.passes]


class ObjectCompiler:
    """Compiles the functions of a module as they are added: what `workers` give are its object codes, which are to be
    linked together. Text that LLVM refuses is a `ValueError` with its message."""

    def __init__(
        self, module: ModuleOp, emitter: ModuleEmitter, target: Target, workers: Workers, lines: int = LINES_OF_A_PART
    ) -> None:
        self._module = module
        self._emitter = emitter
        self._target = target
        self._lines = lines
        self._variables = emitter.variables()
        self._functions: dict[FuncOp, EmittedFunction] = {}
        self._parts = {passes: _Part(passes) for passes in Passes}
        self._readers: dict[FuncOp, EmittedFunction] = {}
        """The functions that read variables of the module: compiled where these are defined, at the end."""
        self._workers = workers

    def add(self, op: FuncOp) -> None:
        """Compile a function that has a body: now, or with others that are added later."""
        function = self._functions[op] = self._emitter.function(op)
        if self._variables and any(references(text) & self._variables.keys() for text in function.texts):
            self._readers[op] = function
            return
        part = self._parts[Passes(function.attributes)]
        part.add(op, function)
        if part.length >= self._lines:
            self._begin(part, {})
            self._parts[part.passes] = _Part(part.passes)

    def finish(self) -> None:
        """Begin what is left, once all functions have been added."""
        if not self._workers.begun:
            self._workers.begin(partial(_compiled, self.text(), self._target))
            return
        for op in self._module.ops:
            if isinstance(op, FuncOp) and op not in self._functions and brings_text(op):
                self.add(op)
        for op, function in self._readers.items():
            self._parts[Passes.ALL].add(op, function)
        for passes, part in self._parts.items():
            if part.functions:
                self._begin(part, self._variables if self._readers and passes is Passes.ALL else {})

    def text(self) -> str:
        """The whole module as LLVM IR, once all functions have been added."""
        declared = [op for op in self._module.ops if isinstance(op, FuncOp) and op not in self._functions]
        return self._emitter.joined(self._functions | {op: self._emitter.function(op) for op in declared})

    def _begin(self, part: _Part, variables: dict[str, str]) -> None:
        text = self._part_text(part, variables)
        self._workers.begin(partial(_compiled_part, text, self._target, part.passes))

    def _part_text(self, part: _Part, variables: dict[str, str]) -> str:
        """The part as a module of its own; modules see each other's functions, nobody else does."""
        called = {name for function in part.functions.values() for text in function.texts for name in references(text)}
        declarations = [
            self._emitter.declaration(op)
            for op in self._module.ops
            if isinstance(op, FuncOp) and op.sym_name.data in called and op not in part.functions
        ]
        texts = [function.text for function in part.functions.values()]
        parts = [function.parts for function in part.functions.values()]
        return hidden(module_text([*variables.values(), *declarations, *texts], parts))


def check_texts(module: ModuleOp, emitter: ModuleEmitter, target: Target) -> None:
    """Raise `ValueError` naming op and kernel where LLVM cannot compile text that the op of a user's brings."""
    for function in module.ops:
        if not isinstance(function, FuncOp) or "llvm_source" not in function.attributes:
            continue
        if (op := op_of(function)) is None or is_of_user(op):
            emitted = emitter.function(function)
            text = module_text([emitted.text], [emitted.parts])
            refused = said_against(text, target.triple, target.cpu, target.features) if _RISKY.search(text) else ""
            if refused:
                said = refused[max(0, refused.find("error: ")) :]
                shown = "\n".join(said.splitlines()[:_SHOWN])
                raise ValueError(f"{kernel_of(function, 'llvm')}: LLVM cannot compile its text: {shown}")


class Workers:
    """Up to `threads - 1` threads that do jobs while this one makes more, and this one in the end. Executors of Python
    refuse work once the main thread has ended, though other threads and exit handlers still run.

    To be used in a `with` statement: after an exception nothing more is begun, and no thread is left.
    """

    def __init__(self, threads: int) -> None:
        self.begun = 0
        self._most = threads - 1
        self._pending: SimpleQueue[tuple[int, Callable[[], bytes]] | None] = SimpleQueue()
        self._found: dict[int, bytes | Exception] = {}
        self._helpers: list[Thread] = []
        self._while_working = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop()

    @property
    def are_busy(self) -> bool:
        """Whether another thread does something, or has something to do."""
        return bool(self._helpers) and len(self._found) < self.begun

    def begin(self, job: Callable[[], bytes]) -> None:
        """Do `job` soon."""
        self._pending.put((self.begun, job))
        self.begun += 1
        if len(self._helpers) < self._most:
            helper = Thread(target=self._work, name="tenon-compile")
            # Where no thread can be started, this one does the work.
            with suppress(RuntimeError):
                helper.start()
                if not self._helpers:
                    self._while_working.enter_context(quick_switches())
                self._helpers.append(helper)

    def _work(self) -> None:
        while (given := self._pending.get()) is not None:
            self._do(*given)
        # The end is there for all, also for a thread whose start was interrupted.
        self._pending.put(None)

    def _do(self, number: int, job: Callable[[], bytes]) -> None:
        try:
            self._found[number] = job()
        except Exception as error:
            self._found[number] = error

    def results(self, meanwhile: Callable[[], None] | None = None) -> list[bytes]:
        """What the jobs gave, in the order in which they were begun; raises what the first that failed raised. Where
        nothing is left to begin, but not all is done, this thread does something else `meanwhile`."""
        with suppress(Empty):
            while (given := self._pending.get_nowait()) is not None:
                self._do(*given)
        if meanwhile is not None and self.are_busy:
            meanwhile()
        self._stop()
        results: list[bytes] = []
        for _, found in sorted(self._found.items()):
            if isinstance(found, Exception):
                raise found
            results.append(found)
        return results

    def _stop(self) -> None:
        """Begin nothing more, and wait for what was begun."""
        with self._while_working:
            with suppress(Empty):
                while True:
                    self._pending.get_nowait()
            self._pending.put(None)
            for helper in self._helpers:
                helper.join()
            self._helpers.clear()


def _compiled(text: str, target: Target) -> bytes:
    """The object code of a whole module."""
    from llvmlite import binding

    machine = target_machine(target)
    return emitted(machine, optimized(text, target, machine, context=binding.create_context()))


def _compiled_part(text: str, target: Target, passes: Passes) -> bytes:
    from llvmlite import binding

    machine = target_machine(target)
    module = parsed(text, target, machine, binding.create_context())
    if passes is not Passes.NONE:
        builder = pass_builder(machine)
        manager = pass_manager(passes, builder)
        run_passes(manager, module, builder)
    return emitted(machine, module)
