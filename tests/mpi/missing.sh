#!/bin/sh
# missing.sh UVCC: the command does not need MPI, and says what to do where the library is not there.
set -eu
export LC_ALL=C
uvcc=$1
! ldd "$uvcc" | grep -i mpi || { echo "the command is linked with MPI"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
keys=
for p in 0 1 2; do
    keys="$keys $("$uvcc" keygen --out "identity-$p.key")"
done
# shellcheck disable=SC2086 # three words
set -- $keys
cat >party.json <<END
{"job": {"name": "one", "replicas": 1, "stages": 1, "tensor_ranks": 2,
         "run": {"kind": "transformer", "context": 4, "dim": 8, "heads": 2, "layers": 1, "batch": 4, "steps": 1,
                 "text_bytes": 100}},
 "party": 2, "identity": "identity-2.key", "store": "store",
 "parties": [{"address": "unix:0.sock", "key": "$1"}, {"address": "unix:1.sock", "key": "$2"},
             {"address": "unix:2.sock", "key": "$3"}]}
END
said() {
    status=0
    "$@" >out 2>&1 || status=$?
    [ $status -eq 2 ] || { echo "exit status $status"; cat out; exit 1; }
}
said env UVCC_MPI_LIBRARY=/nowhere/libuvcc-mpi.so "$uvcc" party --config party.json --worker 1
grep -q 'the library for that is not there.*/nowhere/libuvcc-mpi.so.*UVCC_MPI_LIBRARY' out || { cat out; exit 1; }
said env UVCC_MPI_LIBRARY=libm.so.6 "$uvcc" party --config party.json --worker 1
grep -q 'libm.so.6 is of another version' out || { cat out; exit 1; }
