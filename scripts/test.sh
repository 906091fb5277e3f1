#!/bin/sh
# test.sh - installs what is missing, builds with gcc and with clang (warnings are errors), and runs every test: plain,
# those of kernels also with lesser instruction sets, the runtime alone without oneDNN, with clang under the address and
# undefined-behaviour sanitizers, and the runtime under the thread sanitizer. The last line sums up all runs; the exit
# code is 0 only if everything passed.
#
#   scripts/test.sh [--quick]
#
# --quick is for the work in between: build/dev alone, and of its tests those that take seconds.
set -eu
quick=
case ${1:-} in
'') ;;
--quick) quick=yes ;;
*) sed -n '2,9s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
cd "$(dirname "$0")/.."
. scripts/setup.sh

# shellcheck disable=SC2086 # lists
install_packages $BUILD_PACKAGES $TEST_PACKAGES
use_venv cmake numpy onnx onnxruntime

jobs=$(nproc)
results=$(mktemp)
trap 'rm -f "$results"' EXIT
broken=

# build NAME CMAKE-ARGUMENT...: configures and builds into build/NAME.
build() {
    name=$1
    shift
    say "build/$name"
    cmake -B "build/$name" "$@" -DHYPATIA_WERROR=ON > "$results.log" 2>&1 || { cat "$results.log"; broken="$broken $name"; return; }
    rm -f "$results.log"
    began=$(date +%s)
    cmake --build "build/$name" -j "$jobs" || broken="$broken $name"
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
    grep -q -w avx2 /proc/cpuinfo && levels=generic
    grep -q -w avx512bw /proc/cpuinfo && levels="$levels avx2"
    for level in $levels; do
        HYPATIA_CPU=$level check dev -R '^(test_runtime_(cpu|convolutions|pools|engine|vec|kernels)|test_codegen_random|judge_(attention|elementwise|models|products|windows))$'
    done
    build runtime --preset release -DHYPATIA_COMPILER=OFF -DHYPATIA_ONEDNN=OFF
    check runtime -LE long -E '^(header_|check_)'
    # The second compiler, whose sanitizers also see offsets from NULL. Its runtime is a package of its own on some systems.
    [ -e "$(clang -print-file-name="libclang_rt.asan-$(uname -m).so")" ] || install_packages libclang-rt-dev
    build asan --preset asan -DCMAKE_C_COMPILER=clang
    # Of what takes longest there, not what only judges numbers, or drives code that others do.
    check asan -E '^(header_|check_|judge_(elementwise|fusions)$|tools_(verify|budget|careful)$|test_cuda_generated)'
    build tsan --preset tsan -DCMAKE_C_COMPILER=gcc -DHYPATIA_COMPILER=OFF
    check tsan -R '^(runtime|test_runtime)'
}

build dev --preset dev -DCMAKE_C_COMPILER=gcc
if [ -n "$quick" ]; then check dev -LE long; else everything; fi

[ -z "$broken" ] || echo "did not build or run:$broken"
awk -v broken="$broken" '
    { for (i = 1; i <= NF; i++) { if ($i == "failed" && $(i + 1) == "out") failed += $(i - 2); if ($i == "of") total += $(i + 1) } }
    END {
        printf "%d%% tests passed, %d tests failed out of %d\n", total ? 100 * (total - failed) / total : 0, failed, total
        exit (failed || !total || broken != "")
    }' "$results"
