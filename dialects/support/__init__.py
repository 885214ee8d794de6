"""What all rooms use of Python: errors that show the user's line, locks, caches, arrays of other libraries."""
