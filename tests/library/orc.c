/* SPDX-License-Identifier: MIT
 * Objects linked by LLVM's ORC, against the same objects in tg's own loader: every program computes the same bits; nothing is writable and executable; what is freed
 * is gone, from memory, from the maps, from gdb's list; on eight threads at once, after a fork, on small stacks; what cannot be linked says why, and nothing is
 * printed. And which of the two a kernel of the library takes.
 *   orc [LOADS [ALIVE [PROGRAMS]]]      loaded and freed on 1 thread and on 8; alive at a time; of so many. By hand: 200000 20000
 *   orc times                medians of both */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <llvm-c/LLJIT.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../target.h"
#include "../folder.h"
#include "../test.h"
#include "dsl/value.h"
#include "kit.h"

/* LLVM is not built with the thread sanitizer, which therefore does not see that names of symbols are counted by atomics
 * and freed when the last reference is gone: it takes the free for a race with the last read of the name. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) { return "race:LLVMOrcSymbolStringPoolClearDeadEntries\n"; }

#if defined TG_SANITIZED || defined TG_OTHER_LLVM   /* of the first programs only, without the smallest stacks: threads have larger ones with sanitizers */
enum { PROGRAMS = 40, LOADS = 400, ALIVE = 50 };
#else
enum { PROGRAMS = 512, LOADS = 4000, ALIVE = 1000 };
#endif
enum { THREADS = 8, MOST = 512 };

/* ---- how often LLVM is asked: this program's symbols come before the library's ---- */

static atomic_int sessions, objects_linked;

LLVMErrorRef LLVMOrcCreateLLJIT(LLVMOrcLLJITRef *out, LLVMOrcLLJITBuilderRef b) {
  LLVMErrorRef (*next)(LLVMOrcLLJITRef *, LLVMOrcLLJITBuilderRef);
  void *at = dlsym(RTLD_NEXT, "LLVMOrcCreateLLJIT");
  memcpy(&next, &at, sizeof next);
  sessions++;
  return next(out, b);
}

LLVMErrorRef LLVMOrcLLJITAddObjectFileWithRT(LLVMOrcLLJITRef j, LLVMOrcResourceTrackerRef t, LLVMMemoryBufferRef o) {
  LLVMErrorRef (*next)(LLVMOrcLLJITRef, LLVMOrcResourceTrackerRef, LLVMMemoryBufferRef);
  void *at = dlsym(RTLD_NEXT, "LLVMOrcLLJITAddObjectFileWithRT");
  memcpy(&next, &at, sizeof next);
  objects_linked++;
  return next(j, t, o);
}

/* ---- objects ---- */

typedef struct { char name[64]; void *object; size_t bytes; tg_code_info info; int64_t *launch; } unit;

static unit units[MOST];
static int units_n;
static kit_path path;
static tg_linker linker;
static tg_allocator memory;

static tg_status load_as(const unit *u, bool own, uint32_t flags, tg_code **code, tg_env *err) {
  tg_env_init(err, NULL);
  return own ? tg_code_load(&memory, u->object, u->bytes, u->name, &u->info, flags, code, err) : tg_code_link(&memory, &linker, u->object, u->bytes, u->name, &u->info, flags, code, err);
}

static tg_code *load(const unit *u, bool own) {
  tg_env err;
  tg_code *code;
  if (load_as(u, own, 0, &code, &err) == TG_OK) return code;
  fprintf(stderr, "%s: %s\n", u->name, err.message);
  return NULL;
}

/* ---- both ways ---- */

typedef struct {
  const kit_program *program;
  tg_job job;
  unit *unit;
  int64_t params[32];
  kit_memory start, first, second;
} run;

static void lower_seen(void *user, const char *pass, const tg_uop *sink) {
  run *r = user;
  if (!strcmp(pass, "schedule") && r->job.packings.n) kit_memory_pack(&r->job, sink, r->params, &r->start);
}

