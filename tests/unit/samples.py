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


def samples_of(name: str, most: int) -> list[Sample]:
    """At most `most` samples of an op, spread evenly over all it has."""
    own = [sample for sample in SAMPLES if sample.op_name == name]
    return own if len(own) <= most else [own[i * (len(own) - 1) // (most - 1)] for i in range(most)]
