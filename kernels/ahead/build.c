/* SPDX-License-Identifier: MIT
 * tg/build.h: plans of products, or of attention, as the functions of one object. */
#include "ahead/attention.h"
#include "ahead/product.h"
#include "compile/ahead.h"
#include "kit/pack.h"

typedef struct {
  tg_ahead ahead;
  const char *const *names;
  const void *descs;
  size_t desc_bytes;
  uint32_t n;
  tg_gemm **plan;              /* of function i for target t: plan[i * targets + t] */
} build;

static const tg_gemm_desc *desc_of(const build *b, uint32_t i) {
  return (const tg_gemm_desc *)(const void *)((const char *)b->descs + i * b->desc_bytes);
}

static void check_names(build *b) {
  tg_env *e = &b->ahead.work.job->env;
  enum { MOST = 1000 };
  if (!b->n || b->n > MOST) tg_fail(e, TG_EINVAL, "%u functions are given; an object has 1 to %d", b->n, MOST);
  for (uint32_t i = 0; i < b->n; i++) {
    if (!b->names[i] || !tg_wrapper_name_fits(b->names[i]))
      tg_fail(e, TG_EINVAL, "function %u: '%s' is no name that a function of C and C++ can have", i,
              b->names[i] ? b->names[i] : "");
    for (uint32_t k = 0; k < i; k++)
      if (!strcmp(b->names[i], b->names[k])) tg_fail(e, TG_EINVAL, "two functions are named '%s'", b->names[i]);
  }
}

static void compile(tg_ahead *a) {
  build *b = (build *)a;
  tg_env *e = &a->work.job->env;
  check_names(b);
  b->plan = tg_kit_new(a->work.context, b->n * a->n * sizeof *b->plan);
  if (!b->plan) tg_fail(e, TG_ENOMEM, "out of memory");
  for (uint32_t i = 0; i < b->n; i++)
    for (uint32_t t = 0; t < a->n; t++) {
      tg_gemm **plan = &b->plan[i * a->n + t];
      if (tg_gemm_plan_whole(a->context[t], desc_of(b, i), b->desc_bytes, plan) != TG_OK)
        tg_fail(e, TG_EINVAL, "%s: %s", b->names[i], tg_format(e, "%s", tg_error_message(a->context[t])));
    }
}

static void write(tg_ahead *a, tg_wrapper *w, tg_str *header) {
  build *b = (build *)a;
  tg_str called = tg_str_new(w->env);
  tg_wrapper_header_before(header, b->names[0]);
  for (uint32_t i = 0; i < b->n; i++) {
    tg_gemm_desc d;
    tg_gemm_problem q;
    tg_ahead_check(a, a->context[0], TG_READ(a->context[0], tg_gemm_desc, &d, desc_of(b, i), b->desc_bytes));
    tg_ahead_check(a, a->context[0], tg_gemm_problem_of(a->context[0], &d, &q));
    tg_product_function(w, (const tg_gemm *const *)&b->plan[i * a->n], &q, b->names[i], i, header);
    if (d.packing) tg_packing_function(w, d.packing, b->names[i], header);
    tg_str_printf(&called, "%s%s", i ? ", " : "", b->names[i]);
  }
  tg_wrapper_header_behind(header);
  a->called = called.data;
}

static void drop(tg_ahead *a) {
  build *b = (build *)a;
  if (!b->plan) return;
  for (uint32_t i = 0; i < b->n * a->n; i++) tg_gemm_free(b->plan[i]);
  tg_kit_delete(a->work.context, b->plan, b->n * a->n * sizeof *b->plan);
}

/* ---- a packing for several targets ---- */

typedef struct {
  tg_context *of[TG_AHEAD_TARGETS];
  uint32_t n;
  tg_gemm_desc d;              /* without a packing */
  tg_gemm *plan;               /* of which nothing is compiled */
} packing_for;

/* Has each target a kernel for it? */
static bool suits_all(packing_for *k, tg_context *c, const tg_gemm_packing *p) {
  tg_gemm_desc d = k->d;
  d.packing = p;
  d.flags |= TG_GEMM_NO_COMPILE;   /* prices are not asked */
  for (uint32_t i = 0; i < k->n; i++) {
    tg_status s = tg_gemm_lay_out(k->of[i], &d, k->plan);
    if (s != TG_OK) return tg_context_fail(c, s, tg_error_message(k->of[i])), false;
  }
  return true;
}

/* The same with panels of another width. */
static bool with_panel(tg_gemm_packing *p, int64_t panel) {
  int64_t bytes;
  bool nibbles = p->format == TG_GEMM_NIBBLES;
  p->panel = (uint32_t)panel;
  bool fits = tg_kit_packed_bytes(p->n, nibbles ? tg_kit_words(p->k) : p->k, panel,
                                  nibbles ? 4 : tg_type_bytes(p->type), &bytes);
  p->bytes = (size_t)bytes;
  return fits;
}

/* The choice of the last target, or of one before it; else the most whole vectors of the widest, or halves of them. */
static tg_status choose_packing(packing_for *k, tg_context *c, tg_gemm_packing *out) {
  tg_gemm_problem q;
  uint32_t widest = 0;
  for (uint32_t i = k->n; i-- > 0;) {
    tg_status s = tg_gemm_packing_choose(k->of[i], &k->d, 1, out);
    if (s != TG_OK) return tg_context_fail(c, s, tg_error_message(k->of[i]));
    if (suits_all(k, c, out)) return TG_OK;
    if (k->of[i]->target.vector_bytes > widest) widest = k->of[i]->target.vector_bytes;
  }
  tg_status s = tg_gemm_problem_of(k->of[0], &k->d, &q);
  for (int64_t lanes = widest / (uint32_t)tg_type_bytes(q.acc); s == TG_OK && lanes > 1; lanes /= 2)
    for (int64_t vectors = 4; vectors > 0; vectors--)
      if (with_panel(out, vectors * lanes) && suits_all(k, c, out)) return TG_OK;
  return TG_EINVAL;
}

