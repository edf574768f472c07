/* SPDX-License-Identifier: MIT
 * Operands of a call in memory: their strides, their extent, their overlap. */
#include <stdio.h>
#include "api/api.h"
#include "kit/operands.h"

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

tg_status tg_kit_read_layout(tg_context *c, const tg_kit_operand *x, const int64_t given[2], tg_kit_layout *out,
                             int64_t *ld, int64_t *next) {
  int64_t s[2] = {given[0], given[1]};
  uint32_t inner = x->major == TG_COLUMN_MAJOR ? 0 : 1;
  int64_t by = larger(x->step, 1), side = inner ? x->columns : x->rows, dense = larger(side, 1) * by,
          least = dense - by + 1;
  const char *why = NULL;
  char text[96];
  if (s[0] < 0 || s[1] < 0 || s[0] > (int64_t)1 << 40 || s[1] > (int64_t)1 << 40)
    why = ": a stride is negative or past 2^40";
  else if (x->major == TG_ANY_STRIDES) {
    if (!s[0] && !s[1]) s[0] = larger(x->columns, 1), s[1] = 1;   /* dense, in rows */
  } else if (s[inner] && s[inner] != by && by > 1) {
    snprintf(text, sizeof text, ", but the plan has neighbours %lld elements apart", (long long)by);
    why = text;
  } else if (s[inner] > by) why = ", but the plan has neighbours side by side: one of them is 1";
  else {
    int64_t *line = &s[!inner], others = inner ? x->rows : x->columns;
    s[inner] = by;
    if (!*line || others <= 1) *line = x->fixed ? x->fixed : *line < least ? dense : *line;
    if (x->fixed && *line != x->fixed) {
      snprintf(text, sizeof text, ", but the plan is for a leading dimension of %lld", (long long)x->fixed);
      why = text;
    } else if (*line < least && x->written) {
      snprintf(text, sizeof text, ": rows or columns of %lld elements would overlap", (long long)side);
      why = text;
    }
  }
  if (why)
    return tg_kit_fail(c, TG_EINVAL, "%s.%s_strides = {%lld, %lld}%s", x->call, x->name, (long long)given[0],
                       (long long)given[1], why);
  out->step[0] = s[0], out->step[1] = s[1];
  *ld = s[!inner];
  *next = s[inner];
  return TG_OK;
}

/* ---- tensors ---- */

tg_kit_tensor tg_kit_matrix(const char *name, const tg_kit_layout *o, int64_t rows, int64_t columns) {
  return (tg_kit_tensor){
      .name = name, .size = o->size, .extent = {rows, columns, 1, 1}, .step = {o->step[0], o->step[1]}};
}

tg_kit_tensor tg_kit_vector(const char *name, int64_t n, uint32_t size) {
  return (tg_kit_tensor){.name = name, .size = size, .extent = {n, 1, 1, 1}, .step = {1}};
}

/* "arg[2]" of the third argument */
typedef struct { char text[48]; } field;
static field field_of(const tg_kit_tensor *x, const char *more) {
  field f;
  if (x->nth) snprintf(f.text, sizeof f.text, "%.20s%s[%u]", x->name, more, x->nth - 1);
  else snprintf(f.text, sizeof f.text, "%.20s%s", x->name, more);
  return f;
}

tg_status tg_kit_check_strides(tg_context *c, const char *call, const tg_kit_tensor *x) {
  for (uint32_t i = 0; i < TG_KIT_DIMS; i++)
    if (x->step[i] < 0 || (x->step[i] > (int64_t)1 << 40 && x->extent[i] > 1))
      return tg_kit_fail(c, TG_EINVAL, "%s.%s[%u] = %lld is negative or past 2^40", call,
                         field_of(x, "_strides").text, i, (long long)x->step[i]);
  return TG_OK;
}

static bool reach(tg_kit_tensor *x) {
  int64_t all = 0, span;
  x->bytes = 0;
  for (uint32_t i = 0; i < TG_KIT_DIMS; i++) {
    if (x->extent[i] == 1) continue;
    if (x->extent[i] <= 0) return true;
    if (__builtin_mul_overflow(x->extent[i] - 1, x->step[i], &span) || __builtin_add_overflow(all, span, &all))
      return false;
  }
  if (all >= ((int64_t)1 << 62) / x->size) return false;
  x->bytes = (all + 1) * x->size;
  return true;
}

tg_status tg_kit_reach(tg_context *c, const char *call, tg_kit_tensor *x) {
  if (reach(x)) return TG_OK;
  return tg_kit_fail(c, TG_EINVAL, "%s.%s reaches over more than 2^62 bytes", call, field_of(x, "").text);
}

