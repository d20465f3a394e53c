#!/bin/sh
# Builds the Jaeger of the tests from its Go module, once, and prints the path of the binary.
# The module's own go.mod and go.sum pin what it is made of. It has no user interface in it (a placeholder page), but the
# whole query API. Exits with 3 where it cannot be built here: without Go, or without its module proxy.
set -eu

module=github.com/jaegertracing/jaeger
version=v1.76.0 # the tag of Jaeger v2.13 that a Go module can carry

if ! command -v go >/dev/null; then
    echo "Jaeger is built from its Go module: install Go 1.25 or newer (https://go.dev/dl, or apt install golang)" >&2
    exit 3
fi

key=$({ echo "$module $version"; go version; } | sha256sum | cut -c1-16)
cache=${SPANSCORE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/spanscore}/jaeger/$key
if [ ! -x "$cache/jaeger" ]; then
    echo "building Jaeger $version: ten minutes the first time" >&2
    work=$(mktemp -d)
    trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
    export CGO_ENABLED=0
    go mod download "$module@$version" || exit 3
    cp -r "$(go env GOMODCACHE)/$module@$version" "$work/source"
    chmod -R u+w "$work/source"
    cd "$work/source"
    go mod download || exit 3
    nice go build -trimpath -ldflags="-s -w" -o ../jaeger ./cmd/jaeger
    mkdir -p "$cache"
    mv ../jaeger "$cache/jaeger.$$"
    mv "$cache/jaeger.$$" "$cache/jaeger" # whole or not at all, whoever builds beside
fi
echo "$cache/jaeger"
