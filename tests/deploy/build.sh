#!/bin/sh
# Builds helm and the reference parser of compose files from their Go modules, once, and prints the folder that they are
# in, with the definitions of the Prometheus Operator's resources. The modules' own go.mod and go.sum pin what they are
# made of. Exits with 3 where they cannot be built here: without Go, or without its module proxy.
set -eu

helm=helm.sh/helm/v3
helm_version=v3.22.0
compose=github.com/compose-spec/compose-go/v2
compose_version=v2.16.2
operator=github.com/prometheus-operator/prometheus-operator
operator_version=v0.85.0
kubernetes=35 # the minor version that `helm template` is to have before it

if ! command -v go >/dev/null; then
    echo "helm is built from its Go module: install Go 1.25 or newer (https://go.dev/dl, or apt install golang)" >&2
    exit 3
fi

key=$({ echo "$helm_version $compose_version $operator_version $kubernetes"; go version; } | sha256sum | cut -c1-16)
cache=${SPANSCORE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/spanscore}/deploy/$key
if [ ! -x "$cache/helm" ]; then
    echo "building helm $helm_version: a minute or two the first time" >&2
    work=$(mktemp -d)
    trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
    export CGO_ENABLED=0 GOBIN="$work/bin"
    go mod download "$operator@$operator_version" || exit 3
    go install "$compose/cmd@$compose_version" || exit 3
    version=$helm/pkg/chartutil.k8sVersion
    nice go install -trimpath -ldflags="-s -w -X ${version}Major=1 -X ${version}Minor=$kubernetes" \
        "$helm/cmd/helm@$helm_version" || exit 3
    mkdir -p "$cache/definitions"
    cp "$(go env GOMODCACHE)/$operator@$operator_version"/example/prometheus-operator-crd/*servicemonitors.yaml \
        "$(go env GOMODCACHE)/$operator@$operator_version"/example/prometheus-operator-crd/*prometheusrules.yaml \
        "$cache/definitions"
    mv "$work/bin/cmd" "$cache/compose"
    mv "$work/bin/helm" "$cache/helm.$$"
    mv "$cache/helm.$$" "$cache/helm" # whole or not at all, whoever builds beside
fi
echo "$cache"
