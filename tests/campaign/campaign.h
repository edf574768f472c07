/* SPDX-License-Identifier: MIT
 * A campaign by other people's kernels: each is a text in tests/campaign/FAMILY.tg and plain C in FAMILY.c, compiled
 * by the system's compiler. Sizes are the text's own parameters, N in 1..40; buffers, their types and roles are what
 * the text declares. The table of a family says the rest. */
#ifndef TG_CAMPAIGN_H
#define TG_CAMPAIGN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CAMPAIGN_BUFFERS = 16, CAMPAIGN_SIZES = 8 };

/* What stands in the inputs. Integers that promise a range (i32 in 0..N-1) keep it in any case. */
typedef enum {
  CAMPAIGN_WHOLE,      /* whole numbers of -most..most, 0..most in types without a sign */
  CAMPAIGN_FULL,       /* the same, and integers of their type's whole range */
  CAMPAIGN_UNIT,       /* floats of -1..1 */
  CAMPAIGN_POSITIVE    /* floats of 0.5..1.5 */
} campaign_fill;

typedef struct {
  const char *name;
  /* Buffers in the order of the text. f16, bf16 and f32 are `real` here, so that the same function, compiled again
   * with real as double, tells the exact result. */
  void (*run)(const int64_t *size, void *const *buffer);
  bool rounds;         /* compared within a bound; else all bits must be the same */
  campaign_fill fill;
  int most;            /* 0: 4 */
} campaign_entry;

/* The families: with real as float, and as double. Each ends with a NULL name. */
#define CAMPAIGN_FAMILIES(F) F(tsvc) F(livermore) F(waves) F(systems) F(learning) F(linear)
#define F(name) extern const campaign_entry campaign_##name##_float[], campaign_##name##_double[];
CAMPAIGN_FAMILIES(F)
#undef F
#endif
