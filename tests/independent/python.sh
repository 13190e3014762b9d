#!/bin/sh
# python.sh SCRIPT ARG...: runs it by a Python that has the package cryptography (Debian: python3-cryptography,
# which only Debian's own Python sees), or skips the test.
set -eu
for python in python3 /usr/bin/python3; do
    if "$python" -c 'import cryptography' 2>/dev/null; then
        exec "$python" -B "$@"
    fi
done
echo "no Python has the package cryptography (Debian: python3-cryptography): skipped"
exit 77
