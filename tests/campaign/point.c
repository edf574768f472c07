/* SPDX-License-Identifier: MIT
 * Points of the campaign: a kernel's words are drawn one behind another, those that are refused are dropped; the
 * scheduled program runs in the interpreter with its checks of races, then as machine code between pages that fault,
 * on each number of threads, and once with its tasks in the caller's hands, in shuffled order. Every result is plain
 * C's. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include "../fuzz/words.h"
#include "interp/interp.h"
#include "ranges/ranges.h"
#include "run.h"

enum { MOST_NODES = 6000, TRIES = 5, SECONDS = 60 };
static const uint64_t INTERPRETER_STEPS = 2000000, INTERPRETER_MEMORY = 1 << 26;

typedef struct {
  const campaign_options *o;
  const campaign_entry *entry;
  const char *text;
  campaign_report *report;
  tg_context *ctx;
  tg_job *rules_job;
  const tg_rules *rules;
  tg_target target;
  words words;
  int sizes;
  struct { char name[24]; int64_t lo, hi, multiple; } range[CAMPAIGN_SIZES];   /* of the sizes, as the text has them */
  /* one point */
  uint64_t seed, state;            /* of the data; of the words */
  int schedule;                    /* its number */
  bool constant;                   /* the sizes are constants of the program */
  int64_t size[CAMPAIGN_SIZES];
  char list[CAMPAIGN_WORDS];       /* words, accepted so far, by "; " */
  uint32_t flags;                  /* of tg_compile_options */
  campaign_memory memory;
  tg_job job;
  bool failed, too_large;
} point;

double campaign_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint32_t draw(void *user, uint32_t limit) {
  point *p = user;
  p->state++;
  return limit > 1 ? (uint32_t)(campaign_hash(p->state, 7) >> 20) % limit : 0;
}

/* ---- reporting ---- */

static void say_line(point *p) {
  char *at = p->report->line, *end = at + CAMPAIGN_LINE;
  at += snprintf(at, (size_t)(end - at), "build/tests/campaign_kernels --seed %llu --only %s --sizes ",
                 (unsigned long long)p->o->seed, p->entry->name);
  for (int i = 0; i < p->sizes; i++)
    at += snprintf(at, (size_t)(end - at), "%s%lld", i ? "," : "", (long long)p->size[i]);
  if (!p->sizes) at += snprintf(at, (size_t)(end - at), "0");
  if (p->constant) at += snprintf(at, (size_t)(end - at), " --constant");
  if (p->o->target) at += snprintf(at, (size_t)(end - at), " --target %s", p->o->target);
  snprintf(at, (size_t)(end - at), " --words '%s'", p->flags ? p->list : "heuristic");
}

static void fault(point *p, long *count, const char *what, int threads, const char *message) {
  ++*count;
  p->failed = true;
  printf("%s: %s%s: %s\n  %s", p->entry->name, what, p->constant ? "" : " (sizes at run time)", message,
         p->report->line);
  if (threads) printf(" --threads %d", threads);
  printf("\n");
  fflush(stdout);
}

/* What the parent says if the child ends here. */
static void doing(point *p, char what) { p->report->doing = what; }

/* ---- reading and lowering: inside tg_protect ---- */

static tg_status attempt(point *p, void (*fn)(void *), char *message, size_t n) {
  tg_job_init(&p->job, NULL);
  tg_status s = tg_protect(&p->job.env, fn, p) ? TG_OK : p->job.env.status;
  if (message) snprintf(message, n, "%s", s ? p->job.env.message : "");
  tg_job_drop(&p->job);
  return s;
}

static void parse(point *p, bool bound) {
  tg_binding b[CAMPAIGN_SIZES];
  uint32_t n = 0;
  for (; bound && n < (uint32_t)p->sizes; n++) b[n] = (tg_binding){p->range[n].name, p->size[n], p->size[n], 1};
  p->job.name = p->entry->name;
  tg_parse_kernel(&p->job, p->entry->name, p->text, n, b);
}

static void learn(void *user) {
  point *p = user;
  parse(p, false);
  p->sizes = (int)p->job.params.n;
  if (p->sizes > CAMPAIGN_SIZES) tg_fail(&p->job.env, TG_ELIMIT, "more than %d sizes", CAMPAIGN_SIZES);
  for (int i = 0; i < p->sizes; i++) {
    const tg_param *q = &p->job.params.data[i];
    snprintf(p->range[i].name, sizeof p->range[i].name, "%s", q->name);
    p->range[i].lo = q->lo, p->range[i].hi = q->hi, p->range[i].multiple = q->multiple > 1 ? q->multiple : 1;
  }
}

