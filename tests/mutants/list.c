/* SPDX-License-Identifier: MIT
 * The faults that are rows of the product's tables, one name a line, behind it a tab and the file: rules, and the
 * digits of matrix instructions' layouts. */
#include <stdio.h>
#include "ranges/rules.h"
#include "target/matrix.h"

static void list_rules(void *arg) {
  tg_job *j = arg;
  const tg_rules *rs = tg_rules_compile(&j->env);
  for (uint32_t i = 0; i < rs->n; i++) {
    printf("rule off: %s\tsrc/ranges/rules.def\n", rs->rule[i].name);
    if (rs->rule[i].condition >= 0) printf("rule without its condition: %s\tsrc/ranges/rules.def\n", rs->rule[i].name);
  }
}

int main(void) {
  static tg_job j;
  tg_job_init(&j, NULL);
  bool ok = tg_protect(&j.env, list_rules, &j);
  tg_job_drop(&j);
  for (uint32_t r = 0; tg_matrix_at(r); r++)
    for (int which = 0; which < 3; which++) {
      tg_layout l = tg_matrix_layout(tg_matrix_at(r), which);
      uint32_t n = 0;
      for (uint32_t d = 0; d < l.rank; d++) n += l.dim[d].n;
      if (n <= 2) n /= 2;   /* to and fro is one swap */
      for (uint32_t i = 0; i < n; i++) printf("layout digits swapped in %c: %s %u\tsrc/target/matrix.def\n", "abc"[which], tg_matrix_at(r)->name, i);
    }
  return !ok;
}
