/* SPDX-License-Identifier: MIT
 * Is what the schedule accepts sound, and what it refuses worth refusing? Small nests of uniform dependences,
 * anti-dependences and rings are drawn, and words over them; the scheduled program's statement instances are
 * enumerated one by one, each with the author's instance that it is, and every pair that meets in one element, one
 * of them writing, must be ordered as in the author's text.
 *   campaign_order [--seed S] [--lists N] [--verbose]      default: seed 1, until 1,500 lists are legal by this oracle
 * Order in the scheduled program: of the loops around both, from the outermost, the first that runs one iteration
 * after another and whose values differ decides; before it a loop of tasks (thread, global) whose values differ
 * leaves the two without order; loops in lockstep (lane, upcast, local) decide nothing. Else the text's order
 * decides, and two instances of one statement have none.
 * Each author's statement reads T[number, i, j, k] of an input that nothing writes: where that stands in the
 * scheduled program, its subscripts are the author's instance, whatever words have made of the loops.
 * Accepted and not legal is a fault; so is a form that runs an instance twice or never. Legal and not accepted is
 * counted: 90 % must be accepted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../fuzz/words.h"
#include "compile/pipeline.h"
#include "run.h"

enum {
  DEPTH = 3,
  EXTENT = 6,
  STATEMENTS = 4,
  READS = 2,
  ARRAYS = 3,
  INSTANCES = 1024,
  LOOPS = 24,
  TEXT = 4096,
  BAR = 90,
  MOST_LIST = 600
};

typedef struct { int array, offset[DEPTH]; } access;
typedef struct {
  int level;
  bool after;
  int reads;
  access write, read[READS];
} statement; /* level: how many loops stand around it; after: behind the loop inside */
typedef struct {
  int depth, extent[DEPTH], n;
  statement s[STATEMENTS];
} nest; /* statements in the order of the text */

/* One run of a statement. The author's: statement and iteration; merged: its store has gone, and a later statement
 * reads what it read. The scheduled program's: the way to it, a child of each body and a value of each loop. */
typedef struct {
  int statement, at[DEPTH];
  bool merged;
  int depth;
  int child[LOOPS], value[LOOPS];
  uint8_t kind[LOOPS];
} instance;

typedef enum { LEGAL, NOT_LEGAL, BROKEN, UNKNOWN } verdict;

typedef struct {
  uint64_t state;
  tg_target target;
  const tg_rules *rules;
  nest nest;
  char text[TEXT], list[MOST_LIST];
  words words;
  tg_job job;
  bool unjudged;
  int64_t value[4096];                 /* by range ordinal, in the walk */
  instance done[INSTANCES], now;
  int n;
  verdict found;
  char why[400];
} oracle;

static uint32_t draw(void *user, uint32_t limit) {
  oracle *o = user;
  o->state++;
  return limit > 1 ? (uint32_t)(campaign_hash(o->state, 11) >> 20) % limit : 0;
}

/* ---- nests ---- */

static access draw_access(oracle *o, const nest *n) {
  access a = {.array = (int)draw(o, ARRAYS)};
  for (int d = 0; d < n->depth; d++) a.offset[d] = draw(o, 2) ? (int)draw(o, 3) : 1;
  return a;
}

static int by_place(const void *a, const void *b) { /* of the text: outer ones before, inner ones, outer ones behind */
  const statement *x = a, *y = b;
  return (x->after ? 100 - x->level : x->level) - (y->after ? 100 - y->level : y->level);
}

static void draw_nest(oracle *o) {
  nest *n = &o->nest;
  *n = (nest){.depth = 1 + (int)draw(o, DEPTH)};
  for (int d = 0; d < n->depth; d++) n->extent[d] = 2 + (int)draw(o, EXTENT - 1);
  n->n = 1 + (int)draw(o, STATEMENTS);
  bool perfect = draw(o, 3) > 0;
  for (int i = 0; i < n->n; i++) {
    statement *s = &n->s[i];
    s->level = perfect || i == 0 ? n->depth : 1 + (int)draw(o, (uint32_t)n->depth);
    s->after = s->level < n->depth && draw(o, 2);
    s->reads = 1 + (int)draw(o, READS);
    s->write = draw_access(o, n);
    for (int r = 0; r < s->reads; r++) s->read[r] = draw_access(o, n);
  }
  qsort(n->s, (size_t)n->n, sizeof *n->s, by_place);
}

static const char *const loop_name[] = {"i", "j", "k"};

