"""Ops with regions: conditions, loops, scans, checkpoints."""