bool tg_kit_is_apart(const tg_kit_tensor *x) {
  int64_t span = 1;
  bool used[TG_KIT_DIMS];
  for (uint32_t i = 0; i < TG_KIT_DIMS; i++) {
    if (x->extent[i] <= 0) return true;
    used[i] = x->extent[i] == 1;
  }
  for (uint32_t round = 0; round < TG_KIT_DIMS; round++) {
    uint32_t least = TG_KIT_DIMS;
    for (uint32_t i = 0; i < TG_KIT_DIMS; i++)
      if (!used[i] && (least == TG_KIT_DIMS || x->step[i] < x->step[least])) least = i;
    if (least == TG_KIT_DIMS) return true;
    if (x->step[least] < span) return false;
    span += (x->extent[least] - 1) * x->step[least];
    used[least] = true;
  }
  return true;
}

tg_status tg_kit_fail_pointer(tg_context *c, const char *call, const tg_kit_tensor *x) {
  if (!x->at && x->bytes) return tg_kit_fail(c, TG_EINVAL, "%s.%s is NULL", call, field_of(x, "").text);
  return tg_kit_fail(c, TG_EINVAL, "%s.%s is not aligned to its elements of %u bytes", call, field_of(x, "").text,
                     x->size);
}

tg_status tg_kit_place(tg_context *c, const char *call, tg_kit_tensor *x, const void *p) {
  tg_status s = tg_kit_reach(c, call, x);
  return s == TG_OK ? tg_kit_place_known(c, call, x, p) : s;
}

/* ---- overlap ---- */

/* Modulo `pitch` the bytes of x are within so many bytes from its address on. */
static int64_t width_within(const tg_kit_tensor *x, int64_t pitch) {
  int64_t width = x->size;
  for (uint32_t i = 0; i < TG_KIT_DIMS; i++)
    if (x->step[i] * x->size % pitch) width += (x->extent[i] - 1) * x->step[i] * x->size;
  return width;
}

static bool is_disjoint_within(const tg_kit_tensor *x, const tg_kit_tensor *y, int64_t pitch) {
  uintptr_t p = (uintptr_t)pitch, d = x->at < y->at ? (y->at - x->at) % p : p - 1 - (x->at - y->at - 1) % p;
  int64_t wx = width_within(x, pitch), wy = width_within(y, pitch);
  return wx <= pitch && wy <= pitch && (int64_t)d >= wx && (int64_t)d <= pitch - wy;
}

bool tg_kit_is_interleaved(const tg_kit_tensor *x, const tg_kit_tensor *y) {
  for (uint32_t i = 0; i < 2 * TG_KIT_DIMS; i++) {
    const tg_kit_tensor *of = i % 2 ? y : x;
    if (of->extent[i / 2] > 1 && of->step[i / 2] && is_disjoint_within(x, y, of->step[i / 2] * of->size)) return true;
  }
  return false;
}

tg_status tg_kit_fail_overlap(tg_context *c, const char *call, const tg_kit_tensor *x, const tg_kit_tensor *y) {
  return tg_kit_fail(c, TG_EINVAL, "%s.%s overlaps %s", call, field_of(x, "").text, field_of(y, "").text);
}

/* ---- operands that are read ---- */

tg_status tg_kit_check_read(tg_context *c, const char *call, tg_kit_tensor *x, const void *p,
                            const tg_kit_tensor *result) {
  tg_status s = tg_kit_place(c, call, x, p);
  return s == TG_OK && result ? tg_kit_check_overlap(c, call, result, x) : s;
}

tg_status tg_kit_check_argument(tg_context *c, const char *call, uint32_t a, const tg_kit_argument *x, const void *p,
                                int64_t m, int64_t n, const tg_kit_tensor *result, int64_t *ld) {
  int64_t given = *ld, rows = x->per == TG_PER_ELEMENT ? m : 1,
          columns = x->per == TG_PER_ALL   ? 1
                    : x->per == TG_PER_ROW ? m
                                           : n;
  if (!given) *ld = larger(n, 1);
  if (x->per == TG_PER_ELEMENT && (*ld < 0 || *ld > (int64_t)1 << 31))
    return tg_kit_fail(c, TG_EINVAL, "%s.arg_ld[%u] = %lld is negative or past 2^31", call, a, (long long)given);
  tg_kit_tensor t =
      tg_kit_matrix("arg", &(tg_kit_layout){{*ld, 1}, (uint32_t)tg_type_bytes(x->type)}, rows, columns);
  t.nth = a + 1;
  return tg_kit_check_read(c, call, &t, p, result);
}
