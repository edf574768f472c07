/* SPDX-License-Identifier: MIT
 * tg replay: code against hashes that are checked in, so that a refactor shows no difference and a change of code is
 * declared. Each line of a list is compiled by a process of several, for the target that it names, on any machine; what
 * was refused must be refused. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "generator/generator.h"
#include "replay.h"
#include "tool.h"

static const char usage[] =
    "tg replay LIST|FOLDER [--case TEXT] [--update] [--workers N] [--json] | tg replay gemm\n"
    "tg replay draw FILE.tg [--target ROW] [--kernel NAME] [--seed N] [--candidates N]\n"
    "\n"
    "A LIST has lines: SUBJECT TARGET LINEAR LLVM OBJECT [name=value ...] [| word; word ...]; a FOLDER has lists, "
    "*.txt.\n"
    "  SUBJECT   PROGRAM.tg or FAMILY.tg:KERNEL, from the list's own folder, with these parameters, scheduled by the "
    "heuristic or,\n"
    "            behind a bar, by these words; gemm:DESCRIPTOR, what a plan compiles; gemm:DESCRIPTOR:SKETCH; "
    "front:CALL, the BLAS front's\n"
    "  LINEAR    the hash of the printed linear form; or refused:WHY\n"
    "  OBJECT    the hash of the object by that LLVM, or refused:WHY; both -: it is not looked at\n"
    "Differences are listed. --update writes what is so now; lines may end behind TARGET, or behind '- - -' for no "
    "object.\n"
    "  --case    only lines that contain the text\n"
    "  --workers processes (as many as cores, 8 at most)\n"
    "  gemm      prints the names of descriptors and sketches\n"
    "  draw      prints lines of words drawn at random that are accepted (x86-64-v3), N for each kernel of the file "
    "(1)\n"
    "Exit codes: 0, 1 for a difference, 2 for a wrong command line, 3 for a line that cannot be read or a fault of "
    "tg.\n";

enum { HASH = 40, BINDINGS = 12, TEXT = 400 };

typedef struct {
  char *text; /* as it stands; what follows points into a copy */
  const char *subject, *target, *linear, *version, *object, *words; /* subject NULL: a remark */
  tg_binding bind[BINDINGS];
  uint32_t bindings, list;
} line;

typedef struct {
  char *path;
  size_t folder;
} list; /* folder: so many characters of the path */

typedef struct {
  line *line;
  uint32_t lines, cap;
  list *list;
  uint32_t lists;
  const char *only;
} replay;

/* Of a line, in memory that the processes share. */
typedef struct {
  bool begun, done;
  char linear[HASH], object[HASH], broken[TEXT], message[TEXT];
} result;
typedef struct {
  uint32_t next;
  result of[];
} results;

static void *more(void *p, size_t n) {
  void *q = realloc(p, n);
  if (!q) fprintf(stderr, "tg: no memory\n"), exit(TOOL_BROKEN);
  return q;
}

/* ---- reading ---- */

static bool read_line(line *l, char *text) {
  char *save = NULL, *bar = strstr(text, " | ");
  const char **const field[] = {&l->subject, &l->target, &l->linear, &l->version, &l->object};
  uint32_t fields = 0;
  if (bar) *bar = 0, l->words = bar + 3;
  for (char *t = strtok_r(text, " ", &save); t; t = strtok_r(NULL, " ", &save)) {
    char *equals = strchr(t, '='), *end;
    if (!equals && fields < TG_COUNT(field)) *field[fields++] = t;
    else if (equals && l->bindings < BINDINGS) {
      int64_t value = strtoll(equals + 1, &end, 10);
      *equals = 0;
      l->bind[l->bindings++] = (tg_binding){t, value, value, 1};
      if (*end || end == equals + 1) return false;
    } else return false;
  }
  if (!l->linear) l->linear = "";
  if (!l->version) l->version = "";
  if (!l->object) l->object = "";
  return fields >= 2;
}

static bool read_list(replay *r, char *path) {
  char *save = NULL, *text = tool_read(path, NULL);
  const char *slash = strrchr(path, '/');
  bool good = text != NULL;
  if (!text) fprintf(stderr, "tg: %s: %s\n", path, strerror(errno));
  r->list = more(r->list, (r->lists + 1) * sizeof *r->list);
  r->list[r->lists] = (list){path, slash ? (size_t)(slash - path) + 1 : 0};
  for (char *at = text ? strtok_r(text, "\n", &save) : NULL; at; at = strtok_r(NULL, "\n", &save)) {
    if (r->lines == r->cap) r->line = more(r->line, (r->cap = 2 * r->cap + 64) * sizeof *r->line);
    line *l = &r->line[r->lines++];
    *l = (line){.text = at, .list = r->lists};
    if (*at == '#' || !read_line(l, strdup(at))) {
      good &= *at == '#';
      if (*at != '#') fprintf(stderr, "tg: %s: not a line of a list: %s\n", path, at);
      l->subject = NULL;
    }
  }
  r->lists++;
  return good;
}

