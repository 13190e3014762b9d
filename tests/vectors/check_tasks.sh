#!/bin/sh
# check_tasks.sh DIR: the golden vectors in DIR are what docs/compute.md says, by check_tasks.py.
set -eu
command -v python3 >/dev/null || { echo "there is no python3: skipped"; exit 77; }
[ "${UVCC_SANITIZED:-}" = 1 ] && { echo "nothing of the library is run: once is enough, skipped"; exit 77; }
exec python3 -B "${0%/*}/check_tasks.py" "$1"