static char *put_access(char *at, const nest *n, const statement *s, const access *a) {
  at += sprintf(at, "%c[", 'a' + a->array);
  for (int d = 0; d < n->depth; d++)
    at += d < s->level ? sprintf(at, "%s%s+%d", d ? ", " : "", loop_name[d], a->offset[d])
                       : sprintf(at, "%s%d", d ? ", " : "", a->offset[d]);
  return at + sprintf(at, "]");
}

static char *put_statement(char *at, const nest *n, int i) {
  const statement *s = &n->s[i];
  at = put_access(at, n, s, &s->write);
  at += sprintf(at, " = T[%d", i);
  for (int d = 0; d < DEPTH; d++) at += sprintf(at, ", %s", d < s->level ? loop_name[d] : "0");
  at += sprintf(at, "]");
  for (int r = 0; r < s->reads; r++) at = put_access(at + sprintf(at, " + %d * ", r + 2), n, s, &s->read[r]);
  return at + sprintf(at, "; ");
}

static void put_text(oracle *o) {
  const nest *n = &o->nest;
  char *at = o->text;
  at += sprintf(at, "kernel nest() { in(T, i32, [%d, %d, %d, %d]); ", STATEMENTS, EXTENT, EXTENT, EXTENT);
  for (int a = 0; a < ARRAYS; a++) {
    at += sprintf(at, "inout(%c, i32, [", 'a' + a);
    for (int d = 0; d < n->depth; d++) at += sprintf(at, "%s%d", d ? ", " : "", EXTENT + 3);
    at += sprintf(at, "]); ");
  }
  for (int d = 0; d < n->depth; d++) {
    at += sprintf(at, "range(%s, %d) { ", loop_name[d], n->extent[d]);
    for (int i = 0; i < n->n; i++)
      if (n->s[i].level == d + 1 && !n->s[i].after) at = put_statement(at, n, i);
  }
  for (int d = n->depth; d-- > 0;) {
    for (int i = 0; i < n->n; i++)
      if (n->s[i].level == d + 1 && n->s[i].after) at = put_statement(at, n, i);
    at += sprintf(at, "} ");
  }
  sprintf(at, "}");
}

/* ---- the scheduled program, instance by instance ---- */

static bool unknown(oracle *o, const char *why) {
  if (o->found != UNKNOWN) snprintf(o->why, sizeof o->why, "%s", why);
  o->found = UNKNOWN;
  return false;
}

static int64_t evaluate(oracle *o, const tg_uop *u) {
  int64_t a[3] = {0};
  if (u->op == TG_OP_CONST) return u->arg;
  if (u->op == TG_OP_RANGE) return o->value[tg_range_ordinal(u)];
  if (u->n > 3 || u->n == 0) return unknown(o, "an operand"), 0;
  for (uint32_t i = 0; i < u->n; i++) a[i] = evaluate(o, u->src[i]);
  switch (u->op) {
  case TG_OP_CAST: return a[0];
  case TG_OP_ADD: return a[0] + a[1];
  case TG_OP_SUB: return a[0] - a[1];
  case TG_OP_MUL: return a[0] * a[1];
  case TG_OP_NEG: return -a[0];
  case TG_OP_IDIV: return a[1] ? a[0] / a[1] - (a[0] % a[1] != 0 && (a[0] < 0) != (a[1] < 0)) : 0;
  case TG_OP_MOD: return a[1] ? ((a[0] % a[1]) + a[1]) % a[1] : 0;
  case TG_OP_MAX: return a[0] > a[1] ? a[0] : a[1];
  case TG_OP_MIN: return a[0] < a[1] ? a[0] : a[1];
  case TG_OP_AND: return a[0] & a[1];
  case TG_OP_OR: return a[0] | a[1];
  case TG_OP_NOT: return u->type == TG_BOOL ? !a[0] : ~a[0];
  case TG_OP_LT: return a[0] < a[1];
  case TG_OP_LE: return a[0] <= a[1];
  case TG_OP_EQ: return a[0] == a[1];
  case TG_OP_NE: return a[0] != a[1];
  case TG_OP_WHERE: return a[0] ? a[1] : a[2];
  default: return unknown(o, tg_ops[u->op].name), 0;
  }
}

static void add_instance(oracle *o, const tg_uop *tag, bool merged) {
  if (o->n == INSTANCES) {
    unknown(o, "too many instances");
    return;
  }
  instance *x = &o->done[o->n++];
  *x = o->now;
  x->merged = merged;
  x->statement = (int)evaluate(o, tag->src[1]);
  for (int d = 0; d < DEPTH; d++) x->at[d] = (int)evaluate(o, tag->src[2 + d]);
}

