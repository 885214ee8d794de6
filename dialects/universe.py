"""The dialects that registered ops make up, and those of upstream that xDSL lacks in part, as xDSL loads them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from xdsl.ir import Dialect


def _upstream(module: str, name: str) -> Callable[[], Dialect]:
    """How to get a dialect of `dialects.upstream`."""
    return lambda: getattr(import_module(f"tenon.dialects.upstream.{module}"), name)


def _llvm() -> Dialect:
    from tenon.dialects.upstream.intrinsics import load_llvm

    return load_llvm()


UPSTREAM = {
    "amx": _upstream("amx", "Amx"),
    "arith": _upstream("vector_arith", "VectorArith"),
    "gpu": _upstream("gpu_shuffle", "GpuWithShuffle"),
    "llvm": _llvm,
    "memref": _upstream("prefetch", "MemRefWithPrefetch"),
    "nvgpu": _upstream("nvgpu", "NvGpu"),
    "nvvm": _upstream("nvvm", "NVVM"),
    "vector": _upstream("vector_ops", "VectorOps"),
    "warpgroup": _upstream("warpgroup", "Warpgroup"),
}
"""Dialects that xDSL lacks, or has without what Tenon prints; made when they are asked for."""


def tenon_dialect() -> Dialect:
    """The dialect of all ops that are registered under the name `tenon`, and of those that control flow adds."""
    from tenon.dialects.definition.registry import registry
    from tenon.dialects.families.control_flow import YieldOp
    from tenon.dialects.ops.control.checkpoint import CheckpointOp
    from tenon.dialects.ops.control.control_flow import CondOp, WhileLoopOp
    from tenon.dialects.ops.control.scan import ScanOp
    from tenon.dialects.ops.control.with_gradient import WithGradientOp
    from tenon.dialects.types.size_values import SizesAttr

    structural = [CondOp, WhileLoopOp, ScanOp, CheckpointOp, WithGradientOp, YieldOp]
    own = (op for name, op in registry().items() if name.startswith("tenon."))
    return Dialect("tenon", [*own, *structural], [SizesAttr])


def debug_dialect() -> Dialect:
    """The dialect of what `tenon.debug` adds to programs."""
    return _registered("debug")


def tiles_dialect() -> Dialect:
    """The dialect of what sorting on a GPU is composed of."""
    return _registered("tiles")


def _registered(namespace: str) -> Dialect:
    from tenon.dialects.definition.registry import registry

    return Dialect(namespace, [op for name, op in registry().items() if name.startswith(f"{namespace}.")])


def registered_dialects() -> list[Dialect]:
    """The tensor dialect, and one for each other namespace that registered ops are named in."""
    from tenon.dialects.definition.registry import registry

    others = {name.partition(".")[0] for name in registry()} - {"tenon"}
    return [tenon_dialect(), *map(_registered, sorted(others))]
