#!/bin/sh
# SPDX-License-Identifier: MIT
# Which faults do the tests notice? Plants those of tests/mutants/faults in a copy of the tree, builds it, turns on one
# after another and runs what tests/mutants/tests names until something is red, of it only what comes by the place. The
# last line counts; above it stands each that nothing noticed.
#   sh tests/mutants/run.sh [--sample N SEED] [--jobs N] [--most SECONDS] [--again] [--tests FILE] [WORDS]
#   --tests   another list than tests/mutants/tests, and only the faults that its tests come by, but for those that
#             FILE.beside names; where there is FILE.only, those that it names, and all have to be noticed
#   --again   only what survived the last time;  --most: only tests that take less
#   WORDS     faults whose names contain them
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
copy=build-mutants/tree d=${MUTANTS_STATE:-build-mutants/mutants} list=${MUTANTS_LIST:-tests/mutants/tests}

# The name of one fault: a line of the result, "name<TAB>test" ("-" where none was red).
if [ "${1:-}" = --one ]; then
  name=$2 most=$3
  grep -v '^#' "$list" | { n=0; while read -r limit test args; do
    n=$((n + 1))
    [ "$limit" -le "$most" ] && grep -qxF "$name" "$d/reached.$n" || continue
    case $args in
      *ROW*) case $name in *": "*) args=$(echo "$args" | sed "s/ROW/${name##*: }/") ;; *) continue ;; esac ;;
    esac
    [ "$limit" -ge "$(cat "$d/limit.$n")" ] || limit=$(cat "$d/limit.$n")
    status=0
    (cd $copy && TG_MUTANT=$name timeout "$limit" "build/tests/$test" $args >/dev/null 2>&1) || status=$?
    if [ $status = 124 ]; then   # for ever, or busy?
      status=0
      (cd $copy && TG_MUTANT=$name timeout $((8 * limit)) "build/tests/$test" $args >/dev/null 2>&1) || status=$?
    fi
    if [ $status != 0 ]; then
      printf '%s\t%s\n' "$name" "$test $args" | cut -c 1-200
      exit 0
    fi
  done
  printf '%s\t-\n' "$name"; }
  exit 0
fi

sample= seed= jobs=2 most=1000 words= again=
while [ $# -gt 0 ]; do
  case $1 in
    --sample) sample=$2 seed=$3; shift 3 ;;
    --jobs) jobs=$2; shift 2 ;;
    --most) most=$2; shift 2 ;;
    --again) again=1; shift ;;
    --tests) list=$2 d=build-mutants/mutants-$(basename "$2"); shift 2 ;;
    -*) echo "$0: unknown option $1 (--sample, --jobs, --most, --again, --tests)" >&2; exit 2 ;;
    *) words=$1; shift ;;
  esac
done

# The copy: what is in it as it should be stays untouched, so only what changed is built anew.
[ -f build/config.ninja ] || sh configure >/dev/null
ninja --quiet build/tests/mutants_plant | { grep -v 'to do' || true; }
mkdir -p $copy
files() {
  find . -type d \( -path './build*' -o -path ./.git \) -prune -o -type f ! -path './.git' ! -path './.ninja*' -print |
    sed 's|^\./||' | LC_ALL=C sort
}
files > build-mutants/files
(cd $copy && files) | LC_ALL=C comm -13 build-mutants/files - | (cd $copy && xargs -r rm -f)
build/tests/mutants_plant $copy < build-mutants/files || { echo "0 passed, 1 failed"; exit 1; }
[ -f $copy/build/config.ninja ] || (cd $copy && sh configure --mutants >/dev/null)
grep -v '^#' "$list" | while read -r limit test args; do echo "build/tests/$test"; done | sort -u > build-mutants/built
xargs ninja --quiet -C $copy -j "$jobs" build/tests/mutants/list < build-mutants/built | { grep -v 'to do' || true; }

