/* SPDX-License-Identifier: MIT
 * tg replay's matrix products: descriptors that together reach every sketch, each as the kernels that its plan
 * compiles, and as each sketch by itself. */
#include <stdio.h>
#include <string.h>
#include "gemm/plan.h"
#include "gemm/sketch.h"
#include "replay.h"

enum { COLUMN = TG_COLUMN_MAJOR, STRIDES = TG_ANY_STRIDES, MANY = 1 << 30 };

/* packed: B comes packed ahead, as tg_gemm_packing_choose has it. */
static const struct {
  const char *name;
  bool packed;
  tg_gemm_desc d;
} cases[] = {
    {"square-f32-nn", false, {.m = {768, 0}, .n = {768, 0}, .k = {768, 0}, .threads = REPLAY_THREADS}},
    {"rows-f32-nt-bias", false,
        {.b_major = COLUMN,
            .m = {1, 8192},
            .n = {4096, 0},
            .k = {4096, 0},
            .epilogue = "max(acc + bias, 0)",
            .arg = {{"bias", 0, TG_PER_COLUMN}},
            .threads = REPLAY_THREADS}},
    {"any-f64-tn-alpha-beta", false,
        {.a = TG_F64,
            .a_major = COLUMN,
            .alpha = 1,
            .beta = 1,
            .m = {0, MANY},
            .n = {0, MANY},
            .k = {0, MANY},
            .threads = REPLAY_THREADS}},
    {"small-f32-tt-ld", false,
        {.a_major = COLUMN,
            .b_major = COLUMN,
            .beta = 1,
            .m = {24, 0},
            .n = {20, 0},
            .k = {28, 0},
            .a_ld = {24, 0},
            .b_ld = {28, 0},
            .c_ld = {20, 0}}},
    {"f16-nn-scale-rest", false,
        {.a = TG_F16,
            .m = {128, 0},
            .n = {512, 0},
            .k = {512, 0},
            .epilogue = "acc * scale + rest",
            .arg = {{"scale", 0, TG_PER_ROW}, {"rest", TG_F16, TG_PER_ELEMENT}}}},
    {"bf16-nt-flush", false,
        {.a = TG_BF16,
            .b_major = COLUMN,
            .m = {256, 0},
            .n = {1024, 0},
            .k = {1024, 0},
            .flags = TG_GEMM_FLUSH_SUBNORMALS}},
    {"u8i8-nn", false,
        {.a = TG_U8, .b = TG_I8, .m = {256, 0}, .n = {1024, 0}, .k = {1024, 0}, .threads = REPLAY_THREADS}},
    {"i8i8-nt-rows-beta", false,
        {.a = TG_I8,
            .b = TG_I8,
            .b_major = COLUMN,
            .alpha = 1,
            .beta = 1,
            .m = {1, 24},
            .n = {1024, 0},
            .k = {1024, 0}}},
    {"i4-groups-packed", true,
        {.m = {1, 64},
            .n = {4096, 0},
            .k = {4096, 0},
            .b_bits = 4,
            .b_group = 32,
            .b_scale = TG_F16,
            .threads = REPLAY_THREADS}},
    {"i4-groups-zeros-nt", false,
        {.a = TG_BF16,
            .c = TG_F32,
            .b = TG_U8,
            .b_major = COLUMN,
            .m = {1, 4},
            .n = {1000, 0},
            .k = {1024, 0},
            .b_bits = 4,
            .b_group = 128,
            .b_zero = TG_U8,
            .b_group_major = COLUMN}},
    {"strides-f32-beta", false,
        {.a_major = STRIDES, .c_step = 2, .beta = 1, .m = {1, 300}, .n = {1, 300}, .k = {1, 300}}},
    {"long-f32-tn", false, {.a_major = COLUMN, .m = {8, 0}, .n = {8, 0}, .k = {1 << 20, 0}, .threads = REPLAY_THREADS}},
    {"packed-f32-rows", true, {.m = {1, 512}, .n = {1024, 0}, .k = {1024, 0}, .threads = REPLAY_THREADS}},
    {"invariant-f32-batch", false, {.m = {1, 256}, .n = {512, 0}, .k = {512, 0}, .flags = TG_GEMM_BATCH_INVARIANT}},
    {"column-f64-nn", false, {.a = TG_F64, .m = {1, 4096}, .n = {1, 0}, .k = {1, 4096}, .alpha = 1}},
};

/* ---- one kernel, as plan.c compiles it ---- */

static bool add(replay_code *r, const tg_gemm *g, const tg_gemm_problem *q, const tg_kit_choice *choice) {
  tg_binding b[GEMM_VALUES + TG_KIT_KNOBS];
  uint32_t n = tg_gemm_bind(g, q, b);
  tg_gemm_def def;
  for (uint32_t i = 0; i < choice->knobs_n; i++) b[n++] = choice->knob[i];
  tg_gemm_kernel_of(q, choice->sketch, &def);
  tg_compile_options o = {.bindings = b, .bindings_n = n, .user = (void *)(uintptr_t)q};
  return replay_add(r, &(tg_kernel_source){.def = &def.def, .options = &o});
}

