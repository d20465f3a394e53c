"""Tracing platforms and gateways whose SDKs write spans in a form of their own."""