static int is_list(const struct dirent *d) {
  size_t n = strlen(d->d_name);
  return n > 4 && !strcmp(d->d_name + n - 4, ".txt");
}

static bool read_all(replay *r, const char *path) {
  struct dirent **found = NULL;
  int n = scandir(path, &found, is_list, alphasort);
  if (n < 0 && errno != ENOTDIR) return fprintf(stderr, "tg: %s: %s\n", path, strerror(errno)), false;
  bool good = true;
  for (int i = 0; i < n; i++) {
    size_t size = strlen(path) + strlen(found[i]->d_name) + 2;
    char *name = more(NULL, size);
    snprintf(name, size, "%s/%s", path, found[i]->d_name);
    good &= read_list(r, name);
  }
  if (n < 0) good = read_list(r, strdup(path));
  if (!r->lines) fprintf(stderr, "tg: %s has no lists\n", path), good = false;
  return good;
}

/* ---- one line ---- */

static const char *refusal(tg_status s) {
  return s == TG_EINVAL  ? "refused:invalid"
      : s == TG_ELIMIT   ? "refused:limit"
      : s == TG_EBACKEND ? "refused:backend"
                         : NULL;
}

static void broken(result *out, const char *what, const char *why) {
  snprintf(out->broken, TEXT, "%.190s: %.190s", what, why);
}

static void add_program(const replay *r, const line *l, replay_code *code, result *out) {
  const list *from = &r->list[l->list];
  char path[1024];
  const char *end = strstr(l->subject, ".tg:");
  int n = end ? (int)(end - l->subject) + 3 : (int)strlen(l->subject);
  snprintf(path, sizeof path, "%.*s%.*s", (int)from->folder, from->path, n, l->subject);
  char *text = tool_read(path, NULL);
  if (!text) {
    broken(out, path, strerror(errno));
    return;
  }
  tg_compile_options o = {.bindings = l->bind,
      .bindings_n = l->bindings,
      .kernel = end ? end + 4 : NULL,
      .opts = l->words,
      .flags = l->words ? TG_COMPILE_AS_WRITTEN | TG_COMPILE_OPTS_ONLY : 0};
  replay_add(code, &(tg_kernel_source){.file = path, .text = text, .options = &o});
  free(text);
}

static void set_hashes(const replay_code *code, result *out) {
  tg_hash128 o = tg_hash_wide(code->object ? code->object : "", code->object_n);
  snprintf(out->message, TEXT, "%s", code->message);
  if (code->refused) snprintf(out->linear, HASH, "%s", refusal(code->refused));
  else
    snprintf(out->linear, HASH, "%016llx", (unsigned long long)tg_hash(code->text ? code->text : "", code->text_n, 0));
  if (code->refused || !code->objects) snprintf(out->object, HASH, "-");
  else if (code->object_refused) snprintf(out->object, HASH, "%s", refusal(code->object_refused));
  else snprintf(out->object, HASH, "%016llx%016llx", (unsigned long long)o.hi, (unsigned long long)o.lo);
}

static void replay_line(const replay *r, const line *l, result *out) {
  bool gemm = !strncmp(l->subject, "gemm:", 5), front = !strncmp(l->subject, "front:", 6);
  replay_code code = {.context = replay_context(l->target, gemm || front ? REPLAY_THREADS : 1),
      .objects = strcmp(l->version, "-") || !strncmp(l->linear, "refused", 7)};
  if (!code.context) {
    broken(out, l->target, "there is no such row");
    return;
  }
  if (gemm ? !replay_gemm(&code, l->subject + 5) : front && !replay_front(&code, l->subject + 6))
    broken(out, l->subject, "there is none of that name");
  if (!gemm && !front) add_program(r, l, &code, out);
  tg_status worst = code.refused ? code.refused : code.object_refused;
  if (worst && !refusal(worst)) broken(out, tg_status_name(worst), code.message);
  if (!out->broken[0]) set_hashes(&code, out);
  free(code.text), free(code.object);
}

static bool is_asked(const replay *r, const line *l) { return l->subject && (!r->only || strstr(l->text, r->only)); }

static void work(const replay *r, results *all) {
  for (uint32_t i; (i = __atomic_fetch_add(&all->next, 1, __ATOMIC_RELAXED)) < r->lines;) {
    if (!is_asked(r, &r->line[i]) || all->of[i].begun) continue;
    all->of[i].begun = true;
    replay_line(r, &r->line[i], &all->of[i]);
    all->of[i].done = true;
  }
}

/* Until all lines were begun: a process that dies takes one with it, which says so, and others go on. */
static void run(const replay *r, results *all, int workers) {
  for (bool left = true; left;) {
    left = false;
    all->next = 0;
    fflush(stdout), fflush(stderr);
    for (int i = 0; i < workers; i++) {
      pid_t pid = fork();
      if (pid < 0) break;
      if (!pid) work(r, all), _exit(0);
    }
    while (wait(NULL) > 0 || errno == EINTR) {}
    if (!all->next) work(r, all); /* there are no processes to be had */
    for (uint32_t i = 0; i < r->lines; i++) {
      left |= is_asked(r, &r->line[i]) && !all->of[i].begun;
      if (all->of[i].begun && !all->of[i].done && !all->of[i].broken[0])
        snprintf(all->of[i].broken, TEXT, "the process died");
    }
  }
}

