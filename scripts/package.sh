#!/bin/sh
# package.sh - makes Debian packages: libhypatia-rt0, libhypatia0, libhypatia-dev, hypatia-tools and hypatia-doc. The same commit
# gives the same bytes.
#
#   scripts/package.sh [--build FOLDER] [--out FOLDER] [--root FOLDER] [--unchecked]
#
# They are written to --out (build/packages), and lintian, where it is installed, looks at them unless --unchecked. --build
# takes what this build folder has; without it build/package is configured and built: release, with everything that is found here.
# --root, as root, also installs them in a new Debian in that folder, made by debootstrap, and compiles README's program there
# (scripts/clean-root.sh). The maintainer that a new build names is DEBFULLNAME <DEBEMAIL>, as Debian's own tools have it.
set -eu
build='' out=build/packages clean='' checked=yes
while [ $# -gt 0 ]; do
    case $1 in
    --build) build=$2 && shift 2 ;;
    --out) out=$2 && shift 2 ;;
    --root) clean=$2 && shift 2 ;;
    --unchecked) checked='' && shift ;;
    *) sed -n '2,12s/^# \{0,1\}//p' "$0" && exit 2 ;;
    esac
done
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$out"
out=$(cd "$out" && pwd)
# The time of the commit, which sources from an archive (scripts/source.sh) name themselves.
told=$(sed -n 's/^[0-9a-f]* \([0-9]*\)$/\1/p' "$root/cmake/commit.txt")
: "${SOURCE_DATE_EPOCH:=${told:-$(git -C "$root" log -1 --format=%ct)}}"
export SOURCE_DATE_EPOCH
umask 022 # the packages have it in them

if [ -z "$build" ]; then
    build=$root/build/package
    # With this prefix libraries lie in lib/<processor>, as Debian has it.
    cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr -DBUILD_TESTING=OFF \
        ${DEBEMAIL:+-DHYPATIA_MAINTAINER="${DEBFULLNAME:-$DEBEMAIL} <$DEBEMAIL>"}
    cmake --build "$build"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cpack --config "$build/CPackConfig.cmake" -B "$work" > "$work/log" 2>&1 || { cat "$work/log" && exit 1; }
rm -f "$out"/*hypatia*.deb
mv "$work"/*.deb "$out"
ls -l "$out"/*.deb
! grep -q '^HYPATIA_MAINTAINER:.*@hypatia\.invalid>$' "$build/CMakeCache.txt" ||
    echo "the packages name no maintainer to whom anybody could write: set DEBFULLNAME and DEBEMAIL, or -DHYPATIA_MAINTAINER of the build"
if [ -z "$checked" ]; then
    :
elif command -v lintian > /dev/null; then
    # A build that is not made for packages has its libraries in lib, where cross compilers do not look.
    elsewhere=
    grep -q '^CMAKE_INSTALL_LIBDIR:PATH=lib$' "$build/CMakeCache.txt" && elsewhere=--suppress-tags=pkg-config-unavailable-for-cross-compilation
    lintian --fail-on error,warning --allow-root $elsewhere "$out"/*.deb
else
    echo "lintian is not installed: it did not look at the packages"
fi
[ -z "$clean" ] || "$root/scripts/clean-root.sh" "$out" "$clean"
