/* SPDX-License-Identifier: MIT
 * A layer of OpenCL (the loader's OPENCL_LAYERS) between tg and a driver that has no SPIR-V: devices say that they take
 * it, and a program that comes as SPIR-V is checked by spirv-val, where that is installed, translated to LLVM's bitcode
 * by llvm-spirv-15, and given to the driver as such, which PoCL takes (cl_khr_spir). Nothing else changes. All of it is
 * Debian's: packages llvm-spirv-15, spirv-tools, pocl-opencl-icd, ocl-icd-libopencl1. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Places in the table of the loader's interface for drivers, cl_icd.h of Khronos. */
enum { GET_DEVICE_INFO = 3, GET_CONTEXT_INFO = 8, CREATE_WITH_BINARY = 27, BUILD = 30, CREATE_WITH_IL = 138, ENTRIES = 149 };
enum { IL_VERSION = 0x105b, CONTEXT_DEVICES = 0x1081, INVALID_VALUE = -30, INVALID_BINARY = -42, MOST = 4096 };
static const char languages[] = "SPIR-V_1.0 SPIR-V_1.1 SPIR-V_1.2";

/* what others find in this library */
#define FOUND __attribute__((visibility("default")))
FOUND int clGetLayerInfo(unsigned what, size_t n, void *out, size_t *bytes);
FOUND int clInitLayer(unsigned n, void *const *target, unsigned *out_n, void *const **out);
FOUND unsigned layer_programs(void);

static void *under[ENTRIES], *table[ENTRIES];
static struct { void *of[MOST]; unsigned n; pthread_mutex_t lock; } spir = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int get_device_info(void *device, unsigned what, size_t n, void *out, size_t *bytes) {
  int (*get)(void *, unsigned, size_t, void *, size_t *);
  memcpy(&get, &under[GET_DEVICE_INFO], sizeof get);
  if (what != IL_VERSION) return get(device, what, n, out, bytes);
  if (out && n < sizeof languages) return INVALID_VALUE;
  if (out) memcpy(out, languages, sizeof languages);
  if (bytes) *bytes = sizeof languages;
  return 0;
}

/* llvm-spirv-15 ends where a number or a truth value is OpConstantNull, as SPIR-V allows: they are written as OpConstant
 * and OpConstantFalse. The result is in *out_n words; NULL: this is no module. */
static uint32_t *without_nulls(const uint32_t *w, size_t n, size_t *out_n) {
  enum { HEAD = 5, IDS = 3, TYPE_BOOL = 20, TYPE_INT = 21, TYPE_FLOAT = 22, FALSE = 42, CONSTANT = 43, NULL_CONSTANT = 46 };
  if (n <= HEAD) return NULL;
  uint32_t *out = malloc(2 * n * sizeof *out), *width = calloc(w[IDS], sizeof *width), words;
  size_t at = HEAD;
  memcpy(out, w, HEAD * sizeof *w);
  for (size_t i = HEAD; i < n && (words = w[i] >> 16) && words <= n - i; i += words) {
    uint32_t op = w[i] & 0xffff, bits = op == NULL_CONSTANT ? width[w[i + 1]] : 0;
    if (op == TYPE_BOOL) width[w[i + 1]] = 1;
    if (op == TYPE_INT || op == TYPE_FLOAT) width[w[i + 1]] = w[i + 2];
    memcpy(out + at, w + i, words * sizeof *w);
    if (bits) {
      uint32_t more = bits == 1 ? 0 : bits > 32 ? 2 : 1;
      out[at] = (words + more) << 16 | (bits == 1 ? FALSE : CONSTANT);
      memset(out + at + words, 0, more * sizeof *out);
      at += more;
    }
    at += words;
  }
  free(width);
  *out_n = at;
  return out;
}

static char *read_all(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  char *data = NULL;
  *n = 0;
  if (f && !fseek(f, 0, SEEK_END)) {
    long end = ftell(f);
    rewind(f);
    data = malloc(end > 0 ? (size_t)end : 1);
    *n = fread(data, 1, end > 0 ? (size_t)end : 0, f);
  }
  if (f) fclose(f);
  return data;
}

