/* SPDX-License-Identifier: MIT
 * Kernels built ahead of time (tg/build.h): every program of the corpus as an object for all levels of x86-64 that this
 * machine runs, linked into a library by the system's compiler and called: the same bits as from a context, in order and
 * with tasks dealt in another, on 64-aligned buffers and on such as are aligned to their elements alone; wrong arguments
 * are refused with nothing written. And in a pack of what that context has kept: the same bits from one without compiler. (tests/tool/build.sh looks at what an object defines and calls.)
 * (Half of the programs; those that are named: library_built tests/corpus/softmax.tg ..) */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "../folder.h"
#include "../pack.h"
#include "../test.h"
#include "code/object.h"
#include "devices/signature.h"
#include "kit.h"
#include "target/target.h"
#include "tg/build.h"

enum { LEVELS = 8, MOST_ARGUMENTS = 2 * KIT_BUFFERS + 32 + 2, EACH = 6 };

static char folder[TEST_PATH] = "tg-built-XXXXXX";
static const char *level[LEVELS];
static uint32_t levels;

/* All arguments are words in integer registers or on the stack, so a call with more than a function takes is one that it takes. */
typedef int64_t word;
typedef int function(word, word, word, word, word, word, word, word, word, word, word, word, word, word, word, word,
                     word, word, word, word, word, word, word, word, word, word, word, word, word, word, word, word,
                     word, word, word, word, word, word, word, word, word, word, word, word, word, word, word, word,
                     word, word, word, word, word, word, word, word, word, word, word, word, word, word, word, word,
                     word, word);

static int call(function *f, const word *a) {
  return f(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15], a[16],
           a[17], a[18], a[19], a[20], a[21], a[22], a[23], a[24], a[25], a[26], a[27], a[28], a[29], a[30], a[31],
           a[32], a[33], a[34], a[35], a[36], a[37], a[38], a[39], a[40], a[41], a[42], a[43], a[44], a[45], a[46],
           a[47], a[48], a[49], a[50], a[51], a[52], a[53], a[54], a[55], a[56], a[57], a[58], a[59], a[60], a[61],
           a[62], a[63], a[64], a[65]);
}
_Static_assert(MOST_ARGUMENTS <= 66, "the call has room for all arguments");

static void last_first(void *user, int64_t n, void (*task)(void *, int64_t), void *argument) {
  (void)user;
  for (int64_t i = n; i-- > 0;) task(argument, i);
}

typedef struct {
  const kit_program *program;
  tg_job job;
  int64_t params[32];
  kit_memory start, want, now;
  tg_context *context;
  tg_kernel *kernel, *packed;   /* packed: out of the pack */
  function *built;
} run;

static void parse(void *user) {
  run *r = user;
  tg_parse_kernel(&r->job, r->program->path, r->program->text, 0, NULL);
}

static int call_built(run *r, const kit_memory *m, bool dealt) {
  word a[66] = {0};
  uint32_t n = 0;
  for (uint32_t b = 0; b < m->n; b++) a[n++] = (word)(uintptr_t)m->data[b], a[n++] = (word)m->bytes[b];
  for (uint32_t i = 0; i < r->job.params.n; i++) a[n++] = r->params[i];
  a[n] = dealt ? (word)(uintptr_t)last_first : 0;
  return call(r->built, a);
}

static bool same(const kit_memory *a, const kit_memory *b) {
  for (uint32_t k = 0; k < a->n; k++)
    if (a->written[k] && memcmp(a->data[k], b->data[k], a->bytes[k])) return false;
  return true;
}

/* What is to come out: the same kernel by a context for the same target. */
static bool launch(run *r, tg_kernel *k, kit_memory *m) {
  tg_argument arguments[KIT_BUFFERS];
  kit_memory_copy(m, &r->start);
  for (uint32_t b = 0; b < m->n; b++) arguments[b] = (tg_argument){m->data[b], m->bytes[b]};
  tg_launch l = {.buffers = arguments, .buffers_n = m->n, .params = r->params, .params_n = r->job.params.n, .threads = 1};
  return tg_kernel_run(k, &l) == TG_OK;
}