static void build(void *user) {
  run *r = user;
  tg_job *j = &r->job;
  tg_parse_kernel(j, r->program->path, r->program->text, 0, NULL);
  kit_params(j, 0, r->params);
  if (!kit_memory_make(j, r->params, &r->start)) tg_fail(&j->env, TG_ELIMIT, "buffers");
  kit_lower(&path, j, false, lower_seen, r);
  unit *u = r->unit;
  tg_object o = tg_jit_compile(path.jit, j, j->sink, &u->info, NULL, NULL);
  snprintf(u->name, sizeof u->name, "%s", j->name);
  u->bytes = o.bytes;
  u->object = memcpy(malloc(o.bytes), o.data, o.bytes);
  if (!u->info.launch) return;
  u->launch = memcpy(malloc(8 * u->info.launch_n), u->info.launch, 8 * u->info.launch_n);
  u->info.launch = u->launch;
}

typedef struct { const tg_code *code; const unit *unit; void **buffers; const int64_t *params; void *workspace; } launch;

static void phase(void *user, uint32_t p) {
  launch *l = user;
  int64_t n = tg_code_tasks(l->code, p, l->buffers, l->params);
  for (int64_t t = 0; t < n; t++) tg_code_entry(l->code, p, true)(l->buffers, l->params, l->workspace, t);
}

static void call(const tg_code *code, const unit *u, kit_memory *m, const int64_t *params) {
  void *buffers[KIT_BUFFERS + 1], *workspace = aligned_alloc(64, u->info.workspace), *shared = aligned_alloc(64, u->info.shared + 64);
  for (uint32_t b = 0; b < m->n; b++) buffers[b] = m->data[b];
  memset(workspace, 0, u->info.workspace);
  memset(shared, 0, u->info.shared + 64);
  buffers[u->info.buffers] = shared;
  tg_code_walk(code, buffers, params, phase, &(launch){code, u, buffers, params, workspace});
  free(workspace);
  free(shared);
}

static void both_ways(const kit_program *p) {
  static run r;
  r.program = p;
  r.unit = &units[units_n];
  tg_job_init(&r.job, NULL);
  bool built = tg_protect(&r.job.env, build, &r);
  CHECK(built, "%s: %s", p->path, r.job.env.message);
  if (built && units_n < MOST - 1) {
    tg_code *own = load(r.unit, true), *orc = load(r.unit, false);
    CHECK(own && orc, "%s: loaded", p->path);
    kit_memory_copy(&r.first, &r.start);
    kit_memory_copy(&r.second, &r.start);
    if (own && orc) call(own, r.unit, &r.first, r.params), call(orc, r.unit, &r.second, r.params);
    bool same = true;
    for (uint32_t b = 0; b < r.start.n; b++) same = same && !memcmp(r.first.data[b], r.second.data[b], r.start.bytes[b]);
    CHECK(same && kit_bands_whole(&r.first) && kit_bands_whole(&r.second), "%s: one object, two results", p->path);
    tg_code_unload(own);
    tg_code_unload(orc);
    units_n++;
  }
  tg_job_drop(&r.job);
}

/* ---- memory ---- */

typedef struct { int maps, writable_code; } map_count;

static map_count count_maps(void) {
  map_count c = {0, 0};
  char line[4096], rights[8];
  FILE *f = fopen("/proc/self/maps", "r");
  while (f && fgets(line, sizeof line, f)) {
    c.maps++;
    if (sscanf(line, "%*x-%*x %7s", rights) == 1) c.writable_code += rights[1] == 'w' && rights[2] == 'x';
  }
  if (f) fclose(f);
  return c;
}

static bool callable(const tg_code *c, const unit *u) {   /* without data: the number of tasks of a kernel without parameters */
  return u->info.phases == 0 || u->info.params || u->info.loops || tg_code_tasks(c, 0, NULL, NULL) >= 0;
}

typedef struct { int from, loads; atomic_int *wrong; } churning;

static void *churn(void *user) {
  churning *k = user;
  enum { HELD = 16 };
  tg_code *held[HELD] = {NULL};
  for (int i = 0; i < k->loads; i++) {
    const unit *u = &units[(k->from + i) % units_n];
    tg_code_unload(held[i % HELD]);
    held[i % HELD] = load(u, false);
    if (!held[i % HELD] || !callable(held[i % HELD], u)) (*k->wrong)++;
  }
  for (int i = 0; i < HELD; i++) tg_code_unload(held[i]);
  return NULL;
}

