"""What an entry says about the arguments and the result of a call, in the words that `entry_code` reads.

Arguments are described as one call gave them: nodes by class and keys, arrays by dtype and shape, numbers by class, and
what is static by the object itself, provided that an object that is the same, or equal, can be nothing else.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from math import prod
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

from tenon.runtime.arguments.arguments import Static, is_array
from tenon.runtime.arguments.orders import Orders
from tenon.runtime.arguments.tree import Structure, layout
from tenon.runtime.call.entry_words import Leaf, Part, Place, Words
from tenon.runtime.call.layout import INSTRUCTION, STEP, Build, Step
from tenon.runtime.call.size_steps import SizeSteps
from tenon.runtime.call.tensors import array_inside
from tenon.runtime.cpu.addresses import USABLE, WRITEABLE

Numbers = Mapping[type, Step]
"""By which step a number of Python's is read, by its class."""
NUMBERS: Numbers = {float: Step.float, int: Step.int, bool: Step.bool}
WIDE_NUMBERS: Numbers = {**NUMBERS, float: Step.double}
_BY_DTYPE = {
    (float, np.dtype(np.float32)): Step.float,
    (float, np.dtype(np.float64)): Step.double,
    (float, np.dtype(ml_dtypes.bfloat16)): Step.bfloat,
    (int, np.dtype(np.int64)): Step.int,
    (int, np.dtype(np.float32)): Step.float_of_int,
    (int, np.dtype(np.float64)): Step.double_of_int,
    (int, np.dtype(ml_dtypes.bfloat16)): Step.bfloat_of_int,
    (bool, np.dtype(np.bool_)): Step.bool,
}
_SCALARS = frozenset([np.dtype(code).type for code in "?bhilqBHILQefd"])
# Objects of these classes are what they are as long as they live.
_UNCHANGING = (
    *(bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type, Enum, np.dtype, np.number, np.bool_),
    *(types.FunctionType, types.BuiltinFunctionType),
)


_ANY = Leaf()


class IndescribableError(Exception):
    """A call that native code cannot tell from all others."""


def numbers_read_as(kinds: Iterable[tuple[type, np.dtype[Any]]]) -> Numbers:
    """How numbers are read of which it is known what dtypes they are taken as, by class. Raises `IndescribableError`
    where one class is taken as several, or in a way that native code does not have."""
    steps = dict[type, Step]()
    for kind, dtype in kinds:
        step = _BY_DTYPE.get((kind, dtype))
        if step is None or steps.setdefault(kind, step) is not step:
            raise IndescribableError
    return steps


def is_unchanging(value: Any) -> bool:
    """Whether an object that is static is what it is as long as it lives: to compare identities is enough."""
    kind: Any = type(value)
    return isinstance(value, _UNCHANGING) or (kind.__eq__ is object.__eq__ and kind.__hash__ is object.__hash__)


def inside_of(tree: Any, structure: Structure) -> tuple[type, ...]:
    """The classes of the objects in a tree that count as arrays, for which there are other steps than for these."""
    if structure.kind is None:
        return () if array_inside(tree) is None else (type(tree),)
    inner: Iterable[Any] = ()
    match layout(type(tree)):
        case "tuple" | "list":
            inner = tree
        case "dict":
            inner = tree.values()
        case "attributes":
            inner = [vars(tree)[name] for name in structure.names]
        case "fields":
            inner = [getattr(tree, name) for name in structure.names]
        case _:
            return ()
    pairs = zip(inner, structure.children, strict=True)
    return tuple([kind for item, child in pairs for kind in inside_of(item, child)])


