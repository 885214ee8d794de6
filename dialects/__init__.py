"""The tensor dialect: what an op is, the families of ops, and the ops (`library` loads them all)."""
