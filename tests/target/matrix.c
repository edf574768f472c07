/* SPDX-License-Identifier: MIT
 * Every row of the table of matrix instructions. Its layouts parse and are bijections up to copies; the interpreter's own table,
 * which is made of the vendors' formulas, agrees about every register of every lane; and a program that loads the operands by the
 * layouts, runs the instruction and stores its result by the layout computes what the row's meaning says as a program. */
#include <math.h>
#include <stdlib.h>
#include "dsl/text.h"
#include "dsl/value.h"
#include "interp/code.h"
#include "target/matrix.h"
#include "../test.h"

/* ---- the two tables ---- */

static void check_layout(const tg_matrix_row *r, int which) {
  static const char *const dims[] = {"ik", "kj", "ij"};
  const char *text = which == 0 ? r->a : which == 1 ? r->b : r->c;
  uint32_t size[2] = {which == 1 ? r->k : r->m, which == 0 ? r->k : r->n};
  tg_layout l, again;
  char out[128];
  bool parsed = tg_layout_parse(text, &l);
  CHECK(parsed && l.rank == 2 && l.dim[0].name == dims[which][0] && l.dim[1].name == dims[which][1], "%s: '%s'", r->name, text);
  CHECK(parsed && tg_layout_size(&l, 0) == size[0] && tg_layout_size(&l, 1) == size[1], "%s: '%s' is %u x %u", r->name, text, tg_layout_size(&l, 0), tg_layout_size(&l, 1));
  CHECK(tg_layout_is_whole(&l), "%s: '%s' is no bijection", r->name, text);
  tg_layout_text(&l, out, sizeof out);
  CHECK(tg_layout_parse(out, &again) && tg_layout_equal(&l, &again), "%s: '%s' reads '%s'", r->name, text, out);
}

static void check_agreement(const tg_matrix_row *r, const tg_instruction *x, int which) {
  tg_layout l = tg_matrix_layout(r, which);
  uint32_t lanes = tg_instruction_lanes(x), regs = tg_instruction_registers(x, which), wrong = 0;
  CHECK(lanes == tg_layout_count(&l, TG_IN_LANE) && regs == tg_layout_count(&l, TG_IN_REG), "%s: %u lanes of %u registers", r->name, lanes, regs);
  for (uint32_t lane = 0; lane < lanes; lane++)
    for (uint32_t reg = 0; reg < regs; reg++) {
      uint32_t e[TG_LAYOUT_DIMS], row, column;
      tg_layout_element(&l, (tg_slot){{reg, lane, 0}}, e);
      tg_instruction_element(x, which, lane, reg, &row, &column);
      wrong += e[0] != row || e[1] != column;
    }
  CHECK(!wrong, "%s, operand %c: the tables differ about %u of %u registers", r->name, "abc"[which], wrong, lanes * regs);
}

/* ---- the row's meaning ---- */

/* The coordinate that a dimension has in register iota(n) of lane l, as text. */
static void put_coordinate(tg_str *s, const tg_layout *l, uint32_t dim) {
  uint32_t regs = tg_layout_count(l, TG_IN_REG), weight = 1;
  tg_str_puts(s, "0");
  for (uint32_t k = 0; k < l->dim[dim].n; k++) {
    const tg_layout_digit *d = &l->dim[dim].digit[k];
    tg_str_printf(s, " + ");
    if (d->place == TG_IN_REG) tg_str_printf(s, "iota(%u)", regs);
    else tg_str_puts(s, "l");
    tg_str_printf(s, " / %u %% %u * %u", d->stride, d->size, weight);
    weight *= d->size;
  }
}

static void put_element(tg_str *s, const char *buffer, const tg_layout *l) {
  tg_str_printf(s, "%s[", buffer);
  put_coordinate(s, l, 0);
  tg_str_puts(s, ", ");
  put_coordinate(s, l, 1);
  tg_str_puts(s, "]");
}

static void put_buffers(tg_str *s, const tg_matrix_row *r) {
  tg_str_printf(s, "in(a, %s, [%u, %u]); in(b, %s, [%u, %u]); in(c, %s, [%u, %u]); out(d, %s, [%u, %u]); ", tg_type_name[r->a_type], r->m, r->k,
                tg_type_name[r->b_type], r->k, r->n, tg_type_name[r->c_type], r->m, r->n, tg_type_name[r->c_type], r->m, r->n);
}

typedef struct { tg_job job; const char *text; tg_interp in; const char *printed; } program;

static void run_program(void *user) {
  program *p = user;
  tg_parse_kernel(&p->job, "row", p->text, 0, NULL);
  tg_str s = tg_str_new(&p->job.env);
  tg_print(&p->job, &s, p->job.sink);
  p->printed = s.data;
  tg_interpret(&p->job, p->job.sink, &p->in);
}

