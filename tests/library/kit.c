/* SPDX-License-Identifier: MIT
 * What the tests of the library share. */
#define _GNU_SOURCE
#include <dirent.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "dsl/functions.h"
#include "dsl/value.h"
#include "kit.h"
#include "interp/interp.h"
#include "ranges/ranges.h"
#include "choose/heuristic.h"
#include "compile/price.h"

/* ---- programs ---- */

static char *read_text(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  char *text = calloc(1, 1 << 16);
  size_t n = fread(text, 1, (1 << 16) - 1, f);
  fclose(f);
  if (!n) {
    free(text);
    return NULL;
  }
  return text;
}

static int by_path(const void *a, const void *b) { return strcmp(((const kit_program *)a)->path, ((const kit_program *)b)->path); }

kit_program *kit_programs_of(size_t folders, const char *const *folder, int *n) {
  kit_program *all = calloc(512, sizeof *all);
  *n = 0;
  for (size_t f = 0; f < folders; f++) {
    DIR *d = opendir(folder[f]);
    for (struct dirent *e; d && (e = readdir(d)) && *n < 512;) {
      size_t k = strlen(e->d_name);
      if (k < 4 || strcmp(e->d_name + k - 3, ".tg")) continue;
      snprintf(all[*n].path, sizeof all->path, "%s/%.200s", folder[f], e->d_name);
      if ((all[*n].text = read_text(all[*n].path))) ++*n;
    }
    if (d) closedir(d);
  }
  qsort(all, (size_t)*n, sizeof *all, by_path);
  return all;
}

kit_program *kit_programs(int *n) {
  static const char *const folders[] = {"examples", "tests/corpus", "tests/ranges/accept", "tests/polybench"};
  return kit_programs_of(TG_COUNT(folders), folders, n);
}

void kit_programs_free(kit_program *p, int n) {
  for (int i = 0; i < n; i++) free(p[i].text);
  free(p);
}

/* ---- the path ---- */

static void compile_rules(void *user) {
  kit_path *p = user;
  p->rules = tg_rules_compile(&p->tables.env);
}

bool kit_path_open(kit_path *p, const char *target) {
  memset(p, 0, sizeof *p);
  tg_job_init(&p->tables, NULL);
  tg_allocator a = tg_allocator_default();
  bool known = tg_target_named(&p->target, target);
  if (known && !tg_target_is_device(&p->target)) p->target.threads = KIT_THREADS;
  if (!known || !tg_protect(&p->tables.env, compile_rules, p) || tg_jit_open(&p->jit, &a, &p->target, 0, &p->tables.env)) {
    fprintf(stderr, "no path to %s: %s\n", target, p->tables.env.message);
    return false;
  }
  return true;
}

void kit_path_close(kit_path *p) {
  if (p->jit) tg_jit_close(p->jit);
  tg_job_drop(&p->tables);
}

void kit_lower(kit_path *p, tg_job *j, bool verify, tg_stage_fn *seen, void *user) {
  tg_lowering l = {.target = tg_jit_target(p->jit), .rules = p->rules, .verify = verify, .price = tg_price_raised};
  j->sink = tg_lower(j, &l, "raise", seen, user);
  tg_heuristic(j, &l, j->sink);
  j->sink = tg_lower(j, &l, NULL, seen, user);
}

/* ---- memory ---- */

void kit_params(const tg_job *j, int round, int64_t *params) {
  static const int64_t wanted[] = {19, 1, 34, 8, 5};
  for (uint32_t i = 0; i < j->params.n; i++) {
    const tg_param *p = &j->params.data[i];
    int64_t step = p->multiple > 1 ? p->multiple : 1, v = wanted[((uint32_t)round + (round ? i : 0)) % 5];
    if (v > p->hi) v = p->hi;
    if (v < p->lo) v = p->lo;
    v = v / step * step;
    params[i] = v < p->lo ? v + step : v;
  }
}

bool kit_call(const tg_job *j, const char *text, int call, int64_t *params) {
  const char *at = strstr(text, "// calls:");
  char name[32];
  long long v;
  int n;
  if (!at) return call == 0;
  for (at += strlen("// calls:"); call > 0 && *at && *at != '\n'; at++) call -= *at == ';';
  if (call) return false;
  for (; sscanf(at, " %31[A-Za-z0-9_]=%lld%n", name, &v, &n) == 2; at += n)
    for (uint32_t i = 0; i < j->params.n; i++)
      if (!strcmp(j->params.data[i].name, name)) params[i] = v;
  return true;
}

