#!/bin/sh
# amalgamation.sh SOURCE CC: the library as one file is compiled by one call, without a warning, by each
# compiler that there is; its header serves C and C++ alone; examples/embed.c runs with it, and what
# the object shows are the names that the library shows.
set -eu
export LC_ALL=C
source=$1
cc=$2
[ "${UVCC_SANITIZED:-}" = 1 ] && { echo "compiled without sanitizers: skipped"; exit 77; }
libs="$(pkg-config --libs libsodium libcrypto libisal) -lm -lpthread"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$source/scripts/amalgamate" "$work"
cd "$work"
sed 's/#include <uvcc\/[a-z]*\.h>/#include "uvcc_core.h"/' "$source/examples/embed.c" >embed.c
echo '#include "uvcc_core.h"' >header.c

compilers=$cc
for other in gcc clang; do
    case $cc in *$other*) ;; *) ! command -v $other >/dev/null || compilers="$compilers;$other" ;; esac
done
(IFS=';'; for c in $compilers; do echo "$c"; done) >compilers
while read -r c; do
    # -O0: what is tested is that it compiles.
    $c -O0 -Wall -Wextra -Werror -c uvcc_core.c
    $c -std=c17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only header.c
    # shellcheck disable=SC2086
    $c -std=c17 -Wall -Wextra -Werror embed.c uvcc_core.o $libs -o embed
    ./embed
    nm -g --defined-only uvcc_core.o | awk 'NF == 3 { print $3 }' >names
    if command -v objcopy >/dev/null; then
        objcopy --localize-hidden uvcc_core.o
        nm -g --defined-only uvcc_core.o | awk 'NF == 3 { print $3 }' >names
        ! grep -v '^uvcc_' names || { echo "uvcc_core.o shows the names above"; exit 1; }
    fi
    [ "$(grep -c '^uvcc_' names)" -gt 100 ] || { echo "uvcc_core.o lacks the public functions"; exit 1; }
done <compilers
for cxx in g++ clang++; do
    ! command -v $cxx >/dev/null ||
        $cxx -x c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only header.c
done
