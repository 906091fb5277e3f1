#!/bin/sh
# demo.sh - from nothing to a recognised digit: installs what is missing, builds, compiles the example model, shows what
# was rewritten, and runs it on 100 images that it was not trained on.
set -eu
cd "$(dirname "$0")/.."
. scripts/setup.sh

# shellcheck disable=SC2086 # a list
install_packages $BUILD_PACKAGES
use_venv cmake

say "building"
mkdir -p build
if ! { cmake --preset release -DBUILD_TESTING=OFF && cmake --build --preset release; } > build/demo.log 2>&1; then
    tail -n 40 build/demo.log
    exit 1
fi
bin=build/release/bin

say "hypatiac examples/digits/digits.onnx -o build/digits.bin"
$bin/hypatiac examples/digits/digits.onnx -o build/digits.bin

say "hypatia inspect build/digits.bin"
$bin/hypatia inspect build/digits.bin

say "hypatia verify build/digits.bin --model examples/digits/digits.onnx"
$bin/hypatia verify build/digits.bin --model examples/digits/digits.onnx --input image=@examples/digits/images.npy

say "digits build/digits.bin examples/digits/images.npy examples/digits/labels.npy"
$bin/digits build/digits.bin examples/digits/images.npy examples/digits/labels.npy
