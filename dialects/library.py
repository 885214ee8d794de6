"""All op modules of the tensor dialect: importing this module registers every op, in this order."""

from tenon.dialects import constant  # isort: split

from tenon.dialects import arithmetic, comparison, elementary  # isort: split

from tenon.dialects import activation, indexing, joining, reduction, shape  # isort: split

from tenon.dialects import contraction, loss, normalization, pooling  # isort: split

from tenon.dialects import control_flow, creation, identity, random, subscript

__all__ = [
    "activation",
    "arithmetic",
    "comparison",
    "constant",
    "contraction",
    "control_flow",
    "creation",
    "elementary",
    "identity",
    "indexing",
    "joining",
    "loss",
    "normalization",
    "pooling",
    "random",
    "reduction",
    "shape",
    "subscript",
]
