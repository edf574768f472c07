# SPDX-License-Identifier: MIT
# Sourced from the root of the source by scripts that make folders and files of their own: TMPDIR is where there is room for them, and for what compilers put aside. /tmp may be full, or another's.
for d in "${TMPDIR:-/tmp}" /tmp /var/tmp /dev/shm "$PWD/build"; do
  free=$(df -Pk "$d" 2>/dev/null | awk 'NR == 2 { print $4 }')
  [ -w "$d" ] && [ "${free:-0}" -gt 262144 ] && probe=$(mktemp "$d/tg-probe-XXXXXX" 2>/dev/null) || continue   # a file: there may be room, and no files left
  rm -f "$probe"
  [ "$d" = "${TMPDIR:-/tmp}" ] || { echo "files of tests go to $d: there is no room in ${TMPDIR:-/tmp}"; TMPDIR=$d; export TMPDIR; }
  break
done
export TG_TUNED=   # and no choices that their user has tuned, or machine that was measured
