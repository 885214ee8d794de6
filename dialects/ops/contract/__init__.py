"""Ops that are sums of products, or that slide a window: matrix products, convolutions, pooling, transforms."""
