/* SPDX-License-Identifier: MIT
 * A context of tg's with a CUDA device, over the stand-in or over the system's driver. */
#ifndef TG_TEST_CUDA_MACHINE_H
#define TG_TEST_CUDA_MACHINE_H
#include "../library/kit.h"
#include "../test.h"
#include "api/api.h"
#include "standin.h"
#include "tg/device.h"

typedef struct {
  standin *standin;            /* NULL: the system's driver */
  tg_context *context;
  tg_device *device;
  tg_device_info about;
  uint32_t number;
} machine;

/* The path of the stand-in that was built with this program. */
void standin_path(char *out, size_t n, const char *program);
/* The stand-in's control, as new; NULL: it cannot be opened. */
standin *standin_open(const char *library);
void *standin_function(const char *name);
/* library: the stand-in's path; NULL: the system's driver. chip: the first number of its compute capability; 0: as it
 * is. False: there is no such device, which is a failure of the test over the stand-in. */
bool machine_open(machine *m, const char *library, int chip, const tg_context_options *o);
/* The same with a stand-in that is as the test wants it; NULL: the system's driver. */
bool machine_open_on(machine *m, standin *on, const tg_context_options *o);
/* Also checks that nothing is left. */
void machine_close(machine *m);
#endif
