#!/bin/sh
# SPDX-License-Identifier: MIT
# The public headers of a later release: writes to DIR/tg those of this one with two fields appended to each struct that may grow: those that a program
# gives to the library (given), or also those that it only reads (all).
#   sh tests/api/grown.sh DIR given|all
set -eu
given="context_options compile_options launch tune_options queue_options graph_replay program_options program_call gemm_desc gemm_call
attention_desc attention_call attention_merge_call nn_desc nn_call timing device_info program_info gemm_info attention_info nn_info"
read="kernel_info compile_report tune_result tune_progress built"
case $2 in given) grow=$given ;; all) grow="$given $read" ;; *) exit 2 ;; esac
mkdir -p "$1/tg"
for h in include/tg/*.h; do
  awk -v names="$(echo $grow)" 'BEGIN { n = split(names, part, " "); for (i = 1; i <= n; i++) grows["tg_" part[i]] = 1 }
    match($0, /^} tg_[a-z_]+;/) { name = substr($0, 3, RLENGTH - 3); if (name in grows) print "  uint64_t appended[2];" }
    match($0, /^typedef struct tg_[a-z_]+ \{.*\} tg_[a-z_]+;/) {
      name = $0; sub(/^.*} */, "", name); sub(/;.*/, "", name)
      if (name in grows) sub(/\} tg_[a-z_]+;/, "uint64_t appended[2]; } " name ";")
    }
    { print }' "$h" > "$1/tg/${h##*/}"
done
n=$(grep -hc 'uint64_t appended\[2\];' "$1"/tg/*.h | awk '{ n += $1 } END { print n }')
[ "$n" = "$(echo $grow | wc -w)" ] || { echo "grown: $n structs grew, of $(echo $grow | wc -w)"; exit 1; }
