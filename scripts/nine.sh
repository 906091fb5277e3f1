#!/bin/sh
# nine.sh - the nine configurations of examples/nine (small, medium and large perceptrons of 2, 4 and 6 layers) and their first layers
# alone: unfused, fused, tuned and by the framework, forward and backward, on the CPU and, where there is one, the GPU; as tables with
# the seeds' targets beside, and as pictures.
#
#   scripts/nine.sh [--cpu | --gpu] [--build DIR] [--out DIR] [--page] [--only TEXT] [--quick]
#
# --build DIR   a build (build/release), or a bundle of the preset gpu for a machine without compilers (build/gpu/bundle)
# --cpu, --gpu  one of them alone
# --out DIR     where files of figures and pictures go (build/nine)
# --page        also puts tables and pictures into docs/seeds.md and docs/pictures
# --only TEXT   of the configurations those whose name begins so: small-2, large
# --quick       short rounds, for a look at whether it works
# --rows LIST   rows on the CPU of small, medium and large (256,128,64: an eighth and a 128th of what a GPU takes)
#
# PYTHON is the interpreter (python3). Where it has PyTorch that is the framework, and backward passes are measured; else it is
# onnxruntime, forward alone. About 6 minutes for the CPU and 8 for a GPU. From files that were measured elsewhere:
#   python3 bench/nine.py report --forward DIR/gpu-forward.tsv --backward DIR/gpu-backward.tsv --svg docs/pictures/nine-gpu.svg \
#       --page docs/seeds.md --part gpu
set -eu
cd "$(dirname "$0")/.."
build=build/release out=build/nine cpu=1 gpu=1 page= only= quick= rows=256,128,64
while [ $# -gt 0 ]; do
    case $1 in
    --cpu) gpu='' && shift ;;
    --gpu) cpu='' && shift ;;
    --build) build=$2 && shift 2 ;;
    --out) out=$2 && shift 2 ;;
    --only) only=$2 && shift 2 ;;
    --rows) rows=$2 && shift 2 ;;
    --page) page=1 && shift ;;
    --quick) quick=1 && shift ;;
    *) sed -n '2,23s/^# \{0,1\}//p' "$0" && exit 2 ;;
    esac
done
python=${PYTHON:-python3}
mkdir -p "$out"
export LD_LIBRARY_PATH="$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
library=$build/lib/libhypatia-rt.so
has() { "$python" -c "import $1" 2> /dev/null; }

# report PART: tables of the files that there are, and the picture.
report() {
    part=$1
    set -- --forward "$out/$part-forward.tsv"
    [ ! -s "$out/$part-backward.tsv" ] || set -- "$@" --backward "$out/$part-backward.tsv"
    svg=$out/nine-$part.svg
    [ -z "$page" ] || svg=docs/pictures/nine-$part.svg
    [ -z "$page" ] || set -- "$@" --page docs/seeds.md --part "$part"
    "$python" bench/nine.py report --svg "$svg" "$@"
}

if [ -n "$cpu" ]; then
    rm -f "$out/cpu-backward.tsv"
    "$python" bench/nine.py measure --bin "$build/bin" --tsv "$out/cpu-forward.tsv" --only "$only" --rows "$rows" \
        ${quick:+--rounds 3 --seconds 0.05 --tune-seconds 0.5}
    if ! has torch; then
        echo "backward: left out on the CPU, because $python has no PyTorch to compare with"
    elif [ ! -e "$library" ]; then
        echo "backward: left out on the CPU, because there is no $library"
    else
        OMP_NUM_THREADS=1 "$python" bench/nn.py --library "$library" --device cpu --types fp32 --tune 0 --rounds 7 \
            --cases "$("$python" bench/nine.py cases --rows "$rows" --only "$only")" --tsv "$out/cpu-backward.tsv" \
            --row-seconds "${quick:+0.}2"
    fi
    report cpu
fi

if [ -n "$gpu" ]; then
    if ! has torch || ! "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())'; then
        echo "the GPU: left out, because there is none that PyTorch knows of"
        exit 0
    fi
    . scripts/cublaslt.sh
    cases=$("$python" bench/nine.py cases --only "$only")
    title="$("$python" -c 'import torch; print(torch.cuda.get_device_name() + ", PyTorch " + torch.__version__)'), replayed from CUDA graphs"
    rm -f "$out/gpu-backward.tsv"
    # What is slower than it should be is in the table; the exit code says it, too, and does not end this.
    "$python" bench/gpu/linear_relu.py --hypatiac "$build/bin/hypatiac" --library "$library" --cases "$cases" --types bf16,fp32 --peers '' \
        --seconds 240 --rounds 15 --tune-seconds "${quick:+0.}3" --tsv "$out/gpu-forward.tsv" ||
        echo "bench/gpu/linear_relu.py found something to complain about"
    "$python" bench/nn.py --library "$library" --device cuda --types bf16,fp32 --tune "${quick:+0.}4" --row-seconds "${quick:+0.}4" --stop 260 \
        --cases "$cases" --tsv "$out/gpu-backward.tsv"
    for file in "$out"/gpu-*ward.tsv; do # where it was measured, for whoever makes a report of the files later
        sed -i "1i # $title" "$file"
    done
    report gpu
fi
