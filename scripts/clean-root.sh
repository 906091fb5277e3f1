#!/bin/sh
# clean-root.sh - installs packages in a Debian that has nothing else, and uses them as README says.
#
#   scripts/clean-root.sh PACKAGES ROOT
#
# As root. PACKAGES is the folder of scripts/package.sh. ROOT is made by debootstrap where it is not there yet, of the release that
# runs here, from the mirror MIRROR, or from debootstrap's own. There a model is compiled and run, and README's program
# built through pkg-config and through find_package, with shared libraries and with archives (tests/tools/readme_program.py).
set -eu
[ $# = 2 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" && exit 2; }
packages=$1 root=$2
sources=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck disable=SC1091 # of the system
[ -e "$root/etc/debian_version" ] || debootstrap --variant=minbase "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root" ${MIRROR:+"$MIRROR"}

inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }
rm -rf "$root/packages"
mkdir -p "$root/packages"
cp "$packages"/*.deb "$root/packages"
python3 "$sources/tests/tools/readme_program.py" "$root/packages"
inside apt-get update -q
inside sh -c 'apt-get install -y -q --reinstall /packages/*.deb gcc libc6-dev cmake make pkg-config'
inside sh -c 'cd /packages && ./all.sh'
inside sh -c 'apt-get purge -y -q "*hypatia*" > /dev/null && ! find /usr /etc /var/lib -name "*hypatia*" -not -path "/var/lib/dpkg/*" | grep .'
echo "installed, used and removed"
