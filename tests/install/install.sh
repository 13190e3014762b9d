#!/bin/sh
# install.sh BUILD SOURCE CC TOOLS: installs into a scratch DESTDIR, then does what a user of the
# installed library does: takes the flags from pkg-config, compiles examples/embed.c against them,
# shared and static, and runs it. Every installed header must compile alone, as C17 and as C++17.
set -eu
export LC_ALL=C
build=$1
source=$2
cc=$3
tools=$4 # 1: the command was built
cxx=$(command -v "${CXX:-c++}" || true)
[ "${UVCC_SANITIZED:-}" = 1 ] && { echo "the installed library needs no sanitizer: skipped"; exit 77; }

# Not in the build directory, whose path may have spaces: flags are words.
dest=$(mktemp -d)
trap 'rm -rf "$dest"' EXIT
meson install -C "$build" --no-rebuild --quiet --destdir "$dest" >"$dest/log" 2>&1 ||
    { cat "$dest/log"; exit 1; }

pc=$(find "$dest" -name uvcc.pc)
[ -n "$pc" ] || { echo "no uvcc.pc was installed"; exit 1; }
prefix=$dest$(sed -n 's/^prefix=//p' "$pc")
export PKG_CONFIG_PATH="${pc%/*}"
flags() {
    pkg-config --define-variable=prefix="$prefix" "$@" uvcc
}
libdir=$(flags --variable=libdir)
includedir=$(flags --variable=includedir)

# Exactly the public headers, and each stands alone, in C and, where there is a compiler, in C++.
(cd "$source/include" && find uvcc -type f | sort) >"$dest/want"
(cd "$includedir" && find uvcc -type f | sort) >"$dest/have"
diff "$dest/want" "$dest/have" || { echo "the installed headers are not those of include/"; exit 1; }
for header in $(grep '\.h$' "$dest/have"); do
    printf '#include <%s>\nint embedder;\n' "$header" >"$dest/one.c"
    # shellcheck disable=SC2046 # flags are words
    $cc -std=c17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only $(flags --cflags) "$dest/one.c"
    # shellcheck disable=SC2046
    [ -z "$cxx" ] || $cxx -x c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only \
        $(flags --cflags) "$dest/one.c"
done

# Who has the headers need not have the sources.
! grep -rn 'src/' "$includedir/uvcc" || { echo "an installed header refers to a file under src/"; exit 1; }

# What the installed tool learns from without --text, its vectors, the manual and the completion.
if [ "$tools" = 1 ]; then
    corpus=$(find "$dest" -path '*/share/uvcc/corpus.txt')
    cmp "${corpus:-/nowhere}" "$source/tests/data/corpus.txt" || { echo "the corpus was not installed"; exit 1; }
    tasks=$(find "$dest" -path '*/share/uvcc/tasks')
    diff -r "${tasks:-/nowhere}" "$source/tests/vectors/tasks" || { echo "the vectors were not installed"; exit 1; }
    for page in "$source"/docs/man/*.1; do
        [ -n "$(find "$dest" -path "*/man1/${page##*/}*")" ] || { echo "${page##*/} was not installed"; exit 1; }
    done
    completion=$(find "$dest" -path '*/share/bash-completion/completions/uvcc')
    cmp "${completion:-/nowhere}" "$source/docs/completion/uvcc" || { echo "no completion was installed"; exit 1; }
fi
licence=$(find "$dest" -path '*/share/doc/uvcc/LICENSE')
cmp "${licence:-/nowhere}" "$source/LICENSE" || { echo "LICENSE was not installed"; exit 1; }

# embed.c by the flags of pkg-config alone: a shared library that is found at run time; and static,
# where -Bstatic for one library is the user's choice.
if [ -e "$libdir/libuvcc.so" ]; then
    # shellcheck disable=SC2046
    $cc -std=c17 $(flags --cflags) "$source/examples/embed.c" -o "$dest/shared" $(flags --libs)
    LD_LIBRARY_PATH=$libdir "$dest/shared"
fi
if [ -e "$libdir/libuvcc.a" ]; then
    # shellcheck disable=SC2046
    $cc -std=c17 $(flags --cflags) "$source/examples/embed.c" -o "$dest/static" \
        $(flags --static --libs | sed 's/-luvcc\>/-l:libuvcc.a/')
    "$dest/static"
fi
