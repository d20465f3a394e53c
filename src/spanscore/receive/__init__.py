"""OTLP servers, gRPC and HTTP."""
