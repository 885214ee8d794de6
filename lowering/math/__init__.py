"""Functions as arithmetic, and the elements of narrow types as bytes."""
