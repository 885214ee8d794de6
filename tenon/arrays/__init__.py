"""Functions of the array API standard that are no ops: dtypes, compositions of ops, and what is of arrays alone."""
