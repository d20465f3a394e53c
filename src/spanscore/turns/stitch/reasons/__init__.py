"""The reasons to join traces: each module is one, and is found by scanning this folder."""