static int on_threads(int threads, int loads) {
  pthread_t thread[THREADS];
  churning k[THREADS];
  atomic_int wrong = 0;
  for (int t = 0; t < threads; t++) k[t] = (churning){t * 37, loads / threads, &wrong};
  for (int t = 1; t < threads; t++) pthread_create(&thread[t], NULL, churn, &k[t]);
  churn(&k[0]);
  for (int t = 1; t < threads; t++) pthread_join(thread[t], NULL);
  return wrong;
}

/* As many as that again leave the process as large as it was. */
static void flat(int threads, int loads) {
  CHECK(!on_threads(threads, loads / 4 + units_n), "loading on %d threads", threads);
  long before = kit_resident();
  int maps = count_maps().maps;
  CHECK(!on_threads(threads, loads), "loading on %d threads", threads);
  long more = kit_resident() - before;
  int more_maps = count_maps().maps - maps;
  printf("orc: %d loaded and freed on %d threads: %ld KiB more, %d maps more\n", loads, threads, more, more_maps);
#ifndef TG_SANITIZED
  CHECK(more < 4096, "%ld KiB more", more);
#endif
  CHECK(more_maps < 64, "%d maps more", more_maps);
}

/* Kernels that each have a name of their own: the session forgets those that are gone. */
static void names(int loads) {
  enum { DIGITS = 8 };
  size_t before = 0;
  int at = 0, wrong = 0;
  while (at < units_n && strlen(units[at].name) < DIGITS) at++;
  CHECK(at < units_n, "a name of %d letters", DIGITS);
  if (at == units_n) return;
  unit u = units[at];
  tg_object_view o;
  u.object = memcpy(malloc(u.bytes), u.object, u.bytes);
  for (int i = 0; i < loads; i++) {
    char digits[DIGITS + 1], old[sizeof u.name];
    if (i == loads / 4) before = mallinfo2().uordblks;
    snprintf(digits, sizeof digits, "k%07x", i & 0xfffffff);
    memcpy(old, u.name, sizeof old);
    memcpy(u.name, digits, DIGITS);
    tg_object_open(&o, u.object, u.bytes);
    for (uint32_t k = 1; k < o.symbols_n; k++)
      if (!strncmp(tg_object_symbol(&o, k), old, strlen(old))) memcpy((char *)(uintptr_t)tg_object_symbol(&o, k), digits, DIGITS);
    tg_code *code = load(&u, false);
    wrong += !code;
    tg_code_unload(code);
  }
  long more = (long)(mallinfo2().uordblks - before) / 1024;
  printf("orc: %d names: %ld KiB more\n", loads, more);
  CHECK(!wrong, "%d of %d", wrong, loads);
#ifndef TG_SANITIZED
  CHECK(more < 256, "%ld KiB more", more);
#endif
  free(u.object);
}

static void alive(int n) {
  tg_code **code = calloc((size_t)n, sizeof *code);
  int maps = count_maps().maps, wrong = 0, linked = objects_linked;
  double started = tg_now();
  for (int i = 0; i < n; i++) wrong += !(code[i] = load(&units[i % units_n], false));
  double took = tg_now() - started;
  for (int i = 0; i < n; i++) wrong += !code[i] || !callable(code[i], &units[i % units_n]);
  map_count now = count_maps();
  CHECK(!wrong && !now.writable_code, "%d of %d are not there; %d maps can be written and executed", wrong, n, now.writable_code);
  printf("orc: %d alive, %d of them by ORC: %d maps, %.3f ms each\n", n, objects_linked - linked, now.maps - maps, 1e3 * took / n);
  CHECK(objects_linked - linked <= TG_LINKED_MOST, "more than the maps of a process allow");
  for (int i = 0; i < n; i++) tg_code_unload(code[i * 7919LL % n]), code[i * 7919LL % n] = NULL;   /* 7919: prime, so each once, in another order */
  for (int i = 0; i < n; i++) tg_code_unload(code[i]);
  CHECK(count_maps().maps - maps < 64, "%d maps are left", count_maps().maps - maps);
  free(code);
}

