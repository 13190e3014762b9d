#!/bin/sh
# embedding.sh BUILD SOURCE: the commands of docs/embedding.md, from the compiler on, against what
# was installed into a scratch DESTDIR: three hosts open the same.
set -eu
export LC_ALL=C
build=$1
source=$2
[ "${UVCC_SANITIZED:-}" = 1 ] && { echo "the installed library needs no sanitizer: skipped"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
meson install -C "$build" --no-rebuild --quiet --destdir "$work/dest" >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
pc=$(find "$work/dest" -name uvcc-io.pc)
[ -n "$pc" ] || { echo "no uvcc-io.pc was installed"; exit 1; }
prefix=$work/dest$(sed -n 's/^prefix=//p' "$pc")
[ -n "$(find "$prefix" -name 'libuvcc-io.so')" ] || { echo "no shared library: skipped"; exit 77; }

# A DESTDIR is not where pkg-config thinks that it is.
mkdir "$work/bin"
printf '#!/bin/sh\nexec %s --define-variable=prefix="%s" "$@"\n' "$(command -v pkg-config)" "$prefix" \
    >"$work/bin/pkg-config"
chmod +x "$work/bin/pkg-config"
cp -r "$source/examples" "$work/examples"

# Indented lines of the section, from `export` on. Addresses that nobody else has: of this process.
address=127.$(($$ >> 14 & 255)).$(($$ >> 6 & 255)).$(($$ << 2 & 255 | 1))
sed -n '/^## Ten minutes/,/^## Which loop/s/^    //p' "$source/docs/embedding.md" |
    sed -n '/^export/,$p' | sed "s|\$HOME/uvcc-here|$prefix|g; s|127\.0\.0\.1|$address|g" >"$work/commands"
grep -q three_hosts "$work/commands" || { echo "docs/embedding.md has no such commands"; exit 1; }
cd "$work"
PATH=$work/bin:$PATH sh -eu "$work/commands" >"$work/said" 2>"$work/errors" ||
    { cat "$work/errors"; exit 1; }
[ "$(grep -cFx 'relu(X W) = 0 0.75 6.5 0' "$work/said")" -eq 3 ] || { cat "$work/said" "$work/errors"; exit 1; }
