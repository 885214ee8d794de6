"""New functions from old ones: derivatives, batches, inlined calls, known sizes, frozen arguments."""
