"""Tracing platforms' SDKs and gateways."""
