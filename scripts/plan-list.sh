#!/bin/sh
# plan-list.sh - compiles every model of a list of folders for each device and prints a line of digest, device, precision
# and model for each plan. A change of structure changes none of them: compare the lists from before and after.
#
#   scripts/plan-list.sh [--build DIR] FOLDER... > list
#
# A model that is refused is listed with its exit code. Folders are searched for *.onnx, links left out.
set -eu
build=build/dev
if [ "${1:-}" = --build ]; then build=$2; shift 2; fi
[ $# -gt 0 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2; }
compiler=$build/bin/hypatiac
[ -x "$compiler" ] || { echo "$compiler: not there; build first" >&2; exit 1; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

one='
    model=$1 device=$2 precision=$3 plan=$4/$$.bin
    if "$0" "$model" -o "$plan" --target "$device" --precision "$precision" --verify off -q 2> /dev/null
    then digest=$(sha256sum < "$plan" | cut -c1-16)
    else digest="exit $?"
    fi
    echo "$digest $device $precision $model"
    rm -f "$plan"'
find "$@" -name '*.onnx' -type f | sort | while read -r model; do
    for device in cpu cuda; do
        for precision in fp32 bf16; do printf '%s\n' "$model" "$device" "$precision" "$out"; done
    done
done | xargs -d '\n' -n 4 -P "$(nproc)" sh -c "$one" "$compiler" | LC_ALL=C sort -k 4 -k 2,3
