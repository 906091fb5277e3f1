#!/bin/sh
# test_install.sh BUILD: installs the build to a temporary prefix, moves it, and builds and runs examples/c_app against
# it through find_package and through pkg-config. Tools of the installed tree compile the example's model.
set -eu
build=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/first" > "$work/log"
mv "$work/first" "$work/prefix" # an installed tree can be moved
prefix=$work/prefix
libdir=$(dirname "$(find "$prefix" -name 'libhypatia-rt.so')")
unset LD_LIBRARY_PATH # the tools find their libraries themselves
"$prefix/bin/hypatiac" "$root/examples/digits/digits.onnx" -o "$work/plan.bin" -q

export LD_LIBRARY_PATH="$libdir"

echo "find_package:"
cmake -S "$root/examples/c_app" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --build "$work/cmake" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$work/cmake/app" "$work/plan.bin"

echo "pkg-config:"
cp "$root/examples/c_app/app.c" "$root/examples/c_app/Makefile" "$work"
PKG_CONFIG_PATH=$libdir/pkgconfig make -s -C "$work" app
"$work/app" "$work/plan.bin"
for name in hypatia hypatia-rt; do
    echo "$name $(PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --modversion $name)"
done

# Only what is public is installed.
[ "$(ls "$prefix/include/hypatia" | tr '\n' ' ')" = "compiler.h egraph.h runtime.h status.h tensor_io.h types.h " ]
