#!/bin/sh
# test_static.sh BUILD CC: the runtime as one archive that needs nothing but the C library: builds it in a folder of its own in BUILD,
# which stays for the next time, installs it, and builds and runs programs with it where no protobuf-c is to be found.
set -eu
build=$1 cc=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
own=$build/static
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
quietly() { "$@" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }; }

archive=$(pkg-config --variable=libdir libprotobuf-c)/libprotobuf-c.a
[ -e "$archive" ] || { echo "skipped: there is no $archive"; exit 77; }
quietly cmake -S "$root" -B "$own" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O1 -DBUILD_SHARED_LIBS=OFF \
    -DHYPATIA_STATIC_DEPS=ON -DHYPATIA_ONEDNN=OFF -DHYPATIA_CUDA=OFF -DHYPATIA_COMPILER=OFF -DBUILD_TESTING=OFF
quietly cmake --build "$own"
quietly cmake --install "$own" --prefix "$work/prefix"
library=$(find "$work/prefix" -name libhypatia-rt.a)
echo "$(stat -c %s "$library") bytes of libhypatia-rt.a"

# All of it, every function, is there.
echo 'int main(void) { return 0; }' > "$work/all.c"
quietly "$cc" -o "$work/all" "$work/all.c" -Wl,--whole-archive "$library" -Wl,--no-whole-archive -lm -lpthread -ldl
needed=$(readelf -d "$work/all" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v '^lib\(c\|m\|pthread\|dl\)\.so\|^ld-linux' || true)
[ -z "$needed" ] || { echo "the archive needs $needed" >&2; exit 1; }

"$build/bin/hypatiac" "$root/examples/digits/digits.onnx" -o "$work/plan.bin" -q
export PKG_CONFIG_LIBDIR="$work/nowhere" # and nothing else
quietly "$cc" -o "$work/app" "$root/examples/c_app/app.c" -I"$work/prefix/include" "$library" -lm -lpthread -ldl
"$work/app" "$work/plan.bin"

echo "find_package:"
quietly cmake -S "$root/examples/c_app" -B "$work/cmake" -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$work/prefix"
quietly cmake --build "$work/cmake"
"$work/cmake/app" "$work/plan.bin"

echo "pkg-config:"
PKG_CONFIG_LIBDIR=$(dirname "$library")/pkgconfig
# shellcheck disable=SC2046 # flags
quietly "$cc" -o "$work/app" "$root/examples/c_app/app.c" $(pkg-config --static --cflags --libs hypatia-rt)
"$work/app" "$work/plan.bin"
