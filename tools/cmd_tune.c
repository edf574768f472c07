/* SPDX-License-Identifier: MIT
 * tg tune: searches the knobs and words that make a kernel fastest on this machine. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <tg/gemm.h>
#include "bench/attention.h"
#include "build_shapes.h"
#include "shapes.h"
#include "tune_plot.h"

static const char usage[] =
    "tg tune FILE.tg name=value ... | tg tune gemm M=.. N=.. K=.. [--types f32] [--transposes NT] | tg tune gemm "
    "--shapes FILE [--case TEXT]\n"
    "        | tg tune attention H=.. KV=.. T=.. N=.. D=.. [WORD ..] [--causal] [--backward] [--types f32] | "
    "tg tune attention --shapes FILE [--case TEXT] | tg tune plot JOURNAL\n"
    "        [--kernel NAME] [--budget SECONDS] [--candidates N] [--seed N] [--beam N] [--threads N] [--knobs] "
    "[--journal FILE] [--resume] [--spool DIR]\n"
    "        [--workers N] [--tuned DIR] [--with FILE.tg] [--csv FILE] [--json]\n"
    "\n"
    "Finds the knobs and the words of a schedule that make the kernel fastest here. Candidates are compiled, checked "
    "and timed in processes of their own.\n"
    "  FILE          a .tg file, or a kernel of a C file: mine.c:matmul (tg show --help)\n"
    "  name=value    binds a parameter, or a knob that is not to be searched\n"
    "  gemm          the sketches of a matrix product, from the analytic choice on; types f32, f64, f16, bf16, "
    "bf16flush, u8i8, i8i8; --transposes: which\n"
    "                operands lie in columns, NN, NT, TN, TT; --shapes: all of a list, lines of class, M, N, K and "
    "transposes, or those of --case\n"
    "  attention     the kernel for T queries and N keys of a head of D elements (W: with a window), in its words for "
    "many rows and for few; H heads of Q, KV of\n"
    "                K and V; types f32, f16, bf16; WORD: a variant, as in the lists of tg build attention "
    "(docs/deploy.md), alibi soft_cap=30 sinks page_size=16\n"
    "                kv_bits=8 mask=bool mask_mod='..' ..; --shapes: all of such a list (of a range of queries the "
    "most "
    "and the fewest), or of one of tg bench\n"
    "                attention (tests/bench/attention/shapes.txt), or those of --case; --backward, or the word "
    "backward: gradients (of that list, of its prefills)\n"
    "  plot          an SVG of a journal: candidates over time, the best so far\n"
    "  --budget      seconds of it all (20); --candidates: how many are timed at most\n"
    "  --device      where candidates run, as tg devices lists them: opencl:0; else the CPU. They are timed by "
    "the device's\n"
    "                clock; the choice is for that chip and the major version of its driver\n"
    "  --threads     that a launch may use (1, as launches have it unless they say); -1 for all cores. The choice is "
    "for contexts of all cores, and of so many threads\n"
    "  --tuned       the folder that the choice is kept in, else $TG_TUNED, else tg/tuned in the user's data folder; "
    "'' for none. Programs find it\n"
    "                there by default, elsewhere with $TG_TUNED or tg_context_options.tuned, tg run with --tuned; tg "
    "store looks into it\n"
    "  --with        a kernel of yours that is searched beside the others, through the same checks: of the same "
    "buffers, with a name of its own; for gemm: tg show --sketch\n"
    "  --knobs       only knobs; words stay as they are\n"
    "  --journal     a file that every answer is appended to; --resume: its answers are used again, and a search that "
    "is finished there says so\n"
    "  --spool       a folder that all machines see: the same command, started on as many as there are (srun, mpirun), "
    "shares its candidates\n"
    "                there. --candidates (64) bounds the search, not --budget; each is timed by one of them, and all "
    "keep the same choice\n"
    "  --workers     processes that compile side by side (all cores); 0: none, all happens in this process\n"
    "Exit codes: 0, 1 for a kernel that is wrong or cannot be tuned, 2 for a wrong command line, 3 for a fault of tg "
    "or of the machine, 4 where a signal ended the search\n"
    "(nothing is kept then; --resume goes on).\n";

static volatile sig_atomic_t interrupted;
static void interrupt(int sig) {
  (void)sig;
  interrupted = 1;
}

typedef struct { const tool_args *args; bool terminal; FILE *csv; } view;

static int stop(void *user) {
  (void)user;
  return interrupted;
}

static void put_rate(const tg_tune_result *r, double seconds) {
  if (seconds <= 0) return;
  if (r->flops > r->bytes) printf(", %.1f GFLOP/s", r->flops / seconds * 1e-9);
  else printf(", %.1f GB/s", r->bytes / seconds * 1e-9);
}

/* A gain of so much, ln: times from three on. */
static const char *gain_text(double gain, char *out, size_t n) {
  double times = exp(gain);
  if (times >= 3) snprintf(out, n, "%.*f times as fast", times < 10, times);
  else if (times <= 1.0 / 3) snprintf(out, n, "%.*f times as slow", 1 / times < 10, 1 / times);
  else snprintf(out, n, "%+.1f %%", 100 * (times - 1));
  return out;
}

