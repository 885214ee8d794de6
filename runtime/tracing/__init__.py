"""Functions run on symbols, and what a trace may leave behind."""
