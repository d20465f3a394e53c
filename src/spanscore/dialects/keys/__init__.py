"""The keys of the conventions: names of attributes and events that many emitters write, each once,
as a constant.

A name that ends in `_PREFIX` is how the keys of several attributes begin.
"""
