"""Factorizations of matrices and what is solved with them. LAPACK computes them, through NumPy; gradients are ops."""
