/* SPDX-License-Identifier: MIT
 * tg tune: searches the knobs and words that make a kernel fastest on this machine. */
#define _GNU_SOURCE
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <tg/gemm.h>
#include "tool.h"
#include "tune_plot.h"

static const char usage[] =
  "tg tune FILE.tg name=value ... | tg tune gemm M=.. N=.. K=.. [--types f32] [--shapes FILE] | tg tune plot JOURNAL\n"
  "        [--kernel NAME] [--budget SECONDS] [--candidates N] [--seed N] [--beam N] [--threads N] [--knobs] [--journal FILE] [--resume]\n"
  "        [--workers N] [--tuned DIR] [--csv FILE] [--json]\n"
  "\n"
  "Finds the knobs and the words of a schedule that make the kernel fastest here. Candidates are compiled, checked and timed in processes of their own.\n"
  "  name=value    binds a parameter, or a knob that is not to be searched\n"
  "  gemm          the sketches of a matrix product, from the analytic choice on; types f32, f64, f16, bf16, u8i8, i8; --shapes: M N K a line\n"
  "  plot          an SVG of a journal: candidates over time, the best so far\n"
  "  --budget      seconds of it all (20); --candidates: how many are timed at most\n"
  "  --threads     that a launch may use (1); -1 for all cores\n"
  "  --tuned       the folder that the choice is kept in, else $TG_TUNED, else tg/tuned in the user's data folder; '' for none. TG_COMPILE_TUNED and\n"
  "                tg run --tuned find it again; tg store looks into it\n"
  "  --knobs       only knobs; words stay as they are\n"
  "  --journal     a file that every answer is appended to; --resume: its answers are used again\n"
  "  --workers     processes that compile side by side (all cores); 0: none, all happens in this process\n";

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

static void progress(void *user, const tg_tune_progress *p) {
  view *v = user;
  const tg_tune_result *r = p->so_far;
  if (v->csv && (p->what == TG_TUNE_TIMED || p->what == TG_TUNE_BUILT))
    fprintf(v->csv, "%.3f,%s,%s,%s,%.9g,%.5g,\"%s\"\n", p->elapsed, p->what == TG_TUNE_TIMED ? "timed" : "built", p->candidate, tg_tune_class_name(p->outcome), p->seconds, p->score, p->words ? p->words : "");
  if (v->args->json) {
    if (p->what == TG_TUNE_TIMED || p->what == TG_TUNE_BUILT)
      printf("{\"event\":\"%s\",\"elapsed\":%.3f,\"candidate\":\"%s\",\"outcome\":\"%s\",\"seconds\":%.9g,\"score\":%.5g}\n", p->what == TG_TUNE_TIMED ? "timed" : "built", p->elapsed, p->candidate,
             tg_tune_class_name(p->outcome), p->seconds, p->score);
    return;
  }
  if (v->terminal) {
    uint32_t bad = r->classes[TG_TUNE_CRASHED] + r->classes[TG_TUNE_HUNG] + r->classes[TG_TUNE_WRONG] + r->classes[TG_TUNE_LIMIT] + r->classes[TG_TUNE_UNBELIEVABLE];
    printf("\r\033[K%u points, %u timed, best %.4g us", r->points, r->timed, r->seconds * 1e6);
    put_rate(r, r->seconds);
    printf(" (%.2fx), %u illegal, %u failed", r->default_seconds / (r->seconds > 0 ? r->seconds : 1), r->classes[TG_TUNE_ILLEGAL], bad);
    if (r->floor > 0 && r->seconds > 0) printf(", %.0f %% of peak", 200 * r->floor / r->seconds);   /* the floor is half of what the machine takes at least */
    double budget = v->args->budget > 0 ? v->args->budget : 20;
    printf(", %.0f s left", budget > p->elapsed ? budget - p->elapsed : 0);
    fflush(stdout);
    return;
  }
  if (p->what == TG_TUNE_BUILT && p->outcome != TG_TUNE_RIGHT) printf("%6.1f s  %s: %s: %s\n", p->elapsed, p->candidate, tg_tune_class_name(p->outcome), p->message ? p->message : "");
  if (p->what == TG_TUNE_TIMED) printf("%6.1f s  %s: %.4g us (%+.1f %%)%s%s\n", p->elapsed, p->candidate, p->seconds * 1e6, 100 * (exp(-p->score) - 1), p->message ? ": " : "", p->message ? p->message : "");
  if (p->what == TG_TUNE_BEST) printf("%6.1f s  best so far\n", p->elapsed);
  fflush(stdout);
}

