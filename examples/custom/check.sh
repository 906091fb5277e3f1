#!/bin/sh
# check.sh HYPATIAC CUSTOM PLAN: compiles the model, runs the example, and compares with what the numbers are.
set -eu
cd "$(dirname "$0")"
if "$1" -q custom.onnx -o "$3" 2>"$3.txt"; then exit 1; fi # nobody said that acme is known
grep -q "acme::SoftThreshold" "$3.txt"
"$1" custom.onnx --custom-domain acme -o "$3"
"$2" "$3" >"$3.txt"
diff expected.txt "$3.txt"
