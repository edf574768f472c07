/* SPDX-License-Identifier: MIT
 * Two kernels of a program as one, in which the memory between them is gone: the writer's expression stands where the
 * reader loads, or, if the writer has sums, the reader's where the writer stores. One of both must be a map (fuse.h).
 *
 * The bits are those of the kernels one after another. Two things could change them:
 * - The order of sums, which the words of the schedule decide. A kernel with sums keeps its words: those of the first
 *   choice for its own sizes, not for the sizes at hand.
 * - Products that pass fma joins to sums. Of two maps each is given its fma's before they are put together, and there
 *   is no pass fma afterwards (TG_COMPILE_FORMED). Beside sums, whose additions are not there yet, the pass must run.
 *   So the map gets its fma's before, and what remains of it must offer no product to the pass that it would not find
 *   in the kernels apart, nor take one away by being equal to a node of the other: they read no memory in common.
 * Which product of a map the pass takes must not depend on the map's schedule (tg_fuse_unsure). */
#include "compile/fuse.h"
#include "compile/price.h"
#include "dsl/text.h"

typedef struct {
  tg_job *job;                 /* of the fused program: the base's */
  tg_context *context;
  tg_fusion *f;
  tg_fuse_side side[2];
  uint32_t base;               /* the kernel that takes the other one in */
  const tg_uop *define[TG_MAX_BUFFERS];   /* in job, by ordinal of the map's buffers */
  TG_VEC(const tg_uop *) fresh;           /* those of them that are new there */
  TG_VEC(uint8_t) fresh_of;               /* which buffers of the map's kernel they are */
} fusing;

/* ---- reading both ---- */

static void set_source(tg_fuse_side *s, tg_env *env) {
  const tg_kernel_info *i = &s->kernel->info;
  s->bindings = tg_new(env, tg_binding, i->params_n + 1);
  for (uint32_t k = 0; k < i->params_n; k++)
    s->bindings[k] = (tg_binding){i->params[k].name, s->params[k], s->params[k], 1};
  s->options = (tg_compile_options){.bindings = s->bindings,
                                    .bindings_n = i->params_n,
                                    .opts = s->kernel->words && s->kernel->words[0] ? s->kernel->words : NULL,
                                    .flags = s->kernel->text_flags | TG_COMPILE_UNTUNED};
  s->source = (tg_kernel_source){.file = "fused", .text = s->kernel->text, .options = &s->options};
}

static void read_side(void *arg) {
  tg_fuse_side *s = arg;
  tg_job *j = s->job;
  tg_kernel_source_read(j, &s->source);
  j->opts.n = 0;               /* words come last */
  tg_run_passes(j, s->context, &s->source, "raise", NULL, NULL);
  s->plain = tg_plain(j, j->sink);
  const char *name = s->kernel->info.buffers[s->between].name;
  s->between = 0;
  while (s->between < j->buffers.n && strcmp(j->buffers.data[s->between].name, name)) s->between++;
  tg_assert(&j->env, s->between < j->buffers.n);
  tg_fuse_see(s);
}

/* ---- are the bits the same? ---- */

/* Both have the memory in the same layout. Dimensions and strides are constants. */
static bool fits(const fusing *w) {
  const tg_uop *d[2];
  int64_t dense[2] = {1, 1};
  for (int i = 0; i < 2; i++) {
    const tg_fuse_side *s = &w->side[i];
    uint32_t n;
    const tg_uop **all = tg_toposort(s->job, s->plain, &n);
    d[i] = NULL;
    for (uint32_t k = 0; k < n; k++)
      if (all[k]->op == TG_OP_DEFINE && tg_buffer_ordinal(all[k]) == s->between) d[i] = all[k];
    if (!d[i]) return false;
    for (uint32_t k = 0; k < d[i]->n; k++)
      if (d[i]->src[k]->op != TG_OP_CONST) return false;
  }
  uint32_t rank = tg_buffer_info(w->side[0].job, d[0])->rank;
  if (d[0]->type != d[1]->type || d[0]->lanes != d[1]->lanes || rank != tg_buffer_info(w->side[1].job, d[1])->rank)
    return false;
  for (uint32_t k = rank; k-- > 0;) {
    int64_t stride[2];
    if (d[0]->src[k]->arg != d[1]->src[k]->arg) return false;
    for (int i = 0; i < 2; i++) {
      stride[i] = d[i]->arg >> 32 & TG_STRIDED ? d[i]->src[rank + k]->arg : dense[i];
      dense[i] *= d[i]->src[k]->arg;
    }
    if (stride[0] != stride[1] && d[0]->src[k]->arg != 1) return false;
  }
  return true;
}

