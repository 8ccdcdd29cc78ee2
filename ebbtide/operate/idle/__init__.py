"""Resources that are paid for but unused."""
