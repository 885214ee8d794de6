"""What each op computes, by example: one row or more for every op in the registry.

Tests are parametrised over `SAMPLES`. Oracles get the arguments with floats widened to float64 and give what a perfect
implementation would; `Sample.check` compares dtypes, shapes and numbers. The rows are in the files `samples_*.py`
beside this one, each of which adds its own when it is imported.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from sample import SAMPLES, Sample

for _path in sorted(Path(__file__).parent.glob("samples_*.py")):
    import_module(_path.stem)

__all__ = ["SAMPLES", "Sample", "samples_of"]


def samples_of(name: str, most: int | None = None) -> list[Sample]:
    """The samples of an op: all of them, or at most `most`, from the first to the last and spread evenly."""
    own = [sample for sample in SAMPLES if sample.op_name == name]
    if most is None or len(own) <= most:
        return own
    return [own[i * (len(own) - 1) // max(most - 1, 1)] for i in range(most)]
