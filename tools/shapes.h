/* SPDX-License-Identifier: MIT
 * Products on the command line: names of types, and lists of shapes. */
#ifndef TG_TOOL_SHAPES_H
#define TG_TOOL_SHAPES_H
#include "tg/gemm.h"
#include "tool.h"

typedef struct tool_types {
  const char *name;
  tg_type a, b, c;
  double lanes;   /* multiplications for one of f32 */
  uint32_t flags; /* of tg_gemm_desc */
} tool_types;
const tool_types *tool_types_named(const char *name);   /* NULL, and a line on stderr: there are none of that name */

/* Rows of a list, one a line; '#' begins a comment. */
typedef struct tool_list {
  size_t bytes;                                   /* of a row */
  bool (*read)(const char *line, void *row);      /* false: it is no such line */
  const char *wanted, *folder;                    /* what a line holds; where such lists lie in the source */
} tool_list;
/* *out is malloc'd. The number of rows; -1, and a line on stderr: the file cannot be read, or is no such list. */
int tool_read_list(const char *path, const tool_list *l, void **out);

typedef struct { char class_of[24]; int m, n, k; bool ta, tb; } tool_shape;
/* tool_read_list of lines `class M N K [NN|NT|TN|TT]`. */
int tool_read_shapes(const char *path, tool_shape **out);
#endif
