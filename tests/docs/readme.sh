#!/bin/sh
# readme.sh ROOT: the loop in README.md is the one in examples/embed.c, the function in its recipe is one
# that a test runs, and links between documents lead to files that exist.
set -eu
export LC_ALL=C
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# same DOC SOURCE MARK: the code in DOC after the comment that names SOURCE is that between the lines
# "MARK begin" and "MARK end" of SOURCE.
same() {
    awk -v begin="$3 begin" -v end="$3 end" \
        'index($0, end) { exit } inside; index($0, begin) { inside = 1 }' "$2" >"$work/source"
    awk -v mark="<!-- $2 -->" '$0 == mark { from = 1; next }
         from && /^```/ { if (inside) exit; inside = 1; next }
         inside' "$1" >"$work/doc"
    [ -s "$work/source" ] || { echo "$2 has no region '$3'"; failed=1; }
    diff -u --label "$2" --label "$1" "$work/source" "$work/doc" || failed=1
}
same README.md examples/embed.c README
same docs/recipes/function.md tests/unit/test_session_function.c docs/recipes/function.md

for doc in *.md docs/*.md docs/*/*.md; do
    [ -e "$doc" ] || continue
    grep -oE '\]\([^)#: ]+[^): ]*\)' "$doc" | sed 's/^](//; s/)$//; s/#.*//' | while read -r link; do
        [ -e "$(dirname "$doc")/$link" ] || echo "$doc: $link does not exist"
    done
done >"$work/links"
[ ! -s "$work/links" ] || { cat "$work/links"; failed=1; }
exit $failed
