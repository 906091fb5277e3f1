#!/bin/sh
# The code of a page as a test.
#
#   page.sh code PAGE             prints the page's blocks of C, in order, as one source file
#   page.sh check PAGE PROGRAM    runs it; its output must be the page's blocks of text, in order
set -eu
page=$2

# The lines between ```LANGUAGE and ```; compilers are told where on the page they stand.
blocks() {
    awk -v fence="\`\`\`$1" -v page="$page" '
        !inside && $0 == fence { inside = 1; if (fence ~ /c$/) printf "#line %d \"%s\"\n", NR + 1, page; next }
        inside && $0 == "```" { inside = 0; next }
        inside' "$page"
}

case $1 in
code) blocks c ;;
check)
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    blocks text > "$work/wanted"
    "$3" > "$work/found"
    [ -s "$work/wanted" ] || { echo "$page: has no block of output"; exit 1; }
    diff -u "$work/wanted" "$work/found"
    ;;
esac
