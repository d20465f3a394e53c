"""The toolkit: forms in which values, messages and calls are recorded, whoever records them.

What dialects of other distributions may rest on is in `spanscore.dialects.reading`.
"""
