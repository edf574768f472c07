/* SPDX-License-Identifier: MIT
 * From the registers of a dispatch to the interpreter, whose memory is the model's, behind its caches. */
#include <stdio.h>
#include <string.h>
#include "../amd/amd.h"
#include "dispatch.h"

static bool access_memory(void *user, uint64_t address, void *data, uint32_t bytes, amd_access how) {
  const drm_dispatch *d = user;
  return how == AMD_WRITE ? d->write(address, data, bytes) : d->read(address, data, bytes, how == AMD_FETCH);
}

/* What of the descriptor is not in registers: gfx90a's first four user registers are of scratch memory. */
bool drm_dispatch_run(void *user, const drm_dispatch *d, char *message, size_t n) {
  enum { SCRATCH = 1 << 0, ARGUMENTS = 1 << 3, WAVE32 = 1 << 10 };
  bool old = !strcmp(d->chip, "gfx90a");
  uint32_t first = old ? 4 : 0;
  amd_dispatch a = {.processor = d->chip,
                    .code = d->code,
                    .arguments = d->user_data[first] | (uint64_t)d->user_data[first + 1] << 32,
                    .rsrc1 = d->rsrc1,
                    .rsrc2 = d->rsrc2 & ~(0x1ffu << 15),
                    .rsrc3 = d->rsrc3,
                    .properties = (uint16_t)(ARGUMENTS | (old ? SCRATCH : 0) | (d->wave32 ? WAVE32 : 0)),
                    .local = d->local_bytes,
                    .seed = d->seed,
                    .drawn = true,
                    .access = access_memory};
  drm_dispatch copy = *d;
  (void)user;
  a.user = &copy;
  memcpy(a.groups, d->groups, sizeof a.groups), memcpy(a.threads, d->threads, sizeof a.threads);
  bool ok = amd_run(&a);
  if (!ok) snprintf(message, n, "%s", a.message);
  return ok;
}
