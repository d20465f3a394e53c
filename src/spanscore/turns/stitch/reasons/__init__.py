"""The reasons to join traces: one a module."""
