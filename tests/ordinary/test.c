/* SPDX-License-Identifier: MIT
 * Ordinary kernels, as C authors write them, each range called j where scoping allows, and every program of the corpus with its ranges renamed to
 * as few names: with no schedule given all compile, are right, and take at most twice the operations that they take as written.
 *
 * The head of tests/ordinary/NAME.tg has three bindings to run with, `// sizes: M=3 N=31 | ..`, and which parameter grows while the others
 * stand still, `// grow: N; M=2`. Operations are those of the linear form, counted by the interpreter: float arithmetic and loads of operands; what
 * masked lanes, subscripts and moves take is printed beside them.
 *   ordinary_kernels [--corpus] [--counts] [K/N] [FILE.tg ...]     --counts: a line for each size; K/N: a part of the list */
#include <stdlib.h>
#include "../test.h"
#include "../library/kit.h"
#include "interp/interp.h"
#include "choose/heuristic.h"
#include "compile/price.h"

enum { NAMES = 16, OUTPUTS = KIT_BUFFERS, STEPS = 150000, CORPUS_STEPS = 40000 };   /* of the interpreter, of what is worth counting */

typedef struct {
  kit_path path;
  tg_context *context;
  const kit_program *program;
  bool counts;
  double worst;
  char at[300];
  tg_binding binding[NAMES];
  char name[NAMES][32];
  uint32_t bindings;
  int64_t params[32];
  int cases;
} run;

/* ---- programs ---- */

static bool bind(run *r, const char *text) {   /* M=3 N=31 */
  r->bindings = 0;
  for (const char *p = text; *p && *p != '|' && *p != '\n';) {
    int n = 0;
    long long v;
    if (*p == ' ' || *p == ';') {
      p++;
      continue;
    }
    if (r->bindings == NAMES || sscanf(p, "%31[A-Za-z0-9_]=%lld%n", r->name[r->bindings], &v, &n) != 2) return false;
    r->binding[r->bindings] = (tg_binding){r->name[r->bindings], v, v, 1};
    r->bindings++;
    p += n;
  }
  return true;
}

static void bind_one(run *r, const char *name, int64_t v) {
  strcpy(r->name[r->bindings], name);
  r->binding[r->bindings] = (tg_binding){r->name[r->bindings], v, v, 1};
  r->bindings++;
}

static const char *bound(const run *r) {
  static char text[256];
  int n = 0;
  text[0] = 0;
  for (uint32_t i = 0; i < r->bindings; i++) n += snprintf(text + n, sizeof text - (size_t)n, " %s=%lld", r->name[i], (long long)r->binding[i].lo);
  return text;
}

static const char *head(const run *r, const char *what) {
  const char *at = strstr(r->program->text, what);
  return at ? at + strlen(what) : "";
}

#define HOLDS(r, c, what, ...) CHECK(c, "%s%s: " what, (r)->program->path, bound(r), __VA_ARGS__)

/* ---- as few names as scoping allows ---- */

/* By ordinal of a range: how many there are around it that it must differ from. A sum differs from what its terms use, for `let` may stand before the loops that do not matter to it. */
static void measure_depths(tg_job *j, const tg_uop *u, uint32_t depth, uint32_t *of) {
  if (u->op == TG_OP_END) of[tg_range_ordinal(u->src[0])] = depth++;
  if (u->op != TG_OP_END && u->op != TG_OP_SINK) {
    uint32_t n;
    const tg_uop **order = tg_toposort(j, u, &n);
    for (uint32_t i = 0; i < n; i++) {
      if (order[i]->op != TG_OP_REDUCE) continue;
      uint32_t m, deepest = 0, ranges = tg_reduce_info(order[i]).ranges;
      const tg_uop **below = tg_toposort(j, order[i], &m), *const *own = tg_reduce_ranges(order[i]);
      for (uint32_t k = 0; k < m; k++) {
        bool mine = below[k]->op != TG_OP_RANGE;
        for (uint32_t q = 0; q < ranges; q++) mine |= below[k] == own[q];
        if (!mine && of[tg_range_ordinal(below[k])] + 1 > deepest) deepest = of[tg_range_ordinal(below[k])] + 1;
      }
      for (uint32_t q = 0; q < ranges; q++) of[tg_range_ordinal(own[q])] = deepest + q;
    }
  }
  for (uint32_t i = u->op == TG_OP_END; i < u->n && (u->op == TG_OP_END || u->op == TG_OP_SINK); i++) measure_depths(j, u->src[i], depth, of);
}