static tg_i128 value_of(tg_job *j, const tg_uop *u, const int64_t *params, bool upper) {
  const tg_uop *from[32], *to[32];
  uint32_t n = 0;
  for (; n < j->params.n && n < 32; n++) {
    from[n] = tg_make(j, TG_OP_PARAM, TG_INDEX, 1, n, 0, NULL);
    to[n] = tg_index(j, params[n]);
  }
  u = tg_substitute(j, u, n, from, to);
  return upper ? tg_bounds_of(j, u).hi : tg_bounds_of(j, u).lo;
}

static size_t bytes_of(tg_job *j, const tg_uop *d, const int64_t *params) {
  uint32_t rank = tg_buffer_info(j, d)->rank;
  tg_i128 last = 0, dense = 1;
  for (uint32_t k = rank; k-- > 0;) {
    tg_i128 dim = value_of(j, d->src[k], params, true), stride = d->n > rank ? value_of(j, d->src[rank + k], params, true) : dense;
    if (dim <= 0) return 0;
    last += (dim - 1) * (stride < 0 ? -stride : stride);
    dense *= dim;
  }
  return (size_t)(last + 1) * (size_t)tg_type_bytes((tg_type)d->type);
}

static void fill(tg_job *j, const tg_uop *d, const int64_t *params, kit_memory *m, uint32_t b) {
  const tg_buffer *info = tg_buffer_info(j, d);
  tg_type t = m->type[b];
  size_t size = (size_t)tg_type_bytes(t), n = m->bytes[b] / size;
  tg_i128 lo = tg_is_float(t) || tg_is_signed(t) ? -3 : 0, hi = t == TG_BOOL ? 1 : 3;
  if (info->lo && info->hi) lo = value_of(j, info->lo, params, true), hi = value_of(j, info->hi, params, false);
  uint32_t seed = 12345 + b;
  for (size_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    tg_i128 v = hi >= lo ? lo + (tg_i128)((seed >> 8) % (uint64_t)(hi - lo + 1)) : lo;
    uint64_t bits = tg_value_bits(t, tg_is_float(t) ? (tg_value){.f = (double)v} : (tg_value){.i = v});
    memcpy((char *)m->data[b] + i * size, &bits, size);
  }
}

static void *with_band(size_t bytes) {
  char *p = aligned_alloc(64, (bytes + KIT_BAND + 63) / 64 * 64);
  memset(p, 0xff, bytes);
  memset(p + bytes, 0xa5, KIT_BAND);
  return p;
}

void kit_memory_free(kit_memory *m) {
  for (uint32_t b = 0; b < m->n; b++)
    if (m->guard[b].map) tg_guard_drop(&m->guard[b]);
    else free(m->data[b]);
  memset(m, 0, sizeof *m);
}

bool kit_memory_make(tg_job *j, const int64_t *params, kit_memory *m) {
  kit_memory_free(m);
  for (uint32_t i = 0; i < j->sink->n; i++) {
    const tg_uop *d = j->sink->src[i];
    if (d->op != TG_OP_DEFINE) continue;
    const tg_buffer *info = tg_buffer_info(j, d);
    if (info->space != TG_SPACE_GLOBAL || info->role == TG_ROLE_TEMP) continue;
    if (m->n == KIT_BUFFERS) return false;
    uint32_t b = m->n++;
    m->type[b] = (tg_type)d->type;
    m->name[b] = info->name;
    m->written[b] = info->role != TG_ROLE_IN;
    m->read[b] = info->role != TG_ROLE_OUT;
    m->bytes[b] = bytes_of(j, d, params);
    m->data[b] = with_band(m->bytes[b]);
    if (m->read[b]) fill(j, d, params, m, b);
  }
  return true;
}

static uint32_t find(const kit_memory *m, const char *name) {
  uint32_t b = 0;
  while (b < m->n && strcmp(m->name[b], name)) b++;
  return b;
}

/* A copy, or the sums beside it. */
static void pack(tg_job *j, const char *name, const int64_t *params, const kit_memory *m, kit_memory *to, uint32_t b) {
  uint32_t i = 0;
  while (i < j->packings.n && strcmp(j->packings.data[i].copy, name) && (!j->packings.data[i].sum || strcmp(j->packings.data[i].sum, name))) i++;
  tg_assert(&j->env, i < j->packings.n);
  const tg_packing *p = &j->packings.data[i];
  uint32_t from = find(m, p->source), wanted = strcmp(p->copy, name) ? 2 : 1;
  tg_interp_buffer buffers[3] = {{m->data[from], m->bytes[from]}};
  for (uint32_t k = 1; k < (p->sum ? 3 : 2); k++) {
    size_t bytes = bytes_of(j, p->sink->src[k], params);
    buffers[k] = (tg_interp_buffer){k == wanted ? to->data[b] : tg_alloc(&j->env, bytes + 1), bytes};
  }
  tg_interp in = {.buffers = buffers, .params = params, .check_uninitialised = true, .check_races = true};
  tg_interpret(j, p->sink, &in);
}