static void refusals(run *r) {
  for (uint32_t b = 0; b < r->now.n; b++) {
    size_t bytes = r->now.bytes[b];
    void *data = r->now.data[b];
    if (!bytes) continue;
    r->now.bytes[b] = bytes - 1;
    CHECK(call_built(r, &r->now, false) > 0, "%s: a byte less of %s", r->program->path, r->now.name[b]);
    r->now.bytes[b] = bytes;
    r->now.data[b] = NULL;
    CHECK(call_built(r, &r->now, false) > 0, "%s: no %s", r->program->path, r->now.name[b]);
    r->now.data[b] = (char *)data + 1;
    if (tg_type_bytes(r->now.type[b]) > 1) CHECK(call_built(r, &r->now, false) > 0, "%s: %s unaligned", r->program->path, r->now.name[b]);
    r->now.data[b] = data;
    for (uint32_t k = 0; k < r->now.n && r->now.written[b]; k++) {
      if (k == b || r->now.bytes[k] < bytes || bytes < 16) continue;
      r->now.data[b] = r->now.data[k];
      CHECK(call_built(r, &r->now, false) > 0, "%s: %s on %s", r->program->path, r->now.name[b], r->now.name[k]);
      r->now.data[b] = data;
    }
  }
  for (uint32_t i = 0; i < r->job.params.n; i++) {
    int64_t v = r->params[i];
    r->params[i] = r->job.params.data[i].lo - 1;
    CHECK(call_built(r, &r->now, false) > 0, "%s: %s below its range", r->program->path, r->job.params.data[i].name);
    r->params[i] = v;
  }
  CHECK(same(&r->now, &r->want) && kit_bands_whole(&r->now), "%s: a refused call wrote", r->program->path);
}

static void compare(run *r, const char *target) {
  for (int round = 0; round < 3 && (!round || r->job.params.n); round++) {
    kit_memory guarded = {.n = 0};
    kit_params(&r->job, round, r->params);
    if (!kit_memory_make(&r->job, r->params, &r->start)) continue;
    CHECK(launch(r, r->kernel, &r->want), "%s, %s: %s", r->program->path, target, tg_error_message(r->context));
    CHECK(r->packed && launch(r, r->packed, &r->now) && same(&r->now, &r->want), "%s, %s, round %d: out of the pack", r->program->path, target, round);
    for (int dealt = 0; dealt < 2; dealt++) {
      kit_memory_copy(&r->now, &r->start);
      int result = call_built(r, &r->now, dealt);
      CHECK(!result && same(&r->now, &r->want) && kit_bands_whole(&r->now), "%s, %s, round %d: result %d", r->program->path, target, round, result);
    }
    if (kit_memory_guard(&guarded, &r->start, true)) {
      int result = call_built(r, &guarded, true);
      CHECK(!result && same(&guarded, &r->want), "%s, %s, round %d: aligned to elements: result %d", r->program->path, target, round, result);
    }
    if (!round) refusals(r);
    kit_memory_free(&guarded);
    kit_memory_free(&r->start), kit_memory_free(&r->want), kit_memory_free(&r->now);
  }
}

static bool put(const char *path, const void *data, size_t n) {
  FILE *f = fopen(path, "wb");
  bool good = f && fwrite(data, 1, n, f) == n;
  return f && !fclose(f) && good;
}

/* The object as a library, opened. */
static void *library_of(const tg_built *b, const char *what) {
  char object[TEST_PATH + 32], library[TEST_PATH + 32], command[3 * TEST_PATH + 64];
  snprintf(object, sizeof object, "%s/k.o", folder);
  snprintf(library, sizeof library, "%s/k.so", folder);
  snprintf(command, sizeof command, "cc -shared -Wl,-z,defs -o %s %s", library, object);
  bool linked = put(object, b->object, b->object_bytes) && !system(command);
  CHECK(linked, "%s: not linked", what);
  if (!linked) return NULL;
  void *l = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  CHECK(l, "%s: %s", what, dlerror());
  unlink(library);   /* a next one is another file */
  return l;
}

static void one(run *r, const char *const *targets, uint32_t n) {
  const char *best = targets[n - 1];
  tg_built *b = NULL;
  tg_env env;
  tg_context *runtime = NULL;
  char cache[TEST_PATH + 32], remove[TEST_PATH + 48];
  snprintf(cache, sizeof cache, "%s/cache", folder);
  tg_env_init(&env, NULL);
  CHECK(tg_context_create(&(tg_context_options){.target = best, .cache = cache}, &r->context) == TG_OK, "%s", best);
  tg_compile_options o = {.flags = TG_COMPILE_UNTUNED};
  tg_status compiled = tg_kernel_compile_text(r->context, r->program->path, r->program->text, &o, &r->kernel);
  tg_status s = tg_build_text(r->context, r->program->path, r->program->text, &o, targets, n, &b);
  CHECK((s == TG_OK) == (compiled == TG_OK), "%s, %s: %s", r->program->path, best, tg_error_message(r->context));
  tg_context_options from_pack = {.target = best, .tuned = ""};
  from_pack.pack = test_pack_of(&env, cache, &from_pack.pack_bytes);
  CHECK(tg_context_create_runtime(&from_pack, &runtime) == TG_OK, "%s: a context of the pack", r->program->path);
  if (compiled == TG_OK)
    CHECK(tg_kernel_compile_text(runtime, r->program->path, r->program->text, &o, &r->packed) == TG_OK, "%s: %s", r->program->path, tg_error_message(runtime));
  void *l = s == TG_OK && compiled == TG_OK ? library_of(b, r->program->path) : NULL;
  if (l) {
    *(void **)&r->built = dlsym(l, b->name);
    CHECK(r->built, "%s: no symbol %s", r->program->path, b->name);
    if (r->built) compare(r, best);
    dlclose(l);
  }
  tg_built_free(b);
  tg_kernel_free(r->kernel), tg_kernel_free(r->packed);
  tg_context_free(r->context), tg_context_free(runtime);
  r->kernel = r->packed = NULL, r->context = NULL;
  tg_env_drop(&env);
  snprintf(remove, sizeof remove, "rm -rf %s", cache);
  CHECK(!system(remove), "%s", remove);
}

