/* SPDX-License-Identifier: MIT
 * Texts that the bodies of attention consist of. The row in hand is g*BQ + i in all of them. So is its query, but of a
 * grid whose rows are the heads of queries (tg_attention_grid_query). */
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
/* A buffer with `rows` of tokens, "M" those of Q or "N" those of K, which may lie in pages; of a grid, of all sequences
 * and heads. low: what is in the names of its steps, "q" in q_b, q_h, ldq. */
void tg_attention_declare_tensor(tg_builder *b, const tg_attention_problem *p, const char *word, const char *name,
                                 const char *low, tg_type type, const char *rows, const char *width);
/* All buffers, the sizes D and E of heads, and the functions score_mod, mask_mod and pick: pick(c, x, y) is
 * where(c, x, y) whose x is read under any condition, as a gate on each load would cost more than the load. */
void tg_attention_declare(tg_builder *b, const tg_attention_problem *p);
/* Those of them that masks need. */
void tg_attention_declare_masks(tg_builder *b, const tg_attention_problem *p);
/* On a CPU, behind these and where the sizes G and BQ are known: copies the elements that a row has of masks and
 * arguments, for whatever reads them below. */
void tg_attention_copy_rows(tg_builder *b, const tg_attention_problem *p);
/* The score to the base 2 of a row and a key, from the sum of products. */
const char *tg_attention_score(tg_builder *b, const tg_attention_problem *p, const char *sum, const char *key);
/* Of rotary embedding: the element that x is turned with, and the value of x from its own and that one's. */
const char *tg_attention_partner(tg_builder *b, const tg_attention_problem *p, const char *x);
const char *tg_attention_turned(tg_builder *b, const tg_attention_problem *p, const char *x, const char *own,
                                const char *other, const char *position);
/* The sink of a row, to the base 2. */
const char *tg_attention_sink(tg_builder *b, const tg_attention_problem *p, const char *row);
/* Of dropout, for keys dg*8 .. dg*8 + 7 of block kb: to[key, row] *= 0, or 2^16 / (2^16 - dropout) where the weight is
 * kept; of gradients to[key, row] is set to these. They depend on seed, offset, sequence, head, query and key alone. */
void tg_attention_drop(tg_builder *b, const tg_attention_problem *p, const char *to, const char *row);
/* Of a grid: the place of the row in hand, as subscripts of Q, O and LSE; and its query. */
const char *tg_attention_grid_row(tg_builder *b, const tg_attention_problem *p);
const char *tg_attention_grid_query(tg_builder *b, const tg_attention_problem *p);
/* Is the row one whose result is to be stored? */
const char *tg_attention_grid_exists(tg_builder *b, const tg_attention_problem *p);
/* Of a grid: 0, or 2^16 / (2^16 - dropout), of a query and a key. Writes values named c0.., x0.., y0.. */
const char *tg_attention_keep(tg_builder *b, const tg_attention_problem *p, const char *query, const char *key);
/* The derivative of the score by what scale Q.K is, at the same place. NULL: it is 1. */
const char *tg_attention_slope(tg_builder *b, const tg_attention_problem *p, const char *sum, const char *key);
/* Is this key one of those that the row sees? exists: whether there is such a key, "key < N". */
const char *tg_attention_seen(tg_builder *b, const tg_attention_problem *p, const char *key, const char *exists);
/* The result of a row from `value`, its sum of weights * V, and its sum of weights l: in type o, zeros if l is 0. And
 * its LSE from its maximum m and l. */
const char *tg_attention_result(tg_builder *b, const tg_attention_problem *p, const char *value, const char *l);
const char *tg_attention_lse(tg_builder *b, const tg_attention_problem *p, const char *m, const char *l);

/* ---- of the bodies for devices (device.c) ---- */

/* The element x of K ('K') or V at `key` of head `head`, as f32; cut: the key may lie behind the last, and stands for
 * it then. And the element x of row g*BQ + i of Q, where a row behind the last has 0. */
const char *tg_attention_device_key(tg_builder *b, const tg_attention_problem *p, char name, const char *head,
                                    const char *key, const char *x, bool cut);
const char *tg_attention_device_query(tg_builder *b, const tg_attention_problem *p, const char *x);
/* Declares which blocks there are, and which of them are whole: `front` cut ones from block `first` on (of a window),
 * then the whole ones from `whole` to full - 1, then `back` cut ones; `blocks` in all. */
void tg_attention_device_divide(tg_builder *b, const tg_attention_problem *p);

/* ---- of the bodies for CPUs (template.c) ---- */

/* K ('K') or V of problem p. lanes: elements of a head are; else those that are no f32 in one piece are copied block by
 * block as f32. Of 4 bits the order of elements is that of low halves of bytes, then high halves (tg_attention_nth). */
enum { SOURCE_VALUE, SOURCE_SCALE, SOURCE_WHOLE };
typedef struct tg_attention_source {
  const tg_attention_problem *p;
  char name;
  bool lanes;
  uint8_t part;                           /* what of an integer is read: its value, or one of its two factors */
} tg_attention_source;
/* Where element x of the bodies stands in rows of Q and O, of `width` elements. */
const char *tg_attention_nth(tg_builder *b, const tg_attention_problem *p, const char *x, const char *width);
/* Words for the copies. */
void tg_attention_copy_words(tg_builder *b, const tg_attention_problem *p);
/* The element x of key `key` = kb*BK + at as f32; cut: the key may lie behind the last, and stands for it then. */
const char *tg_attention_read_key(tg_builder *b, const tg_attention_source *s, const char *at, const char *x, bool cut);
/* Copies block kb by a loop over x, of `width`; keys behind the last are copies of the last. */
void tg_attention_copy_block(tg_builder *b, const tg_attention_source *s, const char *x, const char *width);

/* A group computes the keys of block kb in tiles of KT: `first` to `tiles`, of which some row sees some key. They are n
 * sections: "j", tiles of which all rows see all keys, then those behind, "x", and before, "v", that the masks cut; or
 * "x" alone. A section has `extent` tiles; x: with which the names of its ranges begin. divide: declares these bounds.
 * all not NULL: all rows see all keys of all tiles, and that is the name of the only section. */
typedef struct tg_attention_section { const char *x, *first, *extent; bool cut; } tg_attention_section;
typedef struct tg_attention_tiles { const char *first; tg_attention_section part[3]; uint32_t n; } tg_attention_tiles;
tg_attention_tiles tg_attention_divide(tg_builder *b, const tg_attention_problem *p, const char *all);
/* Tile `nth` of a section. */
const char *tg_attention_tile(tg_builder *b, const tg_attention_section *c, const char *nth);

/* Loops over the blocks of keys that some row sees, for each of which `one` writes what is to be done: for block kb,
 * for all groups. full: all rows see all its keys. */
typedef void tg_attention_block(tg_builder *b, const tg_attention_problem *p, const tg_attention_source *k,
                                const tg_attention_source *v, bool full);
void tg_attention_blocks_of_keys(tg_builder *b, const tg_attention_problem *p, tg_attention_block *one,
                                 const tg_attention_source *k, const tg_attention_source *v);
#endif
