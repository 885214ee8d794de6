"""What an op class was asked before, with the answers: hooks are pure functions of operand types and settings.

A trace builds the same few kinds of ops again and again. To check their settings and to infer their types takes several
times as long as to find both by the identity of types, which traces share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Attribute

from tenon.dialects.definition.registry import generation
from tenon.dialects.definition.signature import flat
from tenon.dialects.definition.value import Value
from tenon.dialects.types.types import AnyTensor

_LIMIT = 1024
"""Answers of one kind that a class keeps; when there are more, all are forgotten."""
_UNKNOWN = "unknown"
_PLAIN = (int, bool, str, type(None))


class KnownSettings:
    """The properties that settings of an op became, and the result types that were inferred with them."""

    __slots__ = ("_given", "_results", "identity", "properties", "settings")

    def __init__(
        self, given: Sequence[Any], properties: dict[str, Attribute], settings: dict[str, Any], is_kept: bool
    ) -> None:
        self._given = given  # alive, so that no other attribute has the identity of one in the key
        # What tells these settings from others of the op; to hash attributes takes longer than the rest of a call.
        self.identity: Any = self if is_kept else tuple(properties.items())
        self.properties = properties
        self.settings = settings
        self._results: dict[tuple[Any, ...], tuple[Any, tuple[AnyTensor, ...]]] = {}

    def results(self, types: Sequence[Any], infer: Callable[[], tuple[AnyTensor, ...]]) -> tuple[AnyTensor, ...]:
        """The result types for operands of `types`, each a type, `None`, or of a variadic operand a tuple of types."""
        key = tuple([id(t) if type(t) is not tuple else tuple(map(id, t)) for t in types])
        known = self._results.get(key)
        if known is None:
            if len(self._results) >= _LIMIT:
                self._results.clear()
            known = self._results[key] = ([*types], infer())
        return known[1]


class KnownResults:
    """What is known of the ops of one class."""

    def __init__(self) -> None:
        self._generation = 0
        self._settings: dict[Any, KnownSettings] = {}
        self._elements: dict[Any, tuple[list[Any], list[tuple[str, Attribute]]]] = {}

    def elements(
        self, operands: Sequence[Any], infer: Callable[[], list[tuple[str, Attribute]]]
    ) -> list[tuple[str, Attribute]]:
        """What `infer` gives for `operands`, of which only the dtypes count, and whether they are literals."""
        kinds = [_kind(value) for value in operands]
        if _UNKNOWN in kinds:
            return infer()
        key = tuple(kinds)
        known = self._elements.get(key)
        if known is None:
            if len(self._elements) >= _LIMIT:
                self._elements.clear()
            known = self._elements[key] = ([v.element_type for v in flat(operands) if isinstance(v, Value)], infer())
        return known[1]

    def with_settings(
        self, settings: Mapping[str, Any], make: Callable[[], tuple[dict[str, Attribute], dict[str, Any]]]
    ) -> KnownSettings:
        """What is known for `settings`; `make` gives their properties, and the settings as hooks see them."""
        if self._generation != generation():  # hooks call each other's ops by name
            self._settings.clear()
            self._generation = generation()
        key = _key(settings)
        known = None if key is None else self._settings.get(key)
        if known is None:
            known = KnownSettings([*settings.values()], *make(), is_kept=key is not None)
            if key is not None:
                if len(self._settings) >= _LIMIT:
                    self._settings.clear()
                self._settings[key] = known
        return known


def _kind(value: Any) -> Any:
    """What tells operands of different dtypes apart, by identity for traced values."""
    kind = type(value)
    if kind is Value:
        return id(value.element_type)
    if kind is float or kind is int or kind is bool:
        return kind
    if kind is np.ndarray:
        return (value.dtype,)  # no dtype by itself: it is equal to the type of Python that it is named after
    if kind is tuple:
        kinds = [_kind(element) for element in value]
        return _UNKNOWN if _UNKNOWN in kinds else ("group", *kinds)
    return None if value is None else _UNKNOWN


def _key(settings: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """What tells settings apart, `None` where that would take as long as to look at them.

    Python takes 1, 1.0 and True for equal, and 0.0 and -0.0, which settings must not.
    """
    key: list[Any] = []
    for name, value in settings.items():
        kind = type(value)
        if kind is tuple:
            if not {int}.issuperset(map(type, value)):
                return None
        elif kind is float:
            value = repr(value)
        elif kind not in _PLAIN:
            # asked last: for a type that it has not seen, an abstract class looks through all that derive from it
            if not isinstance(value, Attribute):
                return None
            value = id(value)
        key += (name, kind, value)
    return tuple(key)
