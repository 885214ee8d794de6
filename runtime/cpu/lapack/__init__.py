"""LAPACK, as compiled programs call it: without Python, from the library that NumPy has loaded."""
