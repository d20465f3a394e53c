"""Forms in which values, messages and calls are recorded.

What dialects of other distributions may rest on is in `spanscore.dialects.reading`.
"""