static void parse_again(void *user) {
  program *p = user;
  tg_parse_kernel(&p->job, "printed", p->text, 0, NULL);
}

static void run_text(const tg_matrix_row *r, const char *text, tg_interp_buffer *buffers) {
  program p = {.text = text, .in = {.buffers = buffers, .check_uninitialised = true, .check_races = true, .check_barriers = true}};
  tg_job_init(&p.job, NULL);
  bool ok = tg_protect(&p.job.env, run_program, &p);
  CHECK(ok, "%s: %s\n%s", r->name, p.job.env.message, text);
  if (ok) {
    program q = {.text = p.printed};
    tg_job_init(&q.job, NULL);
    ok = tg_protect(&q.job.env, parse_again, &q);
    CHECK(ok && tg_same_program(&p.job, p.job.sink, &q.job, q.job.sink), "%s reads back otherwise: %s\n%s", r->name, q.job.env.message, p.printed);
    tg_job_drop(&q.job);
  }
  tg_job_drop(&p.job);
}

/* Small integers, so that every order of a sum gives the same bits; of bytes that are floats, any that are small. tiny: some are subnormal. */
static void fill(tg_type t, bool bits, bool tiny, void *data, uint32_t n, uint32_t seed) {
  for (uint32_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    int v = (int)(seed >> 20) % 9 - (t == TG_U8 ? 0 : 4);
    uint64_t x = tg_value_bits(t, tg_is_float(t) ? (tg_value){.f = v} : (tg_value){.i = v});
    if (tiny && seed >> 28 < 6) x = tg_value_bits(t, (tg_value){.f = ldexp(v, -129)});
    if (bits) x = (seed >> 8 & 0x87) | (8 + (seed >> 28) % 2) << 3;   /* of both signs, near 1 */
    memcpy((char *)data + i * (size_t)tg_type_bytes(t), &x, (size_t)tg_type_bytes(t));
  }
}

static void check_meaning(const tg_matrix_row *r) {
  enum { MOST = 32 * 32 };
  static double a[MOST], b[MOST], c[MOST], d[MOST], e[MOST];
  tg_job job;
  tg_job_init(&job, NULL);
  tg_str meaning = tg_str_new(&job.env), text = tg_str_new(&job.env);
  tg_layout l[3] = {tg_matrix_layout(r, 0), tg_matrix_layout(r, 1), tg_matrix_layout(r, 2)};
  tg_str_printf(&meaning, "kernel meaning(K = %u) { ", r->k);
  put_buffers(&meaning, r);
  tg_str_printf(&meaning, "range(i, %u) range(j, %u) { %s; } }", r->m, r->n, r->meaning);
  tg_str_puts(&text, "kernel row() { stage reduce; ");
  put_buffers(&text, r);
  if (tg_matrix_lanes(r) > 1) tg_str_printf(&text, "range(l, %u, lane) { ", tg_matrix_lanes(r));
  put_element(&text, "d", &l[2]);
  tg_str_printf(&text, " = matrix(%s, ", r->name);
  for (int w = 0; w < 3; w++) {
    put_element(&text, w == 0 ? "a" : w == 1 ? "b" : "c", &l[w]);
    tg_str_puts(&text, ", ");
  }
  tg_str_puts(&text, tg_matrix_lanes(r) > 1 ? "l); } }" : "1); }");
  bool bits = strstr(r->name, "fnuz"), tiny = strstr(r->meaning, "e-38");
  fill(r->a_type, bits, tiny, a, r->m * r->k, 1);
  fill(r->b_type, bits, tiny, b, r->k * r->n, 2);
  fill(r->c_type, false, tiny, c, r->m * r->n, 3);
  tg_interp_buffer want[] = {{a, sizeof a}, {b, sizeof b}, {c, sizeof c}, {d, sizeof d}}, got[] = {{a, sizeof a}, {b, sizeof b}, {c, sizeof c}, {e, sizeof e}};
  memset(d, 0, sizeof d);
  memset(e, 1, sizeof e);
  run_text(r, meaning.data, want);
  run_text(r, text.data, got);
  size_t bytes = (size_t)(r->m * r->n) * (size_t)tg_type_bytes(r->c_type), same = 0, step = (size_t)tg_type_bytes(r->c_type), zero = 0;
  for (size_t i = 0; i < bytes; i += step) {
    same += !memcmp((char *)d + i, (char *)e + i, step);
    uint64_t x = 0;
    memcpy(&x, (char *)d + i, step);
    zero += !x;
  }
  CHECK(same * step == bytes, "%s: %zu of %zu elements", r->name, same, bytes / step);
  CHECK(zero * step < bytes / 2, "%s: %zu of %zu elements are 0", r->name, zero, bytes / step);
  tg_job_drop(&job);
}

/* ---- what layouts are to each other ---- */

static tg_layout layout(const char *text) {
  tg_layout l;
  CHECK(tg_layout_parse(text, &l), "%s", text);
  return l;
}

