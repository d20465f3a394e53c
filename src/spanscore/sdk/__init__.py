"""What runs inside the agent's own process.

Importing it imports no OpenTelemetry SDK and no judge.
"""
