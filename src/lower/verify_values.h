/* SPDX-License-Identifier: MIT
 * Values of nodes for chosen values of ranges and parameters. What depends on memory has none. */
#ifndef TG_VERIFY_VALUES_H
#define TG_VERIFY_VALUES_H
#include "lower/lower.h"

typedef struct tg_node_program { uint32_t n; const tg_uop **u; } tg_node_program;   /* sources before users */

typedef struct tg_node_values {
  tg_job *j;
  int64_t *range, *param;              /* the values that are chosen, by ordinal */
  uint32_t stamp;
  uint32_t *seen, *slot;               /* by node id; slot: index + 1 of its lanes in value and known; 0: none */
  TG_VEC(tg_value) value;
  TG_VEC(uint8_t) known;
  TG_VEC(const tg_uop *) stack, params;   /* params: the parameters that have slots */
} tg_node_values;

tg_node_values tg_node_values_of(tg_job *j);
void tg_node_take_params(tg_node_values *s);   /* after param was changed */
/* plan: the nodes that n roots are computed from; false: too many. run: computes them. read: a value that was computed;
 * false: it is not known, or beyond all that is computed with. value: all of these for one node. */
bool tg_node_plan(tg_node_values *s, uint32_t n, const tg_uop *const *roots, tg_node_program *p);
void tg_node_run(tg_node_values *s, const tg_node_program *p);
bool tg_node_read(const tg_node_values *s, const tg_uop *u, uint32_t lane, int64_t *out);
bool tg_node_value(tg_node_values *s, const tg_uop *u, int64_t *value);
#endif
