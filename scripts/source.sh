#!/bin/sh
# source.sh - makes the source archive of a commit, hypatia-VERSION.tar.gz. It has all that a build needs but for the packages of
# README, and nothing is fetched while it is built. The same commit gives the same bytes.
#
#   scripts/source.sh [--commit COMMIT] [--out FOLDER]
#
# COMMIT is HEAD unless said; what is not committed is not in it. FOLDER is build/source.
set -eu
commit=HEAD out=build/source
while [ $# -gt 0 ]; do
    case $1 in
    --commit) commit=$2 && shift 2 ;;
    --out) out=$2 && shift 2 ;;
    *) sed -n '2,7s/^# \{0,1\}//p' "$0" && exit 2 ;;
    esac
done
root=$(cd "$(dirname "$0")/.." && pwd)
version=$(git -C "$root" show "$commit:include/hypatia/types.h" |
    sed -n 's/^#define HYP_VERSION_\(MAJOR\|MINOR\|PATCH\) \([0-9]*\)$/\2/p' | paste -s -d .)
mkdir -p "$out"
git -C "$root" -c tar.umask=0022 archive --format=tar --prefix="hypatia-$version/" "$commit" > "$out/hypatia-$version.tar"
gzip -9nf "$out/hypatia-$version.tar"
ls -l "$out/hypatia-$version.tar.gz"