static void rename_ranges(tg_job *j) {
  uint32_t *of = tg_new(&j->env, uint32_t, j->ranges.n + 1);
  measure_depths(j, tg_plain(j, j->sink), 0, of);
  for (uint32_t i = 0; i < j->ranges.n; i++) j->ranges.data[i].name = tg_sym(j, tg_format(&j->env, "j%u", of[i]));
}

/* ---- lowering ---- */

typedef struct { run *r; tg_job *job; bool corpus, written; uint64_t limit; tg_interp_counts counts; kit_memory *memory; bool failed; } work;

static tg_job *open_job(void) {
  tg_job *j = malloc(sizeof *j);
  tg_job_init(j, NULL);
  return j;
}

static void close_job(tg_job *j) {
  tg_job_drop(j);
  free(j);
}

static void read_program(work *w) {
  run *r = w->r;
  tg_parse_kernel(w->job, r->program->path, r->program->text, r->bindings, r->binding);
  if (w->corpus) w->job->opts.n = 0;
}

static void read_again(void *user) {
  work *w = user;
  tg_lowering l = {.target = &w->r->path.target, .rules = w->r->path.rules, .verify = true};
  tg_parse_kernel(w->job, "printed", w->r->program->text, 0, NULL);
  w->job->sink = tg_lower(w->job, &l, NULL, NULL, NULL);
}

/* What tg show prints after pass schedule is accepted when it is read again. */
static void print_again(void *user, const char *pass, const tg_uop *sink) {
  work *w = user;
  if (strcmp(pass, "schedule")) return;
  tg_str text = tg_str_new(&w->job->env);
  tg_print(w->job, &text, sink);
  kit_program printed = {.text = text.data};
  run as = {.path = w->r->path, .program = &printed};
  work again = {.r = &as, .job = open_job()};
  bool ok = tg_protect(&again.job->env, read_again, &again);
  HOLDS(w->r, ok, "what pass schedule leaves is not read again: %s", again.job->env.message);
  close_job(again.job);
}

static void lower(work *w, tg_stage_fn *seen) {
  tg_job *j = w->job;
  tg_lowering l = {.target = &w->r->path.target, .rules = w->r->path.rules, .price = tg_price_raised};
  read_program(w);
  kit_params(j, 0, w->r->params);
  if (!w->memory->n && !kit_memory_make(j, w->r->params, w->memory)) tg_fail(&j->env, TG_ELIMIT, "over %d buffers", KIT_BUFFERS);
  if (w->corpus) rename_ranges(j);
  j->sink = tg_lower(j, &l, "raise", NULL, NULL);
  if (!w->written && !j->opts.n) tg_heuristic(j, &l, j->sink);
  j->sink = tg_lower(j, &l, NULL, seen, w);
}

static void interpret(work *w, const tg_uop *sink, tg_interp how) {
  tg_interp_buffer buffers[KIT_BUFFERS];
  for (uint32_t b = 0; b < w->memory->n; b++) buffers[b] = (tg_interp_buffer){w->memory->data[b], w->memory->bytes[b]};
  how.buffers = buffers;
  how.params = w->r->params;
  tg_interpret(w->job, sink, &how);
}

/* ---- operations ---- */

static void count(void *user) {
  work *w = user;
  lower(w, NULL);
  w->counts = (tg_interp_counts){0};
  interpret(w, w->job->sink, (tg_interp){.counts = &w->counts, .step_limit = w->limit});
}

