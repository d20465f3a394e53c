"""Conventions that many instrumentations write: OpenTelemetry's own, OpenInference, OpenLLMetry and
AWS's variant.
"""
