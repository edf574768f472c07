/* SPDX-License-Identifier: MIT
 * The faults of LLVM that tg goes around (docs/llvm.md): each is shown by a small text, tests/jit/llvm/NAME.ll, which is
 * compiled here, by the LLVM of this build, for the processor that it names; nothing is run. A text begins with comments:
 *
 *   ; name: One lane                         its heading in docs/llvm.md, where `seen` and `around` stand as well
 *   ; target: TRIPLE CPU [FEATURES]
 *   ; fault: has TEXT | lacks TEXT           of the assembly, any space for any other; several such lines: all of them
 *            reports TEXT                    an error is told to the diagnostic handler, and code comes all the same
 *            says TEXT                       on stderr
 *            ends                            the process
 *            slow                            lines between `; repeat` and `; end`, with # for the number of a turn and
 *                                            ## for that before, take over 8 times as long when they are 4 times as many
 *   ; handler: none                          without a diagnostic handler
 *   ; seen: 19 fault, 22 mended              by LLVM's version
 *   ; around: FILE FUNCTION, FILE FUNCTION
 *
 * What is seen now must be what is recorded, so that one knows when a workaround can be removed. For a version without a
 * record it is only printed.
 *   jit_llvm [NAME.ll ...] */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include "../test.h"
#include "jit/llvm.h"

#define FOLDER "tests/jit/llvm"
enum { MOST = 64, CONDITIONS = 4, FEW = 250, MANY = 4 * FEW, SECONDS = 60 };

typedef struct {
  char path[300], *text, *name, *seen, *around, *triple, *cpu, *features, *fault[CONDITIONS];
  int faults;
  bool no_handler;
} sample;

typedef struct { char *code, *reports, *says; bool ended; double seconds; } outcome;

/* ---- texts ---- */

static char *read_file(FILE *f) {
  size_t n = 0, room = 1 << 16;
  char *text = malloc(room);
  rewind(f);
  for (size_t got; (got = fread(text + n, 1, room - n - 1, f)); n += got)
    if (room - n < 1 << 12) text = realloc(text, room *= 2);
  text[n] = 0;
  return text;
}

static char *read_path(const char *path) {
  FILE *f = fopen(path, "r");
  char *text = f ? read_file(f) : NULL;
  if (f) fclose(f);
  return text;
}

/* Where the text is that stands behind "; KEY: " at the start of a line, from `from` on. */
static char *line_of(const char *from, const char *key) {
  char start[32];
  snprintf(start, sizeof start, "; %s: ", key);
  const char *at = strstr(from, start);
  while (at && at != from && at[-1] != '\n') at = strstr(at + 1, start);
  return at ? strndup(at + strlen(start), strcspn(at + strlen(start), "\n")) : NULL;
}

static char *word_of(char **at) {
  *at += strspn(*at, " ");
  char *word = *at;
  *at += strcspn(*at, " ");
  if (**at) *(*at)++ = 0;
  return word;
}

static bool open_sample(sample *s, const char *name) {
  *s = (sample){.faults = 0};
  snprintf(s->path, sizeof s->path, "%s/%.200s", FOLDER, name);
  if (!(s->text = read_path(s->path))) return false;
  char *target = line_of(s->text, "target"), *handler = line_of(s->text, "handler");
  s->name = line_of(s->text, "name"), s->seen = line_of(s->text, "seen"), s->around = line_of(s->text, "around");
  s->no_handler = handler && !strcmp(handler, "none");
  free(handler);
  const char *at = s->text;
  while (s->faults < CONDITIONS && (s->fault[s->faults] = line_of(at, "fault"))) at = strstr(at, s->fault[s->faults++]);
  if (!target || !s->name || !s->seen || !s->around || !s->faults) return false;
  s->triple = word_of(&target), s->cpu = word_of(&target), s->features = target;
  return true;
}

/* The lines to be repeated as often as is said; else the text as it is. */
static char *expanded(const sample *s, int turns) {
  char *from = strstr(s->text, "; repeat\n"), *to = strstr(s->text, "; end\n"), *all;
  size_t n;
  if (!from || !to) return strdup(s->text);
  FILE *f = open_memstream(&all, &n);
  fwrite(s->text, 1, (size_t)(from - s->text), f);
  for (int i = 1; i <= turns; i++)
    for (const char *c = from + strlen("; repeat\n"); c < to; c++)
      if (c[0] == '#' && c[1] == '#') fprintf(f, "%d", i - 1), c++;
      else if (*c == '#') fprintf(f, "%d", i);
      else fputc(*c, f);
  for (const char *c = to; *c; c++)
    if (*c == '#') fprintf(f, "%d", turns);
    else fputc(*c, f);
  fclose(f);
  return all;
}

/* ---- compiling, in a child ---- */

static void on_diagnostic(LLVMDiagnosticInfoRef d, void *file) {
  if (LLVMGetDiagInfoSeverity(d) == LLVMDSError) fprintf(file, "%s\n", LLVMGetDiagInfoDescription(d));
}

