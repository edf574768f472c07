/* SPDX-License-Identifier: MIT
 * Products on the command line: names of types, and lists of shapes. */
#define _GNU_SOURCE
#include "shapes.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const tool_types *tool_types_named(const char *name) {
  static const tool_types all[] = {{"f32", TG_F32, TG_F32, TG_F32, 1, 0},
                                   {"f64", TG_F64, TG_F64, TG_F64, 0.5, 0},
                                   {"f16", TG_F16, TG_F16, TG_F16, 1, 0},
                                   {"bf16", TG_BF16, TG_BF16, TG_BF16, 1, 0},
                                   {"bf16flush", TG_BF16, TG_BF16, TG_BF16, 2, TG_GEMM_FLUSH_SUBNORMALS},
                                   {"u8i8", TG_U8, TG_I8, TG_I32, 4, 0},
                                   {"i8i8", TG_I8, TG_I8, TG_I32, 4, 0}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!strcmp(all[i].name, name)) return &all[i];
  fprintf(stderr,
          "tg: no types '%s'; there are f32, f64, f16, bf16, bf16flush (subnormal numbers may count as zero), u8i8 and "
          "i8i8\n",
          name);
  return NULL;
}

static bool read_line(const char *line, void *out) {
  tool_shape *s = out;
  char major[4] = "NN";
  *s = (tool_shape){0};
  int got = sscanf(line, "%23s %d %d %d %3s", s->class_of, &s->m, &s->n, &s->k, major);
  s->ta = major[0] == 'T', s->tb = major[1] == 'T';
  return got >= 4 && s->m > 0 && s->n > 0 && s->k > 0 && strlen(major) == 2 && strspn(major, "NT") == 2;
}

int tool_read_list(const char *path, const tool_list *l, void **out) {
  char *text = tool_read(path, NULL), *rest = text, *rows = NULL;
  int n = 0, room = 0, number = 0;
  *out = NULL;
  if (!text)
    return fprintf(stderr, "tg: %s: %s (lists lie in the source, %s; --shapes FILE names another)\n", path,
                   strerror(errno), l->folder),
           -1;
  for (char *line; (line = strsep(&rest, "\n"));) {
    line[strcspn(line, "#")] = 0;
    number++;
    if (!line[strspn(line, " \t\r")]) continue;
    if (n == room) {
      char *more = realloc(rows, (size_t)(room = 2 * room + 64) * l->bytes);
      if (!more) return perror("tg"), free(rows), free(text), -1;
      rows = more;
    }
    if (!l->read(line, rows + (size_t)n++ * l->bytes)) {
      fprintf(stderr, "tg: %s:%d: '%s' is wanted\n", path, number, l->wanted);
      free(rows), free(text);
      return -1;
    }
  }
  free(text);
  *out = rows;
  return n;
}

int tool_read_shapes(const char *path, tool_shape **out) {
  static const tool_list list = {sizeof(tool_shape), read_line, "class M N K NN", "tests/bench/gemm"};
  void *rows;
  int n = tool_read_list(path, &list, &rows);
  *out = rows;
  return n;
}