/* What a candidate is: its knobs, and what else it has that its kernel does not say. */
static void put_candidate(const tg_tune_progress *p) {
  enum { ROOM = 120 };
  size_t n = p->change ? strlen(p->change) : 0;
  printf("%6.1f s  %s", p->elapsed, p->candidate);
  if (n) printf(" [%.*s%s]", (int)(n > ROOM ? ROOM : n), p->change, n > ROOM ? ".." : "");
  else if (!strchr(p->candidate, '=')) printf(" [as its text says]");
}

static void put_line(const tg_tune_progress *p) {
  char gain[64];
  if (p->what == TG_TUNE_BUILT && p->outcome != TG_TUNE_RIGHT) {
    put_candidate(p);
    printf(": %s: %s\n", tg_tune_class_name(p->outcome), p->message ? p->message : "");
  }
  if (p->what == TG_TUNE_TIMED) {
    put_candidate(p);
    if (p->seconds > 0) printf(": %.4g us (%s)", p->seconds * 1e6, gain_text(-p->score, gain, sizeof gain));
    printf("%s%s%s%s\n", p->outcome == TG_TUNE_RIGHT ? "" : ": ",
           p->outcome == TG_TUNE_RIGHT ? "" : tg_tune_class_name(p->outcome), p->message ? ": " : "",
           p->message ? p->message : "");
  }
  if (p->what == TG_TUNE_BEST) printf("%6.1f s  best so far\n", p->elapsed);
  if (p->what == TG_TUNE_OPENED && p->so_far->share > 0)
    printf("%6.1f s  candidates are timed on %.1f %% of the rows; times are what all of them come to by that\n",
           p->elapsed, 100 * p->so_far->share);
}

static void put_terminal(const view *v, const tg_tune_progress *p) {
  const tg_tune_result *r = p->so_far;
  uint32_t bad = r->classes[TG_TUNE_CRASHED] + r->classes[TG_TUNE_HUNG] + r->classes[TG_TUNE_WRONG] +
                 r->classes[TG_TUNE_LIMIT] + r->classes[TG_TUNE_UNBELIEVABLE];
  printf("\r\033[K%u points, %u timed, best %.4g us", r->points, r->timed, r->seconds * 1e6);
  put_rate(r, r->seconds);
  printf(" (%.2fx), %u illegal, %u failed", r->default_seconds / (r->seconds > 0 ? r->seconds : 1),
         r->classes[TG_TUNE_ILLEGAL], bad);
  /* the floor is half of what the machine takes at least */
  if (r->floor > 0 && r->seconds > 0) printf(", %.0f %% of peak", 200 * r->floor / r->seconds);
  double budget = v->args->budget > 0 ? v->args->budget : 20;
  printf(", %.0f s left", budget > p->elapsed ? budget - p->elapsed : 0);
}

