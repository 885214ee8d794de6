"""From text to running code on a GPU."""
