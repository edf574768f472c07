/* SPDX-License-Identifier: MIT
 * tg bench kernels --sweep FOLDER: the first choice of each text there, against the best of the words that are kept
 * beside it and against plain C (tests/bench/kernels/plain.c, -O3 -march=native -ffast-math). A text's lines
 * `// words: WORD; WORD; ..` are lists of words, `// words BK=64: ..` with other values of its knobs. All take turns on
 * the same buffers, on one thread, by its own clock; medians; results are compared before. */
#define _GNU_SOURCE
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/bench.h"
#include "bench/kernels/plain.h"
#include "bench/turns.h"
#include "dsl/text.h"
#include "ranges/ranges.h"

enum { SIDES = 18, BUFFERS = 8, TURNS_MAX = 400, TURNS_MIN = 7, TEXTS = 256 };

typedef struct {
  tg_context *ctx;
  char name[64], *text;
  tg_job job;                     /* the program as it is parsed */
  const bench_plain *plain;
  tg_kernel *kernel[SIDES];       /* the first choice, then those with words */
  uint32_t kernels, buffers;
  tg_argument data[BUFFERS];
  void *want[BUFFERS];            /* what plain C gives, or else the first choice */
  long constant[32];
} text_case;

static void parse(void *user) {
  text_case *c = user;
  tg_parse_kernel(&c->job, c->name, c->text, 0, NULL);
}

/* Small numbers with a fraction; integers within what is promised of them. */
static void fill(text_case *c, uint32_t b) {
  const tg_kernel_info *k = tg_kernel_describe(c->kernel[0]);
  tg_type type = k->buffers[b].type;
  uint32_t author = 0, seed = 12345 + b;
  while (author < c->job.buffers.n && strcmp(c->job.buffers.data[author].name, k->buffers[b].name)) author++;
  tg_i128 lo = 0, hi = 15;
  if (author < c->job.buffers.n && c->job.buffers.data[author].lo && c->job.buffers.data[author].hi) {
    lo = tg_bounds_of(&c->job, c->job.buffers.data[author].lo).lo;
    hi = tg_bounds_of(&c->job, c->job.buffers.data[author].hi).hi;
  }
  size_t size = (size_t)tg_type_bytes(type), n = c->data[b].bytes / size;
  for (size_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    tg_value v = tg_is_float(type) ? (tg_value){.f = (double)((int)(seed >> 16 & 255) - 128) / 128}
                                   : (tg_value){.i = lo + (tg_i128)((seed >> 8) % (uint64_t)(hi - lo + 1))};
    uint64_t bits = tg_value_bits(type, v);
    memcpy((char *)c->data[b].data + i * size, &bits, size);
  }
}

static void fill_all(text_case *c) {
  const tg_kernel_info *k = tg_kernel_describe(c->kernel[0]);
  for (uint32_t b = 0; b < c->buffers; b++)
    if (k->buffers[b].read) fill(c, b);
    else memset(c->data[b].data, 0xff, c->data[b].bytes);
}

static bool run_side(text_case *c, uint32_t side) {
  if (side == c->kernels) {
    void *b[BUFFERS];
    for (uint32_t i = 0; i < c->buffers; i++) b[i] = c->data[i].data;
    c->plain->run(b, c->constant);
    return true;
  }
  tg_launch l = {.buffers = c->data, .buffers_n = c->buffers, .threads = 1};
  return !tg_kernel_run(c->kernel[side], &l);
}

