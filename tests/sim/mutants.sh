#!/bin/sh
# Each planted bug of src/proto/mutant.h is found by `uvcc sim` within its number of seeds, and the
# same seeds pass without any. Only the files that hold a bug are compiled again.
# usage: mutants.sh COMPILER SOURCE_DIR UVCC LIBRARY IO_LIBRARY IO_LIBS [MUTANT...]
set -eu
cc=$1 source=$2 uvcc=$3 library=$4 io=$5 io_libs=$6
shift 6
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
libs="$(pkg-config --libs libsodium libcrypto jansson) $(sed -n 's/^Libs.private: *//p' meson-private/uvcc.pc)"

# number, seeds within which it has to be found, what it is
table='1 100 a frame that came is taken again
2 100 an ACK is off by one
3 300 a stale completion is taken for another job
4 100 a message is acknowledged before it is accepted
5 400 the credit is ignored
6 600 the run is not in the keys of pads: a restart uses them again
7 100 the second lift of an op uses the words of the first
8 100 digests of secrets have no salt
9 1500 the least run is agreed on, so an old one comes back
10 200 the retransmission timer is not armed a second time
11 400 credit whose update was lost is never asked for
12 100 a received batch has no leaf
13 800 CLOSED while jobs are out
14 500 one link has no deadline
15 100 what a set job staged is not freed
16 6000 a step starts while its checkpoint is being copied
17 100 an ACK is acknowledged
18 100 a new stream does not resend
19 300 one mask serves two versions of tensors
20 100 a range lets the ring of frames go
21 100 ranges tell acceptance only
22 400 a path that carries less is not found
23 100 a deadline is in the past while a transmit is out
24 300 a HELLO that nobody signed ends a session
25 300 the keys of the step before are forgotten too early
26 300 what is acknowledged stays in the window
27 300 pacing asks to be polled before it lets anything go
28 300 the silence of a peer that was told of is a deadline still
29 300 a HELLO that waits in its link is a deadline
30 100 what is signed of a step does not say which step it is
31 2000 lineages are not compared in the handshake
32 300 tensors are not put back when a step is dropped
33 100 consent of an output is not looked at
34 100 the words of a product in a function are those of another
35 400 the key of a multi-scale table has the roots of a comparison
36 100 policies are not compared in the handshake
37 300 all words that nobody chooses in a step are the same
38 100 the channels of the two ends are not compared
39 100 a new stream goes on with the channel of the one before
40 400 who comes back is answered with the offers of the beginning of the run
41 700 an answer to a HELLO 1 is answered in turn
42 100 parts of the job are not compared in the handshake
43 100 a store of triples gives again what it gave
44 100 who was not given the same triples uses them all the same
47 100 the tiles of a product have one zero share
50 1500 a session that is CLOSED goes on asking its peers'

fail=0
echo "$table" >"$work/table"
while read -r n seeds what; do
    if [ $# -gt 0 ]; then
        case " $* " in *" $n "*) ;; *) continue ;; esac
    fi
    objects=
    for file in $(grep -rl --include='*.c' "UVCCI_MUTANT($n)" "$source/src"); do
        object="$work/$(basename "$file" .c).o"
        $cc -std=c17 -O1 -w -D_POSIX_C_SOURCE=200809L "-DUVCC_MUTANT=$n" -I"$source/include" \
            -I"$source/src" -I"$(dirname "$file")" -c "$file" -o "$object"
        objects="$objects $object"
    done
    if [ -z "$objects" ]; then
        echo "mutant $n is nowhere"
        fail=1
        continue
    fi
    # shellcheck disable=SC2086
    $cc "$uvcc".p/*.o $objects "$io" "$library" $io_libs $libs -o "$work/uvcc"
    rm -f $objects
    if "$work/uvcc" sim --seeds "$seeds" --stop --no-minimise --json "$work/json" >"$work/out" 2>&1; then
        echo "mutant $n survived $seeds seeds: $what"
        fail=1
    else
        found=$(sed -n 's/^{"seeds": \([0-9]*\).*/\1/p' "$work/json")
        echo "mutant $n found after $found seeds ($what): $(sed -n '1s/^seed //p' "$work/out")"
    fi
done <"$work/table"
exit "$fail"