/* A store of what an earlier one of the same iteration would have stored first has the tags of both: it is the later
 * statement, and reads for the other. */
static void run_store(oracle *o, const tg_uop *u) {
  uint32_t n;
  const tg_uop *tag[8], **order = tg_toposort(&o->job, u->src[1 + tg_access_rank(u)], &n);
  int tags = 0, last = 0;
  if (u->arg & TG_GATED && !evaluate(o, u->src[u->n - 1])) return;
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_LOAD && tags < 8 && !strcmp(tg_buffer_info(&o->job, order[i]->src[0])->name, "T"))
      tag[tags++] = order[i];
  for (int i = 1; i < tags; i++)
    if (evaluate(o, tag[i]->src[1]) > evaluate(o, tag[last]->src[1])) last = i;
  if (!tags) unknown(o, "a statement without its tag");
  for (int i = 0; i < tags; i++) add_instance(o, tag[i], i != last);
}

static void walk(oracle *o, const tg_uop *u, int child) {   /* as deep as loops nest */
  int d = o->now.depth;
  if (o->found == UNKNOWN || u->op == TG_OP_DEFINE) return;
  if (d + 1 >= LOOPS || (u->op != TG_OP_STORE && u->op != TG_OP_END)) {
    unknown(o, tg_ops[u->op].name);
    return;
  }
  o->now.child[d] = child;
  o->now.depth = d + 1;
  if (u->op == TG_OP_STORE) run_store(o, u);
  else {
    uint32_t range = tg_range_ordinal(u->src[0]);
    int64_t extent = evaluate(o, tg_extent(u->src[0]));
    o->now.kind[d] = (uint8_t)tg_range_kind(u->src[0]);
    for (int64_t v = 0; v < extent && range < 4096; v++) {
      o->now.value[d] = (int)v;
      o->value[range] = v;
      for (uint32_t i = 1; i < u->n; i++) walk(o, u->src[i], (int)i);
    }
  }
  o->now.depth = d;
}

/* ---- order ---- */

static int sign(int a) { return a < 0 ? -1 : a > 0; }

static bool in_lockstep(int kind) { return kind == TG_LANE || kind == TG_UPCAST || kind == TG_LOCAL; }
static bool of_tasks(int kind) { return kind == TG_THREAD || kind == TG_GLOBAL; }

/* -1: x comes first in the scheduled program; 1: y does; 0: neither surely. */
static int scheduled_order(const instance *x, const instance *y) {
  for (int d = 0; d < x->depth && d < y->depth; d++) {
    if (x->child[d] != y->child[d]) return sign(x->child[d] - y->child[d]);
    if (d + 1 == x->depth || d + 1 == y->depth) return 0;   /* one statement, and no loop in order parts them */
    if (x->value[d] == y->value[d] || in_lockstep(x->kind[d])) continue;
    return of_tasks(x->kind[d]) ? 0 : sign(x->value[d] - y->value[d]);
  }
  return 0;
}

/* The two are one run of one statement, which does for both. */
static bool same_place(const instance *x, const instance *y) {
  size_t n = (size_t)x->depth, values = n ? n - 1 : 0;
  return x->depth == y->depth && !memcmp(x->child, y->child, n * sizeof *x->child) &&
         !memcmp(x->value, y->value, values * sizeof *x->value);
}

static int author_order(const nest *n, const instance *x, const instance *y) {
  int shared =
      n->s[x->statement].level < n->s[y->statement].level ? n->s[x->statement].level : n->s[y->statement].level;
  for (int d = 0; d < shared; d++)
    if (x->at[d] != y->at[d]) return sign(x->at[d] - y->at[d]);
  return sign(x->statement - y->statement);
}

static int element(const nest *n, const instance *x, const access *a) {
  int e = a->array;
  for (int d = 0; d < n->depth; d++) e = e * 16 + a->offset[d] + (d < n->s[x->statement].level ? x->at[d] : 0);
  return e;
}

static bool meet(const nest *n, const instance *x, const instance *y) {   /* does what x writes meet what y touches? */
  const statement *s = &n->s[y->statement];
  int e = element(n, x, &n->s[x->statement].write);
  bool met = !y->merged && e == element(n, y, &s->write);
  for (int r = 0; r < s->reads; r++) met |= e == element(n, y, &s->read[r]);
  return met;
}

