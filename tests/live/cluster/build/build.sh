#!/bin/sh
# Builds toxiproxy from its Go module, once, and prints the path of the binary.
# Exits with 3 where it cannot be built here: without Go, or without its module proxy.
set -eu

here=$(cd "$(dirname "$0")" && pwd)

if ! command -v go >/dev/null; then
    echo "toxiproxy is built from its Go module: install Go 1.24 or newer (https://go.dev/dl, or apt install golang)" >&2
    exit 3
fi

key=$({ cat "$here/go.mod" "$here/go.sum"; go version; } | sha256sum | cut -c1-16)
cache=${SPANSCORE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/spanscore}/toxiproxy/$key
if [ ! -x "$cache/toxiproxy" ]; then
    echo "building toxiproxy: some seconds the first time" >&2
    cd "$here"
    go mod download github.com/Shopify/toxiproxy/v2 || exit 3
    mkdir -p "$cache"
    CGO_ENABLED=0 go build -mod=readonly -trimpath -ldflags="-s -w" -o "$cache/toxiproxy.$$" \
        github.com/Shopify/toxiproxy/v2/cmd/server
    mv "$cache/toxiproxy.$$" "$cache/toxiproxy" # whole or not at all, whoever builds beside
fi
echo "$cache/toxiproxy"
