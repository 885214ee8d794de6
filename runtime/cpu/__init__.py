"""From text to running code on the processor: compile, load, threads, memory."""