/* The map with its fma's. */
static void form(void *arg) {
  tg_fuse_side *s = arg;
  const tg_lowering l = {.target = tg_target_asked(s->context, &s->options)};
  if (s->kernel->text_flags & TG_COMPILE_FORMED) return;
  s->plain = tg_pass_fma(s->job, &l, s->plain);
  tg_fuse_see(s);
}

typedef struct { const tg_fuse_side *s; bool more; } offering;

static void offer(void *arg) {
  offering *o = arg;
  const tg_lowering l = {.target = tg_target_asked(o->s->context, &o->s->options)};
  o->more = tg_pass_fma(o->s->job, &l, o->s->plain) != o->s->plain;
}

static bool form_map(tg_fuse_side *s) {
  bool formed = s->kernel->text_flags & TG_COMPILE_FORMED;
  return (formed || !tg_fuse_unsure(s)) && tg_protect(&s->job->env, form, s) && s->map;
}

static bool has_load_added(const fusing *w) {
  const tg_fuse_side *s = &w->side[TG_READER];
  uint32_t n;
  const tg_uop **all = tg_toposort(s->job, s->plain, &n);
  for (uint32_t i = 0; i < n; i++)
    if (tg_fuse_reads(all[i], s->between) && tg_fuse_is_added(s->job, s->plain, all[i])) return true;
  return false;
}

/* The only store to the memory between; NULL: there are several, or it is read, too. */
static const tg_uop *only_store(const tg_fuse_side *s) {
  uint32_t n;
  const tg_uop **all = tg_toposort(s->job, s->plain, &n), *found = NULL;
  for (uint32_t i = 0; i < n; i++) {
    if (tg_fuse_reads(all[i], s->between)) return NULL;
    if (all[i]->op != TG_OP_STORE || tg_buffer_ordinal(all[i]->src[0]) != s->between) continue;
    if (found || all[i]->arg & (TG_GATED | TG_ATOMIC)) return NULL;
    found = all[i];
  }
  return found;
}

static bool loads_plainly(const tg_fuse_side *s) {
  uint32_t n;
  const tg_uop **all = tg_toposort(s->job, s->plain, &n);
  for (uint32_t i = 0; i < n; i++)
    if ((tg_fuse_reads(all[i], s->between) && all[i]->arg & TG_GATED) || all[i]->op == TG_OP_PREFETCH) return false;
  return true;
}

static bool is_apart(const fusing *w) {   /* they read no memory in common */
  for (uint32_t i = 0; i < w->f->kernel[TG_READER]->info.buffers_n; i++)
    if (w->f->same[i]) return false;
  return true;
}

/* Beside sums. */
static bool keeps_sums(fusing *w) {
  tg_fuse_side *base = &w->side[w->base], *map = &w->side[!w->base];
  offering o = {map, false};
  const tg_uop *store = only_store(&w->side[TG_WRITER]);
  if (!store || !is_apart(w) || tg_fuse_has_bare_product(map)) return false;
  if (tg_fuse_is_product(tg_stored(store)) && has_load_added(w)) return false;
  if (w->base == TG_READER && (tg_fuse_two_products(base->job, base->plain) ||
                               tg_fuse_changes_terms(base->job, base->plain, base->between))) return false;
  return tg_protect(&map->job->env, offer, &o) && !o.more;
}

static bool choose_base(fusing *w) {
  tg_fuse_side *writer = &w->side[TG_WRITER], *reader = &w->side[TG_READER];
  if (!loads_plainly(reader) || !fits(w)) return false;
  if (writer->map && !writer->whole) return false;
  if (writer->map && reader->map) {
    w->base = TG_READER;
    return form_map(writer) && form_map(reader);
  }
  if (writer->map) w->base = TG_READER;
  else if (reader->map && reader->whole && reader->load) w->base = TG_WRITER;
  else return false;
  return form_map(&w->side[!w->base]) && keeps_sums(w);
}

/* ---- putting them together ---- */

static const tg_uop *brought(fusing *w, const tg_uop *u, const tg_uop *const *at, const tg_uop *between);

