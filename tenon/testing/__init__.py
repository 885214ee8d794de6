"""What tests of an op or a function can leave to Tenon: whether all that follows from it agrees."""

from __future__ import annotations

from tenon.testing.check import CheckError, Report, check

__all__ = ["CheckError", "Report", "check"]
