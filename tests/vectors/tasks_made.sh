#!/bin/sh
# tasks_made.sh MAKE_TASK_VECTORS DIR: the golden vectors in DIR are what their program writes.
set -eu
export LC_ALL=C
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" "$work"
for file in "$2"/*.json "$work"/*.json; do
    cmp "$work/${file##*/}" "$2/${file##*/}" || { echo "$file is not what $1 writes"; exit 1; }
done
