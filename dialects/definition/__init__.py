"""What an op is: `TensorOp`, `Value`, settings, signature, traits, registry, and the text form."""
