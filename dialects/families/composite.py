"""The family of ops that are written in terms of other ops."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from xdsl.ir import Block

from tenon.dialects.definition.registry import generation
from tenon.dialects.definition.signature import flat, map_grouped
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.value import InsertionPoint, TracedValueError, Value, inserting
from tenon.dialects.families.structured_op import as_tuple, require_hooks
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.dialects.types.shapes import InferenceError
from tenon.dialects.types.size import UndecidedSizeError


class CompositeOp(TensorOp):
    """An op written in terms of other ops."""

    @staticmethod
    @abstractmethod
    def decompose(*operands: Any, **settings: Any) -> Any:
        """The result (a tuple for several), computed with other ops."""

    @classmethod
    def decompose_in_pieces(cls, *operands: Any, **settings: Any) -> Any:
        """The same where no thread does a row from end to end, as on a GPU: by pieces that are independent of each
        other. An op for which that takes another algorithm defines it."""
        return cls.decompose(*operands, **settings)

    @classmethod
    def decompose_by_packing(cls, *operands: Any, packs: Collection[int], **settings: Any) -> Any:
        """The same where one instruction packs those lanes of a vector that a mask selects, of any of the bits in
        `packs`. An op for which that takes another algorithm defines it."""
        return cls.decompose(*operands, **settings)

    @classmethod
    def check_family(cls) -> None:
        require_hooks(cls, "decompose")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        key = (cls, operands, tuple(settings.items()), generation())
        try:
            known = _INFERRED.get(key)
        except TypeError:  # a setting that does not hash, such as an array
            return cls._infer_by_tracing(operands, settings)
        if known is None:
            if key in _IN_PROGRESS.keys:
                raise InferenceError(f"{cls.name}: decompose uses the op itself on operands of the same types")
            _IN_PROGRESS.keys.add(key)
            try:
                known = _INFERRED[key] = cls._infer_by_tracing(operands, settings)
            finally:
                _IN_PROGRESS.keys.discard(key)
        return known

    @classmethod
    def _infer_by_tracing(cls, operands: Sequence[Any], settings: dict[str, Any]) -> Any:
        block = Block(arg_types=flat(operands))
        arguments = iter(block.args)
        grouped = map_grouped(lambda _: Value(next(arguments)), operands)
        with inserting(InsertionPoint(block)):
            values = as_tuple(cls.decompose(*grouped, **settings))
        needed = len(cls.SIGNATURE.results)
        counts = len(values) == needed or cls.SIGNATURE.variadic_results
        if not counts or not all(isinstance(v, Value) for v in values):
            given = ", ".join(type(v).__name__ for v in values)
            raise TypeError(f"{cls.name}: decompose returns ({given}) where {needed} traced values are needed")
        types = [value.type for value in values]
        return types[0] if len(types) == 1 else tuple(types)

    @classmethod
    def apply_to_scalars(cls, operands: Sequence[Any], settings: dict[str, Any]) -> Any:
        return cls.decompose(*operands, **cls.python_settings(cls.setting_attributes(settings)))

    def decomposed(
        self, operands: Sequence[Any], *, serial_rows: bool = True, packs: Collection[int] = ()
    ) -> tuple[Any, ...]:
        """The results as values, computed from grouped values by other ops at the insertion point. With `serial_rows`
        one thread may do a row from end to end; lanes of the bits in `packs` are packed by an instruction."""
        hook: Callable[..., Any] = self.decompose if serial_rows else self.decompose_in_pieces
        if serial_rows and packs:
            hook = partial(self.decompose_by_packing, packs=packs)
        try:
            return as_tuple(hook(*operands, **self.settings))
        except (InferenceError, UndecidedSizeError, TracedValueError) as error:
            raise type(error)(f"{self.name}: {error}") from None


class SerialRowsOp(TensorOp):
    """An op of rows each of which one thread does from end to end; where no thread does, it is other ops."""

    @staticmethod
    @abstractmethod
    def decompose_in_pieces(*operands: Any, **settings: Any) -> Any:
        """The result, computed with ops that do rows by independent pieces."""

    def decomposed(
        self, operands: Sequence[Any], *, serial_rows: bool = False, packs: Collection[int] = ()
    ) -> tuple[Any, ...]:
        """The results as values, computed from grouped values by other ops at the insertion point."""
        return as_tuple(self.decompose_in_pieces(*operands, **self.settings))


class _InProgress(threading.local):
    """What a thread infers at the moment, ops inside of ops."""

    def __init__(self) -> None:
        self.keys: set[Any] = set()


_INFERRED: BoundedCache[Any] = BoundedCache(4096)
_IN_PROGRESS = _InProgress()
