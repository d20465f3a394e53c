#!/bin/sh
# Builds Prometheus and promtool from their Go module, once, and prints the folder that they are in.
# The module's own go.mod and go.sum pin what they are made of. Service discovery of clouds is left out: it is most of the
# code, and nothing here asks for it. Exits with 3 where it cannot be built here: without Go, or without its module proxy.
set -eu

module=github.com/prometheus/prometheus
version=v0.307.3 # the tag of Prometheus 3.7.3 that a Go module can carry

if ! command -v go >/dev/null; then
    echo "Prometheus is built from its Go module: install Go 1.25 or newer (https://go.dev/dl, or apt install golang)" >&2
    exit 3
fi

key=$({ echo "$module $version"; go version; } | sha256sum | cut -c1-16)
cache=${SPANSCORE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/spanscore}/prometheus/$key
if [ ! -x "$cache/prometheus" ]; then
    echo "building Prometheus $version: some minutes the first time" >&2
    work=$(mktemp -d)
    trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
    export CGO_ENABLED=0
    go mod download "$module@$version" || exit 3
    cp -r "$(go env GOMODCACHE)/$module@$version" "$work/source"
    chmod -R u+w "$work/source"
    cd "$work/source"
    rm plugins/plugins.go
    mkdir -p "$cache"
    for program in promtool prometheus; do
        nice go build -trimpath -ldflags="-s -w" -o "../$program" "./cmd/$program" || exit 3
        mv "../$program" "$cache/$program.$$"
        mv "$cache/$program.$$" "$cache/$program" # whole or not at all, whoever builds beside
    done
fi
echo "$cache"
