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
libdir=$(dirname "$(find "$prefix" -name libhypatia-rt.a)")
unset LD_LIBRARY_PATH # the tools find their libraries themselves
"$prefix/bin/hypatiac" "$root/examples/digits/digits.onnx" -o "$work/plan.bin" -q

export LD_LIBRARY_PATH="$libdir"

echo "find_package:"
cmake -S "$root/examples/c_app" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --build "$work/cmake" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$work/cmake/app" "$work/plan.bin"

echo "pkg-config:"
cp "$root/examples/c_app/app.c" "$root/examples/c_app/Makefile" "$work"
if [ -e "$libdir/libhypatia-rt.so" ]; then
    PKG_CONFIG_PATH=$libdir/pkgconfig make -s -C "$work" app
else
    # shellcheck disable=SC2046 # flags
    cc -o "$work/app" "$work/app.c" $(PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --static --cflags --libs hypatia-rt)
fi
"$work/app" "$work/plan.bin"
for name in hypatia hypatia-rt; do
    echo "$name $(PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --modversion $name)"
done

# A model in a program: the plan is that of hypatiac, to the byte, for every compiler there is, also for 64-bit ARM; it is made anew
# when the model is, and what is wrong is said.
echo "hypatia_add_model:"
mkdir "$work/model"
cp "$root/examples/digits/digits.onnx" "$work/model"
mkdir "$work/embedded"
cp "$root/examples/embedded/"* "$work/embedded"
sed -i 's|\.\./digits/|../model/|' "$work/embedded/CMakeLists.txt"
"$prefix/bin/hypatiac" "$work/model/digits.onnx" -o "$work/fixed.bin" -q --dim batch=1
bytes=$(stat -c %s "$work/fixed.bin")
holds_plan() { readelf -sW "$1" | awk -v bytes="$bytes" '$3 == bytes && $8 == "digits_plan" { found = 1 } END { exit !found }'; }
embed() {
    rm -rf "$work/built"
    cmake -S "$work/embedded" -B "$work/built" -DCMAKE_PREFIX_PATH="$prefix" "$@" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    cmake --build "$work/built" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    cmp "$work/built/hypatia_models/embedded/digits.plan" "$work/fixed.bin"
    holds_plan "$work/built/embedded"
    [ "$("$work/built/embedded")" = "3, for 100 % sure" ]
}
for compiler in cc gcc clang; do
    command -v $compiler > /dev/null || continue
    echo "  $compiler"
    embed -DCMAKE_C_COMPILER=$compiler -DCMAKE_C_FLAGS="-Wall -Wextra -Wpedantic -Werror"
done
embed -DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON -DCMAKE_BUILD_TYPE=Release
if command -v clang > /dev/null && clang --target=aarch64-linux-gnu -ffreestanding -c -o "$work/arm.o" \
    "$work/built/hypatia_models/embedded/digits_plan.c" 2> "$work/log"; then
    holds_plan "$work/arm.o"
    readelf -h "$work/arm.o" | grep -q AArch64
    echo "  for 64-bit ARM"
fi
cp "$root/tests/models/tiny_mlp.onnx" "$work/model/digits.onnx"
touch "$work/model/digits.onnx"
cmake --build "$work/built" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
if "$work/built/embedded" > "$work/log" 2>&1; then
    echo "the program still has the plan of the model before" >&2
    exit 1
fi
echo "no model" > "$work/model/digits.onnx"
if cmake --build "$work/built" > "$work/log" 2>&1 || ! grep -q 'hypatiac: .*digits.onnx' "$work/log"; then
    echo "a model that does not compile is built into a program, or not named" >&2
    exit 1
fi
refused() {
    text=$1
    shift
    sed -i "s/^hypatia_add_model.*/$*/" "$work/embedded/CMakeLists.txt"
    if cmake -S "$work/embedded" -B "$work/built" > "$work/log" 2>&1 || ! tr -s '\n ' ' ' < "$work/log" | grep -q "$text"; then
        cat "$work/log"
        echo "$*: '$text' is not said" >&2
        exit 1
    fi
}
refused "there is no target 'app'" 'hypatia_add_model(app m.onnx)'
refused "'a-b' is no name in C" 'hypatia_add_model(embedded m.onnx NAME a-b)'
refused "what is 'batch=1'" 'hypatia_add_model(embedded m.onnx batch=1)'
refused "there is no file '.*/m.onnx', nor a rule" 'hypatia_add_model(embedded m.onnx)'
cp "$work/fixed.bin" "$work/embedded/m.onnx" # any file: nothing is built
refused "'embedded' has a model 'm' already" 'hypatia_add_model(embedded m.onnx)\nhypatia_add_model(embedded m.onnx)'

