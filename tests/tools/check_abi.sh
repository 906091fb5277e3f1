#!/bin/sh
# check_abi.sh FOLDER [--write]: whether programs that were built with the libraries of the last release run with those in
# the folder, which have debug information: functions stay as they are, and structs, but that those with a `size` may have more
# at their end (allowed.abignore). --write keeps the interface of these libraries instead, which is right when a release is
# made, and before 1.0 when a break is meant.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
command -v abidiff > /dev/null || { echo "skipped: there is no abidiff (Debian: abigail-tools)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
for name in hypatia-rt hypatia; do
    abidw --headers-dir "$here/../../include" --drop-private-types --exported-interfaces-only --no-corpus-path \
        --no-comp-dir-path --no-show-locs --no-elf-needed --no-parameter-names "$1/lib$name.so" \
        | sed "s|path='[./]*/src/|path='src/|" > "$work/$name.abi"
    if [ "${2:-}" = --write ]; then
        cp "$work/$name.abi" "$here/abi/$name.abi"
    else
        abidiff --no-added-syms --suppressions "$here/abi/allowed.abignore" "$here/abi/$name.abi" "$work/$name.abi" || failed=1
    fi
done
exit $failed
