"""Ops that apply a scalar function to each element."""
