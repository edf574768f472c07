#!/bin/sh
# SPDX-License-Identifier: MIT
# A word of a schedule is a row of src/schedule/opts.def and a function, and nothing else of tg is touched: here with a
# row more (tests/added/schedule/opts.def) and inward.c. What reads the table is compiled again, and linked before the
# archives; then the word is parsed, printed, applied, refused (inward.txt) and varied by a search (mutate.c).
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
of() { sed -n "s/^$1 = //p" build/config.ninja build/rooms.ninja | sed 's|\$b/|build/|g'; }   # a variable of the build

# The first dependency of an object is its source.
readers=$(ninja -t deps | awk '/: #deps/ { source = ""; next } NF && source == "" { source = $1 }
  $1 == "src/schedule/opts.def" { print source }' | grep -E '^(src|kernels)/' | sort -u)
stop() { echo "$1"; echo "0 passed, 1 failed"; exit 1; }
[ "$(echo "$readers" | grep -c .)" -gt 20 ] || stop "the build knows of next to no files that read the table"
cc=$(of cc) flags="$(of cflags) -Itests/added -Iinclude -Isrc -Ikernels -Itests"
export cc flags t
echo "$readers" tests/added/inward.c tests/added/mutate.c tests/lower/schedule.c | tr ' ' '\n' |
  xargs -P "$(nproc)" -n 1 sh -c '$cc $flags -c "$1" -o "$t/$(echo "$1" | tr / _).o"' compile || stop "what reads the table does not compile"
for program in lower_schedule added_mutate; do
  $cc $(of ldflags) -o "$t/$program" "$t/tests_$program.c.o" $(ls "$t"/*.o | grep -v /tests_) \
    "$t/tests_added_inward.c.o" $(of up_to_compile) $(of base_libs) || stop "$program does not link"
done

passed=0 failed=0
count() { # the command; its closing line is counted
  line=$("$@" 2> "$t/errors" | tail -n 1)
  cat "$t/errors"
  p=${line%% *} f=${line#*, } f=${f%% *}
  case "$p$f" in ''|*[!0-9]*) p=0 f=1; echo "$1 does not end: $line" ;; esac
  passed=$((passed + p)) failed=$((failed + f))
}
count "$t/lower_schedule" "$@" tests/added/inward.txt
count "$t/added_mutate"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
