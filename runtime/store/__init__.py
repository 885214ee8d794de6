"""The disk cache, files and digests."""
