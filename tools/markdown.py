"""Docstrings as Markdown."""

from __future__ import annotations

import re


def prose(text: str) -> str:
    """Text of a docstring as Markdown: outside of code, stars and angle brackets stand for themselves; code stays on a
    line.
    """
    spans = text.split("`")
    escaped = [
        re.sub(r"([*<])", r"\\\1", span) if i % 2 == 0 else " ".join(span.split()) for i, span in enumerate(spans)
    ]
    return "`".join(escaped)
