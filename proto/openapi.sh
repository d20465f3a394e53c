#!/bin/sh
# Write the OpenAPI document of the services: openapi.sh BIN PYTHON OUT. BIN is the folder of programs of the environment
# that has spanscore, PYTHON the interpreter that has grpcio-tools.
# Exits with 3 where the plug-in of protoc cannot be built here.
set -eu
bin=$1 python=$2 out=$3
proto=$(dirname "$0")
plugin=$("$proto/openapi/build.sh") || exit 3
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

"$python" -m grpc_tools.protoc --proto_path="$proto" --plugin=protoc-gen-connect-openapi="$plugin" \
    --connect-openapi_out="$made" --connect-openapi_opt=format=json,path=openapi.json,short-service-tags \
    "$proto"/spanscore/v1/*.proto
"$python" -m grpc_tools.protoc --proto_path="$proto" --descriptor_set_out="$made/descriptors" \
    "$proto"/spanscore/v1/*.proto
"$bin/python" "$proto/openapi/finish.py" "$made/openapi.json" "$made/descriptors" "$out"
