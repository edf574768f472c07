/* SPDX-License-Identifier: MIT
 * Embeddings of sentences by the published encoder all-MiniLM-L6-v2, and how similar they are.
 *   minilm MODEL [--file FILE] [--ids FILE] [--out FILE] [--heads N] [--threads N] [--cache FOLDER] [--time]
 *     [SENTENCE ..]
 * MODEL is a folder with model.safetensors and vocab.txt; run.sh fetches it. */
#define _POSIX_C_SOURCE 200809L
#include "encoder.h"
#include "tokenizer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LONGEST = 256, SHOWN = 6, MATRIX = 12 };   /* tokens of a sentence; numbers, sentences of the matrix shown */

typedef struct job {
  const char *model, *file, *ids_file, *out, *cache;
  int heads, threads, is_timed;
  double begin;                         /* when the process began */
  char **sentences;
  int sentences_n;
  char *lines;                          /* the file's text, which sentences point into */
  int32_t *ids, *starts;
  float *embeddings;
} job;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int usage(void) {
  fprintf(stderr, "minilm MODEL [--file FILE] [--ids FILE] [--out FILE] [--heads N] [--threads N] "
          "[--cache FOLDER] [--time] [SENTENCE ..]\n");
  return 2;
}

/* One sentence in a line; empty lines are left out. */
static int read_lines(job *j) {
  FILE *file = fopen(j->file, "rb");
  long bytes = -1;
  if (file && !fseek(file, 0, SEEK_END) && (bytes = ftell(file)) >= 0) rewind(file);
  if (bytes < 0 || !(j->lines = malloc((size_t)bytes + 1)) ||
      fread(j->lines, 1, (size_t)bytes, file) != (size_t)bytes) {
    if (file) fclose(file);
    return fprintf(stderr, "%s: cannot be read\n", j->file), 1;
  }
  fclose(file);
  j->lines[bytes] = 0;
  size_t lines = 1;
  for (long i = 0; i < bytes; i++) lines += j->lines[i] == '\n';
  char **all = realloc(j->sentences, ((size_t)j->sentences_n + lines) * sizeof *all);
  if (!all) return fprintf(stderr, "out of memory\n"), 1;
  j->sentences = all;
  for (char *line = strtok(j->lines, "\r\n"); line; line = strtok(NULL, "\r\n")) all[j->sentences_n++] = line;
  return 0;
}

static int read_arguments(job *j, int n, char **text) {
  if (n < 2 || !(j->sentences = calloc((size_t)n, sizeof *j->sentences))) return usage();
  j->model = text[1], j->heads = 12, j->threads = 0;
  for (int i = 2; i < n; i++) {
    char *value = i + 1 < n ? text[i + 1] : NULL;
    if (!strcmp(text[i], "--time")) j->is_timed = 1;
    else if (strncmp(text[i], "--", 2)) j->sentences[j->sentences_n++] = text[i];
    else if (!value) return usage();
    else if (!strcmp(text[i], "--file")) j->file = value, i++;
    else if (!strcmp(text[i], "--ids")) j->ids_file = value, i++;
    else if (!strcmp(text[i], "--out")) j->out = value, i++;
    else if (!strcmp(text[i], "--cache")) j->cache = value, i++;
    else if (!strcmp(text[i], "--heads")) j->heads = atoi(value), i++;
    else if (!strcmp(text[i], "--threads")) j->threads = atoi(value), i++;
    else return usage();
  }
  if (j->file && read_lines(j)) return 1;
  return j->sentences_n ? 0 : usage();
}

static int tokenize(job *j, const char *path) {
  tokenizer t;
  if (tokenizer_open(&t, path)) return fprintf(stderr, "%s\n", t.error), 1;
  j->ids = malloc((size_t)j->sentences_n * LONGEST * sizeof *j->ids);
  j->starts = calloc((size_t)j->sentences_n + 1, sizeof *j->starts);
  for (int s = 0; j->ids && j->starts && s < j->sentences_n; s++) {
    int32_t *ids = j->ids + j->starts[s];
    int n = tokenizer_encode(&t, j->sentences[s], strlen(j->sentences[s]), ids, LONGEST);
    j->starts[s + 1] = j->starts[s] + n;
  }
  tokenizer_close(&t);
  return j->ids && j->starts ? 0 : (fprintf(stderr, "out of memory\n"), 1);
}