static void register_targets(void) {
  LLVMInitializeX86TargetInfo(), LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC(), LLVMInitializeX86AsmPrinter();
  LLVMInitializeAArch64TargetInfo(), LLVMInitializeAArch64Target();
  LLVMInitializeAArch64TargetMC(), LLVMInitializeAArch64AsmPrinter();
  LLVMInitializeNVPTXTargetInfo(), LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC(), LLVMInitializeNVPTXAsmPrinter();
  LLVMInitializeAMDGPUTargetInfo(), LLVMInitializeAMDGPUTarget();
  LLVMInitializeAMDGPUTargetMC(), LLVMInitializeAMDGPUAsmPrinter();
#if TG_LLVM_SPIRV
  LLVMInitializeSPIRVTargetInfo(), LLVMInitializeSPIRVTarget();
  LLVMInitializeSPIRVTargetMC(), LLVMInitializeSPIRVAsmPrinter();
#endif
}

/* As src/jit/module.c does it. */
static void compile(const sample *s, const char *text, FILE *code, FILE *reports) {
  LLVMContextRef c = LLVMContextCreate();
  LLVMModuleRef m;
  LLVMTargetRef target;
  LLVMMemoryBufferRef out;
  char *message;
  register_targets();
  if (!s->no_handler) LLVMContextSetDiagnosticHandler(c, on_diagnostic, reports);
  LLVMMemoryBufferRef in = LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), s->name);
  if (LLVMParseIRInContext(c, in, &m, &message) || LLVMGetTargetFromTriple(s->triple, &target, &message)) {
    fprintf(code, "(no program: %s)", message);
    return;
  }
  LLVMTargetMachineRef machine = LLVMCreateTargetMachine(target, s->triple, s->cpu, s->features, LLVMCodeGenLevelDefault,
                                                         LLVMRelocPIC, LLVMCodeModelSmall);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
  LLVMSetModuleDataLayout(m, layout);
  LLVMSetTarget(m, s->triple);
  if (LLVMTargetMachineEmitToMemoryBuffer(machine, m, LLVMAssemblyFile, &message, &out))
    fprintf(reports, "(no code: %s)", message);
  else fwrite(LLVMGetBufferStart(out), 1, LLVMGetBufferSize(out), code);
}

static outcome run(const sample *s, int turns) {
  FILE *code = tmpfile(), *reports = tmpfile(), *says = tmpfile();
  outcome o = {.ended = true};
  struct rusage used;
  int status = 0;
  CHECK(code && reports && says, "files");
  if (!code || !reports || !says) exit(1);
  fflush(NULL);
  pid_t child = fork();
  if (!child) {
    char *text = expanded(s, turns);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    setrlimit(RLIMIT_CPU, &(struct rlimit){SECONDS, SECONDS});
    dup2(fileno(says), 2);
    compile(s, text, code, reports);
    fflush(NULL);
    _exit(0);
  }
  if (child > 0 && wait4(child, &status, 0, &used) == child) {
    o.ended = !WIFEXITED(status) || WEXITSTATUS(status);
    o.seconds = (double)used.ru_utime.tv_sec + 1e-6 * (double)used.ru_utime.tv_usec;
  }
  o.code = read_file(code), o.reports = read_file(reports), o.says = read_file(says);
  fclose(code), fclose(reports), fclose(says);
  return o;
}

/* ---- what is seen ---- */

static void drop(outcome *o) { free(o->code), free(o->reports), free(o->says); }

/* Any space stands for any other, so that columns do not matter. */
static bool has(const char *text, const char *words) {
  for (; *text; text++) {
    const char *t = text, *w = words;
    while (*w && (*w == ' ' ? isspace((unsigned char)*t) : *t == *w)) {
      bool space = *w++ == ' ';
      t++;
      while (space && isspace((unsigned char)*t)) t++;
    }
    if (!*w) return true;
  }
  return false;
}

static bool begins(const char *text, const char *word, const char **rest) {
  size_t n = strlen(word);
  return !strncmp(text, word, n) && (*rest = text + n);
}

/* Is the condition met? *ok: it could be asked. */
static bool met(const sample *s, const outcome *o, const char *fault, bool *ok) {
  const char *words;
  bool code = !o->ended && *o->code && strncmp(o->code, "(no program", 11);
  *ok &= o->ended || code;
  if (!strcmp(fault, "ends")) return o->ended;
  if (begins(fault, "says ", &words)) return has(o->says, words);
  *ok &= code;
  if (!code) return false;
  if (!strcmp(fault, "slow")) {
    outcome many = run(s, MANY);
    bool slow = many.seconds > 8 * o->seconds;
    *ok &= !many.ended;
    drop(&many);
    return slow;
  }
  if (begins(fault, "has ", &words)) return has(o->code, words);
  if (begins(fault, "lacks ", &words)) return !has(o->code, words);
  if (begins(fault, "reports ", &words)) return has(o->reports, words);
  return *ok = false;
}

