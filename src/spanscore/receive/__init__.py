"""OTLP in: gRPC and HTTP servers that acknowledge what is in the journal."""