static tg_layout of(const char *name, int which) { return tg_matrix_layout(tg_matrix_find(name), which); }

static void check_class(tg_layout from, tg_layout to, tg_conversion_class want, int line) {
  tg_conversion c = tg_layout_convert(&from, &to);
  char a[128], b[128];
  tg_layout_text(&from, a, sizeof a);
  tg_layout_text(&to, b, sizeof b);
  CHECK(c.class == want, "(line %d) '%s' to '%s' is of class %d", line, a, b, (int)c.class);
  CHECK((c.cost == 0) == (want <= TG_CONVERT_IN_LANE), "(line %d) cost %u", line, c.cost);
}

#define CLASS(from, to, want) check_class((from), (to), TG_CONVERT_##want, __LINE__)

static void check_algebra(void) {
  /* Two accumulators beside each other are an operand of the next product: P of flash attention */
  tg_layout c = of("mma.m16n8k16.f16", 2), wide = tg_layout_repeat(&c, 1, 2), a = of("mma.m16n8k16.f16", 0), slice;
  CHECK(tg_layout_equal(&wide, &a), "two accumulators are an operand");
  CLASS(wide, a, IDENTITY);
  CLASS(c, of("mma.m16n8k8.f16", 0), IDENTITY);
  CLASS(c, of("mma.m16n8k8.tf32", 0), SHUFFLE);
  CLASS(layout("i = r1:2 r2:2 l1:4"), layout("i = r2:2 r1:2 l1:4"), IN_LANE);
  CLASS(layout("i = r1:4 l1:4"), layout("i = l1:4 r1:4"), SHUFFLE);
  CLASS(layout("i = r1:4 t1:4"), layout("i = r1:4 l1:4, * = t1:4"), LOCAL);
  CLASS(layout("i = r1:4 l1:4, * = t1:2"), layout("i = r1:4 l1:4, * = t1:2"), IDENTITY);
  /* On RDNA3 an accumulator has a column in a lane, an operand a row */
  CLASS(of("wmma11.16x16x16.f16", 2), of("wmma11.16x16x16.f16", 0), SHUFFLE);
  CLASS(of("wmma11.16x16x16.f16", 2), of("wmma11.16x16x16.f16", 1), SHUFFLE);
  /* On RDNA4 and CDNA it is the B operand of the next product, so P is computed transposed there */
  CLASS(of("wmma12.16x16x16.f16", 2), of("wmma12.16x16x16.f16", 0), SHUFFLE);
  CLASS(of("wmma12.16x16x16.f16", 2), of("wmma12.16x16x16.f16", 1), IDENTITY);
  CLASS(of("mfma.16x16x16.f16", 2), of("mfma.16x16x16.f16", 1), IDENTITY);
  CLASS(of("mfma.16x16x16.f16", 2), of("mfma.16x16x16.f16", 0), SHUFFLE);
  slice = tg_layout_slice(&c, 1);
  CHECK(slice.rank == 1 && tg_layout_copies(&slice) == 4 && tg_layout_count(&slice, TG_IN_REG) == 2, "rows of an accumulator: four lanes hold each");
  tg_layout rows = layout("i = l4:8 r1:2, * = l1:4");
  CHECK(tg_layout_equal(&slice, &rows) && tg_layout_is_whole(&slice), "rows of an accumulator");
  slice = tg_layout_slice(&c, 0);
  rows = layout("j = r1:2 l1:4, * = l4:8");
  CHECK(tg_layout_equal(&slice, &rows), "columns of an accumulator");
  tg_layout bad;
  static const char *const wrong[] = {"i", "i = x1:2", "i = r1", "i = r0:2", "i = r1:2 j = r2:2", "a = r1:2, b = r1:2, c = r1:2, d = r1:2, e = r1:2"};
  for (size_t k = 0; k < TG_COUNT(wrong); k++) CHECK(!tg_layout_parse(wrong[k], &bad), "'%s' is read", wrong[k]);
  bad = layout("i = r1:2, j = r1:2");
  CHECK(!tg_layout_is_whole(&bad), "two dimensions in one digit");
  bad = layout("i = r1:2 l1:2, j = r4:2");
  CHECK(!tg_layout_is_whole(&bad), "a gap among registers");
}

int main(void) {
  uint32_t n = 0;
  for (const tg_matrix_row *r; (r = tg_matrix_at(n)); n++) {
    const tg_instruction *x = tg_instruction_find(r->name);
    CHECK(x, "%s is in one table only", r->name);
    for (int w = 0; w < 3; w++) {
      check_layout(r, w);
      if (x) check_agreement(r, x, w);
    }
    if (x) check_meaning(r);
    CHECK(tg_matrix_find(r->name) == r, "%s stands twice", r->name);
  }
  check_algebra();
  return TEST_END();
}
