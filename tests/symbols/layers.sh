#!/bin/sh
# layers.sh ROOT: arrows between rooms point down only (docs/architecture.md). Compares the #include
# lines of every room with what it may include.
set -eu
export LC_ALL=C
cd "$1"
found=$(mktemp)
trap 'rm -f "$found"' EXIT

# includes DIR...: "file:line:included" for every include of the C files there.
includes() {
    find "$@" -name '*.[ch]' -exec grep -nHE '^[[:space:]]*#[[:space:]]*include' {} + |
        sed -E 's/^([^:]*:[0-9]+):[[:space:]]*#[[:space:]]*include[[:space:]]*/\1:/'
}

# only WHAT PATTERN...: reports every include on standard input that matches no pattern.
only() {
    what=$1
    shift
    allowed=$(printf '%s|' "$@")
    grep -vE ":(${allowed%|})" | awk -v what="$what" '{ print $0 "    (" what ")" }' >>"$found" || true
}

includes include | only 'a public header: public headers only' \
    '<uvcc/[a-z0-9_]+\.(h|def)>' '<std(bool|def|int)\.h>'

includes src/proto | only 'src/proto: itself, the hooks and pure libraries only' \
    '"[a-z0-9_]+\.(h|def)"' '<uvcc/(types|frame|blv1|link|pipeline|audit)\.h>' \
    '<uvcc/(errors|kinds|tlvs|aborts|tags|leaves|faults)\.def>' \
    '<(assert|limits|stdalign|stdbool|stddef|stdint|string)\.h>' \
    '<(sodium|cpuid|[a-z0-9]*intrin|isa-l|crc)\.h>' '<(openssl|isa-l)/[a-z0-9_]+\.h>'

includes src/exec | grep -E ':"' | only 'src/exec: its rooms and src/proto' \
    '"proto/[a-z0-9_]+\.(h|def)"' '"exec/[a-z]+/[a-z0-9_]+\.(h|def)"'

# Hosts and adapters: public headers, the system, and files of their own room.
includes io_adapters tools examples | while IFS=: read -r file line what; do
    case $what in
    '<proto/'* | '<exec/'*) ;;
    '"'*)
        named=${what#'"'}
        path=$(realpath -m --relative-to=. "$(dirname "$file")/${named%%'"'*}")
        [ "${path%%/*}" = "${file%%/*}" ] && [ -e "$path" ] && continue
        ;;
    *) continue ;;
    esac
    echo "$file:$line:$what    (hosts and adapters: public headers only)"
done >>"$found"

if [ -s "$found" ]; then
    echo "Includes that point up:"
    sed 's/^/    /' "$found"
    exit 1
fi
echo "all includes point down"
