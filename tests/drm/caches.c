/* SPDX-License-Identifier: MIT
 * Caches as unkind as the rules allow: every line may be in every cache from the moment on at which its memory is
 * mapped; what a dispatch writes is in L2 and in its own near cache, and the other near cache has kept what was there
 * before; the host and the copy engines see memory alone. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "model.h"

enum { POISON = 0xa5 };

/* instructions and scalars have near caches of their own; a line that any of the three may have kept is old */
static uint32_t l2_epoch = 1, near_epoch[NEARS] = {1, 1}, code_epoch = 1;
static int side;

void caches_next(void) { side = !side; }

/* All such memory is one file's pages, which a write copies. */
char *poisoned(char *at, uint64_t bytes) {
  enum { PART = 1 << 16 };
  static int file = -1;
  static uint64_t filled;
  static char part[PART];
  if (file < 0) file = memfd_create("poison", MFD_CLOEXEC), memset(part, POISON, PART);
  for (; filled < bytes; filled += PART)
    if (pwrite(file, part, PART, (off_t)filled) != PART) return NULL;
  char *p = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | (at ? MAP_FIXED : 0), file, 0);
  return p == MAP_FAILED ? NULL : p;
}

static bool is_poison(const buffer *b) {
  const unsigned char *p = (const unsigned char *)b->memory;
  return !b->foreign && p[0] == POISON && !memcmp(p, p + 1, b->bytes - 1);
}

static char *lines_of(const buffer *b, bool poison) {
  char *p = poisoned(NULL, b->bytes);
  return poison ? p : memcpy(p, b->memory, b->bytes);
}

void caches_fill(buffer *b) {
  size_t lines = (b->bytes + LINE - 1) / LINE;
  bool poison = is_poison(b);
  b->l2 = lines_of(b, poison), b->l2_epoch = calloc(lines, sizeof *b->l2_epoch), b->dirty = calloc(lines, 1);
  b->l2_mapped = l2_epoch, b->code_epoch = code_epoch, b->written = false;
  for (int n = 0; n < NEARS; n++) {
    b->near[n] = lines_of(b, poison), b->near_epoch[n] = calloc(lines, sizeof *b->near_epoch[n]);
    b->near_mapped[n] = near_epoch[n];
  }
}

void caches_drop(buffer *b) {
  if (!b->l2) return;
  munmap(b->l2, b->bytes), free(b->l2_epoch), free(b->dirty);
  b->l2 = NULL, b->l2_epoch = NULL, b->dirty = NULL;
  for (int n = 0; n < NEARS; n++) {
    munmap(b->near[n], b->bytes), free(b->near_epoch[n]);
    b->near[n] = NULL, b->near_epoch[n] = NULL;
  }
}

static uint64_t line_bytes(const buffer *b, uint64_t line) { return b->bytes - line * LINE < LINE ? b->bytes - line * LINE : LINE; }

static void write_back(void) {
  for (buffer *b = buffers; b; b = b->next) {
    for (uint64_t i = 0; b->mapped && b->written && i < (b->bytes + LINE - 1) / LINE; i++)
      if (b->dirty[i]) memcpy(b->memory + i * LINE, b->l2 + i * LINE, line_bytes(b, i)), b->dirty[i] = 0;
    b->written &= !b->mapped;
  }
}

void caches_do(uint32_t what) {
  if (what & WB_L2) write_back();
  if (what & INV_L2) {
    for (buffer *b = buffers; b; b = b->next)   /* what was not written back is gone */
      if (b->mapped && b->written) memset(b->dirty, 0, (b->bytes + LINE - 1) / LINE), b->written = false;
    l2_epoch++;
  }
  if (what & INV_INSTRUCTIONS) code_epoch++;
  for (int n = 0; n < NEARS; n++) {
    if ((what & (INV_SCALARS | INV_VECTORS)) == (INV_SCALARS | INV_VECTORS)) near_epoch[n]++;
  }
}

static char *l2_line(buffer *b, uint64_t i) {
  if ((b->l2_epoch[i] ? b->l2_epoch[i] : b->l2_mapped) != l2_epoch) memcpy(b->l2 + i * LINE, b->memory + i * LINE, line_bytes(b, i)), b->l2_epoch[i] = l2_epoch;
  return b->l2 + i * LINE;
}

static char *near_line(buffer *b, int n, uint64_t i) {
  if ((b->near_epoch[n][i] ? b->near_epoch[n][i] : b->near_mapped[n]) != near_epoch[n]) memcpy(b->near[n] + i * LINE, l2_line(b, i), line_bytes(b, i)), b->near_epoch[n][i] = near_epoch[n];
  return b->near[n] + i * LINE;
}

/* The cache of instructions has every line as it was when its memory was mapped, until it is invalidated. */
static const char poison[LINE] = {0};
static bool code_is_old(const buffer *b) { return b->code_epoch == code_epoch; }

bool cached_read(uint64_t address, void *to, uint64_t bytes, bool instructions) {
  buffer *b = buffer_at(address, bytes, "a dispatch reads");
  if (!b) return false;
  for (uint64_t at = address - b->address, end = at + bytes; at < end;) {
    uint64_t i = at / LINE, n = (i + 1) * LINE < end ? (i + 1) * LINE - at : end - at;
    memcpy(to, (!instructions ? near_line(b, side, i) : code_is_old(b) ? poison : l2_line(b, i)) + at % LINE, n);
    to = (char *)to + n, at += n;
  }
  return true;
}

bool cached_write(uint64_t address, const void *from, uint64_t bytes) {
  buffer *b = buffer_at(address, bytes, "a dispatch writes");
  if (!b) return false;
  for (uint64_t at = address - b->address, end = at + bytes; at < end;) {
    uint64_t i = at / LINE, n = (i + 1) * LINE < end ? (i + 1) * LINE - at : end - at;
    near_line(b, !side, i);
    char *own = near_line(b, side, i), *l2 = l2_line(b, i);
    memcpy(own + at % LINE, from, n), memcpy(l2 + at % LINE, from, n);
    b->dirty[i] = 1, b->written = true;
    from = (const char *)from + n, at += n;
  }
  return true;
}