static double sum_of(const tg_interp_counts *c) { return (double)(c->floats + c->functions + c->loads); }

static void put_counts(const char *form, const tg_interp_counts *c) {
  printf("  %s: %llu floats, %llu loads; %llu masked, %llu integers, %llu moves\n", form, (unsigned long long)(c->floats + c->functions), (unsigned long long)c->loads,
         (unsigned long long)c->masked, (unsigned long long)c->integers, (unsigned long long)c->moves);
}

/* False: it takes too long from here on, or is no program. */
static bool compare_counts(run *r, bool corpus, uint64_t limit) {
  kit_memory memory = {0};
  work written = {.r = r, .job = open_job(), .corpus = corpus, .written = true, .limit = limit, .memory = &memory};
  work chosen = {.r = r, .job = open_job(), .corpus = corpus, .limit = 16 * limit, .memory = &memory};
  bool go_on = tg_protect(&written.job->env, count, &written);
  if (go_on) {
    bool ok = tg_protect(&chosen.job->env, count, &chosen);
    double ratio = ok ? (sum_of(&chosen.counts) + 1) / (sum_of(&written.counts) + 1) : 0;
    HOLDS(r, ok, "%s", chosen.job->env.message);
    HOLDS(r, ratio <= 2, "%.0f operations instead of %.0f", sum_of(&chosen.counts), sum_of(&written.counts));
    if (r->counts) {
      printf("%s%s: %.2f\n", r->program->path, bound(r), ratio);
      put_counts("as written", &written.counts);
      put_counts("chosen", &chosen.counts);
    }
    if (ratio > r->worst) {
      r->worst = ratio;
      snprintf(r->at, sizeof r->at, "%s%s", r->program->path, bound(r));
    }
    r->cases++;
  }
  kit_memory_free(&memory);
  close_job(written.job);
  close_job(chosen.job);
  return go_on;
}

static const int around[] = {31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025};

/* ---- results ---- */

typedef struct { kit_memory start, own, got; double *wide[OUTPUTS], allowed[OUTPUTS]; tg_job *job; run *r; bool corpus; } reference;

static void *as_doubles(tg_type t, const void *data, size_t n) {
  double *v = malloc(8 * n + 8);
  size_t size = (size_t)tg_type_bytes(t);
  for (size_t i = 0; i < n; i++) {
    uint64_t bits = 0;
    memcpy(&bits, (const char *)data + i * size, size);
    v[i] = tg_value_from_bits(t, bits).f;
  }
  return v;
}

/* The author's program, and the same in f64: how far it is off by itself says how far a schedule may be. */
static void make_reference(void *user) {
  reference *f = user;
  work w = {.r = f->r, .job = f->job, .corpus = f->corpus, .memory = &f->own};
  read_program(&w);
  kit_params(f->job, 0, f->r->params);
  if (!kit_memory_make(f->job, f->r->params, &f->start)) tg_fail(&f->job->env, TG_ELIMIT, "over %d buffers", KIT_BUFFERS);
  kit_memory_copy(&f->own, &f->start);
  interpret(&w, f->job->sink, (tg_interp){.step_limit = 3000000, .check_uninitialised = true, .check_races = true, .check_promises = true});
  const tg_uop *wide = tg_widen(f->job, f->job->sink);
  kit_memory m = f->start;
  for (uint32_t b = 0; b < m.n; b++) {
    size_t n = m.bytes[b] / (size_t)tg_type_bytes(m.type[b]);
    if (!tg_is_float(m.type[b])) m.data[b] = memcpy(malloc(m.bytes[b] + 1), f->start.data[b], m.bytes[b]);
    else m.data[b] = as_doubles(m.type[b], f->start.data[b], n), m.bytes[b] = 8 * n;
  }
  w.memory = &m;
  if (wide) interpret(&w, wide, (tg_interp){.host_functions = true});
  for (uint32_t b = 0; b < m.n; b++) {
    tg_type t = f->own.type[b];
    size_t n = f->own.bytes[b] / (size_t)tg_type_bytes(t);
    f->wide[b] = NULL;
    if (tg_is_float(t) && f->own.written[b]) {
      f->wide[b] = wide ? m.data[b] : as_doubles(t, f->own.data[b], n);
      double own = tg_block_error(t, f->own.data[b], f->wide[b], n);
      f->allowed[b] = t == TG_F64 ? 1e-11 : tg_block_bound(t, own);   /* nothing is wider than f64 */
    }
    if (f->wide[b] != m.data[b]) free(m.data[b]);
  }
}

