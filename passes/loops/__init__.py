"""What loops compute once, for all of their steps together, or piece by piece."""
