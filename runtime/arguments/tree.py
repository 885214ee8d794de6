"""Trees: nested tuples, lists, dicts and dataclasses with arrays at their leaves.

Functions, classes and strings belong to the structure, and `None` is an empty tree. A leaf is anything else. `flatten`
takes a tree apart into its leaves and a `Structure`, which puts such leaves together again. Structures are unique: two
trees of the same structure give the same object, so comparing and hashing one costs nothing. Dataclass fields declared
with `metadata={"static": True}` belong to the structure; their values need to be hashable, or lists, dicts and sets of
what is. Static numbers are told apart by type as well (1, 1.0 and True differ), and floats by their bits. Objects whose
class has no equality of its own are refused: they could change, and would be taken for what they were. A bound method
is a node whose child is its object.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import types
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Literal
from weakref import WeakValueDictionary

import numpy as np

from tenon.dialects.support.forking import new_lock
from tenon.runtime.epoch import expire


class Structure:
    """The shape of a tree: `kind` of node (`None` for a leaf), its static part, and its children with their names."""

    __slots__ = ("__weakref__", "_static", "children", "is_shareable", "kind", "names", "rebuild", "size")

    def __init__(
        self,
        kind: type | None,
        static: Any = (),
        children: tuple[Structure, ...] = (),
        names: tuple[str, ...] = (),
        rebuild: PutTogether | None = None,
    ) -> None:
        self.kind = kind
        self._static = copy.deepcopy(static) if not _is_immutable(static) else static
        self.is_shareable = _is_immutable(static)
        self.children = children
        self.names = names
        self.rebuild = rebuild
        self.size: int = 1 if kind is None else sum(child.size for child in children)

    @property
    def static(self) -> Any:
        """The static part, whose lists, dicts and sets are nobody else's."""
        return self._static if self.is_shareable else copy.deepcopy(self._static)

    def __repr__(self) -> str:
        return f"Structure({'*' if self.kind is None else self.kind.__name__}: {', '.join(paths(self))})"


# How nodes come apart: names and values of children, and the static part, which has to be a dict or a tuple.
TakeApart = Callable[[Any], tuple[tuple[str, ...], Sequence[Any], Any]]
# How they come together again: kind, names, values, static part.
PutTogether = Callable[[type, tuple[str, ...], Sequence[Any], Any], Any]

_REGISTERED: dict[type, tuple[TakeApart, PutTogether]] = {}
_ATTRIBUTED: set[PutTogether] = set()
# The node classes met so far; `None` says that instances are leaves.
_KINDS: dict[type, tuple[TakeApart, PutTogether] | None] = {}
# Those in use; a function or class that only a structure holds goes with it.
_STRUCTURES: WeakValueDictionary[tuple[Any, ...], Structure] = WeakValueDictionary()
_STRUCTURES_LOCK = new_lock()


def register_node(
    kind: type, take_apart: TakeApart, put_together: PutTogether, *, has_attributes: bool = False
) -> None:
    """Make instances of `kind` and of its subclasses nodes of trees.

    `has_attributes` promises that children and static part together are what `vars` gives, that whether an attribute is
    a child depends on its value alone, and that `put_together` does no more than set attributes, the static ones first.
    """
    _REGISTERED[kind] = (take_apart, put_together)
    _ATTRIBUTED.discard(put_together)
    if has_attributes:
        _ATTRIBUTED.add(put_together)
    _KINDS.clear()
    expire()


def _kind(kind: type) -> tuple[TakeApart, PutTogether] | None:
    found = next((_REGISTERED[base] for base in kind.__mro__ if base in _REGISTERED), None)
    if found is None and dataclasses.is_dataclass(kind):
        found = _take_apart_dataclass, _put_together_dataclass
    _KINDS[kind] = found
    return found


def node_kind(kind: type) -> tuple[TakeApart, PutTogether] | None:
    """How instances of `kind` come apart and together; `None` where they are leaves."""
    return _KINDS[kind] if kind in _KINDS else _kind(kind)


def is_node(kind: type) -> bool:
    """Whether instances of `kind` are nodes of trees, and no leaves."""
    return node_kind(kind) is not None


Layout = Literal["constant", "tuple", "list", "dict", "attributes", "fields"]


def layout(kind: type) -> Layout | None:
    """How nodes of a class lie in memory, where that is all there is to taking them apart; `None` for all others."""
    known = node_kind(kind)
    if known is None:
        return None
    put_together = known[1]
    if kind is list or kind is dict:
        return "list" if kind is list else "dict"
    if issubclass(kind, tuple) and put_together is _put_together_sequence:
        return "tuple" if kind.__iter__ is tuple.__iter__ and kind.__len__ is tuple.__len__ else None
    if put_together in _ATTRIBUTED:
        return "attributes" if kind.__getattribute__ is object.__getattribute__ else None
    if put_together is _put_together_dataclass:
        return "fields"
    return "constant" if kind in _CONSTANTS else None


