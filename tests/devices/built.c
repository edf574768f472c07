/* SPDX-License-Identifier: MIT
 * Kernels that were built ahead of time for devices (tg/build.h), taken out of the object and loaded by contexts without
 * a compiler: on the stand-ins for both drivers and, where there is one, on OpenCL. Every number is that of plain C.
 * Then 500 faults planted in the data: each is refused. And whom the data is not for. */
#define _GNU_SOURCE
#include <elf.h>
#include <stdlib.h>
#include "../folder.h"
#include "../library/kit.h"
#include "../test.h"
#include "code/object.h"
#include "stand_in.h"
#include "tg/build.h"

static const char *const targets[] = {"x86-64-v2", "sm_80", "sm_90a", "gfx1100", "gfx1201", "opencl"};

/* Small integers, whose sums are exact in any order. */
static const char axpy[] = "kernel axpy(N in 1..5000) { in(a, f32, []); in(x, f32, [N]); inout(y, f32, [N]); "
                           "range(i, N) y[i] = y[i] + a[] * x[i]; }";
static const char total[] = "kernel total(M in 1..40, N = 3000) { in(x, f32, [M, N]); out(y, f32, [M]); "
                            "range(i, M) y[i] = sum(j : N, x[i,j]); }";

typedef struct { const char *text, *name; tg_built *built; } source;
static source sources[] = {{axpy, "axpy", NULL}, {total, "total", NULL}};

static void build_all(void) {
  tg_context *c = NULL;
  CHECK(tg_context_create(&(tg_context_options){.target = "x86-64-v2", .tuned = "", .threads = 1}, &c) == TG_OK, "a context");
  for (size_t i = 0; i < TG_COUNT(sources); i++) {
    source *s = &sources[i];
    CHECK(tg_build_text(c, s->name, s->text, NULL, targets, TG_COUNT(targets), &s->built) == TG_OK, "%s", tg_error_message(c));
  }
  tg_built *none;
  const char *alone = "sm_80";
  CHECK(tg_build_text(c, "f", axpy, NULL, &alone, 1, &none) == TG_EINVAL && strstr(tg_error_message(c), "sm_80 is no processor"), "%s", tg_error_message(c));
  const char *names[] = {"x86-64-v2", "sm_80"}, *product = "p";
  tg_gemm_desc d = {.m = {4, 0}, .n = {4, 0}, .k = {4, 0}};
  CHECK(tg_build_gemm(c, &product, &d, 1, names, 2, &none) == TG_EINVAL && strstr(tg_error_message(c), "sm_80 is no processor"), "%s", tg_error_message(c));
  tg_context_free(c);
}

/* The data of the symbol SOURCE_TARGET, copied to where its alignment is `off` bytes past 16. */
static void *data_of(const source *s, const char *target, size_t off, size_t *bytes) {
  tg_object_view o;
  char name[64];
  snprintf(name, sizeof name, "%s_%s", s->name, target);
  void *object = aligned_alloc(64, (s->built->object_bytes + 63) / 64 * 64);
  memcpy(object, s->built->object, s->built->object_bytes);
  CHECK(tg_object_open(&o, object, s->built->object_bytes), "the object");
  char *copy = NULL;
  for (uint32_t i = 1; i < o.symbols_n; i++) {
    const Elf64_Sym *y = &o.symbols[i];
    if (strcmp(tg_object_symbol(&o, i), name) || y->st_shndx >= o.sections_n) continue;
    *bytes = y->st_size;
    copy = (char *)aligned_alloc(64, (y->st_size + 127) / 64 * 64) + off;
    memcpy(copy, o.data + o.sections[y->st_shndx].sh_offset + y->st_value, y->st_size);
  }
  CHECK(copy, "the object has no symbol %s", name);
  CHECK(strstr(s->built->header, name), "the header does not declare %s", name);
  free(object);
  return copy;
}

static void *there(tg_device *d, const void *from, size_t bytes) {
  void *p = NULL;
  CHECK(tg_device_alloc(d, bytes, &p) == TG_OK, "memory of the device");
  if (p && from) CHECK(tg_device_copy(d, p, from, bytes) == TG_OK, "a copy");
  return p;
}

static void run_axpy(tg_context *c, tg_device *d, tg_kernel *k) {
  static float x[5000], y[5000], got[5000];
  float a = 3;
  static const int64_t sizes[] = {1, 31, 1000, 5000};
  for (size_t t = 0; t < TG_COUNT(sizes); t++) {
    int64_t n = sizes[t];
    size_t bytes = (size_t)n * 4;
    for (int i = 0; i < 5000; i++) x[i] = (float)(i % 11 - 5), y[i] = (float)(i % 7);
    tg_argument b[] = {{there(d, &a, 4), 4}, {there(d, x, bytes), bytes}, {there(d, y, bytes), bytes}};
    tg_launch l = {.buffers = b, .buffers_n = 3, .params = &n, .params_n = 1};
    CHECK(tg_kernel_run(k, &l) == TG_OK && tg_device_copy(d, got, b[2].data, bytes) == TG_OK, "%s", tg_error_message(c));
    int wrong = 0;
    for (int i = 0; i < n; i++) wrong += got[i] != y[i] + a * x[i];
    CHECK(!wrong, "axpy: %d of %d are wrong", wrong, (int)n);
    for (int i = 0; i < 3; i++) tg_device_free(d, b[i].data);
  }
}

