#!/bin/sh
# Makes an image's root file system with Python from Debian's packages, once, and prints the path of its archive: where no
# container registry can be reached, tests build on it in place of python:slim. It trusts the authorities that this machine
# trusts. Exits with 3 where it cannot be made here.
set -eu

suite=bookworm
for program in podman runc debootstrap; do
    if ! command -v $program >/dev/null; then
        echo "no $program: apt install podman runc debootstrap" >&2
        exit 3
    fi
done
if [ "$(id -u)" -ne 0 ]; then
    echo "debootstrap needs root" >&2
    exit 3
fi

cache=${SPANSCORE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/spanscore}/image
if [ -e "$cache/$suite.unusable" ]; then
    cat "$cache/$suite.unusable" >&2
    exit 3
fi
if [ ! -e "$cache/$suite.tar" ]; then
    echo "bootstrapping Debian's $suite: a minute the first time" >&2
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates $suite "$work/root" >"$work/log" 2>&1 ||
        { tail -5 "$work/log" >&2; exit 3; }
    cp -L /etc/ssl/certs/ca-certificates.crt "$work/root/etc/ssl/certs/ca-certificates.crt"
    mkdir -p "$cache"
    # where containers cannot be nested, as in some sandboxes
    options="--root=$work/storage --runroot=$work/run --tmpdir=$work/state --runtime=runc --cgroup-manager=cgroupfs"
    podman $options --events-backend=file run --rm --network=none --ulimit=nofile=4096:4096 --ulimit=nproc=4096:4096 \
        --rootfs "$work/root" true >"$work/log" 2>&1 ||
        { tail -5 "$work/log" | tee "$cache/$suite.unusable" >&2; exit 3; }
    tar -C "$work/root" --exclude='./var/cache/apt/archives/*.deb' -cf "$cache/$suite.tar.$$" .
    mv "$cache/$suite.tar.$$" "$cache/$suite.tar" # whole or not at all, whoever makes it beside
fi
echo "$cache/$suite.tar"
