/* SPDX-License-Identifier: MIT
 * Builds and evaluates signatures: sizes of buffers, ranges of parameters, and requirements, from the author's program
 * to flat data. Expressions become postfix code, whose operations mean what the opcode table says. */
#include <stdio.h>
#include "devices/signature.h"
#include "dsl/text.h"
#include "dsl/value.h"

enum { STACK = 64 };

typedef struct {
  tg_job *j;
  TG_VEC(tg_signature_buffer) buffers;
  TG_VEC(const tg_uop *) defines;   /* of the buffers */
  TG_VEC(tg_signature_param) params;
  TG_VEC(tg_signature_expr) exprs;
  TG_VEC(tg_signature_code) code;
  tg_str strings;
} builder;

static uint32_t add_string(builder *b, const char *s) {
  uint32_t at = (uint32_t)b->strings.n;
  tg_str_put(&b->strings, s, strlen(s) + 1);
  return at;
}

static void add_code(builder *b, const tg_uop *u) {
  if (u->op != TG_OP_CONST && u->op != TG_OP_PARAM && !(tg_ops[u->op].flags & TG_OPF_W))
    tg_bug(&b->j->env, "a size of a buffer or a requirement has %s in it", tg_ops[u->op].name);
  tg_type from = u->n ? u->src[u->n - 1]->type : u->type;
  tg_push(&b->j->env, &b->code, ((tg_signature_code){u->op, u->type, (uint8_t)from, u->n, u->arg}));
}

typedef struct { const tg_uop *u; uint32_t next; } frame;

static uint32_t add_expr(builder *b, const tg_uop *root) {
  TG_VEC(frame) stack = {0};
  uint32_t start = b->code.n;
  tg_push(&b->j->env, &stack, ((frame){root, 0}));
  while (stack.n) {
    const tg_uop *u = stack.data[stack.n - 1].u;
    uint32_t i = stack.data[stack.n - 1].next++;
    if (i < u->n) {
      if (stack.n == STACK - 1)
        tg_fail(&b->j->env, TG_ELIMIT, "a size of a buffer or a requirement is nested more than %d deep", STACK);
      tg_push(&b->j->env, &stack, ((frame){u->src[i], 0}));
    } else {
      add_code(b, u);
      stack.n--;
      if (b->code.n > 1 << 20) tg_fail(&b->j->env, TG_ELIMIT, "sizes of buffers or requirements are too long");
    }
  }
  tg_push(&b->j->env, &b->exprs, ((tg_signature_expr){start, b->code.n - start, 0, 0}));
  return b->exprs.n - 1;
}

static void add_buffer(builder *b, const tg_uop *define) {
  const tg_buffer *info = &b->j->buffers.data[(uint32_t)define->arg];
  tg_signature_buffer s = {.name = add_string(b, info->name),
                           .first = b->exprs.n,
                           .rank = info->rank,
                           .type = info->type,
                           .role = info->role,
                           .strided = (define->arg >> 32 & TG_STRIDED) != 0,
                           .promised = info->lo != NULL,
                           .bytes = -1};
  bool constant = true;
  for (uint32_t i = 0; i < define->n; i++) {
    add_expr(b, define->src[i]);
    const tg_signature_expr *e = &b->exprs.data[b->exprs.n - 1];
    for (uint32_t k = e->start; k < e->start + e->n; k++) constant &= b->code.data[k].op != TG_OP_PARAM;
  }
  if (constant) s.bytes = -2; /* computed in pack, when all arrays are in place */
  if (s.promised) {
    add_expr(b, info->lo), add_expr(b, info->hi);
    s.place = add_string(b, tg_format(&b->j->env, "%s:%d", info->pos.file ? info->pos.file : "text", info->pos.line));
  }
  tg_push(&b->j->env, &b->buffers, s);
  tg_push(&b->j->env, &b->defines, define);
}

