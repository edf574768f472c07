/* SPDX-License-Identifier: MIT
 * Kernels over rows of tensors: from the text of one row and its operands (module.h) to a kernel of the language, which
 * is made once for each way in which operands lie: their types, which are one buffer, which rows repeat. Sizes and
 * strides are parameters. Dimensions in which all operands go on where the one below ends are joined first. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "ggml/module.h"

static const char *const type_names[TG_TYPE__COUNT] = {
    [TG_F32] = "f32", [TG_F16] = "f16", [TG_BF16] = "bf16", [TG_I32] = "i32"};
static size_t size_of(tg_type t) { return t == TG_F16 || t == TG_BF16 ? 2 : 4; }

/* ---- operands ---- */

static tg_ggml_operand operand_of(const struct ggml_tensor *t) {
  tg_ggml_operand o = {.data = t->data, .type = tg_ggml_type(t->type)};
  memcpy(o.ne, t->ne, sizeof o.ne);
  memcpy(o.nb, t->nb, sizeof o.nb);
  return o;
}

tg_ggml_operand tg_ggml_reads(const struct ggml_tensor *t) {
  tg_ggml_operand o = operand_of(t);
  o.read = true;
  return o;
}

tg_ggml_operand tg_ggml_writes(const struct ggml_tensor *t) {
  tg_ggml_operand o = operand_of(t);
  o.written = true;
  return o;
}

tg_ggml_operand tg_ggml_numbers(const float *at, int64_t n) {
  return (tg_ggml_operand){.data = (void *)at, .type = TG_F32, .ne = {1, 1, n, 1}, .nb = {4, 4, 4, 4}, .read = true};
}
tg_ggml_operand tg_ggml_number(const float *at) { return tg_ggml_numbers(at, 1); }

/* ---- dimensions ---- */

static void drop(tg_ggml_loops *l, int d) {
  for (int k = d; k < 3; k++) l->ne[k] = l->ne[k + 1];
  l->ne[3] = 1;
  for (uint32_t i = 0; i < l->operands_n; i++) {
    tg_ggml_operand *o = &l->operand[i];
    for (int k = d; k < 3; k++) o->ne[k] = o->ne[k + 1], o->nb[k] = o->nb[k + 1];
    o->ne[3] = 1;
  }
}

/* Whether dimension d + 1 goes on where d ends, in all operands, or repeats the same in both. */
static bool joins(const tg_ggml_loops *l, int d) {
  for (uint32_t i = 0; i < l->operands_n; i++) {
    const tg_ggml_operand *o = &l->operand[i];
    bool one = o->ne[d] == 1 && o->ne[d + 1] == 1;
    bool follows = o->ne[d] == l->ne[d] && o->ne[d + 1] == l->ne[d + 1] && o->nb[d + 1] == o->nb[d] * (size_t)o->ne[d];
    if (!one && !follows) return false;
  }
  return true;
}

static int join_dimensions(tg_ggml_loops *l) {
  int n = 4;
  for (int d = 3; d >= 1; d--)
    if (l->ne[d] == 1) drop(l, d), n--;
  for (int d = n - 2; d >= 1; d--) {
    if (!joins(l, d)) continue;
    l->ne[d + 1] *= l->ne[d];
    for (uint32_t i = 0; i < l->operands_n; i++) {
      tg_ggml_operand *o = &l->operand[i];
      o->nb[d + 1] = o->nb[d], o->ne[d + 1] *= o->ne[d];
    }
    drop(l, d), n--;
  }
  return n;
}

/* ---- the kernel ---- */

enum { TEXT = 16384, PARAMS = 64 };
typedef struct {
  const tg_ggml_loops *l;
  int dimensions;
  uint32_t buffer[TG_GGML_OPERANDS];   /* of each operand: the first one that is the same memory */
  bool read[TG_GGML_OPERANDS], written[TG_GGML_OPERANDS];
  char text[TEXT];
  size_t n;
  int64_t params[PARAMS];
  uint32_t params_n;
} writing;

