"""What each op computes, by example: one row or more for every op in the registry.

Tests are parametrised over `SAMPLES`. Oracles get the arguments with floats widened to float64 and give what a perfect
implementation would; `Sample.check` compares dtypes, shapes and numbers.
"""

from __future__ import annotations

# Each of these adds its rows when it is imported.
import samples_elementwise
import samples_networks
import samples_tensors
from sample import SAMPLES, Sample

__all__ = ["SAMPLES", "Sample", "samples_elementwise", "samples_networks", "samples_tensors"]