static const tg_signature *pack(builder *b, uint32_t requires_n, const char *name) {
  uint32_t at = add_string(b, name);
  while (b->strings.n % 8) tg_str_put(&b->strings, "", 1);
  tg_signature head = {0, b->buffers.n, b->params.n, b->exprs.n, requires_n, b->code.n, (uint32_t)b->strings.n, at};
  head.bytes = (uint32_t)((const char *)tg_signature_strings(&head) - (const char *)&head) + head.strings_n;
  char *out = tg_alloc(&b->j->env, head.bytes);
  memcpy(out, &head, sizeof head);
  tg_signature *s = (tg_signature *)out;
  if (head.buffers_n)
    memcpy((void *)tg_signature_buffers(s), b->buffers.data, head.buffers_n * sizeof *b->buffers.data);
  if (head.params_n) memcpy((void *)tg_signature_params(s), b->params.data, head.params_n * sizeof *b->params.data);
  if (head.exprs_n) memcpy((void *)tg_signature_exprs(s), b->exprs.data, head.exprs_n * sizeof *b->exprs.data);
  if (head.code_n) memcpy((void *)tg_signature_codes(s), b->code.data, head.code_n * sizeof *b->code.data);
  memcpy((void *)tg_signature_strings(s), b->strings.data, head.strings_n);
  for (uint32_t i = 0; i < s->buffers_n; i++) {
    tg_signature_buffer *buffer = (tg_signature_buffer *)&tg_signature_buffers(s)[i];
    if (buffer->bytes == -1) continue;
    buffer->bytes = -1;
    int64_t bytes, before;
    char why[512];
    if (tg_signature_bytes(s, i, NULL, &bytes, &before, why, sizeof why))
      tg_fail_at(b->j, tg_buffer_info(b->j, b->defines.data[i])->pos, "%s", why);
    buffer->bytes = bytes, buffer->before = before;
    if (buffer->role != TG_ROLE_IN && !tg_signature_apart(s, i, NULL))
      tg_fail_at(b->j, tg_buffer_info(b->j, b->defines.data[i])->pos,
                 "the strides of '%s', which the kernel writes, lay two elements on one place",
                 tg_signature_strings(s) + buffer->name);
  }
  return s;
}

const tg_signature *tg_signature_build(tg_job *j) {
  builder b = {.j = j, .strings = tg_str_new(&j->env)};
  for (uint32_t i = 0; i < j->sink->n; i++) {
    const tg_uop *u = j->sink->src[i];
    if (u->op == TG_OP_DEFINE && j->buffers.data[(uint32_t)u->arg].role != TG_ROLE_TEMP) add_buffer(&b, u);
  }
  for (uint32_t i = 0; i < j->params.n; i++) {
    const tg_param *p = &j->params.data[i];
    tg_push(&j->env, &b.params,
            ((tg_signature_param){add_string(&b, p->name), 0, p->lo, p->hi, p->multiple < 1 ? 1 : p->multiple}));
  }
  uint32_t requires_n = 0;
  for (uint32_t i = 0; i < j->requires.n; i++) {
    if (j->requires.data[i]->op == TG_OP_CONST) continue;
    uint32_t e = add_expr(&b, j->requires.data[i]);
    b.exprs.data[e].text = add_string(&b, tg_text(j, j->requires.data[i]));
    requires_n++;
  }
  return pack(&b, requires_n, j->name);
}

bool tg_signature_valid(const tg_signature *s, size_t bytes) {
  if (bytes < sizeof *s || s->bytes != bytes || s->requires_n > s->exprs_n) return false;
  uint64_t sum = sizeof *s + (uint64_t)s->buffers_n * sizeof(tg_signature_buffer) +
                 (uint64_t)s->params_n * sizeof(tg_signature_param) + (uint64_t)s->exprs_n * sizeof(tg_signature_expr) +
                 (uint64_t)s->code_n * sizeof(tg_signature_code) + s->strings_n;
  if (sum != bytes || !s->strings_n || tg_signature_strings(s)[s->strings_n - 1] || s->name >= s->strings_n)
    return false;
  for (uint32_t i = 0; i < s->buffers_n; i++) {
    const tg_signature_buffer *b = &tg_signature_buffers(s)[i];
    if (b->name >= s->strings_n || b->place >= s->strings_n || b->rank > 16 || b->type >= TG_INDEX ||
        (b->bytes >= 0 && (b->before < 0 || b->before > b->bytes)) || (b->promised && !tg_is_int(b->type)) ||
        (uint64_t)b->first + b->rank * (b->strided ? 2u : 1u) + (b->promised ? 2u : 0u) > s->exprs_n)
      return false;
  }
  for (uint32_t i = 0; i < s->params_n; i++)
    if (tg_signature_params(s)[i].name >= s->strings_n || tg_signature_params(s)[i].multiple < 1) return false;
  for (uint32_t i = 0; i < s->exprs_n; i++) {
    const tg_signature_expr *e = &tg_signature_exprs(s)[i];
    if ((uint64_t)e->start + e->n > s->code_n || e->text >= s->strings_n) return false;
    uint32_t depth = 0;
    for (uint32_t k = e->start; k < e->start + e->n; k++) {
      const tg_signature_code *c = &tg_signature_codes(s)[k];
      if (c->op >= TG_OP__COUNT || c->arity > 3 || c->arity > depth ||
          (c->op == TG_OP_PARAM && (uint64_t)c->arg >= s->params_n))
        return false;
      depth += 1 - c->arity;
      if (depth > STACK) return false;
    }
    if (depth != 1) return false;
  }
  return true;
}

