#!/bin/sh
# Checks that every include of ours points down the layers of docs/architecture.md, and that tools, examples, python and
# bench use public headers only. Prints what is wrong; exit 1 if anything is.
set -eu
cd "$(dirname "$0")/.."

# layer: what it may include besides itself and hypatia/*.h
allowed() {
    case $1 in
    base) echo "" ;;
    kernels) echo "base" ;;
    plan) echo "base kernels" ;;
    runtime | c99) echo "base kernels plan" ;;
    ir) echo "base kernels" ;;
    egraph) echo "base" ;;
    onnx) echo "base ir" ;;
    train) echo "base ir" ;;
    rewrite) echo "base ir egraph" ;;
    codegen) echo "base ir plan" ;;
    driver) echo "base plan ir egraph onnx train rewrite codegen" ;;
    *) return 1 ;;
    esac
}

# layer/folder: which folders of its layer it may include besides itself
inside() {
    case $1 in
    egraph/rules | egraph/extract) echo "core" ;;
    egraph/search | egraph/prove) echo "core rules" ;;
    egraph/files) echo "core extract" ;;
    egraph/egglog) echo "extract" ;;
    runtime/null | runtime/nn) echo "core" ;;
    runtime/reference) echo "core nn" ;;
    runtime/cpu | runtime/cuda) echo "core reference nn" ;;
    */core) ;;
    *) echo "src/$1: is no folder that scripts/check-layers.sh knows" >&2 ;;
    esac
}

# layer: the public headers it may see
public() {
    case $1 in
    base | kernels) echo "status types" ;;
    plan) echo "status types signature" ;;
    runtime) echo "status types runtime nn" ;;
    ir) echo "status types" ;;
    egraph) echo "status types egraph egglog" ;;
    onnx) echo "status types tensor_io" ;;
    train | c99) echo "status types compiler" ;;
    rewrite) echo "status types egraph" ;;
    codegen) echo "status types" ;;
    driver) echo "status types egraph tensor_io compiler" ;;
    esac
}

bad=0
complain() {
    echo "$1: includes $2, but $3"
    bad=1
}

for folder in src/*/; do
    layer=$(basename "$folder")
    may=$(allowed "$layer") || { echo "src/$layer: is no layer that scripts/check-layers.sh knows"; bad=1; continue; }
    may=" $layer $may "
    headers=" $(public "$layer") "
    includes=$(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$folder" --include='*.[ch]' --include='*.cu' |
        sed -E 's/^([^:]*:[0-9]+):.*"([^"]*)".*/\1 \2/') || true
    while read -r place header; do
        [ -n "$place" ] || continue
        case $header in
        hypatia/*.h)
            name=${header#hypatia/}
            case $headers in *" ${name%.h} "*) ;; *) complain "$place" "$header" "$layer may not see it" ;; esac ;;
        */*)
            case $may in *" ${header%%/*} "*) ;; *) complain "$place" "$header" "$layer may only include:$may" ;; esac ;;
        esac
        case $place/$header in
        src/"$layer"/*/"$layer"/*/*)
            from=${place#src/*/} to=${header#*/} from=${from%%/*}
            case " $from $(inside "$layer/$from") " in *" ${to%%/*} "*) ;; *)
                complain "$place" "$header" "$from may only include: $(inside "$layer/$from")" ;; esac ;;
        esac
    done <<LIST
$includes
LIST
done

for folder in tools examples bench python; do
    includes=$(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$folder" --include='*.[ch]' |
        sed -E 's/^([^:]*:[0-9]+):.*"([^"]*)".*/\1 \2/') || true
    while read -r place header; do
        [ -n "$place" ] || continue
        case $header in
        hypatia/*.h) ;;
        */*) complain "$place" "$header" "$folder may only include hypatia/*.h" ;;
        commit.h | *_plan.h) ;; # made by the build
        *)
            beside=$(dirname "${place%%:*}")
            [ -f "$beside/$header" ] || case $beside in
            tools/*) [ -f "tools/$header" ] ;; # what all tools share
            *) false ;;
            esac || complain "$place" "$header" "there is no such file beside it" ;;
        esac
    done <<LIST
$includes
LIST
done

[ $bad = 0 ] && echo "layers: every include points down"
exit $bad
