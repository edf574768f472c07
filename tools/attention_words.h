/* SPDX-License-Identifier: MIT
 * A descriptor of attention in words, for tg build and tg tune. */
#ifndef TG_TOOL_ATTENTION_WORDS_H
#define TG_TOOL_ATTENTION_WORDS_H
#include "tg/attention.h"
#include "tool.h"

/* Words, each for a field of tg_attention_desc (tg/attention.h):
 *   queries=N keys=N (or ranges, 1..4096) head=N value_head=N heads=N kv_heads=N types=f32, of all; k=, v=, o=TYPE
 *   causal causal_top_left window=N scale=X soft_cap=X lse base2 alibi sinks dropout=X backward
 *   mask=TYPE or mask=TYPE:PER, where PER is some of batch+head+query+key, or all; without: query+key
 *   blocks=ROWSxKEYS or blocks=ROWSxKEYS:PER, a mask of blocks, for all or per batch, head
 *   page_size=N append lengths kv_bits=4|8 kv_group=N kv_scale=TYPE rotary=N rotary_neighbours
 *   ARGUMENT:TYPE:PER, an argument of score_mod and mask_mod; unchecked (overlap)
 *   score_mod=TEXT mask_mod=TEXT; in a line each reaches to the other, or to the end of the line */
typedef struct tool_attention { tg_attention_desc desc; float scale; } tool_attention;

/* One word, into which the descriptor may point afterwards; it may be changed. false: it is none of those. */
bool tool_attention_word(char *word, tool_attention *out);
/* A line of words; the first is a name. *wrong: the word that is none. */
bool tool_attention_line(char *line, tool_attention *out, const char **name, const char **wrong);
/* "512" or "1..4096" */
bool tool_size(const char *text, tg_dim *out);
bool tool_number(const char *text, int64_t *out);
const char *tool_value_of(const char *word, const char *key);   /* of KEY=VALUE, or NULL */
tg_type tool_type_named(const char *name);                      /* TG_VOID: there is none */
#endif
