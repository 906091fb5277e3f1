#!/bin/sh
# test_onednn_root.sh CMAKE COMPILER: HypFindOnednn.cmake takes oneDNN from the folder that it is told, and from nowhere else.
# The library is an empty one, of a version that no system has.
set -eu
cmake=$1 compiler=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work/here/include/oneapi/dnnl" "$work/here/lib/cmake/dnnl" "$work/headers/include" "$work/project"
here=$work/here
printf '#define DNNL_VERSION_MAJOR 3\n#define DNNL_VERSION_MINOR 999\n#define DNNL_VERSION_PATCH 7\n' \
    > "$here/include/oneapi/dnnl/dnnl_version.h"
touch "$here/include/oneapi/dnnl/dnnl.h"
echo 'int dnnl_nothing;' | "$compiler" -shared -fPIC -x c - -o "$here/lib/libdnnl.so"
cp -r "$here/include/oneapi" "$work/headers/include/"
cat > "$work/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(finds LANGUAGES C)
find_package(PkgConfig REQUIRED)
include(${ROOT}/cmake/HypFindOnednn.cmake)
message(STATUS "found ${HYP_ONEDNN_FOUND} version ${HYP_ONEDNN_VERSION} library ${DNNL_LIBRARY} (${HYP_ONEDNN_MESSAGE})")
END

# wants WHAT OPTION...: a project that is configured with the options says this.
wants() {
    what=$1
    shift
    rm -rf "$work/build"
    "$cmake" -S "$work/project" -B "$work/build" -DROOT="$root" -DCMAKE_C_COMPILER="$compiler" "$@" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    grep -q -- "-- found $what" "$work/log" || { echo "$*: wanted: found $what"; cat "$work/log"; exit 1; }
    echo "$*: found $what"
}

unset dnnl_ROOT DNNL_ROOT
wants "ON version 3.999.7 library $here/lib/libdnnl.so" -Ddnnl_ROOT="$here"
wants "ON version 3.999.7 library $here/lib/libdnnl.so" -DDNNL_ROOT="$here"
wants "ON version 3.999.7 library $here/lib/" -Ddnnl_DIR="$here/lib/cmake/dnnl"
wants "ON version 3.999.7 library $here/lib/libdnnl.so" -DCMAKE_PREFIX_PATH="$here"
wants "OFF .*oneDNN was not found in $work/headers " -Ddnnl_ROOT="$work/headers"
export dnnl_ROOT="$here"
wants "ON version 3.999.7 library $here/lib/libdnnl.so"
unset dnnl_ROOT
mkdir -p "$work/pc"
printf 'Name: dnnl\nDescription: none\nVersion: 3.999.7\nCflags: -I%s/include\nLibs: -L%s/lib -ldnnl\n' "$here" "$here" \
    > "$work/pc/dnnl.pc"
export PKG_CONFIG_PATH="$work/pc"
wants "ON version 3.999.7 library $here/lib/libdnnl.so"
