"""Ops that move elements: shapes, subscripts, gathers and scatters, padding, joining."""
