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
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
