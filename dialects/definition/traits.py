"""Traits that ops of the tensor dialect may state, and the error that one of them leads to."""

from __future__ import annotations

from typing import ClassVar

from xdsl.traits import OpTrait


class GradientError(TypeError):
    """A gradient was asked for where there is none; the message names the op."""


class NoGradient(OpTrait):
    """The op has no gradient: asking for one is an error, unless its result does not depend on what is
    differentiated."""


class DeviceOnly(OpTrait):
    """The op runs on one kind of device; `device` is its name."""

    device: ClassVar[str] = ""


class CpuOnly(DeviceOnly):
    """The op has no meaning on a GPU: lowering it there is an error."""

    device = "cpu"


class CudaOnly(DeviceOnly):
    """The op has no meaning on a CPU: lowering it there is an error."""

    device = "cuda"
