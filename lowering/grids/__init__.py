"""What one thread of a GPU executes of a nest: written once, when all steps are done."""
