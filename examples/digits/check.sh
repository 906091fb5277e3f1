#!/bin/sh
# check.sh HYPATIAC DIGITS PLAN: compiles the model, runs the example, and fails below 95 right images of 100.
set -eu
cd "$(dirname "$0")"
"$1" digits.onnx -o "$3"
"$2" "$3" images.npy labels.npy | tee "$3.txt"
right=$(sed -n 's/^accuracy: \([0-9]*\) of 100 images$/\1/p' "$3.txt")
[ "${right:-0}" -ge 95 ]
