#!/bin/sh
# The same seeds give the same digest, whatever the number of workers.
# usage: same_digest.sh UVCC
set -eu
one=$("$1" sim --seeds 30 --threads 1 --json - 2>/dev/null)
two=$("$1" sim --seeds 30 --threads 3 --json - 2>/dev/null)
digest() { echo "$1" | sed -n 's/.*"digest": "\([0-9a-f]*\)".*/\1/p'; }
[ -n "$(digest "$one")" ] && [ "$(digest "$one")" = "$(digest "$two")" ]