class Arguments:
    """The steps that compare arguments with those of one call, and take them apart."""

    def __init__(
        self,
        words: Words,
        given: int,
        written: Collection[int] = (),
        shapes: Sequence[Sequence[Any]] | None = None,
        orders: Orders = MappingProxyType({}),
        *,
        numbers: Numbers = NUMBERS,
        copies: bool = True,
        wanted: Sequence[Leaf] = (),
    ) -> None:
        """For arguments in the first `given` registers; the leaves in `written` must be arrays to write to. Leaves have
        `shapes`, if they are given, in place of those of the call, and lie in memory in their `orders`; Python's
        `numbers` are read by these steps. Where it `copies`, arrays that programs cannot read fit
        as well."""
        self.words = words
        self._shapes, self._orders = shapes, orders
        self.copies = copies
        self.sizes = SizeSteps(self._append)
        self._numbers = numbers
        self._wanted = wanted
        self.registers = given
        self.leaves = 0
        self._written = written
        self._steps: list[int | Place] = []
        self.count = 0

    def finished(self) -> Place:
        """Where the steps lie."""
        return self.words.add(self._steps)

    def open(self, register: int, value: Any, structure: Structure) -> None:
        """Compare and take apart the tree in a register, whose leaves are numbered on."""
        kind = type(value)
        if structure.kind is None:
            self.leaf(register, value)
            return
        match layout(kind):
            case "constant":
                self.constant(register, value)
            case "tuple" | "list" as operation:
                items = list(zip(value, structure.children, strict=True))
                self._open(Step[operation], register, kind, len(value), 0, items)
            case "dict":
                self._keyed(Step.dict, register, kind, dict(zip(value, structure.children, strict=True)), value)
            case "attributes":
                children = dict(zip(structure.names, structure.children, strict=True))
                self._keyed(Step.attributes, register, kind, children, vars(value))
            case "fields":
                children = dict(zip(structure.names, structure.children, strict=True))
                fields = {name: getattr(value, name) for name in (*structure.names, *structure.static)}
                self._keyed(Step.fields, register, kind, children, fields)
            case _:
                raise IndescribableError

    def step(self, kind: str, operation: Step, register: int, **words: int | Place) -> None:
        """Append a step of this kind."""
        self._append(STEP.words_of(kind, {"operation": int(operation), "register": register, **words}))

    def _append(self, words: list[int | Place]) -> None:
        self._steps += words
        self.count += 1

    def _keyed(
        self, operation: Step, register: int, kind: type, children: dict[Any, Structure], values: dict[Any, Any]
    ) -> None:
        keys = self.words.objects(list(values))
        items = [(value, children.get(key)) for key, value in values.items()]
        self._open(operation, register, kind, len(items), keys, items)

    def _open(
        self,
        operation: Step,
        register: int,
        kind: type,
        count: int,
        keys: int | Place,
        items: Sequence[tuple[Any, Structure | None]],
    ) -> None:
        first = self.registers
        self.registers += count
        self.step("node", operation, register, first=first, count=count, keys=keys, type=self.words.keep(kind))
        for inner, (value, structure) in enumerate(items, first):
            if structure is None:
                self.constant(inner, value)
            else:
                self.open(inner, value, structure)

    def leaf(self, register: int, leaf: Any) -> None:
        """Expect one like a leaf."""
        kind = type(leaf)
        if kind is Static:
            self.constant(register, leaf.value)
        elif kind is np.ndarray:
            self.array(register, leaf.dtype, leaf.shape)
        elif kind in self._numbers and self.leaves not in self._written:
            self.step("number", self._numbers[kind], register, leaf=self.leaves)
            self.leaves += 1
        elif kind in _SCALARS and self.leaves not in self._written:
            size = leaf.dtype.itemsize
            self.step("scalar", Step.scalar, register, leaf=self.leaves, type=self.words.keep(kind), bytes=size)
            self.leaves += 1
        elif (inside := array_inside(leaf)) is not None and self.leaves not in self._written:
            self.array(register, inside.dtype, inside.shape, kind)
        elif is_array(leaf):
            raise IndescribableError
        else:
            self.constant(register, leaf)

    def array(self, register: int, dtype: np.dtype[Any], shape: tuple[int, ...], inside: type | None = None) -> None:
        """Expect an array, the next leaf, or an object of a class that has it inside."""
        usual = np.dtype(dtype.type)
        if usual != dtype:
            raise IndescribableError
        place = self._orders.get(self.leaves)
        wanted = self._wanted[self.leaves] if self._wanted else _ANY if inside is None else Leaf(inside)
        sizes = shape if self._shapes is None or place is not None else self._shapes[self.leaves]
        self.step(
            "array",
            Step.array,
            register,
            leaf=self.leaves,
            dtype=self.words.keep(usual),
            rank=len(shape),
            shape=self.words.add([self.sizes.dimension(size) for size in sizes]),
            flags=USABLE | WRITEABLE if self.leaves in self._written else USABLE,
            item_size=usual.itemsize,
            strides=0 if place is None else self.words.add(place.strides(usual.itemsize)),
            whole=prod(place.shape) * usual.itemsize if place is not None and place.has_gaps(shape) else 0,
            is_copied=int(self.copies and place is None and not wanted.is_changed),
            class_=0 if wanted.kind is None else self.words.keep(wanted.kind),
            source=wanted.source,
            is_changed=int(wanted.is_changed),
            is_inside=int(inside is not None),
        )
        self.leaves += 1

    def constant(self, register: int, value: Any) -> None:
        """Expect a value that is static."""
        kind = type(value)
        if kind is tuple or kind is list:
            self._open(Step[kind.__name__], register, kind, len(value), 0, [(inner, None) for inner in value])
        elif kind is dict:
            self._keyed(Step.dict, register, kind, {}, value)
        elif is_unchanging(value):
            self.step("same", Step.same, register, object=self.words.keep(value))
        else:
            raise IndescribableError