/* The limit, with the smallest object that there is. */
static void past_the_most(void) {
  int small = 0, n = TG_LINKED_MOST + 50, wrong = 0;
  for (int i = 1; i < units_n; i++)
    if (units[i].info.phases && units[i].bytes < units[small].bytes) small = i;
  tg_code **code = calloc((size_t)n, sizeof *code);
  int linked = objects_linked;
  for (int i = 0; i < n; i++) wrong += !(code[i] = load(&units[small], false));
  CHECK(!wrong && objects_linked - linked == TG_LINKED_MOST, "%d by ORC, %d not at all", objects_linked - linked, wrong);
  for (int i = 0; i < n; i++) tg_code_unload(code[i]);
  linked = objects_linked;
  tg_code_unload(load(&units[small], false));
  CHECK(objects_linked - linked == 1, "after them there is room again");
  free(code);
}

/* ---- small stacks ---- */

#ifndef TG_SANITIZED
static void *unload_all(void *user) {
  for (tg_code **c = user; *c; c++) tg_code_unload(*c);
  return NULL;
}

/* On a stack that is painted first, so that it shows how much was used. */
static void small_stack(void) {
  enum { N = 200, BYTES = 256 << 10, PAINT = 0x5a };
  tg_code *code[N + 1] = {NULL};
  char *stack = aligned_alloc(4096, BYTES);
  pthread_attr_t a;
  pthread_t thread;
  size_t unused = 0;
  memset(stack, PAINT, BYTES);
  for (int i = 0; i < N; i++) code[i] = load(&units[i % units_n], false);
  pthread_attr_init(&a);
  CHECK(!pthread_attr_setstack(&a, stack, BYTES) && !pthread_create(&thread, &a, unload_all, code) && !pthread_join(thread, NULL), "a thread with a stack of ours");
  pthread_attr_destroy(&a);
  while (unused < BYTES && stack[unused] == PAINT) unused++;
  printf("orc: freed within %zu bytes of stack\n", BYTES - unused);
  CHECK(BYTES - unused < (size_t)PTHREAD_STACK_MIN, "freed within %zu bytes of stack", BYTES - unused);
  free(stack);
}
#endif

/* ---- what cannot be linked ---- */

static Elf64_Sym *symbol_of(void *object, size_t bytes, const char *name) {
  tg_object_view o;
  if (!tg_object_open(&o, object, bytes)) return NULL;
  for (uint32_t i = 1; i < o.symbols_n; i++)
    if (!strcmp(tg_object_symbol(&o, i), name)) return (Elf64_Sym *)(uintptr_t)&o.symbols[i];
  return NULL;
}

/* The first relocation of the code, of an object that has one. */
static Elf64_Rela *relocation_of(void *object, size_t bytes) {
  tg_object_view o;
  if (!tg_object_open(&o, object, bytes)) return NULL;
  for (uint32_t i = 0; i < o.sections_n; i++)
    if (o.sections[i].sh_type == SHT_RELA && o.sections[o.sections[i].sh_info].sh_flags & SHF_EXECINSTR && o.sections[i].sh_size >= sizeof(Elf64_Rela))
      return (Elf64_Rela *)(uintptr_t)(o.data + o.sections[i].sh_offset);
  return NULL;
}

static void refused(const char *what, const unit *u, const char *says) {
  tg_env err;
  tg_code *code = NULL;
  tg_status s = load_as(u, false, 0, &code, &err);
  CHECK(s != TG_OK && !code && strstr(err.message, u->name) && strstr(err.message, says), "%s: %d: %s", what, s, err.message);
  tg_code *good = load(&units[0], false);
  CHECK(good, "%s: what comes after it", what);
  tg_code_unload(good);
}