static void judge(reference *f, const char *what) {
  run *r = f->r;
  for (uint32_t b = 0; b < f->own.n; b++) {
    tg_type t = f->own.type[b];
    size_t n = f->own.bytes[b] / (size_t)tg_type_bytes(t);
    if (!f->own.written[b]) continue;
    double e = f->wide[b] ? tg_block_error(t, f->got.data[b], f->wide[b], n) : 0;
    bool right = f->wide[b] ? e <= f->allowed[b] : !memcmp(f->got.data[b], f->own.data[b], f->own.bytes[b]);
    HOLDS(r, right, "%s: %s is wrong: off by %g, and %g is allowed", what, f->own.name[b], e, f->wide[b] ? f->allowed[b] : 0);
  }
  HOLDS(r, kit_bands_whole(&f->got), "%s wrote behind a buffer", what);
}

static void drop_reference(reference *f) {
  for (uint32_t b = 0; b < f->own.n; b++) free(f->wide[b]);
  kit_memory_free(&f->start), kit_memory_free(&f->own), kit_memory_free(&f->got);
  close_job(f->job);
}

static void run_linear(void *user) {
  work *w = user;
  lower(w, print_again);
  interpret(w, w->job->sink, (tg_interp){.check_uninitialised = true, .check_races = true});
}

static void run_code(reference *f) {
  run *r = f->r;
  tg_kernel *k = NULL;
  tg_compile_options o = {.bindings = r->binding, .bindings_n = r->bindings};
  if (tg_kernel_compile_text(r->context, r->program->path, r->program->text, &o, &k)) {
    HOLDS(r, false, "%s", tg_error_message(r->context));
    return;
  }
  for (int threads = 1; threads <= 3; threads += 2) {
    tg_argument a[KIT_BUFFERS];
    kit_memory_copy(&f->got, &f->start);
    for (uint32_t b = 0; b < f->got.n; b++) a[b] = (tg_argument){f->got.data[b], f->got.bytes[b]};
    tg_launch l = {.buffers = a, .buffers_n = f->got.n, .params = r->params, .params_n = tg_kernel_describe(k)->params_n, .threads = threads};
    CHECK(tg_kernel_run(k, &l) == TG_OK, "%s", tg_error_message(r->context));
    judge(f, threads > 1 ? "machine code on three threads" : "machine code");
  }
  tg_kernel_free(k);
}

/* False: more than the interpreter can do, or no program under these bindings. */
static bool compare_results(run *r, bool corpus) {
  reference f = {.job = open_job(), .r = r, .corpus = corpus};
  bool ok = tg_protect(&f.job->env, make_reference, &f);
  if (ok) {
    work w = {.r = r, .job = open_job(), .corpus = corpus, .memory = &f.got};
    kit_memory_copy(&f.got, &f.start);
    bool ran = tg_protect(&w.job->env, run_linear, &w);
    HOLDS(r, ran, "%s", w.job->env.message);
    if (ran) judge(&f, "the linear form");
    close_job(w.job);
    if (!corpus) run_code(&f);
  } else if (!corpus) HOLDS(r, false, "%s", f.job->env.message);
  drop_reference(&f);
  return ok;
}

/* ---- lists ---- */

