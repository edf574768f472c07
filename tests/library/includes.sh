#!/bin/sh
# SPDX-License-Identifier: MIT
# Rooms include one way: each only those below it, and the public headers. The graph of files has no cycle: a header that
# includes itself through others is found. The library neither prints nor ends the program.
set -u
cd "$(dirname "$0")/../.."
passed=0 failed=0 t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
awk '/^## Rooms/ { on = 1; next } /^## / { on = 0 } on' docs/pipeline.md > "$t/drawing"
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }
rooms="$(sed -n 's|^[a-z]*/\([a-z]*\) .*|\1|p' rooms | tr '\n' ' ')blas ggml"   # fronts: shared libraries of their own
rank() {
  n=1
  for r in $rooms; do
    [ "$r" = "$1" ] && { echo $n; return; }
    n=$((n + 1))
  done
  echo 0
}

for d in src/*/ kernels/*/; do
  d=${d%/} d=${d##*/}
  [ "$(rank "$d")" != 0 ] && ok || wrong "$d is no room: add it to the list in rooms"
done
# README lists the rooms as the list does, in its order and words; the drawing in docs has each.
sed -n 's/^\([a-z]*\/[a-z]*\) *[a-z_]* *\(.*\)$/| `\1` | \2 |/p' rooms > "$t/list"
grep -E '^\| `(src|kernels)/[a-z]*` \| ' README.md > "$t/readme"
if cmp -s "$t/list" "$t/readme"; then ok; else wrong "README's table of rooms is not that of the list: $(diff "$t/list" "$t/readme" | head -n 4)"; fi
for r in $rooms; do
  grep -qE "(^|[^a-z])$r([^a-z]|\$)" "$t/drawing" && ok || wrong "the drawing in docs/pipeline.md lacks $r"
done
for f in src/*/*.[ch] src/*/*/*.[ch] kernels/*/*.[ch] kernels/*/*/*.[ch]; do
  [ -f "$f" ] || continue
  room=${f#src/} room=${room#kernels/} room=${room%%/*}
  mine=$(rank "$room") bad=
  for i in $(sed -n 's/^ *# *include "\([^"]*\)".*/\1/p' "$f"); do
    case $i in
      tg/*) [ -f "include/$i" ] || bad="$bad $i" ;;
      */*)
        theirs=$(rank "${i%%/*}")
        { [ -f "src/$i" ] || [ -f "kernels/$i" ]; } && [ "$theirs" != 0 ] && [ "$theirs" -le "$mine" ] || bad="$bad $i" ;;
      *) bad="$bad $i" ;;     # by its room and name, never from beside
    esac
  done
  [ -z "$bad" ] && ok || wrong "$f: $room must not include$bad"
done
for f in include/tg/*.h; do
  bad=$(sed -n 's/^ *# *include "\([^"]*\)".*/\1/p' "$f" | grep -v '^tg/')
  [ -z "$bad" ] && ok || wrong "$f: a public header includes $bad"
done
# What a room proposes decides what is chosen, and kept: the hash in a choice's key has each room that asks for choices.
hashed=$(grep -h -A 1 'identity.c: identity' "${BUILD:-build}/rooms.ninja" 2>/dev/null)
for r in $(grep -lE '"kit/choose.h"' -r kernels | sed 's|^kernels/||; s|/.*||' | sort -u); do
  case $hashed in *"/$r.a"*) ok ;; *) wrong "kernels/$r is not in the hash of what chooses (configure)" ;; esac
done
# Rooms above may take any; tools and tests are no one's to include.
bad=$(grep -lE '^ *# *include "(\.\./)*(tools|tests)/' -r src kernels include)
[ -z "$bad" ] && ok || wrong "includes tools or tests: $bad"

# tsort complains of cycles among headers; a header without edges is fine.
edges=$(for h in $(find src kernels include -name "*.h"); do
  name=${h#src/} name=${name#kernels/} name=${name#include/}
  echo "$name $name"
  sed -n 's/^ *# *include "\([^"]*\)".*/\1/p' "$h" | while read -r i; do echo "$name $i"; done
done)
if echo "$edges" | tsort > /dev/null 2>&1; then ok; else wrong "headers include one another in a circle: $(echo "$edges" | tsort 2>&1 >/dev/null | tr '\n' ' ')"; fi

# A device is known by its table alone: what fills it is named in its own folder and that of its tests, the list of drivers in src/devices apart.
for d in src/devices/*/; do
  d=${d%/} n=${d##*/}
  [ -n "$(find "$d" -name '*.c')" ] || continue
  bad=$(grep -rlE "tg_${n}_|devices/$n/" --include='*.[ch]' src kernels tools tests include examples | grep -vE "^($d|tests/devices/$n)/" | tr '\n' ' ')
  [ -z "$bad" ] && ok || wrong "$bad name $d, which tg_driver_$n stands for"
done

# Symbols go the way that includes go: an archive needs nothing of one that comes behind it.
b=${BUILD:-build}
for r in $rooms; do
  [ -f "$b/$r.a" ] || continue
  nm -g --defined-only "$b/$r.a" | awk -v r="$(rank "$r")" 'NF == 3 { print $3, r }'
done | sort > "$t/defined"
[ "$(wc -l < "$t/defined")" -gt 500 ] && ok || wrong "$b/*.a define next to nothing"
for r in $rooms; do
  [ -f "$b/$r.a" ] || continue
  up=$(nm -u "$b/$r.a" | awk 'NF == 2 { print $2 }' | sort -u | join - "$t/defined" | awk -v r="$(rank "$r")" '$2 > r { printf "%s ", $1 }')
  [ -z "$up" ] && ok || wrong "$b/$r.a needs what stands above it: $up"
done

# snprintf and its like write to memory; files are written by base alone. A BLAS reports wrong arguments on stderr where nobody has an xerbla_.
bad=$(grep -nE '(^|[^a-zA-Z0-9_])(printf|puts|putchar|perror|vprintf|abort|exit|_exit|quick_exit|assert) *\(|(^|[^a-zA-Z0-9_])(stdout|stderr)([^a-zA-Z0-9_]|$)' $(find src kernels -name '*.[ch]') | grep -v '^kernels/blas/' | grep -v '^[^:]*:[0-9]*: *\(/\*\|\*\|//\)')
[ -z "$bad" ] && ok || wrong "the library prints or ends the program:
$bad"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