/* A copy of the first object from `from` on that has one, with the symbol of its first relocation left undefined; the name of that. */
static const char *undefine(unit *copy, int *from, const char *but) {
  for (; *from < units_n; ++*from) {
    *copy = units[*from];
    copy->object = memcpy(malloc(copy->bytes), units[*from].object, copy->bytes);
    Elf64_Rela *r = relocation_of(copy->object, copy->bytes);
    tg_object_view o;
    if (r && tg_object_open(&o, copy->object, copy->bytes)) {
      Elf64_Sym *y = (Elf64_Sym *)(uintptr_t)&o.symbols[ELF64_R_SYM(r->r_info)];
      const char *name = tg_object_symbol(&o, (uint32_t)ELF64_R_SYM(r->r_info));
      *y = (Elf64_Sym){.st_name = y->st_name, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE), .st_shndx = SHN_UNDEF};
      if (*name && strcmp(name, but)) return name;
    }
    free(copy->object);
  }
  return NULL;
}

typedef struct { unit u; const char *name; int wrong; pthread_t thread; } refusal;

static void *refuse(void *user) {
  refusal *k = user;
  for (int i = 0; i < 2000; i++) {
    tg_env err;
    tg_code *code = NULL;
    k->wrong += load_as(&k->u, false, 0, &code, &err) == TG_OK || !strstr(err.message, k->u.name) || !strstr(err.message, k->name);
  }
  return NULL;
}

/* Four threads at a time, of two objects: each is told of its own, with the name that is missing. */
static void undefined(void) {
  enum { N = 4 };
  refusal k[N] = {{.wrong = 0}};
  int from = 0;
  for (int i = 0; i < 2; i++, from++) CHECK((k[i].name = undefine(&k[i].u, &from, i ? k[0].name : "")), "an object with a relocation in its code");
  if (!k[0].name || !k[1].name) return;
  refused("an undefined symbol", &k[0].u, k[0].name);
  for (int i = 2; i < N; i++) k[i] = k[i - 2];
  for (int i = 0; i < N; i++) pthread_create(&k[i].thread, NULL, refuse, &k[i]);
  for (int i = 0; i < N; i++) pthread_join(k[i].thread, NULL);
  for (int i = 0; i < N; i++) CHECK(!k[i].wrong, "%s: %d of 2000 are told something else", k[i].name, k[i].wrong);
  for (int i = 0; i < 2; i++) free(k[i].u.object);
}

static void damages(void) {
  int at = 0;
  while (at < units_n && !relocation_of(units[at].object, units[at].bytes)) at++;
  CHECK(at < units_n, "an object with a relocation in its code");
  if (at == units_n) return;
  unit u = units[at];
  u.object = memcpy(malloc(u.bytes), units[at].object, u.bytes);
  Elf64_Rela *r = relocation_of(u.object, u.bytes);
  r->r_info = ELF64_R_INFO(ELF64_R_SYM(r->r_info), 0xfe);
  refused("an unknown relocation", &u, "elocation");
  memcpy(u.object, units[at].object, u.bytes);
  char entry[96];
  snprintf(entry, sizeof entry, "%s.0.tasks", u.name);
  Elf64_Sym *y = symbol_of(u.object, u.bytes, entry);
  CHECK(y, "%s", entry);
  if (y) y->st_shndx = SHN_UNDEF;
  refused("an entry that is undefined", &u, entry);
  memcpy(u.object, units[at].object, u.bytes);
  u.bytes /= 2;
  refused("half an object", &u, "not an object");
  u.bytes *= 2;
  memset(u.object, 0, 64);
  refused("no object", &u, "not an object");
  free(u.object);
  undefined();
}

/* Runs fn with what it writes to the standard error in a file; gives how much that was. */
static long quietly(void (*fn)(void)) {
  FILE *f = tmpfile();
  int kept = dup(2);
  struct stat s = {0};
  fflush(stderr);
  if (!f || kept < 0) return -1;
  dup2(fileno(f), 2);
  fn();
  fflush(stderr);
  fstat(fileno(f), &s);
  dup2(kept, 2);
  char text[2000] = "";
  rewind(f);
  if (s.st_size && fread(text, 1, sizeof text - 1, f)) fprintf(stderr, "%s", text);
  fclose(f);
  close(kept);
  return (long)s.st_size;
}

