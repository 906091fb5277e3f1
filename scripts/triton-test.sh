#!/bin/sh
# triton-test.sh [BUILD [cuda]]: serves plans of a build (build/dev) with a real tritonserver, which PyPI's nvidia-pytriton brings, and asks it;
# with cuda on a GPU. It is installed in an environment of its own, FOLDER in TRITON_VENV or build/triton-venv: 500 MB, which is why
# continuous integration leaves this to people. `scripts/triton-test.sh bench [OPTION...]` measures instead (bench/triton_load.py).
set -eu
cd "$(dirname "$0")/.."
venv=${TRITON_VENV:-build/triton-venv}
if [ ! -x "$venv/bin/python3" ]; then
    python3 -m venv "$venv"
fi
# Without what else pytriton asks for: only the server in it is used.
ls "$venv"/lib/python3*/site-packages/pytriton > /dev/null 2>&1 ||
    "$venv/bin/python3" -m pip install -q --no-deps nvidia-pytriton==0.7.0
# The server's Python backend makes empty tensors of arrays of numpy 2.
"$venv/bin/python3" -c 'import onnx, onnxruntime, tritonclient.http' 2> /dev/null ||
    "$venv/bin/python3" -m pip install -q 'numpy<2' onnx onnxruntime 'tritonclient[http]'
if [ "${1:-}" = bench ]; then
    shift
    exec "$venv/bin/python3" -B bench/triton_load.py "$@"
fi
build=$(realpath "${1:-build/dev}")
HYP_BIN=$build/bin HYP_LIB=$build/lib exec "$venv/bin/python3" -B tests/tools/triton_server_test.py ${2:+"$2"}
