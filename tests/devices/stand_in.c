/* SPDX-License-Identifier: MIT
 * Opening a stand-in. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include "../cuda/standin.h"
#include "../drm/dispatch.h"
#include "../drm/drm.h"
#include "../test.h"
#include "stand_in.h"
#include "tg/device.h"

static standin *nvidia;
static drm_model *amd;

static void *symbol(const char *file, const char *program, const char *name) {
  char path[512];
  const char *end = strrchr(program, '/');
  snprintf(path, sizeof path, "%.*s/%s", end ? (int)(end - program) : 1, end ? program : ".", file);
  void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL), *found = library ? dlsym(library, name) : NULL;
  CHECK(found, "%s", dlerror());
  return found;
}

static bool begin_nvidia(const char *target, const char *program, uint64_t seed) {
  standin_fn *control;
  void *found = symbol("cuda/libcuda.so.1", program, "standin_control");
  memcpy(&control, &found, sizeof control);
  if (!found) return false;
  int capability = atoi(target + 3);
  nvidia = control();
  nvidia->major[0] = capability / 10, nvidia->minor = capability % 10;
  nvidia->seed = seed;
  nvidia->wrong = getenv("TG_TEST_CUDA_WRONG") != NULL;   /* to see that a test notices */
  return true;
}

static bool begin_amd(const char *target, const char *program, uint64_t seed) {
  drm_model *(*of)(void);
  void (*reset)(void);
  void *found = symbol("drm/libdrm_amdgpu.so.1", program, "drm_model_of"),
       *other = symbol("drm/libdrm_amdgpu.so.1", program, "drm_reset");
  memcpy(&of, &found, sizeof of), memcpy(&reset, &other, sizeof reset);
  if (!found || !other) return false;
  amd = of();
  reset();
  amd->chip = target, amd->run = drm_dispatch_run, amd->seed = seed;
  return true;
}

const char *stand_in_begin(const char *target, const char *program, uint64_t seed, uint32_t *number) {
  bool cuda = !strncmp(target, "sm_", 3);
  const char *name = cuda ? "cuda:0" : "amd:0";
  tg_device_info about;
  if (!(cuda ? begin_nvidia : begin_amd)(target, program, seed)) return NULL;
  bool there = tg_device_named(name, number) == TG_OK && tg_device_describe(*number, &about) == TG_OK;
  CHECK(there && !about.lacks[0] && !strcmp(about.target, target), "%s: %s is for %s: %s", target, name,
        there ? about.target : "nothing", there ? about.lacks : "");
  return there && !about.lacks[0] ? name : NULL;
}

void stand_in_lose(void) {
  if (nvidia) nvidia->lose_at_put = nvidia->put + 1;
  if (amd) amd->lose_submit = amd->submits + 1;
}

void stand_in_fail(uint64_t call) {
  static const int cuda[] = {1, 2, 999}, drm[] = {-EINVAL, -ENOMEM, -ECANCELED};
  if (nvidia) nvidia->fail_at = call, nvidia->fail_code = cuda[call % 3];
  if (amd) amd->fail_call = (int64_t)call, amd->fail_code = drm[call % 3];
}

uint64_t stand_in_calls(void) { return nvidia ? nvidia->calls : amd ? (uint64_t)amd->calls : 0; }

const char *stand_in_fault(void) { return nvidia ? nvidia->fault : amd && amd->faults ? amd->message : ""; }

void stand_in_end(bool lost) {
  long long live = nvidia ? (long long)nvidia->live : amd ? (long long)amd->live : 0;
  CHECK(!live, "%lld objects of the driver's are left", live);
  CHECK(lost || !*stand_in_fault(), "%s", stand_in_fault());
  nvidia = NULL, amd = NULL;
}
