#!/bin/sh
# SPDX-License-Identifier: MIT
# The order of the house, counted: one name for one type, lines and functions that can be read, no cast where a field has the type, the devices' own
# names in their folder, the field's own words. What the first choice's successor replaces is left out of what is counted by function.
set -u
cd "$(dirname "$0")/../.."
passed=0 failed=0 skipped=
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "$*"; }
sources=$(find src kernels include tools -name '*.[ch]' -o -name '*.def' | sort)
replaced='kernels/gemm/(choose|estimate)\.c|src/choose/(contraction|rows|blocks|inner|decisions)\.c|src/choose/nest\.h'
at_most() { # number, what, lines: each a place
  n=$(printf '%s\n' "$3" | grep -c .)
  if [ "$n" -le "$1" ]; then ok; else wrong "$2: $n, at most $1:
$(printf '%s\n' "$3" | head -n 8)"; fi
}

# A tag or a typedef of tg_* has one definition.
at_most 0 "types defined twice" "$(awk '
  /^typedef (struct|enum|union) [a-z_0-9]* ?\{|^(struct|enum|union) tg_[a-z_0-9]+ \{/ {
    for (i = 1; i <= NF; i++) if ($i ~ /^tg_[a-z_0-9]+$/ && $(i + 1) ~ /^\{/) tag[$i " " FILENAME]
  }
  { line = $0; sub(/\/\*.*/, "", line) }
  line ~ /^\} tg_[a-z_0-9]+;/ { name = line; sub(/^\} /, "", name); sub(/;.*/, "", name); tag[name " " FILENAME] }
  line ~ /^typedef (struct|enum)[a-z_ 0-9]*\{.*\} tg_[a-z_0-9]+; *$/ { name = line; sub(/.*\} /, "", name); sub(/;.*/, "", name); tag[name " " FILENAME] }
  END { for (t in tag) { split(t, p, " "); if (seen[p[1]]++) print p[1] } }' $(find src kernels include -name '*.[ch]'))"

at_most 0 "lines of more than 120 columns" "$(awk 'length > 120 { print FILENAME ":" FNR }' $sources)"

at_most 10 "casts to enums that fields have" "$(grep -nE '\((tg_type|tg_op|tg_kind|tg_space|tg_role|tg_place|tg_outcome|tg_task_kind|tg_check_kind)\)[a-z(]' $(find src kernels -name '*.[ch]'))"

at_most 0 "the CPU by name outside of its folder" "$(grep -nE '\btg_cpu_' $(find src kernels tools -name '*.[ch]') | grep -v '^src/devices/cpu')"

at_most 0 "planted faults in the source" "$(grep -nE '\bTG_MUTANT' $(find src kernels -name '*.[ch]'))"

# Words for which the field has its own: docs/glossary.md.
at_most 5 "words that docs/glossary.md has better ones for" "$(grep -noiE "asks? for ahead|asked for|asks ahead|(first|second|third) cache|comes unasked|so many (bytes|lines|rows|columns|terms)" \
  $(find src kernels include docs -name '*.[ch]' -o -name '*.md' -o -name '*.def' | grep -vE "$replaced|docs/glossary.md" | sort))"

if command -v pmccabe > /dev/null; then
  pmccabe $(find src kernels include tools -name '*.c') 2>/dev/null | awk '{ print $1, $5, $6 $7 }' | grep -vE "$replaced" > "${TMPDIR:-/tmp}/house.$$"
  [ "$(wc -l < "${TMPDIR:-/tmp}/house.$$")" -gt 2000 ] && ok || wrong "pmccabe finds next to no functions"
  at_most 4 "functions of a cyclomatic complexity above 40" "$(awk '$1 > 40' "${TMPDIR:-/tmp}/house.$$")"
  at_most 0 "functions of more than 60 lines" "$(awk '$2 > 60' "${TMPDIR:-/tmp}/house.$$")"
  rm -f "${TMPDIR:-/tmp}/house.$$"
else skipped="skipped: complexity, since there is no pmccabe (sh tools/install --test)"; fi

largest=$(find src -name '*.[ch]' -o -name '*.def' | xargs wc -l | awk '$2 != "total" { split($2, p, "/"); n[p[2]] += $1; all += $1 } END { for (r in n) if (n[r] > most) most = n[r]; print int(1000 * most / all) }')
[ "$largest" -le 170 ] && ok || wrong "the largest room has $largest of 1000 lines of src"

[ -z "$skipped" ] || echo "$skipped"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
