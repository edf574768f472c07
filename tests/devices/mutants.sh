#!/bin/sh
# SPDX-License-Identifier: MIT
# Which faults of the drivers do their tests notice? Plants those of tests/mutants/faults that lie in src/devices in a copy of that folder alone, links the tests of drivers
# with it, and turns on one fault after another until something is red. Of all, 95 of 100 must be noticed; of a few drawn ones, at most one may not be. Each that nothing
# notices is named. Those that no test of this machine comes by (OpenCL's, where there is no device) are told and not counted. Without --all only quick tests are run,
# those of NVIDIA's driver and of AMD's, on faults that they come by. What checks the arguments of a launch (signature.c) has other tests.
#   sh tests/devices/mutants.sh [--number N] [--seed N] [--all] [WORDS]      5, 1; WORDS: those whose names contain them
set -u
cd "$(dirname "$0")/../.."
. tests/folder.sh
b=${BUILD:-build} number=5 seed=1 words= whole=
while [ $# -gt 0 ]; do
  case $1 in
    --number) number=$2; shift 2 ;;
    --seed) seed=$2; shift 2 ;;
    --all) number=100000 whole=1; shift ;;
    *) words=$1; shift ;;
  esac
done
t=$(mktemp -d) passed=0 failed=0
trap 'rm -rf "$t"' EXIT
cc=$(sed -n 's/^cc = //p' "$b/config.ninja") flags=$(sed -n 's/^cflags = //p' "$b/config.ninja")

# The copy, and its objects, which come before those of the library.
mkdir -p "$t/tree" "$t/tests"
{ ls src/devices/*.c src/devices/*/*.c; echo src/base/system.c; } > "$t/files"
"$b/tests/mutants_plant" "$t/tree" < "$t/files" > "$t/out" || { cat "$t/out"; echo "0 passed, 1 failed"; exit 1; }
while read -r f; do
  o=$t/$(echo "$f" | tr / _).o
  # shellcheck disable=SC2086
  $cc -std=c11 -O1 $flags -DTG_MUTANTS -w -I. -Isrc -Iinclude -Isrc/base -include tests/mutants/mutant.h -c "$t/tree/$f" -o "$o" || { echo "$f: the copy does not compile"; echo "0 passed, 1 failed"; exit 1; }
done < "$t/files"
for d in cuda drm devices; do ln -s "$PWD/$b/tests/$d" "$t/tests/$d"; done
file=build.ninja; [ "$b" = build ] || file=$b/build.ninja
programs="devices_pool devices_marks devices_place devices_queues drm_device cuda_faults cuda_chip"
[ -z "$whole" ] || programs="$programs devices_host library_launch drm_corpus cuda_device devices_opencl"
for p in $programs; do
  command=$(ninja -f "$file" -t commands -s "$b/tests/$p" | tail -n 1 | sed "s| -o $b/tests/$p | -o $t/tests/$p $t/*.o |")
  eval "$command" || { echo "$p cannot be linked"; echo "0 passed, 1 failed"; exit 1; }
done

# What is run, the quick ones first.
cat > "$t/list" <<'LIST'
devices_pool
devices_marks
devices_place
devices_queues cpu
devices_queues cuda
drm_device
cuda_chip
cuda_faults --seeds 3
LIST
[ -z "$whole" ] || cat >> "$t/list" <<'LIST'
devices_host
library_launch
cuda_device tests/corpus/chained.tg tests/corpus/softmax.tg tests/corpus/matmul_tiled.tg tests/corpus/barrier.tg tests/ptx/gpu/matmul_words.tg tests/ptx/gpu/sum_all.tg
drm_corpus tests/corpus/chained.tg tests/corpus/softmax.tg tests/corpus/matmul_tiled.tg tests/corpus/barrier.tg
devices_queues opencl
devices_opencl tests/corpus/phases_triangle.tg tests/corpus/phases_jacobi.tg tests/corpus/phases_team.tg tests/corpus/matmul_runtime.tg tests/corpus/copies_ring.tg tests/corpus/sgemm_packed.tg
devices_opencl --every 50
LIST
n=0
while read -r p args; do
  n=$((n + 1))
  # shellcheck disable=SC2086
  start=$(date +%s)
  (export TG_MUTANT_REACHED="$t/reached.$n"; case $args in cuda) export LD_LIBRARY_PATH="$PWD/$b/tests/cuda" ;; esac; timeout 600 "$t/tests/$p" $args > "$t/out" 2>&1 < /dev/null)
  status=$?
  echo $((10 * ($(date +%s) - start) + 120)) > "$t/limit.$n"   # a fault that hangs, not a machine that is busy
  [ $status = 0 ] || : > "$t/reached.$n"
  [ $status = 0 ] || [ $status = 77 ] || { tail -n 3 "$t/out"; echo "$p $args is red without a fault"; failed=$((failed + 1)); }
done < "$t/list"
"$b/tests/mutants_plant" --list | grep '	src/devices/' | grep -v '	src/devices/signature' | grep -F -- "$words" > "$t/all"
cut -f 1 "$t/all" | sort > "$t/names"
cat "$t"/reached.* | sort -u | comm -12 - "$t/names" > "$t/come_by"
comm -23 "$t/names" "$t/come_by" > "$t/not"
awk -v s="$seed" 'BEGIN { srand(s) } { l[NR] = $0 } END { for (i = NR; i > 1; i--) { k = int(rand() * i) + 1; x = l[i]; l[i] = l[k]; l[k] = x } for (i = 1; i <= NR; i++) print l[i] }' "$t/come_by" | head -n "$number" > "$t/chosen"

while read -r name; do
  n=0 by=
  while read -r p args; do
    n=$((n + 1))
    grep -qxF -- "$name" "$t/reached.$n" || continue
    # shellcheck disable=SC2086
    (export TG_MUTANT="$name"; case $args in cuda) export LD_LIBRARY_PATH="$PWD/$b/tests/cuda" ;; esac; timeout "$(cat "$t/limit.$n")" "$t/tests/$p" $args > /dev/null 2>&1 < /dev/null) || { by=$p; break; }
  done < "$t/list"
  if [ -n "$by" ]; then passed=$((passed + 1))
  else failed=$((failed + 1)); echo "survives: $name ($(grep -F -- "$name	" "$t/all" | cut -f 2))"; fi
done < "$t/chosen"
all=$((passed + failed))
[ -z "$whole" ] || sed 's/^/no test comes by: /' "$t/not"
echo "$passed of $all faults noticed, of $(grep -c . "$t/names") in the list; by $(grep -c . "$t/not") no test comes here"
[ $((100 * passed)) -ge $((95 * all)) ] || [ $failed -le 1 ] && failed=0
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
