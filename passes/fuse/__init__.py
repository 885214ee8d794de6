"""What runs together in one loop nest, and what is computed again rather than kept."""