/* Bitcode; NULL: one of the tools refuses it, and has said why on stderr. */
static char *translated(const void *il, size_t bytes, size_t *n) {
  char folder[] = "/tmp/tg-layer-XXXXXX", command[512], path[64], out[64];
  if (!mkdtemp(folder)) return NULL;
  snprintf(path, sizeof path, "%s/k.spv", folder), snprintf(out, sizeof out, "%s/k.bc", folder);
  size_t words = 0;
  uint32_t *changed = without_nulls(il, bytes / 4, &words);
  FILE *f = fopen(path, "wb");
  if (f) fwrite(il, 1, bytes, f), fclose(f);
  snprintf(command, sizeof command, "! command -v spirv-val >/dev/null || spirv-val --target-env opencl2.0 %s >&2", path);
  int bad = system(command);
  if (!bad && (f = fopen(path, "wb"))) fwrite(changed, sizeof *changed, words, f), fclose(f);
  snprintf(command, sizeof command, "llvm-spirv-15 -r %s -o %s >&2", path, out);
  bad = bad || system(command);
  char *data = bad ? NULL : read_all(out, n);
  unlink(path), unlink(out), rmdir(folder);
  free(changed);
  return data;
}

static void *create_with_il(void *context, const void *il, size_t bytes, int *code) {
  void *(*create)(void *, unsigned, void *const *, const size_t *, const unsigned char **, int *, int *);
  int (*get)(void *, unsigned, size_t, void *, size_t *), status = 0;
  void *device = NULL, *program = NULL;
  size_t n = 0, got = 0;
  memcpy(&create, &under[CREATE_WITH_BINARY], sizeof create), memcpy(&get, &under[GET_CONTEXT_INFO], sizeof get);
  char *data = translated(il, bytes, &n);
  const unsigned char *binary = (unsigned char *)data;
  if (code) *code = INVALID_BINARY;
  if (data && !get(context, CONTEXT_DEVICES, sizeof device, &device, &got))
    program = create(context, 1, &device, &n, &binary, &status, code);
  free(data);
  pthread_mutex_lock(&spir.lock);
  if (program) spir.of[spir.n++ % MOST] = program;
  pthread_mutex_unlock(&spir.lock);
  return program;
}

static int build(void *program, unsigned n, void *const *devices, const char *options, void *notify, void *user) {
  int (*next)(void *, unsigned, void *const *, const char *, void *, void *);
  char more[1024];
  unsigned i = 0;
  memcpy(&next, &under[BUILD], sizeof next);
  pthread_mutex_lock(&spir.lock);
  for (; i < spir.n && i < MOST && spir.of[i] != program; i++) {}
  int known = i < spir.n && i < MOST;
  if (known) spir.of[i] = NULL;   /* a program is built once, and another may come to the same place */
  pthread_mutex_unlock(&spir.lock);
  snprintf(more, sizeof more, "-x spir -spir-std=1.2 %s", options ? options : "");
  return next(program, n, devices, known ? more : options, notify, user);
}

/* How many programs came as SPIR-V and were translated. */
unsigned layer_programs(void) {
  pthread_mutex_lock(&spir.lock);
  unsigned n = spir.n;
  pthread_mutex_unlock(&spir.lock);
  return n;
}

/* cl_layer.h of Khronos: the version of the interface of layers. */
int clGetLayerInfo(unsigned what, size_t n, void *out, size_t *bytes) {
  enum { API_VERSION = 0x4240, NAME = 0x4241, VERSION_100 = 100 };
  static const char name[] = "SPIR-V by translation";
  const unsigned version = VERSION_100;
  if (what != API_VERSION && what != NAME) return INVALID_VALUE;
  size_t has = what == NAME ? sizeof name : sizeof version;
  if (out && n < has) return INVALID_VALUE;
  if (out) memcpy(out, what == NAME ? (const void *)name : &version, has);
  if (bytes) *bytes = has;
  return 0;
}

int clInitLayer(unsigned n, void *const *target, unsigned *out_n, void *const **out) {
  int (*own_info)(void *, unsigned, size_t, void *, size_t *) = get_device_info;
  void *(*own_create)(void *, const void *, size_t, int *) = create_with_il;
  int (*own_build)(void *, unsigned, void *const *, const char *, void *, void *) = build;
  if (n < CREATE_WITH_IL + 1) return INVALID_VALUE;
  memcpy(under, target, (n < ENTRIES ? n : ENTRIES) * sizeof *target);
  memcpy(table, under, sizeof table);
  memcpy(&table[GET_DEVICE_INFO], &own_info, sizeof own_info);
  memcpy(&table[CREATE_WITH_IL], &own_create, sizeof own_create);
  memcpy(&table[BUILD], &own_build, sizeof own_build);
  *out_n = n < ENTRIES ? n : ENTRIES;
  *out = table;
  return 0;
}
