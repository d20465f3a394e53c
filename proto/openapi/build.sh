#!/bin/sh
# Builds the plug-in of protoc that writes the OpenAPI document, from its Go modules, once, and prints the path of the
# binary. Exits with 3 where it cannot be built here: without Go, or without its module proxy.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
if ! command -v go >/dev/null; then
    echo "protoc-gen-connect-openapi is built from Go modules: install Go 1.24 or newer (https://go.dev/dl)" >&2
    exit 3
fi

key=$({ cat "$here/go.mod" "$here/go.sum"; go version; } | sha256sum | cut -c1-16)
cache=${SPANSCORE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/spanscore}/openapi/$key
if [ ! -x "$cache/protoc-gen-connect-openapi" ]; then
    echo "building protoc-gen-connect-openapi: some minutes the first time" >&2
    mkdir -p "$cache"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cp "$here"/go.mod "$here"/go.sum "$here"/tools.go "$work"
    (cd "$work" && go build -mod=mod -o "$cache/made.$$" github.com/sudorandom/protoc-gen-connect-openapi) || exit 3
    mv "$cache/made.$$" "$cache/protoc-gen-connect-openapi" # whole or not at all, whoever builds beside
fi
echo "$cache/protoc-gen-connect-openapi"
