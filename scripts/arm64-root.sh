#!/bin/sh
# arm64-root.sh FOLDER - lays Debian's arm64 libraries that a build links out in a folder, for cmake/aarch64-linux-gnu.cmake.
# They are unpacked, not installed: some of their -dev packages cannot be installed for two processors at once.
set -eu
cd "$(dirname "$0")/.."
. scripts/setup.sh

mkdir -p "$1"
root=$(cd "$1" && pwd)
install_packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
[ ! -e "$root/complete" ] || exit 0
dpkg --print-foreign-architectures | grep -q '^arm64$' || as_root dpkg --add-architecture arm64
as_root apt-get update -q
mkdir -p "$root/packages"

# What is wanted, and what that needs, as apt resolves it here where none of it is installed.
wanted="libc6 libprotobuf-c-dev libjansson-dev libcmocka-dev libdnnl-dev libxxhash-dev"
names=$(for name in $wanted; do echo "$name:arm64"; done)
# shellcheck disable=SC2086 # a list
needed=$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances $names |
    grep '^[a-z].*:arm64$' | sort -u)
# shellcheck disable=SC2086 # a list
(cd "$root/packages" && apt-get download -q $needed)
for package in "$root"/packages/*.deb; do dpkg -x "$package" "$root"; done
rm -r "$root/packages"
touch "$root/complete"
