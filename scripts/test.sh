#!/bin/sh
# test.sh - installs what is missing, builds with gcc and with clang (warnings are errors), and runs every test: plain,
# those of kernels also with lesser instruction sets, the runtime alone without oneDNN, with clang under the address and
# undefined-behaviour sanitizers, and the runtime under the thread sanitizer. The last line sums up all runs; the exit
# code is 0 only if everything passed.
#
#   scripts/test.sh [--quick | --all | --with COMPILER...]
#
# --quick is for the work in between: build/dev alone, and of its tests those that take seconds. --all adds what is not for
# every change: both compilers' link-time optimisation, static libraries, musl, and 64-bit ARM under qemu. --with is what
# --quick is, but with each of the compilers that are named, in build/COMPILER: --with gcc-10 clang-19.
set -eu
runs=everything
case ${1:-} in
'') ;;
--quick) runs=quick ;;
--all) runs="everything elsewhere" ;;
--with) shift && runs=compilers compilers=$* ;;
*) sed -n '2,12s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
cd "$(dirname "$0")/.."
. scripts/setup.sh

# shellcheck disable=SC2086 # lists
install_packages $BUILD_PACKAGES $TEST_PACKAGES
use_venv cmake numpy onnx onnxruntime jsonschema pytest

jobs=$(nproc)
# Some two hundred programs of a build are linked with what they test inside: by a linker that takes a third of the usual one's
# time where there is one. In build/dev all others are linked as users link.
linker=
test_linker=
for found in lld gold; do
    ! command -v "ld.$found" > /dev/null || linker=-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=$found test_linker=-DHYPATIA_TEST_LINKER=$found
done
results=$(mktemp)
trap 'rm -f "$results"' EXIT
broken=

# build NAME CMAKE-ARGUMENT...: configures and builds into build/NAME. `programs`: an extended regular expression; of programs
# then only those are built that tests of such names start.
programs=
build() {
    name=$1
    shift
    say "build/$name"
    cmake -B "build/$name" "$@" -DHYPATIA_WERROR=ON > "$results.log" 2>&1 || { cat "$results.log"; broken="$broken $name"; return; }
    rm -f "$results.log"
    targets=all
    [ -z "$programs" ] || targets=$(find "build/$name" -name CTestTestfile.cmake -exec cat {} + |
        sed -n "s|^add_test(\[*=*\[*\([^] ]*\)[^ ]* \"$PWD/build/$name/\([^\"]*\)\".*|\1 \2|p" |
        grep -E "$programs" | cut -d ' ' -f 2 | sort -u)
    began=$(date +%s)
    # shellcheck disable=SC2086 # a list
    cmake --build "build/$name" -j "$jobs" --target $targets || broken="$broken $name"
    say "building build/$name took $(($(date +%s) - began)) s"
}

# check NAME CTEST-ARGUMENT...: runs tests of build/NAME and keeps the summary line.
check() {
    name=$1
    shift
    case " $broken " in *" $name "*) return ;; esac
    say "tests of build/$name"
    began=$(date +%s)
    { ctest --test-dir "build/$name" --output-on-failure -j "$jobs" "$@" || true; } | tee "$results.one"
    say "tests of build/$name took $(($(date +%s) - began)) s"
    grep 'tests passed' "$results.one" >> "$results" || broken="$broken $name"
    rm -f "$results.one"
}

everything() {
    check dev
    # The kernels for lesser processors, too, as far as this one can run them.
    levels=
    kernels='cpu|cpu_attention|cpu_elementwise|convolutions|pools|engine|vec|vectors|kernels|far|nn|integers|widened|doubles|recurrent|.*_gradients?'
    grep -q -w avx2 /proc/cpuinfo && levels=generic
    grep -q -w avx512bw /proc/cpuinfo && levels="$levels avx2"
    for level in $levels; do
        HYPATIA_CPU=$level check dev -R "^(test_runtime_($kernels)|conformance_cpu|test_codegen_random|judge_(attention|elementwise|models|products|windows))\$"
    done
    cuda_built=-DHYPATIA_CUDA_BUILT=$PWD/build/dev # kernels and emulator: the same in every build
    # shellcheck disable=SC2086 # nothing, where the linker is the usual one
    build runtime --preset release -DHYPATIA_COMPILER=OFF -DHYPATIA_ONEDNN=OFF "$cuda_built" $linker
    # On the emulated GPU once: its moods, and steps side by side, are for the code, not for how it is built.
    check runtime -LE long -E '^(header_|check_)|^test_cuda_.*_(own|unfit|parts|plain|lazy|pageable|compiling|side_by_side)$'
    # The second compiler, whose sanitizers also see offsets from NULL. Its runtime is a package of its own on some systems.
    [ -e "$(clang -print-file-name="libclang_rt.asan-$(uname -m).so")" ] || install_packages libclang-rt-dev
    # shellcheck disable=SC2086
    build asan --preset asan -DCMAKE_C_COMPILER=clang "$cuda_built" $linker
    # Of what takes longest there, not what only judges numbers, or drives code that others do (the same tests with steps side by
    # side), nor what Python would have to load. What was freed last is watched, 16 MB of it: with the usual 256 MB a third of the
    # time goes by.
    export ASAN_OPTIONS=quarantine_size_mb=16
    same='test_cuda_(device|conv|orders|recurrent|session|staging)_emulated$'
    check asan -E "^(header_|check_|judge_(elementwise|emitted|fusions)\$|tools_(verify|budget|memory|terminal|report_page|careful|prices|serve_load|export_c|export_c_models)\$|python_|test_cuda_generated|$same)"
    unset ASAN_OPTIONS
    programs='^(runtime|test_runtime)'
    # shellcheck disable=SC2086
    build tsan --preset tsan -DCMAKE_C_COMPILER=gcc -DHYPATIA_COMPILER=OFF "$cuda_built" $linker
    check tsan -R "$programs"
    programs=
}