static void one_kernel(run *r) {
  const char *sizes = head(r, "// sizes: "), *grow = head(r, "// grow: ");
  char which[32] = "";
  int n = 0;
  for (int i = 0; i < 3; i++) {
    bool sized = bind(r, sizes) && r->bindings;
    HOLDS(r, sized, "three sizes are wanted: %.60s", sizes);
    if (sized) compare_results(r, false);
    sizes += strcspn(sizes, "|\n");
    sizes += *sizes == '|';
  }
  HOLDS(r, sscanf(grow, "%31[A-Za-z0-9_]%n", which, &n) == 1, "what grows? %.60s", grow);
  for (size_t i = 0; i < TG_COUNT(around); i++) {
    HOLDS(r, bind(r, grow + n) && r->bindings < NAMES, "%.60s", grow);
    bind_one(r, which, around[i]);
    if (!compare_counts(r, false, STEPS)) break;
    CHECK(i >= 3 || r->cases, "%s: nothing counted", r->program->path);
  }
}

typedef struct { tg_job *job; run *r; char constant[NAMES][32], param[NAMES][32]; uint32_t constants, params; } asking;

static void read_names(void *user) {
  asking *a = user;
  tg_job *j = a->job;
  tg_parse_kernel(j, a->r->program->path, a->r->program->text, 0, NULL);
  for (uint32_t i = 0; i < j->constants.n && a->constants < NAMES / 2; i++) snprintf(a->constant[a->constants++], 32, "%s", j->constants.data[i].name);
  for (uint32_t i = 0; i < j->params.n && a->params < NAMES / 2; i++) snprintf(a->param[a->params++], 32, "%s", j->params.data[i].name);
}

/* Right under its own sizes, which are small; operations with what is open, and each constant in turn, at others, where that is a program. */
static void one_of_corpus(run *r) {
  asking a = {.job = open_job(), .r = r};
  bool ok = tg_protect(&a.job->env, read_names, &a);
  CHECK(ok, "%s", a.job->env.message);
  close_job(a.job);
  r->bindings = 0;
  compare_results(r, true);
  for (uint32_t p = 0; ok && p <= a.constants; p++)
    for (size_t i = 0; i < 9 && (p || a.params); i++) {
      r->bindings = 0;
      for (uint32_t q = 0; q < a.params; q++) bind_one(r, a.param[q], around[i]);
      if (p) bind_one(r, a.constant[p - 1], around[i]);
      if (!compare_counts(r, true, CORPUS_STEPS)) break;
    }
}

int main(int argc, char **argv) {
  static run r;
  static const char *const folder[] = {"tests/ordinary"};
  int n, part = 0, parts = 1;
  bool corpus = false, some = false;
  for (int k = 1; k < argc; k++) {
    corpus |= !strcmp(argv[k], "--corpus");
    r.counts |= !strcmp(argv[k], "--counts");
    if (strstr(argv[k], ".tg")) some = true;
    else if (sscanf(argv[k], "%d/%d", &part, &parts) == 2) part--;
  }
  kit_program *p = corpus ? kit_programs(&n) : kit_programs_of(1, folder, &n);
  tg_context_options o = {.threads = 3, .flags = TG_CONTEXT_VERIFY};
  CHECK(kit_path_open(&r.path, "x86-64-v3") && tg_context_create(&o, &r.context) == TG_OK, "a path and a context");
  CHECK(n >= 120, "%d programs", n);
  for (int i = 0; i < n; i++) {
    bool wanted = !some && i % parts == part;
    for (int k = 1; k < argc; k++) wanted |= !strcmp(argv[k], p[i].path);
    r.program = &p[i];
    if (wanted) (corpus ? one_of_corpus : one_kernel)(&r);
  }
  printf("%d counts; the worst is %.2f of what is written, %s\n", r.cases, r.worst, r.at);
  tg_context_free(r.context);
  kit_path_close(&r.path);
  kit_programs_free(p, n);
  return TEST_END();
}
