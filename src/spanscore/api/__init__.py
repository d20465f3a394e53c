"""The control service: ask for traces and scores, evaluate again, over gRPC."""
