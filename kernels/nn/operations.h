/* SPDX-License-Identifier: MIT
 * The tables of the small operations: their operands, and their texts in the language; and the text of a kernel for a
 * problem. Problems are plain data. */
#ifndef TG_NN_OPERATIONS_H
#define TG_NN_OPERATIONS_H
#include "kit/problem.h"
#include "tg/nn.h"

/* All operands of all operations, in the order of operands.def. */
enum {
#define TG_NN_OPERAND(NAME, ...) NN_##NAME,
#include "nn/operands.def"
#undef TG_NN_OPERAND
  NN_OPERANDS
};

/* Shapes: of the matrices, of what there is for each column, for each row, of tables that positions point to. */
enum { NN_MATRIX, NN_COLUMNS, NN_ROWS, NN_TABLE };
/* Which type of a problem an operand has. */
enum { NN_OF_X, NN_OF_Y, NN_OF_WEIGHT, NN_OF_BIAS, NN_FLOAT, NN_INTEGER, NN_TYPES };
/* An operand is absent, if the problem lacks what it needs: texts then read its neutral value, and do not write it. */
enum { NN_ALWAYS, NN_WITH_WEIGHT, NN_WITH_BIAS, NN_WITH_STATISTICS };

typedef struct tg_nn_operand {
  const char *name, *neutral;
  uint8_t shape, type, needs;
  uint16_t at, ld;               /* offsets of its fields in tg_nn_call; ld 0: it has none */
} tg_nn_operand;
extern const tg_nn_operand tg_nn_operands[NN_OPERANDS];

/* Everything that the code of a kernel depends on. */
typedef struct tg_nn_problem {
  uint8_t op, activation;
  bool backward, in_place, statistics, interleaved, device;
  tg_type type[NN_TYPES];        /* TG_VOID of weight or bias: there is none */
  tg_kit_dim rows, columns;
  int64_t head, rotary;
  float epsilon;
} tg_nn_problem;

/* A text has the parameters M and N (rows, columns), and, if it has heads: H, D, R (heads, their elements, how many of
 * them are turned), STEP and FAR (from one pair to the next, from one element of a pair to the other). It may call act
 * and slope, the activation and its derivative, and read epsilon. */
typedef struct tg_nn_operation {
  const char *name;
  /* The kernel over rows, and that over columns, of sums over all rows; NULL: there is none. An operand is read as
   * f32 (or as an integer), and a line that begins with one writes it, rounded to its type. */
  const char *rows, *columns;
  /* instead of `rows`: if y is narrower than f32; on a device; on a CPU with FMA, so that the text says which product
   * is not rounded, and each row has the same bits in all loops. NULL: the same */
  const char *narrow, *device, *fused;
  uint8_t place, taken;          /* in place: operand `taken` takes the place of operand `place`. Equal: it may not */
} tg_nn_operation;
/* NULL: op is none. */
const tg_nn_operation *tg_nn_operation_of(uint8_t op, bool backward);

bool tg_nn_has(const tg_nn_problem *p, uint32_t operand);

/* text.c. Writes a kernel of the problem, from one of the operation's texts. *used: the operands that it has, one bit
 * for each; added to. False: `size` bytes are not enough. */
bool tg_nn_write(const tg_nn_problem *p, const char *name, const char *body, char *out, size_t size, uint32_t *used);
/* Does the operation's text have an operand that needs this (NN_WITH_WEIGHT..)? */
bool tg_nn_takes(const tg_nn_operation *o, uint8_t needs);
/* Does it have this word? */
bool tg_nn_says(const tg_nn_operation *o, const char *word);
#endif
