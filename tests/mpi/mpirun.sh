#!/bin/sh
# mpirun.sh PROCESSES PROGRAM ARG...: a test under mpirun, as many processes as it asks for on
# however few cores there are, over shared memory. 77 where there is no mpirun. Without a number: a
# program that runs mpirun itself.
set -eu
command -v mpirun >/dev/null || { echo "no mpirun: skipped"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# One copy by the kernel needs a right that containers lack.
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_rmaps_base_oversubscribe=1
# Sanitizers see nothing of the inside of MPI: what leaks there, and its locks. Blocks of uvcc's own are
# counted by the tests.
here=$(cd "$(dirname "$0")" && pwd)
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
export TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS:}suppressions=$here/tsan.txt:ignore_noninstrumented_modules=1"
case $1 in
*[!0-9]*) exec "$@" </dev/null ;;
esac
exec mpirun -n "$@" </dev/null