static void add_or_plain(replay_code *r, const tg_gemm *g, const tg_gemm_problem *q, const tg_kit_choice *choice) {
  const tg_kit_choice plain = {.sketch = tg_gemm_plain.kernel};
  if (add(r, g, q, choice) || choice->sketch == plain.sketch || (q->panel && !q->bits)) return;
  if (r->refused != TG_EINVAL && r->refused != TG_ELIMIT) return;
  r->refused = TG_OK;
  replay_note(r, "refused, so plain:\n");
  add(r, g, q, &plain);
}

static void add_cases(replay_code *r, const tg_gemm *g, tg_gemm_problem q, const tg_kit_choice *choice) {
  bool beta = q.beta;
  for (int b = 0; b <= beta && !r->refused && !r->object_refused; b++) q.beta = b, add_or_plain(r, g, &q, choice);
}

static void add_part(replay_code *r, const tg_gemm *g, const tg_kit_part *part) {
  tg_gemm_problem q = tg_gemm_of_part(g, part);
  if (part->strips.n < 2) {
    add_cases(r, g, q, &part->choice);
    return;
  }
  tg_gemm_problem first = tg_gemm_strip(&q, &part->strips, 0),
                  last = tg_gemm_strip(&q, &part->strips, part->strips.n - 1);
  add_cases(r, g, first, &part->choice);
  if (first.m.lo != last.m.lo || first.n.lo != last.n.lo) add_cases(r, g, last, &part->last_choice);
}

/* C = beta C. */
static void add_nothing(replay_code *r, const tg_gemm *g) {
  const tg_kit_choice plain = {.sketch = tg_gemm_plain.kernel};
  tg_gemm_problem q = g->problem;
  if ((!q.alpha && q.k.lo) || !q.m.hi || !q.n.hi) return;
  q.k = (tg_kit_dim){0, 0};
  q.alpha = false;
  if (q.bits) q.bits = 0, q.b = q.a;
  q.panel = 0;
  add_cases(r, g, q, &plain);
}

static bool lay_out(replay_code *r, const tg_gemm_desc *d, tg_gemm *g) {
  tg_status s = tg_gemm_lay_out(r->context, d, g);
  if (s == TG_OK) return true;
  r->refused = s;
  snprintf(r->message, sizeof r->message, "%s", tg_error_message(r->context));
  return false;
}

/* Parts by their sizes, so that where a range is cut shows as well. */
void replay_plan(replay_code *r, const tg_gemm_desc *d) {
  tg_gemm g;
  char text[200];
  if (!lay_out(r, d, &g)) return;
  for (uint32_t i = 0; i < g.parts_n && !r->refused && !r->object_refused; i++) {
    const tg_kit_part *p = &g.part[i];
    snprintf(text, sizeof text, "part %lld..%lld x %lld..%lld x %lld..%lld in %u strips\n", (long long)p->size[0].lo,
        (long long)p->size[0].hi, (long long)p->size[1].lo, (long long)p->size[1].hi, (long long)p->size[2].lo,
        (long long)p->size[2].hi,
        p->strips.n > 1 ? p->strips.n : 1);
    replay_note(r, text);
    add_part(r, &g, p);
  }
  if (!r->refused && !r->object_refused) add_nothing(r, &g);
}

/* ---- a sketch by itself, for the last of the plan's parts ---- */

static bool add_sketch(replay_code *r, const tg_gemm_desc *d, const char *sketch) {
  tg_gemm g;
  if (!lay_out(r, d, &g)) return true;
  const tg_kit_part *part = &g.part[g.parts_n - 1];
  tg_gemm_problem q = tg_gemm_of_part(&g, part);
  tg_kit_choice choice;
  tg_gemm_def def[GEMM_SKETCHES];
  const tg_kernel_def *defs[GEMM_SKETCHES];
  uint32_t at = 0, n = tg_gemm_sketches_for(&g, &q, &part->choice, def, defs);
  while (tg_gemm_sketches[at] && strcmp(tg_gemm_sketches[at]->kernel->name, sketch)) at++;
  if (!tg_gemm_sketches[at]) return false;
  for (uint32_t i = 0; i < n; i++) {
    if (strcmp(defs[i]->name, sketch)) continue;
    tg_gemm_choose_knobs(&q, &r->context->target, g.plan.most, tg_gemm_sketches[at], &choice);
    add(r, &g, &q, &choice);
    return true;
  }
  r->refused = TG_EINVAL;
  snprintf(r->message, sizeof r->message, "%s is no sketch for this problem", sketch);
  return true;
}

bool replay_gemm(replay_code *r, const char *name) {
  size_t n = strcspn(name, ":");
  for (uint32_t i = 0; i < TG_COUNT(cases); i++) {
    tg_gemm_desc d = cases[i].d;
    tg_gemm_packing packing;
    if (strncmp(name, cases[i].name, n) || cases[i].name[n]) continue;
    if (cases[i].packed) {
      if (tg_gemm_packing_choose(r->context, &d, 1, &packing)) return false;
      d.packing = &packing;
    }
    if (name[n]) return add_sketch(r, &d, name + n + 1);
    replay_plan(r, &d);
    return true;
  }
  return false;
}

void replay_gemm_list(void) {
  for (uint32_t i = 0; i < TG_COUNT(cases); i++) {
    printf("gemm:%s\n", cases[i].name);
    for (uint32_t k = 0; tg_gemm_sketches[k]; k++)
      printf("gemm:%s:%s\n", cases[i].name, tg_gemm_sketches[k]->kernel->name);
  }
}