# As a part of another build, whose settings stay what they are: without shared libraries, tests and packages.
echo "add_subdirectory:"
mkdir "$work/part"
cp "$root/examples/embedded/embedded.c" "$root/examples/digits/digits.onnx" "$work/part"
cat > "$work/part/CMakeLists.txt" << END
cmake_minimum_required(VERSION 3.25)
project(part LANGUAGES C)
add_subdirectory($root hypatia EXCLUDE_FROM_ALL)
add_executable(embedded embedded.c)
target_link_libraries(embedded PRIVATE hypatia::hypatia-rt)
hypatia_add_model(embedded digits.onnx OPTIONS --dim batch=1)
get_target_property(type hypatia-rt TYPE)
message(STATUS "the runtime is a \${type}")
END
cmake -S "$work/part" -B "$work/part/build" -DHYPATIA_CUDA=OFF > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
grep -q "the runtime is a STATIC_LIBRARY" "$work/log"
if grep -E '^(BUILD_SHARED_LIBS|BUILD_TESTING|CPACK_[A-Z]*|CMAKE_BUILD_TYPE:STRING=.)' "$work/part/build/CMakeCache.txt"; then
    echo "a build that Hypatia is part of has settings of Hypatia's" >&2
    exit 1
fi

# A program that uses the shared library needs nothing of what it is made of, nor does any name a place of this machine.
if [ -e "$libdir/libhypatia-rt.so" ]; then
    PKG_CONFIG_LIBDIR=$libdir/pkgconfig pkg-config --cflags --libs hypatia-rt
fi
if grep -rn '/[a-z0-9/_.+-]*/lib[a-z]*\.\(so\|a\)' "$libdir/cmake" | grep -v '_IMPORT_PREFIX'; then
    echo "the CMake package names libraries by where they are here" >&2
    exit 1
fi

# What may be asked for is what docs/stability.md says: this release or an earlier one of its series, which before 1.0 has its
# minor version.
number() { sed -n "s/^#define HYP_VERSION_$1 \([0-9]*\)$/\1/p" "$root/include/hypatia/types.h"; }
major=$(number MAJOR) minor=$(number MINOR)
# asks VERSION: whether the CMake package is one for it.
asks() {
    major_part=${1%%.*} rest=${1#*.}
    cmake -DPACKAGE_FIND_VERSION="$1" -DPACKAGE_FIND_VERSION_MAJOR="$major_part" -DPACKAGE_FIND_VERSION_MINOR="${rest%%.*}" \
        -DPACKAGE_FIND_VERSION_COUNT=3 -DCMAKE_SIZEOF_VOID_P=8 -P "$work/asks.cmake" 2>&1 | grep -q '^-- fits$'
}
cat > "$work/asks.cmake" << end
include($libdir/cmake/hypatia/hypatiaConfigVersion.cmake)
if(PACKAGE_VERSION_COMPATIBLE)
    message(STATUS "fits")
endif()
end
asks "$major.$minor.0" || { echo "the CMake package refuses its own series" >&2; exit 1; }
for other in "$major.$((minor + 1)).0" "$((major + 1)).$minor.0" "$major.$minor.999"; do
    if asks "$other"; then echo "the CMake package says that it is $other" >&2; exit 1; fi
done
if [ "$major" = 0 ] && asks "0.$((minor - 1)).0"; then echo "the CMake package says that it is of an earlier series" >&2; exit 1; fi
if [ -e "$libdir/libhypatia-rt.so" ]; then
    readelf -d "$libdir/libhypatia-rt.so" | grep -q "SONAME.*\[libhypatia-rt.so.$major\]"
fi

# Only what is public is installed.
[ "$(ls "$prefix/include/hypatia" | tr '\n' ' ')" = "compiler.h egglog.h egraph.h nn.h onnx.h runtime.h runtime.hpp signature.h status.h tensor_io.h types.h " ]
