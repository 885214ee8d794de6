"""The sorting of keys that compiled programs call, as native code over long vectors."""
