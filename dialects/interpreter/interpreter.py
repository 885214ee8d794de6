"""Runs IR on NumPy: the second opinion against compiled code, and the engine of constant folding.

A module of any stage runs as it is and is left untouched: `Interpreter().run(module, "main", arguments)`.

Values: a scalar is a NumPy scalar, a tensor or a vector an array that nobody writes to, a memref an array whose memory
is really shared with its views. `index` is int64, `i1` is bool, `bf16` is ml_dtypes' type. What has no defined content
(`tensor.empty`, `memref.alloc`) holds NaN or the least integer, so that reading it shows.

An op is run by the implementation registered for its class or, failing that, for the nearest base class. The
implementations of an upstream dialect live in `interpreter_<dialect>.py` and are imported when the first op of the
dialect is met; other modules add theirs with `register` or `implements`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

import numpy as np
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    Builtin,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    StringAttr,
    TensorType,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.traits import IsTerminator

from tenon.dialects.definition import signedness
from tenon.dialects.definition.settings import elements_of
from tenon.dialects.types.types import is_narrow, numpy_dtype

T = TypeVar("T")
Implementation = Callable[..., Sequence[Any]]
"""`(interpreter, op, *operands) -> results`; a terminator gives the values it passes on."""


class InterpreterError(RuntimeError):
    """IR that cannot be run: an unknown op, an access out of bounds, arguments that do not fit."""


class _Registration(NamedTuple):
    function: Implementation
    constant: bool


class _Step(NamedTuple):
    """An op ready to run; values are kept by the identity of their SSA value."""

    function: Implementation
    op: Operation
    operands: tuple[int, ...]
    results: tuple[int, ...]


class _Sequence(NamedTuple):
    arguments: tuple[int, ...]
    steps: list[_Step]
    terminated: bool


_registered: dict[type[Operation], _Registration] = {}
_resolved: dict[type[Operation], _Registration] = {}
_DIALECTS = frozenset(("amx", "arith", "func", "linalg", "llvm", "math", "memref", "scf", "tensor", "vector"))


def register(op_type: type[Operation], function: Implementation, *, constant: bool = False) -> None:
    """Run ops of `op_type`, and of its subclasses that have none of their own, by `function`.

    `constant` says that the results depend on the attributes alone: they are then computed once per run.
    """
    _registered[op_type] = _Registration(function, constant)
    _resolved.clear()


def implements(*op_types: type[Operation], constant: bool = False) -> Callable[[Implementation], Implementation]:
    """Decorator form of `register` for several op classes."""

    def decorate(function: Implementation) -> Implementation:
        for op_type in op_types:
            register(op_type, function, constant=constant)
        return function

    return decorate


def computes(*op_types: type[Operation]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function of the operand values alone that gives the one result of the op."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for op_type in op_types:
            register(op_type, lambda interpreter, op, *operands: (function(*operands),))
        return function

    return decorate


def op_name(op: Operation) -> str:
    """The name of `op` as the user wrote it, also where its dialect is not known."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def _registration(op: Operation) -> _Registration:
    op_type = type(op)
    if (found := _resolved.get(op_type)) is not None:
        return found
    dialect = op.name.partition(".")[0]
    if dialect in _DIALECTS:
        import_module(f"tenon.dialects.interpreter.{dialect}")
    for base in op_type.__mro__:
        if (found := _registered.get(base)) is not None:
            _resolved[op_type] = found
            return found
    raise InterpreterError(f"{op_name(op)}: the interpreter has no implementation of this op")


def element_dtype(type_: Attribute) -> np.dtype[Any]:
    """The NumPy dtype of a scalar type, or of the elements of a shaped one."""
    element = getattr(type_, "element_type", type_)
    try:
        return numpy_dtype(element)
    except TypeError:
        raise InterpreterError(f"element type {element} has no NumPy counterpart") from None


