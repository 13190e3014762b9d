#!/bin/sh
# symbols.sh ARCHIVE ALLOWED [BELOW]: what the core needs from outside is a short list.
#
# Lists the symbols that the archive uses and that neither it nor the archive BELOW defines, and
# fails with the name of each that does not stand in ALLOWED: so the core has no sockets, clock,
# threads, files, environment or malloc, and a change that brings one in says so. A line of ALLOWED
# is a symbol, and behind it the source files (ROOM/x.c) that may need it, if not all may.
set -eu
export LC_ALL=C
archive=$1
allowed=$2
below=${3:-}
[ "${UVCC_SANITIZED:-}" = 1 ] && { echo "a sanitizer adds symbols of its own: skipped"; exit 77; }
command -v nm >/dev/null || { echo "no nm: skipped"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for a in "$archive" ${below:+"$below"}; do
    nm -g "$a" | awk 'NF == 3 && $2 != "U" { print $3 }'
done | sort -u >"$work/defined"
# "symbol file.c" for each that a file uses. A checked variant of a libc function (__memcpy_chk)
# counts as the function itself.
nm -u "$archive" | awk '
    /:$/ { file = $0; sub(/\.o:$/, "", file); sub(/.*\//, "", file) }
    NF == 2 { symbol = $2; sub(/^__/, "", symbol)
              if (!sub(/_chk$/, "", symbol)) symbol = $2
              print symbol, file }' | sort -u >"$work/used"
[ -s "$work/defined" ] || { echo "$archive: nm finds nothing in it"; exit 1; }
awk 'NR == FNR { defined[$1]; next } !($1 in defined)' "$work/defined" "$work/used" >"$work/outside"

awk '
    NR == FNR { sub(/#.*/, ""); if (NF) { known[$1]; limited[$1] = NF > 1 }
                for (i = 2; i <= NF; i++) { gsub("/", "_", $i); may[$1, $i] } next }
    !($1 in known) || (limited[$1] && !(($1, $2) in may)) { print $1 " in " $2 }
' "$allowed" "$work/outside" >"$work/bad"
if [ -s "$work/bad" ]; then
    echo "The core must not need, but needs:"
    sed 's/^/    /' "$work/bad"
    exit 1
fi
echo "$(cut -d' ' -f1 "$work/outside" | sort -u | wc -l) symbols from outside, all of them allowed"
