#!/bin/sh
# SPDX-License-Identifier: MIT
# What a user of the library meets: the archives define no global symbol but tg_*, the public headers compile by themselves as
# C11 and C++17, pedantic, with gcc and clang, and the objects call nothing that prints or ends the program.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
passed=0 failed=0
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }
b=${BUILD:-build} t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT

nm -g --defined-only "$b/libtg.a" "$b/libtg_jit.a" | awk 'NF == 3 { print $3 }' > "$t/defined"
[ "$(wc -l < "$t/defined")" -gt 50 ] && ok || wrong "$b/libtg.a defines next to nothing"
bad=$(grep -v '^tg_' "$t/defined" | tr '\n' ' ')
[ -z "$bad" ] && ok || wrong "global symbols that are not tg_*: $bad"
bad=$(sort "$t/defined" | uniq -d | tr '\n' ' ')
[ -z "$bad" ] && ok || wrong "defined twice: $bad"
bad=$(nm -u "$b/libtg.a" "$b/libtg_jit.a" | awk 'NF == 2 { print $2 }' | grep -xE '(printf|puts|putchar|putc|perror|vprintf|abort|exit|_exit|quick_exit|__assert_fail|__printf_chk|stdout|stderr)(@.*)?' | sort -u | tr '\n' ' ')
[ -z "$bad" ] && ok || wrong "the library calls $bad"
# Numbers that are read keep their point in every locale (src/base/number.c).
bad=$(nm -A -u "$b/libtg.a" "$b/libtg_jit.a" | grep -E ' (strto(d|f|ld)|atof|localeconv|setlocale)(@.*)?$' | grep -v ':number.o:' | tr '\n' ' ')
[ -z "$bad" ] && ok || wrong "by the locale of the program: $bad"
# Writable data of the program's lifetime would be state outside of a context; what LLVM and gdb have once in a process may be.
bad=$(nm -f sysv "$b/libtg.a" "$b/libtg_jit.a" | awk -F'|' '$7 ~ /^\.t?(data|bss)$/ { sub(/ *$/, "", $1); print $1 }' | grep -vE '^(once\.[0-9]+|gdb_lock|spirv_lock)$' | tr '\n' ' ')
[ -z "$bad" ] && ok || wrong "writable globals: $bad"

# The first archive stands alone: all of tg that it wants is in it, and nothing of LLVM.
nm -g --defined-only "$b/libtg.a" | awk 'NF == 3 { print $3 }' | sort -u > "$t/first"
bad=$(nm -u "$b/libtg.a" | awk 'NF == 2 && $2 ~ /^(tg_|LLVM)/ { print $2 }' | sort -u | comm -23 - "$t/first" | tr '\n' ' ')
[ -z "$bad" ] && ok || wrong "libtg.a wants $bad"

for h in include/tg/*.h; do
  h=tg/${h##*/}
  printf '#include <%s>\n#include <%s>\nint tg_unused_(void);\nint tg_unused_(void) { return 0; }\n' "$h" "$h" > "$t/h.c"
  cp "$t/h.c" "$t/h.cc"
  for c in "gcc -std=c11" "clang -std=c11" "g++ -std=c++17" "clang++ -std=c++17"; do
    command -v "${c%% *}" > /dev/null || { wrong "no ${c%% *}: sh tools/install --test"; continue; }
    case $c in *c11) f=$t/h.c ;; *) f=$t/h.cc ;; esac
    if $c -pedantic-errors -Wall -Wextra -Wshadow -Werror -Iinclude -c "$f" -o "$t/h.o" > "$t/out" 2>&1; then ok; else wrong "$c: $h: $(head -n 3 "$t/out")"; fi
  done
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
