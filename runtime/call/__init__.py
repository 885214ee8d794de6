"""A call without Python: native code that checks arguments, launches and wraps results."""
