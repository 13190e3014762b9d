#!/bin/sh
# tables.sh ROOT: the tables in docs/ that repeat a .def file say the same as it does.
#
# In a document, such a table follows a line
#     <!-- def: FILE COLUMNS -->
# where FILE is the .def file and COLUMNS say, for each of the table's first columns, which argument
# of the macro it shows: 2 the second; 3n the third, -1 written as "any". Further columns
# are free. Every .def file has a table.
set -eu
export LC_ALL=C
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# rows FILE COLUMN...: what a .def file says, a line per entry, cells joined by " | ".
rows() {
    file=$1
    shift
    awk -v columns="$*" '
        function shown(value, how) {
            if (how ~ /n$/ && value == "-1") return "any"
            return value
        }
        /^UVCCI?_[A-Z]+\(/ {
            n = 1; arg[1] = ""; quoted = 0
            line = substr($0, index($0, "(") + 1)
            for (i = 1; i <= length(line); i++) {
                c = substr(line, i, 1)
                if (c == "\"") quoted = !quoted
                else if (quoted) arg[n] = arg[n] c
                else if (c == ")") break
                else if (c == ",") arg[++n] = ""
                else if (c != " ") arg[n] = arg[n] c
            }
            count = split(columns, column, " ")
            out = ""
            for (i = 1; i <= count; i++) {
                cell = shown(arg[column[i] + 0], column[i])
                out = out (i > 1 ? " | " : "") cell
            }
            gsub(/`/, "", out)
            print out
        }' "$file"
}

: >"$work/seen"
for doc in README.md docs/*.md docs/*/*.md; do
    [ -e "$doc" ] || continue
    grep -nE '^<!-- def: ' "$doc" | while IFS=: read -r line rest; do
        # shellcheck disable=SC2086 # words: <!-- def: FILE COLUMN... -->
        set -- ${rest#* def: }
        def=$1
        shift
        columns=$(printf '%s ' "$@")
        columns=${columns%%-->*}
        echo "$def" >>"$work/seen"
        # shellcheck disable=SC2086
        rows "$def" $columns >"$work/want"
        # shellcheck disable=SC2086
        set -- $columns
        awk -v from="$line" -v cells=$# '
            NR <= from { next }
            /^\|/ { seen++; if (seen > 2) {
                        gsub(/`/, ""); gsub(/^\|[ ]*|[ ]*\|$/, ""); n = split($0, cell, /[ ]*\|[ ]*/)
                        out = cell[1]
                        for (i = 2; i <= cells; i++) out = out " | " cell[i]
                        print out } next }
            seen { exit }' "$doc" >"$work/have"
        diff -u --label "$def" --label "$doc:$line" "$work/want" "$work/have" || echo >>"$work/differs"
    done
done
[ ! -e "$work/differs" ] || failed=1
for def in include/uvcc/*.def src/*/*.def tools/*/*.def; do
    grep -qx "$def" "$work/seen" || { echo "$def: no table in docs/ shows it"; failed=1; }
done
[ $failed -eq 0 ] && echo "$(wc -l <"$work/seen") tables agree with their .def files"
exit $failed
