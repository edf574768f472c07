# SPDX-License-Identifier: MIT
# Of an assembler's text: the innermost loop with the most multiply-adds. Its first line is their number and that of all instructions; then the instructions.
/^\.[A-Za-z0-9_]+:/ { label = $1; sub(/:.*/, "", label); at[label] = n }
/^\t[a-z]/ {
  op[++n] = $1; text[n] = $0
  for (i = 2; i <= NF; i++) if ($i in at) { from[++loops] = at[$i] + 1; to[loops] = n }
}
END {
  for (k = 1; k <= loops; k++) {
    inner = 1; adds = 0
    for (m = 1; m <= loops; m++) if (m != k && from[m] >= from[k] && to[m] <= to[k]) inner = 0
    for (i = from[k]; inner && i <= to[k]; i++) adds += op[i] ~ /^(fmla|vfmadd)/
    if (adds > most) { most = adds; best = k }
  }
  if (!most) exit 1
  print most, to[best] - from[best] + 1
  for (i = from[best]; i <= to[best]; i++) print text[i]
}
