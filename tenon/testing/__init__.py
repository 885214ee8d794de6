"""What tests of an op or a function can leave to Tenon: whether all that follows from it agrees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenon.dialects.support.suggestion import attribute_hints
from tenon.testing.check import CheckError, Report, check

__all__ = ["CheckError", "Report", "check"]

if not TYPE_CHECKING:
    __getattr__ = attribute_hints(__name__)