/* "fault" or "mended"; NULL: nothing is recorded. versions: those that have the fault, of all recorded. */
static const char *recorded(const sample *s, unsigned major, char *versions, size_t n) {
  static const char *const states[] = {"fault", "mended"};
  const char *found = NULL;
  *versions = 0;
  for (const char *at = s->seen; at; at = strchr(at, ',')) {
    unsigned v;
    char state[16];
    at += strspn(at, ", ");
    if (sscanf(at, "%u %15[a-z]", &v, state) != 2 || (strcmp(state, states[0]) && strcmp(state, states[1]))) {
      CHECK(false, "%s: '; seen: %s' is not of the form '19 fault, 22 mended'", s->path, s->seen);
      return NULL;
    }
    if (v == major) found = states[!strcmp(state, states[1])];
    else if (!strcmp(state, states[0]))
      snprintf(versions + strlen(versions), n - strlen(versions), "%s%u", *versions ? ", " : "", v);
  }
  return found;
}

static void check_sample(const sample *s) {
  unsigned major, minor, patch;
  char others[64];
  bool fault = true, ok = true;
  LLVMGetVersion(&major, &minor, &patch);
  outcome o = run(s, FEW);
  for (int i = 0; i < s->faults; i++) fault &= met(s, &o, s->fault[i], &ok);
  const char *want = recorded(s, major, others, sizeof others), *got = fault ? "fault" : "mended", *next;
  next = fault     ? "The way around it is needed here: "
         : *others ? "The way around it may go as soon as these are not taken any more: LLVM "
                   : "The way around it may go: ";
  CHECK(ok || !want, "%s: LLVM %u.%u.%u does not answer: %s%s%s%s", s->path, major, minor, patch,
        o.ended ? "it ended the process; " : "", o.code, o.reports, o.says);
  if (!want && !ok) printf("%s: nothing is recorded of LLVM %u, which gives no answer: %s\n", s->path, major, o.code);
  else if (!want) printf("%s: nothing is recorded of LLVM %u: now it is '%u %s'\n", s->path, major, major, got);
  else if (ok)
    CHECK(!strcmp(got, want), "LLVM %u.%u.%u %s '%s' (%s says '%u %s'). %s%s%s%s\n%s", major, minor, patch,
          fault ? "has" : "has mended", s->name, s->path, major, want, next, fault ? "" : others,
          fault || !*others ? "" : ": ", s->around, o.code);
  drop(&o);
}

/* ---- the list and the texts ---- */

static void check_section(const sample *s, const char *list) {
  char line[600];
  snprintf(line, sizeof line, "\n## %s\n", s->name);
  const char *from = strstr(list, line), *to = from ? strstr(from + 1, "\n## ") : NULL;
  CHECK(from, "docs/llvm.md has no '## %s', which %s is for", s->name, s->path);
  if (!from) return;
  char *section = strndup(from, to ? (size_t)(to - from) : strlen(from)), *around = strdup(s->around), *save;
  CHECK(has(section, s->path), "docs/llvm.md, '%s', does not name %s", s->name, s->path);
  snprintf(line, sizeof line, "seen: %s", s->seen);
  CHECK(has(section, line), "docs/llvm.md, '%s', does not say '%s'", s->name, line);
  for (char *at = strtok_r(around, ",", &save); at; at = strtok_r(NULL, ",", &save)) {
    char *file = word_of(&at), *function = word_of(&at), *source = read_path(file);
    snprintf(line, sizeof line, "`%s`, `%s`", file, function);
    CHECK(has(section, line), "docs/llvm.md, '%s', does not name %s", s->name, line);
    CHECK(source && strstr(source, function), "%s: there is no %s in %s any more", s->path, function, file);
    free(source);
  }
  free(section), free(around);
}

int main(int argc, char **argv) {
  static sample samples[MOST];
  int n = 0, headings = 0;
  char *list = read_path("docs/llvm.md");
  DIR *d = opendir(FOLDER);
  CHECK(list && d, "docs/llvm.md and " FOLDER ": run from the root of the source");
  if (!list || !d) return TEST_END();
  for (struct dirent *e; (e = readdir(d)) && n < MOST;) {
    size_t k = strlen(e->d_name);
    if (k < 4 || strcmp(e->d_name + k - 3, ".ll")) continue;
    bool read = open_sample(&samples[n], e->d_name);
    CHECK(read, "%s/%s lacks one of the lines name, target, fault, seen, around", FOLDER, e->d_name);
    n += read;
  }
  closedir(d);
  for (const char *at = list; (at = strstr(at, "\n## ")); at++) headings++;
  CHECK(headings == n, "docs/llvm.md lists %d faults, there are texts of %d", headings, n);
  for (int i = 0; i < n; i++) {
    bool wanted = argc < 2;
    for (int k = 1; k < argc; k++) wanted |= strstr(samples[i].path, argv[k]) != NULL;
    check_section(&samples[i], list);
    if (wanted) check_sample(&samples[i]);
  }
  return TEST_END();
}
