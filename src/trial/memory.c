/* SPDX-License-Identifier: MIT
 * The data of trials, and their memory. Inputs and expected results are made once, in a memfd, by the process that
 * computes the reference; all other processes map it. So a candidate gets its inputs between guard pages without a
 * copy, however large they are, and cannot modify them. */
#define _GNU_SOURCE
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>
#include "trial/trial.h"
#include "dsl/value.h"
#include "interp/interp.h"

enum { CANARY = 0xA5, POISON = 0xff, TABLE = 1 << 16 };
static const uint64_t magic = 0x7467746573;

/* Two sets of inputs: integers, which end at the end of their pages, and random numbers, which begin at the
 * beginning. */
enum { WHOLE, REAL, SETS };

/* ---- numbers ---- */

static inline uint64_t draw(uint64_t seed, uint64_t i) {
  uint64_t x = seed + i * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/* An integer in lo..hi. runs: for the full range of a type; then some elements are edge cases of divisions, shifts and
 * signs, which random numbers hardly hit, and there are runs of the extremes, which show intermediate saturation. */
static int64_t whole(const tg_trial_operand *o, uint64_t r, size_t i, bool runs) {
  static const int64_t edges[] = {0, 1, -1, 2, 7, 8, 15, 16, 31, 32, 33, 63, 64, -2};
  uint64_t width = (uint64_t)o->hi - (uint64_t)o->lo + 1, edge = r >> 32;
  if (runs && edge % 4 == 0) {
    int64_t v = edges[edge / 4 % (sizeof edges / sizeof *edges)];
    if ((uint64_t)v - (uint64_t)o->lo <= width - 1) return v;   /* the width of 64 bits wraps to 0 */
  }
  if (runs && (i >> 6) % 4 == 1) return (i >> 8) % 2 ? o->lo : o->hi;
  return width ? (int64_t)((uint64_t)o->lo + r % width) : (int64_t)r;
}

/* A random number in -1..1. f64 inputs have f32's precision, as the error of f64 is measured by running in f32. */
static double unit(tg_type t, uint64_t r) {
  return tg_round_to(t == TG_F64 ? TG_F32 : t, (double)(int64_t)(r >> 11) * 0x1p-52 - 1);
}

static void put(tg_type t, char *data, size_t i, tg_value v) {
  size_t size = (size_t)tg_type_bytes(t);
  uint64_t bits = tg_value_bits(t, v);
  memcpy(data + i * size, &bits, size);
}

/* For small ranges and 16-bit types: draws from a table, which is faster; inputs may have 10^8 elements and more. */
static void fill_from_table(const tg_trial_operand *o, uint64_t *table, uint64_t seed, bool real, char *data) {
  size_t size = (size_t)tg_type_bytes(o->type), n = real ? TABLE : (size_t)(o->hi - o->lo) + 1;
  for (size_t i = 0; i < n; i++) {
    int64_t v = o->lo + (int64_t)i;
    table[i] = tg_value_bits(o->type, real                   ? (tg_value){.f = unit(o->type, draw(~seed, i))}
                                      : tg_is_float(o->type) ? (tg_value){.f = (double)v}
                                                             : (tg_value){.i = v});
  }
#define FILL(T) for (size_t i = 0; i < o->n; i++) ((T *)(void *)data)[i] = (T)table[(draw(seed, i) >> 32) * n >> 32]
  switch (size) {
  case 1: FILL(uint8_t); break;
  case 2: FILL(uint16_t); break;
  case 4: FILL(uint32_t); break;
  default: FILL(uint64_t); break;
  }
#undef FILL
}

static void generate(const tg_trial_state *s, uint32_t b, int set, char *data) {
  const tg_trial_operand *o = &s->op[b];
  uint64_t seed = draw(s->seed + (uint64_t)set * 1000003u, b), width = (uint64_t)o->hi - (uint64_t)o->lo + 1;
  bool real = set == REAL && tg_is_float(o->type), runs = s->work.integers && width - 1 > 64;
  if (real && o->type == TG_F32)
    for (size_t i = 0; i < o->n; i++)
      ((float *)(void *)data)[i] = (float)((double)(int64_t)(draw(seed, i) >> 11) * 0x1p-52 - 1);
  else if (real && o->type == TG_F64)
    for (size_t i = 0; i < o->n; i++)
      ((double *)(void *)data)[i] = (double)(float)((double)(int64_t)(draw(seed, i) >> 11) * 0x1p-52 - 1);
  else if (real || (!runs && width && width <= 256)) fill_from_table(o, s->table, seed, real, data);
  else
    for (size_t i = 0; i < o->n; i++) {
      int64_t v = whole(o, draw(seed, i), i, runs);
      put(o->type, data, i, tg_is_float(o->type) ? (tg_value){.f = (double)v} : (tg_value){.i = v});
    }
}

/* Makes a few of the floats infinite or NaN. */
static void make_endless(const tg_trial_state *s, uint32_t b, char *data) {
  enum { MOST = 4, ONE_OF = 16 };
  const tg_trial_operand *o = &s->op[b];
  uint64_t seed = draw(s->seed + 2000003u, b);
  size_t n = o->n / ONE_OF + (draw(seed, MOST) % ONE_OF < o->n % ONE_OF);
  for (size_t e = 0; e < n && e < MOST && tg_is_float(o->type); e++) {
    uint64_t r = draw(seed, e);
    put(o->type, data, (r >> 8) % o->n,
        (tg_value){.f = tg_round_to(o->type, r % 3 == 0   ? NAN
                                             : r % 3 == 1 ? INFINITY
                                                          : -INFINITY)});
  }
}

static int set_of(const tg_trial_state *s, tg_trial_kind kind) {
  return kind == TRIAL_EXACT || (kind == TRIAL_ENDLESS && s->work.span > 0) ? WHOLE : REAL;
}

static bool has_set(const tg_trial_state *s, uint32_t launch, int set) {
  for (int g = 0; g < TRIAL_KINDS; g++)
    if (tg_trial_asks(s, launch, (tg_trial_kind)g) && set_of(s, (tg_trial_kind)g) == set) return true;
  return false;
}

bool tg_trial_asks(const tg_trial_state *s, uint32_t launch, tg_trial_kind kind) {
  if (!s->asked[kind]) return false;
  return !launch || s->work.ops <= TG_TRIAL_AS_WRITTEN || kind == (s->asked[TRIAL_EXACT] ? TRIAL_EXACT : TRIAL_RANDOM);
}

/* ---- the shared memory ---- */

typedef struct { uint64_t magic, seed, bytes, filled, made; double own[TRIAL_LAUNCHES][TRIAL_BUFFERS]; } header;

static header *head(const tg_trial_state *s) { return (header *)(void *)s->shared; }
static size_t padded(size_t n) { return (n + 63) & ~(size_t)63; }
static size_t pages(const tg_trial_state *s, size_t bytes) {
  return bytes ? (bytes + s->page - 1) / s->page * s->page : s->page;
}

static size_t layout(tg_trial_state *s) {
  size_t at = padded(sizeof(header));
  for (uint32_t i = 0; i < s->n * s->launches; i++) {
    tg_trial_operand *o = &s->launch[i / s->n].op[i % s->n];
    if (!o->written) continue;
    for (int g = 0; g < TRIAL_KINDS; g++)
      if (tg_trial_asks(s, i / s->n, (tg_trial_kind)g)) o->want[g] = at, at += padded(o->bytes);
    if (tg_trial_asks(s, i / s->n, TRIAL_RANDOM) && tg_is_float(o->type)) o->wide = at, at += padded(o->n * 8);
  }
  at = pages(s, at);
  for (uint32_t i = 0; i < s->n * s->launches; i++) {
    tg_trial_operand *o = &s->launch[i / s->n].op[i % s->n];
    for (int set = 0; set < SETS && o->read; set++)
      if (has_set(s, i / s->n, set)) o->input[set] = at, at += pages(s, o->bytes);
  }
  return at;
}

static size_t place_of(const tg_trial_state *s, const tg_trial_operand *o, bool at_end) {
  return at_end ? pages(s, o->bytes) - o->bytes : 0;
}
static char *data_of(const tg_trial_state *s, const tg_trial_operand *o, int set) {
  return s->shared + o->input[set] + place_of(s, o, set == WHOLE);
}

static void fill_all(tg_trial_state *s) {
  uint32_t was = s->now;
  for (uint32_t l = 0; l < s->launches; l++) {
    tg_trial_use(s, l);
    for (uint32_t i = 0; i < s->n * SETS; i++) {
      const tg_trial_operand *o = &s->op[i / SETS];
      int set = (int)(i % SETS);
      if (!o->read || !has_set(s, l, set)) continue;
      if (pages(s, o->bytes) > o->bytes)
        memset(s->shared + o->input[set], CANARY, s->page),
            memset(s->shared + o->input[set] + pages(s, o->bytes) - s->page, CANARY, s->page);
      generate(s, i / SETS, set, data_of(s, o, set));
    }
  }
  tg_trial_use(s, was);
  head(s)->filled = 1;
}

/* A worker without t->make maps the memory read-only, so candidates, which run in its children, cannot change it. */
void tg_trial_share(tg_trial_state *s, tg_env *env, const tg_task *t) {
  s->page = (size_t)sysconf(_SC_PAGESIZE);
  s->table = tg_new(&s->env, uint64_t, TABLE);
  s->shared_bytes = layout(s);
  s->own_file = t->shared < 0;
  s->file = s->own_file ? memfd_create("tg-trial", MFD_CLOEXEC) : t->shared;
  if (s->file < 0 || ((s->own_file || t->make) && ftruncate(s->file, (off_t)s->shared_bytes)))
    tg_fail(env, TG_EIO, "no room for the reference's data and results");
  void *p =
      mmap(NULL, s->shared_bytes, s->own_file || t->make ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, s->file, 0);
  if (p == MAP_FAILED) tg_fail(env, TG_ENOMEM, "no memory for the reference's data and results");
  s->shared = p;
  madvise(p, s->shared_bytes, MADV_HUGEPAGE);   /* if the system supports them for a memfd */
  if (!t->make) return;
  *head(s) = (header){.magic = magic, .seed = s->seed, .bytes = s->shared_bytes};
  fill_all(s);
}

void tg_trial_unshare(tg_trial_state *s) {
  tg_trial_drop(s->retyped, TRIAL_BUFFERS);
  if (s->shared) munmap(s->shared, s->shared_bytes);
  if (s->own_file && s->file >= 0) close(s->file);
  s->shared = NULL;
}

static bool is_ours(const tg_trial_state *s) {
  const header *h = head(s);
  return h->magic == magic && h->seed == s->seed && h->bytes == s->shared_bytes;
}

bool tg_trial_made(const tg_trial_state *s) { return is_ours(s) && head(s)->made; }
void tg_trial_done(tg_trial_state *s) { head(s)->made = 1; }
double *tg_trial_own_error(const tg_trial_state *s, uint32_t b) { return &head(s)->own[s->now][b]; }

const void *tg_trial_input(const tg_trial_state *s, uint32_t b, tg_trial_kind kind) {
  const tg_trial_operand *o = &s->op[b];
  int set = set_of(s, kind);
  /* is_ours: not while s->seed is another one, for other data */
  return kind != TRIAL_ENDLESS && is_ours(s) && head(s)->filled && o->input[set] ? data_of(s, o, set) : NULL;
}

void tg_trial_fill(const tg_trial_state *s, uint32_t b, tg_trial_kind kind, void *data) {
  const tg_trial_operand *o = &s->op[b];
  int set = set_of(s, kind);
  if (is_ours(s) && head(s)->filled && o->input[set]) memcpy(data, data_of(s, o, set), o->bytes);
  else generate(s, b, set, data);
  if (kind == TRIAL_ENDLESS) make_endless(s, b, data);
}

/* ---- memory between guard pages ---- */

/* Memory for an operand: the file's pages if place is not 0, else new memory with canaries around the operand. */
static bool take(const tg_trial_state *s, tg_guarded *g, size_t bytes, bool at_end, size_t place, bool own) {
  if (place) return tg_guard_map(g, bytes, !at_end, s->file, place, own);
  if (!tg_guard_take(g, bytes, 0, !at_end)) return false;
  if (g->room_bytes > bytes)
    memset(g->room, CANARY, g->page), memset(g->room + g->room_bytes - g->page, CANARY, g->page);
  return true;
}

void *tg_trial_room(tg_trial_state *s, tg_env *env, uint32_t b, size_t bytes) {
  tg_guarded *g = &s->retyped[b];
  tg_guard_drop(g);
  if (!take(s, g, bytes, false, 0, true)) tg_fail(env, TG_ENOMEM, "no memory for the operands");
  madvise(g->data, g->room_bytes, MADV_HUGEPAGE);
  return g->data;
}

void tg_trial_drop(tg_guarded *g, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) tg_guard_drop(&g[i]);
}

