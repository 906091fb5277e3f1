#!/bin/sh
# gpu-test.sh - on a machine with an NVIDIA GPU: builds, tests the CUDA backend on the device, judges plans on it by
# onnxruntime, and measures them beside PyTorch and JAX, in a table and a file of tab-separated values.
#
#   scripts/gpu-test.sh [--quick | --full] [--out FILE.tsv] [--build DIR]
#
# --build DIR uses a build made elsewhere (cmake --preset gpu && cmake --build --preset gpu --target gpu-bundle; DIR
# is build/gpu/bundle), for a machine without the libraries that a build needs. With a build it takes up to 8 minutes,
# with --quick 2, with --full as long as torch.compile needs, and its device tests run under compute-sanitizer.
# Benchmarks need PyTorch and onnx and are left out, by name, where they are missing, as are peers. FILE is
# linear_relu.py's (bench/gpu/report.py describes it); beside it lie the same as Markdown and the file of whole
# models. The exit code is 0 only if all tests passed, no fused plan was slower than its parts, and none was wrong.
set -eu
cd "$(dirname "$0")/.."
dir='' out=build/gpu-bench.tsv mode=''
while [ $# -gt 0 ]; do
    case $1 in
    --build) dir=$2 && shift 2 ;;
    --out) out=$2 && shift 2 ;;
    --quick | --full) mode=${1#--} && shift ;;
    *) sed -n '2,14s/^# \{0,1\}//p' "$0" && exit 2 ;;
    esac
done

if [ -z "$dir" ]; then
    . scripts/setup.sh
    # shellcheck disable=SC2086 # lists
    install_packages $BUILD_PACKAGES $TEST_PACKAGES
    cmake --preset gpu > /dev/null
    cmake --build --preset gpu --target gpu-bundle
    dir=build/gpu/bundle
fi
export LD_LIBRARY_PATH="$dir/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

. scripts/cublaslt.sh

start=$(date +%s)
# left SECONDS: how many are left until so many have passed.
left() { echo $(($1 + start - $(date +%s))); }

# Toolkits bring compute-sanitizer, which tells of kernels that read or write where they may not. Calls of the driver
# that fail are left to the tests, some of which want them to.
checked=
if [ "$mode" = full ]; then
    PATH="$PATH:/usr/local/cuda/bin"
    if command -v compute-sanitizer > /dev/null; then
        checked='compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 9'
    else
        echo "the memory that kernels use is not checked: there is no compute-sanitizer here"
    fi
fi

failed=
echo "== device tests"
for test in "$dir"/bin/test_cuda_*; do
    code=0
    $checked "$test" || code=$?
    case $code:${test##*/} in
    0:*) ;;
    77:test_cuda_generated) echo "without NVRTC no kernels are generated" ;;
    77:*) echo "skipped: there is no usable GPU here" && exit 1 ;;
    *) failed="$failed ${test##*/}" ;;
    esac
done

echo "== models against onnxruntime"
if python3 -c 'import onnx, onnxruntime' 2> /dev/null; then
    HYP_LIB="$dir/lib" python3 tests/driver/judge_models.py --cuda || failed="$failed judge_models.py"
else
    echo "tests/driver/judge_models.py: skipped, because onnx or onnxruntime is missing"
fi

# measure SCRIPT [OPTIONS]: a benchmark; its file lies beside FILE.
measure() {
    script=$1 && shift
    echo "== bench/gpu/$script"
    if ! python3 -c 'import torch, onnx' 2> /dev/null; then
        echo "bench/gpu/$script: skipped, because torch or onnx is missing"
        return
    fi
    python3 "bench/gpu/$script" --hypatiac "$dir/bin/hypatiac" --library "$dir/lib/libhypatia-rt.so" "$@" ||
        failed="$failed $script"
}

mkdir -p "$(dirname "$out")"
set -- --tsv "$out" --markdown "${out%.tsv}.md" --host-time "$dir/bin/bench-host-time"
models=${out%.tsv}-models.tsv
case $mode in
quick)
    measure linear_relu.py "$@" --quick --seconds "$(left 105)"
    ;;
full)
    measure linear_relu.py "$@" --compile-seconds 900 --seconds 1500
    measure models.py --tsv "$models" --tune --compile
    ;;
*)
    measure linear_relu.py "$@" --seconds "$(left 385)"
    measure models.py --tsv "$models" --types bf16 --seconds "$(left 445)"
    ;;
esac
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
echo "all passed"
