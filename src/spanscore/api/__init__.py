"""The control API over gRPC and HTTP."""
