"""A running server: requests in, traces cut, read and scored, scores out."""