/* The map's buffer in the base: the one with the same address, or a new one. */
static const tg_uop *bring_buffer(fusing *w, const tg_uop *define) {
  tg_job *j = w->job;
  const tg_fuse_side *map = &w->side[!w->base], *base = &w->side[w->base];
  uint32_t o = tg_buffer_ordinal(define), rank = tg_buffer_info(map->job, define)->rank, k = 0;
  if (o >= TG_MAX_BUFFERS) tg_fail(&j->env, TG_ELIMIT, "too many buffers");
  if (w->define[o]) return w->define[o];
  tg_buffer b = *tg_buffer_info(map->job, define);
  while (strcmp(map->kernel->info.buffers[k].name, b.name)) k++;
  const tg_uop *src[16];
  for (uint32_t i = 0; i < define->n; i++) src[i] = brought(w, define->src[i], NULL, NULL);
  b.name = tg_sym(j, b.name), b.pos = (tg_pos){0};
  b.lo = b.lo ? brought(w, b.lo, NULL, NULL) : NULL, b.hi = b.hi ? brought(w, b.hi, NULL, NULL) : NULL;
  /* a common input: same[] names the pair */
  for (uint32_t i = 0; i < w->f->kernel[TG_READER]->info.buffers_n; i++) {
    uint32_t of[2] = {w->f->same[i] - 1u, i};
    if (!w->f->same[i] || of[!w->base] != k) continue;
    const char *name = base->kernel->info.buffers[of[w->base]].name;
    for (uint32_t s = 0; s < base->plain->n; s++) {
      const tg_uop *d = base->plain->src[s];
      if (d->op != TG_OP_DEFINE || strcmp(tg_buffer_info(j, d)->name, name)) continue;
      const tg_buffer *other = tg_buffer_info(j, d);
      if (d->type == define->type && d->n == define->n && d->arg >> 32 == define->arg >> 32 && other->lo == b.lo &&
          other->hi == b.hi && other->role == b.role && !memcmp(d->src, src, d->n * sizeof *src))
        return w->define[o] = d;
    }
  }
  const tg_uop *made = tg_define(j, b, define->lanes, src, define->arg >> 32 & TG_STRIDED ? src + rank : NULL, true);
  if (b.role == TG_ROLE_OUT) {   /* words call loops by the name of what they store to: it takes that of what is gone */
    const char *name = tg_buffer_info(j, made)->name;
    tg_buffer_info(j, made)->name = j->buffers.data[base->between].name;
    j->buffers.data[base->between].name = name;
  }
  tg_push(&j->env, &w->fresh, made);
  tg_push(&j->env, &w->fresh_of, (uint8_t)k);
  return w->define[o] = made;
}

/* The map's expression in the base. at: what its loops' ranges are there, in order of the nest; between: what the load
 * of the memory between is. */
static const tg_uop *brought(fusing *w, const tg_uop *u, const tg_uop *const *at, const tg_uop *between) {
  const tg_fuse_side *map = &w->side[!w->base];
  uint32_t n;
  const tg_uop **all = tg_toposort(map->job, u, &n);
  const tg_uop **to = tg_new(&w->job->env, const tg_uop *, u->id + 1);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *v = all[i], *src[16];
    if (between && v == map->load) to[v->id] = between;
    else if (v->op == TG_OP_DEFINE)
      to[v->id] = tg_buffer_ordinal(v) == map->between ? NULL : bring_buffer(w, v);
    else if (v->op == TG_OP_RANGE) {
      uint32_t k = 0;
      while (map->range[k] != v) k++;
      to[v->id] = at[k];
    } else {
      tg_assert(&w->job->env, v->n <= TG_COUNT(src));
      for (uint32_t k = 0; k < v->n; k++) src[k] = to[v->src[k]->id];
      to[v->id] = tg_make(w->job, v->op, v->type, v->lanes, v->arg, v->n, src);
    }
  }
  return to[u->id];
}

/* What the map's ranges are where the base accesses the memory between with these subscripts. access: the map's own. */
static void find_ranges(const tg_fuse_side *map, const tg_uop *access, const tg_uop *const *subscripts,
                        const tg_uop **at) {
  for (uint32_t d = 0; d < map->depth; d++) {
    uint32_t k = 0;
    while (map->range[k] != access->src[1 + d]) k++;
    at[k] = subscripts[d];
  }
}

