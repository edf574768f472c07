/* SPDX-License-Identifier: MIT
 * The table of matrix instructions, and look-ups in it. */
#include <stdlib.h>
#include "target/matrix.h"

/* What the bits of gfx94's own 8-bit floats are (bias one more than OCP's; 0x80 is the only NaN, and there is no
 * -0). */
#define FNUZ(x, bits, field, half, bias, tiny)                                                                         \
  "where(" x " == 128, f32(nan), where(" x " < 128, 1.0f, -1.0f) * where((" x " & " field ") == 0, f32(" x " & " half  \
  ") * " tiny ", bitcast(f32, (u32(" x " & 127) << " bits ") + " bias ")))"
#define E4M3FNUZ(x) FNUZ(x, "20", "120", "7", "998244352", "0.0009765625f")
#define E5M2FNUZ(x) FNUZ(x, "21", "124", "3", "931135488", "0.00000762939453125f")
#define NORMAL(x) "where(abs(" x ") < 1.17549435e-38f, 0.0f, " x ")"
#define TF32(x) "bitcast(f32, bitcast(u32, " x ") & 4294959104)"

static const tg_matrix_row rows[] = {
#define ROW(name, targets, m, n, k, ta, tb, tc, meaning, a, b, c, form, code, operands, source) \
  {name, targets, m, n, k, TG_##ta, TG_##tb, TG_##tc, meaning, a, b, c, TG_MATRIX_##form, code, operands, source},
#include "target/matrix.def"
#undef ROW
};

const tg_matrix_row *tg_matrix_at(uint32_t i) { return i < TG_COUNT(rows) ? &rows[i] : NULL; }

const tg_matrix_row *tg_matrix_find(const char *name) {
  for (uint32_t i = 0; i < TG_COUNT(rows); i++)
    if (!strcmp(rows[i].name, name)) return &rows[i];
  return NULL;
}

static bool is_word(const char *list, const char *word) {
  size_t n = strlen(word);
  for (const char *s = strstr(list, word); s; s = strstr(s + 1, word))
    if ((s == list || s[-1] == ' ') && (!s[n] || s[n] == ' ')) return true;
  return false;
}

bool tg_matrix_on(const tg_matrix_row *r, const tg_target *t) {
  if (!strncmp(r->targets, "sm_", 3))
    return t->arch == TG_ARCH_NVPTX && strtol(t->cpu + 3, NULL, 10) >= strtol(r->targets + 3, NULL, 10);
  if (!strcmp(r->targets, "amx-int8")) return t->arch == TG_ARCH_X86_64 && t->tile_i8;
  if (!strcmp(r->targets, "avx512bf16")) return t->arch == TG_ARCH_X86_64 && t->dot_bf16;
  if (!strcmp(r->targets, "avx512vnni")) return t->arch == TG_ARCH_X86_64 && t->dot_u8s8;
  return is_word(r->targets, t->name);
}

bool tg_matrix_is_plain(const tg_matrix_row *r) {
  static const char *const plain[] = {SUM_F32, SUM_F16, SUM_I32, SUM_F64};
  for (uint32_t i = 0; i < TG_COUNT(plain); i++)
    if (!strcmp(r->meaning, plain[i])) return true;
  return false;
}

tg_layout tg_matrix_layout(const tg_matrix_row *r, int which) {
  tg_layout l;
  tg_layout_parse(which == 0 ? r->a : which == 1 ? r->b : r->c, &l);   /* tests parse every row */
  return l;
}

uint32_t tg_matrix_registers(const tg_matrix_row *r, int which) {
  tg_layout l = tg_matrix_layout(r, which);
  return tg_layout_count(&l, TG_IN_REG);
}

uint32_t tg_matrix_lanes(const tg_matrix_row *r) {
  tg_layout l = tg_matrix_layout(r, 2);
  return tg_layout_count(&l, TG_IN_LANE);
}

tg_type tg_matrix_type(const tg_matrix_row *r, int which) {
  return which == 0 ? r->a_type : which == 1 ? r->b_type : r->c_type;
}
