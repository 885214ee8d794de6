"""Element types, shapes, and sizes that are known or not."""
