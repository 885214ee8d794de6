"""Ops that draw random numbers from keys and counters."""
