/* SPDX-License-Identifier: MIT
 * First choices of attention for every processor of the table: the tile fits the registers, the lanes fit the vectors
 * and the heads, and the words are legal for every variant, down to the linear program. */
#include <stdlib.h>
#include "../library/kit.h"
#include "../rows.h"
#include "../test.h"
#include "attention/template.h"
#include "tg/attention.h"

static int64_t knob(const tg_kit_choice *c, const char *name) { return tg_kit_knob_of(c, name, 0); }

static void check_choice(const tg_attention_problem *p, const tg_target *t) {
  tg_kit_choice c;
  int64_t most = tg_attention_choose(p, t, &c), lanes = t->vector_bytes / 4, rows = p->rows.hi;
  CHECK(most >= 1 && most <= 256, "%s: %lld rows a run", t->name, (long long)most);
  CHECK(rows > 96 || most >= rows || most >= 64, "%s: %lld of %lld rows a run", t->name, (long long)most,
        (long long)rows);
  CHECK(knob(&c, "VL") == lanes, "%s: %lld lanes", t->name, (long long)knob(&c, "VL"));
  CHECK(64 % knob(&c, "KT") == 0, "%s: tiles of %lld keys", t->name, (long long)knob(&c, "KT"));
  if (c.sketch == tg_attention_decode) {
    int64_t dl = knob(&c, "DL");
    CHECK(rows <= 8 && dl >= 4 && dl <= lanes && p->head % dl == 0 && p->value_head % dl == 0,
          "%s: %lld lanes of heads of %lld", t->name, (long long)dl, (long long)p->head);
    CHECK(knob(&c, "BQ") >= rows && most == knob(&c, "BQ"), "%s: %lld rows", t->name, (long long)knob(&c, "BQ"));
    return;
  }
  int64_t nv = knob(&c, "NV"), kt = knob(&c, "KT");
  CHECK(nv * kt + nv + 1 <= t->vector_registers, "%s: a tile of %lld by %lld", t->name, (long long)nv, (long long)kt);
  CHECK(most == nv * lanes * knob(&c, "G"), "%s: %lld rows", t->name, (long long)most);
}

/* A run of no more rows than the largest is one run. */
static void check_ranges(int64_t head, const tg_target *t) {
  tg_attention_problem p = {.head = head, .value_head = head, .rows = {1, 1 << 20}};
  tg_kit_choice c;
  int64_t largest = tg_attention_choose(&p, t, &c);
  for (p.rows.hi = 1; p.rows.hi <= largest; p.rows.hi++) {
    int64_t most = tg_attention_choose(&p, t, &c);
    CHECK(most >= p.rows.hi, "%s, head %lld: %lld of %lld rows", t->name, (long long)head, (long long)most,
          (long long)p.rows.hi);
  }
}

/* Keys that no L2 holds are read for twice as many rows, but not if Q and O of these would leave it. */
static void check_far_keys(const tg_target *t) {
  tg_kit_choice c;
  tg_attention_problem p = {.q = TG_F32, .k = TG_F32, .v = TG_F32, .o = TG_F32, .head = 64, .value_head = 64,
                            .rows = {1, 4096}, .keys = {1, 256}};
  int64_t near = tg_attention_choose(&p, t, &c);
  p.keys.hi = 1 << 20;
  int64_t far = tg_attention_choose(&p, t, &c);
  CHECK(t->l2 < 256 << 10 || (far > near && far <= 2 * near), "%s: %lld rows share keys of L2, %lld others", t->name, (long long)near,
        (long long)far);
  p.mask = TG_BOOL;
  CHECK(tg_attention_choose(&p, t, &c) == near, "%s: a mask has other rows", t->name);
  p.mask = 0, p.head = p.value_head = (int64_t)t->l2 / 256;
  far = tg_attention_choose(&p, t, &c);
  p.keys.hi = 1;
  CHECK(far == tg_attention_choose(&p, t, &c), "%s: Q and O of long heads leave L2", t->name);
}

typedef struct { kit_path path; tg_job job; tg_attention_problem p; } lowering;

static void lower(void *user) {
  lowering *l = user;
  tg_kit_choice c;
  tg_attention_def def;
  tg_binding b[ATTENTION_VALUES + TG_KIT_KNOBS];
  tg_attention_choose(&l->p, &l->path.target, &c);
  tg_attention_kernel_of(&l->p, c.sketch, &def);
  uint32_t n = tg_attention_bind(&l->p, c.sketch, b);
  for (uint32_t i = 0; i < c.knobs_n; i++) b[n++] = c.knob[i];
  tg_author(&l->job, &def.def, n, b, &l->p);
  kit_lower(&l->path, &l->job, true, NULL, NULL);
}

static void check_words(lowering *l, const char *what) {
  tg_job_init(&l->job, NULL);
  bool ok = tg_protect(&l->job.env, lower, l);
  CHECK(ok, "%s on %s, head %lld, %lld rows: %s", what, l->path.target.name, (long long)l->p.head,
        (long long)l->p.rows.hi, l->job.env.message);
  tg_job_drop(&l->job);
}

static void check_variants(lowering *l) {
  static const int64_t rows[][2] = {{1, 1}, {3, 4}, {9, 16}, {17, 50}, {33, 96}};
  for (uint32_t r = 0; r < TG_COUNT(rows); r++) {
    const tg_attention_problem plain = {.q = TG_F32, .k = TG_F32, .v = TG_F32, .o = TG_F32, .head = 80,
                                        .value_head = 80, .rows = {rows[r][0], rows[r][1]}, .keys = {64, 1 << 20}};
    l->p = plain;
    check_words(l, "full");
    l->p.causal = l->p.lse = l->p.alibi = true;
    check_words(l, "causal, ALiBi");
    l->p.window = true;
    l->p.k = l->p.v = TG_F16;
    check_words(l, "causal, window");
    l->p = plain;
    l->p.mask_mod = "k % 3 != q % 2", l->p.lists = rows[r][0] > 16, l->p.v = TG_BF16, l->p.head = 36, l->p.value_head = 20;
    check_words(l, "modified");
  }
}

int main(void) {
  static const char *const some[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "armv8-a"};
  static const int64_t heads[] = {8, 10, 40, 64, 72, 80, 96, 112, 128, 256, 512},
                       rows[] = {1, 2, 3, 5, 8, 9, 16, 17, 24, 33, 64, 96, 100, 4096};
  static lowering l;
  static tg_target row[ROWS];
  uint32_t n = rows_of_processors(row);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t h = 0; h < TG_COUNT(heads); h++) {
      if (!h) check_far_keys(&row[i]);
      check_ranges(heads[h], &row[i]);
      for (uint32_t r = 0; r < TG_COUNT(rows); r++)
        check_choice(&(tg_attention_problem){.head = heads[h], .value_head = heads[h], .rows = {1, rows[r]}}, &row[i]);
    }
  CHECK(n > 8, "%u processors", n);
  for (uint32_t i = 0; i < TG_COUNT(some); i++) {
    CHECK(kit_path_open(&l.path, some[i]), "no way to %s", some[i]);
    check_variants(&l);
    kit_path_close(&l.path);
  }
  return TEST_END();
}