static void complain(void *user, const char *message) {
  (void)user;
  fprintf(stderr, "tg: %s\n", message);
}

static void report(const tool_args *a, const tg_tune_result *r) {
  if (a->json) {
    printf("{\"event\":\"end\",\"kernel\":\"%s\",\"tuned\":%s,\"seconds\":%.9g,\"default_seconds\":%.9g,\"gain\":%.5g,\"gain_low\":%.5g,\"points\":%u,\"lowered\":%u,\"built\":%u,\"timed\":%u,\"dropped\":%u,\"restarts\":%u,\"reused\":%u,"
           "\"elapsed\":%.3f,\"knobs\":{", r->kernel, r->tuned ? "true" : "false", r->seconds, r->default_seconds, r->gain, r->gain_low, r->points, r->lowered, r->built, r->timed, r->dropped, r->restarts, r->reused, r->elapsed);
    for (uint32_t i = 0; i < r->knobs_n; i++) printf("%s\"%s\":%lld", i ? "," : "", r->knobs[i].name, (long long)r->knobs[i].lo);
    printf("},\"words\":\"%s\"}\n", r->words ? r->words : "");
    return;
  }
  printf("%s%u points: %u lowered, %u built, %u timed", isatty(1) ? "\r\033[K" : "", r->points, r->lowered, r->built, r->timed);
  for (int i = 1; i < TG_TUNE_CLASSES; i++)
    if (r->classes[i]) printf(", %u %s", r->classes[i], tg_tune_class_name((tg_tune_class)i));
  printf("; %u samples dropped; %.1f s%s\n", r->dropped, r->elapsed, r->in_process ? "; all in this process" : "");
  if (r->interrupted) printf("interrupted; best so far, not confirmed: %s: %.4g us", r->kernel, r->seconds * 1e6);
  else if (!r->tuned) printf("%s: the default stays: %.4g us", r->kernel, r->default_seconds * 1e6);
  else printf("%s: %.4g us instead of %.4g: %.1f %% faster, surely %.1f %%", r->kernel, r->seconds * 1e6, r->default_seconds * 1e6, 100 * r->gain, 100 * r->gain_low);
  put_rate(r, r->seconds);
  printf(r->kept ? "; kept\n" : "\n");
  for (uint32_t i = 0; i < r->knobs_n; i++) printf("  %s=%lld\n", r->knobs[i].name, (long long)r->knobs[i].lo);
  for (const char *w = r->words; w && *w;) {
    size_t n = strcspn(w, ";");
    printf("  opt(%.*s);\n", (int)n, w);
    w += n + (w[n] == ';');
    w += *w == ' ';
  }
}

/* ---- matrix products ---- */

static bool types_of(const char *name, tg_gemm_desc *d) {
  static const struct { const char *name; tg_type a, b, c; } rows[] = {
    {"f32", TG_F32, TG_F32, TG_F32}, {"f64", TG_F64, TG_F64, TG_F64}, {"f16", TG_F16, TG_F16, TG_F16}, {"bf16", TG_BF16, TG_BF16, TG_BF16}, {"u8i8", TG_U8, TG_I8, TG_I32}, {"i8", TG_I8, TG_I8, TG_I32}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!strcmp(rows[i].name, name)) {
      *d = (tg_gemm_desc){.a = (uint8_t)rows[i].a, .b = (uint8_t)rows[i].b, .c = (uint8_t)rows[i].c};
      return true;
    }
  return false;
}

static int tune_product(tg_context *ctx, const tool_args *a, tg_tune_options o, const int64_t size[3]) {
  tg_gemm_desc d;
  if (!types_of(a->types ? a->types : "f32", &d)) {
    fprintf(stderr, "tg: no types '%s'; there are f32, f64, f16, bf16, u8i8 and i8\n", a->types);
    return TOOL_USAGE;
  }
  d.m.lo = size[0], d.n.lo = size[1], d.k.lo = size[2], d.threads = a->threads;
  tg_tune_result *r = NULL;
  if (!a->json) printf("%lld x %lld x %lld %s\n", (long long)size[0], (long long)size[1], (long long)size[2], a->types ? a->types : "f32");
  if (tg_gemm_tune(ctx, &d, 0, 0, 0, &o, &r)) {
    fprintf(stderr, "%s\n", tg_error_message(ctx));
    return TOOL_WRONG;
  }
  report(a, r);
  tg_tune_result_free(r);
  return TOOL_OK;
}