def constant_value(attribute: Attribute) -> Any:
    """The NumPy scalar or array that a number, a `dense` or a `dense_resource` attribute stands for."""
    match attribute:
        case IntegerAttr(value=value, type=type_):
            dtype = element_dtype(type_)
            if dtype == np.bool_:
                return np.bool_(value.data & 1)
            if is_narrow(type_):
                return np.asarray(value.data, np.int8).astype(dtype)[()]
            half = 1 << (8 * dtype.itemsize - 1)
            return dtype.type((value.data + half) % (2 * half) - half)
        case FloatAttr(value=value, type=type_):
            return element_dtype(type_).type(value.data)
        case DenseIntOrFPElementsAttr(type=type_, data=data):
            return elements_of(data.data, element_dtype(type_), type_.get_shape())
        case DenseResourceAttr(resource_handle=handle, type=type_):
            return elements_of(_resource_bytes(handle.data), element_dtype(type_), type_.get_shape())
        case _:
            raise InterpreterError(f"attribute {attribute} has no value in NumPy")


def _resource_bytes(key: str) -> bytes:
    """The content of a resource: hexadecimal digits, of which the first four bytes give the alignment."""
    interface = Builtin.get_interface(OpAsmDialectInterface)
    blob = interface.lookup(key) if interface is not None else None
    if not blob:
        raise InterpreterError(f"dense_resource: resource {key} has no content")
    return bytes.fromhex(blob.removeprefix("0x"))[4:]


