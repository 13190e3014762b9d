#!/bin/sh
# localise.sh OUT.a IN.a OBJCOPY AR COMPILER...: an archive of one object, in which every symbol of
# hidden visibility has become local. So a static library, too, shows its public names alone, and
# internal names are nobody's business at a link: not another library's, not another version's.
set -eu
out=$1 in=$2 objcopy=$3 ar=$4
shift 4
object=${out%.a}.o
trap 'rm -f "$object"' EXIT
"$@" -r -nostdlib -o "$object" -Wl,--whole-archive "$in" -Wl,--no-whole-archive
"$objcopy" --localize-hidden "$object"
rm -f "$out"
"$ar" Drcs "$out" "$object"
