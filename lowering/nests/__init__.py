"""The loops of a kernel, as its schedule says."""
