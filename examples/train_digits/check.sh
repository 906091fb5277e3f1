#!/bin/sh
# check.sh HYPATIAC TRAIN_DIGITS STEP: compiles the step, trains, and fails below 76 right of the 80 images that it has
# seen or 13 of the 20 that it has not.
set -eu
cd "$(dirname "$0")"
"$1" digits.onnx --train cross-entropy --optimizer adamw -q -o "$3"
"$2" "$3" ../digits/images.npy ../digits/labels.npy | tee "$3.txt"
[ "$(sed -n 's/^seen: \([0-9]*\) of 80 right$/\1/p' "$3.txt")" -ge 76 ]
[ "$(sed -n 's/^unseen: \([0-9]*\) of 20 right$/\1/p' "$3.txt")" -ge 13 ]
