"""Tensors to buffers in one arena."""
