"""Which metrics run on what, in which order, and what becomes of their errors."""
