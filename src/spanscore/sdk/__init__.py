"""The SDK: spanscore inside the agent's process.

Importing it imports no OpenTelemetry SDK and no judge.
"""