/* Of what was computed in another order: within a thousandth of the largest value. */
static bool same(const text_case *c, uint32_t side) {
  const tg_kernel_info *k = tg_kernel_describe(c->kernel[0]);
  for (uint32_t b = 0; b < c->buffers; b++) {
    tg_type type = k->buffers[b].type;
    size_t size = (size_t)tg_type_bytes(type), n = c->data[b].bytes / size;
    double largest = 0, off = 0;
    for (size_t i = 0; k->buffers[b].written && i < n; i++) {
      uint64_t x = 0, y = 0;
      memcpy(&x, (char *)c->data[b].data + i * size, size), memcpy(&y, (char *)c->want[b] + i * size, size);
      tg_value v = tg_value_from_bits(type, x), w = tg_value_from_bits(type, y);
      double a = tg_is_float(type) ? v.f : (double)v.i, e = tg_is_float(type) ? w.f : (double)w.i;
      largest = fmax(largest, fabs(e));
      off = a == e || (isnan(a) && isnan(e)) ? off : fmax(off, isnan(a) || isnan(e) ? INFINITY : fabs(a - e));
    }
    if (off > largest * (type == TG_BF16 || type == TG_F16 ? 2e-2 : 1e-3)) {
      fprintf(stderr, "tg: %s: %s differs: side %u is off by %g of %g\n", c->name, k->buffers[b].name, side, off,
              largest);
      return false;
    }
  }
  return true;
}

static bool compile(text_case *c, const char *words, size_t words_n, const char *knobs) {
  tg_binding bind[8];
  char name[8][32];
  uint32_t n = 0;
  char *opts = words ? strndup(words, words_n) : NULL;
  for (; knobs && n < 8 && sscanf(knobs, " %31[A-Za-z0-9_]=%ld", name[n], (long *)&bind[n].lo) == 2; n++) {
    bind[n] = (tg_binding){name[n], bind[n].lo, bind[n].lo, 1};
    knobs += strspn(knobs, " ");
    knobs += strcspn(knobs, " :");
  }
  tg_compile_options o = {.opts = opts, .bindings = bind, .bindings_n = n};
  bool ok = !tg_kernel_compile_text(c->ctx, c->name, c->text, &o, &c->kernel[c->kernels]);
  if (ok) c->kernels++;
  else fprintf(stderr, "tg: %s\n%s\n", c->name, tg_error_message(c->ctx));
  free(opts);
  return ok;
}

static bool prepare(text_case *c) {
  if (!compile(c, NULL, 0, NULL)) return false;
  for (const char *p = c->text; (p = strstr(p, "// words")) && c->kernels + 1 < SIDES;) {
    const char *knobs = p + 8, *words = strchr(knobs, ':');
    if (!words) break;
    words++;
    size_t n = strcspn(words, "\n");
    if (!compile(c, words, n, knobs)) return false;
    p = words + n;
  }
  if (!tg_protect(&c->job.env, parse, c)) return fprintf(stderr, "%s\n", c->job.env.message), false;
  for (uint32_t i = 0; i < c->job.constants.n && i < 32; i++) c->constant[i] = (long)c->job.constants.data[i].value;
  const tg_kernel_info *k = tg_kernel_describe(c->kernel[0]);
  c->buffers = k->buffers_n;
  if (c->buffers > BUFFERS) return fprintf(stderr, "tg: %s: over %d buffers\n", c->name, BUFFERS), false;
  for (uint32_t b = 0; b < c->buffers; b++) {
    if (tg_kernel_bytes(c->kernel[0], NULL, b, &c->data[b].bytes)) return false;
    c->data[b].data = tool_pages(c->data[b].bytes), c->want[b] = tool_pages(c->data[b].bytes);
  }
  for (c->plain = bench_plains; c->plain->name && strcmp(c->plain->name, c->name);) c->plain++;
  if (!c->plain->name) c->plain = NULL;
  uint32_t sides = c->kernels + (c->plain != NULL);
  for (uint32_t side = sides; side-- > 0;) {
    fill_all(c);
    if (!run_side(c, side)) return fprintf(stderr, "tg: %s: %s\n", c->name, tg_error_message(c->ctx)), false;
    for (uint32_t b = 0; side + 1 == sides && b < c->buffers; b++)
      memcpy(c->want[b], c->data[b].data, c->data[b].bytes);
    if (!same(c, side)) return false;
  }
  return true;
}

typedef struct { double first[TEXTS], plain[TEXTS]; uint32_t firsts, plains; } summary;

