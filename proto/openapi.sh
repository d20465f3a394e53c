#!/bin/sh
# Write the OpenAPI document of the services: openapi.sh PYTHON OUT. PYTHON is the interpreter that has grpcio-tools.
# Exits with 3 where the plug-in of protoc cannot be built here.
set -eu
python=$1 out=$2
proto=$(dirname "$0")
plugin=$("$proto/openapi/build.sh") || exit 3
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

"$python" -m grpc_tools.protoc --proto_path="$proto" --plugin=protoc-gen-connect-openapi="$plugin" \
    --connect-openapi_out="$made" --connect-openapi_opt=format=json,path=openapi.json,short-service-tags \
    "$proto"/spanscore/v1/*.proto
"$python" -m grpc_tools.protoc --proto_path="$proto" --descriptor_set_out="$made/descriptors" \
    "$proto"/spanscore/v1/*.proto
"$python" "$proto/openapi/finish.py" "$made/openapi.json" "$made/descriptors" "$out"
