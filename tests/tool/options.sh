#!/bin/sh
# SPDX-License-Identifier: MIT
# Options of the tool: a wrong one is named, not the word behind it; values that are no numbers, or numbers that nothing can be, are refused.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
passed=0 failed=0
b=${BUILD:-build} t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT

# Exit code 2 (1 where a first word says so), and the whole output.
refused() {
  code=2
  [ "$1" != 1 ] || { code=1; shift; }
  text=$1
  shift
  "$b/tg" "$@" > "$t/out" 2>&1
  got=$?
  if [ "$got" = "$code" ] && [ "$(cat "$t/out")" = "$text" ]; then passed=$((passed + 1))
  else failed=$((failed + 1)); echo "$*: $got: $(head -n 3 "$t/out")"; fi
}
f=examples/matmul.tg
refused "tg: '--seed' is no option of this command; --help lists them" run $f --seed abc
refused "tg: '--seconds' is no option of this command; --help lists them" tune $f --seconds 2
refused "tg: '$f': one file is enough, '$f' is given already" run $f $f
refused "tg: --threads wants a value" run $f --threads
refused "tg: --check=3 takes no value" run $f --check=3
refused "tg: --threads x: a number is wanted" run $f --threads x
refused "tg: --threads x: a number is wanted" run $f --threads=x
refused "tg: --threads 1.5: a whole number of 32 bits is wanted" run $f --threads 1.5
refused "tg: --threads 4294967298: a whole number of 32 bits is wanted" run $f --threads 4294967298
refused "tg: --threads -7: -1 is the least" run $f --threads -7
refused "tg: --budget nan: a number is wanted" tune $f --budget nan
refused "tg: --budget -1: 0 is the least" tune $f --budget -1
refused "tg: --candidates -3: 0 is the least" tune $f --candidates -3
refused 1 "tg: examples: Is a directory" show examples
# What is missing is named, by each command.
refused "tg build: what to build (FILE.tg, gemm or attention) is missing; tg build --help tells more" build
refused "tg build: where the object goes (-o FILE.o) is missing; tg build --help tells more" build $f --header "$t/h"
refused "tg build: where its declaration goes (--header FILE.h) is missing; tg build --help tells more" build $f -o "$t/o"
refused "tg build: the list of plans (--shapes FILE) is missing; tg build --help tells more" build gemm -o "$t/o" --header "$t/h"
refused "tg build: --shapes is for gemm and attention, not for '$f'" build $f --shapes "$t/s" -o "$t/o" --header "$t/h"
refused "tg pack: a folder of compiled kernels is missing; tg pack --help tells more" pack -o "$t/p"
refused "tg pack: where the pack goes (-o FILE) is missing; tg pack --help tells more" pack "$t"
refused "tg trace: a kernel (FILE.tg) is missing; tg trace --help tells more" trace -o "$t/p"
refused "tg trace: where the page goes (-o FILE.html) is missing; tg trace --help tells more" trace $f
refused "tg run: a kernel (FILE.tg) is missing; tg run --help tells more" run --check
refused "tg show: a kernel (FILE.tg) is missing; tg show --help tells more" show M=3
refused "tg tune: what to tune (FILE.tg, gemm or attention) is missing; tg tune --help tells more" tune
refused "tg tune: a journal to draw is missing; tg tune --help tells more" tune plot
refused "tg replay: the list (tests/replay) is missing; tg replay --help tells more" replay
refused "tg replay: the kernel to draw words for is missing; tg replay --help tells more" replay draw
refused "tg store: what to do (list, verify, prune, export, import or merge) is missing; tg store --help tells more" store --tuned "$t"
refused "tg store: no 'remove'; there are list, verify, prune, export, import, merge" store remove --tuned "$t"
refused "tg store: a file is missing; tg store --help tells more" store export --tuned "$t"
refused "tg store list: takes no file, 'x' is given" store list x --tuned "$t"
refused "tg bench: which one is missing: $("$b/tg" --help | sed -n "s|^  tg bench ||p"); tg bench --help tells more" bench
refused "tg: a32=1: no more than 32 bindings are taken" run $f $(for i in $(seq 0 32); do echo "a$i=1"; done)
for c in devices show trace measure run build tune store pack bench replay demo; do   # asked for, the usage is the answer
  if "$b/tg" $c --help > "$t/out" 2>&1 && grep -q "^tg $c" "$t/out"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "tg $c --help: $(head -n 1 "$t/out")"; fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
