#!/bin/sh
# SPDX-License-Identifier: MIT
# A processor is a row of the table in src/target/target.c, and nothing else of tg is touched: here with a row more, and
# with one that is wrong, which jit_rows must notice.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
of() { sed -n "s/^$1 = //p" build/config.ninja build/rooms.ninja | sed 's|\$b/|build/|g'; }   # a variable of the build
passed=0 failed=0
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }

# The test linked with the table that has the row, before the archives.
program() { # name, row, objects, archives
  name=$1 row=$2
  shift 2
  awk -v row="$row" '/^static const tg_target rows/ { on = 1 } on && /^};/ { print "    " row; on = 0 } { print }' \
    src/target/target.c > "$t/target.c"
  cmp -s src/target/target.c "$t/target.c" && wrong "the table of src/target/target.c was not found"
  $(of cc) $(of cflags) -Iinclude -Isrc -c "$t/target.c" -o "$t/target.o" &&
    $(of cc) $(of ldflags) -o "$t/$name" "$t/target.o" "$@" $(of llvm_libs) $(of base_libs) ||
    wrong "$name: does not build with the row"
}
runs() { # the command: all its checks pass
  if "$@" > "$t/out" 2>&1; then ok; else wrong "$(head -n 20 "$t/out")"; fi
}

row='{.name = "cascadelake", .needs = V4 | SINCE_SKYLAKE | X(AVX512VNNI), .l1 = 32 KiB, .l2 = 1 MiB, .l3 = 36 MiB},'
program rows "$row" build/tests/target/rows.o $(of up_to_target)
runs "$t/rows"
program jit_rows "$row" build/tests/jit/rows.o $(of up_to_target)
runs "$t/jit_rows"
program targets "$row" build/tests/library/targets.o build/tests/library/kit.o build/libtg_jit.a build/libtg.a
runs "$t/targets" --target=cascadelake tests/corpus/softmax.tg tests/corpus/matmul_tiled.tg
grep -qE '^[1-9][0-9]* passed' "$t/out" && ok || wrong "nothing was compiled for the row: $(tail -n 1 "$t/out")"

program jit_rows "$(echo "$row" | sed 's/ | X(AVX512VNNI)//')" build/tests/jit/rows.o $(of up_to_target)
if "$t/jit_rows" > "$t/out" 2>&1; then wrong "a row that lacks a feature passes"; else ok; fi
grep -q 'cascadelake: LLVM.*avx512vnni' "$t/out" && ok || wrong "what the row lacks is not named: $(head -n 3 "$t/out")"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
