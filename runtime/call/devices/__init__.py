"""Native calls on arrays of a GPU: how CuPy's lie in memory, what native code does with them, and their entries."""
