"""OTLP messages to and from the model, and the files that hold them."""
