"""Ops that combine elements along axes, and those made of such sums: norms, normalization, losses."""
