/* SPDX-License-Identifier: MIT
 * The object cache. A file has a header, the full key, the launcher's data and the object, with a checksum over all of
 * it. It is written to a temporary file, synced and renamed, so readers see all or nothing. A file that is damaged,
 * truncated, of another format, or of another key with the same hash, counts as a miss. Code is only read from folders
 * and files that no other user can write to. */
#include <stdio.h>
#include "code/cache.h"

enum { FORMAT = 4 };
static const char magic[8] = {'T', 'G', 'C', 'O', 'D', 'E', '\r', '\n'};

typedef struct {
  char magic[8];
  uint32_t format, header;
  tg_hash128 sum;              /* checksum of all that follows this field */
  uint64_t key_n, signature_n, object_n;
  uint32_t buffers, params, phases, loops;
  uint64_t workspace, shared, aligned, launch_n, in_shares;
} header;

enum { SUMMED = offsetof(header, key_n) };

static size_t padded(size_t n) { return (n + 15) & ~(size_t)15; }

static const char *file_name(tg_env *env, const tg_cache_entry *e) {
  tg_hash128 h = tg_hash_wide(e->key, e->key_n);
  return tg_format(env, "%016llx%016llx.tgo", (unsigned long long)h.hi, (unsigned long long)h.lo);
}

bool tg_cache_block_read(const void *from, size_t bytes, tg_cache_entry *e) {
  const char *data = from;
  size_t start = padded(sizeof(header));
  header h;
  if (bytes < start) return false;
  memcpy(&h, data, sizeof h);
  if (memcmp(h.magic, magic, sizeof magic) || h.format != FORMAT || h.header != sizeof h) return false;
  if ((e->key ? h.key_n != e->key_n : h.key_n > bytes) || h.signature_n > bytes || h.object_n > bytes ||
      h.launch_n > bytes / 8)
    return false;
  if (bytes != start + padded(h.key_n) + padded(h.signature_n) + padded(h.object_n) + padded(8 * h.launch_n))
    return false;
  tg_hash128 sum = tg_hash_wide(data + SUMMED, bytes - SUMMED);
  if (sum.lo != h.sum.lo || sum.hi != h.sum.hi || (e->key && memcmp(data + start, e->key, e->key_n)))
    return false;
  if (!e->key) e->key = data + start, e->key_n = h.key_n;
  e->signature = data + start + padded(h.key_n);
  e->signature_n = h.signature_n;
  e->object = data + start + padded(h.key_n) + padded(h.signature_n);
  e->object_n = h.object_n;
  const int64_t *launch = (const int64_t *)(const void *)(data + bytes - padded(8 * h.launch_n));
  e->info =
      (tg_code_info){h.buffers,  h.params, h.phases,   h.workspace, h.shared, h.aligned, h.launch_n ? launch : NULL,
                     h.launch_n, h.loops,  h.in_shares};
  return true;
}

bool tg_cache_read(tg_env *env, const tg_pack *pack, const char *folder, tg_cache_entry *e) {
  size_t bytes;
  const char *name = file_name(env, e), *data = tg_pack_read(env, pack, folder, name, false, &bytes);
  return data && tg_cache_block_read(data, bytes, e);
}

bool tg_cache_file_valid(tg_env *env, const char *name, const void *data, size_t bytes) {
  tg_cache_entry e = {.key = NULL};
  return tg_cache_block_read(data, bytes, &e) && !strcmp(file_name(env, &e), name);
}

void *tg_cache_block(tg_env *env, const tg_cache_entry *e, size_t *block_bytes) {
  size_t start = padded(sizeof(header)),
         bytes = start + padded(e->key_n) + padded(e->signature_n) + padded(e->object_n) + padded(8 * e->info.launch_n);
  char *data = tg_alloc(env, bytes);
  header h = {.format = FORMAT,
              .header = sizeof h,
              .key_n = e->key_n,
              .signature_n = e->signature_n,
              .object_n = e->object_n,
              .buffers = e->info.buffers,
              .params = e->info.params,
              .phases = e->info.phases,
              .workspace = e->info.workspace,
              .shared = e->info.shared,
              .aligned = e->info.aligned,
              .launch_n = e->info.launch_n,
              .loops = e->info.loops,
              .in_shares = e->info.in_shares};
  memcpy(h.magic, magic, sizeof magic);
  memcpy(data, &h, sizeof h);
  memcpy(data + start, e->key, e->key_n);
  memcpy(data + start + padded(e->key_n), e->signature, e->signature_n);
  memcpy(data + start + padded(e->key_n) + padded(e->signature_n), e->object, e->object_n);
  if (e->info.launch_n) memcpy(data + bytes - padded(8 * e->info.launch_n), e->info.launch, 8 * e->info.launch_n);
  h.sum = tg_hash_wide(data + SUMMED, bytes - SUMMED);
  memcpy(data, &h, sizeof h);
  *block_bytes = bytes;
  return data;
}

int tg_cache_write(tg_env *env, const char *folder, const tg_cache_entry *e) {
  size_t bytes;
  const void *data = tg_cache_block(env, e, &bytes);
  return tg_write_private(folder, file_name(env, e), data, bytes);
}
