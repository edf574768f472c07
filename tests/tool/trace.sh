#!/bin/sh
# SPDX-License-Identifier: MIT
# tg trace: the page has every stage and every part, is well-formed, small, and asks for nothing from elsewhere; a browser runs its script, where there is one. About
# 5 s.
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
b=${BUILD:-build} passed=0 failed=0 t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }

# well-formed: each tag that is opened is closed, in order; no script may hide in a text
cat > "$t/parse.awk" <<'A'
{ page = page $0 "\n" }
END {
  n = 0
  sub(/<!DOCTYPE html>/, "", page); sub(/<style>.*<\/style>/, "", page)
  if (split(page, s, "<script>") != 2) { print "one script is meant"; exit 1 }
  sub(/<script>.*<\/script>/, "", page)
  count = split(page, part, "<")
  for (i = 2; i <= count; i++) {
    end = index(part[i], ">")
    if (!end) { print "a tag without an end: " substr(part[i], 1, 60); exit 1 }
    tag = substr(part[i], 1, end - 1)
    if (tag ~ /\/$/) continue
    name = tag; sub(/[ \n].*/, "", name)
    if (name ~ /^\//) {
      if (!n || "/" open[n] != name) { print name " closes " open[n]; exit 1 }
      n--
    } else if (name ~ /^[a-z][a-z0-9]*$/) open[++n] = name
    else { print "no tag: " substr(part[i], 1, 60); exit 1 }
  }
  if (n || count < 50) { print n " tags are open at the end, of " count; exit 1 }
}
A

browser=
for c in chromium chromium-browser google-chrome; do [ -n "$browser" ] || browser=$(command -v $c); done
[ -n "$browser" ] || echo "no Chromium here: the script of the page is only read, not run"

page() {   # name, arguments of tg trace
  name=$1; shift
  "$b/tg" trace "$@" --seconds 0.01 -o "$t/$name.html" > "$t/out" 2>&1 && ok || { wrong "$name: $(tail -n 3 "$t/out")"; return; }
  [ "$(wc -c < "$t/$name.html")" -lt 2000000 ] && ok || wrong "$name: $(wc -c < "$t/$name.html") bytes"
  grep -qi 'http\|@import\|src=' "$t/$name.html" && wrong "$name: asks for something" || ok
  for s in author prove raise schedule reduce distribute fma expand place functions types coalesce index linear llvm asm object; do
    grep -q "id=\"stage-$s\"" "$t/$name.html" && ok || wrong "$name: no stage $s"
  done
  for s in stages tiles cost accesses code; do grep -q "<section id=\"$s\">" "$t/$name.html" && ok || wrong "$name: no section $s"; done
  awk -f "$t/parse.awk" "$t/$name.html" > "$t/out" && ok || wrong "$name: $(cat "$t/out")"
  grep -q 'rewrites by' "$t/$name.html" && ok || wrong "$name: no rules"
  grep -q 'class="tile k-lane"' "$t/$name.html" && ok || wrong "$name: no tile of lanes"
  grep -q '<span data-l="[0-9]*"><i> *[0-9][0-9]*</i>' "$t/$name.html" && ok || wrong "$name: no instruction has a line of the kernel"
  [ -n "$browser" ] || return
  timeout 60 "$browser" --headless --no-sandbox --disable-gpu --enable-logging=stderr --dump-dom "file://$t/$name.html" > "$t/dom" 2> "$t/log"
  grep -q 'id="stage-linear"' "$t/dom" && ! grep -q 'CONSOLE.*rror' "$t/log" && ok || wrong "$name in $browser: $(grep CONSOLE "$t/log"; tail -n 2 "$t/log")"
}

page matmul examples/matmul.tg M=64 N=64 K=64
grep -q 'Measured: <strong>[0-9.]* us' "$t/matmul.html" && ok || wrong "matmul is not measured"
grep -q 'linear-gradient(90deg,var(--old) [1-9]' "$t/matmul.html" && ok || wrong "no loop has a part of the cost"
# the same loops on every machine
printf 'kernel still(M = 32, N = 8) {\n  in(A, f32, [N, M]);\n  in(b, f32, [N]);\n  out(C, f32, [M, N]);\n  range(i, M) range(j, N) C[i,j] = A[j,i] + b[j];\n  opt(order i j);\n}\n' > "$t/still.tg"
"$b/tg" trace "$t/still.tg" --seconds -1 -o "$t/still.html" > "$t/out" 2>&1 && ok || wrong "$(cat "$t/out")"
for w in 'contiguous, 1 on' 'the same data again' 'strided, 32 on' 'strided, 8 on'; do grep -q "$w" "$t/still.html" && ok || wrong "no access is $w"; done
grep -q "times the model's" "$t/matmul.html" && ok || wrong "the model's time does not stand beside the time measured"
# the product's instructions come from the line that has it
line=$(grep -n 'sum(' examples/matmul.tg | head -n 1 | cut -d: -f1)
grep -q "class=\"src\" tabindex=\"0\" data-l=\"$line\"" "$t/matmul.html" && grep -A 40 "<span data-l=\"$line\"><i> *$line</i>" "$t/matmul.html" | grep -q 'mul\|fma\|fmla' && ok || wrong "no product at line $line"
page attention tests/corpus/attention_flash.tg
grep -q 'Not measured' "$t/attention.html" && ok || wrong "attention: measured with sizes that are open"

# what stands in names is text on the page, and no tag
cp examples/matmul.tg "$t/<img onerror>&.tg"
"$b/tg" trace "$t/<img onerror>&.tg" M=8 N=8 K=8 --seconds -1 -o "$t/name.html" > "$t/out" 2>&1 && ok || wrong "$(cat "$t/out")"
grep -q '<img' "$t/name.html" && wrong "a name is a tag" || ok
awk -f "$t/parse.awk" "$t/name.html" > "$t/out" && ok || wrong "name: $(cat "$t/out")"

# a search's journal: two candidates timed, one that was wrong
printf '{"event":"time","kernel":"<b>","outcome":"ok","seconds":%s}\n' 2e-6 1e-6 > "$t/journal"; echo '{"event":"build","outcome":"died"}' >> "$t/journal"
"$b/tg" trace examples/matmul.tg M=8 N=8 K=8 --seconds -1 --journal "$t/journal" -o "$t/search.html" > "$t/out" 2>&1 && [ "$(grep -c '<circle' "$t/search.html")" = 2 ] && ok || wrong "journal: $(cat "$t/out")"
grep -qi 'http' "$t/search.html" && wrong "journal: asks for something" || ok
awk -f "$t/parse.awk" "$t/search.html" > "$t/out" && ok || wrong "journal: $(cat "$t/out")"
"$b/tg" trace examples/matmul.tg M=8 N=8 K=8 --seconds -1 --journal "$t/none" -o "$t/none.html" > "$t/out" 2>&1; [ $? = 1 ] && [ ! -e "$t/none.html" ] && ok || wrong "a journal that is not there: $(cat "$t/out")"

"$b/tg" trace examples/matmul.tg M=8 N=8 K=8 --seconds -1 -o "$t/nowhere/x.html" > "$t/out" 2>&1; [ $? = 1 ] && grep -q 'nowhere/x.html: No such file' "$t/out" && ok || wrong "a folder that is not there: $(cat "$t/out")"
"$b/tg" trace examples/matmul.tg > "$t/out" 2>&1; [ $? = 2 ] && ok || wrong "without -o: $(cat "$t/out")"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