static void put_json(const tg_tune_progress *p) {
  if (p->what != TG_TUNE_TIMED && p->what != TG_TUNE_BUILT) return;
  printf("{\"event\":\"%s\",\"elapsed\":%.3f,\"candidate\":\"%s\",\"change\":\"%s\",\"outcome\":\"%s\",\"seconds\":%."
         "9g,\"score\":%.5g}\n",
         p->what == TG_TUNE_TIMED ? "timed" : "built", p->elapsed, p->candidate, p->change ? p->change : "",
         tg_tune_class_name(p->outcome), p->seconds, p->score);
}

static void progress(void *user, const tg_tune_progress *p) {
  view *v = user;
  if (v->csv && (p->what == TG_TUNE_TIMED || p->what == TG_TUNE_BUILT))
    fprintf(v->csv, "%.3f,%s,%s,%s,%.9g,%.5g,\"%s\"\n", p->elapsed, p->what == TG_TUNE_TIMED ? "timed" : "built",
            p->candidate, tg_tune_class_name(p->outcome), p->seconds, p->score, p->words ? p->words : "");
  if (v->args->json) put_json(p);
  else if (v->terminal) put_terminal(v, p);
  else put_line(p);
  fflush(stdout);
}

static void complain(void *user, const char *message) {
  (void)user;
  fprintf(stderr, "tg: %s\n", message);
}

static void put_outcome(const tool_args *a, const tg_tune_result *r) {
  char gain[64], sure[64];
  if (r->interrupted) printf("interrupted; best so far, not confirmed: %s: %.4g us", r->kernel, r->seconds * 1e6);
  else if (!r->tuned) printf("%s: the default stays: %.4g us", r->kernel, r->default_seconds * 1e6);
  else
    printf("%s: %.4g us instead of %.4g: %s, surely %s", r->kernel, r->seconds * 1e6, r->default_seconds * 1e6,
           gain_text(log1p(r->gain), gain, sizeof gain), gain_text(log1p(r->gain_low), sure, sizeof sure));
  put_rate(r, r->seconds);
  if (r->strips) printf("; of one strip of %u, each on one thread", r->strips);
  printf("\n");
  if (r->why) printf("  %s\n", r->why);
  if (r->share > 0) printf("  times are of %.1f %% of the rows, scaled", 100 * r->share);
  if (r->share > 0 && r->whole_seconds > 0) printf("; all of them once: %.4g us", r->whole_seconds * 1e6);
  if (r->whole_default_seconds > 0) printf(", with the default %.4g us", r->whole_default_seconds * 1e6);
  else if (r->share > 0)
    printf("; there was no time for a run of all of them%s", r->whole_seconds > 0 ? " by the default" : "");
  if (r->share > 0) printf("\n");
  if (r->kept)
    printf("  kept in %s\n  for contexts of all cores%s; programs find it %s\n", r->file,
           a->threads == 1  ? " and of one thread"
           : a->threads > 1 ? " and of as many threads"
                            : "",
           a->tuned ? "where TG_TUNED or tg_context_options.tuned names that folder" : "there without being told");
  else printf("  nothing kept\n");
}

