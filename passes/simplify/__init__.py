"""The same function in fewer and simpler ops."""
