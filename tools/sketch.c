/* SPDX-License-Identifier: MIT
 * tg show --sketch: the text of a sketch of matrix products, to start a kernel of one's own from. A sketch is C code
 * that says the text (kernels/gemm/sketches), so it is run for a problem, and what it says is kept. Knobs that its
 * words name stay knobs; those that only its C code reads have become numbers in the words. */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "dsl/text.h"
#include "gemm/sketch.h"
#include "shapes.h"

/* What sketches are for that are not for floats. */
static const struct { const char *sketch, *types, *target; } made_for[] = {
    {"tiles", "u8i8", "x86-64-v4"},      {"bytes", "u8i8", "x86-64-v4"},
    {"signed_bytes", "i8i8", "x86-64-v4"}, {"pairs", "bf16flush", "x86-64-v4"},
    {"weights", "q4", NULL},             {"grouped", "q4", NULL},
};

typedef struct {
  tg_job job;
  tg_target target;
  tg_gemm_problem problem;
  tg_gemm_def def;
  const tg_gemm_sketch *sketch;
  const char *types;
  tg_binding binding[32];
  uint32_t bindings_n;
  const char *text;
} work;

static const char *short_name(const tg_gemm_sketch *s) {
  return strncmp(s->kernel->name, "gemm_", 5) ? s->kernel->name : s->kernel->name + 5;
}

static const tg_gemm_sketch *sketch_named(const char *name) {
  for (uint32_t i = 0; tg_gemm_sketches[i]; i++)
    if (!strcmp(short_name(tg_gemm_sketches[i]), name) || !strcmp(tg_gemm_sketches[i]->kernel->name, name))
      return tg_gemm_sketches[i];
  fprintf(stderr, "tg show --sketch: no '%s'; there are", name);
  for (uint32_t i = 0; tg_gemm_sketches[i]; i++)
    fprintf(stderr, "%s %s", i ? "," : "", short_name(tg_gemm_sketches[i]));
  fputs("\n", stderr);
  return NULL;
}

/* ---- the problem ---- */

static bool take_types(work *w, const char *name) {
  tg_gemm_problem *p = &w->problem;
  w->types = name;
  p->batch = (tg_kit_dim){1, 1};
  if (!strcmp(name, "q4")) {   /* weights of 4 bits in groups of 32, packed ahead */
    p->a = p->c = p->acc = p->scale = TG_F32, p->b = TG_I8, p->bits = 4, p->group = 32, p->panel = 64;
    return true;
  }
  const tool_types *t = tool_types_named(name);
  if (!t) return false;
  p->a = t->a, p->b = t->b, p->c = t->c, p->flush = t->flags != 0;
  p->acc = t->c == TG_F16 || t->c == TG_BF16 ? TG_F32 : t->c;
  return true;
}

/* Of a parameter of the sketch's kernel: its size, or the length of a line if lines lie one behind another. */
static int64_t value_of(const tg_gemm_problem *p, const char *name) {
  int64_t m = p->m.lo, n = p->n.lo, k = p->k.lo;
  if (!strcmp(name, "M")) return m;
  if (!strcmp(name, "N")) return n;
  if (!strcmp(name, "K")) return k;
  if (!strcmp(name, "lda")) return p->a_major == TG_GEMM_COLUMN ? m : k;
  if (!strcmp(name, "ldb")) return (p->b_major == TG_GEMM_COLUMN ? k : n) / (p->bits == 4 ? 2 : 1);
  return n;   /* ldc, ld_group */
}

static bool take_problem(work *w, const tool_args *a) {
  const char *major = a->transposes ? a->transposes : "NN", *types = a->types ? a->types : "f32", *target = NULL;
  tg_gemm_problem *p = &w->problem;
  tg_kit_dim *size[] = {&p->m, &p->n, &p->k};
  for (size_t i = 0; i < sizeof made_for / sizeof *made_for; i++)
    if (!strcmp(made_for[i].sketch, short_name(w->sketch))) {
      target = made_for[i].target;
      if (!a->types) types = made_for[i].types;
    }
  if (!take_types(w, types)) return false;
  if (strlen(major) != 2 || strspn(major, "NT") != 2)
    return fprintf(stderr, "tg show --sketch: --transposes %s: NN, NT, TN or TT is wanted\n", major), false;
  p->a_major = major[0] == 'T' ? TG_GEMM_COLUMN : TG_GEMM_ROW;
  p->b_major = major[1] == 'T' ? TG_GEMM_COLUMN : TG_GEMM_ROW;
  for (int i = 0; i < 3; i++) *size[i] = (tg_kit_dim){512, 512};
  for (int i = 0; i < a->bindings; i++) {
    const char *at = strchr("MNK", a->binding[i].name[0]);
    int64_t v = a->binding[i].value;
    if (!at || !*at || a->binding[i].name[1] || v < 1 || v > INT32_MAX)
      return fprintf(stderr, "tg show --sketch: '%s=%lld': M, N, K of 1 to 2147483647 are wanted\n", a->binding[i].name,
                     (long long)v),
             false;
    *size[at - "MNK"] = (tg_kit_dim){v, v};
  }
  if (a->target ? !tg_target_named(&w->target, a->target)
                : !tg_target_named(&w->target, target ? target : "host"))
    return fprintf(stderr, "tg show --sketch: no target '%s'; tg devices lists them\n", a->target), false;
  if (!w->sketch->takes(p, &w->target))
    return fprintf(stderr, "tg show --sketch: %s is for other products than %s, %s\n", short_name(w->sketch), types,
                   major),
           false;
  return true;
}