static int tune_products(tg_context *ctx, const tool_args *a, tg_tune_options o) {
  static const char names[] = "MNK";
  int64_t size[3] = {0};
  int result = TOOL_OK;
  for (int i = 0; i < a->bindings; i++) {
    const char *name = a->binding[i].name, *at = name[0] && !name[1] ? strchr(names, name[0]) : NULL;
    if (!at) return fprintf(stderr, "tg tune gemm: '%s' is none of M, N, K\n", name), TOOL_USAGE;
    size[at - names] = a->binding[i].value;
  }
  if (!a->shapes && (size[0] < 1 || size[1] < 1 || size[2] < 1)) {
    fputs("tg tune gemm wants M=.. N=.. K=.., or --shapes FILE with three numbers a line\n", stderr);
    return TOOL_USAGE;
  }
  if (!a->shapes) return tune_product(ctx, a, o, size);
  char *text = tool_read(a->shapes, NULL);
  if (!text) {
    fprintf(stderr, "tg: %s cannot be read\n", a->shapes);
    return TOOL_WRONG;
  }
  char *rest = text;
  for (char *line; (line = strsep(&rest, "\n")) && !interrupted;) {
    long long m, n, k;
    if (sscanf(line, "%lld %lld %lld", &m, &n, &k) != 3 || m < 1 || n < 1 || k < 1) continue;
    int one = tune_product(ctx, a, o, (const int64_t[]){m, n, k});
    result = one > result ? one : result;
  }
  free(text);
  return result;
}

/* ---- the command ---- */

static int tune_file(tg_context *ctx, const tool_args *a, tg_tune_options o) {
  tool_program p;
  tg_tune_result *r = NULL;
  if (!tool_load(a, &p)) return TOOL_WRONG;
  o.bindings = p.bindings, o.bindings_n = p.options.bindings_n, o.kernel = a->kernel;
  tg_status s = tg_tune_text(ctx, a->file, p.text, &o, &r);
  if (s) fprintf(stderr, "%s\n", tg_error_message(ctx));
  else report(a, r);
  tg_tune_result_free(r);
  tool_unload(&p);
  return s ? TOOL_WRONG : TOOL_OK;
}

int cmd_tune(int argc, char **argv) {
  tool_args a;
  char self[4096], place[4096];
  bool plot = argc && !strcmp(argv[0], "plot");
  if (!tool_parse(argc - plot, argv + plot, &a, usage)) return TOOL_USAGE;
  if (a.help || !a.file) {
    fputs(usage, a.help ? stdout : stderr);
    return a.help ? TOOL_OK : TOOL_USAGE;
  }
  if (plot) return tune_plot(a.file);
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  self[n > 0 ? n : 0] = 0;
  const char *const worker[] = {self, "worker", NULL};
  view v = {.args = &a, .terminal = isatty(1) && !a.json};
  tg_tune_options o = {.seconds = a.budget, .candidates = (uint32_t)a.candidates, .seed = (uint64_t)a.seed, .beam = (uint32_t)a.beam, .worker = n > 0 && a.workers ? worker : NULL,
                       .workers = a.workers > 0 ? (uint32_t)a.workers : 0, .journal = a.journal, .flags = (a.knobs ? TG_TUNE_KNOBS_ONLY : 0) | (a.resume ? TG_TUNE_RESUME : 0), .stop = stop,
                       .progress = progress, .callback_user = &v};
  struct sigaction sa = {.sa_handler = interrupt};
  sigaction(SIGINT, &sa, NULL);
  sigaction(SIGTERM, &sa, NULL);
  if (a.csv && !(v.csv = fopen(a.csv, "w"))) {
    fprintf(stderr, "tg: %s cannot be written\n", a.csv);
    return TOOL_WRONG;
  }
  if (v.csv) fputs("elapsed,event,candidate,outcome,seconds,score,words\n", v.csv);
  tg_context *ctx = NULL;
  tg_context_options co = {.threads = a.threads > 0 ? a.threads : 0, .tuned = tool_tuned(&a, place, sizeof place), .log = complain};
  int result = TOOL_BROKEN;
  if (tg_context_create(&co, &ctx)) fprintf(stderr, "tg: no context\n");
  else result = !strcmp(a.file, "gemm") ? tune_products(ctx, &a, o) : tune_file(ctx, &a, o);
  tg_context_free(ctx);
  if (v.csv && fclose(v.csv)) result = TOOL_WRONG;
  return result;
}
