#!/bin/sh
# subproject.sh SOURCE CC: a project that has uvcc as a subproject gets the library by dependency('uvcc') and
# nothing else: no tests, benchmarks, tools or examples, and so it needs neither cmocka nor jansson. Its
# program shows by its link whether default_library was heard.
set -eu
export LC_ALL=C
source=$1
export CC="$2"
[ "${UVCC_SANITIZED:-}" = 1 ] && { echo "a build of its own, without sanitizers: skipped"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/parent/subprojects"
ln -s "$source" "$work/parent/subprojects/uvcc"
cp "$source/examples/embed.c" "$work/parent/embed.c"
cat >"$work/parent/meson.build" <<'END'
project('parent', 'c', meson_version: '>=1.0.0', default_options: ['buildtype=plain'])
executable('embed', 'embed.c', dependencies: dependency('uvcc', fallback: 'uvcc'))
END
# Not the uvcc that this machine may have.
setup() {
    meson setup --wrap-mode=forcefallback "$@" "$work/parent" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
}

# Which targets there are is known before anything is compiled.
for kind in static shared both; do
    setup "-Duvcc:default_library=$kind" "$work/$kind"
    meson introspect "$work/$kind" --targets >"$work/targets"
    python3 - "$work/targets" "$kind" <<'END'
import json, sys
targets = json.load(open(sys.argv[1]))
built = {t["name"]: t["type"] for t in targets if t["build_by_default"]}
programs = sorted(n for n, t in built.items() if t == "executable")
want = {"static": [False, True], "shared": [True, False], "both": [True, True]}[sys.argv[2]]
have = [built.get("uvcc") == "shared library", "libuvcc.a" in built]
if programs != ["embed"]:
    sys.exit(f"programs of the subproject are built: {programs}")
if have != want:
    sys.exit(f"default_library={sys.argv[2]}: shared and static are {have}")
END
    meson introspect "$work/$kind" --dependencies >"$work/dependencies"
    ! grep -E '"(cmocka|jansson)"' "$work/dependencies" || { echo "the library needs no such thing"; exit 1; }
    # Who links the archive is told all that it needs; where that is the only library, at once.
    libs=$(PKG_CONFIG_PATH="$work/$kind/meson-private" pkg-config --libs uvcc)
    all=$(PKG_CONFIG_PATH="$work/$kind/meson-private" pkg-config --static --libs uvcc)
    for lib in -lsodium -lcrypto -lisal -lm; do
        case $all in *"$lib"*) ;; *) echo "default_library=$kind: pkg-config --static has no $lib"; exit 1 ;; esac
        case $kind:$libs in
        static:*"$lib"*) ;;
        static:*) echo "default_library=static: pkg-config has no $lib"; exit 1 ;;
        *"$lib"*) echo "default_library=$kind: pkg-config has $lib, which the shared library brings"; exit 1 ;;
        esac
    done
done

for kind in static shared; do
    ninja -C "$work/$kind" embed >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    "$work/$kind/embed" >/dev/null
    if readelf -d "$work/$kind/embed" | grep -q 'NEEDED.*libuvcc'; then linked=shared; else linked=static; fi
    [ $linked = $kind ] || { echo "default_library=$kind, and the program is linked $linked"; exit 1; }
done
echo "static and shared, the library alone"
