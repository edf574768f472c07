/* SPDX-License-Identifier: MIT
 * From an operation's text to a kernel: declarations of the operands that it names, the activation, and conversions
 * where it reads and writes them. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include "dsl/uop.h"
#include "kit/words.h"
#include "nn/operations.h"

/* ---- text in a fixed buffer ---- */

typedef struct { char *at; size_t size, n; } text_of;

static void put(text_of *t, const char *format, ...) TG_PRINTF(2, 3);
static void put(text_of *t, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  int n = t->n < t->size ? vsnprintf(t->at + t->n, t->size - t->n, format, ap) : -1;
  va_end(ap);
  t->n = n < 0 ? t->size : t->n + (size_t)n;
}

/* ---- operands in a text ---- */

bool tg_nn_has(const tg_nn_problem *p, uint32_t operand) {
  switch (tg_nn_operands[operand].needs) {
    case NN_WITH_WEIGHT: return p->type[NN_OF_WEIGHT] != TG_VOID;
    case NN_WITH_BIAS: return p->type[NN_OF_BIAS] != TG_VOID;
    case NN_WITH_STATISTICS: return p->statistics || p->backward;
    default: return true;
  }
}

static size_t word_at(const char *s) {
  size_t n = 0;
  while (isalnum((unsigned char)s[n]) || s[n] == '_') n++;
  return n;
}

/* The operand whose access begins at s; NN_OPERANDS: none does. */
static uint32_t operand_at(const char *s) {
  size_t n = word_at(s);
  if (!n || s[n] != '[') return NN_OPERANDS;
  for (uint32_t i = 0; i < NN_OPERANDS; i++)
    if (strlen(tg_nn_operands[i].name) == n && !memcmp(tg_nn_operands[i].name, s, n)) return i;
  return NN_OPERANDS;
}

/* s is at a '[': what lies behind its ']'. */
static const char *behind_brackets(const char *s) {
  int depth = 0;
  do depth += *s == '[' ? 1 : *s == ']' ? -1 : 0;
  while (*s++ && depth);
  return s;
}

bool tg_nn_takes(const tg_nn_operation *o, uint8_t needs) {
  const char *const texts[] = {o->rows, o->columns};
  for (uint32_t i = 0; i < TG_COUNT(texts); i++)
    for (const char *s = texts[i]; s && *s; s += word_at(s) ? word_at(s) : 1) {
      uint32_t x = operand_at(s);
      if (x < NN_OPERANDS && tg_nn_operands[x].needs == needs) return true;
    }
  return false;
}

bool tg_nn_says(const tg_nn_operation *o, const char *word) { return tg_kit_reads(o->rows, word); }

/* ---- the body ---- */

typedef struct {
  const tg_nn_problem *p;
  const tg_nn_operation *o;
  text_of out;
  uint32_t reads, writes;
} writing;

static tg_type type_of(const writing *w, uint32_t operand) { return w->p->type[tg_nn_operands[operand].type]; }

/* In place, an operand is read where the result lies. */
static uint32_t placed(const writing *w, uint32_t operand) {
  return w->p->in_place && operand == w->o->place ? w->o->taken : operand;
}

static void put_read(writing *w, const char *s, const char *end);

/* The access to an operand at s, without conversions; *behind: what lies behind it. */
static void put_access(writing *w, const char *s, uint32_t operand, const char **behind) {
  const char *open = s + word_at(s);
  *behind = behind_brackets(open);
  put(&w->out, "%s", tg_nn_operands[placed(w, operand)].name);
  put_read(w, open, *behind);
}

/* What is read: up to `end`. */
static void put_read(writing *w, const char *s, const char *end) {
  while (s < end) {
    uint32_t x = operand_at(s);
    size_t n = word_at(s);
    if (x == NN_OPERANDS) {
      put(&w->out, "%.*s", (int)(n ? n : 1), s);
      s += n ? n : 1;
    } else if (!tg_nn_has(w->p, x)) {
      put(&w->out, "%s", tg_nn_operands[x].neutral);
      s = behind_brackets(s + n);
    } else {
      bool converts = type_of(w, x) != TG_F32 && type_of(w, x) != TG_I32;
      w->reads |= 1u << placed(w, x);
      put(&w->out, "%s", converts ? "f32(" : "");
      put_access(w, s, x, &s);
      put(&w->out, "%s", converts ? ")" : "");
    }
  }
}

/* A line, which ends at `end`. */
static void put_line(writing *w, const char *s, const char *end) {
  const char *word = s + strspn(s, " "), *behind;
  uint32_t x = operand_at(word);
  if (x == NN_OPERANDS) {
    put(&w->out, "  ");
    put_read(w, s, end);
    put(&w->out, "\n");
    return;
  }
  if (!tg_nn_has(w->p, x)) return;
  tg_type t = type_of(w, x);
  w->writes |= 1u << x;
  put(&w->out, "  %.*s", (int)(word - s), s);
  put_access(w, word, x, &behind);
  behind += strlen(" = ");
  put(&w->out, t == TG_F32 ? " = " : " = %s(", tg_type_name[t]);
  put_read(w, behind, end - 1);
  put(&w->out, t == TG_F32 ? ";\n" : ");\n");
}

