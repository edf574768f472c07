/* SPDX-License-Identifier: MIT
 * The pipeline: the table of all passes, and lowering through it. */
#ifndef TG_PIPELINE_H
#define TG_PIPELINE_H
#include "lower/lower.h"

typedef struct { const char *name; tg_pass_fn *run; const char *leaves; } tg_pass;
extern const tg_pass tg_passes[];      /* in order; ends with a NULL name */

/* j->opts must hold the complete schedule. Runs the passes after j->stage up to and including `until` (NULL: all); if
 * l->verify is set, checks the program after each. seen (may be NULL) is called with the program after each pass, and
 * once before the first, with the name "author". */
typedef void tg_stage_fn(void *user, const char *pass, const tg_uop *sink);
const tg_uop *tg_lower(tg_job *j, const tg_lowering *l, const char *until, tg_stage_fn *seen, void *user);
#endif
