# shellcheck shell=sh disable=SC2034 # the lists are for the scripts that source this
# setup.sh - sourced by demo.sh and test.sh: installs what is missing on Debian and Ubuntu. Nothing is done, and nobody is
# asked for rights, where everything is there.

say() { printf '== %s\n' "$*"; }

# Runs a command as root.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo > /dev/null; then
        sudo "$@"
    else
        echo "these packages are missing and only root can install them: run as root: $*" >&2
        exit 1
    fi
}

# install_packages NAME...: those that are not installed yet.
install_packages() {
    missing=
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q 'ok installed' || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    command -v apt-get > /dev/null || { echo "this is no Debian or Ubuntu; please install:$missing" >&2; exit 1; }
    say "installing$missing"
    as_root apt-get update -q
    # shellcheck disable=SC2086 # a list
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
}

# What a build needs.
BUILD_PACKAGES="gcc g++ make cmake ninja-build pkg-config git protobuf-c-compiler libprotobuf-c-dev libdnnl-dev libjansson-dev libxxhash-dev libmicrohttpd-dev"
# What the tests need besides; libsodium-dev, whose name is the same everywhere, for the library that it brings.
TEST_PACKAGES="clang abigail-tools libcmocka-dev libsodium-dev curl openssl python3 python3-dev python3-venv ca-certificates"
# Chromium looks at the pages of reports; Ubuntu has none as a package.
! grep -q '^ID=debian' /etc/os-release 2> /dev/null || TEST_PACKAGES="$TEST_PACKAGES chromium"

# Some releases have an older CMake than 3.25: then one goes into the virtual environment.
have_cmake() {
    command -v cmake > /dev/null || return 1
    version=$(cmake --version | sed -n '1s/.*version \([0-9]*\.[0-9]*\).*/\1/p')
    [ "$(printf '%s\n3.25\n' "$version" | sort -V | head -n 1)" = 3.25 ]
}

# find_lacking MODULE...: sets `lacking` to the packages that python3 has not.
find_lacking() {
    lacking=
    for module in "$@"; do
        case $module in
        cmake) have_cmake || lacking="$lacking 'cmake>=3.25,<4'" ;;
        *) python3 -c "import $module" 2> /dev/null || lacking="$lacking $module" ;;
        esac
    done
}

# use_venv MODULE...: a virtual environment with these Python packages, first in PATH, where python3 lacks one of them.
use_venv() {
    [ -x .venv/bin/python3 ] && PATH=$PWD/.venv/bin:$PATH
    find_lacking "$@"
    [ -n "$lacking" ] || return 0
    if [ ! -x .venv/bin/python3 ]; then
        install_packages python3 python3-venv ca-certificates
        python3 -m venv .venv
        PATH=$PWD/.venv/bin:$PATH
        find_lacking "$@" # all that was outside of it
    fi
    say "virtual environment .venv:$lacking"
    eval "python3 -m pip install --quiet --disable-pip-version-check $lacking"
}
