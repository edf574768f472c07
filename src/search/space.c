/* SPDX-License-Identifier: MIT
 * The space of a search: the knobs of the sketches, and the text of a point. A sketch's body runs anew for each set of
 * knob values; a requirement that does not hold ends the body, which prunes the point. */
#include <stdio.h>
#include "dsl/text.h"
#include "search/search.h"

typedef struct {
  tg_job job;
  tg_points *space;
  tg_sketch *sketch;
  const int64_t *knob;
  const char *text, *words;
  tg_env *env;
} authoring;

static void author(void *arg) {
  authoring *a = arg;
  tg_job *j = &a->job;
  const tg_sketch_source *s = &a->sketch->source;
  uint32_t n = 0;
  tg_binding *b = tg_new(&j->env, tg_binding, a->space->bindings_n + TG_POINT_KNOBS);
  for (uint32_t i = 0; i < a->space->bindings_n; i++) b[n++] = a->space->bindings[i];
  for (uint32_t i = 0; a->knob && i < a->sketch->knobs; i++)
    b[n++] = (tg_binding){a->sketch->knob[i].name, a->knob[i], a->knob[i], 1};
  if (s->def) tg_author(j, s->def, n, b, s->user);
  else {
    j->name = s->kernel;
    tg_parse_kernel(j, s->file ? s->file : "text", s->text, n, b);
  }
}

static bool is_bound(const tg_points *s, const char *name) {
  for (uint32_t i = 0; i < s->bindings_n; i++)
    if (!strcmp(s->bindings[i].name, name)) return true;
  return false;
}

/* Runs the body with default knobs. Fills in the name, and the knobs except those that the caller bound. */
static void read_sketch(void *arg) {
  authoring *a = arg;
  tg_job *j = &a->job;
  author(a);
  a->sketch->name = tg_strdup(a->env, j->name);
  for (uint32_t i = 0; i < j->knobs.n; i++) {
    const tg_knob *k = &j->knobs.data[i];
    tg_assert(&j->env, k->n > 0);   /* the first value is the default */
    if (is_bound(a->space, k->name)) continue;
    if (a->sketch->knobs == TG_POINT_KNOBS)
      tg_fail(&j->env, TG_ELIMIT, "%s has over %d knobs", j->name, TG_POINT_KNOBS);
    int64_t *values = tg_new(a->env, int64_t, k->n);
    memcpy(values, k->values, k->n * sizeof *values);
    a->sketch->knob[a->sketch->knobs++] = (tg_space_knob){tg_strdup(a->env, k->name), values, k->n};
  }
}

static void print_point(void *arg) {
  authoring *a = arg;
  tg_job *j = &a->job;
  author(a);
  tg_str words = tg_str_new(a->env), text = tg_str_new(&j->env);
  for (uint32_t i = 0; i < j->opts.n; i++) tg_str_printf(&words, "%s%s", i ? "; " : "", j->opts.data[i].text);
  if (j->opts.n) a->words = words.data;
  j->opts.n = 0;
  tg_print(j, &text, j->sink);
  a->text = tg_strdup(a->env, text.data);
}

/* Runs the body in a job of its own. False: it failed; the message is allocated in the env. */
static bool in_job(authoring *a, void (*run)(void *), const char **message) {
  tg_job_init(&a->job, &a->env->allocator);
  bool ok = tg_protect(&a->job.env, run, a);
  if (!ok) *message = tg_strdup(a->env, a->job.env.message);
  tg_job_drop(&a->job);
  return ok;
}

void tg_space_open(tg_points *s, tg_env *env, const tg_sketch_source *source, uint32_t n, const tg_binding *bindings,
                   uint32_t bindings_n) {
  *s = (tg_points){
      .env = env, .bindings = bindings, .bindings_n = bindings_n, .sketch = tg_new(env, tg_sketch, n ? n : 1)};
  authoring *a = tg_new(env, authoring, 1);
  for (uint32_t i = 0; i < n; i++) {
    const char *message = "";
    tg_sketch *k = &s->sketch[s->sketches];
    *k = (tg_sketch){.source = source[i], .given = i};
    *a = (authoring){.space = s, .sketch = k, .env = env};
    if (in_job(a, read_sketch, &message)) s->sketches++;
    else if (!i) tg_fail(env, TG_EINVAL, "%s", message);
  }
  if (!n) tg_fail(env, TG_EINVAL, "no kernel is given");
}

uint32_t tg_space_sketch(const tg_points *s, const char *name) {
  uint32_t i = 0;
  while (i < s->sketches && strcmp(s->sketch[i].name, name)) i++;
  return i;
}

static uint64_t hash_text(const char *t, uint64_t seed) { return t ? tg_hash(t, strlen(t), seed) : tg_mix(seed, 1); }

bool tg_space_point(tg_points *s, uint32_t sketch, const int64_t *knob, const char *words, const char *given,
                    tg_point *p) {
  tg_env *env = s->env;
  tg_assert(env, sketch < s->sketches);
  authoring *a = tg_new(env, authoring, 1);
  *p = (tg_point){.sketch = sketch};
  if (knob) memcpy(p->knob, knob, sizeof p->knob);
  else
    for (uint32_t i = 0; i < s->sketch[sketch].knobs; i++) p->knob[i] = s->sketch[sketch].knob[i].values[0];
  *a = (authoring){.space = s, .sketch = &s->sketch[sketch], .knob = p->knob, .env = env};
  bool ok = in_job(a, print_point, &p->message);
  p->outcome = ok ? TG_TRIAL_OK : TG_TRIAL_ILLEGAL;
  p->text = ok ? a->text : "";
  p->words = words ? words : a->words;
  p->given = p->words ? NULL : given;
  p->own_words = !words && !p->given;
  p->id = tg_hash(p->knob, sizeof p->knob, tg_mix(sketch, 7));
  p->id = hash_text(p->given, hash_text(p->words, hash_text(p->text, p->id)));
  return ok;
}

uint32_t tg_words_count(const char *words) {
  uint32_t n = 0;
  for (const char *w = words; w && *w; w += *w == ';' || *w == '\n') {
    size_t k = strcspn(w, ";\n");
    if (strspn(w, " \t") < k) n++;
    w += k;
  }
  return n;
}