static void lay_out(void *user) {
  point *p = user;
  parse(p, false);
  campaign_layout(&p->memory, &p->job, p->size);
}

/* Ranges, buffers and sizes that words may name. */
static void list_names(void *user) {
  point *p = user;
  words *w = &p->words;
  uint32_t n;
  parse(p, p->constant);
  memset(w, 0, sizeof *w);
  w->draw = draw, w->user = p, w->made = 100;
  const tg_uop **order = tg_toposort(&p->job, p->job.sink, &n);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = order[i];
    if (u->op == TG_OP_RANGE) {
      const char *name = p->job.ranges.data[tg_range_ordinal(u)].name;
      bool known = false;
      for (int k = 0; k < w->ranges; k++) known |= !strcmp(w->range[k].name, name);
      if (!known) words_add_range(w, name, tg_extent(u)->op == TG_OP_CONST);
    } else if (u->op == TG_OP_DEFINE) {
      const tg_buffer *b = tg_buffer_info(&p->job, u);
      if (b->role == TG_ROLE_TEMP) words_add_buffer(w->tile, &w->tiles, b->name);
      else if (b->role == TG_ROLE_IN) words_add_buffer(w->input, &w->inputs, b->name);
      else words_add_buffer(w->output, &w->outputs, b->name);
    }
  }
  for (int i = 0; i < p->sizes; i++) words_add_buffer(w->size, &w->sizes, p->range[i].name);
}

static void push_words(point *p) {
  for (const char *at = p->list; *at;) {
    size_t n = strcspn(at, ";");
    const char *text = tg_strndup(&p->job.env, at, n);
    tg_push(&p->job.env, &p->job.opts,
            ((tg_opt_text){text, {.file = "words", .text = text, .line = 1, .column = 1, .length = (int)n}}));
    at += n + (at[n] == ';');
    at += strspn(at, " ");
  }
}

static void lower_list(void *user) {
  point *p = user;
  uint32_t n;
  tg_lowering l = {.target = &p->target, .rules = p->rules};
  parse(p, p->constant);
  push_words(p);
  const tg_uop *sink = tg_lower(&p->job, &l, "place", NULL, NULL);
  tg_toposort(&p->job, sink, &n);
  p->too_large = n > MOST_NODES;
}

/* Tasks in an order of each point's own: what is independent does not mind. */
static void interpret(void *user) {
  point *p = user;
  tg_lowering l = {.target = &p->target, .rules = p->rules};
  tg_interp_buffer buffers[CAMPAIGN_BUFFERS];
  parse(p, p->constant);
  push_words(p);
  const tg_uop *sink = tg_lower(&p->job, &l, "schedule", NULL, NULL);
  campaign_plain(&p->memory);
  for (int i = 0; i < p->memory.n; i++) buffers[i] = (tg_interp_buffer){p->memory.plain[i], p->memory.buffer[i].bytes};
  tg_interp in = {.buffers = buffers,
                  .params = p->size,
                  .step_limit = INTERPRETER_STEPS,
                  .memory_limit = INTERPRETER_MEMORY,
                  .check_uninitialised = true,
                  .check_races = true,
                  .order = p->schedule};
  tg_interpret(&p->job, sink, &in);
}

/* ---- one point ---- */

/* Small ones and the largest come often: rests, loops that do not run, the last page. */
static void draw_sizes(point *p) {
  for (int i = 0; i < p->sizes; i++) {
    int64_t m = p->range[i].multiple, lo = (p->range[i].lo + m - 1) / m, hi = p->range[i].hi / m, v;
    uint32_t k = draw(p, 12);
    if (k == 0) v = lo;
    else if (k == 1) v = hi;
    else if (k == 2) v = lo + (hi > lo);
    else v = lo + (int64_t)draw(p, (uint32_t)(hi - lo + 1));
    p->size[i] = v * m;
  }
}