static bool measure(const tool_args *args, text_case *c, summary *s) {
  static double sample[SIDES][TURNS_MAX];
  uint32_t sides = c->kernels + (c->plain != NULL);
  int turns = 0;
  double end = tool_now() + (args->seconds > 0 ? args->seconds : 0.5), seconds[SIDES] = {0}, best;
  for (; turns < TURNS_MAX && (turns < TURNS_MIN || tool_now() < end); turns++)
    for (uint32_t side = 0; side < sides; side++) {
      double t = bench_clock(1);
      if (!run_side(c, side)) return false;
      sample[side][turns] = bench_clock(1) - t;
    }
  for (uint32_t side = 0; side < sides; side++) seconds[side] = tool_median(sample[side], turns);
  best = seconds[0];
  for (uint32_t side = 1; side < c->kernels; side++) best = fmin(best, seconds[side]);
  tool_figure(args->json, "kernels", c->name, "one core", seconds[0] * 1e6, "us", NULL);
  for (uint32_t side = 1; side < c->kernels; side++) { /* in the order of the lines, from 1 */
    char list[16];
    snprintf(list, sizeof list, "words %u", side);
    tool_figure(args->json, "kernels", c->name, list, seconds[side] * 1e6, "us", NULL);
  }
  if (c->kernels > 1) {
    tool_figure(args->json, "kernels", c->name, "one core", best / seconds[0], "ratio", "best words");
    s->first[s->firsts++] = best / seconds[0];
  }
  if (c->plain) {
    tool_figure(args->json, "kernels", c->name, "one core", seconds[c->kernels] / seconds[0], "ratio", "plain C");
    s->plain[s->plains++] = seconds[c->kernels] / seconds[0];
  }
  return true;
}

static bool one_text(tg_context *ctx, const tool_args *args, const char *path, const char *name, summary *s) {
  static text_case c;
  size_t bytes;
  c = (text_case){.ctx = ctx, .text = tool_read(path, &bytes)};
  snprintf(c.name, sizeof c.name, "%s", name);
  if (!c.text) return fprintf(stderr, "tg: %s cannot be read\n", path), false;
  tg_job_init(&c.job, NULL);
  bool ok = prepare(&c) && measure(args, &c, s);
  for (uint32_t i = 0; i < c.kernels; i++) tg_kernel_free(c.kernel[i]);
  for (uint32_t b = 0; b < c.buffers; b++) free(c.data[b].data), free(c.want[b]);
  tg_job_drop(&c.job);
  free(c.text);
  return ok;
}

static void sum_up(bool json, const char *of, const double *ratio, uint32_t n) {
  double logs = 0, least = INFINITY, near = 0;
  for (uint32_t i = 0; i < n; i++) logs += log(ratio[i]), least = fmin(least, ratio[i]), near += ratio[i] >= 0.8;
  if (!n) return;
  tool_figure(json, "kernels", "all", "geometric mean", exp(logs / n), "ratio", of);
  tool_figure(json, "kernels", "all", "least", least, "ratio", of);
  tool_figure(json, "kernels", "all", "0.8 or more", near, "kernels", of);
}

int bench_choices(tg_context *ctx, const tool_args *args) {
  struct dirent **entry;
  static summary s;
  int n = scandir(args->sweep, &entry, NULL, alphasort), result = TOOL_OK;
  if (n < 0) return fprintf(stderr, "tg: %s cannot be read\n", args->sweep), TOOL_WRONG;
  for (int i = 0; i < n; i++) {
    char path[512], name[64];
    size_t length = strlen(entry[i]->d_name);
    if (length > 3 && length < 60 && !strcmp(entry[i]->d_name + length - 3, ".tg") &&
        s.firsts < TEXTS && (!args->cases || strstr(entry[i]->d_name, args->cases))) {
      snprintf(path, sizeof path, "%s/%s", args->sweep, entry[i]->d_name);
      snprintf(name, sizeof name, "%.*s", (int)length - 3, entry[i]->d_name);
      if (!one_text(ctx, args, path, name, &s)) result = TOOL_WRONG;
    }
    free(entry[i]);
  }
  free(entry);
  sum_up(args->json, "best words", s.first, s.firsts);
  sum_up(args->json, "plain C", s.plain, s.plains);
  return result;
}
