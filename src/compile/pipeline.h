/* SPDX-License-Identifier: MIT
 * The pipeline: the table of all passes, and lowering through it. */
#ifndef TG_PIPELINE_H
#define TG_PIPELINE_H
#include "lower/lower.h"

typedef struct { const char *name; tg_pass_fn *run; const char *contract; } tg_pass;
extern const tg_pass tg_passes[];      /* in order; ends with a NULL name */

/* A finished list of opts is in j->opts. Runs the passes behind j->stage up to and including `until` (NULL: all),
 * verifying the spec after each; seen, if given, is called with the program after each pass (and once before the
 * first, with name "author"). */
typedef void tg_stage_fn(void *user, const char *pass, const tg_uop *sink);
const tg_uop *tg_lower(tg_job *j, const tg_lowering *l, const char *until, tg_stage_fn *seen, void *user);
#endif
