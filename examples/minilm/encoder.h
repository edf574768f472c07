/* SPDX-License-Identifier: MIT
 * A BERT encoder of sentences: embeddings, layers of attention and of products, the mean over the tokens, divided by
 * its length (Reimers and Gurevych 2019). Sentences of unequal lengths are packed one behind the other, so that no
 * work is done for padding. */
#ifndef ENCODER_H
#define ENCODER_H
#include "safetensors.h"
#include <tg/gemm.h>

typedef struct encoder encoder;

typedef struct encoder_options {
  int heads;                            /* the file does not say how many heads a layer has */
  int tokens;                           /* tokens that are computed at a time, of whole sentences. 0: 1024 */
} encoder_options;

/* Reads the weights from the file, packs them and plans all kernels; sizes are those of the file's tensors. The file
 * must stay open: tables of embeddings, biases and norms are read where they lie. NULL: the error says why. */
encoder *encoder_open(tg_context *, safetensors *file, const encoder_options *, char error[SAFETENSORS_ERROR]);
void encoder_close(encoder *);          /* before its context */

int encoder_width(const encoder *);     /* floats of an embedding */
int encoder_longest(const encoder *);   /* tokens that a sentence may have */

/* Sentence i has the tokens ids[starts[i]] to ids[starts[i + 1] - 1], at least one; out is [sentences][width]. Returns
 * 0; or 1 with the error: a sentence is empty or too long, or a token is not in the table of embeddings. */
int encoder_run(encoder *, const int32_t *ids, const int32_t *starts, int sentences, float *out,
                char error[SAFETENSORS_ERROR]);
#endif
