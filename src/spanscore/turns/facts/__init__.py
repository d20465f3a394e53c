"""The facts of a turn, and their sources."""
