"""Ops that order elements: sorting, selection, searching."""