/* False: no value (past 128 bits). */
static bool evaluate(const tg_signature *s, const tg_signature_expr *e, const int64_t *params, tg_value *result) {
  tg_value stack[STACK + 1];
  uint32_t n = 0;
  for (uint32_t i = e->start; i < e->start + e->n; i++) {
    const tg_signature_code *c = &tg_signature_codes(s)[i];
    tg_value v = {.i = 0};
    n -= c->arity;
    if (c->op == TG_OP_PARAM) v.i = params[c->arg];
    else if (c->op == TG_OP_CONST && tg_is_float(c->type)) memcpy(&v.f, &c->arg, sizeof v.f);
    else if (c->op == TG_OP_CONST) v.i = c->type == TG_U64 ? (tg_i128)(uint64_t)c->arg : c->arg;
    else if (c->op == TG_OP_CAST      ? !tg_convert(c->type, c->from, stack[n], &v)
             : c->op == TG_OP_BITCAST ? !tg_reinterpret(c->type, c->from, stack[n], &v)
                                      : !tg_evaluate(c->op, c->type, c->from, &stack[n], &v))
      return false;
    stack[n++] = v;
  }
  *result = stack[0];
  return true;
}

/* The extent and the stride of dimension i; without strides *stride is 0. */
static bool dimension_of(const tg_signature *s, const tg_signature_buffer *b, uint32_t i, const int64_t *params,
                         tg_i128 *extent, tg_i128 *stride) {
  const tg_i128 far = (tg_i128)1 << 62;
  tg_value d, step = {.i = 0};
  if (!evaluate(s, &tg_signature_exprs(s)[b->first + i], params, &d) ||
      (b->strided && !evaluate(s, &tg_signature_exprs(s)[b->first + b->rank + i], params, &step)))
    return false;
  *extent = d.i, *stride = step.i;
  return d.i <= far && step.i <= far && d.i >= -far && step.i >= -far;
}

const char *tg_signature_bytes(const tg_signature *s, uint32_t b, const int64_t *params, int64_t *bytes,
                               int64_t *before, char *out, size_t n) {
  const tg_signature_buffer *buffer = &tg_signature_buffers(s)[b];
  const char *name = tg_signature_strings(s) + buffer->name;
  const tg_i128 far = (tg_i128)1 << 62;
  if (buffer->bytes >= 0) {
    *bytes = buffer->bytes, *before = buffer->before;
    return NULL;
  }
#define BEYOND (snprintf(out, n, "the size of '%s' is out of range: it passes 2^62 bytes", name), out)
  tg_i128 elements = 1, last = 0, first = 0;   /* first: elements before that of subscripts 0 */
  bool empty = false;
  for (uint32_t i = 0; i < buffer->rank; i++) {
    tg_i128 d, stride, step;
    if (!dimension_of(s, buffer, i, params, &d, &stride)) return BEYOND;
    if (d < 0)
      return snprintf(out, n, "'%s' has the size %lld in dimension %u, counted from 0; a size is 0 or more", name,
                      (long long)d, i),
             out;
    if (!d) {
      empty = true;
      continue;
    }
    if (__builtin_mul_overflow(d - 1, stride < 0 ? -stride : stride, &step) ||
        __builtin_add_overflow(last, step, &last) || __builtin_mul_overflow(elements, d, &elements))
      return BEYOND;
    if (last > far || (elements > far && !buffer->strided)) return BEYOND;
    if (stride < 0) first += step;
  }
  tg_i128 each = tg_type_bytes(buffer->type), size = empty ? 0 : (buffer->strided ? last + 1 : elements) * each;
  if (size > far) return BEYOND;
  *bytes = (int64_t)size;
  *before = empty ? 0 : (int64_t)(first * each);
  return NULL;
#undef BEYOND
}

/* Looks at the dimensions in the order of their strides: each stride must be longer than what the dimensions before it
 * span together. */
