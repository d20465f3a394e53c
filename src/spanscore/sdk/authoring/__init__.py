"""Turns, tools, plans and scores recorded by hand.

Everything is written with OpenTelemetry's API alone, as spans of the scope `spanscore.sdk`. Where
the application has set up no TracerProvider nothing is recorded, and nothing else changes.
"""
