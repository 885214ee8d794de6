"""Trees of arrays to leaves, and back."""
