/* SPDX-License-Identifier: MIT
 * A libdrm_amdgpu.so.1 for tests: the functions that tg opens, over memory of this process, with one made-up card. What
 * it models, and why, is a table in docs/devices.md. A test loads it by its path (later requests for the library by its
 * name then find it), and steers it through drm_model. */
#ifndef TG_TEST_DRM_H
#define TG_TEST_DRM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DRM_MESSAGE = 512, DRM_MOST_TRACE = 1 << 20 };

/* A dispatch, as registers and the packet say. Memory of the device is read and written through the caches; false: the
 * address is not mapped, and the fault is noted. */
typedef struct drm_dispatch {
  const char *chip;                     /* "gfx1100" */
  uint64_t code;                        /* address of the first instruction */
  uint32_t rsrc1, rsrc2, rsrc3, initiator, groups[3], threads[3], local_bytes, user_data[16];
  bool wave32;
  uint64_t seed;                        /* for the order of groups and waves */
  bool (*read)(uint64_t address, void *to, uint64_t bytes, bool instructions);
  bool (*write)(uint64_t address, const void *from, uint64_t bytes);
  /* bytes from this address on to the end of what is mapped there; 0: nothing is */
  uint64_t (*mapped)(uint64_t address);
} drm_dispatch;

typedef struct drm_model {
  /* ---- set by the test ---- */
  const char *chip;                     /* one that the stand-in knows */
  uint32_t family, revision;            /* not 0: these instead of the chip's */
  uint32_t minor;                       /* of the kernel driver's version; 0: a new one */
  uint64_t seed;                        /* of the order in which rings go on */
  int64_t fail_call;                    /* the n-th call that can fail fails; 0: none */
  int fail_code;                        /* with this */
  int64_t lose_submit;                  /* the device is lost at the n-th submission; 0: never */
  bool lose_later;                      /* the submission is taken, and its work is lost */
  int64_t hang_waits;                   /* so many waits end in a time-out before any work is done */
  int64_t busy_submits;                 /* so many submissions are refused for want of memory first */
  uint64_t memory;                      /* of the card; 0: enough */
  bool without_compute, without_dma;
  bool nothing;                         /* a submission returns at once, and is done: for measuring what comes before */
  /* runs a dispatch; NULL: none is run, and its effects are missing. false: message says why */
  bool (*run)(void *user, const drm_dispatch *, char *message, size_t n);
  void *user;
  /* ---- told by the stand-in ---- */
  int64_t calls, submits, dispatches, copies, live;   /* live: objects that are not freed, of all kinds */
  int64_t faults;                       /* things that no driver may do; the first is in message */
  char message[DRM_MESSAGE];
  char trace[DRM_MOST_TRACE];           /* the packets of all submissions that were run, as text */
  size_t trace_n;
} drm_model;

drm_model *drm_model_of(void);      /* exported */
/* Memory, and faults, of everything before are forgotten; what is steered is zero. */
void drm_reset(void);
#endif
