"""Verify a module again and again while passes change it: what each pass left, at the price of what it changed.

What is checked is what `verify()` of each op checks, that each value is defined where it is used (`dominance`), and
that what is called or named by a symbol is there. An op is verified again if it, its place or something inside of it is
not what it was after the pass before; one that ends a block if an op around it is not, as well, and one that names a
symbol in any case. One without regions that ends no block is verified once for all that are like it, of its class,
types and attributes.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import Operation
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import VerifyException

from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.passes.dominance import check_dominance

_Description: TypeAlias = tuple[Any, ...]

_valid_kinds: BoundedCache[bool] = BoundedCache(1 << 16)
"""Ops without regions that are valid, by all that their own `verify()` looks at."""


_VERIFIED_BY_PARENT = (IndexOp,)
"""Ops that are valid or not by what encloses them, wherever in their block they stand."""


class Verification:
    """What is known to be valid of one module, or of one function of a module."""

    def __init__(self) -> None:
        self._former: dict[Operation, _Description] = {}
        self._seen: dict[Operation, _Description] = {}
        self._symbols: set[str] = set()

    def after(self, name: str, op: Operation) -> None:
        """Raise a `VerifyException` that says that the pass `name` left `op` invalid, and why, if it did."""
        try:
            self.check(op)
        except Exception as error:
            invalid = VerifyException(f"pass '{name}' left invalid IR: {error}")
            for note in getattr(error, "__notes__", ()):
                invalid.add_note(note)
            raise invalid from error

    def check(self, op: Operation) -> None:
        """Raise a `VerifyException` that names the op at fault, and shows it in the IR, if `op` is not valid."""
        self._symbols = _symbols(op.get_toplevel_object())
        self._seen = {}
        if self._check(op):
            check_dominance(op)
        self._former = self._seen

    def _check(self, op: Operation, is_around_new: bool = False) -> bool:
        """Verify `op`, with what is inside of it first, as far as needed; whether it or something inside has changed.

        `is_around_new` says whether an op around it has changed, not counting what is inside of that.
        """
        description = self._seen[op] = _describe(op)
        changed = is_new = self._former.get(op) != description
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    changed |= self._check(inner, is_new or is_around_new)
        # Symbols are defined elsewhere, and whether the last op of a block is valid depends on what encloses it.
        named = [entry.root_reference.data for entry in description if type(entry) is SymbolRefAttr]
        depends = op.next_op is None or type(op) in _VERIFIED_BY_PARENT
        if not (changed or named or (depends and is_around_new)):
            return False
        try:
            self._check_names(op, named)
            # A constant of many elements is not worth keeping.
            if named or depends or op.regions or DenseIntOrFPElementsAttr in map(type, description):
                _verify(op)
            else:
                _verify_kind(op, description)
        except Exception as error:
            if getattr(error, "__notes__", ()) and str(error).startswith(op.name):
                raise
            op.emit_error(str(error), VerifyException(f"{op.name}: {error}"))
        return changed

    def _check_names(self, op: Operation, names: list[str]) -> None:
        for name in names:
            if name not in self._symbols and not _is_defined_around(op, name):
                raise VerifyException(f"@{name} is not defined")


def _verify(op: Operation) -> None:
    for block in [block for region in op.regions for block in region.blocks if block.first_op is None]:
        block.verify()
    op.verify(verify_nested_ops=False)


def _verify_kind(op: Operation, description: _Description) -> None:
    kind = (type(op), type(op.parent_op()), *description[_PLACE:])
    if _valid_kinds.get(kind) is None:
        op.verify(verify_nested_ops=False)
        _valid_kinds[kind] = True


_PLACE = 4


def _describe(op: Operation) -> _Description:
    """What tells whether `op` has changed: the first `_PLACE` entries say where it stands and the values that it takes,
    the rest is what its own `verify()` looks at."""
    # `op.operands` is a view, in which a later operand would seem to have always been.
    operands, properties, attributes = tuple(op.operands), op.properties, op.attributes
    description = (
        *(op.parent, op.prev_op, op.next_op is None, operands),
        *(len(operands), len(op.results), len(properties)),
        *[operand.type for operand in operands],
        *[result.type for result in op.results],
        *properties,
        *properties.values(),
        *attributes,
        *attributes.values(),
    )
    if not op.regions:
        return description
    blocks = [block for region in op.regions for block in region.blocks]
    return (*description, *blocks, *[argument.type for block in blocks for argument in block.args])


def _symbols(module: object) -> set[str]:
    """The names of what `module` defines."""
    ops = module.regions[0].block.ops if isinstance(module, ModuleOp) else ()
    names = [op.get_attr_or_prop("sym_name") for op in ops]
    return {name.data for name in names if isinstance(name, StringAttr)}


def _is_defined_around(op: Operation, name: str) -> bool:
    """Whether `name` is a symbol of one of the modules, of any kind, around `op`."""
    around = op.parent_op()
    while around is not None and not (around.has_trait(SymbolTable) and SymbolTable.lookup_symbol(around, name)):
        around = around.parent_op()
    return around is not None
