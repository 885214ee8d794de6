"""Which arguments of a traced program its results depend on, and the program without the others."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from tenon.dialects.definition.value import InsertionPoint, inserting, ops
from tenon.dialects.types.types import element_of, shape_of
from tenon.dialects.upstream.block_arguments import erase_arguments
from tenon.lowering.pipeline import run_passes
from tenon.runtime.knobs import knobs


def read_arguments(module: ModuleOp, most: int) -> list[int]:
    """Which of the first `most` arguments of `@main` the results depend on, once it is simplified."""
    simple = module.clone()
    run_passes(Context(), simple, ["canonicalize", "cse", "dce"], verify=knobs.verify)
    arguments = _main_of(simple).body.block.args[:most]
    return [i for i, argument in enumerate(arguments) if argument.first_use is not None]


def drop_arguments(module: ModuleOp, unread: Collection[int]) -> None:
    """Take those arguments of `@main` no longer on which the results do not depend: what has them all the same, and
    goes when it is simplified, has zeros."""
    main = _main_of(module)
    block = main.body.block
    gone = [block.args[i] for i in unread]
    with inserting(InsertionPoint(block, block.first_op)):
        for argument in gone:
            if argument.first_use is not None:
                argument.replace_all_uses_with(ops.zeros(shape_of(argument.type), element_of(argument.type)).ssa)
    erase_arguments(gone)
    main.update_function_type()


def _main_of(module: ModuleOp) -> FuncOp:
    return next(op for op in module.ops if isinstance(op, FuncOp))
