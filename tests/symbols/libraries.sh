#!/bin/sh
# libraries.sh VERSION HARDENED OBJCOPY CC LIBRARY...: what the libraries that are installed show.
#
# Shared ones: uvcc_ names with a version, in a library whose name has the version too; read-only
# after relocation where that was asked for. Archives: uvcc_ names alone, so that two copies fit
# into one program once the names of one are changed. Both show the same.
set -eu
export LC_ALL=C
version=$1 hardened=$2 objcopy=$3 cc=$4
shift 4
[ "${UVCC_SANITIZED:-}" = 1 ] && { echo "a sanitizer adds symbols of its own: skipped"; exit 77; }
command -v nm >/dev/null && command -v readelf >/dev/null || { echo "no nm or readelf: skipped"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "$*"
    exit 1
}

for library in "$@"; do
    name=${library##*/}
    name=${name%%.*}
    case $library in
    *.a)
        nm -g --defined-only "$library" | awk 'NF == 3 { print $3 }' | sort >"$work/$name.a"
        ! grep -v '^uvcc_' "$work/$name.a" || fail "$library shows the names above"
        [ -s "$work/$name.a" ] || fail "$library shows nothing"
        [ "$name" != libuvcc ] || archive=$library
        ;;
    *)
        nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sort >"$work/versioned"
        ! grep -v "^uvcc_[a-z0-9_]*@@UVCC_$version\$" "$work/versioned" || fail "$library shows the names above"
        sed 's/@@.*//' "$work/versioned" >"$work/$name.so"
        [ -s "$work/$name.so" ] || fail "$library shows nothing"
        readelf -d "$library" >"$work/dynamic"
        grep -q "SONAME.*\[$name.so.$version\]" "$work/dynamic" || fail "$library: its name is not $name.so.$version"
        if [ "$hardened" = 1 ]; then
            grep -q 'BIND_NOW' "$work/dynamic" || fail "$library is bound lazily"
            readelf -lW "$library" | grep -q GNU_RELRO || fail "$library has no RELRO"
        fi
        ! readelf -lW "$library" | grep 'GNU_STACK.* RWE' || fail "$library wants an executable stack"
        ;;
    esac
    if [ -e "$work/$name.a" ] && [ -e "$work/$name.so" ]; then
        diff "$work/$name.a" "$work/$name.so" || fail "$name shows one thing shared, another static"
    fi
done

# Two copies in one program: nothing but the public names has to be told apart.
[ -n "${archive:-}" ] || exit 0
sed 's/.*/& old_&/' "$work/libuvcc.a" >"$work/renames"
"$objcopy" --redefine-syms="$work/renames" "$archive" "$work/libold.a"
cat >"$work/two.c" <<'END'
#include <string.h>
const char *uvcc_version(void), *old_uvcc_version(void);
int main(void) { return strcmp(uvcc_version(), old_uvcc_version()); }
END
more=$(sed -n 's/^Libs.private: *//p' meson-private/uvcc.pc)
# shellcheck disable=SC2046,SC2086
$cc "$work/two.c" "$archive" "$work/libold.a" $(pkg-config --libs libsodium libcrypto libisal) $more \
    -o "$work/two" || fail "two copies do not fit into one program"
"$work/two"
