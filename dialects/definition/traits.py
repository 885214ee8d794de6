"""Traits that ops of the tensor dialect may state, and the error that one of them leads to."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

from xdsl.ir import Block, Operation
from xdsl.traits import OpTrait


def states(owner: Operation | Block, trait: type[OpTrait]) -> bool:
    """Whether what a value comes from is an op of a class that states `trait`."""
    return isinstance(owner, Operation) and _class_states(type(owner), trait)


@lru_cache(maxsize=4096)
def _class_states(kind: type[Operation], trait: type[OpTrait]) -> bool:
    """The same for a class of ops, whose traits do not change."""
    return kind.has_trait(trait, value_if_unregistered=False)


class GradientError(TypeError):
    """A gradient was asked for where there is none; the message names the op."""


class NoGradient(OpTrait):
    """The op has no gradient: asking for one is an error, unless its result does not depend on what is
    differentiated."""


class ConstantToGradients(OpTrait):
    """Gradients take the results for constants: what leads to them alone need have no gradient."""


class DeviceOnly(OpTrait):
    """The op runs on one kind of device; `device` is its name."""

    device: ClassVar[str] = ""


class CpuOnly(DeviceOnly):
    """The op has no meaning on a GPU: lowering it there is an error."""

    device = "cpu"


class CudaOnly(DeviceOnly):
    """The op has no meaning on a CPU: lowering it there is an error."""

    device = "cuda"


class KnownValue(OpTrait):
    """The result is known when the program is compiled: the property `value` holds its elements."""


class KeepsMemory(OpTrait):
    """The result is the memory of the operand, seen in another shape: nothing is computed."""


class SameValue(OpTrait):
    """The result is the operand; only differentiation tells them apart."""


class ComputedByUsers(OpTrait):
    """Kernels that read the result compute it themselves, which costs less than to read it from memory."""