# --- the kinds of nodes ---------------------------------------------------------------------------


def _indices(count: int) -> tuple[str, ...]:
    return tuple(map(str, range(count)))


def _take_apart_sequence(node: Sequence[Any]) -> tuple[tuple[str, ...], Sequence[Any], Any]:
    return getattr(node, "_fields", None) or _indices(len(node)), node, ()


def is_named_tuple(kind: type) -> bool:
    """Whether a class is one of tuples whose items have names."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def like_sequence(kind: type, items: Sequence[Any]) -> Any:
    """A list or a tuple of a class, which may be a named one, of these items."""
    return kind(*items) if hasattr(kind, "_fields") else kind(items)


def _put_together_sequence(kind: type, names: tuple[str, ...], values: Sequence[Any], static: Any) -> Any:
    return like_sequence(kind, values)


def _take_apart_dict(node: dict[Any, Any]) -> tuple[tuple[str, ...], Sequence[Any], Any]:
    factory = node.default_factory if isinstance(node, defaultdict) else None
    return tuple(map(str, node)), tuple(node.values()), (tuple(node), factory)


def _put_together_dict(kind: type, names: tuple[str, ...], values: Sequence[Any], static: Any) -> Any:
    keys, factory = static
    items = zip(keys, values, strict=True)
    return kind(factory, items) if issubclass(kind, defaultdict) else kind(items)


def static_field(default: Any = dataclasses.MISSING) -> Any:
    """A dataclass field that belongs to the structure."""
    return dataclasses.field(default=default, metadata={"static": True})


def _take_apart_dataclass(node: Any) -> tuple[tuple[str, ...], Sequence[Any], Any]:
    fields = dataclasses.fields(node)
    names = tuple([f.name for f in fields if not f.metadata.get("static")])
    static = {f.name: getattr(node, f.name) for f in fields if f.metadata.get("static")}
    return names, [getattr(node, n) for n in names], static


def _put_together_dataclass(kind: type, names: tuple[str, ...], values: Sequence[Any], static: Any) -> Any:
    instance = object.__new__(kind)
    for name, value in (*zip(names, values, strict=True), *static.items()):
        object.__setattr__(instance, name, value)
    return instance


register_node(tuple, _take_apart_sequence, _put_together_sequence)
register_node(list, _take_apart_sequence, _put_together_sequence)
register_node(dict, _take_apart_dict, _put_together_dict)
register_node(type(None), lambda _: ((), (), ()), lambda *_: None)
_CONSTANTS: set[type] = {type(None)}


def register_constant(kind: type) -> None:
    """Make instances of `kind`, which do not change, part of the structure of trees."""
    _CONSTANTS.add(kind)
    register_node(kind, lambda node: ((), (), (node,)), lambda kind, names, values, static: static[0])


for _kind_of_constant in (str, type, types.FunctionType, types.BuiltinFunctionType):
    register_constant(_kind_of_constant)


register_node(
    types.MethodType,
    lambda method: (("self",), (method.__self__,), (method.__func__,)),
    lambda kind, names, values, static: kind(static[0], *values),
)


# --- static parts ---------------------------------------------------------------------------------

_PLAIN = (str, type(None), type)


# What is told from others by its identity, and does not change.
_IDENTITIES: set[type] = {
    object,
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
    types.ModuleType,
    types.EllipsisType,
    types.NotImplementedType,
    np.ufunc,
}


def tell_by_identity(kind: type) -> None:
    """Take instances of `kind`, which do not change, as static values without an equality of their own."""
    _IDENTITIES.add(kind)


def _may_change_unnoticed(kind: type) -> bool:
    return kind.__hash__ is object.__hash__ and kind is not object and _IDENTITIES.isdisjoint(kind.__mro__[:-1])


class UnnoticedChangeError(TypeError):
    """A static value that could change without being noticed; the message says so, and is to follow its name."""

    def __init__(self, value: Any) -> None:
        name = type(value).__name__
        super().__init__(f"could change without being noticed: {name} does not define __eq__ and __hash__")


def _is_immutable(static: Any, is_inner: bool = False) -> bool:
    """Whether no list, dict or set is in a static part; the dict that holds the part is never handed out."""
    if isinstance(static, dict) and not is_inner:
        return all(_is_immutable(value, True) for value in static.values())
    if isinstance(static, tuple):
        return all(_is_immutable(value, True) for value in static)
    return not isinstance(static, list | set | dict)


def static_key(value: Any, *, is_trusted: bool = False) -> Hashable:
    """What tells a static value apart from others: hashable, and different for values that a program may treat
    differently.

    Raises `TypeError` for a value that does not hash; unless `is_trusted`, `UnnoticedChangeError` for one that is told
    from others by its identity alone.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is float:
        return float, value if value and value == value else value.hex()
    key = functools.partial(static_key, is_trusted=is_trusted)
    if kind in (tuple, list):
        return (kind, *map(key, value))
    if kind in (set, frozenset):
        return kind, frozenset(map(key, value))
    if kind is dict:
        return (dict, *[(key(k), key(v)) for k, v in value.items()])
    if kind is slice:
        return slice, *map(key, (value.start, value.stop, value.step))
    if kind is functools.partial:
        return kind, key(value.func), key(value.args), key(value.keywords)
    hash(value)
    if not is_trusted and _may_change_unnoticed(kind):
        raise UnnoticedChangeError(value)
    return kind, value