static void show(const job *j, int width) {
  for (int s = 0; s < j->sentences_n && s < MATRIX; s++) {
    printf("%2d %.60s\n  ", s, j->sentences[s]);
    for (int i = 0; i < SHOWN && i < width; i++) printf(" % .6f", (double)j->embeddings[s * width + i]);
    puts(" ..");
  }
  for (int s = 0; s < j->sentences_n && s < MATRIX; s++) {
    printf("%2d", s);
    for (int o = 0; o < j->sentences_n && o < MATRIX; o++) {
      double dot = 0;
      for (int i = 0; i < width; i++)
        dot += (double)j->embeddings[s * width + i] * (double)j->embeddings[o * width + i];
      printf(" % .3f", dot);
    }
    putchar('\n');
  }
}

/* Repeats for a second, at least 3 times; the best time is reported. */
static int time_runs(job *j, encoder *e, char *error) {
  double begin = now(), best = 1e30;
  int runs = 0;
  for (; runs < 3 || now() - begin < 1; runs++) {
    double start = now();
    if (encoder_run(e, j->ids, j->starts, j->sentences_n, j->embeddings, error)) return 1;
    double took = now() - start;
    if (took < best) best = took;
  }
  printf("%d sentences of %d tokens: %.3f ms, %.0f sentences a second, %.0f tokens a second (best of %d runs)\n",
         j->sentences_n, j->starts[j->sentences_n], best * 1e3, j->sentences_n / best,
         j->starts[j->sentences_n] / best, runs);
  return 0;
}

/* The tokens' numbers, a sentence in a line. */
static int write_ids(const job *j) {
  FILE *file = fopen(j->ids_file, "w");
  for (int s = 0; file && s < j->sentences_n; s++)
    for (int t = j->starts[s]; t < j->starts[s + 1]; t++)
      fprintf(file, "%d%c", j->ids[t], t + 1 < j->starts[s + 1] ? ' ' : '\n');
  int ok = file && !ferror(file);
  if (file && fclose(file)) ok = 0;
  return ok ? 0 : (fprintf(stderr, "%s: cannot be written\n", j->ids_file), 1);
}

static int write_out(const job *j, int width) {
  FILE *file = fopen(j->out, "wb");
  size_t n = (size_t)j->sentences_n * (size_t)width;
  int ok = file && fwrite(j->embeddings, sizeof(float), n, file) == n;
  if (file && fclose(file)) ok = 0;
  return ok ? 0 : (fprintf(stderr, "%s: cannot be written\n", j->out), 1);
}

static int encode(job *j, encoder *e) {
  char error[SAFETENSORS_ERROR];
  int width = encoder_width(e);
  if (!(j->embeddings = malloc((size_t)j->sentences_n * (size_t)width * sizeof(float)))) return 1;
  if (encoder_run(e, j->ids, j->starts, j->sentences_n, j->embeddings, error))
    return fprintf(stderr, "%s\n", error), 1;
  if (j->is_timed) printf("first embeddings %.3f s after the start\n", now() - j->begin);
  if (j->is_timed && time_runs(j, e, error)) return fprintf(stderr, "%s\n", error), 1;
  show(j, width);
  return j->out ? write_out(j, width) : 0;
}

static int run(job *j) {
  char weights[4096], words[4096], error[SAFETENSORS_ERROR];
  snprintf(weights, sizeof weights, "%s/model.safetensors", j->model);
  snprintf(words, sizeof words, "%s/vocab.txt", j->model);
  if (tokenize(j, words) || (j->ids_file && write_ids(j))) return 1;
  safetensors file;
  if (safetensors_open(&file, weights)) return fprintf(stderr, "%s\n", file.error), 1;
  tg_context_options where = {.cache = j->cache, .threads = j->threads};
  tg_context *context;
  int status = 1;
  if (tg_context_create(&where, &context)) fprintf(stderr, "no context\n");
  else {
    double start = now();
    encoder *e = encoder_open(context, &file, &(encoder_options){.heads = j->heads}, error);
    if (!e) fprintf(stderr, "%s\n", error);
    else {
      if (j->is_timed) printf("opened in %.3f s\n", now() - start);
      status = encode(j, e);
    }
    encoder_close(e), tg_context_free(context);
  }
  safetensors_close(&file);
  return status;
}

int main(int n, char **text) {
  job j = {.begin = now()};
  int status = read_arguments(&j, n, text);
  if (!status) status = run(&j);
  free(j.sentences), free(j.lines), free(j.ids), free(j.starts), free(j.embeddings);
  return status;
}
