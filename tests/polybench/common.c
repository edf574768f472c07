/* SPDX-License-Identifier: MIT
 * What the test and the benchmark share: texts, memory, and the comparison of results whose sums may be in different orders. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "polybench.h"

const char *polybench_text_of(const char *name) {
  for (const polybench_text *t = polybench_texts; t->name; t++)
    if (!strcmp(t->name, name)) return t->text;
  return NULL;
}

int64_t polybench_bytes(const polybench_buffer *b) { return b->count * (b->type == TG_F64 ? 8 : 4); }

bool polybench_allocate(const polybench_case *c, polybench_memory *m) {
  memset(m, 0, sizeof *m);
  for (int i = 0; i < POLYBENCH_BUFFERS && c->buffer[i].role; i++) {
    size_t bytes = ((size_t)polybench_bytes(&c->buffer[i]) + 4095) & ~(size_t)4095;
    m->data[i] = aligned_alloc(4096, bytes);
    if (!m->data[i]) return false;
    memset(m->data[i], 0, bytes);
  }
  return true;
}

void polybench_restore(const polybench_case *c, polybench_memory *to, const polybench_memory *initial) {
  for (int i = 0; i < POLYBENCH_BUFFERS && c->buffer[i].role; i++) memcpy(to->data[i], initial->data[i], (size_t)polybench_bytes(&c->buffer[i]));
}

void polybench_free(polybench_memory *m) {
  for (int i = 0; i < POLYBENCH_BUFFERS; i++) free(m->data[i]);
}

static double element(tg_type type, const void *p, int64_t i) {
  return type == TG_F64 ? ((const double *)p)[i] : type == TG_F32 ? (double)((const float *)p)[i] : (double)((const int32_t *)p)[i];
}

/* Within a small part of the mean magnitude of what was wanted: elements near 0 are differences of others. */
int64_t polybench_differences(const polybench_buffer *b, const void *got, const void *want, int64_t *where) {
  double mean = 0, allowed = b->type == TG_F64 ? 1e-9 : b->type == TG_F32 ? 1e-4 : 0;
  int64_t wrong = 0;
  *where = -1;
  for (int64_t i = 0; i < b->count; i++) mean += fabs(element(b->type, want, i)) / (double)b->count;
  for (int64_t i = 0; i < b->count; i++) {
    double x = element(b->type, got, i), y = element(b->type, want, i);
    if (fabs(x - y) <= allowed * (fabs(y) + mean)) continue;
    if (!wrong++) *where = i;
  }
  return wrong;
}
