#!/bin/sh
# check.sh HYPATIAC CNN PLAN: compiles the model, runs the example on its ten images together and on one alone, and fails
# where a digit is not the one that names the file.
set -eu
cd "$(dirname "$0")"
"$1" cnn.onnx -o "$3"
"$2" "$3" 0.pgm 1.pgm 2.pgm 3.pgm 4.pgm 5.pgm 6.pgm 7.pgm 8.pgm 9.pgm | tee "$3.txt"
"$2" "$3" 7.pgm | tee -a "$3.txt"
right=$(grep -c '^\([0-9]\)\.pgm: \1 (' "$3.txt" || true)
[ "$right" -eq 11 ]
