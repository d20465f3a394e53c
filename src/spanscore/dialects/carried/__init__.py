"""Frameworks inside other conventions: their messages, results and names as another's instrumentation records them."""
