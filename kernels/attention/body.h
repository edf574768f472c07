/* SPDX-License-Identifier: MIT
 * Texts that the bodies of attention consist of. The row in hand is g*BQ + i in all of them. */
#ifndef TG_ATTENTION_BODY_H
#define TG_ATTENTION_BODY_H
#include "attention/template.h"
#include "dsl/uop.h"
#include "kit/words.h"
#include "tg/attention.h"

#define text(...) tg_kit_text(tg_b_, __VA_ARGS__)
#define say(...) tg_kit_say(tg_b_, __VA_ARGS__)

/* An element as f32. */
const char *tg_attention_f32(tg_builder *b, tg_type t, const char *element);
/* All buffers, the sizes D and E of heads, and the functions score_mod, mask_mod and pick: pick(c, x, y) is
 * where(c, x, y) whose x is read under any condition, as a gate on each load would cost more than the load. */
void tg_attention_declare(tg_builder *b, const tg_attention_problem *p);
/* Those of them that masks need. */
void tg_attention_declare_masks(tg_builder *b, const tg_attention_problem *p);
/* The score to the base 2 of a row and a key, from the sum of products. */
const char *tg_attention_score(tg_builder *b, const tg_attention_problem *p, const char *sum, const char *key);
/* Is this key one of those that the row sees? exists: whether there is such a key, "key < N". */
const char *tg_attention_seen(tg_builder *b, const tg_attention_problem *p, const char *key, const char *exists);
/* The result of a row from `value`, its sum of weights * V, and its sum of weights l: in type o, zeros if l is 0. And
 * its LSE from its maximum m and l. */
const char *tg_attention_result(tg_builder *b, const tg_attention_problem *p, const char *value, const char *l);
const char *tg_attention_lse(tg_builder *b, const tg_attention_problem *p, const char *m, const char *l);
#endif