/* ---- fork ---- */

static atomic_bool stop;

static void *keep_loading(void *user) {
  (void)user;
  for (int i = 0; !stop; i++) tg_code_unload(load(&units[i % units_n], false));
  return NULL;
}

static void in_child(tg_code *inherited, const unit *u) {
  alarm(60);
  if (!callable(inherited, u)) _exit(2);
  for (int i = 0; i < 20; i++) {
    tg_code *c = load(&units[i % units_n], false);
    if (!c || !callable(c, &units[i % units_n])) _exit(3);
    tg_code_unload(c);
  }
  tg_code_unload(inherited);
  kit_path_close(&path);
  _exit(0);
}

static void forks(void) {
  pthread_t thread[3];
  tg_code *code = load(&units[1], false);
  int wrong = 0;
  stop = false;
  for (int t = 0; t < 3; t++) pthread_create(&thread[t], NULL, keep_loading, NULL);
  for (int i = 0; i < 30; i++) {
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (!child) in_child(code, &units[1]);
    waitpid(child, &status, 0);
    if (status && !wrong++) fprintf(stderr, "child: status %x\n", (unsigned)status);
  }
  stop = true;
  for (int t = 0; t < 3; t++) pthread_join(thread[t], NULL);
  CHECK(!wrong, "%d children of 30", wrong);
  tg_code_unload(code);
}

/* ---- debuggers and profilers ---- */

typedef struct gdb_entry { struct gdb_entry *next, *prev; const char *file; uint64_t bytes; } gdb_entry;
typedef struct { uint32_t version, action; gdb_entry *relevant, *first; } gdb_descriptor;

static int gdb_entries(void) {
  int n = 0;
  gdb_descriptor *d = dlsym(RTLD_DEFAULT, "__jit_debug_descriptor");
  for (gdb_entry *e = d ? d->first : NULL; e; e = e->next) n += !memcmp(e->file, ELFMAG, SELFMAG);
  return n;
}

static void told(void) {
  char file[64], line[512], name[512];
  unsigned long at, bytes, entry = 0;
  tg_env err;
  tg_code *code[2] = {NULL, NULL};
  int before = gdb_entries(), there = 0;
  snprintf(file, sizeof file, "/tmp/perf-%ld.map", (long)getpid());
  unlink(file);
  for (int own = 0; own < 2; own++) CHECK(load_as(&units[0], own, TG_JIT_DEBUG | TG_JIT_PERF_MAP, &code[own], &err) == TG_OK, "%s", err.message);
  CHECK(gdb_entries() == before + 2, "gdb has %d and had %d", gdb_entries(), before);
  for (int own = 0; own < 2 && code[own]; own++) {
    FILE *f = fopen(file, "r");
    tg_phase_fn *fn = tg_code_entry(code[own], 0, false);
    memcpy(&entry, &fn, sizeof entry);
    while (f && fgets(line, sizeof line, f)) there += sscanf(line, "%lx %lx %511s", &at, &bytes, name) == 3 && at == entry && bytes;
    if (f) fclose(f);
  }
  CHECK(there == 2, "%d of 2 are in %s", there, file);
  for (int own = 0; own < 2; own++) tg_code_unload(code[own]);
  CHECK(gdb_entries() == before, "gdb has %d and had %d", gdb_entries(), before);
  unlink(file);
}

/* ---- the library: what is compiled is linked, what is cached is loaded ---- */

static const char *const text = "kernel scaled(N) { in(x, f32, [N]); out(y, f32, [N]); range(i, N) y[i] = x[i] * 3; }";

static bool triples(tg_kernel *k) {
  float x[64], y[64];
  for (int i = 0; i < 64; i++) x[i] = (float)i, y[i] = -1;
  tg_argument a[] = {{x, sizeof x}, {y, sizeof y}};
  bool right = tg_kernel_run(k, &(tg_launch){.buffers = a, .buffers_n = 2}) == TG_OK;
  for (int i = 0; i < 64; i++) right = right && y[i] == 3 * x[i];
  return right;
}

