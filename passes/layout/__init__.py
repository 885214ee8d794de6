"""The same sums in another order of axes."""
