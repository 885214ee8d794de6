"""Simplifies: algebra, constants, dead ops.

Before: a verified module of any stage. After: the same results with fewer or cheaper ops; result types are as they
were. Numbers may differ where an equation in `equations_arithmetic` says so: zeros may change their sign; and in
rounding where `equations_products` and `equations_matrices` do.

An op class may state equations of its own, as the hook `canonicalize`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnknownLoc
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint
from xdsl.traits import HasCanonicalizationPatternsTrait, IsTerminator
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.definition.registry import is_of_user
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.traits import KeepsMemory, states
from tenon.dialects.families import ElementwiseOp
from tenon.dialects.support.location import at_line
from tenon.passes.simplify.dce import Effects, erase_unreachable_functions
from tenon.passes.simplify.equations_arithmetic import ARITHMETIC_EQUATIONS
from tenon.passes.simplify.equations_bands import BAND_EQUATIONS
from tenon.passes.simplify.equations_dtypes import DTYPE_EQUATIONS
from tenon.passes.simplify.equations_matrices import MATRIX_EQUATIONS
from tenon.passes.simplify.equations_places import PLACE_EQUATIONS
from tenon.passes.simplify.equations_products import NORMALIZED_PRODUCTS
from tenon.passes.simplify.equations_selections import SELECTION_EQUATIONS
from tenon.passes.simplify.equations_shape import SHAPE_EQUATIONS
from tenon.passes.simplify.equations_truth import TRUTH_EQUATIONS
from tenon.passes.simplify.fold import fold
from tenon.passes.simplify.user_rewrites import (
    check_order,
    check_removal,
    check_replacement,
    check_touched,
    drop_detached,
)

Rewrite = Callable[[Any, PatternRewriter], object]
Equations = Mapping[type, Sequence[RewritePattern]]
"""Patterns by the class of the op at which they match; a class also has those of its base classes."""


MOST_REWRITES = 100
"""How many rewrites there may be for each op, and how many ops more there may be than at first."""


@dataclass(frozen=True)
class CanonicalizePass(ModulePass):
    """Apply the equations of the algebra, compute what is constant and drop what is dead."""

    name = "canonicalize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        tables = (
            ARITHMETIC_EQUATIONS,
            TRUTH_EQUATIONS,
            DTYPE_EQUATIONS,
            SHAPE_EQUATIONS,
            BAND_EQUATIONS,
            PLACE_EQUATIONS,
            SELECTION_EQUATIONS,
            NORMALIZED_PRODUCTS,
            MATRIX_EQUATIONS,
        )
        keys = dict.fromkeys(key for table in tables for key in table)
        equations = {key: [pattern for table in tables for pattern in table.get(key, ())] for key in keys}
        Canonicalizer(Effects(op), equations).run(op)
        erase_unreachable_functions(op)


class Canonicalizer:
    """A worklist of ops that may be simplified; each is looked at with the rewrites of its class only."""

    def __init__(self, effects: Effects, equations: Equations) -> None:
        self._effects = effects
        self._equations = equations
        self._pending: dict[Operation, None] = {}
        self._freed: dict[SSAValue, None] = {}
        """Values that are read by an op less, and by one alone now."""
        self._rewrites: dict[type[Operation], tuple[Rewrite, ...]] = {}
        self._current: Operation | None = None
        self._shared: PatternRewriter | None = None
        """One for all ops, as most are looked at and left as they are."""
        self._hooks: dict[type[Operation], bool] = {}
        """Ops of users whose hooks were asked, and whether they changed anything."""
        self._touched: list[Operation] | None = None
        """What the hook that is asked now has put in or changed, if it is one of a user's op."""

    def run(self, root: Operation) -> None:
        """Simplify all ops inside of `root` until nothing changes."""
        self._pending = dict.fromkeys([op for op in root.walk(reverse=True, region_first=True) if op is not root])
        most = MOST_REWRITES * (len(self._pending) + MOST_REWRITES)
        latest: deque[str] = deque(maxlen=MOST_REWRITES)
        rewrites = 0
        while self._pending or self._look_again():
            op, _ = self._pending.popitem()
            if op.parent is None:
                continue
            self._current = op
            name, rule = op.name, self._visit(op)
            if rule is None:
                continue
            rewrites += 1
            latest.append(f"{rule} of {name}")
            if rewrites > most:
                rules = ", ".join(sorted(set(latest)))
                raise PassFailedException(f"canonicalize: no end after {rewrites} rewrites; in turn: {rules}")
        if self._hooks:
            drop_detached(root)
        if changing := [hook for hook, has_changed in self._hooks.items() if has_changed]:
            check_order(root, changing)

    def _visit(self, op: Operation) -> str | None:
        """Simplify `op` by the first rule that applies; which one that is."""
        if op.results and self._is_dead(op):
            self._rewriter(op).erase(op)
            return None
        if (constants := fold(op)) is not None:
            self._rewriter(op).replace(op, constants, [constant.results[0] for constant in constants])
            return "fold"
        rewrites = self._rewrites_of(type(op))
        if not rewrites:
            return None
        rewriter = self._rewriter(op)
        for rewrite in rewrites:
            try:
                rewrite(op, rewriter)
            except Exception as error:
                if isinstance(error, OverflowError) and _is_xdsl(rewrite):
                    # It folds scalar arithmetic in double precision and fails where the result does not fit its type
                    # (patch 19 of `dialects/upstream`).
                    rewriter = self._rewriter(op)
                    continue
                if not (isinstance(error, PassFailedException) and str(error).startswith(f"{op.name}: ")):
                    error.add_note(f"in {_name(rewrite)} of {op.name}{at_line(op)}")
                raise
            if rewriter.has_done_action:
                return _name(rewrite)
        return None

    def _ask_hook(self, hook: Rewrite, op: Operation, rewriter: PatternRewriter) -> None:
        """Let the hook of a user's op change `op`, and look at what it leaves."""
        was_read = any(result.first_use is not None for result in op.results)
        self._touched = []
        try:
            hook(op, rewriter)
            check_touched(op, self._touched)
        finally:
            self._touched = None
        is_read = any(result.first_use is not None for result in op.results)
        has_changed = rewriter.has_done_action or op.parent is None or is_read != was_read
        self._hooks[type(op)] = self._hooks.get(type(op), False) or has_changed

    def _is_dead(self, op: Operation) -> bool:
        if any(result.first_use is not None for result in op.results):
            return False
        return self._effects.is_pure(op) and not op.has_trait(IsTerminator)

    def _rewriter(self, op: Operation) -> PatternRewriter:
        """What rewrites `op`, and then the next one."""
        rewriter = self._shared
        if rewriter is None:
            rewriter = self._shared = PatternRewriter(op)
            rewriter.operation_insertion_handler.append(self._on_insertion)
            rewriter.operation_modification_handler.append(self._on_modification)
            rewriter.operation_replacement_handler.append(self._on_replacement)
            rewriter.operation_removal_handler.append(self._on_removal)
        rewriter.current_operation = op
        rewriter.insertion_point = InsertPoint.before(op)
        rewriter.has_done_action = False
        return rewriter

    def _push(self, op: Operation) -> None:
        self._pending.pop(op, None)
        self._pending[op] = None

    def _on_insertion(self, op: Operation) -> None:
        if isinstance(op.location, UnknownLoc) and self._current is not None:
            op.location = self._current.location
        self._on_modification(op)

    def _on_modification(self, op: Operation) -> None:
        if self._touched is not None:
            self._touched.append(op)
        self._push(op)

    def _on_replacement(self, op: Operation, replacements: Sequence[SSAValue | None]) -> None:
        if self._touched is not None and self._current is not None:
            check_replacement(self._current, op, replacements)

    def _on_removal(self, op: Operation) -> None:
        if self._touched is not None and self._current is not None:
            check_removal(self._current, op)
        for inner in op.walk():
            self._pending.pop(inner, None)
            for operand in inner.operands:
                if isinstance(operand.owner, Operation):
                    self._push(operand.owner)
                    if (reader := _only_reader(operand, inner)) is not None:
                        self._push(reader)
                        self._freed[operand] = None
        self._pending.pop(op, None)

    def _look_again(self) -> bool:
        """Look again at what reads the values that one op reads alone since they were looked at; whether there is any.

        Some rules hold for what is used once, however many ops that are applied to each element further on. These are
        looked at once for all such values, when nothing else is left: they may be one long chain.
        """
        seen: set[Operation] = set()
        for value in self._freed:
            reader = _only_reader(value)
            while reader is not None and reader not in seen:
                seen.add(reader)
                self._push(reader)
                is_passed = isinstance(reader, ElementwiseOp) or states(reader, KeepsMemory)
                reader = _only_reader(reader.results[0]) if is_passed else None
        self._freed.clear()
        return bool(seen)

    def _rewrites_of(self, op_type: type[Operation]) -> Sequence[Rewrite]:
        rewrites = self._rewrites.get(op_type)
        if rewrites is None:
            rewrites = _collect(op_type, self._equations)
            if issubclass(op_type, TensorOp) and is_of_user(op_type) and rewrites[:1] == (op_type.canonicalize,):
                rewrites = (partial(self._ask_hook, rewrites[0]), *rewrites[1:])
            self._rewrites[op_type] = rewrites
        return rewrites