LEAF = Structure(None)


# --- taking trees apart and putting them together -------------------------------------------------


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of `tree`, in order, and its structure.

    Raises `TypeError` naming the static value that does not hash.
    """
    leaves: list[Any] = []
    tokens: list[Any] = []
    _tokenize(tree, leaves, tokens)
    key = tuple(tokens)
    structure = _STRUCTURES.get(key)
    if structure is None:
        structure = _structure(tree)
        with _STRUCTURES_LOCK:
            structure = _STRUCTURES.setdefault(key, structure)
    return leaves, structure


def _tokenize(node: Any, leaves: list[Any], tokens: list[Any]) -> None:
    """Append the leaves below `node`, and what tells its structure apart from others, in prefix order."""
    kind = type(node)
    if kind is tuple or kind is list:
        tokens.append(kind)
        tokens.append(len(node))
        for value in node:
            _tokenize(value, leaves, tokens)
        return
    node_kind = _KINDS[kind] if kind in _KINDS else _kind(kind)
    if node_kind is None:
        leaves.append(node)
        tokens.append(None)
        return
    names, values, static = node_kind[0](node)
    tokens.append(kind)
    tokens.append(names)
    if static:
        _add_static(kind, static, tokens)
    for value in values:
        _tokenize(value, leaves, tokens)


def _add_static(kind: type, static: Any, tokens: list[Any]) -> None:
    if not isinstance(static, dict):
        try:
            tokens.append(static_key(static))
        except UnnoticedChangeError as error:
            raise TypeError(f"a {kind.__name__} holds what {error}") from None
        return
    tokens.append(len(static))
    for name, value in static.items():
        tokens.append(name)
        value_kind = type(value)
        if value_kind is bool or value_kind is int or value is None:
            tokens.append(value_kind)
            tokens.append(value)
            continue
        try:
            tokens.append(static_key(value))
        except UnnoticedChangeError as error:
            raise TypeError(
                f"{kind.__name__}.{name} (a {value_kind.__name__}) {error}; make it a frozen dataclass of "
                "plain values, a Module, or an attribute of the class"
            ) from None
        except TypeError:
            raise TypeError(
                f"{kind.__name__}.{name} is a {value_kind.__name__}, which is neither an array nor hashable"
            ) from None


def _structure(node: Any) -> Structure:
    kind = type(node)
    node_kind = _KINDS[kind] if kind in _KINDS else _kind(kind)
    if node_kind is None:
        return LEAF
    names, values, static = node_kind[0](node)
    return Structure(kind, static, tuple([flatten(v)[1] for v in values]), names, node_kind[1])


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The tree of `structure` with `leaves`."""
    return _build(structure, iter(leaves))


def _build(structure: Structure, remaining: Iterator[Any]) -> Any:
    kind = structure.kind
    if kind is None:
        return next(remaining)
    values = [_build(child, remaining) for child in structure.children]
    if kind is tuple:
        return tuple(values)
    assert structure.rebuild is not None
    return structure.rebuild(kind, structure.names, values, structure.static)


def paths(structure: Structure, prefix: str = "") -> Iterator[str]:
    """The leaves' names, as errors print them: `params.layers.0.weight`."""
    if structure.kind is None:
        yield prefix or "value"
        return
    for name, child in zip(structure.names, structure.children, strict=True):
        yield from paths(child, f"{prefix}.{name}" if prefix else name)


def describe(tree: Any) -> str:
    """The kind and the leaf names of a tree, for errors."""
    _, structure = flatten(tree)
    return type(tree).__name__ if structure is LEAF else f"{type(tree).__name__}({', '.join(paths(structure))})"


def copied(tree: Any) -> Any:
    """`tree` with its nodes copied and its leaves shared."""
    leaves, structure = flatten(tree)
    return unflatten(structure, leaves)
