/* SPDX-License-Identifier: MIT
 * BERT's tokenizer for text without capitals: text to the numbers of word pieces (Devlin et al. 2019; Wu et al. 2016).
 * docs/nn.md says which characters it does not know. */
#ifndef TOKENIZER_H
#define TOKENIZER_H
#include <stddef.h>
#include <stdint.h>

typedef struct tokenizer_word { const char *text; uint32_t bytes; int32_t id; } tokenizer_word;

typedef struct tokenizer {
  char *text;                           /* the file of the vocabulary */
  tokenizer_word *table;                /* open addressing; text NULL: an empty place */
  uint32_t places;                      /* a power of 2 */
  int32_t words;
  int32_t begin, end, unknown;          /* the numbers of [CLS], [SEP], [UNK] */
  char error[256];                      /* why tokenizer_open failed */
} tokenizer;

/* Reads a vocabulary: one word piece in a line, its number is that of the line from 0 on. Returns 0; or 1 with the
 * error, and then nothing is to be closed. */
int tokenizer_open(tokenizer *, const char *path);
void tokenizer_close(tokenizer *);

/* Writes [CLS], the pieces of the text and [SEP] to ids, `most` numbers at most (2 or more): a longer text is cut off.
 * Returns how many. The text is UTF-8; what is not, is left out, as control characters are. */
int tokenizer_encode(const tokenizer *, const char *text, size_t bytes, int32_t *ids, int most);
#endif
