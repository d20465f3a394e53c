"""OTLP messages, and the files that hold them."""
