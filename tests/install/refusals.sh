#!/bin/sh
# refusals.sh SOURCE: machines that uvcc does not run on are refused by one line of meson's, before anything
# else is asked for. The compiler is this machine's, which is told of another.
set -eu
export LC_ALL=C
source=$1
command -v gcc >/dev/null || { echo "no gcc: skipped"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# refused FAMILY ENDIAN FLAG WORDS
refused() {
    cat >"$work/cross.ini" <<END
[binaries]
c = 'gcc'
ar = 'ar'
[built-in options]
c_args = [$3]
[host_machine]
system = 'linux'
cpu_family = '$1'
cpu = '$1'
endian = '$2'
END
    rm -rf "$work/build"
    ! CC='' meson setup --cross-file "$work/cross.ini" "$work/build" "$source" >"$work/log" 2>&1 ||
        { echo "$1 ($2-endian) was not refused"; exit 1; }
    grep -q "ERROR: .*uvcc needs a 64-bit little-endian machine; $1 is $4\$" "$work/log" ||
        { echo "$1 ($2-endian) was refused for another reason:"; cat "$work/log"; exit 1; }
    ! grep -i '^Run-time dependency' "$work/log" || { echo "something was looked for first"; exit 1; }
}
refused s390x big '' '64-bit and big-endian'
refused arm little "'-m32'" '32-bit and little-endian'
