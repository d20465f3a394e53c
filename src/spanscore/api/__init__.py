"""The control service: what a running spanscore is asked and told, over gRPC on a port of its
own.
"""
