#!/bin/sh
# Planted bugs that make tasks read a word of a key stream twice end a session that looks for that
# (-DUVCC_CHECK_PRG), in the unit tests as hosts; the same tests pass without a bug.
# usage: session_mutants.sh COMPILER SOURCE_DIR LIBRARY TEST_SUPPORT TESTS_DIR
set -eu
cc=$1 source=$2 library=$3 support=$4 tests=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
libs="$(pkg-config --libs libsodium libcrypto jansson cmocka) $(sed -n 's/^Libs.private: *//p' meson-private/uvcc.pc)"
said='a word of a key stream would be read twice'
flags="-std=c17 -O1 -w -D_POSIX_C_SOURCE=200809L -DUVCC_CHECK_PRG -I$source/include -I$source/src"

# build OUT TEST MUTANT FILE..., with $link
build() {
    out=$1 test=$2 mutant=$3
    shift 3
    objects=
    for file in "$source/src/exec/session/config.c" "$@"; do
        object="$work/$(basename "$file" .c).o"
        # shellcheck disable=SC2086
        $cc $flags $mutant -I"$(dirname "$file")" -c "$file" -o "$object"
        objects="$objects $object"
    done
    # shellcheck disable=SC2086
    $cc "$tests/test_$test.p"/*.o $objects "$support" "$library" $link $libs -o "$out"
}

fail=0
# number, the test that is the host, how it is linked
while read -r n test link; do
    build "$work/sound" "$test" ''
    if ! "$work/sound" >"$work/out" 2>&1; then
        echo "$test fails without a bug when sessions look"
        tail -5 "$work/out"
        fail=1
    fi
    files=$(grep -rl --include='*.c' "UVCCI_MUTANT($n)" "$source/src")
    # shellcheck disable=SC2086
    build "$work/bug" "$test" "-DUVCC_MUTANT=$n" $files
    if "$work/bug" >"$work/out" 2>&1 || ! grep -q "$said" "$work/out"; then
        echo "mutant $n: no session of test $test says that $said"
        fail=1
    else
        echo "mutant $n: a session of test $test says that $said"
    fi
done <<END
7 session
34 session_function -Wl,--wrap=uvcci_cpu_run
37 random
END
exit "$fail"
