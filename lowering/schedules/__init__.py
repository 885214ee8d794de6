"""How a kernel's loops are to run: decides, and emits nothing."""
