/* SPDX-License-Identifier: MIT
 * Launches through NVIDIA's driver (CUDA Driver API, "Module Management", "Execution Control", "Event Management"). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "cuda.h"

enum { BAND = 256, MOST_RUNS = 50, WARM = 3 };
enum { CORES = 16, CLOCK = 13, MEMORY_CLOCK = 36, BUS = 37, L2 = 38, MAJOR = 75, MINOR = 76, LOCAL_OPTIN = 97 };   /* CUdevice_attribute */
enum { SPILLED = 3, REGISTERS = 4, LOCAL_MOST = 8 };                                                              /* CUfunction_attribute */
enum { LOG = 5, LOG_BYTES = 6 };                                                                                  /* CUjit_option */
typedef uint64_t address;

#define FUNCTIONS(F)                                                                                                          \
  F(Init, (unsigned)) F(DriverGetVersion, (int *)) F(DeviceGet, (int *, int)) F(DeviceGetName, (char *, int, int))             \
  F(DeviceGetAttribute, (int *, int, int)) F(DeviceTotalMem_v2, (size_t *, int)) F(DevicePrimaryCtxRetain, (void **, int))     \
  F(CtxSetCurrent, (void *)) F(CtxSynchronize, (void)) F(ModuleLoadDataEx, (void **, const void *, unsigned, int *, void **))  \
  F(ModuleUnload, (void *)) F(ModuleGetFunction, (void **, void *, const char *)) F(FuncSetAttribute, (void *, int, int))      \
  F(FuncGetAttribute, (int *, int, void *)) F(MemAlloc_v2, (address *, size_t)) F(MemFree_v2, (address))                       \
  F(MemsetD8_v2, (address, unsigned char, size_t)) F(MemcpyHtoD_v2, (address, const void *, size_t))                           \
  F(MemcpyDtoH_v2, (void *, address, size_t)) F(EventCreate, (void **, unsigned)) F(EventRecord, (void *, void *))             \
  F(EventSynchronize, (void *)) F(EventElapsedTime, (float *, void *, void *)) F(GetErrorString, (int, const char **))         \
  F(LaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))

struct cuda {
  void *library;
#define F(name, arguments) int (*name) arguments;
  FUNCTIONS(F)
#undef F
};

static bool right(const cuda *c, int status, const char *what, char *message, size_t n) {
  const char *text = "unknown error";
  if (!status) return true;
  c->GetErrorString(status, &text);
  snprintf(message, n, "%s: %s (%d)", what, text, status);
  return false;
}