static void run_total(tg_context *c, tg_device *d, tg_kernel *k) {
  static float x[5 * 3000], y[5];
  int64_t m = 5;
  for (int i = 0; i < 5 * 3000; i++) x[i] = (float)(i % 13 - 6);
  tg_argument b[] = {{there(d, x, sizeof x), sizeof x}, {there(d, NULL, sizeof y), sizeof y}};
  tg_launch l = {.buffers = b, .buffers_n = 2, .params = &m, .params_n = 1};
  CHECK(tg_kernel_run(k, &l) == TG_OK && tg_device_copy(d, y, b[1].data, sizeof y) == TG_OK, "%s", tg_error_message(c));
  for (int i = 0; i < 5; i++) {
    float sum = 0;
    for (int j = 0; j < 3000; j++) sum += x[3000 * i + j];
    CHECK(y[i] == sum, "total: row %d is %g, not %g", i, y[i], sum);
  }
  m = 41;
  CHECK(tg_kernel_run(k, &l) == TG_EINVAL && strstr(tg_error_message(c), "M = 41"), "a size that it was not built for");
  for (int i = 0; i < 2; i++) tg_device_free(d, b[i].data);
}

/* Bits, bytes, ranges and ends of the data, changed: none is taken. */
static void faults(tg_context *c, tg_device *d, const void *data, size_t bytes) {
  enum { FAULTS = 500 };
  uint64_t random = 88172645463325252u;
  char *copy = malloc(bytes + 64), *at = copy + (16 - (uintptr_t)copy % 16) % 16;
  int taken = 0, unlike = 0;
  for (int f = 0; f < FAULTS; f++) {
    size_t n = bytes;
    memcpy(at, data, bytes);
    do {
      random ^= random << 13, random ^= random >> 7, random ^= random << 17;
      size_t place = f % 2 ? random % bytes : random % 256 % bytes, length = 1 + (random >> 40) % 64;
      if (place + length > bytes) length = bytes - place;
      switch (f % 5) {
      case 0: case 1: at[place] ^= (char)(1 << (random >> 60) % 8); break;
      case 2: memset(at + place, (int)(random >> 32), length); break;
      case 3: memmove(at + place, at + (random >> 20) % (bytes - length), length); break;
      default: n = random % bytes; break;
      }
    } while (n == bytes && !memcmp(at, data, bytes));
    tg_kernel *k = NULL;
    tg_status s = tg_device_load(d, at, n, &k);
    taken += s == TG_OK || k, unlike += s != TG_EINVAL;
    tg_kernel_free(k);
  }
  CHECK(!taken && !unlike, "of %d faults %d were taken, %d failed otherwise than with TG_EINVAL", FAULTS, taken, unlike);
  CHECK(strstr(tg_error_message(c), "damaged"), "%s", tg_error_message(c));
  free(copy);
}

static void other(tg_context *c, tg_device *d, const char *target, const char *message) {
  size_t bytes = 0;
  tg_kernel *k = NULL;
  char *data = data_of(&sources[0], target, 0, &bytes);
  tg_status s = tg_device_load(d, data, bytes, &k);
  if (!message) CHECK(s == TG_OK, "%s", tg_error_message(c));
  else CHECK(s == TG_EINVAL && strstr(tg_error_message(c), message), "%s", tg_error_message(c));
  tg_kernel_free(k);
  free(data);
}

static void on(const char *target, uint32_t number) {
  tg_context *c = NULL;
  tg_device *d = NULL;
  char message[128];
  CHECK(tg_context_create_runtime(&(tg_context_options){.tuned = "", .threads = 1}, &c) == TG_OK, "a context");
  if (tg_device_open(c, number, &d) != TG_OK) {
    CHECK(0, "%s", tg_error_message(c));
    tg_context_free(c);
    return;
  }
  for (size_t i = 0; i < TG_COUNT(sources); i++)
    for (size_t off = 0; off < 2; off++) {
      size_t bytes = 0;
      tg_kernel *k = NULL;
      char *data = data_of(&sources[i], target, off, &bytes);
      CHECK(tg_device_load(d, data, bytes, &k) == TG_OK, "%s: %s", target, tg_error_message(c));
      if (!off) faults(c, d, data, bytes);
      free(data - off);
      if (k && !i) run_axpy(c, d, k);
      if (k && i) run_total(c, d, k);
      tg_kernel_free(k);
    }
  snprintf(message, sizeof message, "the kernel was built for %s, and the device is %s", !strcmp(target, "gfx1201") ? "gfx1100" : "gfx1201", target);
  other(c, d, !strcmp(target, "gfx1201") ? "gfx1100" : "gfx1201", message);
  if (!strcmp(target, "sm_80")) other(c, d, "sm_90a", "the kernel was built for sm_90a, and the device is sm_80");
  if (!strcmp(target, "sm_90a")) other(c, d, "sm_80", NULL);
  tg_device *cpu;
  CHECK(tg_device_open(c, 0, &cpu) == TG_OK, "the CPU");
  other(c, cpu, target, "the kernel was built for");
  tg_context_free(c);
}

int main(int argc, char **argv) {
  char folder[TEST_PATH] = "tg-built-XXXXXX";
  uint32_t number;
  (void)argc;
  CHECK(test_folder(folder), "a folder");
  setenv("POCL_CACHE_DIR", folder, 1);
  build_all();
  for (size_t t = 1; t < TG_COUNT(targets) && sources[0].built && sources[1].built; t++) {
    bool opencl = !strcmp(targets[t], "opencl");
    if (opencl ? tg_device_named("opencl:0", &number) != TG_OK : !stand_in_begin(targets[t], argv[0], t, &number)) continue;
    on(targets[t], number);
    if (!opencl) stand_in_end(false);
  }
  for (size_t i = 0; i < TG_COUNT(sources); i++) tg_built_free(sources[i].built);
  kit_remove(folder);
  return TEST_END();
}