static void program(const kit_program *p, int i) {
  run *r = calloc(1, sizeof *r);
  r->program = p;
  tg_job_init(&r->job, NULL);
  bool packed = strstr(p->text, "packed") != NULL;   /* of an operand that is packed ahead of the call: another kernel's work */
  bool down = strstr(p->text, "[-1]") != NULL;   /* strides below 0, which calls of what is built refuse (docs/deploy.md) */
  if (!packed && !down && tg_protect(&r->job.env, parse, r) && r->job.params.n <= 32) {
    one(r, level, levels);
    for (uint32_t k = 0; !(i % EACH) && k < levels; k++) one(r, &level[k], 1);
  }
  tg_job_drop(&r->job);
  free(r);
}

/* ---- what is refused ---- */

static void wrong_calls(void) {
  static const char text[] = "kernel twice(N in 1..100) { in(x, f32, [N]); out(y, f32, [N]); range(i, N) y[i] = x[i] * 2; }";
  static const char keyword[] = "kernel while_(N in 1..100) { in(int, f32, [N]); out(y, f32, [N]); range(i, N) y[i] = int[i] * 2; }";
  static const struct { const char *target[2]; uint32_t n; const char *says; } cases[] = {
    {{NULL}, 0, "0 targets"}, {{"x86-64-v9"}, 1, "no target is named 'x86-64-v9'"}, {{"sm_80"}, 1, "sm_80 is no processor"},
    {{"x86-64-v2", "armv8-a"}, 2, "two families"}, {{"sapphirerapids"}, 1, "AMX"}};
  tg_context *c = NULL;
  tg_built *b;
  CHECK(tg_context_create(NULL, &c) == TG_OK, "a context");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    b = (tg_built *)c;
    tg_status s = tg_build_text(c, "twice.tg", text, NULL, cases[i].target, cases[i].n, &b);
    CHECK(s != TG_OK && !b && strstr(tg_error_message(c), cases[i].says), "case %zu: %s", i, tg_error_message(c));
  }
  const char *v2 = "x86-64-v2";
  CHECK(tg_build_text(c, "a.tg", "kernel a() { out(y, f32, [4]); range(i, 4) y[i] = q; }", NULL, &v2, 1, &b) == TG_EINVAL && strstr(tg_error_message(c), "a.tg:1:"), "%s", tg_error_message(c));
  CHECK(tg_build_text(c, "twice.tg", text, NULL, &v2, 1, NULL) == TG_EINVAL, "no place for the result");
  CHECK(tg_build_text(NULL, "twice.tg", text, NULL, &v2, 1, &b) == TG_EINVAL, "no context");
  CHECK(tg_build_text(c, "k.tg", keyword, NULL, &v2, 1, &b) == TG_OK && strstr(b->header, "const float *int_, size_t int__bytes"), "a buffer named int: %s", tg_error_message(c));
  tg_built_free(b);
  tg_built_free(NULL);
  /* code for AArch64 is made on any machine */
  const char *arm[] = {"armv8-a", "neoverse-v1"};
  CHECK(tg_build_text(c, "twice.tg", text, NULL, arm, 2, &b) == TG_OK, "%s", tg_error_message(c));
  if (b) CHECK(b->object_bytes > 1000 && ((const unsigned char *)b->object)[18] == 183, "an ELF file of AArch64");
  tg_built_free(b);
  tg_context_free(c);
}

int main(int argc, char **argv) {
  int n, step = argc < 2 ? 2 : 1;   /* half of the programs, unless some are named */
  if (!test_folder(folder)) {
    CHECK(false, "no folder");
    return TEST_END();
  }
  static const char *const names[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
  static const char *const folders[] = {"tests/corpus", "examples"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    tg_target t;
    if (tg_target_named(&t, names[i]) && tg_target_runs_here(&t)) level[levels++] = names[i];
  }
  wrong_calls();
  if (!levels) return printf("skipped: no level of x86-64 runs here\n"), TEST_END();
  kit_program *p = kit_programs_of(2, folders, &n);
#ifdef TG_SANITIZED
  step *= 8;
#endif
  for (int i = 0; i < n; i += step) {
    bool asked = argc < 2;
    for (int k = 1; k < argc; k++) asked |= !strcmp(argv[k], p[i].path);
    if (asked) program(&p[i], i / step);
  }
  kit_programs_free(p, n);
  return TEST_END();
}
