/* SPDX-License-Identifier: MIT
 * tg tune: searches the knobs and words that make a kernel fastest on this machine. */
#define _GNU_SOURCE
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <tg/tune.h>
#include "tool.h"

static const char usage[] =
  "tg tune FILE.tg name=value ... [--kernel NAME] [--budget SECONDS] [--candidates N] [--seed N] [--beam N] [--threads N] [--knobs] [--journal FILE] [--resume]\n"
  "        [--workers N] [--tuned DIR] [--json]\n"
  "\n"
  "Finds the knobs and the words of a schedule that make the kernel fastest here. Candidates are compiled, checked and timed in processes of their own.\n"
  "  name=value    binds a parameter, or a knob that is not to be searched\n"
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

typedef struct { const tool_args *args; bool terminal, line; double last; } view;

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
    printf(" (%.2fx), %u illegal, %u failed, %.0f s", r->default_seconds / (r->seconds > 0 ? r->seconds : 1), r->classes[TG_TUNE_ILLEGAL], bad, p->elapsed);
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
  if (!r->tuned) printf("%s: the default stays: %.4g us", r->kernel, r->default_seconds * 1e6);
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

int cmd_tune(int argc, char **argv) {
  tool_args a;
  char self[4096], place[4096];
  if (!tool_parse(argc, argv, &a, usage)) return TOOL_USAGE;
  if (a.help || !a.file) {
    fputs(usage, a.help ? stdout : stderr);
    return a.help ? TOOL_OK : TOOL_USAGE;
  }
  tool_program p;
  if (!tool_load(&a, &p)) return TOOL_WRONG;
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  self[n > 0 ? n : 0] = 0;
  const char *const worker[] = {self, "worker", NULL};
  view v = {.args = &a, .terminal = isatty(1) && !a.json};
  tg_tune_options o = {.bindings = p.bindings, .bindings_n = p.options.bindings_n, .kernel = a.kernel, .seconds = a.budget, .candidates = (uint32_t)a.candidates,
                       .seed = (uint64_t)a.seed, .beam = (uint32_t)a.beam, .worker = n > 0 && a.workers ? worker : NULL, .workers = a.workers > 0 ? (uint32_t)a.workers : 0,
                       .journal = a.journal, .flags = (a.knobs ? TG_TUNE_KNOBS_ONLY : 0) | (a.resume ? TG_TUNE_RESUME : 0), .stop = stop, .progress = progress, .callback_user = &v};
  struct sigaction sa = {.sa_handler = interrupt};
  sigaction(SIGINT, &sa, NULL);
  sigaction(SIGTERM, &sa, NULL);
  tg_context *ctx = NULL;
  tg_tune_result *r = NULL;
  int result = TOOL_OK;
  tg_context_options co = {.threads = a.threads > 0 ? a.threads : 0, .tuned = tool_tuned(&a, place, sizeof place), .log = complain};
  if (tg_context_create(&co, &ctx)) {
    fprintf(stderr, "tg: no context\n");
    result = TOOL_BROKEN;
  } else if (tg_tune_text(ctx, a.file, p.text, &o, &r)) {
    fprintf(stderr, "%s\n", tg_error_message(ctx));
    result = TOOL_WRONG;
  } else report(&a, r);
  tg_tune_result_free(r);
  tg_context_free(ctx);
  tool_unload(&p);
  return result;
}