/* A store that the same iteration overwrites, before or behind the loops inside, may be left out, everywhere. */
static bool overwritten(const nest *n, int i) {
  for (int k = i + 1; k < n->n; k++)
    if (n->s[k].level == n->s[i].level && !memcmp(&n->s[k].write, &n->s[i].write, sizeof(access))) return true;
  return false;
}

static bool stores(const oracle *o, int number) {
  for (int k = 0; k < o->n; k++)
    if (o->done[k].statement == number && !o->done[k].merged) return true;
  return false;
}

static bool all_run(oracle *o) {
  const nest *n = &o->nest;
  for (int i = 0; i < n->n; i++) {
    int times = 1, run = 0;
    for (int d = 0; d < n->s[i].level; d++) times *= n->extent[d];
    for (int k = 0; k < o->n; k++) run += o->done[k].statement == i && !o->done[k].merged;
    if (run == times || (!run && overwritten(n, i))) continue;
    snprintf(o->why, sizeof o->why, "%d instances of statement %d run, of %d", run, i, times);
    return false;
  }
  return true;
}

static void say_pair(oracle *o, const instance *x, const instance *y) {
  snprintf(o->why, sizeof o->why, "statement %d at (%d, %d, %d) and statement %d at (%d, %d, %d) are %s", x->statement,
           x->at[0], x->at[1], x->at[2], y->statement, y->at[0], y->at[1], y->at[2],
           scheduled_order(x, y) ? "the other way round" : "in no order");
}

/* Of the program that walk has gone through. */
static verdict judge(oracle *o) {
  const nest *n = &o->nest;
  if (o->found == UNKNOWN) return UNKNOWN;
  static bool seen[STATEMENTS][EXTENT][EXTENT][EXTENT];
  memset(seen, 0, sizeof seen);
  for (int i = 0; i < o->n; i++) {
    const instance *x = &o->done[i];
    bool inside = x->statement >= 0 && x->statement < n->n;
    for (int d = 0; d < DEPTH; d++) inside &= x->at[d] >= 0 && x->at[d] < EXTENT;
    if (inside && x->merged) continue;
    bool *s = inside ? &seen[x->statement][x->at[0]][x->at[1]][x->at[2]] : NULL;
    if (!s || *s) return snprintf(o->why, sizeof o->why, "an instance runs twice, or is none of the author's"), BROKEN;
    *s = true;
  }
  if (!all_run(o)) return BROKEN;
  bool gone[STATEMENTS];
  for (int i = 0; i < n->n; i++) gone[i] = !stores(o, i);
  for (int i = 0; i < o->n; i++)
    for (int k = 0; k < o->n; k++) {
      const instance *x = &o->done[i], *y = &o->done[k];
      if (i == k || x->merged || (y->merged && !gone[y->statement]) || same_place(x, y)) continue;
      if (!meet(n, x, y) || scheduled_order(x, y) == author_order(n, x, y)) continue;
      say_pair(o, x, y);
      return NOT_LEGAL;
    }
  return LEGAL;
}

/* ---- tg's side ---- */

static void lower(void *user) {
  oracle *o = user;
  tg_job *j = &o->job;
  tg_lowering l = {.target = &o->target, .rules = o->rules, .unjudged = o->unjudged};
  tg_parse_kernel(j, "nest", o->text, 0, NULL);
  for (const char *at = o->list; *at;) {
    size_t n = strcspn(at, ";");
    const char *text = tg_strndup(&j->env, at, n);
    tg_push(&j->env, &j->opts,
            ((tg_opt_text){text, {.file = "words", .text = text, .line = 1, .column = 1, .length = (int)n}}));
    at += n + (at[n] == ';');
    at += strspn(at, " ");
  }
  const tg_uop *sink = tg_plain(j, tg_lower(j, &l, "schedule", NULL, NULL));
  o->n = 0, o->found = LEGAL, o->now = (instance){0};
  for (uint32_t i = 0; i < sink->n; i++) walk(o, sink->src[i], (int)i);
}

/* TG_OK: the list is accepted, and its form has been gone through. */
static tg_status form(oracle *o, bool unjudged) {
  o->unjudged = unjudged;
  tg_job_init(&o->job, NULL);
  tg_status s = tg_protect(&o->job.env, lower, o) ? TG_OK : o->job.env.status;
  if (s && s != TG_EINVAL && s != TG_ELIMIT) snprintf(o->why, sizeof o->why, "%.390s", o->job.env.message);
  tg_job_drop(&o->job);
  return s;
}