def _only_reader(value: SSAValue, gone: Operation | None = None) -> Operation | None:
    """The op that reads `value`, if it is the only one besides `gone`. A value may have very many uses."""
    found = None
    for use in value.uses:
        reader = use.operation
        if reader is gone or reader is found:
            continue
        if found is not None:
            return None
        found = reader
    return found


def _name(rewrite: Rewrite) -> str:
    pattern = getattr(rewrite, "__self__", None)
    return type(pattern).__name__ if isinstance(pattern, RewritePattern) else "canonicalize"


def _is_xdsl(rewrite: Rewrite) -> bool:
    return type(getattr(rewrite, "__self__", None)).__module__.startswith("xdsl.")


def _collect(op_type: type[Operation], equations: Equations) -> tuple[Rewrite, ...]:
    """The rewrites of a class: its own, the equations for it and its base classes, and those that xDSL knows."""
    rewrites: list[Rewrite] = []
    if issubclass(op_type, TensorOp) and op_type.canonicalize is not TensorOp.canonicalize:
        rewrites.append(op_type.canonicalize)
    patterns: list[RewritePattern] = []
    for base in op_type.__mro__:
        patterns += equations.get(base, ())
    for trait in op_type.get_traits_of_type(HasCanonicalizationPatternsTrait):
        patterns += trait.get_patterns(op_type)
    return (*rewrites, *[pattern.match_and_rewrite for pattern in patterns])
