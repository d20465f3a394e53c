#!/bin/sh
# Builds the OpenTelemetry Collector of the tests from its Go modules, once, and prints the path of the binary.
# Sources come from ocb; go.mod and go.sum stand beside this file, since ocb's own `go mod tidy` asks for modules that
# only the collector's tests need. Exits with 3 where it cannot be built here: without Go, or without its module proxy.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
version=v0.155.0

if ! command -v go >/dev/null; then
    echo "the collector is built from Go modules: install Go 1.25 or newer (https://go.dev/dl, or apt install golang)" >&2
    exit 3
fi

key=$({ cat "$here/manifest.yaml" "$here/go.mod" "$here/go.sum"; go version; } | sha256sum | cut -c1-16)
cache=${SPANSCORE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/spanscore}/collector/$key
if [ ! -x "$cache/otelcol" ]; then
    echo "building the collector $version: some minutes the first time" >&2
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    export CGO_ENABLED=0
    GOBIN=$work/bin go install "go.opentelemetry.io/collector/cmd/builder@$version" || exit 3
    cp "$here/manifest.yaml" "$work"
    cd "$work"
    bin/builder --config manifest.yaml --skip-get-modules --skip-compilation >builder.log 2>&1 || { cat builder.log >&2; exit 1; }
    cp "$here/go.mod" "$here/go.sum" sources
    cd sources
    go mod download || exit 3
    go build -trimpath -ldflags="-s -w" -o ../otelcol .
    mkdir -p "$cache"
    mv ../otelcol "$cache/otelcol.$$"
    mv "$cache/otelcol.$$" "$cache/otelcol" # whole or not at all, whoever builds beside
fi
echo "$cache/otelcol"
