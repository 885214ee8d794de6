"""The ops, one class each; `library` loads them all."""
