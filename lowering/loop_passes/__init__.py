"""Passes from loops to better loops: threads, streamed stores, prefetches, chains."""
