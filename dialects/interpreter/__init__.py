"""The interpreter of IR on NumPy arrays: `interpreter` runs it, and a file per dialect says what its ops compute."""
