#!/bin/sh
# Compiles chars.onnx and compares what the program writes with what PyTorch wrote: check.sh HYPATIAC CHARS PLAN
set -eu
here=$(cd "$(dirname "$0")" && pwd)
"$1" -q "$here/chars.onnx" -o "$3"
"$2" "$3" "the old sailor " 150 | diff - "$here/expected.txt"
