"""What xDSL lacks or has wrong, kept here until it is there."""
