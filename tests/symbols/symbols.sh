#!/bin/sh
# symbols.sh ARCHIVE ALLOWED: what the protocol core needs from outside is a short list.
#
# Lists the symbols that the archive uses and does not define, and fails with the name of each that
# stands not in ALLOWED: so the core has no sockets, clock, threads, files, environment or malloc,
# and a change that brings one in says so.
set -eu
export LC_ALL=C
archive=$1
allowed=$2
[ "${UVCC_SANITIZED:-}" = 1 ] && { echo "a sanitizer adds symbols of its own: skipped"; exit 77; }
command -v nm >/dev/null || { echo "no nm: skipped"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nm -g "$archive" | awk 'NF == 3 && $2 != "U" { print $3 }' | sort -u >"$work/defined"
# A checked variant of a libc function (__memcpy_chk) counts as the function itself.
nm -u "$archive" | awk 'NF == 2 { print $2 }' | sed 's/^__\(.*\)_chk$/\1/' | sort -u >"$work/used"
[ -s "$work/defined" ] || { echo "$archive: nm finds nothing in it"; exit 1; }
comm -23 "$work/used" "$work/defined" >"$work/outside"
sed 's/#.*//' "$allowed" | awk 'NF { print $1 }' | sort -u >"$work/allowed"

comm -23 "$work/outside" "$work/allowed" >"$work/bad"
if [ -s "$work/bad" ]; then
    echo "The protocol core must not need, but needs:"
    sed 's/^/    /' "$work/bad"
    exit 1
fi
echo "$(wc -l <"$work/outside") symbols from outside, all of them allowed"
