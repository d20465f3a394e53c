"""Which span and attribute each fact of a turn came from."""
