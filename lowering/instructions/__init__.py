"""The instructions of a GPU that plain CUDA C++ has no words for: a row each, with what they hold and how they are
written. `table.py` has all of them; begin there."""