static void report(const tool_args *a, const tg_tune_result *r) {
  if (r->finished && !a->json) {
    printf("the search of %s is finished: %s; a larger --budget or --candidates goes on, another --seed begins anew\n",
           a->journal, r->why);
    return;
  }
  if (a->json) {
    printf("{\"event\":\"end\",\"kernel\":\"%s\",\"tuned\":%s,\"seconds\":%.9g,\"default_seconds\":%.9g,\"gain\":%.5g,"
           "\"gain_low\":%.5g,\"points\":%u,\"lowered\":%u,\"built\":%u,\"timed\":%u,\"dropped\":%u,\"restarts\":%u,"
           "\"reused\":%u,\"strips\":%u,"
           "\"elapsed\":%.3f,\"share\":%.5g,\"whole_seconds\":%.9g,\"whole_default_seconds\":%.9g,\"finished\":%s,"
           "\"interrupted\":%s,\"kept\":%s,\"why\":\"%s\",\"knobs\":{",
           r->kernel, r->tuned ? "true" : "false", r->seconds, r->default_seconds, r->gain, r->gain_low, r->points,
           r->lowered, r->built, r->timed, r->dropped, r->restarts, r->reused, r->strips, r->elapsed, r->share,
           r->whole_seconds, r->whole_default_seconds, r->finished ? "true" : "false",
           r->interrupted ? "true" : "false", r->kept ? "true" : "false", r->why ? r->why : "");
    for (uint32_t i = 0; i < r->knobs_n; i++)
      printf("%s\"%s\":%lld", i ? "," : "", r->knobs[i].name, (long long)r->knobs[i].lo);
    printf("},\"words\":\"%s\"}\n", r->words ? r->words : "");
    return;
  }
  printf("%s%u points: %u lowered, %u built, %u timed", isatty(1) ? "\r\033[K" : "", r->points, r->lowered, r->built,
         r->timed);
  for (int i = 1; i < TG_TUNE_CLASSES; i++)
    if (r->classes[i]) printf(", %u %s", r->classes[i], tg_tune_class_name((tg_tune_class)i));
  printf("; %u samples dropped; %.1f s%s\n", r->dropped, r->elapsed, r->in_process ? "; all in this process" : "");
  put_outcome(a, r);
  for (uint32_t i = 0; i < r->knobs_n; i++) printf("  %s=%lld\n", r->knobs[i].name, (long long)r->knobs[i].lo);
  for (const char *w = r->words; w && *w;) {
    size_t n = strcspn(w, ";");
    printf("  opt(%.*s);\n", (int)n, w);
    w += n + (w[n] == ';');
    w += *w == ' ';
  }
}

/* ---- matrix products ---- */

static int tune_product(tg_context *ctx, const tool_args *a, tg_tune_options o, const tool_types *t,
                        const tool_shape *s) {
  const tg_gemm_desc d = {.a = (uint8_t)t->a,
                          .b = (uint8_t)t->b,
                          .c = (uint8_t)t->c,
                          .a_major = s->ta ? TG_COLUMN_MAJOR : TG_ROW_MAJOR,
                          .b_major = s->tb ? TG_COLUMN_MAJOR : TG_ROW_MAJOR,
                          .m = {s->m, 0},
                          .n = {s->n, 0},
                          .k = {s->k, 0},
                          .threads = a->threads,
                          .device = o.device,
                          .flags = t->flags};
  tg_tune_result *r = NULL;
  if (!a->json) printf("%d x %d x %d %c%c %s\n", s->m, s->n, s->k, "NT"[s->ta], "NT"[s->tb], t->name);
  if (tg_gemm_tune(ctx, &d, 0, 0, 0, &o, &r)) {
    fprintf(stderr, "%s\n", tg_error_message(ctx));
    return TOOL_WRONG;
  }
  report(a, r);
  fflush(stdout);
  int result = r->interrupted ? TOOL_INTERRUPTED : TOOL_OK;
  tg_tune_result_free(r);
  return result;
}

