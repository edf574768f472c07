/* SPDX-License-Identifier: MIT
 * Random words of a schedule, over the names that a program has: ranges, buffers, sizes. Most are refused somewhere;
 * who draws them tries each behind those that were accepted, and drops it if it is not. */
#ifndef TG_FUZZ_WORDS_H
#define TG_FUZZ_WORDS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORDS_RANGES = 64, WORDS_BUFFERS = 16, WORDS_NAME = 24, WORDS_TEXT = 256 };

typedef struct {
  char name[WORDS_NAME];
  bool constant;                            /* its extent is a number */
} words_range;

typedef struct {
  uint32_t (*draw)(void *user, uint32_t limit);   /* below limit */
  void *user;
  words_range range[WORDS_RANGES];          /* those that words make are appended */
  int ranges, made;                         /* made: of all names so far, so that none comes twice */
  char input[WORDS_BUFFERS][WORDS_NAME], output[WORDS_BUFFERS][WORDS_NAME], tile[WORDS_BUFFERS][WORDS_NAME],
      size[WORDS_BUFFERS][WORDS_NAME];
  int inputs, outputs, tiles, sizes;        /* tiles: memory of the kernel's own. sizes: parameters */
} words;

void words_add_range(words *w, const char *name, bool constant);
void words_add_buffer(char (*list)[WORDS_NAME], int *n, const char *name);
/* A range, one of constant extent if there is one and it is asked for. There must be ranges. */
const char *words_pick(words *w, bool constant);
/* One word, as in opt(..). Names of ranges that it makes can be drawn from now on, whether it is accepted or not. */
void words_draw(words *w, char text[WORDS_TEXT]);
#endif
