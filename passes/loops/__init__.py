"""What loops compute once, or for all of their steps together."""