static int tune_products(tg_context *ctx, const tool_args *a, tg_tune_options o) {
  static const char names[] = "MNK";
  const char *major = a->transposes ? a->transposes : "NN";
  int size[3] = {0}, result = TOOL_OK, n, ran = 0;
  const tool_types *t = tool_types_named(a->types ? a->types : "f32");
  for (int i = 0; i < a->bindings; i++) {
    const char *name = a->binding[i].name, *at = name[0] && !name[1] ? strchr(names, name[0]) : NULL;
    if (!at) return fprintf(stderr, "tg tune gemm: '%s' is none of M, N, K\n", name), TOOL_USAGE;
    if (a->binding[i].value < 1 || a->binding[i].value > INT32_MAX)
      return fprintf(stderr, "tg tune gemm: %s=%lld: sizes are 1 to 2147483647\n", name,
                     (long long)a->binding[i].value),
             TOOL_USAGE;
    size[at - names] = (int)a->binding[i].value;
  }
  if (!t) return TOOL_USAGE;
  if (strlen(major) != 2 || strspn(major, "NT") != 2)
    return fprintf(stderr, "tg tune gemm: --transposes %s: NN, NT, TN or TT is wanted\n", major), TOOL_USAGE;
  if (!a->shapes && (!size[0] || !size[1] || !size[2]))
    return fputs("tg tune gemm wants M=.. N=.. K=.., or --shapes FILE\n", stderr), TOOL_USAGE;
  const tool_shape one = {.m = size[0], .n = size[1], .k = size[2], .ta = major[0] == 'T', .tb = major[1] == 'T'};
  if (!a->shapes) return tune_product(ctx, a, o, t, &one);
  tool_shape *shapes;
  if ((n = tool_read_shapes(a->shapes, &shapes)) < 0) return TOOL_USAGE;
  for (int i = 0; i < n && !interrupted; i++) {
    char name[80];
    snprintf(name, sizeof name, "%.23s %dx%dx%d %c%c %s", shapes[i].class_of, shapes[i].m, shapes[i].n, shapes[i].k,
             "NT"[shapes[i].ta], "NT"[shapes[i].tb], t -> name);
    if (a->cases && !strstr(name, a->cases)) continue;
    int r = tune_product(ctx, a, o, t, &shapes[i]);
    result = r > result ? r : result;
    ran++;
  }
  free(shapes);
  if (interrupted) return TOOL_INTERRUPTED;
  if (!ran) return fprintf(stderr, "tg tune gemm: no case contains '%s'\n", a->cases ? a->cases : ""), TOOL_USAGE;
  return result;
}

/* ---- attention ---- */

static int tune_descriptor(tg_context *ctx, const tool_args *a, tg_tune_options o, const char *name,
                           tg_attention_desc d, int64_t queries, int64_t keys) {
  tg_tune_result *r = NULL;
  d.threads = a->threads, d.device = o.device;
  if (!a->json)
    printf("%s: %d heads of %d elements, %d of K and V, %lld queries, %lld keys%s%s\n", name, d.heads ? d.heads : 1,
           d.head, d.kv_heads ? d.kv_heads : d.heads ? d.heads : 1, (long long)queries, (long long)keys,
           d.causal ? ", causal" : "", d.backward ? ", gradients" : "");
  if (tg_attention_tune(ctx, &d, d.queries.hi ? queries : 0, d.keys.hi ? keys : 0, &o, &r))
    return fprintf(stderr, "%s\n", tg_error_message(ctx)), TOOL_WRONG;
  report(a, r);
  fflush(stdout);
  int result = r->interrupted ? TOOL_INTERRUPTED : TOOL_OK;
  tg_tune_result_free(r);
  return result;
}

static int worse(int a, int b) { return a > b ? a : b; }

/* Where the numbers of queries are a range: the most, and the fewest; gradients have one kernel for all of them. */
static int tune_plan(tg_context *ctx, const tool_args *a, tg_tune_options o, const char *name,
                     const tg_attention_desc *d) {
  int64_t most = d->queries.hi ? d->queries.hi : d->queries.lo, keys = d->keys.hi ? d->keys.hi : d->keys.lo,
          least = d->queries.lo > 1 ? d->queries.lo : 1;
  int result = tune_descriptor(ctx, a, o, name, *d, most, keys);
  if (d->queries.hi && least < most && !d->backward && !interrupted)
    result = worse(result, tune_descriptor(ctx, a, o, name, *d, least, keys));
  return result;
}

/* The shape of a list of tg bench attention, as a descriptor. */
static tg_attention_desc desc_of(const attention_shape *s, bool backward) {
  return (tg_attention_desc){.q = (uint8_t)s->type,
                             .causal = s->causal ? TG_CAUSAL_BOTTOM_RIGHT : TG_CAUSAL_NONE,
                             .heads = s->heads,
                             .kv_heads = s->kv_heads,
                             .head = s->head,
                             .queries = {s->queries, 0},
                             .keys = {s->keys, 0},
                             .backward = backward};
}