/* Words that move or widen loops; what stages, places or asks ahead does not order statements. */
static bool about_order(const char *word) {
  static const char *const others[] = {"stage", "prefetch", "place", "specialize", "stream", "group"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (!strncmp(word, others[i], strlen(others[i]))) return false;
  return true;
}

static bool decides(const char *list) {
  static const char *const deciding[] = {"order", "tile",   "swap",   "upcast", "lane",
                                         "local", "thread", "global", "fission"};
  for (size_t i = 0; i < sizeof deciding / sizeof *deciding; i++)
    if (strstr(list, deciding[i])) return true;
  return false;
}

static void draw_list(oracle *o) {
  char word[WORDS_TEXT];
  words *w = &o->words;
  memset(w, 0, sizeof *w);
  w->draw = draw, w->user = o, w->made = 100;
  for (int d = 0; d < o->nest.depth; d++) words_add_range(w, loop_name[d], true);
  *o->list = 0;
  for (int wanted = 1 + (int)draw(o, 5), tries = wanted * 4; wanted > 0 && tries-- > 0;) {
    size_t n = strlen(o->list);
    do words_draw(w, word);
    while (!about_order(word));
    if (n + strlen(word) + 3 > sizeof o->list) return;
    snprintf(o->list + n, sizeof o->list - n, "%s%s", n ? "; " : "", word);
    if (form(o, true)) o->list[n] = 0;
    else wanted--;
  }
}

typedef struct { long nests, lists, legal, accepted, not_legal, unsound, broken, unknown, internal; } totals;

static void fault(const oracle *o, const char *what) {
  printf("%s: %s\n  %s\n  words: %s\n", what, o->why, o->text, o->list);
}

/* A list that is accepted is judged by the form that it then has: thread stops before a loop that it may not leave. */
static void one_list(oracle *o, totals *t, bool verbose) {
  draw_list(o);
  if (!decides(o->list)) return;
  t->lists++;
  tg_status s = form(o, false);
  if (s && s != TG_EINVAL && s != TG_ELIMIT) {
    t->internal++;
    fault(o, "internal error");
    return;
  }
  if (s && form(o, true)) return;
  verdict v = judge(o);
  t->unknown += v == UNKNOWN;
  t->not_legal += v == NOT_LEGAL;
  t->legal += v == LEGAL;
  t->accepted += v == LEGAL && !s;
  if (v == BROKEN) t->broken++, fault(o, "BROKEN form");
  if (v == NOT_LEGAL && !s) t->unsound++, fault(o, "UNSOUND, accepted");
  if (verbose && v == LEGAL && s) fault(o, "refused, and legal");
  if (verbose && v == UNKNOWN) fault(o, "unknown");
}

static tg_job rules_job;

static void compile_rules(void *user) { ((oracle *)user)->rules = tg_rules_compile(&rules_job.env); }

int main(int argc, char **argv) {
  static oracle o;
  totals t = {0};
  uint64_t seed = 1;
  long wanted = 1500;
  bool verbose = false;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--verbose")) verbose = true;
    else if (i + 1 < argc && !strcmp(argv[i], "--seed")) seed = strtoull(argv[++i], NULL, 0);
    else if (i + 1 < argc && !strcmp(argv[i], "--lists")) wanted = atol(argv[++i]);
    else return fprintf(stderr, "campaign_order [--seed S] [--lists N] [--verbose]\n"), 2;
  }
  tg_job_init(&rules_job, NULL);
  if (!tg_target_named(&o.target, "x86-64-v3") || !tg_protect(&rules_job.env, compile_rules, &o)) return 1;
  for (; t.legal < wanted && t.nests < 20 * wanted; t.nests++) {
    o.state = campaign_hash(campaign_hash(seed, 17), (uint64_t)t.nests);
    draw_nest(&o);
    put_text(&o);
    for (int i = 0; i < 4; i++) one_list(&o, &t, verbose);
  }
  tg_job_drop(&rules_job);
  bool precise = t.accepted * 100 >= t.legal * BAR;
  printf("order: seed %llu: %ld nests, %ld lists, %ld legal by the oracle, of them %ld accepted (%.1f %%), %ld not "
         "legal, %ld of them accepted, %ld broken forms, %ld internal errors, %ld not understood\n",
         (unsigned long long)seed, t.nests, t.lists, t.legal, t.accepted,
         t.legal ? 100.0 * (double)t.accepted / (double)t.legal : 0, t.not_legal, t.unsound, t.broken, t.internal,
         t.unknown);
  long failed = t.unsound + t.broken + t.internal + !precise + (t.unknown * 20 > t.lists);
  printf("%ld passed, %ld failed\n", t.lists, failed);
  return failed != 0;
}
