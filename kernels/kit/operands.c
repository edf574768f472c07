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

bool tg_kit_reach(const tg_kit_layout *o, int64_t rows, int64_t columns, int64_t *bytes) {
  int64_t down, right, all;
  *bytes = 0;
  if (rows <= 0 || columns <= 0) return true;
  if (__builtin_mul_overflow(rows - 1, o->step[0], &down) || __builtin_mul_overflow(columns - 1, o->step[1], &right) ||
      __builtin_add_overflow(down, right, &all))
    return false;
  if (all >= ((int64_t)1 << 62) / o->size) return false;
  *bytes = (all + 1) * o->size;
  return true;
}

bool tg_kit_is_apart(const tg_kit_layout *o, int64_t rows, int64_t columns) {
  if (rows <= 1 || columns <= 1) return (rows <= 1 || o->step[0]) && (columns <= 1 || o->step[1]);
  bool tall = o->step[0] > o->step[1];
  int64_t shorter = o->step[tall], n = tall ? columns : rows;
  return shorter > 0 && o->step[!tall] > (n - 1) * shorter;
}

tg_kit_lines tg_kit_lines_of(const void *p, const tg_kit_layout *o, int64_t rows, int64_t columns) {
  tg_kit_lines l = {.at = (uintptr_t)p};
  tg_kit_reach(o, rows, columns, &l.bytes);
  bool across = o->step[1] == 1 && (o->step[0] >= columns || rows == 1);   /* a line is a row */
  if (across || o->step[0] == 1) {
    l.width = (across ? columns : rows) * o->size;
    l.pitch = o->step[!across] * o->size;
  }
  return l;
}

bool tg_kit_is_disjoint(const tg_kit_lines *x, const tg_kit_lines *y) {
  if (!x->bytes || !y->bytes || x->at + (uintptr_t)x->bytes <= y->at || y->at + (uintptr_t)y->bytes <= x->at)
    return true;
  if (x->pitch != y->pitch || x->pitch <= 0) return false;
  uintptr_t d = x->at < y->at ? (y->at - x->at) % (uintptr_t)x->pitch
                              : (uintptr_t)x->pitch - 1 -
                                    (x->at - y->at - 1) % (uintptr_t)x->pitch; /* bytes from a line of x to one of y */
  return (int64_t)d >= x->width && (int64_t)d + y->width <= x->pitch;
}

tg_status tg_kit_check_read(tg_context *c, const char *call, const char *name, int at, const void *p,
                            const tg_kit_layout *o, int64_t rows, int64_t columns, const tg_kit_lines *result) {
  char of[16] = "";
  int64_t bytes;
  if (at >= 0) snprintf(of, sizeof of, "[%d]", at);
  if (!tg_kit_reach(o, rows, columns, &bytes))
    return tg_kit_fail(c, TG_EINVAL, "%s.%s%s reaches over more than 2^62 bytes", call, name, of);
  if (!p) return tg_kit_fail(c, TG_EINVAL, "%s.%s%s is NULL", call, name, of);
  if ((uintptr_t)p % o->size)
    return tg_kit_fail(c, TG_EINVAL, "%s.%s%s is not aligned to its elements of %u bytes", call, name, of, o->size);
  tg_kit_lines l = tg_kit_lines_of(p, o, rows, columns);
  return !result || tg_kit_is_disjoint(result, &l)
             ? TG_OK
             : tg_kit_fail(c, TG_EINVAL, "%s.%s overlaps %s%s", call, result->name, name, of);
}

tg_status tg_kit_check_argument(tg_context *c, const char *call, uint32_t a, const tg_kit_argument *x, const void *p,
                                int64_t m, int64_t n, const tg_kit_lines *result, int64_t *ld) {
  int64_t given = *ld, rows = x->per == TG_PER_ELEMENT ? m : 1,
          columns = x->per == TG_PER_ALL   ? 1
                    : x->per == TG_PER_ROW ? m
                                           : n;
  if (!given) *ld = larger(n, 1);
  if (x->per == TG_PER_ELEMENT && (*ld < 0 || *ld > (int64_t)1 << 31))
    return tg_kit_fail(c, TG_EINVAL, "%s.arg_ld[%u] = %lld is negative or past 2^31", call, a, (long long)given);
  tg_kit_layout at = {{*ld, 1}, (uint32_t)tg_type_bytes(x->type)};
  return tg_kit_check_read(c, call, "arg", (int)a, p, &at, rows, columns, result);
}
