#!/usr/bin/env bash
# Makes sure that everything the build needs is on this machine.
#
#   setup.sh         what `cargo build` needs
#   setup.sh test    and rustfmt, clippy, Chromium, in which tests look at the pages of reports, and a Python with
#                    Qdrant's client, which tests drive a server with, with the libraries that people write files of
#                    vectors with, and with the tools that measures are compared with
#
# Says what is missing and why before it installs anything. Calls no package manager when nothing
# is missing. Debian packages are installed with apt-get; Rust itself is never installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH="$PATH:${HOME:-/nonexistent}/.cargo/bin"

readonly APT_LOCK_WAIT_S=300
readonly REQUIREMENTS=tools/tests/clients/requirements.txt
# The Makefile says where; tests look here if they are run without it.
readonly PYTHON_FOLDER=${DEHUB_PYTHON_FOLDER:-${XDG_CACHE_HOME:-${HOME:-.}/.cache}/dehub/python}
mode=${1:-}

say() { printf 'setup: %s\n' "$*" >&2; }
die() {
    say "$@"
    exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# --- Rust ------------------------------------------------------------------------------------

check_rust() {
    local wanted found
    wanted=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' Cargo.toml)
    if ! have cargo || ! have rustc; then
        die "Rust $wanted or newer is missing (Debian's own is too old): see https://rustup.rs"
    fi
    found=$(rustc --version | cut -d ' ' -f 2)
    if [[ $(printf '%s\n' "$wanted" "$found" | sort -V | head -n 1) != "$wanted" ]]; then
        die "Rust $found is too old, Cargo.toml asks for $wanted: run \`rustup update stable\`"
    fi
}

check_component() {
    local command=$1 component=$2
    if cargo "$command" --version >/dev/null 2>&1; then
        return
    fi
    say "missing: $component (for \`cargo $command\`)"
    if have rustup && rustup component add "$component" </dev/null >&2; then
        return
    fi
    say "$component could not be installed; \`make test\` will skip that stage and say so"
}

# --- libclang --------------------------------------------------------------------------------
# bindgen, in RocksDB's build script, loads libclang at run time and needs clang's own stdarg.h.
# The places are those its loader (clang-sys) looks into.

libclang_folders() {
    if [[ -n ${LIBCLANG_PATH:-} ]]; then
        if [[ -d $LIBCLANG_PATH ]]; then echo "$LIBCLANG_PATH"; else dirname "$LIBCLANG_PATH"; fi
    fi
    if have "${LLVM_CONFIG_PATH:-llvm-config}"; then
        "${LLVM_CONFIG_PATH:-llvm-config}" --libdir
    fi
    compgen -G '/usr/lib/llvm-*/lib' || true
    compgen -G '/usr/lib/*-linux-gnu' || true
    compgen -G '/usr/local/llvm*/lib' || true
    printf '%s\n' /usr/lib /usr/lib64 /usr/local/lib
    PATH="$PATH:/sbin:/usr/sbin" ldconfig -p 2>/dev/null | sed -n 's|.*libclang[-.0-9]*\.so.* => \(.*\)/[^/]*$|\1|p'
}

# True when the folder holds libclang itself; libclang-cpp is another library.
holds_libclang() {
    local file
    for file in "$1"/libclang.so "$1"/libclang.so.* "$1"/libclang-[0-9]*.so "$1"/libclang-[0-9]*.so.*; do
        if [[ -e $file ]]; then return 0; fi
    done
    return 1
}

have_libclang() {
    local folder
    while read -r folder; do
        if holds_libclang "$folder"; then return 0; fi
    done < <(libclang_folders)
    return 1
}

have_clang_headers() {
    if [[ -n ${BINDGEN_EXTRA_CLANG_ARGS:-} ]]; then return 0; fi
    local folder
    while read -r folder; do
        if compgen -G "$folder/clang/*/include/stdarg.h" >/dev/null; then return 0; fi
    done < <(libclang_folders)
    return 1
}

# --- Debian packages -------------------------------------------------------------------------

packages=()

need() {
    packages+=("$1")
    say "missing: $1 ($2)"
}

find_missing() {
    packages=()
    if ! have "${CXX:-c++}" || ! have "${CC:-cc}"; then
        need g++ "RocksDB, zstd, lz4 and simsimd are compiled from C and C++"
    fi
    if ! have_libclang; then
        need libclang-dev "bindgen loads libclang to read RocksDB's C header"
    elif ! have_clang_headers; then
        need libclang-dev "libclang is there, but not its own stdarg.h, which RocksDB's C header includes"
    fi
    if ! have make; then
        need make "the commands of this repository are in the Makefile"
    fi
    if [[ $mode == test ]] && ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
        need python3-venv "tests drive a server with Qdrant's own client, which is Python"
    fi
    if [[ $mode == test ]] && ! have "${DEHUB_TEST_CHROMIUM:-chromium}"; then
        need chromium "tests look at the pages of reports in a browser"
    fi
}

# Prints the words to put before apt-get; fails when this user cannot install packages.
root_prefix() {
    if [[ $(id -u) == 0 ]]; then
        return 0
    fi
    have sudo || return 1
    if [[ -t 0 ]]; then
        echo "sudo"
    else
        sudo -n true 2>/dev/null || return 1
        echo "sudo -n"
    fi
}

install_missing() {
    local prefix command
    command="apt-get update && sudo apt-get install --yes --no-install-recommends ${packages[*]}"
    have apt-get || die "this is not a Debian system: install the counterparts of: ${packages[*]}"
    prefix=$(root_prefix) || die "neither root nor sudo here; please run: sudo $command"
    say "installing with apt-get: ${packages[*]}"
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o "DPkg::Lock::Timeout=$APT_LOCK_WAIT_S" --quiet --yes)
    # shellcheck disable=SC2086 # the prefix is zero, one or two words
    $prefix "${apt[@]}" update </dev/null >&2
    # shellcheck disable=SC2086
    $prefix "${apt[@]}" install --no-install-recommends "${packages[@]}" </dev/null >&2
    hash -r
}

# --- Python ----------------------------------------------------------------------------------

# Made anew when the list of packages changes. A list is copied to it once all of it is installed.
make_python() {
    if cmp --silent "$REQUIREMENTS" "$PYTHON_FOLDER/requirements.txt"; then
        return
    fi
    say "installing what $REQUIREMENTS lists into $PYTHON_FOLDER"
    python3 -m venv --clear "$PYTHON_FOLDER" >&2
    "$PYTHON_FOLDER/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$REQUIREMENTS" >&2
    cp "$REQUIREMENTS" "$PYTHON_FOLDER/requirements.txt"
}

check_rust
if [[ $mode == test ]]; then
    check_component fmt rustfmt
    check_component clippy clippy
fi
find_missing
if ((${#packages[@]} > 0)); then
    install_missing
    find_missing
    ((${#packages[@]} == 0)) || die "installed, but still not found: ${packages[*]}"
fi
if [[ $mode == test ]]; then
    make_python
fi