bool tg_trial_untouched(const tg_guarded *g) {
  const unsigned char *data = (const unsigned char *)g->data, *end = (const unsigned char *)g->room + g->room_bytes;
  for (const unsigned char *p = (const unsigned char *)g->room; p < end; p++) {
    if (p == data) p += g->bytes;
    if (p < end && *p != CANARY) return false;
  }
  return true;
}

bool tg_trial_at_end(const tg_trial_state *s, tg_trial_kind kind) { return set_of(s, kind) == WHOLE; }

void tg_trial_run_guarded(tg_trial_state *s, tg_env *env, tg_kernel *k, tg_trial_kind kind, bool at_end,
                          tg_guarded *g) {
  tg_argument args[TRIAL_BUFFERS];
  int set = set_of(s, kind);
  for (uint32_t b = 0; b < s->n; b++) {
    const tg_trial_operand *o = &s->op[b];
    bool there = o->read && o->input[set] && (at_end == (set == WHOLE) || o->bytes == pages(s, o->bytes)),
         change = o->written || (kind == TRIAL_ENDLESS && tg_is_float(o->type));
    if (!take(s, &g[b], o->bytes, at_end, there ? o->input[set] : 0, change))
      tg_fail(env, TG_ENOMEM, "no memory for the operands");
    if (there && kind == TRIAL_ENDLESS) make_endless(s, b, g[b].data);
    else if (o->read && !there) tg_trial_fill(s, b, kind, g[b].data);
    else if (!o->read) memset(g[b].data, POISON, o->bytes);
    if (!o->written) tg_guard_lock(&g[b], true);
    args[b] = (tg_argument){g[b].data, o->bytes};
  }
  tg_launch l = {
      .buffers = args, .buffers_n = s->n, .params = s->params, .params_n = s->params_n, .threads = s->threads};
  s->beside = NULL;
  if (k->loaded->device != s->ctx->devices) {
    tg_trial_there_guarded(s, env, k, args);
    return;
  }
  double (*clock)(void) = s->threads > 1 ? tg_now : tg_thread_now, start = clock();
  tg_trial_expect(s, env, tg_kernel_run(k, &l));
  s->run_seconds = clock() - start;
}
