#!/bin/sh
# Generate the control service's Python code: generate.sh BIN PYTHON OUT. BIN is the environment's folder of programs,
# PYTHON the interpreter that has grpcio-tools.
set -eu
bin=$1 python=$2 out=$3
proto=$(dirname "$0")
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

protoc() {
    "$python" -m grpc_tools.protoc --proto_path="$proto" \
        --plugin=protoc-gen-mypy="$bin/protoc-gen-mypy" --plugin=protoc-gen-mypy_grpc="$bin/protoc-gen-mypy_grpc" "$@"
}
protoc --python_out="$made" --mypy_out="quiet:$made" "$proto"/spanscore/v1/*.proto
protoc --grpc_python_out="$made" --mypy_grpc_out="quiet:$made" "$proto"/spanscore/v1/*_service.proto

mkdir -p "$out"
rm -f "$out"/*.py "$out"/*.pyi
echo '"""The control service in Python: generated from proto/ by `make proto`, never edited."""' >"$out/__init__.py"
# protoc names a Python module after the path of its proto, and the code lives in spanscore.api.v1.
for file in "$made"/spanscore/v1/*; do
    sed -E 's/^from spanscore\.v1(\.[a-z_0-9]+)? import/from spanscore.api.v1\1 import/' "$file" >"$out/$(basename "$file")"
done
"$bin/python" "$proto/clients.py" "$out/clients.py"
