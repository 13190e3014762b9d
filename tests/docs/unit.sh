#!/bin/sh
# unit.sh ROOT: systemd has nothing to say of the unit of packaging/: no member in another section than its own, none
# that it does not know. Skipped (77) without systemd-analyze.
set -eu
command -v systemd-analyze >/dev/null || { echo "no systemd-analyze: skipped"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
sed 's#@bindir@/uvcc#/bin/true#' "$1/packaging/uvcc-party@.service.in" >"$dir/uvcc-party@march.service"
said=$(systemd-analyze verify --man=no "$dir/uvcc-party@march.service" 2>&1) || { echo "$said"; exit 1; }
# What else is wrong with this machine's own units is not of this test.
said=$(printf '%s\n' "$said" | grep uvcc-party || true)
[ -z "$said" ] || { echo "$said"; exit 1; }
# However often a party is started again, it is once more: its peers may be away for hours.
sed -n '/^\[Unit\]/,/^\[Service\]/p' "$1/packaging/uvcc-party@.service.in" | grep -qx 'StartLimitIntervalSec=0' || {
    echo "StartLimitIntervalSec=0 is not in [Unit]"
    exit 1
}
