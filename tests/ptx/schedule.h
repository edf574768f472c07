/* SPDX-License-Identifier: MIT
 * Words of a schedule, drawn for a program and a target: each behind those before it, those that are refused dropped. */
#ifndef TG_TEST_PTX_SCHEDULE_H
#define TG_TEST_PTX_SCHEDULE_H
#include "../library/kit.h"

enum { SCHEDULE_WORDS = 2048 };

/* Words, by "; "; often none. Call it outside of tg_protect. */
void schedule_draw(kit_path *path, const kit_program *program, uint32_t seed, char list[SCHEDULE_WORDS]);
/* Appends them to the job's own; inside tg_protect. */
void schedule_push(tg_job *j, const char *list);
#endif