void kit_memory_pack(tg_job *j, const tg_uop *sink, const int64_t *params, kit_memory *m) {
  kit_memory to = {.n = 0};
  for (uint32_t i = 0; i < sink->n; i++) {
    const tg_uop *d = sink->src[i];
    if (d->op != TG_OP_DEFINE || tg_buffer_info(j, d)->role == TG_ROLE_TEMP) continue;
    const char *name = tg_buffer_info(j, d)->name;
    uint32_t b = to.n++, old = find(m, name);
    to.name[b] = name, to.type[b] = (tg_type)d->type, to.read[b] = true;
    to.bytes[b] = bytes_of(j, d, params);
    to.data[b] = with_band(to.bytes[b]);
    if (old == m->n) pack(j, name, params, m, &to, b);
    else memcpy(to.data[b], m->data[old], to.bytes[b]), to.written[b] = m->written[old], to.read[b] = m->read[old];
  }
  kit_memory_free(m);
  *m = to;
}

void kit_memory_copy(kit_memory *to, const kit_memory *from) {
  kit_memory_free(to);
  *to = *from;
  memset(to->guard, 0, sizeof to->guard);
  for (uint32_t b = 0; b < from->n; b++) {
    to->data[b] = with_band(from->bytes[b]);
    memcpy(to->data[b], from->data[b], from->bytes[b]);
  }
}

bool kit_memory_guard(kit_memory *to, const kit_memory *from, bool front) {
  kit_memory_free(to);
  *to = *from;
  memset(to->guard, 0, sizeof to->guard);
  for (uint32_t b = 0; b < from->n; b++) {
    tg_guarded *g = &to->guard[b];
    if (!tg_guard_take(g, from->bytes[b], 0, front)) {
      to->n = b;
      return false;
    }
    memset(g->room, 0xa5, g->room_bytes);
    memcpy(to->data[b] = g->data, from->data[b], from->bytes[b]);
    if (!from->written[b]) tg_guard_lock(g, true);
  }
  return true;
}

static bool untouched(const char *from, const char *to) {
  while (from < to && *from == (char)0xa5) from++;
  return from == to;
}

bool kit_bands_whole(const kit_memory *m) {
  for (uint32_t b = 0; b < m->n; b++) {
    const tg_guarded *g = &m->guard[b];
    const char *end = (const char *)m->data[b] + m->bytes[b];
    if (!untouched(end, g->map ? g->room + g->room_bytes : end + KIT_BAND)) return false;
    if (g->map && !untouched(g->room, g->data)) return false;
  }
  return true;
}

/* ---- where an address lies ---- */

typedef struct { char *at, *end; } line;

static void put(line *l, const char *text) {
  while (*text && l->at < l->end) *l->at++ = *text++;
  *l->at = 0;
}

static void put_number(line *l, size_t n) {
  char digits[24], *at = digits + sizeof digits;
  *--at = 0;
  do *--at = (char)('0' + n % 10);
  while (n /= 10);
  put(l, at);
}

void kit_memory_at(const kit_memory *m, const void *address, char *text, size_t n) {
  line l = {text, text + n - 1};
  const char *at = address;
  for (uint32_t b = 0; b < m->n; b++) {
    const tg_guarded *g = &m->guard[b];
    const char *data = m->data[b], *end = data + m->bytes[b];
    if (!g->map || at < g->map || at >= g->map + g->map_bytes) continue;
    put_number(&l, at < data ? (size_t)(data - at) : at < end ? (size_t)(at - data) : (size_t)(at - end));
    put(&l, at < data ? " bytes before " : at < end ? " bytes into, writing to, " : " bytes behind the end of ");
    put(&l, m->name[b]);
    return;
  }
  put(&l, "outside of all buffers");
}

/* ---- the system ---- */

long kit_resident(void) {
  long all = 0, resident = 0, of_files = 0;
#ifdef __GLIBC__
  malloc_trim(0);   /* what is free again is no growth */
#endif
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f || fscanf(f, "%ld %ld %ld", &all, &resident, &of_files) != 3) resident = of_files = 0;
  if (f) fclose(f);
  return (resident - of_files) * (sysconf(_SC_PAGESIZE) / 1024);
}

void kit_remove(const char *folder) {
  DIR *d = opendir(folder);
  char path[600];
  for (struct dirent *e; d && (e = readdir(d));)
    if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) {
      snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
      if (unlink(path)) rmdir(path);
    }
  if (d) closedir(d);
  rmdir(folder);
}

/* ---- ptxas ---- */

