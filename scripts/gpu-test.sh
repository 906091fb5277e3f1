#!/bin/sh
# gpu-test.sh - on a machine with an NVIDIA GPU: builds, tests the CUDA backend on the device, judges plans on it by
# onnxruntime, and prints a table of fused plans, tuned and not, against unfused ones and PyTorch.
#
#   scripts/gpu-test.sh [--quick] [--out FILE.tsv] [--build DIR]
#
# --build DIR uses a build made elsewhere (cmake --preset gpu && cmake --build --preset gpu --target gpu-bundle; DIR is
# build/gpu/bundle), for a machine without the libraries that a build needs. The benchmark needs PyTorch and onnx and is
# left out, by name, where they are missing. The exit code is 0 only if all tests passed and no fused plan was slower.
set -eu
cd "$(dirname "$0")/.."
dir= out=build/gpu-bench.tsv quick=
while [ $# -gt 0 ]; do
    case $1 in
    --build) dir=$2 && shift 2 ;;
    --out) out=$2 && shift 2 ;;
    --quick) quick=--quick && shift ;;
    *) sed -n '2,11s/^# \{0,1\}//p' "$0" && exit 2 ;;
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

# cuBLASLt comes with a toolkit or inside Python packages.
if [ -z "${HYPATIA_CUBLASLT:-}" ] && ! ls /usr/local/cuda/lib64/libcublasLt.so.1[23] > /dev/null 2>&1 &&
    ! ldconfig -p 2> /dev/null | grep -q 'libcublasLt.so.1[23]'; then
    found=$(python3 -c '
import glob, sys
found = [f for p in sys.path for f in glob.glob(p + "/nvidia/*/lib/libcublasLt.so.1[23]")]
print(max(found, default=""))' || true)
    [ -z "$found" ] || export HYPATIA_CUBLASLT="$found"
fi

failed=
echo "== device tests"
for test in "$dir"/bin/test_cuda_*; do
    code=0
    "$test" || code=$?
    [ "$code" != 77 ] || { echo "skipped: there is no usable GPU here"; exit 1; }
    [ "$code" = 0 ] || failed="$failed $(basename "$test")"
done

echo "== models against onnxruntime"
if python3 -c 'import onnx, onnxruntime' 2> /dev/null; then
    HYP_LIB="$dir/lib" python3 tests/driver/judge_models.py --cuda || failed="$failed judge_models.py"
else
    echo "tests/driver/judge_models.py: skipped, because onnx or onnxruntime is missing"
fi

echo "== tuned against fused against unfused against PyTorch"
if python3 -c 'import torch, onnx, ml_dtypes' 2> /dev/null; then
    mkdir -p "$(dirname "$out")"
    # shellcheck disable=SC2086 # empty when not asked for
    python3 bench/gpu/linear_relu.py --hypatiac "$dir/bin/hypatiac" --library "$dir/lib/libhypatia-rt.so" \
        --tsv "$out" --timings "$(dirname "$out")/gpu-timings.jsonl" $quick ||
        failed="$failed linear_relu.py"
else
    echo "bench/gpu/linear_relu.py: skipped, because torch, onnx or ml_dtypes is missing"
fi
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
echo "all passed"