/* ---- declarations ---- */

static void put_size(text_of *t, const char *name, int64_t lo, int64_t hi) {
  if (lo == hi) put(t, "%s = %lld", name, (long long)lo);
  else put(t, "%s in %lld..%lld", name, (long long)lo, (long long)hi);
}

static void put_parameters(writing *w, text_of *t) {
  const tg_nn_problem *p = w->p;
  const int64_t most_ld = (int64_t)1 << 40, most = (int64_t)1 << 31;
  put_size(t, "M", p->rows.lo, p->rows.hi);
  put_size(t, ", N", p->columns.lo, p->columns.hi);
  if (p->head) {
    long long half = (long long)p->rotary / 2;
    put(t, ", H = %lld, D = %lld, R = %lld", (long long)(p->columns.lo / p->head), (long long)p->head, 2 * half);
    put(t, ", STEP = %d, FAR = %lld", p->interleaved ? 2 : 1, p->interleaved ? 1 : half);
    put_size(t, ", P", 1, most);
  }
  for (uint32_t i = 0; i < NN_OPERANDS; i++) {
    if (!((w->reads | w->writes) >> i & 1) || !tg_nn_operands[i].ld) continue;
    char name[32];
    snprintf(name, sizeof name, ", %s_ld", tg_nn_operands[i].name);
    put_size(t, name, p->columns.lo > 1 ? p->columns.lo : 1, most_ld);
  }
}

static void put_operands(writing *w, text_of *t) {
  static const char *const shapes[] = {"[M, N]", "[N]", "[M]", "[P, R/2]"};
  for (uint32_t i = 0; i < NN_OPERANDS; i++) {
    const tg_nn_operand *x = &tg_nn_operands[i];
    bool read = w->reads >> i & 1, written = w->writes >> i & 1, matrix = x->shape == NN_MATRIX;
    if (!read && !written) continue;
    const char *word = !written ? "in" : w->p->in_place && i == w->o->taken ? "inout" : "out";
    put(t, "  %s(%s, %s%s, %s", word, x->name, tg_type_name[type_of(w, i)], i == NN_position ? " in 0..P-1" : "",
        matrix && w->p->head ? "[M, H, D]" : shapes[x->shape]);
    if (matrix) put(t, w->p->head ? ", [%s_ld, D, 1]" : ", [%s_ld, 1]", x->name);
    put(t, ");\n");
  }
}

/* Activations and their derivatives. */
static const struct { const char *act, *slope; } activations[] = {
    [TG_NN_GELU] = {"0.5f * v * erf(v * 0.70710678f) + 0.5f * v",
                    "0.5f * (1 + erf(v * 0.70710678f)) + v * exp(-0.5f * v * v) * 0.39894228f"},
    [TG_NN_GELU_TANH] = {"0.5f * v * tanh(0.79788456f * (v + 0.044715f * v * v * v)) + 0.5f * v",
                         "0.5f * (1 + tanh(0.79788456f * (v + 0.044715f * v * v * v))) + 0.5f * v * "
                         "(1 - square(tanh(0.79788456f * (v + 0.044715f * v * v * v)))) * "
                         "(0.79788456f + 0.10703222f * v * v)"},
    [TG_NN_SILU] = {"v / (1 + exp(-v))", "(1 + v * (1 - 1 / (1 + exp(-v)))) / (1 + exp(-v))"},
    [TG_NN_SIGMOID] = {"1 / (1 + exp(-v))", "(1 - 1 / (1 + exp(-v))) / (1 + exp(-v))"},
    [TG_NN_RELU] = {"max(v, 0.0f)", "where(v <= 0, 0.0f, 1.0f)"},
};

bool tg_nn_write(const tg_nn_problem *p, const char *name, const char *body, char *out, size_t size, uint32_t *used) {
  char lines[2048];
  writing w = {.p = p, .o = tg_nn_operation_of(p->op, p->backward), .out = {lines, sizeof lines, 0}};
  for (const char *s = body, *end; *s; s = end + 1) {
    end = s + strcspn(s, "\n");
    put_line(&w, s, end);
  }
  text_of t = {out, size, 0};
  put(&t, "kernel %s(", name);
  put_parameters(&w, &t);
  put(&t, ") {\n");
  put_operands(&w, &t);
  if (tg_nn_says(w.o, "act") || tg_nn_says(w.o, "slope")) {
    put(&t, "  def(square(v) = v * v);\n  def(act(v) = %s);\n", activations[p->activation].act);
    put(&t, "  def(slope(v) = %s);\n", activations[p->activation].slope);
  }
  if (tg_nn_says(w.o, "epsilon")) put(&t, "  let epsilon = %.9ef;\n", (double)p->epsilon);
  put(&t, "%s}\n", lines);
  *used |= w.reads | w.writes;
  return w.out.n < sizeof lines && t.n < size;
}
