"""Discrete Fourier transforms, as compiled programs call them."""