class Interpreter:
    """Runs functions, blocks and single ops; holds what a run needs. Not safe for several threads at once.

    `vectorized` says that scalars of the IR are, for the moment, arrays over many points of an iteration domain; `mask`
    then says at which points the current op is really reached, and `tile` which part of the loops of the enclosing
    structured op is being evaluated. `values` maps the identity of an SSA value to its value in the current function.
    """

    vectorized: bool
    mask: np.ndarray | None
    tile: tuple[slice, ...] | None
    values: dict[int, Any]
    globals: dict[str, np.ndarray]

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self.vectorized = False
        self.mask = None
        self.tile = None
        self.values = {}
        self.globals = {}
        self._symbols: dict[str, Operation] = {}
        self._sequences: dict[int, _Sequence] = {}
        self._prepared: dict[Hashable, Any] = {}

    def run(self, module: ModuleOp, function_name: str, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Call a function of `module`; memref arguments are written in place.

        An argument is an array of the shape and dtype of its type (which leaves the sign of integers open) or, for
        scalars, a number. Tensor results may share memory with the arguments.
        """
        self._reset()
        for op in module.ops:
            if isinstance(symbol := op.properties.get("sym_name"), StringAttr):
                self._symbols[symbol.data] = op
        function = self.symbol(module, function_name, func.FuncOp)
        types = function.function_type.inputs.data
        if len(arguments) != len(types):
            raise InterpreterError(f"@{function_name}: expects {len(types)} arguments and got {len(arguments)}")
        external = signedness.external_elements(function)
        named = () if external is None else external[0]
        seen = [*named, *types[len(named) :]]
        converted = [
            _convert_argument(f"@{function_name}: argument {position}", value, type_, element)
            for position, (value, type_, element) in enumerate(zip(arguments, types, seen, strict=True))
        ]
        with np.errstate(all="ignore"):
            results = self.call(function, converted)
        outputs = function.function_type.outputs.data
        elements = external[1] if external is not None and outputs else outputs
        return tuple(
            np.asarray(result).view(element_dtype(element)) if isinstance(type_, TensorType) else result
            for result, type_, element in zip(results, outputs, elements, strict=True)
        )

    def call(self, function: func.FuncOp, arguments: Sequence[Any]) -> Sequence[Any]:
        """Run the body of `function` on values of its own."""
        if not function.body.blocks:
            raise InterpreterError(f"func.call: function @{function.sym_name.data} has no body")
        caller, self.values = self.values, {}
        try:
            return self.run_region(function.body, arguments)
        finally:
            self.values = caller

    def symbol(self, user: Operation, name: str, op_type: type[T]) -> T:
        """The op of class `op_type` that the module of this run defines as `name`."""
        found = self._symbols.get(name)
        if not isinstance(found, op_type):
            raise InterpreterError(
                f"{op_name(user)}: there is no {getattr(op_type, 'name', 'op')} @{name} in the module"
            )
        return found

    def run_region(self, region: Region, arguments: Sequence[Any] = ()) -> Sequence[Any]:
        """Run a region of at most one block; an empty region passes nothing on."""
        if (block := region.first_block) is None:
            return ()
        if block is not region.last_block:
            parent = region.parent_op()
            raise InterpreterError(
                f"{op_name(parent) if parent else 'region'}: regions of several blocks cannot be run"
            )
        return self.run_block(block, arguments)

    def run_block(self, block: Block, arguments: Sequence[Any] = ()) -> Sequence[Any]:
        """Run a block in the current function and give the values that its terminator passes on."""
        sequence = self._sequences.get(id(block))
        if sequence is None:
            last = block.last_op
            sequence = _Sequence(
                tuple(id(argument) for argument in block.args),
                self.steps(block.ops),
                last is not None and last.has_trait(IsTerminator),
            )
            self._sequences[id(block)] = sequence
        self.values.update(zip(sequence.arguments, arguments, strict=True))
        passed_on = self.run_steps(sequence.steps)
        return passed_on if sequence.terminated else ()

    def steps(self, ops: Iterable[Operation]) -> list[_Step]:
        """The ops with their implementations looked up and their constants evaluated."""
        return [self._step(op) for op in ops]

    def _step(self, op: Operation) -> _Step:
        function, constant = _registration(op)
        if constant:
            values = function(self, op)
            function = lambda *_: values  # noqa: E731
        return _Step(function, op, tuple(map(id, op.operands)), tuple(map(id, op.results)))

    def run_steps(self, steps: Iterable[_Step]) -> Sequence[Any]:
        """Run ops in order and give what the last one gives."""
        values = self.values
        outcome: Sequence[Any] = ()
        step = None
        try:
            for step in steps:
                function, op, operands, results = step
                outcome = function(self, op, *[values[key] for key in operands])
                for key, value in zip(results, outcome, strict=False):
                    values[key] = value
        except InterpreterError:
            raise
        except Exception as error:
            assert step is not None
            if any(key not in values for key in step.operands):
                raise InterpreterError(f"{op_name(step.op)}: an operand is used before it is defined") from error
            raise InterpreterError(f"{op_name(step.op)}: {error}") from error
        return outcome

    def evaluate(self, op: Operation, operands: Sequence[Any] = ()) -> tuple[Any, ...]:
        """The results of one op on the given values, for constant folding."""
        with np.errstate(all="ignore"):
            return tuple(_registration(op).function(self, op, *operands))

    def prepared(self, key: Hashable, prepare: Callable[[], T]) -> T:
        """What `prepare` gives, computed once per run for each key."""
        if key not in self._prepared:
            self._prepared[key] = prepare()
        return self._prepared[key]

    @contextmanager
    def masked(self, condition: np.ndarray) -> Generator[None]:
        """Inside, ops are reached only where `condition` holds; elsewhere their values do not matter."""
        outer = self.mask
        self.mask = condition if outer is None else outer & condition
        try:
            yield
        finally:
            self.mask = outer

    @contextmanager
    def vectorizing(self) -> Generator[None]:
        """Inside, scalars of the IR are arrays over many points: those of `tile`, where the caller sets it."""
        outer = self.vectorized, self.mask, self.tile
        self.vectorized, self.mask = True, None
        try:
            yield
        finally:
            self.vectorized, self.mask, self.tile = outer


def _convert_argument(where: str, value: Any, type_: Attribute, seen: Attribute) -> Any:
    """`value` as one of type `type_`, where callers may see elements of type `seen`."""
    match type_:
        case TensorType() | MemRefType():
            array = np.asarray(value) if isinstance(type_, TensorType) else value
            if not isinstance(array, np.ndarray):
                raise InterpreterError(f"{where} is a {type(value).__name__}, expected an array for {type_}")
            shape = type_.get_shape()
            fits = len(shape) == array.ndim and all(
                s in (DYNAMIC_INDEX, n) for s, n in zip(shape, array.shape, strict=True)
            )
            dtype = element_dtype(type_)
            is_signless = array.dtype.kind == "u" and dtype.kind == "i" and array.dtype.itemsize == dtype.itemsize
            if is_signless or (array.dtype != dtype and array.dtype == element_dtype(seen)):
                array = array.view(dtype)
            if not fits or array.dtype != dtype:
                raise InterpreterError(f"{where} is {array.dtype} of shape {array.shape}, expected {type_}")
            return array
        case _ if isinstance(type_, IntegerType | IndexType | AnyFloat):
            return element_dtype(type_).type(value)
        case _:
            return value
