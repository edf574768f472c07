/* SPDX-License-Identifier: MIT
 * What src/target/matrix.c needs for the faults "layout digits swapped in OPERAND: ROW N": a copy with faults includes
 * it there. */
/* Digit n of the operand lies where the one behind it should, and that one where digit n should. */
static void swap_digits(const tg_matrix_row *r, int which, tg_layout *l) {
  static const char *const name[] = {"layout digits swapped in a",
                                    "layout digits swapped in b", "layout digits swapped in c"};
  tg_layout_digit *d[TG_LAYOUT_DIMS * TG_LAYOUT_DIGITS];
  uint32_t n = 0;
  for (uint32_t i = 0; i < l->rank; i++)
    for (uint32_t k = 0; k < l->dim[i].n; k++) d[n++] = &l->dim[i].digit[k];
  for (uint32_t i = 0; i < n && n > 1; i++) {
    tg_layout_digit *x = d[i], *y = d[(i + 1) % n], t = *x;
    if ((n == 2 && i) || !tg_mutant_on(name[which], r->name, (long)i)) continue;
    x->place = y->place, x->stride = y->stride;
    y->place = t.place, y->stride = t.stride;
  }
}
