#!/bin/sh
# SPDX-License-Identifier: MIT
# Writes C that holds the programs given, by the names of their files, in order.
echo '#include <stddef.h>'
echo '#include "polybench/polybench.h"'
echo 'const polybench_text polybench_texts[] = {'
for f in "$@"; do
  echo "{\"$(basename "$f" .tg)\","
  sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' "$f"
  echo '},'
done
echo '{NULL, NULL}};'