# Where each test comes by, and how long it takes here: once for each build. A test that is red without a fault would
# notice everything, and so would one that is given less time than it needs on a machine that is busy.
mkdir -p $d
grep -v '^#' "$list" | { n=0; while read -r limit test args; do
  n=$((n + 1))
  case $args in *ROW*) args= ;; esac
  printf '%s %s\n' "$test" "$args" > $d/now
  cmp -s $d/now $d/test.$n || : > $d/reached.$n
  [ "$limit" -le "$most" ] || continue
  [ ! -f $d/limit.$n ] || [ ! $d/reached.$n -nt "$copy/build/tests/$test" ] || ! cmp -s $d/now $d/test.$n || continue
  rm -f $d/new
  : > $d/new
  begin=$(date +%s)
  (cd $copy && TG_MUTANT_REACHED="$root/$d/new" timeout $((8 * limit + 300)) "build/tests/$test" $args) > $d/out 2>&1 || {
    tail -n 5 $d/out
    echo "$test $args is red without a fault"
    echo "0 passed, 1 failed"
    exit 1
  }
  echo $((4 * ($(date +%s) - begin + 1))) > $d/limit.$n
  mv $d/new $d/reached.$n
  mv $d/now $d/test.$n
done; }

# All faults: the table's, the rows of rules and layouts, and what only running tells: how many barriers there are,
# which functions.
barriers=$(sed -n 's/: barrier dropped$//p' tests/mutants/faults)
{ build/tests/mutants_plant --list
  $copy/build/tests/mutants/list
  cat $d/reached.* | grep -E '^(barrier dropped|coefficient): ' | sort -u -V |
    sed "s|^barrier.*|&	$barriers|; s|^coefficient.*|&	src/dsl/functions.def|"; } > $d/all
twice=$(cut -f 1 $d/all | sort | uniq -d | head -n 1)
[ -z "$twice" ] || { echo "two faults are named '$twice'"; echo "0 passed, 1 failed"; exit 1; }
share=950
if [ -f "$list.only" ]; then
  share=1000
  grep -v '^#' "$list.only" > $d/only
  awk -F '\t' 'NR == FNR { by[$0] = 1; next } $1 in by' $d/only $d/all > $d/some
  unknown=$(cut -f 1 $d/all | grep -vxFf - $d/only | head -n 1)
  [ -z "$unknown" ] || { echo "$list.only: there is no fault '$unknown'"; echo "0 passed, 1 failed"; exit 1; }
  mv $d/some $d/all
elif [ "$list" != tests/mutants/tests ]; then
  cat $d/reached.* | sort -u > $d/come_by
  awk -F '\t' 'NR == FNR { by[$0] = 1; next } $1 in by' $d/come_by $d/all > $d/some
  mv $d/some $d/all
fi
if [ -f "$list.beside" ]; then   # faults that the list's tests cannot see
  grep -v '^#' "$list.beside" > $d/beside
  grep -vf $d/beside $d/all > $d/some || true
  echo "$(($(grep -c . $d/all) - $(grep -c . $d/some))) faults are beside what $list is for ($list.beside)"
  mv $d/some $d/all
fi
{ [ -z "$again" ] && cut -f 1 $d/all || sed -n 's/\t-$//p' $d/result; } |
  { [ -z "$words" ] && cat || grep -F -- "$words"; } > $d/chosen
if [ -n "$sample" ]; then
  awk -v n="$sample" -v s="$seed" '
    BEGIN { srand(s) } { l[NR] = $0 }
    END { for (i = NR; i > 1; i--) { k = int(rand() * i) + 1; t = l[i]; l[i] = l[k]; l[k] = t }
          for (i = 1; i <= n && i <= NR; i++) print l[i] }' $d/chosen > $d/some
  mv $d/some $d/chosen
fi

export MUTANTS_LIST="$list" MUTANTS_STATE="$d"
start=$(date +%s)
tr '\n' '\0' < $d/chosen | xargs -0 -P "$jobs" -I '{}' sh tests/mutants/run.sh --one '{}' "$most" > $d/result
while IFS="$(printf '\t')" read -r name by; do
  [ "$by" = - ] || continue
  at=$(awk -F '\t' -v n="$name" '$1 == n { print $2 }' $d/all)
  cat $d/reached.* | grep -qxF "$name" && how= || how=" (no test comes by)"
  echo "$at: survives: $name$how"
done < $d/result
killed=$(grep -cv '	-$' $d/result || true) all=$(grep -c . $d/result || true)
echo "$killed of $all faults noticed, $((all ? 1000 * killed / all : 0)) of 1000, in $(($(date +%s) - start)) s"
[ "$all" -gt 0 ] && [ $((1000 * killed)) -ge $((share * all)) ] && failed=0 || failed=$((all - killed))
echo "$killed passed, $failed failed"
[ "$killed" -gt 0 ] && [ "$failed" = 0 ]