static const tg_uop *join(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  fusing *w = user;
  const tg_fuse_side *map = &w->side[!w->base], *base = &w->side[w->base];
  const tg_uop *at[8] = {NULL};
  if (w->base == TG_READER && tg_fuse_reads(old, base->between)) {
    find_ranges(map, map->store, src + 1, at);
    return brought(w, tg_stored(map->store), at, NULL);
  }
  if (w->base == TG_READER || old->op != TG_OP_STORE || tg_buffer_ordinal(old->src[0]) != base->between) return NULL;
  const tg_uop *to[16];
  uint32_t rank = tg_access_rank(map->store);
  find_ranges(map, map->load, src + 1, at);
  to[0] = bring_buffer(w, tg_define_of(map->store->src[0]));
  for (uint32_t d = 0; d < rank; d++) to[1 + d] = brought(w, map->store->src[1 + d], at, NULL);
  to[1 + rank] = brought(w, tg_stored(map->store), at, src[old->n - 1]);
  return tg_make(j, TG_OP_STORE, TG_VOID, 1, map->store->arg, rank + 2, to);
}

static void note_buffer(fusing *w, uint8_t of, uint32_t buffer) {
  tg_fusion *f = w->f;
  if (f->buffers_n == TG_MAX_BUFFERS) tg_fail(&w->job->env, TG_ELIMIT, "too many buffers");
  f->buffer[f->buffers_n].of = of, f->buffer[f->buffers_n++].buffer = (uint8_t)buffer;
}

/* The program, with the buffers in order of their definitions. */
static const tg_uop *fused_program(fusing *w) {
  tg_job *j = w->job;
  const tg_fuse_side *base = &w->side[w->base];
  const tg_uop *joined = tg_map(j, base->plain, join, NULL, w);
  TG_VEC(const tg_uop *) list = {0};
  for (uint32_t i = 0; i < w->fresh.n; i++) {
    tg_push(&j->env, &list, w->fresh.data[i]);
    note_buffer(w, (uint8_t)!w->base, w->fresh_of.data[i]);
  }
  for (uint32_t i = 0; i < joined->n; i++) {
    const tg_uop *u = joined->src[i];
    if (u->op == TG_OP_DEFINE && tg_buffer_ordinal(u) == base->between) continue;
    tg_push(&j->env, &list, u);
    if (u->op != TG_OP_DEFINE || tg_buffer_info(j, u)->role == TG_ROLE_TEMP) continue;
    uint32_t k = 0;
    while (strcmp(base->kernel->info.buffers[k].name, tg_buffer_info(j, u)->name)) k++;
    note_buffer(w, (uint8_t)w->base, k);
  }
  return tg_simplify(j, w->context->rules, tg_versioned(j, tg_sink(j, list.n, list.data)));
}

static const char *write_fused(fusing *w, const tg_uop *sink) {
  tg_job *j = w->job;
  j->requires.n = 0;           /* they were about parameters, and are met */
  j->name = tg_format(&j->env, "%.60s_%.60s", w->f->kernel[TG_WRITER]->info.name, w->f->kernel[TG_READER]->info.name);
  tg_str text = tg_str_new(&j->env);
  tg_print(j, &text, sink);
  return text.data;
}

/* ---- words ---- */

typedef struct { fusing *w; tg_fuse_side *s; tg_job *job; const char *words; } wording;

/* The words that the kernel was compiled with. The text's sizes are open, as they were. */
static void find_words(void *arg) {
  wording *a = arg;
  const tg_kernel *k = a->s->kernel;
  tg_job *j = a->job;
  tg_compile_options o = {.flags = k->text_flags | TG_COMPILE_UNTUNED};
  tg_kernel_source s = {.file = "fused", .text = k->text, .options = &o};
  const tg_sized_code *part = NULL;
  uint32_t sizes = k->info.params_n < TG_REGION_SIZES ? k->info.params_n : TG_REGION_SIZES;
  tg_kernel_source_read(j, &s);
  if (j->params.n && !(o.flags & TG_COMPILE_ONE)) j->division = tg_new(&j->env, tg_division, 1);
  tg_run_passes(j, a->w->context, &s, NULL, NULL, NULL);
  for (uint32_t i = 0; i < k->versions_n && !part; i++)
    if (tg_region_has(k->version[i].size, a->s->params, sizes)) part = &k->version[i];
  for (uint32_t i = 0; part && i < j->division->n; i++)
    if (!memcmp(j->division->part[i].size, part->size, sizeof part->size)) a->words = j->division->part[i].words;
  if (part) return;
  tg_str words = tg_str_new(&j->env);
  for (uint32_t i = 0; i < j->opts.n; i++) tg_str_printf(&words, "%s%s", i ? "; " : "", j->opts.data[i].text);
  a->words = words.data ? words.data : "";
}