static void draw_words(point *p) {
  char message[CAMPAIGN_LINE], word[WORDS_TEXT];
  int wanted = 1 + (int)draw(p, CAMPAIGN_MOST_WORDS), kept = 0;
  if (attempt(p, list_names, message, sizeof message)) {
    fault(p, &p->report->other, "refused as written", 0, message);
    return;
  }
  if (!p->words.ranges) return;
  for (int tries = wanted * TRIES; kept < wanted && tries-- > 0 && !p->failed;) {
    size_t n = strlen(p->list);
    words_draw(&p->words, word);
    if (n + strlen(word) + 4 > sizeof p->list) return;
    snprintf(p->list + n, sizeof p->list - n, "%s%s", n ? "; " : "", word);
    p->report->words++;
    say_line(p);
    tg_status s = attempt(p, lower_list, message, sizeof message);
    if (s == TG_OK && !p->too_large) {
      kept++;
      continue;
    }
    if (s == TG_OK) p->report->large++;
    else if (s == TG_EINVAL || s == TG_ELIMIT) p->report->refused++;
    else fault(p, &p->report->other, "internal error", 0, message);
    p->list[n] = 0;
  }
  say_line(p);
}

static void check_interpreted(point *p) {
  char message[CAMPAIGN_LINE];
  doing(p, 'i');
  tg_status s = attempt(p, interpret, message, sizeof message);
  if (s == TG_ELIMIT) return;
  p->report->interpreted++;
  if (s && strstr(message, "race")) fault(p, &p->report->races, "RACE by the interpreter", 0, message);
  else if (s) fault(p, &p->report->other, "interpreter", 0, message);
  else if (!campaign_right(&p->memory, false, message, sizeof message))
    fault(p, &p->report->wrong, "WRONG in the interpreter", 0, message);
}

/* The caller's own threads at their most awkward: one task after another, in an order of the seed's. */
static void shuffled(void *user, int64_t n, void (*task)(void *arg, int64_t i), void *arg) {
  uint64_t seed = *(const uint64_t *)user;
  int64_t *order = malloc((size_t)(n + 1) * sizeof *order);
  for (int64_t i = 0; i < n; i++) order[i] = i;
  for (int64_t i = n - 1; i > 0; i--) {
    int64_t k = (int64_t)(campaign_hash(seed, (uint64_t)i) % (uint64_t)(i + 1)), t = order[i];
    order[i] = order[k], order[k] = t;
  }
  for (int64_t i = 0; i < n; i++) task(arg, order[i]);
  free(order);
}

static void run_once(point *p, tg_kernel *k, int threads, campaign_placement place) {
  char message[CAMPAIGN_LINE];
  tg_argument a[CAMPAIGN_BUFFERS];
  if (!campaign_place(&p->memory, place)) return;
  for (int i = 0; i < p->memory.n; i++) a[i] = (tg_argument){p->memory.pages[i].data, p->memory.buffer[i].bytes};
  uint32_t params = tg_kernel_describe(k)->params_n;
  tg_launch l = {.buffers = a,
                 .buffers_n = (uint32_t)p->memory.n,
                 .params = p->size,
                 .params_n = params,
                 .threads = threads,
                 .parallel_for = threads ? NULL : shuffled,
                 .parallel_user = &p->seed};
  doing(p, 'r');
  p->report->runs++;
  if (tg_kernel_run(k, &l)) fault(p, &p->report->other, "launch", threads, tg_error_message(p->ctx));
  else if (!campaign_right(&p->memory, true, message, sizeof message)) {
    const char *what = threads == 1 ? "WRONG"
                       : threads    ? "WRONG on several threads"
                                    : "WRONG with its tasks in another order";
    fault(p, &p->report->wrong, what, threads, message);
  }
}

static bool prepare(point *p) {
  char message[CAMPAIGN_LINE];
  campaign_drop(&p->memory);
  if (attempt(p, lay_out, message, sizeof message)) return fault(p, &p->report->other, "no layout", 0, message), false;
  p->memory.seed = p->seed;
  if (!campaign_reference(&p->memory, message, sizeof message))
    return fault(p, &p->report->other, "the campaign's own fault", 0, message), false;
  return true;
}

static void run_everywhere(point *p, tg_kernel *k) {
  for (int t = 0; t <= p->o->threads_n; t++) {   /* the last: shuffled */
    int places = t < p->o->threads_n ? CAMPAIGN_PLACEMENTS : 1;
    for (int place = 0; place < places && !p->failed; place++)
      run_once(p, k, t < p->o->threads_n ? p->o->threads[t] : 0, (campaign_placement)place);
  }
}