/* ---- the text ---- */

static bool reads(const char *text, const char *name) {
  size_t n = strlen(name);
  for (const char *p = text; (p = strstr(p, name)); p += n) {
    bool begins = p == text || (!isalnum((unsigned char)p[-1]) && p[-1] != '_' && p[-1] != '.');
    if (begins && !isalnum((unsigned char)p[n]) && p[n] != '_') return true;
  }
  return false;
}

/* Is the line a knob, and of which name? */
static bool is_knob(const char *line, char name[64]) {
  return sscanf(line, " knob(%63[A-Za-z0-9_]", name) == 1;
}

static const char *name_in(work *w) { return tg_format(&w->job.env, "my_%s", short_name(w->sketch)); }

/* The chosen value first, then the others: the first one is a knob's default. */
static void put_knob(tg_str *out, const work *w, const char *name, const char *line, size_t n) {
  const tg_knob *k = NULL;
  for (uint32_t i = 0; i < w->job.knobs.n; i++)
    if (!strcmp(w->job.knobs.data[i].name, name)) k = &w->job.knobs.data[i];
  int64_t first = k ? k->values[0] : 0;
  for (uint32_t i = 0; i < w->bindings_n; i++)
    if (!strcmp(w->binding[i].name, name)) first = w->binding[i].lo;
  if (!k) {   /* a number that the C code names */
    tg_str_printf(out, "%.*s\n", (int)n, line);
    return;
  }
  tg_str_printf(out, "  knob(%s, %lld", name, (long long)first);
  for (uint32_t i = 0; i < k->n; i++)
    if (k->values[i] != first) tg_str_printf(out, ", %lld", (long long)k->values[i]);
  tg_str_puts(out, ");\n");
}

static void put_body(tg_str *out, const work *w, const char *written) {
  tg_str rest = tg_str_new(out->env);
  char name[64];
  for (const char *l = written; *l; l += strcspn(l, "\n") + 1)
    if (!is_knob(l, name)) tg_str_printf(&rest, "%.*s\n", (int)strcspn(l, "\n"), l);
  for (const char *l = written; *l; l += strcspn(l, "\n") + 1) {
    size_t n = strcspn(l, "\n");
    if (!is_knob(l, name)) tg_str_printf(out, "%.*s\n", (int)n, l);
    else if (reads(rest.data, name)) put_knob(out, w, name, l, n);
  }
}

static void say(void *arg) {
  work *w = arg;
  tg_kit_choice choice;
  tg_str written = tg_str_new(&w->job.env), out = tg_str_new(&w->job.env);
  char params[256], *rest = NULL;
  tg_gemm_kernel_of(&w->problem, w->sketch->kernel, &w->def);
  tg_gemm_choose_knobs(&w->problem, &w->target, 1, w->sketch, &choice);
  snprintf(params, sizeof params, "%s", w->def.params);
  for (char *p = strtok_r(params, ", ", &rest); p; p = strtok_r(NULL, ", ", &rest)) {
    int64_t v = value_of(&w->problem, p);
    w->binding[w->bindings_n++] = (tg_binding){tg_strdup(&w->job.env, p), v, v, 1};
  }
  uint32_t sizes = w->bindings_n;
  for (uint32_t i = 0; i < choice.knobs_n; i++) w->binding[w->bindings_n++] = choice.knob[i];
  w->job.written = &written;
  tg_author(&w->job, &w->def.def, w->bindings_n, w->binding, &w->problem);
  tg_str_printf(&out, "// The sketch %s for %s products on %s, as a kernel of its own.\n// Sizes, for example:",
                short_name(w->sketch), w->types, w->target.name);
  for (uint32_t i = 0; i < sizes; i++)
    tg_str_printf(&out, " %s=%lld", w->binding[i].name, (long long)w->binding[i].lo);
  tg_str_printf(&out, "\nkernel %s(%s) {\n", name_in(w), w->def.params);
  put_body(&out, w, written.data);
  tg_str_puts(&out, "}\n");
  w->text = out.data;
  w->bindings_n = sizes;
}

static void parse_again(void *arg) {
  work *w = arg;
  tg_job *j = &w[1].job;
  tg_parse_kernel(j, "sketch", w->text, w->bindings_n, w->binding);
}

int tool_show_sketch(const tool_args *a) {
  static work w[2];   /* the second one's job reads what the first one's says */
  if (a->file) return fprintf(stderr, "tg show --sketch: no file is wanted, '%s' is given\n", a->file), TOOL_USAGE;
  if (!(w->sketch = sketch_named(a->sketch)) || !take_problem(w, a)) return TOOL_USAGE;
  tg_job_init(&w[0].job, NULL);
  tg_job_init(&w[1].job, NULL);
  bool said = tg_protect(&w[0].job.env, say, w), again = said && tg_protect(&w[1].job.env, parse_again, w);
  if (again) fputs(w->text, stdout);
  else fprintf(stderr, "%s\n", w[said].job.env.message);
  tg_job_drop(&w[1].job);
  tg_job_drop(&w[0].job);
  return again ? TOOL_OK : TOOL_WRONG;
}