tg_status tg_build_packing_sized(tg_context *c, const tg_gemm_desc *desc, size_t desc_bytes, const char *const *targets,
                                 uint32_t n, tg_gemm_packing *out) {
  packing_for k = {.n = n};
  tg_status s = TG_OK;
  if (!c || !out) return TG_EINVAL;
  memset(out, 0, sizeof *out);
  if (!desc || !targets || !n || n > TG_AHEAD_TARGETS)
    return tg_kit_fail(c, TG_EINVAL, "a descriptor, and 1 to %d targets, are wanted", TG_AHEAD_TARGETS);
  if (TG_READ(c, tg_gemm_desc, &k.d, desc, desc_bytes) != TG_OK) return TG_EINVAL;
  k.d.packing = NULL;
  if (!(k.plan = tg_kit_new(c, sizeof *k.plan))) return TG_ENOMEM;
  for (uint32_t i = 0; i < n && s == TG_OK; i++) {
    const tg_context_options o = {.allocator = c->env.allocator, .target = targets[i], .tuned = ""};
    s = targets[i] ? tg_context_create(&o, &k.of[i]) : TG_EINVAL;
    if (s != TG_OK) tg_kit_fail(c, s, "no target is named '%s'", targets[i] ? targets[i] : "NULL");
  }
  if (s == TG_OK) s = choose_packing(&k, c, out);
  for (uint32_t i = 0; i < n; i++) tg_context_free(k.of[i]);
  tg_kit_delete(c, k.plan, sizeof *k.plan);
  if (s != TG_OK) memset(out, 0, sizeof *out);
  return s;
}

tg_status tg_build_gemm_sized(tg_context *c, const char *const *names, const tg_gemm_desc *descs, size_t desc_bytes,
                              uint32_t n, const char *const *targets, uint32_t targets_n, tg_built **out) {
  build b = {.ahead = {.work = {.context = c},
                       .names = targets,
                       .names_n = targets_n,
                       .compile = compile,
                       .write = write,
                       .drop = drop},
             .names = names,
             .descs = descs,
             .desc_bytes = desc_bytes,
             .n = n};
  if (c && (!names || !descs)) {
    if (out) *out = NULL;
    return tg_context_fail(c, TG_EINVAL, "names and descriptors must not be NULL");
  }
  return tg_ahead_build(&b.ahead, out);
}

/* ---- attention ---- */

typedef struct {
  build of;                    /* names, descriptors */
  tg_attention **plan;
} attention_build;

static const tg_attention_desc *attention_desc(const build *b, uint32_t i) {
  return (const tg_attention_desc *)(const void *)((const char *)b->descs + i * b->desc_bytes);
}

static void compile_attention(tg_ahead *a) {
  attention_build *b = (attention_build *)a;
  tg_env *e = &a->work.job->env;
  check_names(&b->of);
  b->plan = tg_kit_new(a->work.context, b->of.n * a->n * sizeof *b->plan);
  if (!b->plan) tg_fail(e, TG_ENOMEM, "out of memory");
  for (uint32_t i = 0; i < b->of.n; i++)
    for (uint32_t t = 0; t < a->n; t++) {
      tg_attention **plan = &b->plan[i * a->n + t];
      if (tg_attention_plan_sized(a->context[t], attention_desc(&b->of, i), b->of.desc_bytes, plan) != TG_OK)
        tg_fail(e, TG_EINVAL, "%s: %s", b->of.names[i], tg_format(e, "%s", tg_error_message(a->context[t])));
    }
}

static void write_attention(tg_ahead *a, tg_wrapper *w, tg_str *header) {
  attention_build *b = (attention_build *)a;
  tg_str called = tg_str_new(w->env);
  tg_wrapper_header_before(header, b->of.names[0]);
  for (uint32_t i = 0; i < b->of.n; i++) {
    tg_attention_desc d;
    tg_ahead_check(a, a->context[0], TG_READ(a->context[0], tg_attention_desc, &d, attention_desc(&b->of, i),
        b->of.desc_bytes));
    tg_attention_function(w, (const tg_attention *const *)&b->plan[i * a->n], &d, b->of.names[i], i, header);
    tg_str_printf(&called, "%s%s", i ? ", " : "", b->of.names[i]);
  }
  tg_wrapper_header_behind(header);
  a->called = called.data;
}

static void drop_attention(tg_ahead *a) {
  attention_build *b = (attention_build *)a;
  if (!b->plan) return;
  for (uint32_t i = 0; i < b->of.n * a->n; i++) tg_attention_free(b->plan[i]);
  tg_kit_delete(a->work.context, b->plan, b->of.n * a->n * sizeof *b->plan);
}

tg_status tg_build_attention_sized(tg_context *c, const char *const *names, const tg_attention_desc *descs,
                                   size_t desc_bytes, uint32_t n, const char *const *targets, uint32_t targets_n,
                                   tg_built **out) {
  attention_build b = {.of = {.ahead = {.work = {.context = c},
                                        .names = targets,
                                        .names_n = targets_n,
                                        .compile = compile_attention,
                                        .write = write_attention,
                                        .drop = drop_attention},
                              .names = names,
                              .descs = descs,
                              .desc_bytes = desc_bytes,
                              .n = n}};
  if (c && (!names || !descs)) {
    if (out) *out = NULL;
    return tg_context_fail(c, TG_EINVAL, "names and descriptors must not be NULL");
  }
  return tg_ahead_build(&b.of.ahead, out);
}