__attribute__((format(printf, 2, 3))) static void put(writing *w, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  int n = w->n < TEXT ? vsnprintf(w->text + w->n, TEXT - w->n, format, ap) : -1;
  va_end(ap);
  w->n = n < 0 ? TEXT : w->n + (size_t)n;
}

static bool is_same(const tg_ggml_operand *a, const tg_ggml_operand *b) {
  return a->data == b->data && a->type == b->type && !memcmp(a->ne, b->ne, sizeof a->ne) &&
         !memcmp(a->nb, b->nb, sizeof a->nb);
}

static void find_buffers(writing *w) {
  for (uint32_t i = 0; i < w->l->operands_n; i++) {
    w->buffer[i] = i;
    for (uint32_t k = 0; k < i; k++)
      if (is_same(&w->l->operand[k], &w->l->operand[i])) {
        w->buffer[i] = k;
        break;
      }
    w->read[w->buffer[i]] |= w->l->operand[i].read;
    w->written[w->buffer[i]] |= w->l->operand[i].written;
  }
}

static void put_param(writing *w, int64_t value, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void put_param(writing *w, int64_t value, const char *format, ...) {
  char name[32];
  va_list ap;
  va_start(ap, format);
  vsnprintf(name, sizeof name, format, ap);
  va_end(ap);
  put(w, "%s%s in %s", w->params_n ? ", " : "", name, name[0] == 'S' ? "0..1099511627776" : "1..2147483648");
  if (w->params_n < PARAMS) w->params[w->params_n++] = value;
}

/* Of dimension d: '1' one row for all; 'n' as many as the loop; 'm' others, which repeat. */
static char kind_of(const writing *w, uint32_t i, int d) {
  const tg_ggml_operand *o = &w->l->operand[i];
  return o->ne[d] == w->l->ne[d] ? 'n' : o->ne[d] == 1 ? '1' : 'm';
}

static bool has_open_step(const writing *w, uint32_t i) {
  const tg_ggml_operand *o = &w->l->operand[i];
  return o->ne[0] > 1 && o->nb[0] > 4 * size_of(o->type);
}

static void put_params(writing *w) {
  if (!w->l->fixed) put_param(w, w->l->ne[0], "N");
  for (int d = 1; d < w->dimensions; d++) put_param(w, w->l->ne[d], "D%d", d);
  for (uint32_t i = 0; i < w->l->operands_n; i++) {
    const tg_ggml_operand *o = &w->l->operand[i];
    if (w->buffer[i] != i) continue;
    for (int d = 1; d < w->dimensions; d++) {
      char kind = kind_of(w, i, d);
      if (kind != '1') put_param(w, (int64_t)(o->nb[d] / size_of(o->type)), "S%u_%d", i, d);
      if (kind == 'm') put_param(w, o->ne[d], "E%u_%d", i, d);
    }
    if (has_open_step(w, i)) put_param(w, (int64_t)(o->nb[0] / size_of(o->type)), "S%u_0", i);
    if (o->ne[0] != w->l->ne[0] && o->ne[0] != 1 && !w->l->fixed) put_param(w, o->ne[0], "E%u_0", i);
  }
}

static void put_extent(writing *w, uint32_t i) {
  const tg_ggml_operand *o = &w->l->operand[i];
  if (o->ne[0] == w->l->ne[0]) put(w, "N");
  else if (o->ne[0] == 1) put(w, "1");
  else if (w->l->fixed) put(w, "%lld", (long long)o->ne[0]);
  else put(w, "E%u_0", i);
}

static void put_buffer(writing *w, uint32_t i) {
  const tg_ggml_operand *o = &w->l->operand[i];
  put(w, "  %s(b%u, %s, [", !w->written[i] ? "in" : w->read[i] ? "inout" : "out", i, type_names[o->type]);
  for (int d = w->dimensions - 1; d > 0; d--) {
    char kind = kind_of(w, i, d);
    if (kind == '1') put(w, "1, ");
    else if (kind == 'n') put(w, "D%d, ", d);
    else put(w, "E%u_%d, ", i, d);
  }
  put_extent(w, i);
  put(w, "], [");
  for (int d = w->dimensions - 1; d > 0; d--)
    if (kind_of(w, i, d) == '1') put(w, "0, ");
    else put(w, "S%u_%d, ", i, d);
  if (has_open_step(w, i)) put(w, "S%u_0]);\n", i);
  else put(w, "%zu]);\n", o->ne[0] == 1 ? 1 : o->nb[0] / size_of(o->type));
}

/* The row of operand i, up to the element. */
static void put_row(writing *w, uint32_t i) {
  put(w, "b%u[", i);
  for (int d = w->dimensions - 1; d > 0; d--) {
    char kind = kind_of(w, i, d);
    if (kind == '1') put(w, "0, ");
    else if (kind == 'n') put(w, "i%d, ", d);
    else put(w, "i%d %% E%u_%d, ", d, i, d);
  }
}

/* $k[..] becomes f32(..) where the type is another one, and the value of a line that begins with @k[..] is
 * converted. */
static void put_body(writing *w) {
  bool converts[16] = {false};
  int depth = 0;
  const char *closes = "";
  for (const char *s = w->l->body; *s; s++) {
    if ((*s == '$' || *s == '@') && s[1] >= '0' && s[1] <= '9' && s[2] == '[' && depth < 15) {
      uint32_t i = w->buffer[s[1] - '0'];
      tg_type t = w->l->operand[i].type;
      converts[++depth] = *s == '$' && (t == TG_F16 || t == TG_BF16);
      if (*s == '@') closes = t == TG_F32 ? "" : type_names[t];
      if (converts[depth]) put(w, "f32(");
      put_row(w, i);
      s += 2;
    } else if (*s == '[' && depth < 15) {
      converts[++depth] = false;
      put(w, "[");
    } else if (*s == ']' && depth) {
      put(w, converts[depth--] ? "])" : "]");
    } else if (*closes && *s == '=' && s[1] == ' ') {
      put(w, "= %s(", closes);
    } else if (*closes && *s == ';') {
      put(w, ");");
      closes = "";
    } else put(w, "%c", *s);
  }
}

static bool write_kernel(writing *w) {
  put(w, "kernel %s(", w->l->name);
  put_params(w);
  if (w->l->fixed) put(w, "%sN = %lld", w->params_n ? ", " : "", (long long)w->l->ne[0]);
  put(w, ") {\n");
  for (uint32_t i = 0; i < w->l->operands_n; i++)
    if (w->buffer[i] == i) put_buffer(w, i);
  put(w, "  ");
  for (int d = w->dimensions - 1; d > 0; d--) put(w, "range(i%d, D%d) ", d, d);
  put(w, "{\n");
  put_body(w);
  put(w, "  }\n}\n");
  return w->n < TEXT && w->params_n < PARAMS;
}

bool tg_ggml_run_loops(tg_ggml_session *s, const tg_ggml_loops *loops) {
  tg_ggml_loops l = *loops;
  writing w = {.l = &l};
  w.dimensions = join_dimensions(&l);
  find_buffers(&w);
  if (!write_kernel(&w)) return false;
  tg_kernel *k = tg_ggml_kernel(w.text);
  if (!k) return false;
  tg_argument arguments[TG_GGML_OPERANDS];
  uint32_t n = 0;
  for (uint32_t i = 0; i < l.operands_n; i++) {
    const tg_ggml_operand *o = &l.operand[i];
    if (w.buffer[i] != i) continue;
    size_t bytes = size_of(o->type);
    for (int d = 0; d < 4; d++) bytes += (size_t)(o->ne[d] - 1) * o->nb[d];
    arguments[n++] = (tg_argument){o->data, bytes};
  }
  tg_launch launch = {.buffers = arguments, .buffers_n = n, .params = w.params, .params_n = w.params_n,
                      .threads = s->threads};
  return !tg_kernel_run(k, &launch) || tg_ggml_failed(l.name);
}
