"""Content that was lost before a span arrived: values that an SDK cut or dropped, and the facts
that depend on them.
"""