/* ---- comparing ---- */

static const char *difference(const line *l, const result *now) {
  bool was = *l->linear && strncmp(l->linear, "refused", 7), is = strncmp(now->linear, "refused", 7);
  if (!*l->linear || !strcmp(l->linear, "-")) return "has no hashes yet";
  if (was != is) return is ? "is accepted now" : "is refused now";
  if (strcmp(l->linear, now->linear)) return is ? "linear form differs" : "is refused for another reason";
  if (strcmp(l->version, tg_llvm_version()) || !strcmp(l->object, now->object)) return NULL;
  was = strncmp(l->object, "refused", 7), is = strncmp(now->object, "refused", 7);
  return was == is ? "object differs" : is ? "has an object now" : "has no object now";
}

static void say(const line *l, const char *what, const char *why, bool json) {
  if (json)
    printf("{\"bench\":\"replay\",\"case\":\"%s %s\",\"metric\":\"%s\",\"value\":1,\"unit\":\"lines\"}\n", l->subject,
        l->target, what);
  else
    printf("%s %s%s%s: %s%s%.*s\n", l->subject, l->target, l->words ? " | " : "", l->words ? l->words : "", what,
        *why ? ": " : "", (int)strcspn(why, "\n"), why);
}

static void put_line(FILE *f, const line *l, const result *now) {
  bool object = strcmp(now->object, "-");
  fprintf(f, "%s %s %s %s %s", l->subject, l->target, now->linear, object ? tg_llvm_version() : "-", now->object);
  for (uint32_t i = 0; i < l->bindings; i++) fprintf(f, " %s=%lld", l->bind[i].name, (long long)l->bind[i].lo);
  fprintf(f, "%s%s\n", l->words ? " | " : "", l->words ? l->words : "");
}

static bool write_list(const replay *r, uint32_t which, const results *all) {
  FILE *f = fopen(r->list[which].path, "wb");
  for (uint32_t i = 0; f && i < r->lines; i++) {
    const line *l = &r->line[i];
    if (l->list != which) continue;
    if (!is_asked(r, l) || all->of[i].broken[0]) fprintf(f, "%s\n", l->text);
    else put_line(f, l, &all->of[i]);
  }
  if (f && !fclose(f)) return true;
  fprintf(stderr, "tg: %s: %s\n", r->list[which].path, strerror(errno));
  return false;
}

static int compare(const replay *r, const results *all, const tool_args *a) {
  int same = 0, changed = 0, wrong = 0;
  bool written = true;
  for (uint32_t i = 0; i < r->lines; i++) {
    const line *l = &r->line[i];
    const result *now = &all->of[i];
    if (!is_asked(r, l)) continue;
    const char *what = now->broken[0] ? NULL : difference(l, now);
    if (now->broken[0]) say(l, "broken", now->broken, a->json), wrong++;
    else if (what) say(l, what, now->message, a->json), changed++;
    else same++;
  }
  for (uint32_t i = 0; i < r->lists && a->update; i++) written &= write_list(r, i, all);
  if (!a->json)
    printf("%d the same, %d changed, %d broken%s\n", same, changed, wrong, a->update ? "; hashes written" : "");
  return wrong || !written ? TOOL_BROKEN : changed && !a->update ? TOOL_WRONG : TOOL_OK;
}

static int draw(const tool_args *a) {
  char *text = tool_read(a->file, NULL);
  if (!text) return fprintf(stderr, "tg: %s: %s\n", a->file, strerror(errno)), TOOL_WRONG;
  bool good = replay_draw(a->file, text, a->target ? a->target : "x86-64-v3", a->kernel, (uint64_t)a->seed,
      a->candidates > 0 ? a->candidates : 1);
  free(text);
  return good ? TOOL_OK : TOOL_WRONG;
}

int cmd_replay(int argc, char **argv) {
  enum { MOST = 8 };
  tool_args a;
  replay r = {0};
  bool drawing = argc && !strcmp(argv[0], "draw");
  if (!tool_parse(argc - drawing, argv + drawing, &a, usage)) return TOOL_USAGE;
  if (a.help) return fputs(usage, stdout), TOOL_OK;
  if (!a.file) return tool_missing("tg replay", drawing ? "the kernel to draw words for" : "the list (tests/replay)");
  if (drawing) return draw(&a);
  if (!strcmp(a.file, "gemm")) return replay_gemm_list(), TOOL_OK;
  if (!read_all(&r, a.file)) return TOOL_BROKEN;
  r.only = a.cases;
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  int workers = a.workers > 0 ? a.workers : cores < 1 ? 1 : cores > MOST ? MOST : (int)cores;
  results *all =
      mmap(NULL, sizeof *all + r.lines * sizeof *all->of, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return fprintf(stderr, "tg: no memory\n"), TOOL_BROKEN;
  run(&r, all, workers);
  return compare(&r, all, &a);
}
