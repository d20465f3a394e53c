"""What a hand-written agent, or its test, says of itself: turns, tools, plans, expectations and
scores.

Everything is written with OpenTelemetry's API alone, as spans of the scope `spanscore.sdk`. Where
the application has set up no TracerProvider nothing is recorded, and nothing else changes.
"""
