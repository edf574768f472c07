/* SPDX-License-Identifier: MIT
 * Lists of plans for tg build gemm and tg build attention: one function a line. */
#ifndef TG_TOOL_BUILD_SHAPES_H
#define TG_TOOL_BUILD_SHAPES_H
#include "attention_words.h"
#include "tg/gemm.h"

typedef struct tool_plans {
  char *text;                  /* the file, into which names point */
  const char **name;
  tg_gemm_desc *gemm;          /* of the one kind.. */
  tool_attention *attention;   /* ..or of the other */
  tg_gemm_packing *packing;    /* that a descriptor points to; n of them, chosen by the caller */
  bool *packed;
  int n;
} tool_plans;

/* Lines of products:
 *   NAME M N K [NN|NT|TN|TT] [types=f32] [a=, b=, c=TYPE] [lda=N ldb=N ldc=N] [alpha] [beta] [packed] [invariant]
 *     [one] [unchecked] [not_zero] [bits=4|8 group=N scale=TYPE zero=TYPE] [ARGUMENT:TYPE:all|row|column|element ..]
 *     [epilogue=TEXT to the end]
 * and of attention: NAME and words of attention_words.h.
 * Sizes may be ranges, 1..4096. '#' begins a comment. false: stderr says which line is wrong, and why. */
bool tool_read_plans(const char *path, bool attention, tool_plans *out);
void tool_plans_free(tool_plans *p);
#endif