bool tg_signature_apart(const tg_signature *s, uint32_t b, const int64_t *params) {
  const tg_signature_buffer *buffer = &tg_signature_buffers(s)[b];
  tg_i128 extent[16], stride[16], reach = 0;
  uint32_t n = 0;
  for (uint32_t i = 0; buffer->strided && i < buffer->rank; i++) {
    tg_i128 d, step;
    if (!dimension_of(s, buffer, i, params, &d, &step)) return false;
    if (d <= 0) return true;
    if (d == 1) continue;
    uint32_t at = n++;
    if (step < 0) step = -step;
    for (; at && stride[at - 1] > step; at--) stride[at] = stride[at - 1], extent[at] = extent[at - 1];
    stride[at] = step, extent[at] = d;
  }
  for (uint32_t i = 0; i < n; i++) {
    if (stride[i] <= reach) return false;
    reach += (extent[i] - 1) * stride[i]; /* no overflow: tg_signature_bytes has found the size to be at most 2^62 */
  }
  return true;
}

static tg_i128 integer_at(tg_type t, const void *data, tg_i128 element) {
  uint64_t bits = 0;
  size_t bytes = (size_t)tg_type_bytes(t);
  memcpy(&bits, (const char *)data + element * (tg_i128)bytes, bytes);
  return tg_value_from_bits(t, bits).i;
}

const char *tg_signature_check_promise(const tg_signature *s, uint32_t b, const int64_t *params, const void *data,
                                       char *out, size_t n) {
  const tg_signature_buffer *buffer = &tg_signature_buffers(s)[b];
  const tg_signature_expr *bound = &tg_signature_exprs(s)[buffer->first + buffer->rank * (buffer->strided ? 2u : 1u)];
  const char *name = tg_signature_strings(s) + buffer->name;
  tg_i128 extent[16], stride[16], index[16] = {0}, at = 0, times = 1;
  tg_value lo, hi;
  if (!buffer->promised) return NULL;
  if (!evaluate(s, &bound[0], params, &lo) || !evaluate(s, &bound[1], params, &hi))
    return snprintf(out, n, "the range that '%s' promises passes 128 bits", name), out;
  for (uint32_t i = buffer->rank; i-- > 0;) {
    if (!dimension_of(s, buffer, i, params, &extent[i], &stride[i]) || extent[i] <= 0) return NULL;
    if (!buffer->strided) stride[i] = times, times *= extent[i];
    if (stride[i] < 0) at -= (extent[i] - 1) * stride[i];
  }
  for (;;) {
    tg_i128 v = integer_at(buffer->type, data, at);
    if (v < lo.i || v > hi.i) {
      int k = snprintf(out, n, "%s: '%s' promises values of %lld..%lld, and %s[",
                       tg_signature_strings(s) + buffer->place, name, (long long)lo.i, (long long)hi.i, name);
      for (uint32_t i = 0; i < buffer->rank && k > 0 && (size_t)k < n; i++)
        k += snprintf(out + k, n - (size_t)k, "%s%lld", i ? ", " : "", (long long)index[i]);
      if (k > 0 && (size_t)k < n) snprintf(out + k, n - (size_t)k, "] is %lld", (long long)v);
      return out;
    }
    uint32_t d = buffer->rank;   /* the next subscripts, the last one fastest */
    for (; d > 0; d--) {
      at += stride[d - 1];
      if (++index[d - 1] < extent[d - 1]) break;
      at -= stride[d - 1] * extent[d - 1], index[d - 1] = 0;
    }
    if (!d) return NULL;
  }
}

const char *tg_signature_check_params(const tg_signature *s, const int64_t *params, char *out, size_t n) {
  for (uint32_t i = 0; i < s->params_n; i++) {
    const tg_signature_param *p = &tg_signature_params(s)[i];
    long long v = params[i];
    const char *name = tg_signature_strings(s) + p->name;
    if (v < p->lo || v > p->hi)
      return snprintf(out, n, "%s = %lld, but the kernel was compiled for %lld..%lld", name, v, (long long)p->lo,
                      (long long)p->hi),
             out;
    if (v % p->multiple)
      return snprintf(out, n, "%s = %lld, but the kernel was compiled for multiples of %lld", name, v,
                      (long long)p->multiple),
             out;
  }
  for (uint32_t i = s->exprs_n - s->requires_n; i < s->exprs_n; i++) {
    const tg_signature_expr *e = &tg_signature_exprs(s)[i];
    tg_value v;
    if (!evaluate(s, e, params, &v) || !v.i)
      return snprintf(out, n, "the parameters break a requirement: %s", tg_signature_strings(s) + e->text), out;
  }
  return NULL;
}
