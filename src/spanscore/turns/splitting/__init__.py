"""Which steps of a trace are one turn."""
