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

# clang-format 14, for the test that wants it: installed if that can be done here; a test that is
# skipped says the same.
want_clang_format() {
    clang-format-14 --version >/dev/null 2>&1 && return
    clang-format --version 2>/dev/null | grep -q 'version 14\.' && return
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "Installing: clang-format-14"
        { DEBIAN_FRONTEND=noninteractive apt-get -qq update &&
          DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 \
              --no-install-recommends install clang-format-14; } >&2 </dev/null && return
    fi
    say "No clang-format 14 (Debian: clang-format-14): the test of it is skipped."
}

# python3-jsonschema, in the same way: outputs are held to docs/json with it.
want_jsonschema() {
    python3 -c 'from jsonschema import Draft202012Validator' 2>/dev/null && return
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "Installing: python3-jsonschema"
        { DEBIAN_FRONTEND=noninteractive apt-get -qq update &&
          DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 \
              --no-install-recommends install python3-jsonschema; } >&2 </dev/null && return
    fi
    say "No jsonschema for python3 (Debian: python3-jsonschema): the test of docs/json is skipped."
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
