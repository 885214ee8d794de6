"""The IR of loops: how it is built and read."""