static bool set_words(fusing *w) {
  tg_fuse_side *base = &w->side[w->base];
  w->f->flags = TG_COMPILE_FORMED;
  w->f->words = NULL;
  if (w->side[TG_WRITER].map && w->side[TG_READER].map) return true;
  w->f->flags = 0;
  wording a = {.w = w, .s = base, .words = base->kernel->words};
  tg_job *job = NULL;
  bool ok = true;
  if (!a.words) {
    job = tg_new(&w->job->env, tg_job, 1), a.job = job;
    tg_job_init(job, &w->job->env.allocator);
    job->env.blocks = &w->context->blocks;
    ok = tg_protect(&job->env, find_words, &a) && a.words;
  }
  if (ok) w->f->words = tg_strdup(&w->job->env, a.words);
  if (job) tg_job_drop(job);
  return ok;
}

/* ---- does it pay? ---- */

static bool seconds_of(fusing *w, const tg_kernel_source *s, double *out) {
  tg_price p;
  if (tg_price_of(w->context, s, NULL, tg_target_asked(w->context, s->options)->threads, &p) != TG_OK) return false;
  *out = p.cost.seconds;
  return true;
}

static bool pays(fusing *w) {
  tg_fusion *f = w->f;
  double apart[2], fused;
  /* whether the operation gains is for it to say */
  if (f->asks == TG_FUSE_EPILOGUE) return seconds_of(w, &w->side[TG_READER].source, &f->seconds);
  tg_compile_options o = tg_fusion_options(f);
  tg_kernel_source s = {.file = "fused", .text = f->text, .options = &o};
  if (f->words) {   /* apart, too, the base runs with its own words, not with the best for these sizes */
    w->side[w->base].options.opts = o.opts;
    w->side[w->base].options.flags |= o.flags;
  }
  for (int i = 0; i < 2; i++)
    if (!seconds_of(w, &w->side[i].source, &apart[i])) return false;
  return seconds_of(w, &s, &fused) && fused < apart[0] + apart[1];
}

/* Three jobs are at work, each with its own memory and errors: any failure ends the attempt. */
static void read_both(void *arg) {
  fusing *w = arg;
  tg_job *j = w->job;
  read_side(&w->side[0]), read_side(&w->side[1]);
  w->f->maps = w->side[0].map && w->side[1].map;
  if ((w->f->asks != TG_FUSE_ANY && !w->f->maps) || !choose_base(w)) return;
  w->f->adds = w->f->maps && tg_fuse_adds_to(&w->side[TG_WRITER], 0);
  if (w->f->asks != TG_FUSE_EPILOGUE && !set_words(w)) return;
  w->job = w->side[w->base].job;
  const tg_uop *sink = fused_program(w);
  const tg_lowering l = {.target = &w->context->target};
  if (w->f->asks == TG_FUSE_EPILOGUE) tg_fuse_express(w->job, &l, sink, w->f);
  else w->f->text = write_fused(w, sink);
  w->job = j;
  w->f->text = w->f->text ? tg_strdup(&j->env, w->f->text) : NULL;
  w->f->in_blocks = w->f->in_blocks ? tg_strdup(&j->env, w->f->in_blocks) : NULL;
}

static void in_second(void *arg) {
  fusing *w = arg;
  tg_protect(&w->side[1].job->env, read_both, w);
}

static void in_first(void *arg) {
  fusing *w = arg;
  tg_protect(&w->side[0].job->env, in_second, w);
}

bool tg_compiler_fuse(tg_job *j, tg_context *c, tg_fusion *f) {
  fusing w = {.job = j, .context = c, .f = f};
  tg_job *jobs = tg_new(&j->env, tg_job, 2);
  f->text = f->in_blocks = NULL, f->buffers_n = 0, f->maps = false;
  for (int i = 0; i < 2; i++) {
    tg_fuse_side *s = &w.side[i];
    *s = (tg_fuse_side){.job = &jobs[i],
                        .context = c,
                        .kernel = f->kernel[i],
                        .params = f->params[i],
                        .between = f->between[i]};
    set_source(s, &j->env);
  }
  for (int i = 0; i < 2; i++) tg_job_init(&jobs[i], &j->env.allocator), jobs[i].env.blocks = &c->blocks;
  bool ok = tg_protect(&j->env, in_first, &w) && f->text;
  w.job = j;
  for (int i = 0; i < 2; i++) tg_job_drop(&jobs[i]);
  return ok && pays(&w);
}