static void run_machine(point *p) {
  tg_kernel *k = NULL;
  tg_binding b[CAMPAIGN_SIZES];
  uint32_t n = 0;
  for (; p->constant && n < (uint32_t)p->sizes; n++) b[n] = (tg_binding){p->range[n].name, p->size[n], p->size[n], 1};
  tg_compile_options o = {.bindings = b,
                          .bindings_n = n,
                          .opts = *p->list ? p->list : NULL,
                          .flags = p->flags | TG_COMPILE_NO_CACHE,
                          .kernel = p->entry->name};
  doing(p, 'c');
  tg_status s = tg_kernel_compile_text(p->ctx, p->entry->name, p->text, &o, &k);
  if (s == TG_ELIMIT) {
    p->report->large++;
    return;
  }
  if (s) {
    fault(p, &p->report->other, *p->list ? "accepted, then refused" : "does not compile", 0, tg_error_message(p->ctx));
    return;
  }
  p->report->points++;
  run_everywhere(p, k);
  if (!p->constant && !p->o->words && !p->failed) {   /* and at other sizes */
    draw_sizes(p);
    say_line(p);
    if (prepare(p)) run_everywhere(p, k);
  }
  tg_kernel_free(k);
}

/* The first point of a kernel is the heuristic's choice. */
static void one_point(point *p) {
  p->failed = false;
  *p->list = 0;
  p->flags = TG_COMPILE_AS_WRITTEN;
  p->state = campaign_hash(campaign_hash_text(p->o->seed, p->entry->name), (uint64_t)p->schedule);
  p->seed = campaign_hash_text(p->o->seed, p->entry->name);
  doing(p, 'l');
  p->constant = draw(p, 2);
  draw_sizes(p);
  say_line(p);
  if (!prepare(p)) return;
  if (p->schedule) draw_words(p);
  else p->flags = 0, say_line(p);
  if (!p->failed && p->schedule) check_interpreted(p);
  if (!p->failed) run_machine(p);
}

static void given_point(point *p) {
  bool heuristic = !strcmp(p->o->words, "heuristic");
  p->failed = false;
  snprintf(p->list, sizeof p->list, "%s", heuristic ? "" : p->o->words);
  p->flags = heuristic ? 0 : TG_COMPILE_AS_WRITTEN;
  p->seed = campaign_hash_text(p->o->seed, p->entry->name);
  p->constant = p->o->constant;
  for (int i = 0; i < p->sizes; i++) p->size[i] = i < p->o->sizes ? p->o->size[i] : p->range[i].hi;
  say_line(p);
  if (!prepare(p)) return;
  if (!heuristic) check_interpreted(p);
  p->failed = false;
  run_machine(p);
}

static void compile_rules(void *user) {
  point *p = user;
  p->rules = tg_rules_compile(&p->rules_job->env);
}

static void all_points(point *p) {
  char message[CAMPAIGN_LINE];
  if (attempt(p, learn, message, sizeof message)) {
    say_line(p);
    fault(p, &p->report->other, "refused as written", 0, message);
    p->report->next = p->o->schedules;
    return;
  }
  for (p->schedule = p->report->next; p->schedule < p->o->schedules && (!p->o->until || campaign_clock() < p->o->until);
       p->schedule++) {
    /* Of processor time: a busy machine is no fault. SIGPROF ends the child. */
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_sec = SECONDS}, NULL);
    p->report->next = p->schedule + 1;
    if (p->o->words) given_point(p);
    else one_point(p);
  }
  p->report->next = p->o->schedules;
}

void campaign_points(const campaign_options *o, const campaign_entry *entry, const campaign_entry *wide,
                     const char *text, campaign_report *r) {
  static point p;
  static tg_job rules_job;
  p = (point){.o = o,
              .entry = entry,
              .text = text,
              .report = r,
              .rules_job = &rules_job,
              .memory = {.entry = entry, .wide = wide}};
  tg_job_init(&rules_job, NULL);
  bool known = o->target ? tg_target_named(&p.target, o->target) : (tg_target_host(&p.target, 2), true);
  tg_context_options c = {.target = o->target};
  if (!known || !tg_protect(&rules_job.env, compile_rules, &p) || tg_context_create(&c, &p.ctx)) {
    printf("no context for %s: %s\n", o->target ? o->target : "the host", rules_job.env.message);
    r->other++, r->next = o->schedules;
    return;
  }
  all_points(&p);
  campaign_drop(&p.memory);
  tg_context_free(p.ctx);
  tg_job_drop(&rules_job);
}