cuda *cuda_open(const char *library, cuda_device *about, char *message, size_t n) {
  static cuda c;
  void *context;
  int device;
  memset(about, 0, sizeof *about);
  if (!(c.library = dlopen(library, RTLD_NOW))) {
    snprintf(message, n, "%s", dlerror());
    return NULL;
  }
#define F(name, arguments)                                                \
  if (!(*(void **)&c.name = dlsym(c.library, "cu" #name))) {              \
    snprintf(message, n, "%s has no cu" #name, library);                  \
    return NULL;                                                          \
  }
  FUNCTIONS(F)
#undef F
  if (!right(&c, c.Init(0), "cuInit", message, n) || !right(&c, c.DeviceGet(&device, 0), "cuDeviceGet", message, n) ||
      !right(&c, c.DevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain", message, n) || !right(&c, c.CtxSetCurrent(context), "cuCtxSetCurrent", message, n))
    return NULL;
  const struct { int *to, which; } facts[] = {{&about->cores, CORES}, {&about->clock_khz, CLOCK}, {&about->memory_khz, MEMORY_CLOCK}, {&about->bus_bits, BUS},
                                              {&about->l2, L2}, {&about->major, MAJOR}, {&about->minor, MINOR}, {&about->local, LOCAL_OPTIN}};
  for (size_t i = 0; i < TG_COUNT(facts); i++) c.DeviceGetAttribute(facts[i].to, facts[i].which, device);
  c.DriverGetVersion(&about->driver);
  c.DeviceGetName(about->name, sizeof about->name, device);
  c.DeviceTotalMem_v2(&about->memory, device);
  return &c;
}

/* ---- one program ---- */

typedef struct {
  const cuda *c;
  const ptx_program *p;
  kit_memory *memory;
  void *module, *function[8];
  address at[KIT_BUFFERS + 1], argument[KIT_BUFFERS + 64];
  tg_grid grid[8];
  char *message;
  size_t n;
} session;

#define TRY(call) right(s->c, s->c->call, #call, s->message, s->n)

static bool load(session *s, cuda_times *t) {
  static char log[CUDA_LOG];
  int options[] = {LOG, LOG_BYTES};
  void *values[] = {log, (void *)(uintptr_t)sizeof log};
  struct timespec from, to;
  log[0] = 0;
  clock_gettime(CLOCK_MONOTONIC, &from);
  int status = s->c->ModuleLoadDataEx(&s->module, s->p->text ? s->p->text : s->p->object->data, 2, options, values);
  clock_gettime(CLOCK_MONOTONIC, &to);
  t->compile = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
  if (!right(s->c, status, "the driver's compiler", s->message, s->n)) {
    size_t at = strlen(s->message);
    snprintf(s->message + at, s->n - at, ": %s", log);
    return false;
  }
  t->phases = s->p->info->phases;
  for (uint32_t f = 0; f < t->phases; f++) {
    char name[128];
    if (f == 8 || !tg_grid_of(s->p->info, f, s->p->params, &s->grid[f])) {
      snprintf(s->message, s->n, "phase %u has no grid", f);
      return false;
    }
    const tg_grid *g = &s->grid[f];
    snprintf(name, sizeof name, "%s_%u", s->p->job->name, f);
    if (!TRY(ModuleGetFunction(&s->function[f], s->module, name)) || !TRY(FuncSetAttribute(s->function[f], LOCAL_MOST, (int)g->local))) return false;
    t->phase[f] = (cuda_phase){.local = (int)g->local, .threads = (int)g->threads, .groups = (uint64_t)(g->groups[0] * g->groups[1] * g->groups[2])};
    s->c->FuncGetAttribute(&t->phase[f].registers, REGISTERS, s->function[f]);
    s->c->FuncGetAttribute(&t->phase[f].spilled, SPILLED, s->function[f]);
  }
  return true;
}

static bool fill(session *s) {
  const kit_memory *m = s->memory;
  uint32_t n = m->n + (s->p->info->shared != 0);
  for (uint32_t b = 0; b < n; b++) {
    size_t bytes = b < m->n ? m->bytes[b] : s->p->info->shared;
    if (!TRY(MemAlloc_v2(&s->at[b], bytes + 2 * BAND)) || !TRY(MemsetD8_v2(s->at[b], 0xa5, bytes + 2 * BAND))) return false;
    if (b < m->n && bytes && !TRY(MemcpyHtoD_v2(s->at[b] + BAND, m->data[b], bytes))) return false;
    s->argument[b] = s->at[b] + BAND;
  }
  for (uint32_t i = 0; i < s->p->info->params; i++) s->argument[n + i] = (address)s->p->params[i];
  return true;
}

static bool launch(session *s) {
  void *arguments[KIT_BUFFERS + 64];
  uint32_t n = s->memory->n + (s->p->info->shared != 0) + s->p->info->params;
  for (uint32_t i = 0; i < n; i++) arguments[i] = &s->argument[i];
  for (uint32_t f = 0; f < s->p->info->phases; f++) {
    const tg_grid *g = &s->grid[f];
    if (g->groups[0] && g->groups[1] && g->groups[2] &&
        !TRY(LaunchKernel(s->function[f], (unsigned)g->groups[0], (unsigned)g->groups[1], (unsigned)g->groups[2], g->threads, 1, 1, (unsigned)g->local, NULL, arguments, NULL)))
      return false;
  }
  return true;
}

static bool fetch(session *s) {
  for (uint32_t b = 0; b < s->memory->n; b++) {
    unsigned char band[2 * BAND];
    size_t bytes = s->memory->bytes[b];
    if (s->memory->written[b] && bytes && !TRY(MemcpyDtoH_v2(s->memory->data[b], s->at[b] + BAND, bytes))) return false;
    if (!TRY(MemcpyDtoH_v2(band, s->at[b], BAND)) || !TRY(MemcpyDtoH_v2(band + BAND, s->at[b] + BAND + bytes, BAND))) return false;
    for (int i = 0; i < 2 * BAND; i++)
      if (band[i] != 0xa5) {
        snprintf(s->message, s->n, "wrote outside of %s, %d bytes %s it", s->memory->name[b], i < BAND ? BAND - i : i - BAND, i < BAND ? "before" : "behind the end of");
        return false;
      }
  }
  return true;
}

static int by_time(const void *a, const void *b) { return (*(const float *)a > *(const float *)b) - (*(const float *)a < *(const float *)b); }

static bool measure(session *s, double seconds, cuda_times *t) {
  void *from, *to;
  float ms[MOST_RUNS];
  double all = 0;
  if (!TRY(EventCreate(&from, 0)) || !TRY(EventCreate(&to, 0))) return false;
  for (int i = 0; i < WARM; i++)
    if (!launch(s)) return false;
  for (t->runs = 0; t->runs < MOST_RUNS && (t->runs < 3 || all < seconds * 1e3); t->runs++) {
    if (!TRY(EventRecord(from, NULL)) || !launch(s) || !TRY(EventRecord(to, NULL)) || !TRY(EventSynchronize(to)) || !TRY(EventElapsedTime(&ms[t->runs], from, to))) return false;
    all += ms[t->runs];
  }
  qsort(ms, t->runs, sizeof *ms, by_time);
  t->seconds = ms[t->runs / 2] * 1e-3;
  return true;
}

bool cuda_run(cuda *c, const ptx_program *p, kit_memory *memory, double seconds, cuda_times *times, char *message, size_t n) {
  session of = {.c = c, .p = p, .memory = memory, .message = message, .n = n}, *s = &of;
  *times = (cuda_times){.runs = 0};
  bool ok = load(s, times) && fill(s) && launch(s) && TRY(CtxSynchronize()) && fetch(s) && (seconds <= 0 || measure(s, seconds, times));
  for (uint32_t b = 0; b <= memory->n; b++)
    if (s->at[b]) c->MemFree_v2(s->at[b]);
  if (s->module) c->ModuleUnload(s->module);
  return ok;
}
