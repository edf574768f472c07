/* SPDX-License-Identifier: MIT
 * A kernel that tg compiled for an AMD target, launched in the interpreter of machine code as a driver would: each phase
 * with its grid, the buffers first, then the memory that phases share, then the parameters. */
#ifndef TG_TEST_AMD_LAUNCH_H
#define TG_TEST_AMD_LAUNCH_H
#include "../library/kit.h"
#include "amd.h"

typedef struct {
  const tg_job *job;
  const char *processor;
  const tg_object *object;
  const tg_code_info *info;
  const int64_t *params;
  uint64_t seed, limit;
  bool drawn;
  bool unaligned;                       /* buffers aligned to their elements alone, through the entry for those */
  void (*seen)(void *user, const amd_dispatch *d);   /* after each phase; may be NULL */
  void (*changed)(void *user, amd_object *o);        /* the loaded image, before the first phase; may be NULL */
  void *user;
} amd_program;

/* Runs all phases on the memory. False: message says what is wrong. */
bool amd_program_run(const amd_program *p, kit_memory *memory, char message[AMD_MESSAGE]);
#endif
