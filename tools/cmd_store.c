/* SPDX-License-Identifier: MIT
 * tg store: looks after the tuned choices on disk. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>
#include "generator/generator.h"
#include "store/store.h"
#include "tool.h"

static const char usage[] =
    "tg store list|verify|prune|export|import|merge [PATH] [--tuned DIR]\n"
    "\n"
    "The choices that tg tune has kept: --tuned, else $TG_TUNED, else tg/tuned in the user's data folder.\n"
    "  list          kernel, knobs, time before and after, for each choice\n"
    "  verify        reads every entry; exit code 1 if one is damaged, foreign, or open to others\n"
    "  prune         removes what is damaged, what another build of tg or LLVM wrote, and files left behind by writers "
    "that were killed\n"
    "  export PATH   all choices in one file\n"
    "  import PATH   the choices of such a file; one that is here already stays if it is faster\n"
    "  merge PATH    the choices of another folder, likewise\n";

typedef struct {
  const char *folder;
  tg_env env;
  FILE *out;
  uint32_t good, bad, stale, kept;
  bool json;
  const char *verb, *path;
  int err;
} state;

static bool ours(const tg_tuned *t) {
  char want[256];
  snprintf(want, sizeof want, "\nbuild %s\nllvm %s\n", tg_build_hash, tg_llvm_version());
  return strstr(t->key, want) != NULL;
}

static void list(void *user, const char *path, const tg_tuned *t) {
  state *s = user;
  if (!t) {
    s->bad++;
    return;
  }
  s->good++;
  if (s->json) {
    printf("{\"file\":\"%s\",\"kernel\":\"%s\",\"seconds\":%.9g,\"default_seconds\":%.9g,\"gain_low\":%.5g,\"current\":"
           "%s,\"knobs\":{",
           path, t->kernel, t->seconds, t->default_seconds, t->gain_low, ours(t) ? "true" : "false");
    for (uint32_t i = 0; i < t->knobs_n; i++)
      printf("%s\"%s\":%lld", i ? "," : "", t->knobs[i].name, (long long)t->knobs[i].lo);
    printf("},\"words\":\"%s\"}\n", t->words ? t->words : "");
    return;
  }
  printf("%-24s %10.4g us, was %10.4g, surely %.1f %% faster%s", t->kernel, t->seconds * 1e6, t->default_seconds * 1e6,
         100 * t->gain_low, ours(t) ? "" : " (of another build)");
  for (uint32_t i = 0; i < t->knobs_n; i++) printf(" %s=%lld", t->knobs[i].name, (long long)t->knobs[i].lo);
  printf("\n");
  if (t->words) printf("    %s\n", t->words);
}

static void verify(void *user, const char *path, const tg_tuned *t) {
  state *s = user;
  s->good += t != NULL;
  s->bad += t == NULL;
  if (!t) printf("%s: damaged, foreign, or open to others\n", path);
}

static void prune(void *user, const char *path, const tg_tuned *t) {
  state *s = user;
  if (t && ours(t)) {
    s->good++;
    return;
  }
  if (unlink(path)) fprintf(stderr, "tg: %s: %s\n", path, strerror(errno));
  else s->stale++;
}

/* Of writers that ended between making a file and renaming it. */
static void prune_aside(state *s) {
  DIR *d = opendir(s->folder);
  for (struct dirent *e; d && (e = readdir(d));) {
    size_t n = strlen(e->d_name);
    char path[4096];
    struct stat st;
    if (n < 4 || strcmp(e->d_name + n - 4, ".tmp") ||
        snprintf(path, sizeof path, "%s/%s", s->folder, e->d_name) >= (int)sizeof path)
      continue;
    if (!stat(path, &st) && S_ISREG(st.st_mode) && time(NULL) - st.st_mtime > 600 && !unlink(path)) s->stale++;
  }
  if (d) closedir(d);
}

static void export(void *user, const char *path, const tg_tuned *t) {
  state *s = user;
  (void)path;
  s->bad += t == NULL;
  if (!t) return;
  tg_str text = tg_str_new(&s->env);
  tg_store_print(&text, t);
  if (fprintf(s->out, "tg-choice %zu\n", text.n) < 0 || fwrite(text.data, 1, text.n, s->out) != text.n)
    s->err = errno ? errno : EIO;
  s->good++;
}

