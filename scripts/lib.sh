# shellcheck shell=sh disable=SC2154
# What the scripts share: finding what is missing, configuring, building.
# POSIX sh, sourced; $root is the checkout.

export LC_ALL=C.UTF-8

say() {
    printf '%s\n' "$*" >&2
}

# The Debian packages whose tools or libraries are not there, one per line. With $clang_packages=1,
# those of fuzzing and coverage too.
missing_packages() {
    if [ "${clang_packages:-0}" -eq 1 ]; then
        command -v clang >/dev/null 2>&1 || printf 'clang\n'
        command -v llvm-cov >/dev/null 2>&1 || printf 'llvm\n'
        clang_version=$(clang -dumpversion 2>/dev/null)
        clang_runtime=$(clang -print-resource-dir 2>/dev/null)/lib/linux/libclang_rt.fuzzer-$(uname -m).a
        [ -e "$clang_runtime" ] || printf 'libclang-rt-%s-dev\n' "${clang_version%%.*}" |
            sed 's/--/-14-/'
    fi
    command -v cc >/dev/null 2>&1 || printf 'gcc\n'
    [ -e /usr/include/stdio.h ] || printf 'libc6-dev\n'
    command -v meson >/dev/null 2>&1 || printf 'meson\n'
    command -v ninja >/dev/null 2>&1 || printf 'ninja-build\n'
    command -v python3 >/dev/null 2>&1 || printf 'python3\n'
    python3 -c 'import cryptography' 2>/dev/null || /usr/bin/python3 -c 'import cryptography' 2>/dev/null ||
        printf 'python3-cryptography\n'
    command -v pkg-config >/dev/null 2>&1 || printf 'pkg-config\n'
    { command -v valgrind >/dev/null 2>&1 && [ -e /usr/include/valgrind/memcheck.h ]; } ||
        printf 'valgrind\n'
    for pair in libsodium:libsodium-dev libcrypto:libssl-dev libisal:libisal-dev \
                cmocka:libcmocka-dev jansson:libjansson-dev; do
        pkg-config --exists "${pair%%:*}" 2>/dev/null || printf '%s\n' "${pair#*:}"
    done
}

# Packages whose absence only leaves something out, a line each: the package, what is left out, and
# how one sees that it is there.
optional_packages() {
    cat <<'END'
clang-format-14|the test of formats|clang-format-14 --version || clang-format --version | grep 'version 14\.'
python3-jsonschema|the test of docs/json|python3 -c 'from jsonschema import Draft202012Validator'
libmbedtls-dev|TLS by mbedTLS|[ -e /usr/include/mbedtls/ssl_internal.h ]
openssl|a test of TLS's document|openssl version
libipsec-mb-dev|AES-256-GCM at two to six times the speed|[ -e /usr/include/intel-ipsec-mb.h ] || [ "$(uname -m)" != x86_64 ]
liburing-dev|io_uring|pkg-config --exists liburing
libopenmpi-dev|collectives across processes|pkg-config --exists ompi-c
openmpi-bin|the tests of collectives across processes|mpirun --version
libuv1-dev|the example on libuv|pkg-config --exists libuv
libevent-dev|the example on libevent|pkg-config --exists libevent
libglib2.0-dev|the example on GLib|pkg-config --exists glib-2.0
python3-cffi|the test of the Python package|python3 -c 'import cffi, numpy' || /usr/bin/python3 -c 'import cffi'
python3-numpy|the test of the Python package|python3 -c 'import cffi, numpy' || /usr/bin/python3 -c 'import numpy'
g++|headers in C++|c++ --version
python3-matplotlib|the plots of bench/plot_sigma_vs_uvcc.py|python3 -c 'import matplotlib' || /usr/bin/python3 -c 'import matplotlib'
END
}

missing_optional() {
    optional_packages | while IFS='|' read -r package what here; do
        sh -c "$here" >/dev/null 2>&1 </dev/null || printf '%s|%s\n' "$package" "$what"
    done
}

# Those of them that are missing are installed if that can be done here; else it is said what is left
# out.
want_packages() {
    wanted=$(missing_optional | cut -d'|' -f1 | tr '\n' ' ')
    [ -n "$wanted" ] || return 0
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "Installing: $wanted"
        # shellcheck disable=SC2086 # one word per package
        { DEBIAN_FRONTEND=noninteractive apt-get -qq update &&
          DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 \
              --no-install-recommends install $wanted; } >&2 </dev/null
    fi
    missing_optional | while IFS='|' read -r package what; do
        say "Without $what: no $package."
    done
}

# Installs what is missing when root on a system with apt-get, else says what to install and fails.
need_packages() {
    missing=$(missing_packages | tr '\n' ' ')
    missing=${missing% }
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "Installing: $missing"
        # shellcheck disable=SC2086 # one word per package
        if DEBIAN_FRONTEND=noninteractive apt-get -qq update >&2 &&
           DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 --no-install-recommends \
               install $missing >&2 </dev/null; then
            missing=$(missing_packages | tr '\n' ' ')
            [ -z "$missing" ] && return 0
            say "Still missing after the installation: $missing"
            return 1
        fi
        say "The installation failed; the lines above say why."
        return 1
    fi
    say "Missing packages (Debian's names): $missing"
    say "Install them, then run this again:"
    say "    sudo apt-get install $missing"
    return 1
}

# configure DIR OPTION...: sets up a build directory, or brings an existing one to these options. A
# directory that an interrupted run left half configured is taken up again.
configure() {
    dir=$1
    shift
    set -- -Dwerror="$( [ "${CI:-}" = true ] && echo true || echo false )" "$@"
    stamp=$dir/.uvcc-options
    if [ -f "$dir/build.ninja" ] && [ -f "$dir/meson-private/coredata.dat" ]; then
        [ "$(cat "$stamp" 2>/dev/null)" = "$*" ] && return 0
        meson configure "$dir" "$@" >&2 || return 1
    elif [ -f "$dir/meson-private/coredata.dat" ]; then
        meson setup --wipe "$dir" "$root" "$@" >&2 || return 1
    else
        meson setup "$dir" "$root" "$@" >&2 || return 1
    fi
    printf '%s' "$*" >"$stamp"
}
