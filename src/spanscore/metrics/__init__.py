"""The metrics: one file each."""
