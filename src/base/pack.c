/* SPDX-License-Identifier: MIT
 * Packs. A header, an index sorted by the hash of the name, then the files, each at a multiple of 64 bytes. The index
 * has a checksum; a block that was cut or changed there is refused as a whole. */
#include <stdlib.h>
#include "base/pack.h"

enum { FORMAT = 1, ALIGN = 64, ENTRY_ALIGN = 16 };
static const char magic[8] = {'T', 'G', 'P', 'A', 'C', 'K', '\r', '\n'};

typedef struct {
  char magic[8];
  uint32_t format, files;
  uint64_t bytes;              /* of the whole block */
  tg_hash128 sum;              /* of bytes, and of the index */
} header;

typedef struct { uint64_t hi, lo, at, bytes; } entry;   /* hi, lo: hash of the name */

static size_t padded(size_t n) { return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1); }

/* Blocks of any alignment: both are copied out. */
static header header_of(const char *data) {
  header h;
  memcpy(&h, data, sizeof h);
  return h;
}

static entry entry_at(const char *data, uint32_t i) {
  entry e;
  memcpy(&e, data + sizeof(header) + i * sizeof e, sizeof e);
  return e;
}

static tg_hash128 sum_of(const char *data, const header *h) {
  tg_hash128 s = tg_hash_wide(data + sizeof *h, h->files * sizeof(entry));
  s.lo ^= h->bytes * 0x9e3779b97f4a7c15u;
  return s;
}

static int compare(const entry *a, const entry *b) {
  if (a->hi != b->hi) return a->hi < b->hi ? -1 : 1;
  return a->lo < b->lo ? -1 : a->lo > b->lo;
}

const char *tg_pack_wrong(const tg_pack *p) {
  if (p->bytes < sizeof(header) || memcmp(p->data, magic, sizeof magic)) return "it is no pack";
  header h = header_of(p->data);
  if (h.format != FORMAT) return "its format is another release's";
  if (h.bytes != p->bytes) return "it is cut, or has more behind it";
  if (h.files > (p->bytes - sizeof h) / sizeof(entry)) return "its index is damaged";
  tg_hash128 s = sum_of(p->data, &h);
  if (s.hi != h.sum.hi || s.lo != h.sum.lo) return "its index is damaged";
  for (uint32_t i = 0; i < h.files; i++) {
    entry e = entry_at(p->data, i);
    if (e.at % ALIGN || e.at > p->bytes || e.bytes > p->bytes - e.at) return "its index is damaged";
  }
  return NULL;
}

const void *tg_pack_find(const tg_pack *p, const char *name, size_t *bytes) {
  if (!p || !p->data) return NULL;
  tg_hash128 h = tg_hash_wide(name, strlen(name));
  entry want = {h.hi, h.lo, 0, 0};
  uint32_t low = 0, high = header_of(p->data).files;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    entry e = entry_at(p->data, middle);
    int c = compare(&e, &want);
    if (!c) return *bytes = e.bytes, p->data + e.at;
    if (c < 0) low = middle + 1;
    else high = middle;
  }
  return NULL;
}

const char *tg_pack_read(tg_env *env, const tg_pack *p, const char *folder, const char *name, bool root,
                         size_t *bytes) {
  const char *data = tg_pack_find(p, name, bytes);
  if (!data) return folder ? tg_read_private(env, folder, name, root, bytes) : NULL;
  if (!((uintptr_t)data % ENTRY_ALIGN)) return data;
  char *copy = tg_alloc(env, *bytes + 1);
  memcpy(copy, data, *bytes);
  return copy;
}

typedef struct { entry e; const tg_pack_file *file; uint32_t order; } placed;

static int by_hash(const void *a, const void *b) {
  const placed *x = a, *y = b;
  int c = compare(&x->e, &y->e);
  return c ? c : (x->order > y->order) - (x->order < y->order);
}

const char *tg_pack_made(tg_env *env, const tg_pack_file *files, uint32_t n, size_t *bytes) {
  placed *all = tg_new(env, placed, n + 1);
  uint32_t count = 0;
  for (uint32_t i = 0; i < n; i++) {
    tg_hash128 h = tg_hash_wide(files[i].name, strlen(files[i].name));
    all[i] = (placed){{h.hi, h.lo, 0, files[i].bytes}, &files[i], i};
  }
  qsort(all, n, sizeof *all, by_hash);
  for (uint32_t i = 0; i < n; i++)
    if (!count || compare(&all[count - 1].e, &all[i].e)) all[count++] = all[i];
  size_t at = padded(sizeof(header) + count * sizeof(entry));
  for (uint32_t i = 0; i < count; i++) all[i].e.at = at, at += padded(all[i].e.bytes);
  char *data = tg_alloc(env, at);
  header h = {.format = FORMAT, .files = count, .bytes = at};
  memcpy(h.magic, magic, sizeof magic);
  for (uint32_t i = 0; i < count; i++) {
    memcpy(data + sizeof h + i * sizeof(entry), &all[i].e, sizeof(entry));
    memcpy(data + all[i].e.at, all[i].file->data, all[i].file->bytes);
  }
  h.sum = sum_of(data, &h);
  memcpy(data, &h, sizeof h);
  *bytes = at;
  return data;
}