/* A list of tg build attention has '=' in its lines. */
static bool is_list_of_plans(const char *path) {
  char *text = tool_read(path, NULL), *rest = text;
  bool is = false;
  for (char *line; text && !is && (line = strsep(&rest, "\n"));) {
    line[strcspn(line, "#")] = 0;
    is = strchr(line, '=') != NULL;
  }
  free(text);
  return is;
}

static int tune_list(tg_context *ctx, const tool_args *a, tg_tune_options o) {
  attention_shape *shapes = NULL;
  tool_plans plans = {0};
  bool of_plans = is_list_of_plans(a->shapes);
  int n, result = TOOL_OK, ran = 0;
  if (of_plans) n = tool_read_plans(a->shapes, true, &plans) ? plans.n : -1;
  else n = attention_read_shapes(a->shapes, &shapes);
  for (int i = 0; i < n && !interrupted; i++) {
    char name[128];
    if (of_plans) snprintf(name, sizeof name, "%s", plans.name[i]);
    else attention_shape_name(&shapes[i], name, sizeof name);
    if (a->cases && !strstr(name, a->cases)) continue;
    if (a->backward && !of_plans && shapes[i].queries == 1) continue;   /* as in tg bench */
    tg_attention_desc d = of_plans ? plans.attention[i].desc : desc_of(&shapes[i], a->backward);
    d.backward |= a->backward;
    result = worse(result, tune_plan(ctx, a, o, name, &d));
    ran++;
  }
  free(shapes);
  tool_plans_free(&plans);
  if (n < 0) return TOOL_USAGE;
  if (interrupted) return TOOL_INTERRUPTED;
  if (!ran) return fprintf(stderr, "tg tune attention: no case contains '%s'\n", a->cases ? a->cases : ""), TOOL_USAGE;
  return result;
}

/* Short names of words. */
static bool take_attention_word(char *word, tool_attention *to) {
  static const char *const names[][2] = {{"H", "heads"},  {"KV", "kv_heads"}, {"T", "queries"},
                                         {"N", "keys"},   {"D", "head"},      {"W", "window"}};
  char longer[64];
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *v = tool_value_of(word, names[i][0]);
    if (!v) continue;
    snprintf(longer, sizeof longer, "%s=%s", names[i][1], v);
    return tool_attention_word(longer, to);
  }
  return tool_attention_word(word, to);
}

static int tune_attention(tg_context *ctx, const tool_args *a, tg_tune_options o) {
  tool_attention of = {.desc = {.causal = a->causal ? TG_CAUSAL_BOTTOM_RIGHT : TG_CAUSAL_NONE,
                                .backward = a->backward}};
  tg_attention_desc *d = &of.desc;
  if (a->shapes && a->words) return fputs("tg tune attention: --shapes FILE has the words\n", stderr), TOOL_USAGE;
  if (a->shapes) return tune_list(ctx, a, o);
  for (int i = 0; i < a->words; i++) {
    char own[256];
    snprintf(own, sizeof own, "%s", a->word[i]);
    if (!take_attention_word(a->word[i], &of))
      return fprintf(stderr, "tg tune attention: '%s' is no word of attention: tg tune --help\n", own), TOOL_USAGE;
  }
  if (!(d->queries.lo || d->queries.hi) || !(d->keys.lo || d->keys.hi) || !d->head)
    return fputs("tg tune attention wants T=.. N=.. D=.. (and H=.. KV=..), or --shapes FILE\n", stderr), TOOL_USAGE;
  if (a->types && !(d->q = (uint8_t)tool_type_named(a->types)))
    return fprintf(stderr, "tg tune attention: --types %s: f32, f16 or bf16 is wanted\n", a->types), TOOL_USAGE;
  return tune_plan(ctx, a, o, "attention", d);
}

/* ---- the command ---- */

