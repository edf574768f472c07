/* SPDX-License-Identifier: MIT
 * A kernel that tg compiled for an NVIDIA target, launched in the interpreter of PTX as a driver would: each phase with
 * its grid, the buffers first, then the memory that phases share, then the parameters. */
#ifndef TG_TEST_PTX_LAUNCH_H
#define TG_TEST_PTX_LAUNCH_H
#include "../library/kit.h"
#include "ptx.h"

typedef struct {
  const tg_job *job;
  const tg_object *object;              /* PTX text with its NUL */
  const char *text;                     /* in its place; NULL: the object's */
  const tg_code_info *info;
  const int64_t *params;
  uint64_t seed, limit;
  bool drawn;
  bool unaligned;                       /* buffers aligned to their elements alone, through the entry for those */
  void (*seen)(void *user, const ptx_launch *l);   /* after each phase; may be NULL */
  void *user;
} ptx_program;

/* Runs all phases on the memory. False: message says what is wrong. */
bool ptx_program_run(const ptx_program *p, kit_memory *memory, char message[PTX_MESSAGE]);
#endif
