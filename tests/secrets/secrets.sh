#!/bin/sh
# secrets.sh [PROGRAM]: runs the secret-handling paths under valgrind's memcheck with secrets marked
# undefined, so that a branch, an address or a length that depends on one fails the test. Then the
# planted leaks, every one of which must be reported.
set -eu
export LC_ALL=C
[ $# -eq 1 ] || { echo "a sanitizer is in the way, or valgrind/memcheck.h is missing: skipped"; exit 77; }
command -v valgrind >/dev/null || { echo "no valgrind: skipped"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Quiet, and not to stop counting where there is much to count.
memcheck() {
    valgrind --quiet --error-exitcode=1 --error-limit=no --leak-check=no "$@"
}
program=$1
# An older valgrind stops at the debug information of a newer compiler; names of functions remain.
if ! memcheck "$program" nothing >/dev/null 2>&1; then
    objcopy --strip-debug "$1" "$work/program"
    program=$work/program
fi
memcheck "$program"

if memcheck "$program" leaks >"$work/leaks" 2>&1; then
    cat "$work/leaks"
    echo "planted leaks were not reported"
    exit 1
fi
for leak in branch index early_exit pad length; do
    grep -q ": leak_$leak" "$work/leaks" && continue
    cat "$work/leaks"
    echo "the planted leak '$leak' was not reported"
    exit 1
done
if grep '       OK ' "$work/leaks"; then
    echo "a planted leak passed"
    exit 1
fi
echo "all planted leaks were reported"
