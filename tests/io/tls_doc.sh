#!/bin/sh
# tls_doc.sh TEST_TLS TLS_MD: runs the commands that docs/tls.md has for certificates, for all
# parties, and those that revoke one, and lets them talk with what came out.
set -eu
export LC_ALL=C
command -v openssl >/dev/null || { echo "no openssl command: skipped"; exit 77; }
case $1 in
    /*) test_tls=$1 ;;
    *) test_tls=$PWD/$1 ;;
esac
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
sed -n 's/^    \(openssl \|printf \)/\1/p' "$2" >"$dir/all"
cd "$dir"
grep -e '-keyout ca.key' all >once
grep party-0 all | grep -v -e '-addext' >each
grep -e '-addext' all >alone
grep ca.cnf all >list
[ "$(wc -l <once) $(wc -l <each) $(wc -l <alone) $(wc -l <list)" = "1 3 1 3" ] || { echo "which commands?"; cat all; exit 1; }
mkdir authority self
for p in 0 1 2; do
    cat once each | if [ "$p" = 0 ]; then cat; else sed 1d; fi | sed "s/party-0/party-$p/g" >run
    (cd authority && sh -e ../run) >log 2>&1 || { cat log; exit 1; }
    sed "s/party-0/party-$p/g" alone >run
    (cd self && sh -e ../run) >log 2>&1 || { cat log; exit 1; }
done
# The certificate that party 1 had at first is stolen, and has a new one in its place.
(cd authority && mv party-1.crt stolen.crt && mv party-1.key stolen.key)
sed "s/party-0/party-1/g" each >run
cat list >>run
(cd authority && sh -e ../run) >log 2>&1 || { cat log; exit 1; }
cp authority/ca.crt authority/trusted.crt
cat self/party-?.crt >self/trusted.crt
"$test_tls" --files "$dir/authority"
"$test_tls" --files "$dir/self"