static void of_the_library(void) {
  char folder[TEST_PATH] = "tg-orc-XXXXXX";
  tg_binding size = {"N", 64, 64, 1};
  tg_compile_options o = {.bindings = &size, .bindings_n = 1};
  CHECK(test_folder(folder) != NULL, "a folder");
  for (int turn = 0; turn < 2; turn++) {
    tg_context *c = NULL;
    tg_kernel *k = NULL, *again = NULL;
    int linked = objects_linked, opened = sessions;
    CHECK(tg_context_create(&(tg_context_options){.cache = folder, .target = test_target()}, &c) == TG_OK, "a context");
    CHECK(tg_kernel_compile_text(c, "orc.tg", text, &o, &k) == TG_OK && tg_kernel_compile_text(c, "orc.tg", text, &o, &again) == TG_OK, "%s", tg_error_message(c));
    CHECK(tg_kernel_describe(k)->from_cache == turn && tg_kernel_describe(again)->from_cache, "the cache");
    CHECK(objects_linked - linked == !turn && sessions - opened == !turn, "turn %d: %d sessions of ORC, %d objects", turn, sessions - opened, objects_linked - linked);
    CHECK(triples(k) && triples(again), "results");
    tg_kernel_free(k);
    CHECK(triples(again), "results");
    tg_kernel_free(again);
    tg_context_free(c);
  }
  kit_remove(folder);
}

/* ---- times ---- */

static int by_time(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void times(void) {
  enum { TURNS = 5 };
  double *t[2][2];
  int n = 0;
  for (int k = 0; k < 4; k++) t[k / 2][k % 2] = malloc(sizeof(double) * MOST * TURNS);
  for (int turn = 0; turn < TURNS; turn++)
    for (int i = 0; i < units_n; i++, n++)
      for (int own = 0; own < 2; own++) {
        double a = tg_now();
        tg_code *c = load(&units[i], own);
        double b = tg_now();
        tg_code_unload(c);
        t[own][0][n] = b - a, t[own][1][n] = tg_now() - b;
      }
  for (int k = 0; k < 4; k++) qsort(t[k / 2][k % 2], (size_t)n, sizeof(double), by_time);
  printf("orc: %d objects: tg's loader %.1f us, freed in %.1f; ORC %.1f us (90 of 100 within %.1f), freed in %.1f\n", units_n, 1e6 * t[1][0][n / 2], 1e6 * t[1][1][n / 2],
         1e6 * t[0][0][n / 2], 1e6 * t[0][0][n * 9 / 10], 1e6 * t[0][1][n / 2]);
  for (int k = 0; k < 4; k++) free(t[k / 2][k % 2]);
}

int main(int argc, char **argv) {
  static const char *const folders[] = {"examples", "tests/corpus", "tests/ranges/accept", "tests/polybench", "tests/ordinary"};
  int loads = argc > 1 ? atoi(argv[1]) : LOADS, at_once = argc > 2 ? atoi(argv[2]) : ALIVE, most = argc > 3 ? atoi(argv[3]) : PROGRAMS, n;
  kit_program *p = kit_programs_of(TG_COUNT(folders), folders, &n);
  memory = tg_allocator_default();
  CHECK(kit_path_open(&path, test_target()), "a path");
  linker = tg_jit_linker(path.jit);
  for (int i = 0; i < n && i < most; i++) both_ways(&p[i]);
  CHECK(units_n > (most < 300 ? most - 1 : 300), "%d objects", units_n);
  if (argc > 1 && !strcmp(argv[1], "times")) times();
  else {
    flat(1, loads);
    flat(THREADS, loads);
    names(20000);
    alive(at_once);
    past_the_most();
#ifndef TG_SANITIZED
    small_stack();
#endif
    CHECK(quietly(damages) == 0, "something is printed");
    forks();
    told();
    of_the_library();
  }
  kit_path_close(&path);
  kit_programs_free(p, n);
  for (int i = 0; i < units_n; i++) free(units[i].object), free(units[i].launch);
  return TEST_END();
}
