#!/bin/sh
# test_cpp.sh COMPILER SOURCE LIBRARIES: builds cpp/runtime.cpp against the libraries, and runs it on a model.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" -std=c++17 -Wall -Wextra -Wpedantic -Werror -O1 -I"$2/include" "$2/tests/tools/cpp/runtime.cpp" -o "$work/runtime" \
    -L"$3" -Wl,-rpath,"$3" -lhypatia-rt -lhypatia -lpthread
"$work/runtime" "$2/examples/digits/digits.onnx"