const char *kit_find_ptxas(char *path, size_t n) {
  static const char *const places[] = {"/usr/local/cuda/bin", "/usr/lib/nvidia-cuda-toolkit/bin", "/opt/cuda/bin"};
  const char *list = getenv("PATH");
  for (const char *at = list; at && *at; at += strcspn(at, ":"), at += *at == ':') {
    snprintf(path, n, "%.*s/ptxas", (int)strcspn(at, ":"), at);
    if (!access(path, X_OK)) return path;
  }
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    snprintf(path, n, "%s/ptxas", places[i]);
    if (!access(path, X_OK)) return path;
  }
  return NULL;
}

double *kit_scale(tg_type type, const void *data, size_t n) {
  double *scale = malloc((n + 1) * sizeof *scale), most = 0;
  size_t size = (size_t)tg_type_bytes(type);
  for (size_t i = 0; i < n && tg_is_float(type); i++) {
    uint64_t bits = 0;
    memcpy(&bits, (const char *)data + i * size, size);
    double v = fabs(tg_value_from_bits(type, bits).f);
    if (v > most && v <= DBL_MAX) most = v;
  }
  for (size_t i = 0; i < n; i++) scale[i] = most;
  return scale;
}

/* Every number in front of "bytes stack frame", "bytes spill stores", "bytes spill loads" is 0, and each kernel has such a line. */
bool kit_no_spills(const char *report, int *kernels) {
  static const char *const words[] = {" bytes stack frame", " bytes spill stores", " bytes spill loads"};
  for (size_t i = 0; i < 3; i++)
    for (const char *s = strstr(report, words[i]); s; s = strstr(s + 1, words[i])) {
      if (i == 0) ++*kernels;
      if (s == report || s[-1] != '0' || (s - report > 1 && s[-2] >= '0' && s[-2] <= '9')) return false;
    }
  return true;
}

/* ---- results of devices ---- */

static double fast_bound(const tg_job *j) {
  double bound = 0;
  uint32_t n;
  const tg_uop **order = tg_toposort((tg_job *)(uintptr_t)j, j->sink, &n);
  for (uint32_t i = 0; i < n; i++)
    if (tg_is_fast(order[i]->op)) bound = fmax(bound, order[i]->op == TG_OP_FAST_TANH ? 0x1.3p-11 : 0x1p-19);
  return bound;
}

bool kit_same(const tg_job *j, tg_type type, size_t bytes, const void *got, const void *want, char text[256]) {
  size_t each = (size_t)tg_type_bytes(type), n = bytes / each;
  double bound = tg_is_float(type) ? fast_bound(j) : 0, most = 0;
  if (!(bound > 0)) {
    tg_difference d;
    bool same = tg_compare(&(tg_comparison){.type = type, .n = n, .got = got, .want = want, .exact = true}, &d);
    if (!same) tg_difference_text(&d, n, text, 256);
    return same;
  }
  double wide = 0;   /* of 16 bits: a step in the last place of what was rounded on the way, as weights of attention are */
  if (type == TG_F16) wide = 0x1p-10;
  if (type == TG_BF16) wide = 0x1p-7;
  for (size_t i = 0; i < n && wide > 0; i++) {
    uint64_t b = 0;
    memcpy(&b, (const char *)want + i * each, each);
    double y = fabs(tg_value_from_bits(type, b).f);
    if (isfinite(y)) most = fmax(most, y);
  }
  for (size_t i = 0; i < n; i++) {
    uint64_t a = 0, b = 0;
    memcpy(&a, (const char *)got + i * each, each);
    memcpy(&b, (const char *)want + i * each, each);
    double x = tg_value_from_bits(type, a).f, y = tg_value_from_bits(type, b).f;
    bool same = a == b || (x != x && y != y) || fabs(x - y) <= fmax(bound * fabs(y), wide * most) || (fabs(y) < 0x1p-126 && x == 0);
    if (same) continue;
    snprintf(text, 256, "element %zu of %zu: %.9g instead of %.9g, more than %.3g of it away", i, n, x, y, bound);
    return false;
  }
  return true;
}

typedef struct {
  kit_code *code;
  tg_stage_fn *seen;
  void *user;
} compiling;

static void compile(void *user) {
  const compiling *k = user;
  kit_code *c = k->code;
  tg_job *j = &c->job;
  tg_parse_kernel(j, c->where, c->text, c->sizes, c->size);
  kit_params(j, 0, c->params);
  if (!kit_memory_make(j, c->params, &c->memory)) tg_fail(&j->env, TG_ELIMIT, "over %d buffers", KIT_BUFFERS);
  kit_lower(&c->path, j, false, k->seen, k->user);
  c->object = tg_jit_compile(c->path.jit, j, j->sink, &c->info, NULL, NULL);
}

bool kit_compile(kit_code *c, tg_stage_fn *seen, void *user) {
  compiling k = {c, seen, user};
  tg_job_init(&c->job, NULL);
  return tg_protect(&c->job.env, compile, &k);
}
