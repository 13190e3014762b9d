#!/bin/sh
# readme.sh ROOT: the loop in README.md is the one in examples/embed.c, and links between documents
# lead to files that exist.
set -eu
export LC_ALL=C
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

sed -n '/README begin/,/README end/p' examples/embed.c | sed '1d;$d' >"$work/example"
awk '/^<!-- examples\/embed.c -->/ { from = 1; next }
     from && /^```/ { if (inside) exit; inside = 1; next }
     inside' README.md >"$work/readme"
[ -s "$work/example" ] || { echo "examples/embed.c has no README region"; failed=1; }
diff -u --label examples/embed.c --label README.md "$work/example" "$work/readme" || failed=1

for doc in *.md docs/*.md docs/*/*.md; do
    [ -e "$doc" ] || continue
    grep -oE '\]\([^)#: ]+[^): ]*\)' "$doc" | sed 's/^](//; s/)$//; s/#.*//' | while read -r link; do
        [ -e "$(dirname "$doc")/$link" ] || echo "$doc: $link does not exist"
    done
done >"$work/links"
[ ! -s "$work/links" ] || { cat "$work/links"; failed=1; }
exit $failed