quick() { check dev -LE long; }

# The runtime alone as one static program, with what it needs laid out apart from the C library's own headers.
musl() {
    install_packages musl-tools
    rm -f build/musl/bin/digits
    own=$PWD/build/musl-prefix
    mkdir -p "$own/include" "$own/lib"
    ln -sfn /usr/include/xxhash.h /usr/include/google /usr/include/protobuf-c "$own/include"
    ln -sfn "$(pkg-config --variable=libdir libprotobuf-c)/libprotobuf-c.a" "$own/lib"
    printf 'Name: libprotobuf-c\nDescription: for musl\nVersion: 1\nLibs: -L%s/lib -lprotobuf-c\nCflags: -I%s/include\n' \
        "$own" "$own" > "$own/libprotobuf-c.pc"
    (
        export PKG_CONFIG_LIBDIR="$own"
        build musl --preset release -DCMAKE_C_COMPILER=musl-gcc -DHYPATIA_COMPILER=OFF -DHYPATIA_ONEDNN=OFF -DHYPATIA_CUDA=OFF \
            -DBUILD_TESTING=OFF -DBUILD_SHARED_LIBS=OFF -DXXHASH_INCLUDE="$own/include" -DCMAKE_EXE_LINKER_FLAGS=-static
    )
    build/dev/bin/hypatiac examples/digits/digits.onnx -o build/musl/digits.bin -q &&
        build/musl/bin/digits build/musl/digits.bin examples/digits/images.npy examples/digits/labels.npy |
        grep '^accuracy: 100 of 100' || broken="$broken musl"
}

elsewhere() {
    build lto --preset release -DCMAKE_C_COMPILER=gcc -DBUILD_SHARED_LIBS=OFF -DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON
    check lto -LE long -E '^(header_|check_)'
    install_packages lld
    build lto-clang --preset release -DCMAKE_C_COMPILER=clang -DHYPATIA_COMPILER=OFF -DCMAKE_C_FLAGS=-flto \
        -DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld -DCMAKE_SHARED_LINKER_FLAGS=-fuse-ld=lld
    check lto-clang -LE long -E '^(header_|check_)'
    musl
    scripts/arm64-root.sh build/arm64 || broken="$broken arm64-root"
    build aarch64 --preset aarch64
    # Programs that ctest starts itself, by qemu: some 15 minutes of a processor. Left out are scripts, which start them
    # without it, and Python, which loads libraries of its own processor.
    check aarch64 -R '^(test_|conformance_|runtime|driver_|fuzz_|replay_|example_egraph|tools_(race|.*_parts)$)'
}

compilers() {
    for compiler in $compilers; do
        build "$compiler" --preset dev -DCMAKE_C_COMPILER="$compiler"
        check "$compiler" -LE long
    done
}

# shellcheck disable=SC2086
[ "$runs" = compilers ] || build dev --preset dev -DCMAKE_C_COMPILER=gcc $test_linker
for run in $runs; do $run; done

[ -z "$broken" ] || echo "did not build or run:$broken"
awk -v broken="$broken" '
    { for (i = 1; i <= NF; i++) { if ($i == "failed" && $(i + 1) == "out") failed += $(i - 2); if ($i == "of") total += $(i + 1) } }
    END {
        printf "%d%% tests passed, %d tests failed out of %d\n", total ? 100 * (total - failed) / total : 0, failed, total
        exit (failed || !total || broken != "")
    }' "$results"
