"""`tenon.trace`: an imperative function as one program for each signature."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
import threading
import time
import types
from collections.abc import Callable, Hashable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, NoReturn
from weakref import ref

import numpy as np

from tenon.dialects.definition.autocast import autocast_element
from tenon.dialects.definition.registry import generation
from tenon.dialects.ops.control.debug import checks_gradients
from tenon.dialects.support.plain_arrays import is_stored
from tenon.dialects.support.turns import StandsStillError, Turns
from tenon.dialects.support.user_place import shown
from tenon.dialects.support.user_traceback import shows_user_frames
from tenon.eager.modes import MODE, TRACING, WAITING, is_traced
from tenon.eager.recording import Stored
from tenon.runtime.arguments.tree import is_named_tuple, tell_by_identity
from tenon.runtime.call.entry import NativeCalls
from tenon.runtime.cuda.arrays import place_of
from tenon.runtime.epoch import EPOCH
from tenon.runtime.evaluate import find_function
from tenon.runtime.jit import JitFunction
from tenon.runtime.knobs import knobs
from tenon.runtime.reads.libraries import is_library
from tenon.runtime.reads.places import Holder
from tenon.runtime.reads.programs import Programs
from tenon.traces.changes import LineOf, is_stand_in
from tenon.traces.native import entry_of, like_given
from tenon.traces.pieces import Pieces, in_pieces
from tenon.traces.program import Program
from tenon.traces.reads import reads_of
from tenon.traces.stand_ins import ChangeError, DrawError, TraceError, Written, WrittenAgain

_MOST = 256
"""Programs of a function that are kept."""
_PATIENCE = 10.0
"""Seconds for which another thread's trace, for which a call waits, has itself waited in one place when the call is an
error. A trace that merely takes long is waited for."""
_TRIES = 9
"""How often a trace is made again during which numbers were drawn, by another thread maybe."""
_LOOK_AGAIN = 0.1
"""Seconds after which such a call looks again."""
_TURNS = Turns()
"""Of threads: while one traces, stand-ins are where tensors were, and no other one runs what was traced."""


_IN_PIECES: Any = object()
"""In the place of a result: gradients of it go through Python, so that each call records what is in the function."""


class TracedFunction(NativeCalls):
    """A function that runs as one program for each signature; made by `trace`."""

    def __init__(self, function: Callable[..., Any], symbolic: bool, keep_grad: bool) -> None:
        if not callable(function):
            raise TypeError(f"trace: a {type(function).__name__} cannot be called")
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.symbolic = symbolic
        self.keep_grad = keep_grad
        self.name: str = getattr(function, "__name__", type(function).__name__)
        self._programs = Programs[Program](_MOST)
        self._pieces = Pieces()

    @shows_user_frames
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on tensors, arrays and numbers, tracing first what is new."""
        if is_traced() or knobs.interpret:
            return self.function(*args, **kwargs)
        if self.symbolic and (result := self._in_turn(args, kwargs)) is not _IN_PIECES:
            return result
        is_checked = checks_gradients() or knobs.check_results
        if WAITING.piece is not None or is_checked or not self._pieces.are_worth_it(args):
            return self.function(*args, **kwargs)
        with in_pieces(self._pieces):
            return self.function(*args, **kwargs)

    def _in_turn(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What `_run` gives when no other thread traces. Where one waits for something, which may be this call, what it
        has not replaced is used call by call; what it has is an error at last."""
        place, since = None, 0.0
        while True:
            try:
                _TURNS.begin()
                try:
                    return self._run(args, kwargs)
                finally:
                    _TURNS.end()
            except StandsStillError as error:
                still = error
            if still.thread in TRACING.threads and not self._meets_stand_ins(args, kwargs):
                _TURNS.begin(at_once=True)
                try:
                    return self.function(*args, **kwargs)
                finally:
                    _TURNS.end()
            before, place = place, (still.thread, id(still.frame), still.frame.f_lasti)
            if place != before:
                since = time.monotonic()
            if time.monotonic() - since >= _PATIENCE:
                self._refuse_to_wait(still.frame)
            time.sleep(_LOOK_AGAIN)

    def _meets_stand_ins(self, args: Any, kwargs: Any) -> bool:
        """Whether a call would come upon what stands for something in the trace of another thread."""
        leaves: list[Any] = []
        _take_apart((args, kwargs), leaves)
        objects = [(leaf, "") for leaf in leaves if not _is_data(leaf)]
        reads = reads_of(self.function, objects, leaves, Written())
        met = [*leaves, *reads.objects.values(), *[value for _, value, *_ in (*reads.constants, *reads.data)]]
        return any(map(is_stand_in, met))

    def _refuse_to_wait(self, frame: Any) -> NoReturn:
        while frame.f_back is not None and is_library(frame.f_globals.get("__name__")):
            frame = frame.f_back
        raise RuntimeError(
            f"{self.name} reads what another thread has in a trace, which waits{shown((frame.f_code, frame.f_lasti))}: "
            "if that is for this call, both wait for ever; call it after the trace, or give it tensors of its own"
        )

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves: list[Any] = []
        structure = _take_apart((args, kwargs), leaves)
        key = self._key(structure, leaves)
        program = self._programs.get(key) or self._traced(key, args, kwargs, leaves)
        if program.plan.python is not None:
            return _IN_PIECES
        epoch = int(EPOCH[0])
        result = program.run(leaves)
        kind = key, tuple(kwargs), id(program)
        if not program.held and self._dispatch.wants(kind, epoch):
            call = _put_together((args, kwargs), map(like_given, leaves))
            self._dispatch.add(self, kind, entry_of(program, call, leaves), epoch)
        return result

    def save(self, path: str | Path, /, *args: Any, **kwargs: Any) -> None:
        """Write what the function does with arguments like these to a file, at once or not at all, which `tenon.load`
        reads: IR as text, and the tensors that it has from around it. Nothing is run.

        Of a function of `jit`, arguments may be `ShapeDtype`, whose names of dimensions are kept. The ops of users are
        written out, so that their definitions are not needed where the file is read. Raises `TypeError` for arguments
        and results that are neither arrays, numbers, texts nor trees of these, and for gradients that are left in
        `grad`.
        """
        from tenon.traces.files import write_program, write_traced

        if isinstance(self.function, JitFunction):
            write_traced(path, self.function.trace(*args, **kwargs))
            return
        leaves: list[Any] = []
        key = self._key(_take_apart((args, kwargs), leaves), leaves)
        program = self._traced(key, args, kwargs, leaves)
        if program.plan.python is not None:
            raise TraceError(
                f"save: gradients of what {self.name} gives would go through {program.plan.python}, which Python "
                "computes; call backward() in the traced function, or give tensors that are detached"
            )
        write_program(path, program, args, kwargs)

    @staticmethod
    def _key(structure: Hashable, leaves: list[Any]) -> Hashable:
        """What tells a call from others for which there are other programs, but for what guards see."""
        modes = (MODE.records, autocast_element(), knobs.code_settings, generation())
        return structure, _aliases(leaves), modes

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As a method: bound to its object, which is the first argument."""
        return self if instance is None else types.MethodType(self, instance)

    def _traced(self, key: Hashable, args: Any, kwargs: Any, leaves: list[Any]) -> Program:
        with _TURNS.alone():
            known = self._programs.get(key)
            if known is not None:
                return known
            self._programs.say_why(self.name, key)
            program = self._program(args, kwargs, leaves)
            held = [self._held(leaf, key) for leaf in leaves if not _is_data(leaf)]
            program.held = [kept for kept in held if kept is not None]
            return self._programs.add(self.name, key, program)

    def _program(self, args: Any, kwargs: Any, leaves: list[Any]) -> Program:
        objects = [(leaf, f"argument.{number}") for number, leaf in enumerate(leaves) if not _is_data(leaf)]
        refused: list[ChangeError] = []
        lines: list[str] = []

        def call(symbols: list[Any]) -> Any:
            args_, kwargs_ = _put_together((args, kwargs), iter(symbols))
            before = [Holder(held, "") for held in _containers((args_, kwargs_))]
            watch = LineOf(refused[0].place, before) if refused else None
            with watch or nullcontext():
                result = self.function(*args_, **kwargs_)
            if watch is not None:
                lines.append(shown(watch.line))
            if any(holder.changes() for holder in before):
                said = f"{self.name} changes a list or a dict among its arguments"
                raise ChangeError(said, ", which a program cannot do at each call; return what is new", None)
            return result

        def made() -> Program:
            written = Written()
            while True:
                reads = reads_of(self.function, objects, leaves, written)
                try:
                    return Program(self.name, reads, leaves, call, keep_grad=self.keep_grad)
                except WrittenAgain:
                    continue
                except ChangeError as error:
                    if not refused:  # once more, to find the line
                        refused.append(error)
                        continue
                raise refused[0].at(lines[0] if lines else "")

        try:
            return made()
        except DrawError:
            if threading.active_count() == 1:
                raise
        for _ in range(_TRIES):
            with suppress(DrawError):  # which another thread may be the reason of
                return made()
        return made()

    def _held(self, leaf: Any, key: Hashable) -> Any:
        """What keeps the identity of an argument from being another one's: programs for an object go when it does, if
        it says when that is."""
        if isinstance(leaf, _BY_VALUE):
            return None
        programs = ref(self._programs)

        def forget(_: Any) -> None:
            found = programs()
            if found is not None:
                found.forget(key)

        try:
            return ref(leaf, forget)
        except TypeError:
            return leaf


tell_by_identity(TracedFunction)
_BY_VALUE = (np.generic, bool, int, str, bytes, complex, type(None))


def _is_data(leaf: Any) -> bool:
    return isinstance(leaf, Stored) or is_stored(leaf) or type(leaf) is float


def _take_apart(tree: Any, leaves: list[Any]) -> Hashable:
    """The leaves of arguments, and what tells these from others: types of data, and the identity of objects."""
    kind = type(tree)
    if kind is tuple or kind is list or is_named_tuple(kind):
        return kind, *[_take_apart(item, leaves) for item in tree]
    if kind is dict:
        return kind, *[(key, _take_apart(item, leaves)) for key, item in tree.items()]
    leaves.append(tree)
    if isinstance(tree, Stored):
        return kind, tree._array.dtype, tree._array.shape, place_of(tree._array), tree._source is None
    if is_stored(tree):
        return kind, tree.dtype, tree.shape, place_of(tree)
    if kind is float:
        return kind
    if isinstance(tree, np.generic):
        return kind, tree.dtype, tree.tobytes()
    if isinstance(tree, _BY_VALUE):
        return kind, tree
    return kind, id(tree)


def _put_together(tree: Any, remaining: Any) -> Any:
    kind = type(tree)
    if kind is tuple or kind is list:
        return kind([_put_together(item, remaining) for item in tree])
    if is_named_tuple(kind):
        return kind(*[_put_together(item, remaining) for item in tree])
    if kind is dict:
        return {key: _put_together(item, remaining) for key, item in tree.items()}
    return next(remaining)


def _containers(tree: Any) -> Iterator[Any]:
    """The lists and dicts of arguments."""
    if type(tree) in (list, dict):
        yield tree
    if type(tree) in (list, dict, tuple) or is_named_tuple(type(tree)):
        for item in tree.values() if type(tree) is dict else tree:
            yield from _containers(item)


def _aliases(leaves: list[Any]) -> Hashable:
    """Which tensors and arrays share memory, as far as that can be told from what holds it."""
    found: list[int] = []
    for leaf in leaves:
        if isinstance(leaf, Stored):
            memory = leaf._memory
            found.append(id(leaf) if memory is None or not memory.tensors else id(memory))
        elif isinstance(leaf, np.ndarray):
            found.append(id(leaf))
    if len(set(found)) == len(found):
        return None
    return tuple([found.index(number) for number in found])


def trace(function: Any = None, *args: Any, symbolic: bool = True, keep_grad: bool = False, **settings: Any) -> Any:
    """An imperative function, method or module as one program for each signature, which is compiled when it is called.

    What the function does with tensors becomes part of the program: views, changes in place, `backward()`, optimizers'
    `step()`, buffers of modules. Tensors from around it are inputs; those that it changes are changed at each call, in
    place. Arrays of NumPy and floats among the arguments are inputs, too; in the function they are traced. All else
    that it reads (globals, variables of closures, attributes of modules and objects, integers among the arguments) is
    guarded: where it is another one, the function is traced again. What libraries are asked for (`os.environ`, the
    time, an iterator) is not, and stays what it was. The learning rate of an optimizer is an input. What the function
    writes to dicts, lists, attributes and variables around it is there after each call, and an input where it is read.

    Results that require gradients are recorded, as one call. The gradients that a function finds anew at each call, and
    that an optimizer uses there, are not kept in `grad` unless `keep_grad`: to ask for one is an error.

    Raises `TracedValueError` where the function asks for elements (`if x > 0`, `item()`): use `cond`, `scan` and
    `while_loop`, or `symbolic=False`, with which the function itself runs at every call, and what it computes between
    the places where it asks for elements is compiled in pieces. Raises `TypeError` for
    what a program cannot do again at each call, such as reading a count that it goes on with, or drawing numbers of
    NumPy's.

    Usable as `@tenon.trace` and as `@tenon.trace(symbolic=False)`. Of an array or a tensor, this is the op of the name:
    the sum along a diagonal.
    """
    if function is None and not settings:
        return lambda f: TracedFunction(f, symbolic, keep_grad)
    if args or settings or not callable(function):
        return find_function("trace")(*(() if function is None else (function,)), *args, **settings)
    return TracedFunction(function, symbolic, keep_grad)


__all__ = ["TracedFunction", "trace"]
