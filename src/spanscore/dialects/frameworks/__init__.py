"""Frameworks and model APIs with telemetry of their own."""
