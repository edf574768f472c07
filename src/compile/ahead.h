/* SPDX-License-Identifier: MIT
 * Ahead of time: contexts whose kernels are kept as modules of LLVM in place of loaded code, and the way from them to
 * an object. All that a context does works on such a one, but launches: kernels and plans are made, not run. */
#ifndef TG_AHEAD_H
#define TG_AHEAD_H
#include "compile/compile.h"
#include "compile/wrapper.h"
#include "tg/build.h"

enum { TG_AHEAD_TARGETS = 32 };

typedef struct tg_ahead tg_ahead;
struct tg_ahead {
  tg_compilation work;         /* of the caller's context: its job holds texts and arrays */
  const char *const *names;    /* of the targets, as they are given */
  uint32_t names_n;
  /* Makes the kernels in the contexts of all targets. Fails with tg_fail: tg_ahead_check says whose message it is. */
  void (*compile)(tg_ahead *b);
  /* Writes the functions: in w->out what they are, in header how they are declared. */
  void (*write)(tg_ahead *b, tg_wrapper *w, tg_str *header);
  void (*drop)(tg_ahead *b);   /* frees the kernels, whether all were made or not */
  const char *called;          /* the functions' names, for people; set by write */
  bool takes_devices;          /* targets that are no processors may be among them */
  /* what follows is ahead.c's */
  tg_context *context[TG_AHEAD_TARGETS];   /* one for each target, by rising number of instruction sets */
  const tg_target *target[TG_AHEAD_TARGETS];
  uint32_t n;
  tg_context *device[TG_AHEAD_TARGETS];    /* one for each target that is a device's, in the order of their names */
  uint32_t devices_n;
  tg_built *built;
};

/* Builds. b: with its first fields but work.job set. */
tg_status tg_ahead_build(tg_ahead *b, tg_built **out);
/* Inside compile: fails with the message of the context, unless s is TG_OK. */
void tg_ahead_check(tg_ahead *b, const tg_context *c, tg_status s);
/* A kernel of such a context, for tg_wrapper_add. */
tg_wrapped tg_ahead_wrapped(const tg_kernel *k);
#endif
