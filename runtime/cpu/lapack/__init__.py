"""LAPACK, as compiled programs call it: without Python, from the library that NumPy has loaded. Many small matrices are
computed side by side instead."""