static int tune_file(tg_context *ctx, const tool_args *a, tg_tune_options o) {
  tool_program p;
  tg_tune_result *r = NULL;
  if (!tool_load(a, &p)) return TOOL_WRONG;
  o.bindings = p.bindings, o.bindings_n = p.options.bindings_n, o.kernel = a->kernel;
  tg_status s = tg_tune_text(ctx, a->file, p.text, &o, &r);
  int result = s ? TOOL_WRONG : r->interrupted ? TOOL_INTERRUPTED : TOOL_OK;
  if (s) fprintf(stderr, "%s\n", tg_error_message(ctx));
  else report(a, r);
  tg_tune_result_free(r);
  tool_unload(&p);
  return result;
}

int cmd_tune(int argc, char **argv) {
  tool_args a;
  char self[4096], place[4096];
  bool plot = argc && !strcmp(argv[0], "plot");
  if (!tool_parse(argc - plot, argv + plot, &a, usage)) return TOOL_USAGE;
  if (a.help) return fputs(usage, stdout), TOOL_OK;
  if (!a.file) return tool_missing("tg tune", plot ? "a journal to draw" : "what to tune (FILE.tg, gemm or attention)");
  if (plot) return tune_plot(stdout, a.file, false);
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  self[n > 0 ? n : 0] = 0;
  const char *const worker[] = {self, "worker", NULL};
  view v = {.args = &a, .terminal = isatty(1) && !a.json};
  tg_tune_options o = {.seconds = a.budget,
                       .candidates = (uint32_t)a.candidates,
                       .seed = (uint64_t)a.seed,
                       .beam = (uint32_t)a.beam,
                       .worker = n > 0 && a.workers ? worker : NULL,
                       .workers = a.workers > 0 ? (uint32_t)a.workers : 0,
                       .journal = a.journal,
                       .spool = a.spool,
                       .flags = (a.knobs ? TG_TUNE_KNOBS_ONLY : 0) | (a.resume ? TG_TUNE_RESUME : 0),
                       .stop = stop,
                       .progress = progress,
                       .callback_user = &v,
                       .threads = a.threads > 0 ? (uint32_t)a.threads : 0};
  struct sigaction sa = {.sa_handler = interrupt};
  sigaction(SIGINT, &sa, NULL);
  sigaction(SIGTERM, &sa, NULL);
  if (a.csv && !(v.csv = fopen(a.csv, "w"))) {
    fprintf(stderr, "tg: %s cannot be written\n", a.csv);
    return TOOL_WRONG;
  }
  if (v.csv) fputs("elapsed,event,candidate,outcome,seconds,score,words\n", v.csv);
  char *with = NULL;
  if (a.with && !strcmp(a.file, "attention"))
    return fprintf(stderr, "tg tune attention: --with is for gemm and for kernels in files\n"), TOOL_USAGE;
  if (a.with && !(with = tool_read(a.with, NULL)))
    return fprintf(stderr, "tg: %s: %s\n", a.with, strerror(errno)), TOOL_WRONG;
  o.with_text = with, o.with_file = a.with;
  tg_context *ctx = NULL;
  const char *folder = tool_tuned(&a, place, sizeof place);
  tg_context_options co = {.tuned = folder ? folder : "", .log = complain};
  if (a.threads > 0 && (long)a.threads > sysconf(_SC_NPROCESSORS_ONLN)) co.threads = a.threads;
  int result = TOOL_BROKEN;
  if (tg_context_create(&co, &ctx)) fprintf(stderr, "tg: no context\n");
  else if (!tool_device(&a, ctx, &o.device)) result = TOOL_USAGE;
  else
    result = !strcmp(a.file, "gemm")        ? tune_products(ctx, &a, o)
             : !strcmp(a.file, "attention") ? tune_attention(ctx, &a, o)
                                            : tune_file(ctx, &a, o);
  tg_context_free(ctx);
  free(with);
  if (v.csv && fclose(v.csv)) result = TOOL_WRONG;
  return result;
}
