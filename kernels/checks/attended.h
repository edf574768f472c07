/* SPDX-License-Identifier: MIT
 * Shared by the files of attention's checks: a call as numbers, its data (attention_data.c), and what must come out. */
#ifndef TG_CHECKS_ATTENDED_H
#define TG_CHECKS_ATTENDED_H
#include "api/api.h"
#include "dsl/value.h"
#include "checks/attention.h"

typedef struct attended {
  tg_env *env;
  tg_context *context;
  const tg_attention_desc *d;              /* with its defaults filled in */
  const tg_attention_case *which;
  tg_kernel *mods;                         /* score_mod and mask_mod alone, compiled as written; NULL: there are none */
  double scale;
  uint64_t state;                          /* of the random numbers */
  /* of each sequence: queries; keys that it has; keys in memory; the first token of each in the arrays */
  int64_t *nq, *nk, *room, *q0, *k0;
  int64_t queries, keys, total_q, total_k; /* most tokens of a sequence; tokens of all */
  int32_t *query_starts, *key_starts, *key_lengths;   /* as in the call */
  int32_t *table;                          /* the pages of each sequence, table_step of them */
  int64_t table_step, pages;
  double *k_scale, *v_scale;               /* of integers: [heads][all tokens][groups] */
  int64_t k_groups, v_groups;
  float *cos, *sin;                        /* of rotary embedding: [positions][rotary / 2] */
  int64_t positions;
  int64_t blocks_n;
  uint8_t *blocks;                         /* a mask of blocks, dense */
  uint64_t seed;                           /* of dropout */
  uint32_t offset;
  double most;                             /* exact data: largest element of V */
  double *q, *k, *v;                       /* [heads][all tokens][head] */
  float *slopes, *sinks;
  double *argument[1 + TG_ATTENTION_ARGS]; /* the mask, then the arguments: dense over what each has a value for */
  int64_t arguments[1 + TG_ATTENTION_ARGS];
  uint8_t **seen;                          /* of each sequence and head: [queries][keys], which keys a query sees */
} attended;

/* Draws sizes and data that suit the check; the caller has set what stands above `state`. */
void tg_attended_fill(attended *p);
/* Where the value of an argument stands that has one for each of `per`. */
int64_t tg_attended_at(const attended *p, uint8_t per, int64_t b, int64_t h, int64_t i, int64_t j);
/* What the mask (a 0) or argument a - 1 has a value for, and its type. */
static inline uint8_t attended_per(const tg_attention_desc *d, uint32_t a) {
  return a ? d->arg[a - 1].per : d->mask_per;
}
static inline tg_type attended_type(const tg_attention_desc *d, uint32_t a) {
  return a ? d->arg[a - 1].type : d->mask;
}

/* The scores of a head of a sequence, s[query][key], with -inf where a key is not seen. away (NULL: not wanted): how
 * far a kernel in f32 may be away from each. single: by plain loops in f32, and to the base 2. */
void tg_attended_scores(const attended *p, int64_t b, int64_t h, bool single, double *s, double *away);

/* What must come out for a query: O and LSE, and how far they may be away. exact: the sum of the weights is a power of
 * two. loose: elements for which V is infinite or NaN where a weight is 0, or so small that a kernel may take it for 0:
 * their o leaves that out, and may be infinite or NaN as well. bad: a score is NaN or +inf. */
typedef struct attended_row { double *o, *o_away, lse, lse_away; bool exact, bad, *loose; } attended_row;
void tg_attended_row(const attended *p, int64_t b, int64_t h, int64_t i, const double *s, const double *away,
                     attended_row *out);
/* The same by a plain loop in f32, from the scores of one. */
void tg_attended_naive(const attended *p, int64_t b, int64_t h, int64_t i, const double *s, double *o);

/* Of each query and key of a head of a sequence: the derivative of its score by scale Q.K, and how far a kernel in f32
 * may be away from it. */
void tg_attended_slopes(const attended *p, int64_t b, int64_t h, double *slope, double *away);
/* What a weight is multiplied by under dropout. */
double tg_attended_kept(const attended *p, int64_t b, int64_t h, int64_t i, int64_t j);

/* attention_gradients.c. O and LSE as a forward run leaves them, in their types, and dO: [heads][all tokens], of
 * value_head elements but LSE; and what must come out for dQ, dK and dV, and how far they may be away. */
enum { ATTENDED_DQ, ATTENDED_DK, ATTENDED_DV, ATTENDED_GRADIENTS };
typedef struct attended_gradients {
  double *o, *lse, *d_o, *want[ATTENDED_GRADIENTS], *away[ATTENDED_GRADIENTS];
} attended_gradients;
/* Draws dO. */
void tg_attended_gradients(attended *p, attended_gradients *out);
double tg_attended_ulp(tg_type t, double v);
#endif
