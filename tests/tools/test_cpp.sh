#!/bin/sh
# test_cpp.sh COMPILER SOURCE LIBRARIES: builds cpp/runtime.cpp against the libraries, and runs it on a model. Every function
# of runtime.h is to be in runtime.hpp.
set -eu
for name in $(tr '\n' ' ' < "$2/include/hypatia/runtime.h" | grep -oE 'HYP_API [^;(]*' | grep -oE 'hyp_\w+ *$'); do
    grep -qw "$name" "$2/include/hypatia/runtime.hpp" || { echo "runtime.hpp lacks $name"; exit 1; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" -std=c++17 -Wall -Wextra -Wpedantic -Werror -O1 -I"$2/include" "$2/tests/tools/cpp/runtime.cpp" -o "$work/runtime" \
    -L"$3" -Wl,-rpath,"$3" -lhypatia-rt -lhypatia -lpthread
"$work/runtime" "$2/examples/digits/digits.onnx" "$work/plan.bin"
