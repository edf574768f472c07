/* SPDX-License-Identifier: MIT
 * Kernels whose sizes are open until the call: where no schedule is good at all sizes, the first choice divides them
 * (src/choose), and the kernel gets a code for each part. Every code is right for all sizes; which one a launch runs is
 * a comparison of its sizes. The division is kept beside the objects. */
#include "api/api.h"

static const char *key_of(tg_job *j, const tg_cache_entry *e) {
  return tg_format(&j->env, "division %016llx%016llx", (unsigned long long)tg_hash(e->key, e->key_n, 0),
                   (unsigned long long)tg_hash(e->key, e->key_n, 1));
}

static bool may_divide(const tg_compilation *w) {
  const tg_compile_options *o = w->source->options;
  return w->job->params.n && !o->opts && !o->pack && !(o->flags & (TG_COMPILE_AS_WRITTEN | TG_COMPILE_ONE)) &&
         tg_target_asked(w->context, o) == &w->context->target;
}

void tg_division_ask(tg_compilation *w) {
  if (may_divide(w)) w->job->division = tg_new(&w->job->env, tg_division, 1);
}

void tg_division_take(tg_compilation *w, bool fresh) {
  const tg_allocator *a = &w->context->env.allocator;
  const tg_division *d = w->job->division;
  if (!may_divide(w) || (fresh && !(d && d->n)) || !(w->division = a->alloc(a->user, TG_DIVISION_TEXT))) return;
  w->division[0] = 0;
  if (!fresh) {
    if (!tg_kept_read(w->context, key_of(w->job, &w->entry), w->division, TG_DIVISION_TEXT)) w->division[0] = 0;
    return;
  }
  for (uint32_t i = 0; i < d->n; i++)
    if (!tg_region_put(w->division, TG_DIVISION_TEXT, d->part[i].size, d->part[i].words)) {
      w->division[0] = 0;      /* words as long as that are none of the first choice's */
      return;
    }
  if (w->entry.key) tg_kept_write(w->context, key_of(w->job, &w->entry), w->division);
}

/* An earlier version with these words; NULL: there is none. */
static tg_device_kernel *earlier(const tg_kernel *k, const char *division, const char *words, size_t words_n) {
  tg_span size[TG_REGION_SIZES];
  const char *other;
  size_t other_n;
  for (uint32_t i = 0; i < k->versions_n && tg_region_get(&division, size, &other, &other_n); i++)
    if (other_n == words_n && !memcmp(other, words, words_n)) return k->version[i].loaded;
  return NULL;
}

typedef struct { const tg_kernel_source *s; char words[TG_DIVISION_TEXT]; } making;

static tg_device_kernel *make(tg_kernel *k, making *m, tg_version_fn *compile, void *user) {
  tg_allocator a = k->context->env.allocator;
  tg_compile_options o = *m->s->options;
  tg_kernel_source s = *m->s;
  tg_kernel *made = NULL;
  o.opts = m->words[0] ? m->words : NULL;
  o.flags = (o.flags & ~(uint32_t)(TG_COMPILE_TUNED | TG_COMPILE_TUNED_ONLY)) | TG_COMPILE_UNTUNED | TG_COMPILE_ONE |
            (o.opts ? 0 : TG_COMPILE_AS_WRITTEN);
  s.options = &o;
  if (compile(user, &s, &made) != TG_OK) return NULL;
  tg_device_kernel *loaded = made->loaded;
  tg_kernel_drop_text(made);
  a.free(a.user, made, made->bytes);
  return loaded;
}

void tg_kernel_divide(tg_kernel *k, const tg_kernel_source *s, const char *division, tg_version_fn *compile,
                      void *user) {
  tg_context *c = k->context;
  const tg_allocator *a = &c->env.allocator;
  const char *text = division, *words;
  size_t words_n;
  making *m = a->alloc(a->user, sizeof *m);
  for (tg_sized_code *v; m && k->versions_n < TG_REGIONS; k->versions_n++) {
    v = &k->version[k->versions_n];
    if (!tg_region_get(&text, v->size, &words, &words_n) || words_n >= TG_DIVISION_TEXT) break;
    m->s = s;
    memcpy(m->words, words, words_n);
    m->words[words_n] = 0;
    v->loaded = earlier(k, division, words, words_n);
    v->again = v->loaded != NULL;
    if (!v->loaded && !(v->loaded = make(k, m, compile, user))) {
      if (c->log && !tg_flag_is_set(s->options->cancel)) c->log(c->log_user, tg_error_message(c));
      break;
    }
    size_t workspace = v->loaded->info.workspace + v->loaded->info.shared;
    if (workspace > k->info.workspace) k->info.workspace = workspace;
  }
  if (m) a->free(a->user, m, sizeof *m);
}
