"""Messages and services that gRPC programs share.

They stand here because the packages that contain them (googleapis-common-protos,
grpcio-health-checking, grpcio-reflection) each need one major version of protobuf, and so would
change the one that an agent is installed with.
"""
