/* SPDX-License-Identifier: MIT
 * A dispatch of the stand-in for libdrm_amdgpu, in the interpreter of AMD's machine code (tests/amd). */
#ifndef TG_TEST_DISPATCH_H
#define TG_TEST_DISPATCH_H
#include "drm.h"

bool drm_dispatch_run(void *user, const drm_dispatch *d, char *message, size_t n);   /* drm_model.run; user: not used */
#endif
