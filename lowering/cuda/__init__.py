"""Loops to CUDA source."""
