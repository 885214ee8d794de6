"""The dialects that registered ops make up, as xDSL loads them."""

from __future__ import annotations

from xdsl.ir import Dialect


def tenon_dialect() -> Dialect:
    """The dialect of all ops that are registered under the name `tenon`, and of those that control flow adds."""
    from tenon.dialects.checkpoint import CheckpointOp
    from tenon.dialects.control_flow import CondOp, ScanOp, WhileLoopOp
    from tenon.dialects.family_control_flow import YieldOp
    from tenon.dialects.registry import registry
    from tenon.dialects.size_values import SizesAttr

    structural = [CondOp, WhileLoopOp, ScanOp, CheckpointOp, YieldOp]
    own = (op for name, op in registry().items() if name.startswith("tenon."))
    return Dialect("tenon", [*own, *structural], [SizesAttr])


def scalar_dialect() -> Dialect:
    """The dialect of what formulas on scalars take beyond `arith` and `math`."""
    from tenon.dialects.scaling import ScaleOp

    return Dialect("scalar", [ScaleOp])


def registered_dialects() -> list[Dialect]:
    """The tensor dialect, one for each other namespace that registered ops are named in, and `scalar`."""
    from tenon.dialects.registry import registry

    dialects = [tenon_dialect(), scalar_dialect()]
    others = {name.partition(".")[0] for name in registry()} - {"tenon"}
    for namespace in sorted(others):
        dialects.append(Dialect(namespace, [op for name, op in registry().items() if name.startswith(f"{namespace}.")]))
    return dialects
