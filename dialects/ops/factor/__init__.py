"""Factorizations of matrices and what is solved with them. LAPACK computes them, called by programs
(`runtime/cpu/lapack`) or through NumPy; gradients are ops."""
