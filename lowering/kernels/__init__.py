"""What a kernel computes: its statements and their accesses; no decision."""
