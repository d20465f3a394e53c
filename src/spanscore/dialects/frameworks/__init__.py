"""Frameworks and model APIs whose telemetry has attributes or scopes of its own."""