static void take_in(state *s, const tg_tuned *t) {
  tg_tuned here;
  if (tg_store_read(&s->env, NULL, s->folder, t->key, &here) && here.seconds <= t->seconds) {
    s->kept++;
    return;
  }
  int err = tg_store_write(&s->env, s->folder, t);
  if (err) s->err = err;
  else s->good++;
}

static void merge(void *user, const char *path, const tg_tuned *t) {
  state *s = user;
  (void)path;
  s->bad += t == NULL;
  if (t) take_in(s, t);
}

static void import_file(state *s) {
  size_t bytes, n;
  char *text = tool_read(s->path, &bytes);
  if (!text) {
    s->err = errno;
    return;
  }
  for (size_t at = 0; at < bytes;) {
    tg_tuned t;
    int head = 0;
    if (sscanf(text + at, "tg-choice %zu\n%n", &n, &head) != 1 || !head || n > bytes - at - (size_t)head) {
      s->bad++;
      break;
    }
    at += (size_t)head;
    if (tg_store_parse(&s->env, text + at, n, &t)) take_in(s, &t);
    else s->bad++;
    at += n;
  }
  free(text);
}

static void run(void *arg) {
  state *s = arg;
  if (!strcmp(s->verb, "list")) s->err = tg_store_each(&s->env, s->folder, list, s);
  else if (!strcmp(s->verb, "verify")) s->err = tg_store_each(&s->env, s->folder, verify, s);
  else if (!strcmp(s->verb, "prune")) {
    s->err = tg_store_each(&s->env, s->folder, prune, s);
    prune_aside(s);
  } else if (!strcmp(s->verb, "merge")) s->err = tg_store_each(&s->env, s->path, merge, s);
  else if (!strcmp(s->verb, "import")) import_file(s);
  else {
    s->out = fopen(s->path, "wb");
    if (!s->out) s->err = errno;
    else s->err = tg_store_each(&s->env, s->folder, export, s);
    if (s->out && fclose(s->out) && !s->err) s->err = errno;
  }
}

int cmd_store(int argc, char **argv) {
  tool_args a;
  char place[4096];
  const char *verb = argc && argv[0][0] != '-' ? argv[0] : NULL;
  static const char *const verbs[] = {"list", "verify", "prune", "export", "import", "merge"};
  size_t v = 0;
  if (!tool_parse(argc - (verb != NULL), argv + (verb != NULL), &a, usage)) return TOOL_USAGE;
  if (a.help) return fputs(usage, stdout), TOOL_OK;
  if (!verb) return tool_missing("tg store", "what to do (list, verify, prune, export, import or merge)");
  while (v < 6 && strcmp(verb, verbs[v])) v++;
  if (v == 6)
    return fprintf(stderr, "tg store: no '%s'; there are list, verify, prune, export, import, merge\n", verb),
           TOOL_USAGE;
  if (v > 2 && !a.file) return tool_missing("tg store", v == 5 ? "another folder" : "a file");
  if (v <= 2 && a.file) return fprintf(stderr, "tg store %s: takes no file, '%s' is given\n", verb, a.file), TOOL_USAGE;
  state s = {.folder = tool_tuned(&a, place, sizeof place), .json = a.json, .verb = verb, .path = a.file};
  if (!s.folder) {
    fputs("tg: no folder of tuned choices: --tuned DIR says where\n", stderr);
    return TOOL_USAGE;
  }
  tg_env_init(&s.env, NULL);
  if (!tg_protect(&s.env, run, &s)) s.err = ENOMEM;
  tg_env_drop(&s.env);
  if (s.err && !(s.err == ENOENT && v < 3)) {
    fprintf(stderr, "tg: %s: %s\n", v > 2 ? s.path : s.folder, strerror(s.err));
    return TOOL_WRONG;
  }
  if (!a.json) printf("%u choices", s.good);
  if (!a.json && s.bad) printf(", %u unusable", s.bad);
  if (!a.json && s.kept) printf(", %u here already", s.kept);
  if (!a.json && s.stale) printf(", %u files removed", s.stale);
  if (!a.json) printf("\n");
  return s.bad && v == 1 ? TOOL_WRONG : TOOL_OK;
}
