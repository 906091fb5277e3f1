# cublaslt.sh - to be sourced: sets HYPATIA_CUBLASLT where the library is not where the runtime looks for it. ${PYTHON:-python3} is asked.

# cuBLASLt comes with a toolkit or inside Python packages.
if [ -z "${HYPATIA_CUBLASLT:-}" ] && ! ls /usr/local/cuda/lib64/libcublasLt.so.1[23] > /dev/null 2>&1 &&
    ! ldconfig -p 2> /dev/null | grep -q 'libcublasLt.so.1[23]'; then
    found=$("${PYTHON:-python3}" -c '
import glob, sys
found = [f for p in sys.path for f in glob.glob(p + "/nvidia/*/lib/libcublasLt.so.1[23]")]
print(max(found, default=""))' || true)
    [ -z "$found" ] || export HYPATIA_CUBLASLT="$found"
fi