class Building:
    """The instructions that put a result together from its leaves."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.count = 0
        self.stack = 0
        self._height = 0
        self._instructions: list[int | Place] = []

    def described(self) -> dict[str, int | Place]:
        """Where the instructions lie, and what room they need."""
        where = self.words.add(self._instructions)
        return {"building_count": self.count, "building": where, "stack": self.stack}

    def register(self, register: int) -> None:
        """Push what is in a register."""
        self._push(Build.register, 0, register)

    def tree(self, structure: Structure) -> None:
        """Push a tree, whose leaves are the next results."""
        kind = structure.kind
        match None if kind is None else layout(kind):
            case None if kind is None:
                self._push(Build.result, 0)
            case "constant":
                self._push(Build.constant, 0, self.words.keep(structure.static[0] if structure.static else None))
            case "tuple" | "list" as operation if kind is tuple or kind is list:
                self._children(structure)
                self._push(Build[operation], len(structure.children))
            case "dict":
                self._children(structure)
                self._push(Build.dict, len(structure.children), self.words.objects(structure.static[0]))
            case "attributes" | "fields" as operation if structure.is_shareable and _is_made_by_object(kind):
                for value in structure.static.values():
                    self._push(Build.constant, 0, self.words.keep(value))
                self._children(structure)
                names = [*structure.static, *structure.names]
                self._push(Build[operation], len(names), self.words.objects(names), self.words.keep(kind))
            case _:
                self._children(structure)
                self._push(Build.call, len(structure.children), self.words.keep(_Rebuilt(structure)))

    def parts(self, tree: Any) -> None:
        """Push a tree that has the numbers of results, as `Part`."""
        kind = type(tree)
        if kind is Part:
            self._push(Build.part, 0, tree.number)
        elif kind in (tuple, list, dict):
            for item in tree.values() if kind is dict else tree:
                self.parts(item)
            keys = self.words.objects(list(tree)) if kind is dict else 0
            self._push(Build[kind.__name__], len(tree), keys)
        elif tree is None or kind in (bool, int, float, str):
            self._push(Build.constant, 0, self.words.keep(tree))
        else:
            raise IndescribableError

    def _children(self, structure: Structure) -> None:
        for child in structure.children:
            self.tree(child)

    def _push(self, operation: Build, taken: int, value: int | Place = 0, kind: int = 0) -> None:
        words = {"operation": int(operation), "taken": taken, "object": value, "type": kind}
        self._instructions += INSTRUCTION.words(words)
        self.count += 1
        self._height += 1 - taken
        self.stack = max(self.stack, self._height)


class _Rebuilt:
    """A node from the list of its children."""

    def __init__(self, structure: Structure) -> None:
        self._structure = structure

    def __call__(self, values: list[Any]) -> Any:
        node = self._structure
        assert node.kind is not None
        assert node.rebuild is not None
        return tuple(values) if node.kind is tuple else node.rebuild(node.kind, node.names, values, node.static)


_HEAP_TYPE, _ABSTRACT = 1 << 9, 1 << 20


def _is_made_by_object(kind: Any) -> bool:
    """Whether instances of a class are made as `object.__new__` makes them."""
    return not kind.__flags__ & _ABSTRACT and all(base.__flags__ & _HEAP_TYPE for base in kind.__mro__[:-1])
